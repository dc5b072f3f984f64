"""The path from the end of a time back to its start: always to what was the last to allow this to go on.

thread    [ launch ]····[ synchronize ······█]              the call returns, because the kernel ended
stream         └───────►[ kernel            ]               the kernel began, because it was launched
path      ████████░░░░░░███████████████████░█               at each moment one thing

The walk visits only what is on the path. Each stretch on a thread is one piece, however many calls are in it.

The times whose path is looked for: the steps of a process one after another, else a whole source.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ktrace.analysis.questions.critical_path.device import LAUNCH, DeviceWork, Sync
from ktrace.analysis.questions.critical_path.host_threads import Threads
from ktrace.analysis.work.gather import WorkInput
from ktrace.model.arrays import Int8, Int64

#: What a piece of the path is. `reference` is a thread (HOST), the work (ON_DEVICE), or the work that it is before.
HOST, ON_DEVICE, LAUNCH_DELAY, WORK_DELAY, UNSEEN, UNKNOWN = range(6)


class PathPieces(NamedTuple):
    """Pieces of a path, rising and without holes: what they are, `reference`, begin and end."""

    what: Int8
    reference: Int64
    begin: Int64
    end: Int64

    def some(self, rows: slice) -> PathPieces:
        """The pieces at the given indices."""
        return PathPieces(self.what[rows], self.reference[rows], self.begin[rows], self.end[rows])


class _PathSoFar:
    """What the walk found: pieces, and chains of work that begin at `heads` (place in `chain`, time of entry)."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.what, self.reference, self.begin, self.end = array("b"), array("q"), array("q"), array("q")
        self.chain = array("q")
        self.heads: list[tuple[int, int]] = []

    def add(self, what: int, reference: int, begin: int, end: int) -> None:
        """Adds a piece."""
        self.what.append(what)
        self.reference.append(reference)
        self.begin.append(begin)
        self.end.append(end)


