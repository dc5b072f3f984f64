"""Jobs with known truth in `ktrace batch --fleet`: what is planted is said first, and noise accuses nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nightly import examples

from ktrace.fleet.answer import sentences
from ktrace.fleet.reduced import BETWEEN_STAGES, COMPUTED, EXPOSED, IDLE, SPAN
from ktrace.fleet.run import fleet
from ktrace.fleet.together import Fleet as Told
from ktrace.fleet.together import best_bubble

from .fleets import Fleet

#: Of each kind.
WORLDS = range(examples(3))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads in this process: a worker takes two seconds to start."""
    monkeypatch.setattr("ktrace.fleet.executor.can_start", lambda: False)


def told(tmp_path: Path, seed: int = 0, **shape: Any) -> tuple[Fleet, Told, list[str]]:
    """The job, what ktrace says of it, and the sentences."""
    world = Fleet(seed=seed, **shape)
    answer = fleet(str(world.write(tmp_path / f"run{seed}")), tmp_path / f"out{seed}")
    assert answer.report.failed == {}
    return world, answer, sentences(answer)


def test_times_are_those_of_the_world_to_the_ns(tmp_path: Path) -> None:
    world, answer, _ = told(tmp_path, replicas=4, width=2, late={3: 1.1})
    steps = slice(1, None)  # the host of the first step begins before the device
    assert np.array_equal(answer.own[:, steps], world.own.T[:, steps])
    flat = [one.reshape(world.steps, -1).T for one in (world.computed, world.exposed, world.waited)]
    assert np.array_equal(answer.times[COMPUTED], flat[0])
    assert np.array_equal(answer.times[EXPOSED], flat[1])
    assert np.array_equal(answer.waited, flat[2])


@pytest.mark.parametrize("seed", WORLDS)
@pytest.mark.parametrize("shape", [{"replicas": 8}, {"stages": 2, "replicas": 4, "width": 2}], ids=["flat", "stages"])
def test_a_chronic_straggler_is_said_first(tmp_path: Path, seed: int, shape: dict[str, int]) -> None:
    late = 3 + 2 * seed
    _, answer, said = told(tmp_path, seed, late={late % (8 * shape.get("stages", 1)): 1.12}, **shape)
    assert said[0].startswith(f"Rank {late % (8 * shape.get('stages', 1))} ")
    assert "slow throughout: the slowest of 8 peers in 6 of 6 steps" in said[0]
    assert len(answer.chronic) == 1
    assert answer.passing == []


@pytest.mark.parametrize("seed", WORLDS)
def test_a_passing_straggler_is_said_first_with_its_steps(tmp_path: Path, seed: int) -> None:
    _, answer, said = told(tmp_path, seed, replicas=8, passing={(seed + 2, 3): 1.4, (seed + 2, 4): 1.4})
    assert said[0].startswith(f"Rank {seed + 2} (node0) is slow for a while: in steps 3, 4 of 6 ")
    assert answer.chronic == []
    assert [(answer.ranks[one.place].rank, one.steps, one.last) for one in answer.passing] == [(seed + 2, [3, 4], 2)]


@pytest.mark.parametrize("seed", WORLDS)
def test_noise_accuses_nobody(tmp_path: Path, seed: int) -> None:
    _, answer, said = told(tmp_path, seed, replicas=12, noise=0.04)
    assert said[0] == "No rank stands out: none is slow throughout or for a while."
    assert (answer.chronic, answer.passing) == ([], [])


def test_what_chance_may_explain_is_said_without_a_name(tmp_path: Path) -> None:
    _, answer, said = told(tmp_path, replicas=8, steps=3, late={3: 1.12})
    assert said[0].startswith(
        "1 rank takes 2% of a step and more beyond the peers, but steps are too few, or ranks too "
    )
    assert answer.chronic == []
    _, _, said = told(tmp_path, 1, replicas=8, steps=6, late={3: 1.12})
    assert not any("to tell that from chance" in one for one in said)


