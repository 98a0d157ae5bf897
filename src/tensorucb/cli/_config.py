"""The campaign file: TOML that says what ``tensorucb create`` would otherwise be told by options, and a template."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Context, Option

from tensorucb.errors import FileFormatError, InputError
from tensorucb.question import CREDITS, METRICS, OBJECTIVES, STORED

_TABLES = ("edges", "actions", "products", "users", "strategies")
_SETTINGS = ("metric", "objective", "credit", "window", "timezone", "epsilon", "seed", "snapshot_every")
_CAMPAIGN = ("name", "storage", "policy", "settings", "consent", "contact_group", "contact_cap", *_SETTINGS)
_DATA = ("directory", *_TABLES, "id_type")
_KINDS = ("products", "users")  # tables whose columns become features
_CHOICES = {
    "metric": METRICS,
    "objective": OBJECTIVES,
    "credit": CREDITS,
    "id_type": ("auto", "int", "str"),
}


@dataclass(frozen=True)
class CampaignFile:
    """What a campaign file says.

    ``options`` are values of ``create``'s options by name. ``columns`` and ``kinds`` are as `read_campaign_data` takes
    them, ``ask`` as `create_campaign` does.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ask: Mapping[str, Any] | None = None


def read_campaign_file(path: str) -> CampaignFile:
    """Read a campaign file; a key that is not known is an error that names the nearest one that is."""
    from tensorucb.checks import check_path

    try:
        file = check_path("a campaign file", path)
        content = _toml(file)
        _check_names("it", content, ("campaign", "data", "columns", "kinds", "ask"), "section")
        options = _options(content, "campaign", _CAMPAIGN, file.parent) | _options(content, "data", _DATA, file.parent)
        columns, kinds = _by_table(content, "columns", _TABLES), _by_table(content, "kinds", _KINDS)
        ask = _section(content, "ask") if "ask" in content else None
        _check_names("[ask]", ask or (), STORED)
        return CampaignFile(options, columns, kinds, ask)
    except InputError as error:  # of a check; it would pass for a mistake on the command line
        raise FileFormatError(f"{path!r}: {error}") from error


def merged(
    first: Mapping[str, Mapping[str, str]], second: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Values by table and name, where those of ``second`` count more."""
    return {table: {**first.get(table, {}), **second.get(table, {})} for table in {**first, **second}}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FileFormatError(
            f"cannot read the campaign file {str(path)!r}: {error.strerror or error}. "
            "`tensorucb init` writes one to begin with."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{str(path)!r} is not valid TOML: {error}.") from error


def _section(content: Mapping[str, Any], name: str, title: str = "") -> dict[str, Any]:
    value = content.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{title or name} must be a section, [{title or name}]; got {value!r}.")
    return value


def _options(content: Mapping[str, Any], section: str, keys: Collection[str], folder: Path) -> dict[str, Any]:
    """The section's values as values of options."""
    values = _section(content, section)
    _check_names(f"[{section}]", values, keys)
    return {
        "data" if name == "directory" else name: _value(f"{name} in [{section}]", section, name, values, folder)
        for name in values
    }


def _value(title: str, section: str, name: str, values: Mapping[str, Any], folder: Path) -> Any:
    """One value; a path is relative to the file's folder, and then to where the command runs."""
    from tensorucb.campaign._databases import is_database
    from tensorucb.checks import check_choice, check_count, check_path, check_share, check_text
    from tensorucb.moments import duration

    value = values[name]
    if name in _CHOICES:
        return check_choice(title, value, _CHOICES[name])
    if name == "settings":
        return json.dumps(_section(values, name, "campaign.settings"), default=str)
    if name == "window":
        duration(title, value)
        return value
    if name in ("seed", "snapshot_every"):
        return check_count(title, value, 0, 2**63 - 1)
    if name == "epsilon":
        return check_share(title, value, zero=False, one=False)
    if name == "directory" and is_database(value):
        return value
    return str(folder / check_path(title, value)) if section == "data" else check_text(title, value)


def _by_table(content: Mapping[str, Any], section: str, tables: Collection[str]) -> dict[str, dict[str, str]]:
    from tensorucb.checks import check_text

    sections = _section(content, section)
    _check_names(f"[{section}]", sections, tables, "table")
    named = {table: _section(sections, table, f"{section}.{table}") for table in sections}
    return {
        table: {name: check_text(f"{name} in [{section}.{table}]", value) for name, value in names.items()}
        for table, names in named.items()
        if names
    }


def _check_names(where: str, names: Collection[str], choices: Collection[str], what: str = "key") -> None:
    for name in names:
        if name not in choices:
            near = difflib.get_close_matches(name, choices, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(map(repr, choices))}."
            raise InputError(f"{where} has no {what} {name!r}. {hint}")


def _use(ctx: Context, file: CampaignFile | None) -> CampaignFile | None:
    """Make what the file says the defaults of the other options."""
    if file is not None:
        ctx.default_map = {**(ctx.default_map or {}), **file.options}
    return file


# Eager: it is read before the options whose defaults it gives.
Config = Annotated[
    CampaignFile | None,
    Option(
        "--config",
        help="A campaign file, see `tensorucb init`; options on the command line count more.",
        parser=read_campaign_file,
        callback=_use,
        is_eager=True,
        metavar="FILE",
    ),
]
