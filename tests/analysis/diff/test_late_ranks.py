"""Ranks in a comparison: who is late, waiting apart from transfer, one rank alone; and sides that aren't alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from worlds import World, build, plants, write

import ktrace
from ktrace.analysis.answers.diff.comparison import Diff, gate
from ktrace.analysis.answers.diff.ranks import renamed

SHAPE = {"ranks": 2, "scale": 1.0, "batch": 1 << 18}
A, B = build(3, **SHAPE), build(3, run=1, plants=[plants.late_rank(1, 1.2)], **SHAPE)


def job(world: World, folder: Path, name: str, *, ranks: int = 2, device: str = "NVIDIA H100 80GB HBM3") -> Path:
    """The files of the ranks of a job, called as Kineto does, with the number of a process and a time."""
    for rank in range(ranks):
        (folder / name).mkdir(exist_ok=True)
        write(world, folder / name / f"node7_{len(name)}{rank}.172{name}.pt.trace.json", rank, device=device)
    return folder / name


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Diff:
    folder = tmp_path_factory.mktemp("late")
    return ktrace.diff(job(A, folder, "a"), job(B, folder, "bb"), by=["kernel", "stream", "source"])


def test_the_late_rank_comes_before_the_collectives_that_wait_for_it(late: Diff) -> None:
    first, *_ = late.verdict[1].split("; it arrives last in ")
    assert first.startswith("In bb the others wait ")
    assert " a step for rank 1 (0 ns in a), as its kernels take " in first or " in a), as its kernels take " in first
    assert "nccl" not in late.verdict[1]
    (found,) = (one for one in late.findings if one.code == "straggler")
    assert found.subject == {"side": "b", "rank": "1"} and found.evidence
    assert found.details["longer"] == "compute"


def test_waiting_is_apart_from_transfer(late: Diff) -> None:
    (found,) = (one for one in late.findings if one.code.startswith("collectives."))
    assert found.code == "collectives.waiting"  # the transfer takes as long as before
    sides = [side.answers["collective"] for side in (late.a, late.b)]
    waited = [sum(one.waited.total for one in side.ranks if one.waited) for side in sides]
    assert (found.details["a_ns"], found.details["b_ns"]) == tuple(ns / A.shape.steps for ns in waited)


def test_ranks_are_paired_by_what_the_files_state(late: Diff) -> None:
    assert [one.label for one in late.devices] == ["rank 0 device 0", "rank 1 device 1"]
    assert all(one.a and one.b for one in late.devices)
    assert {row.key for row in late.rows["source"]} == {"rank 0", "rank 1"}
    assert all(row.a and row.b for row in late.rows["stream"])
    assert renamed("abc device 0", {"ab": "rank 0"}) == "abc device 0"


def test_sums_over_ranks_are_called_so(late: Diff, tmp_path: Path) -> None:
    assert " on 2 devices together)." in late.verdict[1] and "got slower on 2 devices together: " in late.verdict[1]
    one, other = (job(world, tmp_path, name, ranks=1) for world, name in ((A, "a"), (B, "bb")))
    assert "together" not in " ".join(ktrace.diff(one, other).verdict)


def test_one_rank_alone_cannot_tell(tmp_path: Path) -> None:
    one, other = (job(world, tmp_path, name, ranks=1) for world, name in ((A, "a"), (B, "bb")))
    alone = "With one rank, waiting for others can't be told from transfer time."
    found = ktrace.diff(one, other)
    assert alone in found.verdict[1] and "Most of the change is in the other" not in found.verdict[1]
    assert not found.of_ranks
    assert alone not in " ".join(ktrace.diff(one, one).verdict)


@pytest.mark.parametrize("lacks", [0, 1])
def test_ranks_beside_a_missing_one_cannot_tell(lacks: int, tmp_path: Path) -> None:
    """What two ranks wait for a third one looks like transfer, unless its file is there."""
    shape = SHAPE | {"ranks": 3}
    worlds = build(3, **shape), build(3, run=1, plants=[plants.late_rank(1, 1.2)], **shape)
    sides = [job(world, tmp_path, name, ranks=3) for world, name in zip(worlds, ("a", "bb"), strict=True)]
    for path in [path for side in sides for path in side.iterdir() if lacks and path.name.split(".")[0].endswith("1")]:
        path.unlink()
    found = ktrace.diff(*sides)
    assert ("With 2 of 3 ranks, waiting for others can't be told" in found.verdict[1]) == bool(lacks)
    assert ("transfer takes" in found.verdict[1], bool(found.of_ranks)) == (False, not lacks)


def test_a_rank_that_is_no_longer_late(late: Diff) -> None:
    back = ktrace.diff(late.b, late.a)
    assert " the others wait " in back.verdict[1] and " for rank 1 (" in back.verdict[1]
    (found,) = (one for one in back.findings if one.code == "straggler")
    assert found.subject["side"] == "a" and found.value < 0


def test_other_numbers_of_ranks_are_compared_by_device(tmp_path: Path) -> None:
    more = build(3, run=1, **(SHAPE | {"ranks": 4}))
    found = ktrace.diff(job(A, tmp_path, "a"), job(more, tmp_path, "bb", ranks=4))
    assert found.verdict[0] == "Not like for like: a is of 2 ranks, bb of 4, so totals are averages of a device."
    assert found.whole.total_a == sum(group.steps.sum() for group in found.a.groups["kernel"]) / A.shape.steps / 2
    assert abs(found.whole.percent or 100) < 5
    assert not gate(found, 5).failed
    assert found.tables()[1].title.endswith("average per step and device")


def test_collectives_of_another_size_are_said_first(tmp_path: Path) -> None:
    shape = SHAPE | {"layers": 1}
    half = build(3, run=1, plants=[plants.smaller_batch(0.5)], **shape)
    found = ktrace.diff(job(build(3, **shape), tmp_path, "a"), job(half, tmp_path, "bb"))
    assert [one.code for one in found.differences] == ["differs.collective", "differs.copies"]
    assert found.verdict[0].startswith("Not like for like: all_reduce moves ")


def test_another_device_is_said_first_and_with_a_red_gate(tmp_path: Path) -> None:
    one, other = job(A, tmp_path, "a"), job(B, tmp_path, "bb", device="Tesla V100-SXM2-32GB")
    done = subprocess.run(
        [sys.executable, "-m", "ktrace", "diff", str(one), str(other), "--fail-over", "1%"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "Not like for like: a ran on NVIDIA H100 80GB HBM3, bb on Tesla V100-SXM2-32GB."
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, said)
    assert done.stderr.splitlines()[-1] == said
    same = ktrace.diff(one, job(A, tmp_path, "ccc"))
    assert not [code for code in (finding.code for finding in same.findings) if code.startswith("differs")]
    assert not same.verdict[0].startswith("Not alike")
