"""Reports of Nsight Systems: exported by a script in the place of nsys, and by NVIDIA's own where it is at hand."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest import SAMPLES
from nsys_reports import exported, readable, reports
from nvidia import programs

import ktrace
from ktrace.analysis.answers.mcp.access import Access
from ktrace.converters import nsys_rep as places
from ktrace.errors import ClosedFormat, DamagedInput, OutputError, UnknownFormat
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.pipeline.info import inspect
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

SQLITE = SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal (CLI)"

#: An nsys of which `{act}` says what it does once it has been told what to export; calls.txt lists its calls.
NSYS = """#!{python}
import os, shutil, sys, time
arguments = sys.argv[1:]
if "--version" in arguments:
    sys.exit("NVIDIA Nsight Systems version 2022.4.2.1-df9881f")
if "--help" in arguments:
    print("-f, --force-overwrite= -l, --lazy= -o, --output= -q, --quiet= -t, --type=")
    sys.exit(0)
with open({calls!r}, "a") as calls:
    print(*arguments, file=calls)
made = arguments[arguments.index("-o") + 1]
{act}
"""
COPIES = f"shutil.copyfile({str(SQLITE)!r}, made)"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(REPORT)
    return path


def make_nsys(folder: Path, act: str, name: str = "nsys") -> Path:
    program = folder / name
    program.write_text(NSYS.format(python=sys.executable, calls=str(folder / "calls.txt"), act=act), "utf-8")
    program.chmod(0o755)
    return program


def use(monkeypatch: pytest.MonkeyPatch, program: Path | str) -> None:
    monkeypatch.setenv("KTRACE_NSYS", str(program))


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "calls.txt"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def events(path: Path) -> list[dict[str, object]]:
    table = ktrace.read(path).to_arrow()["events"].drop_columns(["source"])
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_where_not_every_file_may_be_read_nsys_gets_a_copy(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `ktrace mcp`, to which an nsys was named."""
    use(monkeypatch, make_nsys(tmp_path, f"assert open(arguments[-1], 'rb').read() == {REPORT!r}; {COPIES}"))
    with Access([report.parent]).in_force():
        assert sum(len(batch) for batch in read_batches([str(report)], Report())) > 20
    assert calls(tmp_path)[0].endswith("/run.nsys-rep")


