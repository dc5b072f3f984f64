"""Ingero's events by the names of their sources and ops, for its database and its JSON.

CUDA, DRIVER, CUDA_GRAPH    calls, with the time of their start
HOST, IO, NET               what has a duration has the time of its end
cudaMemcpy  arg0 4096 arg1 1     4096 bytes, HtoD

Sources: bpf/*.bpf.c and pkg/events/types.go of Ingero.
"""

from __future__ import annotations

from typing import Any

#: Sources of calls, in capitals.
CALLS = frozenset(("CUDA", "DRIVER", "CUDA_GRAPH"))

#: Copies of the runtime: their second argument is a cudaMemcpyKind, an index into WAYS.
COPIES = frozenset(f"cudaMemcpy{form}" for form in ("", "Async", "2D", "2DAsync", "Peer", "PeerAsync"))
WAYS = ("HtoH", "HtoD", "DtoH", "DtoD")

#: Op -> the place of its argument that is a number of bytes.
BYTES = {
    **dict.fromkeys((*COPIES, "cudaMalloc", "cudaMallocManaged", "cuMemcpy", "cuMemcpyAsync"), 0),
    **dict.fromkeys(("cuMemAlloc", "cuMemAllocManaged", "mm_page_alloc"), 0),
    **dict.fromkeys(("net_send", "net_recv"), 1),
}

#: A key of a frame in JSON -> that in the database.
_SHORT = {"py_func": "pfn", "symbol": "s", "ip": "i", "py_file": "pf", "file": "f"}


def frames(value: Any) -> dict[str, Any]:
    """The facts of a stack: symbols or addresses, and the files that they are in, outermost first; none of no list.

    The agent has the innermost first, and the calls of Python before those of libpython; without these it has them
    before all others, which they called (internal/symtab/resolver.go).
    """
    if not isinstance(value, list):
        return {}
    all_ = [{_SHORT.get(k, k): v for k, v in one.items()} if isinstance(one, dict) else {"i": one} for one in value]
    before = next((at for at, one in enumerate(all_) if "pfn" not in one), len(all_))
    all_ = [*reversed(all_[:before]), *reversed(all_[before:])]
    names = [str(next((one[key] for key in ("pfn", "s", "i") if one.get(key)), "[no name]")) for one in all_]
    return {"frames": names, "modules": [str(one.get("pf") or one.get("f") or "") for one in all_]}