class PathWalk:
    """Walks through the threads and the device work of a source."""

    def __init__(
        self, device: DeviceWork, syncs: dict[int, list[Sync]], hops: dict[int, list[tuple[int, int]]]
    ) -> None:
        self._hops = {
            thread: ([time for time, _ in events], [to for _, to in events]) for thread, events in hops.items()
        }
        self._syncs = {thread: ([sync.end for sync in events], events) for thread, events in syncs.items()}
        self._device = device
        self._begin, self._before = device.begin.data, device.before.data  # all that a chain looks at
        self._by_process: dict[int, tuple[Int64, Int64]] = {}

    def back(self, start: int, time: int, *, thread: int = -1, work: int = -1, process: int = -1) -> PathPieces:
        """The path from a time back to `start`, beginning on a thread, or with work."""
        path = _PathSoFar(start)
        left = 1000 + 4 * len(self._begin) + 8 * sum(len(ends) for ends, _ in self._syncs.values())
        left += 4 * sum(len(times) for times, _ in self._hops.values())
        if work >= 0 and self._device.end[work] < time:
            ended = int(self._device.end[work])
            path.add(UNKNOWN, -1, max(ended, start), time)
            time = ended
        while time > start and left > 0 and (work >= 0 or thread >= 0):
            left -= 1  # runs out only if times contradict each other
            if work >= 0:
                work = self._chain(path, work, time)
                time, thread = self._before_chain(path, work)
                work = -1
            else:
                time, work, thread = self._before_host(path, thread, time, process)
        path.add(UNKNOWN, -1, start, time)
        return self._pieces(path)

    def _chain(self, path: _PathSoFar, work: int, time: int) -> int:
        """Goes from work to the work that allowed it to begin, and so on; returns the first of all."""
        begin, before, start = self._begin, self._before, path.start
        path.heads.append((len(path.chain), time))
        append = path.chain.append
        append(work)
        while before[work] >= 0 and begin[work] > start:
            work = before[work]
            append(work)
        return work

    def _before_chain(self, path: _PathSoFar, work: int) -> tuple[int, int]:
        """Goes from work to its launch: the time and the thread from which the path goes on."""
        begin, device = self._begin[work], self._device
        if device.unseen[work]:
            path.add(UNSEEN, work, path.start, begin)
            return path.start, -1
        if begin <= path.start or device.why[work] != LAUNCH:
            return max(begin, path.start), -1
        until = min(int(device.call_end[work]), begin)
        path.add(LAUNCH_DELAY, work, until, begin)
        since, thread = min(int(device.call_begin[work]), until), int(device.thread[work])
        path.add(HOST, thread, since, until)
        return since, thread

    def _pieces(self, path: _PathSoFar) -> PathPieces:
        """All pieces of a path, with those of its chains of work."""
        device, start = self._device, path.start
        work = np.frombuffer(path.chain, np.int64) if path.chain else np.zeros(0, np.int64)
        heads = np.array(path.heads, np.int64).reshape(-1, 2)
        entered = np.zeros(len(work), np.int64)
        entered[1:] = np.minimum(device.end[work[1:]], device.begin[work[:-1]])
        entered[heads[:, 0]] = heads[:, 1]
        inner = np.delete(np.arange(len(work)), heads[:, 0])  # those that other work is after
        after = work[inner - 1]
        begin = np.concatenate([np.array(path.begin, np.int64), device.begin[work], entered[inner]])
        end = np.concatenate([np.array(path.end, np.int64), entered, device.begin[after]])
        np.maximum(begin, start, out=begin)
        rows = np.flatnonzero(end > begin)
        rows = rows[np.argsort(begin[rows], kind="stable")]
        begin, end = begin[rows], end[rows]
        delays = np.full(len(inner), WORK_DELAY, np.int8)
        what = np.concatenate([np.array(path.what, np.int8), np.full(len(work), ON_DEVICE, np.int8), delays])[rows]
        return PathPieces(what, np.concatenate([np.array(path.reference, np.int64), work, after])[rows], begin, end)

    def _before_host(self, path: _PathSoFar, thread: int, time: int, process: int) -> tuple[int, int, int]:
        """Goes back on a thread to where it last waited for a device or for another thread."""
        start = path.start
        hops, to = self._hops.get(thread, ([], []))
        at = bisect_right(hops, time) - 1
        hop = hops[at] if at >= 0 else start
        until, target = self._last_sync(thread, time, max(hop, start), process)
        if target >= 0:
            path.add(HOST, thread, until, time)
            return max(until, start), target, -1
        if at >= 0 and hop > start:
            path.add(HOST, thread, hop, time)
            return hop, -1, to[at]
        path.add(HOST, thread, start, time)
        return start, -1, -1

    def _last_sync(self, thread: int, time: int, since: int, process: int) -> tuple[int, int]:
        """The end of the work that the last waiting call before a time waited for, and that work; -1 for none."""
        ends, calls = self._syncs.get(thread, ([], []))
        for at in range(bisect_right(ends, time) - 1, -1, -1):
            if ends[at] <= since:
                break
            work = self._awaited(calls[at], process)
            if work >= 0:
                return int(self._device.end[work]), work
        return time, -1

    def _awaited(self, sync: Sync, process: int) -> int:
        """The work that a call waited for: the last that ended during the call; -1 if it didn't have to wait.

        Work whose call isn't known counts as launched before: the thread that waits launched none meanwhile.
        """
        begin, device = sync.begin, self._device
        if sync.target >= 0:
            return sync.target if begin < device.end[sync.target] <= sync.end else -1
        if process not in self._by_process:
            by_end = np.flatnonzero(np.isin(self._device.process, (process, -1)) | (process < 0))
            by_end = by_end[np.argsort(self._device.end[by_end], kind="stable")]
            self._by_process[process] = self._device.end[by_end], by_end
        ends, order = self._by_process[process]
        at = int(np.searchsorted(ends, sync.end, "right")) - 1
        while at >= 0 and ends[at] > begin:
            work = int(order[at])
            launched = device.call_begin[work] if device.launched[work] else begin
            here = sync.stream in (-1, device.stream[work]) and (
                sync.device == -1 or device.device[work] in (-1, sync.device)
            )
            if launched <= begin and here:
                return work
            at -= 1
        return -1


class Step(NamedTuple):
    """A step: its name, when it begins and ends, and how much longer its work took, in ns."""

    label: str
    begin: int
    end: int
    after: int = 0


class Course(msgspec.Struct, frozen=True):
    """Steps, and where the walk through them begins: on a thread, or at the end of work. `process` -1 is all."""

    steps: list[Step]
    thread: int = -1
    work: int = -1
    process: int = -1
    is_whole: bool = False


def courses(gathered: WorkInput, source: str, threads: Threads, device: DeviceWork) -> list[Course]:
    """The steps of each process of a source that has steps, else the whole source."""
    walked = [
        _through(steps, thread, gathered, threads, device)
        for thread, steps in steps_by_thread(gathered, source).items()
        if steps
    ]
    whole = [] if walked else [_whole_course(source, threads, device)]
    return [course for course in (*walked, *whole) if course is not None]


