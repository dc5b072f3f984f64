"""`ktrace mcp` as a program, asked by the SDK's own client: on standard input and output, and by HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SAMPLES
from test_dependencies import ktrace

pytest.importorskip("mcp", reason="the extra mcp isn't installed")
pytest.importorskip("duckdb", reason="duckdb isn't installed")

import anyio
import httpx2
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from ktrace.analysis.answers.mcp.tools import TOOLS

STEP = "kineto/one-step-of-training.pt.trace.json"
COMMAND = [sys.executable, "-m", "ktrace", "mcp", "--allow", str(SAMPLES)]

#: A request by HTTP.
USUAL = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'

Use = Callable[[Client], Awaitable[None]]


def over_stdio(use: Use, **how: Any) -> None:
    async def run() -> None:
        server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
        async with Client(stdio_client(server), **how) as client:
            await use(client)

    anyio.run(run)


async def conversation(client: Client) -> None:
    """A trace is opened, asked about, and can't be opened elsewhere. The client checks answers by their schemas."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == TOOLS.keys()
    assert all(tool.output_schema and tool.description for tool in tools.values())
    hints = {name: tool.annotations.read_only_hint for name, tool in tools.items() if tool.annotations}
    assert [name for name, reads in hints.items() if not reads] == ["export"]
    opened = await client.call_tool("open", {"path": STEP})
    assert not opened.is_error
    handle = opened.structured_content["handle"]
    for name in ("findings", "overview", "idle", "op", "phase", "collectives", "memory"):
        answer = await client.call_tool(name, {"handle": handle})
        assert not answer.is_error, answer
    refused = await client.call_tool("open", {"path": "/etc/passwd"})
    assert refused.is_error
    assert refused.structured_content["error"]["kind"] == "refused"
    resources = {str(one.uri): one for one in (await client.list_resources()).resources}
    for uri, page in (("model.md", "docs/model.md"), ("recipes/too-large.md", "docs/recipes/too-large.md")):
        read = await client.read_resource(f"ktrace://docs/{uri}")
        assert read.contents[0].text == (ROOT / page).read_text("utf-8")
        assert resources[f"ktrace://docs/{uri}"].mime_type == "text/markdown"
    for uri in ("ktrace://docs/../setup.cfg", "ktrace://docs/none.md", "file:///etc/passwd"):
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource(uri)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_on_standard_input_and_output(mode: str) -> None:
    over_stdio(conversation, mode=mode)


def test_limits_hold_for_what_is_opened() -> None:
    async def run() -> None:
        server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "--limits", "line=10"], cwd=ROOT)
        async with Client(stdio_client(server)) as client:
            answer = await client.call_tool("open", {"path": "doppler/prefill-and-three-decodes.log"})
            assert answer.structured_content["error"]["kind"] == "damaged_input"
            assert "(the limit 'line')" in answer.structured_content["error"]["expected"]

    anyio.run(run)


def test_several_questions_at_a_time_are_answered() -> None:
    async def use(client: Client) -> None:
        handle = (await client.call_tool("open", {"path": STEP})).structured_content["handle"]
        found: list[int] = []

        async def ask(number: int) -> None:
            answer = await client.call_tool("query", {"handle": handle, "sql": f"select {number} as n"})
            found.append(answer.structured_content["tables"][0]["rows"][0][0])

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, number)
        assert sorted(found) == list(range(8))

    over_stdio(use)


