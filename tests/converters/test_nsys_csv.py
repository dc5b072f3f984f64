"""Reports in the shape of `nsys stats`, against figures of `statistics` and SQLite and against NVIDIA's own program."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import SAMPLES, SHARED
from nvidia import VARIABLE, programs

import ktrace
from ktrace.converters.nsys_csv import KernelSum
from ktrace.errors import InputError, UsageError
from ktrace.trace import read

TRACE, SUM = "run_cuda_gpu_trace.csv", "run_cuda_gpu_kern_sum.csv"
KINETO = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
DATABASES = {path.stem: path for path in sorted((SHARED / "corpus" / "nsys_sqlite").glob("*.sqlite"))}
PRINTED = sorted((SHARED / "corpus" / "nsys_stats_2023.4" / "csv").glob("*_cuda_gpu_kern_sum.csv"))
NSYS = programs("nsys")

Row = dict[str, str]


def canonical(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file of canonical records; rows without a record are events."""
    event = {"record": "event", "timing": "measured"}
    named = [
        {"source": "run", "id": number, **({} if "record" in row else event), **row} for number, row in enumerate(rows)
    ]
    lines = [{"ktrace": "1.0"}, *named]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def written(source: Path, out: Path, **options: Any) -> tuple[list[Row], ktrace.Report]:
    """The rows of a report by its headings."""
    report = ktrace.convert(str(source), str(out), **options)
    assert report.balanced()
    return rows_of(out), report


