"""Reads calls on threads: CUDA's APIs, the libraries above it, MPI, the operating system, the profiler's own work.

For each table a rule, found by the table's name, states the kind of its rows and the column of their names; an unknown
table with times is read by the rule `_UNKNOWN`.

OSRT_API                   api, named by nameId, stacks in OSRT_CALLCHAINS
GPU_VIDEO_ENGINE_WORKLOAD  range, named by the word of engineType (NVDEC), on the track "video engine 2"

Rows of CUPTI_ACTIVITY_KIND_RUNTIME with the same correlation are repeated calls, and calls within calls:

924889832  924923197  class 67  correlation 140  cudaLaunchKernel          repeats the call, with its call chain
924890173  924923126  class 0   correlation 140  cudaLaunchKernel_v7000    as CUPTI measured it: kept
924890500  924923000  class 1   correlation 140  cuLaunchKernel            within: correlation becomes an argument

Only a file with rows of several classes is examined, a range of correlations at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.sqlite import Database
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.naming.short_names import without_release
from ktrace.store.joins import isin_sorted, positions

from .device_work import Waits
from .reading import ExportReader, numbered
from .typed_columns import NO_NAME, filled_part


@dataclass(frozen=True)
class _NsysRule:
    """How the rows of a table are read.

    `kind` is their kind. `names` are the columns of ids that may contain the name; a row without a name is named after
    the enumeration in the column `by`, else `word`, else the table. `gpu` is the column of the device, `chains` the
    table of call chains. `words` are enumerations of columns of this table. `track` is the track, with the number in
    the column `numbered`. With `open_end` an end may be null.
    """

    kind: str
    names: tuple[str, ...] = ("nameId",)
    word: str = NO_NAME
    by: str | None = None
    gpu: str | None = None
    chains: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    track: str | None = None
    numbered: str | None = None
    open_end: bool = False


_CALL = _NsysRule("api")
_OPENACC = {"eventKind": "OPENACC_EVENT_KIND", "DeviceType": "OPENACC_DEVICE"}
_OPENMP = {"eventKind": "OPENMP_EVENT_KIND", "threadType": "OPENMP_THREAD", "priorTaskStatus": "OPENMP_TASK_STATUS"}
_OPENMP_KINDS = {
    "SYNC_REGION(_WAIT)?": "OPENMP_SYNC_REGION",
    "TASK": "OPENMP_TASK_FLAG",
    "MUTEX_WAIT|CRITICAL_SECTION|MUTEX_RELEASED|LOCK_INIT|LOCK_DESTROY": "OPENMP_MUTEX",
    "WORKSHARE": "OPENMP_WORK",
    "DISPATCH": "OPENMP_DISPATCH",
}
_WDDM = {
    "packetType": "WDDM_PACKET_TYPE",
    "engineType": "WDDM_ENGINE_TYPE",
    "interruptType": "WDDM_INTERRUPT_TYPE",
    "vidMmOpType": "WDDM_VIDMM_OP_TYPE",
    "pagingQueueType": "WDDM_PAGING_QUEUE_TYPE",
}
_DX12 = {"commandListType": "D3D12_CMD_LIST_TYPE"}
_JIT = {"jitEntryType": "CUPTI_JIT_ENTRY_TYPE", "jitOperationType": "CUPTI_JIT_OPERATION_TYPE"}
_KHR = {"source": "OPENGL_DEBUG_SOURCE", "khrdType": "OPENGL_DEBUG_TYPE", "severity": "OPENGL_DEBUG_SEVERITY"}
_CUPTI = "CUPTI_ACTIVITY_KIND_"

#: Pattern of a table's name -> its rule.
RULES: dict[str, _NsysRule] = {
    r"OSRT_API": _NsysRule("api", chains="OSRT_CALLCHAINS"),
    r"SYSCALL(_\w+)?": _NsysRule("api", chains="SYSCALL_CALLCHAINS"),
    r"CUDNN_EVENTS|CUBLAS_EVENTS|CUDA_GRAPH(_NODE|_EXEC)?_EVENTS|CUDA_HOST_FUNC\w*": _CALL,
    r"NVVIDEO_\w+_API|NVMEDIA\w*_API|NVAPI\w*|OPENCL\w*_API|OPENXR\w*": _CALL,
    r"TRACE_PROCESS_EVENT_NVMEDIA|TEGRA_INTERNAL_API_CALLS": _CALL,
    r"OPENGL_API|VULKAN_API|DXGI_API": _CALL,
    r"DX1[12]_API": _NsysRule("api", words=_DX12),
    rf"{_CUPTI}OPENACC_\w+": _NsysRule("api", words=_OPENACC),
    **{
        f"OPENMP_EVENT_KIND_({name})": _NsysRule("range", words=_OPENMP | {"kind": enum})
        for name, enum in _OPENMP_KINDS.items()
    },
    r"OPENMP_EVENT_KIND_\w+": _NsysRule("range", words=_OPENMP),
    r"MPI_(P2P|COLLECTIVES|START_WAIT|OTHER)_EVENTS": _NsysRule("api", ("textId", "nameId"), open_end=True),
    r"UCP_(SUBMIT|PROGRESS)?_?EVENTS": _NsysRule("api", ("textId", "nameId"), open_end=True),
    rf"{_CUPTI}OVERHEAD|PROFILER_OVERHEAD": _NsysRule("overhead", by="overheadType"),
    rf"{_CUPTI}JIT": _NsysRule("overhead", by="jitOperationType", words=_JIT),
    r"CUDA_HOST_CALLBACK": _NsysRule("range", word="host function"),
    rf"{_CUPTI}GRAPH_HOST_NODE_AND_HOST_LAUNCH": _NsysRule("range", word="host function"),
    rf"{_CUPTI}MEM_DECOMPRESS": _NsysRule("memcpy", word="[CUDA memory decompression]"),
    rf"{_CUPTI}BLOCK_(PHASE_)?TRACE": _NsysRule("range", word="block", track="SM", numbered="SMId"),
    rf"{_CUPTI}WARP_(PHASE_)?TRACE": _NsysRule("range", ("EventName",), word="warp", track="SM", numbered="SMId"),
    r"(OPENGL|VULKAN)_WORKLOAD": _NsysRule("range", gpu="gpu"),
    r"DX1[12]_WORKLOAD": _NsysRule("range", gpu="gpu", words=_DX12),
    r"VULKAN_DEBUG_API|D3D1[12]_PIX_DEBUG_API": _NsysRule("range", ("textId", "nameId"), words=_DX12, open_end=True),
    r"KHR_DEBUG_EVENTS": _NsysRule("range", ("textId", "nameId"), words=_KHR, open_end=True),
    r"GPU_VIDEO_ENGINE_WORKLOAD": _NsysRule(
        "range",
        word="video engine",
        by="engineType",
        words={"engineType": "VIDEO_ENGINE_TYPE", "codecId": "VIDEO_ENGINE_CODEC"},
        gpu="gpu",
        track="video engine",
        numbered="engineId",
    ),
    r"GPU_VIDEO_ENGINE_MISSING": _NsysRule("range", word="missing ranges of a video engine", track="video engines"),
    r"GPU_CONTEXT_SWITCH_EVENTS": _NsysRule(
        "range", word="context switch", by="tag", words={"tag": "GPU_CTX_SWITCH"}, gpu="gpuId", track="context switches"
    ),
    r"WDDM_\w+_EVENTS": _NsysRule("range", word="", gpu="gpu", words=_WDDM, track="WDDM"),
    r"SLI_(QUERIES|P2P|STATS)|NV_LOAD_BALANCE(_MASTER)?_EVENTS": _NsysRule("range", word="", gpu="gpu", track="frames"),
    r"MEMORY_TRANSFER_EVENTS": _NsysRule(
        "range",
        word="memory transfer",
        by="memoryTransferType",
        words={"memoryTransferType": "ETW_MEMORY_TRANSFER_TYPE"},
        gpu="gpu",
        track="memory transfers",
    ),
    r"NET_IB_SWITCH_CONGESTION_EVENTS?": _NsysRule(
        "range",
        word="congestion",
        by="congestionType",
        words={"congestionType": "NET_IB_CONGESTION_EVENT_TYPE"},
        track="InfiniBand congestion",
    ),
}

#: The rule of an unknown table.
_UNKNOWN = _NsysRule("range", ("nameId", "textId"), word="", open_end=True)


def rule_of(table: str) -> _NsysRule | None:
    """Returns the rule of a table, None for an unknown table."""
    bare = re.sub(r"_V\d+$", "", table, flags=re.IGNORECASE)
    return next((rule for pattern, rule in RULES.items() if re.fullmatch(pattern, bare, re.IGNORECASE)), None)


_COLUMNS = ("_rowid_", "globalTid", "correlationId", "start", "end", "eventClass", "callchainId")
_ROW, _THREAD, _CORRELATION, _START, _END, _CLASS, _CHAIN = range(7)

#: The number of rows that are examined together.
_PART_ROWS = 1 << 19

#: The number in place of null.
_NULL = np.iinfo(np.int64).min

_NO_ROWS = np.zeros(0, np.int64)

#: The classes of rows that CUPTI measures: runtime, driver.
_MEASURED = (0, 1)


class Repeats:
    """The rows of a table that have the same process and correlation as another row."""

    def __init__(self, database: Database, table: str) -> None:
        inner, folded, chains = [_NO_ROWS], [_NO_ROWS], [np.zeros((0, 2), np.int64)]
        for rows in _rows(database, table):
            part = _classify(rows)
            inner.append(part[0])
            folded.append(part[1])
            chains.append(part[2])
        self._inner = np.sort(np.concatenate(inner))
        self._folded = np.sort(np.concatenate(folded))
        all_chains = np.concatenate(chains)
        self._chains = all_chains[np.argsort(all_chains[:, 0], kind="stable")]

    def of(self, block: Block) -> tuple[Bools, Bools, pa.Array]:
        """Returns masks of the rows within another call and of repeats, and the call chains of repeated calls."""
        numbers = block.numbers.to_numpy()
        chains = pa.nulls(len(numbers), pa.int64())
        if len(self._chains):
            place = positions(numbers, self._chains[:, 0])
            chains = pa.array(self._chains[place, 1], mask=place < 0)
        return isin_sorted(numbers, self._inner), isin_sorted(numbers, self._folded), chains


def _rows(database: Database, table: str) -> Iterator[Int64]:
    """Yields parts of a table as _COLUMNS, each correlation in one part; nothing if all rows have one class."""
    if not all(database.has(table, name) for name in ("globalTid", "correlationId", "start", "end", "eventClass")):
        return
    name = quoted_name(table)
    classes, count, lowest, highest = database.query(
        table,
        "SELECT count(DISTINCT eventClass), count(*), min(correlationId), max(correlationId) "
        f"FROM {name} WHERE correlationId > 0",
    )[0]
    if classes < 2 or not isinstance(lowest, int) or not isinstance(highest, int):
        return
    parts = -(-count // _PART_ROWS)
    bounds = [lowest + (highest - lowest + 1) * part // parts for part in range(parts + 1)]
    for low, high in pairwise(bounds):
        where = f"correlationId >= {low} AND correlationId < {high} AND start <= end"
        part = database.part(table, _COLUMNS[1:], where)
        yield np.stack([filled_part(part, column, _NULL) for column in _COLUMNS], axis=1)


def _classify(rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the rowids of calls within others and of repeats, and rowid and call chain of repeated calls."""
    rows = rows[np.lexsort((-rows[:, _END], rows[:, _START], rows[:, _CORRELATION], rows[:, _THREAD] >> 24))]
    process, correlation = rows[:, _THREAD] >> 24, rows[:, _CORRELATION]
    first = np.append(True, (process[1:] != process[:-1]) | (correlation[1:] != correlation[:-1]))[: len(rows)]
    if first.all():
        return _NO_ROWS, _NO_ROWS, np.zeros((0, 2), np.int64)
    begins, group, place = np.flatnonzero(first), np.cumsum(first) - 1, np.arange(len(rows))
    measured = np.isin(rows[:, _CLASS], _MEASURED)
    kept = np.minimum.reduceat(np.where(measured, place, len(rows)), begins)
    kept = np.where(kept < len(rows), kept, begins)[group]
    within = (place != kept) & (rows[:, _START] < rows[kept, _END])
    folded = within & ~measured
    chained = np.minimum.reduceat(np.where(folded & (rows[:, _CHAIN] != _NULL), place, len(rows)), begins)
    has_chain = np.flatnonzero(chained < len(rows))
    original = rows[kept[begins[has_chain]], _ROW]
    chains = np.stack([original, rows[chained[has_chain], _CHAIN]], axis=1)
    return rows[within & measured, _ROW], rows[folded, _ROW], chains


