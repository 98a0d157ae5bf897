"""Create a campaign in a store, or load one."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import I64
from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._catalogue import PLURAL, Catalogue
from tensorucb.campaign._constraints import Barred, constrain
from tensorucb.campaign._data import CampaignData, catalogue_of, default_profile, read_campaign_data
from tensorucb.campaign._documents import put_kept
from tensorucb.campaign._grow import numbers_of_table
from tensorucb.campaign._model import build_policy, policy_spec
from tensorucb.campaign._network import BY_USER, Network, make_network, network_to_blob
from tensorucb.campaign._people import Said, put_key
from tensorucb.campaign._question import Reader, check_defaults, read_settings
from tensorucb.campaign._stored import STORAGE, campaign_exists, opened
from tensorucb.campaign._tables import is_table, rows_of_frame
from tensorucb.checks import check_callable, check_flag, check_mapping, check_slug, check_text, refusal, shown
from tensorucb.errors import InputError, UnknownIdError, argument, call
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.memory import check_memory, storing
from tensorucb.moments import Duration, check_moment
from tensorucb.policies import Policy, TensorUCB
from tensorucb.policies._base import feature_columns
from tensorucb.work import Engine, check_engine

if TYPE_CHECKING:
    from tensorucb.store import SQLStore as Store

_PARTS = ("graph", "users", "products", "strategies", "strategy_costs", "costs", "groups", "values", "product_values")
_CREATED_BY = "created-by"  # the blob with the id of the request that created a campaign


def create_campaign(
    name: str,
    *,
    graph: Graph | None = None,
    data: str | os.PathLike[str] | CampaignData | Mapping[str, Any] | None = None,
    users: ArrayLike | None = None,
    policy: Policy | None = None,
    storage: str | os.PathLike[str] | Store = STORAGE,
    load_if_exists: bool = False,
    products: Any = None,
    strategies: Mapping[int | str, Sequence[float]] | None = None,
    strategy_costs: Mapping[int | str, float] | None = None,
    costs: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    values: ArrayLike | None = None,
    product_values: Mapping[int | str, float] | None = None,
    metric: str = "responders",
    consent: str | ArrayLike | None = None,
    contact_group: str | None = None,
    contact_cap: str | None = None,
    objective: str = "direct",
    credit: str = "any",
    window: Duration | None = None,
    timezone: str | None = None,
    epsilon: float = 0.1,
    ask: Mapping[str, Any] | None = None,
    seed: int = 0,
    snapshot_every: int = 10,
    clock: Callable[[], float] = time.time,
    engine: Engine | None = None,
    request_id: str | None = None,
) -> Campaign:
    """Create a campaign in a store.

    Parameters
    ----------
    name
        How it is called there.
    graph, users
        The network, and features, one row per user in the order of ``graph.ids``: an (n, d) array or a
        :class:`~tensorucb.features.UserProfile`; or a polars, pandas or Arrow table of numbers, whose column ``user``
        (or ``id``) says whose each row is, in any order, and is no feature; nor is a column ``name``. Both are stored.
        Without ``users``, a
        policy that needs features gets degrees and an eigenmap of the network.
    data
        Instead of ``graph``, ``users`` and ``products``: the directory with a team's files, the tables themselves
        (``{"edges": frame, "actions": frame, "products": frame, "users": frame}`` of pandas, polars or Arrow), the
        address of a database, or what :func:`~tensorucb.campaign.read_campaign_data` made of them. What is given beside
        it counts more.
    policy
        The policy, by default ``TensorUCB()``; one of this package is stored by its settings, another must be passed to
        ``load_campaign`` again.
    storage
        ``sqlite:///file.db``, ``postgresql://…``, ``memory://``, the `pathlib.Path` of a SQLite file, or an open store.
    load_if_exists
        Load the campaign of that name, if there is one, instead of an error. The other arguments are not used then.
    products
        A catalogue: features by product id, or a table with a column ``product`` and whatever describes them. More can
        be added at any time.
    strategies, strategy_costs
        A catalogue of strategies (channels, offers, discounts …): features by id, and what each adds to the cost of
        contacting a user, by default 0. ``ask`` chooses among them.
    costs, groups
        For each user what contacting costs, and a label; for budgets and quotas.
    values, product_values
        What a response is worth, where it is known beforehand: for each user a number, and for each product one, such
        as its margin. A user's response to a product is worth the product of the two, 1 where one is not given.
        Amounts that are told count more, and tell the rest: effects of products, groups and users, shrunk.
    metric
        What the campaign decides by. ``"responders"``, the default: how many users respond. ``"value"``: what their
        responses are worth, by ``values``, ``product_values`` and the amounts told. Both are reported in any case.
    consent
        Who may be contacted: the name of a column of the table of users, or one value for each user in the order of
        ``graph.ids``. Booleans, 0 and 1, or words such as yes and no; what is missing is a no. It is never a feature.
    contact_group, contact_cap
        A cap such as ``"2/7d"``: at most two contacts of a user in seven days. It holds over all campaigns of the store
        with the same ``contact_group``, whichever of them has it; without a group, over this campaign alone.
    objective
        What the choice counts. ``"direct"``, the default: responses of the contacted users' own followers. These are
        what a campaign observes, learns from and is judged by. ``"cascade"``: everybody who would become active in an
        independent cascade from there. Most of that happens on edges that the campaign never sees, so it stands on
        beliefs that no response corrects; choose it if responses are known to travel further.
    credit
        Who gets the credit for a node event: ``"any"`` contacted user with an edge to the one who acted, the
        ``"last"`` to act, or ``"shared"`` by believed probability.
    window
        How long after the contact an action counts, and after which a round closes by itself: ``"7d"`` or a
        timedelta; None: no limit.
    timezone
        The zone of days, and of times that name none, such as ``"Europe/Berlin"``; by default UTC, or that of ``data``.
    epsilon
        Accuracy of the cascade objective's oracle.
    ask
        Defaults of :meth:`Campaign.ask`, used for arguments left out there: ``{"k": 10, "cooldown": "7d"}``. All but
        ``product``, ``shadow``, ``users``, ``costs``, ``groups``, ``request_id`` and ``proposal``; a deadline as a
        span.
    seed
        Seed of everything random.
    snapshot_every
        Rounds between snapshots of the model.
    clock
        Gives the time in unix seconds.
    engine
        Where this process samples cascades: None for this machine, or a cluster
        (:class:`tensorucb.engines.RayEngine`). The answers are the same, so the campaign does not remember it.
    request_id
        Creating again with the same name and the same ``request_id`` loads the campaign that the first call created,
        so that a caller who lost the answer may call again. Without it a name that exists is an error.

    Examples
    --------
    >>> from tensorucb.policies import HighDegree
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> campaign = create_campaign("spring", graph=graph, policy=HighDegree(), storage="memory://")
    >>> campaign.ask(k=1).seeds
    ('ann',)
    """
    arguments = locals()
    check_slug("name", name)
    if check_flag("load_if_exists", load_if_exists) and campaign_exists(name, storage):
        return load_campaign(name, storage=storage, policy=policy, clock=clock, engine=engine)
    check_engine(engine)
    check_callable("clock", clock, "a function that gives unix seconds")
    if request_id is not None:
        check_text("request_id", request_id)
    own = TensorUCB() if policy is None else policy
    settings: dict[str, Any] = {"format": 1, "policy": policy_spec(own), **read_settings(arguments)}
    zone = settings.pop("timezone", None)
    given = {**{name: arguments[name] for name in _PARTS}, "window": settings.get("window"), "timezone": zone}
    parts = _parts(data, {name: value for name, value in given.items() if value is not None}, consent)
    if parts.users is None and getattr(own, "needs_users", False):
        profile, features = default_profile(parts.graph)
        parts = replace(parts, users=profile, user_features=features)
    settings["window"] = parts.window
    if parts.timezone != "UTC":
        settings["timezone"] = parts.timezone
    if parts.columns:
        settings["columns"] = parts.columns
    now = check_moment("the clock's time", clock())
    network, catalogues = _checked(name, settings, own, parts)
    if network.consent is not None:
        settings["consent"] = True
    if ask is not None:
        settings["ask"], named = _defaults(ask, Reader(settings, network, catalogues, now))
        network = replace(network, defaults=named)
    # Only now, so that a campaign that is refused leaves no new file behind.
    with opened(storage, make=True, keep=True) as store:
        try:
            _write(store, name, settings, parts, network, catalogues, now, request_id)
        except InputError:
            # Somebody else may have created it since we looked, or the same request before.
            if not (load_if_exists and campaign_exists(name, store)) and not _created_by(store, name, request_id):
                raise
        return Campaign(store, name, policy=policy, clock=clock, engine=engine)


def _defaults(ask: Mapping[str, Any], reader: Reader) -> tuple[dict[str, Any], dict[str, I64]]:
    """Defaults of `Campaign.ask` as `Reader.stored` has them, checked by reading a question that uses them all."""
    named = check_defaults(ask)
    try:
        question = reader.read({"product": [1.0], **named})
        barred = Barred.of(question, Said.of(reader.network), {}, reader.now)
        constrain(reader.network, barred, question, reader.now)
        return reader.stored(question, named)
    except InputError as error:
        raise error.within("ask") from error


class IgnoredContextWarning(UserWarning):
    """A campaign has products or strategies that its policy does not look at."""


def _parts(data: Any, arguments: dict[str, Any], consent: Any) -> CampaignData:
    """What a campaign begins with: from files, or from ``arguments``, which count more.

    ``consent`` is a column of the table of users, or what it holds.
    """
    column = consent if isinstance(consent, str) else None
    if consent is not None and column is None:
        arguments["consent"] = consent
    if data is None:
        check_graph(arguments.get("graph"))
        if is_table(arguments.get("products")):
            arguments |= catalogue_of(arguments["products"])
        return _looked_through(CampaignData(**{"users": None, **arguments}), column)
    twice = [name for name in ("graph", "users", "products") if name in arguments]
    if twice:
        named = [part for name in twice for part in (argument(name), " and ")]
        advice = ("Leave out ", *named[:-1], ".")
        raise InputError("brings a network, users and products.", argument="data", advice=advice)
    if not isinstance(data, CampaignData):
        data = read_campaign_data(data, consent=column, timezone=arguments.get("timezone", "UTC"))
    elif column is not None:
        advice = "Name the column when the files are read: ", call("read_campaign_data"), "."
        message = f"= {shown(column)} is a column of files that are read already."
        raise InputError(message, argument="consent", advice=advice)
    parts: CampaignData = replace(data, **arguments)
    return parts


def _looked_through(parts: CampaignData, column: str | None) -> CampaignData:
    """The parts with what a table of users has beside features: names, and a column that is consent.

    That column is called ``consent`` by default, the other one ``name``.
    """
    has_consent = False
    if is_table(parts.users):
        named = {} if column is None else {"consent": column}
        rows = rows_of_frame("user", parts.users, parts.graph.ids, named)
        has_consent = "consent" in rows.meant
        parts = replace(
            parts,
            users=numbers_of_table("users", rows.table) if rows.table.width else None,
            user_columns=rows.user_columns,
            columns={"users": named} if named else {},
            consent=rows.columns().get("consent") if parts.consent is None else parts.consent,
        )
    if column is not None and not has_consent:
        wanted = "a column of the table of users, or one value for each user"
        raise refusal("consent", wanted, column, "The users came without such a column.")
    return parts


def _checked(
    name: str, settings: Mapping[str, Any], policy: Policy, parts: CampaignData
) -> tuple[Network, tuple[Catalogue, Catalogue]]:
    """The network and the catalogues of products and strategies, which the policy can work with."""
    network = make_network(parts.graph, parts.users, {name: getattr(parts, name) for name in BY_USER})
    nodes = network.graph.n_nodes
    edges = network.graph.n_edges
    needed = storing(nodes, edges, feature_columns(network.users))
    check_memory(f"a campaign on {nodes:,} users and {edges:,} edges", needed)
    catalogues = _catalogue("product", parts), _catalogue("strategy", parts)
    # What the policy objects to must be said now, not at the first ask.
    rng = np.random.default_rng([settings["seed"], 0])
    bound = build_policy(settings["policy"], policy)
    bound.bind(network.graph, network.users, rng)
    _say_what_is_ignored(bound, catalogues)
    return network, catalogues


def _say_what_is_ignored(policy: Policy, catalogues: tuple[Catalogue, Catalogue]) -> None:
    """A policy may have no place for what the campaign knows: the numbers are then the same for all of them."""
    uses = (getattr(policy, "uses_product", None), getattr(policy, "uses_strategies", None))
    names = zip(("products", "strategies"), catalogues, uses, strict=True)
    ignored = [name for name, catalogue, used in names if len(catalogue.ids) > 1 and used is False]
    if ignored:
        warnings.warn(
            f"{policy.name} does not look at the {' and '.join(ignored)} of this campaign: what it expects is the same "
            "for all of them. TensorUCB() learns the differences.",
            IgnoredContextWarning,
            stacklevel=4,
        )


def _write(
    store: Store,
    name: str,
    settings: Mapping[str, Any],
    parts: CampaignData,
    network: Network,
    catalogues: tuple[Catalogue, Catalogue],
    now: float,
    request_id: str | None,
) -> None:
    with store.write() as session:
        number = session.insert_campaign(name, settings, now).campaign
        session.add_users(number, network.graph.ids.tolist())
        session.put_blob(number, f"world-{network.revision:08d}", network_to_blob(network))
        for catalogue in catalogues:
            put_kept(session, number, PLURAL[catalogue.kind], catalogue)
        for kept in ("product_features", "user_features", "user_columns", "used_log"):
            put_kept(session, number, kept, getattr(parts, kept))
        put_key(session, number)
        counts = {"users": network.graph.n_nodes, "edges": network.graph.n_edges}
        session.append_event(number, "created", None, counts, now)
        if request_id is not None:
            session.put_blob(number, _CREATED_BY, request_id.encode())


def _created_by(store: Store, name: str, request_id: str | None) -> bool:
    """Whether this request has created the campaign of that name."""
    with store.read() as session:
        record = session.campaign(name)
        maker = None if record is None else session.blob(record.campaign, _CREATED_BY)
    return request_id is not None and maker == request_id.encode()


def _catalogue(kind: str, parts: CampaignData) -> Catalogue:
    """The catalogue at the start, from features by id; and costs of strategies, or values of products, by id."""
    many = PLURAL[kind]
    features = check_mapping(many, getattr(parts, many), f"a mapping of {kind} ids to features")
    what = "values" if kind == "product" else "costs"
    name = f"{kind}_{what}"
    column = None
    if getattr(parts, name) is not None:
        numbers = check_mapping(name, getattr(parts, name), f"a mapping of {kind} ids to {what}")
        strange = [entry for entry in numbers if entry not in features]
        if strange:
            raise UnknownIdError(f"names {shown(strange[0])}, which is not among the {many}.", argument=name)
        missing = [entry for entry in features if entry not in numbers]
        if missing and what == "values":
            raise InputError(f"has no value for {shown(missing[0])}; give each of the {many} one.", argument=name)
        column = [numbers.get(entry, 0.0) for entry in features]
    if not features:
        return Catalogue(kind)
    return Catalogue(kind).extended(
        list(features), list(features.values()), **{what: column}, names=parts.names.get(many)
    )


def load_campaign(
    name: str,
    *,
    storage: str | os.PathLike[str] | Store = STORAGE,
    policy: Policy | None = None,
    clock: Callable[[], float] = time.time,
    engine: Engine | None = None,
) -> Campaign:
    """Load a campaign; everything it needs is in the store, except a policy of another package.

    ``engine`` is where this process samples cascades, as in :func:`create_campaign`.

    Examples
    --------
    >>> from tensorucb.policies import HighDegree
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> create_campaign("spring", graph=graph, policy=HighDegree(), storage="sqlite:///c.db").disconnect()
    >>> with load_campaign("spring", storage="sqlite:///c.db") as campaign:
    ...     campaign.ask([1.0], 1).number
    1
    """
    check_text("name", name)
    with opened(storage, make=False, keep=True) as store:
        return Campaign(store, name, policy=policy, clock=clock, engine=engine)
