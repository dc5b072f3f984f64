"""A trace of PyTorch's profiler as plain events, and as JSON again: what writers of other formats take their rows from.

run = load(path)                           whole events with times in ns, by plain loops over the document
write_kineto(held_by(run, ...), out)       the same run, without the facts that another format has no place for
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

#: Categories by what they are; those of 2021 are spelled differently.
WORK = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}
CALLS = ("cuda_runtime", "cuda_driver")
OPS = ("cpu_op", "user_annotation", "python_function")
SYNC = "cuda_sync"
GPU_RANGE = "gpu_user_annotation"
_SPELLED = {
    **{"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime"},
    "Operator": "cpu_op",
}

#: Arguments of kernels that tell what a collective moves (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
COLLECTIVE = (
    *("Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size", "Out split size"),
    *("Process Group Name", "Process Group Description", "Process Group Ranks", "Rank", "Seq"),
)


@dataclass(frozen=True)
class Event:
    """A slice: times in ns of the document's clock; `pid` and `tid` are device and stream of work."""

    cat: str
    name: str
    pid: int
    tid: int
    begin: int
    end: int
    args: Mapping[str, Any]

    @property
    def correlation(self) -> int:
        """The correlation id, 0 without one."""
        return int(self.args.get("correlation") or 0)


@dataclass(frozen=True)
class Run:
    """The slices of a document, its head without events, and the clock's origin."""

    events: list[Event]
    head: Mapping[str, Any] = field(default_factory=dict)
    base: int = 0

    def of(self, *cats: str) -> list[Event]:
        """The events of some categories."""
        return [one for one in self.events if one.cat in cats]

    @property
    def work(self) -> list[Event]:
        """Kernels and copies."""
        return self.of(*WORK)


def _ns(value: Any) -> int:
    return int(Decimal(str(value)) * 1000)


def load(path: Path) -> Run:
    """Reads a document of PyTorch's profiler; flows, counters, names and instants aren't slices."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        head = json.loads(file.read(), parse_float=Decimal, strict=False)
    events = []
    for one in head.pop("traceEvents"):
        cat = _SPELLED.get(str(one.get("cat")), str(one.get("cat")))
        if one.get("ph") != "X" or cat == "Trace" or not all(isinstance(one.get(key), int) for key in ("pid", "tid")):
            continue
        begin = _ns(one["ts"])
        args = one.get("args", {})
        events.append(Event(cat, one["name"], one["pid"], one["tid"], begin, begin + _ns(one.get("dur", 0)), args))
    return Run(events, head, int(head.get("baseTimeNanoseconds", 0)))


def held_by(run: Run, change: Callable[[Event], Event | None]) -> Run:
    """The run with its events as a format holds them, without those that it doesn't, and without the head."""
    found = [made for one in run.events if (made := change(one)) is not None]
    return Run(found, {"schemaVersion": 1, "baseTimeNanoseconds": run.base}, run.base)


def only(one: Event, keys: Collection[str], **more: Any) -> Event:
    """The event with these arguments alone."""
    return replace(one, args={key: value for key, value in one.args.items() if key in keys}, **more)


def graph_edges(run: Run) -> list[tuple[Event, Event]]:
    """Pairs of work of one launch, each of which waits for the one before, as the nodes of a graph might."""
    of_launch: dict[int, list[Event]] = {}
    for one in sorted(run.work, key=lambda one: (one.begin, one.end)):
        if one.correlation:
            of_launch.setdefault(one.correlation, []).append(one)
    return [pair for work in of_launch.values() for pair in pairwise(work)]


def write_kineto(run: Run, path: Path) -> Path:
    """The run as PyTorch's JSON. Its flows, which repeat the correlation ids, are left out."""
    return _written(run, path, map(_slice, run.events))


def write_monitor(run: Run, path: Path) -> Path:
    """The run as PyTorch's CUPTI monitor writes it: launches are flows `ac2g`, and so are the edges of graphs.

    The ids of edges begin at 2^40 (torch/profiler/_cuspy/trace.py). Of a graph only the root has a launch.
    """
    edges = graph_edges(run)
    inner = {id(after) for _, after in edges}
    launched = {one.correlation for one in run.work if one.correlation}
    flows = [("s", one.correlation, one, one.begin) for one in run.of(*CALLS) if one.correlation in launched]
    flows += [("f", one.correlation, one, one.begin) for one in run.work if one.correlation and id(one) not in inner]
    for number, (before, after) in enumerate(edges, 1 << 40):
        flows += [("s", number, before, before.end), ("f", number, after, after.begin)]
    lines = []
    for phase, number, one, at in flows:
        place = {"ph": phase, "id": number, "pid": one.pid, "tid": one.tid, "cat": "ac2g", "name": "ac2g"}
        bound = ', "bp": "e"' if phase == "f" else ""
        lines.append(f'{json.dumps(place)[:-1]}, "ts": {_us(at)}{bound}}}')
    return _written(run, path, [*map(_slice, run.events), *lines])


def _slice(one: Event) -> str:
    place = json.dumps({"ph": "X", "cat": one.cat, "name": one.name, "pid": one.pid, "tid": one.tid})
    times = f'"ts": {_us(one.begin)}, "dur": {_us(one.end - one.begin)}'
    return f'{place[:-1]}, {times}, "args": {json.dumps(one.args, default=float)}}}'


def _written(run: Run, path: Path, lines: Iterable[str]) -> Path:
    head = json.dumps(run.head, default=float)[1:-1]
    path.write_text(f'{{{head}, "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n")
    return path


def _us(ns: int) -> str:
    return f"{'-' * (ns < 0)}{abs(ns) // 1000}.{abs(ns) % 1000:03}"
