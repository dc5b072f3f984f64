"""Calls on threads: CUDA's APIs, the libraries above it, MPI, the operating system, the profiler's own work.

One table of rules says of each table what kind of row it has and where its name stands; a table that no rule knows
but that has times is read by the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model import Batch

from .._shared.blocks import Block
from .._shared.dictionaries import constant
from .reading import Reading
from .repeats import Repeats
from .strings import NO_NAME
from .waits import Waits

_TIMES = ("start", "timestamp", "rawTimestamp")
_SUFFIX = re.compile(r"(?:_v\d+)?(?:_pt[sd][sz])?$")


@dataclass(frozen=True)
class Rule:
    """What the rows of a table are.

    `names` are the columns of ids that may hold the name, `word` is the name where there is none. `gpu` is the column
    of the device that the rows are on, `chains` the table of their call chains. With `open_end` an end may be null.
    """

    kind: str
    names: tuple[str, ...] = ("nameId",)
    word: str = NO_NAME
    gpu: str | None = None
    chains: str | None = None
    open_end: bool = False


_CALL = Rule("api")

#: Pattern of the name of a table -> what its rows are.
RULES: dict[str, Rule] = {
    r"OSRT_API": Rule("api", chains="OSRT_CALLCHAINS"),
    r"SYSCALL(_\w+)?": Rule("api", chains="SYSCALL_CALLCHAINS"),
    r"CUDNN_EVENTS|CUBLAS_EVENTS|CUDA_GRAPH(_NODE|_EXEC)?_EVENTS|CUDA_HOST_FUNC\w*": _CALL,
    r"NVVIDEO_\w+_API|NVMEDIA\w*_API|NVAPI\w*|OPENCL\w*_API|OPENXR\w*": _CALL,
    r"OPENGL_API|VULKAN_API|DX1[12]_API|DXGI_API": _CALL,
    r"CUPTI_ACTIVITY_KIND_OPENACC_\w+": Rule("api"),
    r"OPENMP_EVENT_KIND_\w+": Rule("range"),
    r"MPI_(P2P|COLLECTIVES|START_WAIT|OTHER)_EVENTS": Rule("api", ("textId", "nameId"), open_end=True),
    r"UCP_(SUBMIT|PROGRESS)?_?EVENTS": Rule("api", ("textId", "nameId"), open_end=True),
    r"CUPTI_ACTIVITY_KIND_OVERHEAD|PROFILER_OVERHEAD": Rule("overhead"),
    r"(OPENGL|VULKAN|DX1[12])_WORKLOAD|GPU_VIDEO_ENGINE_WORKLOAD": Rule("range", gpu="gpu"),
    r"(VULKAN|D3D1[12]_PIX)_DEBUG_API|KHR_DEBUG_EVENTS": Rule("range", ("textId", "nameId"), open_end=True),
}

_UNKNOWN = Rule("range", ("nameId", "textId"), open_end=True)


def rule_of(table: str) -> Rule | None:
    """The rule that knows a table."""
    bare = re.sub(r"_V\d+$", "", table, flags=re.IGNORECASE)
    return next((rule for pattern, rule in RULES.items() if re.fullmatch(pattern, bare, re.IGNORECASE)), None)


def without_release(name: str) -> str:
    """The name of a call without what tells its releases apart: cudaMemcpyAsync_v3020_ptsz is cudaMemcpyAsync."""
    return _SUFFIX.sub("", name) or name


def runtime(reading: Reading, table: str, waits: Waits) -> Iterator[Batch]:
    """The calls of CUDA's runtime and driver. Of two rows of one call the one that CUPTI measured is kept."""
    repeats = Repeats(reading.database, table)
    for whole, every in reading.timed(table, "start", end="end"):
        inner, folded, chains = repeats.of(whole)
        block, ids = whole, every
        if folded.any():
            keep = ~folded
            _fold(reading, whole, folded)
            block, inner, chains = whole.filter(pa.array(keep)), inner[keep], chains.filter(pa.array(keep))
            ids = every[keep]
            if not len(block):
                continue
        columns = _columns(reading, block, table, Rule("api"), short=True)
        correlation = columns["correlation"]
        if correlation is not None and inner.any():
            columns["args.correlationId"] = pc.if_else(pa.array(inner), correlation, None)
            correlation = columns["correlation"] = pc.if_else(pa.array(inner), None, correlation)
        waits.see(ids, columns.get("pid"), correlation)
        given = block.get("callchainId")
        if given is not None:
            chains = pc.coalesce(given, chains)
        columns |= _stack(reading, block, "CUDA_CALLCHAINS", chains)
        yield reading.batches.events(block, ids, **columns)


