"""What a campaign is created with (`SETTINGS`) and what an ask takes (`Question`): all that is known of each argument.

Reading and checking, help texts, the campaign file's template, what a campaign keeps and "the same request" come from
here. The doors (`create_campaign`, `Campaign.ask` and `preview`, the client, the commands, the bodies over HTTP) spell
the arguments out once more, with types, for people and editors; a test holds them equal to these.

Nothing heavy is imported here, since the help of the command reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, get_args

from tensorucb.choices import Credit, Metric, Objective

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensorucb.arrays import I64
    from tensorucb.campaign._catalogue import Catalogue, Contacts, Context

OBJECTIVES = get_args(Objective)
CREDITS = get_args(Credit)
METRICS = get_args(Metric)


@dataclass(frozen=True)
class Argument:
    """What is known of a setting of a campaign or of an argument of an ask.

    ``kind`` is how a value is read (``campaign/_question.py``), ``words`` are those of a choice, and ``zero`` says
    whether 0 or an empty list is a value, which means the same as none. A campaign keeps a setting that is ``stored``
    as it is read, and may keep a default of such an argument of an ask. One of these that is a ``setting`` too always
    has a value there. All but ``request_id`` and ``proposal`` are ``compared`` when a request comes again. The template
    of a campaign file shows the ``example``, or else the default.
    """

    kind: str
    help: str
    default: Any = None
    words: tuple[str, ...] = ()
    zero: bool = False
    stored: bool = True
    setting: bool = False
    compared: bool = True
    example: str = ""


SETTINGS: dict[str, Argument] = {
    "metric": Argument(
        "choice",
        "What the campaign decides by: how many users respond, or what their responses are worth.",
        "responders",
        METRICS,
    ),
    "objective": Argument(
        "choice",
        "What the choice counts. direct: responses of followers; cascade: all who are reached.",
        "direct",
        OBJECTIVES,
    ),
    "credit": Argument("choice", "Which contacted users a purchase counts for.", "any", CREDITS),
    "window": Argument("span", "How long a response counts, such as 7d or 12h.", example="7d"),
    "timezone": Argument(
        "zone", "Zone of days, and of times that name none: Europe/Berlin; by default UTC.", example="UTC"
    ),
    "epsilon": Argument("share", "Accuracy of the choice by cascades.", 0.1),
    "ask": Argument("defaults", "Defaults of ask.", stored=False),
    "consent": Argument(
        "column",
        "The column of the table of users that says who may be contacted (yes, true, 1 ...).",
        stored=False,
        example="email_optin",
    ),
    "contact_group": Argument(
        "slug", "A group of campaigns in this store with a common contact cap.", example="spring"
    ),
    "contact_cap": Argument("cap", "The most contacts of a user, over the group: 2/7d is 2 in 7 days.", example="2/7d"),
    "seed": Argument("seed", "Sets everything random.", 0),
    "snapshot_every": Argument("count", "Rounds between snapshots of the model.", 10),
}
"""The settings of `create_campaign`: what it takes beside the name, the data, the policy and the store."""


def argument(kind: str, help: str, **more: Any) -> Any:
    """A field of `Question` with its metadata."""
    return field(metadata={"argument": Argument(kind, help, **more)})


def setting(name: str) -> Any:
    """A field of `Question` that is the campaign's setting where it is left out."""
    return field(metadata={"argument": replace(SETTINGS[name], default=None, setting=True)})


@dataclass(frozen=True)
class Question:
    """The arguments of `Campaign.ask`, read: users as graph rows, and the campaign's defaults for what was left out.

    ``fingerprint`` is a digest of each argument, to know the same request again; empty without a ``request_id``.
    """

    product: Context = argument("product", "An id of the catalogue, or features.", stored=False)
    k: int | None = argument("count", "How many users.")
    strategies: Catalogue | None = argument("strategies", "Choose among these strategies.")
    per_user: bool = argument("flag", "Whether each user gets the best strategy for them.", default=False)
    exclude: I64 | None = argument("users", "Who must not be chosen in this round.", zero=True)
    candidates: I64 | None = argument("users", "The only users who may be chosen.")
    must_include: I64 | None = argument("users", "Who has to be chosen.", zero=True)
    cooldown: float | None = argument("span", "Leave out users contacted less than this long ago.", zero=True)
    audience_rest: float | None = argument(
        "span", "Leave out users most of whose followers were addressed less than this long ago.", zero=True
    )
    costs: NDArray[np.float64] | None = argument("costs", "What each user costs in this round.", stored=False)
    budget: float | None = argument("number", "The most to spend, by the costs of users and strategies.")
    groups: NDArray[Any] | None = argument("groups", "The group of each user in this round.", stored=False)
    quotas: Mapping[Any, int] | int | None = argument("by_group", "The most users of each group.")
    minima: Mapping[Any, int] | int | None = argument("by_group", "The fewest users of each group.")
    holdout: float = argument("share", "Share of the chosen not to contact, for the lift.", default=0.0, zero=True)
    shadow: Contacts | None = argument("contacts", "Users chosen and contacted by somebody else.", stored=False)
    users: Contacts | None = argument("contacts", "Contact exactly these users.", stored=False)
    window: float | None = setting("window")
    deadline: float | None = argument(
        "moment", "When the round closes by itself: 3d from now, an ISO time (UTC) or unix seconds."
    )
    credit: str = setting("credit")
    objective: str = setting("objective")
    epsilon: float = setting("epsilon")
    request_id: str | None = argument(
        "text", "Asking again with it gives the same round.", stored=False, compared=False
    )
    proposal: str | None = argument(
        "text", "That of a preview: open this very round, or none.", stored=False, compared=False
    )
    fingerprint: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Lengths of the feature vectors of the context: of the product, the strategy if there is one, and the rest."""
        first, *rest = [int(vector.size) for vector in self.product.vectors]
        offered = None if self.strategies is None else self.strategies.features
        return [first, *rest] if offered is None else [first, int(offered.shape[1]), *rest]


ARGUMENTS: dict[str, Argument] = {each.name: each.metadata["argument"] for each in fields(Question) if each.metadata}
STORED = tuple(name for name, about in ARGUMENTS.items() if about.stored)
"""Arguments of which a campaign may keep a default."""
USER_LISTS = tuple(name for name, about in ARGUMENTS.items() if about.kind in ("users", "contacts"))
"""Arguments that name users."""


def metadata_of(name: str) -> Argument:
    """What is known of a setting or of an argument; of one that is both, as a setting."""
    return SETTINGS.get(name) or ARGUMENTS[name]


def help_of(name: str) -> str:
    """What an argument or a setting means, for the command's help and the service's documents."""
    return metadata_of(name).help
