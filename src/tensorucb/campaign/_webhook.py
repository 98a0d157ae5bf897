"""A webhook: another system is told of each round that closes, by a signed request that is sent until it is taken.

What is still to be sent follows from the log and from a list of rounds that are done, which lies beside it.
Before each attempt the store notes when the next one may follow, so that several processes do not send the same thing
at once, and one that is killed leaves it to another. A receiver may therefore get a delivery twice, with the same id.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

from tensorucb import __version__
from tensorucb.campaign._documents import from_json, to_json
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._round import Round
from tensorucb.checks import check_text, refusal
from tensorucb.files import pack_state, unpack_state

WEBHOOK = "webhook"
"""The blob with the address, the secret, and how far the deliveries are."""

_ATTEMPTS = 8
_FIRST_WAIT = 5.0  # seconds to the second attempt; it doubles with each one, so that all take about ten minutes
_PATIENCE = 10.0  # seconds that the receiver may take
_LEASE = _PATIENCE + 5.0  # seconds for which a process that sends keeps the others from it, at least
_REASON = 200  # characters of an error that are kept
_URL = re.compile(r"https?://([^\s\0-\x1f\x7f/@?#:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s\0-\x1f\x7f]*)?")
_SECRET = re.compile("whsec_([A-Za-z0-9+/]{4}){5,}[A-Za-z0-9+/]{2,4}={0,2}")


@dataclass(frozen=True)
class Webhook:
    """Where a campaign tells of rounds that close, and how far it is.

    Attributes
    ----------
    url
        The address that requests are sent to.
    delivered, pending
        How many closed rounds it was told of, and how many are still to be told.
    failed
        How many were given up, after eight attempts each.
    error
        Why the last attempt failed; None if it did not.
    """

    url: str
    delivered: int
    pending: int
    failed: int
    error: str | None


@dataclass
class _Deliveries:
    """A webhook as the store keeps it: where to send, which rounds are ``done``, and how the one that is due goes."""

    url: str
    secret: str
    done: list[int]
    delivered: int = 0
    failed: int = 0
    attempts: int = 0  # at the round that is due
    next: float = 0.0  # when the next attempt may follow
    error: str | None = None

    def pending(self, view: View) -> list[Round]:
        """Closed rounds that nobody was told of; history that is imported was never open."""
        done = set(self.done)
        closed = [record for record in view.rounds() if record.status == "closed" and record.number not in done]
        return [record for record in closed if record.kind != "history"]


def set_webhook(handle: Handle, url: str, secret: str | None) -> str:
    """Tell this address of every round that closes from now on; returns the secret."""
    if not _URL.fullmatch(check_text("url", url)):
        raise refusal("url", "an address such as https://shop.example/rounds, without a password", url)
    if secret is None:
        secret = f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"
    elif not isinstance(secret, str) or not _SECRET.fullmatch(secret):
        raise refusal("secret", "'whsec_' and at least 16 bytes in base64, or None for a new one", "…")
    with handle.write() as view:
        done = [record.number for record in view.rounds() if record.status == "closed"]
        _put(view, _Deliveries(url, secret, done))
    return secret


def remove_webhook(handle: Handle) -> None:
    """Tell nobody any more."""
    with handle.write() as view:
        view.session.delete_blobs(view.number, [WEBHOOK])


def webhook_of(view: View) -> Webhook | None:
    """How far the deliveries are; None if the campaign has no webhook."""
    hook = _read(view)
    if hook is None:
        return None
    return Webhook(hook.url, hook.delivered, len(hook.pending(view)), hook.failed, hook.error)


def deliver(handle: Handle) -> int:
    """Send what is due, the oldest round first, until an attempt fails; returns how many were taken."""
    taken = 0
    while True:
        with handle.read() as view:
            if _due(view) is None:
                return taken
        with handle.write() as view:
            due = _due(view)
            if due is None:
                return taken
            hook, record = due
            wait = _FIRST_WAIT * 2.0**hook.attempts
            hook.next = handle.clock() + max(wait, _LEASE)
            hook.attempts += 1
            _put(view, hook)
        error = _send(hook.url, hook.secret, record.id, _document(handle, record), handle.clock())
        with handle.write() as view:
            _note(view, hook, record, error, handle.clock() + wait)
        if error is not None:
            return taken
        taken += 1


def _due(view: View) -> tuple[_Deliveries, Round] | None:
    """The webhook, and the round that is to be told next; None if there is none, or if its time has not come."""
    hook = _read(view)
    pending = [] if hook is None or view.handle.clock() < hook.next else hook.pending(view)
    return None if hook is None or not pending else (hook, pending[0])


def _note(view: View, sent: _Deliveries, record: Round, error: str | None, following: float) -> None:
    """Note how an attempt went; ``sent`` is the webhook that it was for, ``following`` when the next one may follow.

    Nothing is noted of a webhook that was removed or set anew meanwhile, or of a round that another process has done.
    """
    hook = _read(view)
    if hook is None or (hook.url, hook.secret) != (sent.url, sent.secret) or record.number in hook.done:
        return
    hook.error = error
    hook.next = following
    if error is None or hook.attempts >= _ATTEMPTS:
        hook.done.append(record.number)
        hook.delivered += error is None
        hook.failed += error is not None
        hook.attempts = 0
        hook.next = 0.0
    _put(view, hook)


def _read(view: View) -> _Deliveries | None:
    data = view.session.blob(view.number, WEBHOOK)
    if data is None:
        return None
    return from_json(_Deliveries, unpack_state(data, WEBHOOK, "the webhook of the campaign")[0])


def _put(view: View, hook: _Deliveries) -> None:
    view.session.put_blob(view.number, WEBHOOK, pack_state(WEBHOOK, to_json(hook), {}))


def _document(handle: Handle, record: Round) -> bytes:
    """What is told of a round: nothing that names a person."""
    document = {
        "type": "round.closed",
        "campaign": handle.record.name,
        "round": record.id,
        "number": record.number,
        "product": record.product,
        "contacted": record.contacted.size,
        "held_out": record.held_out.size,
        "opened": record.opened,
        "closed": record.closed,
    }
    return json.dumps(document).encode()


def _send(url: str, secret: str, delivery: str, body: bytes, now: float) -> str | None:
    """Send a signed request; why it was not taken, or None."""
    import http.client  # here, since few processes send anything
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """Another address than the one that was set gets nothing: a redirect is an error of its status."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            """Follow none."""

    moment = str(int(now))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tensorucb/{__version__}",
        "Webhook-Id": delivery,
        "Webhook-Timestamp": moment,
        "Webhook-Signature": f"v1,{signature(secret, delivery, moment, body)}",
    }
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=_PATIENCE):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"the receiver answered {error.code}"
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "reason", error)
        return f"the receiver cannot be reached: {reason}"[:_REASON]
    except http.client.HTTPException:
        return "the receiver's answer is no HTTP"


def signature(secret: str, delivery: str, moment: str, body: bytes) -> str:
    """HMAC-SHA256 of "id.timestamp.body" in base64, as the specification Standard Webhooks has it."""
    key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    return base64.b64encode(hmac.digest(key, f"{delivery}.{moment}.".encode() + body, "sha256")).decode()
