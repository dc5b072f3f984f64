"""The server of `ktrace view` by raw sockets: who gets the trace, who gets nothing, and what both are told."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrace.viewer import server as module
from ktrace.viewer.server import File, PortTaken, Server, user_of
from ktrace.viewer.ui import UI

PATH = "/a-secret/trace.perfetto"
DATA = bytes(range(256)) * 1000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "trace.perfetto").write_bytes(DATA)
    (tmp_path / "secret.txt").write_text("mine")
    return tmp_path / "trace.perfetto"


@pytest.fixture
def server(trace: Path) -> Iterator[Server]:
    """Serves the trace to ui.perfetto.dev."""
    made = Server(0, {PATH: File(trace, "application/octet-stream", {})}, PATH, UI)
    yield made
    made.close()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def ask(server: Server, head: str) -> bytes:
    """All that comes back for these lines; {host} in them is the server's."""
    with connected(server) as sock:
        sock.sendall(head.replace("{host}", server.host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def split(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


GET = f"GET {PATH} HTTP/1.1\nHost: {{host}}\nOrigin: {UI}"


def test_the_right_page_gets_the_whole_trace_and_that_is_told(server: Server) -> None:
    status, headers, body = split(ask(server, GET))
    assert status == 200
    assert body == DATA
    assert headers["Content-Length"] == str(len(DATA))
    assert headers["Access-Control-Allow-Origin"] == UI
    assert headers["Vary"] == "Origin"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not {"Server", "Date"} & set(headers)
    assert server.fetched.wait(5)


HOST, ORIGIN = "Host: {host}", f"Origin: {UI}"
REFUSED = {
    "no origin": f"GET {PATH} HTTP/1.1\n{HOST}",
    "another page": f"GET {PATH} HTTP/1.1\n{HOST}\nOrigin: https://evil.example",
    "not by https": f"GET {PATH} HTTP/1.1\n{HOST}\nOrigin: http://ui.perfetto.dev",
    "a name that begins alike": f"GET {PATH} HTTP/1.1\n{HOST}\nOrigin: {UI}.evil.example",
    "a sandboxed frame": f"GET {PATH} HTTP/1.1\n{HOST}\nOrigin: null",
    "two origins": f"GET {PATH} HTTP/1.1\n{HOST}\n{ORIGIN}\nOrigin: https://evil.example",
    "no host": f"GET {PATH} HTTP/1.1\n{ORIGIN}",
    "a name with DNS of its own": f"GET {PATH} HTTP/1.1\nHost: evil.example:9001\n{ORIGIN}",
    "localhost": f"GET {PATH} HTTP/1.1\nHost: localhost\n{ORIGIN}",
    "two hosts": f"GET {PATH} HTTP/1.1\n{HOST}\nHost: evil.example\n{ORIGIN}",
    "the root": f"GET / HTTP/1.1\n{HOST}\n{ORIGIN}",
    "the folder": f"GET /a-secret/ HTTP/1.1\n{HOST}\n{ORIGIN}",
    "another file": f"GET /a-secret/secret.txt HTTP/1.1\n{HOST}\n{ORIGIN}",
    "a guess": f"GET /b-secret/trace.perfetto HTTP/1.1\n{HOST}\n{ORIGIN}",
    "upwards": f"GET {PATH}/../secret.txt HTTP/1.1\n{HOST}\n{ORIGIN}",
    "upwards, encoded": f"GET {PATH}/%2e%2e/secret.txt HTTP/1.1\n{HOST}\n{ORIGIN}",
    "an absolute path": f"GET //etc/passwd HTTP/1.1\n{HOST}\n{ORIGIN}",
    "a question": f"GET {PATH}?a=b HTTP/1.1\n{HOST}\n{ORIGIN}",
    "as a proxy": f"GET http://{{host}}{PATH} HTTP/1.1\n{HOST}\n{ORIGIN}",
    "POST": f"POST {PATH} HTTP/1.1\n{HOST}\n{ORIGIN}\nContent-Length: 0",
    "DELETE": f"DELETE {PATH} HTTP/1.1\n{HOST}\n{ORIGIN}",
    "TRACE": f"TRACE {PATH} HTTP/1.1\n{HOST}\n{ORIGIN}",
    "the question of the UI for a trace_processor": f"POST /status HTTP/1.1\n{HOST}\n{ORIGIN}",
    "HEAD of another page": f"HEAD {PATH} HTTP/1.1\n{HOST}\nOrigin: https://evil.example",
    "OPTIONS of another page": f"OPTIONS {PATH} HTTP/1.1\n{HOST}\nOrigin: https://evil.example",
    "OPTIONS elsewhere": f"OPTIONS / HTTP/1.1\n{HOST}\n{ORIGIN}",
}


@pytest.mark.parametrize("case", REFUSED)
def test_whatever_else_is_asked_gets_the_same_nothing(server: Server, case: str) -> None:
    answer = ask(server, REFUSED[case])
    status, headers, body = split(answer)
    assert status == 404
    assert headers["Content-Length"] == "0"
    assert body == b""
    assert "Access-Control-Allow-Origin" not in headers
    assert answer == ask(server, REFUSED["the root"])
    assert not server.fetched.is_set()
    assert split(ask(server, GET))[2] == DATA, "it doesn't serve any more"


@pytest.mark.parametrize(
    "head", [GET.replace("1.1", "9.9"), GET.replace(" HTTP/1.1", ""), "nonsense and more of it", ""]
)
def test_what_is_no_http_gets_no_word(server: Server, head: str) -> None:
    assert ask(server, head) == b""
    assert not server.fetched.is_set()


def test_the_head_alone_is_no_fetch(server: Server) -> None:
    status, headers, body = split(ask(server, GET.replace("GET", "HEAD")))
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == str(len(DATA))
    assert not server.fetched.wait(0.2)


def test_a_browser_may_ask_first(server: Server) -> None:
    question = GET.replace("GET", "OPTIONS") + "\nAccess-Control-Request-Method: GET"
    status, headers, body = split(ask(server, question))
    assert (status, body) == (204, b"")
    assert headers["Access-Control-Allow-Origin"] == UI
    assert headers["Access-Control-Allow-Methods"] == "GET, HEAD"
    assert "Access-Control-Allow-Private-Network" not in headers
    headers = split(ask(server, question + "\nAccess-Control-Request-Private-Network: true"))[1]
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    assert not server.fetched.is_set()


def test_who_asks_for_a_part_gets_all(server: Server) -> None:
    status, headers, body = split(ask(server, GET + "\nRange: bytes=0-9"))
    assert status == 200
    assert headers["Accept-Ranges"] == "none"
    assert body == DATA


def test_an_empty_file_is_served(server: Server, trace: Path) -> None:
    trace.write_bytes(b"")
    assert split(ask(server, GET))[0::2] == (200, b"")
    assert server.fetched.wait(5)


def test_who_goes_away_before_the_end_has_not_fetched_it(server: Server, trace: Path) -> None:
    os.truncate(trace, 64 << 20)
    with connected(server) as sock:
        sock.sendall(GET.replace("{host}", server.host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
        assert sock.recv(1000)
    assert not server.fetched.wait(0.3)
    assert len(split(ask(server, GET))[2]) == 64 << 20
    assert server.fetched.wait(5)


def test_only_one_request_a_connection(server: Server) -> None:
    twice = (GET + "\n\n" + GET).replace("{host}", server.host)
    assert ask(server, twice).count(b"HTTP/1.1 200") == 1


def test_slow_and_silent_clients_are_dropped_and_block_no_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.5)
    with connected(server) as slow:
        begin = time.monotonic()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert split(ask(server, GET))[2] == DATA
        with pytest.raises(OSError):  # closed, though there is always a bit more
            while time.monotonic() < begin + 8:
                slow.sendall(b"X")
                time.sleep(0.05)
        assert time.monotonic() - begin < 4


def test_who_takes_nothing_is_left(server: Server, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 0.3)
    os.truncate(trace, 64 << 20)
    with connected(server) as lazy:
        lazy.sendall(GET.replace("{host}", server.host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
        time.sleep(1)
        assert sum(map(len, iter(lambda: lazy.recv(1 << 20), b""))) < 64 << 20, "it waited"
    assert not server.fetched.is_set()


def test_a_head_without_end_is_left(server: Server) -> None:
    with connected(server) as sock:
        try:
            sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20))
            answer = sock.recv(100)
        except ConnectionError:
            answer = b""
    assert answer == b""
    assert split(ask(server, GET))[2] == DATA


def test_who_waits_without_asking_shuts_nobody_out(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 3)
    server = Server(0, {PATH: File(trace, "application/octet-stream", {})}, PATH, UI)
    try:
        waiting = [connected(server) for _ in range(3)]
        for sock in waiting:
            sock.sendall(b"GET / HT")
        for number in range(3):
            assert split(ask(server, GET))[2] == DATA, number
        assert waiting[0].recv(10) == b"", "the one that has waited longest gave way"
        for sock in waiting:
            sock.close()
    finally:
        server.close()


def test_only_so_many_fetch_at_a_time(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 3)
    os.truncate(trace, 64 << 20)
    server = Server(0, {PATH: File(trace, "application/octet-stream", {})}, PATH, UI)
    try:
        fetching = [connected(server) for _ in range(3)]
        for sock in fetching:
            sock.sendall(GET.replace("{host}", server.host).replace("\n", "\r\n").encode() + b"\r\n\r\n")
            assert sock.recv(10)
        with connected(server) as one_more:
            assert one_more.recv(10) == b""
        for sock in fetching:
            sock.close()
        time.sleep(0.3)
        assert len(split(ask(server, GET))[2]) == 64 << 20
    finally:
        server.close()


def test_the_file_is_served_that_was_opened_whatever_its_name_leads_to_later(tmp_path: Path, trace: Path) -> None:
    link = tmp_path / "link.perfetto"
    link.symlink_to(trace)
    server = Server(0, {PATH: File(link, "application/octet-stream", {})}, PATH, UI)
    try:
        link.unlink()
        link.symlink_to(tmp_path / "secret.txt")
        assert split(ask(server, GET))[2] == DATA
        trace.unlink()
        assert split(ask(server, GET))[2] == DATA
    finally:
        server.close()


def test_it_listens_on_this_machine_alone(server: Server) -> None:
    assert server.socket.getsockname() == ("127.0.0.1", server.port)


def test_a_port_that_is_taken_is_told(server: Server, trace: Path) -> None:
    with pytest.raises(PortTaken, match=f"port {server.port} .* is in use"):
        Server(server.port, {PATH: File(trace, "", {})}, PATH, UI)


def test_offline_the_pages_of_the_server_itself_get_it(trace: Path) -> None:
    server = Server(0, {PATH: File(trace, "text/html", {"Content-Security-Policy": "default-src 'self'"})}, PATH)
    try:
        get = f"GET {PATH} HTTP/1.1\nHost: {{host}}"
        status, headers, body = split(ask(server, get))
        assert (status, body) == (200, DATA)
        assert headers["Content-Security-Policy"] == "default-src 'self'"
        assert "Access-Control-Allow-Origin" not in headers
        assert split(ask(server, get + "\nOrigin: http://{host}"))[0] == 200
        for page in (UI, "http://localhost", "http://127.0.0.1:1", "null"):
            assert split(ask(server, f"{get}\nOrigin: {page}"))[0] == 404
        assert split(ask(server, get.replace("{host}", "evil.example")))[0] == 404
    finally:
        server.close()


on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose a connection is")


@on_linux
def test_whose_a_connection_is(server: Server) -> None:
    with connected(server) as sock:
        assert user_of(sock.getsockname()[1], server.port) == os.getuid()
    assert user_of(1, server.port) is None


@on_linux
def test_another_user_of_the_machine_gets_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    monkeypatch.setattr(module, "user_of", lambda there, here: 4243)
    assert split(ask(server, GET))[0] == 404
    monkeypatch.setattr(module, "user_of", lambda there, here: 4242)
    assert split(ask(server, GET))[0] == 200


@on_linux
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_the_system_knows_another_user(server: Server, family: str) -> None:
    address = "127.0.0.1" if family == "AF_INET" else "::ffff:127.0.0.1"
    script = (
        f"import os, socket; os.setuid(65534); s = socket.socket(socket.{family}); "
        f"s.connect(('{address}', {server.port})); print(s.getsockname()[1], flush=True); s.recv(1)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        port = other.stdout.readline()
        assert port, "no such socket here"
        assert user_of(int(port), server.port) == 65534
        other.kill()
