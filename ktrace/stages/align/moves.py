"""How the times of a source move: by a constant, and with drift by a fraction of the time since some moment.

    t  ->  t + offset + round((t - since) * rate)

Offsets are whole ns and exact. The fraction of a whole number of ns is rounded to the nearest ns, halves to even; since
(t - since) is below 2^53 ns (104 days), its error is far below 1 ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.stages.layout.launch_tables import is_sampled
from ktrace.store.events import LIMIT, values


@dataclass(frozen=True)
class Move:
    """Converts times of one clock to another. `rate` is the drift: ns gained per ns, far below 1 either way."""

    offset: int = 0
    rate: float = 0.0
    since: int = 0

    def __bool__(self) -> bool:
        return bool(self.offset or self.rate)

    def times(self, ts: Int64) -> Int64:
        """The moved times. They rise where `ts` rises."""
        if not self.rate:
            return ts + self.offset
        share = np.rint((ts - self.since).astype(np.float64) * self.rate)
        moved: Int64 = ts + (share.astype(np.int64) + self.offset)
        return moved

    def time(self, ts: int) -> int:
        """One moved time."""
        return int(self.times(np.array([ts], np.int64))[0])

    def then(self, other: Move) -> Move:
        """This move followed by another one; exact at `since`, and everywhere without drift."""
        rate = (1 + self.rate) * (1 + other.rate) - 1 if self.rate and other.rate else self.rate or other.rate
        since = self.since if self.rate else other.since - self.offset
        return Move(other.time(self.time(since)) - since, rate, since)

    def later(self, ns: int) -> Move:
        """The same move plus some ns."""
        return Move(self.offset + ns, self.rate, self.since)


def moved(batch: Batch, move: Move) -> Batch:
    """The rows at their new times. With drift a duration is the time between the moved begin and the moved end, so
    that slices nest as before; without drift durations are unchanged.

    Samples that count from their launch stay. Raises InputError if a time leaves the range of the model.
    """
    if not move or not batch.has("ts") or is_sampled(batch):
        return batch
    ts, has = values(batch.columns, "ts")
    good = has & (ts > -LIMIT) & (ts < LIMIT)  # a later stage leaves out the others
    new = np.where(good, move.times(np.where(good, ts, 0)), ts)
    if np.any(good & ((new <= -LIMIT) | (new >= LIMIT))):
        raise InputError("a time would leave the range of +-2^62 ns", expected="a smaller offset")
    columns = _with(batch.columns, "ts", new, has)
    if move.rate and batch.has("dur"):
        dur, lasts = values(batch.columns, "dur")
        lasting = good & lasts & (dur >= 0) & (dur < LIMIT - np.abs(ts))
        end = move.times(np.where(lasting, ts + dur, 0))
        columns = _with(columns, "dur", np.where(lasting, end - new, dur), lasts)
    return Batch(batch.record, columns)


def _with(columns: pa.RecordBatch, name: str, numbers: Int64, has: Bools) -> pa.RecordBatch:
    place = columns.schema.get_field_index(name)
    return columns.set_column(place, name, pa.array(numbers, mask=None if has.all() else ~has))
