"""The stage before a table writer: makes slices of begins and ends that a source wrote apart.

    batches in any order ──► all but halves as they come, then the slices of the halves

A link on an end becomes one on the slice; where a source has halves, links that name an event wait like these.

For timeline writers the stage `order` pairs in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.report import Ledger, Report
from ktrace.stages.order.endlinks import EndLinks
from ktrace.stages.order.finish import Finisher, pieces
from ktrace.stages.order.pairing import pair
from ktrace.store.events import GONE, EventStore
from ktrace.store.spill import RANGE_ROWS, SPILL_BYTES, Runs, Spill, ranges
from ktrace.store.tally import Tally
from ktrace.store.track_index import TrackIndex
from ktrace.store.vocabulary import Vocabularies


def pair_halves(batches: Iterable[Batch], report: Report, *, range_rows: int = RANGE_ROWS) -> Iterator[Batch]:
    """Yields all batches; halves wait for the end of the source and become slices, in the order of their begins.

    A begin without an end keeps `dur` null; an end without a begin is skipped.
    """
    spill = Spill(SPILL_BYTES)
    try:
        yield from _paired(batches, report, spill, range_rows)
    finally:
        spill.close()


def _paired(batches: Iterable[Batch], report: Report, spill: Spill, size: int) -> Iterator[Batch]:
    words = Vocabularies()
    tracks = TrackIndex(words)
    store: EventStore | None = None
    links = EndLinks(spill, words)
    passed = 0
    for batch in batches:
        rest = batch
        if batch.record == "events" and batch.has("half"):
            is_half = batch.column("half").is_valid()
            if pc.any(is_half).as_py():
                if store is None:
                    store = EventStore(spill, words, tracks)
                store.add(batch.columns.filter(is_half))
                rest = Batch("events", batch.columns.filter(pc.invert(is_half)))
        if batch.record != "catalog":
            passed += len(rest)
        if store is not None and batch.record == "links" and batch.has("event"):
            named = batch.column("event").is_valid()
            if pc.any(named).as_py():
                links.keep(batch.columns.filter(named))
                rest = Batch("links", batch.columns.filter(pc.invert(named)))
        if len(rest):
            yield rest
    if store is not None:
        store.flush()
        ledger = report.stage("pair")
        ledger.taken = passed + len(store.keys)
        ledger.given = passed
        pairs, lone_ends = pair(store, spill, size)
        yield from _slices(store, pairs, lone_ends, report, ledger, size)
        yield from links.rest(store, pairs, tracks.sources(), size)


def _slices(
    store: EventStore, pairs: Runs, lone_ends: Tally, report: Report, ledger: Ledger, size: int
) -> Iterator[Batch]:
    if len(pairs):
        ledger.removed["paired"] = len(pairs)
    for kind, tally in (*store.removed.items(), ("end-without-begin", lone_ends)):
        tally.report(report, kind, ledger)
    for low, high in ranges(store.keys.cuts(size)):
        place = store.keys.between(low, high)
        keys = store.keys.rows[place]
        left = keys["flags"] & GONE == 0
        rows = np.zeros(int(left.sum()), [("ts", "i8"), ("end", "i8"), ("place", "i8")])
        rows["ts"], rows["end"], rows["place"] = keys["ts"][left], keys["end"][left], place[left]
        if len(rows):
            ledger.given += len(rows)
            finisher = Finisher(store, pairs, rows, low, high)
            yield from (finisher.finished(start, stop).batch() for start, stop in pieces(len(rows), size))
