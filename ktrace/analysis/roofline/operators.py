"""Collects the operators whose cost is known, and finds the one that each piece of device work belongs to.

thread 4242    [ aten::linear                     ]
                  [ aten::addmm  8x64, 64x32     ]      the innermost operator with a known cost
                     [ cudaLaunchKernel ]
stream 7                              [ gemm ]          its time belongs to aten::addmm

The formula of each operator.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.roofline.products import ATTENTION, PRODUCTS
from ktrace.analysis.roofline.tensors import SPELLINGS, Cost, Operator, parsed
from ktrace.analysis.roofline.traffic import traffic
from ktrace.analysis.work.device_work import Events
from ktrace.analysis.work.gather import durations
from ktrace.analysis.work.spans import innermost
from ktrace.analysis.work.stored_columns import Shapes, StoredColumns, source_of
from ktrace.model.arrays import Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import truth, words_in
from ktrace.store.spill import Spill


def cost_of(operator: Operator) -> Cost | None:
    """The cost of an operator; None if it has no formula or its inputs don't match the formula."""
    formula = PRODUCTS.get(operator.name) or ATTENTION.get(operator.name) or traffic(operator.name)
    return formula(operator) if formula else None


_THREAD = TRACK_COLUMNS[:4]


#: The text of an argument that isn't there.
_ABSENT = msgspec.Raw(b"")


class _Arguments(msgspec.Struct):
    """The arguments of an operator in JSON text, as texts of their own."""

    dims: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Dims")
    earlier: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input dims")
    types: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=_ABSENT, name="Concrete Inputs")
    strides: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Strides")


_DECODER = msgspec.json.Decoder(_Arguments)


class Operators:
    """The operators of a trace with a known cost: `costs` and `operators` by number, each of different inputs."""

    def __init__(self, spill: Spill) -> None:
        self.costs: list[Cost | None] = []
        self.operators: list[Operator | None] = []
        self._numbers = Shapes(("name", *SPELLINGS))
        self._threads = Shapes(_THREAD)
        self._rows = StoredColumns(spill, "operators", ts="i8", dur="i8", thread="i4", cost="i4")

    def __len__(self) -> int:
        return len(self._rows)

    def see(self, batch: Batch) -> None:
        """Collects the operators among the events of one source."""
        mine = words_in(batch.column("kind"), ("op",))
        if not mine.any():
            return
        found = _arguments(batch, np.flatnonzero(mine))
        if found is None:
            return
        rows, inputs = found
        number = self._numbers.number(inputs, np.arange(len(rows)))
        self._price()
        dur = durations(batch)[rows]
        known = np.array([cost is not None for cost in self.costs], np.bool_)[number] & (dur >= 0)
        rows = rows[known]
        if len(rows):
            ts, thread = batch.column("ts").to_numpy()[rows], self._threads.number(batch, rows)
            self._rows.add(source_of(batch), ts=ts, dur=dur[known], thread=thread, cost=number[known])

    def _price(self) -> None:
        """Computes the costs of inputs that are new."""
        if len(self._numbers) == len(self.costs):
            return
        for row in self._numbers.all()[len(self.costs) :]:
            texts = (None if row[key] is None else _bytes(row[key]) for key in SPELLINGS)
            dims, types, concrete, strides = texts
            one = parsed(row["name"], dims, types, concrete, strides) if dims and types else None
            self.operators.append(one)
            self.costs.append(cost_of(one) if one else None)

    def of(self, events: Events, threads: list[dict[str, Any]], mine: Int64) -> tuple[Int64, dict[str, Any]]:
        """For each piece of work in `mine` the position of its operator, -1: none; and the operators of the source.

        `threads` are those of the calls. An operator that encloses another one with FLOPs, both with work of their
        own, has the cost -1, so that nothing counts twice.
        """
        rows = self._rows.of(events.source)
        found = np.full(len(mine), -1, np.int64)
        call = events.call[mine]
        launched = call >= 0
        if not len(rows["ts"]) or not launched.any():
            return found, rows
        thread = self._among(threads)[rows["thread"]]
        used = np.zeros(len(events.calls["ts"]), np.bool_)
        used[call[launched]] = True
        at = events.calls["ts"][used]
        begin, end = np.concatenate([rows["ts"], at]), np.concatenate([rows["ts"] + rows["dur"], at])
        outer = innermost(np.concatenate([thread, events.calls["thread"][used]]), begin, end)
        count = len(rows["ts"])
        found[launched] = outer[count:][(np.cumsum(used) - 1)[call[launched]]]
        return found, rows | {"cost": self._once(rows["cost"], outer[:count], found[found >= 0])}

    def _among(self, threads: list[dict[str, Any]]) -> Any:
        """The number of each thread among those of the calls; others have numbers of their own."""
        known = {tuple(one[name] for name in _THREAD): number for number, one in enumerate(threads)}
        own = (tuple(one[name] for name in _THREAD) for one in self._threads.all())
        return np.array([known.setdefault(one, len(known)) for one in own], np.int32)

    def _once(self, cost: Any, outer: Int64, used: Int64) -> Any:
        """The costs, -1 for operators around others with FLOPs; `used` are those with work of their own."""
        arithmetic = np.array([bool(one and one.flops) for one in self.costs], np.bool_)
        mine = np.zeros(len(cost), np.bool_)
        mine[used] = True
        above = outer[mine & arithmetic[cost]]
        cost = cost.copy()
        while len(above := np.unique(above[above >= 0])):
            cost[above] = -1
            above = outer[above]
        return cost


def _arguments(batch: Batch, rows: Int64) -> tuple[Int64, Batch] | None:
    """The operators among these rows that have shapes, and their names and inputs as columns of a batch."""
    typed = {
        key: name
        for key, spellings in SPELLINGS.items()
        for spelling in spellings
        if batch.has(name := f"args.{spelling}")
    }
    if "dims" in typed:
        rows = rows[truth(batch.column(typed["dims"]).is_valid())[rows]]
        columns = {key: batch.column(name).take(pa.array(rows)) for key, name in typed.items()}
    elif batch.has("args"):
        text = decoded(batch.column("args")).take(pa.array(rows))
        here = truth(pc.match_substring(text, '"Input Dims"', ignore_case=True))
        rows, text = rows[here], text.filter(pa.array(here))
        columns = _decoded(text.to_pylist())
    else:
        return None
    if not len(rows):
        return None
    named = {"name": batch.column("name").take(pa.array(rows)), **columns}
    return rows, Batch("events", pa.RecordBatch.from_pydict(named))


def _decoded(texts: list[str]) -> dict[str, pa.Array]:
    """The inputs of operators in the texts of their arguments."""
    found: dict[str, list[bytes | None]] = {key: [] for key in SPELLINGS}
    for text in texts:
        try:
            one = _DECODER.decode(text)
        except NOT_JSON:
            one = _Arguments()
        values = one.dims if bytes(one.dims) else one.earlier, one.types, one.concrete, one.strides
        for key, value in zip(SPELLINGS, values, strict=True):
            found[key].append(bytes(value) or None)
    return {key: pa.array(values, pa.binary()) for key, values in found.items()}


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
