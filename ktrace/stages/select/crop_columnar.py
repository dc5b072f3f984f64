"""A crop that reads twice: first the columns that decide which rows stay, then all columns of these rows.

    1   id  ts   dur  kind ...         all rows     ──►   the crop   ──►   id 3, 4
    2   id  ts   dur  kind ... args    3, 4         ──►   batches

It pays for formats whose columns and rows can be read separately (`Format.columnar`). The same code as otherwise
decides which rows stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.masks import rows_where
from ktrace.report import Report, Severity
from ktrace.stages.select.crop import Crop, cropped
from ktrace.store.events import EventStore
from ktrace.store.joins import among
from ktrace.store.spill import RANGE_ROWS, SPILL_BYTES, Spill, ranges
from ktrace.store.track_index import TrackIndex
from ktrace.store.vocabulary import Vocabularies

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
    launched = {"correlation"} if wanted.step is not None or wanted.range is not None else set()
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
                stays[mine] = among(batch.column("id").to_numpy()[mine], ids[source])
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
