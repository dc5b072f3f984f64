"""The kinds of device work: by what the profilers call it, and by the stats that only one kind has."""

from __future__ import annotations

import re

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
