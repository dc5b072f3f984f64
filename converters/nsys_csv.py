"""CSV as NVIDIA's `nsys stats --format csv` prints it, for programs that read its reports. The headings are 2023.4's.

    run_cuda_gpu_trace.csv
        Start (ns),Duration (ns),CorrId,GrdX,...,Device,Ctx,GreenCtx,Strm,Name
        1040000,250500,13,132,...,NVIDIA H100 (0),1,,7,"gemm(float *, int)"

    run_cuda_gpu_kern_sum.csv
        Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
        75.0,1500000,300,5000.0,4998.5,4100,6020,211.4,"gemm(float *, int)"

The end of the file's name is the name of the report, as in the files that `nsys stats -o run` writes.

Durations are counted: memory grows with the number of different durations of each kernel, not with the kernels.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.source import COMPRESSED
from ktrace.kit import Format
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decode_document, decoded, encoded, load_object
from ktrace.model.masks import truth, words_in
from ktrace.model.tracks import Track
from ktrace.output import Sink
from ktrace.stages.order import Timeline, TimelineBatch
from ktrace.store.vocabulary import Interner

_LINE_END = re.compile(r"[\r\n]+")


def quoted(text: str | None) -> str:
    """The cell of a text: in quotes if it needs them, on one line."""
    if text is None:
        return ""
    text = _LINE_END.sub(" ", text)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def blank_nulls(column: pa.Array) -> pa.StringArray:
    """Numbers or texts as cells, empty where they are null."""
    return pc.fill_null(column.cast(pa.string()), "")


def megabytes(size: int | None) -> str:
    """A size in bytes as MB with three decimals, empty if there is none. MB is 10^6 bytes."""
    return "" if size is None else f"{size / 1e6:.3f}"


def of_each(column: pa.Array, cell: Callable[[Any], str]) -> pa.StringArray:
    """The cells of a column; each distinct value is made a cell once."""
    coded = encoded(column)
    cells = pa.array([*map(cell, coded.dictionary.to_pylist()), cell(None)], pa.string())
    return cells.take(coded.indices.fill_null(len(cells) - 1))


def lines(columns: Sequence[pa.StringArray]) -> bytes:
    """The rows as lines."""
    joined = pc.binary_join_element_wise(*columns, ",")
    return "".join(f"{line}\n" for line in joined.to_pylist()).encode()


TRACE_HEADINGS = (
    *("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd"),
    *("StcSMem (MB)", "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd"),
    *("Device", "Ctx", "GreenCtx", "Strm", "Name"),
)

#: Columns of the model that are the cells from "Start" to "Reg/Trd".
_NUMBERS = (*("ts", "dur", "correlation", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers"),)

#: Headings -> the keys of `args` under which Nsight's database, or a printed report, has the value.
_SOURCE_MEMORY = ("srcKind", "memKind", "SrcMemKd")
_TARGET_MEMORY = ("dstKind", "DstMemKd")
_GREEN_CONTEXT = ("greenContextId", "GreenCtx")

#: A direction of the model as nsys 2023 and later print it.
_WAYS = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "PtoP": "Peer-to-Peer",
    "HtoH": "Host-to-Host",
    "HtoA": "Host-to-Array",
    "AtoH": "Array-to-Host",
    "AtoA": "Array-to-Array",
    "AtoD": "Array-to-Device",
    "DtoA": "Device-to-Array",
}
_UNIFIED = "Unified Memory"
#: The kinds of memory in the name that CUPTI's users give to a copy: "Memcpy HtoD (Pinned -> Device)".
_MEMORIES = re.compile(r"\((\w+) -> (\w+)\)$")


class GpuTrace:
    """Writes rows as they come: sorted by start."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._stream.write((",".join(TRACE_HEADINGS) + "\n").encode())

    def start(self, tracks: Iterable[Track], catalog: Catalog) -> None:
        """Receives the tracks, by number."""
        devices = [entry for entry in catalog.of("device") if entry.name]
        self._devices = pa.array([quoted(_device(track, devices)) for track in tracks], pa.string())

    def write(self, rows: Batch, tracks: Int32) -> None:
        """Writes kernels, copies and memsets, each on one of the tracks."""
        numbers = {name: blank_nulls(rows.column(name)) for name in (*_NUMBERS, "context", "stream")}
        others = np.flatnonzero(~words_in(rows.column("kind"), ("kernel",)))
        moves = _moves(Batch("events", rows.columns.take(pa.array(others))))
        titles, sizes, rates, sources, targets = (_scattered(cells, others, len(rows)) for cells in moves)
        named = pc.if_else(pc.equal(titles, ""), of_each(rows.column("name"), quoted), titles)
        dynamic = rows.column("shared_dynamic")
        cells = [
            *(numbers[name] for name in _NUMBERS),
            of_each(pc.subtract(rows.column("shared_memory"), dynamic), megabytes),
            of_each(dynamic, megabytes),
            *(sizes, rates, sources, targets),
            self._devices.take(pa.array(tracks)),
            numbers["context"],
            pa.array([quoted(text) if text != "0" else "" for text in _argument(rows, _GREEN_CONTEXT)], pa.string()),
            numbers["stream"],
            named,
        ]
        self._stream.write(lines(cells))

    def close(self) -> None:
        """Does nothing: all rows are written."""


