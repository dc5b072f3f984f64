"""A web server for one trace: on 127.0.0.1 alone, at a path that nobody can guess, for one origin.

GET /Qm9vdHN0cmFwIGl0.../run.perfetto HTTP/1.1
Host: 127.0.0.1:9001                               the address itself: no name that somebody else's DNS points to us
Origin: https://ui.perfetto.dev                    that page, and no other in the browser

Whatever else is asked for gets the same empty 404. docs/commands/view.md says what this keeps out.
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
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ktrace.errors import KtraceError
from ktrace.viewer.peers import user_of

ADDRESS = "127.0.0.1"

#: Seconds in which the head of a request has to be here, and how many bytes it may have.
HEAD_SECONDS, HEAD_BYTES = 10, 16 << 10

#: Seconds for which a client may take nothing before it is left alone.
STALL_SECONDS = 30

#: Connections that are served at a time; more are closed at once.
CONNECTIONS = 64

#: Sent with every answer: nothing is kept, guessed, embedded or told to the next page.
_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class File:
    """A file that is served, as what, and with which further headers."""

    path: Path
    content_type: str
    headers: Mapping[str, str]


class Server(socketserver.ThreadingTCPServer):
    """Serves the files, and nothing else, from now on until `close()`.

    `files` are by their paths in the URL; `trace` is the path of which `fetched` tells that somebody has got all of it.
    `origin` is the page that may fetch them; without one only pages of this server may.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name == "posix"  # elsewhere it would let two servers have one port
    request_queue_size = CONNECTIONS

    def __init__(self, port: int, files: Mapping[str, File], trace: str, origin: str | None = None) -> None:
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
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
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Ends it; what is being sent breaks off."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread of its own, as long as there aren't too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, then makes room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or takes nothing, is nobody's fault."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class PortTaken(KtraceError):
    """Somebody else listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} of this machine is taken, and ui.perfetto.dev may fetch from no other",
            remedy="end what listens there (another ktrace view, a trace_processor), or take --offline",
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

    def _received(self) -> bytes:
        """The head of the request; nothing where it doesn't come in time, doesn't end, or is no HTTP/1."""
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
        if file := self._asked_for():
            self._send(file)

    def do_HEAD(self) -> None:
        if file := self._asked_for():
            with open(file.path, "rb") as stream:
                self._start(file, os.fstat(stream.fileno()).st_size)

    def do_OPTIONS(self) -> None:
        """The browser asks whether the page may fetch from here."""
        if not self._asked_for():
            return
        headers = {"Access-Control-Allow-Methods": "GET, HEAD", "Content-Length": "0"}
        if self.headers["Access-Control-Request-Private-Network"] == "true":
            headers["Access-Control-Allow-Private-Network"] = "true"
        self._head(HTTPStatus.NO_CONTENT, headers)

    def _asked_for(self) -> File | None:
        """The file that is asked for, by whom it may be; else the answer is 404."""
        server = self.server
        own = f"http://{server.host}"
        origins = self.headers.get_all("Origin", [])
        right_page = origins == [server.origin] if server.origin else origins in ([], [own])
        file = server.files.get(self.path) if right_page and self.headers.get_all("Host") == [server.host] else None
        if file is None or _is_somebody_else(user_of(self.client_address[1], server.port)):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return file

    def _send(self, file: File) -> None:
        with open(file.path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            self._start(file, size)
            sent = self.connection.sendfile(stream, 0, size) if size else 0
        if sent == size and self.path == self.server.trace:
            self._let_it_arrive()
            self.server.fetched.set()

    def _let_it_arrive(self) -> None:
        """Waits until the client has closed its end, too. Raises OSError where it went before it had all."""
        self.connection.shutdown(socket.SHUT_WR)
        try:
            while self.connection.recv(HEAD_BYTES):
                pass
        except TimeoutError:
            pass

    def _start(self, file: File, size: int) -> None:
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
        """Says neither what is wrong nor who answers."""
        self._head(HTTPStatus.NOT_FOUND, {"Content-Length": "0"})

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the paths are secrets."""


def _is_somebody_else(uid: int | None) -> bool:
    """Whether another user of this machine asks. Root may, and root is told nothing from."""
    return uid is not None and os.getuid() != 0 and uid not in (0, os.getuid())
