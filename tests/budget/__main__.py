"""The command line: `python -m tests.budget`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import __doc__ as about
from .judge import MEASURED, Effort, Trial
from .measure import warm
from .rows import LEFT_OUT, sources
from .selection import SELECTION
from .shapes import SHAPES
from .source import Source


def main() -> int:
    """Measures what was asked for; the exit code says whether something is over the budget."""
    known = list(sources())
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=about, formatter_class=_Plain)
    parser.add_argument("--format", nargs="+", choices=known, default=known, metavar="NAME", help="by default all")
    parser.add_argument(
        "--shape", nargs="+", choices=list(SHAPES), default=list(SHAPES), metavar="SHAPE", help="by default all"
    )
    parser.add_argument(
        "--output",
        nargs="+",
        choices=MEASURED,
        default=["perfetto", "parquet"],
        metavar="NAME",
        help=f"of {', '.join(MEASURED)}",
    )
    parser.add_argument("--sample", default="", metavar="TEXT", help="only samples with this text in their name")
    parser.add_argument("--size", type=int, help="rows, or bytes of a long value, of the smaller input")
    parser.add_argument("--cpu", type=float, default=Effort.cpu, metavar="S", help="CPU seconds of the smaller input")
    parser.add_argument("--rows", type=int, default=Effort.rows, help="the most rows of the smaller input")
    parser.add_argument("--length", type=int, default=Effort.length, help="the most bytes of a long value")
    parser.add_argument("--runs", type=int, default=Effort.runs, help="runs of a size, of which the least counts")
    parser.add_argument("--selection", action="store_true", help="the nightly cases, with sizes of their own")
    asked = parser.parse_args()
    effort = Effort(cpu=asked.cpu, rows=asked.rows, length=asked.length, runs=asked.runs, size=asked.size)
    warm()
    if asked.selection:
        kept = [_keeps(one.source, one.shape, one.output, Effort(size=one.size, runs=2)) for one in SELECTION]
        return int(not all(kept))
    over = 0
    for source in (one for name in asked.format for one in sources()[name] if asked.sample in one.sample):
        for shape in asked.shape:
            if why := source.lacks(shape):
                print(f"{source.sample:75} {shape:8} not measured: {why}", flush=True)
                continue
            for output in asked.output:
                over += not _keeps(source, shape, output, effort)
    for name, why in LEFT_OUT.items():
        print(f"{name}: no inputs: {why}")
    print(f"{over} over the budget")
    return int(bool(over))


def _keeps(source: Source, shape: str, output: str, effort: Effort) -> bool:
    """Measures and prints a case; returns whether it keeps to the budget."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict = Trial(source, shape, output, effort, Path(folder)).run()
        except (RuntimeError, TimeoutError) as error:
            print(f"OVER: {error}", flush=True)
            return False
    print(verdict.line(), flush=True)
    return not verdict.over


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    sys.exit(main())
