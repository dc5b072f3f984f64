"""The path of a source as columns: what decided each moment of its steps.

critical path   [ aten::mm ][ cudaLaunchKernel ][ launch delay ][ gemm                ][ norm ]

It is also slices of a timeline, on a track of its own. A piece is named by

kernel, copy          its short name               host operator, API call     its name
between calls         the range around it          dependency, unknown         what ran meanwhile
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.critical_path import walk
from ktrace.analysis.questions.critical_path.device import DeviceWork, Syncs
from ktrace.analysis.questions.critical_path.host_threads import Threads, covered
from ktrace.analysis.questions.critical_path.walk import Course, courses
from ktrace.analysis.work import gaps
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import COMMUNICATION, COPY
from ktrace.analysis.work.gaps import CAUSES, LAUNCH_DELAY, NO_GAP
from ktrace.analysis.work.question import Labels
from ktrace.analysis.work.spans import KINDS as SPAN_KINDS
from ktrace.analysis.work.spans import generic
from ktrace.model.arrays import AnyArray, Int8, Int32, Int64, Integers
from ktrace.naming.short_names import short_name
from ktrace.store.joins import distinct, group_start_mask, isin_sorted, ranges

#: What a piece of the path is. From `launch overhead` on, these are causes of `--by idle`.
KINDS = (
    *("kernel", "collective", "copy", "host operator", "API call", "between calls", LAUNCH_DELAY),
    *(
        list(CAUSES)[cause]
        for cause in (gaps.OVERHEAD, gaps.NODES, gaps.DEPENDENCY, gaps.BEFORE, gaps.LOST, gaps.UNKNOWN)
    ),
)
KERNEL, COLLECTIVE, COPYING, OPERATOR, CALL, NO_CALL, LAUNCH_DELAY_KIND = range(7)
WORK_DELAY, NODE_DELAY, DEPENDENCY, UNSEEN, LOST, UNKNOWN = range(7, len(KINDS))

#: The kinds of HOST and ON_DEVICE, which depend on what they refer to, and of the delays.
_OF_DELAY = np.array([NO_CALL, KERNEL, LAUNCH_DELAY_KIND, WORK_DELAY, UNSEEN, UNKNOWN], np.int8)

#: How many pieces of a path are looked at together.
_BLOCK = 1 << 16

#: The kinds of delays that their gap has a cause for; the others are those of a launch or from work to work.
_OF_CAUSE = {
    gaps.NODES: NODE_DELAY,
    gaps.DEPENDENCY: DEPENDENCY,
    gaps.BEFORE: UNSEEN,
    gaps.LOST: LOST,
    gaps.UNKNOWN: UNKNOWN,
}


class PathColumns(NamedTuple):
    """Pieces of a path, rising and without holes within a step.

    `kind` is an index of KINDS, `step` of the steps. `work` is the row of the device work: of the piece itself, or of
    the one that a delay is before; `span` that of the operator or call, without a call that of the range around it;
    `thread` that of the host; `other` the work of another stream that ended last in a delay; each -1 where there is
    none.
    """

    begin: Int64
    end: Int64
    kind: Int8
    step: Int32
    work: Int64
    span: Int64
    thread: Int64
    other: Int64


class Path(msgspec.Struct):
    """The path through the steps of a course, and what its references refer to."""

    source: str
    course: Course
    device: DeviceWork
    threads: Threads
    kind_of_shape: Int8
    pieces: walk.PathPieces

    def blocks(self) -> Iterator[PathColumns]:
        """The path as columns, so many pieces at once."""
        for first in range(0, len(self.pieces.begin), _BLOCK):
            pieces = self.pieces.some(slice(first, first + _BLOCK))
            columns = _with_causes(_columns(pieces, self.device, self.threads, self.kind_of_shape), self.device)
            columns = _cut(columns, self.course)
            if len(columns.begin):
                # The pieces, with the innermost range around those without a call
                rows = np.flatnonzero(columns.kind == NO_CALL)
                span = columns.span.copy()
                span[rows] = self.threads.range_around(columns.thread[rows].astype(np.int32), columns.begin[rows])
                yield columns._replace(span=span)

    def inside(self, begin: Int64, end: Int64) -> Int64:
        """How much of each of some intervals is in steps."""
        first, last = bounds_of(self.course)
        return covered(first, last, end) - covered(first, last, begin)

    def host_threads(self) -> list[int]:
        """The threads that the path is on."""
        host = np.flatnonzero(self.pieces.what == walk.HOST)
        inside = self.inside(self.pieces.begin[host], self.pieces.end[host]) > 0
        threads: list[int] = np.unique(self.pieces.reference[host[inside]]).tolist()
        return threads

    def work_times(self) -> Int64:
        """The time of each piece of work of the process that is inside the steps."""
        times, process = self.inside(self.device.begin, self.device.end), self.course.process
        return np.where(np.isin(self.device.process, (process, -1)) | (process < 0), times, 0)

    def own_times(self) -> tuple[Int32, Int64]:
        """What ran on the threads of the process: names of operators and calls, innermost, and times in the steps."""
        process, segments = self.course.process, self.threads.segments
        in_process = segments.row >= 0
        if process >= 0:
            in_process &= self.device.processes[segments.thread] == process
        rows = np.flatnonzero(in_process)
        return self.threads.names[segments.row[rows]], self.inside(segments.begin[rows], segments.end[rows])


def bounds_of(course: Course) -> tuple[Int64, Int64]:
    """The starts and ends of the steps."""
    begin, end = [step.begin for step in course.steps], [step.end + step.after for step in course.steps]
    return np.array(begin, np.int64), np.array(end, np.int64)


def paths(work: Work) -> Iterator[Path]:
    """Yields the paths of each source: one for each process with steps, else one."""
    gathered = work.gathered
    if work.rows is not gathered.work:
        work = Work.of_devices(gathered)
    role = {COMMUNICATION: COLLECTIVE, COPY: COPYING}
    kinds = np.array([role.get(one, KERNEL) for one in work.roles.tolist()], np.int8)
    collective = [operation == "collective" for operation in work.operations]
    kinds[np.array(collective, np.bool_)] = COLLECTIVE
    sources = dict.fromkeys([*work.rows.sources, *(thread["source"] for thread in gathered.threads.all())])
    for source in sources:
        device, threads = DeviceWork(work, work.for_source(source)), Threads(gathered, source)
        syncs = Syncs(gathered, source, threads, device)
        device.connect(syncs.waiting, syncs.awaited)
        all_courses = courses(gathered, source, threads, device)
        if not all_courses or not (len(device) or gathered.marks.for_source(source)["ts"].size):
            continue
        walker = walk.PathWalk(device, syncs.by_thread(), threads.hops())
        for course in all_courses:
            last = course.steps[-1]
            pieces = walker.back(
                course.steps[0].begin,
                last.end + last.after,
                thread=course.thread,
                work=course.work,
                process=course.process,
            )
            yield Path(source, course, device, threads, kinds, pieces)


def _columns(pieces: walk.PathPieces, device: DeviceWork, threads: Threads, kinds: Int8) -> PathColumns:
    """The pieces as columns, rising, with the stretches on threads divided by their innermost spans."""
    what, reference, begin, end = pieces
    host = what == walk.HOST
    parts = [
        _stretches(threads, int(thread), begin, end, np.flatnonzero(host & (reference == thread)))
        for thread in np.unique(reference[host])
    ]
    rows = np.flatnonzero(~host)
    kind = _OF_DELAY[what[rows]]
    running = what[rows] == walk.ON_DEVICE
    kind[running] = kinds[device.shape[reference[rows][running]]]
    none, nowhere = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int32)
    parts.append(PathColumns(begin[rows], end[rows], kind, nowhere, reference[rows], none, none, none))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return _rows(PathColumns(*joined), order)


def _stretches(threads: Threads, thread: int, begin: Int64, end: Int64, rows: Int64) -> PathColumns:
    """Divides the given stretches of a thread by the innermost span at each time."""
    first, last = begin[rows].min(initial=0), end[rows].max(initial=0)
    since, until, row = threads.between(thread, first, last)
    if len(since):  # nothing is open before the first and after the last span
        since, until = np.append(since, until[-1]), np.append(until, max(last, until[-1]))
        since, until = np.append(min(first, since[0]), since), np.append(since[0], until)
        row = np.concatenate([[-1], row, [-1]])
    else:
        since, until, row = np.array([first]), np.array([last]), np.array([-1])
    low, high = np.searchsorted(until, begin[rows], "right"), np.searchsorted(since, end[rows], "left")
    count = np.maximum(high - low, 0)
    of = np.repeat(np.arange(len(rows)), count)
    at = ranges(low, count)
    span = row[at]
    kind = np.where(threads.kind[span] == SPAN_KINDS.index("op"), OPERATOR, CALL) if len(threads.kind) else span
    kind = np.where(span >= 0, kind, NO_CALL).astype(np.int8)
    begins, ends = np.maximum(since[at], begin[rows][of]), np.minimum(until[at], end[rows][of])
    whole = ends > begins
    none = np.full(len(of), -1, np.int64)
    here = np.full(len(of), thread)
    columns: tuple[AnyArray, ...] = (begins, ends, kind, none.astype(np.int32), none, span, here, none)
    return _rows(PathColumns(*columns), whole)


def _rows(columns: PathColumns, rows: AnyArray | slice) -> PathColumns:
    """The columns at the given rows."""
    taken: tuple[AnyArray, ...] = tuple(column[rows] for column in columns)
    return PathColumns(*taken)


def _with_causes(columns: PathColumns, device: DeviceWork) -> PathColumns:
    """The pieces, with the cause of each delay: in a gap of the device that of the gap, before it by the same rule."""
    delay = np.flatnonzero((columns.kind == LAUNCH_DELAY_KIND) | (columns.kind == WORK_DELAY))
    if not len(delay):
        return columns
    wait = np.zeros(len(columns.begin), np.int64)
    wait[delay] = (columns.end - columns.begin)[delay]
    edges = device.gap[columns.work[delay]]
    edges = edges[(edges > columns.begin[delay]) & (edges < columns.end[delay])]
    columns, at = _divided(columns, edges, columns.end[-1])
    rows = np.flatnonzero((columns.kind == LAUNCH_DELAY_KIND) | (columns.kind == WORK_DELAY))
    work, kind = columns.work[rows], columns.kind.copy()
    may_wait = np.where(device.may_wait[work], gaps.DEPENDENCY, gaps.UNKNOWN)
    is_inner = device.is_inner[work] & (columns.kind[rows] == WORK_DELAY)
    cause = np.where(wait[at[rows]] > device.limit[work], may_wait, np.where(is_inner, gaps.NODES, NO_GAP))
    cause[~device.launched[work]] = gaps.UNKNOWN
    inside = (columns.begin[rows] >= device.gap[work]) & (device.cause[work] != NO_GAP)
    inside &= ~(is_inner & np.isin(device.cause[work], gaps.BY_HOST))  # since other nodes began after the launch
    cause[inside] = device.cause[work[inside]]
    for one, word in _OF_CAUSE.items():
        kind[rows[cause == one]] = word
    kept = np.append(True, (at[1:] != at[:-1]) | (kind[1:] != kind[:-1]))
    ends = np.append(columns.begin[kept][1:], columns.end[-1])
    columns = _rows(columns._replace(kind=kind), kept)._replace(end=ends)
    waits = np.flatnonzero((columns.kind >= DEPENDENCY) & (columns.work >= 0))
    other = columns.other.copy()
    other[waits] = device.other_until(columns.work[waits], columns.begin[waits], columns.end[waits])
    return columns._replace(other=other)


def _divided(columns: PathColumns, edges: Int64, end: int) -> tuple[PathColumns, Int64]:
    """The pieces, divided at some times, and of which piece each is a part; the last one ends at `end`."""
    edges = np.sort(edges)
    edges = edges[group_start_mask((edges,)) & ~isin_sorted(edges, columns.begin)]
    bounds = np.insert(columns.begin, np.searchsorted(columns.begin, edges), edges)
    at = np.searchsorted(columns.begin, bounds, "right") - 1
    return _rows(columns, at)._replace(begin=bounds, end=np.append(bounds[1:], end)), at


def _cut(columns: PathColumns, course: Course) -> PathColumns:
    """The pieces cut at the bounds of steps, without those between steps."""
    begins, ends = bounds_of(course)
    bounds = np.concatenate([begins, ends])
    bounds = bounds[(bounds > columns.begin[0]) & (bounds < columns.end[-1])]
    columns, _ = _divided(columns, bounds, columns.end[-1])
    step = np.searchsorted(begins, columns.begin, "right") - 1
    inside = (step >= 0) & (columns.begin < ends[np.maximum(step, 0)])
    return _rows(columns._replace(step=step.astype(np.int32)), inside)


#: The name of a wait that no known work comes after.
NOTHING_KNOWN = "(unknown)"


class PathNames:
    """Names of pieces as numbers of `words`, and the `kernel` and `operation` of each shape of device work.

    `kernel` and `operation` are indices of `kernels` and `operations`.
    """

    def __init__(self, work: Work, labels: Labels) -> None:
        if work.rows is not work.gathered.work:
            work = Work.of_devices(work.gathered)
        self.work, spans = work, work.gathered.spans.names
        self.kernel, self.kernels = work.by_shape(_short)
        self.operation, self.operations = work.by_shape(labels.key("operation"))
        self.threads: list[int | None] = [thread["tid"] for thread in work.threads]
        meanwhile = [f"while {name} ran" for name in self.kernels]
        before = [f"before {name}" for name in self.kernels]
        self.words = [*map(generic, spans), *self.kernels, *meanwhile, *before, *KINDS, NOTHING_KNOWN]
        self._kernels = len(spans)
        self._kinds = len(spans) + 3 * len(self.kernels)

    def of_work(self, path: Path, work: Int64) -> Int64:
        """The kernel of each piece of work, -1 for -1."""
        if not len(path.device):
            return np.full(len(work), -1, np.int64)
        return np.where(work >= 0, self.kernel[path.device.shape[work]], -1)

    def texts(self, path: Path, columns: PathColumns) -> pa.DictionaryArray:
        """The names of some pieces, as a column."""
        return words(self.words, self.name_ids(path, columns))

    def name_ids(self, path: Path, columns: PathColumns) -> Int64:
        """Name id of each piece."""
        kind, span, work = columns.kind, columns.span, columns.work
        kernel = self.of_work(path, work)
        name_id = self._kinds + kind.astype(np.int64)
        if len(path.threads.names):
            name_id = np.where(span >= 0, path.threads.names[span], name_id)
        name_id = np.where(kind < OPERATOR, self._kernels + kernel, name_id)
        waits = kind >= DEPENDENCY
        if waits.any():
            other = self.of_work(path, columns.other)
            wait = np.where(kernel >= 0, self._kernels + 2 * len(self.kernels) + kernel, len(self.words) - 1)
            wait = np.where(other >= 0, self._kernels + len(self.kernels) + other, wait)
            name_id = np.where(waits, wait, name_id)
        return name_id


def _short(shape: dict[str, Any]) -> str:
    """The short name of work, also where the rows aren't classified."""
    name: str = shape["name"]
    return shape["short_name"] or (short_name(name) if shape["kind"] == "kernel" else name)


