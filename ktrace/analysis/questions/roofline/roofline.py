"""The question: collects operators with shapes and measured figures, and answers with the work that they cost.

Collects the operators whose cost is known, and finds the one that each piece of device work belongs to.

thread 4242    [ aten::linear                     ]
                  [ aten::addmm  8x64, 64x32     ]      the innermost operator with a known cost
                     [ cudaLaunchKernel ]
stream 7                              [ gemm ]          its time belongs to aten::addmm

The formula of each operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ktrace.analysis.questions.roofline.answer import RooflineAnswer, RooflineDevice, RooflineItem
from ktrace.analysis.questions.roofline.measured import Measured, item_of, merged, stated_items
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.store import Spill
from ktrace.store.joins import combined, distinct, positions

if TYPE_CHECKING:
    from ktrace.analysis.work.device_work import Events, Shape, Work
    from ktrace.analysis.work.question import Labels
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.questions.roofline.products import ATTENTION, PRODUCTS, assumed, cached, is_cached, of_batch
from ktrace.analysis.questions.roofline.tensors import SPELLINGS, Cost, Operator, parsed
from ktrace.analysis.questions.roofline.traffic import traffic
from ktrace.analysis.work.device_work import Events
from ktrace.analysis.work.gather import durations
from ktrace.analysis.work.occurrences import OF_STEP, Occurrences
from ktrace.analysis.work.replayed import replayed
from ktrace.analysis.work.spans import innermost
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.batch import TRACK_COLUMNS
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import truth, words_in
from ktrace.naming.phases import Attended
from ktrace.store.vocabulary import RowKeys


def cost_of(operator: Operator) -> Cost | None:
    """The cost of an operator; None if it has no formula or its inputs don't match the formula."""
    name = operator.name
    formula = PRODUCTS.get(name) or ATTENTION.get(name) or cached(name) or traffic(name)
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
        self._numbers = RowKeys(("name", *SPELLINGS))
        self._threads = RowKeys(_THREAD)
        self._rows = StoredColumns(spill, "operators", ts="i8", dur="i8", thread="i4", cost="i4")
        self._replayed = StoredColumns(spill, "replayed operators", id="i8", call="i8", cost="i4")

    def __len__(self) -> int:
        return len(self._rows) + len(self._replayed)

    def see(self, batch: Batch) -> None:
        """Collects the operators among the events of one source, and those of replayed kernels."""
        is_operator = words_in(batch.column("kind"), ("op",))
        rows, cost = self._priced(batch, np.flatnonzero(is_operator), batch.column("name"))
        dur = durations(batch)[rows]
        rows, cost, dur = (column[dur >= 0] for column in (rows, cost, dur))
        if len(rows):
            ts, thread = batch.column("ts").to_numpy()[rows], self._threads.number(batch, rows)
            self._rows.add(source_of(batch), ts=ts, dur=dur, thread=thread, cost=cost)
        if (replay := replayed(batch)) is not None and replay[1]["operator"].null_count < len(replay[0]):
            work, columns = replay
            whole = np.full(len(batch), len(work))
            whole[work] = np.arange(len(work))
            names = pa.concat_arrays([columns["operator"], pa.nulls(1, columns["operator"].type)]).take(pa.array(whole))
            rows, cost = self._priced(batch, work, names)
            if len(rows):
                ids = columns["operator_id"].fill_null(-1).to_numpy(zero_copy_only=False)[whole[rows]]
                self._replayed.add(source_of(batch), id=batch.column("id").to_numpy()[rows], call=ids, cost=cost)

    def _priced(self, batch: Batch, rows: Int64, names: pa.Array) -> tuple[Int64, Int64]:
        """Those of the rows whose operator has a known cost, and the numbers of the costs; `names` are of all rows."""
        arguments = _arguments(batch, rows, names) if len(rows) else None
        if arguments is None:
            return rows[:0], rows[:0]
        rows, inputs = arguments
        number = self._numbers.number(inputs, np.arange(len(rows))).astype(np.int64)
        self._price()
        has_cost = np.array([cost is not None for cost in self.costs], np.bool_)[number]
        return rows[has_cost], number[has_cost]

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

    def of_batch(self, number: int, batch: Attended) -> int:
        """The number of the cost of an operator in a batch; the same where that tells nothing of it."""
        operator = self.operators[number]
        cost = of_batch(operator, batch) if operator else None
        if cost is None:
            return number
        self.costs.append(cost)
        self.operators.append(operator)
        return len(self.costs) - 1

    def around_work(
        self, events: Events, threads: list[dict[str, Any]], work_rows: Int64
    ) -> tuple[Int64, dict[str, Any]]:
        """The position of the operator of each piece of work in `work_rows`, -1: none; and the operators of the source.

        `threads` are those of the calls. An operator that encloses another one with FLOPs, both with work of their
        own, has the cost -1, so that nothing counts twice. A replayed kernel has the operator of its capture.
        """
        operator, rows = self._enclosing(events, threads, work_rows)
        replays = self._replayed.for_source(events.source)
        order = np.argsort(replays["id"], kind="stable")
        place = positions(events.ids[work_rows], replays["id"][order])
        work = np.flatnonzero(place >= 0)
        if not len(work):
            return operator, rows
        place = order[place[work]]
        key = (
            np.unique(one, return_inverse=True)
            for one in (events.call[work_rows[work]], replays["call"][place], replays["cost"][place])
        )
        first, which = distinct(*combined(((one, len(words)) for words, one in key), len(work)))
        operator[work] = len(rows["cost"]) + which
        return operator, rows | {"cost": np.concatenate([rows["cost"], replays["cost"][place[first]]])}

    def _enclosing(
        self, events: Events, threads: list[dict[str, Any]], work_rows: Int64
    ) -> tuple[Int64, dict[str, Any]]:
        """As `of`, for work whose call is within its operator."""
        rows = self._rows.for_source(events.source)
        operator = np.full(len(work_rows), -1, np.int64)
        call = events.call[work_rows]
        launched = call >= 0
        if not len(rows["ts"]) or not launched.any():
            return operator, rows
        numbers = {tuple(one[name] for name in _THREAD): number for number, one in enumerate(threads)}
        threads_here = (tuple(one[name] for name in _THREAD) for one in self._threads.all())
        thread = np.array([numbers.setdefault(one, len(numbers)) for one in threads_here], np.int32)[rows["thread"]]
        used = np.zeros(len(events.calls["ts"]), np.bool_)
        used[call[launched]] = True
        at = events.calls["ts"][used]
        begin, end = np.concatenate([rows["ts"], at]), np.concatenate([rows["ts"] + rows["dur"], at])
        outer = innermost(np.concatenate([thread, events.calls["thread"][used]]), begin, end)
        count = len(rows["ts"])
        operator[launched] = outer[count:][(np.cumsum(used) - 1)[call[launched]]]
        return operator, rows | {"cost": self._once(rows["cost"], outer[:count], operator[operator >= 0])}

    def _once(self, cost: Any, outer: Int64, used: Int64) -> Any:
        """The costs, -1 for operators around others with FLOPs; `used` are those with work of their own."""
        arithmetic = np.array([bool(one and one.flops) for one in self.costs], np.bool_)
        is_used = np.zeros(len(cost), np.bool_)
        is_used[used] = True
        above = outer[is_used & arithmetic[cost]]
        cost = cost.copy()
        while len(above := np.unique(above[above >= 0])):
            cost[above] = -1
            above = outer[above]
        return cost


