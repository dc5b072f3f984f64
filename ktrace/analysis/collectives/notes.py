"""Sentences about what the figures of collectives rest on, and what isn't known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktrace.analysis.collectives.clocks import Clocks
from ktrace.analysis.collectives.found import Found
from ktrace.analysis.collectives.model import CollectivesAnswer
from ktrace.tables.figures import brief


def notes_of(answer: CollectivesAnswer, found: Found, clocks: Clocks, parted: int) -> list[str]:
    """The sentences; `parted` is the number of rows that turned out not to belong together."""
    return [*_matching(answer, found, parted), *_clocks(answer, clocks), *_bandwidths(answer, found)]


def _matching(answer: CollectivesAnswer, found: Found, parted: int) -> Iterator[str]:
    if found.unfinished:
        yield f"Not counted: {found.unfinished:,} without an end."
    if len(found.ranks) == 1:
        yield "One rank alone: who waits for whom needs the files of the others, too."
        return
    if not answer.joint:
        yield "No collective was found on several ranks."
    elif answer.alone:
        yield f"{answer.alone:,} rows have no counterpart on another rank: nothing is known about their skew."
    if found.confused:
        yield f"{found.confused:,} have the same number on several ranks, but another operation: they aren't matched."
    if parted:
        yield f"{parted:,} rows don't overlap in time with their counterparts: they aren't matched."
    if found.way and answer.joint:
        yield "There are no sequence numbers: collectives are matched by their position on each rank."
    sizes = [kind.ranks for kind in found.kinds if kind.ranks and kind.joint]
    if answer.joint and max(sizes, default=0) > len(found.ranks):
        yield f"Groups have up to {max(sizes):,} ranks, of which {len(found.ranks):,} are here: others may come later."


def _clocks(answer: CollectivesAnswer, clocks: Clocks) -> Iterator[str]:
    if not answer.joint:
        return
    if clocks.rule == "unknown":
        yield "Skew isn't known: nothing relates the clocks of the ranks."
        return
    if clocks.rule == "unix":
        yield "Clocks are aligned by unix time."
    elif clocks.rule == "collective":
        yield "Clocks are aligned by the ends of collectives" + (
            f", which agree better than unix time: {clocks.source} moves by {brief(clocks.moved)}."
            if clocks.source
            else ": nothing else relates them."
        )
    skews = [use.skew.median for use in answer.collectives if use.skew is not None]
    if clocks.ends and skews and clocks.rule != "one":
        below = sum(skew < clocks.ends for skew in skews)
        lines = f"; {below:,} of {len(skews):,} lines are below it" if below else ""
        ends = f"{brief(clocks.ends)}, by which ends differ,"
        yield f"Skew below {ends} can't be told from the clocks' difference{lines}."


def _bandwidths(answer: CollectivesAnswer, found: Found) -> Iterator[str]:
    if found.of_calls:
        yield "Times are those of calls on the host, not of transfers: there is no bandwidth."
    sized = found.of_kinds([kind.operation != "barrier" for kind in found.kinds])
    unknown = int(np.count_nonzero((found.size < 0) & sized))
    if unknown and not found.of_calls:
        yield f"Without a known size, and so without bandwidth: {unknown:,} of {len(found):,} rows."
    if any(use.algorithm_bandwidth is not None and use.bus_bandwidth is None for use in answer.collectives):
        yield "Bus bandwidth needs the number of ranks in the group, which isn't known everywhere."
    rated = [use for use in answer.collectives if use.algorithm_bandwidth is not None]
    if any(use.transfer is None or use.joint < use.count for use in rated):
        yield "Bandwidth without a known time of transfer is a lower bound: durations include waiting."
