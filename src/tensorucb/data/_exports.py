"""A generated shop as its systems export it: other names of columns, days, amounts as text, and dirty rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl

    from tensorucb.data._shop import Shop

_CONSENTS = ("yes", "Yes", "TRUE", "1", "no", "No", "")
_SHARES = (0.3, 0.2, 0.15, 0.15, 0.1, 0.05, 0.05)
_OPTED_OUT = 12
_ORDERS = ("order", "buyer", "article", "bought_on", "amount")
_SEED = 24  # of consent and opt-outs


def exported_files(shop: Shop) -> dict[str, bytes]:
    """The files of a shop by name, with what exports of real systems have wrong with them.

    Followers and orders have semicolons and a byte order mark, orders have days without a time and amounts with a
    decimal comma, products have prices such as €12.99, customers have consent. Blank lines, fields too few, days that
    do not exist, strangers and repeated rows are strewn over all of them. There are two offers, a list of people who
    have opted out, and two later exports of orders, of which the first lacks those that were booked late.
    """
    rng = np.random.default_rng(_SEED)
    prices = dict(shop.products.select("product", "price").iter_rows())
    past = _orders(shop.purchases, prices, 1)
    later = _orders(shop.later, prices, 1 + len(past))
    soon = [row for number, row in enumerate(later) if number % 4]
    bad = ["", "O-1;;p0001;2026-02-03;1,00 €", "O-2;u00001;p0001;2026-02-31;1,00 €", "O-3;u00001;p0001;soon;1,00 €"]
    stranger = f"O-4;guest-0;p0001;{later[0].split(';')[3]};9,90 €"
    return {
        "followers.csv": _followers(shop.followers),
        "purchases.csv": _text(_ORDERS, _strewn(past, [*bad, stranger, past[0], past[-1]]), ";"),
        "products.csv": _products(shop.products),
        "users.csv": _customers(shop.users, rng),
        "strategies.csv": _text(("strategy", "cost"), ["newsletter,€0.10", "voucher,€2.00"], ","),
        "optouts.csv": _opted_out(shop.users, rng),
        "purchases-week1.csv": _text(_ORDERS, _strewn(soon, [*bad, stranger, soon[0], soon[-1]]), ";"),
        "purchases-week2.csv": _text(_ORDERS, _strewn(later, [bad[0], bad[2], later[-1]]), ";"),
    }


def _followers(followers: pl.DataFrame) -> bytes:
    """Who follows whom: the other direction than influence."""
    rows = [f"{target};{source};{2015 + at % 11}" for at, (source, target) in enumerate(followers.iter_rows())]
    dirt = ["", "u00001", "u00002;u00002;2021", rows[0], "u00003;;2020"]
    return _text(("Follower", "Followee", "since"), _strewn(rows, dirt), ";")


def _orders(purchases: pl.DataFrame, prices: dict[str, float], first: int) -> list[str]:
    rows = []
    for number, (user, product, time) in enumerate(purchases.iter_rows(), first):
        amount = f"{prices[product]:,.2f} €".translate(str.maketrans(",.", ".,"))
        rows.append(f"O{number:06d};{user};{product};{time[:10]};{amount}")
    return rows


def _products(products: pl.DataFrame) -> bytes:
    rows = [
        [product, name, category, tags, f"€{price:,.2f}", *others]
        for product, name, category, tags, price, *others in products.iter_rows()
    ]
    lines = _csv_lines(rows)
    dirt = ["", lines[0], ",discontinued,,,,,", "p0002,half"]
    return _text(("sku", *products.columns[1:]), _strewn(lines, dirt), ",")


def _customers(users: pl.DataFrame, rng: np.random.Generator) -> bytes:
    consents = rng.choice(_CONSENTS, users.height, p=_SHARES)
    rows = [
        [user, city, "n/a" if at % 97 == 50 else age, consent, f"€{cost:.2f}"]
        for at, ((user, city, age, cost), consent) in enumerate(zip(users.iter_rows(), consents, strict=True))
    ]
    lines = _csv_lines(rows)
    names = ("customer_id", "city", "age", "email_optin", "cost")
    return _text(names, _strewn(lines, ["", lines[0], "u99999,Faro,30,yes,€1.00"]), ",")


def _opted_out(users: pl.DataFrame, rng: np.random.Generator) -> bytes:
    chosen = rng.choice(users["user"].to_numpy(), min(_OPTED_OUT, users.height), replace=False).tolist()
    rows = [f"{user};2026-01-{1 + at:02d}" for at, user in enumerate(chosen)]
    return _text(("customer_id", "unsubscribed_on"), _strewn(rows, ["", rows[0], "u99998;2026-01-31"]), ";")


def _csv_lines(rows: Iterable[Sequence[Any]]) -> list[str]:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().splitlines()


def _strewn(rows: list[str], dirt: Sequence[str]) -> list[str]:
    """Rows with others among them, at even distances."""
    lines: list[str] = []
    parts = np.array_split(np.array(rows, dtype=np.object_), len(dirt) + 1)
    for part, line in zip(parts, [*dirt, None], strict=True):
        lines += [*part.tolist(), *([] if line is None else [line])]
    return lines


def _text(names: Sequence[str], lines: Sequence[str], separator: str) -> bytes:
    """A file; with semicolons it is as a spreadsheet writes it, with a byte order mark and both line ends."""
    spreadsheet = separator == ";"
    text = "\r\n".join if spreadsheet else "\n".join
    return text([separator.join(names), *lines, ""]).encode("utf-8-sig" if spreadsheet else "utf-8")
