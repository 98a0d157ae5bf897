"""A generated shop: followers, past purchases and a product table with text, as a team would have them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_count, check_path, check_text, refusal, shown_path
from tensorucb.data.sandbox import Sandbox, make_sandbox
from tensorucb.errors import InputError
from tensorucb.files import write_bytes
from tensorucb.rng import RngLike, as_generator

_THEMES: dict[str, str] = {
    "tea": "green leaf calm herbal cup infusion organic mint blossom evening",
    "coffee": "roasted bean strong espresso dark morning crema barista aroma grind",
    "outdoor": "trail tent rain jacket summit camp light pack river boots",
    "beauty": "skin soft lavender cream glow bath gentle balm petals serum",
    "kitchen": "steel pan sharp oven knife bake chef pot handle board",
    "games": "dice board family puzzle cards party strategy player quest evening",
}
_COMMON = tuple("new classic small large gift daily best quality set design colour value style original".split())  # noqa: SIM905
_TAGS = ("eco", "gift", "sale", "handmade", "limited", "bestseller")
_DAY = 86400
# Two in three words of a description belong to the product's themes, nine in ten categories are right.
_OWN_WORDS, _RIGHT = 2 / 3, 0.9
_WORDS = 12
_PAST, _NEXT = 120, 3  # days over which launches are spread, before and after today


@dataclass(frozen=True, eq=False)
class Shop:
    """A network of followers, a shop's products, who bought what so far, and the truth that nobody sees.

    Attributes
    ----------
    sandbox
        The network and the truth; its users and products have numbers, in the order of the tables.
    followers, purchases, products, users
        Tables as a shop has them. The last quarter of the products is new: nobody has bought them yet.
    later
        Purchases of the next days, of new products too, some by people who are not in the network.
    new
        Numbers of the new products.

    Examples
    --------
    >>> shop = make_shop(100, 800, 20, rng=0)
    >>> [path.name for path in shop.write("my-shop")]
    ['followers.csv', 'purchases.csv', 'products.csv', 'users.csv', 'purchases-later.csv']
    """

    sandbox: Sandbox
    followers: pl.DataFrame
    purchases: pl.DataFrame
    products: pl.DataFrame
    users: pl.DataFrame
    later: pl.DataFrame
    new: I64

    def write(self, directory: str | os.PathLike[str], *, dirty: bool = False) -> list[Path]:
        """Write the tables as CSV files, which ``create_campaign(data=…)`` takes; returns their paths.

        With ``dirty`` they are as a shop's systems export them: other names of columns, semicolons, prices such as
        €12.99, dates without a time, consent, and rows that are wrong. Offers, a list of people who have opted out, and
        two later exports of purchases come with them.
        """
        folder = check_path("directory", directory)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{shown_path(folder)} is a file; name a directory to write to.")
        if dirty:
            files = _exported_files(self)
        else:
            tables = {name: getattr(self, name) for name in ("followers", "purchases", "products", "users")}
            tables["purchases-later"] = self.later
            files = {f"{name}.csv": table.write_csv().encode() for name, table in tables.items()}
        folder.mkdir(parents=True, exist_ok=True)
        return [write_bytes(folder / name, content) for name, content in files.items()]


def make_shop(
    n_users: int = 400,
    n_edges: int = 5000,
    n_products: int = 60,
    *,
    today: str = "2026-05-20",
    rng: RngLike = 0,
) -> Shop:
    """Generate a shop: followers, what they bought, and what is said of the products.

    Products have a few themes, which decide who persuades which followers to buy. The themes show in a product's
    category, tags and description, with noise, and in who bought it.

    ``today`` lies between past and later purchases.

    Examples
    --------
    >>> shop = make_shop(50, 400, 12, rng=0)
    >>> shop.products.columns
    ['product', 'name', 'category', 'tags', 'price', 'released', 'description']
    """
    generator, now = as_generator(rng), int(np.datetime64(_day(today), "s").astype(np.int64))
    n_products = check_count("n_products", n_products, 4, 100_000)
    box = make_sandbox(n_users, n_edges, n_products, len(_THEMES), product_effect=2.0, rng=generator)
    new = np.arange(n_products - n_products // 4, n_products)
    users = np.array([f"u{row:05d}" for row in range(box.graph.n_nodes)])
    products = np.array([f"p{number:04d}" for number in range(n_products)])
    followers = pl.DataFrame({"source": users[box.graph.sources], "target": users[box.graph.targets]})
    return Shop(
        box,
        followers,
        _purchases(box, np.arange(new[0]), users, products, (now - (_PAST + 20) * _DAY, _PAST), generator),
        _described(box.mixtures, products, new, today, generator),
        _people(users, generator),
        _with_strangers(_purchases(box, np.arange(n_products), users, products, (now + _DAY, _NEXT), generator)),
        new,
    )


def _day(today: str) -> date:
    try:
        return date.fromisoformat(check_text("today", today))
    except ValueError:
        raise refusal("today", "a day such as '2026-05-20'", today) from None


def _purchases(
    box: Sandbox,
    items: I64,
    users: NDArray[np.str_],
    products: NDArray[np.str_],
    start: tuple[int, int],
    rng: np.random.Generator,
) -> pl.DataFrame:
    rows, numbers, steps = box.action_log(items, rng, starters=min(12, box.graph.n_nodes))
    # Each product is launched on a day of its own; a step of its cascade takes about a day.
    begin, days = start
    launched = rng.integers(0, days, size=len(box.names))[numbers] * _DAY
    times = begin + launched + steps * _DAY + rng.integers(0, _DAY // 2, size=rows.size)
    table = pl.DataFrame({"user": users[rows], "product": products[numbers], "time": times})
    return table.sort("time").with_columns(pl.from_epoch("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _with_strangers(later: pl.DataFrame) -> pl.DataFrame:
    """Every fifteenth buyer is somebody without an account in the network."""
    guests = (pl.int_range(pl.len()) % 15) == 7
    return later.with_columns(
        pl.when(guests).then(pl.format("guest-{}", pl.int_range(pl.len()))).otherwise("user").alias("user")
    )


def _described(
    mixtures: F64, products: NDArray[np.str_], new: I64, today: str, rng: np.random.Generator
) -> pl.DataFrame:
    themes, words = list(_THEMES), [text.split() for text in _THEMES.values()]
    usual = rng.lognormal(2.5, 0.6, len(themes))
    rows = []
    for number, shares in enumerate(mixtures):
        main = int(np.argmax(shares)) if rng.random() < _RIGHT else int(rng.integers(len(themes)))
        drawn = rng.choice(len(themes), size=_WORDS, p=shares)
        text = [
            str(rng.choice(words[theme])) if rng.random() < _OWN_WORDS else str(rng.choice(_COMMON)) for theme in drawn
        ]
        tags = sorted({themes[int(rng.choice(len(themes), p=shares))], str(rng.choice(_TAGS))})
        price = float(shares @ usual * rng.lognormal(0.0, 0.3))
        age = int(rng.integers(1, 30)) if number >= new[0] else int(rng.integers(60, 900))
        day = np.datetime64(today, "D") - age
        told = (" ".join(text[:2]), themes[main], ";".join(tags), round(price, 2), str(day), " ".join(text))
        rows.append((str(products[number]), *told))
    names = ["product", "name", "category", "tags", "price", "released", "description"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _people(users: NDArray[np.str_], rng: np.random.Generator) -> pl.DataFrame:
    cities = rng.choice(["Lisbon", "Porto", "Braga", "Faro"], users.size, p=[0.4, 0.3, 0.2, 0.1])
    return pl.DataFrame(
        {
            "user": users,
            "group": cities,
            "age": rng.integers(18, 75, users.size),
            "cost": rng.choice([1.0, 2.0, 5.0], users.size, p=[0.7, 0.2, 0.1]),
        }
    )


# -- the same as its systems export it: other names of columns, days, amounts as text, and dirty rows --

_CONSENTS = ("yes", "Yes", "TRUE", "1", "no", "No", "")
_SHARES = (0.3, 0.2, 0.15, 0.15, 0.1, 0.05, 0.05)
_OPTED_OUT = 12
_SEED = 24  # of consent and opt-outs


def _exported_files(shop: Shop) -> dict[str, bytes]:
    """The files of a shop by name, with what exports of real systems have wrong with them.

    Followers and orders have semicolons and a byte order mark, orders have days without a time and amounts with a
    decimal comma, products have prices such as €12.99, customers have consent. Blank lines, fields too few, days that
    do not exist, strangers and repeated rows are strewn over all of them. There are two offers, a list of people who
    have opted out, and two later exports of orders, of which the first lacks those that were booked late.
    """
    rng = np.random.default_rng(_SEED)
    # Who follows whom: the other direction than influence.
    since = 2015 + pl.int_range(pl.len()) % 11
    followers = shop.followers.select(Follower="target", Followee="source", since=since)
    prices = dict(shop.products.select("product", "price").iter_rows())
    past = _orders(shop.purchases, prices, 1)
    later = _orders(shop.later, prices, 1 + past.height)
    soon = later.filter(pl.int_range(pl.len()) % 4 > 0)
    no_day, no_word = "O-2;u00001;p0001;2026-02-31;1,00 €", "O-3;u00001;p0001;soon;1,00 €"
    stranger = f"O-4;guest-0;p0001;{later['bought_on'][0]};9,90 €"
    bad: list[str | int] = ["", "O-1;;p0001;2026-02-03;1,00 €", no_day, no_word, stranger, 0, -1]
    products = shop.products.rename({"product": "sku"}).with_columns(price=_in_euros(shop.products["price"]))
    strategies = pl.DataFrame({"strategy": ["newsletter", "voucher"], "cost": ["€0.10", "€2.00"]})
    customers = _customers(shop.users, rng)
    return {
        "followers.csv": _exported(followers, ";", ["", "u00001", "u00002;u00002;2021", 0, "u00003;;2020"]),
        "purchases.csv": _exported(past, ";", bad),
        "products.csv": _exported(products, ",", ["", 0, ",discontinued,,,,,", "p0002,half"]),
        "users.csv": _exported(customers, ",", ["", 0, "u99999,Faro,30,yes,€1.00"]),
        "strategies.csv": _exported(strategies, ",", []),
        "optouts.csv": _exported(_opted_out(shop.users, rng), ";", ["", 0, "u99998;2026-01-31"]),
        "purchases-week1.csv": _exported(soon, ";", bad),
        "purchases-week2.csv": _exported(later, ";", ["", no_day, -1]),
    }


def _orders(purchases: pl.DataFrame, prices: dict[str, float], first: int) -> pl.DataFrame:
    amounts = [f"{prices[product]:,.2f} €".translate(str.maketrans(",.", ".,")) for product in purchases["product"]]
    return purchases.select(
        order=pl.Series([f"O{number:06d}" for number in range(first, first + purchases.height)]),
        buyer="user",
        article="product",
        bought_on=purchases["time"].str.head(10),
        amount=pl.Series(amounts),
    )


def _customers(users: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return users.select(
        customer_id="user",
        city="group",
        age=pl.Series(["n/a" if at % 97 == 50 else str(age) for at, age in enumerate(users["age"])]),
        email_optin=pl.Series(rng.choice(_CONSENTS, users.height, p=_SHARES)).replace("", None),
        cost=_in_euros(users["cost"]),
    )


def _opted_out(users: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    chosen = rng.choice(users["user"].to_numpy(), min(_OPTED_OUT, users.height), replace=False)
    days = [f"2026-01-{1 + at:02d}" for at in range(chosen.size)]
    return pl.DataFrame({"customer_id": chosen, "unsubscribed_on": days})


def _in_euros(amounts: pl.Series) -> pl.Series:
    return pl.Series([f"€{amount:,.2f}" for amount in amounts])


def _exported(table: pl.DataFrame, separator: str, dirt: Sequence[str | int]) -> bytes:
    """A file with other lines strewn among its rows, at even distances; a number is a row that comes again.

    With semicolons it is as a spreadsheet writes it, with a byte order mark and both line ends.
    """
    header, *rows = table.write_csv(separator=separator).splitlines()
    lines = [header]
    parts = np.array_split(np.array(rows, dtype=np.object_), len(dirt) + 1)
    for part, line in zip(parts, [*dirt, ""], strict=True):
        lines += [*part.tolist(), rows[line] if isinstance(line, int) else line]
    spreadsheet = separator == ";"
    return ("\r\n" if spreadsheet else "\n").join(lines).encode("utf-8-sig" if spreadsheet else "utf-8")