def _arguments(batch: Batch, rows: Int64, names: pa.Array) -> tuple[Int64, Batch] | None:
    """Those of the rows that have shapes, and the names and inputs of their operators as columns of a batch."""
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
    named = {"name": names.take(pa.array(rows)), **columns}
    return rows, Batch("events", pa.RecordBatch.from_pydict(named))


def _decoded(texts: list[str]) -> dict[str, pa.Array]:
    """The inputs of operators in the texts of their arguments."""
    arguments: dict[str, list[bytes | None]] = {key: [] for key in SPELLINGS}
    for text in texts:
        try:
            one = _DECODER.decode(text)
        except NOT_JSON:
            one = _Arguments()
        values = one.dims if bytes(one.dims) else one.earlier, one.types, one.concrete, one.strides
        for key, value in zip(SPELLINGS, values, strict=True):
            arguments[key].append(bytes(value) or None)
    return {key: pa.array(values, pa.binary()) for key, values in arguments.items()}


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


#: The name of the question.
NAME = "roofline"

#: Copies that leave the device: the bytes of their operator aren't all in its memory.
_LEAVING = re.compile("HtoD|DtoH|PtoP|HtoH|HostToDevice|DeviceToHost")

#: Where the figures come from.
SHAPES = (
    "By shape, the bytes are the least that is possible: each input read once, each output written once. "
    "The time is that of the work launched in the operator."
)
STATED = "FLOPs and bytes are XLA's own estimates."
COUNTED = "FLOPs and bytes are those that Nsight Compute counted: thread instructions, matrix operations, DRAM traffic."


