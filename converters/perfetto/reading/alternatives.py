"""The data of packets: alternatives of one field (a oneof), of which protobuf keeps the last."""

from __future__ import annotations

import numpy as np

from ktrace.kit.columnar.protobuf import LENGTH, Column, Fields
from ktrace.model.arrays import Bools, Int64

from ..proto import field_numbers as f

#: Fields with the data of a packet, of those that become rows many at a time.
EVENT, STAGE, COUNTER = (
    f.TRACE_PACKET[name] for name in ("track_event", "gpu_render_stage_event", "gpu_counter_event")
)


class Alternatives:
    """Which data counts in packets that have several. `several` are the indices of these packets."""

    def __init__(self, found: Fields) -> None:
        columns = [found.get(number, LENGTH) for number in (EVENT, STAGE, COUNTER)]
        owner = np.concatenate([column.owner for column in columns])
        self.several: Int64 = np.flatnonzero(np.bincount(owner, minlength=found.count) > 1)
        self._last = np.full(found.count, -1, np.int64)
        if len(self.several):
            np.maximum.at(self._last, owner, np.concatenate([column.start for column in columns]))

    def kept(self, column: Column, taken: Bools) -> Bools:
        """Returns which values of a column are those of packets that are taken, and the last of their packet."""
        mine: Bools = taken[column.owner]
        return mine & (column.start == self._last[column.owner]) if len(self.several) else mine