def _fold(reading: Reading, block: Block, folded: npt.NDArray[np.bool_]) -> None:
    """Accounts for rows that say again what others say."""
    count = int(folded.sum())
    reading.conversion.report.used(count, went="folded")
    where = block.where(int(np.flatnonzero(folded)[0]))
    reading.conversion.report.issue("folded", where, "calls that stand once more with their call chain", count)


def calls(reading: Reading, table: str, rule: Rule | None = None) -> Iterator[Batch]:
    """The rows of a table by its rule, or by what they look like."""
    if rule is None:
        reading.conversion.report.issue(
            "unknown-kind", table, "its rows were taken as ranges", reading.database.count(table)
        )
        rule = Rule(_UNKNOWN.kind, _UNKNOWN.names, table, open_end=True)
    for block, ids in reading.timed(table, *_TIMES, end="end", open_end=rule.open_end):
        columns = _columns(reading, block, table, rule, short=rule.kind == "api")
        if rule.chains:
            columns |= _stack(reading, block, rule.chains, block.get("callchainId"))
        yield reading.batches.events(block, ids, **columns)


def _columns(reading: Reading, block: Block, table: str, rule: Rule, *, short: bool) -> dict[str, Any]:
    """The columns of the model that a block of calls fills."""
    ts, end = block.take(*_TIMES), block.take("end")
    place = reading.places.thread(block)
    gpu = block.take(rule.gpu) if rule.gpu else None
    if gpu is not None:  # the thread is the one that asked for it
        place = {"pid": place.get("pid"), "device": gpu, "args.tid": place.get("tid")}
    columns: dict[str, Any] = {
        "kind": rule.kind if end is not None else "instant",
        "ts": ts,
        "dur": None if end is None else pc.subtract(end, ts),
        **place,
        **_named(reading, block, table, rule, short=short),
        "correlation": reading.correlation(block),
    }
    classes = block.take("eventClass")
    if classes is not None:
        columns["cat"] = reading.enums.column("NSYS_EVENT_CLASS", classes)
    if "MPI_" in table.upper() or "UCP_" in table.upper():
        comm, size = block.take("commHandle"), block.take("size", "packedSize")
        columns |= {"comm": None if comm is None else comm.cast(pa.string()), "bytes": size}
    elif table.upper().startswith("CUPTI_ACTIVITY_KIND_OPENACC"):
        columns["bytes"] = block.take("bytes")
    return columns | reading.said(block, table)


def _named(reading: Reading, block: Block, table: str, rule: Rule, *, short: bool) -> dict[str, pa.Array]:
    """Names; a row that has none in its first column has it in the next one."""
    found = [name for name in rule.names if (column := block.get(name)) is not None and column.null_count < len(block)]
    if not found:
        text = block.take("name", "text")
        if text is not None and pa.types.is_string(text.type) and text.null_count < len(block):
            return {"name": pc.fill_null(text, rule.word)}
        return {"name": constant(rule.word, len(block))}
    return reading.name(block, table, *found, short=without_release if short else None)


def _stack(reading: Reading, block: Block, table: str, chains: pa.Array | None) -> dict[str, pa.Array]:
    """The stack of each call; a chain that is nowhere keeps its number."""
    if chains is None:
        return {}
    stacks = reading.stacks.column(table, chains)
    if stacks is not None:
        block.drop("callchainId")
        lost = pc.and_(pc.is_null(stacks), pc.not_equal(chains, 0))
        return {"args.stack": stacks, "args.callchainId": pc.if_else(pc.fill_null(lost, False), chains, None)}
    return {}
