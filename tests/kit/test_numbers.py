"""Numbers and units as tools print them."""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrace.kit.text.numbers import TIME_NS, is_missing, nanoseconds, number, quantity, to_ns, unix_ns


@pytest.mark.parametrize(
    ("text", "figure", "unit"),
    [
        ("64,892", "64892", ""),
        ("1.024000e-03", "0.001024", ""),
        ("57.0%", "57.0", "%"),
        ("1.266 s", "1.266", "s"),
        ("84.724 μs", "84.724", "μs"),
        ("84.724 µs", "84.724", "µs"),
        ("768ns", "768", "ns"),
        ('"8,192"', "8192", ""),
        ("-366,803.00", "-366803.00", ""),
        (".5", "0.5", ""),
        ("2.04 GB", "2.04", "GB"),
    ],
)
def test_a_quantity(text: str, figure: str, unit: str) -> None:
    assert quantity(text) == (Decimal(figure), unit)


@pytest.mark.parametrize("text", ["", "-", "kernel_2", "1,5", "12,34", "1.2.3", "x1", "0x1f y"])
def test_what_is_no_quantity(text: str) -> None:
    found = quantity(text)
    assert found is None or found.unit not in ("", "%")


@pytest.mark.parametrize("text", ["nan", "-nan(ind)", "inf", "-inf"])
def test_special_numbers(text: str) -> None:
    found = number(text)
    assert found is not None
    assert found.is_nan() or found.is_infinite()


@pytest.mark.parametrize("text", ["-", "--", "N/A", "", " "])
def test_fillers_say_that_there_is_no_number(text: str) -> None:
    assert is_missing(text)


@given(st.integers(-(10**15), 10**15))
def test_thousands_separators_are_taken_out(value: int) -> None:
    assert number(f"{value:,}") == value


@given(st.decimals(0, 10**12, places=9, allow_nan=False), st.sampled_from(sorted(TIME_NS)))
def test_a_time_in_ns_is_rounded_half_to_even_and_says_whether_it_is_exact(value: Decimal, unit: str) -> None:
    whole, exact = to_ns(value, unit)
    true = nanoseconds(value, unit)
    assert true is not None
    assert abs(true - whole) <= Decimal("0.5")
    assert exact == (true == whole)
    if abs(true - whole) == Decimal("0.5"):
        assert whole % 2 == 0


def test_a_unit_of_something_else_is_no_time() -> None:
    assert nanoseconds(Decimal(1), "GB") is None


@pytest.mark.parametrize(
    ("text", "decimals", "zone"),
    [
        ("2026-03-24T13:48:44", "688205635", "Z"),
        ("2026-03-24 13:48:44", "5", "z"),
        ("2024-02-29t23:59:59", None, "+05:30"),
        ("1969-12-31T23:59:59", "000000001", "-0800"),
    ],
)
def test_a_time_of_day_is_that_of_pandas(text: str, decimals: str | None, zone: str) -> None:
    expected = pd.Timestamp(f"{text.upper()}.{decimals or 0}{zone.upper()}")
    assert unix_ns(text, decimals, zone) == expected.value


@pytest.mark.parametrize("text", ["2026-02-29T00:00:00", "2026-13-01T00:00:00", "2026-01-01T24:00:01", "", "2026"])
def test_there_is_no_such_time(text: str) -> None:
    assert unix_ns(text) is None
