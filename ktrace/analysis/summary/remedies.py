"""What to do about a finding: the line that a practitioner would give; "" where nothing general can be said.

exposed.copies            Copy from pinned memory, non_blocking, on a stream of its own, while kernels run.
idle.host_late            in a call of the loader: More workers of the loader ...
"""

from __future__ import annotations

import re
from collections.abc import Container

from ktrace.analysis.work.findings import Finding
from ktrace.analysis.work.gaps import NO_SPAN

_LOADER = re.compile(r"data_?loader|dataset|prefetch|collate", re.I)
_ALLOCATES = re.compile(r"(cuda|cu|hip)\w*(Malloc|MemAlloc|Free|MemFree|MemCreate|MemMap|HostAlloc|HostRegister)", re.A)

#: What the host was in during idle time -> what to do.
_BY_HOST = (
    (_LOADER, "Let the loader prepare batches ahead: more workers, prefetch_factor, pin_memory=True."),
    (_ALLOCATES, "Allocate once and keep the memory: a caching or pool allocator, buffers outside the loop."),
)

_LAUNCH_BOUND = (
    "Launch less often: larger batches, CUDA or HIP graphs (torch.compile with mode='reduce-overhead'), fused kernels."
)

_REMEDIES = {
    "idle.host_synchronised": (
        "Don't wait within a step: no .item(), .cpu() or print of values there; copy with non_blocking=True and "
        "synchronise once, when the result is needed."
    ),
    "idle.dependency": "See --by wait and --by queue: which event, copy or stream the queued work waits for.",
    "idle.launch_overhead": _LAUNCH_BOUND,
    "idle.between_graph_nodes": "Fuse small nodes of the graph, or let independent ones run on several streams.",
    "exposed.communication": (
        "Overlap it with compute: start collectives as soon as their data is ready, on a stream of their own; "
        "tune the sizes of buckets."
    ),
    "exposed.copies": "Copy on a stream of its own while kernels run; to and from the host use pinned memory.",
    "straggler": "Compare that rank with another by ktrace diff: its kernels, its host and its input.",
    "outside": "Prepare the next step's input while the device works on this one: in workers, or another thread.",
}

#: Gaps of this length, in ns, on average, come from the launches; longer ones from what the host does in between.
_OF_LAUNCHES = 300_000

_HEAVIEST = "--by roofline says how far its kernels are from the device's peak, where shapes or metrics are recorded."


_INSIDE = "--by inside says how long its warps wait, and how multiprocessors share the work."


def remedy(one: Finding, askable: Container[str] = ()) -> str:
    """What to do about a finding that is worth a look, of an input that can answer these questions."""
    if not one.look:
        return ""
    if one.code in ("idle.host_late", "outside"):
        return _of_host(one)
    if one.code.startswith("heaviest."):
        return _INSIDE if "inside" in askable else _HEAVIEST
    return _REMEDIES.get(one.code, "")


def _of_host(one: Finding) -> str:
    """What to do about a host that is late: by what it was in, or how long the gaps are."""
    host, gaps = str(one.details.get("host_was_in") or ""), one.details.get("gaps")
    for pattern, what in _BY_HOST:
        if pattern.search(host):
            return what
    if one.code == "outside" or not isinstance(gaps, int):
        return _REMEDIES["outside"]
    if one.value <= _OF_LAUNCHES * gaps:
        return _LAUNCH_BOUND
    where = f" in {host}" if host and host != NO_SPAN else ""
    return f"Shorten what the host does{where} between launches, or do it ahead in another thread."
