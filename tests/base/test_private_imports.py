"""Tests go through public doors; a private module is imported only with a reason beside the import."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MARK = "# private: "


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def imported(node: ast.AST) -> list[str]:
    """What an import takes from this package, as dotted names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = []
    return [name for name in names if name.split(".")[0] == "tensorucb"]


@cache
def private_imports() -> dict[str, bool]:
    """Each import of something private, as file and line, and whether a reason stands beside or above it."""
    reasons = {}
    for path in sorted(TESTS.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if any(map(is_private, imported(node))):
                above = node.lineno - 1
                while lines[above - 1].startswith("#"):
                    above -= 1
                place = f"{path.relative_to(TESTS)}:{node.lineno}"
                reasons[place] = any(MARK in line for line in lines[above : node.end_lineno])
    return reasons


def test_every_private_import_has_a_reason():
    assert [place for place, reason in private_imports().items() if not reason] == []


def test_there_are_few():
    assert len(private_imports()) <= 29
