"""`ktrace mcp` by HTTP: connections without the token take no place, and slow ones end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES

pytest.importorskip("mcp", reason="the extra mcp isn't installed")
pytest.importorskip("duckdb", reason="duckdb isn't installed")

import httpx2

from ktrace.analysis.answers.mcp.http import HEAD_BYTES, WAITING

TOKEN = "mine-and-no-other"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'

#: A server with time limits of a tenth of a second, so that tests needn't wait.
_QUICK = """
import ktrace.analysis.answers.mcp.http as served
served.HEAD_SECONDS, served.BODY_SECONDS = {head}, {body}
from ktrace.cli import main
main()
"""


class Server:
    """A server by HTTP, with these time limits in seconds."""

    def __init__(self, head: float, body: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _QUICK.format(head=head, body=body), "mcp", "--allow", str(SAMPLES), "--http", "0"],
            cwd=ROOT,
            env=os.environ | {"KTRACE_MCP_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        self.address = self.process.stderr.readline().strip()
        self.host = self.address.removeprefix("http://").removesuffix("/mcp")
        self.port = int(self.host.rpartition(":")[2])

    def connection(self, stack: ExitStack, sent: bytes = b"") -> socket.socket:
        made = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), 60))
        made.sendall(sent)
        return made

    def head(self, token: str | None = TOKEN, length: int = len(BODY), more: str = "") -> bytes:
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {self.host}",
            *([f"Authorization: Bearer {token}"] if token else []),
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {length}",
        ]
        return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode()

    def ask(self) -> int:
        """The status of a request with the token."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        headers |= {"Accept": "application/json, text/event-stream"}
        return int(httpx2.post(self.address, headers=headers, content=BODY, timeout=60).status_code)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr
        self.process.stderr.close()


@pytest.fixture(scope="module")
def patient() -> Iterator[Server]:
    """A server that waits longer than any test."""
    server = Server(600, 600)
    yield server
    server.end()


@pytest.fixture(scope="module")
def quick() -> Iterator[Server]:
    server = Server(0.1, 0.1)
    yield server
    server.end()


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection."""
    found = b""
    try:
        while data := connection.recv(1 << 16):
            found += data
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize("kind", ["nothing", "a part of a head", "another token", "half closed"])
def test_connections_without_the_token_keep_nobody_out(patient: Server, kind: str) -> None:
    with ExitStack() as stack:
        for number in range(3 * WAITING):
            sent = {"nothing": b"", "half closed": b"", "another token": patient.head("another")}
            one = patient.connection(stack, sent.get(kind, patient.head()[:-2]))
            if kind == "half closed":
                one.shutdown(socket.SHUT_WR)
            if number % WAITING == WAITING - 1:
                assert patient.ask() == 200
        for _ in range(3):
            assert patient.ask() == 200
        if sys.platform == "linux":
            assert len(list(Path("/proc", str(patient.process.pid), "fd").iterdir())) < WAITING + 40


def test_the_one_that_has_waited_longest_gives_way(patient: Server) -> None:
    with ExitStack() as stack:
        first = patient.connection(stack, patient.head()[:-2])
        others = [patient.connection(stack) for _ in range(WAITING - 1)]
        assert patient.ask() == 200  # which takes the place of the first one
        assert received(first) == b""
        others[-1].sendall(patient.head() + BODY)
        assert received(others[-1]).startswith(b"HTTP/1.1 200 ")


SLOW = {
    "nothing": b"",
    "a line": b"POST /mcp HTTP/1.1\r\n",
    "a head that doesn't end": b"POST /mcp HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\nX: ",
}


@pytest.mark.parametrize("case", SLOW)
def test_a_slow_head_ends_the_connection(quick: Server, case: str) -> None:
    with ExitStack() as stack:
        assert received(quick.connection(stack, SLOW[case])) == b""
    assert quick.ask() == 200


def test_a_head_that_comes_byte_by_byte_ends_the_connection(quick: Server) -> None:
    with ExitStack() as stack:
        one = quick.connection(stack)
        with pytest.raises(ConnectionError):
            while True:
                one.sendall(b"X")


def test_whoever_is_refused_and_stays_is_dropped(quick: Server) -> None:
    with ExitStack() as stack:
        one = quick.connection(stack, quick.head("another"))
        assert received(one).startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        with pytest.raises(ConnectionError):
            while True:
                one.sendall(b"X" * 1000)


def test_a_slow_body_frees_its_place(quick: Server) -> None:
    with ExitStack() as stack:
        all_of_them = [quick.connection(stack, quick.head() + BODY[:10]) for _ in range(2 * WAITING)]
        for one in all_of_them:
            assert not received(one).startswith(b"HTTP/1.1 200 ")
        assert quick.ask() == 200


def test_a_head_that_is_too_large_ends_the_connection(patient: Server) -> None:
    with ExitStack() as stack:
        more = f"X-More: {'x' * HEAD_BYTES}\r\n"
        assert received(patient.connection(stack, patient.head(more=more)[:-2])) == b""
        assert received(patient.connection(stack, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")) == b"", "TLS"


def test_the_next_request_of_a_connection_is_let_in_anew(patient: Server) -> None:
    """Without a token it isn't answered; the server ends the connection after each answer."""
    with ExitStack() as stack:
        both = patient.head() + BODY + patient.head(None) + BODY
        found = received(patient.connection(stack, both))
        assert found.count(b"HTTP/1.1 ") == 1
        assert found.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in found.lower()


def test_who_sends_a_large_body_sees_that_it_is_refused(patient: Server) -> None:
    size = 8 << 20
    with ExitStack() as stack:
        one = patient.connection(stack, patient.head(None, size) + b"x" * size)
        assert received_head(one) == b"HTTP/1.1 401 Unauthorized"


def received_head(connection: socket.socket) -> bytes:
    return connection.recv(1 << 16).partition(b"\r\n")[0]
