"""Kept results: read when sound, computed again when not."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from tensorucb.errors import InputError
from tensorucb.features import cached
from tensorucb.files import write_state


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return np.arange(6.0).reshape(2, 3) / 7


def test_computed_once_for_a_key(tmp_path: Path) -> None:
    compute = Counter()
    first = cached(tmp_path, "users", {"data": "abc", "dim": 3}, compute)
    second = cached(tmp_path, "users", {"dim": 3, "data": "abc"}, compute)
    assert compute.calls == 1
    np.testing.assert_array_equal(first, second)
    cached(tmp_path, "users", {"data": "abc", "dim": 4}, compute)
    cached(tmp_path, "products", {"data": "abc", "dim": 3}, compute)
    assert compute.calls == 3


def test_damage_anywhere_is_told_and_never_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compute = Counter()
    expected = cached(tmp_path, "users", {"a": 1}, compute)
    path = next(tmp_path.iterdir())
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        place = int(rng.integers(len(sound)))
        path.write_bytes(sound[:place] + bytes([sound[place] ^ int(rng.integers(1, 256))]) + sound[place + 1 :])
        before = compute.calls, len(caplog.messages)
        np.testing.assert_array_equal(cached(tmp_path, "users", {"a": 1}, compute), expected)
        # Either the byte did not matter, or both the note and the computation happened.
        assert compute.calls - before[0] == len(caplog.messages) - before[1]
    assert len(caplog.messages) > 50
    path.write_bytes(sound[:40])
    cached(tmp_path, "users", {"a": 1}, compute)
    assert path.read_bytes() == sound
    assert "Computing users again" in caplog.messages[-1]


def test_another_keys_file_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compute = Counter()
    cached(tmp_path, "users", {"a": 1}, compute)
    write_state(next(tmp_path.iterdir()), "cached arrays", {"a": 2}, {"result": np.zeros(3)})
    with caplog.at_level(logging.WARNING, logger="tensorucb.features"):
        assert cached(tmp_path, "users", {"a": 1}, compute).shape == (2, 3)
    assert "another key" in caplog.text


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert cached(tmp_path / "file", "users", {"a": 1}, Counter()).shape == (2, 3)
    assert len(caplog.messages) == 1
    assert "cannot keep users" in caplog.messages[0]


def test_bad_keys(tmp_path: Path) -> None:
    for key in ({"a": np.zeros(2)}, {"a": float("nan")}):
        with pytest.raises(InputError, match="JSON"):
            cached(tmp_path, "users", key, Counter())
    with pytest.raises(InputError, match="file name"):
        cached(tmp_path, "../users", {}, Counter())
