"""What `import tensorucb` promises: the names, that each is documented, and that nothing heavy loads before its use."""

import importlib
import inspect
import subprocess
import sys

import pytest

import tensorucb as tu

ROOMS = sorted(tu._ROOMS)


def test_the_public_names_are_these():
    assert set(tu.__all__) <= set(dir(tu))
    assert {"Graph", "TensorRegression", "TensorUCB", "select_seeds"} <= set(tu.__all__)


@pytest.mark.parametrize("name", tu.__all__)
def test_a_public_name_is_documented(name):
    assert inspect.getdoc(getattr(tu, name))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_lists_its_public_names_and_each_is_documented(room):
    module = importlib.import_module(f"tensorucb.{room}")
    assert getattr(tu, room) is module
    assert inspect.getdoc(module)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{room}.{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Grahp'"):
        _ = tu.Grahp


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["numba", "scipy", "sklearn", "polars", "altair", "sqlalchemy", "typer", "networkx"]
    code = f"import sys, tensorucb; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
