"""Trace Event JSON of Intel's onetrace, cl_tracer and ze_tracer (`--chrome-...`), the predecessors of unitrace.

[
{"ph":"M", "name":"process_name", "pid":"4321", "args":{"name":"solver"}},
{"ph":"M", "name":"start_time", "pid":"4321", "args":{"CLOCK_MONOTONIC_RAW":"7001", "CLOCK_REALTIME":"..."}},
{"ph":"X", "pid":"4321", "tid":"4322", "name":"zeInit", "ts": 18, "dur":5, "args": {"id": "1"}},
{"ph":"X", "pid":"4321", "tid":"0x55a9c7e51e70", "name":"GEMM", "ts": 318550, "dur":42710, "args": {"id": "2"}},

Pids and tids are texts, times whole µs, rounded down. The list has no end. The tid of device work is its queue, its
name (`--chrome-kernel-timeline`), or <id>.<queue> with three stages (`--chrome-device-stages`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.intel import ParsedName, Place, device_work, work
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_START = re.compile(
    rb'"name"\s*:\s*"start_time"\s*,\s*"pid"\s*:\s*"\d+"\s*,\s*"args"\s*:\s*\{\s*"(?:CLOCK_MONOTONIC_RAW|CLOCK_MONOTONIC|QueryPerformanceCounter)"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the second event of the tools in a list."""
    head = sample.head[:8192]
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and b'"start_time"' in head and _START.search(head):
        return Match(Score.DIALECT, "has the event start_time with the clocks of onetrace")
    return None


_QUEUE = re.compile(rb'"tid"\s*:\s*"(?:[0-9.]{1,40}\.)?(0x[0-9a-fA-F]{1,16}|[0-9A-F]{16})"')
_OWN = re.compile(r"(?:[0-9.]{1,40}\.)?(0x[0-9a-fA-F]{1,16}|[0-9A-F]{16})")
_STAGE = re.compile(r" \((Appended|Queued|Submitted|Executed)\)$")
_LONGEST = 256

#: No program has more queues; more are other texts.
_MOST = 1 << 16


class Queues:
    """The queues; whether the document has commands of OpenCL and none of Level Zero."""

    def __init__(self) -> None:
        self.streams: dict[str, int] = {}
        self.opencl = False

    def place(self, name: str, _tid: int | None, track: str | None) -> Place:
        """The place of a row: the stages before the execution are ranges."""
        match = _OWN.fullmatch(track or "")
        stream = self.streams.get(match[1]) if match else None
        stage = _STAGE.search(name)
        if stage and stage[1] != "Executed":
            return Place(ParsedName("range", name), stream, waits=True)
        return Place(work(name[: stage.start()] if stage else name, self.opencl), stream, waits=False)


def queues_of(source: Source) -> Queues:
    """Returns the queues anywhere in the document."""
    queues, level_zero = Queues(), False
    for text in source.windows(_LONGEST):
        queues.opencl |= b'"clEnqueue' in text
        level_zero |= b'"zeCommand' in text
        for queue in dict.fromkeys(_QUEUE.findall(text)):
            if len(queues.streams) < _MOST:
                queues.streams.setdefault(queue.decode(), len(queues.streams))
    queues.opencl &= not level_zero
    return queues


DIALECT = Dialect(cats={}, other=Rule("api"), quoted=True)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields calls and device work. Raises DamagedInput if it isn't Trace Event JSON at all."""
    queues = queues_of(source)

    def placed(batch: Batch) -> Batch:
        return device_work(batch, queues.place, {}) if batch.record == "events" else batch

    yield from read_dialect(source, conversion, DIALECT, placed)
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock("onetrace", "session")
    rows.fact("device", device=0, name="Intel GPU", facts={"vendor": "Intel"})
    for queue, stream in queues.streams.items():
        rows.fact("stream", device=0, stream=stream, name=f"Queue {queue}")
    yield from rows.rest()


FORMAT = Format(
    "onetrace-json",
    "Intel onetrace, cl_tracer, ze_tracer JSON",
    patterns=("*.json",),
    probe=probe,
    read=read,
    words=('"start_time"',),
    document=True,
    holds="blocks",
)