def test_a_report_says_what_its_export_says(
    tmp_path: Path, report: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    assert events(report) == events(SQLITE)
    [call] = calls(tmp_path)
    for option in ("--type sqlite", "--force-overwrite=true", "--lazy=false", "-q true", str(report)):
        assert option in call
    assert not list(temporary.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.txt", "nsys", "run.nsys-rep", "temporary"]


def test_an_nsys_without_lazy_tables_is_not_asked_for_them(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_nsys(tmp_path, COPIES)
    program.write_text(program.read_text("utf-8").replace("-l, --lazy= ", ""), "utf-8")
    use(monkeypatch, program)
    assert events(report)
    assert "--lazy" not in calls(tmp_path)[0]


def test_the_source_is_the_report(tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    account = ktrace.convert(report, tmp_path / "out.jsonl")
    assert account.inputs == [{"path": str(report), "format": "nsys-rep", "source": "run"}]


def test_info_exports_once_and_says_what_the_database_has(
    tmp_path: Path, report: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    info = inspect(report)
    assert info.about == inspect(SQLITE).about
    assert info.kinds == inspect(SQLITE).kinds
    assert len(calls(tmp_path)) == 1
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("packed", ["run.nsys-rep.gz", "run.qdrep"])
def test_packed_and_older_names(tmp_path: Path, packed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    use(monkeypatch, make_nsys(tmp_path, COPIES))
    path = tmp_path / packed
    path.write_bytes(gzip.compress(REPORT) if packed.endswith("gz") else REPORT)
    assert choose(Source(str(path))).name == "nsys-rep"
    assert len(events(path)) == len(events(SQLITE))


def test_progress_goes_to_the_end_of_the_report(tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "\n".join(
        f"print('\\rProcessing 9 events: [{part}%  ]', end='', flush=True); time.sleep(0.02)" for part in (1, 50, 100)
    )
    use(monkeypatch, make_nsys(tmp_path, f"{shown}\n{COPIES}"))
    told: list[int] = []
    list(read_batches([str(report)], Report(), progress=told.append))
    assert sum(told) == len(REPORT)
    assert "-q false" in calls(tmp_path)[0]


#: What nsys 2022.4 and 2023.4 print, and leave behind, of a report made by a newer one.
OLD = "open(made, 'w').write('part'); sys.exit({!r})"
NEWER = [
    "Exportation error: Version number is invalid: 2025@1@3@140-251335620677v0",
    "Exportation error: Report was created in Nsight Systems version (2025.1.3.140-251335620677v0), newer than your",
]


@pytest.mark.parametrize("words", NEWER)
def test_an_older_nsys_is_named_with_the_newer_one(
    tmp_path: Path, report: Path, temporary: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, OLD.format(words)))
    with pytest.raises(ClosedFormat) as caught:
        ktrace.convert(report, tmp_path / "out.jsonl")
    assert "made by Nsight Systems 2025.1.3.140" in str(caught.value)
    assert "2022.4.2.1" in str(caught.value)
    assert "2025.1 or newer" in str(caught.value.remedy)
    assert not (tmp_path / "out.jsonl").exists()
    assert not list(temporary.iterdir())


def test_the_next_nsys_is_tried_where_the_first_is_too_old(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [make_nsys(tmp_path, OLD.format(NEWER[0]), "old"), make_nsys(tmp_path, COPIES, "new")]
    monkeypatch.delenv("KTRACE_NSYS", raising=False)
    monkeypatch.setattr("ktrace.converters.nsys_rep.programs", lambda: found)
    monkeypatch.setattr("ktrace.converters.nsys_rep.programs", lambda: found)
    assert events(report) == events(SQLITE)
    assert len(calls(tmp_path)) == 2


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (OLD.format("Exportation error: Cannot read from stream."), "Cannot read from stream"),
        ("pass", "it wrote nothing"),
        ("open(made, 'w').write('part'); os._exit(3)", "exit code 3"),
    ],
)
def test_what_nsys_can_not_export_is_refused(
    tmp_path: Path, report: Path, temporary: Path, act: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, act))
    with pytest.raises(DamagedInput, match=words):
        ktrace.convert(report, tmp_path / "out.jsonl")
    assert not list(temporary.iterdir())


def test_a_program_that_is_not_there_is_named(tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path / "nowhere")
    with pytest.raises(DamagedInput, match=r"nowhere.*can't be run: No such file"):
        ktrace.read(report)


def test_an_export_that_is_no_database_is_refused(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, "open(made, 'w').write('part')"))
    with pytest.raises(DamagedInput) as caught:
        ktrace.read(report)
    assert caught.value.path == str(report)


def test_what_nsys_warns_of_is_told(tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, make_nsys(tmp_path, f"{COPIES}\nprint('WARNING: something is missing', file=sys.stderr)"))
    account = Report()
    list(read_batches([str(report)], account))
    [entry] = [entry for entry in account.to_dict()["issues"] if entry["kind"] == "capture-warning"]
    assert "something is missing" in str(entry)


def test_without_nsys_the_command_is_named(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "")
    with pytest.raises(ClosedFormat) as caught:
        ktrace.read(report)
    assert caught.value.remedy == "nsys export --type sqlite --lazy=false -o run.sqlite run.nsys-rep"
    with pytest.raises(ClosedFormat, match="none was found"):
        ktrace.read(report, from_="nsys-rep")


def test_an_interruption_ends_nsys_and_leaves_nothing(tmp_path: Path, report: Path, temporary: Path) -> None:
    program = make_nsys(tmp_path, "open(made, 'w').write('part'); print('ready', file=sys.stderr); time.sleep(600)")
    environment = os.environ | {"KTRACE_NSYS": str(program)}
    command = [sys.executable, "-m", "ktrace", "convert", str(report), "-o", str(tmp_path / "out.jsonl")]
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    patience = time.monotonic() + 60
    while not list(temporary.rglob("run.sqlite")):
        assert time.monotonic() < patience
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    _, words = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert "interrupted" in words
    assert not list(temporary.iterdir())
    assert not (tmp_path / "out.jsonl").exists()


def test_the_export_is_kept_where_that_is_wanted(tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    first = ktrace.convert(report, tmp_path / "a.jsonl", keep_export=True)
    assert (tmp_path / "run.sqlite").read_bytes() == SQLITE.read_bytes()
    second = ktrace.convert(report, tmp_path / "b.jsonl", keep_export=True)
    assert len(calls(tmp_path)) == 1
    assert first.rows == second.rows
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_an_export_older_than_its_report_is_not_taken(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    (tmp_path / "run.sqlite").write_bytes(b"mine")
    os.utime(tmp_path / "run.sqlite", (1, 1))
    with pytest.raises(OutputError, match=r"older than run\.nsys-rep"):
        ktrace.convert(report, tmp_path / "a.jsonl", keep_export=True)
    assert (tmp_path / "run.sqlite").read_bytes() == b"mine"


def test_a_folder_has_a_report_and_its_export_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "run.sqlite").write_bytes(SQLITE.read_bytes())
    for name in ("run", "other"):
        (folder / f"{name}.nsys-rep").write_bytes(REPORT)
    account = Report()
    list(read_batches([str(folder)], account))
    assert [Path(one["path"]).name for one in account.inputs] == ["other.nsys-rep", "run.sqlite"]
    assert "same-run" in {entry["kind"] for entry in account.to_dict()["issues"]}


def test_merge_reads_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    ranks = [tmp_path / f"rank{number}.nsys-rep" for number in range(2)]
    for path in ranks:
        path.write_bytes(REPORT)
    account = ktrace.merge(ranks, tmp_path / "run.jsonl")
    alone = ktrace.convert(SQLITE, tmp_path / "alone.jsonl")
    assert account.rows["events"] == 2 * alone.rows["events"]


@pytest.mark.parametrize("path", ["", ".", "bin", f"{os.pathsep}/nowhere"])
def test_an_nsys_in_the_working_directory_is_never_run(
    path: str, tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty element of PATH means the working directory, where an archive may have brought a program."""
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        make_nsys(folder, COPIES)
    for variable in ("KTRACE_NSYS", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(places, "_FOLDERS", ())
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClosedFormat, match="none was found"):
        ktrace.read(report.name, from_="nsys-rep")
    assert calls(tmp_path) == calls(tmp_path / "bin") == []
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{tmp_path}")  # the same program, where the user's PATH names it
    assert places.programs() == [tmp_path / "nsys"]


def test_the_name_of_a_report_is_no_option_of_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "--output=victim.nsys-rep"
    (tmp_path / name).write_bytes(REPORT)
    use(monkeypatch, make_nsys(tmp_path, COPIES))
    monkeypatch.chdir(tmp_path)
    assert len(events(Path(name))) > 0
    [call] = calls(tmp_path)
    assert call.endswith(f" {tmp_path / name}")


def test_the_command_that_an_error_names_is_safe_to_paste(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "-a; touch b.nsys-rep"
    path.write_bytes(REPORT)
    use(monkeypatch, "")
    with pytest.raises(ClosedFormat) as caught:
        ktrace.read(path, from_="nsys-rep")
    words = shlex.split(str(caught.value.remedy).partition("run: ")[2])
    assert words[-2:] == ["./-a; touch b.sqlite", "./-a; touch b.nsys-rep"]


def test_the_newest_of_the_usual_folders_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for release in ("2023.4.1", "2024.10.2", "2024.9.3"):
        folder = tmp_path / release / "bin"
        folder.mkdir(parents=True)
        make_nsys(folder, COPIES)
    (tmp_path / "2023.4.1" / "again").symlink_to(tmp_path / "2023.4.1" / "bin")
    for variable in ("KTRACE_NSYS", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "2023.4.1" / "again"))
    monkeypatch.setattr(places, "_FOLDERS", (f"{tmp_path}/*/bin",))
    found = [path.resolve().relative_to(tmp_path).parts[0] for path in places.programs()]
    assert found == ["2023.4.1", "2024.10.2", "2024.9.3"]


@pytest.mark.parametrize("name", ["run.nsys-rep", "run.sqlite", "trace.json", "run.pftrace"])
def test_a_pointer_of_git_lfs_is_named_as_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234567\n")
    with pytest.raises(UnknownFormat, match="Git LFS pointer") as caught:
        ktrace.read(path)
    assert "1,234,567 bytes" in str(caught.value)
    assert f"git lfs pull --include '{name}'" in str(caught.value)


def test_a_folder_with_a_pointer_is_read_without_it(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(SQLITE.read_bytes())
    (tmp_path / "big.nsys-rep").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n")
    account = Report()
    list(read_batches([str(tmp_path)], account))
    assert [Path(one["path"]).name for one in account.inputs] == ["run.sqlite"]


@pytest.mark.skipif(
    not readable(), reason="NVIDIA's nsys (KTRACE_NVIDIA_TOOLS), or a report that it can read, isn't here"
)
@pytest.mark.parametrize(("program", "real"), readable(), ids=lambda path: f"{path.parts[-6:][0]}-{path.name}")
def test_real_reports_by_nvidias_nsys(
    program: Path, real: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "own.sqlite"
    assert exported(program, real, database, "--type", "sqlite", "--lazy", "true")
    use(monkeypatch, program)
    rows = events(real)
    assert not list(temporary.iterdir())
    with closing(sqlite3.connect(database)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, kind in (("KERNEL", "kernel"), ("MEMCPY", "memcpy"), ("MEMSET", "memset")):
            name = f"CUPTI_ACTIVITY_KIND_{table}"
            mine = [row["dur"] for row in rows if row["kind"] == kind]
            expected = (0, 0)
            if name in tables:
                expected = connection.execute(
                    f'SELECT count(*), coalesce(sum("end" - start), 0) FROM {name}'
                ).fetchone()
            assert (len(mine), sum(mine)) == tuple(expected)  # type: ignore[arg-type]
        assert bool(rows) == bool(tables & {"OSRT_API", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"})


@pytest.mark.skipif(not programs("nsys") or not reports(), reason="NVIDIA's nsys or its reports aren't here")
def test_real_reports_that_nvidias_nsys_can_not_read_are_refused(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    for program in programs("nsys"):
        use(monkeypatch, program)
        for real in reports():
            if exported(program, real, tmp_path / "own.sqlite", "--type", "sqlite"):
                continue
            refused += 1
            with pytest.raises((ClosedFormat, DamagedInput)) as caught:
                ktrace.read(real)
            assert str(program) in str(caught.value)
            assert not list(temporary.iterdir())
    if not refused:
        pytest.skip("all of the reports can be read")
