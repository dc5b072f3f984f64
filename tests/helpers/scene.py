"""A small trace with everything that a timeline writer must get right, and a way to write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.detection import by_name
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.output import Sink, writing
from ktrace.output.write import write_batches
from ktrace.report import Report

EPOCH = 1_724_000_000_123_456_789
KERNEL = "void gemm<float, 128>(int, float const*) [clone .ünïcode «Ω»]"
ARGS: dict[str, Any] = {
    "Input Dims": [[4096, 8192], [], [1, None]],
    "nested": {"deep": {"flag": True, "list": ["a", 2.5]}, "empty": {}},
    "negative": -3,
    "beyond": 2**70,
    "share": 0.1,
    "not a number": "NaN",
    "off": False,
    "nothing": None,
    'quote " and \\ and \n': "tab\t",
    "id": "the source's own",
}


def rows() -> RowBuilder:
    """Somewhere to add rows."""
    return RowBuilder(Conversion(Report(), "run"))


def scene(start: int = 0) -> list[Batch]:
    """Two processes, a device, lanes, arrows, counters, a log; times from `start`."""
    made = rows()
    python = {"pid": 4242, "tid": 4242}
    gpu = {"pid": 4242, "device": 0, "stream": 7}
    made.fact("source", name="run", facts={"description": "About the run."})
    made.fact("process", pid=4242, name="python3 é")
    made.fact("thread", **python, name="main thread")
    made.fact("device", device=0, name="H100")
    op = made.event("op", "aten::mm", ts=start + 1000, dur=5001, cat="cpu_op", external_id=9, args=ARGS, **python)
    call = made.event("api", "launch", ts=start + 2000, dur=1001, parent=op, **python)
    made.event("op", "empty", ts=start + 3500, dur=0, **python)
    made.event("op", "same begin, outer", ts=start + 4000, dur=900, **python)
    made.event("op", "same begin, inner", ts=start + 4000, dur=899, **python)
    made.event("op", "next", ts=start + 6001, dur=9, **python)
    launch = {"grid_x": 3, "grid_y": 4, "grid_z": 5, "block_x": 128, "registers": 96, "occupancy": 33.25}
    kernel = made.event("kernel", KERNEL, ts=start + 4000, dur=3333, timing="derived", bytes=-5, **launch, **gpu)
    made.event("kernel", "overlapping", ts=start + 5000, dur=9999, **gpu)
    made.event("kernel", "no end", ts=start + 6000, **{**gpu, "stream": 20})
    made.event("range", "laid out", ts=start + 500, dur=4000, timing="synthetic", track="Statistics", run="fp16")
    made.event("range", "far", ts=start + 100, dur=50, pid=2**40, tid=2**40 + 3)
    made.event("instant", "mark", ts=start + 7777, **python)
    made.event("log", "[ok] Loading Ω", ts=start, track="log", args={"level": "info"})
    made.event("sample", "temperature", ts=start + 10, track="log", value=61.5, unit="degC")
    for number, value in enumerate((1.0, 2.5, float("nan"), 7e9)):
        made.event("counter", "memory", ts=start + 1000 * number, pid=4242, device=0, value=value, unit="B")
        made.event("counter", "clock", ts=start + 1000 * number, pid=4242, track="hw", value=value, unit="MHz")
    made.link("flow", "a", "out", event=call)
    made.link("flow", "a", "in", event=kernel)
    made.link("flow", "chain", "out", event=op)
    made.link("flow", "chain", "step", event=call)
    made.link("flow", "chain", "in", event=kernel)
    return list(made.rest())


#: name -> (ts from the start, dur) of every slice and point of the scene. Its end is 14,999.
PLACES = {
    "aten::mm": (1000, 5001),
    "launch": (2000, 1001),
    "empty": (3500, 0),
    "same begin, outer": (4000, 900),
    "same begin, inner": (4000, 899),
    "next": (6001, 9),
    KERNEL: (4000, 3333),
    "overlapping": (5000, 9999),
    "no end": (6000, 8999),
    "laid out": (500, 4000),
    "far": (100, 50),
    "mark": (7777, 0),
    "[ok] Loading Ω": (0, 0),
    "temperature": (10, 0),
}

#: Arrows of the scene: from, to.
ARROWS = {("launch", KERNEL), ("aten::mm", "launch")}


def write(batches: list[Batch], format: str, path: Path, **options: str) -> Report:
    """Writes the batches, with options of the conversion, and returns the account, which must add up."""
    report = Report()
    for batch in batches:
        if batch.record != "catalog":
            report.rows[batch.record] += len(batch)
    with writing(Sink(str(path))) as sink:
        write_batches(batches, by_name(format, writes=True), sink, Conversion(report, options=options))
    assert report.balanced()
    return report
