"""`ktrace batch` with one process and with two: eight ranks of PyTorch become a dataset.

    python benchmarks/batch.py [--events 1000000] [--keep FOLDER]

The input is made by ../shared/tools/make_kineto.py; the ranks are links to it. What counts is how many times faster
two processes are; on a machine that does something else, too, that is less than they could be.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kineto import made
from process import Figures, alone, ktrace

#: Ranks, and the processes that read them.
RANKS = 8
JOBS = (1, 2)


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Seconds and memory with each number of processes, and the seconds of one by those of two."""
    trace = made(folder, events).resolve()
    ranks = folder / f"ranks.{events}"
    ranks.mkdir(exist_ok=True)
    for rank in range(RANKS):
        link = ranks / f"rank{rank}.json"
        link.unlink(missing_ok=True)
        link.symlink_to(trace)
    results = {}
    for jobs in JOBS:
        runs = [_once(ranks, folder / "run.parquet", jobs) for _ in range(times)]
        results[f"batch of {RANKS} x {events:,} events, --jobs {jobs}"] = min(runs, key=lambda run: run["wall s"])
    one, two = (figures["wall s"] for figures in results.values())
    return results | {"two processes against one": {"times": one / two}}


def _once(ranks: Path, out: Path, jobs: int) -> Figures:
    figures = ktrace("batch", f"{ranks}/*.json", "-o", out, "--jobs", jobs, times=1)
    shutil.rmtree(out)
    return figures


if __name__ == "__main__":
    alone(measure, "--events", 1_000_000, __file__, __doc__)
