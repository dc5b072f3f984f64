"""The first three lines of `ktrace summary` in worlds with a late rank, with a slow loader, and with neither."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import ktrace
from worlds import build, plants, waited_for, write
from worlds.test_diff import FOUND, WORLDS, WRONG
from worlds.world import World


def look(world: World, tmp_path: Path) -> str:
    """The third line, about all ranks."""
    paths = [write(world, tmp_path / f"rank{rank}.json", rank) for rank in range(world.shape.ranks)]
    asked = ["kernel"]  # what proves it isn't asked for
    return ktrace.summary(paths, by=asked).verdict[-1]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_late_rank_is_named(tmp_path: Path, ranks: int) -> None:
    missed, wrong = [], []
    for seed in range(WORLDS):
        late = seed % ranks
        world = build(seed, ranks=ranks, layers=4, scale=0.4, plants=[plants.late_rank(late, 1.5)])
        said, waits = look(world, tmp_path), waited_for(world)
        assert max(waits, key=waits.__getitem__) == late
        if f"rank {late}, which the others wait for" not in said:
            missed.append((seed, late, said))
        if any(f"rank {rank}, which" in said for rank in range(ranks) if rank != late):
            wrong.append((seed, late, said))
    assert len(missed) <= math.ceil((1 - FOUND) * WORLDS), missed
    assert len(wrong) <= math.ceil(WRONG * WORLDS), wrong


def test_no_rank_is_accused_of_noise(tmp_path: Path) -> None:
    wrong = []
    for seed in range(WORLDS):
        said = look(build(seed, ranks=4, layers=4, scale=0.4), tmp_path)
        if "which the others wait for" in said:
            wrong.append((seed, said))
    assert len(wrong) <= math.ceil(WRONG * WORLDS), wrong


def test_a_slow_loader_is_looked_at_first(tmp_path: Path) -> None:
    missed = []
    for seed in range(WORLDS):
        said = look(build(seed, layers=4, plants=[plants.slow_loader(30_000_000)]), tmp_path)
        if not (said.startswith("Look first at the host, which queues too little work") and "DataLoader" in said):
            missed.append((seed, said))
    assert len(missed) <= math.ceil((1 - FOUND) * WORLDS), missed
