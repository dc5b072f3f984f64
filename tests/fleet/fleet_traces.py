"""Small PyTorch traces of a rank, their figures, and the figures of a dataset by DuckDB."""

from __future__ import annotations

import json
import os
import signal
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


def convert_or_die(task: Task) -> Outcome:
    """Does a task, but for one of a file called poison, which kills its process as the system does."""
    if "poison" in task.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return convert_one(task)
