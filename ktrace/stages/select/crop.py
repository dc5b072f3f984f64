"""Selects a part of a trace by time: an interval, the time around a name, a profiler's step, a range.

    Crop(time="1.5s..2.0s")         0 s        1.5 s ······ 2.0 s        3 s
    op       [ 1.4 .. 1.6 ]                    stays, whole
    kernel   [ 1.9 .. 2.3 ]                    stays, whole
    op       [ 2.1 .. 2.2 ]                    left out

Rows are never cut. Which ones stay is known when the source has ended, since its first time, ranges and launches may
come last; until then rows wait in a temporary folder, as in the stage `order`.

Formats whose columns and rows can be read separately (`Format.read_part`) are read twice: first the columns that decide
which rows stay, then all columns of these rows. The same code as otherwise decides.

    1   id  ts   dur  kind ...         all rows     ──►   the crop   ──►   id 3, 4
    2   id  ts   dur  kind ... args    3, 4         ──►   batches
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int64, Structured
from ktrace.model.batch import POINT_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.masks import rows_where, truth, words_in
from ktrace.report import Report, Severity
from ktrace.stages.order.links import LinkStore
from ktrace.stages.select.crop_bounds import Bounds, CropBounds
from ktrace.stages.select.dependents import Dependents, are_figures, before_recording, launch_ends, launch_links
from ktrace.stages.select.filter import WITH_EVENT, WITH_ROW, account
from ktrace.stages.select.intervals import ALWAYS, Intervals
from ktrace.stages.select.wanted import Crop
from ktrace.store import RANGE_ROWS, SPILL_BYTES, BatchSpool, Spill, ranges
from ktrace.store.events import GONE, SLICE, WORK, EventStore, values
from ktrace.store.joins import isin_sorted
from ktrace.store.vocabulary import TrackIndex, Vocabularies

#: Columns that tell which rows depend on others, and where rows are.
_PLACE = ("id", "parent", "kind", "ts", "dur", *TRACK_COLUMNS)


def _lasting_points(batch: Batch) -> Bools:
    """Which points have a duration, such as a counter with a value that is valid for a while."""
    if not batch.has("dur"):
        return np.zeros(len(batch), np.bool_)
    return words_in(batch.column("kind"), POINT_KINDS) & truth(pc.greater(batch.column("dur"), 0))


def cropped(batches: Iterable[Batch], wanted: Crop, report: Report, *, within: Intervals = ALWAYS) -> Iterator[Batch]:
    """Yields the rows of the selected part, events in the order of time.

    `within` is a part of the time by the clock of the trace, which rows must overlap, too.

    Begins and ends must have been paired before. Statistics stay if the time at which they were printed is in the part.
    Raises InputError if there is no such time, name, step or range.
    """
    spill = Spill(SPILL_BYTES)
    try:
        stage = _Stage(wanted, report, spill, within)
        for batch in batches:
            if batch.record == "catalog":
                stage.catalog.add(batch)
                yield batch
            elif len(batch):
                stage.feed(batch)
        yield from stage.give()
    finally:
        spill.close()


class _Stage:
    """Keeps all rows until the source has ended, then yields those that stay."""

    def __init__(self, wanted: Crop, report: Report, spill: Spill, within: Intervals) -> None:
        self._report = report
        self._spill = spill
        self._words = Vocabularies()
        self._index = TrackIndex(self._words)
        self._store = EventStore(spill, self._words, self._index)
        self._others = BatchSpool(spill, "others")
        self._records: list[str] = []
        self._launches = LinkStore(spill, self._words)
        self._own_time = wanted.by_launch
        self._figures = self._lasting = False
        self._bounds = Bounds(wanted, within)
        self.catalog = Catalog()
        self._taken = self._given = 0
        self._removed: Counter[str] = Counter()

    def feed(self, batch: Batch) -> None:
        """Keeps a batch."""
        self._taken += len(batch)
        if batch.record != "events":
            self._others.append(batch.columns)
            self._records.append(batch.record)
            if batch.record == "links" and self._own_time:
                self._launches.add(launch_links(batch))
            return
        figure = are_figures(batch)
        self._figures |= bool(figure.any())
        self._lasting |= bool((_lasting_points(batch) & ~figure).any())
        self._bounds.add(batch)
        self._store.add(batch.columns)

    def give(self) -> Iterator[Batch]:
        """Yields the rows that stay, and reports the others."""
        self._store.flush()
        start, end = self._store.span(RANGE_ROWS)
        if not len(self._store.keys):
            raise InputError("has no events, and so no time to crop", remedy="leave out the crop, or use a filter")
        self._store.end_unfinished(end, RANGE_ROWS)
        part = self._bounds.part(start, end, self.catalog, self._report)
        kept = self._kept(part)
        dependents = Dependents(self._spill) if self._figures or self._records else None
        for low, high in ranges(self._store.keys.cuts(RANGE_ROWS)):
            yield from self._events(low, high, kept, dependents)
        if dependents is not None:
            for number, record in enumerate(self._records):
                yield from self._other(Batch(record, self._others.get(number)), part, dependents)
            for batch, stays in dependents.rest():
                yield from self._stay(batch, stays, WITH_EVENT if batch.record == "links" else WITH_ROW)
        ledger = account(self._report, "crop", self._taken, self._given, self._removed)
        for kind, tally in self._store.removed.items():
            tally.report(self._report, kind, ledger)

    def _stay(self, batch: Batch, stays: Bools, reason: str) -> Iterator[Batch]:
        count = int(np.count_nonzero(stays))
        self._given += count
        self._removed[reason] += len(batch) - count
        if count:
            yield rows_where(batch, stays)

    def _events(self, low: int | None, high: int | None, kept: Bools, dependents: Dependents | None) -> Iterator[Batch]:
        """Yields the events of a range of time that stay; figures of other rows wait."""
        place = self._store.keys.between(low, high)
        place = place[self._store.keys.rows["flags"][place] & GONE == 0]
        if not len(place):
            return
        if dependents is not None:
            rows = self._store.at(place)
            columns = {name: rows.column(name) for name in _PLACE if name in rows.names}
            known = Batch("events", pa.RecordBatch.from_pydict(columns))
            figure = are_figures(known)
            dependents.remember(rows_where(known, ~figure), kept[place[~figure]])
            if figure.any():
                waiting = place[figure]
                dependents.wait(self._store.at(waiting).batch(), kept[waiting], np.zeros(len(waiting), np.bool_))
                place = place[~figure]
        mine = place[kept[place]]
        self._removed["another time"] += len(place) - len(mine)
        if len(mine):
            self._given += len(mine)
            yield self._store.at(mine).batch()

    def _other(self, batch: Batch, part: CropBounds, dependents: Dependents) -> Iterator[Batch]:
        """Yields the statistics of a batch that stay; its links wait."""
        ts, timed = values(batch.columns, "ts")
        inside = part.contain(ts, batch)
        none = np.zeros(len(batch), np.bool_)
        if batch.record == "links":
            dependents.wait(batch, inside | ~timed, none)
            return
        figure = are_figures(batch)
        dependents.wait(rows_where(batch, figure), (inside & timed)[figure], none[figure])
        rest, stays = rows_where(batch, ~figure), (inside & timed)[~figure]
        dependents.remember(rest, stays)
        yield from self._stay(rest, stays, "no time of their own, or another")

    def _kept(self, part: CropBounds) -> Bools:
        """Which events stay, by place."""
        keys = self._store.keys
        kept, begun, by_call = (np.zeros(len(keys), np.bool_) for _ in range(3))
        place_of, places = part.places(self._index.tracks())
        for start, rows in keys.blocks(RANGE_ROWS):
            block = slice(start, start + len(rows))
            ts, end = np.ascontiguousarray(rows["ts"]), rows["end"].copy()
            if self._lasting:
                end += self._point_durations(start, rows)
            at = np.where(rows["flags"] & WORK != 0, place_of[1][rows["track"]], place_of[0][rows["track"]])
            for number in np.unique(at).tolist():
                place, mine = places[number], at == number
                begun[block][mine] = place.time.contain(ts[mine])
                stays = place.time.overlap(ts[mine], end[mine])
                if place.begins is not None:
                    stays &= place.begins.contain(ts[mine])
                if place.ids:
                    stays |= np.isin(rows["id"][mine], place.ids)
                kept[block][mine], by_call[block][mine] = stays, place.by_call
        if part.launched:
            self._keep_launched(kept, begun, by_call, overlapping=part.overlapping)
        return kept

    def _keep_launched(self, kept: Bools, begun: Bools, by_call: Bools, *, overlapping: bool) -> None:
        """Keeps the work launched by the calls that are `begun`, by correlation or by links, and no other.

        With `overlapping` work stays anyway; without `by_call` the time of the work itself decides.
        """
        ends, arrows = launch_ends(self._store, self._index, self._launches, self._spill, RANGE_ROWS)
        leaves, known = np.zeros(arrows + 1, np.bool_), np.zeros(len(kept), np.bool_)
        for _, rows in ends.blocks(RANGE_ROWS):
            leaves[rows["arrow"][rows["out"] & begun[rows["place"]]]] = True
            known[rows["place"][~rows["out"]]] = True
        if not overlapping:
            kept[(known | before_recording(self._store, self._index, known, RANGE_ROWS)) & by_call] = False
        for _, rows in ends.blocks(RANGE_ROWS):
            launched = rows["place"][~rows["out"] & leaves[rows["arrow"]]]
            kept[launched if overlapping else launched[by_call[launched]]] = True

    def _point_durations(self, start: int, rows: Structured) -> Int64:
        """The durations of points in ns, 0 for all other rows. `start` is the place of the first row."""
        dur = np.zeros(len(rows), np.int64)
        points = np.flatnonzero(rows["flags"] & (SLICE | GONE) == 0)
        if len(points):
            found = self._store.at(start + points)
            if "dur" in found.names:
                dur[points] = np.maximum(found.column("dur").fill_null(0).to_numpy(), 0)
        return dur


#: Columns that decide whether a row stays, in addition to those that are never null.
_DECIDING = frozenset({*TRACK_COLUMNS, "parent", "dur", "event", "bind"})


def cropped_twice(
    deciding: Callable[[frozenset[str]], Iterator[Batch]],
    whole: Callable[[Int64, Report], Iterator[Batch]],
    wanted: Crop,
    report: Report,
) -> Iterator[Batch]:
    """Yields what `cropped` yields, from an input that is read twice.

    `deciding` yields all rows with at least the columns passed, `whole` at least the rows with the ids passed (sorted),
    with its own report.
    Issues in columns that the first reading leaves out are reported for the rows that stay, as issues of the stage.
    Raises what `cropped` raises.
    """
    launched = {"correlation"} if wanted.by_launch else set()
    ids: dict[str, list[Int64]] = {}
    for batch in cropped(deciding(_DECIDING | launched), wanted, report):
        if batch.record == "catalog":
            yield batch
        else:
            _add(ids, batch)
    stays = {source: np.sort(np.concatenate(parts)) for source, parts in ids.items()}
    if not stays:
        return
    account = Report(strict=report.strict)
    any_source = np.sort(np.concatenate(list(stays.values())))
    yield from _by_time(_those(whole(any_source, account), stays))
    _tell(account, report)


def _sources(batch: Batch) -> Iterator[tuple[str, Bools]]:
    """Yields each source of a batch and its rows, as a mask."""
    coded = batch.column("source")
    words = coded.dictionary.to_pylist()
    codes = coded.indices.to_numpy()
    for code in np.unique(codes).tolist():
        yield words[code], codes == code


def _add(ids: dict[str, list[Int64]], batch: Batch) -> None:
    for source, mine in _sources(batch):
        ids.setdefault(source, []).append(batch.column("id").to_numpy()[mine])


def _those(batches: Iterable[Batch], ids: dict[str, Int64]) -> Iterator[Batch]:
    """Yields the rows that have these ids in each source."""
    for batch in batches:
        if batch.record == "catalog":
            continue
        stays = np.zeros(len(batch), np.bool_)
        for source, mine in _sources(batch):
            if source in ids:
                stays[mine] = isin_sorted(batch.column("id").to_numpy()[mine], ids[source])
        if stays.any():
            yield rows_where(batch, stays)


def _by_time(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields all but events as they come, then the events in the order of time."""
    spill = Spill(SPILL_BYTES)
    words = Vocabularies()
    store = EventStore(spill, words, TrackIndex(words))
    try:
        for batch in batches:
            if batch.record == "events":
                store.add(batch.columns)
            else:
                yield batch
        store.flush()
        for low, high in ranges(store.keys.cuts(RANGE_ROWS)):
            place = store.keys.between(low, high)
            if len(place):
                yield store.at(place).batch()
    finally:
        spill.close()


def _tell(account: Report, report: Report) -> None:
    """Copies the issues that only the second reading has found."""
    ledger = next(ledger for ledger in report.stages if ledger.stage == "crop")
    for kind, found in account.issues.items():
        if found.severity >= Severity.SKIP or kind not in report.issues:
            where, detail = found.places[0]
            report.issue(kind, where, detail, found.rows, stage=ledger)
            ledger.given -= found.rows if found.severity >= Severity.SKIP else 0
