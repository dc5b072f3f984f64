"""Communication operators, each of which is device work once, and their tasks, which the hardware's layer repeats."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.ascend_tasks import Operators, TaskIndex
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.draft import by_word, numbered
from ktrace.kit.trace_json.events import Events
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import truth, words_in
from ktrace.report import Report

from .layers import Layers


class _Communication(msgspec.Struct):
    """Collects, of events, the operators of communication and the tasks that these list.

    `operators` are devices, begins and ends, `tasks` devices, streams, ids and begins; both by rows, a block a batch.
    """

    devices: dict[int, int]
    operators: list[Int64] = msgspec.field(default_factory=lambda: [np.empty((3, 0), np.int64)])
    tasks: list[Int64] = msgspec.field(default_factory=lambda: [np.empty((4, 0), np.int64)])

    def __call__(self, events: Events, _: Conversion) -> Iterator[Batch]:
        rows = len(events)
        pids = _whole(events, "pid")
        slices = by_word(events.columns.get("ph"), rows, lambda word: int(word == "X")) == 1
        in_layer = slices & np.isin(pids, list(self.devices))
        is_task = in_layer & (_whole(events, "args.task id") >= 0)
        device = np.array([self.devices.get(pid, 0) for pid in pids[in_layer].tolist()], np.int64)
        start = _whole(events, "ts")
        end = start + np.maximum(_whole(events, "dur"), 0)
        self.operators.append(np.stack([device, start[in_layer], end[in_layer]])[:, ~is_task[in_layer]])
        listed = (_whole(events, "args.stream id")[in_layer], _whole(events, "args.task id")[in_layer], start[in_layer])
        self.tasks.append(np.stack([device, *listed])[:, is_task[in_layer]])
        yield from ()


def _whole(events: Events, name: str) -> Int64:
    """A member or an argument as whole numbers, -1 for others."""
    column = events.columns.get(name)
    taken = None if column is None else numbered(column)[0]
    return np.full(len(events), -1) if taken is None else _filled(taken)


def _filled(column: pa.Array) -> Int64:
    """A column of whole numbers, -1 for null and for what isn't one."""
    numbers = column if pa.types.is_integer(column.type) else pa.nulls(len(column), pa.int64())
    filled: Int64 = numbers.fill_null(-1).to_numpy(zero_copy_only=False)
    return filled


class Collectives:
    """The operators of communication of a document and their tasks, which the hardware repeats."""

    def __init__(self, file: Source, layers: Layers) -> None:
        communication = _Communication(layers.communication)
        if communication.devices:
            conversion = Conversion(Report())
            for _ in read_document(file, conversion, communication, lambda *_: (), quoted=True, quiet=True):
                pass
        devices, starts, ends = np.concatenate(communication.operators, axis=1)
        *keys, begins = np.concatenate(communication.tasks, axis=1)
        self._operators = Operators(devices, starts, ends)
        self._listed = TaskIndex(np.stack(keys), begins) if len(begins) else None
        self._devices, self._groups = communication.devices, layers.groups

    def __call__(self, batch: Batch) -> Batch:
        """The batch with operators on their devices, and tasks that repeat them as ranges."""
        if batch.record != "events" or not self._devices:
            return batch
        columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
        columns |= self._of_operators(batch) | self._kinds(batch)
        return Batch("events", pa.RecordBatch.from_pydict(columns))

    def _of_operators(self, batch: Batch) -> dict[str, pa.Array]:
        """Where the operators are: on a track of their device."""
        pid, tid = batch.column("pid"), batch.column("tid")
        on_device = truth(pc.is_in(pid, pa.array(sorted(self._devices), pa.int64()))) & words_in(
            batch.column("kind"), ("kernel",)
        )
        if not on_device.any():
            return {}
        places = zip(
            pid.filter(pa.array(on_device)).to_pylist(), tid.filter(pa.array(on_device)).to_pylist(), strict=True
        )
        rows = [(self._devices[pid], self._groups.get((pid, tid))) for pid, tid in places]
        device, comm = (
            pa.array(cells, kind)
            for cells, kind in zip(zip(*rows, strict=True), (pa.int64(), pa.string()), strict=True)
        )
        mask = pa.array(on_device)
        return {
            "pid": pc.if_else(mask, None, pid),
            "tid": pc.if_else(mask, None, tid),
            "device": pc.replace_with_mask(batch.column("device").cast(pa.int64()), mask, device),
            "comm": pc.replace_with_mask(batch.column("comm").cast(pa.string()), mask, comm),
            "track": pc.if_else(mask, "Communication", batch.column("track").cast(pa.string())),
        }

    def _kinds(self, batch: Batch) -> dict[str, pa.Array]:
        """The kinds of the tasks of the hardware."""
        kinds = batch.column("kind")
        if not words_in(kinds, ("memcpy", "kernel")).any():
            return {}
        device, stream, start, dur = (_filled(batch.column(name)) for name in ("device", "stream", "ts", "dur"))
        task = _filled(batch.column("args.Task Id")) if batch.has("args.Task Id") else np.full(len(batch), -1)
        end = start + np.maximum(dur, 1)
        listed = self._listed.within((device, stream, task), start, end) if self._listed else None
        none = np.zeros(len(batch), np.bool_)
        repeats = self._operators.tasks(
            kinds,
            batch.column("name"),
            listed=none if listed is None else listed,
            enclosed=none if self._listed else self._operators.enclose(device, start, end),
            directed=truth(batch.column("args.operation").is_valid()) if batch.has("args.operation") else none,
        ) & (stream >= 0)
        return {"kind": pc.if_else(pa.array(repeats), "range", kinds.cast(pa.string()))}
