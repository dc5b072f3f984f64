"""Offsets and drifts by collectives: of ranks whose clocks are known, with stragglers and outliers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import batches, by_its_clock, collective

from ktrace.errors import InputError
from ktrace.report import Report
from ktrace.stages.align import Align, aligned
from ktrace.stages.align.collectives import Collectives, Fit
from ktrace.tables import time_text


def fits(ranks: dict[str, list[dict[str, object]]]) -> dict[str, Fit]:
    """How the ranks but the first move."""
    found = Collectives()
    for rows in ranks.values():
        for batch in batches(rows):
            found.add(batch)
    return found.fits(list(ranks))


def rank(source: str, ends: list[int], clock: tuple[int, float], noise: random.Random, **columns: object) -> list:
    """Collectives of group 0 whose true ends are known, by that rank's clock; as good as 1 us."""
    return [
        collective(
            source,
            number,
            by_its_clock(end + noise.randint(-1000, 1000), *clock),
            **({"comm": "0", "comm_seq": number} | columns),
        )
        for number, end in enumerate(ends, 1)
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(-(10**12), 10**12), st.floats(-50, 50), st.integers(0, 99))
def test_offset_and_drift_come_back(ahead: int, ppm: float, seed: int) -> None:
    noise = random.Random(seed)
    ends = [10**9 + number * 4_000_000 for number in range(500)]  # over two seconds
    fit = fits({"a": rank("a", ends, (0, 0), noise), "b": rank("b", ends, (ahead, ppm), noise)})["b"]
    assert fit.matched == 500
    for end in (ends[0], ends[250], ends[-1]):
        assert abs(fit.move.time(by_its_clock(end, ahead, ppm)) - end) < 400  # of 2 us noise, by 500 of them
    assert fit.median < 1500
    assert fit.p95 < 2500


def test_stragglers_and_wrong_pairs_do_not_count() -> None:
    noise = random.Random(7)
    ends = [10**9 + number * 1_000_000 for number in range(400)]
    mine = rank("b", ends, (5_000_000, 12.0), noise)
    for row in noise.sample(mine, 80):  # a fifth of them ends much later on this rank
        row["ts"] += noise.randint(200_000, 5_000_000)
    fit = fits({"a": rank("a", ends, (0, 0), noise), "b": mine})["b"]
    assert fit.outliers >= 75
    assert abs(fit.move.rate * 1e6 + 12.0) < 1
    for end in (ends[0], ends[-1]):
        assert abs(fit.move.time(by_its_clock(end, 5_000_000, 12.0)) - end) < 500
    assert fit.median < 2000 < fit.p95  # all that were matched are in the residual


def test_late_begins_do_not_matter() -> None:
    noise = random.Random(1)
    ends = [10**9 + number * 1_000_000 for number in range(50)]
    slow = rank("b", ends, (70_000, 0), noise)
    for row in slow:
        cut = noise.randint(0, 45_000)
        row["ts"], row["dur"] = row["ts"] + cut, row["dur"] - cut
    assert abs(fits({"a": rank("a", ends, (0, 0), noise), "b": slow})["b"].move.offset + 70_000) < 500


def test_level_clocks_have_no_drift() -> None:
    noise = random.Random(3)
    ends = [10**9 + number * 10_000 for number in range(40)]
    assert fits({"a": rank("a", ends, (0, 0), noise), "b": rank("b", ends, (9_000, 0), noise)})["b"].move.rate == 0


def test_ranks_without_a_common_group_are_placed_through_others() -> None:
    """Of four ranks in two tensor-parallel pairs and two data-parallel ones, rank 3 shares none with rank 0."""
    noise = random.Random(5)
    ahead = {"0": 0, "1": 11_000_000, "2": -22_000_000, "3": 33_000_000}
    groups = {"tp0": "01", "tp1": "23", "dp0": "02", "dp1": "13"}
    ranks: dict[str, list] = {name: [] for name in ahead}
    for number, (comm, members) in enumerate(groups.items()):
        ends = [10**9 + number * 100_000 + step * 1_000_000 for step in range(60)]
        for member in members:
            rows = rank(member, ends, (ahead[member], 0), noise, comm=comm)
            ranks[member] += [row | {"id": row["id"] + 1000 * number} for row in rows]
    found = fits(ranks)
    assert {name: abs(fit.move.offset + ahead[name]) < 700 for name, fit in found.items()} == dict.fromkeys("123", True)
    assert found["1"].through == found["2"].through == ""
    assert found["3"].through in ("1", "2")


@pytest.mark.parametrize("columns", [{"comm_seq": None}, {"comm_seq": None, "comm": None}])
def test_without_numbers_the_nth_is_the_nth(columns: dict[str, None]) -> None:
    noise = random.Random(2)
    ends = [10**9 + number * 1_000_000 for number in range(20)]
    ranks = {name: rank(name, ends, (ahead, 0), noise, **columns) for name, ahead in (("a", 0), ("b", 123_456))}
    assert abs(fits(ranks)["b"].move.offset + 123_456) < 1000


def test_a_number_says_which_even_where_the_first_ones_are_missing() -> None:
    noise = random.Random(2)
    ends = [10**9 + number * 1_000_000 for number in range(40)]
    late = rank("b", ends, (50_000, 0), noise)[13:]
    found = fits({"a": rank("a", ends, (0, 0), noise), "b": late})["b"]
    assert found.matched == 27
    assert abs(found.move.offset + 50_000) < 1000


def test_other_work_sends_and_too_few_are_refused() -> None:
    noise = random.Random(2)
    ends = [10**9 + number * 1_000_000 for number in range(10)]
    ranks = {name: rank(name, ends, (0, 0), noise) for name in "ab"}
    assert fits(ranks)["b"].matched == 10
    sends = [row | {"name": "ncclDevKernel_SendRecv(ncclDevKernelArgs)"} for row in ranks["b"]]
    gemms = [row | {"name": "sm90_gemm", "comm": None, "comm_seq": None} for row in ranks["b"]]
    for rows in (sends, gemms, ranks["b"][:2], []):
        with pytest.raises(InputError, match=r"too few collectives .*: b \(\d\)") as error:
            fits({"a": ranks["a"], "b": rows})
        assert "a has 10, b has" in str(error.value)


def merged(jitter: int, duration: int) -> Report:
    """The report of two ranks whose ends scatter by that much."""
    noise = random.Random(11)
    ends = [10**9 + number * 20_000_000 for number in range(60)]
    mine = rank("a", ends, (0, 0), noise, dur=duration)
    theirs = rank("b", [end + noise.randint(-jitter, jitter) for end in ends], (0, 0), noise, dur=duration)
    report = Report()
    assert sum(len(batch) for batch in aligned(batches(mine + theirs), Align("collective"), report)) == 120
    return report


@pytest.mark.parametrize(
    ("jitter", "duration", "warns"),
    [
        (3_000_000, 50_000_000, True),  # 1.5 ms: above 1 ms, though a small part of a collective
        (100_000, 200_000, True),  # 50 us of 200 us
        (100_000, 2_000_000, False),  # 50 us of 2 ms
        (20_000, 15_000, False),  # 10 us of 15 us: short collectives, good clocks
    ],
)
def test_a_large_residual_warns(jitter: int, duration: int, warns: bool) -> None:
    report = merged(jitter, duration)
    issue = report.issues.get("residual-large")
    assert (issue is not None) == warns
    if issue is not None:
        (place,) = issue.places
        median = time_text(report.alignment[1]["residual_median_ns"])
        lasts = time_text(duration)
        assert place == ("b", f"{median} (median) between a and b, of 60 collectives, which last {lasts}")