_TIMES = ("start", "timestamp", "rawTimestamp")
#: Tables whose correlationId links CUDA's calls with their work.
_OF_CUDA = re.compile(r"CUDA_|CUPTI_ACTIVITY_KIND_(?!OPENACC)", re.IGNORECASE)


def runtime(reading: ExportReader, table: str, waits: Waits) -> Iterator[Batch]:
    """Yields the calls of CUDA's runtime and driver. Of two rows for one call, the one measured by CUPTI is kept."""
    repeats = Repeats(reading.database, table)
    for all_rows, all_ids in reading.timed(table, "start", end="end"):
        inner, folded, chains = repeats.of(all_rows)
        block, ids = all_rows, all_ids
        if folded.any():
            keep = ~folded
            _fold(reading, all_rows, folded)
            block, inner, chains = all_rows.filter(pa.array(keep)), inner[keep], chains.filter(pa.array(keep))
            ids = all_ids[keep]
            if not len(block):
                continue
        columns = _columns(reading, block, table, _NsysRule("api"), short=True)
        correlation = columns["correlation"]
        if correlation is not None and inner.any():
            columns["args.correlationId"] = pc.if_else(pa.array(inner), correlation, None)
            correlation = columns["correlation"] = pc.if_else(pa.array(inner), None, correlation)
        waits.add_calls(ids, columns.get("pid"), correlation)
        own_chains = block.get("callchainId")
        if own_chains is not None:
            chains = pc.coalesce(own_chains, chains)
        columns |= _stack(reading, block, "CUDA_CALLCHAINS", chains)
        yield reading.batches.events(block, ids, **columns)


