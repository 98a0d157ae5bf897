"""``tensorucb init``: a campaign file to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument

from tensorucb.cli._config import TEMPLATE
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say, shown
from tensorucb.errors import InputError


def init(
    file: Annotated[Path, Argument(help="The file to write.", metavar="FILE")] = Path("campaign.toml"),
    json: Json = False,
) -> None:
    """Write a campaign file with comments, to be changed and given to `tensorucb create --config`."""
    from tensorucb.checks import check_path
    from tensorucb.files import atomic_write

    if check_path("FILE", file).exists():
        raise InputError(f"{str(file)!r} is there already, and is left as it is. Name another file.")
    name = shown(shlex.quote(str(file)))
    with atomic_write(file) as out:
        out.write(TEMPLATE.replace("campaign.toml", name).encode())
    if json:
        emit_json({"file": str(file)})
        return
    say(f"{shown(file)} is written. It fits a generated shop: tensorucb datasets make shop --out shop")
    say(f"Change it to your data. Next: tensorucb create --config {name}")
