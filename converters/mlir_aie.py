"""Traces of AMD's AI Engines (NPU) that mlir-aie makes of the trace units' packets: JSON of begins and ends in cycles.

    [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "core_trace for tile2,0"}},
     {"name": "KERNEL", "ts": 100, "ph": "B", "pid": 0, "tid": 0, "args": {}},
     {"name": "KERNEL", "ts": 9100, "ph": "E", "pid": 0, "tid": 0, "args": {}}]       9,000 cycles of KERNEL on tile2,0

It looks like a trace of any program, but `ts` are cycles of a clock whose frequency it doesn't state: they become
cycles, not microseconds, and sums for each tile and event rather than a timeline.
Facts: python/utils/trace/parse.py of mlir-aie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TILE = re.compile(r'"(?:core|mem|intfc|shim|memtile)_trace for (?:tile\(?\d|column \d)')


@dataclass
class _Sum:
    """The cycles of an event on a tile: how often, in all, the fewest and the most."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, cycles: int) -> None:
        self.least = min(self.least, cycles) if self.count else cycles
        self.most = max(self.most, cycles)
        self.count += 1
        self.total += cycles


def probe(sample: Sample) -> Match | None:
    """MAGIC for processes that are the trace units of tiles."""
    match = _TILE.search(sample.text or "") if sample.is_json else None
    return Match(Score.MAGIC, "has the trace units of AI Engine tiles, in cycles") if match else None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary in cycles for each event of each tile."""
    rows, report = RowBuilder(conversion), conversion.report
    tiles: dict[str, str] = {}
    open_: dict[tuple[str, str, str], int] = {}
    sums: dict[tuple[str, str], _Sum] = {}
    for item in json_items(source, report):
        report.record()
        event = plain_value(item.value)
        if item.problem or not isinstance(event, dict):
            report.issue(item.problem or "bad-record", item.where, item.text[:80])
            continue
        name, phase, ts = str(event.get("name", "")), event.get("ph"), event.get("ts")
        pid, tid = (str(event.get(key)) for key in ("pid", "tid"))
        if phase == "M":
            args = event.get("args")
            tiles |= {pid: str(args.get("name", ""))} if name == "process_name" and isinstance(args, dict) else {}
            report.used(outcome="catalog")
        elif phase == "B" and isinstance(ts, int):
            open_[pid, tid, name] = ts
            report.used(outcome="folded")
        elif phase == "E" and isinstance(ts, int) and (pid, tid, name) in open_:
            one = sums.setdefault((pid, name), _Sum())
            one.add(ts - open_.pop((pid, tid, name)))
            report.used() if one.count == 1 else report.used(outcome="folded")
        else:
            report.issue(
                "bad-record", item.where, "an end without a start" if phase == "E" else "neither a start nor an end"
            )
    for _, _, name in open_:
        report.issue("cut", name, "a start without an end", 0)
    rows.fact("source", facts={"tool": "mlir-aie", "times": "cycles"})
    report.issue("cycles", source.path, rows=0)
    for (pid, name), one in sums.items():
        kind = "kernel" if "KERNEL" in name.upper() else "range"
        figures = {"total": one.total, "avg": one.total / one.count, "min": one.least, "max": one.most}
        columns = {column: float(value) for column, value in figures.items()}
        scope = [tiles[pid]] if tiles.get(pid) else None
        rows.summary(kind, name, metric="cycles", unit="cycle", count=one.count, scope=scope, **columns)
        yield from rows.ready()
    yield from rows.rest()


FORMAT = Format(
    "mlir-aie",
    "AMD AI Engine traces of mlir-aie, in cycles",
    patterns=("trace*.json",),
    probe=probe,
    read=read,
    words=("_trace for ",),
    document=True,
)
