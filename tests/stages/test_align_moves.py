"""How times move: against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrace.errors import InputError
from ktrace.model.row_builder import to_batch, to_rows
from ktrace.stages.align.moves import Move, moved

TIMES = st.integers(-(1 << 61), 1 << 61)
NEAR = st.integers(0, 10**15)
RATES = st.floats(-1e-3, 1e-3).filter(lambda rate: abs(rate) > 1e-12)


@given(st.lists(TIMES, min_size=1), st.integers(-(1 << 60), 1 << 60))
def test_a_constant_is_added_exactly(times: list[int], offset: int) -> None:
    assert Move(offset).times(np.array(times, np.int64)).tolist() == [time + offset for time in times]


@given(NEAR, st.integers(-(10**12), 10**12), RATES, NEAR)
def test_drift_is_within_a_nanosecond_of_the_exact_share(time: int, offset: int, rate: float, since: int) -> None:
    exact = time + offset + Fraction(rate) * (time - since)
    assert abs(Move(offset, rate, since).time(time) - exact) <= Fraction(501, 1000)


@given(st.lists(NEAR, min_size=2), RATES, NEAR)
def test_times_keep_their_order_under_drift(times: list[int], rate: float, since: int) -> None:
    moves = Move(5, rate, since).times(np.sort(np.array(times, np.int64)))
    assert np.all(np.diff(moves) >= 0)


@given(NEAR, st.integers(0, 10**6), st.integers(0, 10**6), RATES)
def test_what_nests_nests_after_drift(begin: int, before: int, length: int, rate: float) -> None:
    rows = [(begin, before + length), (begin + before, length)]  # both end in the same nanosecond
    batch = to_batch("events", [_slice(number, *row) for number, row in enumerate(rows, 1)])
    (outer, inner) = to_rows(moved(batch, Move(7, rate, begin)))
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] == outer["ts"] + outer["dur"]


@given(NEAR, NEAR, st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), RATES)
def test_two_moves_are_one(time: int, since: int, one: int, other: int, rate: float) -> None:
    for first, second in (
        (Move(one), Move(other)),
        (Move(one), Move(other, rate, since)),
        (Move(one, rate, since), Move(other)),
    ):
        assert first.then(second).time(time) == second.time(first.time(time))


def test_two_drifts_are_one_within_a_nanosecond() -> None:
    first, second = Move(10_000, 3e-6, 10**12), Move(-500, -8e-6, 2 * 10**12)
    for time in range(10**12, 3 * 10**12, 10**11):
        assert abs(first.then(second).time(time) - second.time(first.time(time))) <= 2


def test_nulls_durations_and_columns_stay_without_drift() -> None:
    batch = to_batch("links", [_link(1, 5), _link(2, None)])
    assert [row.get("ts") for row in to_rows(moved(batch, Move(100)))] == [105, None]
    events = to_batch("events", [_slice(1, 10, 3), _slice(2, 20, None)])
    assert [(row["ts"], row.get("dur")) for row in to_rows(moved(events, Move(100)))] == [(110, 3), (120, None)]
    assert moved(events, Move()) is events


def test_a_time_out_of_range_is_an_error() -> None:
    with pytest.raises(InputError, match="would leave the range"):
        moved(to_batch("events", [_slice(1, 1 << 61, 1)]), Move(1 << 61))


def _slice(number: int, ts: int, dur: int | None) -> dict[str, object]:
    return {"source": "a", "id": number, "kind": "op", "name": "x", "timing": "measured", "ts": ts, "dur": dur}


def _link(number: int, ts: int | None) -> dict[str, object]:
    return {"source": "a", "id": number, "link": "flow", "key": "1", "role": "out", "ts": ts}
