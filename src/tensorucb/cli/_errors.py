"""What an error says on the command line: one line, with `--must-include` for the argument ``must_include``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorucb.cli._output import one_line
from tensorucb.errors import TensorUCBError, Words

# The commands for calls that messages advise.
_COMMANDS = {
    "rounds": "status NAME",
    "users": "export NAME",
    "ask": "ask",
    "create_campaign": "create",
    "delete_campaign": "delete",
    "import_history": "import-history",
    "add_users": "add-users",
    "add_products": "add-products",
    "add_strategies": "add-strategies",
    "set_costs": "set-costs",
}


class CommandWords(Words):
    """Arguments as the options of a command, or of all commands of a group; calls as commands."""

    def __init__(self, command: Any) -> None:
        commands = [] if command is None else [command, *getattr(command, "commands", {}).values()]
        self._options: dict[str, str] = {}
        for parameter in (parameter for entry in commands for parameter in entry.params):
            longest = max(parameter.opts, key=len)
            if longest.startswith("--"):
                self._options |= dict.fromkeys((parameter.name, longest[2:].replace("-", "_")), longest)

    def argument(self, name: str, value: Any) -> str:
        """An option, such as `--max-left-out 1.0`, `--column user=NAME` or `--column actions.user=NAME`."""
        option = self._options.get("settings" if name == "policy_settings" else name)
        if option is None or value is None:
            return option or super().argument(name, value)
        return option if value is True else " ".join([option, *_pairs(value)])

    def call(self, name: str, value: Any) -> str:
        """A command to type."""
        return f"`tensorucb {_COMMANDS[name]}`" if name in _COMMANDS else super().call(name, value)


def _pairs(value: Any) -> list[str]:
    """A value as it is typed; mappings in a mapping are tables with their columns."""
    if not isinstance(value, Mapping):
        return [str(value)]
    return [
        f"{key}.{pair}" if isinstance(word, Mapping) else f"{key}={pair}"
        for key, word in value.items()
        for pair in _pairs(word)
    ]


def error_text(error: BaseException, command: Any = None) -> str:
    """An error on one line in words of the command, long values in it shortened."""
    text = str(error)
    if isinstance(error, TensorUCBError):
        text = CommandWords(command).said(error.parts())
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {str(error.filename)!r}." if error.filename is not None else f"{error.strerror}."
    elif isinstance(error, UnicodeEncodeError):
        text = f"{error.object!r} is not text: it holds bytes that are not UTF-8. Type it again."
    elif isinstance(error, MemoryError):
        text = "there is not enough memory for this. Ask for less, such as fewer rounds or a smaller --scale."
    return one_line(text)
