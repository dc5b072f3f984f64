"""Tables as text, CSV, JSON and Markdown, read back by parsers that we didn't write."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from markdown_it import MarkdownIt

from ktrace.page.render import FORMATS, rendered
from ktrace.tables import (
    UNSEEN,
    Cell,
    Column,
    Table,
    duration,
    escape_controls,
    shortened,
    shortened_apart,
    shown,
    size,
)
from ktrace.tables.text import as_csv, as_json, as_markdown, as_text

#: Beyond 2**53: a float would lose its last digits.
BIG = 2**60 + 1
HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07 kernel",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "two\nlines\r\nand\ttabs",
    "a|b`c`*d*_e_[f](https://example.org)#12 @somebody &amp; \\",
    '=HYPERLINK("http://example.org")',
    "-[MTLCommandBuffer commit]",
    "\u202egnp.exe \u2028 \x9b31m \ud800",
    "void cutlass::Kernel<" + "cutlass::gemm::GemmShape<128, 128, 64>, " * 250 + "float>(Params)",
    "日本語のカーネル",
    "",
]


def sample() -> list[Table]:
    rows: list[tuple[Cell, ...]] = [
        ("gemm", 1_200_000, 61.5, BIG, -250.0),
        ("norm", np.int64(751_000), np.float64(38.5), 3, 12.0),
    ]
    figures = (Column("operation"), Column("time", "ns"), Column("share", "%"), Column("count", "count"))
    columns = (*figures, Column("change", "ns", signed=True))
    first = Table("operation", "by operation", columns, rows, ["A note."], more=7)
    unknown: list[tuple[Cell, ...]] = [("a", None, math.nan), ("b", 5, math.inf), ("c", 4096, 0.1 + 0.2)]
    return [first, Table("copies", "copies", (Column("kind"), Column("size", "B"), Column("ratio", "x")), unknown)]


def named(names: list[str]) -> Table:
    return Table("kernel", "by kernel", (Column("kernel"), Column("time", "ns")), [(name, 1000) for name in names])


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1.000 us"), (-1_234_567, "-1.235 ms"), (3.6e12, "1.000 h")],
)
def test_times_are_for_people(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_figures_are_for_people() -> None:
    assert [size(4096), size(12), size(2.5e9)] == ["4.1 kB", "12 B", "2.5 GB"]
    assert shown(0.5, Column("change", "%", signed=True)) == "+0.5%"
    growth = Column("change", "%", signed=True, factors=True)
    assert [shown(value, growth) for value in (-50.0, 99.94, 100.0, 69_266.7)] == ["-50.0%", "+99.9%", "2.0x", "694x"]
    assert shown(250.0, Column("points", "%", signed=True)) == "+250.0%"
    assert shown(-1500, Column("change", "ns", signed=True)) == "-1.500 us"
    assert shown(1_234_567, Column("count", "count")) == "1,234,567"
    assert shown(1234.56, Column("count", "count")) == "1,234.6"
    assert shown(1.5, Column("ratio", "x")) == "1.50x"
    assert shown(0.0123456, Column("p")) == "0.01235"
    assert [shown(cell, Column("time", "ns")) for cell in (None, math.nan, -math.inf)] == ["", "", ""]


def test_a_name_is_shortened_in_its_middle() -> None:
    assert shortened("short", 5) == "short"
    assert shortened("abcdefghijklmnopqrstuvwxyz", 10) == "abcdef…xyz"
    assert all(len(shortened("x" * 100, width)) == width for width in range(1, 100))


_SAME, _END = "void ck_tile::kentry<" + "P, " * 60, ", Q" * 60 + ">(K)"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200, None])
@pytest.mark.parametrize("parts", [("FmhaFwd", "FmhaBwd", "Gemm"), ("128x64", "128x128"), ("", "x", "界", "\n")])
def test_different_names_of_a_table_look_different(width: int | None, parts: tuple[str, ...]) -> None:
    names = [_SAME + part + _END for part in parts]
    table = Table("t", "t", (Column("name"), Column("time", "ns")), [(name, 1) for name in [*names, *names, "short"]])
    text = as_text([table], width=width).splitlines()[2:]
    assert text[: len(names)] == text[len(names) : -1]  # equal names look equal
    assert len(set(text)) == len(names) + 1
    assert all(len(line) <= (width or 120) for line in text)
    rows = [line for line in as_markdown([table]).splitlines() if "kentry" in line]
    assert len(set(rows)) == len(names)


def test_names_show_where_they_differ_only_if_they_must() -> None:
    names = ["begin " + "x" * 100 + middle + "y" * 100 + " end" for middle in ("forward", "backward")]
    assert shortened_apart(names, 40) == [
        "begin xxxxxxx…xxxxforwardy…yyyyyyyyy end",
        "begin xxxxxxx…xxxxbackward…yyyyyyyyy end",
    ]
    other = "other" + names[1]
    assert shortened_apart([names[0], other, names[0]], 40) == [
        shortened(name, 40) for name in (names[0], other, names[0])
    ]
    far = ["x" * 100 + a + "y" * 100 + b + "z" * 100 for a, b in (("a", "a"), ("b", "a"), ("b", "b"), ("a", "b"))]
    assert [text.rpartition(" ")[2] for text in shortened_apart(far, 40)][2:] == ["#1", "#2"]
    assert len(set(shortened_apart(far, 40))) == 4


def test_two_columns_of_one_key_are_an_error() -> None:
    with pytest.raises(ValueError, match="same key"):
        Table("t", "t", (Column("time", "ns"), Column("time", "ns")), [])


def test_two_tables_of_one_name_are_an_error_in_json() -> None:
    with pytest.raises(ValueError, match="same name"):
        as_json([sample()[0], sample()[0]])


def test_names_of_tables_are_harmless_too() -> None:
    tables = [named(["a"]), Table("=1+1 \x1b[2J", "t", (Column("kernel"),), [("b",)])]
    assert as_csv(tables).splitlines()[2] == r"'=1+1_\x1b[2J,b,"


def test_a_row_of_another_length_is_an_error() -> None:
    short = Table("t", "t", (Column("a"), Column("b")), [("only one",)])
    for format in FORMATS:
        with pytest.raises(ValueError, match="argument"):
            rendered([short], format)


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="isn't one of text, csv"):
        rendered(sample(), "yaml")


def test_csv_reads_back_with_equal_figures() -> None:
    table = sample()[0]
    frame = pd.read_csv(io.StringIO(as_csv([table])))
    assert list(frame) == ["operation", "time_ns", "share_percent", "count", "change_ns"]
    assert [tuple(row) for row in frame.itertuples(index=False)] == table.rows
    assert frame["count"].dtype == np.int64


def test_csv_of_several_tables_is_one_table() -> None:
    tables = sample()
    dtypes = {"count": "Int64", "time_ns": "Int64"}
    frame = pd.read_csv(io.StringIO(as_csv(tables)), dtype=dtypes, float_precision="round_trip")
    operations = frame[frame["table"] == "operation"].dropna(axis=1, how="all")
    assert list(operations) == ["table", "operation", "time_ns", "share_percent", "count", "change_ns"]
    assert operations["count"].tolist() == [BIG, 3]
    copies = frame[frame["table"] == "copies"]
    assert copies["ratio"].tolist()[2] == 0.3  # six digits of 0.1 + 0.2
    assert copies["size_bytes"].isna().tolist() == [True, False, False]
    assert copies["ratio"].isna().tolist() == [True, True, False]


def test_json_reads_back_with_equal_figures() -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    document = json.loads(as_json(sample(), title="run"), parse_constant=refuse)
    assert document["title"] == "run"
    assert document["tables"]["operation"][0] == {
        "operation": "gemm",
        "time_ns": 1_200_000,
        "share_percent": 61.5,
        "count": BIG,
        "change_ns": -250.0,
    }
    assert [row["ratio"] for row in document["tables"]["copies"]] == [None, None, 0.3]
    assert document["left_out"] == {"operation": 7}
    assert document["notes"] == ["A note."]
    assert json.loads(as_json([]))["tables"] == {}


def test_json_keeps_names_exactly_and_csv_but_for_escapes() -> None:
    text = as_json([named(HOSTILE)])
    assert [row["kernel"] for row in json.loads(text)["tables"]["kernel"]] == HOSTILE
    frame = pd.read_csv(io.StringIO(as_csv([named(HOSTILE)])), keep_default_na=False)
    expected = [f"'{name}" if name[:1] in ("=", "-") and name else escape_controls(name) for name in HOSTILE]
    assert frame["kernel"].tolist() == expected


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_acts_on_what_shows_it(format: str, name: str) -> None:
    """Nothing that a terminal obeys, or that can't be encoded, is left in any format."""
    text = rendered([named([name])], format, title=name)
    text.encode("utf-8")
    assert not [found for found in UNSEEN.findall(text) if found != "\n"]


