"""The passes of a training step (forward, backward, recomputation, optimizer): their device time, and their operators.

thread 4242   [ nn.Module: Block [ aten::linear ] ]                            [ Optimizer.step#AdamW.step ]
                    forward       │                                                  optimizer
thread 4300                       └──► [ autograd::engine::evaluate_function: AddmmBackward0 [ call ] ]    backward
              [ ...CheckpointFunctionBackward [ nn.Module: Block ] ]                                      recompute

Arrows lead from forward to backward operators (fwdbwd). So the module of the call is that of the linear, Block, and the
range around it that of the forward thread at this time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.questions.hosts.forest import Forest, SpanColumns
from ktrace.analysis.work.device_work import Events
from ktrace.analysis.work.spans import Ranges
from ktrace.analysis.work.stored_columns import StoredRows, source_of
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.masks import present, words_in
from ktrace.store import Spill
from ktrace.store.joins import find
from ktrace.store.vocabulary import RowKeys
from ktrace.tables import Cell, Column, Table, percent

#: The columns of an end: attached to an event, or by its place.
_ENDS = pa.schema(
    [("key", pa.string()), ("role", pa.string()), ("event", pa.int64()), ("ts", pa.int64()), ("place", pa.int32())]
)


class ForwardArrows:
    """Collects arrows from forward to backward operators."""

    def __init__(self, spill: Spill, name: str) -> None:
        """`name` is that of a file."""
        self._rows = StoredRows(spill, name)
        self._places = RowKeys(TRACK_COLUMNS[:4])  # source, host, pid, tid

    def see(self, batch: Batch) -> None:
        """Collects the arrows of a batch of one source."""
        if batch.record != "links" or not len(batch):
            return
        arrows = np.flatnonzero(words_in(batch.column("link"), ("fwdbwd",)))
        if len(arrows):
            columns = [
                batch.column(field.name).cast(field.type).take(pa.array(arrows))
                for field in _ENDS
                if field.name != "place"
            ]
            columns.append(pa.array(self._places.number(batch, arrows)))
            self._rows.add(source_of(batch), pa.record_batch(columns, schema=_ENDS))

    def for_source(self, source: str, threads: RowKeys, columns: dict[str, Any]) -> Ends:
        """The arrows of a source; `threads` and `columns` are those of its spans."""
        rows = pa.Table.from_batches(list(self._rows.for_source(source)), schema=_ENDS).combine_chunks()
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

    def _placed(self, rows: pa.Table, threads: RowKeys, columns: dict[str, Any]) -> tuple[Int32, Int64]:
        """The thread (-1: unknown) and the time of each end."""
        used, place = np.unique(rows["place"].to_numpy(), return_inverse=True)
        every = self._places.all()
        thread = np.array([threads.get(tuple(every[one].values())) for one in used.tolist()], np.int32)[place]
        ts = rows["ts"].fill_null(0).to_numpy().copy()
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
        threads = {}
        for thread in np.unique(self.back_thread).tolist():
            forward = int(np.bincount(self.thread[self.back_thread == thread]).argmax())
            if forward != thread:
                threads[thread] = forward
        return {thread: forward for thread, forward in threads.items() if forward not in threads}


class ForwardRanges:
    """Finds the range on the thread of the forward pass at the time of what a backward thread does."""

    def __init__(self, ends: Ends, spans: SpanColumns, ranges: Bools) -> None:
        self._forward = ends.forward_threads()
        self._index: Int64 = np.flatnonzero(ranges & np.isin(spans.thread, list(self._forward.values())))
        forward = spans.where(self._index)
        self._ranges = Ranges(forward.thread, forward.begin, forward.end)

    def __call__(self, thread: Int32, at: Int64) -> Int64:
        """The index of the range, -1 where there is none."""
        index = np.full(len(at), -1, np.int64)
        rows = np.flatnonzero(np.isin(thread, list(self._forward)))
        if len(rows) and len(self._index):
            theirs = np.array([self._forward[one] for one in thread[rows].tolist()], np.int32)
            around = self._ranges.around(theirs, at[rows])
            index[rows] = np.where(around >= 0, self._index[around], -1)
        return index


class ForwardModules:
    """Finds the module of the forward operator of what a backward operator does."""

    def __init__(self, ends: Ends, spans: SpanColumns, modules: Bools, operators: SpanColumns, engine: Bools) -> None:
        """`operators` are all operators, in `spans` or not; `engine` are those of autograd's engine around others."""
        index = np.flatnonzero(modules)
        module_spans = spans.where(modules)
        module = Ranges(module_spans.thread, module_spans.begin, module_spans.end).around(ends.thread, ends.at)
        in_module = module >= 0
        back = _operators(ends.back_thread[in_module], ends.back_at[in_module], operators, engine)
        there = np.flatnonzero(back >= 0)
        back, first = np.unique(back[there], return_index=True)
        self._module = index[module[in_module][there][first]]
        self._begin = spans.begin
        backward = operators.where(back)
        self._operators = Ranges(backward.thread, backward.begin, backward.end)

    def __call__(self, thread: Int32, at: Int64) -> Int64:
        """The index of the module, -1 where there is none."""
        around = self._operators.around(thread, at)
        if not len(self._module):
            return around
        module = self._module[around]
        index: Int64 = np.where((around >= 0) & (self._begin[module] < at), module, -1)
        return index


