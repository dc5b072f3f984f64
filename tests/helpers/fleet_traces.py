"""Small PyTorch traces of a rank, their figures, and the figures of a dataset by DuckDB."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import duckdb

from ktrace.fleet.tasks import Outcome, Task, convert_one

NAMES = ("gemm", "softmax", "rmsnorm")


def write_trace(path: Path, rank: int | None = None, *, kernels: int = 30, host: str | None = None) -> Path:
    """A trace with so many kernels of 1, 2, 3, ... us and one ns each; it says rank and host where they are given."""
    events = [
        {
            **{
                "ph": "X",
                "cat": "kernel",
                "name": NAMES[number % 3],
                "pid": 0,
                "tid": 7,
                "dur": round(number + 1.001, 3),
            },
            **{"ts": 1000 + 10 * kernels * number, "args": {"device": 0, "stream": 7, "correlation": number}},
        }
        for number in range(kernels)
    ]
    document: dict[str, Any] = {"schemaVersion": 1, "traceEvents": events}
    if host:
        document["host_name"] = host
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 8}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")
    return path


def write_big_trace(path: Path, *, events: int = 12_000, rank: int = 3) -> Path:
    """A trace of calls, kernels, arrows and names of threads, 200 bytes an event; two calls have no time.

    What it says of itself stands at both ends, its rank behind the events. Texts and lists look like ends of events.
    """
    text = ['{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": [']
    text.append(",\n".join(json.dumps(_event(number, events)) for number in range(events)))
    said = {"rank": rank, "world_size": 8}
    text.append(f'], "baseTimeNanoseconds": 1724000000000000000, "distributedInfo": {json.dumps(said)}}}\n')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(text), "utf-8")
    return path


def _event(number: int, events: int) -> dict[str, Any]:
    event: dict[str, Any] = {"ph": "X", "cat": "cuda_runtime", "name": NAMES[number % 3], "pid": 41, "tid": 7}
    event |= {"ts": 1000 + 3 * number + number % 1000 / 1000, "dur": 1.001}
    event["args"] = {"correlation": number, "note": "}, {", "list": [{"name": "x" * 60}, {"name": "y"}, {"name": "z"}]}
    if number % 1000 == 4:
        return {"ph": "M", "name": "thread_name", "pid": 41, "tid": number // 2000, "args": {"name": f"t{number}"}}
    if number % 4 == 2:
        return event | {"cat": "kernel", "pid": 0}
    if number % 4 == 3:
        del event["dur"], event["args"]
        return event | {"ph": "s" if number % 8 == 3 else "f", "id": number, "cat": "ac2g", "name": "ac2g"}
    if number in (events // 3, events // 3 * 2):
        del event["ts"]
    return event


def nanoseconds(kernels: int = 30) -> int:
    """The sum of the durations in such a trace, in ns."""
    return sum((number + 1) * 1000 + 1 for number in range(kernels))


def figures(folder: Path, by: str = "run_name, host_name, rank") -> list[tuple[Any, ...]]:
    """Rows and ns of kernels in a dataset by its folders, as DuckDB reads them."""
    return duckdb.sql(
        f"select {by}, count(*), sum(dur)::bigint from read_parquet('{folder}/**/*.parquet', hive_partitioning=true)"
        f" where kind = 'kernel' group by all order by all"
    ).fetchall()


def shards(folder: Path) -> list[str]:
    """The names of the Parquet files of a dataset."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.parquet"))


def convert_or_die_once(task: Task) -> Outcome:
    """Does a task, but for that of the second range the first time."""
    first = Path(task.dst).with_suffix(".died")
    if task.staged.endswith(".1") and not first.exists():
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return convert_one(task)


def convert_or_die(task: Task) -> Outcome:
    """Does a task, but for one of a file called poison, which kills its process as the system does."""
    if "poison" in task.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return convert_one(task)


def convert_slowly(task: Task) -> Outcome:
    """Does a task after a minute."""
    time.sleep(60)
    return convert_one(task)
