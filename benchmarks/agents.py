"""Measures ten questions about two big traces: asked of `ktrace mcp` by the SDK's client, and of the shell.

    python benchmarks/agents.py [--events 1000000] [--json agents.json]

The inputs are two runs of Kineto events, generated as by kineto.py. A call of the shell prints JSON with at most 20
rows of each table, as the server does. The server is asked all questions twice: the first time it reads and computes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from kineto import MAKER, make_input
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from process import Figures, run_script

_BY_GRID = "select name, grid_x, count(*) as n, sum(dur) as ns from kernels group by all order by ns desc limit 20"
_GEMM = "select id, ts, dur, stream, call, queue from kernels where name like '%gemm%' order by dur desc limit 20"
_WINDOW = (
    "select id, kind, name, ts, dur, stream, tid from events "
    "where ts < {end} and ts + coalesce(dur, 0) >= {begin} order by ts limit 20"
)

#: Question -> tool and arguments; arguments of the shell. {a} and {b} are traces or handles.
QUESTIONS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "what is it": ("open", {"path": "{path}"}, ["info", "{a}"]),
    "what takes the time": ("findings", {"handle": "{a}"}, ["summary", "{a}", "--tables", "findings"]),
    "by kernel and operation": ("overview", {"handle": "{a}"}, ["summary", "{a}", "--by", "operation,kernel"]),
    "why idle": ("idle", {"handle": "{a}"}, ["summary", "{a}", "--by", "idle"]),
    "by operator": ("op", {"handle": "{a}"}, ["summary", "{a}", "--by", "op"]),
    "collectives": ("collectives", {"handle": "{a}"}, ["summary", "{a}", "--by", "collective"]),
    "longest of a kernel": ("kernel", {"handle": "{a}", "name": "gemm"}, ["query", "{a}", _GEMM]),
    "events of a millisecond": ("window", {"handle": "{a}"}, ["query", "{a}", _WINDOW]),
    "kernels by grid": ("query", {"handle": "{a}", "sql": _BY_GRID}, ["query", "{a}", _BY_GRID]),
    "what changed": ("findings", {"handle": "{b}", "before": "{a}"}, ["diff", "{a}", "{b}", "--tables", "findings"]),
}


async def _asked(traces: list[Path]) -> tuple[dict[str, Figures], int]:
    """The figures of the server, and the start of the first trace."""
    command = ["-m", "ktrace", "mcp", "--allow", str(traces[0].parent), "--memory", "4GB"]
    found: dict[str, Figures] = {}
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:

        async def ask(name: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            began = time.perf_counter()
            answer = await client.call_tool(tool, arguments)
            figures = {"calls": 1, "bytes": len(answer.content[0].text), "wall s": time.perf_counter() - began}
            assert not answer.is_error, answer
            found[name] = figures
            return dict(answer.structured_content)

        begin = 0
        for turn in ("first", "again"):
            for name, (tool, arguments, _) in QUESTIONS.items():
                places = {"a": "t1", "b": "t2", "path": traces[0].name}
                given = {key: value.format(**places) for key, value in arguments.items()}
                if tool == "window":
                    given |= {"begin_ns": begin, "end_ns": begin + 1_000_000}
                if name == "what changed" and turn == "first":
                    await ask(f"{name}, {turn}: open", "open", {"path": traces[1].name})
                answer = await ask(f"{name}, {turn}", tool, given)
                begin = answer["span"]["begin_ns"] if tool == "open" else begin
    return found, begin


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Runs all measurements of this script: question -> calls, bytes, seconds."""
    if not MAKER.exists():
        print(f"no {MAKER}: these benchmarks are left out")
        return {}
    traces = [make_input(folder, events), folder / f"other{events}.json"]
    if not traces[1].exists():
        subprocess.run([sys.executable, str(MAKER), str(events), str(traces[1]), "1"], check=True)
    results, begin = anyio.run(_asked, traces)
    for name, (_, _, arguments) in QUESTIONS.items():
        places = {"a": str(traces[0]), "b": str(traces[1]), "begin": begin, "end": begin + 1_000_000}
        command = [one.format(**places) for one in arguments]
        rows = ["--rows", "20"] if command[0] in ("summary", "diff", "query") else []
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "ktrace", *command, "--format", "json", *rows], capture_output=True, check=True
        )
        results[f"{name}, shell"] = {"calls": 1, "bytes": len(done.stdout), "wall s": time.perf_counter() - began}
    for how in ("first", "again", "shell"):
        mine = [one for name, one in results.items() if f", {how}" in name]
        results[f"all, {how}"] = {key: sum(one[key] for one in mine) for key in mine[0]}
    return results


if __name__ == "__main__":
    run_script(measure, "--events", 1_000_000, __file__, __doc__)
