"""Steps that don't take equally long: what `ktrace summary` says of them, and `ktrace diff` against an even run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import ktrace
from ktrace.analysis.answers.diff.comparison import gate

from .comparisons import LIMIT, NEAR, slower
from .kineto import write
from .plants import uneven, wait_each_step
from .questions import Answered
from .world import build

#: Steps of these worlds, and what is drawn: jobs that are busy, whose host waits at the end of each step or not.
STEPS = (6, 7, 8, 12)


@dataclass(frozen=True)
class Uneven:
    """The finding that is right, which of so many steps are slow, and by how much at least and at most.

    With `pause`, the host pauses for so many ns instead.
    """

    code: str
    slow: Callable[[int, int, Random], list[int]]
    factor: tuple[float, float] = (1.0, 1.0)
    pause: int = 0


def _half(steps: int, first: int, chance: Random) -> list[int]:
    return list(range(chance.randint(2, steps - 2), steps))


def _between(steps: int, first: int, chance: Random) -> list[int]:
    begin = chance.randint(1, steps - 3)
    return list(range(begin, chance.randint(begin + 2, steps - 1)))


UNEVEN = {
    "nothing": Uneven("", lambda *_: []),
    "throttling": Uneven("unsteady.shift", _half, (1.2, 1.5)),
    "a pause every second step": Uneven("unsteady.period", lambda n, of, _: list(range(of % 2, n, 2)), pause=8_000_000),
    "every third step": Uneven("unsteady.period", lambda n, of, _: list(range(of % 3, n, 3)), (1.3, 1.6)),
    "throttling for a while": Uneven("unsteady.stretch", _between, (1.3, 1.6)),
    "one step": Uneven("unsteady.single", lambda n, _, chance: [chance.randint(1, n - 1)], (2.0, 3.0)),
    "a warm-up": Uneven("unsteady.warm-up", lambda *_: [0], (2.5, 4.0)),
}


def asked(seed: int, folder: Path, what: str) -> Answered:
    """Two runs of a job, one with slow steps: the finding of the summary, the gate of the comparison."""
    one, chance = UNEVEN[what], Random(f"uneven {seed}")
    steps = STEPS[seed % len(STEPS)]
    shape = {"steps": steps, "layers": 3, "scale": (0.4, 1.0)[seed % 2], "syncs": False, "uses_graph": False}
    slow = one.slow(steps, seed, chance)
    waits = [wait_each_step()] if seed % 3 or one.pause else []
    plant = uneven(slow, chance.uniform(*one.factor), one.pause)
    a, b = build(seed, plants=waits, **shape), build(seed, run=1, plants=[plant, *waits], **shape)
    diff = ktrace.diff(write(a, folder / "a.json"), write(b, folder / "b.json"), by=["kernel"])
    of_a, of_b = ([found for found in side.findings if "unsteady" in found.code] for side in (diff.a, diff.b))
    said, failed, truth = tuple(diff.b.verdict), gate(diff, LIMIT).failed, slower(a, b)
    if not one.code:
        return Answered(True, not of_b, not of_b, bool(of_a or of_b), not failed, said)
    mine = [found for found in of_b if found.code == one.code]
    first = bool(mine) and mine[0].subject["step"] == f"ProfilerStep#{10 + slow[0]}"
    right = failed == (truth > LIMIT) if abs(truth - LIMIT) > NEAR else None
    if one.code == "unsteady.warm-up":
        right = not failed
    else:
        first &= right is False or any("isn't steady: " in sentence for sentence in diff.verdict)
    return Answered(True, first, bool(mine), bool(of_a), right, said + tuple(diff.verdict))


#: Questions by name.
QUESTIONS: dict[str, Callable[[int, Path], Answered]] = {f"steps, {what}": partial(asked, what=what) for what in UNEVEN}
