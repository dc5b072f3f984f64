"""CSV tables anywhere in a text as blocks of columns, compared with what the module csv says of the same lines."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar import csv_blocks
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.columnar.csv_parse import bare_cells
from ktrace.kit.text.headings import Dialect, find_csv
from ktrace.kit.text.lines import Line
from ktrace.report import Report

ROW = tuple[int, dict[str, str]]


def fits(cells: Sequence[str]) -> str | None:
    """Tables with a name and a start, or a name and calls."""
    names = {cell.casefold() for cell in cells}
    return "trace" if {"name", "start"} <= names else "sum" if {"name", "calls"} <= names else None


class Read:
    """All that a reading gives."""

    def __init__(self, path: Path, text: str | bytes, batch_rows: int = 65_536, **more: Any) -> None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.report = Report()
        self.tables: list[CsvTable] = []
        self.rows: list[tuple[int, int, dict[str, str]]] = []
        self.texts: list[tuple[int, str]] = []
        blocks = CsvBlocks(Source(str(path)), Conversion(self.report, batch_rows=batch_rows), fits, **more)
        for item in blocks:
            if isinstance(item, CsvTable):
                self.tables.append(item)
            elif isinstance(item, CsvRows):
                assert len(item.block) <= batch_rows
                columns = [item.block.get(name).to_pylist() for name in item.table.headings]  # type: ignore[union-attr]
                for number, *cells in zip(item.block.numbers.to_pylist(), *columns, strict=True):
                    self.rows.append((item.table.ordinal, number, dict(zip(item.table.headings, cells, strict=True))))
                self.report.used(len(item.block))
            elif isinstance(item, Line):
                self.texts.append((item.number, item.text))
        assert self.report.reader.balanced()

    def places(self, kind: str) -> list[str]:
        return [where for where, _ in self.report.issues[kind].places] if kind in self.report.issues else []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


def test_tables_stand_anywhere_with_units_and_other_headings(path: Path) -> None:
    text = """==12== NVPROF is profiling
hello, world, of CSV
"START","Duration","Name"
ms,us,
1.5,2,"f(int, ""x"")"
==12== Warning: something, odd
2.5,3,g

