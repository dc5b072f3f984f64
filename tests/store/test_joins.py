"""Joins by columns of numbers, against Python's own dictionaries and sets."""

from __future__ import annotations

import numpy as np
import pytest

from ktrace.store.joins import combined, distinct, each_group, find, greatest_so_far, isin_sorted, positions, ranges

_RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize("known", [[], [5], [-3, 0, 0, 2, 2, 2, 9]])
def test_positions_are_those_of_the_first_equal_value(known: list[int]) -> None:
    wanted = list(range(-5, 12))
    expected = [known.index(value) if value in known else -1 for value in wanted]
    assert positions(np.array(wanted), np.array(known, np.int64)).tolist() == expected
    assert isin_sorted(np.array(wanted), np.array(known, np.int64)).tolist() == [value in known for value in wanted]


def test_find_needs_all_columns_to_be_equal() -> None:
    known = [(1, 1), (1, 2), (2, 1), (1, 2)]
    wanted = [(1, 2), (2, 2), (2, 1), (0, 0)]
    columns = [[np.array(part) for part in zip(*rows, strict=True)] for rows in (wanted, known)]
    assert find(*columns).tolist() == [1, -1, 2, -1]


@pytest.mark.parametrize("size", [40, 1 << 60])
def test_distinct_codes_have_their_first_row(size: int) -> None:
    codes = _RANDOM.integers(0, 40, 500)
    first, which = distinct(codes, size)
    assert sorted(codes[first].tolist()) == sorted(set(codes.tolist()))
    assert all(codes.tolist().index(codes[row]) == row for row in first.tolist())
    assert (codes[first][which] == codes).all()


def test_combined_codes_are_equal_where_all_columns_are() -> None:
    huge = 1 << 40  # two of these are more than one code can count
    columns = [_RANDOM.integers(0, 3, 200), _RANDOM.integers(0, 2, 200), _RANDOM.integers(0, 3, 200)]
    codes, size = combined([(columns[0], huge), (columns[1], 2), (columns[2], huge)], 200)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(set(zip(codes.tolist(), rows, strict=True))) == len(set(rows)) == len(set(codes.tolist()))
    assert codes.max() < size


@pytest.mark.parametrize("wide", [1, 1 << 45, 1 << 57])
@pytest.mark.parametrize("rows", [0, 1, 400])
def test_the_greatest_value_so_far_is_that_of_its_group(rows: int, wide: int) -> None:
    """Also where the values of all groups, one above the other, are more than int64 has."""
    group, values = np.sort(_RANDOM.integers(0, 60, rows)), _RANDOM.integers(-20, 20, rows) * wide
    expected: list[int] = []
    for mine in each_group((group,)):
        assert len(set(group[mine].tolist())) == 1
        expected += [max(values[mine.start : row + 1].tolist()) for row in range(mine.start, mine.stop)]
    assert greatest_so_far(values, (group,)).tolist() == expected


@pytest.mark.parametrize(("first", "count"), [([5, 20], [3, 2]), ([7, 1, 4], [0, 2, 0]), ([3], [0]), ([], [])])
def test_ranges_follow_one_another(first: list[int], count: list[int]) -> None:
    expected = [number for one, many in zip(first, count, strict=True) for number in range(one, one + many)]
    assert ranges(np.array(first, np.int64), np.array(count, np.int64)).tolist() == expected
