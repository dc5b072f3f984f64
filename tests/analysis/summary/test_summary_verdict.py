"""The sentences above a summary: what takes the time, what devices wait for, what to look at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED
from idle_traces import host, work, written
from nightly import few
from real_traces import NSYS, at_hand, kineto

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer, RankUse
from ktrace.analysis.questions.idle import DeviceIdle, HostSpan, IdleAnswer, IdleCause
from ktrace.analysis.work.groups import DeviceUse, Group, Spread

GROUPS = [Group("gemm", 600_000.0, 6), Group("collective", 300_000.0, 3), Group("other", 100_000.0, 1)]
KERNELS = [Group("sgemm", 500_000.0, 5), Group("AllReduce", 300_000.0, 3), Group("mine", 200_000.0, 2)]
USE = DeviceUse(
    "device 0", "run", 0, None, 1_000_000, 980_000, 700_000, 300_000, 0, 10_000, 0, Spread(4, 20_000, 5e3, 6e3, 9_000)
)


def summary(*uses: DeviceUse, operations: list[Group] = GROUPS, kernels: list[Group] = KERNELS) -> Summary:
    total = sum(group.total for group in kernels)
    return Summary(
        ["run"],
        "events",
        total,
        10,
        (0, 1_000_000),
        {"operation": operations, "kernel": kernels},
        [*uses],
        heaviest={"operation": operations, "kernel": kernels},
    )


def test_each_sentence_names_its_figures() -> None:
    assert summary(USE).verdict == [
        "gemm takes the most device time: 60.0% (600 us of 1.00 ms); the top kernel is sgemm, 50.0%.",
        "Device 0 is busy for 98.0% of its 1.00 ms, and idle for 20.0 us.",
        "Little time is lost between kernels, so look at the kernels, first at gemm.",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("void cutlass::Kernel2<ns::Tile<8> >(ns::Params)", "; the top kernel is Kernel2<ns::Tile<8>>, 50.0%."),
        ("Kernel2", "."),
        (None, "."),
    ],
)
def test_a_name_that_all_kernels_of_cutlass_have_is_said_with_its_template(name: str | None, said: str) -> None:
    kernels = [replace(KERNELS[0], key="Kernel2", name=name), *KERNELS[1:]]
    first = summary(USE, kernels=kernels).verdict[0]
    assert first == f"gemm takes the most device time: 60.0% (600 us of 1.00 ms){said}"


def test_the_greatest_loss_is_looked_at_first() -> None:
    exposed = replace(USE, exposed_communication=90_000, exposed_copies=30_000)
    assert summary(exposed).verdict[-1] == ("Look first at exposed communication: 90.0 us, 9.0% of the devices' time.")
    copies = replace(exposed, exposed_copies=120_000)
    assert "exposed copies: 120 us, 12.0%" in summary(copies).verdict[-1]


def test_several_devices_from_the_least_to_the_most_busy() -> None:
    other = replace(USE, label="device 1", busy=500_000, gaps=Spread(1, 500_000, 5e5, 5e5, 500_000))
    assert summary(USE, other).verdict[1] == (
        "The 2 devices are busy for 50.0% (device 1) to 98.0% (device 0) of their time, and together idle for 520 us."
    )


def test_a_kernel_without_an_operation_may_take_the_most() -> None:
    unknown = [Group("other", 700_000.0, 7), Group("gemm", 300_000.0, 3)]
    found = summary(USE, operations=unknown).verdict
    assert found[0] == "sgemm takes the most device time: 50.0% (500 us of 1.00 ms)."
    assert found[-1] == "Little time is lost between kernels, so look at the kernels, first at sgemm."


def test_a_copy_is_no_kernel(tmp_path: Path) -> None:
    rows = [host("launch", 0, 1_000, 1), work("Memcpy HtoD", 2_000, 80_000, 1, kind="memcpy")]
    (first, *_) = ktrace.summary(written(tmp_path / "copies.jsonl", rows)).verdict
    assert first == "copy takes the most device time: 100.0% (78.0 us of 78.0 us)."
    rows += [host("launch", 1_000, 1_500, 2), work("sgemm", 81_000, 90_000, 2)]
    (first, *_) = ktrace.summary(written(tmp_path / "both.jsonl", rows)).verdict
    assert first.endswith("; the top kernel is sgemm, 10.3%.")


def test_idle_time_is_not_known_where_nothing_computes() -> None:
    only = replace(USE, busy=330_000, compute=0, exposed_communication=300_000, copies=30_000, exposed_copies=30_000)
    assert summary(only).verdict[1:] == [
        "Device 0 is busy for 33.0% of its 1.00 ms with communication and copies; "
        "the input has no compute, so the idle time isn't known."
    ]
    assert "with copies; the input has no compute" in summary(replace(only, communication=0)).verdict[1]
    other = replace(USE, label="device 1")
    assert "together idle" in summary(only, other).verdict[1], "one that computes tells that kernels are recorded"
    assert "Look first" in summary(only, other).verdict[2]


def test_a_table_of_copies_says_nothing_of_idle_time() -> None:
    found = ktrace.summary(at_hand(SHARED / "corpus/rocprofv3/memory_copy_trace.csv")).verdict
    assert found[1].endswith("with copies; the input has no compute, so the idle time isn't known.")
    assert len(found) == 2


def test_the_host_is_where_it_was_longest(tmp_path: Path) -> None:
    """A call of 20 us in a gap of 97 us is named only if nothing else is longer, and if it is."""
    rows = [host("launch", 0, 1_000, 1), work("gemm", 2_000, 10_000, 1), host("cudaMalloc", 20_000, 40_000)]
    rows += [host("launch", 105_000, 106_000, 2), work("gemm", 107_000, 110_000, 2)]
    assert (
        "for 75.0 us of it the CPU was in no recorded call or range"
        in ktrace.summary(written(tmp_path / "a.jsonl", rows)).verdict[-1]
    )
    rows[2] = host("cudaMalloc", 20_000, 100_000)
    assert (
        "top CPU activity meanwhile: cudaMalloc, 80.0 us"
        in ktrace.summary(written(tmp_path / "b.jsonl", rows)).verdict[-1]
    )


def test_a_source_of_shares_says_no_times() -> None:
    found = ktrace.summary(SAMPLES / "metallic/repeated-and-nested-totals.txt").verdict
    assert found[0].startswith("gemm takes the most time in the tables: 83.5% (20.2 ms of 24.2 ms)")
    assert len(found) == 1


def test_nothing_has_no_verdict() -> None:
    assert ktrace.summary(SAMPLES / "doppler/bench-of-the-command-line-tool.log").verdict == []


def test_why_a_device_is_idle_and_what_the_host_did() -> None:
    late = IdleCause("host late", 300_000, 3, 200_000, (HostSpan("aten::copy_", "op", 250_000, 2, 200_000),))
    overhead = IdleCause("launch overhead", 100_000, 50, 3_000)
    found = summary(replace(USE, busy=600_000))
    found.proofs = {"idle": IdleAnswer([DeviceIdle("device 0", "run", 0, 1_000_000, 400_000, (late, overhead))])}
    assert found.verdict[1:] == [
        "Device 0 is busy for 60.0% of its 1.00 ms, and idle for 400 us, 75.0% of it because the CPU was late to "
        "launch (launch-bound).",
        "Look first at late launches (launch-bound): 300 us, 30.0% of the devices' time;"
        " top CPU activity meanwhile: aten::copy_, 250 us; then at launch latency: 100 us, 10.0%.",
    ]
    found.proofs = {"idle": IdleAnswer([DeviceIdle("device 0", "run", 0, 1_000_000, 100_000, (overhead,))])}
    assert found.verdict[-1] == (
        "Look first at launch latency: 100 us, 10.0% of the devices' time, in 50 gaps of 2.00 us on average."
    )


RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]


def test_the_rank_that_others_wait_for() -> None:
    (*_, look) = ktrace.summary(RANKS, by=["kernel"]).verdict
    assert "exposed communication, waiting for rank 1 left out: 942 us, 39.7%" in look
    assert look.endswith(
        "; then at rank 1, which the others wait for: 135 us, 5.7%; it arrives last in 6 of 6 collectives."
    )
    assert not any("rank" in sentence for sentence in ktrace.summary(RANKS[1]).verdict)


def ranks(
    lasts: tuple[int, ...],
    *,
    of: int = 20,
    waited: int = 100_000,
    ends: float | None = None,
    clocks: str = "unix",
    steady: float | None = 9.0,
) -> CollectivesAnswer:
    """What `of` collectives of all these ranks prove; each of the others waits for each that is last."""
    uses = [
        RankUse(
            str(number),
            "run",
            0,
            number,
            of,
            last,
            Spread(last, last * waited, waited, waited, waited) if last else None,
        )
        for number, last in enumerate(lasts)
    ]
    return CollectivesAnswer([], uses, clocks, ends, of, steady=steady)


def test_a_rank_is_accused_only_if_it_is_proved() -> None:
    late = "Look first at rank 1, which the others wait for: 1.80 ms, 180.0% of the devices' time; it arrives last in"
    cases: list[tuple[CollectivesAnswer, bool]] = [
        (ranks((1, 18, 1)), True),
        (ranks((7, 7, 6)), False),  # each as often
        (ranks((4, 9, 4)), False),  # not in most
        (ranks((0, 3, 0), of=3), True),
        (ranks((0, 2), of=2), False),  # 1 in 4 by chance
        (ranks((0, 4), of=4), True),  # 1 in 16, but as late each time
        (ranks((0, 4), of=4, steady=7.0), False),
        (ranks((0, 6), of=6), True),
        (ranks((1, 18, 1), waited=100), False),  # costs nothing
        (ranks((1, 18, 1), steady=7.0), False),  # in one part of the run more than in others
        (ranks((0, 6), of=6, steady=None), True),  # each time
        (ranks((1, 18, 1), ends=200_000.0), False),  # clocks may differ by more
        (ranks((1, 18, 1), ends=200_000.0, clocks="one"), True),
    ]
    for answer, accused in cases:
        found = summary(USE)
        found.proofs = {"collective": answer}
        assert ("rank 1" in " ".join(found.verdict)) is accused, answer
    found.proofs = {"collective": cases[0][0]}
    assert found.verdict[-1].startswith(late)


def test_waiting_is_no_communication() -> None:
    """What others wait for a rank is named once, and what is left of communication apart."""
    found = summary(replace(USE, exposed_communication=300_000))
    found.proofs = {"collective": ranks((0, 6), of=6, waited=40_000)}
    assert found.verdict[-1] == (
        "Look first at rank 1, which the others wait for: 240 us, 24.0% of the devices' time; it arrives last in 6 of 6"
        " collectives; then at exposed communication, waiting for rank 1 left out: 60.0 us,"
        " 6.0%."
    )
    found.proofs = {}
    assert found.verdict[-1].startswith("Look first at exposed communication: 300 us, 30.0%")


@pytest.mark.parametrize(
    "paths",
    [
        RANKS,
        [SAMPLES / "kineto/one-step-of-training.pt.trace.json"],
        *few([[NSYS], kineto("nccl_data.json.gz"), kineto("worker0.1623143089861.pt.trace.json.gz")], 0),
    ],
    ids=lambda paths: paths[0].name,
)
def test_the_verdict_is_the_same_whatever_is_asked(paths: list[Path]) -> None:
    for path in paths:
        at_hand(path)
    asked = [None, ["kernel"], ["idle"], ["collective"], ["op", "range"], ["roofline", "critical-path"], ["step"]]
    verdicts = {tuple(ktrace.summary(paths, by=by).verdict) for by in asked}
    assert len(verdicts) == 1
    assert (len(paths) == 1 or ktrace.summary(paths, by=["kernel"]).answers == {}) and len(verdicts.pop()) == 3


def test_a_cause_that_nobody_can_change_is_not_looked_at() -> None:
    found = summary(replace(USE, busy=600_000))
    before = IdleCause("before the recording", 390_000, 1, 390_000)
    found.proofs = {"idle": IdleAnswer([DeviceIdle("device 0", "run", 0, 1_000_000, 390_000, (before,))])}
    assert found.verdict[1:] == [
        "Device 0 is busy for 60.0% of its 1.00 ms, and idle for 400 us.",
        "Little time is lost between kernels, so look at the kernels, first at gemm.",
    ]
