"""How the times of a source move: by a constant, and with drift by a fraction of the time since some moment.

    t  ->  t + offset + round((t - since) * rate)

Offsets are whole ns and exact. The fraction of a whole number of ns is rounded to the nearest ns, halves to even; since
(t - since) is below 2^53 ns (104 days), its error is far below 1 ns. Moves by unix time, which clocks record:

    rank0   clock  at 0 ns   unix time 1724000000.000000000 s    reference clock
    rank1   clock  at 0 ns   unix time 1724000000.001500000 s    + 1,500,000 ns
    page    clock  of its own kind, no unix time                 begins when rank0 does: a guess

A source has an anchor if its main clock has the facts `at_ns` and `unix_ns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.stages.launch_tables import is_sampled
from ktrace.store.events import LIMIT, values

#: Times of host and device that differ by less, in ns, are told apart by no profiler.
TOLERANCE = 1_000

#: Clocks are apart if this part of the work begins before its calls; single records may be wrong.
PART = 0.01


class Move(msgspec.Struct, frozen=True):
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
        return ts + (share.astype(np.int64) + self.offset)

    def time(self, ts: int) -> int:
        """The given time after the move."""
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


#: Kinds of clocks that all sources on one host share.
_SHARED = ("boottime", "monotonic", "unix")


def anchor_of(catalog: Catalog, source: str, *, keep_shift: bool = False) -> int | None:
    """Unix time minus the time of the source's main clock in ns; None if the source has no anchor, or several.

    With `keep_shift` what was added to its times by hand counts as a correction of its clock.
    """
    clocks = [entry for entry in _clocks_of(catalog, source) if entry.unix_offset is not None]
    clocks = [entry for entry in clocks if entry.name is None] or clocks
    offsets = {entry.unix_offset for entry in clocks}
    offset = offsets.pop() if len(offsets) == 1 else None
    return offset + shift_of(catalog, source) if offset is not None and keep_shift else offset


def shift_of(catalog: Catalog, source: str) -> int:
    """The shift added to the source's times by hand at their export, in ns."""
    shifts = (entry.facts.get("shift_ns") for entry in _clocks_of(catalog, source))
    return next((shift for shift in shifts if type(shift) is int), 0)


def _clocks_of(catalog: Catalog, source: str) -> list[Entry]:
    return [entry for entry in catalog.of("clock") if entry.key.get("source") == source]


class Placed(msgspec.Struct, frozen=True):
    """The move of a source and the rule behind it: reference, unix, begin, same clock or as it is."""

    move: Move
    rule: str


#: Inputs that begin so many ns after all others have ended aren't of the same time, whatever clocks of hosts differ by.
DISJOINT = 1_000_000


def pauses(spans: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, str]]:
    """The sources that begin after all earlier ones have ended: by how many ns, and the one that ended last."""
    longest: dict[str, tuple[int, str]] = {}
    last: tuple[int, str] | None = None
    for source, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if last is not None and begin > last[0]:
            longest[source] = begin - last[0], last[1]
        last = max(last or (end, source), (end, source))
    return longest


def times_related(sources: Sequence[str], catalog: Catalog) -> dict[str, int] | None:
    """What is added to the times of each source to get one clock: unix time, or one that all have; None without one."""
    anchors = {source: anchor_of(catalog, source) for source in sources}
    with_anchor = {source: anchor for source, anchor in anchors.items() if anchor is not None}
    if len(with_anchor) == len(anchors):
        return with_anchor
    clocks = {_kind_and_host(catalog, source) for source in sources}
    shared = not with_anchor and len(clocks) == 1 and next(iter(clocks))[0] in _SHARED
    return dict.fromkeys(sources, 0) if shared else None


def by_unix(sources: Sequence[str], catalog: Catalog, *, keep_shift: bool = False) -> dict[str, Placed]:
    """The moves of all sources by unix time. Raises InputError for a source without it."""
    anchors = {source: anchor_of(catalog, source, keep_shift=keep_shift) for source in sources}
    missing = [source for source in sources if anchors[source] is None]
    if missing:
        raise InputError(
            f"no clock of {', '.join(missing)} has an anchor to unix time",
            expected="an anchor such as baseTimeNanoseconds or utcEpochNs",
            remedy="use --align auto, which guesses there, --align collective, --align 'marker NAME', or --offset",
        )
    first = anchors[sources[0]] or 0
    return {source: Placed(Move((anchors[source] or 0) - first), "unix") for source in sources}


def by_auto(
    sources: Sequence[str], catalog: Catalog, begins: Mapping[str, int], *, keep_shift: bool = False
) -> dict[str, Placed]:
    """The moves of all sources, as well as the clocks allow.

    `begins` has the first time of each source that has one. Sources with unix time are placed by it, relative to one
    another if the first source has none. A source without it moves like a source whose clock is of the same kind and
    on the same host, since that is the same clock; if there is none, it begins when the first source does.
    """
    first = sources[0]
    candidates = ((source, anchor_of(catalog, source, keep_shift=keep_shift)) for source in sources)
    anchors = {source: anchor for source, anchor in candidates if anchor is not None}
    placed = {first: Placed(Move(), "reference")}
    leader = next(iter(anchors), None)  # which the others with an anchor follow
    base = 0
    if leader is not None:
        placed.setdefault(leader, _without_anchor(leader, first, placed, catalog, begins))
        base = anchors[leader] - placed[leader].move.offset
    for source, anchor in anchors.items():
        placed.setdefault(source, Placed(Move(anchor - base), "unix"))
    for source in sources:
        if source not in placed:
            placed[source] = _without_anchor(source, first, placed, catalog, begins)
    return {source: placed[source] for source in sources}


def _without_anchor(
    source: str, first: str, placed: Mapping[str, Placed], catalog: Catalog, begins: Mapping[str, int]
) -> Placed:
    """The move of a source without unix time."""
    if source not in begins or first not in begins:
        return Placed(Move(), "as it is")
    clock = _kind_and_host(catalog, source)
    if clock[0] in _SHARED:
        for other, reference in placed.items():
            if _kind_and_host(catalog, other) == clock:
                return Placed(reference.move, "same clock")
    return Placed(Move(begins[first] - begins[source]), "begin")


def _kind_and_host(catalog: Catalog, source: str) -> tuple[str | None, str | None]:
    clock = catalog.get("clock", source=source)
    kind = clock.facts.get("kind") if clock else None
    return (kind if isinstance(kind, str) else None), catalog.host(source)
