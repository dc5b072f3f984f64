"""The kinds of device work: by what the profilers call it, and by the stats that only one kind has."""

from __future__ import annotations

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
