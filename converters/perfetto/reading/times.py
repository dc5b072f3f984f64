"""Timestamps of packets that are told by a clock of their own, as times of the main clock."""

from __future__ import annotations

import numpy as np

from ktrace.converters._shared.columnar.protobuf import LENGTH, VARINT, Fields, distinct_of, signed
from ktrace.model.arrays import Int64

from ..proto import field_numbers as f
from .args import Chunk
from .clocks import Clocks

_P = f.TRACE_PACKET


class Times:
    """Fills in `ts`, the times of a chunk's packets, as far as the walk through them has come.

    `own_clock` are the sequences that may have a default clock. `names` has the code, in the chunk's own texts, of the
    clock of each packet of which no snapshot tells the time by the main clock, else -1; None where there is no such.
    """

    def __init__(
        self,
        clocks: Clocks,
        chunk: Chunk,
        found: Fields,
        sequence: Int64,
        state: Int64,
        ts: Int64,
        own_clock: set[int],
    ) -> None:
        self.names: Int64 | None = None
        self._clocks, self._chunk, self._sequence, self._state, self._ts = clocks, chunk, sequence, state, ts
        given = found.get(_P["timestamp_clock_id"], VARINT)
        self._given = np.full(found.count, -1, np.int64)
        self._given[given.owner] = signed(given.value)
        own_clock.update(sequence[found.get(_P["trace_packet_defaults"], LENGTH).owner].tolist())
        odd = self._given >= 0
        if own_clock:
            odd |= np.isin(sequence, list(own_clock))
        odd &= found.get(_P["timestamp"], VARINT).has(found.count)
        self._rows = np.flatnonzero(odd)
        self._done = 0

    def until(self, row: int) -> None:
        """Fills in the packets before `row`; what changes clocks for them must have been read, and no later change."""
        end = int(np.searchsorted(self._rows, row))
        rows = self._rows[self._done : end]
        self._done = end
        if not len(rows):
            return
        defaults = np.array([-1 if state.clock is None else state.clock for state in self._chunk.states], np.int64)
        clock = np.where(self._given[rows] >= 0, self._given[rows], defaults[self._state[rows]])
        key = self._sequence[rows] * (1 << 33) + clock  # sequence ids are of 32 bits
        for one in distinct_of(key[clock >= 0])[0].tolist():
            which = rows[(key == one) & (clock >= 0)]
            sequence, number = one >> 33, one & (1 << 33) - 1
            self._ts[which], name = self._clocks.times(self._ts[which], number, sequence)
            if name is not None:
                if self.names is None:
                    self.names = np.full(len(self._ts), -1, np.int64)
                self.names[which] = self._chunk.own.code(name.encode())
