"""Intel's tracers of OpenCL and Level Zero: names of device work, and rows on tracks of their own, such as queues.

unitrace, onetrace, cl_tracer and ze_tracer print names so:

GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]              Level Zero: groups, group size; SIMD_ANY for width 1
GEMM[SIMD32, {1024, 1024, 1}, {0, 0, 0}]            OpenCL: global size, local size; 0 is a size that the driver chose
zeCommandListAppendMemoryCopy(M2D)[4194304]         bytes; M memory of the system, H host, D device, S shared
clEnqueueWriteBuffer[4194304 bytes]                 bytes
Tile #0: GEMM[...]                                  a tile of a device

and the Intercept Layer for OpenCL Applications so:

SinJulia SIMD16 GWS[ 3840 x 2160 ] LWS[ 16 x 16 ]   global and local size; NULL is a size that the driver chose
clEnqueueNDRangeKernel( SinJulia GWS[ 64 ] )        a call with the kernel that it launches
iclEnqueueReadBuffer                                on macOS all calls have this prefix

Sources: GetZeKernelCommandName and GetVerboseName of unitrace, README of onetrace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json

_TILE = re.compile(r"Tile #(\d{1,9}): ")
_THREE = r"\{ *(\d{1,18})[;,] *(\d{1,18})[;,] *(\d{1,18}) *\}"
_SHAPE = re.compile(rf"(?:\[SIMD(?P<simd>\d{{1,4}}|_ANY)?,?)? ?{_THREE},? {_THREE}\]$")
_WORD = re.compile(r" (?:SIMD(\d{1,4})|([A-Z]{3,5})=(\d{1,18})|(GWO|GWS|LWS|SLWS)\[ ([^\]]{0,80}) \]|\[MUTABLE\])")
_BYTES = re.compile(r"\[(\d{1,18})(?: bytes)?\]$")
_DIRECTION = re.compile(r"\(([MHDS])2([MHDS])\)")
_PLACE = {"M": "H", "H": "H", "D": "D"}

#: A longer name isn't taken apart by words.
_LONGEST = 4096

#: The kind of commands that are no kernels, by the words in their names; the first one counts.
_COMMANDS = (
    (re.compile(r"(?:zeCommandListAppend|i?clEnqueue)\w*Fill"), "memset"),
    (re.compile(r"zeCommandListAppend(?:Memory|Image)Copy"), "memcpy"),
    (
        re.compile(r"i?clEnqueue(?:Read|Write|Copy|Map|Unmap|SVMMemcpy|SVMMap|SVMUnmap|SVMMigrate|Migrate|Memcpy)"),
        "memcpy",
    ),
    (re.compile(r"i?clEnqueue(?:NDRangeKernel|Task|NDCountKernel|NativeKernel)"), "kernel"),
    (re.compile(r"zeCommandListAppend(?:LaunchKernel|LaunchCooperativeKernel|LaunchMultiple)"), "kernel"),
    (re.compile(r"(?:zeCommandListAppend|i?clEnqueue)\w+"), "sync"),
)
_CL_DIRECTION = (
    (re.compile(r"i?clEnqueue(?:Read|Map)"), "DtoH"),
    (re.compile(r"i?clEnqueue(?:Write|Unmap)"), "HtoD"),
    (re.compile(r"i?clEnqueueCopy"), "DtoD"),
)


@dataclass(frozen=True)
class ParsedName:
    """A name in its parts: columns of the model, and what has no column as arguments."""

    kind: str
    name: str
    columns: dict[str, Any] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def work(text: str, opencl: bool = False) -> ParsedName:
    """Returns the parts of a name; of OpenCL, the shape is the global and the local size."""
    name = text.strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    columns: dict[str, Any] = {}
    args: dict[str, Any] = {}
    if tile := _TILE.match(name):
        args["tile"] = int(tile[1])
        name = name[tile.end() :]
    if shape := _SHAPE.search(name):
        name = name[: shape.start()].rstrip()
        columns, more = _shape(shape, opencl)
        args |= more
        return ParsedName("kernel", name, columns, args)
    if (size := _BYTES.search(name)) and kind_of(name) != "kernel":
        columns["bytes"] = int(size[1])
        name = name[: size.start()]
    kind = kind_of(name)
    if kind == "memcpy" and (direction := copy_kind(name)):
        columns["copy_kind"] = direction
    return ParsedName(kind, name, columns, args)


def intercepted(text: str) -> ParsedName:
    """Returns the parts of a name of the Intercept Layer."""
    name = text.strip()
    words = _WORD.finditer(name) if len(name) <= _LONGEST else ()
    first = next((match for match in words if _are_words(name, match.start())), None)
    if first is None:
        kind = kind_of(name)
        direction = copy_kind(name) if kind == "memcpy" else None
        return ParsedName(kind, name, {"copy_kind": direction} if direction else {})
    args: dict[str, Any] = {}
    sizes: dict[str, list[int]] = {}
    for simd, key, number, size, cells in _WORD.findall(name, first.start()):
        if simd:
            args["simd"] = int(simd)
        elif key:
            args[key.lower()] = int(number)
        elif size and all(cell.isascii() and cell.isdigit() for cell in re.split(r" x |, ", cells)):
            sizes[size] = [int(cell[:18]) for cell in re.split(r" x |, ", cells)]
    columns: dict[str, Any] = {}
    whole, local = sizes.get("GWS"), sizes.get("LWS") or sizes.get("SLWS")
    if whole:
        args["global_size"] = whole
    if "GWO" in sizes:
        args["global_offset"] = sizes["GWO"]
    if local and all(local):
        columns |= dict(zip(("block_x", "block_y", "block_z"), local, strict=False))
        if whole and len(whole) == len(local):
            groups = [-(-one // part) for one, part in zip(whole, local, strict=True)]
            columns |= dict(zip(("grid_x", "grid_y", "grid_z"), groups, strict=False))
    return ParsedName("kernel", name[: first.start()], columns, args)


def _are_words(name: str, start: int) -> bool:
    """Whether all of a name from a place on are words of the Intercept Layer."""
    while start < len(name):
        match = _WORD.match(name, start)
        if not match:
            return False
        start = match.end()
    return True


def kind_of(name: str) -> str:
    """The kind of device work with a name: kernel, memcpy, memset, or sync for barriers, events and markers."""
    return next((kind for pattern, kind in _COMMANDS if pattern.match(name)), "kernel")


def copy_kind(name: str) -> str | None:
    """The direction of a copy, None if it isn't in its name or concerns shared memory."""
    if match := _DIRECTION.search(name):
        source, target = _PLACE.get(match[1]), _PLACE.get(match[2])
        return f"{source}to{target}" if source and target else None
    return next((direction for pattern, direction in _CL_DIRECTION if pattern.match(name)), None)


