"""A web server for one trace, or for its overview: only on 127.0.0.1, at an unguessable path, for one origin and user.

GET /Qm9vdHN0cmFwIGl0.../run.perfetto HTTP/1.1
Host: 127.0.0.1:9001                               the address itself, not a name whose DNS points here
Origin: https://ui.perfetto.dev                    this page and no other page in the browser

Every other request gets the same empty 404. docs/commands/view.md lists the attacks that this prevents. Linux's
/proc/net/tcp names the user whose program is at the other end of a local connection:

sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
 1: 0100007F:9F3A 0100007F:2329 01 00000000:00000000 00:00000000 00000000  1000        0 48211
"""

from __future__ import annotations

import errno
import io
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

from ktrace.errors import KtraceError
from ktrace.viewer.websocket import accepted

_ADDRESS = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"


def user_of(there: int, here: int) -> int | None:
    """Returns the user id of the program connected from port `there` to port `here` of 127.0.0.1.

    None on systems other than Linux, or if the connection isn't listed.
    """
    ends = f"{_ADDRESS}:{there:04X}", f"{_ADDRESS}:{here:04X}"
    for table in (
        "/proc/self/net/tcp",
        "/proc/self/net/tcp6",
    ):  # the last part of such an IPv6 address is the IPv4 address
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                        return int(fields[7])
        except OSError:
            continue
    return None


ADDRESS = "127.0.0.1"

#: Time limit in seconds and size limit in bytes of the head of a request.
HEAD_SECONDS, HEAD_BYTES = 10, 16 << 10

#: Seconds without progress after which a client is dropped.
STALL_SECONDS = 30

#: Connections served at a time. A further one replaces the one that has waited longest without asking, if there is one.
CONNECTIONS = 64

#: Seconds within which a connection ends that gives way to a new one.
_GIVE_WAY_SECONDS = 2

#: Sent with every answer: no caching, no content sniffing, no embedding, no referrer.
_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class File:
    """A file to serve, with its content type and further headers."""

    path: Path
    content_type: str
    headers: Mapping[str, str]


#: Answers a request with these parameters: the content, or an open file that has it. None where there is no answer.
Answer = Callable[[Mapping[str, str]], "bytes | BinaryIO | None"]


@dataclass(frozen=True)
class Answered:
    """What is made for each request, with its content type and further headers. `post`: it is asked for by POST."""

    answer: Answer
    content_type: str
    headers: Mapping[str, str]
    post: bool = False


@dataclass(frozen=True)
class Channel:
    """A WebSocket for the page that may fetch. `serve` gets its connection, and returns when it has ended."""

    serve: Callable[[socket.socket], None]


#: What a path of a URL leads to.
Served = File | Answered | Channel


