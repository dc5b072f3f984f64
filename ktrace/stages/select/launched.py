"""Launches of device work by calls: by correlation within a process, and by links that name both rows.

    call      |recording ..... [ launch ]
    stream 7  [ gemm ][ norm ]            [ add ]     gemm and norm were queued before the recording

A stream runs what it is given in that order: work before its first work with a call was launched earlier than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import rows_where, truth, words_in
from ktrace.stages.order.arrows import new_ends
from ktrace.stages.order.launch_join import join_launches
from ktrace.stages.order.links import LinkStore, attach_by_event
from ktrace.store.events import WORK, EventStore
from ktrace.store.spill import Runs, Spill
from ktrace.store.track_index import TrackIndex


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

    found = np.zeros(len(launched), np.bool_)
    until = queued_until(blocks, len(index))
    for start, rows in store.keys.blocks(size):
        found[start : start + len(rows)] = (rows["flags"] & WORK != 0) & (rows["ts"] < until[rows["track"]])
    return found & ~launched


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
    found: Int64 = np.where((calls > 0) & (2 * calls >= later), first, -_NEVER)
    return found
