"""Plain Python arithmetic to check summaries against: no numpy, no code of ktrace's."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

Span = tuple[int, int]

#: Kineto's categories of device work.
_WORK = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "Kernel": "kernel",
    "Memcpy": "memcpy",
    "Memset": "memset",
}


class Work(NamedTuple):
    """A piece of device work; `call` is (ts, dur) of the call with its correlation."""

    kind: str
    name: str
    ts: int
    dur: int
    device: int
    stream: int
    call: Span | None
    arguments: dict[str, Any]


def ns(microseconds: Any) -> int:
    return int((Decimal(str(microseconds)) * 1000).to_integral_value())


def kineto(path: Path) -> tuple[list[Work], dict[str, Span]]:
    """The device work of a Kineto file, read with json and Decimal, and its steps on the host: (ts, dur)."""
    packed = path.read_bytes()
    text = gzip.decompress(packed) if path.suffix == ".gz" else packed
    document = json.loads(text, parse_float=Decimal, strict=False)
    events = document["traceEvents"] if isinstance(document, dict) else document
    whole = [event for event in events if event.get("ph") == "X"]
    base = int(document.get("baseTimeNanoseconds", 0)) if isinstance(document, dict) else 0
    calls = {}
    for event in whole:
        correlation = event.get("args", {}).get("correlation")
        if event.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime") and correlation:
            calls.setdefault(int(correlation), (ns(event["ts"]) + base, ns(event["dur"])))
    work = []
    for event in whole:
        kind = _WORK.get(event.get("cat", ""))
        if kind:
            args = event["args"]
            call = calls.get(int(args.get("correlation", 0)))
            ts, dur = ns(event["ts"]) + base, ns(event["dur"])
            work.append(Work(kind, event["name"], ts, dur, int(args["device"]), int(args["stream"]), call, args))
    steps = {
        event["name"]: (ns(event["ts"]) + base, ns(event["dur"]))
        for event in whole
        if event["name"].startswith("ProfilerStep#") and event["cat"] in ("user_annotation", "cpu_op", "Operator")
    }
    return work, steps


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a database, by SQL; nothing is written next to it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        return database.execute(sql).fetchall()


def totals(work: Iterable[Work], key: Callable[[Work], Any]) -> dict[Any, tuple[int, int]]:
    """Key -> (count, ns)."""
    found: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for one in work:
        found[key(one)][0] += 1
        found[key(one)][1] += one.dur
    return {name: (count, total) for name, (count, total) in found.items()}


def percentile(values: Iterable[int], percent: float) -> float:
    """Linear between the two nearest, with fractions by Decimal."""
    rising = sorted(values)
    place = Decimal(str(percent)) / 100 * (len(rising) - 1)
    low = int(place)
    high = min(low + 1, len(rising) - 1)
    return float(rising[low] + (rising[high] - rising[low]) * (place - low))


def sweep(spans: Iterable[tuple[int, int, str]]) -> dict[frozenset[str], int]:
    """How long which sets of roles were at work at once: a walk over all begins and ends."""
    points: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for begin, end, role in spans:
        if end > begin:
            points[begin].append((role, 1))
            points[end].append((role, -1))
    running: defaultdict[str, int] = defaultdict(int)
    found: defaultdict[frozenset[str], int] = defaultdict(int)
    before = None
    for time in sorted(points):
        if before is not None:
            found[frozenset(role for role, count in running.items() if count)] += time - before
        for role, change in points[time]:
            running[role] += change
        before = time
    return dict(found)


def gaps(spans: Iterable[Span]) -> list[int]:
    """The times between begin of the first and end of the last during which nothing is."""
    found, reached = [], None
    for begin, end in sorted(span for span in spans if span[1] > span[0]):
        if reached is not None and begin > reached:
            found.append(begin - reached)
        reached = end if reached is None else max(reached, end)
    return found
