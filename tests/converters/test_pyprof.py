"""PyProf: literals and tables, against the sums of the database that they come from."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.pyprof import literal

FOLDER = SAMPLES / "pyprof"
REAL = SAMPLES / "real/corpus/pyprof"
TIMES = [41_200, 900, 12_345_678_901]


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = ktrace.read(path, from_="pyprof").to_arrow()["summaries"].to_pylist()
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def test_literals() -> None:
    path = FOLDER / "kernels-as-literals-one-calls-a-function-cut.dict"
    first, second = rows_of(path)
    assert (first["name"], first["short_name"]) == (
        "void tile_gemm_kernel<half, 128>(half const*, half*)",
        "tile_gemm_kernel",
    )
    assert (first["total"], first["layer"], first["device"], first["stream"]) == (41_200, "Encoder:Block_1", 0, 7)
    assert [first[f"grid_{axis}"] for axis in "xyz"] == [16, 2, 1]
    args = json.loads(first["args"])
    assert args["op"] == ["linear"]
    assert args["trace"] == ["train.py:40", "model it.py:17"]
    assert "altSeqId" not in args
    assert (second["name"], second["total"]) == ("odd'name(char)", 900)
    issues = {kind: issue.places for kind, issue in ktrace.read(path).report.issues.items()}
    assert issues["bad-record"] == [("line 4", "not a dict of plain values")]
    assert issues["cut"] == [("line 5", "not a dict of plain values")]


@pytest.mark.parametrize(
    ("name", "names", "bad"),
    [
        ("all-cells-quoted-without-kernels.csv", ["linear", "LinearBackward", "__add__"], 2),
        (
            "columns-of-a-width-a-number-beyond-it.txt",
            ["tile_gemm_kernel", "a_kernel_with_a_name", "elementwise_kernel"],
            0,
        ),
        (
            "separated-by-blanks.txt",
            ["tile_gemm_kernel", "a_kernel_with_a_name_that_is_too_long", "elementwise_kernel"],
            1,
        ),
    ],
)
def test_tables(name: str, names: list[str], bad: int) -> None:
    rows = rows_of(FOLDER / name)
    assert [row["total"] for row in rows] == TIMES
    assert [row["name"] for row in rows] == names
    assert {(row["kind"], row["count"]) for row in rows} == {("kernel", 1)}
    issues = ktrace.read(FOLDER / name).report.issues
    assert sum(issue.rows for issue in issues.values()) == bad
    if "device" in rows[0]:
        assert [(row["device"], row["stream"], row["grid_x"], row["block_x"]) for row in rows] == [
            (0, 7, 16, 256),
            (1, 1009, 4, 32),
            (0, 7, 1, 64),
        ]
        assert [json.loads(row["args"])["FLOPs"] for row in rows] == [524_288, 1_234_567_890_123, 8]


@pytest.mark.parametrize("end", ["", " " * 8])
def test_the_example_of_the_readme(end: str, tmp_path: Path) -> None:
    """The first line of apex's README, whose name is cut to the width; editors cut blanks at the end of lines."""
    path = tmp_path / "columns.txt"
    heading = "Kernel              Op              Sil(ns)    TC FLOPs        Bytes        Dev Str Block        Grid"
    line = "volta_fp16_s884cudn conv2d              346083 1    6576668672    128483328   0   7 256,1,1      784,2,1"
    path.write_text(f"{heading}{end}\n{line}{end}\n")
    (row,) = rows_of(path)
    assert (row["name"], row["total"], row["grid_y"]) == ("volta_fp16_s884cudn", 346_083, 2)
    assert json.loads(row["args"]) == {"Op": "conv2d", "TC": 1, "FLOPs": 6_576_668_672, "Bytes": 128_483_328}


@pytest.mark.parametrize(
    "text",
    [
        "{'a': print(1)}",
        "{'a': __import__('os')}",
        "{'a': 1 + 1}",
        "{'a': b'x'}",
        "{'a': 'open",
        "[" * 100 + "]" * 100,
        "-" * 10_000 + "1",
        "1+" * 10_000 + "1",
        "{'a': ''" + " " * (1 << 20) + "}",
        "{{}: 1}",
    ],
)
def test_only_literals_are_parsed(text: str) -> None:
    assert literal(text) is None


def test_a_literal() -> None:
    text = """{'a': [1, -2.5, None], "b'": ('x\\'y', True)}"""
    assert literal(text) == ast.literal_eval(text)


def test_a_real_profile_adds_up_as_its_database(tmp_path: Path) -> None:
    base = tmp_path / "net.sql"
    base.write_bytes(gzip.decompress((REAL / "net.sql.gz").read_bytes()))
    with closing(sqlite3.connect(base)) as connection:
        of_base = connection.execute(
            "SELECT end - start, deviceId, streamId, gridX, gridY, gridZ, blockX, blockY, blockZ"
            " FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
        ).fetchall()
    axes = [f"{extent}_{axis}" for extent in ("grid", "block") for axis in "xyz"]
    for name in ("net.dict", "lm.csv"):
        rows = rows_of(REAL / name)
        found = [(row["total"], row["device"], row["stream"], *(row[axis] for axis in axes)) for row in rows]
        assert sorted(found) == sorted(of_base)
        assert sum(row["total"] for row in rows) == 7_296_770
        assert not ktrace.read(REAL / name).report.issues


def test_every_field_of_a_real_profile() -> None:
    records = [ast.literal_eval(line) for line in (REAL / "net.dict").read_text().splitlines()]
    columns = ("kShortName", "kLongName", "kDuration", "device", "stream", "grid", "block", "layer")
    for row, record in zip(rows_of(REAL / "net.dict"), records, strict=True):
        assert (row["name"], row["short_name"], row["total"]) == (
            record["kLongName"],
            record["kShortName"],
            record["kDuration"],
        )
        assert json.loads(row["args"]) == {
            key: value for key, value in record.items() if key not in columns and value != []
        }
    with (REAL / "lm.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    for row, cell in zip(rows_of(REAL / "lm.csv"), cells, strict=True):
        args = json.loads(row["args"])
        assert (row["name"], row["total"]) == (cell["Kernel"], int(cell["Sil(ns)"]))
        for key in ("FLOPs", "Bytes"):
            assert args[key] == float(cell[key])
        assert args.get("Module", "na") == cell["Module"]
