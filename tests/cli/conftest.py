"""Fixtures of the command line's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_lines_for_a_busy_machine(monkeypatch):
    """Commands in this process say nothing about their progress, however slow the machine is just now."""
    monkeypatch.setattr("tensorucb.cli._progress._PRINTED", 3600.0)