Name;Calls
f;3
"START","Duration","Name"
s,ms,
9,8,h
the end
"""
    read = Read(path, text)
    assert [(table.line, table.units, table.what) for table in read.tables] == [
        (3, ("ms", "us", ""), "trace"),
        (9, ("", ""), "sum"),
        (11, ("s", "ms", ""), "trace"),
    ]
    assert read.tables[0].unit("start") == "ms"
    assert read.rows == [
        (0, 5, {"START": "1.5", "Duration": "2", "Name": 'f(int, "x")'}),
        (0, 7, {"START": "2.5", "Duration": "3", "Name": "g"}),
        (1, 10, {"Name": "f", "Calls": "3"}),
        (2, 13, {"START": "9", "Duration": "8", "Name": "h"}),
    ]
    assert [number for number, _ in read.texts] == [1, 2, 6, 14]
    assert read.places("unrecognised") == ["lines 1-2", "line 6", "line 14"]
    assert read.report.reader.taken == 14
    assert read.report.reader.removed["structure"] == 6  # 3 headings, 2 units, 1 blank


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_separators_line_ends_byte_order_marks(path: Path, separator: str, end: str, mark: str) -> None:
    lines = [["Start", "Name"], ["1", "a b"], ["2", "ü"]]
    text = mark + end.join(separator.join(line) for line in lines) + end
    read = Read(path, text)
    assert read.rows == [(0, 2, {"Start": "1", "Name": "a b"}), (0, 3, {"Start": "2", "Name": "ü"})]
    assert not read.report.issues


def test_blanks_after_commas_and_separators_at_the_end_of_rows(path: Path) -> None:
    assert Read(path, 'Start, Name, Note\n1, "f(int, int)", x y\n').rows[0][2] == {
        "Start": "1",
        "Name": "f(int, int)",
        "Note": "x y",
    }
    assert Read(path, "Start,Name\n1,f,\n2,g,\n").rows[1][2] == {"Start": "2", "Name": "g", "#3": ""}
    assert Read(path, "Start,Name,\n1,f\n2,g\n").rows[1][2] == {"Start": "2", "Name": "g"}
    assert Read(path, "Start,Name,Name\n1,f,g\n").rows[0][2] == {"Start": "1", "Name": "f", "Name#2": "g"}


def test_a_cell_of_several_lines_is_one_row_and_the_next_has_its_own_line(path: Path) -> None:
    read = Read(path, 'Start,Name\n1,"two\nlines"\n2,b\nodd\n3,"three\n\nlines"\n4,d\n')
    assert [(number, row["Name"]) for _, number, row in read.rows] == [
        (2, "two\nlines"),
        (4, "b"),
        (6, "three\n\nlines"),
        (9, "d"),
    ]
    assert read.places("unrecognised") == ["line 5"]


def test_a_last_row_that_breaks_off_is_cut(path: Path) -> None:
    read = Read(path, "Start,Duration,Name\n1,2,a\n3,4")
    assert [number for _, number, _ in read.rows] == [2]
    assert read.places("cut") == ["line 3"]
    assert Read(path, 'Start,Duration,Name\n1,2,a\n3,4,"b').places("cut") == ["line 3"]
    assert not Read(path, "Start,Duration,Name\n1,2,a\n3,4,b").report.issues


def test_an_open_quote_takes_no_more_than_its_line(path: Path) -> None:
    read = Read(path, 'Start,Name\n1,a\n"odd\n2,b\n3,"c"\n')
    assert [number for _, number, _ in read.rows] == [2, 4, 5]
    assert read.places("unrecognised") == ["line 3"]


def test_bytes_that_are_no_text_are_replaced(path: Path) -> None:
    read = Read(path, b"Start,Name\n1,a\n2,\xff\n\xfe\n3,c\n")
    assert [row["Name"] for _, _, row in read.rows] == ["a", "\ufffd", "c"]
    assert read.places("encoding") == ["line 3", "line 4"]


def test_places_have_a_prefix(path: Path) -> None:
    read = Read(path, "Start,Name\n1,a\nodd\n", place="host/1_kernel_trace.csv: ")
    assert read.places("unrecognised") == ["host/1_kernel_trace.csv: line 3"]


def test_probes_find_the_headings() -> None:
    assert list(find_csv(["noise", "a,b", "Start\tName", "name;calls"], fits)) == [(3, "trace"), (4, "sum")]


NAMES = ("f", 'g<"x">', "h(int, int)", "two\nlines", "a\r\nb", "ünï", "", "void k<1, (int)2>(T*) [12]")


@pytest.mark.parametrize("chunk", [50, 1000, 1 << 22])
@pytest.mark.parametrize("piece", [64, 1 << 16])
@pytest.mark.parametrize("odd", [0.0, 0.002, 0.2])
def test_rows_are_those_of_the_module_csv(
    path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, piece: int, odd: float
) -> None:
    """Random rows with blank lines, noise and headings between them, however they are cut into chunks."""
    monkeypatch.setattr(csv_blocks, "CHUNK", chunk)
    monkeypatch.setattr(csv_blocks, "PIECE", piece)
    dice = random.Random(f"{chunk} {piece} {odd}")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    expected: list[tuple[int, int, dict[str, str]]] = []
    table, line, blank, noise = 0, 1, 0, 0
    headings = ["Start", "Name", "More"]
    writer.writerow(headings)
    for number in range(2000):
        if dice.random() < odd:
            line += 1
            what = dice.choice(("blank", "noise", "headings", "units"))
            if what == "blank":
                text.write("\n")
                blank += 1
            elif what == "noise":
                text.write(dice.choice(("==1== Warning\n", "x\n", 'it is 5" wide\n')))
                noise += 1
            else:
                headings = dice.choice((["Start", "Name", "More"], ["start", "Other", "name"], ["Calls", "NAME"]))
                writer.writerow(headings)
                table += 1
                if what == "units":
                    text.write("s" + "," * (len(headings) - 1) + "\n")
                    line += 1
                    blank += 1
        cells = [str(number), dice.choice(NAMES), dice.choice(("", "1.5", "abc"))][: len(headings)]
        line += 1
        expected.append((table, line, dict(zip(headings, cells, strict=True))))
        writer.writerow(cells)
        line += sum(cell.count("\n") for cell in cells)
    read = Read(path, text.getvalue(), batch_rows=700)
    assert [(table, number) for table, number, _ in read.rows] == [(table, number) for table, number, _ in expected]
    assert read.rows == expected
    assert len(read.texts) == noise
    assert read.report.reader.taken == line == text.getvalue().count("\n")
    assert read.report.reader.given == 2000


@pytest.mark.parametrize("rows", [0, 1, 9])
@pytest.mark.parametrize("other", ["Start,Name,More", "Name,Calls"])
def test_headings_that_repeat_cost_what_their_lines_cost(
    path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, other: str
) -> None:
    """What is parsed in all is a few times the text, and Arrow, whose every call costs 0.3 ms, is asked seldom."""
    parsed, calls = 0, 0
    lines, fast = csv_blocks.parse_lines, csv_blocks.parse_fast

    def count_lines(text: bytes, *more: Any) -> Any:
        nonlocal parsed
        parsed += len(text)
        return lines(text, *more)

    def count_calls(*more: Any) -> Any:
        nonlocal calls
        calls += 1
        return fast(*more)

    monkeypatch.setattr(csv_blocks, "parse_lines", count_lines)
    monkeypatch.setattr(csv_blocks, "parse_fast", count_calls)
    tables = ["Start,Name,More\n" + "1,a,b\n" * rows, other + "\n" + "x,7\n" * rows]
    text = "".join(tables) * 500
    read = Read(path, text)
    assert len(read.tables) == 1000
    assert calls < 50
    assert parsed < 16 * len(text)


@pytest.mark.parametrize(
    ("line", "width", "cells"),
    [
        ('1,"op<"a, b">(int, "x")",7', 3, ["1", 'op<"a, b">(int, "x")', "7"]),
        ('say "hi",2', 2, ['say "hi"', "2"]),
        ('"a","b"', 1, ['a","b']),
        ('"x, "y"",3,"p, "q" r"', 3, ['x, "y"', "3", 'p, "q" r']),
        ('"a","b","c"', 2, None),  # one name or the other holds the comma
        ("1,2", 3, None),
    ],
)
def test_cells_whose_quotes_are_not_doubled(line: str, width: int, cells: list[str] | None) -> None:
    assert bare_cells(line, width, Dialect(",", False, bare=True)) == cells
