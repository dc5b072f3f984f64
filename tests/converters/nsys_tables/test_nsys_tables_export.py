"""What `nsys export` writes beside SQLite says the same as the SQLite of the same report."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import nsys_samples as made
import nsys_tables_samples as containers
import nsys_values_samples as values
import pyarrow as pa
import pytest
from nsys_reports import exported, readable

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput, InputError, KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source

Row = tuple[Any, ...]
COLUMNS = (
    "kind",
    "name",
    "ts",
    "dur",
    "pid",
    "tid",
    "device",
    "context",
    "stream",
    "correlation",
    "track",
    "value",
    "bytes",
)


def rows(path: Path, *, arguments: bool = True, less: tuple[str, ...] = ()) -> Counter[Row]:
    """The events, whatever their order, with what their stacks say in the place of the stacks' numbers."""
    tables = ktrace.read(path).to_arrow()
    stacks = {row["name"]: row["facts"] for row in tables["catalog"].to_pylist() if row["entity"] == "stack"}
    found: Counter[Row] = Counter()
    for row in tables["events"].to_pylist():
        said = json.loads(row["args"] or "{}")
        if "stack" in said:
            said["stack"] = stacks[said["stack"]]
        told = sorted((key, json.dumps(value)) for key, value in said.items() if key not in less)
        found[(*(row[name] for name in COLUMNS), *(told if arguments else []))] += 1
    return found


def write_hdf5(path: Path, found: dict[str, pa.Table]) -> Path:
    """Datasets of rows, in which none is 0 or an empty text, as --type hdf writes them."""
    h5py = pytest.importorskip("h5py")
    numpy = importlib.import_module("numpy")
    with h5py.File(path, "w") as file:
        for name, table in found.items():
            kinds = [
                (field.name, h5py.string_dtype() if pa.types.is_string(field.type) else field.type.to_pandas_dtype())
                for field in table.schema
            ]
            plain = [
                tuple(
                    ("" if pa.types.is_string(field.type) else 0) if row[field.name] is None else row[field.name]
                    for field in table.schema
                )
                for row in table.to_pylist()
            ]
            file[name] = numpy.array(plain, dtype=kinds)
    return path


@pytest.mark.parametrize("database", [containers.OLD, containers.VALUES], ids=lambda path: path.stem)
@pytest.mark.parametrize("container", ["arrow", "arrowdir", "parquetdir", "bytes", "gz"])
def test_other_containers_say_the_same(tmp_path: Path, database: Path, container: str) -> None:
    found = containers.tables(database, text=pa.binary() if container == "bytes" else None)
    if container == "arrowdir":
        path = containers.write_folder(tmp_path / "run_arwdir", found, "arrow")
    elif container == "parquetdir":
        path = containers.write_folder(tmp_path / "run_pqtdir", found, "parquet")
    else:
        path = containers.write_streams(tmp_path / "run.arrows", found)
    if container == "gz":
        import gzip

        packed = tmp_path / "run.arrows.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    assert choose(Source(str(path))).name == "nsys-tables"
    assert rows(path) == rows(database)


def test_hdf5_says_the_same_but_what_is_none(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "run.h5", containers.tables(containers.VALUES))
    assert choose(Source(str(path))).name == "nsys-tables"
    assert rows(path, less=("gpuId",)) == rows(containers.VALUES, less=("gpuId",))
    assert "no-nulls" in ktrace.read(path).report.issues


def test_a_row_of_zeros_alone_stands_for_a_table_that_is_not_there(tmp_path: Path) -> None:
    found = containers.tables(containers.VALUES)
    empty = pa.table({"start": pa.array([0]), "end": pa.array([0]), "globalTid": pa.array([0], pa.uint64())})
    path = write_hdf5(tmp_path / "run.h5", found | {"MEMORY_TRANSFER_EVENTS": empty, "UCP_WORKERS": empty})
    assert sum(rows(path).values()) == sum(rows(containers.VALUES).values())


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100) + b"NVTX_EVENTS")

    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="needs h5py") as caught:
        ktrace.read(path)
    assert "ktrace[hdf5]" in str(caught.value.remedy)


def test_numbers_without_a_sign_are_whole(tmp_path: Path) -> None:
    path = containers.write_streams(tmp_path / "run.arrows", containers.tables(containers.VALUES))
    events = ktrace.read(path).to_arrow()["events"].to_pylist()
    payloads = [said["uint64Value"] for row in events if "uint64Value" in (said := json.loads(row["args"] or "{}"))]
    assert payloads == [values.GREAT, values.SMALL]


