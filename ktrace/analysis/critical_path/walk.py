"""The path from the end of a time back to its begin: always to what was the last to allow this to go on.

thread    [ launch ]····[ synchronize ······█]              the call returns, because the kernel ended
stream         └───────►[ kernel            ]               the kernel began, because it was launched
path      ████████░░░░░░███████████████████░█               at each moment one thing

The walk visits only what is on the path. Each stretch on a thread is one piece, however many calls are in it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from ktrace.analysis.critical_path.device import LAUNCH, Device
from ktrace.analysis.critical_path.syncs import Sync
from ktrace.model.arrays import Int64

#: What a piece of the path is. `reference` is a thread (HOST), the work (ON_DEVICE), or the work that it is before.
HOST, ON_DEVICE, LAUNCH_DELAY, WORK_DELAY, UNSEEN, UNKNOWN = range(6)


class Pieces(NamedTuple):
    """Pieces of a path, rising and without holes: what they are, `reference`, begin and end."""

    what: Int64
    reference: Int64
    begin: Int64
    end: Int64


class _Found:
    """What the walk found: pieces, and chains of work that begin at `heads` (place in `chain`, time of entry)."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.what: list[int] = []
        self.reference: list[int] = []
        self.begin: list[int] = []
        self.end: list[int] = []
        self.chain: list[int] = []
        self.heads: list[tuple[int, int]] = []

    def add(self, what: int, reference: int, begin: int, end: int) -> None:
        """Adds a piece."""
        self.what.append(what)
        self.reference.append(reference)
        self.begin.append(begin)
        self.end.append(end)


class Walk:
    """Walks through the threads and the device work of a source."""

    def __init__(self, device: Device, syncs: dict[int, list[Sync]], hops: dict[int, list[tuple[int, int]]]) -> None:
        self._hops = {thread: ([time for time, _ in found], [to for _, to in found]) for thread, found in hops.items()}
        self._syncs = {thread: ([sync.end for sync in found], found) for thread, found in syncs.items()}
        self._device = device
        self._begin, self._before = device.begin.tolist(), device.before.tolist()  # all that a chain looks at
        self._by_process: dict[int, tuple[Int64, Int64]] = {}

    def back(self, start: int, time: int, *, thread: int = -1, work: int = -1, process: int = -1) -> Pieces:
        """The path from a time back to `start`, beginning on a thread, or with work."""
        found = _Found(start)
        left = 1000 + 4 * len(self._begin) + 8 * sum(len(ends) for ends, _ in self._syncs.values())
        left += 4 * sum(len(times) for times, _ in self._hops.values())
        if work >= 0 and self._device.end[work] < time:
            ended = int(self._device.end[work])
            found.add(UNKNOWN, -1, max(ended, start), time)
            time = ended
        while time > start and left > 0 and (work >= 0 or thread >= 0):
            left -= 1  # runs out only if times contradict each other
            if work >= 0:
                work = self._chain(found, work, time)
                time, thread = self._before_chain(found, work)
                work = -1
            else:
                time, work, thread = self._before_host(found, thread, time, process)
        found.add(UNKNOWN, -1, start, time)
        return self._pieces(found)

    def _chain(self, found: _Found, work: int, time: int) -> int:
        """Goes from work to the work that allowed it to begin, and so on; returns the first of all."""
        begin, before, start = self._begin, self._before, found.start
        found.heads.append((len(found.chain), time))
        append = found.chain.append
        append(work)
        while before[work] >= 0 and begin[work] > start:
            work = before[work]
            append(work)
        return work

    def _before_chain(self, found: _Found, work: int) -> tuple[int, int]:
        """Goes from work to its launch: the time and the thread from which the path goes on."""
        begin, device = self._begin[work], self._device
        if device.unseen[work]:
            found.add(UNSEEN, work, found.start, begin)
            return found.start, -1
        if begin <= found.start or device.why[work] != LAUNCH:
            return max(begin, found.start), -1
        until = min(int(device.call_end[work]), begin)
        found.add(LAUNCH_DELAY, work, until, begin)
        since, thread = min(int(device.call_begin[work]), until), int(device.thread[work])
        found.add(HOST, thread, since, until)
        return since, thread

    def _pieces(self, found: _Found) -> Pieces:
        """What was found, with the pieces of chains of work."""
        device, start = self._device, found.start
        work = np.array(found.chain, np.int64)
        heads = np.array(found.heads, np.int64).reshape(-1, 2)
        entered = np.zeros(len(work), np.int64)
        entered[1:] = np.minimum(device.end[work[1:]], device.begin[work[:-1]])
        entered[heads[:, 0]] = heads[:, 1]
        inner = np.setdiff1d(np.arange(len(work)), heads[:, 0], assume_unique=True)  # those that other work is after
        after = work[inner - 1]
        whats = np.array(found.what, np.int64), np.full(len(work), ON_DEVICE), np.full(len(inner), WORK_DELAY)
        references = np.array(found.reference, np.int64), work, after
        begins = np.array(found.begin, np.int64), device.begin[work], entered[inner]
        ends = np.array(found.end, np.int64), entered, device.begin[after]
        what, reference, begin, end = map(np.concatenate, (whats, references, begins, ends))
        begin = np.maximum(begin, start)
        rows = np.flatnonzero(end > begin)
        rows = rows[np.argsort(begin[rows])]
        return Pieces(what[rows], reference[rows], begin[rows], end[rows])

    def _before_host(self, found: _Found, thread: int, time: int, process: int) -> tuple[int, int, int]:
        """Goes back on a thread to where it last waited for a device or for another thread."""
        start = found.start
        hops, to = self._hops.get(thread, ([], []))
        at = bisect_right(hops, time) - 1
        hop = hops[at] if at >= 0 else start
        until, target = self._last_sync(thread, time, max(hop, start), process)
        if target >= 0:
            found.add(HOST, thread, until, time)
            return max(until, start), target, -1
        if at >= 0 and hop > start:
            found.add(HOST, thread, hop, time)
            return hop, -1, to[at]
        found.add(HOST, thread, start, time)
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
        """The work that a call waited for: the last that ended during the call; -1 if it didn't have to wait."""
        begin, device = sync.begin, self._device
        if sync.target >= 0:
            return sync.target if begin < device.end[sync.target] <= sync.end else -1
        ends, order = self._of_process(process)
        at = int(np.searchsorted(ends, sync.end, "right")) - 1
        while at >= 0 and ends[at] > begin:
            work = int(order[at])
            launched = device.call_begin[work] if device.launched[work] else device.begin[work]
            here = sync.stream in (-1, device.stream[work]) and (
                sync.device == -1 or device.device[work] in (-1, sync.device)
            )
            if launched <= begin and here:
                return work
            at -= 1
        return -1

    def _of_process(self, process: int) -> tuple[Int64, Int64]:
        """The work of a process, and work of unknown processes, by its end: the ends, and the rows."""
        if process not in self._by_process:
            mine = np.flatnonzero(np.isin(self._device.process, (process, -1)) | (process < 0))
            mine = mine[np.argsort(self._device.end[mine], kind="stable")]
            self._by_process[process] = self._device.end[mine], mine
        return self._by_process[process]
