"""`Client`: the door to a service; and `RemoteCampaign`: what `Campaign` offers, asked of it."""

from __future__ import annotations

import functools
import inspect
import io
import json
import os
import re
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tensorucb.campaign import (
    Ask,
    Campaign,
    CampaignInfo,
    CampaignProgress,
    CampaignStatus,
    Explanation,
    ForgetReport,
    HistoryReport,
    Lift,
    LiftPlan,
    Notice,
    OptReport,
    Preview,
    RoundExplanation,
    TellLogReport,
    TellReport,
)
from tensorucb.campaign._network import as_consent
from tensorucb.campaign._round import named_round
from tensorucb.campaign._tables import ids_of
from tensorucb.checks import check_choice, check_flag, check_id, check_path, check_text, refusal
from tensorucb.client._http import Connection, as_json, record, upload_of
from tensorucb.errors import ServiceError
from tensorucb.files import staged
from tensorucb.moments import Duration
from tensorucb.reports import Tolerance

P = ParamSpec("P")
T = TypeVar("T")
Given = dict[str, Any]

_MANIFEST = "manifest.json"
_TABLES = ("edges", "actions", "products", "users", "strategies")
_NO_SETTINGS = ("self", "key", "request_id")


def request_key(request_id: str | None) -> str:
    """The key of a call that may be sent again; a new one without a ``request_id``."""
    if request_id is None:
        return uuid.uuid4().hex
    if not re.fullmatch("[!-~]{1,200}", check_text("request_id", request_id)):
        raise refusal("request_id", "1 to 200 visible ASCII characters without spaces", request_id)
    return request_id


