r"""What commands print: text and tables for people, JSON for machines. Every command prints through this file.

What is printed is true and harmless, whatever an id holds. A character that does not print (an escape sequence, a
line break, a switch of the writing direction) or that the stream cannot encode is shown as an escape such as
``\x1b``, nothing is read as markup, and nothing is cut: a terminal gets wrapped lines, a pipe gets whole ones. Rich
draws tables and bars in a terminal, and is loaded only there.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

_LONGEST_VALUE, _LONGEST_MESSAGE = 160, 1_000
_PADDED = 80  # a pipe's columns are aligned up to this width; longer cells stand whole, out of line
_NARROWEST = 8  # a longer text column of a terminal gets no less
_QUOTED = re.compile(r"""(?<!\w)(['"])((?:(?!\1)[^\\]|\\.)*)\1""", re.DOTALL)
# A backslash in front of what would read as an escape is doubled, so that no two values look alike.
_BACKSLASH = re.compile(r"\\(?=\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[^ -~]|\s$)")


# -- text --


def safe_streams() -> None:
    """Make stdout and stderr unable to fail on a character: printing comes after what a command has stored."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _printable(text: str, keep: str = "") -> str:
    def escaped(code: int) -> str:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return "".join(c if c.isprintable() or c in keep else escaped(ord(c)) for c in text)


def shown(value: object) -> str:
    """A value from outside, such as an id, on one line; different values never look alike."""
    text = _cell(_BACKSLASH.sub(r"\\\\", str(value)))
    return re.sub(r"\A | \Z", r"\\x20", text)  # a space at an end would not be seen


def _cell(value: object) -> str:
    """Text as stdout will show it, so that its width is known."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return _printable(str(value)).encode(encoding, "backslashreplace").decode(encoding)


def report_lines(lines: Iterable[str]) -> Iterator[str]:
    """What was made of tables, a line each; those that are indented stay so."""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        yield line[:indent] + shown(line[indent:])


def moment(seconds: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """A time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def count(number: int, what: str) -> str:
    """``1 row``, ``2,000 rows``, ``3 strategies``."""
    several = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else several}"


def say(text: str = "", *, err: bool = False, flush: bool = False) -> None:
    """One or more lines on stdout, or on stderr, broken at spaces where a terminal is too narrow."""
    text = _printable(text, keep="\n")
    if on_terminal(sys.stderr if err else sys.stdout):
        # A word that is too long, such as a path to copy, stays whole for the terminal to break.
        whole: Any = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
        width, lines = shutil.get_terminal_size().columns, text.split("\n")
        text = "\n".join(
            textwrap.fill(line, width, subsequent_indent=line[: len(line) - len(line.lstrip())], **whole)
            for line in lines
        )
    _write(text + "\n", err=err, flush=flush)


def _write(text: str, *, err: bool = False, flush: bool = False) -> None:
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is not None:  # a program may be started without
        print(text, end="", file=stream, flush=flush)


def ask(question: str) -> str:
    """What the person at the terminal answers."""
    _write(f"{one_line(question)} ", err=True, flush=True)
    if sys.stdin is None:
        return ""
    # Python notices a Ctrl-C between two steps, and reading a line is one step: so it waits in short ones.
    while sys.platform != "win32" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], 0.1)[0]:
        pass
    return sys.stdin.readline().strip()


def confirmed(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    return ask(f"{question} [y/N]:").lower() in ("y", "yes")


def on_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at ``stream`` through a terminal that can move its cursor."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except ValueError:  # closed
        return False


def one_line(message: str) -> str:
    """A message without line breaks, and with the middle of long values and of a long message left out."""
    message = " ".join(message.split("\n"))
    message = _QUOTED.sub(lambda match: match[1] + _short(match[2], _LONGEST_VALUE) + match[1], message)
    message = re.sub(rf"\S{{{2 * _LONGEST_VALUE},}}", lambda match: _short(match[0], _LONGEST_VALUE), message)
    return _printable(_short(message, _LONGEST_MESSAGE))


def _short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]}...[{len(text) - most:,} more]...{text[-end:]}"


# -- answers --


class Table(NamedTuple):
    """A table; ids in its cells have gone through :func:`shown`.

    The columns in ``words`` hold text: they stand to the left and are wrapped where a terminal is too narrow. The
    others hold numbers.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    words: Collection[str] = ()
    title: str = ""
    caption: str = ""


class Next(NamedTuple):
    """The command to type next, on one line for the terminal to break, so that it can be copied."""

    command: str


class Remark(NamedTuple):
    """A line that is no part of the answer: it goes to stderr."""

    text: str


Block = str | Table | Next | Remark


class Answer:
    """What a command has to tell: a record, with ``more`` fields, as JSON; lines and tables of it for people.

    With --json the ``blocks`` are not even made. The exit code is 1 if it has ``failed``.
    """

    def __init__(self, record: Any, *blocks: Block | Iterable[Block], failed: bool = False, **more: Any) -> None:
        self.record = record
        self.more = more
        self.blocks = blocks
        self.failed = failed

    def print(self, *, json: bool) -> None:
        """Print one of both forms."""
        if json:
            emit_json({**_document(self.record), **self.more} if self.more else self.record)
            return
        for entry in self.blocks:
            for block in [entry] if isinstance(entry, Block) else entry:
                print_block(block)


def print_block(block: Block) -> None:
    """A line, or lines, or a table."""
    if isinstance(block, str):
        say(block)
    elif isinstance(block, Next):
        _write(f"Next: {_printable(block.command)}\n")
    elif isinstance(block, Remark):
        say(block.text, err=True)
    else:
        _print_table(block)


def emit_json(value: Any) -> None:
    """One JSON document on stdout: exact, and plain ASCII where the stream or a terminal would not take the rest."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_document)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    encodes = text.encode(encoding, "replace").decode(encoding) == text
    if not (encodes and text.replace("\n", "").isprintable()):
        # DEL is the one ASCII character that does not print and that JSON leaves as it is.
        text = json.dumps(value, indent=2, allow_nan=False, default=_document).replace("\x7f", "\\u007f")
    _write(text + "\n")


def _document(record: Any) -> Any:
    """A record of the library as JSON."""
    from tensorucb.campaign._documents import to_json

    return to_json(record)


def _print_table(table: Table) -> None:
    cells = [[_cell(cell) for cell in row] for row in table.rows]
    left = [name in table.words for name in table.columns]
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    if table.title:
        say(table.title)
    if on_terminal(sys.stdout):
        _print_fitted(table.columns, cells, widths, left)
    else:
        places = [(min(width, _PADDED), "<" if text else ">") for width, text in zip(widths, left, strict=True)]
        for line in (table.columns, ["-" * width for width, _ in places], *cells):
            padded = [f"{cell:{side}{width}}" for cell, (width, side) in zip(line, places, strict=True)]
            _write("  ".join(padded).rstrip() + "\n")
    if table.caption:
        say(table.caption)


def _print_fitted(columns: Sequence[str], cells: list[list[str]], widths: list[int], left: list[bool]) -> None:
    """A table that fits the terminal: text is wrapped, and numbers only where they alone are too wide for it."""
    from rich.table import Table
    from rich.text import Text

    console = terminal(sys.stdout)
    narrowest = [min(width, _NARROWEST) if text else width for width, text in zip(widths, left, strict=True)]
    least = sum(narrowest) + 2 * (len(widths) - 1)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name, text in zip(columns, left, strict=True):
        justify: Any = "left" if text else "right"
        table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=not text and least <= console.width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def terminal(stream: TextIO) -> Any:
    """Rich's console on a stream that is a terminal: bold and dim, no colours, and nothing is read as markup."""
    from rich.console import Console

    # It must not ask the stream: while a file is being read, its descriptor may lead elsewhere (`panics_kept_quiet`).
    return Console(file=stream, force_terminal=True, markup=False, emoji=False, highlight=False, no_color=True)