def test_a_slow_host_is_one_sentence(tmp_path: Path) -> None:
    _, answer, said = told(tmp_path, replicas=136, late=dict.fromkeys(range(16, 24), 1.1), layers=1, micro=2, kernels=2)
    assert said[0].startswith("All 8 ranks of node2 (16 to 23) are slow throughout: their own work takes ")
    assert not any("Rank " in one for one in said)
    assert len(answer.chronic) == 8


@pytest.mark.parametrize("seed", WORLDS)
def test_bubbles_are_those_of_the_schedule(tmp_path: Path, seed: int) -> None:
    shape: dict[str, Any] = {"stages": 2 + seed, "micro": 3 + seed, "replicas": 4, "noise": 0.002}
    world, answer, said = told(tmp_path, seed, **shape)
    deep, micro = shape["stages"], shape["micro"]
    best = 100 * (deep - 1) / (micro + deep - 1)
    assert best_bubble(answer) == (deep, micro, best)
    assert said[0].startswith("Pipeline bubbles are ")
    assert f"; {deep} stages and {micro} micro-batches have at least {best:.1f}% without interleaving." in said[0]
    walls = np.diff(np.stack(world.bounds), axis=0)
    collectives = 60_000 + world.waited
    of_world = 100 * (walls - world.computed - collectives) / walls
    for one in answer.stages:
        assert one.bubble == pytest.approx(float(np.median(of_world[:, one.stage])), abs=0.3)
        assert best < one.bubble < best + 6  # what is sent takes time, too
    parts = answer.times[COMPUTED] + answer.times[EXPOSED] + answer.times[IDLE]
    assert np.array_equal(parts, answer.times[SPAN])
    assert (answer.times[BETWEEN_STAGES] <= answer.times[EXPOSED]).all()


def test_unequal_stages_are_said(tmp_path: Path) -> None:
    _, _, said = told(tmp_path, stages=3, replicas=4, late=dict.fromkeys(range(4, 8), 1.3))
    assert any(one.startswith("Stages aren't equal: stage 1 computes ") for one in said)
    _, _, said = told(tmp_path, 1, stages=3, replicas=4)
    assert not any(one.startswith("Stages aren't equal") for one in said)


@pytest.mark.parametrize("seed", WORLDS)
def test_experts_out_of_balance_are_said_first_with_their_factor(tmp_path: Path, seed: int) -> None:
    world, answer, said = told(tmp_path, seed, replicas=4, width=4, hot=(seed, 1.5 + seed / 2))
    factor = (1.5 + seed / 2) * 4 / (3 + 1.5 + seed / 2)
    assert said[0].startswith("Experts are out of balance: the busiest rank of group ")
    assert f" gets {factor:.2f} times the mean of an exchange (median of 4 groups {factor:.2f})" in said[0]
    assert sorted(one.busiest.rank or 0 for one in answer.experts) == [seed, seed + 4, seed + 8, seed + 12]
    assert sum(one.moved for one in answer.experts) == int(world.received.sum())


def test_balanced_experts_are_said_to_be(tmp_path: Path) -> None:
    _, _, said = told(tmp_path, replicas=4, width=4, hot=(0, 1.0))
    assert "All-to-all is balanced: no rank gets more than 1.00 times the mean of its group." in said
    assert not any("out of balance" in one for one in said)


@pytest.mark.parametrize("seed", WORLDS)
def test_a_slow_link_is_said_first(tmp_path: Path, seed: int) -> None:
    _, answer, said = told(tmp_path, seed, replicas=8, width=2, slow_link=(0, seed + 1, 2.0))
    first = 2 * (seed + 1)
    assert said[0].startswith(f"The link of ranks [{first}, {first + 1}] (node0) is slow: all_reduce of 4.2 MB moves ")
    assert "50% of the median of 8 alike, and takes 240 us a step longer." in said[0]
    assert answer.chronic == []  # its ranks aren't slow themselves


def test_equal_links_are_not_called_slow(tmp_path: Path) -> None:
    _, answer, said = told(tmp_path, replicas=8, width=2)
    assert answer.links
    assert not any("link" in one for one in said)
