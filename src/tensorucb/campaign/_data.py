"""A campaign's parts from the files that a team has: the network, features of users and products, costs, groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.arrays import F64
from tensorucb.campaign._history import UsedLog
from tensorucb.campaign._segments import UserColumns
from tensorucb.campaign._tables import (
    Columns,
    Rows,
    campaign_tables,
    check_kinds,
    features_of_strategies,
    no_rows,
    places_of,
    read_rows,
    with_consent,
)
from tensorucb.checks import check_report
from tensorucb.errors import TableError
from tensorucb.features import ProductFeatures, TableFeatures, TopicModel, UserProfile, degree_features, user_profile
from tensorucb.features import laplacian_eigenmap as eigenmap_of
from tensorucb.graph import Graph
from tensorucb.graph._ids import id_array
from tensorucb.moments import Duration, check_zone, duration
from tensorucb.reports import Tolerance

if TYPE_CHECKING:
    import polars as pl

    from tensorucb.data import ActionLog

Progress = Callable[[int, int, str], None]
"""Called as ``progress(done, total, what)`` before each step."""

_TOPICS = 10
_FEWEST_ACTIONS = 100
_DIM = 10
# Up to so many products of which nothing is known are told apart, each as a kind of its own.
_KINDS = 50
_STEPS = 3


@dataclass(frozen=True, eq=False)
class CampaignData:
    """The parts of a campaign, made from files by :func:`read_campaign_data`; ``create_campaign(data=…)`` takes it.

    Attributes
    ----------
    graph, users
        The network, and what is known of its users.
    products
        Features by product id.
    product_features
        How products that come later get their features from their columns; None if products have neither columns nor
        a log.
    user_features
        How users that come later get the last of their features from columns; ``user_table`` is None without a table.
    strategies, strategy_costs, costs, groups, values, product_values, consent, window, timezone
        As ``create_campaign`` takes them.
    names
        What products and strategies are called, by ``"products"`` and ``"strategies"``, and then by id.
    user_columns
        What users are called, and the columns that split them; None if their table tells nothing of it.
    columns
        The names of columns that the caller gave; the campaign keeps them for files that come later.
    new
        Ids of products that nobody has bought yet.
    report
        What was used and what was left out, a line each.
    used_log
        By which ``import_history`` knows the rows of the log again, which must not count twice.
    """

    graph: Graph
    users: Any
    products: Mapping[int | str, Any] = field(default_factory=dict)
    product_features: ProductFeatures | None = None
    user_features: TableFeatures | None = None
    strategies: Mapping[int | str, Any] = field(default_factory=dict)
    strategy_costs: Mapping[int | str, float] = field(default_factory=dict)
    costs: Any = None
    groups: Any = None
    values: Any = None
    product_values: Mapping[int | str, float] | None = None
    consent: Any = None
    window: float | None = None
    timezone: str = "UTC"
    columns: Columns = field(default_factory=dict)
    names: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    user_columns: UserColumns | None = None
    new: tuple[int | str, ...] = ()
    report: tuple[str, ...] = ()
    used_log: UsedLog | None = None

    @property
    def user_table(self) -> TableFeatures | None:
        """How the columns of users become features."""
        fitted = self.user_features
        return fitted if fitted is not None and (fitted.columns or fitted.left_out) else None

    def __repr__(self) -> str:
        return (
            f"CampaignData({self.graph.n_nodes:,} users, {self.graph.n_edges:,} edges, {len(self.products):,} products)"
        )


def read_campaign_data(
    directory: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    edges: Any = None,
    actions: Any = None,
    products: Any = None,
    users: Any = None,
    strategies: Any = None,
    queries: Mapping[str, str] | None = None,
    columns: Columns | None = None,
    kinds: Mapping[str, Mapping[str, str]] | None = None,
    consent: str | None = None,
    id_type: str = "auto",
    window: Duration | None = None,
    timezone: str = "UTC",
    strict: bool = False,
    max_left_out: float = 0.5,
    progress: Progress | None = None,
) -> CampaignData:
    r"""Read what a team has (followers, purchases, products …) and make the parts of a campaign of it.

    From the log of actions come topics of products (who buys them), and each user's past: what they bought, and how
    often their followers bought after them. From tables come features of products and users.

    Parameters
    ----------
    directory
        Holds ``edges`` (or ``followers``) and, as far as there are any, ``actions`` (or ``purchases``), ``products``,
        ``users`` and ``strategies``, each as ``.csv``, ``.tsv`` (also ``.gz``), ``.ndjson`` or ``.parquet``. Or
        the tables themselves by name, ``{"edges": frame, "users": frame}``; or a database: ``"postgresql://…"``,
        ``"sqlite:file.db"`` or ``"duckdb:file.db"``.
    edges, actions, products, users, strategies
        Tables one by one, instead of those of the directory or beside them: paths of files, or polars, pandas or Arrow
        frames. An edge goes from the one who influences to the one influenced.
    queries
        For a database: the query of each table. Without one, the database's table of that name is read, if there is
        one.
    columns
        Names of columns by table and meaning, where they are not called what they mean:
        ``{"actions": {"user": "buyer", "item": "sku", "time": "bought_at"}}``. The meaning ``name`` is what products,
        users and strategies are called where people read of them: ``{"products": {"name": "title"}}``. A name of users
        or strategies is never a feature.
    kinds
        What columns of ``products`` and ``users`` hold, where the guess is wrong, such as
        ``{"products": {"size": "category"}}``; see :meth:`TableFeatures.fit <tensorucb.features.TableFeatures.fit>`.
    consent
        The column of ``users`` that says who may be contacted (yes or no, true, 1 …; an empty cell is a no), by default
        one that is called ``consent``. It is never a feature.
    id_type
        What ids of users are: ``"auto"`` (whole numbers if all of them are), ``"int"`` or ``"str"``.
    window
        How long after the contact an action counts: ``"7d"`` or a timedelta.
    timezone
        The zone of dates, and of times that name none, such as ``"Europe/Berlin"``; the campaign keeps it for what is
        told later.
    strict, max_left_out
        Rows that do not fit are left out, and the report counts them with their lines. More than this share of a
        table's rows, or with ``strict`` a single one, is an error.
    progress
        Called as ``progress(done, total, what)`` once the files are read, if there are actions to learn from.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\nann,bob\nann,cid\nbob,cid\ncid,ann\n")
    ...     _ = Path(folder, "products.csv").write_text("product,kind\ntea,food\njam,food\nsoap,home\n")
    ...     data = read_campaign_data(folder)
    >>> data
    CampaignData(3 users, 4 edges, 3 products)
    >>> print(data.report[-2])
      Columns used: kind (category).
    """
    from tensorucb.data._plain import read_plain

    named = {"edges": edges, "actions": actions, "products": products, "users": users, "strategies": strategies}
    lasts = None if window is None else duration("window", window)
    told = check_kinds(kinds)
    check_report("progress", progress)
    tables, about = campaign_tables(directory, named, queries)
    zone = check_zone("timezone", timezone)
    names = with_consent(columns, consent)
    tolerance = Tolerance.of(strict, max_left_out)
    reading: Any = {"columns": names, "id_type": id_type, "zone": zone, "tolerance": tolerance}
    dataset = read_plain(tables["edges"], tables["actions"], about, "data", **reading)
    graph, log = dataset.graph, dataset.log

    def step(done: int, what: str) -> None:
        if progress is not None and log.n_actions:
            progress(done, _STEPS, what)

    def rows_of(table: str) -> Rows:
        source = tables[table]
        if source is None:
            return no_rows()
        return read_rows(source, table, columns=names.get(table), tolerance=tolerance)

    ends = graph.ids[graph.sources[0]], graph.ids[graph.targets[0]]
    lines = [
        f"Network: {graph.n_nodes:,} users, {graph.n_edges:,} edges. For example, {ends[0]} influences {ends[1]}.",
        *str(dataset.report).split("\n"),
    ]
    catalogue = rows_of("products")
    people = rows_of("users")
    offers = rows_of("strategies")
    lines += [*catalogue.lines, *people.lines, *offers.lines]
    offered = _offered(offers, lines)
    for table, rows in (("products", catalogue), ("users", people)):
        if table in told and not rows.came:
            raise TableError(f"names columns of {table}, but there is no file of {table}.", argument="kinds")
    step(0, "topics of products, by who bought them")
    topics = _topics(log, graph.n_nodes, lines)
    step(1, "features of products")
    product_vectors, items, product_features = _described(catalogue, log, topics, told.get("products"), lines)
    step(2, "features and past of users")
    placed = _placed(graph, people, lines)
    profile, user_features = _profile(graph, placed, lines, log, items, told.get("users"), lasts)
    step(3, "done")
    bought = set(map(str, log.item_ids.tolist()))
    by_user = placed.columns()
    if "consent" in by_user:
        allowed = int(by_user["consent"].sum())
        lines.append(f"  Consent: column {placed.meant['consent'].name}; {allowed:,} users may be contacted.")
    if "value" in catalogue.meant:
        lines.append(f"What a response is worth: column {catalogue.meant['value'].name} of {catalogue.file}.")
    looks = placed.user_columns
    if "name" in placed.meant:
        lines.append(f"  Names: column {placed.meant['name'].name}.")
    if looks is not None and looks.segments:
        lines.append(f"  Users can be split by: {', '.join(each.column for each in looks.segments)}.")
    entries = {"products": catalogue.names, "strategies": offers.names}
    return CampaignData(
        graph=graph,
        users=profile,
        products=product_vectors,
        product_features=product_features,
        user_features=user_features,
        strategies=offered,
        strategy_costs=offers.by_id("costs") or {},
        **by_user,
        product_values=catalogue.by_id("values"),
        window=lasts,
        timezone=zone,
        columns=names,
        names={table: by_id for table, by_id in entries.items() if by_id},
        user_columns=looks,
        new=tuple(product for product in product_vectors if str(product) not in bought),
        report=tuple(lines),
        used_log=UsedLog.of(log) if log.n_actions else None,
    )


def default_profile(graph: Graph) -> tuple[UserProfile, TableFeatures]:
    """What is known of users by the network alone: degrees, and a place in it."""
    return _profile(graph, no_rows(), [])


def catalogue_of(table: Any) -> dict[str, Any]:
    """The parts of a campaign that a table of products gives: features, how later products get theirs, and names."""
    from tensorucb.data import ActionLog

    rows = read_rows(table, "products")
    product_vectors, _, features = _described(rows, ActionLog.empty(), None, None, [])
    return {"products": product_vectors, "product_features": features, "names": {"products": rows.names}}


def _offered(rows: Rows, lines: list[str]) -> dict[int | str, F64]:
    """Strategies by id with features; without columns of numbers each strategy is a kind of its own."""
    if not rows.came:
        return {}
    features, numeric = features_of_strategies(rows)
    lines.append(f"Strategies: {len(rows.ids):,}{'' if numeric else ', each of a kind of its own'}.")
    left = [name for name in rows.table.columns if name not in numeric]
    if left:
        lines.append(f"  Left out: {', '.join(left)}, since features of strategies are numbers.")
    return dict(zip(rows.ids, features, strict=True))


def _topics(log: ActionLog, n_nodes: int, lines: list[str]) -> F64 | None:
    """Topics of the log's items by who acted on them."""
    if not log.n_actions:
        return None
    if log.n_actions < _FEWEST_ACTIONS or log.n_items < 2:
        lines.append(f"  Too few for topics of products: {log.n_actions} actions on {log.n_items} items.")
        return None
    count = min(_TOPICS, log.n_items)
    return TopicModel.fit(log, n_topics=count, n_nodes=n_nodes).transform(log)


