"""Tables as a workbook: read back by openpyxl and pandas, and as the XML that is in it."""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from conftest import SAMPLES
from fork_server import program
from test_tables import BIG, HOSTILE, named, sample

from ktrace.tables import Column, Table
from ktrace.tables.workbook import as_workbook

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
OTHER = SAMPLES / "kineto/collectives-of-two-ranks-rank0.json"


def opened(data: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(data))


def xml(data: bytes) -> dict[str, ElementTree.Element]:
    """The parts of a workbook, by name; fails if one isn't well-formed XML."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: ElementTree.fromstring(archive.read(name)) for name in archive.namelist() if name.endswith("xml")}


def test_a_sheet_for_each_table_with_exact_figures_and_units() -> None:
    book = opened(as_workbook(sample(), title="run"))
    assert book.sheetnames == ["operation", "copies", "notes"]
    sheet = book["operation"]
    rows = [tuple(cell.value for cell in row) for row in sheet]
    assert rows[0] == ("operation", "time (ns)", "share (%)", "count", "change (ns)")
    assert rows[1:] == [("gemm", 1_200_000, 61.5, BIG, -250), ("norm", 751_000, 38.5, 3, 12)]
    assert [cell.number_format for cell in sheet[2]] == [
        "General",
        "#,##0",
        "0.0",
        "#,##0",
        "+#,##0.0;-#,##0.0;#,##0.0",
    ]
    assert [row[1].value for row in book["copies"]] == ["size (bytes)", None, 5, 4096]
    assert [row[2].value for row in book["copies"]] == ["ratio (x)", None, None, 0.1 + 0.2]
    assert [row[0].value for row in book["notes"]] == ["note", "operation: ... and 7 more rows", "A note."]


def test_headings_are_bold_and_stay_in_view() -> None:
    for sheet in opened(as_workbook(sample())):
        assert sheet.freeze_panes == "A2"
        assert all(cell.font.bold for cell in sheet[1])
        assert not any(cell.font.bold for cell in sheet[2])
        assert all(4 < sheet.column_dimensions[cell.column_letter].width < 70 for cell in sheet[1])


def test_pandas_reads_the_figures() -> None:
    frames = pd.read_excel(io.BytesIO(as_workbook(sample())), sheet_name=None)
    assert frames["operation"]["time (ns)"].tolist() == [1_200_000, 751_000]
    assert frames["operation"]["share (%)"].sum() == 100.0


def test_a_text_is_never_a_formula_nor_an_error() -> None:
    names = [*HOSTILE, "=1+1", "+1", "@SUM(A1)", "#N/A", "#REF!", "a\uffffb", "5", "TRUE", "1e3"]
    data = as_workbook([named(names), named(["=2+2"])], title="=3+3\x1b")
    parts = xml(data)
    sheets = {name: root for name, root in parts.items() if "/sheet" in name}
    assert len(sheets) == 2
    for root in sheets.values():
        assert not [node for node in root.iter() if node.tag.endswith("}f")]
        assert {node.get("t", "n") for node in root.iter() if node.tag.endswith("}c")} <= {"s", "inlineStr", "n"}
    rows = list(opened(data).worksheets[0].iter_rows(min_row=2))
    assert [row[0].value for row in rows][-9:] == [
        "=1+1",
        "+1",
        "@SUM(A1)",
        "#N/A",
        "#REF!",
        r"a\uffffb",
        "5",
        "TRUE",
        "1e3",
    ]
    assert {row[0].data_type for row in rows if row[0].value} == {"s"}
    assert all("\x1b" not in str(row[0].value) for row in rows)


def test_names_of_sheets_are_allowed_and_differ() -> None:
    columns = (Column("a"),)
    names = ["a/b[c]:*?", "x" * 50, "x" * 60, "History", "Notes", "", "kernel", "KERNEL"]
    book = opened(as_workbook([Table(name, "", columns, [("v",)], ["said"]) for name in names]))
    found = book.sheetnames
    assert len({name.lower() for name in found}) == len(names) + 1
    assert all(0 < len(name) <= 31 and not set(name) & set("[]:*?/\\'") for name in found)
    assert found[0] == "a_b_c____"
    assert "history" not in map(str.lower, found)


def test_what_excel_would_unescape_stays() -> None:
    """In a workbook _x000D_ is a carriage return, and _x005F_ an underscore."""
    sheet = opened(as_workbook([named(["a_x000D_b", "_xyz"])])).worksheets[0]
    assert [row[0].value for row in sheet.iter_rows(min_row=2)] == ["a_x005F_x000D_b", "_xyz"]


def ktrace(*arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [program(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env=os.environ | environment)


@pytest.mark.parametrize("command", ["summary", "diff"])
def test_commands_write_them(command: str, tmp_path: Path) -> None:
    inputs = [STEP] if command == "summary" else [STEP, OTHER]
    assert ktrace(command, *inputs, "-o", tmp_path / "o.xlsx").returncode == 0
    assert ktrace(command, *inputs, "-o", tmp_path / "o.csv").returncode == 0
    frame = pd.read_csv(tmp_path / "o.csv")
    book = openpyxl.load_workbook(tmp_path / "o.xlsx")
    first = frame["table"].iloc[0]
    for name in dict.fromkeys(frame["table"]):
        assert book[name.replace("_", " ")].max_row - 1 == (frame["table"] == name).sum()
    column = next(name for name in frame if name.endswith("_ns") and frame[frame["table"] == first][name].notna().all())
    place = [cell.value for cell in book[first][1]].index(column.removesuffix("_ns").replace("_", " ") + " (ns)")
    written = [row[place].value for row in book[first].iter_rows(min_row=2)]
    assert written == frame[frame["table"] == first][column].tolist()


@pytest.mark.parametrize("command", ["summary", "diff"])
@pytest.mark.parametrize("name", ["o.xls", "o.pdf", "o", "o.parquet"])
def test_an_unknown_extension_is_refused(command: str, name: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from ktrace.cli import cli
    from ktrace.errors import UsageError

    inputs = [str(STEP)] * (1 if command == "summary" else 2)
    done = CliRunner().invoke(cli, [command, *inputs, "-o", str(tmp_path / name)])
    assert isinstance(done.exception, UsageError)
    assert ".xlsx" in str(done.exception)
    assert ".html" in str(done.exception)
    assert not list(tmp_path.iterdir())
    done = CliRunner().invoke(cli, [command, *inputs, "-o", str(tmp_path / name), "--format", "md"])
    assert done.exit_code == 0
    assert "\n### by " in (tmp_path / name).read_text()


def test_openpyxl_is_named_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "openpyxl.py").write_text("raise ImportError('openpyxl')")
    done = ktrace("summary", STEP, "-o", tmp_path / "o.xlsx", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "a workbook (.xlsx) needs openpyxl" in done.stderr.decode()
    assert 'pip install "ktrace[xlsx]"' in done.stderr.decode()
    assert not (tmp_path / "o.xlsx").exists()