def _same_as(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[[Any, Given], T]], Callable[Concatenate[Any, P], T]]:
    """Makes a method take what the campaign's own one takes; it gets all of it by name, defaults included."""
    signature = inspect.signature(method)

    def decorate(send: Callable[[Any, Given], T]) -> Callable[Concatenate[Any, P], T]:
        @functools.wraps(send)
        def call(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
            bound = signature.bind(self, *args, **named)
            bound.apply_defaults()
            return send(self, {name: value for name, value in bound.arguments.items() if name != "self"})

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


class RemoteCampaign:
    """A campaign on a service. Get one from :meth:`Client.campaign` or :meth:`Client.create_campaign`.

    Methods take and return the same as those of :class:`~tensorucb.campaign.Campaign`, and raise the same errors.
    Responses are sent as they are if they are a file, as rows if they are few or are given as rows, and as Parquet if
    they are a long frame or long columns.

    Examples
    --------
    >>> from tensorucb.client import Client
    >>> with Client(url) as client:
    ...     campaign = client.campaign("spring")
    ...     ask = campaign.ask("tea", k=2)
    ...     campaign.close(ask.id).status
    'closed'
    """

    def __init__(self, connection: Connection, name: str, *, report: tuple[str, ...] = ()) -> None:
        self._service = connection.below("campaigns", name)
        self.name = name
        self.report = report

    def status(self) -> CampaignStatus:
        """Numbers of users, products and rounds."""
        return record(CampaignStatus, self._service.get())

    def progress(
        self,
        rounds: int | None = None,
        *,
        product: int | str | None = None,
        strategy: int | str | None = None,
        since: float | datetime | str | None = None,
        until: float | datetime | str | None = None,
        segment: str | None = None,
    ) -> CampaignProgress:
        """How it is going; ``rounds`` is how many of the last rounds it lists, by default 200."""
        return record(CampaignProgress, self._service.get("progress", **_fields(locals())))

    def attention(self) -> tuple[Notice, ...]:
        """What needs a person today, the most urgent first."""
        return tuple(record(Notice, item) for item in self._service.get("attention"))

    def lift(self) -> Lift:
        """Compare followers of contacted and of held-out users."""
        return record(Lift, self._service.get("lift"))

    @_same_as(Campaign.plan_lift)
    def plan_lift(self, given: Given) -> LiftPlan:
        """Say how many rounds with a hold-out show which effect of contact; leave out what is asked for."""
        return record(LiftPlan, self._service.get("lift", "plan", **_fields(given)))

    def products(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's products."""
        return tuple(item["id"] for item in self._service.pages("products"))

    def strategies(self) -> tuple[int | str, ...]:
        """Ids of the catalogue's strategies."""
        return tuple(item["id"] for item in self._service.pages("strategies"))

    def names(self, table: str) -> dict[int | str, str]:
        """What ``"products"``, ``"strategies"`` or ``"users"`` are called, by id; who has no name is left out."""
        check_choice("table", table, ("products", "strategies", "users"))
        return {item["id"]: item["name"] for item in self._service.pages(table) if item["name"] is not None}

    def segments(self) -> tuple[str, ...]:
        """Columns of the table of users that :meth:`progress` can split by."""
        return tuple(self._service.get()["segments"])

    def users(self, search: str | None = None) -> tuple[int | str, ...]:
        """Ids of the users, or of those whose id begins with ``search`` or whose name holds it."""
        return tuple(item["id"] for item in self._service.pages("users", search=search))

    def rounds(self, status: str | None = None) -> tuple[Ask, ...]:
        """All rounds by number, imported history included; or those that are open, closed or cancelled."""
        newest_first = [self._ask(item) for item in self._service.pages("rounds", status=status)]
        return tuple(reversed(newest_first))

    def round(self, round_id: str | int | Ask) -> Ask:
        """One round, by its id or its number."""
        return self._ask(self._service.get("rounds", _round(round_id)))

    @_same_as(Campaign.ask)
    def ask(self, given: Given) -> Ask:
        """Open a round, as :meth:`Campaign.ask <tensorucb.campaign.Campaign.ask>` does.

        ``request_id`` is the request's key: asking again with the same one returns the same round, also from another
        client.
        """
        return self._ask(self._service.post(_fields(given), "rounds", key=request_key(given["request_id"])))

    @_same_as(Campaign.preview)
    def preview(self, given: Given) -> Preview:
        """Say what :meth:`ask` with the same arguments would choose now, and why; opens nothing.

        With ``users``, these are judged beside the campaign's own choice.
        """
        return record(Preview, self._service.post(_fields(given), "preview"))

    def explain(self, round_id: str | int | Ask, user: int | str | None = None) -> Explanation | RoundExplanation:
        """Say why a user was or was not chosen in a round; without a user, explain all seeds."""
        asked = None if user is None else check_id("user", user)
        document = self._service.get("rounds", _round(round_id), "explanation", user=asked)
        return record(RoundExplanation, document) if "seeds" in document else record(Explanation, document)

    @_same_as(Campaign.tell)
    def tell(self, given: Given) -> TellReport:
        """Store responses of a round, durably; again, late or in any order."""
        return record(TellReport, self._upload(given, "rounds", _round(given.pop("round_id")), "responses"))

    @_same_as(Campaign.tell_log)
    def tell_log(self, given: Given) -> TellLogReport:
        """Store the rows of a log that belong to rounds, such as all purchases since yesterday."""
        return record(TellLogReport, self._upload(given, "responses"))

    @_same_as(Campaign.import_history)
    def import_history(self, given: Given) -> HistoryReport:
        """Learn from past campaigns or from a log of purchases, before everything else in the order of learning."""
        return record(HistoryReport, self._upload(given, "history"))

    def close(self, round_id: str | int | Ask, *, early: bool = False) -> Ask:
        """Close a round: silence becomes "no", and the model learns it; ``early`` if most of its window is to come."""
        return self._ask(self._service.post({"early": check_flag("early", early)}, "rounds", _round(round_id), "close"))

    def cancel(self, round_id: str | int | Ask) -> Ask:
        """Cancel an open round: nobody counts as contacted, nothing is learned."""
        return self._ask(self._service.post(None, "rounds", _round(round_id), "cancel"))

    def expire(self) -> list[str]:
        """Close the rounds whose deadline has passed; returns their ids. The service does so by itself."""
        return list(self._service.post(None, "expire")["closed"])

    @_same_as(Campaign.add_products)
    def add_products(self, given: Given) -> None:
        """Add products to the catalogue: one row of numbers each, and what a response to each is worth."""
        self._service.post(_fields(given), "products")

    @_same_as(Campaign.add_strategies)
    def add_strategies(self, given: Given) -> None:
        """Add strategies to the catalogue: one row of features each, and what each adds to the cost of a contact."""
        self._service.post(_fields(given), "strategies")

    @_same_as(Campaign.add_users)
    def add_users(self, given: Given) -> None:
        """Add users (possibly none) and edges ``sources → targets`` between any users."""
        if given["consent"] is not None:
            given["consent"] = as_consent("consent", given["consent"])
        self._service.post(_fields(given), "users")

    def set_costs(self, costs: Mapping[int | str, float]) -> None:
        """Change what strategies cost from now on, by id; past rounds keep what they have spent."""
        self._service.post({"costs": as_json("costs", costs)}, "strategies", "costs")

    def opt_out(self, users: Any, *, everywhere: bool = False) -> OptReport:
        """Never contact these people again, in this campaign or in all campaigns of the store."""
        return self._opt(users, everywhere, "opt-outs")

    def opt_in(self, users: Any, *, everywhere: bool = False) -> OptReport:
        """Undo :meth:`opt_out`; in a campaign with consent this is consent as well."""
        return self._opt(users, everywhere, "opt-ins")

    def _opt(self, users: Any, everywhere: bool, place: str) -> OptReport:
        body = {"users": as_json("users", ids_of(users)), "everywhere": everywhere}
        return record(OptReport, self._service.post(body, place))

    def opted_out(self) -> tuple[int | str, ...]:
        """Ids of the users who opted out."""
        return tuple(item["id"] for item in self._service.pages("opt-outs"))

    def why_not(self, user: int | str) -> str | None:
        """Why a user may not be contacted now, under the campaign's defaults; None if they may."""
        reason: str | None = self._service.get("users", check_id("user", user))["why_not"]
        return reason

    def forget(self, user: int | str) -> ForgetReport:
        """Remove a person from the log and the model, and prove it by replay; needs the role ``admin``."""
        return record(ForgetReport, self._service.post({"user": check_id("user", user)}, "forget"))

    def set_webhook(self, url: str, secret: str | None = None) -> str:
        """Tell another system of every round that closes from now on; returns the secret. Needs the role ``admin``."""
        answer = self._service.call("PUT", "webhook", json={"url": check_text("url", url), "secret": secret})
        return str(answer["secret"])

    def remove_webhook(self) -> None:
        """Tell no other system any more; needs the role ``admin``."""
        self._service.send("DELETE", "webhook")

    def export(self, directory: str | os.PathLike[str], format: str = "parquet") -> list[Path]:
        """Write the campaign as tables to a directory; the last file is ``manifest.json``."""
        check_choice("format", format, ("parquet", "csv"))
        check_path("directory", directory)
        answer = self._service.send("GET", "export", params={"format": format})
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive, staged(directory, _MANIFEST) as folder:
            names = archive.namelist()
            if any(name != Path(name).name or name.startswith(".") for name in names) or _MANIFEST not in names:
                raise ServiceError("the service's export holds names that are no plain files, or no manifest.")
            archive.extractall(folder)
        ordered = [*(name for name in names if name != _MANIFEST), _MANIFEST]
        return [Path(directory) / name for name in ordered]

    def _upload(self, given: Given, *path: Any) -> Any:
        """The answer to rows; the other arguments, as parameters of the request, say how they are read."""
        responses, columns = given.pop("responses"), given.pop("columns") or {}
        tolerance = Tolerance.of(given.pop("strict"), given.pop("max_left_out"))
        named = [f"{field}:{column}" for field, column in columns.items()]
        params = {**_fields(given), "strict": tolerance.strict, "max_left_out": tolerance.most, "column": named}
        with upload_of("responses", responses, short_as_text=True) as (_, content, kind):
            headers = {"Content-Type": kind}
            return self._service.call("POST", *path, params=params, content=content, headers=headers)

    def _ask(self, document: Any) -> Ask:
        return record(Ask, document).of(self)

    def __repr__(self) -> str:
        return f"RemoteCampaign({self.name!r}, {self._service.url})"


def _round(round_id: str | int | Ask) -> str | int:
    return check_id("round_id", named_round(round_id))


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a method as JSON, without those that were left out; the request's id travels as its key."""
    apart = ("self", "request_id")
    fields = {name: value for name, value in given.items() if name not in apart and value is not None}
    for name in ("users", "shadow"):
        if isinstance(fields.get(name), Mapping):
            fields[name] = [{"user": user, "strategy": strategy} for user, strategy in fields[name].items()]
    return {name: as_json(name, value) for name, value in fields.items()}


# -- the service --


@dataclass(frozen=True)
class Session:
    """Who the service takes us for.

    Attributes
    ----------
    name, role
        The token's name, and what it may do: ``read``, ``operate`` or ``admin``; None for a stranger.
    read_only
        Whether the service refuses all writing calls.
    version
        The service's release; None for a stranger.

    Examples
    --------
    >>> from tensorucb.client import Client
    >>> with Client(url) as client:  # a service on this machine, without tokens
    ...     client.session().role
    'admin'
    """

    name: str | None
    role: str | None
    read_only: bool
    version: str | None


class Client:
    """A service and its campaigns, over HTTP.

    Parameters
    ----------
    url
        Its address, such as ``http://127.0.0.1:8000``.
    token
        What ``tensorucb token add`` printed; a service on loopback may need none.
    timeout
        Seconds to wait for an answer, for each attempt.

    Notes
    -----
    A request is sent again, for about 20 s, if the connection is lost or the service says that it is busy. Nothing is
    done twice: a new round or campaign is found by a key that stays the same, responses that came before are counted as
    duplicates, and what has ended stays so. Errors are the library's own,
    with the service's words; :class:`~tensorucb.errors.ServiceError` is about the service itself. One client may be
    used by several threads.

    Examples
    --------
    >>> with Client(url) as client:
    ...     [each.name for each in client.campaigns()]
    ['spring']
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 120.0) -> None:
        self._connection = Connection(url, token, timeout)

    def session(self) -> Session:
        """Who the service takes us for, and its release."""
        return record(Session, self._connection.get("session"))

    def campaigns(self) -> list[CampaignInfo]:
        """The campaigns, oldest first."""
        return [record(CampaignInfo, item) for item in self._connection.pages("campaigns")]

    def campaign(self, name: str) -> RemoteCampaign:
        """The campaign of this name; an error if there is none."""
        self._connection.get("campaigns", check_text("name", name))
        return RemoteCampaign(self._connection, name)

    def create_campaign(
        self,
        name: str,
        *,
        edges: Any,
        actions: Any = None,
        products: Any = None,
        users: Any = None,
        strategies: Any = None,
        columns: Mapping[str, Mapping[str, str]] | None = None,
        kinds: Mapping[str, Mapping[str, str]] | None = None,
        consent: str | None = None,
        id_type: str | None = None,
        timezone: str | None = None,
        strict: bool | None = None,
        max_left_out: float | None = None,
        policy: str | None = None,
        policy_settings: Mapping[str, Any] | None = None,
        metric: str | None = None,
        objective: str | None = None,
        credit: str | None = None,
        window: Duration | None = None,
        epsilon: float | None = None,
        ask: Mapping[str, Any] | None = None,
        contact_group: str | None = None,
        contact_cap: str | None = None,
        seed: int | None = None,
        snapshot_every: int | None = None,
        request_id: str | None = None,
    ) -> RemoteCampaign:
        """Create a campaign from tables; needs the role ``admin``.

        Parameters
        ----------
        name
            How it is called.
        edges, actions, products, users, strategies
            Paths of .csv, .ndjson or .parquet files, or polars, pandas or Arrow frames, with the columns that
            :func:`~tensorucb.campaign.read_campaign_data` wants; all but ``edges`` may be left out.
        columns, kinds, consent, id_type, timezone, strict, max_left_out
            As in :func:`~tensorucb.campaign.read_campaign_data`.
        policy, policy_settings
            The name of a policy of this package, and its arguments.
        metric, objective, credit, window, epsilon, ask, contact_group, contact_cap, seed, snapshot_every
            As in :func:`~tensorucb.campaign.create_campaign`.
        request_id
            Creating again with the same one, the same tables and the same settings finds the same campaign.

        Returns
        -------
        RemoteCampaign
            Its ``report`` says, a line each, what was used and what was left out.
        """
        check_text("name", name)
        key = request_key(request_id)
        arguments = {name: value for name, value in locals().items() if name not in _NO_SETTINGS and value is not None}
        tables = {table: arguments.pop(table) for table in _TABLES if table in arguments}
        settings = json.dumps({key: as_json(key, value) for key, value in arguments.items()})
        with ExitStack() as opened:
            files = {table: opened.enter_context(upload_of(table, rows)) for table, rows in tables.items()}
            made = self._connection.call("POST", "campaigns", key=key, files=files, data={"settings": settings})
        return RemoteCampaign(self._connection, name, report=tuple(made["report"]))

    def delete_campaign(self, name: str) -> None:
        """Delete a campaign with its users, rounds, responses and log; needs the role ``admin``, cannot be undone."""
        self._connection.send("DELETE", "campaigns", check_text("name", name))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"
