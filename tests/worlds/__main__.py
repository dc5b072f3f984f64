"""Measures how true ktrace's conclusions are: `python -m tests.worlds --seeds 200 --first 1000`.

`--real TRACE.json.gz ...` plants changes in real traces instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]

from worlds import real  # noqa: E402
from worlds.comparisons import COMPARED  # noqa: E402
from worlds.jobs import QUESTIONS as JOBS  # noqa: E402
from worlds.questions import QUESTIONS as OTHERS  # noqa: E402
from worlds.questions import Answered  # noqa: E402
from worlds.uneven import QUESTIONS as UNEVEN  # noqa: E402

QUESTIONS = COMPARED | OTHERS | UNEVEN | JOBS


def _asked(ask: Callable[[int, Path], Answered], seed: int) -> Answered:
    with TemporaryDirectory() as folder:
        return ask(seed, Path(folder))


def main() -> None:
    """Prints a row for each question, or for each thing planted in real traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="the first seed; limits were chosen on 0 to 399")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--real", type=Path, nargs="+", default=[], metavar="TRACE", help="PyTorch's, with steps")
    parser.add_argument("questions", nargs="*", default=list(QUESTIONS), help=", ".join(QUESTIONS))
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    print("| question | worlds | exact tables | found first | found | wrongly accused | gate right |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    if chosen.real:
        _of_real(chosen.real, seeds)
        return
    for name in chosen.questions:
        with ProcessPoolExecutor(chosen.jobs) as pool:
            found = list(pool.map(partial(_asked, QUESTIONS[name]), seeds, chunksize=5))
        _print(name, dict(zip(seeds, found, strict=True)))


def _of_real(paths: Sequence[Path], seeds: Sequence[int]) -> None:
    found: dict[str, dict[str, Answered]] = {what: {} for what in real.PLANTED}
    for path in paths:
        for seed in seeds:
            with TemporaryDirectory() as folder:
                answers = real.asked(path, seed, Path(folder))
            for what, one in answers.items():
                found[what][f"{path.name} {seed}"] = one
                print(path.name, seed, what, one, file=sys.stderr, flush=True)
    for what, mine in found.items():
        _print(f"real, {what}", {key: one for key, one in mine.items() if one.known})
        if within := {key: one for key, one in mine.items() if not one.known}:
            _print(f"real, {what}, within the spread", within)


def _print(name: str, answers: Mapping[Any, Answered]) -> None:
    """Prints the sums of a question, and what was wrong to the standard error."""
    found = list(answers.values())
    sums = [sum(getattr(one, column) for one in found) for column in ("is_exact", "first", "found", "accused")]
    gates = [one.gate for one in found if one.gate is not None]
    right = f"{sum(gates)} of {len(gates)}" if gates else ""
    print(f"| {name} | {len(found)} | {' | '.join(map(str, sums))} | {right} |", flush=True)
    for column, wrong in (("is_exact", False), ("first", False), ("accused", True), ("gate", False)):
        which = {seed: one.said for seed, one in answers.items() if getattr(one, column) is wrong}
        if which:
            print(f"{name}: {column} is {wrong}, seeds {list(which)}", file=sys.stderr)
            lines = (f"    {seed}: {' '.join(said)}" for seed, said in list(which.items())[:3])
            print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
