"""The vectorised parts against plain loops, with inputs that hypothesis makes."""

from __future__ import annotations

from itertools import chain

import numpy as np
import plain
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrace.analysis.work.durations import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    Durations,
    Samples,
    parts_of,
    percentiles,
    spread,
    usage,
)
from ktrace.analysis.work.occurrences import MarkedRanges, spans_on_device
from ktrace.analysis.work.spans import Ranges, innermost
from ktrace.model.batch import Batch
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.launches import Correlated, find_launches
from ktrace.store.vocabulary import RowKeys

INTERVALS = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 30)), max_size=25)
BLOCKS = st.sampled_from([1, 2, 7, 1000])
ROLES = {COMPUTE: "compute", COMMUNICATION: "communication", COPY: "copies"}
WORK = st.tuples(st.integers(-50, 50), st.integers(0, 30), st.sampled_from(list(ROLES)), st.integers(-1, 3))


def columns(rows: list[tuple[int, ...]], count: int, kind: str = "i8") -> list[np.ndarray]:
    return [np.array([row[place] for row in rows], kind) for place in range(count)]


@given(INTERVALS)
@settings(deadline=None)
def test_union(rows: list[tuple[int, int]]) -> None:
    begin, dur = columns(rows, 2)
    found = Intervals.union(begin, begin + dur)
    covered = {time for at, length in rows for time in range(at, at + length)}
    assert found.length == len(covered)
    assert {t for a, b in zip(found.begin.tolist(), found.end.tolist(), strict=True) for t in range(a, b)} == covered
    assert found.gaps().tolist() == plain.gaps((at, at + length) for at, length in rows)


@given(
    st.lists(
        st.tuples(st.integers(-50, 50), st.integers(0, 30), st.sampled_from(list(ROLES))), min_size=1, max_size=25
    ),
    BLOCKS,
)
@settings(deadline=None)
def test_parts(rows: list[tuple[int, int, int]], block: int) -> None:
    begin, dur, role = columns(rows, 3)
    found = usage(begin, begin + dur, role, block)
    swept = plain.sweep((at, at + length, ROLES[what]) for at, length, what in rows)
    assert found.busy == sum(time for roles, time in swept.items() if roles)
    assert found.gaps.tolist() == plain.gaps((at, at + length) for at, length, _ in rows)
    for name in ROLES.values():
        assert getattr(found, name) == sum(time for roles, time in swept.items() if name in roles)
    for name, others in (("communication", {"compute"}), ("copies", {"compute", "communication"})):
        alone = sum(time for roles, time in swept.items() if name in roles and not others & set(roles))
        assert getattr(found, f"exposed_{name}") == alone
    assert found.busy == found.compute + found.exposed_communication + found.exposed_copies


