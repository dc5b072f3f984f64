"""What ktrace is asked about worlds, and whether it was right.

Each question plants one thing in the world of a seed, writes it, asks, and compares with the truth.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ktrace
from ktrace.analysis.collectives.model import CollectivesAnswer

from . import plants
from .kineto import write
from .truth import collectives, waited_for
from .world import World, build


@dataclass(frozen=True)
class Answered:
    """Of one world: whether the tables are the truth, what was planted is named first, or at all, or another is."""

    is_exact: bool
    first: bool = False
    found: bool = False
    accused: bool = False


def late_rank(seed: int, folder: Path) -> Answered:
    """A rank whose host and kernels take 10 to 30 % longer; of every third world, a clock is ahead.

    Nothing else is wrong in these worlds: kernels take longer than their launch, and batches are small.
    """
    ranks = 2 + seed % 4
    late = seed % ranks
    ahead = {(late + 1) % ranks: 700_000 * (seed % 7 + 1)} if seed % 3 == 0 else {}
    plant = plants.late_rank(late, 1.1 + seed % 5 / 20)
    world = build(seed, ranks=ranks, plants=[plant], offsets=ahead, scale=(0.4, 1.0, 2.0)[seed % 3], batch=1 << 18)
    return _of_ranks(world, folder, late)


def noise_of_ranks(seed: int, folder: Path) -> Answered:
    """Ranks that differ by noise alone; of every third world, a clock is ahead."""
    ranks = 2 + seed % 4
    ahead = {seed % ranks: 700_000 * (seed % 7 + 1)} if seed % 3 == 0 else {}
    return _of_ranks(build(seed, ranks=ranks, offsets=ahead), folder, None)


def _of_ranks(world: World, folder: Path, late: int | None) -> Answered:
    paths = [write(world, folder / f"rank{rank}.json", rank) for rank in range(world.shape.ranks)]
    found = ktrace.summary(paths, by=["collective"])
    answer = found.answers["collective"]
    assert isinstance(answer, CollectivesAnswer)
    waited = {one.rank: one.others_waited.total if one.others_waited else 0 for one in answer.ranks}
    true = collectives(world)
    skews = sorted(max(one.begins) - min(one.begins) for one in true)
    stated = sorted((use.skew.max for use in answer.collectives if use.skew), reverse=True)
    exact = waited == waited_for(world) and answer.joint == len(true) and stated[:1] == skews[-1:]
    named = re.findall(r"rank (\d+), which the others wait for", " ".join(found.verdict))
    first = re.search(r"Look first at rank (\d+)", " ".join(found.verdict))
    late_name = None if late is None else str(late)
    is_first = first is not None and first[1] == late_name
    return Answered(exact, is_first, named == [late_name], any(one != late_name for one in named))


#: Questions by name.
QUESTIONS: dict[str, Callable[[int, Path], Answered]] = {"late rank": late_rank, "ranks, noise": noise_of_ranks}