def _fold(reading: ExportReader, block: Block, folded: Bools) -> None:
    """Accounts for rows that repeat others."""
    count = int(folded.sum())
    reading.conversion.report.used(count, outcome="folded")
    where = block.where(int(np.flatnonzero(folded)[0]))
    reading.conversion.report.issue("folded", where, "calls that are repeated with their call chain", count)


def calls(reading: ExportReader, table: str, rule: _NsysRule | None = None) -> Iterator[Batch]:
    """Yields the rows of a table by its rule; UNKNOWN is that of tables without one."""
    if rule is None:
        reading.conversion.report.issue(
            "unknown-kind", table, "its rows were read as ranges", reading.database.count(table)
        )
        rule = _UNKNOWN
    for block, ids in reading.timed(table, *_TIMES, end="end", open_end=rule.open_end):
        columns = _columns(reading, block, table, rule, short=rule.kind == "api")
        if rule.chains:
            columns |= _stack(reading, block, rule.chains, block.get("callchainId"))
        yield reading.batches.events(block, ids, **columns)


def _columns(reading: ExportReader, block: Block, table: str, rule: _NsysRule, *, short: bool) -> dict[str, Any]:
    """Returns the columns of the model that a block of calls fills."""
    ts, end = block.take(*_TIMES), block.take("end")
    numbers = reading.correlation(block)
    columns: dict[str, Any] = {
        "kind": rule.kind if end is not None else "instant",
        "ts": ts,
        "dur": None if end is None else pc.subtract(end, ts),
        **_place(reading, block, rule),
        **_named(reading, block, table, rule, short=short),
        "correlation" if _OF_CUDA.match(table) else "args.correlationId": numbers,
    }
    classes = block.take("eventClass")
    if classes is not None:
        columns["cat"] = reading.enums.column("NSYS_EVENT_CLASS", classes)
    if "MPI_" in table.upper() or "UCP_" in table.upper():
        comm, size = block.take("commHandle"), block.take("size", "packedSize")
        columns |= {"comm": None if comm is None else comm.cast(pa.string()), "bytes": size}
    elif rule.kind == "memcpy":
        columns["bytes"] = block.take("sourceBytes")
    elif table.upper().startswith("CUPTI_ACTIVITY_KIND_OPENACC"):
        columns["bytes"] = block.take("bytes")
    return columns | reading.args(block, table, rule.words)


