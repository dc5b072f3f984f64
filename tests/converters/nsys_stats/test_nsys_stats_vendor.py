"""What NVIDIA's own `nsys stats` prints of real databases, against what plain SQL says of them.

KTRACE_NVIDIA_TOOLS names the folder of the programs (../shared/tools/nvidia_tools.py DIR).
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from conftest import SHARED
from nvidia import VARIABLE, programs

from ktrace.errors import DamagedInput, UnknownFormat
from ktrace.trace import read

DATABASES = {path.stem: path for path in sorted((SHARED / "corpus" / "nsys_sqlite").glob("*.sqlite"))}
NSYS = programs("nsys")

pytestmark = [
    pytest.mark.skipif(not NSYS, reason=f"nsys is not at hand (the folder of NVIDIA's programs, in {VARIABLE})"),
    pytest.mark.skipif(not DATABASES, reason="the real databases are not at hand (../shared/corpus)"),
]

#: Report -> its name of today and the one before 2023.
REPORTS = {
    "kernels": ("cuda_gpu_kern_sum", "gpukernsum"),
    "calls": ("cuda_api_sum", "cudaapisum"),
    "copies": ("cuda_gpu_mem_time_sum", "gpumemtimesum"),
    "sizes": ("cuda_gpu_mem_size_sum", "gpumemsizesum"),
    "ranges": ("nvtx_sum", "nvtxsum"),
    "work": ("cuda_gpu_trace", "gputrace"),
    "api trace": ("cuda_api_trace", "cudaapitrace"),
    "launches": ("cuda_kern_exec_sum", "kernexecsum"),
    "launch trace": ("cuda_kern_exec_trace", "kernexectrace"),
}
#: Options with which text formats clip no name.
WHOLE = {"column": ":autolines=0:colmax=0", "table": ":autolines=0:colmax=0"}
FORMATS = ("csv", "tsv", "json", "htable", "hdoc", "column", "table")
#: The databases of few rows, and the outputs for which the large one is printed, too.
SMALL = {"mock", "saxpy-mpi-cuda_nsys_perlmutter0"}
LARGE = {("ns", fmt) for fmt in ("csv", "json", "htable", "table")}
#: Unit -> half a step of what nsys prints in it, in ns.
STEPS = {"ns": Decimal(0), "us": Decimal("0.5"), "ms": Decimal(50), "sec": Decimal(50_000)}


def has(database: str, *tables: str) -> bool:
    with sqlite3.connect(DATABASES[database]) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    return names >= set(tables)


def rows(database: str, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(f"file:{DATABASES[database]}?mode=ro&immutable=1", uri=True) as db:
        return db.execute(query).fetchall()


KERNELS = """SELECT s.value, count(*), sum(k.end - k.start), min(k.end - k.start), max(k.end - k.start)
    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName GROUP BY s.value"""
CALLS = """SELECT s.value, count(*), sum(r.end - r.start), min(r.end - r.start), max(r.end - r.start)
    FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY s.value"""
COPIES = """SELECT CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 8 THEN 'DtoD' ELSE copyKind END, count(*),
    sum(end - start), min(end - start), max(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind"""
SIZES = COPIES.replace("end - start", "bytes")
LAUNCHES = """SELECT s.value, count(*), sum(k.end - k.start), min(k.end - k.start), max(k.end - k.start)
    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
    GROUP BY s.value"""


class Printed:
    """One database printed by one nsys in one format."""

    def __init__(self, nsys: Path, database: str, fmt: str, folder: Path, names: list[str]) -> None:
        copy = folder / f"{database}.sqlite"
        if not copy.exists():
            shutil.copyfile(DATABASES[database], copy)
        self._base = folder / f"{database}_{re.sub(r'[^a-z]', '_', fmt)}_{len(list(folder.iterdir()))}"
        command = [str(nsys), "stats", "-q", "--force-overwrite=true", "-r", ",".join(names), "-f", fmt]
        done = subprocess.run(
            [*command, "-o", str(self._base), str(copy)], capture_output=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr

    def file(self, report: str) -> Path | None:
        """The file of a report, None where it has no data."""
        found = list(self._base.parent.glob(f"{self._base.name}_{report}.*"))
        return next((path for path in found if path.stat().st_size > 1), None)


def version(nsys: Path) -> int:
    """0 for the names of today, 1 for those before 2023."""
    return 0 if (nsys.parent / "reports" / "cuda_gpu_kern_sum.py").exists() else 1


@pytest.fixture(params=NSYS, ids=lambda path: next((part for part in path.parts if part.startswith("20")), path.name))
def nsys(request: pytest.FixtureRequest) -> Iterator[Path]:
    yield request.param


def by_name(table: pd.DataFrame, column: str = "name") -> dict[str, tuple[int, Decimal, Decimal, Decimal]]:
    """Name -> count, total, least, greatest, of all rows of that name."""
    found: dict[str, tuple[int, Decimal, Decimal, Decimal]] = {}
    for row in table.to_dict("records"):
        total, least, greatest = (Decimal(repr(row[field])) for field in ("total", "min", "max"))
        count, before, low, high = found.get(row[column], (0, Decimal(0), least, greatest))
        found[row[column]] = (count + row["count"], before + total, min(low, least), max(high, greatest))
    return found


def agree(table: pd.DataFrame, truth: list[tuple[object, ...]], step: Decimal, column: str = "name") -> None:
    """The rows of a summary say what the database says, to what is printed."""
    found = by_name(table, column)
    expected: dict[str, list[int]] = {}
    for name, count, total, least, greatest in truth:
        plain = re.sub(r"_v\d{4}$", "", str(name))  # nsys takes a version of four digits off the name of a call
        old = expected.get(plain, [0, 0, least, greatest])
        expected[plain] = [old[0] + count, old[1] + total, min(old[2], least), max(old[3], greatest)]  # type: ignore[operator, list-item, type-var, call-overload]
    assert found.keys() == expected.keys()
    rows_of = Counter(table[column])
    for name, (count, total, least, greatest) in found.items():
        assert count == expected[name][0]
        assert abs(total - expected[name][1]) <= step * rows_of[name]
        assert abs(least - expected[name][2]) <= step and abs(greatest - expected[name][3]) <= step


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_reports_say_what_the_database_says(nsys: Path, fmt: str, unit: str, tmp_path: Path) -> None:
    names = {report: of[version(nsys)] for report, of in REPORTS.items()}
    option = f"{fmt}{WHOLE.get(fmt, '')}" + ("" if unit == "ns" else f":time={unit}")
    step, checked = STEPS[unit], 0
    for database in DATABASES if (unit, fmt) in LARGE else SMALL & DATABASES.keys():
        wanted = [name for report, name in names.items() if database != "h100_2gpu_1s" or report not in ("ranges",)]
        printed = Printed(nsys, database, option, tmp_path, wanted)
        for report, name in names.items():
            if name not in wanted or (path := printed.file(name)) is None:
                continue
            trace = read(path)
            if set(trace.summaries.kind) == {"note"}:
                continue
            assert not [kind for kind, issue in trace.report.issues.items() if issue.severity], (path, trace.report)
            assert trace.report.reader.balanced()
            CHECKS[report](trace.summaries, trace.events, database, step)
            checked += 1
    assert checked >= 8, checked


def _kernels(summaries: pd.DataFrame, _: pd.DataFrame, database: str, step: Decimal) -> None:
    assert set(summaries.kind) == {"kernel"} and set(summaries.unit) == {"ns"}
    agree(summaries, rows(database, KERNELS), step)


def _calls(summaries: pd.DataFrame, _: pd.DataFrame, database: str, step: Decimal) -> None:
    assert set(summaries.kind) == {"api"} and set(summaries.unit) == {"ns"}
    agree(summaries, rows(database, CALLS), step)


def _copies(summaries: pd.DataFrame, _: pd.DataFrame, database: str, step: Decimal) -> None:
    assert set(summaries.kind) <= {"memcpy", "memset"} and set(summaries.unit) == {"ns"}
    agree(summaries[summaries.kind == "memcpy"], rows(database, COPIES), step, "copy_kind")


def _sizes(summaries: pd.DataFrame, _: pd.DataFrame, database: str, __: Decimal) -> None:
    assert set(summaries.metric) == {"bytes"} and set(summaries.unit) == {"MB"}
    copies = summaries[summaries.kind == "memcpy"]
    in_bytes = copies.assign(**{field: copies[field] * 1e6 for field in ("total", "min", "max")})
    agree(in_bytes, rows(database, SIZES), Decimal("500.01"), "copy_kind")


def _ranges(summaries: pd.DataFrame, _: pd.DataFrame, database: str, step: Decimal) -> None:
    ((count, total),) = rows(
        database, "SELECT count(*), sum(end - start) FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND end IS NOT NULL"
    )
    assert set(summaries.kind) == {"range"}
    assert summaries["count"].sum() == count
    assert abs(Decimal(repr(float(summaries.total.sum()))) - total) <= step * len(summaries)  # type: ignore[operator]


def _events(table: str) -> str:
    return f"SELECT start, end - start FROM CUPTI_ACTIVITY_KIND_{table}"


def _same_times(found: pd.DataFrame, truth: list[tuple[object, ...]], step: Decimal) -> None:
    spans = sorted(zip(found.ts.tolist(), found.dur.tolist(), strict=True))
    assert len(spans) == len(truth)
    if not step:
        assert spans == sorted(truth)  # type: ignore[type-var]
    for printed, said in zip(sorted(found.dur), sorted(dur for _, dur in truth), strict=True):  # type: ignore[type-var]
        assert abs(Decimal(int(printed)) - said) <= step + Decimal("0.5") * bool(step)  # type: ignore[operator]


def _work(_: pd.DataFrame, events: pd.DataFrame, database: str, step: Decimal) -> None:
    for kind, table in (("kernel", "KERNEL"), ("memcpy", "MEMCPY"), ("memset", "MEMSET")):
        there = has(database, f"CUPTI_ACTIVITY_KIND_{table}")
        _same_times(events[events.kind == kind], rows(database, _events(table)) if there else [], step)
    kernels = events[events.kind == "kernel"]
    said = rows(
        database,
        """SELECT value, streamId, gridX, blockX, registersPerThread, correlationId
           FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName""",
    )
    columns = ["name", "stream", "grid_x", "block_x", "registers", "correlation"]
    assert Counter(map(tuple, kernels[columns].values.tolist())) == Counter(said)


def _api_trace(_: pd.DataFrame, events: pd.DataFrame, database: str, step: Decimal) -> None:
    assert set(events.kind) == {"api"}
    _same_times(events, rows(database, _events("RUNTIME")), step)


def _launches(summaries: pd.DataFrame, _: pd.DataFrame, database: str, step: Decimal) -> None:
    """Totals aren't printed: the average times the count is the total, but for the digits of the average."""
    assert set(summaries.kind) == {"kernel"} and summaries.total.isna().all()
    truth = {str(name): (count, total, least, most) for name, count, total, least, most in rows(database, LAUNCHES)}
    for name, group in summaries.groupby("name"):
        count, total, least, most = truth[str(name)]
        assert group["count"].sum() == count
        assert abs(sum(group["avg"] * group["count"]) - total) <= float(step + Decimal("0.06")) * count  # type: ignore[operator]
        assert abs(group["min"].min() - least) <= step and abs(group["max"].max() - most) <= step  # type: ignore[operator]
    assert set(summaries.name) == truth.keys()


def _launch_trace(_: pd.DataFrame, events: pd.DataFrame, database: str, step: Decimal) -> None:
    kernels = events[events.kind == "kernel"]
    calls = events[events.kind == "api"]
    count = sum(row[1] for row in rows(database, LAUNCHES))  # type: ignore[misc]
    assert len(kernels) == len(calls) == len(kernels.parent.dropna()) == count
    if not step:
        assert set(zip(kernels.ts, kernels.dur, strict=True)) <= set(rows(database, _events("KERNEL")))
        assert set(zip(calls.ts, calls.dur, strict=True)) <= set(rows(database, _events("RUNTIME")))


CHECKS = {
    "kernels": _kernels,
    "calls": _calls,
    "copies": _copies,
    "sizes": _sizes,
    "ranges": _ranges,
    "work": _work,
    "api trace": _api_trace,
    "launches": _launches,
    "launch trace": _launch_trace,
}


@pytest.mark.parametrize("fmt", ["csv", "tsv", "json", "htable", "column"])
def test_times_without_a_unit_are_read_by_their_decimals_or_refused(nsys: Path, fmt: str, tmp_path: Path) -> None:
    names = [REPORTS[report][version(nsys)] for report in ("kernels", "api trace", "launches")]
    kernels, calls, launches = names
    whole = Printed(nsys, "mock", fmt, tmp_path, names)
    for unit in ("ns", "us"):
        bare = Printed(nsys, "mock", f"{fmt}:nohdrunit:time={unit}", tmp_path, names)
        for name, columns in ((kernels, ["name", "total", "min", "max"]), (launches, ["name", "min", "max"])):
            paths = bare.file(name), whole.file(name)
            one, other = (read(path).summaries[columns].values.tolist() for path in paths if path)
            assert one == other
        one, other = (
            read(path).events[["ts", "dur"]].values.tolist() for p in (bare, whole) if (path := p.file(calls))
        )
        assert one == other and len(one) == 9
    for unit in ("ms", "sec"):
        bare = Printed(nsys, "mock", f"{fmt}:nohdrunit:time={unit}", tmp_path, names)
        for name in names:
            path = bare.file(name)
            assert path
            with pytest.raises(DamagedInput, match="have no unit") as error:
                read(path)
            assert "nohdrunit" in (error.value.remedy or "")


@pytest.mark.parametrize("fmt", ["csv", "tsv", "column", "table"])
def test_reports_without_headings_are_refused(nsys: Path, fmt: str, tmp_path: Path) -> None:
    name = REPORTS["kernels"][version(nsys)]
    path = Printed(nsys, "mock", f"{fmt}:nohdr", tmp_path, [name]).file(name)
    assert path
    with pytest.raises(UnknownFormat):
        read(path)


#: Names that nsys prints as they are, or nearly.
ODD = (
    'op<"a, b">(int, "x")',
    'say "hi"',
    "a | b",
    '<b>bold</b> & &amp; "q"',
    "ünï – ✓",
    "back\\slash",
    "x, y",
    "",
    'a","b',
)


@pytest.mark.parametrize("fmt", FORMATS)
def test_names_that_nsys_does_not_escape(nsys: Path, fmt: str, tmp_path: Path) -> None:
    """Ranges with quotes, separators, marks of HTML, and without a name, in a database of our own."""
    database = tmp_path / "odd.sqlite"
    shutil.copyfile(DATABASES["saxpy-mpi-cuda_nsys_perlmutter0"], database)
    expected: Counter[str] = Counter()
    with sqlite3.connect(database) as db:
        ranges = db.execute(
            "SELECT rowid, end - start FROM NVTX_EVENTS WHERE eventType = 59 AND end NOT NULL"
        ).fetchall()
        for index, (rowid, dur) in enumerate(ranges):
            name = ODD[index % len(ODD)]
            db.execute("UPDATE NVTX_EVENTS SET text = ?, textId = NULL WHERE rowid = ?", (name, rowid))
            expected[name] += dur
    report = REPORTS["ranges"][version(nsys)]
    base = tmp_path / "out"
    command = [str(nsys), "stats", "-q", "-r", report, "-f", f"{fmt}{WHOLE.get(fmt, '')}", "-o", str(base)]
    subprocess.run([*command, str(database)], check=True, capture_output=True, timeout=300)
    (path,) = tmp_path.glob(f"out_{report}.*")
    trace = read(path)
    found: Counter[str] = Counter()
    for name, total in trace.summaries[["name", "total"]].values.tolist():
        found[name.removeprefix("MPI:").removeprefix("[no name]")] += total  # those of a domain have it before the name
    assert found == expected
    assert not trace.report.issues
