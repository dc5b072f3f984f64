"""What the CPU does: which thread runs on which core, and samples of threads with their stacks.

SCHED_EVENTS       start 21932   cpu 118  isSchedIn 1  globalTid 302119224788637    a slice of that thread
                   start 183273  cpu 118  isSchedIn 0  globalTid 302119224788637    on the track CPU 118
COMPOSITE_EVENTS   id 2000  start 24479746  cpu 20  threadState 1  cpuCycles 1      a sample of its thread
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model import Batch

from .payloads import json_column
from .places import core_track, pid_of, tid_of
from .reading import Reading

Int64 = npt.NDArray[np.int64]

#: Columns of rows that wait for their end: id, start, cpu, whether it is in, globalTid, rowid.
_ID, _START, _CPU, _IN, _THREAD, _ROW = range(6)


def scheduling(reading: Reading, table: str, names: dict[int, str]) -> Iterator[Batch]:
    """A range each time that a thread is on a core, with the id of the row that ends it.

    An end that nobody began is reported.
    """
    waiting = np.zeros((0, 6), np.int64)
    for block, ids in reading.timed(table, "start"):
        parts = [block.get(name) for name in ("start", "cpu", "isSchedIn", "globalTid")]
        plain = [np.zeros(len(block), np.int64) if part is None else np.asarray(part.fill_null(-1)) for part in parts]
        rows = np.stack([ids, *plain, block.numbers.to_numpy()], axis=1)
        reading.places.threads.update(np.unique(plain[3][plain[3] >= 0]).tolist())
        made, waiting = _slices(reading, table, np.concatenate([waiting, rows]))
        if len(made):
            yield _batch(reading, made, names)
    if len(waiting):
        waiting = waiting[np.argsort(waiting[:, _ID], kind="stable")]
        waiting[:, _ID] = reading.batches.ids(len(waiting))
        waiting[:, _IN] = -1
        reading.conversion.report.used(len(waiting))
        for first in range(0, len(waiting), reading.conversion.batch_rows):
            yield _batch(reading, waiting[first : first + reading.conversion.batch_rows], names)


def _slices(reading: Reading, table: str, rows: Int64) -> tuple[Int64, Int64]:
    """Begins with the ids of their ends, their durations in place of `isSchedIn`; and the begins that wait for an end.

    A slice without an end of its own ends where the next one on its core begins.
    """
    report = reading.conversion.report
    rows = rows[np.lexsort((rows[:, _ID], rows[:, _CPU]))]
    begins = rows[:, _IN] != 0
    ending = np.append(rows[1:, _CPU] == rows[:-1, _CPU], False) & begins
    orphan = ~begins & ~np.append(False, ending[:-1])
    for row in rows[orphan].tolist():
        report.issue("end-without-begin", f"{table} row {row[_ROW]}", f"cpu {row[_CPU]}")
    made, ends = rows[ending], rows[np.flatnonzero(ending) + 1]
    made[:, _ID] = ends[:, _ID]
    made[:, _IN] = np.maximum(ends[:, _START] - made[:, _START], 0)
    report.used(len(made))
    report.used(int((ends[:, _IN] == 0).sum()), went="end of a slice")
    return made[np.argsort(made[:, _ID], kind="stable")], rows[begins & ~ending]


def _batch(reading: Reading, made: Int64, names: dict[int, str]) -> Batch:
    """Slices on cores, named after their threads."""
    threads, thread = np.unique(made[:, _THREAD], return_inverse=True)
    cores, core = np.unique(made[:, _CPU], return_inverse=True)
    reading.places.cores.update(cores.tolist())
    shown = [names.get(number) or f"thread {tid_of(number)}" for number in threads.tolist()]
    pids, tids = (np.array([part(n) for n in threads.tolist()], np.int64)[thread] for part in (pid_of, tid_of))
    return reading.batches.batch(
        "events",
        made[:, _ID],
        kind="range",
        name=pa.DictionaryArray.from_arrays(pa.array(thread.astype(np.int32)), pa.array(shown, pa.string())),
        cat="scheduling",
        timing="measured",
        ts=made[:, _START],
        dur=pa.array(made[:, _IN], mask=made[:, _IN] < 0),
        track=pa.DictionaryArray.from_arrays(
            pa.array(core.astype(np.int32)), pa.array([core_track(number) for number in cores.tolist()], pa.string())
        ),
        **{"args.pid": pids, "args.tid": tids},
    )


def samples(reading: Reading, table: str) -> Iterator[Batch]:
    """A sample each, with its stack."""
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
        said = reading.said(block, table)
        yield reading.batches.events(block, ids, kind="sample", ts=ts, **columns, **said)


def generic(reading: Reading, table: str) -> Iterator[Batch]:
    """Events of plugins and other tools: an instant each, named by their type, their data as they are."""
    types = {}
    for info in reading.database.like("GENERIC_EVENT_TYPES"):
        for number, data in reading.database.rows(info, "typeId", "data"):
            types[number] = _type_name(data)
    for block, ids in reading.timed(table, "timestamp", "rawTimestamp"):
        ts, kinds = block.take("timestamp", "rawTimestamp"), block.get("typeId")
        name: pa.DictionaryArray | str = "event"
        if kinds is not None:
            encoded = pc.fill_null(kinds, -1).dictionary_encode()
            words = [types.get(number) or f"event type {number}" for number in encoded.dictionary.to_pylist()]
            name = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, pa.string()))
            if all(types.get(number) for number in encoded.dictionary.to_pylist()):
                block.drop("typeId")
        columns: dict[str, Any] = {"name": name, "track": "events of plugins"}
        data = block.take("data")
        if data is not None and data.null_count < len(block):
            columns["args.data"] = json_column(data.cast(pa.string()))
        yield reading.batches.events(block, ids, kind="instant", ts=ts, **columns)


def _type_name(data: object) -> str | None:
    """The name that the description of a type says."""
    try:
        value = json.loads(data) if isinstance(data, (str, bytes)) else None
    except ValueError:
        return None
    name = value.get("Name") or value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None
