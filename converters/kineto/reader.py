"""Reads Kineto traces.

Reads what `export_stacks` writes: stacks of Python frames, outermost first, each with its time in µs.

train.py(12):_main;nn.Module:_Linear_0;torch/nn/functional.py(2050):_linear 12034

The profiler writes a blank within a frame as "_" (torch/profiler/profiler.py of 2.x), so that the only blank in a line
is before the number. Frames stay as written, since a "_" that was a blank can't be told from any other.

Turns the members of a Kineto document other than its events into facts of the catalog.

Grids of HIP's calls that count work-items, as blocks.

    hipExtModuleLaunchKernel  grid [201216, 1, 1]  block [256, 1, 1]  correlation 7      786 blocks of 256 threads
    Cijk_Alik_Bljk_BBS_...    grid [201216, 1, 1]  block [256, 1, 1]  correlation 7      the same

Roctracer writes `globalWorkSizeX` of such a call where other calls have `gridDimX`, and Kineto copies it to the kernel
(HIP's API reference, `hipExtModuleLaunchKernel`; libkineto's RoctracerLogger). A kernel's call
is one before it in the file that has its correlation: Kineto writes calls before what they launched.

The meaning of Kineto's categories, arguments and flows, for all versions and vendors.

Byte ranges by which a big file can be read: those of Trace Event JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.rocm.common import GRIDS_OF_WORK_ITEMS, blocks_of
from ktrace.kit.trace_json import document
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.trace_json.events import Member
from ktrace.kit.trace_json.torch_categories import CATS, COMMON, MEMORY, RANGE
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import fitted_facts
from ktrace.model.json_text import dump_json
from ktrace.model.masks import words_in
from ktrace.model.row_builder import to_batch

from . import MEMORY_BY_CATEGORY, MEMORY_TIMELINE, NUMBERS
from .memory_timeline import read_memory_by_category, read_memory_timeline
from .paddle import exact, origin

DIALECT = Dialect(
    cats=CATS,
    names={"[memory]": MEMORY, "Record Window End": Rule("range", columns=COMMON, track="Spans/PyTorch Profiler")},
    other=RANGE,
    flows={"ac2g": None, "async_cpu_to_gpu": None, "async_gpu": None, "async": None, "fwdbwd": "fwdbwd"},
    device_pid=re.compile(r"GPU ([0-9]{1,9}) Counters"),
    stream_name=re.compile(r"stream ([0-9]{1,18})"),
)


_CALLS = pa.array(sorted(GRIDS_OF_WORK_ITEMS))


def in_blocks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches with grids in blocks. Work-items that aren't whole blocks stay as the argument `grid`."""
    calls = _Calls()
    for batch in batches:
        if batch.record == "events" and batch.has("correlation") and batch.has("name"):
            rows = _launches(batch)
            if len(rows):
                calls.add(batch, rows)
            if calls.runs and batch.has("grid_x"):
                yield _converted(batch, np.union1d(rows, calls.launched(batch)))
                continue
        yield batch


class _Calls:
    """Correlations of calls and the ids of the first call with each, in sorted runs that halve in length."""

    def __init__(self) -> None:
        self.runs: list[tuple[Int64, Int64]] = []

    def add(self, batch: Batch, rows: Int64) -> None:
        """Adds calls."""
        which = pa.array(rows)
        run = tuple(batch.column(name).take(which).to_numpy() for name in ("correlation", "id"))
        while self.runs and 2 * len(run[0]) >= len(self.runs[-1][0]):
            run = tuple(map(np.concatenate, zip(self.runs.pop(), run, strict=True)))
        order = np.lexsort((run[1], run[0]))
        self.runs.append((run[0][order], run[1][order]))

    def launched(self, batch: Batch) -> Int64:
        """Returns the rows of kernels that such a call before them launched."""
        kernel = words_in(batch.column("kind"), ("kernel",)) & batch.column("correlation").is_valid().to_numpy(
            zero_copy_only=False
        )
        rows = np.flatnonzero(kernel)
        correlations_of, ids = (batch.column(name).take(pa.array(rows)).to_numpy() for name in ("correlation", "id"))
        mask = np.zeros(len(rows), np.bool_)
        for correlations, calls in self.runs:
            at = np.minimum(np.searchsorted(correlations, correlations_of), len(correlations) - 1)
            mask |= (correlations[at] == correlations_of) & (calls[at] < ids)
        return rows[mask]


