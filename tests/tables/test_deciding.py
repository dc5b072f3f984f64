"""The column that decides stays next to the name on a narrow terminal, and rows that matter less are dim."""

from __future__ import annotations

from ktrace.tables import Column, Table
from ktrace.tables.text import as_text

COLUMNS = (
    Column("kernel"),
    *(Column(name, "ns") for name in ("a", "b")),
    Column("change", "ns", signed=True),
    Column("noise", decides="within noise"),
)
ROWS = [("gemm", 1_000_000, 1_200_000, 200_000, "clear"), ("norm", 1_000_000, 1_000_100, 100, "within noise")]
TABLE = Table("kernel", "", COLUMNS, list(ROWS))


def test_it_is_next_to_the_name_where_not_all_fit() -> None:
    lines = as_text([TABLE], width=44).splitlines()
    assert lines[0].split() == ["kernel", "noise", "a", "b"]
    assert lines[1].split() == ["gemm", "clear", "1.000", "ms", "1.200", "ms"]
    assert lines[3].split() == ["kernel", "change"]
    assert all(len(line) <= 44 for line in lines)


def test_it_is_in_its_place_where_all_fit() -> None:
    for width in (None, 160):
        assert as_text([TABLE], width=width).splitlines()[0].split() == ["kernel", "a", "b", "change", "noise"]


def test_rows_within_noise_are_dim_where_colours_are_allowed() -> None:
    _, clear, within = as_text([TABLE], width=160, colour=True).splitlines()
    assert "\x1b[31m+200.000 us\x1b[0m" in clear
    assert "\x1b[2m" not in clear
    assert within.count("\x1b[2m") == 5
    assert "\x1b[31m" not in within
    assert "\x1b" not in as_text([TABLE], width=160)
