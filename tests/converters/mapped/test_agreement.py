"""Two independent readers agree: the reader of a format, and a mapping of the same real table."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import SHARED

import ktrace

CORPUS = SHARED / "corpus"
EXTENTS = tuple(f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz")
NVPROF_COLUMNS = (*("name", "ts", "dur", "device", "stream", "context", "registers", "kind", "copy_kind"), *EXTENTS)
NVPROF = (
    "name=Name,start=Start,dur=Duration,device=Device,stream=Stream,context=Context,registers=Registers Per Thread,"
    + ",".join(f"{part}_{axis}={part.capitalize()} {axis.upper()}" for part in ("grid", "block") for axis in "xyz")
)


class Real(NamedTuple):
    """A real table: its format, its mapping, the record and the columns that both readers must agree on."""

    from_: str
    mapping: str
    columns: tuple[str, ...]
    record: str = "events"


REAL = {
    "nvprof/radixSortThrust_trace.csv": Real("nvprof", NVPROF, NVPROF_COLUMNS),
    "nvprof/gputrace_reduction.csv": Real("nvprof", NVPROF, NVPROF_COLUMNS),
    "rocprofv3/kernel_trace.csv": Real(
        "rocprofv3",
        "name=Kernel_Name,start=Start_Timestamp:ns,end=End_Timestamp:ns,device=Agent_Id,stream=Stream_Id,kind=Kind,"
        "thread=Thread_Id,correlation=Correlation_Id,block_x=Workgroup_Size_X,block_y=Workgroup_Size_Y,block_z=Workgroup_Size_Z",
        ("name", "ts", "dur", "device", "tid", "stream", "correlation", "kind", "block_x", "block_y", "block_z"),
    ),
    "ascend/kernel_details.csv": Real(
        "table",
        "name=Name,start=Start Time:us,dur=Duration:us,stream=Stream ID",
        ("name", "ts", "dur", "stream", "kind"),
    ),
    "nsys_stats_2023.4/csv/vector_add_profile_v3_cuda_gpu_kern_sum.csv": Real(
        "nsys-stats",
        "name=Name,total=Total Time,avg=Avg,median=Med,min=Min,max=Max,stddev=StdDev,"
        "count=Instances,percent=Time,kind=kernel",
        ("name", "kind", "unit", "total", "avg", "median", "min", "max", "stddev", "count", "percent"),
        "summaries",
    ),
}


def values(path: Path, columns: tuple[str, ...], record: str, **options: Any) -> list[tuple[Any, ...]]:
    table = ktrace.read(path, **options).to_arrow()[record].select(list(columns))
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


@pytest.mark.parametrize("file", REAL)
def test_a_mapping_gives_the_same_rows_as_the_format(file: str) -> None:
    path, real = CORPUS / file, REAL[file]
    if not path.exists():
        pytest.skip(f"no {path}")
    by_format = values(path, real.columns, real.record, from_=real.from_)
    by_mapping = values(path, real.columns, real.record, map=real.mapping)
    if real.from_ == "nvprof":  # the reader takes the number of the launch, which nvprof appends, as correlation
        by_mapping = sorted(((re.sub(r" \[\d+\]$", "", name), *rest) for name, *rest in by_mapping), key=str)
    assert by_format
    assert by_mapping == by_format


def test_starts_and_durations_of_ascend_are_those_of_the_csv_module() -> None:
    path = CORPUS / "ascend/kernel_details.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    ns = [(Decimal(row["Start Time(us)"].strip()) * 1000, Decimal(row["Duration(us)"].strip()) * 1000) for row in rows]
    assert len(ns) == 591
    table = ktrace.read(path, map="name=Name,start=Start Time:us,dur=Duration:us").to_arrow()["events"]
    assert list(zip(table["ts"].to_pylist(), table["dur"].to_pylist(), strict=True)) == ns
