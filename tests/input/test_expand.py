"""Folders and patterns as input."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput, InputError, StrictFailure, UnknownFormat
from ktrace.input.expand import Input, each_once, expanded
from ktrace.report import Report

RUN = '{"traceEvents": [{"ph": "X", "name": "%s", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'


def _ranks(tmp_path: Path) -> Path:
    for rank in range(3):
        (tmp_path / "run" / f"rank{rank}").mkdir(parents=True)
        (tmp_path / "run" / f"rank{rank}" / "trace.json").write_text(RUN % f"step{rank}")
    return tmp_path / "run"


def test_a_folder_is_the_traces_in_it(tmp_path: Path) -> None:
    folder = _ranks(tmp_path)
    (folder / "notes.txt").write_text("on Monday it was slower\n")
    (folder / "empty.json").touch()
    (folder / ".hidden.json").write_text("{")
    trace = ktrace.read(folder)
    assert trace.events[["source", "name"]].values.tolist() == [[f"rank{n}/trace", f"step{n}"] for n in range(3)]
    assert [Path(where).name for where, _ in trace.report.issues["no-trace"].places] == ["empty.json", "notes.txt"]
    assert trace.report.balanced()


def test_a_damaged_file_of_a_folder_is_left_out_and_said(tmp_path: Path) -> None:
    folder = _ranks(tmp_path)
    assert "bad-file" not in ktrace.read(folder).report.issues
    (folder / "run.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    trace = ktrace.read(folder)
    assert len(trace.events) == 3
    ((where, why),) = trace.report.issues["bad-file"].places
    assert Path(where).name == "run.sqlite"
    assert "can't be read" in why
    assert trace.report.balanced()
    with pytest.raises(StrictFailure, match=r"run\.sqlite"):
        ktrace.convert(folder, tmp_path / "run.jsonl", strict=True)
    for path in folder.rglob("*.json"):
        path.unlink()
    with pytest.raises(DamagedInput, match="can't be read"):
        ktrace.read(folder)


def test_rank_10_comes_after_rank_2(tmp_path: Path) -> None:
    for rank in (10, 2, 1):
        (tmp_path / f"rank{rank}.json").write_text(RUN % "step")
    for named in (tmp_path, tmp_path / "*.json"):
        names = [Path(one.path).name for one in expanded([str(named)], Report())]
        assert names == ["rank1.json", "rank2.json", "rank10.json"]


def test_a_pattern_is_the_files_that_fit(tmp_path: Path) -> None:
    folder = _ranks(tmp_path)
    trace = ktrace.read(folder / "rank[02]" / "*.json")
    assert trace.events["name"].tolist() == ["step0", "step2"]
    assert [Path(source).parts[-2:] for source in trace.events["source"]] == [("rank0", "trace"), ("rank2", "trace")]
    assert ktrace.read(folder / "**" / "*.json").events["name"].tolist() == ["step0", "step1", "step2"]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_text(RUN % "step")
    assert len(ktrace.read(tmp_path / "a[1].json").events) == 1


def test_what_holds_no_trace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches this pattern"):
        ktrace.read(tmp_path / "*.json")
    (tmp_path / "notes.txt").write_text("on Monday it was slower\n")
    with pytest.raises(UnknownFormat, match="folder without a trace in it"):
        ktrace.read(tmp_path)


def test_a_format_that_is_said_chooses_among_the_files(tmp_path: Path) -> None:
    folder = _ranks(tmp_path)
    ktrace.read(folder / "rank0" / "trace.json").write(folder / "other.jsonl")  # brings its own label
    assert set(ktrace.read(folder).events["source"]) == {"rank0/trace", "rank1/trace", "rank2/trace", "trace"}
    assert len(ktrace.read(folder, from_="chrome").events) == 3
    with pytest.raises(UnknownFormat, match="of the format perfetto"):
        ktrace.read(folder, from_="perfetto")


def test_an_output_in_the_folder_is_no_input_of_the_next_time(tmp_path: Path) -> None:
    folder = _ranks(tmp_path)
    for out in (folder / "all.jsonl", folder / "all.parquet"):
        if out.suffix == ".parquet":
            (folder / "all.jsonl").unlink()
            out.mkdir()
        for _ in range(2):
            ktrace.convert(folder, out, overwrite=True)
            assert len(ktrace.read(out).events) == 3
        assert out.exists()


def test_what_is_no_file_is_noted(tmp_path: Path) -> None:
    """A pipe would never end, a link may lead nowhere."""
    folder = _ranks(tmp_path)
    (folder / "gone.json").symlink_to(tmp_path / "nowhere.json")
    (folder / "again.json").symlink_to(folder / "rank0" / "trace.json")
    os.mkfifo(folder / "pipe.json")
    trace = ktrace.read(folder)
    assert trace.events["name"].tolist() == ["step0", "step1", "step2"]
    places = [(Path(where).name, why) for where, why in trace.report.issues["no-trace"].places]
    assert places == [("gone.json", "is a broken link"), ("pipe.json", "isn't a regular file")]


def test_a_folder_of_reports_that_only_their_tool_reads_says_how_to_export_them(tmp_path: Path) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report\0\1\2")
    (tmp_path / "run.sh").write_text("nsys profile ./app\n")
    with pytest.raises(ClosedFormat, match="only nsys can read") as caught:
        ktrace.read(tmp_path)
    assert "nsys export" in str(caught.value.remedy)


def test_a_file_counts_once_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other spellings, links, patterns that overlap and a folder beside a file in it name one file."""
    monkeypatch.chdir(tmp_path)
    folder = _ranks(tmp_path)
    Path("link.json").symlink_to(folder / "rank0" / "trace.json")
    Path("linked").symlink_to(folder)
    one = "run/rank0/trace.json"
    for again in (
        one,
        f"./{one}",
        "run/rank1/../rank0//trace.json",
        "link.json",
        "linked/rank0/trace.json",
        f"{tmp_path}/{one}",
    ):
        trace = ktrace.read([one, again])
        assert trace.events["name"].tolist() == ["step0"], again
        ((where, why),) = trace.report.issues["same-run"].places
        assert (where, why) == (again, "is given twice" if again == one else f"is the same file as {one}")
        assert trace.report.balanced()
    for names in (["run", one], [one, "run"], ["run", "linked"], ["run/*/*.json", "run/rank0/*"], ["run", "run/"]):
        assert sorted(ktrace.read(names).events["name"]) == ["step0", "step1", "step2"], names