@given(st.lists(WORK, max_size=25), st.booleans(), BLOCKS)
@settings(deadline=None)
def test_parts_of_groups(rows: list[tuple[int, int, int, int]], far: bool, block: int) -> None:
    begin, dur, role, group = columns(rows, 4)
    # So far apart that the groups don't fit behind each other on one line of time.
    begin = np.where(begin == 50, begin + (1 << 60), begin) if far else begin
    found = parts_of(group, 4, begin, begin + dur, role, block)
    for number in range(4):
        mine = group == number
        if mine.any():
            own = usage(begin[mine], (begin + dur)[mine], role[mine])
            assert found[number].tolist() == [*own[1:]]
        else:
            assert not found[number].any()


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=12),
)
@settings(deadline=None)
def test_spans_of_steps_are_what_they_are_said_to_be_and_divide_the_time(
    walls: list[int], work: list[tuple[int, int, int]]
) -> None:
    """Steps on the host follow one another; their work begins at some time after its step has begun.

    A device comes to a step with the step, or when the work of all earlier ones has ended; it leaves it when its work
    has ended, or with the step, unless the work of the next one has begun. Without work before, nothing tells that it
    was at a step whose work begins after it.
    """
    close = np.cumsum(walls)
    opens = close - walls
    step, late, dur = columns(work, 3)
    step = step % len(walls)
    begin = opens[step] + late
    none = np.zeros(len(walls), np.int32)
    nothing = np.zeros(0, np.int64)
    roles = np.full(len(step), COMPUTE, np.uint8)
    since, found = spans_on_device(
        MarkedRanges(opens, close, none, none), step, (begin, begin + dur), roles, (nothing, nothing)
    )
    firsts = {number: begin[step == number].min() for number in sorted({*step.tolist()})}
    lasts = {number: (begin + dur)[step == number].max() for number in firsts}
    times: list[int] = []
    for number in range(len(walls)):
        if number not in firsts:
            assert (since[number], found[number]) == (0, 0)
            continue
        before = [lasts[other] for other in firsts if other < number]
        after = [firsts[other] for other in firsts if other > number]
        come = max(opens[number], *before) if before else opens[number]
        if not before and firsts[number] >= close[number]:
            come = firsts[number]
        leave = max(lasts[number], min([close[number], *after[:1]]))
        mine = range(int(come), int(leave))
        assert (since[number], found[number]) == (come, len(mine))
        times += mine
    assert len(times) == len({*times})


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20)), max_size=15),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 62)), max_size=15),
)
@settings(deadline=None)
def test_the_innermost_range_around_a_time(ranges: list[tuple[int, int, int]], times: list[tuple[int, int]]) -> None:
    track, begin, dur = columns(ranges, 3)
    at_track, at = columns(times, 2)
    found = Ranges(track, begin, begin + dur).around(at_track, at)
    for (own, time), place in zip(times, found.tolist(), strict=True):
        around = [(b, -d, n) for n, (t, b, d) in enumerate(ranges) if t == own and b <= time < b + d]
        if not around:
            assert place == -1
        else:  # the one that began last; of those that began together the shortest, as in a viewer
            last = max(around)
            assert ranges[place][1:] == (last[0], -last[1])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 2)), max_size=12))
@settings(deadline=None)
def test_slices_around_slices(rows: list[tuple[int, int, int]]) -> None:
    # Nested by construction: each level divides the one above.
    nested = [(track, 64 * at + (1 << level), (64 >> level) - 2 * level - 2) for track, at, level in rows]
    track, begin, dur = columns(nested, 3)
    found = innermost(track, begin, begin + dur)
    order = sorted(range(len(nested)), key=lambda n: (nested[n][1], -nested[n][2], n))
    for place, n in enumerate(order):
        t, b, d = nested[n]
        around = [
            m for m in order[:place] if nested[m][0] == t and nested[m][1] <= b and b + d <= nested[m][1] + nested[m][2]
        ]
        assert found[n] == (around[-1] if around else -1)


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 2**40, -5]), st.integers(-1, 2)), max_size=12),
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 2**40]), st.integers(-1, 2), st.integers(0, 50), st.integers(0, 9)),
        max_size=12,
    ),
    st.booleans(),
)
@settings(deadline=None)
def test_launches(work: list[tuple[int, int]], calls: list[tuple[int, int, int, int]], far: bool) -> None:
    factor = 2**22 if far else 1  # so far apart that the correlations must be numbered anew
    correlation, process = columns(work, 2)
    known, of, ts, dur = columns(calls, 4)
    correlation, known = correlation * factor, known * factor
    machine = {-1: 0, 0: 0, 1: 0, 2: 1}  # -1 is the unknown process of machine 0

    def correlated(numbers: np.ndarray, processes: np.ndarray) -> Correlated:
        on = np.array([machine[one] for one in processes.tolist()], "i4")
        lane = np.zeros(len(numbers), "i4")
        return Correlated(numbers, np.where(processes < 0, 3, processes).astype("i4"), on, processes >= 0, lane)

    ts, dur = ts * 0, dur + 1  # the calls of a correlation lie in one another
    found = find_launches(
        correlated(correlation, process), correlated(known, of), lambda: (-ts - dur, ts), lambda: correlation * 0
    )
    for (number, own), place in zip(work, found.tolist(), strict=True):
        here = [n for n, call in enumerate(calls) if number and call[0] == number and machine[call[1]] == machine[own]]
        mine = [n for n in here if calls[n][1] == own]
        if not mine and own < 0 and len({calls[n][1] for n in here}) == 1:
            mine = here
        if not mine:
            assert place == -1
        else:
            first = min(mine, key=lambda n: -calls[n][3])
            assert calls[place][3] == calls[first][3] and place in mine


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**50), st.integers(-1, 2)), min_size=1, max_size=40),
    st.integers(1, 3),
    st.sampled_from([0, 100, 1 << 20]),
)
@settings(deadline=None)
def test_groups_of_durations(rows: list[tuple[int, int, int]], sources: int, limit: int) -> None:
    spill = Spill(limit)
    durations = Durations(spill, 3)
    for source in range(sources):
        group, dur, step = columns(rows[source::sources], 3)
        durations.add(str(source), dur=dur, shape=group.astype("i4"), step=step.astype("i4"))
    found = durations.groups("name", lambda some: some["shape"], list("abcde"))
    spill.close()  # the groups stay
    assert {one.key for one in found} == {"abcde"[number] for number, _, _ in rows}
    for one in found:
        mine = [(length, at) for number, length, at in rows if "abcde"[number] == one.key]
        own = sorted(length for length, _ in mine)
        assert one.durations is not None and one.durations.tolist() == own
        assert (one.total, one.count, one.min, one.max) == (sum(own), len(own), own[0], own[-1])
        assert one.steps is not None
        assert one.steps.tolist() == [sum(length for length, at in mine if at == number) for number in range(3)]
        assert one.median == pytest.approx(plain.percentile(own, 50), rel=1e-12)
    assert [one.total for one in found] == sorted((one.total for one in found), reverse=True)


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=30))
@settings(deadline=None)
def test_percentiles(values: list[int]) -> None:
    rising = np.sort(np.array(values, np.int64))
    for percent, found in zip((0, 50, 95, 99, 100), percentiles(rising, (0, 50, 95, 99, 100)), strict=True):
        assert found == pytest.approx(plain.percentile(values, percent), rel=1e-12)
        assert found == pytest.approx(np.percentile(rising, percent), rel=1e-12)
    told = spread(np.array(values, np.int64))
    assert told is not None and (told.count, told.total, told.max) == (len(values), sum(values), max(values))


