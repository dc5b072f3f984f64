"""Reads the activity of the CPU: which thread runs on which core, and samples of threads with their stacks.

SCHED_EVENTS       start 21932   cpu 118  isSchedIn 1  globalTid 302119224788637    a slice of that thread
                   start 183273  cpu 118  isSchedIn 0  globalTid 302119224788637    on the track CPU 118
COMPOSITE_EVENTS   id 2000  start 24479746  cpu 20  threadState 1  cpuCycles 1      a sample of its thread
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from .places import core_track, pid_of, tid_of
from .reading import ExportReader
from .strings import filled

#: Columns of rows that wait for their end: id, start, cpu, isSchedIn, globalTid, rowid, and why the thread left.
_ID, _START, _CPU, _IN, _THREAD, _ROW, _STATE, _BLOCK = range(8)

_REASONS = (("threadState", "SAMPLING_THREAD_STATE", _STATE), ("threadBlock", "SCHEDULING_THREAD_BLOCK", _BLOCK))


def scheduling(reading: ExportReader, table: str, names: dict[int, str]) -> Iterator[Batch]:
    """Yields a range for each time that a thread is on a core, with the id of the row that ends it.

    Reports an end without a begin.
    """
    waiting = np.zeros((0, 8), np.int64)
    for block, ids in reading.timed(table, "start"):
        parts = [block.get(name) for name in ("start", "cpu", "isSchedIn", "globalTid")]
        numbers = [np.zeros(len(block), np.int64) if part is None else np.asarray(part.fill_null(-1)) for part in parts]
        reasons = [filled(block.get(name), len(block), -1) for name, _, _ in _REASONS]
        rows = np.stack([ids, *numbers, block.numbers.to_numpy(), *reasons], axis=1)
        reading.places.threads.update(np.unique(numbers[3][numbers[3] >= 0]).tolist())
        slices, waiting = _slices(reading, table, np.concatenate([waiting, rows]))
        if len(slices):
            yield _batch(reading, slices, names)
    if len(waiting):
        waiting = waiting[np.argsort(waiting[:, _ID], kind="stable")]
        waiting[:, _ID] = reading.batches.ids(len(waiting))
        waiting[:, [_IN, _STATE, _BLOCK]] = -1
        reading.conversion.report.used(len(waiting))
        for first in range(0, len(waiting), reading.conversion.batch_rows):
            yield _batch(reading, waiting[first : first + reading.conversion.batch_rows], names)


def _slices(reading: ExportReader, table: str, rows: Int64) -> tuple[Int64, Int64]:
    """Returns starts with the ids of their ends and durations in place of `isSchedIn`, and the starts that still wait.

    A slice without its own end ends when the next one on its core begins.
    """
    report = reading.conversion.report
    rows = rows[np.lexsort((rows[:, _ID], rows[:, _CPU]))]
    begins = rows[:, _IN] != 0
    ending = np.append(rows[1:, _CPU] == rows[:-1, _CPU], False) & begins
    orphan = ~begins & ~np.append(False, ending[:-1])
    for row in rows[orphan].tolist():
        report.issue("end-without-begin", f"{table} row {row[_ROW]}", f"cpu {row[_CPU]}")
    slices, ends = rows[ending], rows[np.flatnonzero(ending) + 1]
    slices[:, _ID] = ends[:, _ID]
    slices[:, _IN] = np.maximum(ends[:, _START] - slices[:, _START], 0)
    own_end = ends[:, _IN] == 0
    for column in (_STATE, _BLOCK):
        slices[:, column] = np.where(own_end, ends[:, column], -1)
    report.used(len(slices))
    report.used(int(own_end.sum()), outcome="end of a slice")
    return slices[np.argsort(slices[:, _ID], kind="stable")], rows[begins & ~ending]


def _batch(reading: ExportReader, slices: Int64, names: dict[int, str]) -> Batch:
    """Returns slices on cores, named after their threads."""
    threads, thread = np.unique(slices[:, _THREAD], return_inverse=True)
    cores, core = np.unique(slices[:, _CPU], return_inverse=True)
    reading.places.cores.update(cores.tolist())
    words = [names.get(number) or f"thread {tid_of(number)}" for number in threads.tolist()]
    pids, tids = (np.array([part(n) for n in threads.tolist()], np.int64)[thread] for part in (pid_of, tid_of))
    return reading.batches.batch(
        "events",
        slices[:, _ID],
        kind="range",
        name=pa.DictionaryArray.from_arrays(pa.array(thread.astype(np.int32)), pa.array(words, pa.string())),
        cat="scheduling",
        timing="measured",
        ts=slices[:, _START],
        dur=pa.array(slices[:, _IN], mask=slices[:, _IN] < 0),
        track=pa.DictionaryArray.from_arrays(
            pa.array(core.astype(np.int32)), pa.array([core_track(number) for number in cores.tolist()], pa.string())
        ),
        **{"args.pid": pids, "args.tid": tids},
        **{
            f"args.{name}": reading.enums.column(enum, pa.array(slices[:, column], mask=slices[:, column] < 0))
            for name, enum, column in _REASONS
            if (slices[:, column] >= 0).any()
        },
    )


def samples(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a sample for each row, with its stack."""
    for block, ids in reading.timed(table, "start"):
        ts, number = block.take("start"), block.get("id")
        columns: dict[str, Any] = {**reading.places.thread(block), "name": "sample", "track": "samples"}
        cycles = block.take("cpuCycles")
        if cycles is not None:
            columns |= {"value": cycles.cast(pa.float64(), safe=False), "unit": "cycles"}
        stacks = None if number is None else reading.stacks.column("SAMPLING_CALLCHAINS", number)
        if stacks is not None:
            columns["args.stack"] = stacks
            block.drop("id")
        args = reading.args(block, table)
        yield reading.batches.events(block, ids, kind="sample", ts=ts, **columns, **args)