def steps_by_thread(gathered: WorkInput, source: str) -> dict[int, list[Step]]:
    """The steps by their thread, one thread for each process; the thread is -1 if they are on devices."""
    marks, tracks = gathered.marks.for_source(source), gathered.tracks.all()
    names = gathered.steps
    last = gathered.span[1] if gathered.span else 0
    of_track: dict[int, list[Step]] = {}
    for ts, dur, track, meaning in zip(
        *(marks[name].tolist() for name in ("ts", "dur", "track", "meaning")), strict=True
    ):
        name = names[meaning]
        if name is not None and dur != 0:
            of_track.setdefault(track, []).append(Step(name, ts, max(last, ts) if dur < 0 else ts + dur))
    on_host = {track for track in of_track if tracks[track]["device"] is None and tracks[track]["stream"] is None}
    of_process: dict[Any, tuple[int, int, list[Step]]] = {}
    for track, steps in of_track.items():
        if on_host and track not in on_host:
            continue
        place = tracks[track]
        outermost = _outermost_steps(steps)
        time = sum(step.end - step.begin for step in outermost)
        process = (place["host"], place["pid"]) if on_host else None
        if process not in of_process or time > of_process[process][0]:
            of_process[process] = time, track, outermost
    by_thread: dict[int, list[Step]] = {}
    for _, track, outermost in of_process.values():
        key = tuple(tracks[track][name] for name in ("source", "host", "pid", "tid"))
        by_thread[gathered.threads.get(key) if on_host else -1] = outermost
    return by_thread


def _outermost_steps(steps: list[Step]) -> list[Step]:
    """The outermost steps, one after another."""
    outermost: list[Step] = []
    for step in sorted(steps, key=lambda one: (one.begin, -one.end)):
        if not outermost or step.begin >= outermost[-1].end:
            outermost.append(step)
    return outermost


def _through(
    steps: list[Step], thread: int, gathered: WorkInput, threads: Threads, device: DeviceWork
) -> Course | None:
    """The course through steps: it begins when the last one, and the work launched in the steps, has ended."""
    begin, end = steps[0].begin, steps[-1].end
    process = int(device.processes[thread]) if thread >= 0 and len(device) else -1
    here = np.isin(device.process, (process, -1)) | (process < 0)
    launched = np.flatnonzero(here & device.launched & (device.call_begin >= begin) & (device.call_begin < end))
    last = _last(device.end, launched)
    if last >= 0 and device.end[last] > end:
        longer = int(device.end[last]) - end
        return Course([*steps[:-1], steps[-1]._replace(after=longer)], work=last, process=process)
    rows = threads.rows[threads.thread[threads.rows] == thread]
    if len(rows) and np.any((threads.ts[rows] < end) & (threads.end[rows] > begin)):
        return Course(steps, thread=thread, process=process)
    before = _last(device.end, np.flatnonzero(here & (device.end <= end) & (device.end > begin)))
    running = _last(device.begin, np.flatnonzero(here & (device.begin < end) & (device.end > end)))
    work = running if running >= 0 else before
    return Course(steps, work=work, process=process) if work >= 0 else None


def _whole_course(source: str, threads: Threads, device: DeviceWork) -> Course | None:
    """A whole source: from the first to the last of its work and of the thread that launched most."""
    launching = device.thread[device.launched]
    rows = threads.rows
    lasting = threads.end[rows] - threads.ts[rows]
    counts = np.bincount(launching) if len(launching) else np.bincount(threads.thread[rows], weights=lasting)
    thread = int(counts.argmax()) if len(counts) else -1
    on_thread = rows[threads.thread[rows] == thread]
    begins, ends = [*threads.ts[on_thread][:1]], [*threads.end[on_thread][:1]]
    if len(on_thread):
        begins, ends = [int(threads.ts[on_thread].min())], [int(threads.end[on_thread].max())]
    last = _last(device.end, np.arange(len(device)))
    if last >= 0:
        begins.append(int(device.begin[0]))
        ends.append(int(device.end[last]))
    if not begins or max(ends) <= min(begins):
        return None
    step = Step(source, min(begins), max(ends))
    on_device = last >= 0 and int(device.end[last]) == step.end
    return Course([step], thread=-1 if on_device else thread, work=last if on_device else -1, is_whole=True)


def _last(times: Int64, rows: Int64) -> int:
    """The row with the greatest time, -1 without rows."""
    return int(rows[times[rows].argmax()]) if len(rows) else -1
