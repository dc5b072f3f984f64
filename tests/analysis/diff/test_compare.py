"""Comparisons of summaries made by hand: what is matched, what changed, what is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from nightly import few
from sides import events, side, statistics

from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change
from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.diff.matching import unnumbered
from ktrace.analysis.work.groups import DeviceUse, Group, InSteps
from ktrace.errors import UsageError


def rows(diff: Diff, by: str = "kernel") -> dict[str, Change]:
    return {change.key: change for change in diff.rows[by]}


def noisy(seed: int, mean: float, count: int, spread: float = 0.02) -> list[int]:
    """Durations around a mean, those of one distribution for every seed."""
    drawn: list[int] = np.random.default_rng(seed).normal(mean, mean * spread, count).astype(np.int64).tolist()
    return drawn


def test_the_change_is_that_of_plain_arithmetic() -> None:
    a = side("a", [events("gemm", [10, 10]), events("norm", [4, 6, 5]), events("old", [7])])
    b = side("b", [events("gemm", [12, 12, 12]), events("norm", [4, 6, 5]), events("new", [9, 9])])
    diff = compared(a, b)
    assert (diff.per, diff.unit, diff.name_a, diff.name_b) == ("whole", "ns", "a", "b")
    assert [change.key for change in diff.rows["kernel"]] == ["new", "gemm", "old", "norm"]  # 18, 16, -7, 0
    gemm = rows(diff)["gemm"]
    assert (gemm.total_a, gemm.total_b, gemm.delta, gemm.percent) == (20, 36, 16, 80)
    assert (gemm.from_count, gemm.from_duration) == (11, 5)  # (3 - 2) * (10 + 12) / 2, (12 - 10) * (2 + 3) / 2
    assert gemm.share == pytest.approx(100 * 16 / (18 + 16 + 7))
    new, old = rows(diff)["new"], rows(diff)["old"]
    assert (new.a, new.delta, new.percent, new.verdict, new.from_count) == (None, 18, None, NEW, 18)
    assert (old.b, old.delta, old.percent, old.verdict, old.from_count) == (None, -7, -100, GONE, -7)
    assert (diff.whole.total_a, diff.whole.total_b) == (20 + 15 + 7, 36 + 15 + 18)


def test_a_summary_against_itself_says_nothing() -> None:
    mine = side("a", [events("gemm", noisy(1, 1e5, 60), steps=6), statistics("copy", 100.0)], walls=[10] * 6)
    diff = compared(mine, mine)
    for change in (diff.whole, *diff.steps, *diff.rows["kernel"]):
        assert (change.delta, change.percent, change.verdict) == (0, 0, NOISE)
        assert change.share is None


def test_steps_of_runs_of_different_length_compare() -> None:
    a = side("a", [events("gemm", [100] * 12, steps=3)], walls=[500] * 3)
    b = side("b", [events("gemm", [110] * 20, steps=5)], walls=[550] * 5)
    diff = compared(a, b)
    gemm = rows(diff)["gemm"]
    assert diff.per == "step"
    assert (gemm.total_a, gemm.total_b, gemm.count_a, gemm.count_b) == (400, 440, 4, 4)
    assert diff.wall is not None
    assert (diff.wall.total_a, diff.wall.total_b) == (500, 550)
    assert "a has 3 steps, b 5 steps" in diff.notes[-1]
    whole = compared(a, b, total=True)
    assert (whole.per, whole.wall) == ("whole", None)
    assert (rows(whole)["gemm"].total_a, rows(whole)["gemm"].total_b) == (1200, 2200)


def test_work_outside_of_steps_is_not_compared_and_told() -> None:
    steps, counts = np.array([400.0, 400.0, 400.0]), np.array([4, 4, 4])
    a = side("a", [Group("gemm", 1600.0, 16, 100.0, 100.0, name="gemm", in_steps=InSteps.from_times(steps, counts))])
    a.groups["step"] = [Group("other", 400.0, 4)]
    b = side("b", [events("gemm", [100] * 12, steps=3)])
    diff = compared(a, b, by=["kernel"])
    gemm = rows(diff)["gemm"]
    assert (gemm.total_a, gemm.count_a, gemm.delta) == (400, 4, 0)
    assert "a: 25.0% of the work is in no step, so it isn't compared." in diff.notes


def test_a_run_against_itself_has_the_launches_of_its_steps() -> None:
    """Slow launches before the first step count neither as launches nor in their average and median."""
    steps, inside = np.array([20_000.0] * 3), np.full(600, 100)
    counts = np.array([200, 200, 200])
    durations = np.concatenate([inside, [500_000, 600_000]])
    warm = Group(
        "gemm", 1_160_000.0, 602, 1_160_000 / 602, 100.0, name="gemm", durations=durations,
        in_steps=InSteps.from_times(steps, counts), inside=inside,
    )  # fmt: skip
    before = Group(
        "init", 900.0, 1, 900.0, 900.0, durations=np.array([900]), in_steps=InSteps.from_times(np.zeros(3), counts * 0)
    )
    cold = side("b", [events("gemm", [100] * 600, steps=3)])
    for one, other in ((side("a", [warm, before]), cold), (cold, side("a", [warm, before]))):
        diff = compared(one, other, by=["kernel"])
        (gemm,) = diff.rows["kernel"]  # init was in no step
        assert (gemm.count_a, gemm.count_b, gemm.total_a, gemm.total_b) == (200, 200, 20_000, 20_000)
        assert (diff.whole.count_a, diff.whole.count_b, gemm.verdict) == (200, 200, NOISE)
        shown = next(table for table in diff.tables() if table.name == "kernel")
        (row,) = (dict(zip((column.key for column in shown.columns), row, strict=True)) for row in shown.rows)
        assert (row["median_a_ns"], row["median_b_ns"], row["average_a_ns"], row["each_percent"]) == (100, 100, 100, 0)


def test_steps_are_what_is_tested_where_there_are_enough() -> None:
    a = side("a", [events("gemm", noisy(1, 1e5, 80), steps=8), events("norm", noisy(2, 1e4, 80), steps=8)])
    b = side("b", [events("gemm", noisy(3, 1.1e5, 80), steps=8), events("norm", noisy(4, 1e4, 80), steps=8)])
    gemm, norm = rows(compared(a, b))["gemm"], rows(compared(a, b))["norm"]
    assert gemm.verdict == CLEAR
    assert gemm.test is not None
    assert (gemm.test.samples, gemm.test.a, gemm.test.b) == ("steps", 8, 8)
    assert gemm.test.p < 2 / 12_870  # 16 over 8 ways, two of them as far apart; by distance still less
    assert gemm.test.q == pytest.approx(2 * gemm.test.p)  # the lesser of two
    assert norm.verdict == NOISE


def test_called_more_often_is_told_by_steps_and_not_by_launches() -> None:
    a, b = [100] * 40, [100] * 80
    by_step = compared(side("a", [events("x", a, steps=8)]), side("b", [events("x", b, steps=8)]))
    change = rows(by_step)["x"]
    assert (change.verdict, change.from_count, change.from_duration) == (CLEAR, 500, 0)
    whole = rows(compared(side("a", [events("x", a)]), side("b", [events("x", b)])))["x"]
    assert (whole.verdict, whole.from_duration) == (UNKNOWN, 0)
    assert "change of the count" in whole.why


def test_a_step_as_slow_as_the_other_side_makes_it_noise_whatever_launches_say() -> None:
    slow = noisy(2, 1.1e5, 300)
    clear = compared(side("a", [events("x", noisy(1, 1e5, 300), steps=3)]), side("b", [events("x", slow, steps=3)]))
    assert (rows(clear)["x"].verdict, rows(clear)["x"].test.samples) == (CLEAR, "steps")  # type: ignore[union-attr]
    uneven = noisy(1, 1e5, 100) + noisy(5, 1.3e5, 100) + noisy(3, 1e5, 100)  # one step was as slow as that by itself
    overlap = compared(side("a", [events("x", uneven, steps=3)]), side("b", [events("x", slow, steps=3)]))
    assert (rows(overlap)["x"].verdict, rows(overlap)["x"].why) == (NOISE, "steps, q 1")


def test_too_few_steps_for_so_many_rows_leave_it_to_launches() -> None:
    """With five steps a side no single row of twenty can be told by steps: 2 of 252 ways are more than 5 % / 20."""
    groups = {f"k{number}": noisy(number, 1e4, 100) for number in range(20)}
    others = {f"k{number}": noisy(100 + number, 1.1e4 if number == 7 else 1e4, 100) for number in range(20)}
    sides = [side(name, [events(*of, steps=5) for of in mine.items()]) for name, mine in (("a", groups), ("b", others))]
    first, *rest = compared(*sides).rows["kernel"]
    assert (first.key, first.verdict) == ("k7", CLEAR)
    assert first.test is not None
    assert first.test.samples == "steps"  # by distance; by rank they can't
    assert {change.verdict for change in rest} == {NOISE}


def test_too_few_samples_and_statistics_are_not_known() -> None:
    few = rows(compared(side("a", [events("x", [1, 2])]), side("b", [events("x", [5, 6])])))["x"]
    assert (few.verdict, few.why) == (UNKNOWN, "too few samples")
    table = rows(compared(side("a", [statistics("x", 10.0, 2)]), side("b", [statistics("x", 12.0, 2)])))["x"]
    assert (table.verdict, table.why, table.from_duration) == (UNKNOWN, "statistics only", 2)
    unsaid = rows(compared(side("a", [statistics("x", 10.0)]), side("b", [statistics("x", 12.0, 2)])))["x"]
    assert (unsaid.from_count, unsaid.from_duration, unsaid.delta) == (None, None, 2)


def test_a_median_against_the_total_is_not_called_clear() -> None:
    """Nearly all launches are faster, a few are so slow that the total is greater."""
    a, b = [100] * 50, [90] * 48 + [5000] * 2
    change = rows(compared(side("a", [events("x", a)]), side("b", [events("x", b)])))["x"]
    assert change.delta > 0
    assert (change.verdict, change.why) == (UNKNOWN, "the median and the total changed in opposite directions")


@pytest.mark.parametrize("steps", few([0, 5, 2, 8], 2))
def test_noise_alone_is_seldom_called_clear(steps: int) -> None:
    """Of 60 pairs of the same 20 kernels, with other noise each, at most 5 % have any row called clear by chance."""
    flagged = 0
    for seed in range(60):
        sides = []
        for name in ("a", "b"):
            start = 100_000 * seed + (50_000 if name == "b" else 0)
            groups = [
                events(f"k{number}", noisy(start + number, 1e4 * (number + 1), 80, 0.05), steps=steps)
                for number in range(20)
            ]
            sides.append(side(name, groups))
        flagged += any(change.verdict == CLEAR for change in compared(*sides).rows["kernel"])
    assert flagged <= 6  # 3 are expected at most; more than 6 of 60 have a chance of 3 %


def test_a_tenth_more_in_one_kernel_of_many_is_found_and_first() -> None:
    groups = {name: noisy(number, 1e4 * (number + 1), 120) for number, name in enumerate("abcdefghij")}
    slower = {**groups, "d": [round(1.1 * dur) for dur in groups["d"]]}
    diff = compared(
        side("a", [events(*of) for of in groups.items()]), side("b", [events(*of) for of in slower.items()])
    )
    first = diff.rows["kernel"][0]
    assert (first.key, first.verdict, round(first.percent or 0, 1)) == ("d", CLEAR, 10.0)
    assert first.share == 100
    assert [change.verdict for change in diff.rows["kernel"][1:]] == [NOISE] * 9


def test_kernels_that_are_renamed_are_matched_and_it_is_told_by_what() -> None:
    a = side("a", [events("triton_poi_fused_add_12", [5, 5]), events("loop_add_fusion.3", [7]), events("same", [1])])
    b = side("b", [events("triton_poi_fused_add_7", [6, 6]), events("loop_add_fusion.11", [8]), events("same", [1])])
    found = {change.key: change.matched for change in compared(a, b).rows["kernel"]}
    assert found == {
        "triton_poi_fused_add_12": "name without number",
        "loop_add_fusion.3": "name without number",
        "same": "name",
    }


def test_several_that_may_be_each_other_are_told_apart_by_count_or_compared_as_one() -> None:
    def named(*counts: int, first: int) -> list[Group]:
        return [events(f"triton_red_fused_sum_{first + place}", [10] * n) for place, n in enumerate(counts)]

    diff = compared(side("a", named(4, 2, 2, first=1)), side("b", named(2, 2, 2, 4, first=8)))
    pairs = {
        (change.a.count, change.b.count): change.matched for change in diff.rows["kernel"] if change.a and change.b
    }
    assert pairs == {(4, 4): "name without number and count", (4, 6): "name without number, 2 with 3"}
    assert all(change.verdict not in (NEW, GONE) for change in diff.rows["kernel"])
    assert sum(change.delta for change in diff.rows["kernel"]) == diff.whole.delta == 20


def test_a_function_matches_its_instances_only_where_a_side_says_no_more() -> None:
    bare = side("a", [events("elementwise_kernel", [5, 5, 5])])
    both = side("b", [events("elementwise_kernel<Add>", [5, 5]), events("elementwise_kernel<Mul>", [6])])
    (change,) = compared(bare, both).rows["kernel"]
    assert (change.matched, change.delta, change.count_b) == ("function, 1 with 2", 1, 3)
    other = side("c", [events("elementwise_kernel<Div>", [5])])
    assert {change.verdict for change in compared(both, other).rows["kernel"]} == {NEW, GONE}


def test_tiles_are_not_taken_for_each_other() -> None:
    a, b = side("a", [events("sgemm_128x64", [5])]), side("b", [events("sgemm_128x128", [5])])
    assert [change.matched for change in compared(a, b).rows["kernel"]] == ["", ""]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("triton_per_fused__softmax_0", "triton_per_fused__softmax"),
        ("wrapped_fusion_12", "wrapped_fusion"),
        ("kernel_0a1b2c3d4e5f6789", "kernel"),
        ("NT_matmul7_kernel_2", "NT_matmul7_kernel_2"),
        ("gemm_deadbeef", "gemm_deadbeef"),  # a word, for all one can say
        ("sgemm_128x64_nn", "sgemm_128x64_nn"),
    ],
)
def test_numbers_of_compilers_are_not_part_of_a_name(name: str, stem: str) -> None:
    assert unnumbered(name) == stem


def test_layers_are_matched_by_number() -> None:
    a = side("doppler", [events("L9", [5]), events("L10", [6]), events("other", [1])], by="layer")
    b = side("mlc", [events("block_9", [7]), events("layers.10", [8]), events("other", [1])], by="layer")
    found = rows(compared(a, b), "layer")
    assert (found["L9"].delta, found["L10"].delta, found["other"].delta) == (2, 2, 0)
    assert (found["L9"].matched, found["other"].matched) == ("number of the layer", "name")


def test_the_only_stream_or_source_is_matched_and_steps_by_place() -> None:
    a, b = side("a", [events("stream 7", [5])], by="stream"), side("b", [events("stream 13", [6])], by="stream")
    assert rows(compared(a, b, by=["stream"]), "stream")["stream 7"].matched == "the only one"
    a, b = side("a", [events("step 3", [5])], by="step"), side("b", [events("step 8", [6])], by="step")
    step = rows(compared(a, b, by=["step"]), "step")["step 3"]
    assert (step.matched, step.verdict, step.why) == ("place", UNKNOWN, "too few samples")


def test_operations_stand_in_for_kernels_where_few_are_shared() -> None:
    a, b = side("doppler", [events("attention_f16", [9]), events("shared", [1])]), side("mlc", [events("sdpa", [7])])
    a.groups["operation"] = [events("attention", [9]), events("other", [1])]
    b.groups["operation"] = [events("attention", [7])]
    assert list(compared(a, b).rows) == ["operation"]
    assert list(compared(a, b, by=["kernel"]).rows) == ["kernel"]
    assert list(compared(a, a).rows) == ["kernel", "operation"]


def test_shares_are_compared_where_a_side_says_no_more() -> None:
    a = side("a", [statistics("x", 60.0), statistics("y", 40.0)], unit="%")
    b = side("b", [events("x", [400] * 2), events("y", [100] * 2)])
    diff = compared(a, b)
    assert (diff.unit, diff.whole.delta) == ("%", 0)
    assert (rows(diff)["x"].total_b, rows(diff)["x"].delta) == (80, 20)


def test_an_empty_side_and_times_of_zero() -> None:
    mine, empty = side("a", [events("x", [5]), events("zero", [0, 0])]), side("b", [])
    gone = compared(mine, empty)
    assert (rows(gone)["x"].verdict, gone.whole.percent) == (GONE, -100)
    new = compared(empty, mine)
    assert (rows(new)["x"].verdict, new.whole.percent) == (NEW, None)
    nothing = compared(empty, empty)
    assert (nothing.rows, nothing.whole.delta) == ({}, 0)
    zero = rows(compared(mine, side("b", [events("x", [5]), events("zero", [3])])))["zero"]
    assert (zero.delta, zero.percent, zero.verdict) == (3, None, UNKNOWN)
    for diff in (gone, new, nothing):
        assert all(len(row) == len(table.columns) for table in diff.tables() for row in table.rows)


def test_devices_are_matched_by_label_or_as_the_only_ones() -> None:
    def use(label: str, busy: int) -> DeviceUse:
        return DeviceUse(label, "s", 0, None, 100, busy, busy, 0, 0, 0, 0)

    a, b = side("a", [], devices=[use("gpu 0", 80)]), side("b", [], devices=[use("gpu 3", 60)])
    (device,) = compared(a, b).devices
    assert (device.label, device.a, device.b) == ("gpu 0", a.devices[0], b.devices[0])
    b.devices.append(use("gpu 4", 10))
    assert [(one.a is None, one.b is None) for one in compared(a, b).devices] == [
        (False, True),
        (True, False),
        (True, False),
    ]


def test_what_cannot_be_compared_is_wrong_usage() -> None:
    mine = side("a", [events("x", [5])])
    with pytest.raises(UsageError, match="by 'color'"):
        compared(mine, mine, by=["color"])
    with pytest.raises(UsageError, match="neither side has data by layer"):
        compared(mine, mine, by=["layer"])


def test_rows_of_tables_are_cut_and_say_so() -> None:
    a = side("a", [events(f"k{number}", [number]) for number in range(1, 9)])
    b = side("b", [events(f"k{number}", [2 * number]) for number in range(1, 9)])
    tables = {table.name: table for table in compared(a, b).tables(3)}
    assert ([row[0] for row in tables["kernel"].rows], tables["kernel"].more) == (["k8", "k7", "k6"], 5)
    short = {table.name: table for table in compared(a, b).tables(full=False)}["kernel"]
    assert [column.name for column in short.columns][-1] == "noise"  # no row is matched by anything but its name


def test_calls_say_what_is_known_of_both_sides() -> None:
    known, unknown = statistics("x", 10.0, 1234), statistics("x", 10.0)
    shown = []
    for a, b in (
        (known, unknown),
        (unknown, known),
        (unknown, unknown),
        (known, known),
        (known, statistics("x", 1.0, 5)),
    ):
        (table,) = (one for one in compared(side("a", [a]), side("b", [b])).tables(full=False) if one.name == "kernel")
        shown.append(dict(zip((column.key for column in table.columns), table.rows[0], strict=True))["calls"])
    assert shown == ["1,234 -> ?", "? -> 1,234", None, 1234, "1,234 -> 5"]
