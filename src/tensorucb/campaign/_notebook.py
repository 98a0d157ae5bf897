"""What a notebook shows of a campaign: small HTML tables, with everything from outside escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tensorucb.campaign._reach import Reach


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table with a caption above it; ids may hold anything."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    title = f'<caption style="caption-side: top; text-align: left">{escape(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def expectation(reach: Reach | None) -> str:
    """An expected number with its interval; nothing if there is none."""
    return "" if reach is None else f"{reach.mean:,.1f} ({reach.low:,.0f} to {reach.high:,.0f})"
