"""Measures where the CPU time of a conversion goes: reading, order, writing.

    python benchmarks/stages.py k.json [--to k.perfetto] [--jobs 1] [--times 3]

Each conversion runs in a process of its own; the smallest figures are shown. "all threads" is the CPU time of the
process in that stage, "main thread" what its first thread alone takes, and so the least that the stage can take.
With several jobs, what children do isn't included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Clocks = tuple[float, float]


def _now() -> Clocks:
    return time.process_time(), time.thread_time()


class Stages:
    """The CPU times of the stages of a conversion in this process."""

    def __init__(self) -> None:
        self.spent: dict[str, Clocks] = {}

    def add(self, stage: str, since: Clocks) -> None:
        """Adds the time since then to a stage."""
        spent = self.spent.get(stage, (0.0, 0.0))
        self.spent[stage] = tuple(a + b - c for a, b, c in zip(spent, _now(), since, strict=True))  # type: ignore[assignment]

    def reading(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yields the batches, and adds what each takes."""
        source = iter(batches)
        while True:
            start = _now()
            batch = next(source, None)
            self.add("reading", start)
            if batch is None:
                return
            yield batch


def measure(source: str, output: str, jobs: str) -> dict[str, Clocks]:
    """Converts in this process, and returns stage -> CPU seconds of all threads, of the main thread."""
    stages = Stages()
    from ktrace.parallel.startup import tune_allocator

    tune_allocator()  # as the command does
    import ktrace.stages.order as stage
    from ktrace.pipeline.convert import convert

    stages.add("start-up", (0.0, 0.0))
    order = stage.order

    def ordered(batches: Any, *args: Any, **options: Any) -> Any:
        start = _now()
        timeline = order(stages.reading(batches), *args, **options)
        stages.add("order", start)
        return timeline

    stage.order = ordered
    start = _now()
    convert(source, output, overwrite=True, jobs=int(jobs))
    stages.add("writing", start)
    for inner, outer in (("order", "writing"), ("reading", "order")):
        stages.spent[outer] = tuple(a - b for a, b in zip(stages.spent[outer], stages.spent[inner], strict=True))  # type: ignore[assignment]
    return stages.spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--to", default="")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.input, options.to, options.jobs)))
        return
    with tempfile.TemporaryDirectory() as folder:
        to = options.to or str(Path(folder) / "out.perfetto")
        command = [sys.executable, __file__, options.input, "--to", to, "--jobs", options.jobs, "--here"]
        found = [json.loads(subprocess.check_output(command)) for _ in range(options.times)]
    print(f"{'':10}{'all threads':>14}{'main thread':>14}")
    for stage in found[0]:
        least = [min(run[stage][which] for run in found) for which in range(2)]
        print(f"{stage:10}{least[0]:12.2f} s{least[1]:12.2f} s")


if __name__ == "__main__":
    main()
