"""The exit code of `ktrace diff --fail-over` in worlds whose truth is known, with and without steps in the file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktrace.cli import cli
from worlds import Truth, World, build, plants, write
from worlds.test_diff import FOUND, WORLDS, WRONG
from worlds.world import Plant

LIMIT = 5.0
#: Truth this near to the limit, in percent, may go either way.
NEAR = 3.0

PLANTED: dict[str, Plant | None] = {
    "noise": None,
    "a slower kernel": plants.slow_kernel("gemm", 1.3),
    "a slow loader": plants.slow_loader(30_000_000),
    "an extra copy": plants.extra_copy(1 << 23),
    "a smaller batch": plants.smaller_batch(0.5),
    "a faster kernel": plants.slow_kernel("gemm", 0.7),
}


def slower(a: World, b: World) -> float:
    """By how much the whole got slower, in percent: all work in the steps, or the time of everything."""
    before, after = (sum(step.work for step in Truth(world).steps()) for world in (a, b))
    return max(100 * (after / before - 1), 100 * (b.span / a.span - 1))


@pytest.mark.parametrize("what", PLANTED)
def test_the_exit_code_is_the_truth(tmp_path: Path, what: str) -> None:
    plant, wrong, judged = PLANTED[what], [], 0
    for seed in range(WORLDS):
        a, b = build(seed, layers=4), build(seed, run=1, plants=[plant] if plant else (), layers=4)
        paths = write(a, tmp_path / "a.json"), write(b, tmp_path / "b.json")
        found = CliRunner().invoke(cli, ["diff", *map(str, paths), "--by", "kernel", "--fail-over", f"{LIMIT}%"])
        truth = slower(a, b)
        if abs(truth - LIMIT) > NEAR:
            judged += 1
            if (found.exit_code == 3) != (truth > LIMIT):
                wrong.append((seed, truth, found.exit_code, found.stdout.split("\n\n")[0], found.stderr))
    assert len(wrong) <= math.ceil(((1 - FOUND) if plant else WRONG) * judged), wrong
    assert judged