def test_markdown_is_what_the_parser_sees() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(as_markdown([*sample(), named(HOSTILE)]))
    assert next(token.content for token in tokens if token.type == "inline") == "by operation"
    cells = [
        "".join(child.content for child in tokens[place + 1].children or [])
        for place, token in enumerate(tokens)
        if token.type == "td_open"
    ]
    assert cells[:5] == ["gemm", "1.200 ms", "61.5%", f"{BIG:,}", "-250 ns"]
    assert cells[-2 * len(HOSTILE) :: 2] == [shortened(escape_controls(name), 160).strip() for name in HOSTILE]
    kinds = {child.type for token in tokens for child in token.children or []}
    assert kinds <= {"text", "text_special"}
    assert not [token for token in tokens if token.type.startswith("html")]


def test_the_python_of_the_page_on_figures_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Table("kernel", "", (Column("kernel"), Column("time", "ns")), [("gemm", 5)])
    (tmp_path / "run.csv").write_text(as_csv([*sample(), kernels]), "utf-8")
    monkeypatch.chdir(tmp_path)
    reading, making = re.findall(r"```python\n(.*?)```", (ROOT / "docs/figures.md").read_text("utf-8"), re.S)
    names: dict[str, Any] = {"pandas": pd}
    exec(reading, names)
    assert names["kernels"].to_dict("records") == [{"table": "kernel", "time_ns": 5, "kernel": "gemm"}]
    exec(making, names)
    assert names["table"].rows == [("gemm", 249_629)]


