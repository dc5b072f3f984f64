"""Leads from work of a backward pass to what the forward pass did, by the arrows from forward to backward operators.

thread 4242 (main)      [ nn.Module: Linear_0 [ aten::linear ] ]   ...  [ ## backward ##        ]
                                                  └──── fwdbwd ───┐
thread 4300 (autograd)                                            [ AddmmBackward0 [ call ]     ]

The module of the call is Linear_0, and the range around it is ## backward ##, that of the forward thread at this time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.hosts.forest import Spans
from ktrace.analysis.work.spans import Ranges
from ktrace.analysis.work.stored_columns import StoredRows, source_of
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.masks import present, words_in
from ktrace.store.joins import find
from ktrace.store.shapes import Shapes
from ktrace.store.spill import Spill

#: The columns of an end: attached to an event, or by its place.
_ENDS = pa.schema(
    [("key", pa.string()), ("role", pa.string()), ("event", pa.int64()), ("ts", pa.int64()), ("place", pa.int32())]
)


class Arrows:
    """Collects arrows from forward to backward operators."""

    def __init__(self, spill: Spill, name: str) -> None:
        """`name` is that of a file."""
        self._rows = StoredRows(spill, name)
        self._places = Shapes(TRACK_COLUMNS[:4])  # source, host, pid, tid

    def see(self, batch: Batch) -> None:
        """Collects the arrows of a batch of one source."""
        if batch.record != "links" or not len(batch):
            return
        mine = np.flatnonzero(words_in(batch.column("link"), ("fwdbwd",)))
        if len(mine):
            columns = [
                batch.column(field.name).cast(field.type).take(pa.array(mine))
                for field in _ENDS
                if field.name != "place"
            ]
            columns.append(pa.array(self._places.number(batch, mine)))
            self._rows.add(source_of(batch), pa.record_batch(columns, schema=_ENDS))

    def of(self, source: str, threads: list[dict[str, Any]], columns: dict[str, Any]) -> Ends:
        """The arrows of a source; `threads` and `columns` are those of its spans."""
        rows = pa.Table.from_batches(list(self._rows.of(source)), schema=_ENDS).combine_chunks()
        if not len(rows):
            empty = np.zeros(0, np.int64)
            return Ends(empty.astype(np.int32), empty, empty.astype(np.int32), empty)
        key = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
        out = pc.equal(rows["role"], "out").to_numpy()
        thread, ts = self._placed(rows, threads, columns)
        into = np.flatnonzero(pc.equal(rows["role"], "in").to_numpy() & (thread >= 0))
        from_ = np.flatnonzero(out & (thread >= 0))
        begun = find((key[into],), (key[from_],))
        into, from_ = into[begun >= 0], from_[begun[begun >= 0]]
        return Ends(thread[from_], ts[from_], thread[into], ts[into])

    def _placed(self, rows: pa.Table, threads: list[dict[str, Any]], columns: dict[str, Any]) -> tuple[Int32, Int64]:
        """The thread (-1: unknown) and the time of each end."""
        known = {tuple(one.values()): number for number, one in enumerate(threads)}
        places = np.array([known.get(tuple(one.values()), -1) for one in self._places.all()], np.int32)
        thread, ts = places[rows["place"].to_numpy()], rows["ts"].fill_null(0).to_numpy().copy()
        attached = np.flatnonzero(present(rows["event"]))
        if len(attached):
            event = rows["event"].take(pa.array(attached)).to_numpy()
            span = find((event,), (columns["id"],))
            attached, span = attached[span >= 0], span[span >= 0]
            thread[attached], ts[attached] = columns["thread"][span], columns["ts"][span]
        return thread, ts


class Ends(NamedTuple):
    """Both ends of arrows: thread and time of the forward and of the backward operator."""

    thread: Int32
    at: Int64
    back_thread: Int32
    back_at: Int64

    def __len__(self) -> int:
        return len(self.at)

    def forward_threads(self) -> dict[int, int]:
        """For each thread that only runs backward operators the thread of most of their forward operators."""
        found = {}
        for thread in np.unique(self.back_thread).tolist():
            forward = int(np.bincount(self.thread[self.back_thread == thread]).argmax())
            if forward != thread:
                found[thread] = forward
        return {thread: forward for thread, forward in found.items() if forward not in found}


class ForwardRanges:
    """Finds the range on the thread of the forward pass at the time of what a backward thread does."""

    def __init__(self, ends: Ends, spans: Spans, ranges: Bools) -> None:
        self._forward = ends.forward_threads()
        self._index: Int64 = np.flatnonzero(ranges & np.isin(spans.thread, list(self._forward.values())))
        mine = spans.where(self._index)
        self._ranges = Ranges(mine.thread, mine.begin, mine.end)

    def __call__(self, thread: Int32, at: Int64) -> Int64:
        """The index of the range, -1 where there is none."""
        found = np.full(len(at), -1, np.int64)
        rows = np.flatnonzero(np.isin(thread, list(self._forward)))
        if len(rows) and len(self._index):
            theirs = np.array([self._forward[one] for one in thread[rows].tolist()], np.int32)
            around = self._ranges.around(theirs, at[rows])
            found[rows] = np.where(around >= 0, self._index[around], -1)
        return found


class ForwardModules:
    """Finds the module of the forward operator of what a backward operator does."""

    def __init__(self, ends: Ends, spans: Spans, modules: Bools, operators: Spans, engine: Bools) -> None:
        """`operators` are all operators, in `spans` or not; `engine` are those of autograd's engine around others."""
        index = np.flatnonzero(modules)
        mine = spans.where(modules)
        module = Ranges(mine.thread, mine.begin, mine.end).around(ends.thread, ends.at)
        known = module >= 0
        back = _operators(ends.back_thread[known], ends.back_at[known], operators, engine)
        there = np.flatnonzero(back >= 0)
        back, first = np.unique(back[there], return_index=True)
        self._module = index[module[known][there][first]]
        self._begin = spans.begin
        backward = operators.where(back)
        self._operators = Ranges(backward.thread, backward.begin, backward.end)

    def __call__(self, thread: Int32, at: Int64) -> Int64:
        """The index of the module, -1 where there is none."""
        around = self._operators.around(thread, at)
        if not len(self._module):
            return around
        module = self._module[around]
        found: Int64 = np.where((around >= 0) & (self._begin[module] < at), module, -1)
        return found


def _operators(thread: Int32, at: Int64, operators: Spans, engine: Bools) -> Int64:
    """The index of the backward operator at the end of an arrow.

    That is the operator of the engine around it, if there is one; else the outermost that begins there, as an arrow
    has no more than a time and a thread; else the innermost around it.
    """
    order = np.lexsort((-operators.end, operators.begin, operators.thread))
    begun = find((thread, at), (operators.thread[order], operators.begin[order]))
    found = Ranges(operators.thread, operators.begin, operators.end).around(thread, at)
    if len(order):
        found = np.where(begun >= 0, order[begun], found)
    index = np.flatnonzero(engine)
    if len(index):
        mine = operators.where(index)
        around = Ranges(mine.thread, mine.begin, mine.end).around(thread, at)
        found = np.where(around >= 0, index[around], found)
    return found