def _described(
    catalogue: Rows, log: ActionLog, topics: F64 | None, kinds: Mapping[str, str] | None, lines: list[str]
) -> tuple[Mapping[int | str, F64], F64 | None, ProductFeatures | None]:
    """Features of the catalogue's products by columns and topics, and in the same way of the log's items; and how.

    Without a table, the catalogue is what the log holds.
    """
    items: list[int | str] = log.item_ids.tolist()
    ids = catalogue.ids if catalogue.came else items
    if topics is None and kinds is None and _are_vectors(catalogue.table):
        lines += [f"Products: {len(ids):,}.", f"  Features: the numbers of {', '.join(catalogue.table.columns)}."]
        return dict(zip(ids, catalogue.table.to_numpy().astype(np.float64), strict=True)), None, None
    # The log and the table may disagree on whether ids are numbers, so they are compared as text.
    at = {text: row for row, text in enumerate(dict.fromkeys(map(str, [*ids, *items])))}
    own = [at[str(item)] for item in items]
    table = None
    if catalogue.table.width:  # items of the log alone are empty rows at its end
        table = catalogue.table.vstack(catalogue.table.clear(len(at) - catalogue.table.height))
    shares = None
    if topics is not None:
        shares = np.full((len(at), topics.shape[1]), np.nan)
        shares[own] = topics
    features = None if table is None and shares is None else ProductFeatures.fit(table, shares, kinds=kinds)
    if ids:
        lines.append(f"Products: {len(ids):,}{'' if catalogue.came else ' from the actions'}.")
    if features is not None and features.table is not None:
        lines += _columns_used(features.table)
    if features is None or not features.labels:
        rows = np.eye(len(ids)) if 1 < len(ids) <= _KINDS else np.ones((len(ids), 1))
        if ids:
            lines.append(
                f"  Nothing describes them: {'each is a kind of its own' if rows.shape[1] > 1 else 'all alike'}."
            )
        return dict(zip(ids, rows, strict=True)), None, None
    if topics is not None:
        fresh = len(at) - len(items)
        lost = len(at) - len(ids)
        lines.append(
            f"  Topics from who bought what: {topics.shape[1]}. Nobody has bought {fresh:,} of the products yet."
        )
        if lost:
            lines.append(
                f"  Not in the product table: {lost:,} items of the log; they count for the users' past alone."
            )
    described = features.describe(table, shares)
    return dict(zip(ids, described[: len(ids)], strict=True)), described[own] if items else None, features