def _place(reading: ExportReader, block: Block, rule: _NsysRule) -> dict[str, Any]:
    """Returns the columns of the thread, of the device if the rows name one, and of the track."""
    number = block.take(rule.numbered) if rule.numbered else None
    track: Any = rule.track
    if track is not None and number is not None:
        track = numbered(track, number)
    has_thread = block.get("globalTid") is not None
    place: dict[str, Any] = dict(reading.places.thread(block))
    gpu = block.take(rule.gpu) if rule.gpu else None
    if gpu is not None:  # the thread is the one that submitted the work
        place = {"pid": place.get("pid"), "args.tid": place.get("tid"), **reading.places.gpus(gpu)}
    elif not has_thread:
        place |= reading.places.device(block, place.get("pid"), work=False)
    return place if track is None else place | {"track": track}


def _named(reading: ExportReader, block: Block, table: str, rule: _NsysRule, *, short: bool) -> dict[str, pa.Array]:
    """Returns the columns of names: from the first column of ids that has any, a text, an enumeration, or `word`."""
    word = rule.word or table
    used = [name for name in rule.names if (column := block.get(name)) is not None and column.null_count < len(block)]
    ids = block.get(used[0]) if used else None
    if ids is not None and (rule.by is None or not ids.null_count):
        return reading.name(block, *used, short=without_release if short else None)
    names = None
    if ids is not None:
        names = reading.strings.column(block, block.take(used[0])).cast(pa.string())
    else:
        text = block.take("name", "text")
        if text is not None and pa.types.is_string(text.type):
            names = text
    kinds = block.take(rule.by) if rule.by else None
    if kinds is not None:
        words = reading.enums.column(reading.enum_of(str(rule.by), rule.words), kinds).cast(pa.string())
        unknown = pc.fill_null(pc.utf8_is_digit(words), False)
        words = pc.if_else(unknown, pc.binary_join_element_wise(word, words, " "), words)
        names = words if names is None else pc.coalesce(names, words)
    if names is None or names.null_count == len(block):
        return {"name": constant(word, len(block))}
    return {"name": pc.fill_null(names, word)}


def _stack(reading: ExportReader, block: Block, table: str, chains: pa.Array | None) -> dict[str, pa.Array]:
    """Returns the stack of each call; a chain that can't be found keeps its number."""
    if chains is None:
        return {}
    stacks = reading.stacks.column(table, chains)
    if stacks is not None:
        block.drop("callchainId")
        lost = pc.and_(pc.is_null(stacks), pc.not_equal(chains, 0))
        return {"args.stack": stacks, "args.callchainId": pc.if_else(pc.fill_null(lost, False), chains, None)}
    return {}
