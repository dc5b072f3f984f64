"""What the lines of a plane are: streams, operations of a TPU core, threads, counters, and lines that repeat others.

/device:GPU:0   Stream #7(Kernel,MemcpyD2H)                      device work
                XLA Ops, XLA Modules, Steps, Framework Ops, ...  the same time once more: ranges
/device:TPU:0   XLA Ops                                          device work
                XLA Modules, Steps, Async XLA Ops, ...           ranges
/host:CPU       python, Host Threads/583, ...                    threads

The kinds of device work: by what the profilers call it, and by the stats that only one kind has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

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
    if found := _CUSTOM.fullmatch(name):
        return Device("CUSTOM", None, name)
    if found := _DEVICE.fullmatch(name):
        return Device(found[1], int(found[2]), found[3] or "")
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
    if found := _STREAM.fullmatch(name):
        work = frozenset(filter(None, (found[2] or "").split(",")))
        return Placed(What.STREAM, device.number, stream=int(found[1]), track=device.part or None, work=work)
    title = name or f"line {identity}"
    track = f"{device.part} {title}" if device.part else title
    if name == _COUNTERS:
        return Placed(What.COUNTERS, device.number, track=device.part or None)
    if name == _OVERHEAD:
        return Placed(What.OVERHEAD, device.number, track=track)
    is_core = name in _OPERATIONS and not has_streams and device.type != "CUSTOM"
    return Placed(What.CORE if is_core else What.REPEAT, device.number, track=track)