def rows_of(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        found = list(csv.reader(file))
    assert all(len(row) == len(found[0]) for row in found)
    return [dict(zip(found[0], row, strict=True)) for row in found[1:]]


def invented(path: Path) -> tuple[Path, dict[str, list[int]]]:
    """Three kernels in no order, with copies and a call between them; the durations of each kernel."""
    rng = random.Random(11)
    durations: dict[str, list[int]] = defaultdict(list)
    rows: list[dict[str, Any]] = []
    for name in ["once", *rng.choices(["gemm<float, 4>(float *)", "norm"], k=200)]:
        durations[name].append(dur := rng.choice([rng.randint(1, 50), rng.randint(10**5, 10**9)]))
        rows.append({"kind": "kernel", "name": name, "ts": rng.randint(0, 10**9), "dur": dur, "device": 0, "stream": 7})
    durations["same"] = [25, 25, 26, 25]
    rows += [{"kind": "kernel", "name": "same", "ts": 5, "dur": dur, "device": 1} for dur in durations["same"]]
    rows += [
        {"kind": "memcpy", "name": "Memcpy", "ts": 1, "dur": 9},
        {"kind": "api", "name": "launch", "ts": 1, "dur": 2},
    ]
    return canonical(path, rows), durations


def rounded(number: float) -> str:
    """As SQLite rounds, which nsys uses."""
    with sqlite3.connect(":memory:") as db:
        return str(db.execute("SELECT round(?, 1)", (number,)).fetchone()[0])


def test_sums_are_those_of_statistics(tmp_path: Path) -> None:
    source, durations = invented(tmp_path / "in.jsonl")
    rows, _ = written(source, tmp_path / SUM)
    whole = sum(map(sum, durations.values()))
    expected = [
        {
            "Time (%)": rounded(100 * sum(found) / whole),
            "Total Time (ns)": str(sum(found)),
            "Instances": str(len(found)),
            "Avg (ns)": rounded(statistics.fmean(found)),
            "Med (ns)": rounded(statistics.median(found)),
            "Min (ns)": str(min(found)),
            "Max (ns)": str(max(found)),
            "StdDev (ns)": rounded(statistics.stdev(found)) if len(found) > 1 else "0.0",
            "Name": name,
        }
        for name, found in durations.items()
    ]
    assert rows == sorted(expected, key=lambda row: -int(row["Total Time (ns)"]))
    assert len(rows) >= 3


@pytest.mark.parametrize("waiting", [1, 7, 1000])
def test_counting_durations_early_changes_nothing(waiting: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    names, durations = rng.choice(["a", "b", "c"], 500), rng.integers(0, 40, 500)
    path = tmp_path / SUM
    with path.open("wb") as stream:
        report = KernelSum(stream, waiting)
        for first in range(0, 500, 9):
            part = slice(first, first + 9)
            report.write(pa.array(names[part].tolist()), durations[part])
        report.close()
    for row in rows_of(path):
        found = durations[names == row["Name"]].tolist()
        assert row["Instances"] == str(len(found))
        assert row["Med (ns)"] == rounded(statistics.median(found))
        assert row["StdDev (ns)"] == rounded(statistics.stdev(found))
        assert int(row["Total Time (ns)"]) == sum(found)
    assert len(rows_of(path)) == 3


def test_kernels_of_no_time_have_no_share_and_equal_totals_are_sorted_by_count_and_name(tmp_path: Path) -> None:
    rows = [{"kind": "kernel", "name": name, "ts": 1, "dur": 0} for name in ("b", "c", "a", "a")]
    found, _ = written(canonical(tmp_path / "in.jsonl", rows), tmp_path / SUM)
    assert [row["Name"] for row in found] == ["b", "c", "a"]
    assert {row["Time (%)"] for row in found} == {""}


def test_a_trace_has_every_cell_in_the_units_of_nsys(tmp_path: Path) -> None:
    place = {"device": 1, "context": 3, "stream": 13}
    grid = {"grid_x": 4, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 40}
    memory = {"shared_memory": 6000, "shared_dynamic": 1500}
    kernel = {"kind": "kernel", "name": "gemm", "ts": 900, "dur": 250, "correlation": 7, "bytes": 12}
    copy = {"kind": "memcpy", "name": "copy", "ts": 100, "dur": 7, "bytes": 1500, "copy_kind": "DtoH"}
    rows = [
        {"record": "catalog", "entity": "device", "device": 1, "name": "Imaginary, 9000"},
        kernel | place | grid | memory | {"args": {"greenContextId": 5}},
        copy | place | {"args": {"srcKind": "Device", "dstKind": "Pinned", "greenContextId": 0}},
        {"kind": "memset", "name": "fill", "ts": 500, "dur": 0, "bytes": 4500, "args": {"memKind": "Managed"}},
        {"kind": "memcpy", "name": "Memcpy PtoP (Device -> Array)", "ts": 501, "dur": 1, "copy_kind": "PtoP"},
        {"kind": "memcpy", "name": "other", "ts": 502, "dur": 1, "device": 0},
    ]
    source = canonical(tmp_path / "in.jsonl", rows)
    written(source, tmp_path / TRACE)
    assert (tmp_path / TRACE).read_text().splitlines() == [
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
        "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name",
        '100,7,,,,,,,,,,,0.002,214285.713,Device,Pinned,"Imaginary, 9000 (1)",3,,13,[CUDA memcpy Device-to-Host]',
        "500,0,,,,,,,,,,,0.004,,Managed,,,,,,[CUDA memset]",
        "501,1,,,,,,,,,,,,,Device,Array,,,,,[CUDA memcpy Peer-to-Peer]",
        "502,1,,,,,,,,,,,,,,,(0),,,,[CUDA memcpy Unknown]",
        '900,250,7,4,2,1,128,1,1,40,0.004,0.002,,,,,"Imaginary, 9000 (1)",3,5,13,gemm',
    ]


ODD_NAMES = ['op<"a", b>(int, "x")', 'f("a")', '"q" r', "a, b", "plain; semi", "Ünïcode λ"]


def test_odd_names_are_whole_in_every_reader(tmp_path: Path) -> None:
    rows = [{"kind": "kernel", "name": name, "ts": at, "dur": 1 + at} for at, name in enumerate(ODD_NAMES)]
    source = canonical(tmp_path / "in.jsonl", rows)
    for report in (TRACE, SUM):
        found, _ = written(source, tmp_path / report)
        assert {row["Name"] for row in found} == set(ODD_NAMES)
        assert set(pd.read_csv(tmp_path / report)["Name"]) == set(ODD_NAMES)
        back = read(tmp_path / report)
        assert set((back.events if report == TRACE else back.summaries).name) == set(ODD_NAMES)


def test_a_line_end_in_a_name_becomes_a_blank(tmp_path: Path) -> None:
    source = canonical(tmp_path / "in.jsonl", [{"kind": "kernel", "name": "two\r\nlines", "ts": 0, "dur": 1}])
    assert [row["Name"] for row in written(source, tmp_path / TRACE)[0]] == ["two lines"]


@pytest.mark.parametrize(
    "source",
    [
        KINETO,
        SAMPLES / "nsys" / "schema-2.9-calls-twice-mpi-as-a-domain.sqlite",
        SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite",
        SAMPLES / "rocprofv3" / "a-folder-of-one-process",
        SAMPLES / "xplane" / "streams-repeated-lines-counter-below-a-nanosecond.xplane.pb",
        SAMPLES / "nvprof" / "calls-and-work-mixed-two-processes.csv",
    ],
    ids=lambda path: path.parent.name + "/" + path.stem[:12],
)
def test_nsys_stats_reads_back_the_same_work(source: Path, tmp_path: Path) -> None:
    events = read(source).events
    work = events[events.kind.isin(["kernel", "memcpy", "memset"]) & (events.timing != "synthetic")]
    ktrace.convert(str(source), str(tmp_path / TRACE))
    back = read(tmp_path / TRACE, from_="nsys-stats").events

    def rows(table: pd.DataFrame) -> list[tuple[Any, ...]]:
        columns = [
            "ts",
            "dur",
            "kind",
            "copy_kind",
            "device",
            "stream",
            "correlation",
            "grid_x",
            "block_z",
            "registers",
        ]
        cells = table.reindex(columns=columns).astype(object).where(lambda column: column.notna(), None)
        return sorted(map(tuple, cells.to_numpy().tolist()), key=repr)

    assert rows(back) == rows(work)
    kernels = work[work.kind == "kernel"]
    assert sorted(back[back.kind == "kernel"].name) == sorted(kernels.name)
    ktrace.convert(str(source), str(tmp_path / SUM))
    sums = read(tmp_path / SUM, from_="nsys-stats").summaries.set_index("name")
    assert sums.total.to_dict() == kernels.groupby(kernels.name.astype(str)).dur.sum().to_dict()
    assert sums["count"].to_dict() == kernels.groupby(kernels.name.astype(str)).dur.count().to_dict()
    assert set(sums.kind) == {"kernel"}


def test_what_is_left_out_is_reported_by_kind(tmp_path: Path) -> None:
    events = read(KINETO).events
    for name, kinds in ((TRACE, ("kernel", "memcpy", "memset")), (SUM, ("kernel",))):
        rows, report = written(KINETO, tmp_path / name)
        kept = int(events.kind.isin(kinds).sum())
        issue = report.issues["not-representable"]
        assert report.written == kept
        assert name == SUM or len(rows) == kept
        assert issue.rows == report.rows_read - kept
        details = dict(re.match(r"([\d,]+) (.*)", part).groups()[::-1] for part in issue.places[0][1].split(", "))  # type: ignore[union-attr]
        left = events[~events.kind.isin(kinds)].kind.astype(str).value_counts().to_dict()
        assert {kind: int(count) for kind, count in details.items() if kind != "arrow ends"} == left
        assert sum(map(int, details.values())) == issue.rows


def test_a_table_laid_out_has_no_work_with_a_time(tmp_path: Path) -> None:
    source = next((SAMPLES / "mlc").glob("*"))
    with pytest.raises(InputError, match="there is nothing to write"):
        ktrace.convert(str(source), str(tmp_path / TRACE))
    assert list(tmp_path.iterdir()) == []


def test_kernels_without_an_end_are_in_the_trace_alone(tmp_path: Path) -> None:
    rows = [{"kind": "kernel", "name": "a", "ts": 1, "dur": 4}, {"kind": "kernel", "name": "a", "ts": 9}]
    source = canonical(tmp_path / "in.jsonl", rows)
    assert [row["Duration (ns)"] for row in written(source, tmp_path / TRACE)[0]] == ["4", ""]
    found, report = written(source, tmp_path / SUM)
    assert [row["Instances"] for row in found] == ["1"]
    assert report.issues["not-representable"].places == [("nsys-csv", "1 kernel without a time")]


@pytest.mark.parametrize("name", ["run.csv", "cuda_gpu_trace.csv.txt", "run_cuda_api_sum.csv", "-"])
def test_a_name_without_a_report_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="doesn't state the report") as error:
        ktrace.convert(str(KINETO), name, to="nsys-csv")
    assert "_cuda_gpu_trace.csv or _cuda_gpu_kern_sum.csv" in str(error.value.expected)
    assert list(tmp_path.iterdir()) == []


def test_forms_of_device_work_are_for_perfetto(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--gpu is for Perfetto"):
        ktrace.convert(str(KINETO), str(tmp_path / TRACE), gpu="slices")
    assert list(tmp_path.iterdir()) == []


def test_overlapping_kernels_keep_their_times(tmp_path: Path) -> None:
    place = {"device": 0, "stream": 7}
    rows = [{"kind": "kernel", "name": "a", "ts": at, "dur": dur} | place for at, dur in ((30, 9), (10, 15), (20, 50))]
    found, report = written(canonical(tmp_path / "in.jsonl", rows), tmp_path / TRACE)
    assert [(row["Start (ns)"], row["Duration (ns)"]) for row in found] == [("10", "15"), ("20", "50"), ("30", "9")]
    assert report.issues == {}


def test_names_choose_the_report_and_to_overrides_them(tmp_path: Path) -> None:
    for name in ("a_cuda_gpu_trace.csv", "A_CUDA_GPU_TRACE.CSV", "_cuda_gpu_trace.csv"):
        assert next(iter(written(KINETO, tmp_path / name)[0][0])) == "Start (ns)"
    assert next(iter(written(KINETO, tmp_path / "a.b_cuda_gpu_kern_sum.csv")[0][0])) == "Time (%)"
    assert next(iter(written(KINETO, tmp_path / "c_cuda_gpu_kern_sum.csv", to="csv")[0][0])) == "record"


def test_compressed_outputs_and_parts(tmp_path: Path) -> None:
    written(KINETO, tmp_path / TRACE)
    ktrace.convert(str(KINETO), str(tmp_path / f"{TRACE}.gz"))
    plain = (tmp_path / TRACE).read_bytes()
    assert gzip.decompress((tmp_path / f"{TRACE}.gz").read_bytes()) == plain
    report = ktrace.convert(str(KINETO), str(tmp_path / "p_cuda_gpu_trace.csv"), split_by="time=200us")
    assert report.balanced()
    parts = [Path(part["path"]) for part in report.parts]
    assert parts[0].name == "p.000_cuda_gpu_trace.csv"
    assert b"".join(part.read_bytes().partition(b"\n")[2] for part in parts) == plain.partition(b"\n")[2]
    assert len(parts) > 2


@pytest.mark.skipif(not PRINTED, reason="no printed reports at hand (../shared/corpus)")
def test_headings_are_those_of_a_real_sum(tmp_path: Path) -> None:
    written(KINETO, tmp_path / SUM)
    lines = (tmp_path / SUM).read_text().splitlines()
    real = PRINTED[0].read_text().splitlines()
    assert lines[0] == real[0]
    shape = re.compile(r'\d+\.\d,\d+,\d+,\d+\.\d,\d+\.\d,\d+,\d+,\d+\.\d,("[^"]+"|[^",]+)')
    assert all(shape.fullmatch(line) for line in (*lines[1:], *filter(None, real[1:])))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of the real databases, with what nsys 2023.4 needs to print them."""
    folder = tmp_path_factory.mktemp("databases")
    copies = {name: Path(shutil.copyfile(path, folder / path.name)) for name, path in DATABASES.items()}
    for path in copies.values():
        path.chmod(0o600)
        with sqlite3.connect(path) as db:
            _complete(db, DATABASES["mock"])
    return copies


def _complete(db: sqlite3.Connection, other: Path) -> None:
    """Adds columns and tables that older or cut databases lack, labels of numbers from another one."""
    db.execute("ATTACH ? AS other", (str(other),))
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        columns = [row[1] for row in db.execute(f"PRAGMA main.table_info(CUPTI_ACTIVITY_KIND_{table})")]
        if columns and "greenContextId" not in columns:
            db.execute(f"ALTER TABLE main.CUPTI_ACTIVITY_KIND_{table} ADD COLUMN greenContextId INTEGER")
    for table in ("ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND"):
        db.execute(f"CREATE TABLE IF NOT EXISTS main.{table} AS SELECT * FROM other.{table}")
    if not db.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'TARGET_INFO_GPU'").fetchone():
        db.execute("CREATE TABLE main.TARGET_INFO_GPU (id INTEGER, name TEXT)")
        db.executemany("INSERT INTO main.TARGET_INFO_GPU VALUES (?, ?)", [(0, "NVIDIA H100"), (1, "NVIDIA H100")])


def printed(nsys: Path, database: Path, report: str, folder: Path) -> list[Row]:
    """What nsys prints of a database."""
    base = folder / f"{database.stem}_{report}"
    command = [str(nsys), "stats", "-q", "--force-overwrite=true", "-r", report, "-f", "csv", "-o", str(base)]
    done = subprocess.run([*command, str(database)], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return rows_of(next(folder.glob(f"{base.name}_*.csv")))


def is_new(nsys: Path) -> bool:
    return (nsys.parent / "reports" / "cuda_gpu_kern_sum.py").exists()


needs_nsys = pytest.mark.skipif(
    not NSYS or "mock" not in DATABASES,
    reason=f"nsys (the folder of NVIDIA's programs, in {VARIABLE}) or the real databases are not at hand",
)


@needs_nsys
@pytest.mark.parametrize("name", DATABASES)
def test_every_cell_is_that_of_nsys_2023(name: str, databases: dict[str, Path], tmp_path: Path) -> None:
    nsys = next((path for path in NSYS if is_new(path)), None)
    if nsys is None:
        pytest.skip("nsys of 2023 or later is not at hand")
    for report in ("cuda_gpu_trace", "cuda_gpu_kern_sum"):
        mine, _ = written(databases[name], tmp_path / f"mine_{report}.csv")
        theirs = printed(nsys, databases[name], report, tmp_path)
        assert list(mine[0]) == list(theirs[0])
        assert mine == theirs
        assert mine


@needs_nsys
@pytest.mark.parametrize("name", DATABASES)
def test_the_trace_is_that_of_nsys_2022_in_newer_words(name: str, databases: dict[str, Path], tmp_path: Path) -> None:
    nsys = next((path for path in NSYS if not is_new(path)), None)
    if nsys is None:
        pytest.skip("nsys before 2023 is not at hand")
    ways = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device"}
    theirs = []
    for row in printed(nsys, databases[name], "gputrace", tmp_path):
        newer = {heading.replace("MBps", "MB/s"): "" if cell == "None" else cell for heading, cell in row.items()}
        newer["Name"] = re.sub(r"(?<=\[CUDA memcpy )\w+", lambda way: ways[way[0]], newer["Name"])
        theirs.append(newer)
    mine, _ = written(databases[name], tmp_path / TRACE)
    assert {row.pop("GreenCtx") for row in mine} == {""}
    assert [list(row) for row in mine[:1]] == [list(row) for row in theirs[:1]]
    assert sorted(map(str, mine)) == sorted(map(str, theirs))
