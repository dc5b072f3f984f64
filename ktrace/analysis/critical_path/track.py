"""The path as slices of a timeline, on a track of its own.

critical path   [ aten::mm ][ cudaLaunchKernel ][ launch delay ][ gemm                ][ norm ]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.critical_path.names import Names, words
from ktrace.analysis.critical_path.path import KINDS, Path, paths
from ktrace.analysis.work.events import Work
from ktrace.analysis.work.labels import Labels
from ktrace.model.arrays import Int64

#: The text key of the track.
TRACK = "critical path"

_ROWS = 65_536
_TEXT = pa.dictionary(pa.int32(), pa.string())


def slices(work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yields the pieces of the path of each source as events without `id`, in the order of their times."""
    names = Names(work, labels)
    for path in paths(work):
        place, count = _place(work, path), len(path.columns.begin)
        for first in range(0, count, _ROWS):
            yield _rows(path, np.arange(first, min(first + _ROWS, count)), names, place)


def _place(work: Work, path: Path) -> dict[str, Any]:
    """The columns of the track: in the process whose threads are on the path, if there is only one."""
    threads = [work.threads[one] for one in np.unique(path.columns.thread).tolist() if one >= 0]
    processes = {(thread["host"], thread["pid"]) for thread in threads}
    host, pid = processes.pop() if len(processes) == 1 else (None, None)
    place = {"source": path.source, "host": host, "pid": pid, "track": TRACK}
    return {name: value for name, value in place.items() if value is not None}


def _rows(path: Path, rows: Int64, names: Names, place: dict[str, Any]) -> pa.RecordBatch:
    """Some pieces as rows; the arguments tell the device work, or that which a delay is before."""
    columns, count = path.columns, len(rows)
    begin, work = columns.begin[rows], columns.work[rows]
    shape = np.where(work >= 0, path.device.shape[work], -1) if len(path.device) else np.full(count, -1)
    steps = [None if path.course.is_whole else step.label for step in path.course.steps]
    known: dict[str, list[Any]] = {key: [one[key] for one in names.shapes] for key in ("name", "device", "stream")}
    found: dict[str, pa.Array] = {
        **{name: pa.array([value] * count, pa.int64() if name == "pid" else _TEXT) for name, value in place.items()},
        "ts": pa.array(begin),
        "dur": pa.array(columns.end[rows] - begin),
        "kind": _constant("range", count),
        "timing": _constant("derived", count),
        "name": names.texts(path, rows),
        "args.path_kind": words(KINDS, columns.kind[rows]),
        "args.step": words(steps, columns.step[rows]),
        "args.work": words(known["name"], shape),
        "args.work_operation": words(names.classified, shape),
        "args.work_device": _integers(known["device"], shape),
        "args.work_stream": _integers(known["stream"], shape),
        "args.thread": _integers(names.threads, columns.thread[rows]),
        "args.derived_by": _constant("ktrace", count),
    }
    return pa.RecordBatch.from_pydict({name: one for name, one in found.items() if one.null_count < count})


def _integers(known: list[int | None], numbers: Any) -> pa.Array:
    """A column of whole numbers by their index, null for -1."""
    used, codes = np.unique(numbers, return_inverse=True)
    values = pa.array([known[number] if number >= 0 else None for number in used.tolist()], pa.int64())
    return values.take(pa.array(codes))


def _constant(word: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word])).cast(_TEXT)