def _operators(thread: Int32, at: Int64, operators: SpanColumns, engine: Bools) -> Int64:
    """The index of the backward operator at the end of an arrow.

    That is the operator of the engine around it, if there is one; else the outermost that begins there, as an arrow
    has no more than a time and a thread; else the innermost around it.
    """
    order = np.lexsort((-operators.end, operators.begin, operators.thread))
    begun = find((thread, at), (operators.thread[order], operators.begin[order]))
    operator = Ranges(operators.thread, operators.begin, operators.end).around(thread, at)
    if len(order):
        operator = np.where(begun >= 0, order[begun], operator)
    index = np.flatnonzero(engine)
    if len(index):
        backward = operators.where(index)
        around = Ranges(backward.thread, backward.begin, backward.end).around(thread, at)
        operator = np.where(around >= 0, index[around], operator)
    return operator


#: The name of the question, as `--by` takes it.
PASS = "pass"

#: The passes by their numbers; the last one is work outside of all, or whose call isn't known.
PASSES = ("forward", "backward", "recompute", "optimizer", "other")
_FORWARD, _BACKWARD, _RECOMPUTE, _OPTIMIZER, _OTHER = range(len(PASSES))

#: What a span says of what is in it: nodes of autograd, modules, checkpoints of torch.utils.checkpoint (a function of
#: autograd that runs the forward pass again, or hooks that do so as soon as a saved tensor is wanted), optimizers.
_NAMES = (
    ("checkpoint", re.compile(r"(?:autograd::engine::evaluate_function: )?\w*CheckpointFunctionBackward$")),
    ("node", re.compile(r"autograd::engine::evaluate_function|[A-Za-z_]\w*Backward\d*$")),
    ("module", re.compile(r"nn\.Module: ")),
    ("hook", re.compile(r"(?:\S*/)?torch/utils/checkpoint\.py\(\d+\): (?:recompute_fn|unpack_hook)$")),
    ("optimizer", re.compile(r"Optimizer\.step#")),
)
_WORDS = ("", *(word for word, _ in _NAMES))
_CHECKPOINT, _NODE, _MODULE, _HOOK, _STEP = range(1, len(_WORDS))


class PassCost(msgspec.Struct, frozen=True):
    """The device work of a pass: so many pieces, `time` ns."""

    name: str
    time: int
    launched: int


class PassesAnswer(msgspec.Struct):
    """What each pass of training takes, in the order of `PASSES`; `unlaunched` pieces of work have no known call."""

    passes: list[PassCost]
    unlaunched: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each pass that has work."""
        whole = sum(one.time for one in self.passes)
        columns = (Column("pass"), Column("time", "ns"), Column("share", "%"), Column("launched", "count"))
        rows: list[tuple[Cell, ...]] = [
            (one.name, one.time, percent(one.time, whole), one.launched) for one in self.passes
        ]
        said = f"The call of {self.unlaunched:,} device activities isn't known; they are among 'other'."
        return [Table(PASS, "device time by pass of training", columns, rows, [said] if self.unlaunched else [])]


class PassCosts:
    """Adds up the passes of sources."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of spans, by number."""
        self._meaning = np.array([_meaning(name) for name in names], np.int8)
        self._time, self._launched = np.zeros((2, len(PASSES)), np.int64)
        self._trains, self._unlaunched = False, 0

    def add(self, spans: SpanColumns, chosen: Bools, nests: Bools, ends: Ends, events: Events) -> None:
        """Adds the device work of a source; `chosen` are the spans that aren't calls, `ends` arrows to the backward.

        Without a node of autograd nothing is trained, and there is no answer.
        """
        if _NODE not in self._meaning:
            return
        spans = spans.where(chosen)
        calls, call = events.calls, events.call
        used = np.unique(call[call >= 0])
        forest = Forest.from_spans(spans, calls["thread"][used], calls["ts"][used], nests, [])
        pass_of = self._of_spans(spans, forest, ends)
        self._trains |= bool((pass_of == _BACKWARD).any())
        of_call = np.full(len(calls["ts"]) + 1, _OTHER, np.int64)  # the last one is for work without a call
        of_call[used] = np.append(pass_of, _OTHER)[forest.owner]
        self._unlaunched += int(np.count_nonzero(call < 0))
        np.add.at(self._time, of_call[call], events.dur)
        self._launched += np.bincount(of_call[call], minlength=len(PASSES))

    def _of_spans(self, spans: SpanColumns, forest: Forest, ends: Ends) -> Int64:
        """The pass of what is directly in each span."""
        pass_of = np.full(len(spans), _OTHER, np.int64)
        if not len(spans):
            return pass_of
        meaning = self._meaning[spans.name]
        begins = find((spans.thread, spans.begin), (ends.thread, ends.at)) >= 0
        for level in forest.levels():
            outer = np.append(pass_of, _OTHER)[forest.parent[level]]
            stated = meaning[level]
            again = np.isin(stated, (_MODULE, _HOOK)) & (outer == _BACKWARD)
            first = ((stated == _MODULE) | begins[level]) & (outer == _OTHER)
            cases = [stated == _STEP, stated == _CHECKPOINT, stated == _NODE, again, first]
            pass_of[level] = np.select(cases, [_OPTIMIZER, _RECOMPUTE, _BACKWARD, _RECOMPUTE, _FORWARD], outer)
        return pass_of

    def answer(self) -> PassesAnswer | None:
        """The passes, None if there is no backward pass or no device work in any."""
        rows = zip(PASSES, self._time.tolist(), self._launched.tolist(), strict=True)
        passes = [PassCost(*row) for row in rows if row[2]]
        return PassesAnswer(passes, self._unlaunched) if self._trains and passes else None


def _meaning(name: str) -> int:
    """What the name of a span says, an index of `_WORDS`."""
    return next((place for place, (_, pattern) in enumerate(_NAMES, 1) if pattern.match(name)), 0)