CELLS = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([0, 7, -1, None]), st.sampled_from(["x", "y"]), st.booleans()
)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=12), max_size=4))
@settings(deadline=None)
def test_shapes(batches: list[list[tuple[str | None, int | None, str, bool]]]) -> None:
    shapes = RowKeys(("name", "stream", "kind", "track"))
    known: dict[tuple[object, ...], int] = {}
    for rows in batches:
        mine = [n for n, row in enumerate(rows) if row[3]]
        name, stream, kind, _ = zip(*rows, strict=True)
        columns = {
            "name": pa.array(name, pa.string()),
            "stream": pa.array(stream, pa.int64()),
            "kind": pa.array(kind, pa.string()).dictionary_encode(),
        }
        found = shapes.number(Batch("events", pa.RecordBatch.from_pydict(columns)), np.array(mine, np.int64))
        all_known = shapes.all()
        for place, number in zip(mine, found.tolist(), strict=True):
            assert list(all_known[number].values()) == [*rows[place][:3], None]
            assert known.setdefault(rows[place][:3], number) == number
    assert len({*known.values()}) == len(known) == len(shapes)


def test_figures_of_groups_are_those_of_whole_numbers() -> None:
    """Also above 2^53, where a quotient of rounded numbers is another one."""
    groups = [[1, 2, 2_842_706_008_825_306_499], [], [5], [1, 2, 4, 1000]]
    samples = Samples(np.array([*chain(*groups)], np.int64), np.array([*map(len, groups)]))
    found = list(samples.figures())
    for group, figures in zip([one for one in groups if one], found, strict=True):
        total, count, average, median, p95, p99, least, most = figures
        assert (total, count, average) == (sum(group), len(group), sum(group) / len(group))
        assert [median, p95, p99] == pytest.approx(np.percentile(group, [50, 95, 99]).tolist(), rel=1e-15)
        assert (least, most) == (group[0], group[-1])
