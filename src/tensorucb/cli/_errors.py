"""Errors of the library in the words of the command line: `--must-include` instead of ``must_include=``."""

from __future__ import annotations

import re
from typing import Any

_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))""")
# Calls that messages advise, as commands.
_CALLS = {
    r"rounds\(\)": "`tensorucb status NAME`",
    r"create_campaign(?:\(\))?": "`tensorucb create`",
    r"import_history(?:\(\))?": "`tensorucb import-history`",
    r"load_campaign(?:\(\))?": "`tensorucb status`",
}


def in_words_of(command: Any, message: str) -> str:
    """``message`` with the arguments that ``command`` has as options named as a person types them.

    An argument is named at the beginning of a message, as ``name=``, or anywhere if its name is no plain word. What
    stands in quotes is somebody's value and stays.
    """
    options = _options(command)
    parts = _QUOTED.split(message)
    parts[::2] = [_translated(part, options, first=i == 0) for i, part in enumerate(parts[::2])]
    return "".join(parts)


def _options(command: Any) -> dict[str, str]:
    """Python's names of a command's options and theirs on the command line; of all commands of a group."""
    commands = [] if command is None else [command, *getattr(command, "commands", {}).values()]
    found = {}
    for parameter in (parameter for entry in commands for parameter in entry.params):
        longest = max(parameter.opts, key=len)
        if longest.startswith("--"):
            found[parameter.name] = longest
            found[longest.removeprefix("--").replace("-", "_")] = longest
    return found


def _translated(text: str, options: dict[str, str], *, first: bool) -> str:
    for name, option in options.items():
        word = re.escape(name)
        text = re.sub(rf"(?<![\w.`-]){word}=(?![\w=])", option, text)
        text = re.sub(rf"`{word}=`", option, text)
        if "_" in name:
            text = re.sub(rf"(?<![\w.-]){word}(?![\w(])", option, text)
        elif first:
            text = re.sub(rf"^{word}(?= )", option, text)
    for call, words in _CALLS.items():
        text = re.sub(rf"(?<![\w.]){call}(?!\w)", words, text)
    return text
