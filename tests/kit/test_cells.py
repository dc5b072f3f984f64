"""Columns of text cells as numbers, compared with Decimal cell by cell."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.columnar.text_cells import (
    argument,
    floats,
    integers,
    sizes,
    stripped,
    times,
    whole_numbers,
)
from ktrace.kit.columnar.typed_cells import Size, Text, Time, Whole, typed
from ktrace.report import Report

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def column(*cells: str | None) -> pa.StringArray:
    return pa.array(cells, pa.string())


@pytest.mark.parametrize("unit", NS)
@pytest.mark.parametrize("style", ["plain", "exponent", "mixed", "long"])
def test_times_are_those_of_decimal(unit: str, style: str) -> None:
    dice = random.Random(f"{unit} {style}")
    cells: list[str] = []
    for _ in range(2000):
        number = f"{dice.choice(('', '-'))}{dice.randrange(10**6)}.{dice.randrange(10**12):012d}"
        if style == "plain":
            number = number[: -dice.randrange(1, 13)].removesuffix(".")
        elif style == "exponent":
            number = f"{dice.random():.6e}"
        elif style == "mixed":
            number = dice.choice((number, f"{dice.random():.6e}", f"{dice.randrange(10**6):,}.5"))
        else:
            number += "5000"
        cells.append(number)
    found = times(column(*cells), unit)
    for text, ns, rounded in zip(cells, found.ns.to_pylist(), found.rounded.tolist(), strict=True):
        exact = Decimal(text.replace(",", "")) * NS[unit]
        assert ns == int(exact.quantize(Decimal(1), ROUND_HALF_EVEN)), text
        assert rounded == (exact != ns), text


def test_times_beyond_float64_and_in_units_of_their_own() -> None:
    assert times(column("1765432109876543211"), "ns").ns.to_pylist() == [1765432109876543211]
    assert times(column("1765432109876543.211"), "us").ns.to_pylist() == [1765432109876543211]
    assert times(column("1.266 s", "80.095ms", "2.046μs", "768ns", "5"), "us").ns.to_pylist() == [
        1_266_000_000,
        80_095_000,
        2046,
        768,
        5000,
    ]
    assert times(column("1e30", "x", "", None, "0x10"), "ns").ns.to_pylist() == [(1 << 63) - 1, None, None, None, None]
    assert times(column("0.5", "1.5", "2.5", "-0.5", "-1.5"), "ns").ns.to_pylist() == [0, 2, 2, 0, -2]
    assert times(column(), "ms").ns.to_pylist() == []


def test_whole_numbers_and_what_says_nothing() -> None:
    assert integers(column("1", " 2 ", "", "-", "N/A", "(null)", "8,192", "1.0", "0x10", "abc", "-7")).to_pylist() == [
        *(1, 2, None, None, None, None, 8192, 1, None, None, -7)
    ]
    assert whole_numbers(column("0x10")) is None
    assert whole_numbers(column(str((1 << 63) - 1))).to_pylist() == [(1 << 63) - 1]  # type: ignore[union-attr]
    assert whole_numbers(column(str(1 << 63))) is None
    assert whole_numbers(column("12", "0x10", "5").slice(2)).to_pylist() == [5]  # type: ignore[union-attr]
    assert stripped(column(" a ", "n/a", "null", "nullable")).to_pylist() == ["a", None, None, "nullable"]
    assert floats(column("1.5", "57.0%", "", "1,000", "x")).to_pylist() == [1.5, 57.0, None, 1000.0, None]


def test_sizes_are_1024_based_and_rounded_ones_are_known() -> None:
    found = sizes(column("64.000000", "2.441406e-04", "0", ""), "MB")
    assert found.bytes.to_pylist() == [64 << 20, 256, 0, None]
    assert found.rounded.tolist() == [False, True, False, False]  # 2.441406e-04 MB is 255.99997 B
    assert sizes(column("2.0625", "1"), "KB").bytes.to_pylist() == [2112, 1024]
    assert sizes(column("1.5GB", "5 B"), "KB").bytes.to_pylist() == [3 << 29, 5]


def test_arguments_are_numbers_cell_by_cell() -> None:
    assert argument(column("1", "", "3")).to_pylist() == [1, None, 3]
    assert argument(column("a", "b", "-")).to_pylist() == ["a", "b", None]
    assert argument(column("a", "1", "1.5", "0x10")).to_pylist() == [b'"a"', b"1", b"1.5", b'"0x10"']


def test_typed_blocks_keep_what_fields_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Start,Size,Grid X,Stream,Name\nms,MB,,,\n1.5,64,7,default,f\n0.0000005,2.441406e-04,8,7, g\n")
    report = Report()
    fields = {"ts": Time("start"), "bytes": Size("Size"), "grid_x": Whole("Grid X"), "name": Text("Name")}
    items = CsvBlocks(Source(str(path)), Conversion(report), lambda cells: "Name" in cells or None)
    (rows,) = (item for item in items if isinstance(item, CsvRows))
    block = typed(rows, {**fields, "stream": Whole("Stream")}, report)
    taken = {name: block.take(f"<{name}>").to_pylist() for name in (*fields, "stream")}  # type: ignore[union-attr]
    assert taken == {
        "ts": [1_500_000, 0],
        "bytes": [64 << 20, 256],
        "grid_x": [7, 8],
        "name": ["f", "g"],
        "stream": [None, 7],
    }
    rest = {name: column.to_pylist() for name, column in block.rest().items()}
    assert rest == {
        "args.$ts": [None, b"5e-07"],
        "args.Size (MB)": [None, b"0.0002441406"],
        "args.Stream": ["default", None],
    }
    assert report.issues["rounded"].places == [("line 4", "$ts")]


def test_columns_without_a_value_are_left_out_of_a_batch() -> None:
    """Also one that a reader made: a column of the source with its name keeps it."""
    cells = {"start": [5, 9], "end": [7, 9], "x": [1, 2]}
    block = Block("t row", pa.array([1, 2]), {name: pa.array(column) for name, column in cells.items()})
    batches = BatchBuilder(Conversion(Report()))
    empty = pa.nulls(2, pa.int64())
    columns = {"device": empty, "args.x": empty, "args.y": pa.array([None, 3])}
    batch = batches.events(block, batches.ids(2), kind="kernel", name="gemm", **block.span("start", "end"), **columns)
    assert [name for name in ("device", "args.x", "args.y", "args.x#2") if batch.has(name)] == ["args.x", "args.y"]
    assert batch.column("args.x").to_pylist() == [1, 2]
    assert (batch.column("ts").to_pylist(), batch.column("dur").to_pylist()) == ([5, 9], [2, 0])
    assert block.span("begin", "stop") == {"ts": None, "dur": None}
