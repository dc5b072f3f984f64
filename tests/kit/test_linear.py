"""Readers of text take a time that grows with the text, not with its square: long blanks, digits, brackets, quotes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from ktrace.conversion import Conversion
from ktrace.converters.csv.reader import table_record
from ktrace.converters.table import probe, recognise
from ktrace.converters.torch_table.grid import rule
from ktrace.converters.webllm import read as read_webllm
from ktrace.errors import DamagedInput
from ktrace.input.source import Sample, Source
from ktrace.kit.columnar.csv_blocks import distinct_headings
from ktrace.kit.text.headings import cell_quantity, heading
from ktrace.kit.text.layouts import Words
from ktrace.kit.text.tables import SampleLines, read_tables
from ktrace.report import Report
from tests.helpers.timing import cpu_seconds, lasting

#: The text grows by this factor. Where the time grew with its square, it would be 576 times as long.
_FACTOR = 24
_BOUND = 150

_SHORT = 600
_BLANKS = count()


def _time(work: Callable[[str], object], text: str) -> float:
    """CPU time, the least of five; each text is a blank longer, so that no cache knows it."""
    return min(cpu_seconds(work, text + " " * next(_BLANKS)) for _ in range(5))


def _out_of_proportion(work: Callable[[str], object], short: str, long: str) -> tuple[float, float] | None:
    seconds = _time(work, short), _time(work, long)
    return seconds if seconds[1] >= _BOUND * max(seconds[0], 1e-5) else None


def _scan(*above: str) -> Callable[[str], object]:
    return lambda text: list(read_tables(SampleLines([*above, text]), recognise))


def _probe(text: str) -> object:
    return probe(Sample("some.txt", text.encode()))


def _refuse(text: str) -> None:
    with suppress(DamagedInput):
        table_record(text.split(","), "t.csv")


@pytest.mark.parametrize(
    ("work", "before", "unit", "behind"),
    [
        pytest.param(_scan(), "# a", " ", "b", id="a title with blanks"),
        pytest.param(_scan(), "== a", " ", "b", id="a banner with blanks"),
        pytest.param(_scan(), "** a", " ", "b", id="stars with blanks"),
        pytest.param(_scan(), "```", " ", "x y", id="a fence with blanks"),
        pytest.param(_scan(), "<", "a", "", id="an unclosed tag"),
        pytest.param(_scan("Name Time(ms) Calls", "gemm 12 3"), "", "1 ", "b c", id="a row of many figures"),
        pytest.param(_scan("Name Time(ms) Calls", "gemm 12 3"), "a", " ", "b", id="a row of blanks"),
        pytest.param(_scan("Name  Time (ms)", "----  ---------"), "a", " ", "b", id="a row of blanks below dashes"),
        pytest.param(cell_quantity, "", "1", " x y", id="a cell of digits"),
        pytest.param(cell_quantity, "", "1,", "\nb", id="a cell of digits and commas"),
        pytest.param(heading, "", "a_", "b", id="a heading of words"),
        pytest.param(heading, "", "(a", "b", id="a heading of brackets"),
        pytest.param(_probe, "Name", " ", "x\nk 1 2 3\n", id="headings with wide padding"),
        pytest.param(_probe, "name\n", '" ', "\n", id="quotes and blanks"),
        pytest.param(_probe, "name (ms) ", "1", "\n", id="digits behind a heading"),
        pytest.param(_probe, "", "name_", "\n", id="names after one another"),
        pytest.param(rule, "", "-", "x", id="a rule that is none"),
        pytest.param(lambda text: distinct_headings(text.split(",")), "", "a,", "", id="headings that are equal"),
        pytest.param(_refuse, "record,source,id", ",a", "", id="columns that are equal"),
    ],
)
def test_the_time_grows_with_the_text(work: Callable[[str], object], before: str, unit: str, behind: str) -> None:
    short, long = (before + unit * (_SHORT * factor) + behind for factor in (1, _FACTOR))
    slow = lasting(lambda: _out_of_proportion(work, short, long))
    assert not slow, slow


def test_nested_braces_are_looked_through_once(tmp_path: Path) -> None:
    def read(text: str) -> object:
        path = tmp_path / "some.log"
        path.write_text(text, "utf-8")
        return list(read_webllm(Source(str(path)), Conversion(Report())))

    short, long = ('{"a":' * depth + '"x"' + "}" * depth + "\n" for depth in (200, 200 * _FACTOR))
    slow = lasting(lambda: _out_of_proportion(read, short, long))
    assert not slow, slow


def test_padding_makes_no_difference_to_what_a_probe_says() -> None:
    narrow = "Kernel  Time (ms)  Calls\nk  1.5  2\n"
    wide = narrow.replace("  ", " " * 3000)
    found, same = probe(Sample("a.txt", narrow.encode())), probe(Sample("a.txt", wide.encode()))
    assert found is not None and found == same


@pytest.mark.parametrize(
    ("line", "level", "words"),
    [
        ("# a", 1, "a"),
        ("## a b ##", 2, "a b"),
        ("   ### c#", 3, "c"),
        ("== x ==", 2, "x"),
        ("=== x y ===", 1, "x y"),
        (" ** CUDA Kernels (sum):", 7, "CUDA Kernels (sum)"),
        ("**bold**", 7, "bold"),
        ("**bold**:", 7, "bold"),
    ],
)
def test_titles(line: str, level: int, words: str) -> None:
    rows = list(read_tables(SampleLines([line, "Name,Time (ms)", "k,1"]), recognise))
    assert [(title.level, title.text) for title in rows[0].path] == [(level, words)]  # type: ignore[union-attr]


@pytest.mark.parametrize("line", ["#a", "==== x ====", "** a * b:", "= x =", "####### a", "    # a"])
def test_no_titles(line: str) -> None:
    rows = [
        item for item in read_tables(SampleLines([line, "Name,Time (ms)", "k,1"]), recognise) if hasattr(item, "path")
    ]
    assert rows[-1].path == ()


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("57.0% 1.266 s 192 my gemm", ["57.0%", "1.266 s", "192", "my gemm"]),
        ("my gemm 57.0% 1.266 s 192", ["my gemm", "57.0%", "1.266 s", "192"]),
        ("a 5 3 s - N/A", ["a 5", "3 s", "-", "N/A"]),
        ("1 2 3 s", ["1", "2", "3", "s"]),
        ("1e5 2,000 84.7 μs  gemm<1, 2>", ["1e5", "2,000", "84.7 μs", "gemm<1, 2>"]),
        ("gemm 1 2", None),
        ("1 2 3", None),
    ],
)
def test_figures_between_single_blanks(row: str, cells: list[str] | None) -> None:
    assert Words(4).split(row) == cells
