"""Products and strategies: their catalogues, how an ask names entries of them, and the contexts they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.checks import check_array, check_id, check_mapping, check_sequence, plain, shown
from tensorucb.errors import InputError, Mention, ShapeError, UnknownIdError, argument, call
from tensorucb.graph._ids import id_array
from tensorucb.policies import Product
from tensorucb.policies._base import as_modes

if TYPE_CHECKING:
    from tensorucb.campaign._ledger import Ledger

PLURAL = {"product": "products", "strategy": "strategies"}
"""What a catalogue holds, by kind: the name of its blob, and the end of the method that adds to it."""

_SHOWN = 3


@dataclass(frozen=True)
class Catalogue:
    """Products or strategies by id: one row of features each, and what each adds to the cost of contacting a user.

    ``kind`` is ``product`` or ``strategy``; ids are in the order in which they came. Products cost nothing, but may
    have ``values``: what a response to each of them is worth. ``names`` are what people call entries, by id, where that
    is known.
    """

    kind: str
    ids: tuple[int | str, ...] = ()
    features: F64 = field(default_factory=lambda: np.empty((0, 0)))
    costs: F64 = field(default_factory=lambda: np.empty(0))
    values: F64 | None = None
    names: Mapping[int | str, str] = field(default_factory=dict)

    @cached_property
    def places(self) -> Mapping[int | str, int]:
        """The place of each entry."""
        return {entry: place for place, entry in enumerate(self.ids)}

    def index(self, entry: int | str) -> int:
        """The place of an entry."""
        place = self.places.get(entry)
        if place is None:
            raise UnknownIdError(
                f"{shown(entry)} is not in the campaign's catalogue of {len(self.ids):,}"
                f"{f', such as {self.some_names()}' if self.ids else ''}.",
                argument=self.kind,
                advice=("Add it with ", call(f"add_{PLURAL[self.kind]}"), ", or give its features."),
            )
        return place

    def some_names(self) -> str:
        """The first few ids, for messages."""
        return ", ".join(shown(entry, 40) for entry in self.ids[:_SHOWN])

    def vector(self, entry: int | str) -> F64:
        """Features of an entry."""
        return np.asarray(self.features[self.index(entry)])

    def some(self, entries: list[int | str]) -> Catalogue:
        """These entries alone, in the catalogue's order."""
        at = sorted(self.index(entry) for entry in entries)
        values = None if self.values is None else self.values[at]
        return Catalogue(self.kind, tuple(self.ids[i] for i in at), self.features[at], self.costs[at], values)

    def value(self, entry: int | str | None) -> float | None:
        """What a response to an entry is worth by the catalogue; None if it does not say."""
        place = None if entry is None else self.places.get(entry)
        return None if self.values is None or place is None else float(self.values[place])

    def extended(
        self,
        ids: Any,
        features: ArrayLike,
        costs: ArrayLike | None = None,
        values: ArrayLike | None = None,
        names: Mapping[int | str, str] | None = None,
    ) -> Catalogue:
        """The catalogue with more entries; one that is there already must come with the same features and cost.

        Its value may be another one, which counts from now on; a name that it has stays.
        """
        many = PLURAL[self.kind]
        came = id_array(ids, "ids").tolist()
        array = check_array("features", features, (len(came), "d"), hint=f"One row for each of the {len(came)} {many}.")
        each = f"One number for each of the {many}."
        prices = check_array("costs", [0.0] * len(came) if costs is None else costs, (len(came),), low=0.0, hint=each)
        if self.ids and array.shape[1] != self.features.shape[1]:
            raise ShapeError(f"{many} have {self.features.shape[1]} features here; got {array.shape[1]}.")
        if len(set(came)) < len(came):
            raise InputError(f"ids of {many} must be distinct; one comes twice.")
        known = {row: self.index(entry) for row, entry in enumerate(came) if entry in self.places}
        for row, place in known.items():
            if not np.array_equal(self.vector(came[row]), array[row]):
                raise InputError(
                    f"{self.kind} {shown(came[row])} is known with other features. Give the new one a new id."
                )
            if self.costs[place] != prices[row]:
                advice = "Change it with ", call("set_costs"), "."
                raise InputError(f"{self.kind} {shown(came[row])} is known with another cost.", advice=advice)
        worth = None if values is None else check_array("values", values, (len(came),), low=0.0, hint=each)
        new = [row for row in range(len(came)) if row not in known]
        return Catalogue(
            self.kind,
            (*self.ids, *(came[row] for row in new)),
            np.concatenate([self.features, array[new]]) if self.ids else array[new],
            np.concatenate([self.costs, prices[new]]),
            self._worth(known, new, worth),
            {**(names or {}), **self.names},
        )

    def _worth(self, known: Mapping[int, int], new: list[int], values: F64 | None) -> F64 | None:
        """The values with those that came: rows ``known`` have them at their places, rows ``new`` join."""
        if values is None:
            if self.values is not None and new:
                raise InputError("have values here, so new ones need them; got none.", argument=PLURAL[self.kind])
            return self.values
        if self.values is None and self.ids:
            raise InputError("have no values here, so new ones cannot have them.", argument=PLURAL[self.kind])
        worth = np.concatenate([np.empty(0) if self.values is None else self.values, values[new]])
        worth[list(known.values())] = values[list(known)]
        return worth

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything, as JSON and arrays."""
        names = [self.names.get(entry) for entry in self.ids] if self.names else []
        values = {} if self.values is None else {"values": self.values}
        settings = {"kind": self.kind, "ids": list(self.ids), "names": names}
        return settings, {"features": self.features, "costs": self.costs, **values}

    @classmethod
    def from_arrays(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Catalogue:
        """What :meth:`to_arrays` gave."""
        ids = tuple(settings["ids"])
        names = {entry: name for entry, name in zip(ids, settings["names"], strict=False) if name is not None}
        return cls(settings["kind"], ids, **arrays, names=names)


def by_text(entries: Iterable[int | str]) -> dict[str, int | str]:
    """Ids of a catalogue by how they are typed, where some are numbers and some are text; ``007`` is never 7."""
    ids = sorted(entries, key=lambda entry: isinstance(entry, str))  # of 7 and "7", the text is what was typed
    return {str(entry): entry for entry in ids}


@dataclass(frozen=True)
class Context:
    """What an ask is about: ids, where they were given by id, and the feature vectors that policies see.

    ``vectors`` are of the product, then the strategy, then the rest. ``cost`` is what a strategy given by id adds.
    """

    product: int | str | None
    strategy: int | str | None
    vectors: tuple[F64, ...]
    cost: float = 0.0

    def sizes(self, strategies: Catalogue | None) -> list[int]:
        """Lengths of the vectors: of the product, the strategy if there is one, and the rest."""
        first, *rest = [int(vector.size) for vector in self.vectors]
        return [first, *rest] if strategies is None else [first, strategies.features.shape[1], *rest]


def read_context(raw_product: Any, products: Catalogue, strategies: Catalogue) -> Context:
    """A product as `ask` takes it: an id, a feature vector, or a sequence of such parts; None without a catalogue.

    The first part of a sequence is the product, the second the strategy. Text is always an id. A list or tuple of
    nothing but numbers is one feature vector; next to a text or a vector, a whole number is an id.
    """
    if raw_product is None:
        if products.ids:
            raise InputError(
                f"is missing: name one of the campaign's {len(products.ids):,} products, such as "
                f"{products.some_names()}, or give its features.",
                argument="product",
            )
        # Without a catalogue all rounds are about the same thing.
        return Context(None, None, (np.ones(1),))
    if _is_id(raw_product):
        product = check_id("product", raw_product)
        return Context(product, None, as_modes(products.vector(product)))
    parts = list(raw_product) if isinstance(raw_product, list | tuple) else []
    if not any(map(_is_id, parts)) or all(isinstance(plain(part), int | float) for part in parts):
        if (
            len(parts) == 2
            and all(map(_is_id, parts))
            and parts[0] in products.places
            and parts[1] in strategies.places
        ):
            raise InputError(
                f"{shown(tuple(parts))} may mean product {parts[0]} with strategy {parts[1]}, or two features.",
                argument="product",
                advice=(
                    f"For the ids give {parts[0]} and, as ",
                    argument("strategies"),
                    f", [{parts[1]}]; for features give decimals such as {float(parts[0])}.",
                ),
            )
        return Context(None, None, as_modes(raw_product))
    first, *rest = parts
    strategy = rest.pop(0) if rest and _is_id(rest[0]) else None
    for part in rest:
        if _is_id(part):
            raise InputError(
                f"{shown(raw_product)} has the id {shown(part)} in place {parts.index(part) + 1}.",
                argument="product",
                advice="Only the product (first) and the strategy (second) may be given by id; give features there.",
            )
    product_id = check_id("product", first) if _is_id(first) else None
    modes = [first if product_id is None else products.vector(product_id), *rest]
    hint = "Each part is an id or a vector of features."
    vectors = [check_array("a part of the product", mode, ("d",), hint=hint) for mode in modes]
    context = Context(product_id, None, tuple(vectors))
    return context if strategy is None else with_strategy(context, strategy, strategies)


def with_strategy(context: Context, strategy: Any, catalogue: Catalogue) -> Context:
    """The context with a strategy of the catalogue in the second place."""
    strategy_id = check_id("strategy", strategy)
    first, *rest = context.vectors
    return Context(
        context.product,
        strategy_id,
        (first, catalogue.vector(strategy_id), *rest),
        float(catalogue.costs[catalogue.index(strategy_id)]),
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


def read_strategies(strategies: Any, catalogue: Catalogue) -> Catalogue | None:
    """The strategies that an ask may use, in the catalogue's order: ``"all"``, or a sequence of ids; None: none."""
    if strategies is None:
        return None
    if isinstance(strategies, str) and strategies != "all":
        raise InputError(
            f"must be 'all' or a sequence of ids; got {shown(strategies)}. Write [{shown(strategies)}].",
            argument="strategies",
        )
    ids = list(catalogue.ids)
    if not isinstance(strategies, str):
        ids = [check_id("strategies", entry) for entry in check_sequence("strategies", strategies, "'all' or ids")]
    if not ids:
        said = "names none" if catalogue.ids else "are asked for, but the campaign has none"
        advice = "Name some of its catalogue, or add them with ", call("add_strategies"), "."
        raise InputError(f"{said}.", argument="strategies", advice=advice)
    if len(set(ids)) < len(ids):
        raise InputError("names one twice; name each once.", argument="strategies")
    return catalogue.some(ids)