def test_text_is_plain_when_piped() -> None:
    lines = as_text(sample()).splitlines()
    assert lines[:5] == [
        "by operation",
        "operation        time  share                      count   change",
        "gemm         1.200 ms  61.5%  1,152,921,504,606,846,977  -250 ns",
        "norm       751.000 us  38.5%                          3   +12 ns",
        "... and 7 more",
    ]
    assert lines[5:7] == ["A note.", ""]


def test_text_has_colours_only_where_asked() -> None:
    text = as_text(sample(), width=100, colour=True)
    assert "\x1b[1mby operation\x1b[0m" in text
    assert "\x1b[32m-250 ns\x1b[0m" in text
    assert "\x1b[31m+12 ns\x1b[0m" in text
    assert "\x1b" not in as_text(sample(), width=100)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_names_are_shortened_to_the_terminal(width: int) -> None:
    from rich.cells import cell_len

    lines = as_text([named([*HOSTILE, "日本語のカーネル" * 30])], width=width).splitlines()
    assert max(map(cell_len, lines)) == width
    ends = {cell_len(line) for line in lines[2:]}
    assert ends == {width}, "figures stand below one another"


def test_columns_that_do_not_fit_stand_below_the_others() -> None:
    columns = (Column("device"), *(Column(f"figure {number}", "ns") for number in range(9)))
    wide = Table("use", "use", columns, [(f"device {at}", *range(at, 9000 + at, 1000)) for at in range(2)])
    assert len(as_text([wide]).splitlines()) == 4
    lines = as_text([wide], width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert [line.split("  ")[0] for line in lines] == ["use", *["device", "device 0", "device 1"] * 3]
    headings = [word for line in lines if line.startswith("device  ") for word in line.split("  ") if "figure" in word]
    assert [heading.strip() for heading in headings] == [f"figure {number}" for number in range(9)]


def test_prose_is_below_its_row_and_whole() -> None:
    """In text alone: other forms have it in its column."""
    columns = (Column("kernel"), Column("time", "ns"), Column("advice", prose=True))
    told = "Read global memory in whole sectors, since each thread uses but 8 bytes of 32. " * 2
    table = Table("advice", "advice", columns, [("gemm", 1_000, told.strip()), ("norm", 2_000, None)])
    wide, narrow = as_text([table]), as_text([table], width=60)
    assert wide.splitlines() == [
        "advice",
        "kernel      time",
        "gemm    1.000 us",
        f"    {told.strip()}",
        "norm    2.000 us",
    ]
    assert max(map(len, narrow.splitlines())) <= 60
    assert " ".join(narrow.split()).count(told.strip()) == 1
    assert f"| gemm | 1.000 us | {told.strip()} |" in as_markdown([table])
