"""HTTP connections that bound the time and the number of their clients; uvicorn alone waits for ever.

A client may take only so long to send the head of a request, and to read an answer; bodies are timed by `_guard`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tensorucb.service._guard import SAFE_HEADERS
from tensorucb.service._problems import MEDIA, Refusal, problem
from tensorucb.service._settings import ServiceSettings


class BoundedProtocol(H11Protocol):
    """A connection of the service, with the limits of the app's settings."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._service: Any = self.app
        settings: ServiceSettings = self._service.state.settings
        self._patience, self._most = settings.patience, settings.connections
        self._head: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
            return
        self._time_head()

    def data_received(self, data: bytes) -> None:
        """Go on; what follows a refusal is thrown away, since closing before would lose the refusal on its way."""
        if self.conn.our_state is not h11.MUST_CLOSE or self.conn.their_state is not h11.ERROR:
            super().data_received(data)
            self._time_head()

    def _time_head(self) -> None:
        """One timer from the beginning of a request's head, or of the connection, to its end."""
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head is None:
            self._head = self.loop.call_later(self._patience, self.transport.close)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._forget_head()  # the connection may be idle for as long as uvicorn keeps it
        if self.conn.trailing_data[0]:
            self._time_head()  # but the next request has begun already

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def pause_writing(self) -> None:
        """Give a client that does not read so much time."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._stalled is not None:
            self._stalled.cancel()
        super().resume_writing()

    def shutdown(self) -> None:
        """Finish the running request, then close."""
        self._service.state.campaigns.stopping.set()  # those who watch a campaign let go
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._forget_head()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; if an answer has begun already, there is nothing to say any more."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        answer = problem(Refusal(400, "this is no HTTP request, or its head is too large."), None)
        headers = {**SAFE_HEADERS, "content-type": MEDIA, "connection": "close"}
        raw = [(key.encode(), value.encode()) for key, value in headers.items()]
        for event in (
            h11.Response(status_code=400, headers=raw, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self._forget_head()
        self._head = self.loop.call_later(self._patience, self.transport.close)
