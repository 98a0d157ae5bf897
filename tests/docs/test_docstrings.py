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
def test_what_people_call_has_an_example(room):
    module = importlib.import_module(f"tensorucb.{room}")
    public = {name: getattr(module, name) for name in module.__all__}
    lacking = [name for name, value in public.items() if called(value) and ">>> " not in (value.__doc__ or "")]
    assert lacking == []


def called(value: object) -> bool:
    """Whether people call it: a function, or a class that is neither a record, which calls return, nor an error."""
    if inspect.isclass(value):
        return not is_dataclass(value) and not issubclass(value, Exception)
    return inspect.isfunction(value)
