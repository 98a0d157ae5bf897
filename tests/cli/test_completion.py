"""A shell completes commands and options, as a real bash asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

ASKED = r"""
source "$HOME/.bash_completions/tensorucb.sh"
COMP_WORDS=({words}) COMP_CWORD={at} COMPREPLY=()
_tensorucb_completion tensorucb
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    command = home / "bin" / "tensorucb"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tensorucb "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    # Which shell it is for is found among the processes above.
    subprocess.run(["bash", "-c", "tensorucb --install-completion || exit 1"], env=env, check=True, capture_output=True)

    def completed(*words: str) -> list[str]:
        asked = ASKED.format(words=" ".join(f"'{word}'" for word in words), at=len(words) - 1)
        return subprocess.run(["bash", "-c", asked], env=env, check=True, capture_output=True, text=True).stdout.split()

    return completed


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("cre",), "create"), (("ask", "--prod"), "--product"), (("datasets", "ma"), "make")],
)
def test_bash_completes(bash, words, expected):
    assert bash("tensorucb", *words) == [expected]


def test_what_there_is_not_is_not_completed(bash):
    assert bash("tensorucb", "xx") == []
