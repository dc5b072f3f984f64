"""`ktrace batch --fleet`: what is kept and read again, what fails, what it says where a recording lacks something."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from fleet_traces import write_trace
from fork_server import program
from jsonschema import Draft202012Validator
from worlds.fleets import Fleet

import ktrace
from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.session import Session
from ktrace.errors import DamagedInput, InputError, OutputError, UnknownFormat, UsageError
from ktrace.fleet import run as fleets
from ktrace.fleet import together
from ktrace.fleet.answer import screen, sentences
from ktrace.fleet.reduced import RankTable, packed, unpacked
from ktrace.fleet.run import RANKS, ReduceTask, fleet, read_fleet, reduce_one
from ktrace.fleet.tasks import Outcome
from ktrace.input.dataset_manifest import FLEET_MARK

SHAPE: dict[str, Any] = {"replicas": 8, "steps": 4, "micro": 1, "layers": 1}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads in this process."""
    monkeypatch.setattr("ktrace.fleet.executor.can_start", lambda: False)


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Eight ranks, one of which is late."""
    return Fleet(late={3: 1.2}, **SHAPE).write(tmp_path / "in")


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(), "batch", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_command_prints_a_screen_and_writes_a_page(ranks: Path, tmp_path: Path) -> None:
    done = command(ranks, "-o", tmp_path / "out", "--fleet", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("8 ranks on 1 host · NVIDIA H100 80GB HBM3 · 4 steps, median ")
    assert lines[2].startswith("Rank 3 (node0) is slow throughout: the slowest of 8 peers in 4 of 4 steps")
    assert len(lines) < 100
    assert f"ktrace view {ranks / 'rank3.json'}" in lines
    assert re.search(r"^ *3 {2}[▒▓█]{4}$", done.stdout, re.MULTILINE)
    page = (tmp_path / "out/fleet.html").read_text("utf-8")
    assert "Rank 3 (node0) is slow throughout" in page
    assert f"ktrace view {ranks / 'rank3.json'}" in page
    assert "◂ late" in page
    assert done.stderr.splitlines()[-1] == f"{tmp_path / 'out'}/fleet.html: 8 inputs: 8 done, 0 already there, 0 failed"


def test_json_is_as_the_schema_says(ranks: Path, tmp_path: Path) -> None:
    (ranks / "rank9.json").write_text("garbage")
    done = command(ranks / "rank*.json", "-o", tmp_path / "out", "--fleet", "--format", "json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    Draft202012Validator(json.loads((ROOT / "schema/answers-1.schema.json").read_text("utf-8"))).validate(answer)
    assert [one["state"] for one in answer["inputs"]] == ["done"] * 8 + ["failed"]
    assert "\\n" not in done.stderr, "the reason has lines of its own"
    assert answer["fleet"]["steps"] == [0, 1, 2, 3]
    [row] = answer["fleet"]["tables"]["stragglers"]
    assert (row["rank"], row["host"], row["slow"], row["slowest_in"]) == ("3", "node0", "throughout", 4)
    assert len(answer["fleet"]["tables"]["ranks"]) == 8
    assert answer["fleet"]["notes"][0] == "1 input couldn't be read, and is left out."


def test_an_interrupted_run_goes_on_and_only_what_changed_is_read_again(
    ranks: Path, tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(task: ReduceTask) -> Outcome:
        if len(read) == 5:
            raise KeyboardInterrupt
        read.append(Path(task.path).name)
        return reduce_one(task)

    with monkeypatch.context() as patched:
        patched.setattr(fleets, "reduce_one", reading)
        with pytest.raises(KeyboardInterrupt):
            fleet(str(ranks), tmp_path / "out")
    assert len(list((tmp_path / "out" / RANKS).iterdir())) == 5
    answer = fleet(str(ranks), tmp_path / "out")
    assert (len(answer.report.kept), len(answer.report.done)) == (5, 3)
    some = fleet([str(ranks / f"rank{rank}.json") for rank in range(4)], tmp_path / "out")
    assert [one.rank for one in read_fleet(str(tmp_path / "out")).ranks] == [one.rank for one in some.ranks]
    answer = fleet(str(ranks), tmp_path / "out")
    assert len(read_fleet(str(tmp_path / "out")).ranks) == 8
    whole = screen(answer)
    assert screen(fleet(str(ranks), tmp_path / "other")) == whole
    Fleet(late={5: 1.2}, **SHAPE).write(ranks, only=[3])
    answer = fleet(str(ranks), tmp_path / "out")
    assert [Path(path).name for path in answer.report.done] == ["rank3.json"]
    assert answer.chronic == []
    assert len(list((tmp_path / "out" / RANKS).iterdir())) == 8, "the table of the old file is gone"


def test_other_options_are_other_tables(ranks: Path, tmp_path: Path, here: None) -> None:
    fleet(str(ranks), tmp_path / "out")
    answer = fleet(str(ranks), tmp_path / "out", crop=ktrace.Crop(step=2))
    assert len(answer.report.done) == 8
    assert answer.steps == [2]
    assert answer.notes[-1] == "1 step is too few to tell who is slow throughout from who is for a while."
    assert "\nstep 2; the slowest rank of each line\n" in screen(answer)
    with pytest.raises(InputError, match=r"First: .*rank0.json: there is no step 99"):
        fleet(str(ranks), tmp_path / "out", crop=ktrace.Crop(step=99), jobs=1)


def test_ranks_that_are_not_wanted_are_not_read(ranks: Path, tmp_path: Path, here: None) -> None:
    answer = fleet(str(ranks), tmp_path / "out", filter=ktrace.Filter(ranks=(1, 3, 4)))
    assert [one.rank for one in answer.ranks] == [1, 3, 4]
    assert answer.report.line() == "8 inputs: 3 done, 0 already there, 0 failed, 5 of other ranks left out"
    with pytest.raises(InputError, match="none of 8 inputs is of a rank that is wanted"):
        fleet(str(ranks), tmp_path / "out", filter=ktrace.Filter(ranks=(99,)))


def test_parts_of_any_size_give_the_same(tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Fleet(replicas=4, width=2, stages=2, hot=(1, 2.0), steps=3, micro=2)
    fleet(str(world.write(tmp_path / "in")), tmp_path / "out")
    whole = screen(read_fleet(str(tmp_path / "out")))
    for rows in (7, 100):
        monkeypatch.setattr(together, "_ROWS", rows)
        assert screen(read_fleet(str(tmp_path / "out"))) == whole


def test_an_object_store_holds_inputs_and_tables(ranks: Path, here: None) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for file in ranks.iterdir():
        store.pipe_file(f"/bucket/run/{file.name}", file.read_bytes())
    answer = fleet("memory://bucket/run/rank*.json", "memory://bucket/out")
    assert answer.report.failed == {}
    assert sentences(answer)[0].startswith("Rank 3 (node0) is slow throughout")
    again = fleet("memory://bucket/run/rank*.json", "memory://bucket/out")
    assert len(again.report.kept) == 8


def notes_of(tmp_path: Path, change: Callable[[Path], object], **shape: Any) -> list[str]:
    folder = Fleet(**{**SHAPE, **shape}).write(tmp_path / "in")
    change(folder)
    return fleet(str(folder), tmp_path / "out").notes


def test_missing_ranks_are_said(tmp_path: Path, here: None) -> None:
    assert notes_of(tmp_path, lambda _: None) == []
    left_out = notes_of(tmp_path, lambda folder: [(folder / f"rank{rank}.json").unlink() for rank in (1, 2, 5)])
    assert left_out[0] == "3 of 8 ranks are missing: 1 to 2, 5."
    assert left_out[1].endswith("collectives lack some of their ranks: waiting there is at least what is said.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (range(1, 8), "Whether 1 rank is slow isn't known: it takes 4 ranks with the same work, and 3 steps"),
        (range(3, 8), "Whether 3 ranks are slow isn't known: it takes 4 ranks with the same work, and 3 steps"),
        (range(4, 8), None),
    ],
)
def test_too_few_peers_are_said(tmp_path: Path, here: None, change: range, said: str | None) -> None:
    folder = Fleet(**SHAPE).write(tmp_path / "in")
    for rank in change:
        (folder / f"rank{rank}.json").unlink()
    answer = fleet(str(folder), tmp_path / "out")
    assert any("isn't known" in note for note in answer.notes) == (said is not None)
    assert said is None or any(note.startswith(said) for note in answer.notes)
    assert ("No rank stands out" in screen(answer)) == (said is None)


def test_ranks_without_steps_are_not_said_to_be_well(tmp_path: Path, here: None) -> None:
    def without_steps(folder: Path) -> None:
        for rank in range(5):
            path = folder / f"rank{rank}.json"
            path.write_text(path.read_text("utf-8").replace("ProfilerStep", "Whatever"))

    folder = Fleet(**SHAPE).write(tmp_path / "in")
    without_steps(folder)
    answer = fleet(str(folder), tmp_path / "out")
    assert "5 ranks have no steps, and are left out of what is said of steps." in answer.notes
    assert "No rank stands out" not in screen(answer)


def test_a_rank_twice_is_said(tmp_path: Path, here: None) -> None:
    told = notes_of(tmp_path, lambda folder: (folder / "z.json").write_bytes((folder / "rank2.json").read_bytes()))
    assert told[0] == "1 rank occurs more than once, each time on its own: 2."


def test_steps_that_ranks_lack_are_said(tmp_path: Path, here: None) -> None:
    def other_steps(folder: Path) -> None:
        text = (folder / "rank2.json").read_text("utf-8")
        (folder / "rank2.json").write_text(
            re.sub(r"ProfilerStep#(\d)", lambda one: f"ProfilerStep#{int(one[1]) + 2}", text)
        )

    told = notes_of(tmp_path, other_steps)
    assert "8 ranks lack some of 6 steps; 2 are on all ranks." in told


def test_recordings_without_steps_name_nobody(tmp_path: Path, here: None) -> None:
    for rank in range(5):
        write_trace(tmp_path / f"in/rank{rank}.json", rank, kernels=10 + rank)
    answer = fleet(str(tmp_path / "in"), tmp_path / "out")
    assert (answer.chronic, answer.passing, answer.steps) == ([], [], [])
    assert sentences(answer) == []
    assert answer.notes[1].startswith("There are no steps: each recording counts as one")
    assert screen(answer).startswith("5 ranks · no steps, ")


def test_collectives_without_numbers_are_matched_by_step(tmp_path: Path, here: None) -> None:
    world = Fleet(numbered=False, late={3: 1.2}, **SHAPE)
    answer = fleet(str(world.write(tmp_path / "in")), tmp_path / "out")
    assert answer.joined == 4
    assert answer.waited.T.tolist() == world.waited.reshape(4, 8).tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--strict"], "leave out --by"), (["--by", "run"], "leave out"), (["--report", "r"], "leave")],
)
def test_options_of_datasets_are_refused(ranks: Path, tmp_path: Path, options: list[str], said: str) -> None:
    done = command(ranks, "-o", tmp_path / "out", "--fleet", *options)
    assert done.returncode == 2
    assert "leave out --by, --strict and --report, or --fleet" in done.stderr
    assert not (tmp_path / "out").exists()


def test_folders_with_other_files_are_refused(ranks: Path, tmp_path: Path, here: None) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="contains other files"):
        fleet(str(ranks), tmp_path / "mine")
    with pytest.raises(OutputError, match="is a file"):
        fleet(str(ranks), tmp_path / "mine/notes.txt")
    ktrace.batch(str(ranks / "rank0.json"), tmp_path / "dataset", jobs=1)
    with pytest.raises(OutputError, match="is a dataset of ktrace batch"):
        fleet(str(ranks), tmp_path / "dataset")
    fleet(str(ranks / "rank0.json"), tmp_path / "ranks", jobs=1)
    with pytest.raises(OutputError, match=r"(?s)is a folder of --fleet.*or the command with --fleet"):
        ktrace.batch(str(ranks), tmp_path / "ranks")
    (tmp_path / "ranks" / FLEET_MARK).write_text("[]")
    with pytest.raises(InputError, match="has no tables of ranks"):
        read_fleet(str(tmp_path / "ranks"))
    with pytest.raises(InputError, match="has no tables of ranks"):
        read_fleet(str(tmp_path / "mine"))
    with pytest.raises(UsageError, match="Dask has its own workers"):
        fleet(str(ranks), tmp_path / "out", jobs=2, dask="tcp://x")


def test_a_folder_of_tables_is_no_trace(ranks: Path, tmp_path: Path, here: None) -> None:
    fleet(ranks, tmp_path / "out")
    with pytest.raises(UnknownFormat, match="is a folder of `ktrace batch --fleet`") as refused:
        ktrace.read(tmp_path / "out")
    assert refused.value.remedy and "fleet.html" in refused.value.remedy


def test_inputs_without_device_work_fail_with_their_names(tmp_path: Path, here: None) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/rank0.json").write_text('{"traceEvents": []}')
    with pytest.raises(InputError, match=r"none of 1 input could be read. First: .*rank0.json"):
        fleet(f"{tmp_path}/in/rank0.json", tmp_path / "out")


def test_tables_that_ktrace_did_not_write_are_refused(tmp_path: Path) -> None:
    table = RankTable("rank0.json", "rank0", 0, None, 0, None, None, [1, 2], b"\0" * 96)
    good = packed([table])
    assert unpacked(good, "x") == [table]
    table.steps = [1]
    for bad in (b"", good[:-5], b"\xff" * 8 + good[8:], packed([table])):
        with pytest.raises(DamagedInput, match="isn't what `ktrace batch --fleet` writes"):
            unpacked(bad, "x.rank")


def test_an_agent_reads_a_folder_of_tables(ranks: Path, tmp_path: Path, here: None) -> None:
    pytest.importorskip("mcp")
    from ktrace.analysis.answers.mcp.server import answered
    from ktrace.analysis.answers.mcp.tools import TOOLS
    from ktrace.analysis.answers.query.children import Children

    fleet(str(ranks), tmp_path / "out")
    children = Children(1)
    try:
        answer = answered(Session(Access([tmp_path]), 1 << 30, children), "fleet", {"path": "out"})
    finally:
        children.close()
    Draft202012Validator(TOOLS["fleet"].answers).validate(json.loads(json.dumps(answer)))
    assert answer["notes"][0].startswith("Rank 3 (node0) is slow throughout")
    assert next(one["name"] for one in answer["tables"]) == "stragglers"
