"""A rank that is late in some steps of a run is named with these; one that is late throughout, or by chance, isn't."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ktrace
from ktrace.analysis.answers.summary.summary import Summary

#: How many times as long the kernel of a rank takes in a step.
Slow = Callable[[int, int], float]


def summary_of(folder: Path, slow: Slow, *, ranks: int = 4, steps: int = 12, seed: int = 1) -> Summary:
    """The summary of a job."""
    return ktrace.summary(job(folder, slow, ranks=ranks, steps=steps, seed=seed), by=["operation"])


def job(folder: Path, slow: Slow, *, ranks: int = 4, steps: int = 12, seed: int = 1, marked: bool = True) -> list[Path]:
    """The traces of a job: two kernels a step on each rank, of 400 us with 1 % of noise, each before an all-reduce.

    Steps are `marked` by ranges or not.
    """
    noise, now, number = random.Random(seed), 1_000_000, 0
    events: list[list[dict[str, object]]] = [[] for _ in range(ranks)]
    for step in range(steps):
        begin = now
        for _ in range(2):
            number += 1
            done = [now + round(400_000 * slow(rank, step) * noise.gauss(1, 0.01)) for rank in range(ranks)]
            end = max(done) + 60_000
            for rank in range(ranks):
                for name, since, until, stream in (("gemm", now, done[rank], 7), ("nccl", done[rank], end, 20)):
                    events[rank] += _launched(
                        name, since, until, stream, rank, 2 * number + (stream == 20), now - 9_000
                    )
            now = end + 10_000
        for rank in range(ranks):
            place = {"pid": 4000 + rank, "tid": 1, "ts": (begin - 9_500) / 1000, "dur": (now - begin - 1_000) / 1000}
            if marked:
                events[rank].append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 10}", **place})
    paths = []
    for rank in range(ranks):
        about = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": ranks}}
        paths.append(folder / f"rank{rank}.json")
        clock = {"baseTimeNanoseconds": 1_760_000_000_000_000_000}
        paths[-1].write_text(json.dumps(about | clock | {"traceEvents": events[rank]}))
    return paths


def _launched(
    name: str, since: int, until: int, stream: int, rank: int, number: int, call: int
) -> list[dict[str, object]]:
    """A kernel or an all-reduce, and the call that launched it."""
    args: dict[str, object] = {"device": rank, "stream": stream, "correlation": number}
    if name == "nccl":
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
        args |= {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20}
        args |= {"Group size": 4, "Seq": number, "Process Group Name": "0"}
    times = {"ts": since / 1000, "dur": (until - since) / 1000}
    launch = {"pid": 4000 + rank, "tid": 1, "ts": call / 1000, "dur": 2.0, "args": {"correlation": number}}
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **launch},
        {"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, **times, "args": args},
    ]


def named(summary: Summary) -> list[dict[str, object]]:
    """The rank that is named, and the steps."""
    found = [one for one in summary.findings if one.code == "straggler"]
    return [{key: one.subject.get(key) for key in ("rank", "first_step", "last_step")} for one in found]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("ranks", "first", "last"), [(4, 0, 5), (4, 6, 11), (4, 4, 8), (2, 5, 9), (8, 8, 11)], ids=str)
def test_a_rank_is_named_with_the_steps_in_which_it_is_late(
    ranks: int, first: int, last: int, seed: int, tmp_path: Path
) -> None:
    late = ranks - 1
    summary = summary_of(
        tmp_path, lambda rank, step: 1.3 if rank == late and first <= step <= last else 1, ranks=ranks, seed=seed
    )
    assert named(summary) == [{"rank": str(late), "first_step": first + 10, "last_step": last + 10}]
    words = f"rank {late} in steps {first + 10} to {last + 10}, which the others wait for"
    assert any(words in line for line in summary.verdict)
    one = next(one for one in summary.findings if one.code == "straggler")
    times = 2 * (last - first + 1)
    assert one.details == {"last": times, "joint": times}
    planted = times * 120_000 * (ranks - 1)
    assert one.value == pytest.approx(planted, rel=0.15)
    assert f"{times} of {times} collectives there" in " ".join(summary.verdict)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("steps", "first", "last"), [(12, 0, 5), (12, 6, 11), (30, 11, 18), (24, 12, 20)], ids=str)
def test_without_steps_the_collectives_are_named(steps: int, first: int, last: int, seed: int, tmp_path: Path) -> None:
    """To the length of a sixteenth of the run."""
    paths = job(
        tmp_path,
        lambda rank, step: 1.3 if rank == 2 and first <= step <= last else 1,
        steps=steps,
        seed=seed,
        marked=False,
    )
    summary = ktrace.summary(paths, by=["operation"])
    (one,) = (one for one in summary.findings if one.code == "straggler")
    since, until = (int(one.subject[key] or 0) for key in ("first_collective", "last_collective"))
    assert one.subject["rank"] == "2" and "first_step" not in one.subject
    slack = -(-2 * steps // 16)
    assert 0 <= since - (2 * first + 1) < slack and 0 <= (2 * last + 2) - until < slack
    assert any(
        f"rank 2 in collectives {since} to {until}, which the others wait for" in line for line in summary.verdict
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_that_is_late_throughout_is_named_without_steps(seed: int, tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lambda rank, _: 1.3 if rank == 2 else 1, seed=seed)
    assert named(summary) == [{"rank": "2", "first_step": None, "last_step": None}]
    assert not any("in steps" in line for line in summary.verdict)


#: Jobs of which no rank is named.
NOBODY: dict[str, Slow] = {
    "noise": lambda rank, step: 1,
    "in turns": lambda rank, step: 1.3 if step % 4 == rank else 1,
    "in turns of three": lambda rank, step: 1.3 if step // 3 == rank else 1,
    "in turns of four": lambda rank, step: 1.3 if step // 4 == rank else 1,
    "another is as late": lambda rank, step: {1: 1.295, 2: 1.3}.get(rank, 1),
    "one step": lambda rank, step: 3 if (rank, step) == (1, 5) else 1,
    "all at once": lambda rank, step: 1.3 if step > 5 else 1,
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("job", NOBODY)
def test_nobody_is_named_where_nobody_is_late_for_long(job: str, seed: int, tmp_path: Path) -> None:
    assert named(summary_of(tmp_path, NOBODY[job], seed=seed)) == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("what", NOBODY)
def test_nor_without_steps(what: str, seed: int, tmp_path: Path) -> None:
    assert named(ktrace.summary(job(tmp_path, NOBODY[what], seed=seed, marked=False), by=["operation"])) == []


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("steps", [6, 8, 12])
def test_noise_names_no_rank_on_numbers_alone(ranks: int, steps: int) -> None:
    """Of 1,000 jobs at most 5 have a stretch in which chance makes a rank late; measured on 3,000 each, at most 7."""
    from ktrace.analysis.questions.collectives.stretch import late_steps

    chance, found = np.random.default_rng([ranks, steps]), 0
    for _ in range(1_000):
        times = chance.normal(0, 1, (ranks, steps)) + chance.normal(0, 0.5, (ranks, 1))
        others = np.median(times[1:], axis=0)
        found += late_steps(times[0] - others, times.argmax(axis=0) == 0) is not None
    assert found <= 5


@pytest.mark.parametrize("ranks", [2, 4])
def test_noise_names_no_part_of_a_run(ranks: int) -> None:
    """As above, of 40 collectives without steps: measured on 3,000 each, at most 1."""
    from ktrace.analysis.questions.collectives.stretch import among_collectives

    chance, found = np.random.default_rng(ranks), 0
    for _ in range(1_000):
        times = chance.normal(0, 1, (ranks, 40)) + chance.normal(0, 0.5, (ranks, 1))
        others = np.median(times[1:], axis=0)
        found += among_collectives(np.arange(40), times[0] - others, times.argmax(axis=0) == 0) is not None
    assert found <= 5


@pytest.mark.parametrize(("first", "said"), [(6, ", late in steps 16 to 21 ("), (0, " (")])
def test_a_comparison_names_the_steps_too(first: int, said: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    job(tmp_path / "a", NOBODY["noise"])
    job(tmp_path / "b", lambda rank, step: 1.3 if rank == 2 and step >= first else 1, seed=2)
    found = ktrace.diff(tmp_path / "a", tmp_path / "b")
    sentence = next(line for line in found.verdict if "for rank 2" in line)
    assert f" a step for rank 2{said}" in sentence
    assert ("collectives there." in sentence) == (first > 0)


#: How a job of eight ranks is late -> the ranks that are named together.
TOGETHER: dict[str, tuple[Slow, str | None]] = {
    "two": (lambda rank, step: 1.3 if rank in (1, 6) else 1, "1, 6"),
    "three": (lambda rank, step: 1.3 if rank in (0, 3, 5) else 1, "0, 3, 5"),
    "two in turns": (lambda rank, step: 1.3 if rank in (step % 8, (step + 3) % 8) else 1, None),
    "five": (lambda rank, step: 1.3 if rank > 2 else 1, None),
    "noise": (lambda rank, step: 1, None),
    "one step": (lambda rank, step: 3 if rank in (1, 6) and step == 5 else 1, None),
}


@pytest.mark.parametrize("what", TOGETHER)
def test_ranks_that_are_late_together_are_named(what: str, tmp_path: Path) -> None:
    slow, late = TOGETHER[what]
    summary = summary_of(tmp_path, slow, ranks=8)
    assert not named(summary)
    found = next(one for one in summary.findings if one.code == "exposed.communication")
    assert found.details.get("late_ranks") == late
    *others, last = (late or "").split(", ")
    words = f"for the last of them, which is rank {', '.join(others)} or {last}"
    assert any(words in line for line in summary.verdict) is (late is not None)
    assert ("Compare these ranks with the others" in found.remedy) is (late is not None)


@pytest.mark.parametrize(("apart", "said"), [(300_000_000, False), (3_600_000_000_000, True)])
def test_ranks_an_hour_apart_were_not_recorded_together(apart: int, said: bool, tmp_path: Path) -> None:
    """Clocks of hosts may differ by parts of a second, as collectives tell; none of these takes an hour."""
    paths = job(tmp_path, lambda rank, _: 1.3 if rank == 1 else 1, ranks=2)
    base = 1_760_000_000_000_000_000
    paths[1].write_text(paths[1].read_text("utf-8").replace(str(base), str(base + apart)), "utf-8")
    summary = ktrace.summary(paths, by=["operation"])
    assert ("check.ranks_apart" in {one.code for one in summary.checks}) is said
    assert (named(summary) == []) is said


@pytest.mark.parametrize("second", [1.1, 1.2])
@pytest.mark.parametrize("seed", range(3))
def test_the_last_rank_is_named_beside_one_that_is_less_late(second: float, seed: int, tmp_path: Path) -> None:
    summary = summary_of(tmp_path, lambda rank, _: {1: second, 2: 1.3}.get(rank, 1), seed=seed)
    assert [one["rank"] for one in named(summary)] == ["2"]


#: Collectives whose records are lost, by rank and number; the first of a rank makes all its positions wrong.
LOST = [{(1, 3)}, {(1, 0)}, {(1, 22), (3, 9)}, {(0, 0), (1, 1), (3, 23)}]


@pytest.mark.parametrize("factor", [1.3, 1.0])
@pytest.mark.parametrize("lost", LOST, ids=str)
def test_a_lost_collective_leaves_the_others_their_counterparts(
    lost: set[tuple[int, int]], factor: float, tmp_path: Path
) -> None:
    """Without sequence numbers those after it are matched by time; nothing is said of waiting if they can't be."""
    paths = job(tmp_path, lambda rank, _: factor if rank == 2 else 1)
    for rank, path in enumerate(paths):
        document = json.loads(path.read_text())
        sent = [one for one in document["traceEvents"] if "AllReduce" in one["name"]]
        gone = [sent[number]["args"]["correlation"] for of, number in lost if of == rank]
        for one in sent:
            del one["args"]["Seq"]
        kept = [one for one in document["traceEvents"] if one not in sent or one["args"]["correlation"] not in gone]
        path.write_text(json.dumps(document | {"traceEvents": kept}))
    summary = ktrace.summary(paths, by=["operation"])
    late = [one for one in summary.findings if one.code == "straggler"]
    assert [one.subject["rank"] for one in late] == (["2"] if factor > 1 else [])
    assert all(one.value == pytest.approx(120_000 * (24 * 3 - len(lost)), rel=0.1) for one in late)
