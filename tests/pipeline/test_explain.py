"""`--explain`: the rows that it adds, their account, and that they change nothing else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import engine
import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES
from idle_traces import host, work, written

import ktrace
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.cli import cli
from ktrace.errors import UsageError
from ktrace.viewer import served

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
HOST_ALONE = SAMPLES / "chrome/flows-counters-and-rare-phases.json"

#: What the sample's gaps are: 4 before the host has launched, 9 between queued kernels.
CAUSES = {"launch-bound": 116_626, "launch latency": 14_379}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], prog_name="ktrace")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [
        row for line in path.read_text("utf-8").splitlines()[1:] if (row := json.loads(line))["record"] != "catalog"
    ]


def idle(path: Path) -> list[dict[str, Any]]:
    return [row for row in rows_of(path) if row.get("track") == "idle"]


def figures(path: Path) -> list[dict[str, tuple[int, int]]]:
    answer = ktrace.summary(path, by=["idle"]).answers["idle"]
    assert isinstance(answer, IdleAnswer)
    return [{cause.cause: (cause.time, cause.gaps) for cause in one.causes} for one in answer.devices]


def test_rows_are_added_and_all_others_stay(tmp_path: Path) -> None:
    plain, out = tmp_path / "plain.jsonl", tmp_path / "out.jsonl"
    ktrace.convert(STEP, plain)
    report = ktrace.convert(STEP, out, explain="idle")
    found = idle(out)
    assert [row for row in rows_of(out) if row not in found] == rows_of(plain)
    assert {name: sum(row["dur"] for row in found if row["name"] == name) for name in CAUSES} == CAUSES
    assert {(row["kind"], row["timing"], row["device"]) for row in found} == {("range", "derived", 0)}
    assert [row["ts"] for row in found] == sorted(row["ts"] for row in found)
    greatest = max(row["id"] for row in rows_of(plain))
    assert [row["id"] for row in found] == list(range(greatest + 1, greatest + 1 + len(found)))
    assert (report.rows_read, report.written) == (len(rows_of(plain)), len(rows_of(out)))
    [ledger] = [one for one in report.stages if one.stage == "explain"]
    assert ledger.added == Counter({"idle": 13}) and report.balanced()
    assert ktrace.validate(out).faults == []


def test_the_arguments_of_a_gap(tmp_path: Path) -> None:
    rows = [
        host("cudaLaunchKernel", 0, 2_000, 1),
        work("gemm", 3_000, 20_000, 1),
        host("aten::norm", 25_000, 62_000, kind="op"),
        host("cudaLaunchKernelExC", 52_000, 57_000, 2),
        work("norm", 60_000, 70_000, 2, stream=9),
        work("copy", 71_000, 72_000, kind="memcpy"),
    ]
    ktrace.convert(written(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", explain=["idle"])
    late, unknown = idle(tmp_path / "out.jsonl")
    assert (late["ts"], late["dur"], late["name"], late["pid"]) == (20_000, 40_000, "launch-bound", 1)
    assert late["args"] == {
        "cause": "host late",
        "host_was_in": "aten::norm",
        "launched_by": "cudaLaunchKernelExC",
        "queued_ns": 3_000,
        "work_before": "gemm",
        "work_after": "norm",
        "derived_by": "ktrace",
    }
    assert (unknown["ts"], unknown["dur"], unknown["name"]) == (70_000, 1_000, "unknown")
    assert unknown["args"] == {
        "cause": "unknown",
        "work_before": "norm",
        "work_after": "copy",
        "derived_by": "ktrace",
    }


@pytest.mark.parametrize("name", ["out.perfetto", "out.parquet", "out.trace.json"])
def test_a_summary_of_the_output_is_that_of_the_input(tmp_path: Path, name: str) -> None:
    """The rows aren't work, and the gaps are found again; only spans may have other names in other formats."""
    out = tmp_path / name
    ktrace.convert(STEP, out, explain="idle")
    assert figures(out) == figures(STEP) == [{"host late": (116_626, 4), "launch overhead": (14_379, 9)}]
    one, other = ktrace.summary(out), ktrace.summary(STEP)
    assert (one.total, one.count, one.devices[0].busy) == (other.total, other.count, other.devices[0].busy)


