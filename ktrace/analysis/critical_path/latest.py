"""The last of some moments before others, group by group.

group      0    1    0         moments at 5 (group 0), 6 (group 1), 9 (group 0)
wanted     0 at 8              ──►  the one at 5
"""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Int64, Integers


def latest(group: Integers, time: Int64, wanted: Integers, until: Int64) -> Int64:
    """The index of the last moment of each wanted group up to a time, inclusive; -1 where there is none.

    Of several at the same time it is the last one in the order of the moments.
    """
    if not len(group) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    groups = np.concatenate([group.astype(np.int64), wanted.astype(np.int64)])
    order = np.lexsort((np.concatenate([time, until]), groups))  # stable: at one time, the moments come first
    known = order < len(group)
    place = np.maximum.accumulate(np.where(known, np.arange(len(order)), -1))
    found = np.where(place >= 0, order[place], -1)
    found[(found >= 0) & (groups[found] != groups[order])] = -1
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[len(group) :]
