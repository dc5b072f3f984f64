"""Reads the files of Proton.

Reads Proton's trace: kernels by stream, scopes by thread, or cycles by warp.

{"args":{"call_stack":["ROOT","step","k"]},"cat":"kernel","dur":4.0,"name":"k","ph":"X","tid":7,"ts":0.0}    stream 7
{.. "cat":"kernel", .. "pid":0,"tid":200007, ..}           newer: 200,000 + 1,000,000 * device + stream
{.. "cat":"scope", .. "pid":0,"tid":100007, ..}            a scope of a graph on stream 7
{.. "cat":"scope", .. "pid":0,"tid":3, ..}                 a scope of thread 3
{.. "cat":"k","pid":"k Core0 CTA1","tid":"warp 2 (line 0)","args":{"Frequency (MHz)":1000.0,..}}     a cycle trace
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events, Member
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder, to_batch, to_rows

from .tree import METADATA, read_tree

DIALECT = Dialect(cats={"kernel": Rule("kernel")}, other=Rule("range"), flows={"flow": "launch"})

#: Where the numbers of lanes for graphs and for streams begin, and how many a device has.
_GRAPHS, _STREAMS, _EACH = 100_000, 200_000, 1_000_000

#: The kernel with which Proton itself copies metrics.
_METRIC = "<metric>"

_CYCLES = "args.Frequency (MHz)"
_KINDS = ["kernel", "range", "overhead"]


def read_trace(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of all documents. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of = mapper(DIALECT)
    clock: dict[str, Any] = {"kind": "session"}

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield on_lanes(batch)

    def member(found: Member, conversion: Conversion) -> Iterable[Batch]:
        if found.key == "baseTimeNanoseconds" and type(base := found.value()) is int:
            clock.update(at_ns=0, unix_ns=base)
        return ()

    yield from read_document(source, conversion, placed, member)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "Triton Proton"})
    rows.fact("clock", facts=clock)
    yield from rows.rest()


def on_lanes(batch: Batch) -> Batch:
    """Returns the batch with devices and streams in the place of lanes."""
    if not batch.has("tid"):
        return _kinds(batch)
    if batch.record == "catalog":
        return to_batch("catalog", [_fact(row) for row in to_rows(batch)])
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    lane: Int64 = columns["tid"].fill_null(-1).to_numpy().astype(np.int64)
    named = batch.has("pid")
    numbered = present(columns["pid"]) if named else np.zeros(len(lane), np.bool_)
    is_kernel = np.zeros(len(lane), np.bool_)
    if batch.record == "events":
        is_kernel = pc.equal(decoded(columns["kind"]), "kernel").to_numpy(zero_copy_only=False)
    on_stream = (numbered & (lane >= _STREAMS)) | (~numbered & is_kernel & (lane >= 0))
    on_graph = numbered & (lane >= _GRAPHS) & (lane < _STREAMS)
    beyond = np.where(numbered, lane - _STREAMS, lane)
    columns["device"] = _where(on_graph | (on_stream & numbered), np.where(on_graph, 0, beyond // _EACH))
    columns["stream"] = _where(on_stream, np.where(numbered, beyond % _EACH, lane))
    for name in ("pid", "tid"):
        if name in columns:
            columns[name] = pc.if_else(pa.array(on_stream | on_graph), None, columns[name])
    if on_graph.any():
        texts = pc.binary_join_element_wise("Graph: Stream", _where(on_graph, lane - _GRAPHS).cast(pa.string()), " ")
        columns["track"] = encoded(pc.coalesce(texts, decoded(batch.column("track")).cast(pa.string())))
    return _kinds(Batch(batch.record, pa.RecordBatch.from_pydict(columns)))


def _where(mask: Bools, values: Int64) -> pa.Array:
    return pa.array(values.astype(np.int64), mask=~mask)


def _kinds(batch: Batch) -> Batch:
    """Work of Proton's own is overhead; cycles within a kernel are ranges, whose times are derived from cycles."""
    if batch.record != "events":
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    kind = decoded(columns["kind"]).to_numpy(zero_copy_only=False)
    code = np.where(kind == "kernel", 0, 1)
    names = encoded(columns["name"])
    own = np.array([name == _METRIC or _is_own(name) for name in names.dictionary.to_pylist()], np.bool_)
    overhead = own[names.indices.fill_null(0).to_numpy()]
    stacks = columns.get("args.call_stack")
    if stacks is not None and not pa.types.is_primitive(stacks.type):  # a number is no stack
        stacks = encoded(stacks)
        texts = [METADATA.encode() in bytes(text) for text in stacks.dictionary.cast(pa.binary()).to_pylist()]
        known = present(stacks)
        overhead = overhead | (known & np.array(texts or [False])[stacks.indices.fill_null(0).to_numpy()])
    code = np.where(overhead & (code == 0), 2, code)
    if _CYCLES in columns:
        cycles = present(columns[_CYCLES])
        code = np.where(cycles, 1, code)
        timing = np.where(cycles, 1, 0)
        columns["timing"] = words(["measured", "derived"], timing)
    others = ~np.isin(kind, ("kernel", "range"))
    if not others.any():
        columns["kind"] = words(_KINDS, code)
    return Batch("events", pa.RecordBatch.from_pydict(columns))


def _is_own(name: str) -> bool:
    return name == METADATA or name.startswith(METADATA + ":")


def _fact(row: dict[str, Any]) -> dict[str, Any]:
    """The name of a lane as that of its stream or track."""
    lane = row.get("tid")
    if row.get("entity") != "thread" or type(lane) is not int or lane < _GRAPHS or row.get("pid") is None:
        return row
    rest = {name: value for name, value in row.items() if name not in ("pid", "tid")}
    if lane < _STREAMS:
        return rest | {"entity": "track", "device": 0, "track": f"Graph: Stream {lane - _GRAPHS}"}
    device, stream = divmod(lane - _STREAMS, _EACH)
    return rest | {"entity": "stream", "device": device, "stream": stream}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the nodes of a tree as summaries, or the events of a trace. Raises DamagedInput if it is neither."""
    with source.open(quiet=True) as stream:
        head = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return read_trace(source, conversion) if head.startswith(b"{") else read_tree(source, conversion)
