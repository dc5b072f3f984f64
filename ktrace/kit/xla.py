"""XLA's profiler, which writes XPlane files and Trace Event JSON: the lines of a plane, details of device work.

/device:GPU:0   Stream #7(Kernel,MemcpyD2H)                      device work
                XLA Ops, XLA Modules, Steps, Framework Ops, ...  the same time once more: ranges
/device:TPU:0   XLA Ops                                          device work
                XLA Modules, Steps, Async XLA Ops, ...           ranges
/host:CPU       python, Host Threads/583, ...                    threads

Lines are streams, operations of a TPU core, threads, counters, or repeat others. The kinds of device work: by what the
profilers call it, and by the stats that only one kind has. Its details are one text:

regs:32 static_shared:0 dynamic_shared:1024 grid:80,1,1 block:256,1,1 occ_pct:75       CUDA, newer ROCm
 grid:16,1,1 block:512,1,1 private_mem:0 group_mem:2112 occ_pct:0                      ROCm 2024 to 2026: blocks, LDS
kind_src:pinned kind_dst:device size:655360 dest:0 async:1                             a copy
kind:device num_bytes:4096 async:1                                                     a memset, an allocation
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.model.arrays import Bools
from ktrace.model.json_text import NOT_JSON

#: Types of work, which the names of streams list and of work without details are -> kinds.
WORK = {
    **dict.fromkeys(("MemcpyH2D", "MemcpyD2H", "MemcpyD2D", "MemcpyP2P", "MemcpyOther"), "memcpy"),
    "Kernel": "kernel",
    "Memset": "memset",
    **dict.fromkeys(("MemoryAlloc", "MemoryFree", "MemoryResidency"), "alloc"),
    "CudaGraph": "graph",
    **dict.fromkeys(("Overhead", "UnifiedMemory"), "overhead"),
}

#: Stats that only one kind of device work has; the first one counts.
SIGNS = {
    "kernel_details": "kernel",
    "memcpy_details": "memcpy",
    "Memset_details": "memset",
    "memset_details": "memset",
    "memalloc_details": "alloc",
    "MemFree_details": "alloc",
    "MemoryResidency_details": "alloc",
    "cuda_graph_exec_id": "graph",
}

#: What the profilers call a copy -> its direction.
COPIES = {"MemcpyH2D": "HtoD", "MemcpyD2H": "DtoH", "MemcpyD2D": "DtoD", "MemcpyP2P": "PtoP"}

#: How TensorFlow names an operation on a thread: its name in the graph, and its type.
_OP = re.compile(r"(?!NVTX:)[A-Za-z0-9.][A-Za-z0-9_./>-]*:[A-Z_][A-Za-z0-9_]*")


def is_op(name: str | None) -> bool:
    """Whether a name is that of an operation of TensorFlow, such as "dense/MatMul:MatMul"."""
    return name is not None and _OP.fullmatch(name) is not None


class What(IntEnum):
    """What a line is."""

    THREAD = 0
    STREAM = 1
    CORE = 2
    REPEAT = 3
    OVERHEAD = 4
    COUNTERS = 5


_DEVICE = re.compile(r"/device:([A-Za-z]\w*):(\d{1,9})(?: (.+))?")
_CUSTOM = re.compile(r"/device:CUSTOM:.*?(\d{1,9})?")
_STREAM = re.compile(r"Stream #(\d{1,18})(?:\((.*)\))?")

#: Lines of a core with its operations, one after the other or nested. On a GPU they repeat its streams.
_OPERATIONS = frozenset({"XLA Ops", "Sparse Core Ops"})
_COUNTERS, _OVERHEAD = "_counters_", "CUPTI overhead"

#: The plane with the threads of the host.
HOST = "/host:CPU"


class Device(NamedTuple):
    """The device of a plane: GPU or TPU, its number, and the part of the device, such as "SparseCore 1"."""

    type: str
    number: int | None
    part: str


class Placed(NamedTuple):
    """What a line is, and its track. `work` are the types of work that a stream's name lists."""

    what: What
    device: int | None = None
    stream: int | None = None
    tid: int | None = None
    track: str | None = None
    work: frozenset[str] = frozenset()

    @property
    def only(self) -> str | None:
        """The kind of all its work if its name lists one kind."""
        kinds = {WORK.get(work) for work in self.work}
        return kinds.pop() if len(kinds) == 1 else None