def _shape(match: re.Match[str], opencl: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The grid and block of a kernel; OpenCL has work-items, which are divided by the local size where it is known."""
    _, *numbers = match.groups()
    size = [int(number) for number in numbers]
    first, block = size[:3], size[3:]
    args: dict[str, Any] = {}
    if simd := match["simd"]:
        args["simd"] = "any" if simd == "_ANY" else int(simd)
    columns: dict[str, Any] = {}
    if all(block):
        columns |= dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
        if opencl:
            args["global_size"] = first
            first = [-(-whole // part) for whole, part in zip(first, block, strict=True)]
        columns |= dict(zip(("grid_x", "grid_y", "grid_z"), first, strict=True))
    elif opencl:
        args["global_size"] = first
    else:
        columns |= dict(zip(("grid_x", "grid_y", "grid_z"), first, strict=True))
    return columns, args


class Place(NamedTuple):
    """Where a row of a device belongs, its name in parts, and whether it only waits for its execution."""

    parts: ParsedName
    stream: int | None
    waits: bool


def device_work(
    batch: Batch, place: Callable[[str, int | None, str | None], Place], device_of: Mapping[int, int]
) -> Batch:
    """Returns a batch of events in which rows on tracks and on tids below 0 are device work, as `place` says.

    `place` gets the name, the tid and the track of a row; `device_of` has the devices of streams, 0 for others.
    """
    rows = len(batch)
    tids = batch.column("tid").to_pylist() if batch.has("tid") else [None] * rows
    tracks = batch.column("track").cast(pa.string()).to_pylist() if batch.has("track") else [None] * rows
    of_device = np.array(
        [track is not None or (tid or 0) < 0 for tid, track in zip(tids, tracks, strict=True)], np.bool_
    )
    if not of_device.any():
        return batch
    names = batch.column("name").cast(pa.string()).to_pylist()
    places = [place(names[row], tids[row], tracks[row]) if of_device[row] else None for row in range(rows)]
    parts = [one.parts for one in places if one]
    columns = with_parts(batch, parts, np.where(of_device, np.cumsum(of_device) - 1, -1)).arrays()
    waits = pa.array([one is not None and one.waits for one in places])
    streams = [one.stream if one and (one.stream or 0) < 1 << 63 else None for one in places]
    columns["stream"] = pa.array(streams, pa.int64())
    devices = [device_of.get(stream or 0, 0) if of_device[row] else None for row, stream in enumerate(streams)]
    columns["device"] = pa.array(devices, pa.int64())
    columns["tid"] = pa.array([None if of_device[row] else tids[row] for row in range(rows)], pa.int64())
    kept = [tracks[row] if one and one.waits else None for row, one in enumerate(places)]
    columns["track"] = pa.array(kept, pa.string()).dictionary_encode()
    if "correlation" in columns:
        columns["correlation"] = pc.if_else(waits, None, columns["correlation"])
    return batch.replaced(columns)


def with_parts(batch: Batch, parts: Sequence[ParsedName], index: Int64) -> Batch:
    """Returns a batch of events with what their names say: `index` is the part of each row, -1 for none."""
    selected, at = pa.array(index >= 0), pa.array(np.maximum(index, 0))
    columns: dict[str, pa.Array] = {}
    for name, texts in (("name", [part.name for part in parts]), ("kind", [part.kind for part in parts])):
        column = batch.column(name).cast(pa.string())
        columns[name] = pc.if_else(selected, pa.array(texts, pa.string()).take(at), column).dictionary_encode()
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        column = batch.column(name).cast(arrow_schema("events").field(name).type)
        values = pa.array([part.columns.get(name) for part in parts]).cast(column.type).take(at)
        columns[name] = pc.if_else(selected, values, column)
    for key in dict.fromkeys(key for part in parts for key in part.args):
        cells = [dump_json(part.args[key]).encode() if key in part.args else None for part in parts]
        columns[f"args.{key}"] = pc.if_else(
            selected, pa.array(cells, pa.binary()).take(at), pa.scalar(None, pa.binary())
        )
    return batch.replaced(columns)