class Server(socketserver.ThreadingTCPServer):
    """Serves the files and answers, and nothing else, until `close()`.

    `files` maps paths of URLs to files, or to what is made for each request. The file of `trace` is opened now and held
    open: what its name leads to later, such as by a link that points elsewhere, isn't served. The event `fetched` is
    set when a client has received all of it. `origin` is the page that may fetch the files; without one only pages of
    this server may. Raises PortTaken, and OSError if the trace can't be opened.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name == "posix"  # on other systems it would let two servers share a port
    request_queue_size = CONNECTIONS

    def __init__(self, port: int, files: Mapping[str, Served], trace: str, origin: str | None = None) -> None:
        file = files[trace]
        self.stream = open(file.path, "rb") if isinstance(file, File) else io.BytesIO()  # noqa: SIM115 (until `close`)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            self.stream.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise PortTaken(port) from None
        self.port: int = self.server_address[1]
        self.host = f"{ADDRESS}:{self.port}"
        self.files = files
        self.trace = trace
        self.origin = origin
        self.fetched = threading.Event()
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._silent: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stops the server; transfers in progress are cut off."""
        self.shutdown()
        self.server_close()
        self.stream.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a separate thread. Closes the connection if there are too many, all of which have asked."""
        if self._free.acquire(blocking=False) or (self._gave_way() and self._free.acquire(timeout=_GIVE_WAY_SECONDS)):
            with self._lock:
                self._silent[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _gave_way(self) -> bool:
        """Ends the connection that has been silent for longest. Returns False if none is silent."""
        with self._lock:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                return False
            del self._silent[oldest]
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return True

    def has_asked(self, request: socket.socket) -> None:
        """Notes that the head of a request is there, or never will be."""
        with self._lock:
            self._silent.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, then gives way to the next connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_asked(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of connections: clients that leave or stop reading."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class PortTaken(KtraceError):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} of this machine is in use, and ui.perfetto.dev can't fetch from any other port",
            remedy="stop the program that listens there (another ktrace view, a trace_processor), or use --offline",
        )


class _Handler(BaseHTTPRequestHandler):
    """One request of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = STALL_SECONDS

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BytesIO(self._received())
        self.server.has_asked(self.connection)

    def _received(self) -> bytes:
        """Reads the head of the request; empty if it is late, too long, incomplete or not HTTP/1."""
        head = b""
        deadline = time.monotonic() + HEAD_SECONDS
        while b"\r\n\r\n" not in head:
            left = deadline - time.monotonic()
            if left <= 0 or len(head) > HEAD_BYTES:
                return b""
            self.connection.settimeout(left)
            part = self.connection.recv(HEAD_BYTES)
            if not part:
                return b""
            head += part
        self.connection.settimeout(self.timeout)
        is_http = b" HTTP/1." in head.partition(b"\r\n")[0]
        return head.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if is_http else b""

    def handle(self) -> None:
        self.handle_one_request()

    def do_GET(self) -> None:
        file = self._asked_for()
        if isinstance(file, Channel):
            self._switch(file)
        elif isinstance(file, Answered) and file.post:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif file:
            self._send(file)

    def do_POST(self) -> None:
        file = self._asked_for()
        if isinstance(file, Answered) and file.post:
            self._send(file)
        elif file:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        file = self._asked_for()
        if isinstance(file, File):
            with self._opened(file) as stream:
                self._start(file, os.fstat(stream.fileno()).st_size)
        elif file:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_OPTIONS(self) -> None:
        """Answers the browser's question whether the page may fetch from here."""
        if not self._asked_for():
            return
        headers = {"Access-Control-Allow-Methods": "GET, HEAD", "Content-Length": "0"}
        if self.headers["Access-Control-Request-Private-Network"] == "true":
            headers["Access-Control-Allow-Private-Network"] = "true"
        self._head(HTTPStatus.NO_CONTENT, headers)

    def _asked_for(self) -> Served | None:
        """Returns what is requested if this client may have it; otherwise sends a 404 and returns None."""
        server = self.server
        origin = f"http://{server.host}"
        origins = self.headers.get_all("Origin", [])
        right_page = origins == [server.origin] if server.origin else origins in ([], [origin])
        path, question, _ = self.path.partition("?")
        file = server.files.get(path) if right_page and self.headers.get_all("Host") == [server.host] else None
        if question and isinstance(file, File):
            file = None
        if file is None or _is_somebody_else(user_of(self.client_address[1], server.port)):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return file

    def _switch(self, channel: Channel) -> None:
        """Speaks the WebSocket protocol from now on, with a page that said where it is from."""
        proof = accepted(self.headers) if self.headers["Origin"] else None
        if proof is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response_only(HTTPStatus.SWITCHING_PROTOCOLS)
        for name, value in {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": proof}.items():
            self.send_header(name, value)
        self.end_headers()
        self.connection.settimeout(None)
        channel.serve(self.connection)

    def _send(self, file: File | Answered) -> None:
        with self._opened(file) if isinstance(file, File) else self._answer(file) as stream:
            size = stream.getbuffer().nbytes if isinstance(stream, io.BytesIO) else os.fstat(stream.fileno()).st_size
            self._start(file, size)
            sent = self.connection.sendfile(stream, 0, size) if size else 0
        if sent == size and self.path == self.server.trace:
            self.connection.shutdown(socket.SHUT_WR)
            try:
                while self.connection.recv(HEAD_BYTES):
                    pass
            except TimeoutError:
                pass
            self.server.fetched.set()

    def _answer(self, made: Answered) -> BinaryIO:
        """What is made for this request. Raises OSError, after a 404, if it has no answer."""
        answer = made.answer(dict(parse_qsl(self.path.partition("?")[2])))
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            raise FileNotFoundError
        return io.BytesIO(answer) if isinstance(answer, bytes) else answer

    def _opened(self, file: File) -> BinaryIO:
        """Opens a file; the trace is that which the server has held open since its start."""
        if self.path != self.server.trace or os.name == "nt":  # where two requests would share one position
            return open(file.path, "rb")
        return os.fdopen(os.dup(self.server.stream.fileno()), "rb")

    def _start(self, file: File | Answered, size: int) -> None:
        headers = {"Content-Type": file.content_type, "Content-Length": str(size), "Accept-Ranges": "none"}
        self._head(HTTPStatus.OK, headers | dict(file.headers))

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        if self.server.origin and status < HTTPStatus.BAD_REQUEST:
            self.send_header("Access-Control-Allow-Origin", self.server.origin)
            self.send_header("Vary", "Origin")
        for name, value in (_HEADERS | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an empty 404, without a reason or a server name."""
        self._head(HTTPStatus.NOT_FOUND, {"Content-Length": "0"})

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, since the paths are secrets."""


def _is_somebody_else(uid: int | None) -> bool:
    """Returns whether the client is another user. Root may fetch; a server run by root doesn't check."""
    return uid is not None and os.getuid() != 0 and uid not in (0, os.getuid())