def device_of(name: str) -> Device | None:
    """The device of a plane with that name, None if it isn't a device's."""
    if match := _CUSTOM.fullmatch(name):
        return Device("CUSTOM", None, name)
    if match := _DEVICE.fullmatch(name):
        return Device(match[1], int(match[2]), match[3] or "")
    return None


def placed(plane: str, lines: Sequence[tuple[int, str]]) -> list[Placed]:
    """Returns what each line of a plane is; `lines` are their ids and names."""
    device = device_of(plane)
    if device is None:
        track = None if plane == HOST else plane
        return [Placed(What.THREAD, tid=identity, track=track) for identity, _ in lines]
    has_streams = any(_STREAM.fullmatch(name) for _, name in lines)
    return [_on_device(identity, name, device, has_streams) for identity, name in lines]


def _on_device(identity: int, name: str, device: Device, has_streams: bool) -> Placed:
    if match := _STREAM.fullmatch(name):
        work = frozenset(filter(None, (match[2] or "").split(",")))
        return Placed(What.STREAM, device.number, stream=int(match[1]), track=device.part or None, work=work)
    title = name or f"line {identity}"
    track = f"{device.part} {title}" if device.part else title
    if name == _COUNTERS:
        return Placed(What.COUNTERS, device.number, track=device.part or None)
    if name == _OVERHEAD:
        return Placed(What.OVERHEAD, device.number, track=track)
    is_core = name in _OPERATIONS and not has_streams and device.type != "CUSTOM"
    return Placed(What.CORE if is_core else What.REPEAT, device.number, track=track)


Values = dict[str, "int | float | str"]

#: Names of memory -> the side of a copy.
_SIDES = {"pageable": "H", "pinned": "H", "device": "D", "device_static": "D", "array": "D", "managed_static": "D"}


def tokens(text: str) -> dict[str, str]:
    """The parts `key:value` of a text; a part without a colon is kept under the key ''."""
    members: dict[str, str] = {}
    for part in text.split():
        key, colon, value = part.partition(":")
        members[key if colon else ""] = value if colon else f"{members.get('', '')} {part}".strip()
    return members


def kernel(text: str) -> Values:
    """Columns and arguments from `kernel_details`."""
    parts = tokens(text)
    columns: Values = {}
    for key, names in (("grid", "grid_"), ("block", "block_")):
        sizes = parts.get(key, "").split(",")
        if len(sizes) == 3 and all(size.isdecimal() and len(size) < 19 for size in sizes):
            del parts[key]
            columns |= {names + axis: int(size) for axis, size in zip("xyz", sizes, strict=True)}
    dynamic = _to_int_or_none(parts.get("dynamic_shared"))
    shared = [_taken(parts, key) for key in ("static_shared", "dynamic_shared", "group_mem")]
    if any(size is not None for size in shared):
        columns["shared_memory"] = sum(size or 0 for size in shared)
    if dynamic is not None:
        columns["shared_dynamic"] = dynamic
    registers = _to_int_or_none(parts.get("regs"))
    if registers is not None and registers < 1 << 16:  # ROCm 2024 writes bytes that were never set
        columns["registers"] = registers
        del parts["regs"]
    occupancy = _real(parts.get("occ_pct"))
    if occupancy is not None:
        del parts["occ_pct"]
        if occupancy > 0:  # 0: it couldn't be computed
            columns["occupancy"] = occupancy
    return columns | _arguments(parts, "kernel_details")


