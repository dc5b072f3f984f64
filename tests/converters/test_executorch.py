"""What ExecuTorch's Inspector exports: summaries of executions (TSV), or each one (CSV), a delegate's clock or not."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read
from ktrace.trace.trace import Trace

TSV = SAMPLES / "executorch" / "three-runs-with-two-delegates.tsv"
CSV = SAMPLES / "executorch" / "executions-and-a-delegates-own-clock-cut.csv"


def rows_of(path: Path, separator: str) -> list[dict[str, str]]:
    """The whole rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file, delimiter=separator) if row["start_time"]]


def written(tmp_path: Path, text: str, name: str = "run.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def events(trace: Trace) -> set[tuple[Any, ...]]:
    return set(map(tuple, trace.events[["track", "name", "ts", "dur"]].values.tolist()))


def test_each_execution_is_an_event() -> None:
    expected = set()
    for row in rows_of(CSV, ","):
        if row["delegate_backend_name"] == "VulkanBackend" and row["is_delegated_op"] == "True":
            continue  # its starts are of another clock
        took = [round(Decimal(time) * 1_000_000) for time in row["raw"].strip("[]").split(",")]
        starts = [int(start) for start in row["start_time"].strip("[]").split(",")]
        expected |= {
            (row["event_block_name"], row["event_name"], start, dur) for start, dur in zip(starts, took, strict=True)
        }
    trace = read(CSV)
    assert events(trace) == expected
    assert len(expected) == 12
    assert dict(trace.report.reader.removed) == {"structure": 1, "bad-record": 1}


def test_what_a_delegate_measured_by_its_own_clock_is_a_summary() -> None:
    rows = read(CSV).summaries
    assert rows[["name", "kind", "total", "count"]].values.tolist() == [["vulkan.relu", "op", 8_000, 2]]


def test_a_summary_of_all_executions() -> None:
    found = {
        (row["name"], row["total"], row["avg"], row["median"], row["min"], row["max"], row["count"])
        for row in read(TSV).summaries.to_dict("records")
    }
    expected = set()
    for row in rows_of(TSV, "\t"):
        count = len(row["start_time"].split(","))
        avg, median, least, greatest = (Decimal(row[f"{name} (ms)"]) * 10**6 for name in ("avg", "p50", "min", "max"))
        figures = map(float, (avg * count, avg, median, least, greatest))
        expected.add((row["event_name"], *figures, count))
    assert found == expected
    assert len(read(TSV).events) == 0


def test_kinds_add_up_what_computes_once() -> None:
    """A call of a delegate is the total of its events, or all that is known of it."""
    rows = read(TSV).summaries
    assert rows[["name", "kind"]].values.tolist() == [
        ["Method::init", "metric"],
        ["Program::load_method", "metric"],
        ["DELEGATE_CALL", "total"],
        ["Convolution (NHWC, F32) IGEMM #1", "op"],
        ["Transpose (ND, X32) #1", "op"],
        ["native_call_topk.values", "op"],
        ["DELEGATE_CALL", "op"],
        ["Method::execute", "metric"],
    ]
    assert ktrace.summary(TSV).total == pytest.approx(48_000 + 3_000 + 6_000 + 1_500_000)
    assert ktrace.summary(CSV).total == 12_000 + 3_000 + 20_000 + 21_000 + 500 + 250


def test_arguments_are_those_that_say_something() -> None:
    rows = read(CSV).events.set_index("id")
    assert json.loads(rows.args[1]) == {
        "op_types": "['aten.linear.default']",
        "module_hierarchy": "{'aten_linear_default': {'L__self___head': ['L__self___head', "
        "'torch.nn.modules.linear.Linear']}}",
        "delegate_backend_name": "XnnpackBackend",
    }
    assert json.loads(rows.args[3]) == {"is_delegated_op": "True", "delegate_backend_name": "XnnpackBackend"}
    assert pd.isna(rows.args[12])


@pytest.mark.parametrize(
    ("unit", "factor"), [(" (us)", 1_000), (" (s)", 1_000_000_000), ("", 1_000_000), (" (cycles)", None)]
)
def test_units_are_those_of_the_headings(tmp_path: Path, unit: str, factor: int | None) -> None:
    text = f"event_block_name,event_name,avg{unit}\nExecute,native_call_add.out,2.5\n"
    trace = read(written(tmp_path, text))
    if factor is None:
        assert dict(trace.report.reader.removed) == {"structure": 1, "bad-record": 1}
    else:
        assert trace.summaries.total.tolist() == [2.5 * factor]


@pytest.mark.parametrize(
    "row",
    [
        "0,Execute,,2.5",
        "0,Execute,native_call_add.out,fast",
        "0,Execute,native_call_add.out",
        '0,Execute,"native_call_add.out,2.5',
        "0,Execute,native_call_add.out,nan",
    ],
)
def test_rows_without_a_name_or_a_time_are_skipped(tmp_path: Path, row: str) -> None:
    trace = read(written(tmp_path, f",event_block_name,event_name,avg (ms)\n1,E,a,1\n{row}\n"))
    assert trace.summaries.name.tolist() == ["a"]
    assert dict(trace.report.reader.removed) == {"structure": 1, "bad-record": 1}


def test_a_delegate_without_its_call_has_no_times(tmp_path: Path) -> None:
    text = CSV.read_text("utf-8").splitlines(keepends=True)
    trace = read(written(tmp_path, "".join(text[:2])))
    assert len(trace.events) == 0
    assert trace.summaries[["name", "count"]].values.tolist() == [["Fully Connected (NC, F32) GEMM #1", 2]]


@pytest.mark.parametrize("start", [b"\x08\0\0\0ED00", b"\xc4\x06\0\0\x0c\0\0\0ED00"])
def test_an_etdump_is_refused_with_its_export(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(start + bytes(range(256)))
    with pytest.raises(KtraceError) as error:
        read(path)
    assert "an ETDump of ExecuTorch" in str(error.value)
    assert "Inspector(" in str(error.value)
