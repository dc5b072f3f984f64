"""The busy time of lanes is what a sweep over every nanosecond finds."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrace.analysis.questions.overview.lanes import (
    MARK,
    OPEN,
    RANGE,
    ROW,
    WORK,
    LaneName,
    Lanes,
    all_cells,
    by_lane,
    cells_of,
    with_pieces,
)
from ktrace.model.arrays import Structured
from ktrace.model.tracks import Track

NAMES = [
    LaneName("gemm", "kernel"),
    LaneName("norm", "kernel"),
    LaneName("op", "op"),
    LaneName("r", "range"),
    LaneName("step 3", "range"),
]
TRACKS = [Track("run", device=0, stream=7), Track("run", device=0, stream=20), Track("run", pid=1, tid=1)]
LANES = Lanes(TRACKS, NAMES)
#: Begin, duration (None: unfinished), track and name of a slice.
SLICES = st.lists(
    st.tuples(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 80)), st.integers(0, 2), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)
Slices = list[tuple[int, "int | None", int, int]]


def rows_of(slices: Slices) -> Structured:
    """The slices as rows in the order of time."""
    rows = np.zeros(len(slices), ROW)
    for number, (ts, dur, track, name) in enumerate(sorted(slices, key=lambda one: one[0])):
        lane = LANES.lane_numbers(np.array([track], np.int32), np.array([name], np.int32))[0]
        rows[number] = (ts, OPEN if dur is None else ts + dur, lane, name)
    return rows


def swept(rows: Structured, last: int, width: int) -> dict[int, dict[int, tuple[int, int, Counter[int]]]]:
    """Busy ns, slices that begin, and ns of each name, of each lane and bucket: nanosecond by nanosecond."""
    lanes: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for ts, end, lane, name in rows.tolist():
        for mine in {lane, int(LANES.whole[lane])} - {-1}:
            lanes[mine].append((ts, last if end >= OPEN else end, name))
    found: dict[int, dict[int, tuple[int, int, Counter[int]]]] = {}
    for lane, slices in lanes.items():
        buckets: dict[int, tuple[int, int, Counter[int]]] = {}
        owner: dict[int, int] = {}
        for ts, end, name in slices:
            for at in range(ts, end):
                owner[at] = name if LANES.nested[lane] else owner.get(at, name)
            busy, begun, names = buckets.get(ts // width, (0, 0, Counter()))
            buckets[ts // width] = busy, begun + 1, names
        for at, name in owner.items():
            busy, begun, names = buckets.get(at // width, (0, 0, Counter()))
            names[name] += 1
            buckets[at // width] = busy + 1, begun, names
        found[lane] = buckets
    return found


def by_bucket(cells: object) -> dict[int, dict[int, tuple[int, int]]]:
    return {
        lane: dict(zip(one.bucket.tolist(), zip(one.busy.tolist(), one.begun.tolist(), strict=True), strict=True))
        for lane, one in by_lane(cells)  # type: ignore[arg-type]
    }


@given(SLICES, st.integers(1, 7), st.sampled_from([1, 3, 1000]))
def test_the_buckets_are_those_of_a_sweep(slices: Slices, parts: int, most: int) -> None:
    rows = rows_of(slices)
    start = int(rows["ts"].min())
    last = max(int(rows["ts"].max()), max((int(end) for end in rows["end"] if end < OPEN), default=0)) + 1
    cells = all_cells(iter(np.array_split(rows, parts)), LANES, (start, last), most)
    moved = rows.copy()
    moved["ts"] -= start
    moved["end"] = np.where(moved["end"] >= OPEN, OPEN, moved["end"] - start)
    for shift in (cells.shift, cells.shift + 2, 40):
        wide = cells.wider(shift)
        truth = swept(moved, last - start, 1 << shift)
        assert by_bucket(wide) == {
            lane: {bucket: (busy, begun) for bucket, (busy, begun, _) in buckets.items() if busy or begun}
            for lane, buckets in truth.items()
        }
        for lane, bucket, name, time in zip(
            *(getattr(wide, key).tolist() for key in ("lane", "bucket", "name", "time")), strict=True
        ):
            assert truth[lane][bucket][2][name] == time


@given(SLICES, st.integers(0, 200), st.integers(1, 150))
def test_a_part_of_the_time_has_what_is_in_it(slices: Slices, start: int, length: int) -> None:
    rows = rows_of(slices)
    last = 500
    [(both, added, taken)] = with_pieces([rows], LANES, last)
    cells = cells_of(both, added, 0, 62, (start, start + length), taken)
    busy = {lane: int(one.busy[0]) for lane, one in by_lane(cells)}
    truth = {
        lane: sum(1 for at, (ns, _, _) in buckets.items() if ns and start <= at < start + length)
        for lane, buckets in swept(rows, last, 1).items()
    }
    assert {lane: ns for lane, ns in busy.items() if ns} == {lane: ns for lane, ns in truth.items() if ns}


def test_a_call_inside_an_operator_has_its_time() -> None:
    """200 launches of 3 ns, each in an operator of 10 ns: 600 ns of calls and 1,400 of operators."""
    names = [LaneName("aten::mm", "op"), LaneName("cudaLaunchKernel", "api")]
    lanes = Lanes([Track("run", pid=1, tid=1)], names)
    rows = np.zeros(400, ROW)
    rows["ts"] = np.sort([*range(0, 4_000, 20), *range(4, 4_004, 20)])
    rows["name"] = np.tile([0, 1], 200)
    rows["end"] = rows["ts"] + np.where(rows["name"], 3, 10)
    for parts in (1, 7, 400):
        cells = all_cells(iter(np.array_split(rows, parts)), lanes, (0, 4_000))
        time, count = (np.bincount(cells.name, column) for column in (cells.time, cells.count))
        assert (time.tolist(), count.tolist()) == ([1_400, 600], [200, 200])


@pytest.mark.parametrize(
    ("track", "name", "shows"), [(0, 0, WORK), (0, 3, RANGE), (0, 4, MARK), (2, 2, WORK), (2, 3, RANGE), (2, 4, MARK)]
)
def test_work_ranges_and_marks_have_lanes_of_their_own(track: int, name: int, shows: int) -> None:
    lane = LANES.all[LANES.lane_numbers(np.array([track], np.int32), np.array([name], np.int32))[0]]
    assert (lane.track, lane.shows) == (TRACKS[track], shows)


def test_the_heaviest_name_of_a_bucket_is_that_with_most_time() -> None:
    rows = rows_of([(0, 10, 0, 0), (10, 20, 0, 1), (40, 3, 0, 0)])
    cells = all_cells(iter([rows]), LANES, (0, 64))
    (_, buckets), (whole, again) = by_lane(cells.wider(5))
    assert [NAMES[name].name for name in buckets.name.tolist()] == ["norm", "gemm"]
    assert LANES.all[whole].track == Track("run", device=0)
    assert again.busy.tolist() == buckets.busy.tolist() == [30, 3]