def copy(text: str) -> Values:
    """Columns and arguments from `memcpy_details`."""
    parts = tokens(text)
    columns: Values = {}
    if (size := _taken(parts, "size")) is not None:
        columns["bytes"] = size
    sides = [_SIDES.get(parts.get(key, "").lower()) for key in ("kind_src", "kind_dst")]
    if all(sides):
        columns["copy_kind"] = f"{sides[0]}to{sides[1]}"
    return columns | _arguments(parts, "memcpy_details")


def memory(text: str) -> Values:
    """Columns and arguments from `Memset_details` and `memalloc_details`."""
    parts = tokens(text)
    size = _taken(parts, "num_bytes")
    return ({} if size is None else {"bytes": size}) | _arguments(parts, "details")


def freed(text: str) -> Values:
    """The same from `MemFree_details`; freed bytes are negative."""
    columns = memory(text)
    if isinstance(size := columns.get("bytes"), int):
        columns["bytes"] = -size
    return columns


#: Stats with details -> how they are read.
DETAILS: dict[str, Callable[[str], Values]] = {
    "kernel_details": kernel,
    "memcpy_details": copy,
    "Memset_details": memory,
    "memset_details": memory,
    "memalloc_details": memory,
    "MemFree_details": freed,
    "MemoryResidency_details": memory,
}


def spread_details(columns: dict[str, pa.Array], work: Bools) -> dict[str, pa.Array]:
    """Replaces details in the arguments of rows by their parts, and returns those with a column of the model.

    `work` are the rows with device work; others keep their details, and so do rows whose details aren't text.
    """
    made: dict[str, pa.Array] = {}
    rows = pa.array(work)
    for name, read in DETAILS.items():
        column = columns.get(name)
        if column is None or not pa.types.is_dictionary(column.type):
            continue
        texts = _texts(column)
        texts = pc.if_else(rows, texts, None).cast(texts.type)
        for key, part in _spread(texts, read).items():
            place, short = (columns, key.removeprefix("args.")) if key.startswith("args.") else (made, key)
            if short in place and place[short].type != part.type:
                place, short = columns, f"{name}.{short}"
            place[short] = pc.coalesce(place[short], part) if short in place else part
        rest = pc.if_else(texts.is_valid(), None, column).cast(column.type)
        if rest.null_count == len(rest):
            del columns[name]
        else:
            columns[name] = rest
    return made


def _texts(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The column with null for values that aren't text. A binary column has JSON values, of which some are texts."""
    if pa.types.is_string(column.type.value_type):
        return column
    return by_distinct(column, _text, pa.string()).dictionary_encode()


def _text(value: bytes) -> str | None:
    try:
        return msgspec.json.decode(value, type=str)
    except NOT_JSON:
        return None


def _spread(column: pa.Array, read: Callable[[str], Values]) -> dict[str, pa.Array]:
    """The details of many rows as columns; each distinct text is read once."""
    texts = column.dictionary.to_pylist()
    values_of_texts = [read(text) if text is not None else {} for text in texts]
    return {
        key: pa.array(_alike([values.get(key) for values in values_of_texts])).take(column.indices)
        for key in dict.fromkeys(key for values in values_of_texts for key in values)
    }


def _alike(values: list[int | float | str | None]) -> list[int | float | str | None]:
    """Values of one type: all as texts if one of them is a text."""
    if any(isinstance(value, str) for value in values):
        return [None if value is None else str(value) for value in values]
    return values


def _taken(parts: dict[str, str], key: str) -> int | None:
    value = _to_int_or_none(parts.get(key))
    if value is not None:
        del parts[key]
    return value


def _to_int_or_none(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _real(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _arguments(parts: dict[str, str], name: str) -> Values:
    """What has no column, as arguments; whole numbers as such."""
    arguments: Values = {}
    for key, value in parts.items():
        number = _to_int_or_none(value)
        arguments[f"args.{key or name}"] = value if number is None else number
    return arguments
