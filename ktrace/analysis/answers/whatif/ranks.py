"""Collectives of several ranks in a graph: none ends anywhere before the last rank has begun.

rank 0   [ all_reduce         ]        begins first, and waits
rank 1           [ all_reduce ]        decides: both end as long after its begin as the transfer took
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktrace.analysis.questions.collectives.found import match
from ktrace.analysis.questions.collectives.rows import CollectiveRows
from ktrace.analysis.work.device_work import Work
from ktrace.model.arrays import Int64

#: Rules by which clocks of ranks aren't related.
_APART = "unknown"


class Together(NamedTuple):
    """What ranks do together: rows of a `source` with an `id` and the number of their `group`; moves of clocks in ns.

    `is_known` tells that the clocks of ranks are related; there are no groups without.
    """

    source: list[str]
    id: Int64
    group: Int64
    moves: dict[str, int]
    is_known: bool = True


def together(rows: CollectiveRows, work: Work) -> Together | None:
    """The collectives of several sources, on one clock; None where there is one source, or no collective on several."""
    matched = match(rows, work) if len(work.rows.sources) > 1 else None
    if matched is None or matched.table.of_calls:
        return None
    table, clocks, _ = matched
    waits = table.of_kinds([kind.waits for kind in table.kinds]) & (table.joint >= 0)
    if not waits.any():
        return None
    if clocks.rule == _APART:
        return Together([], table.id[:0], table.id[:0], {}, is_known=False)
    sources = [rank.source for rank in table.ranks]
    moved, moves = table.ts - table.own, {}
    for source in dict.fromkeys(sources):
        of_source = np.isin(table.rank, [rank for rank, one in enumerate(sources) if one == source])
        moves[source] = round(float(np.median(moved[of_source])))
    there = np.flatnonzero(waits)
    return Together([sources[rank] for rank in table.rank[there].tolist()], table.id[there], table.joint[there], moves)
