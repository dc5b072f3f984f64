"""The sentences above a comparison: each rests on figures, and none says more than they do."""

from __future__ import annotations

import numpy as np
from conftest import SAMPLES
from sides import events, side, statistics

import ktrace
from ktrace.analysis.answers.diff.compare import compared
from ktrace.tables.text import as_csv, as_markdown, as_text


def around(seed: int, mean: float, count: int) -> list[int]:
    drawn: list[int] = np.random.default_rng(seed).normal(mean, mean * 0.01, count).astype(np.int64).tolist()
    return drawn


def test_slower_by_how_much_because_of_what_how_sure() -> None:
    a = [events("gemm", around(1, 1e6, 80), steps=8), events("softmax", around(2, 2e5, 80), steps=8)]
    b = [events("gemm", around(1, 1e6, 80), steps=8), events("softmax", around(3, 3e5, 80), steps=8)]
    diff = compared(
        side("monday", a, walls=around(4, 12_000_000, 8)), side("tuesday", b, walls=around(5, 13_000_000, 8))
    )
    assert diff.wall is not None
    whole, because, sure = diff.verdict
    assert whole == (
        f"tuesday takes {100 * (diff.wall.total_b / diff.wall.total_a - 1):.1f}% longer than monday:"
        f" {diff.wall.total_b / 1e6:.1f} ms instead of {diff.wall.total_a / 1e6:.1f} ms a step."
    )
    added = (sum(around(3, 3e5, 80)) - sum(around(2, 2e5, 80))) / 8 / 1e3
    assert because.endswith(f"What got slower: softmax +{added:.0f} us, 100% of all that.")
    assert sure.startswith("The change exceeds the noise (8 and 8 steps, q ")


def test_another_amount_of_work_in_the_same_time_is_not_called_faster() -> None:
    span = (0, 1_000_000_000)
    a = side("a", [events("attention", [1_000_000] * 68), events("gemm", [2_000_000] * 136)])
    b = side("b", [events("attention", [1_010_000] * 60), events("gemm", [2_020_000] * 120)])
    a.span, b.span = span, span
    diff = compared(a, b)
    assert diff.whole.delta < 0
    assert diff.verdict[0] == (
        "b did a different amount of work than a: 120 calls of gemm instead of 136, in 1.00 s instead of 1.00 s;"
        " a call takes 1.0% longer."
    )


def test_kernels_that_became_one_are_no_other_amount_of_work() -> None:
    a = side("a", [events("gemm", [100] * 50), events("add", [10] * 50), events("relu", [10] * 50)])
    b = side("b", [events("gemm", [100] * 50), events("add_relu", [10] * 50)])
    whole, because, _ = compared(a, b).verdict
    assert whole == "b takes 8.3% less time than a: 5.50 us instead of 6.00 us of work."
    assert because == (
        "What got faster: add -500 ns (gone), relu -500 ns (gone), 100% of all that;"
        " add_relu +500 ns (new) goes the other way."
    )


def test_shares_say_nothing_about_time() -> None:
    a = side("a", [statistics("gemm", 60.0), statistics("norm", 40.0)], unit="%")
    b = side("b", [statistics("gemm", 70.0), statistics("norm", 30.0)], unit="%")
    assert compared(a, b).verdict == ["Only the parts of the whole can be compared, not whether b is faster than a."]


def test_without_samples_nobody_knows_about_noise() -> None:
    a, b = side("a", [statistics("gemm", 1e6, 10)]), side("b", [statistics("gemm", 2e6, 10)])
    assert compared(a, b).verdict == [
        "b takes 2.0 times as long as a: 2.00 ms instead of 1.00 ms of work.",
        "What got slower: gemm +1.00 ms, 100% of all that.",
        "Whether the change exceeds noise isn't known: statistics only.",
    ]


def test_nothing_against_nothing_has_no_verdict() -> None:
    assert compared(side("a", []), side("b", [])).verdict == []


def test_the_verdict_comes_first_in_every_form_for_people() -> None:
    log = SAMPLES / "mlc/two-dialects-and-a-peak-that-disagrees.md"
    diff = ktrace.diff(log)
    tables = diff.tables(3, full=False)
    lines = as_text(tables, width=60).splitlines()
    assert " ".join(lines[: lines.index("")]) == " ".join(diff.verdict)
    assert max(map(len, lines[: lines.index("")])) <= 60
    assert as_text(tables).startswith("".join(f"{sentence}\n" for sentence in diff.verdict))
    assert as_markdown(tables).startswith("TinyChat 2 0.5B q4f16")
    assert "takes" not in as_csv(tables).splitlines()[1]
