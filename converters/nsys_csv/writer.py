"""Writes one report of `nsys stats`: the one that the end of the file's name states."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.source import COMPRESSED
from ktrace.model.arrays import Bools
from ktrace.model.json_text import decoded
from ktrace.model.masks import truth, words_in
from ktrace.output.sink import Sink
from ktrace.stages.order.timeline import Timeline, TimelineBatch

from .gpu_trace import GpuTrace
from .kernel_sum import KernelSum

#: The end of a file's name -> the kinds of events in that report.
REPORTS = {
    "_cuda_gpu_trace.csv": ("kernel", "memcpy", "memset"),
    "_cuda_gpu_kern_sum.csv": ("kernel",),
}


class Writer:
    """A TimelineWriter of kernels, and in a trace of copies and memsets. The reports have no place for other rows.

    Rows that were laid out from a table have no time of their own: they aren't written.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        name = _plain_name(sink.path)
        ends = [end for end in REPORTS if name.endswith(end)]
        if not ends:
            raise UsageError(
                f"the name '{sink.path}' doesn't state the report of nsys",
                expected=f"a name that ends in {' or '.join(REPORTS)}",
                remedy="another name with -o, or another format with --to",
            )
        if conversion.options.get("gpu", "auto") != "auto":
            raise UsageError("--gpu is for Perfetto, nsys-csv has one form", remedy="leave it out")
        self._kinds = REPORTS[ends[0]]
        stream = sink.open()
        self._trace = GpuTrace(stream) if "memcpy" in self._kinds else None
        self._sum = None if self._trace else KernelSum(stream)
        #: What was left out of the last batch: "12 api, 3 arrow ends".
        self.left_out = ""

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks and the names of devices."""
        if self._trace:
            self._trace.start(timeline.tracks, timeline.catalog)

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows that the report has a place for, and returns their number."""
        mine = words_in(batch.column("kind"), self._kinds) & ~words_in(batch.column("timing"), ("synthetic",))
        if self._sum:
            mine &= truth(batch.column("dur").is_valid())
        self._note(batch, mine)
        rows = np.flatnonzero(mine)
        if len(rows) and self._trace:
            self._trace.write(batch.taken(rows), batch.track[rows])
        elif len(rows) and self._sum:
            found = batch.taken(rows)
            self._sum.write(found.column("name"), found.column("dur").to_numpy())
        return len(rows)

    def close(self) -> None:
        """Writes the sums."""
        if self._sum:
            self._sum.close()

    def _note(self, batch: TimelineBatch, mine: Bools) -> None:
        """Remembers the kinds of the rows that are left out."""
        left = decoded(batch.column("kind")).filter(pa.array(~mine)).to_pylist()
        counts = Counter(f"{kind} without a time" if kind in self._kinds else kind for kind in left)
        words = [f"{count:,} {kind}" for kind, count in counts.most_common()]
        self.left_out = ", ".join([*words, *([f"{batch.link_ends:,} arrow ends"] if batch.link_ends else [])])


def _plain_name(path: str) -> str:
    """The name of a file in lower case, without a suffix of compression."""
    name = Path(path).name.lower()
    return next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)
