import re

import pytest

from tensorucb import errors


def test_tree_drawn_at_the_top_is_the_tree():
    drawn = set(re.findall(r"\b([A-Z]\w+Error)\b(?! \()", errors.__doc__ or "")) | set(
        re.findall(r"[─ ] ([A-Z]\w+Error)", errors.__doc__ or "")
    )
    assert set(errors.__all__) <= drawn


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_catchable_at_the_root_and_prints_its_message_plainly(name):
    error = getattr(errors, name)("row 3: what to do")
    assert isinstance(error, errors.TensorUCBError)
    assert str(error) == "row 3: what to do"


def test_builtin_bases():
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.UnknownIdError, KeyError)
    assert issubclass(errors.MissingExtraError, ImportError)