def test_the_track_as_the_engine_of_perfetto_sees_it(tmp_path: Path) -> None:
    out = tmp_path / "out.perfetto"
    ktrace.convert(STEP, out, explain="idle", gpu="slices")
    idle = "select k.id from thread_track k join thread t using (utid) where t.name = 'idle'"
    wanted = f"select s.name, sum(s.dur) as time from slice s where s.track_id in ({idle}) group by 1"
    [found] = engine.query(out, wanted)
    assert {row["name"]: row["time"] for row in found} == CAUSES
    assert {fault["name"] for fault in engine.errors(out)} <= {"unknown_extension_fields"}  # of v52, for GPU fields


def test_crop_and_filter_treat_the_rows_like_others(tmp_path: Path) -> None:
    """The gaps are found in the whole trace: a part without calls knows their causes."""
    part = tmp_path / "part.jsonl"
    done = run("convert", STEP, "-o", part, "--explain", "idle", "--only-gpu", "--min-dur", "10us")
    assert done.exit_code == 0, done.output
    assert [row["name"] for row in idle(part)] == ["launch-bound"] * 4
    assert not [row for row in rows_of(part) if row["kind"] == "api"]
    crop = ktrace.Crop(time="..400us")
    ktrace.convert(STEP, part, explain="idle", crop=crop, overwrite=True)
    parquet = tmp_path / "plain.parquet"
    ktrace.convert(STEP, parquet)
    again = tmp_path / "again.jsonl"
    ktrace.convert(parquet, again, explain="idle", crop=crop)
    assert 0 < len(idle(part)) < 13
    assert [(row["ts"], row["name"]) for row in idle(again)] == [(row["ts"], row["name"]) for row in idle(part)]


def test_several_sources_have_ids_and_tracks_of_their_own(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = run("merge", *RANKS, "-o", out, "--explain", "idle", "--align", "none")
    assert done.exit_code == 0, done.output
    found = idle(out)
    assert f"added {len(found)} rows by --explain, wrote" in done.stderr
    sources = Counter(row["source"] for row in found)
    assert len(sources) == 2 and sources.total() == len({(row["source"], row["id"]) for row in rows_of(out)} & {
        (row["source"], row["id"]) for row in found
    })  # fmt: skip
    assert len({(row["source"], row["id"]) for row in rows_of(out)}) == len(rows_of(out))


def test_each_device_has_a_track(tmp_path: Path) -> None:
    rows = [
        work(f"{number}", at, at + 1_000, device=device)
        for number in range(4)
        for device, at in ((0, 5_000 * number), (1, 5_000 * number + 1))
    ]
    report = ktrace.convert(written(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", explain="idle")
    assert report.balanced() and report.written == len(rows) + 6
    found = [(row["device"], row["ts"], row["dur"]) for row in idle(tmp_path / "out.jsonl")]
    assert found == [
        (device, at + 1_000, 4_000) for device in (0, 1) for at in (device, device + 5_000, device + 10_000)
    ]


def test_view_shows_the_gaps() -> None:
    with served([STEP], explain="idle") as view:
        assert view.account is not None
        assert [one.added for one in view.account.stages if one.stage == "explain"] == [Counter({"idle": 13})]


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    done = run("convert", STEP, "-o", tmp_path / "out.jsonl", "--explain", "idle,idel")
    assert isinstance(done.exception, UsageError)
    assert done.exception.what == "'idel' can't be explained"
    assert "idle" in (done.exception.expected or "").split(", ")
    with pytest.raises(UsageError, match="a summary doesn't take explain"):
        ktrace.summary(STEP, explain="idle")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_trace_without_gaps_says_so(tmp_path: Path) -> None:
    report = ktrace.convert(HOST_ALONE, tmp_path / "out.jsonl", explain="idle")
    assert report.issues["unexplained"].places == [("--explain", "idle")]
    assert idle(tmp_path / "out.jsonl") == [] and report.balanced()
