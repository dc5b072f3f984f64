"""Trace Event JSON of Intel's unitrace (`--chrome-call-logging`, `--chrome-kernel-logging` ...).

{ "traceEvents":[
{"ph": "M", "name": "process_name", "pid": 78154, "ts": 1695711384948305.000000, "args": {"name": "HOST<node7>"}},
{"ph": "M", "name": "process_name", "pid": 4294967295, ..., "args": {"name": "DEVICE<node7>[Intel(R) ...] 0:3a:0:0"}},
{"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]", "cat": "gpu_op",
 "ts": 1695711387928.273000, "dur": 2850.400000, "args": {"id": "12"}},
{"ph": "t", "tid": 4294967295, "pid": 4294967295, "name": "dep", "cat": "Flow_H2D_12_0", "ts": ..., "id": 12}

Categories tell device work, calls and the system. Devices and their queues have made-up pids and tids from 2^32 - 1
downwards; the process of the host has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.intel import ParsedName, work
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper, on_devices
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json, encoded
from ktrace.model.row_builder import RowBuilder

_PROCESS = re.compile(rb'"process_name"[^{}]{0,200}\{\s*"name"\s*:\s*"(?:RANK \d+ )?(?:HOST|DEVICE)<')
_WORK = re.compile(
    rb'"cat"\s*:\s*"gpu_op"[^{}]{0,200}\{\s*"id"\s*:\s*"\d+"|"cat"\s*:\s*"(?:CL_)?Flow_[HD]2[HD]_\d+_\d+"'
)


#: The first bytes, which contain a process or device work.
_HEAD = 1 << 18

_BEGIN = re.compile(
    rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*"ph"\s*:\s*"M"\s*,\s*"name"\s*:\s*"process_name"\s*,\s*"pid"\s*:\s*\d+\s*,'
    rb'\s*"ts"\s*:\s*[\d.]+\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:RANK \d+ )?HOST<'
)


def probe(sample: Sample) -> Match | None:
    """MAGIC for unitrace's first event, DIALECT for its processes elsewhere, or for its device work and flows."""
    head = sample.head[:_HEAD]
    if (
        b'"ph"' not in head[:65_536]
        or b'"otherData": {"ktrace"' in head[:256]
        or b'"otherData":{"ktrace"' in head[:256]
    ):
        return None
    if _BEGIN.match(head):
        return Match(Score.MAGIC, "begins with the process HOST<...>, as unitrace writes it")
    if (b"HOST<" in head or b"DEVICE<" in head) and _PROCESS.search(head):
        return Match(Score.DIALECT, "has a process HOST<...> or DEVICE<...>, as unitrace writes it")
    if (b'"gpu_op"' in head or b"Flow_" in head) and _WORK.search(head):
        return Match(Score.DIALECT, "has device work or flows as unitrace writes them")
    return None


_LAUNCH = r"^(?:CL_)?Flow_H2D_"


def in_parts(batch: Batch, opencl: frozenset[tuple[int, int]]) -> Batch:
    """Returns a batch of events whose device work has its parts as columns, with the kernel's own name."""
    if not batch.has("cat") or not len(batch):
        return batch
    mine = pc.fill_null(pc.equal(batch.column("cat").cast(pa.string()), "gpu_op"), False)
    if not mine.true_count:
        return batch
    names = encoded(batch.column("name"))
    words = names.dictionary.cast(pa.string()).to_pylist()
    of_opencl = _of_opencl(batch, opencl)
    parts = [work(word or "") for word in words] + [work(word or "", True) for word in words]
    index = names.indices.to_numpy(zero_copy_only=False) + np.where(of_opencl, len(words), 0)
    index = np.where(mine.to_numpy(zero_copy_only=False), index, -1)
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    where = pa.array(np.maximum(index, 0))
    _replace(columns, "name", [part.name for part in parts], where, mine)
    _replace(columns, "kind", [part.kind for part in parts], where, mine)
    for name in dict.fromkeys(key for part in parts for key in part.columns):
        kind = arrow_schema("events").field(name).type
        values = pa.array([part.columns.get(name) for part in parts]).cast(kind).take(where)
        columns[name] = pc.if_else(
            mine, values, batch.column(name).cast(kind) if batch.has(name) else pa.nulls(len(batch), kind)
        )
    for key in dict.fromkeys(key for part in parts for key in part.args):
        texts = pa.array([_json(part, key) for part in parts], pa.binary()).take(where)
        columns[f"args.{key}"] = pc.if_else(mine, texts, pa.scalar(None, pa.binary()))
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def marked(batch: Batch) -> Batch:
    """Returns a batch of events in which begins and ends are ranges and marks are instants, not calls."""
    dur = batch.column("dur")
    if batch.has("half"):
        mine = pc.is_valid(batch.column("half"))
        kind = "range"
    else:
        mine = pc.and_(pc.is_null(dur), pc.equal(batch.column("kind").cast(pa.string()), "api"))
        kind = "instant"
    if not mine.true_count:
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["kind"] = pc.if_else(mine, kind, columns["kind"].cast(pa.string())).dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _json(part: ParsedName, key: str) -> bytes | None:
    return dump_json(part.args[key]).encode() if key in part.args else None


