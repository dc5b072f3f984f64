"""Rows that depend on other rows, for stages that leave rows out: they stay or go with the other row.

    kernel   id 7                        left out
    counter  id 8, parent 7              goes with its row, as every figure of it
    link     id 9, event 7               goes with its event; the other end of the arrow stays
    link     ts 120, tid 4242            goes with the slice around it on its track at that time

The other row may come later, so dependents wait for the end of the source, in a temporary folder if there are many. The
ids of all other rows are remembered there (13 bytes each), and begin, end and track of slices (29 bytes each).

Device work depends on the call that launched it, by correlation within a process or by links that name both rows:

    call      |recording ..... [ launch ]
    stream 7  [ gemm ][ norm ]            [ add ]     gemm and norm were queued before the recording

A stream runs what it is given in that order: work before its first work with a call was launched earlier than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, Structured
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import decoded
from ktrace.model.masks import rows_where, slice_rows, truth, words_in
from ktrace.model.tracks import Track
from ktrace.stages.order.links import LinkStore, attach_by_event, join_launches, new_ends
from ktrace.stages.order.nesting import Slices, no_slices
from ktrace.store import RANGE_ROWS, BatchSpool, Runs, Spill, ranges
from ktrace.store.events import LIMIT, WORK, EventStore, values
from ktrace.store.joins import find
from ktrace.store.vocabulary import TrackIndex, Vocabularies

_BOOL = np.dtype(np.bool_)


def are_figures(batch: Batch) -> Bools:
    """Which rows are figures of the row that is their parent: a counter, a metric, a further measure.

    A kernel whose parent is its call isn't a figure, nor is a row of a tree.
    """
    if not batch.has("parent"):
        return np.zeros(len(batch), np.bool_)
    if batch.record == "events":
        figure = words_in(batch.column("kind"), ("counter",))
    else:
        other = truth(pc.not_equal(decoded(batch.column("metric")), "duration"))
        figure = other | words_in(batch.column("kind"), ("metric", "note"))
    return figure & truth(batch.column("parent").is_valid())


class Dependents:
    """Rows that wait until it is known whether the rows they depend on stay.

    Call `remember` and `wait` for all rows first, then `rest` once. With a numeric type as `value` each row inherits
    a number instead of the decision.
    """

    def __init__(self, spill: Spill, value: np.dtype[Any] = _BOOL) -> None:
        self._words = Vocabularies()
        self._tracks = TrackIndex(self._words)
        self._ids = Runs(spill, "known_ids", [("id", "i8"), ("source", "i4"), ("kept", value.str)])
        self._slices = Runs(
            spill, "known_slices", [("ts", "i8"), ("end", "i8"), ("id", "i8"), ("track", "i4"), ("kept", value.str)]
        )
        self._value = value
        self._waiting = BatchSpool(spill, "held")
        self._records: list[str] = []
        self._starts = [0]
        self._alone: list[AnyArray] = []
        self._also: list[AnyArray] = []
        self._on_row = Runs(spill, "on_row", [("id", "i8"), ("source", "i4"), ("number", "i8")])
        self._at_place = Runs(spill, "at_place", [("ts", "i8"), ("track", "i4"), ("number", "i8"), ("next", "?")])

    def remember(self, batch: Batch, kept: AnyArray) -> None:
        """Remembers independent events or summaries, and which of them stay."""
        if not len(batch):
            return
        places = self._places(batch)
        source = places.column("source").to_numpy()
        self._ids.append(id=batch.column("id").to_numpy(), source=source, kept=kept)
        if batch.record == "events":
            self._remember_slices(batch, places, kept)

    def _remember_slices(self, batch: Batch, places: pa.RecordBatch, kept: AnyArray) -> None:
        ts, _ = values(batch.columns, "ts")
        dur, has_dur = values(batch.columns, "dur")
        good = slice_rows(batch) & (dur >= 0) & (dur < LIMIT) & (ts > -LIMIT) & (ts < LIMIT)
        end = np.where(has_dur, ts + np.where(good, dur, 0), LIMIT)
        id_, track = batch.column("id").to_numpy()[good], self._tracks.index(places)[good]
        self._slices.append(ts=ts[good], end=end[good], id=id_, track=track, kept=kept[good])

    def _places(self, batch: Batch) -> pa.RecordBatch:
        """The track columns, with numbers for words."""
        schema = arrow_schema(batch.record)
        columns = {
            name: self._words.encode(name, batch.column(name), schema.field(name).type)
            for name in Track._fields
            if name in schema.names and batch.has(name)
        }
        return pa.RecordBatch.from_pydict(columns)

    def wait(self, batch: Batch, alone: AnyArray, also: AnyArray) -> None:
        """Keeps figures or links until `rest`.

        `alone` tells which stay if the row they depend on is unknown, `also` which stay even if that row goes.
        """
        if not len(batch):
            return
        first = self._starts[-1]
        number = np.arange(first, first + len(batch))
        depends_on, has_row = values(batch.columns, "event" if batch.record == "links" else "parent")
        places = self._places(batch)
        source = places.column("source").to_numpy()
        self._on_row.append(id=depends_on[has_row], source=source[has_row], number=number[has_row])
        if batch.record == "links":
            ts, has_ts = values(batch.columns, "ts")
            placed = has_ts & ~has_row
            is_next = words_in(batch.column("bind"), ("next",))
            track = self._tracks.index(places)[placed]
            self._at_place.append(ts=ts[placed], track=track, number=number[placed], next=is_next[placed])
        self._waiting.append(batch.columns)
        self._records.append(batch.record)
        self._starts.append(first + len(batch))
        self._alone.append(alone)
        self._also.append(also)

    def rest(self, size: int = RANGE_ROWS) -> Iterator[tuple[Batch, AnyArray]]:
        """Yields the rows that waited, batch by batch as they came, and which of them stay."""
        kept = np.concatenate([np.zeros(0, self._value), *self._alone])
        also = np.concatenate([np.zeros(0, self._value), *self._also])
        for low, high in ranges(sorted({*self._ids.cuts(size), *self._on_row.cuts(size)})):
            asking = self._on_row.rows[self._on_row.between(low, high)]
            if len(asking):
                by_id = self._ids.rows[self._ids.between(low, high)]
                match = find((asking["id"], asking["source"]), (by_id["id"], by_id["source"]))
                there = match >= 0
                waits, stays = asking["number"], by_id["kept"]
                kept[waits[there]] = stays[match[there]]
        if len(self._at_place):
            self._look_up_places(kept, size)
        kept |= also
        for number, record in enumerate(self._records):
            yield Batch(record, self._waiting.get(number)), kept[self._starts[number] : self._starts[number + 1]]

    def _look_up_places(self, kept: AnyArray, size: int) -> None:
        """Finds the slice around each place, or the next one, as the stage `order` does."""
        used = np.unique(self._at_place.rows["track"])
        opened, waiting = no_slices(), np.empty(0, self._at_place.rows.dtype)
        for low, high in ranges(self._slices.cuts(size)):
            place = self._slices.between(low, high)
            place = place[np.isin(self._slices.rows["track"][place], used)]
            rows = self._slices.rows[place]
            order = np.lexsort((rows["id"], rows["track"], -rows["end"], rows["ts"]))
            rows, place = rows[order], place[order]
            track, ts, end = (np.ascontiguousarray(rows[name]) for name in ("track", "ts", "end"))
            slices = Slices(opened, track, ts, end, place)
            slices_at_place = self._at_place.rows[self._at_place.between(low, high)]
            around = slices_at_place[~slices_at_place["next"]]
            self._settle(kept, around, slices, slices.innermost(around["track"], around["ts"]))
            is_next: Bools = slices_at_place["next"]
            waiting = np.concatenate([waiting, slices_at_place[is_next]])
            later = slices.next(waiting["track"], waiting["ts"])
            self._settle(kept, waiting, slices, later)
            waiting = waiting[later < 0]
            if high is not None:
                opened = slices.open_at(high)

    def _settle(self, kept: AnyArray, waiting: Structured, slices: Slices, match: Int64) -> None:
        there = match >= 0
        kept[waiting["number"][there]] = self._slices.rows["kept"][slices.place[match[there]]]


def launch_links(batch: Batch) -> Batch:
    """The links of a batch that are launches and name an event."""
    return rows_where(batch, words_in(batch.column("link"), ("launch",)) & truth(batch.column("event").is_valid()))


def launch_ends(store: EventStore, index: TrackIndex, links: LinkStore, spill: Spill, size: int) -> tuple[Runs, int]:
    """The ends of all launches, with the columns of `new_ends`, and the greatest number of an arrow."""
    ends = new_ends(spill)
    arrows = join_launches(store, index.tracks(), ends, size)
    links.flush()
    if len(links):
        links.number_arrows(arrows + 1, index, size)
        no_pairs = Runs(spill, "no_pairs", [("ts", "i8"), ("begin", "i8"), ("end", "i8")])
        attach_by_event(links, store, no_pairs, ends, spill, index.sources(), size)
    return ends, arrows + len(links)


def before_recording(store: EventStore, index: TrackIndex, launched: Bools, size: int) -> Bools:
    """Which rows are work that was queued before the recording, by place; `launched` tells whose call is known."""

    def blocks() -> Iterator[Work]:
        for start, rows in store.keys.blocks(size):
            work = np.flatnonzero(rows["flags"] & WORK != 0)
            yield rows["track"][work], rows["ts"][work], launched[start + work]

    is_first = np.zeros(len(launched), np.bool_)
    until = queued_until(blocks, len(index))
    for start, rows in store.keys.blocks(size):
        is_first[start : start + len(rows)] = (rows["flags"] & WORK != 0) & (rows["ts"] < until[rows["track"]])
    return is_first & ~launched


#: The stream, the time and whether the call is known of some device work.
Work = tuple[Int32, Int64, Bools]

_NEVER = np.iinfo(np.int64).max


def queued_until(blocks: Callable[[], Iterable[Work]], streams: int) -> Int64:
    """When each stream is done with what was queued before the recording: work without a call that begins earlier.

    That is when its first work with a call begins, if half of its work from there on has one; else long ago, since
    calls weren't recorded, or not all of them. `blocks` are gone through twice.
    """
    first = np.full(streams, _NEVER)
    for stream, ts, launched in blocks():
        np.minimum.at(first, stream[launched], ts[launched])
    later, calls = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
    for stream, ts, launched in blocks():
        later += np.bincount(stream[ts >= first[stream]], minlength=streams)
        calls += np.bincount(stream[launched], minlength=streams)
    return np.where((calls > 0) & (2 * calls >= later), first, -_NEVER)
