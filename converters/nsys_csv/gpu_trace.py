"""The report cuda_gpu_trace: a row for each kernel, copy and memset.

Cells of CSV as nsys prints them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decode_document, decoded, encoded, load_object
from ktrace.model.masks import words_in
from ktrace.model.tracks import Track

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


HEADINGS = (
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
        self._stream.write((",".join(HEADINGS) + "\n").encode())

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
    if kind == "memcpy" and not source and not target and (found := _MEMORIES.search(name)):
        return found[1], found[2]
    return source, target


def _argument(rows: Batch, keys: tuple[str, ...]) -> list[str]:
    """For each row the value of the first of these keys that its arguments have, as text; "" if there is none."""
    found = [""] * len(rows)
    for key in keys:
        if rows.has(f"args.{key}"):
            values = decoded(rows.columns.column(f"args.{key}"))
            is_json = pa.types.is_binary(values.type)
            for row, value in enumerate(values.to_pylist()):
                if value is not None and not found[row]:
                    found[row] = _text(decode_document(value) if is_json else value)
    if rows.has("args"):
        texts = decoded(rows.column("args"))
        for key in keys:
            there = pc.fill_null(pc.match_substring(texts, f'"{key}":'), False)
            for row in pc.indices_nonzero(there).to_pylist():
                found[row] = found[row] or _text(load_object(texts[row].as_py()).get(key))
    return found


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
