"""`ktrace.batch` on this machine: what is written, what is kept, what fails, what others read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from conftest import SAMPLES
from fleet_traces import figures, nanoseconds, shards, write_trace
from fork_server import program

import ktrace
from ktrace.fleet.inputs import _stamp
from ktrace.input.dataset_manifest import Stamp
from ktrace.pipeline.info import inspect
from ktrace.pipeline.validate import validate

UNKNOWN = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of two ranks; the second says host and rank itself, in files of one name."""
    write_trace(tmp_path / "runs/a b/rank0.json", kernels=10)
    write_trace(tmp_path / "runs/a b/rank1.json", kernels=20)
    write_trace(tmp_path / "runs/c/n1/trace.json", 0, kernels=30, host="node1")
    write_trace(tmp_path / "runs/c/n2/trace.json", 1, kernels=40, host="node2")
    return tmp_path / "runs"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [program(), "batch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_become_shards_by_run_host_and_rank(runs: Path, tmp_path: Path) -> None:
    report = ktrace.batch(f"{runs}/**/*.json", tmp_path / "out", jobs=2)
    assert (len(report.done), len(report.kept), report.failed, report.rows) == (4, 0, {}, 100)
    assert [name.rpartition("/")[0] for name in shards(tmp_path / "out")] == [
        f"run_name=a%20b/host_name={UNKNOWN}/rank=0",
        f"run_name=a%20b/host_name={UNKNOWN}/rank=1",
        "run_name=c%2Fn1/host_name=node1/rank=0",
        "run_name=c%2Fn2/host_name=node2/rank=1",
    ]
    said = {manifest.label: manifest.said for manifest in report.done}
    assert said["rank0"] == {"run": "path", "host": "", "rank": "path"}
    assert said["c/n1/trace"] == {"run": "path", "host": "catalog", "rank": "catalog"}
    assert not (tmp_path / "out/_ktrace/tmp").exists()


def test_duckdb_pyarrow_and_polars_read_the_same(runs: Path, tmp_path: Path) -> None:
    ktrace.batch(f"{runs}/**/*.json", tmp_path / "out", jobs=1)
    expected = [
        ("a b", None, 0, 10, nanoseconds(10)),
        ("a b", None, 1, 20, nanoseconds(20)),
        ("c/n1", "node1", 0, 30, nanoseconds(30)),
        ("c/n2", "node2", 1, 40, nanoseconds(40)),
    ]
    assert figures(tmp_path / "out") == expected
    table = ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table(
        columns=["run_name", "host_name", "rank", "kind", "dur", "run", "host"]
    )
    assert table.column("run").null_count == len(table)  # the model's own columns, which the folders don't hide
    frame = table.to_pandas().astype({"host_name": object})
    frame = frame[frame.kind == "kernel"]
    found = frame.groupby(["run_name", "host_name", "rank"], dropna=False, observed=True).dur.agg(["size", "sum"])
    assert [tuple(row) for row in found.to_numpy().tolist()] == [row[3:] for row in expected]
    pl = pytest.importorskip("polars", reason="polars is not installed")
    scanned = pl.scan_parquet(f"{tmp_path}/out/**/*.parquet", hive_partitioning=True).filter(pl.col("kind") == "kernel")
    by = ["run_name", "host_name", "rank"]
    grouped = scanned.group_by(by).agg(pl.len().cast(pl.Int64), pl.col("dur").sum().alias("ns")).sort(by)
    assert sorted(grouped.collect().rows(), key=str) == sorted(expected, key=str)


def test_a_dataset_is_one_trace_equal_to_its_files(tmp_path: Path) -> None:
    inputs = sorted((SAMPLES / "kineto").glob("*.json"))
    assert len(inputs) > 5
    ktrace.batch(str(SAMPLES / "kineto/*.json"), tmp_path / "out", jobs=1)
    direct, again = ktrace.read(inputs), ktrace.read(tmp_path / "out")
    for record in ("events", "summaries", "links"):
        one, other = (getattr(trace, record) for trace in (direct, again))
        by = ["source", "id"]
        one, other = (frame.sort_values(by).reset_index(drop=True) for frame in (one, other))
        assert one.equals(other), record
    assert direct.device_time() == again.device_time() > 0
    assert not validate(tmp_path / "out").faults
    assert validate(tmp_path / "out").checked > len(direct.events)


def test_commands_take_a_dataset_as_a_trace(runs: Path, tmp_path: Path) -> None:
    ktrace.batch(f"{runs}/**/*.json", tmp_path / "run.parquet", jobs=1)
    ktrace.convert(f"{tmp_path}/run.parquet", tmp_path / "one.parquet")
    query = "select count(*), sum(dur)::bigint, count(distinct source) from '{}' where kind = 'kernel'"
    expected = (100, sum(map(nanoseconds, (10, 20, 30, 40))), 4)
    assert duckdb.sql(query.format(tmp_path / "one.parquet")).fetchall() == [expected]
    summaries = []
    for source in (tmp_path / "run.parquet", runs):
        command = [program(), "summary", str(source), "--by", "kernel", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        tables = json.loads(done.stdout)["tables"]
        # The labels of sources are longer in a dataset where stems repeat.
        summaries.append({name: rows for name, rows in tables.items() if name not in ("overview", "devices")})
    assert summaries[0] == summaries[1]
    assert "gemm" in str(summaries[0])
    [found] = ktrace.detect(tmp_path / "run.parquet")[:1]
    assert (found.format, found.score) == ("parquet", ktrace.Score.MAGIC)


def test_what_is_read_beside_an_input_changes_it(tmp_path: Path) -> None:
    """The mapping of a table, changes of a database, the events of OTF2: then it isn't done any more."""
    table, database = tmp_path / "run.csv", tmp_path / "run.sqlite"
    anchor = tmp_path / "run.otf2"
    for path in (table, database, anchor, tmp_path / "run/0.evt"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", "utf-8")
    for path, beside in (
        (table, "run.csv.ktrace.toml"),
        (database, "run.sqlite-wal"),
        (anchor, "run.def"),
        (anchor, "run/0.evt"),
        (anchor, "run/1.evt"),
        (tmp_path / "run", "run/2.evt"),
    ):
        before = _stamp(path)
        assert before == _stamp(path)
        (tmp_path / beside).write_text("another one", "utf-8")
        assert _stamp(path) != before, beside
    alone = tmp_path / "alone.json"
    alone.write_text("x", "utf-8")
    assert _stamp(alone) == Stamp(1, alone.stat().st_mtime_ns), "what is alone has the stamp that it always had"


def test_what_is_done_is_kept_and_what_changed_is_done_again(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ktrace.batch(f"{runs}/**/*.json", out, jobs=1)
    before = {name: (out / name).stat().st_mtime_ns for name in shards(out)}
    assert len(ktrace.batch(f"{runs}/**/*.json", out, jobs=1).kept) == 4
    write_trace(runs / "c/n1/trace.json", 5, kernels=31, host="node1")
    write_trace(runs / "d/rank9.json", kernels=1)
    report = ktrace.batch(f"{runs}/**/*.json", out, jobs=1)
    assert [manifest.label for manifest in report.done] == ["c/n1/trace", "rank9"]
    assert len(report.kept) == 3
    after = {name: (out / name).stat().st_mtime_ns for name in shards(out)}
    assert {name for name in before if before[name] == after.get(name)} == {
        name for name in before if not name.startswith("run_name=c%2Fn1/")
    }
    assert ("c/n1", "node1", 5, 31, nanoseconds(31)) in figures(out)
    assert len(after) == 5
    report = ktrace.batch(f"{runs}/**/*.json", out, jobs=1, filter=ktrace.Filter(names=["gemm"]))
    assert len(report.done) == 5, "other options, other shards"
    assert sum(row[3] for row in figures(out)) == sum(-(-kernels // 3) for kernels in (10, 20, 31, 40, 1))


def test_what_is_not_finished_is_not_read_and_is_made_anew(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    [manifest, *_] = ktrace.batch(f"{runs}/**/*.json", out, jobs=1).done
    (out / manifest.name).unlink()
    stray, foreign = out / "run_name=x/host_name=y/rank=1/stray-0123456789ab.parquet", out / "notes.parquet"
    foreign.write_bytes(b"not ours")
    stray.parent.mkdir(parents=True)
    stray.write_bytes((out / manifest.shards[0].name).read_bytes())
    assert len(ktrace.read(out).events) == 100 - manifest.rows
    report = ktrace.batch(f"{runs}/**/*.json", out, jobs=1)
    assert [one.path for one in report.done] == [manifest.path]
    assert not stray.exists()
    assert foreign.exists()
    (out / manifest.shards[0].name).write_bytes(b"PAR1")
    with pytest.raises(ktrace.DamagedInput, match=r"has a shard of 4 bytes") as error:
        ktrace.read(out)
    assert error.value.where == manifest.shards[0].name
    assert len(ktrace.batch(f"{runs}/**/*.json", out, jobs=1).done) == 1
    assert len(ktrace.read(out).events) == 100


def test_a_broken_file_does_not_stop_the_others(runs: Path, tmp_path: Path) -> None:
    (runs / "a b/rank2.json").write_text("garbage")
    done = run(f"{runs}/**/*.json", "-o", tmp_path / "out", "--report", tmp_path / "r.json", "--jobs", 2)
    assert done.returncode == 1
    assert "rank2.json: unrecognised format" in done.stderr
    assert done.stderr.splitlines()[-1] == f"{tmp_path}/out: 5 inputs: 4 done, 0 already there, 1 failed; 100 rows"
    told = json.loads((tmp_path / "r.json").read_text())
    assert [one["state"] for one in told["inputs"]] == ["done", "done", "failed", "done", "done"]
    assert [row[3] for row in figures(tmp_path / "out")] == [10, 20, 30, 40]
    write_trace(runs / "a b/rank2.json", kernels=5)
    done = run(f"{runs}/**/*.json", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert "5 inputs: 1 done, 4 already there, 0 failed; 105 rows" in done.stderr


def test_failures_are_listed_at_the_end(runs: Path, tmp_path: Path) -> None:
    (runs / "broken.json").write_text("nothing that a format knows\n" * 3)
    done = run(f"{runs}/**/*.json", "-o", tmp_path / "o.parquet", "--jobs", 1)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[-2].startswith("failed: ")
    assert "broken.json" in lines[-2]
    assert "1 failed" in lines[-1]


def test_a_terminal_shows_one_bar_and_the_failures_at_the_end(runs: Path, tmp_path: Path) -> None:
    import os
    import pty

    (runs / "broken.json").write_text("nothing that a format knows\n" * 3)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ktrace", "batch", f"{runs}/**/*.json", "-o", str(tmp_path / "o.parquet")]
    process = subprocess.Popen([*command, "--jobs", "1"], stderr=theirs, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    text = b""
    try:
        while some := os.read(ours, 1 << 16):
            text += some
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 1
    shown = text.decode()
    assert "converting" in shown
    assert "rows, " not in shown.partition("failed: ")[0]
    assert shown.count("unrecognised format") == 1
    assert "broken.json" in shown.partition("failed: ")[2]


def test_strict_fails_what_had_to_be_repaired(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json")
    cut = write_trace(tmp_path / "rank1.json")
    cut.write_bytes(cut.read_bytes()[:-200])
    report = ktrace.batch(f"{tmp_path}/rank*.json", tmp_path / "out", jobs=1, strict=True)
    assert list(report.failed) == [str(cut)]
    report = ktrace.batch(f"{tmp_path}/rank*.json", tmp_path / "out", jobs=1)
    assert [manifest.issues for manifest in report.done] == [{}, {"cut": 1}]


def test_equal_stems_have_different_labels_also_in_a_later_batch(tmp_path: Path) -> None:
    for folder in "ab":
        write_trace(tmp_path / folder / "rank0.json", kernels=3)
    out = tmp_path / "out"
    ktrace.batch(tmp_path / "a/rank0.json", out, jobs=1)
    ktrace.batch(f"{tmp_path}/*/rank0.json", out, jobs=1)
    write_trace(tmp_path / "c/rank0.json", kernels=3)
    ktrace.batch(tmp_path / "c/rank0.json", out, jobs=1)
    assert figures(out, "run_name, source") == [
        ("a", "rank0", 3, nanoseconds(3)),
        ("b", "b/rank0", 3, nanoseconds(3)),
        ("c", "rank0#2", 3, nanoseconds(3)),
    ]


def test_sources_of_a_canonical_input_stand_below_its_label_and_go_to_their_ranks(tmp_path: Path) -> None:
    ranks = [write_trace(tmp_path / f"in/rank{rank}.json", rank, kernels=rank + 1, host="n") for rank in (0, 1)]
    (tmp_path / "both").mkdir()
    ktrace.convert(ranks, tmp_path / "both/all.jsonl")
    report = ktrace.batch(f"{tmp_path}/both/*.jsonl", tmp_path / "out", jobs=1)
    assert figures(tmp_path / "out", "host_name, rank, source") == [
        ("n", 0, "all/rank0", 1, nanoseconds(1)),
        ("n", 1, "all/rank1", 2, nanoseconds(2)),
    ]
    assert len(report.done[0].shards) == 2
    names = ktrace.read(tmp_path / "out").catalog.query("entity == 'source'").name
    assert sorted(names) == ["all/rank0", "all/rank1"]


def test_a_part_of_each_input_and_classes_of_kernels(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(f"{runs}/**/*.json", "-o", out, "--name", "gemm", "--rank", 0, "--jobs", 1, "--classify")
    assert (done.returncode, done.stderr.splitlines()[-1].partition(": ")[2]) == (
        1,
        "4 inputs: 2 done, 0 already there, 1 failed, 1 of other ranks left out; 14 rows",
    )
    assert "there is no rank 0" in done.stderr  # n2 says that it is rank 1, its path doesn't
    assert figures(out, "rank, name, operation") == [(0, "gemm", "gemm", 14, sum_of_every_third(10, 30))]


def sum_of_every_third(*kernels: int) -> int:
    return sum((number + 1) * 1000 + 1 for count in kernels for number in range(0, count, 3))


def test_a_rank_that_only_the_path_says_is_a_fact_and_can_be_asked_for(runs: Path, tmp_path: Path) -> None:
    ktrace.batch(f"{runs}/**/*.json", tmp_path / "out", jobs=1)
    ktrace.convert(tmp_path / "out", tmp_path / "r1.parquet", filter=ktrace.Filter(ranks=[1]))
    query = f"select source, count(*) from '{tmp_path}/r1.parquet' where kind = 'kernel' group by 1 order by 1"
    assert duckdb.sql(query).fetchall() == [("c/n2/trace", 40), ("rank1", 20)]


def test_wrong_uses_say_so(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ktrace.InputError, match="no file matches this pattern"):
        ktrace.batch(f"{runs}/*.nothing", tmp_path / "out")
    with pytest.raises(ktrace.OutputError, match="folder that contains other files"):
        ktrace.batch(f"{runs}/**/*.json", runs)
    with pytest.raises(ktrace.OutputError, match="is a file"):
        ktrace.batch(f"{runs}/**/*.json", runs / "a b/rank0.json")
    with pytest.raises(ktrace.UsageError, match="Dask"):
        ktrace.batch(f"{runs}/**/*.json", tmp_path / "out", jobs=2, dask="tcp://127.0.0.1:1")
    assert not (tmp_path / "out").exists()
    assert run(f"{runs}/*.nothing", "-o", tmp_path / "out").returncode == 1
    assert run("x").returncode == 2


def test_files_of_other_ranks_are_not_read(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ktrace.batch(f"{runs}/**/*.json", out, jobs=1)
    wanted = ktrace.Filter(ranks=[1])
    whole = ktrace.convert(sorted(runs.rglob("n?/*.json")), tmp_path / "files.parquet", filter=wanted)
    pruned = ktrace.convert(out, tmp_path / "pruned.parquet", filter=wanted)
    assert (whole.written, pruned.rows["events"], pruned.written) == (40, 60, 60)
    assert pruned.balanced()
    assert [told for _, told in pruned.issues["left-out"].places] == ["40 by --rank, in 2 files of other ranks"]
    with pytest.raises(ktrace.InputError, match="no rank 7") as error:
        ktrace.convert(out, tmp_path / "none.parquet", filter=ktrace.Filter(ranks=[7]))
    assert error.value.expected == "one of the ranks 0, 1"
    # The time of a part is counted from the first event of all ranks.
    shifted = ktrace.Crop(time="0ms..1ms")
    cropped = ktrace.convert(out, tmp_path / "crop.parquet", filter=wanted, crop=shifted)
    assert cropped.rows["events"] == 100


def test_info_says_what_a_dataset_is_made_of(runs: Path, tmp_path: Path) -> None:
    ktrace.batch(f"{runs}/**/*.json", tmp_path / "out", jobs=1)
    [(heading, lines)] = inspect(tmp_path / "out").about.items()
    assert heading == "dataset of 4 inputs"
    assert [line.partition(" bytes, ")[2] for line in lines[:3]] == [
        "unknown host, 2 ranks (0, 1)",
        "node1, 1 ranks (0)",
        "node2, 1 ranks (1)",
    ]
    assert lines[3] == "host by catalog of 2, rank by catalog of 2, rank by path of 2, run by path of 4"
    assert inspect(tmp_path / "out" / shards(tmp_path / "out")[0]).about == {}


def test_a_folder_stands_for_its_traces_and_never_for_the_output(runs: Path, tmp_path: Path) -> None:
    (runs / "notes.txt").write_text("nothing of a trace")
    out, found = runs / "out", []
    for inputs in (str(runs), f"{runs}/**/*.json"):
        for kept in (0, 4):
            report = ktrace.batch(inputs, out, jobs=1)
            assert (report.found, len(report.kept), report.failed) == (4, kept, {})
        found.append(figures(out, "rank, source"))
        shutil.rmtree(out)
    assert len(found[0]) == 4
    assert found[0] == found[1]
    done = run(runs, "-o", out)
    assert "notes.txt" in next(line for line in done.stderr.splitlines() if "no-trace" in line)


@pytest.mark.parametrize(
    ("by", "folders"),
    [
        ("run,host", ["run_name", "host_name"]),
        (["rank", "run"], ["rank", "run_name"]),
        ("host", ["host_name"]),
    ],
)
def test_by_selects_the_folders_and_their_order(
    runs: Path, tmp_path: Path, by: str | list[str], folders: list[str]
) -> None:
    out = tmp_path / "out"
    report = ktrace.batch(f"{runs}/**/*.json", out, jobs=1, by=by)
    assert (len(report.done), report.failed, report.rows) == (4, {}, 100)
    assert {tuple(part.partition("=")[0] for part in name.split("/")[:-1]) for name in shards(out)} == {tuple(folders)}
    expected: dict[tuple[object, ...], int] = {}
    for run_name, host_name, rank, kernels in (
        ("a b", None, 0, 10),
        ("a b", None, 1, 20),
        ("c/n1", "node1", 0, 30),
        ("c/n2", "node2", 1, 40),
    ):
        values: dict[str, object] = {"run_name": run_name, "host_name": host_name, "rank": rank}
        key = tuple(values[folder] for folder in folders)
        expected[key] = expected.get(key, 0) + kernels
    files = f"read_parquet('{out}/**/*.parquet', hive_partitioning = true)"
    named = ", ".join(folders)
    rows = duckdb.execute(f"select {named}, count(*) from {files} where kind = 'kernel' group by all").fetchall()
    assert {row[:-1]: row[-1] for row in rows} == expected
    table = ds.dataset(out, format="parquet", partitioning="hive").to_table(columns=[*folders, "kind"]).to_pylist()
    counted: dict[tuple[object, ...], int] = {}
    for row in table:
        if row["kind"] == "kernel":
            key = tuple(row[folder] for folder in folders)
            counted[key] = counted.get(key, 0) + 1
    assert counted == expected


def test_another_by_is_another_dataset(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ktrace.batch(f"{runs}/**/*.json", out, jobs=1)
    assert len(ktrace.batch(f"{runs}/**/*.json", out, jobs=1, by="run,host,rank").kept) == 4
    before = shards(out)
    with pytest.raises(ktrace.OutputError, match="is a dataset by run,host,rank"):
        ktrace.batch(f"{runs}/**/*.json", out, jobs=1, by="run")
    assert shards(out) == before
    assert len(ktrace.batch(f"{runs}/**/*.json", tmp_path / "other", jobs=1, by="run").done) == 4
    assert len(ktrace.batch(f"{runs}/**/*.json", tmp_path / "other", jobs=1, by=["run"]).kept) == 4
    assert [name.count("/") for name in shards(tmp_path / "other")] == [1, 1, 1, 1]


def test_ranks_that_share_a_folder_share_a_file(runs: Path, tmp_path: Path) -> None:
    ktrace.merge(sorted((runs / "c").rglob("*.json")), tmp_path / "both.parquet", align="none")
    ktrace.batch(tmp_path / "both.parquet", tmp_path / "out", jobs=1, by="run")
    assert len(shards(tmp_path / "out")) == 1
    ktrace.convert(tmp_path / "out", tmp_path / "one.parquet", filter=ktrace.Filter(ranks=[1], kinds=["kernel"]))
    assert len(ktrace.read(tmp_path / "one.parquet").events) == 40


def test_an_unknown_or_repeated_key_is_wrong_usage(runs: Path, tmp_path: Path) -> None:
    done = run(f"{runs}/**/*.json", "-o", tmp_path / "out", "--by", "run,node")
    assert done.returncode == 2
    assert "'node'" in done.stderr
    assert "run, host, rank" in done.stderr
    assert run(f"{runs}/**/*.json", "-o", tmp_path / "out", "--by", "run,run").returncode == 2
    assert not (tmp_path / "out").exists()
