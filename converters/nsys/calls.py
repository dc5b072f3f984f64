"""Reads calls on threads: CUDA's APIs, the libraries above it, MPI, the operating system, the profiler's own work.

For each table a rule states the kind of its rows and the column of their names; an unknown table with times is read by
the rule UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch

from .reading import Reading, numbered
from .repeats import Repeats
from .rules import UNKNOWN, Rule
from .waits import Waits

_TIMES = ("start", "timestamp", "rawTimestamp")
#: Tables whose correlationId links CUDA's calls with their work.
_OF_CUDA = re.compile(r"CUDA_|CUPTI_ACTIVITY_KIND_(?!OPENACC)", re.IGNORECASE)

_SUFFIX = re.compile(r"(?:_v\d+)?(?:_pt[sd][sz])?$")


def without_release(name: str) -> str:
    """Returns a call's name without its release: cudaMemcpyAsync for cudaMemcpyAsync_v3020_ptsz."""
    return _SUFFIX.sub("", name) or name


def runtime(reading: Reading, table: str, waits: Waits) -> Iterator[Batch]:
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
        columns = _columns(reading, block, table, Rule("api"), short=True)
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


def _fold(reading: Reading, block: Block, folded: Bools) -> None:
    """Accounts for rows that repeat others."""
    count = int(folded.sum())
    reading.conversion.report.used(count, outcome="folded")
    where = block.where(int(np.flatnonzero(folded)[0]))
    reading.conversion.report.issue("folded", where, "calls that are repeated with their call chain", count)


def calls(reading: Reading, table: str, rule: Rule | None = None) -> Iterator[Batch]:
    """Yields the rows of a table by its rule, or by the rule UNKNOWN."""
    if rule is None:
        reading.conversion.report.issue(
            "unknown-kind", table, "its rows were read as ranges", reading.database.count(table)
        )
        rule = UNKNOWN
    for block, ids in reading.timed(table, *_TIMES, end="end", open_end=rule.open_end):
        columns = _columns(reading, block, table, rule, short=rule.kind == "api")
        if rule.chains:
            columns |= _stack(reading, block, rule.chains, block.get("callchainId"))
        yield reading.batches.events(block, ids, **columns)


def _columns(reading: Reading, block: Block, table: str, rule: Rule, *, short: bool) -> dict[str, Any]:
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


def _place(reading: Reading, block: Block, rule: Rule) -> dict[str, Any]:
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


def _named(reading: Reading, block: Block, table: str, rule: Rule, *, short: bool) -> dict[str, pa.Array]:
    """Returns the columns of names: from the first column of ids that has any, a text, an enumeration, or `word`."""
    word = rule.word or table
    used = [name for name in rule.names if (column := block.get(name)) is not None and column.null_count < len(block)]
    ids = block.get(used[0]) if used else None
    if ids is not None and (rule.by is None or not ids.null_count):
        return reading.name(block, table, *used, short=without_release if short else None)
    names = None
    if ids is not None:
        names = reading.words(table, used[0]).column(block, block.take(used[0])).cast(pa.string())
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


def _stack(reading: Reading, block: Block, table: str, chains: pa.Array | None) -> dict[str, pa.Array]:
    """Returns the stack of each call; a chain that can't be found keeps its number."""
    if chains is None:
        return {}
    stacks = reading.stacks.column(table, chains)
    if stacks is not None:
        block.drop("callchainId")
        lost = pc.and_(pc.is_null(stacks), pc.not_equal(chains, 0))
        return {"args.stack": stacks, "args.callchainId": pc.if_else(pc.fill_null(lost, False), chains, None)}
    return {}