def _are_vectors(table: pl.DataFrame) -> bool:
    """Whether rows are vectors of features already, such as shares or an embedding: numbers from -1 to 1, all there."""
    numeric = bool(table.width) and all(dtype.is_numeric() for dtype in table.dtypes)
    return numeric and bool((np.abs(table.to_numpy().astype(np.float64)) <= 1.0).all())


def _columns_used(table: TableFeatures) -> list[str]:
    used = ", ".join(f"{column.name} ({column.kind})" for column in table.columns)
    left = [f"  Left out: column {name}, since {reason}." for name, reason in table.left_out.items()]
    return [f"  Columns used: {used}.", *left] if used else left


def _placed(graph: Graph, people: Rows, lines: list[str]) -> Rows:
    """The table of users in the order of the graph; users without a row get empty cells."""
    lines.append(f"Users: {graph.n_nodes:,}.")
    if not people.came:
        return people
    places = places_of(id_array(people.ids, "ids"), graph.ids.tolist())
    missing = int(np.count_nonzero(places < 0))
    strangers = len(people.ids) - (graph.n_nodes - missing)
    if strangers:
        lines.append(
            f"  Left out: {strangers:,} of the {len(people.ids):,} rows of {people.file}, of users without an edge."
        )
    if missing:
        lines.append(f"  {missing:,} of them have no row in {people.file}; they count as average ones.")
    said = {"cost": "What contacting costs", "group": "Groups", "value": "What a response is worth"}
    for meaning, what in said.items():
        if meaning in people.meant:
            lines.append(f"  {what}: column {people.meant[meaning].name}.")
    return people.take(graph.ids.tolist(), places)


