"""What an error says on the command line: one line, with `--must-include` instead of ``must_include=``."""

from __future__ import annotations

import re
from typing import Any

from tensorucb.cli._output import one_line
from tensorucb.errors import TensorUCBError

_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))""")
# Calls that messages advise, as commands.
_CALLS = {
    r"rounds\(\)": "`tensorucb status NAME`",
    r"create_campaign, or to ask": "`tensorucb create`, as columns `cost` and `group` of --users",
    r"create_campaign\(data=…\)": "`tensorucb create --data`",
    r"create_campaign(?:\(\))?": "`tensorucb create`",
    r"delete_campaign(?:\(\))?": "`tensorucb delete`",
    r"import_history(?:\(\))?": "`tensorucb import-history`",
    r"Pass it again: load_campaign\(…, policy=…\)": "Commands know the policies of this package; go on in Python",
    r"load_campaign(?:\(\))?": "`tensorucb status`",
    r"add_users(?:\(\))?": "`tensorucb add-users`",
    r"add_products(?:\(\))?": "`tensorucb add-products`",
    r"add_strategies(?:\(\))?": "`tensorucb create --strategies`",
    r"ask\(…, holdout=0\.2\)": "`tensorucb ask --holdout 0.2`",
    r"pass its features": "give its --features",
}
# What typer says of a value, in words that do not speak of Python.
_MISUSE = {
    r"\AInvalid value: ": "",
    r"Value error, ": "",
    r"Input should be a valid integer.*": "it must be a whole number",
    r"Input should be a valid number.*": "it must be a number",
    r"Input should be greater than or equal to": "it must be at least",
    r"Input should be less than or equal to": "it must be at most",
}


def error_text(error: BaseException) -> str:
    """An error on one line, long values in it shortened, without the operating system's error number."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {str(error.filename)!r}." if error.filename is not None else f"{error.strerror}."
    elif isinstance(error, UnicodeEncodeError):
        text = f"{error.object!r} is not text: it holds bytes that are not UTF-8. Type it again."
    elif isinstance(error, MemoryError) and not isinstance(error, TensorUCBError):
        text = "there is not enough memory for this. Ask for less, such as fewer rounds or a smaller --scale."
    return one_line(re.sub(r"\[Errno \d+\] ", "", text))


def misuse_text(message: str) -> str:
    """What typer says about a wrong command line, on one line and without a full stop."""
    message = one_line(message)
    for pattern, words in _MISUSE.items():
        message = re.sub(pattern, words, message)
    return message.rstrip(".")


def in_words_of(command: Any, message: str) -> str:
    """``message`` with the arguments that ``command`` has as options named as a person types them.

    An argument is named at the beginning of a message, as ``name=``, or anywhere if its name is no plain word. What
    stands in quotes is somebody's value and stays; but advice such as ``unknown='skip'`` becomes `--unknown skip`.
    """
    patterns, options = {}, _options(command)
    for name, option in options.items():
        patterns[rf"(?<![\w.`-]){name}=(?![\w=])|`{name}=`"] = option
        patterns[rf"(?<![\w.-]){name}(?![\w(])" if "_" in name else rf"\A{name}(?= )"] = option
    patterns |= {rf"(?<![\w.]){call}(?!\w)": words for call, words in _CALLS.items()}
    parts = _with_values(_QUOTED.split(message), options)
    for at in range(0, len(parts), 2):
        for pattern, words in patterns.items():
            if at == 0 or not pattern.startswith(r"\A"):
                parts[at] = re.sub(pattern, words, parts[at])
    return "".join(parts)


def _with_values(parts: list[str], options: dict[str, str]) -> list[str]:
    """Advice with its value as a person types it: `--unknown skip`, `--column user=NAME`; odd parts are quoted."""
    for at in range(0, len(parts) - 2, 2):
        found = re.search(r"(?<![\w.-])(\w+)=(\{?)\Z", parts[at])
        if found is None or found[1] not in options:
            continue
        parts[at], parts[at + 1] = f"{parts[at][: found.start()]}{options[found[1]]} ", parts[at + 1][1:-1]
        if found[2]:
            parts[at + 2 : at + 5] = "=", parts[at + 3][1:-1], parts[at + 4].removeprefix("}")
    return parts


def _options(command: Any) -> dict[str, str]:
    """Python's names of a command's options and theirs on the command line; of all commands of a group."""
    commands = [] if command is None else [command, *getattr(command, "commands", {}).values()]
    found: dict[str, str] = {}
    for parameter in (parameter for entry in commands for parameter in entry.params):
        longest = max(parameter.opts, key=len)
        if longest.startswith("--"):
            found |= dict.fromkeys((parameter.name, longest[2:].replace("-", "_")), longest)
    return found
