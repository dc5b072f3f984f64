"""`ktrace whatif`: each of its sentences where it must be said and where it must not, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from real_traces import at_hand, kineto
from test_programs import answer, run
from worlds import build
from worlds.programs import Do
from worlds.whatif import files, loader, without_waits

from ktrace.analysis.answers.mcp.session import Opened
from ktrace.analysis.answers.mcp.tools import TOOLS
from ktrace.analysis.answers.whatif import WhatIf, whatif
from ktrace.analysis.answers.whatif.changes import Changes
from ktrace.analysis.questions.collectives import found as matching
from ktrace.errors import InputError, UsageError

LOOP = SAMPLES / "kineto/five-steps-that-wait-for-the-loss.pt.trace.json"
STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = sorted(SAMPLES.glob("kineto/collectives-of-two-ranks-rank?.json"))
HALF = Changes(scale={"gemm": 0.5})


def edited(path: Path, change: Callable[[dict[str, Any]], None], folder: Path) -> Path:
    """A sample with each of its events changed."""
    document = json.loads(path.read_text("utf-8"))
    for event in document["traceEvents"]:
        change(event)
    copy = folder / "copy.pt.trace.json"
    copy.write_text(json.dumps(document), "utf-8")
    return copy


def notes(path: Path | list[Path], changes: Changes = HALF) -> str:
    return " ".join(whatif(path, changes).notes)


def test_the_answer_for_people_and_for_programs() -> None:
    shown = run("whatif", LOOP, "--scale", "gemm=0.5", "--no-sync").output
    assert "Replay without a change: 530 us a step (5 steps), recorded 530 us; 0.00 % off at most." in shown
    assert "--scale gemm=0.5" in shown and "all together" in shown and "what decides how long a step takes" in shown
    document = answer("whatif", LOOP, "--scale", "gemm=0.5", "--no-sync")
    assert [one["change"] for one in document["cases"]] == ["--scale gemm=0.5", "--no-sync", "all together"]
    assert document["steps"] == 5 and document["drift_percent"] == 0
    unchanged = document["unchanged"]["step_ns"]
    for one in document["cases"]:
        assert one["saving_ns"] == unchanged - one["step_ns"] > 0
        assert one["low_ns"] < one["step_ns"] < one["high_ns"]
        assert sum(bound["time_ns"] for bound in one["bounds"]) == pytest.approx(one["step_ns"])


def test_without_a_change_it_ranks_what_may_help() -> None:
    answered = whatif(LOOP)
    tried = {one.change: one.saving for one in answered.cases}
    assert [*tried][:2] == ["--scale gemm=0.5", "--no-sync"] and [*tried.values()] == sorted(tried.values())[::-1]
    asked = whatif(LOOP, Changes({"gemm": 0.5, "optimizer": 0.5}, no_sync=True, loader=0))
    assert {one.change: one.saving for one in asked.cases[:-1]}.items() <= tried.items()
    assert answered.notes[-1] == "Tried, too, and nothing saved: --overlap copy, --graph."
    best = "Of the changes that were tried, --scale gemm=0.5 saves the most: 147 us of a step, 27.8%."
    assert answered.sentences() == [answered.head(), best] and len(asked.sentences()) == 1
    assert best in " ".join(run("whatif", LOOP).output.split())
    assert answered.unchanged.saving == 0 and len(answered.tables()[1].columns) == 3
    assert max(answered.unchanged.bounds, key=lambda one: one.time).name == "gemm"


def test_what_may_help_and_does_not(tmp_path: Path) -> None:
    """One short kernel; the CPU waits for the device long after it ended."""
    call = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "dur": 2}
    events = [
        call | {"name": "cudaLaunchKernel", "ts": 10, "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 13, "dur": 1, "args": {"correlation": 1}},
        call | {"name": "cudaDeviceSynchronize", "ts": 90, "args": {"correlation": 2}},
    ]
    path = tmp_path / "late.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    none, answered = "None of the changes that were tried saves anything.", whatif(path)
    assert answered.cases == [] and answered.notes == ["Tried, too, and nothing saved: --no-sync."]
    assert answered.sentences() == [answered.head(), none] and none not in whatif(LOOP).sentences()


def test_an_overlap_saves_no_more_than_the_work_takes(tmp_path: Path) -> None:
    """The stream was busy for 900 us with what was launched before the recording."""
    call, at = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "dur": 5}, {"device": 0, "stream": 7}
    events: list[dict[str, Any]] = [
        call | {"name": "cudaMemcpyAsync", "ts": 10, "args": {"correlation": 1}},
        call | {"name": "cudaLaunchKernel", "ts": 20, "args": {"correlation": 2}},
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pinned -> Device)",
            "pid": 0,
            "tid": 7,
            "ts": 910,
            "dur": 20,
        }
        | {"args": at | {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 931, "dur": 50}
        | {"args": at | {"correlation": 2}},
        call | {"name": "cudaStreamSynchronize", "ts": 30, "dur": 955, "args": {"correlation": 3, "stream": 7}},
    ]
    path = tmp_path / "queued.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    said = "--overlap copy would save more than this work takes: it waited for what isn't recorded."
    answered = whatif(path)
    assert said in answered.notes and "--overlap copy" not in [one.change for one in answered.cases]
    assert said in notes(path, Changes(overlap=("copy",)))
    assert said not in whatif(LOOP).notes and said not in notes(LOOP, Changes(overlap=("copy",)))


def test_a_recording_without_steps_is_a_whole_without_an_interval(tmp_path: Path) -> None:
    def rename(event: dict[str, Any]) -> None:
        event["name"] = event["name"].replace("ProfilerStep#", "part ")

    found = whatif(edited(LOOP, rename, tmp_path), HALF)
    assert found.steps is None and found.cases[0].low is None
    assert found.head().startswith("Replay without a change: 2.6") and " the whole, recorded " in found.head()
    assert "steps" not in found.head() and found.tables()[0].columns[1].heading == "whole"
    one = whatif(STEP, HALF)
    assert one.steps == 1 and one.cases[0].high is None and "(1 step)" in one.head()


def test_an_agent_gets_the_same() -> None:
    opened = Opened("t1", [str(LOOP)], 1 << 30)
    assert opened.whatif(HALF).cases == whatif(LOOP, HALF).cases
    table = TOOLS["whatif"].run(_Session(opened), "t1", scale={"gemm": 0.5})["tables"][0]
    assert table["rows"][1][0] == "--scale gemm=0.5"


class _Session:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def get(self, handle: str) -> Opened:
        assert handle == "t1"
        return self._opened


def test_formats_agree(tmp_path: Path) -> None:
    import ktrace

    ktrace.convert(LOOP, tmp_path / "loop.parquet")
    parts = [
        (one.recorded, one.drift, one.cases) for one in (whatif(LOOP, HALF), whatif(tmp_path / "loop.parquet", HALF))
    ]
    assert parts[0] == parts[1]


def test_an_operation_comes_before_names() -> None:
    by_name = whatif(LOOP, Changes(scale={"*s16816gemm*": 0.5})).cases[0]
    assert whatif(LOOP, HALF).cases[0].step == by_name.step
    assert whatif(LOOP, Changes(scale={"flash": 0.0})).cases[0].saving > 0


def test_waits_that_are_inferred() -> None:
    assert "3 waits between streams are inferred: another stream's work had just ended." in notes(STEP)
    assert "inferred" not in notes(LOOP)


def test_launches_that_are_not_known(tmp_path: Path) -> None:
    def lose(event: dict[str, Any]) -> None:
        if event.get("cat") in ("cuda_runtime", "ac2g") and str(event.get("args", {}).get("correlation")) == "111":
            event["args"]["correlation"] = 999_999
        if event.get("cat") == "ac2g" and event["id"] == 111:
            event["id"] = 999_999

    assert "The launches of 1 of 90 pieces of device work aren't known" in notes(edited(LOOP, lose, tmp_path))
    assert "aren't known" not in notes(LOOP)


def test_ranks_that_are_not_here(tmp_path: Path) -> None:
    ranks = files(build(3, ranks=2, steps=3, batch=1 << 18), tmp_path)
    said = "Other ranks aren't here: collectives take as long as they did, with their waiting."
    assert said in notes(ranks[:1]) and said not in notes(ranks) and said not in notes(LOOP)


def test_ranks_whose_clocks_are_not_related(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = files(build(3, ranks=2, steps=3, batch=1 << 18), tmp_path)
    said = "The clocks of the ranks can't be related: each is replayed alone, its collectives as they were."
    assert said not in notes(ranks)
    monkeypatch.setattr(matching, "align", lambda table, catalog: matching.Clocks("unknown"))
    assert said in notes(ranks)


def test_nothing_that_waits(tmp_path: Path) -> None:
    def none(todo: list[list[Do]]) -> None:
        without_waits(todo)
        todo[0].pop()

    said = "--no-sync saves nothing: no CPU call waits for a device."
    quiet = whatif(files(build(4, plants=[none]), tmp_path), Changes(no_sync=True))
    assert said in quiet.notes and quiet.cases[0].saving == 0
    assert said not in notes(LOOP, Changes(no_sync=True)) and said not in notes(LOOP)


def test_nothing_that_loads() -> None:
    said = "--loader saves nothing: nothing that loads data was recorded on the host."
    assert said in notes(STEP, Changes(loader=0.0))
    assert said not in notes(LOOP, Changes(loader=0.0)) and said not in notes(STEP)


def test_a_loader_that_was_always_ready(tmp_path: Path) -> None:
    said = "The loader always had the next batch ready; how much faster it could go isn't recorded."
    assert said in notes(LOOP) and said not in notes(LOOP, Changes(loader=0.0)) and said not in notes(STEP)
    assert said not in notes(files(build(4, plants=[loader(40)]), tmp_path))


def refused(path: Path, what: str, code: int = 1, *options: str) -> str:
    result = run("whatif", path, *options)
    said = str(result.exception)
    assert isinstance(result.exception, UsageError if code == 2 else InputError), result.output
    assert what in said
    return said


def test_a_replay_that_is_too_far_off(tmp_path: Path) -> None:
    begun = 0

    def later(event: dict[str, Any]) -> None:
        nonlocal begun
        begun += event.get("cat") == "kernel"
        if begun >= 40 and event.get("cat") in ("kernel", "gpu_memcpy"):
            event["ts"] += 60
        elif (
            begun >= 40
            and event.get("cat") in ("cuda_runtime", "cuda_sync", "user_annotation")
            and "Sync" in event["name"]
        ):
            event["dur"] += 60

    said = refused(edited(LOOP, later, tmp_path), "off the recording, so it tells nothing of changes: ")
    assert "copy.pt.trace.json" in said and "expected: at most 1 %" in said and "hint: record calls and waits" in said
    assert "of device work began" in said and "us later than launches, the work before and events explain" in said


def test_what_has_nothing_to_replay(tmp_path: Path) -> None:
    table = next(iter(sorted((SAMPLES / "torch-table").glob("*.txt"))))
    said = refused(table, "no device work with times")
    assert "expected: kernels with times and the calls that launched them" in said

    def alone(event: dict[str, Any]) -> None:
        event.get("args", {}).pop("correlation", None)
        if event.get("cat") == "ac2g":
            event["ph"] = "M"

    said = refused(edited(LOOP, alone, tmp_path), "no launch of 90 pieces of device work is known")
    assert "expected: calls that launch device work, with the same correlation" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--scale", "gemn=0.5"), "no device work is called 'gemn'"),
        (("--scale", "gemm"), "--scale gemm isn't a name and a factor"),
        (("--scale", "gemm=-1"), "isn't a name and a factor"),
        (("--scale", "gemm=nan"), "isn't a name and a factor"),
        (("--loader", "nan"), "nan isn't a factor"),
        (("--overlap", "nccl"), "no device work is called 'nccl'"),
        (("--name", "gemm"), "whatif doesn't take filter"),
    ],
)
def test_options_that_say_nothing(options: tuple[str, ...], said: str) -> None:
    told = refused(LOOP, said, 2, *options)
    if "called" in said:
        assert "did you mean gemm?" in told or "ktrace summary IN --by operation,kernel" in told


def test_a_part_of_the_steps() -> None:
    found = whatif(LOOP, HALF)
    part = run("whatif", LOOP, "--step", "11..13", "--format", "json")
    assert part.exit_code == 0, part.exception
    assert json.loads(part.stdout)["steps"] == 3 and found.steps == 5


@pytest.mark.parametrize(
    "path", kineto("worker0.1623143089861.pt.trace.json.gz", "nccl_data.json.gz"), ids=lambda path: path.name
)
def test_real_traces_are_replayed(path: Path) -> None:
    found: WhatIf = whatif(at_hand(path), Changes(scale={"gemm": 0.0}, graph=True))
    assert found.drift < 0.01 and found.unchanged.step == pytest.approx(found.recorded, rel=1e-4)
    gemm, graph, both = (one.saving for one in found.cases)
    assert abs(gemm) < 0.001 * found.recorded < graph < both  # launch-bound, as `--by idle` says


def test_a_real_trace_is_refused() -> None:
    [path] = kineto("mtia_inference_rank_0.json.gz")
    assert "the launches of 244 of 974 pieces aren't known" in refused(at_hand(path), "off the recording")