def _launches(batch: Batch) -> Int64:
    """Returns the rows of calls whose grid is in work-items."""
    names = batch.column("name")
    if pa.types.is_dictionary(names.type) and not pc.any(pc.is_in(names.dictionary, _CALLS)).as_py():
        return np.empty(0, np.int64)
    named = pc.and_(pc.is_in(names, _CALLS), batch.column("correlation").is_valid())
    return np.flatnonzero(pc.fill_null(named, False).to_numpy(zero_copy_only=False))


def _converted(batch: Batch, rows: Int64) -> Batch:
    """Returns the batch with the grids of these rows in blocks."""
    is_work = np.zeros(len(batch), np.bool_)
    is_work[rows] = True
    which = pa.array(is_work)
    arrays = batch.arrays()
    uneven = np.zeros(len(batch), np.bool_)
    for axis in "xyz":
        made = blocks_of(arrays.get(f"grid_{axis}"), arrays.get(f"block_{axis}"))
        if made is None:
            continue
        grid = arrays[f"grid_{axis}"]
        whole = pc.and_(which, made.blocks.is_valid())
        arrays[f"grid_{axis}"] = pc.if_else(whole, made.blocks.cast(grid.type), grid)
        uneven |= is_work & made.left.is_valid().to_numpy(zero_copy_only=False)
    if uneven.any():
        axes = zip(*(batch.column(f"grid_{axis}").to_pylist() for axis in "xyz"), strict=True)
        texts = [
            b"[%s]" % b",".join(b"%d" % one for one in of if one is not None) if left else None
            for of, left in zip(axes, uneven.tolist(), strict=True)
        ]
        arrays["args.grid"] = pa.array(texts, pa.binary())
    return Batch("events", pa.RecordBatch.from_pydict(arrays))


Row = dict[str, Any]

#: Key of deviceProperties -> reserved fact of a device.
_DEVICE_FACTS = {
    "totalGlobalMem": "memory",
    "numSms": "sm_count",
    "smCount": "sm_count",
    "uuid": "uuid",
    "pciBusId": "bus_id",
}

#: Words in a device's name -> its vendor and the API that its traces record.
_VENDORS = (
    (("nvidia", "tesla", "geforce", "quadro", "a100", "h100", "v100", "gh200", "b200"), "NVIDIA", "cuda"),
    (("amd", "radeon", "instinct", "gfx"), "AMD", "hip"),
    (("intel", "data center gpu max", "arc("), "Intel", "level_zero"),
)

#: First letters of a version among the members of a document -> the API of all its devices (a device's name may be
#: empty, and one that works may not be among the properties).
_VERSIONS = ((("hip_", "roctracer_", "rocprofiler_"), "hip"), (("cuda_", "cupti_"), "cuda"))


def facts_of(key: str, value: Any) -> Iterator[Row]:
    """Yields the catalog rows, without source and id, for one member of the document.

    `value` is the member's value, with floats as JSON decodes them.
    """
    if key in ("deviceProperties", "computeProperties") and isinstance(value, list):
        for properties in value:
            if isinstance(properties, dict):
                yield from _device(properties)
    elif key == "distributedInfo" and isinstance(value, dict):
        group = {name: value[name] for name in ("rank", "world_size") if type(value.get(name)) is int}
        yield {"entity": "source", "facts": group | {key: {k: v for k, v in value.items() if k not in group}}}
    elif key == "baseTimeNanoseconds" and type(value) is int:
        yield clock("session", unix_ns=value)
    elif key == "host_name" and isinstance(value, str):
        yield {"entity": "host", "name": value, "facts": {}}
        yield {"entity": "source", "facts": {key: value}}
    else:
        api = next((api for words, api in _VERSIONS if key.startswith(words)), None)
        yield {"entity": "source", "facts": {key: value} | ({"api": api} if api else {})}


def clock(kind: str, *, unix_ns: int) -> Row:
    """The anchor of the main clock: the unix time of its 0."""
    return {"entity": "clock", "facts": {"kind": kind, "at_ns": 0, "unix_ns": unix_ns}}


