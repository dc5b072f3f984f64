"""Times of the command line: exact, and what is none is told."""

from __future__ import annotations

import pytest

from ktrace.errors import UsageError
from ktrace.tables import parse_interval, parse_time, time_text


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10us", 10_000),
        ("10µs", 10_000),
        ("1.5s", 1_500_000_000),
        (" .5 ms ", 500_000),
        ("1712345678901234567ns", 1_712_345_678_901_234_567),
        ("1712345678.901234567s", 1_712_345_678_901_234_567),
        ("0", 0),
        ("-2ms", -2_000_000),
        ("0.4ns", 0),
        ("0.6ns", 1),
        ("-2h", -7_200_000_000_000),
        ("5.75 h", 20_700_000_000_000),
        ("30min", 1_800_000_000_000),
    ],
)
def test_a_time_is_exact(text: str, ns: int) -> None:
    assert parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("10", "'10' isn't a time with a unit"),
        ("", "'' isn't a time with a unit"),
        ("us", "'us' isn't a time with a unit"),
        ("10 sec", r"'sec' isn't a unit of time \(in '10 sec'\)"),
        ("0x", "'x' isn't a unit of time"),
        ("1e3s", "'1e3s' isn't a time"),
        ("nans", "'nans' isn't a time"),
    ],
)
def test_what_is_no_time_is_told(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_time(text)


def test_intervals_may_be_open() -> None:
    assert parse_interval("1.5s..2.0s") == (1_500_000_000, 2_000_000_000)
    assert parse_interval("..2s") == (None, 2_000_000_000)
    assert parse_interval("1s..") == (1_000_000_000, None)
    assert parse_interval("5ms..5ms") == (5_000_000, 5_000_000)
    for text in ("..", "1s", "", "1s-2s"):
        with pytest.raises(UsageError, match="isn't a time interval"):
            parse_interval(text)
    with pytest.raises(UsageError, match=r"ends before it begins\n  hint: 1s\.\.2s"):
        parse_interval("2s..1s")


@pytest.mark.parametrize("ns", [0, 1, 999, 1000, 1500, 123_456_789, 10**9, 10**18 + 1, -2_500_000])
def test_a_time_reads_back(ns: int) -> None:
    assert parse_time(time_text(ns)) == ns
