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
from ktrace.kit.intel import with_parts, work
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.trace_json.phases import on_devices
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
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
    of_device = pc.fill_null(pc.equal(batch.column("cat").cast(pa.string()), "gpu_op"), False)
    if not of_device.true_count:
        return batch
    names = encoded(batch.column("name"))
    words = names.dictionary.cast(pa.string()).to_pylist()
    parts = [work(word or "") for word in words] + [work(word or "", True) for word in words]
    index = names.indices.to_numpy(zero_copy_only=False) + np.where(_of_opencl(batch, opencl), len(words), 0)
    return with_parts(batch, parts, np.where(of_device.to_numpy(zero_copy_only=False), index, -1))


def marked(batch: Batch) -> Batch:
    """Returns a batch of events in which begins and ends are ranges and marks are instants, not calls."""
    dur = batch.column("dur")
    if batch.has("half"):
        halves = pc.is_valid(batch.column("half"))
        kind = "range"
    else:
        halves = pc.and_(pc.is_null(dur), pc.equal(batch.column("kind").cast(pa.string()), "api"))
        kind = "instant"
    if not halves.true_count:
        return batch
    return batch.replaced(
        {"kind": pc.if_else(halves, kind, batch.column("kind").cast(pa.string())).dictionary_encode()}
    )


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
    link, role = (batch.column(name).cast(pa.string()) for name in ("link", "role"))
    link = pc.if_else(to_device, "launch", link).dictionary_encode()
    return batch.replaced({"link": link, "role": pc.if_else(pc.equal(role, "step"), "in", role).dictionary_encode()})


#: Pids and tids of devices count down from here; each rank begins 2^5 (until 2025: 2^13) lower.
LAST = (1 << 32) - 1

#: No process of a host has a pid as great as this one.
_FIRST = LAST - (1 << 24)

_QUEUE = re.compile(
    rb'"thread_name"\s*,\s*"pid"\s*:\s*(\d{1,10})\s*,\s*"tid"\s*:\s*(\d{1,10})\s*,\s*"ts"\s*:\s*[\d.]{1,40}\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:Thread \d{1,20} )?CL(?: Queue<[^">]{0,100}>)?"'
)
_LONGEST = 512


def devices_in(batch: Batch) -> dict[int, int]:
    """Returns the pids of devices in a batch, with their ordinals."""
    if not batch.has("pid"):
        return {}
    pids = pc.unique(batch.column("pid").drop_null())
    return {pid: LAST - pid for pid in pids.filter(pc.greater(pids, _FIRST)).to_pylist() if pid <= LAST}


def opencl_queues(source: Source) -> frozenset[tuple[int, int]]:
    """Returns device and stream of the queues of OpenCL, by their names anywhere in the document."""
    texts = (text for text in source.windows(_LONGEST) if b'"thread_name"' in text)
    return frozenset((LAST - int(pid), LAST - int(tid)) for text in texts for pid, tid in _QUEUE.findall(text))


def small_streams(batch: Batch) -> Batch:
    """Counts the streams of devices from 0 on."""
    if not batch.has("stream") or not batch.has("device"):
        return batch
    stream = batch.column("stream").cast(pa.int64())
    numbered = pc.and_(pc.is_valid(batch.column("device")), pc.greater(stream, _FIRST))
    return batch.replaced({"stream": pc.if_else(pc.fill_null(numbered, False), pc.subtract(LAST, stream), stream)})


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
    opencl, first = opencl_queues(source), None

    def placed(batch: Batch) -> Batch:
        batch = small_streams(on_devices(batch, devices_in(batch)))
        if batch.record == "events":
            return marked(in_parts(batch, opencl))
        return launches(batch) if batch.record == "links" else batch

    for batch in read_dialect(source, conversion, DIALECT, placed):
        if first is None and batch.record == "events" and len(batch):
            first = batch.column("ts")[0].as_py()
        yield batch
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