def _device(properties: dict[str, Any]) -> Iterator[Row]:
    """Yields a device: reserved facts under the model's names, all others under the source's."""
    ordinal = properties.get("id")
    name = properties.get("name")
    facts: dict[str, Any] = {}
    for words, vendor, api in _VENDORS:
        if isinstance(name, str) and any(word in name.lower() for word in words):
            facts |= {"api": api, "vendor": vendor}
            break
    major, minor = (properties.get(f"compute{part}", properties.get(part.lower())) for part in ("Major", "Minor"))
    if major is not None and minor is not None:
        facts["compute_capability"] = f"{major}.{minor}"
    used = (
        {"id", "name", "computeMajor", "computeMinor", "major", "minor"}
        if "compute_capability" in facts
        else {"id", "name"}
    )
    for key, value in properties.items():
        if key not in used:
            facts[_DEVICE_FACTS.get(key, key)] = value
    if type(ordinal) is not int:
        yield {"entity": "source", "facts": {"deviceProperties": [properties]}}
        return
    yield {"entity": "device", "device": ordinal, "name": name if isinstance(name, str) else None, "facts": facts}


#: Times after this (ns; September 2001) count from 1970, as Kineto wrote them before it had baseTimeNanoseconds.
_SINCE_1970 = 10**18


def read(source: Source, conversion: Conversion, part: ByteRange | None = None) -> Iterator[Batch]:
    """Yields the batches of a trace, a memory timeline, or stacks with their times.

    Raises DamagedInput if the file isn't Trace Event JSON at all, ClosedFormat for an HTML page with a picture.
    """
    head = source.beginning(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if MEMORY_TIMELINE.match(head):
        return read_memory_timeline(source, conversion)
    if MEMORY_BY_CATEGORY.match(head):
        return read_memory_by_category(source, conversion)
    if head[:1] == b"<":
        raise ClosedFormat("is an HTML page, not a trace", path=source.path, remedy=NUMBERS)
    if head and head[:1] not in b"[{":
        from ktrace.kit.stacks import read_folded
        from ktrace.kit.text.lines import Lines

        return read_folded(Lines(source, conversion), conversion, "range", factor=1000.0, unit="ns")
    return _read_trace(source, conversion, part)


def _read_trace(source: Source, conversion: Conversion, part: ByteRange | None) -> Iterator[Batch]:
    """Yields the events of all categories, the links, and the facts of the document."""
    facts: list[dict[str, object]] = []
    anchored = False

    def read_member(member: Member, conversion: Conversion) -> Iterable[Batch]:
        nonlocal anchored
        anchored |= member.key == "baseTimeNanoseconds"
        facts.extend(_row(row, conversion, member.byte) for row in facts_of(member.key, member.value()))
        return ()

    first, paddle = None, origin(source)
    events = read_dialect(source, conversion, DIALECT, member=read_member, part=part)
    for batch in in_blocks(events):
        if first is None and batch.record == "events":
            first = batch.columns.column("ts")[0].as_py()
        yield batch if paddle is None or batch.record != "events" else exact(batch, paddle)
    is_last = part is None or part.stop is None  # only its worker has seen whether there is an anchor
    if is_last and first is not None and first > _SINCE_1970 and not anchored:
        facts.append(_row(clock("unix", unix_ns=0), conversion, 0))
    if fitting := fitted_facts(facts):
        yield to_batch("catalog", fitting)


def _row(row: dict[str, object], conversion: Conversion, identity: int) -> dict[str, object]:
    complete = row | {"source": conversion.label, "id": identity, "facts": dump_json(row["facts"])}
    return {name: cell for name, cell in complete.items() if cell is not None}


__all__ = ["ranges", "read"]

#: Words in the head of a trace of AMD's GPUs, whose kernels need calls that may be in an earlier range.
_AMD = (b"roctracer_version", b"rocprofiler", b"hip_runtime_version", b"AMD ")


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """The ranges of Trace Event JSON; none for a trace of AMD's GPUs, which is read whole (see `work_items`)."""
    head = source.beginning(1 << 16)
    return [] if any(word in head for word in _AMD) else document.ranges(source, size, step)