@dataclass(frozen=True)
class Contacts:
    """Rows of users whom a caller lists, and the places of the strategies that they get, if the caller says which."""

    rows: I64
    places: tuple[int, ...] | None


def read_contacts(name: str, raw_contacts: Any, offered: Catalogue | None, network: Network) -> Contacts:
    """Read a list of users: ``shadow``, whom others contacted, or ``users``, who are to be contacted."""
    if not isinstance(raw_contacts, Mapping):
        if name == "shadow" and offered is not None and len(offered.ids) > 1:
            raise InputError(
                "must say who got which strategy, a mapping such as {'ann': 'email'}, since there are "
                f"{len(offered.ids)} strategies. If all users got the same one, name that one alone.",
                argument="shadow",
            )
        return Contacts(network.rows(name, raw_contacts), None)
    if offered is None:
        advice = "Name these strategies in ", argument("strategies"), " as well."
        raise InputError("says who got which strategy.", argument=name, advice=advice)
    named = check_mapping(name, raw_contacts, "a mapping of users to strategies")
    for user, strategy in named.items():
        if check_id(f"the strategy of {shown(user)} in {name}", strategy) not in offered.places:
            raise UnknownIdError(
                f"gives {shown(user)} the strategy {shown(strategy)}.",
                argument=name,
                advice=("Name it in ", argument("strategies"), " as well."),
            )
    return Contacts(network.rows(name, list(named)), tuple(offered.index(strategy) for strategy in named.values()))