class Roofline:
    """How near the work is to what the device can do."""

    spans = False

    def __init__(self, spill: Spill) -> None:
        self._operators = Operators(spill)
        self._measured = Measured(spill)

    def see(self, batch: Batch) -> None:
        """Collects the operators and figures of a batch."""
        if len(batch):
            self._measured.see(batch)
            if batch.record == "events":
                self._operators.see(batch)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, RooflineAnswer]:
        """The answer, if the cost of any work is known."""
        if not len(work.gathered.work):
            return self._of_launches(work, labels)
        items: list[RooflineItem] = []
        by_shape: list[RooflineItem] = []
        notes: dict[str, None] = {}
        devices = [_Device(labels.device(key), _name(work, key)) for key in work.devices]
        for events in work.each():
            on = work.device[events.shape]
            stated, rows = stated_items(self._measured, work, events, on)
            unlaunched = (events.call < 0) if len(self._operators) else np.zeros(len(events), np.bool_)
            unlaunched[rows] = False
            for number in np.unique(on).tolist():
                devices[number].add(events, on == number, unlaunched)
            shaped = self._items(work, events, on, rows)
            items += stated + shaped
            notes |= {SHAPES: None} if shaped else {}
            by_shape += shaped
            notes |= {COUNTED if self._measured.has_counters else STATED: None} if stated else {}
        figures = [device.done() for device in devices]
        return {NAME: RooflineAnswer(items, figures, notes=[*notes, *assumed(by_shape)])} if items else {}

    def _of_launches(self, work: Work, labels: Labels) -> Mapping[str, RooflineAnswer]:
        """The answer from launches without a place in time, which Nsight Compute reports."""
        items: list[RooflineItem] = []
        devices: dict[tuple[Any, ...], int] = {}
        times: list[int] = []
        for row, figures in self._measured.kernels():
            number = devices.setdefault((row["source"], row.get("host"), row.get("device")), len(devices))
            times += [0] * (number == len(times))
            times[number] += int(row["total"])
            if figures and figures != (None, None, None):
                items.append(item_of(row, number, 1, int(row["total"]), *figures))
        devices_here = [
            RooflineDevice(labels.device(key), _name(work, key), None, times[number]) for key, number in devices.items()
        ]
        return {NAME: RooflineAnswer(merged(items), devices_here, notes=[COUNTED])} if items else {}

    def _items(self, work: Work, events: Events, on: Any, but: Int64) -> list[RooflineItem]:
        """The work of a source that belongs to an operator with a known cost, except the rows `but`."""
        if not len(self._operators):
            return []
        staying = np.array([not _leaves(shape) for shape in work.shapes], np.bool_)
        counts = staying[events.shape]
        counts[but] = False
        launched = np.flatnonzero(counts)
        place, rows = self._operators.around_work(events, work.threads, launched)
        priced = np.flatnonzero(place >= 0)
        priced = priced[rows["cost"][place[priced]] >= 0]
        if not len(priced):
            return []
        place, launched = place[priced], launched[priced]
        rows["cost"] = self._of_batches(work, events, launched, place, rows["cost"])
        tensor = np.array([shape["precision"] == "tf32" for shape in work.shapes], np.bool_)[events.shape[launched]]
        return self._grouped(place, rows["cost"], on[launched], tensor, events.dur[launched])

    def _of_batches(self, work: Work, events: Events, work_rows: Int64, place: Int64, cost: Any) -> Any:
        """The costs, those of attention over a cache in its batch; `place` is the operator of each piece of work."""
        is_cached_batch = np.array(
            [one is not None and is_cached(one.name) for one in self._operators.operators], np.bool_
        )
        stated = [meaning.attended for meaning in work.gathered.meanings]
        batches = list(dict.fromkeys(one for one in stated if one is not None))
        rows = np.flatnonzero(is_cached_batch[cost[place]]) if batches else work_rows[:0]
        if not len(rows):
            return cost
        number = np.array([-1 if one is None else batches.index(one) for one in stated], np.int32)
        occurrences = work.once(Occurrences)
        ranges = occurrences.ranges(events.source, number)
        batch = occurrences.find(events, ranges, OF_STEP)[work_rows[rows]]
        rows, batch = rows[batch >= 0], batch[batch >= 0]
        pairs = list(zip(cost[place[rows]].tolist(), ranges.label[batch].tolist(), strict=True))
        priced = {pair: self._operators.of_batch(pair[0], batches[pair[1]]) for pair in dict.fromkeys(pairs)}
        cost = cost.astype(np.int64)
        cost[place[rows]] = [priced[pair] for pair in pairs]
        return cost

    def _grouped(self, place: Int64, cost: Any, on: Any, tensor: Bools, dur: Int64) -> list[RooflineItem]:
        """Items of work: `place` is the operator of each piece, `on` its device, `tensor` whether it is in TF32."""
        first, which = distinct(place, int(place.max()) + 1)
        count = len(first)
        in_tf32 = np.bincount(which, weights=tensor, minlength=count) > 0
        key = cost[place[first]].astype(np.int64), on[first].astype(np.int64), in_tf32.astype(np.int64)
        member, group = distinct(*combined(((one, int(one.max()) + 1) for one in key), count))
        calls = np.bincount(group)
        kernels = np.bincount(group[which])
        time = np.zeros(len(calls), np.int64)
        np.add.at(time, group[which], dur)
        items = []
        for number, (one, device, tf32) in enumerate(zip(*(part[member].tolist() for part in key), strict=True)):
            price, operator = self._operators.costs[one], self._operators.operators[one]
            if price is None or operator is None:
                continue
            times = int(calls[number])
            items.append(
                RooflineItem(
                    price.operation,
                    operator.name,
                    operator.shapes,
                    "tf32" if tf32 and price.precision == "fp32" else price.precision,
                    device,
                    times,
                    int(kernels[number]),
                    int(time[number]),
                    None if price.flops is None else times * price.flops,
                    None if price.bytes is None else times * price.bytes,
                )
            )
        return items


def _leaves(shape: Shape) -> bool:
    """Whether a piece of work copies to or from somewhere else than the memory of its device."""
    return shape["kind"] == "memcpy" and bool(_LEAVING.search(shape["name"]))


def _name(work: Work, key: tuple[Any, ...]) -> str | None:
    source, host, device = key
    return work.gathered.catalog.model(source, device, host)


class _Device:
    """A device whose work is added up."""

    def __init__(self, label: str, name: str | None) -> None:
        self._label, self._name = label, name
        self._time = self._unlaunched = 0
        self._bounds: list[int] = []

    def add(self, events: Events, on_device: Bools, unlaunched: Bools) -> None:
        """Adds the work `on_device`; of `unlaunched` no call is known."""
        begin, dur = events.ts[on_device], events.dur[on_device]
        self._time += int(dur.sum())
        self._unlaunched += int(dur[unlaunched[on_device]].sum())
        self._bounds += [int(begin.min()), int((begin + dur).max())]

    def done(self) -> RooflineDevice:
        """The device with all of its work."""
        span = max(self._bounds) - min(self._bounds) if self._bounds else None
        return RooflineDevice(self._label, self._name, span, self._time, self._unlaunched)
