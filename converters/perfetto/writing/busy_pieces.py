"""Pieces of time in which streams are busy, from their work: what viewers show of devices at first sight.

kernels    |gemm|gemm|  |attention|      work that overlaps or touches is one piece
pieces     |         |  |         |

If a trace has more than `MOST` pieces, neighbours are joined, except at the longest gaps and at the first gap of each
cell of time. What is drawn of a piece is how long it is busy, from its start on: its gaps are at its end, so that a
device that is busy half of the time looks so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from ktrace.model.arrays import Bools, Int64, Integers
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.json_text import encoded
from ktrace.model.masks import words_in
from ktrace.naming.taxonomy import taxonomy
from ktrace.stages.order import TimelineBatch
from ktrace.store.joins import greatest_so_far, sorted_by

#: The category of derived slices, and what an argument of each says.
CATEGORY = "derived"
NOTE = "ktrace: derived from kernels and copies, which are on tracks of their own; the gaps of a piece are at its end"

#: The most pieces of a trace, if it has fewer streams.
MOST = 4000

#: The shortest cell of time, 2 ** _FIRST_CELL ns, and the longest one.
_FIRST_CELL, _LAST_CELL = 10, 62

#: Spreads numbers that are close to each other, by the golden ratio: of equally long gaps, some everywhere are kept.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

#: Operations that are told apart, and names whose operation is looked up.
_OPERATIONS, _NAMES = 31, 4096

#: What work is called whose operation isn't known, and what isn't kernels.
BUSY, _COPY = "busy", "copy"

#: A time before any other, and the longest gap after work.
_NEVER, LONGEST_GAP = -(1 << 62), 1 << 61


class Pieces(msgspec.Struct, frozen=True):
    """Pieces of time on tracks. All arrays are int64 and have the same length.

    `gap` is how long the track was idle before, below 1 where the piece continues the one before, and `origin` the
    start of the uninterrupted work that the piece begins with. `busy` is the length of the union of the work in ns,
    `work` how long work of each operation takes (a column each, the first for others).
    """

    track: Int64
    start: Int64
    end: Int64
    gap: Int64
    origin: Int64
    busy: Int64
    kernels: Int64
    others: Int64
    work: Int64

    def __len__(self) -> int:
        return len(self.track)

    def of_track(self, track: int) -> Pieces:
        """Those of a track."""
        selected = self.track == track
        return Pieces(*(getattr(self, name)[selected] for name in self.__struct_fields__))

    def joined(self, cut: Bools) -> Pieces:
        """These ordered pieces, joined to the one before where there is no cut; the first one has a cut."""
        if not len(self):
            return self
        first = np.flatnonzero(cut)
        busy, kernels, others, work = (
            np.add.reduceat(column, first, axis=0) for column in (self.busy, self.kernels, self.others, self.work)
        )
        end = np.maximum.reduceat(self.end, first)
        start, gap, origin = self.start[first], self.gap[first], self.origin[first]
        return Pieces(self.track[first], start, end, gap, origin, busy, kernels, others, work)

    def cells(self, bits: int) -> Bools:
        """Returns which of these ordered pieces are the first of a track, or of a cell of 2 ** `bits` ns."""
        begins = np.ones(len(self), np.bool_)
        cell = self.origin >> bits
        begins[1:] = (self.track[1:] != self.track[:-1]) | (cell[1:] != cell[:-1])
        return begins


def _joined(parts: list[Pieces]) -> Pieces:
    """All pieces in the order of tracks and time."""
    width = max(part.work.shape[1] for part in parts)
    parts = [replace(part, work=np.pad(part.work, ((0, 0), (0, width - part.work.shape[1])))) for part in parts]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in Pieces.__struct_fields__]
    order = np.lexsort((columns[1], columns[0]))
    return Pieces(*(column[order] for column in columns))


class Reach:
    """How far the work of each track has come."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}  # track -> start of its last uninterrupted work, end of all so far

    def ends(self) -> dict[int, int]:
        """Returns the end of the work of each track."""
        return {track: end for track, (_, end) in self._ends.items()}

    def placed(self, track: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns gap and origin of ordered work, and what each adds to the time in which its track is busy."""
        reach = greatest_so_far(end, (track,))
        before = np.full(len(track), _NEVER, np.int64)
        before[1:] = reach[:-1]
        first = np.flatnonzero(np.append(True, track[1:] != track[:-1]))
        ends = np.array([self._ends.get(one, (_NEVER, _NEVER)) for one in track[first].tolist()], np.int64)
        before[first] = ends[:, 1]
        before = np.maximum(before, np.repeat(ends[:, 1], np.diff(np.append(first, len(track)))))
        gap = start - before
        origin = start.copy()
        origin[first] = np.where(gap[first] > 0, start[first], ends[:, 0])
        begins = gap > 0
        begins[first] = True
        origin = origin[np.maximum.accumulate(np.where(begins, np.arange(len(track)), 0))]
        last = np.append(first[1:], len(track)) - 1
        until = np.maximum(reach[last], ends[:, 1])
        self._ends.update(
            zip(track[first].tolist(), zip(origin[last].tolist(), until.tolist(), strict=True), strict=True)
        )
        return gap, origin, np.maximum(end - np.maximum(start, before), 0)


def _values_of(codes: Integers, value: Callable[[int], Any]) -> Int64:
    """The value of each code; `value` is asked once for each that there is."""
    used = np.flatnonzero(np.bincount(codes))
    values = np.array([value(one) for one in used.tolist()], np.int64)
    table = np.zeros((len(used) and int(used[-1]) + 1, *values.shape[1:]), np.int64)
    table[used] = values
    return table[codes]


class BusyPieces:
    """Gathers the busy pieces of streams from batches in the order of time. `most` is the most pieces."""

    def __init__(self, most: int = MOST) -> None:
        self.operations: list[str] = []
        self._most = most
        self._cell = _FIRST_CELL
        self._least = 0  # shorter gaps aren't among the longest
        self._parts: list[Pieces] = []
        self._waiting = 0  # pieces that came since they were last joined
        self._reach = Reach()
        self._numbers: dict[tuple[str, bool], int] = {}  # name, is a kernel -> the number of its operation

    def add(self, batch: TimelineBatch, stream_of: Callable[[int], int]) -> None:
        """Adds the device work of a batch; `stream_of` returns the track whose stream a track belongs to."""
        kinds = batch.column("kind")
        rows = np.flatnonzero(batch.work & words_in(kinds, DEVICE_KINDS))
        if not len(rows):
            return
        track = _values_of(batch.track[rows], stream_of)
        rows = rows[order := sorted_by(track, int(track.max()) + 1)]
        track = track[order]
        start = batch.column("ts").to_numpy()[rows]
        dur = batch.durations[rows]
        kernel = words_in(kinds, ("kernel",))[rows]
        names = encoded(batch.column("name"))
        codes = names.indices.fill_null(0).to_numpy()[rows] * np.int64(2) + kernel
        words = names.dictionary
        operation = _values_of(codes, lambda code: self._number(words[code // 2].as_py(), bool(code % 2)))
        self._gather(track, start, start + dur, kernel.astype(np.int64), operation)

    def _gather(self, track: Int64, start: Int64, end: Int64, kernel: Int64, operation: Int64) -> None:
        """Adds ordered work as pieces."""
        dur = end - start
        gap, origin, busy = self._reach.placed(track, start, end)
        nothing = np.empty((len(track), 0), np.int64)
        one = Pieces(track, start, end, gap, origin, busy, kernel, 1 - kernel, nothing)
        cut = (gap > 0) & (one.cells(self._cell) | (gap >= self._least)) if self._least else gap > 0
        cut[np.flatnonzero(np.diff(track, prepend=track[0] - 1))] = True
        new, piece = one.joined(cut), np.cumsum(cut) - 1
        width = len(self.operations) + 1
        work = np.bincount(piece * width + operation, dur, len(new) * width)  # exact below 2^53 ns, 104 days
        self._parts.append(replace(new, work=work.astype(np.int64).reshape(len(new), -1)))
        self._waiting += len(new)
        if self._waiting > max(2 * self._most, len(self._parts[0])):
            self.finish()

    def _number(self, name: str, kernel: bool) -> int:
        operation = self._numbers.get((name, kernel))
        if operation is not None:
            return operation
        if len(self._numbers) >= _NAMES:
            return self._operation(BUSY if kernel else _COPY)
        word = taxonomy().labels(name, "kernel").operation or BUSY if kernel else _COPY
        operation = self._numbers[name, kernel] = self._operation(word)
        return operation

    def _operation(self, word: str) -> int:
        """The number of an operation from 1, 0 for those that aren't told apart."""
        if word not in self.operations:
            if len(self.operations) >= _OPERATIONS:
                return 0
            self.operations.append(word)
        return self.operations.index(word) + 1

    def finish(self) -> Pieces:
        """Returns the pieces so far in the order of tracks and time, no more than there may be."""
        none = np.empty(0, np.int64)
        pieces = _joined(self._parts or [Pieces(*(none,) * 8, none.reshape(0, 1))])
        pieces = pieces.joined(pieces.gap > 0)
        if self._least or len(pieces) > self._most:
            pieces = pieces.joined(self._cuts(pieces))
        self._parts, self._waiting = [pieces], 0
        return pieces

    def _cuts(self, pieces: Pieces) -> Bools:
        """Returns which pieces aren't joined to the one before: half of them at the longest gaps, half in cells.

        It is the same whatever was joined before: a gap that isn't among the longest so far won't be later.
        """
        half = self._most // 2
        while np.count_nonzero(cut := pieces.cells(self._cell)) > half and self._cell < _LAST_CELL:
            self._cell += 1
        near = np.flatnonzero(pieces.gap < LONGEST_GAP)  # a track's first piece has no gap
        spread = pieces.start[near].view(np.uint64) * _SPREAD
        longest = near[np.lexsort((spread, -pieces.gap[near]))][:half]
        cut[longest] = True
        self._least = max(int(pieces.gap[longest].min(initial=-_NEVER)), 1) if len(longest) == half else 1
        return cut

    def word(self, number: int) -> str:
        """What work of an operation is called, by its number: never after a kernel."""
        return self.operations[number - 1] if number else BUSY