def _device(track: Track, devices: list[Entry]) -> str:
    """`NVIDIA H100 (0)`, or `(0)` if the device has no name."""
    if track.device is None:
        return ""
    place = track._asdict()
    names = [entry.name for entry in devices if all(place.get(column) == key for column, key in entry.key.items())]
    return f"{names[-1]} ({track.device})" if names else f"({track.device})"


def _moves(rows: Batch) -> tuple[list[str], ...]:
    """Name, size, throughput, kinds of memory of copies and memsets.

    nsys multiplies the size by the times that the duration fits into a second.
    """
    names, kinds, ways = (decoded(rows.column(name)).to_pylist() for name in ("name", "kind", "copy_kind"))
    sizes, durations = rows.column("bytes").to_pylist(), rows.column("dur").to_pylist()
    rates = [
        size * (1_000_000_000 // dur) if size is not None and dur else None
        for size, dur in zip(sizes, durations, strict=True)
    ]
    given = zip(_argument(rows, _SOURCE_MEMORY), _argument(rows, _TARGET_MEMORY), names, kinds, strict=True)
    memories = [_memory(*memory) for memory in given]
    return (
        [quoted(_name(*parts)) for parts in zip(kinds, names, ways, strict=True)],
        list(map(megabytes, sizes)),
        list(map(megabytes, rates)),
        [quoted(source) for source, _ in memories],
        [quoted(target) for _, target in memories],
    )


def _scattered(cells: list[str], places: Int64, length: int) -> pa.StringArray:
    """The cells at their places in a column of that length, which is empty elsewhere."""
    column = np.full(length, "", object)
    column[places] = cells
    return pa.array(column, pa.string())


def _name(kind: str, name: str, way: str | None) -> str:
    """The name of a copy or memset as nsys prints it; that of a copy contains the direction."""
    if kind == "memset":
        return "[CUDA memset]"
    unified = "Unified " if _UNIFIED in name else ""
    return f"[CUDA memcpy {unified}{_WAYS.get(way or '', way or 'Unknown')}]"


def _memory(source: str, target: str, name: str, kind: str) -> tuple[str, str]:
    """The kinds of memory of a copy, from its arguments or its name."""
    if kind == "memcpy" and not source and not target and (match := _MEMORIES.search(name)):
        return match[1], match[2]
    return source, target


def _argument(rows: Batch, keys: tuple[str, ...]) -> list[str]:
    """For each row the value of the first of these keys that its arguments have, as text; "" if there is none."""
    cells = [""] * len(rows)
    for key in keys:
        if rows.has(f"args.{key}"):
            values = decoded(rows.columns.column(f"args.{key}"))
            is_json = pa.types.is_binary(values.type)
            for row, value in enumerate(values.to_pylist()):
                if value is not None and not cells[row]:
                    cells[row] = _text(decode_document(value) if is_json else value)
    if rows.has("args"):
        texts = decoded(rows.column("args"))
        for key in keys:
            there = pc.fill_null(pc.match_substring(texts, f'"{key}":'), False)
            for row in pc.indices_nonzero(there).to_pylist():
                cells[row] = cells[row] or _text(load_object(texts[row].as_py()).get(key))
    return cells


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


HEADINGS = (
    *("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"),
    "Name",
)

#: Durations that wait before equal ones are counted.
_WAITING = 1 << 20

_TENTH = Decimal("0.1")


class Kernel(NamedTuple):
    """The figures of a kernel, in ns."""

    name: str
    total: int
    instances: int
    median: Fraction
    least: int
    most: int
    deviation: float


class KernelSum:
    """Adds up the durations of kernels by name, and writes the report at the end."""

    def __init__(self, stream: BinaryIO, waiting: int = _WAITING) -> None:
        self._stream = stream
        self._limit = waiting
        self._numbers = Interner()
        #: Columns name, duration, count; the first of them has the counted durations, sorted.
        self._parts: list[Int64] = [np.empty((3, 0), np.int64)]
        self._waiting = 0

    def write(self, names: pa.Array, durations: Int64) -> None:
        """Adds kernels with these names."""
        coded = encoded(names)
        number = self._numbers.numbers(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        self._parts.append(np.stack([number, durations, np.ones_like(durations)]))
        self._waiting += len(durations)
        if self._waiting > max(self._limit, self._parts[0].shape[1]):
            self._count()

    def _count(self) -> None:
        """Makes one row of equal durations of a kernel."""
        whole = np.concatenate(self._parts, axis=1)
        whole = whole[:, np.lexsort((whole[1], whole[0]))]
        first = np.flatnonzero(np.any(whole[:2, 1:] != whole[:2, :-1], axis=0)) + 1
        starts = np.concatenate([[0], first]) if whole.shape[1] else first
        counts = np.add.reduceat(whole[2], starts) if len(starts) else whole[2]
        self._parts = [np.stack([whole[0][starts], whole[1][starts], counts])]
        self._waiting = 0

    def close(self) -> None:
        """Writes the kernels by total time, greatest first."""
        kernels = sorted(self._kernels(), key=lambda kernel: (-kernel.total, kernel.instances, kernel.name.encode()))
        whole = sum(kernel.total for kernel in kernels)
        self._stream.write((",".join(HEADINGS) + "\n").encode())
        for kernel in kernels:
            cells = (
                _tenths(Fraction(100 * kernel.total, whole)) if whole else "",
                kernel.total,
                kernel.instances,
                _tenths(Fraction(kernel.total, kernel.instances)),
                _tenths(kernel.median),
                kernel.least,
                kernel.most,
                _tenths(Fraction(kernel.deviation)),
                quoted(kernel.name),
            )
            self._stream.write((",".join(map(str, cells)) + "\n").encode())

    def _kernels(self) -> list[Kernel]:
        self._count()
        (number, duration, count) = self._parts[0]
        bounds = np.searchsorted(number, np.arange(len(self._numbers) + 1))
        names = list(self._numbers)
        spans = zip(names, bounds, bounds[1:], strict=False)
        return [_figures(name, duration[low:high], count[low:high]) for name, low, high in spans if low < high]


def _figures(name: str, durations: Int64, counts: Int64) -> Kernel:
    """The figures of rising durations with the number of each."""
    least, until = int(durations[0]), np.cumsum(counts)
    total = sum(int(dur) * int(count) for dur, count in zip(durations, counts, strict=True))
    size = int(until[-1])
    middle = [int(durations[np.searchsorted(until, rank, side="right")]) for rank in ((size - 1) // 2, size // 2)]
    away = durations - np.float64(total / size)
    deviation = math.sqrt(float(np.sum(counts * away * away)) / (size - 1)) if size > 1 else 0.0
    return Kernel(name, total, size, Fraction(sum(middle), 2), least, int(durations[-1]), deviation)


def _tenths(number: Fraction) -> str:
    """The number with one decimal; a half is rounded up, as SQLite does."""
    return str((Decimal(number.numerator) / number.denominator).quantize(_TENTH, ROUND_HALF_UP))


#: The end of a file's name -> the kinds of events in that report.
REPORTS = {
    "_cuda_gpu_trace.csv": ("kernel", "memcpy", "memset"),
    "_cuda_gpu_kern_sum.csv": ("kernel",),
}


class Writer:
    """A TimelineWriter of kernels, and in a trace of copies and memsets. The reports have no place for other rows.

    Rows that were laid out from a table have no time of their own: they aren't written.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        name = _plain_name(sink.path)
        ends = [end for end in REPORTS if name.endswith(end)]
        if not ends:
            raise UsageError(
                f"the name '{sink.path}' doesn't state the report of nsys",
                expected=f"a name that ends in {' or '.join(REPORTS)}",
                remedy="another name with -o, or another format with --to",
            )
        if conversion.options.get("gpu", "auto") != "auto":
            raise UsageError("--gpu is for Perfetto, nsys-csv has one form", remedy="leave it out")
        self._kinds = REPORTS[ends[0]]
        stream = sink.open()
        self._trace = GpuTrace(stream) if "memcpy" in self._kinds else None
        self._sum = None if self._trace else KernelSum(stream)
        #: What was left out of the last batch: "12 api, 3 arrow ends".
        self.left_out = ""

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks and the names of devices."""
        if self._trace:
            self._trace.start(timeline.tracks, timeline.catalog)

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows that the report has a place for, and returns their number."""
        selected = words_in(batch.column("kind"), self._kinds) & ~words_in(batch.column("timing"), ("synthetic",))
        if self._sum:
            selected &= truth(batch.column("dur").is_valid())
        self._note(batch, selected)
        rows = np.flatnonzero(selected)
        if len(rows) and self._trace:
            self._trace.write(batch.taken(rows), batch.track[rows])
        elif len(rows) and self._sum:
            ordered = batch.taken(rows)
            self._sum.write(ordered.column("name"), ordered.column("dur").to_numpy())
        return len(rows)

    def close(self) -> None:
        """Writes the sums."""
        if self._sum:
            self._sum.close()

    def _note(self, batch: TimelineBatch, rows: Bools) -> None:
        """Remembers the kinds of the rows that are left out."""
        left = decoded(batch.column("kind")).filter(pa.array(~rows)).to_pylist()
        counts = Counter(f"{kind} without a time" if kind in self._kinds else kind for kind in left)
        words = [f"{count:,} {kind}" for kind, count in counts.most_common()]
        self.left_out = ", ".join([*words, *([f"{batch.link_ends:,} arrow ends"] if batch.link_ends else [])])


def _plain_name(path: str) -> str:
    """The name of a file in lower case, without a suffix of compression."""
    name = Path(path).name.lower()
    return next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)


FORMAT = Format(
    "nsys-csv",
    "CSV as `nsys stats` prints it, a report by the name of the file",
    patterns=("*_cuda_gpu_trace.csv", "*_cuda_gpu_kern_sum.csv"),
    writer=Writer,
    timeline=True,
    overlap=True,
)