def words(values: Sequence[str | None], numbers: Integers) -> pa.DictionaryArray:
    """A column of words by their numbers, null for -1; its dictionary has each that occurs once."""
    first, which = distinct(numbers.astype(np.int64) + 1, len(values) + 1)
    texts: dict[str | None, int] = {}
    used = (values[number] if number >= 0 else None for number in numbers[first].tolist())
    codes = np.array([texts.setdefault(word, len(texts)) for word in used], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes[which]), pa.array([*texts], pa.string()))


#: The text key of the track.
TRACK = "critical path"

_TEXT = pa.dictionary(pa.int32(), pa.string())


def slices(work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yields the pieces of the path of each source as events without `id`, in the order of their times."""
    names = PathNames(work, labels)
    for path in paths(work):
        # the columns of the track: in the process whose threads are on the path, if there is only one
        threads = [work.threads[one] for one in path.host_threads()]
        processes = {(thread["host"], thread["pid"]) for thread in threads}
        host, pid = processes.pop() if len(processes) == 1 else (None, None)
        place = {"source": path.source, "host": host, "pid": pid, "track": TRACK}
        place = {name: value for name, value in place.items() if value is not None}
        for columns in path.blocks():
            for first in range(0, len(columns.begin), _BLOCK):
                yield _slices(path, _rows(columns, slice(first, first + _BLOCK)), names, place)


def _slices(path: Path, columns: PathColumns, names: PathNames, place: dict[str, Any]) -> pa.RecordBatch:
    """The pieces as rows of slices; their arguments name the device work, or the work after a delay."""
    work, count = columns.work, len(columns.begin)
    shape = np.where(work >= 0, path.device.shape[work], -1) if len(path.device) else np.full(count, -1)
    steps = [None if path.course.is_whole else step.label for step in path.course.steps]
    values: dict[str, list[Any]] = {
        key: [one[key] for one in names.work.shapes] for key in ("name", "device", "stream")
    }
    slice_columns: dict[str, pa.Array] = {
        **{name: pa.array([value] * count, pa.int64() if name == "pid" else _TEXT) for name, value in place.items()},
        "ts": pa.array(columns.begin),
        "dur": pa.array(columns.end - columns.begin),
        "kind": _constant("range", count),
        "timing": _constant("derived", count),
        "name": names.texts(path, columns),
        "args.path_kind": words(KINDS, columns.kind),
        "args.step": words(steps, columns.step),
        "args.work": words(values["name"], shape),
        "args.work_operation": words(names.work.operations, shape),
        "args.work_device": _integers(values["device"], shape),
        "args.work_stream": _integers(values["stream"], shape),
        "args.thread": _integers(names.threads, columns.thread),
        "args.derived_by": _constant("ktrace", count),
    }
    return pa.RecordBatch.from_pydict({name: one for name, one in slice_columns.items() if one.null_count < count})


def _integers(integers: list[int | None], numbers: Any) -> pa.Array:
    """A column of whole numbers by their index, null for -1."""
    used, codes = np.unique(numbers, return_inverse=True)
    values = pa.array([integers[number] if number >= 0 else None for number in used.tolist()], pa.int64())
    return values.take(pa.array(codes))


def _constant(word: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word])).cast(_TEXT)
