"""``tensorucb serve`` and ``tensorucb token``: the service, and who may use it."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tensorucb.cli import _options as opt
from tensorucb.cli._interrupt import ending_in_order
from tensorucb.cli._options import STORAGE, WHERE, typed
from tensorucb.cli._output import Answer, Remark, Table, count, moment, say, shown
from tensorucb.errors import MissingExtraError

if TYPE_CHECKING:
    from tensorucb.service import ServiceSettings

Storage = Annotated[str, Argument(help=WHERE, metavar="STORAGE", envvar="TENSORUCB_STORAGE")]
TokenName = Annotated[
    str, Argument(help="Whose token it is, such as ann or shop-system.", metavar="NAME", callback=typed)
]
_NEEDED = ("fastapi", "httptools", "uvicorn", "uvloop", "multipart", "prometheus_client")
_LEVELS = ("debug", "info", "warning", "error")
_ROLES = {
    "read": "sees everything but the ids of users",
    "operate": "also asks, tells and closes",
    "admin": "also creates and deletes campaigns",
}

token = opt.Commands("Make, list and revoke the tokens of the service.")


def serve(
    storage: Storage = STORAGE,
    host: str = Option(
        "127.0.0.1", help="The address to listen on; another than this machine's needs tokens.", metavar="HOST"
    ),
    port: int = Option(8000, min=0, max=65535, help="The port to listen on; 0 is any free one."),
    read_only: bool = Option(False, help="Show campaigns, and change nothing."),
    allow_host: list[str] | None = Option(
        None, help="A name by which browsers address the service, such as that of a proxy. Repeatable.", metavar="HOST"
    ),
    workers: int = Option(1, min=1, max=256, help="Processes; more than one needs PostgreSQL."),
    log_level: str = Option("info", help="Write logs from this level on.", metavar="|".join(_LEVELS)),
    engine: opt.EngineName = "local",
    address: opt.Address = None,
) -> None:
    """Serve campaigns over HTTP: a page for people, an API for other systems.

    The page is at the address that is printed, the API's description at /api/docs. Logs are lines of JSON on stderr.
    """
    from tensorucb.checks import check_choice

    check_choice("--log-level", log_level, _LEVELS)
    check_extra()
    from tensorucb.service import ServiceSettings, run

    settings = ServiceSettings(
        storage, host=host, port=port, read_only=read_only, hosts=tuple(map(typed, allow_host or ())), workers=workers
    )
    here = sys.stdout  # which an engine takes from its own reports

    def started(address: str) -> None:
        with redirect_stdout(here):
            _greet(settings, address)

    with opt.opened_engine(engine, address) as where, ending_in_order():
        run(settings, engine=where, log_level=log_level, started=started)
    say("\nStopped. Requests that were running are finished; campaigns are as the last answers said.")


def check_extra() -> None:
    """Refuse to go on without the packages that the service needs."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the service needs {missing[0]}: install all of it with `pip install 'tensorucb[service]'`."
        )


def _greet(settings: ServiceSettings, address: str) -> None:
    from tensorucb.service._app import check_access
    from tensorucb.store._address import masked

    tokens = check_access(settings)
    say(f"Campaigns of {masked(settings.storage)} are served at {address}")
    if tokens:
        guard = f"{count(tokens, 'token')} can log in; nobody else sees anything."
    else:
        command = f"tensorucb token add {masked(settings.storage)} NAME"
        guard = f"Everybody on this machine may do everything; nobody else can connect. `{command}` changes that."
    say(f"  {guard}")
    if settings.read_only:
        say("  Read-only: nothing can be changed.")
    if not settings.local:
        say("  The connection is not encrypted: put a proxy with TLS in front of it.")
    say(f"  API: {address}/api/docs")
    say("  Press Ctrl-C to stop.", flush=True)


@token.add("add")
def add(
    storage: Storage,
    name: TokenName,
    role: str = Option(
        "read", help="; ".join(f"{role} {what}" for role, what in _ROLES.items()) + ".", metavar="|".join(_ROLES)
    ),
) -> Answer:
    """Make a token and print it, this once."""
    from tensorucb.checks import check_choice, check_text
    from tensorucb.service._tokens import add_token
    from tensorucb.store import open_store

    # Before a store is made for it.
    check_text("NAME", name, longest=100)
    check_choice("--role", role, _ROLES)
    with open_store(storage) as store:
        made = add_token(store, name, role)
    remark = f"This is the token of {shown(name)}, role {role}. Keep it safe: it is not shown again."
    return Answer({"name": name, "role": role, "token": made}, made, Remark(remark))


@token.add("list")
def list_(storage: Storage = STORAGE) -> Answer:
    """List the names, roles and dates of all tokens."""
    from tensorucb.store import open_store

    with open_store(storage, create=False) as store, store.read() as session:
        records = session.tokens()
    columns = ("Name", "Role", "Made (UTC)")
    rows = [(shown(r.name), r.role, moment(r.created)) for r in records]
    none = "There are no tokens. The service listens on this machine only, and everybody there may do everything."
    return Answer(
        [{"name": r.name, "role": r.role, "created": r.created} for r in records],
        Table(columns, rows, words=columns) if rows else none,
    )


@token.add("revoke")
def revoke(storage: Storage, name: TokenName) -> Answer:
    """Revoke a token: a running service refuses it within a second."""
    from tensorucb.store import open_store

    with open_store(storage, create=False) as store, store.write() as session:
        session.delete_token(name)
        left = len(session.tokens())
    said = f"Token {shown(name)} is revoked; {count(left, 'token')} left."
    open_again = "Without tokens everybody on the service's machine may do everything."
    return Answer({"revoked": name, "tokens": left}, said, () if left else open_again)