def test_an_archive_of_one_file_and_the_file_in_it_are_one(tmp_path: Path) -> None:
    """Of an archive with several files, two are two."""
    folder = _ranks(tmp_path)
    ranks = [folder / f"rank{rank}" / "trace.json" for rank in (0, 1)]
    for name, some in (("one.zip", ranks[:1]), ("two.zip", ranks)):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for rank in some:
                archive.write(rank, f"{rank.parent.name}.json")
    for names in (["one.zip", "one.zip!rank0.json"], ["one.zip!rank0.json", "one.zip"]):
        trace = ktrace.read([tmp_path / name for name in names])
        assert trace.events["name"].tolist() == ["step0"]
        assert trace.report.issues["same-run"].rows == 1
    assert len(ktrace.read([tmp_path / f"two.zip!rank{rank}.json" for rank in (0, 1)]).events) == 2


def test_copies_and_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    one = _ranks(tmp_path) / "rank0" / "trace.json"
    os.link(one, tmp_path / "hard.json")
    (tmp_path / "copy.json").write_bytes(one.read_bytes())
    trace = ktrace.read([one, tmp_path / "hard.json", tmp_path / "copy.json"])
    assert len(trace.events) == 3
    assert "same-run" not in trace.report.issues


def test_a_file_within_a_folder_that_is_one_trace(tmp_path: Path) -> None:
    """A folder of rocprofv3 is one trace: the file in it has nothing that isn't in the folder, in whatever order."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "1_hip_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"HIP_RUNTIME_API_EXT","hipMalloc",1,1,1,100,200\n'
    )
    file = folder / "1_hip_api_trace.csv"
    for names in ([folder, file], [file, folder]):
        trace = ktrace.read(names)
        assert trace.events["name"].tolist() == ["hipMalloc"]
        assert trace.report.issues["same-run"].places == [
            (str(file), f"is within {folder}, which is read as one trace")
        ]


def test_a_pair_of_archives_and_its_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        for name in "ab":
            archive.writestr(f"{name}.json", RUN % name)
    first, second = (f"{tmp_path}/runs.zip!{name}.json" for name in "ab")
    assert ktrace.read([first, second, first]).events["name"].tolist() == ["a", "b"]


def test_keys_of_object_stores_are_literal() -> None:
    """What a path would make one are objects of their own; the same name is one."""
    report = Report()
    urls = ["s3://b/a/x", "s3://b/a//x", "s3://b/a/./x", "s3://b/a/../x", "s3://b/a//x"]
    assert [one.path for one in each_once([Input(url) for url in urls], report)] == urls[:4]
    assert report.issues["same-run"].places == [("s3://b/a//x", "is given twice")]
