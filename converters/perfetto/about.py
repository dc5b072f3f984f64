"""What the GPU Compute tab of ui.perfetto.dev (v55 and later) shows of a trace, and what the rest of it needs.

The tab finds arguments and counters by name; it hides a table if one of them is missing. A counter counts if it has a
value at the start of a kernel, which is a render stage of the category COMPUTE.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.arrays import Int64
from ktrace.report import Report, counted

from .reading.arguments import INT, Chunk, Values
from .reading.context import Context, Tracks
from .reading.messages import opened
from .reading.trace import TraceReader
from .writing.kernel_counters import OCCUPANCY

#: Table -> the names that it needs (alternatives: all names of one of them), and those that it shows if they exist.
#: Names of arguments begin with "argument ", names of counters with "counter ".
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
TABLES: dict[str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]] = {
    "Summary": ((), ("argument registers_per_thread", f"counter {_COMPUTE}", f"counter {_MEMORY}")),
    "Launch Statistics": (
        (("argument workgroup_size", "argument grid_size"),),
        ("argument registers_per_thread", "argument shared_mem_static", "argument shared_mem_dynamic"),
    ),
    "Occupancy": ((("argument sm__maximum_warps_per_active_cycle_pct", f"counter {OCCUPANCY}"),), ()),
    "Speed of Light": (((f"counter {_COMPUTE}", f"counter {_MEMORY}"), ("counter SQ_BUSY_CYCLES_avr",)), ()),
    "streams below their device": ((("argument device", "argument stream"),), ()),
}


class Tabs:
    """Gathers the arguments and counters that the tab needs."""

    def __init__(self) -> None:
        self.stages = 0
        self.kernels = 0
        self.arguments: Counter[str] = Counter()  # name -> kernels that have it
        self.texts: set[str] = set()  # names of arguments that have a value other than an integer
        self._starts: list[Int64] = []
        self._counters: defaultdict[str, list[Int64]] = defaultdict(list)

    def observe_stages(self, chunk: Chunk, values: Values, ts: Int64, is_kernel: Int64) -> None:
        """Takes render stages: their arguments, their times, and which of them are kernels."""
        self.stages += len(ts)
        self.kernels += int(np.count_nonzero(is_kernel))
        self._starts.append(ts[is_kernel > 0])
        of_kernels = is_kernel[values.row] > 0
        for key, count in zip(*np.unique(values.key[of_kernels], return_counts=True), strict=True):
            self.arguments[chunk.argument_names.texts[key]] += int(count)
        for key in np.unique(values.key[of_kernels & (values.value_type != INT)]).tolist():
            self.texts.add(chunk.argument_names.texts[key])

    def observe_counter(self, name: str, ts: Int64) -> None:
        """Takes the times at which a counter has values."""
        self._counters[name].append(ts)

    def _why_not(self, need: str) -> str | None:
        """The reason why something that a table needs is missing; None if it is there."""
        kind, name = need.split(" ", 1)
        if kind == "counter":
            if name not in self._counters:
                return f"no counter {name}"
            at_kernels = np.isin(np.concatenate(self._counters[name]), np.concatenate(self._starts)).any()
            return None if at_kernels else f"no value of the counter {name} at the start of a kernel"
        if name not in self.arguments:
            return f"no argument {name}"
        if name in ("device", "stream") and name in self.texts:
            return f"argument {name} is a text"
        return None

    def lines(self) -> list[str]:
        """Returns a line for each table."""
        if not self.kernels:
            what = f"{self.stages:,} render stages, none of the category COMPUTE" if self.stages else "no render stages"
            return [f"GPU Compute tab: hidden: {what}"]
        said = [f"GPU Compute tab: shows {counted(self.kernels, 'kernel')}"]
        for table, (needs, shown) in TABLES.items():
            reasons = [[why for need in needed if (why := self._why_not(need))] for needed in needs]
            if reasons and all(reasons):
                said.append(f"{table}: hidden: {reasons[0][0]}")
                continue
            absent = [need.split(" ", 1)[1] for need in shown if self._why_not(need)]
            said.append(f"{table}: shows" + (f", without {', '.join(absent)}" if absent else ""))
        return said


def about(source: Source) -> dict[str, list[str]]:
    """Returns heading -> lines for `ktrace info`. Raises InputError and its subclasses."""
    observer = Tabs()
    with opened(source) as data:
        conversion = Conversion(Report(), source.label)
        reader = TraceReader(Context(conversion, None, Tracks(source.label, None), observer=observer))
        for _ in reader.read(data):
            pass
    return {"in ui.perfetto.dev": observer.lines()}