@pytest.fixture(scope="module")
def http() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server by HTTP that chose its token: the process, its address, the token."""
    environment = {key: value for key, value in os.environ.items() if key != "KTRACE_MCP_TOKEN"}
    server = subprocess.Popen([*COMMAND, "--http", "0"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr
    address, token = server.stderr.readline().strip(), server.stderr.readline().strip().removeprefix("token: ")
    assert address.startswith("http://127.0.0.1:")
    assert len(token) > 40
    yield server, address, token
    server.kill()
    server.wait()
    server.stderr.close()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_by_http(http: tuple[subprocess.Popen[str], str, str], mode: str) -> None:
    _, address, token = http

    async def run() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as web,
            Client(streamable_http_client(address, http_client=web), mode=mode) as client,
        ):
            await conversation(client)

    anyio.run(run)


def test_by_http_only_who_has_the_token_is_answered(http: tuple[subprocess.Popen[str], str, str]) -> None:
    _, address, token = http
    host = address.removeprefix("http://").removesuffix("/mcp")
    mine = {"Authorization": f"Bearer {token}"}

    def asked(headers: dict[str, str], method: str = "POST", path: str = "/mcp") -> tuple[int, str]:
        found = httpx2.request(method, f"http://{host}{path}", headers=USUAL | headers, content=BODY, timeout=60)
        assert not {"server", "date"} & {name.lower() for name in found.headers}
        return found.status_code, found.text

    refused = {
        "no token": ({}, 401),
        "another token": ({"Authorization": f"Bearer {token[:-1]}!"}, 401),
        "a part of the token": ({"Authorization": f"Bearer {token[:-1]}"}, 401),
        "another scheme": ({"Authorization": f"Basic {token}"}, 401),
        "a page of somebody else": (mine | {"Origin": "https://evil.example"}, 404),
        "a sandboxed frame": (mine | {"Origin": "null"}, 404),
        "a name with DNS of its own": (mine | {"Host": "evil.example"}, 404),
        "localhost": (mine | {"Host": host.replace("127.0.0.1", "localhost")}, 404),
    }
    for case, (headers, status) in refused.items():
        assert asked(headers) == (status, ""), case
    assert asked(mine)[0] == 200
    assert asked(mine | {"Origin": f"http://{host}"})[0] == 200
    assert asked(mine, path="/")[0] == 404


def test_a_port_in_use_is_an_error(http: tuple[subprocess.Popen[str], str, str]) -> None:
    port = http[1].removesuffix("/mcp").rpartition(":")[2]
    done = ktrace("mcp", "--http", port, blocked=set())
    assert done.returncode == 1
    assert f"port {port} of this machine is in use" in done.stderr


def test_the_token_of_the_environment_is_not_printed() -> None:
    server = subprocess.Popen(
        [*COMMAND, "--http", "0"],
        cwd=ROOT,
        env=os.environ | {"KTRACE_MCP_TOKEN": "mine-and-no-other"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr
    address = server.stderr.readline().strip()
    headers = USUAL | {"Authorization": "bearer mine-and-no-other"}
    found = httpx2.post(address, headers=headers, content=BODY, timeout=60)
    server.send_signal(signal.SIGINT)
    assert found.status_code == 200
    assert server.wait(60) == 130
    assert "mine-and-no-other" not in server.stderr.read()
    server.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it(number: int, code: int) -> None:
    server = subprocess.Popen(COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert server.stdin and server.stdout and server.stderr
    server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    server.stdin.flush()
    server.stdout.readline()  # it answers, so it listens
    server.send_signal(number)
    assert server.wait(60) == code
    for stream in (server.stdin, server.stdout, server.stderr):
        stream.close()


def test_it_ends_with_its_input() -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("package", ["mcp", "duckdb"])
def test_without_its_extra_the_error_names_it(package: str) -> None:
    done = ktrace("mcp", blocked={package})
    assert done.returncode == 1
    assert done.stderr == f'ktrace: ktrace mcp needs {package}\n  hint: pip install "ktrace[mcp]"\n'


@pytest.mark.skipif(os.name == "nt", reason="a script stands for nsys")
def test_nsys_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nsys = tmp_path / "bin/nsys"
    nsys.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", "utf-8")
    nsys.chmod(0o755)
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 1.0" + bytes(100))
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    command = ["-m", "ktrace", "mcp", "--allow", str(tmp_path)]

    async def run() -> None:
        server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env=environment)
        async with Client(stdio_client(server)) as client:
            answer = await client.call_tool("open", {"path": "run.nsys-rep"})
            assert answer.structured_content["error"]["kind"] == "closed_format"
            assert "nsys export" in answer.structured_content["error"]["remedy"]

    anyio.run(run)
    assert not (tmp_path / "ran").exists()


def test_plug_ins_are_not_loaded() -> None:
    code = (
        "import os, sys; sys.stdin = open(os.devnull); sys.argv = ['ktrace', 'mcp']\n"
        "from ktrace.cli import cli\n"
        "cli.main(['mcp'], standalone_mode=False)\n"
        "import ktrace.input.format as formats\n"
        "formats.may_have_entry_points = lambda: 1 / 0\n"
        "print(formats.plugins(), os.environ['KTRACE_NSYS'] == '')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "Plugins(formats=(), failures=()) True\n", done.stderr
