"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import time
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import tensorucb
from campaign.worlds import small_campaign
from service.serving import serving

ROOT = Path(tensorucb.__file__).parent
WITH_EXAMPLES = sorted(path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.fixture
def url(tmp_path):
    """The address of a service with one campaign, ``spring``."""
    storage = f"sqlite:///{tmp_path}/campaigns.db"
    small_campaign(storage, clock=time.time).disconnect()
    with serving(storage) as url:
        yield url


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_give_what_they_show(path, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    given = {"url": request.getfixturevalue("url")} if path.parent == ROOT / "client" else {}
    module = importlib.import_module(".".join(["tensorucb", *path.relative_to(ROOT).with_suffix("").parts]))
    found = doctest.testmod(module, extraglobs=given)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("room", tensorucb._ROOMS)
def test_every_public_name_has_an_example(room):
    module = importlib.import_module(f"tensorucb.{room}")
    public = {name: getattr(module, name) for name in module.__all__}
    lacking = [name for name, value in public.items() if documented(value) and ">>> " not in (value.__doc__ or "")]
    assert lacking == []


def documented(value: object) -> bool:
    """Whether this is a function or a class, rather than a constant, a name for a type, or a record without methods."""
    if inspect.isclass(value) and is_dataclass(value):
        return any(inspect.isfunction(member) for name, member in vars(value).items() if not name.startswith("_"))
    return inspect.isclass(value) or inspect.isfunction(value)
