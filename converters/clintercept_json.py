"""Trace Event JSON of the Intercept Layer for OpenCL Applications (clintercept_trace.json).

[
{"ph":"M","name":"clintercept_start_time","pid":825,"tid":0,"args":{"start_time":8334000904}},
{"ph":"M","name":"thread_name","pid":825,"tid":1.1,"args":{"name":"IOQ 0xaaab.0.0 Some GPU (CL_DEVICE_TYPE_GPU)"}},
{"ph":"X","pid":825,"tid":900,"name":"clEnqueueNDRangeKernel( mm )","ts":100.125,"dur":5.250,"args":{"id":2}},
{"ph":"X","pid":825,"tid":1.1,"name":"mm","ts":130.500,"dur":9.125,"args":{"id":2}},

A whole tid is a thread of the host. Device work has the tid <queue>.1, its name (`PerKernel`), <number>.<queue> with
three stages (`InStages`), or -<queue> in old versions. The id of a call and of the work that it enqueued are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.intel import ParsedName, Place, device_work, intercepted
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = (b'"clintercept_start_time"', b'"clintercept_eof"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for metadata of the layer in a list of events."""
    if not sample.head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return None
    for word in _WORDS:
        if word in sample.head[:65_536] or word in sample.tail:
            return Match(Score.DIALECT, f"has the event {word.decode()}")
    return None


_NAME = re.compile(
    rb'"name"\s*:\s*"thread_name"\s*,\s*"pid"\s*:\s*\d{1,12}\s*,\s*"tid"\s*:\s*(?:-(\d{1,9})|(\d{1,9})\.1)\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]{0,400})"'
)
_DEVICE = re.compile(r"(?:(?:IOQ|OOQ) )?0x[0-9a-fA-F]+(?:\.\d+)* (.+)")
_LONGEST = 1024


@dataclass
class Queues:
    """The devices in the order of their first queues, the device and the name of each queue."""

    devices: list[str] = field(default_factory=list)
    device_of: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def add(self, queue: int, name: str) -> None:
        """Adds a queue."""
        match = _DEVICE.fullmatch(name)
        device = match[1] if match else name
        if device not in self.devices:
            self.devices.append(device)
        self.device_of[queue] = self.devices.index(device)
        self.names[queue] = name


def queues_of(source: Source) -> Queues:
    """Returns the queues that are named anywhere in the document."""
    queues = Queues()
    for text in source.windows(_LONGEST):
        for old, new, name in _NAME.findall(text) if b'"thread_name"' in text else ():
            queues.add(int(old or new), name.decode("utf-8", "replace"))
    return queues


_STAGE = re.compile(r" \((Queued|Submitted|Execution)\)$")
_DOT = re.compile(r"(\d{1,9})\.(\d{1,9})")


def place(name: str, tid: int | None, track: str | None) -> Place:
    """Returns the place of a row: the stages before the execution are ranges."""
    stage = _STAGE.search(name)
    dot = _DOT.fullmatch(track or "")
    stream = -tid if tid is not None and tid < 0 else int(dot[2 if stage else 1]) if dot else None
    if stage and stage[1] != "Execution":
        return Place(ParsedName("range", name), stream, waits=True)
    return Place(intercepted(name[: stage.start()] if stage else name), stream, waits=False)


def without_tracks(batch: Batch) -> Batch:
    """Returns a catalog without the tracks of queues, which the reader adds as streams."""
    names = batch.column("track").cast(pa.string())
    queue = pc.fill_null(pc.match_substring_regex(names, r"^\d+\.1$"), False)
    old = pc.fill_null(pc.less(batch.column("tid"), 0), False)
    return Batch(batch.record, batch.columns.filter(pc.invert(pc.or_(queue, old))))


DIALECT = Dialect(
    cats={},
    other=Rule("api", columns={"id": Into("correlation")}),
    flows={"Commands": None},
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields calls and device work. Raises DamagedInput if it isn't Trace Event JSON at all."""
    queues = queues_of(source)

    def placed(batch: Batch) -> Batch:
        if batch.record == "events":
            return device_work(batch, place, queues.device_of)
        return without_tracks(batch) if batch.record == "catalog" else batch

    yield from read_dialect(source, conversion, DIALECT, placed)
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock("Intercept Layer for OpenCL Applications", "session")
    for device, name in enumerate(queues.devices):
        rows.fact("device", device=device, name=name, facts={"api": "opencl"})
    for queue, device in queues.device_of.items():
        rows.fact("stream", device=device, stream=queue, name=queues.names[queue])
    yield from rows.rest()


FORMAT = Format(
    "clintercept-json",
    "OpenCL Intercept Layer JSON",
    patterns=("clintercept_trace.json", "*.json"),
    probe=probe,
    read=read,
    words=('"clintercept_',),
    document=True,
    holds="blocks",
)