def _replace(columns: dict[str, pa.Array], name: str, values: list[str], where: pa.Array, mine: pa.Array) -> None:
    old = columns[name].cast(pa.string())
    columns[name] = pc.if_else(mine, pa.array(values, pa.string()).take(where), old).dictionary_encode()


def _of_opencl(batch: Batch, opencl: frozenset[tuple[int, int]]) -> Any:
    if not opencl or not batch.has("stream"):
        return np.zeros(len(batch), np.bool_)
    pairs = zip(batch.column("device").to_pylist(), batch.column("stream").to_pylist(), strict=True)
    return np.fromiter((pair in opencl for pair in pairs), np.bool_, len(batch))


def launches(batch: Batch) -> Batch:
    """Returns a batch of links in which flows from the host to the device are launches; their ends arrive."""
    if not batch.has("cat"):
        return batch
    to_device = pc.fill_null(pc.match_substring_regex(batch.column("cat").cast(pa.string()), _LAUNCH), False)
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["link"] = pc.if_else(to_device, "launch", columns["link"].cast(pa.string())).dictionary_encode()
    role = columns["role"].cast(pa.string())
    columns["role"] = pc.if_else(pc.equal(role, "step"), "in", role).dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


#: Pids and tids of devices count down from here; each rank begins 2^5 (until 2025: 2^13) lower.
LAST = (1 << 32) - 1

#: No process of a host has a pid as great as this one.
_FIRST = LAST - (1 << 24)

_QUEUE = re.compile(
    rb'"thread_name"\s*,\s*"pid"\s*:\s*(\d{1,10})\s*,\s*"tid"\s*:\s*(\d{1,10})\s*,\s*"ts"\s*:\s*[\d.]{1,40}\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:Thread \d{1,20} )?CL(?: Queue<[^">]{0,100}>)?"'
)
_CHUNK = 4 << 20
_LONGEST = 512


def devices_in(batch: Batch) -> dict[int, int]:
    """Returns the pids of devices in a batch, with their ordinals."""
    if not batch.has("pid"):
        return {}
    pids = pc.unique(batch.column("pid").drop_null())
    return {pid: LAST - pid for pid in pids.filter(pc.greater(pids, _FIRST)).to_pylist() if pid <= LAST}


def opencl_queues(source: Source) -> frozenset[tuple[int, int]]:
    """Returns device and stream of the queues of OpenCL, by their names anywhere in the document."""
    found: set[tuple[int, int]] = set()
    with source.open(quiet=True) as stream:
        text = b""
        while data := stream.read(_CHUNK):
            text = text[-_LONGEST:] + data
            if b'"thread_name"' in text:
                found.update((LAST - int(pid), LAST - int(tid)) for pid, tid in _QUEUE.findall(text))
    return frozenset(found)


def small_streams(batch: Batch) -> Batch:
    """Counts the streams of devices from 0 on."""
    if not batch.has("stream") or not batch.has("device"):
        return batch
    stream = batch.column("stream").cast(pa.int64())
    mine = pc.and_(pc.is_valid(batch.column("device")), pc.greater(stream, _FIRST))
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["stream"] = pc.if_else(pc.fill_null(mine, False), pc.subtract(LAST, stream), stream)
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


#: Times of this clock are unix times, where they are long after 1970: 2001.
_UNIX, _SINCE_1970 = {"at_ns": 0, "unix_ns": 0}, 10**18

DIALECT = Dialect(
    cats={
        "gpu_op": Rule("kernel"),
        "cpu_op": Rule("api"),
        "os_op": Rule("range"),
    },
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields device work, calls, ranges and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of, opencl = mapper(DIALECT), opencl_queues(source)
    first: int | None = None

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            found = small_streams(on_devices(batch, devices_in(batch)))
            if found.record == "events":
                nonlocal first
                first = found.columns.column("ts")[0].as_py() if first is None and len(found) else first
                found = marked(in_parts(found, opencl))
            elif found.record == "links":
                found = launches(found)
            yield found

    yield from read_document(source, conversion, placed, lambda found, conversion: ())
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "unitrace"})
    rows.fact("clock", facts={"kind": "unix"} | (_UNIX if first is not None and first > _SINCE_1970 else {}))
    yield from rows.rest()


FORMAT = Format(
    "unitrace-json",
    "Intel unitrace JSON (--chrome-...-logging)",
    patterns=("*.json",),
    probe=probe,
    read=read,
    words=("host<", "device<", '"gpu_op"', "flow_h2d_", "flow_d2h_", "flow_h2h_", "flow_d2d_"),
    document=True,
    holds="blocks",
)
