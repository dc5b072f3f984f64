"""Numbers and units as tools print them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrace.kit.text.numbers import TIME_NS, is_missing, nanoseconds, number, quantity, to_ns


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
