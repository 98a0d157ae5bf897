"""
A campaign over HTTP
====================

Create it from files, look at a proposal, change it, tell what happened, close: all through a service.
"""

import atexit
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from tensorucb.client import Client
from tensorucb.data import make_shop
from tensorucb.errors import InputError

# sphinx_gallery_thumbnail_path = 'figures/page-next-1280-light.png'

# %%
# A real service runs elsewhere, and its address and a token are all that a program needs. This example starts one of
# its own, on a free port of this machine.

folder = Path(tempfile.mkdtemp())
storage = f"sqlite:///{folder}/campaigns.db"
command = [sys.executable, "-m", "tensorucb", "serve", storage, "--port", "0", "--log-level", "error"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
atexit.register(server.kill)  # if an error ends the example early
client = Client(re.search(r"http://\S+", server.stdout.readline())[0])

# %%
# The files of a shop: followers, purchases, products and users. The service says what it used and what it left out.

make_shop(today=datetime.now(UTC).date().isoformat()).write(folder)
campaign = client.create_campaign(
    "spring",
    edges=folder / "followers.csv",
    actions=folder / "purchases.csv",
    products=folder / "products.csv",
    users=folder / "users.csv",
    window="7d",
)
print("\n".join(campaign.report))

# %%
# Who would be chosen, and what does it cost to send the last letter to somebody else? A preview opens nothing.

proposal = campaign.preview("p0055", k=10)
print(f"proposed: {', '.join(map(str, proposal.seeds))}; {proposal.reach}")
wanted = [*proposal.seeds[:-1], next(user for user in campaign.users() if user not in proposal.seeds)]
changed = campaign.preview("p0055", users=wanted)
print(f"with {wanted[-1]} for {proposal.seeds[-1]}: {changed.difference:+.2f} expected responders")

# %%
# The round is opened with the changed list. The same ``request_id`` gives the same round, however often it is sent.

ask = campaign.ask("p0055", users=wanted, request_id="monday-letter")
assert campaign.ask("p0055", users=wanted, request_id="monday-letter") == ask
print(ask)
print(ask.explain(wanted[0]).text)

# %%
# A file goes as it is, a frame as Parquet. What is told twice counts once.

later = folder / "purchases-later.csv"
print(campaign.tell_log(later))
print(campaign.tell_log(pl.read_csv(later)))
campaign.close(ask, early=True)
print(campaign.progress())

# %%
# Errors are the library's own, with the same words.

try:
    campaign.ask("p9999", k=10)
except InputError as error:
    print(f"refused: {error}")

# %%
# The whole log can be taken along, as tables. Then the service stops, as it does on Ctrl-C.

print("exported:", ", ".join(path.name for path in campaign.export(folder / "exported", format="csv")))
client.close()
server.terminate()
server.communicate()