def contexts(vectors: Sequence[F64], features: F64 | None) -> list[Product]:
    """The context of each strategy, as policies take it; without strategies one. The strategy always stands second."""
    first, *rest = vectors
    modes = [[first, *rest]] if features is None else [[first, row, *rest] for row in features]
    return [parts[0] if len(parts) == 1 else parts for parts in modes]


def check_fits(ledger: Ledger, kind: str, size: int) -> None:
    """Refuse entries of a catalogue that no round of this campaign could use."""
    round_sizes = ledger.sizes()
    if round_sizes is None:
        return
    if kind == "strategy" and len(round_sizes) < 2:
        raise ShapeError(
            "the rounds of this campaign had no strategy, and no policy can learn from both kinds of rounds.",
            advice=("Create another campaign; ", call("import_history"), " brings the past along."),
        )
    wanted = round_sizes[list(PLURAL).index(kind)]
    if size != wanted:
        raise ShapeError(
            f"this {kind} has {size} features, but those of the rounds of this campaign have {wanted}. "
            "Give it as many, or create another campaign."
        )


def check_sizes(
    ledger: Ledger, catalogues: tuple[Catalogue, Catalogue], sizes: Sequence[int], *, chooses: bool = False
) -> None:
    """Refuse a context of other sizes than those before: no policy could learn from both.

    Only an ask ``chooses`` a strategy; elsewhere it is named.
    """
    wanted_sizes, where = ledger.sizes(), "the rounds of this campaign"
    held = [catalogue.features.shape[1] if catalogue.ids else None for catalogue in catalogues]
    if held[1] is not None and len(sizes) < 2 and (wanted_sizes is None or len(wanted_sizes) > 1):
        advice: tuple[str | Mention, ...] = "Give ", argument("strategies", "all"), ", or some of their ids."
        if not chooses:
            advice = (f"Name it with the product, as in ('PRODUCT', {shown(catalogues[1].ids[0])}).",)
        raise ShapeError("this campaign has strategies, so a round needs one.", advice=advice)
    if wanted_sizes is None:
        where = "the catalogue"
        known = dict(enumerate(held))
        wanted_sizes = [known.get(place) or size for place, size in enumerate(sizes)]
    if list(sizes) != wanted_sizes:
        told = [" + ".join(map(str, values)) for values in (sizes, wanted_sizes)]
        raise ShapeError(
            f"this product has {told[0]} features, but the products of {where} have {told[1]}"
            f"{' (a strategy and whatever else is given count as well)' if len(wanted_sizes) + len(sizes) > 2 else ''}"
            ". Give it as many, or create another campaign."
        )
