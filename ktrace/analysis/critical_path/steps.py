"""The times whose path is looked for: the steps of a process one after another, else a whole source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.critical_path.device import Device
from ktrace.analysis.critical_path.threads import Threads
from ktrace.analysis.work.gather import SummaryInput
from ktrace.model.arrays import Int64


class Step(NamedTuple):
    """A step: its name, when it begins and ends, and how much longer its work took, in ns."""

    label: str
    begin: int
    end: int
    after: int = 0


@dataclass(frozen=True)
class Course:
    """Steps, and where the walk through them begins: on a thread, or at the end of work. `process` -1 is all."""

    steps: list[Step]
    thread: int = -1
    work: int = -1
    process: int = -1
    is_whole: bool = False


def courses(gathered: SummaryInput, source: str, threads: Threads, device: Device) -> list[Course]:
    """The steps of each process of a source that has steps, else the whole source."""
    found = [
        _through(steps, thread, gathered, threads, device)
        for thread, steps in _steps(gathered, source).items()
        if steps
    ]
    whole = [] if found else [_whole(source, threads, device)]
    return [course for course in (*found, *whole) if course is not None]


def _steps(gathered: SummaryInput, source: str) -> dict[int, list[Step]]:
    """The steps by their thread, one thread for each process; the thread is -1 if they are on devices."""
    marks, tracks = gathered.marks.of(source), gathered.tracks.all()
    names = [step for step, _ in gathered.meanings]
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
        apart = _apart(steps)
        time = sum(step.end - step.begin for step in apart)
        process = (place["host"], place["pid"]) if on_host else None
        if process not in of_process or time > of_process[process][0]:
            of_process[process] = time, track, apart
    number = {tuple(one.values()): place for place, one in enumerate(gathered.threads.all())}
    found: dict[int, list[Step]] = {}
    for _, track, apart in of_process.values():
        key = tuple(tracks[track][name] for name in ("source", "host", "pid", "tid"))
        found[number.get(key, -1) if on_host else -1] = apart
    return found


def _apart(steps: list[Step]) -> list[Step]:
    """The outermost steps, one after another."""
    found: list[Step] = []
    for step in sorted(steps, key=lambda one: (one.begin, -one.end)):
        if not found or step.begin >= found[-1].end:
            found.append(step)
    return found


def _through(steps: list[Step], thread: int, gathered: SummaryInput, threads: Threads, device: Device) -> Course | None:
    """The course through steps: it begins when the last one, and the work launched in the steps, has ended."""
    begin, end = steps[0].begin, steps[-1].end
    process = int(device.processes[thread]) if thread >= 0 and len(device) else -1
    here = np.isin(device.process, (process, -1)) | (process < 0)
    mine = np.flatnonzero(here & device.launched & (device.call_begin >= begin) & (device.call_begin < end))
    last = _last(device.end, mine)
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


def _whole(source: str, threads: Threads, device: Device) -> Course | None:
    """A whole source: from the first to the last of its work and of the thread that launched most."""
    launching = device.thread[device.launched]
    rows = threads.rows
    lasting = threads.end[rows] - threads.ts[rows]
    counts = np.bincount(launching) if len(launching) else np.bincount(threads.thread[rows], weights=lasting)
    thread = int(counts.argmax()) if len(counts) else -1
    mine = rows[threads.thread[rows] == thread]
    begins, ends = [*threads.ts[mine][:1]], [*threads.end[mine][:1]]
    if len(mine):
        begins, ends = [int(threads.ts[mine].min())], [int(threads.end[mine].max())]
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
