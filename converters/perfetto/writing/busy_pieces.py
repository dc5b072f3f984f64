"""What a viewer shows of devices at first sight: a process for each device, with a thread for each busy stream.

    NVIDIA H100 #0                      a process
      stream 7    |gemm|  |attention|   slices of the category "derived": pieces of time in which the stream is busy

Viewers open with the group of render stages closed, and their overview counts slices of threads alone. The pieces are
derived from device work: work that overlaps or touches is one piece, and so are neighbours whose gap is at most the
least of 0, 1024, 2048, 4096, ... ns with which the trace has no more than `MOST` pieces. Every piece has the number of
kernels and copies in it, and exactly how long it is busy. ktrace leaves their packets out when it reads a trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from ktrace.converters._shared.timelines.arguments import plain
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.masks import words_in
from ktrace.naming.short_names import short_name
from ktrace.naming.taxonomy import taxonomy
from ktrace.stages.order.timeline import TimelineBatch

#: The most pieces of a trace, if it has fewer streams.
MOST = 4000

#: The first gap that is closed, in ns, where no gap at all gives too many pieces.
_FIRST_GAP = 1024

#: Operations that are told apart, and names whose operation is looked up: all further ones are "other" and "kernel".
_OPERATIONS, _NAMES = 31, 4096

#: A time before any other.
_NEVER = -(1 << 62)


@dataclass(frozen=True)
class Pieces:
    """Pieces of time on tracks. All arrays are int64 and have the same length.

    `busy` is the length of the union of the work in ns, `work` how long work of each operation takes (two dimensions),
    `longest` the duration of the longest and `name` the number of its name.
    """

    track: Int64
    start: Int64
    end: Int64
    busy: Int64
    kernels: Int64
    others: Int64
    longest: Int64
    name: Int64
    work: Int64

    def __len__(self) -> int:
        return len(self.track)

    def gaps(self) -> Int64:
        """How long the track of each of these ordered pieces was idle before it."""
        found = np.full(len(self), -_NEVER, np.int64)
        if len(self):
            reach = _reach(self.track, self.end)
            found[1:] = np.where(self.track[1:] == self.track[:-1], self.start[1:] - reach[:-1], -_NEVER)
        return found

    def merged(self, gap: int) -> Pieces:
        """These ordered pieces, with neighbours joined whose distance is at most `gap`."""
        if not len(self):
            return self
        fresh = self.gaps() > gap
        first, piece = np.flatnonzero(fresh), np.cumsum(fresh) - 1
        longest = np.maximum.reduceat(self.longest, first)
        at = np.flatnonzero(self.longest == longest[piece])
        name = self.name[at[np.unique(piece[at], return_index=True)[1]]]
        busy, kernels, others, work = (
            np.add.reduceat(column, first, axis=0) for column in (self.busy, self.kernels, self.others, self.work)
        )
        end = np.maximum.reduceat(self.end, first)
        return Pieces(self.track[first], self.start[first], end, busy, kernels, others, longest, name, work)


def _joined(parts: list[Pieces]) -> Pieces:
    """All pieces in the order of tracks and time."""
    columns = [np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Pieces)]
    order = np.lexsort((columns[1], columns[0]))
    return Pieces(*(column[order] for column in columns))


def _reach(track: Int64, end: Int64) -> Int64:
    """Returns the greatest end so far on the track of each piece."""
    found = np.empty_like(end)
    cuts = [0, *(np.flatnonzero(np.diff(track)) + 1).tolist(), len(track)]
    for first, last in itertools.pairwise(cuts):
        np.maximum.accumulate(end[first:last], out=found[first:last])
    return found


def _none() -> Pieces:
    empty = np.empty(0, np.int64)
    return Pieces(*(empty,) * 8, np.empty((0, _OPERATIONS + 1), np.int64))


class BusyPieces:
    """Gathers the busy pieces of streams from batches in the order of time. `most` is the most pieces."""

    def __init__(self, most: int = MOST) -> None:
        self.names: list[str] = []
        self.operations: list[str] = []
        self._most = most
        self._gap = 0
        self._parts: list[Pieces] = []
        self._waiting = 0  # pieces that came since the last merge
        self._ends: dict[int, int] = {}  # track -> the end of its work so far
        self._numbers: dict[tuple[str, bool], tuple[int, int]] = {}  # name, is a kernel -> its number, its operation's

    def add(self, batch: TimelineBatch, stream_of: Callable[[int], int]) -> None:
        """Adds the device work of a batch; `stream_of` returns the track whose stream a track belongs to."""
        rows = np.flatnonzero(batch.work & words_in(batch.column("kind"), DEVICE_KINDS))
        if not len(rows):
            return
        tracks, of = np.unique(batch.track[rows], return_inverse=True)
        track = np.array([stream_of(one) for one in tracks.tolist()], np.int64)[of]
        order = np.argsort(track, kind="stable")
        rows, track = rows[order], track[order]
        start = batch.column("ts").to_numpy()[rows]
        dur = batch.column("dur").fill_null(0).to_numpy(zero_copy_only=False)[rows]
        kernel = words_in(batch.column("kind"), ("kernel",))[rows]
        name, operation = self._named(batch, rows, kernel)
        busy = self._busy(track, start, start + dur)
        self._gather(track, start, start + dur, busy, kernel.astype(np.int64), name, operation)

    def _gather(
        self, track: Int64, start: Int64, end: Int64, busy: Int64, kernel: Int64, name: Int64, operation: Int64
    ) -> None:
        """Adds ordered work as pieces."""
        dur = end - start
        one = Pieces(track, start, end, busy, kernel, 1 - kernel, dur, name, np.empty((len(track), 0), np.int64))
        piece = np.cumsum(one.gaps() > self._gap) - 1
        new = one.merged(self._gap)
        work = np.zeros(len(new) * (_OPERATIONS + 1), np.int64)
        np.add.at(work, piece * (_OPERATIONS + 1) + operation, dur)
        self._parts.append(replace(new, work=work.reshape(len(new), -1)))
        self._waiting += len(new)
        if self._waiting > 2 * self._most:
            self.finish()

    def _busy(self, track: Int64, start: Int64, end: Int64) -> Int64:
        """Returns what each piece of ordered work adds to the time in which its track is busy."""
        reach = _reach(track, end)
        before = np.full(len(track), _NEVER, np.int64)
        before[1:] = reach[:-1]
        first = np.flatnonzero(np.append(True, track[1:] != track[:-1]))
        carried = np.array([self._ends.get(one, _NEVER) for one in track[first].tolist()], np.int64)
        before[first] = carried
        before = np.maximum(before, np.repeat(carried, np.diff(np.append(first, len(track)))))
        last = np.append(first[1:], len(track)) - 1
        for one, until, known in zip(track[first].tolist(), reach[last].tolist(), carried.tolist(), strict=True):
            self._ends[one] = max(until, known)
        return np.maximum(end - np.maximum(start, before), 0)

    def _named(self, batch: TimelineBatch, rows: Int64, kernel: Bools) -> tuple[Int64, Int64]:
        """Returns the number of the name of each row, and that of its operation."""
        names = plain(batch, "name").take(pa.array(rows)).dictionary_encode()
        codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64) * 2 + kernel
        distinct, back = np.unique(codes, return_inverse=True)
        texts = names.dictionary.to_pylist()
        found = np.array([self._number(texts[code // 2], bool(code % 2)) for code in distinct.tolist()], np.int64)
        return found[back, 0], found[back, 1]

    def _number(self, name: str, kernel: bool) -> tuple[int, int]:
        known = self._numbers.get((name, kernel))
        if known is not None:
            return known
        word = "kernel" if kernel else "copy"
        if len(self._numbers) >= _NAMES:
            return -1, self._operation(word)
        word = taxonomy().labels(name, "kernel").operation or word if kernel else word
        self.names.append(short_name(name) or word)
        known = self._numbers[name, kernel] = (len(self.names) - 1, self._operation(word))
        return known

    def _operation(self, word: str) -> int:
        if word not in self.operations:
            if len(self.operations) >= _OPERATIONS:
                return _OPERATIONS
            self.operations.append(word)
        return self.operations.index(word)

    def finish(self) -> Pieces:
        """Returns the pieces so far in the order of tracks and time, no more than there may be."""
        pieces = _joined(self._parts) if self._parts else _none()
        gaps = pieces.gaps()
        while np.count_nonzero(gaps > self._gap) > self._most and self._gap < 1 << 61:
            self._gap = 2 * self._gap or _FIRST_GAP
        pieces = pieces.merged(self._gap)
        self._parts, self._waiting = [pieces], 0
        return pieces

    def title(self, pieces: Pieces, number: int) -> str:
        """What a piece is called: its kernel or copy if it is the only one, else what takes the most time."""
        many = int(pieces.kernels[number] + pieces.others[number])
        if many == 1 and pieces.name[number] >= 0:
            return self.names[int(pieces.name[number])]
        most = int(pieces.work[number].argmax())
        word = self.operations[most] if most < len(self.operations) else "other"
        share = 100 * int(pieces.busy[number]) // max(int(pieces.end[number] - pieces.start[number]), 1)
        return f"{word} ({many:,}, {share} % busy)"