def _profile(
    graph: Graph,
    people: Rows,
    lines: list[str],
    log: ActionLog | None = None,
    items: F64 | None = None,
    kinds: Mapping[str, str] | None = None,
    window: float | None = None,
) -> tuple[UserProfile, TableFeatures]:
    """What is known of users: their place, their past, and the columns of their table (the last features)."""
    parts: dict[str, F64] = {}
    features = 0.5 * degree_features(graph)
    if log is not None and items is not None:
        past = user_profile(graph, log, np.arange(log.n_items), items, kinds=("degree",))
        parts = {name: array for name, array in past.parts().items() if name != "features"}
        features = past.features
        if window is not None and log.times.size:
            # A round lasts as long as its window, and the log many times as long: so often users could have acted.
            parts["chances"] = parts["chances"] * max(1.0, float(np.ptp(log.times)) / window)
    if graph.n_nodes > 3:
        parts["coordinates"] = eigenmap_of(graph, dim=min(_DIM, graph.n_nodes - 2))
    table = TableFeatures(())
    if people.table.width:
        table = TableFeatures.fit(people.table, kinds=kinds)
        lines += _columns_used(table)
        features = np.hstack([features, table.transform(people.table)])
    if "taste" in parts:
        lines.append("  Past used: what users bought, and how often followers bought after them.")
    return UserProfile(features, **parts), table
