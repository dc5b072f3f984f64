"""Doubles the size of an input until its conversion can be compared, and says whether it keeps to the budget."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from .held import covered
from .measure import COMMANDS, MOST_CPU, Cost, measure
from .shapes import SHAPES, records
from .source import Source

#: Twice the input costs at most so many times the CPU time and the memory.
MOST_TIME, MOST_MEMORY = 2.6, 1.3

#: CPU seconds that the smaller input counts at least: below it a clock's tick and a neighbour's cache decide.
LEAST_TIME = 0.1

#: Memory up to which it isn't compared, in bytes: what batches and buffers of a conversion take until they are full.
FREE = 96 << 20

#: The names of outputs.
OUTPUTS = {"perfetto": "out.perfetto", "parquet": "out.parquet", "jsonl": "out.jsonl", "chrome": "out.trace.json"}

#: Those that draw rows on a timeline.
TIMELINES = ("perfetto", "chrome")

#: What is measured: outputs of a conversion, and commands that answer.
MEASURED = (*OUTPUTS, *COMMANDS)


@dataclass(frozen=True)
class Effort:
    """How much is measured: seconds of CPU of the smaller input, and the most rows and bytes of a value in it."""

    cpu: float = 0.35
    rows: int = 400_000
    length: int = 24_000_000
    #: Runs of each size of which the least counts.
    runs: int = 1
    size: int | None = None

    def most(self, shape: str) -> int:
        """The greatest size of the smaller input."""
        return self.length if SHAPES[shape].is_long else self.rows


@dataclass
class Verdict:
    """What each size of a row, a shape and an output cost beyond a tiny input, and what is over the budget."""

    sample: str
    shape: str
    output: str
    costs: dict[int, Cost] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)

    def ratio(self, once: int) -> tuple[float, float]:
        """Returns how many times the time and the memory of a size that of twice its size are."""
        small, large = self.costs[once], self.costs[2 * once]
        memory = large.memory / max(1, small.memory)
        return large.cpu / max(LEAST_TIME, small.cpu), memory

    @property
    def once(self) -> int:
        """The smaller of the first two sizes that are compared."""
        return min(size for size in self.costs if 2 * size in self.costs)

    def line(self) -> str:
        """Returns the figures as a line."""
        once = self.once
        time, memory = self.ratio(once)
        small, large = self.costs[once], self.costs[2 * once]
        figures = f"{once:>10,} {small.cpu:6.2f} s {large.cpu:6.2f} s {time:5.2f} {small.memory >> 20:5} MB"
        figures += f" {large.memory >> 20:5} MB {memory:5.2f} {large.memory / (2 * once):8.1f} bytes each"
        over = "".join(f"  OVER: {what}" for what in self.over)
        return f"{self.sample:75} {self.shape:8} {self.output:8} {figures}  {large.outcome[:60]}{over}"


class Trial:
    """One row, one shape, one output."""

    def __init__(self, source: Source, shape: str, output: str, effort: Effort, folder: Path) -> None:
        self._source, self._shape, self._effort, self._folder = source, shape, effort, folder
        self._output = output
        self.verdict = Verdict(source.sample, shape, output)
        self._tiny = min(self._cost("rows", 3) for _ in range(2))

    def run(self) -> Verdict:
        """Measures, and again what is over the budget."""
        once = self._first()
        for size in (once, 2 * once):
            self._again(size, self._effort.runs)
        if self._is_slow(once):
            for size in (once, 2 * once):
                self._again(size, 3)
        if self._is_slow(once) or self._is_large(once):
            self._again(4 * once, 1)
            self._judge(once)
        return self.verdict

    def _judge(self, once: int) -> None:
        """Says what is over the budget at both steps."""
        if self._is_slow(once) and self._is_slow(2 * once):
            self._again(4 * once, 3)
            if self._is_slow(2 * once):
                both = [self.verdict.ratio(size)[0] for size in (once, 2 * once)]
                self.verdict.over.append(f"time {both[0]:.1f} and {both[1]:.1f} times")
        if self._is_large(once) and self._is_large(2 * once):
            costs = self.verdict.costs
            unit = (costs[4 * once].memory - costs[2 * once].memory) / (2 * once)
            table = self._output in TIMELINES and "start" not in self._source.fields
            if not covered(self._shape, unit, table=table):
                self.verdict.over.append(f"memory {unit:.1f} bytes more for each unit more")

    def _is_slow(self, size: int) -> bool:
        return self.verdict.ratio(size)[0] > MOST_TIME

    def _is_large(self, size: int) -> bool:
        return self.verdict.costs[2 * size].memory > FREE and self.verdict.ratio(size)[1] > MOST_MEMORY

    def _first(self) -> int:
        """Returns a size whose conversion takes long enough, or the greatest one."""
        if self._effort.size:
            return self._effort.size
        most = self._effort.most(self._shape)
        size = 30_000 if SHAPES[self._shape].is_long else 1000
        while size < most:
            cpu = self._cost(self._shape, size).cpu - self._tiny.cpu
            if cpu >= self._effort.cpu:
                break
            size = int(min(most, size * min(16.0, max(2.0, 1.3 * self._effort.cpu / max(cpu, 0.01)))))
        return size

    def _again(self, size: int, runs: int) -> None:
        """Measures a size so many times; the least of all figures counts."""
        found = [self._cost(self._shape, size) for _ in range(runs)]
        above = [
            Cost(cost.cpu - self._tiny.cpu, max(0, cost.memory - self._tiny.memory), cost.outcome) for cost in found
        ]
        if size in self.verdict.costs:
            above.append(self.verdict.costs[size])
        cpu, memory = min(cost.cpu for cost in above), min(cost.memory for cost in above)
        self.verdict.costs[size] = Cost(max(cpu, 1e-3), memory, above[0].outcome)

    def _cost(self, shape: str, size: int) -> Cost:
        folder = self._folder / "in"
        folder.mkdir()
        try:
            path = self._source.write(folder, records(shape, size))
            cost = measure(path, self._folder / OUTPUTS.get(self._output, self._output), self._source.format)
        finally:
            shutil.rmtree(folder)
        if cost.cpu > MOST_CPU:
            raise TimeoutError(f"{self._source.sample}: {shape} of {size:,} to {self._output}: {cost.outcome}")
        if cost.outcome.startswith(("failed", "ended")):
            raise RuntimeError(f"{self._source.sample}: {shape} of {size:,} to {self._output}: {cost.outcome}")
        return cost
