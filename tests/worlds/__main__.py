"""Measures how true ktrace's conclusions are: `python -m tests.worlds --seeds 200 --first 1000`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]

from worlds.comparisons import COMPARED  # noqa: E402
from worlds.questions import QUESTIONS as OTHERS  # noqa: E402
from worlds.questions import Answered  # noqa: E402

QUESTIONS = COMPARED | OTHERS


def _asked(ask: Callable[[int, Path], Answered], seed: int) -> Answered:
    with TemporaryDirectory() as folder:
        return ask(seed, Path(folder))


def main() -> None:
    """Prints a row for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="the first seed; limits were chosen on 0 to 399")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS), help=", ".join(QUESTIONS))
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    print("| question | worlds | exact tables | found first | found | wrongly accused | gate right |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in chosen.questions:
        with ProcessPoolExecutor(chosen.jobs) as pool:
            found = list(pool.map(partial(_asked, QUESTIONS[name]), seeds, chunksize=5))
        sums = [sum(getattr(one, column) for one in found) for column in ("is_exact", "first", "found", "accused")]
        gates = [one.gate for one in found if one.gate is not None]
        right = f"{sum(gates)} of {len(gates)}" if gates else ""
        print(f"| {name} | {len(found)} | {' | '.join(map(str, sums))} | {right} |", flush=True)
        for column, wrong in (("is_exact", False), ("first", False), ("accused", True), ("gate", False)):
            which = {seed: one.said for seed, one in zip(seeds, found, strict=True) if getattr(one, column) is wrong}
            if which:
                print(f"{name}: {column} is {wrong}, seeds {list(which)}", file=sys.stderr)
                print(
                    *(f"    {seed}: {' '.join(said)}" for seed, said in list(which.items())[:3]),
                    sep="\n",
                    file=sys.stderr,
                )


if __name__ == "__main__":
    main()