def test_what_is_cut_off_is_told(tmp_path: Path) -> None:
    path = containers.write_streams(tmp_path / "run.arrows", containers.tables(containers.OLD))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    trace = ktrace.read(path)
    assert trace.report.issues["cut"].places
    path.write_bytes(data[:3000] + b"garbage" + data[3000:])
    with pytest.raises(KtraceError):
        ktrace.convert(path, tmp_path / "out.jsonl", strict=True)


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = containers.write_streams(tmp_path / "run.arrows", containers.tables(containers.OLD))
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert rows(path)
    path.write_bytes(path.read_bytes()[:-3000] + bytes(3000))
    with pytest.raises(DamagedInput):
        ktrace.read(path)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_one_table_of_a_folder_is_not_read_alone(tmp_path: Path, ending: str) -> None:
    folder = containers.write_folder(tmp_path / "run_dir", containers.tables(containers.OLD), ending)
    with pytest.raises(ClosedFormat, match="table NVTX_EVENTS") as caught:
        ktrace.read(folder / f"NVTX_EVENTS.{ending}")
    assert "convert its folder" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("run.json", '{"data":["[Unknown]","GpuMetrics"],"files":[]}\n{"Type":47,"TraceProcessEvent":{}}\n'),
        ("run.txt", 'data: "[Unknown]"\ndata: "GpuMetrics"\n'),
    ],
)
def test_raw_events_are_refused_with_the_better_export(tmp_path: Path, name: str, head: str) -> None:
    path = tmp_path / name
    path.write_text(head, "utf-8")
    with pytest.raises(ClosedFormat, match="lacks the devices") as caught:
        ktrace.read(path)
    assert "--type sqlite" in str(caught.value.remedy)


def test_a_table_that_stands_twice_is_refused_where_its_columns_differ(tmp_path: Path) -> None:
    found = containers.tables(containers.OLD)
    path = containers.write_streams(tmp_path / "run.arrows", found)
    other = pa.table({"x": pa.array([1])}).replace_schema_metadata({"table_name": "NVTX_EVENTS"})
    more = containers.write_streams(tmp_path / "more", {"NVTX_EVENTS": other})
    path.write_bytes(path.read_bytes() + more.read_bytes())
    with pytest.raises(DamagedInput, match="different columns"):
        ktrace.read(path)


@pytest.mark.skipif(
    not readable(2), reason="NVIDIA's nsys (KTRACE_NVIDIA_TOOLS), or a report that it can read, isn't here"
)
@pytest.mark.parametrize("container", ["arrow", "arrowdir", "parquetdir", "hdf"])
@pytest.mark.parametrize(("program", "report"), readable(2), ids=lambda path: path.name)
def test_real_exports_of_one_report(tmp_path: Path, program: Path, report: Path, container: str) -> None:
    database, other = tmp_path / "run.sqlite", tmp_path / f"run.{container}"
    assert exported(program, report, database, "--type", "sqlite")
    if not exported(program, report, other, "--type", container):
        pytest.skip("this nsys has no such type")
    if container == "hdf":
        pytest.importorskip("h5py")
    less = ("nestingLevel",) if container == "hdf" else ()
    assert rows(other, less=less) == rows(database, less=less)


@pytest.mark.skipif(
    not readable(2), reason="NVIDIA's nsys (KTRACE_NVIDIA_TOOLS), or a report that it can read, isn't here"
)
@pytest.mark.parametrize("container", ["json", "text"])
@pytest.mark.parametrize(("program", "report"), readable(2), ids=lambda path: path.name)
def test_real_raw_events_are_refused(tmp_path: Path, program: Path, report: Path, container: str) -> None:
    path = tmp_path / f"run.{container}"
    assert exported(program, report, path, "--type", container)
    with pytest.raises(ClosedFormat, match="raw events"):
        ktrace.read(path)


def test_the_samples_are_those_of_the_script(tmp_path: Path) -> None:
    sample = containers.SAMPLES / "nsys-tables" / "a-file-a-table_pqtdir"
    database = made.make(tmp_path / "a.sqlite", values.tables(), more=values.MORE)
    assert rows(sample) == rows(database)
