"""The protocol by HTTP: on 127.0.0.1 alone, and to whoever has the token.

POST /mcp HTTP/1.1
Host: 127.0.0.1:8765                       the address itself, not a name whose DNS points here
Authorization: Bearer Qm9vdHN0cmFwIGl0...
(no Origin, or http://127.0.0.1:8765)      a program, not a page of somebody else in a browser

A connection waits at the door until the head of its request is there and has the token. It has a place only then, for
this one request: whoever has no token takes none, however many connections it holds and however slowly it writes.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ktrace.analysis.answers.mcp.server import CALLS, server_of
from ktrace.analysis.answers.mcp.session import Session
from ktrace.errors import KtraceError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Where the server listens.
ADDRESS = "127.0.0.1"

#: Seconds in which the head of a request has to be there, and its bytes.
HEAD_SECONDS, HEAD_BYTES = 10.0, 16 << 10

#: Seconds in which the body has to be there.
BODY_SECONDS = 30.0

#: Connections that wait at the door. A further one replaces the one that has waited longest.
WAITING = 64

Headers = list[tuple[bytes, bytes]]


def serve_http(session: Session, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Serves clients on this machine that have the token, until the process is told to end.

    `ready` is called with the address once it listens; a port of 0 is any free one. Raises KtraceError if the port is
    taken.
    """
    listening = socket.socket(socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
    except OSError as error:
        listening.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise KtraceError(f"port {port} of this machine is in use", remedy="choose another one, or 0") from None
    host = f"{ADDRESS}:{listening.getsockname()[1]}"
    guard = Guard(host, token)
    app = server_of(session).streamable_http_app(json_response=True, stateless_http=True, host=ADDRESS)
    config = uvicorn.Config(
        guard.around(app),
        http=cast(Any, Door(guard)),
        log_config=None,
        access_log=False,
        ws="none",
        limit_concurrency=CALLS,
        timeout_graceful_shutdown=1,
        server_header=False,
        date_header=False,
    )
    with listening:
        listening.listen(WAITING)
        ready(f"http://{host}/mcp")
        uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """Lets requests through that have the token and were meant for this server, from no other page of a browser."""

    def __init__(self, host: str, token: str) -> None:
        self._host, self._token = host.encode(), token.encode()

    def refusal(self, headers: Headers) -> HTTPStatus | None:
        """What a request with these headers gets, of which the names are in lower case: None for all that it asks."""

        def all_of(name: bytes) -> list[bytes]:
            return [value for key, value in headers if key == name]

        if all_of(b"host") != [self._host] or all_of(b"origin") not in ([], [b"http://" + self._host]):
            return HTTPStatus.NOT_FOUND
        scheme, _, token = b",".join(all_of(b"authorization")).partition(b" ")
        has_token = scheme.lower() == b"bearer" and hmac.compare_digest(token, self._token)
        return None if has_token else HTTPStatus.UNAUTHORIZED

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application for requests that pass, one for each connection, with a time limit for their bodies."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
            elif self.refusal(scope["headers"]) is None:  # the door has asked already
                await app(scope, _in_time(receive), _closing(send))

        return guarded


def _in_time(receive: Receive) -> Receive:
    """Gets what a client sends; one that takes too long for the body counts as gone."""
    ends = asyncio.get_running_loop().time() + BODY_SECONDS
    whole = False

    async def received() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(ends - asyncio.get_running_loop().time(), 0))
        except asyncio.TimeoutError:
            return {"type": "http.disconnect"}
        whole = not message.get("more_body", False)
        return message

    return received


def _closing(send: Send) -> Send:
    """Sends an answer after which the connection ends: the next request is let in anew."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await send(message)

    return sent


class Door:
    """Makes the protocol of each connection, for uvicorn: it waits until it is let in, or refused."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.waiting: dict[_GuardedConnection, None] = {}

    def __call__(self, **settings: Any) -> asyncio.Protocol:
        return _GuardedConnection(self, partial(H11Protocol, **settings))


class _GuardedConnection(asyncio.Protocol):
    """A connection whose request isn't known yet: it is handed to uvicorn, or answered with nothing but a status."""

    def __init__(self, door: Door, admitted: Callable[[], asyncio.Protocol]) -> None:
        self._door, self._admitted = door, admitted
        self._request = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._bytes = bytearray()
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        waiting = self._door.waiting
        if len(waiting) >= WAITING:
            next(iter(waiting)).drop()
        waiting[self] = None
        self._clock = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.drop)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._bytes += data
        try:
            self._request.receive_data(data)
            event = self._request.next_event()
        except h11.RemoteProtocolError:
            self.drop()
            return
        if isinstance(event, h11.Request):
            refusal = self._door.guard.refusal([(name.lower(), value) for name, value in event.headers])
            if refusal is None:
                self._let_in()
            else:
                self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def drop(self) -> None:
        """Ends the connection."""
        self._leave()
        self._transport.abort()

    def _leave(self) -> None:
        self._clock.cancel()
        self._door.waiting.pop(self, None)

    def _let_in(self) -> None:
        self._leave()
        protocol = self._admitted()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(bytes(self._bytes))

    def _refuse(self, status: HTTPStatus) -> None:
        """Answers, and takes in what may still come until the client closes, lest it doesn't see the answer."""
        self._refused = True
        more = "www-authenticate: Bearer\r\n" if status == HTTPStatus.UNAUTHORIZED else ""
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n"
        self._transport.write(head.encode())
        self._transport.write_eof()
