"""One bad file of a folder is left out and said, whether its head or its middle is damaged; the rest is read."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import DamagedInput, InputError, StrictFailure

CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"HIP_RUNTIME_API_EXT","hipMalloc",1,1,1,100,200\n'
)
XML = (SAMPLES / "xctrace/tables-that-name-each-other.xml").read_bytes()
RUN = '{"traceEvents": [{"ph": "X", "name": "step", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
NO_GZIP = b"\x1f\x8b\x08\x00" + b"\xff" * 99


def _rocprofv3(folder: Path) -> tuple[Path, bytes]:
    (folder / "1_hip_api_trace.csv").write_text(CALLS)
    return folder / "2_hip_api_trace.csv.gz", NO_GZIP


def _xctrace(folder: Path) -> tuple[Path, bytes]:
    (folder / "run.metal-gpu-intervals.xml").write_bytes(XML)
    return folder / "run.gpu-counter-value.xml", XML + b"<!DOCTYPE export>"


def _ascend(folder: Path) -> tuple[Path, bytes]:
    shutil.copytree(SAMPLES / "ascend-csv/a-profile-without-a-timeline", folder, dirs_exist_ok=True)
    return next(folder.rglob("kernel_details.csv")).with_name("npu_module_mem.csv.gz"), NO_GZIP


def _tensorrt(folder: Path) -> tuple[Path, bytes]:
    shutil.copytree(SAMPLES / "tensorrt/a-folder-of-one-run", folder, dirs_exist_ok=True)
    timing = next(folder.glob("*.timing.json"))
    timing.unlink()
    return Path(f"{timing}.gz"), NO_GZIP


def _packed(folder: Path) -> tuple[Path, bytes]:
    (folder / "good.json").write_text(RUN)
    return folder / "torn.json.gz", NO_GZIP


def _parquet(folder: Path) -> tuple[Path, bytes]:
    (folder / "good.json").write_text(RUN)
    return folder / "torn.parquet", _torn(folder.parent)


def _torn(place: Path, rows: int = 30_000) -> bytes:
    """Returns a canonical file whose second half of rows is damaged."""
    row = '{"ph": "X", "name": "%d", "ts": %d, "dur": 1, "pid": 1, "tid": 1}'
    (place / "many.json").write_text("[" + ",".join(row % (at, at) for at in range(rows)) + "]")
    ktrace.convert(place / "many.json", place / "whole.parquet", overwrite=True)
    with pq.ParquetFile(place / "whole.parquet") as whole:
        table = whole.read()
    pq.write_table(table, place / "groups.parquet", row_group_size=rows // 2)
    data = bytearray((place / "groups.parquet").read_bytes())
    with pq.ParquetFile(place / "groups.parquet") as file:
        column = next(
            one
            for at in range(file.metadata.num_columns)
            if (one := file.metadata.row_group(1).column(at)).path_in_schema == "ts"
        )
    data[column.data_page_offset + 4 : column.data_page_offset + 300] = b"\xff" * 296
    return bytes(data)


@pytest.mark.parametrize("make", [_rocprofv3, _xctrace, _ascend, _tensorrt, _packed, _parquet])
def test_a_bad_file_is_left_out_and_the_rest_is_read(
    tmp_path: Path, make: Callable[[Path], tuple[Path, bytes]]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    bad, data = make(folder)
    whole = ktrace.read(folder)
    assert "bad-file" not in whole.report.issues
    bad.write_bytes(data)
    found = ktrace.read(folder)
    ((where, why),) = found.report.issues["bad-file"].places
    assert where == str(bad)
    assert "expected" in why and ";" in why
    assert found.report.balanced()
    rows = [len(trace.events) + len(trace.summaries) for trace in (whole, found)]
    assert rows[1] >= rows[0] > 0
    assert [entry["path"] for entry in found.report.inputs][:1] == [entry["path"] for entry in whole.report.inputs]
    with pytest.raises(StrictFailure):
        ktrace.convert(folder, tmp_path / "run.jsonl", strict=True)
    with pytest.raises(InputError, match=bad.name):
        ktrace.read(bad)


def test_a_bad_table_of_nsys_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    shutil.copytree(SAMPLES / "nsys-tables/a-file-a-table_pqtdir", folder)
    whole = ktrace.read(folder)
    table = pa.table({"start": list(range(90_000)), "end": list(range(90_000))})
    pq.write_table(table, folder / "OSRT_API.parquet", compression="zstd", row_group_size=30_000)
    data = bytearray((folder / "OSRT_API.parquet").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = bytes(500)
    (folder / "OSRT_API.parquet").write_bytes(data)
    found = ktrace.read(folder)
    ((where, why),) = found.report.issues["bad-file"].places
    assert where.endswith("OSRT_API.parquet") and "nsys export" in why
    assert found.report.balanced()
    assert len(found.events) >= len(whole.events) > 0
    for file in folder.iterdir():
        file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DamagedInput, match="nsys export"):
        ktrace.read(folder)


def test_records_before_the_damage_stay_and_lost_ones_are_counted(tmp_path: Path) -> None:
    """What was read before the fault stays; what of it wasn't written is said: the account adds up."""
    folder = tmp_path / "run"
    folder.mkdir()
    bad, data = _parquet(folder)
    bad.write_bytes(data)
    report = ktrace.convert(folder, tmp_path / "out.jsonl")
    facts = report.reader.removed["catalog"]
    assert report.read == report.written + facts + report.issues["bad-file"].rows
    assert report.written >= 15_001
    assert [Path(entry["path"]).name for entry in report.inputs] == ["good.json", "torn.parquet"]


def test_nothing_is_said_of_a_source_that_gave_nothing(tmp_path: Path) -> None:
    """Its facts would be those of an empty track."""
    bad, data = _packed(tmp_path)
    bad.write_bytes(data)
    trace = ktrace.read(tmp_path)
    assert set(trace.catalog["source"]) == {"good"}
    (tmp_path / "good.json").unlink()
    with pytest.raises(InputError, match="torn"):
        ktrace.read(tmp_path)


def test_a_cut_file_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(RUN)
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-12])
    assert ktrace.read(tmp_path).report.issues["cut"].places[0][0].startswith("cut.json.gz: ")
    assert ktrace.read(tmp_path / "cut.json.gz").report.issues["cut"].places[0][0].startswith("byte ")


def test_a_damaged_database_names_the_other_form_of_the_run(tmp_path: Path) -> None:
    for name, data in {
        "ascend_pytorch_profiler_0.db": b"SQLite format 3\0" + b"\xff" * 4096,
        "trace_view.json": b"[]",
    }.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match="can't be read") as caught:
        ktrace.read(tmp_path)
    assert f"such as {tmp_path / 'trace_view.json'}" in str(caught.value.remedy)
    (tmp_path / "trace_view.json").unlink()
    with pytest.raises(InputError, match="can't be read") as caught:
        ktrace.read(tmp_path)
    assert "other form" not in str(caught.value.remedy)
