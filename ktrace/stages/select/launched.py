"""Launches of device work by calls: by correlation within a process, and by links that name both rows."""

from __future__ import annotations

from ktrace.model.batch import Batch
from ktrace.model.masks import rows_where, truth, words_in
from ktrace.stages.order.arrows import new_ends
from ktrace.stages.order.launch_join import join_launches
from ktrace.stages.order.links import LinkStore, attach_by_event
from ktrace.store.events import EventStore
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
