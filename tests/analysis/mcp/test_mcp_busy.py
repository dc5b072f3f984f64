"""A server of `ktrace mcp` that is busy: others are answered, memory is counted and kept to, and it ends when told."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SAMPLES
from nightly import few

from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.session import Opened, Session
from ktrace.errors import UsageError

pytest.importorskip("mcp", reason="the extra mcp isn't installed")
pytest.importorskip("duckdb", reason="duckdb isn't installed")

import anyio
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from ktrace.analysis.answers.mcp.server import answered

STEP = "kineto/one-step-of-training.pt.trace.json"
PHASES = "kineto/phases-of-inference.pt.trace.json"
LONG = "select count(*) from range(100000) a(i), range(100000) b(j), range(100000) c(k) where i + j = k"

ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is known by /proc")


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(Session(Access([SAMPLES]), 1 << 30)) as made:
        yield made


class Call(threading.Thread):
    """A call in another thread."""

    def __init__(self, session: Session, tool: str, **arguments: Any) -> None:
        super().__init__(daemon=True)
        self._call = session, tool, arguments
        self.answer: dict[str, Any] = {}
        self.start()

    def run(self) -> None:
        self.answer = answered(*self._call)


def test_while_a_query_runs_long_all_others_are_answered(session: Session) -> None:
    one, other = (answered(session, "open", {"path": path})["handle"] for path in (STEP, PHASES))
    answered(session, "query", {"handle": one, "sql": "select 1"})
    long = Call(session, "query", handle=one, sql=LONG)
    for handle in (one, other):
        for tool in ("findings", "overview", "idle"):
            assert "error" not in answered(session, tool, {"handle": handle})
        assert answered(session, "query", {"handle": handle, "sql": "select 7 as n"})["tables"][0]["rows"] == [[7]]
    assert answered(session, "open", {"path": "mlc/two-dialects-and-a-peak-that-disagrees.md"})["handle"] == "t3"
    assert long.is_alive(), "it runs all the while"
    session.close()
    long.join(60)
    assert "ended too early" in long.answer["error"]["message"]


def test_long_queries_without_number_keep_nobody_waiting(session: Session) -> None:
    handle = answered(session, "open", {"path": STEP})["handle"]
    several = [Call(session, "query", handle=handle, sql=LONG) for _ in range(30)]
    refused = [one for one in several if not one.join(0.1) and not one.is_alive()]
    assert len(refused) == 30 - 2 - 16
    assert {one.answer["error"]["remedy"] for one in refused} == {"ask again later"}
    assert "error" not in answered(session, "findings", {"handle": handle})
    session.close()
    for one in several:
        one.join(60)
        assert "error" in one.answer


def test_while_a_trace_is_read_all_others_are_answered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = answered(session, "open", {"path": STEP})["handle"]
    begun, may_end = threading.Event(), threading.Event()
    read = Opened.__init__

    def slow(self: Opened, name: str, paths: Any, *arguments: Any, **options: Any) -> None:
        if str(paths[0]).endswith(PHASES):
            begun.set()
            assert may_end.wait(60)
        read(self, name, paths, *arguments, **options)

    monkeypatch.setattr(Opened, "__init__", slow)
    several = [Call(session, "open", path=PHASES) for _ in range(2)]
    assert begun.wait(60)
    assert "error" not in answered(session, "findings", {"handle": handle})
    assert answered(session, "query", {"handle": handle, "sql": "select 7 as n"})["tables"][0]["rows"] == [[7]]
    may_end.set()
    for one in several:
        one.join(60)
    assert several[0].answer["phases"] == several[1].answer["phases"] != []


def test_the_same_trace_opened_by_two_at_a_time_is_answered_to_both(session: Session) -> None:
    several = [Call(session, "open", path=PHASES) for _ in range(6)]
    for one in several:
        one.join(60)
    handles = {one.answer["handle"] for one in several}
    assert 1 <= len(handles) <= 2
    for handle in handles:
        assert "error" not in answered(session, "findings", {"handle": handle})


def test_the_server_answers_while_queries_run_as_many_as_may() -> None:
    """By the protocol: with four long queries, more than run at a time, a ping and a summary are answered."""

    async def run() -> None:
        command = ["-m", "ktrace", "mcp", "--allow", str(SAMPLES)]
        server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)
        async with Client(stdio_client(server)) as client:
            handle = (await client.call_tool("open", {"path": STEP})).structured_content["handle"]
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(client.call_tool, "query", {"handle": handle, "sql": LONG})
                await anyio.sleep(0.5)
                answer = await client.call_tool("findings", {"handle": handle})
                assert not answer.is_error
                assert len((await client.list_tools()).tools) > 5
                other = await client.call_tool("open", {"path": PHASES})
                assert not other.is_error
                tasks.cancel_scope.cancel()

    anyio.run(run)


def resident(pid: int | str = "self") -> int:
    """Bytes of memory of a process."""
    return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


TINY = [STEP, "mlc/two-dialects-and-a-peak-that-disagrees.md", "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite"]


@ONLY_LINUX
@pytest.mark.parametrize("sample", few(TINY, 1))
def test_a_trace_is_counted_as_what_it_takes(tmp_path: Path, sample: str) -> None:
    """In a process of its own, since memory that others have freed would be used."""
    code = (
        "import gc, sys\n"
        "sys.path += ['tests', 'tests/helpers', 'tests/analysis/mcp']\n"
        "from test_mcp_busy import growth_of\n"
        "print(*growth_of(sys.argv[1], sys.argv[2]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, sample, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    taken, counted, more = map(float, done.stdout.split())
    assert taken < 2.5 * counted
    assert counted < 4 * taken
    assert more == 0, "threads"


def growth_of(sample: str, folder: str) -> tuple[float, float, int]:
    """Bytes that 20 traces take, and that are counted; threads more than with 5 traces."""
    for number in range(25):
        shutil.copy(SAMPLES / sample, Path(folder) / f"{number}-{Path(sample).name}")
    names = sorted(path.name for path in Path(folder).iterdir())
    with closing(Session(Access([folder]), 1 << 30)) as session:

        def open_all(some: list[str]) -> int:
            for name in some:
                handle = answered(session, "open", {"path": name})["handle"]
                assert "error" not in answered(
                    session, "query", {"handle": handle, "sql": "select count(*) from events"}
                )
            gc.collect()
            return sum(session.get(f"t{number + 1}").nbytes for number in range(len(session._opened)))

        before = open_all(names[:5]), resident(), threads()
        after = open_all(names[5:]), resident(), threads()
    return after[1] - before[1], after[0] - before[0], after[2] - before[2]


@ONLY_LINUX
def test_many_traces_keep_to_the_memory_of_the_server(tmp_path: Path) -> None:
    for number in range(20):
        shutil.copy(SAMPLES / STEP, tmp_path / f"{number}.json")
    most = 2 << 20
    with closing(Session(Access([tmp_path]), most)) as session:
        for number in range(20):
            answer = answered(session, "open", {"path": f"{number}.json"})
            assert answered(session, "query", {"handle": answer["handle"], "sql": "from kernels"})["tables"]
            assert sum(one.nbytes for one in session._opened.values()) <= most
        assert 5 < len(session._opened) < 20
        assert "error" not in answered(session, "findings", {"handle": "t20"})
        error = answered(session, "findings", {"handle": "t1"})["error"]
        assert (error["kind"], error["message"]) == ("usage", "'t1' was closed, since other traces needed its memory")
        assert error["file"] == str(tmp_path / "0.json")
        assert answered(session, "open", {"path": "0.json"})["handle"] == "t21"


def test_files_of_closed_traces_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    for number in range(12):
        shutil.copy(SAMPLES / STEP, tmp_path / f"{number}.json")
    with closing(Session(Access([tmp_path]), 1 << 20)) as session:
        for number in range(12):
            handle = answered(session, "open", {"path": f"{number}.json"})["handle"]
            answered(session, "query", {"handle": handle, "sql": "select 1"})
        gc.collect()
        assert 0 < len(list((tmp_path / "scratch").iterdir())) == len(session._opened) < 12
    gc.collect()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_trace_that_is_closed_while_it_is_asked_is_answered(session: Session) -> None:
    opened = session.open(STEP)
    session.ask(opened, "select 1", rows=1)
    with session._lock:
        session._close(opened.name)
    assert session.ask(opened, "select count(*)::int as n from events", rows=1).to_pylist() == [{"n": 65}]
    with pytest.raises(UsageError, match="was closed"):
        session.get(opened.name)


def test_summaries_that_were_asked_for_least_recently_give_way() -> None:
    with closing(Session(Access([SAMPLES]), 1 << 30)) as roomy:
        size = roomy.open(STEP).nbytes
    with closing(Session(Access([SAMPLES]), size + (150 << 10))) as small:
        handle = answered(small, "open", {"path": STEP})["handle"]
        for by in ("critical-path", "roofline", "queue", "launch", "wait", "pass", "shape", "copy"):
            assert "error" not in answered(small, "overview", {"handle": handle, "by": [by]}), by
            assert "error" not in answered(small, "findings", {"handle": handle})


@pytest.mark.parametrize(("number", "code"), few([(signal.SIGTERM, 143), (signal.SIGINT, 130)], 1))
def test_a_signal_ends_it_also_while_a_query_runs(number: int, code: int) -> None:
    def line(one: int, tool: str, **arguments: Any) -> bytes:
        import json

        params = {"name": tool, "arguments": arguments}
        return json.dumps({"jsonrpc": "2.0", "id": one, "method": "tools/call", "params": params}).encode() + b"\n"

    start = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"t","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "ktrace", "mcp", "--allow", str(SAMPLES)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdin and server.stdout and server.stderr
    server.stdin.write(start + line(1, "open", path=STEP))
    server.stdin.flush()
    assert b'"id":0' in server.stdout.readline()
    assert b'"t1"' in server.stdout.readline()
    server.stdin.write(line(2, "query", handle="t1", sql=LONG) + line(3, "query", handle="t1", sql="select 7 as n"))
    server.stdin.flush()
    assert b"[7]" in server.stdout.readline()  # the other one runs meanwhile
    server.send_signal(number)
    assert server.wait(15) == code, "before the query's own limit"
    for stream in (server.stdin, server.stdout, server.stderr):
        stream.close()
