"""
From CSV files to a closed round
================================

A follower list, a purchase log and a product table are enough: no features by hand.
"""

import tempfile
from pathlib import Path

import altair as alt

import tensorucb as tu
from tensorucb.data import make_shop
from tensorucb.plots import campaign_report

# %%
# The shop is generated; its files look like those of a real one. In the purchases of the days that follow two rows
# name guests, who are not in the network.

folder = Path(tempfile.mkdtemp())
make_shop(today="2026-05-20").write(folder)
for path in sorted(folder.glob("*.csv")):
    print(f"{path.name:22}", path.read_text().splitlines()[0])

# %%
# The campaign reads the whole folder. A real one goes by the clock; this one lives on 20 May 2026.

today = 1_779_235_200.0
campaign = tu.create_campaign("spring", data=folder, window="7d", storage=folder / "campaigns.db", clock=lambda: today)

# %%
# A product that nobody has bought yet: it is known by its columns alone.

ask = campaign.ask("p0055", k=10)
print(ask)

# %%
# What each of the ten is expected to add to those chosen before.

rows = [{"user": str(seed.user), "rank": seed.rank, "adds": seed.gain} for seed in ask.explain().seeds]
seeds = (
    alt.Chart(alt.Data(values=rows))
    .mark_bar()
    .encode(
        x=alt.X("adds:Q", title="Expected responses that this user adds"),
        y=alt.Y("user:N", sort=alt.EncodingSortField("rank"), title=None),
    )
    .properties(width=560, height=260, title="Who to contact for a product that nobody has bought")
)
seeds

# %%
# All purchases since then, whatever they are about. Those that belong to the round are found by product and time.

print(campaign.tell_log(folder / "purchases-later.csv"))
campaign.close(ask, early=True)
progress = campaign.progress()
print(progress)

# %%
# One page with figures for colleagues, and all tables for a spreadsheet.

campaign_report(progress).save(folder / "report.html")
campaign.export(folder / "exported", format="csv")
print(sorted(path.name for path in (folder / "exported").iterdir()))
