"""A batch from an object store into an object store: moto's S3 server on loopback."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES
from fleet_traces import nanoseconds, write_big_trace, write_trace
from nightly import few

import ktrace
from ktrace.cli import cli
from ktrace.fleet import inputs
from ktrace.viewer import served as ktrace_served

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
server = pytest.importorskip("moto.server", reason="moto's server (moto[s3], flask, flask-cors) is not installed")

OUT = "s3://traces/run.parquet/"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def store(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A new bucket, to which environment variables lead this process and those that it starts."""
    settings = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in {**settings, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    if store.exists("traces"):
        store.rm("traces", recursive=True)
    store.mkdir("traces")
    for rank in range(3):
        store.put_file(
            str(write_trace(tmp_path / f"rank{rank}.json", rank, kernels=10 + rank)), f"traces/in/a b/rank{rank}.json"
        )
    return store


def test_a_bucket_becomes_a_dataset_in_a_bucket(store: Any, tmp_path: Path) -> None:
    report = ktrace.batch("s3://traces/in/*/rank*.json", OUT, jobs=2)
    assert (len(report.done), report.failed, report.rows) == (3, {}, 33)
    assert {manifest.path for manifest in report.done} == {f"s3://traces/in/a b/rank{rank}.json" for rank in range(3)}
    names = store.find("traces/run.parquet")
    assert sorted(name.split("/")[2:5] for name in names if name.endswith(".parquet")) == [
        ["run_name=a%20b", "host_name=__HIVE_DEFAULT_PARTITION__", f"rank={rank}"] for rank in range(3)
    ]
    trace = ktrace.read(OUT)
    kernels = trace.events.query("kind == 'kernel'")
    assert kernels.groupby("source").dur.sum().to_dict() == {f"rank{rank}": nanoseconds(10 + rank) for rank in range(3)}
    ktrace.convert(OUT, tmp_path / "run.perfetto")
    assert len(ktrace.read(tmp_path / "run.perfetto").events) == len(trace.events)

    before = {name: store.info(name)["LastModified"] for name in names}
    store.put_file(str(write_trace(tmp_path / "rank1.json", 7, kernels=5)), "traces/in/a b/rank1.json")
    store.put_file(str(write_trace(tmp_path / "rank9.json", 9, kernels=1)), "traces/in/a b/rank9.json")
    report = ktrace.batch("s3://traces/in/*/rank*.json", OUT, jobs=1)
    assert sorted(manifest.label for manifest in report.done) == ["rank1", "rank9"]
    assert len(report.kept) == 2
    store.invalidate_cache()
    after = store.find("traces/run.parquet")
    assert not [name for name in after if "rank=1/" in name]
    assert [name for name in after if "rank=7/" in name]
    assert {
        store.info(name)["LastModified"] == before[name] for name in after if "rank0" in name or "rank2" in name
    } == {True}
    assert len(ktrace.read(OUT).events) == 10 + 5 + 12 + 1


@pytest.mark.nightly
def test_databases_and_broken_files_in_a_bucket(store: Any, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "none.sqlite") as database:
        database.execute("create table t (a)")
    store.put_file(str(tmp_path / "none.sqlite"), "traces/in/none.sqlite")
    ktrace.batch("s3://traces/in/a b/*.json", tmp_path / "local", jobs=1)
    report = ktrace.batch(["s3://traces/in/none.sqlite", "s3://traces/in/a b/rank0.json"], tmp_path / "local", jobs=1)
    assert (len(report.kept), len(report.failed)) == (1, 1)
    assert "an SQLite database with the table" in report.failed["s3://traces/in/none.sqlite"]


def test_what_is_not_there_is_an_error(store: Any, tmp_path: Path) -> None:
    for wrong in ("s3://traces/nothing/*.json", "s3://traces/nothing.json", "s3://no-such-bucket/*.json"):
        with pytest.raises(ktrace.InputError) as error:
            ktrace.batch(wrong, tmp_path / "out")
        assert error.value.path == wrong
    with pytest.raises(ktrace.InputError):
        ktrace.read("s3://traces/nothing/")
    with pytest.raises(ktrace.InputError):
        ktrace.read("s3://no-such-bucket/run.parquet/")
    with pytest.raises(ktrace.KtraceError) as error:
        ktrace.batch("s3://traces/in/*/rank*.json", "s3://no-such-bucket/run.parquet/")
    assert error.value.path == "s3://no-such-bucket/run.parquet/"
    with pytest.raises(ktrace.OutputError, match="folder that contains other files"):
        ktrace.batch("s3://traces/in/*/rank*.json", "s3://traces/in/")


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.mark.parametrize("named", few(["i*/a b/rank[02].json", "ranks/", "ranks"], 1))
def test_every_command_takes_patterns_and_folders(store: Any, tmp_path: Path, named: str) -> None:
    named = f"s3://traces/{named}"
    for rank in (0, 2):
        store.copy(f"traces/in/a b/rank{rank}.json", f"traces/ranks/rank{rank}.json")
    info = _run("info", named)
    assert "2 traces: rank0, rank2" in info.output, info.output
    for command, out in (("convert", "c.parquet"), ("merge", "m.parquet"), ("batch", "b.parquet")):
        assert _run(command, named, "-o", tmp_path / out).exit_code == 0
        events = ktrace.read(tmp_path / out).events
        kernels = events[events["kind"] == "kernel"]
        assert kernels.groupby("source").size().to_dict() == {"rank0": 10, "rank2": 12}
    counts = {row["kernel"]: row["count"] for row in _tables("summary", named)["kernel"]}
    assert sum(counts.values()) == 22
    assert sum(row["count_a"] for row in _tables("diff", named, "s3://traces/in/a b/rank1.json")["kernel"]) == 11
    with ktrace_served(named, offline=True) as view:  # at any free port
        assert view.account is not None
        assert len(view.account.inputs) == 2


def _tables(*arguments: object) -> Any:
    done = _run(*arguments, "--format", "json", "--by", "kernel")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["tables"]


def test_validate_takes_them_too(store: Any, tmp_path: Path) -> None:
    for rank in range(2):
        ktrace.convert(f"s3://traces/in/a b/rank{rank}.json", tmp_path / f"{rank}.jsonl")
        store.put_file(str(tmp_path / f"{rank}.jsonl"), f"traces/checked/{rank}.jsonl")
    store.pipe_file("traces/checked/empty.json", b"")
    store.pipe_file("traces/checked/notes.txt", b"on Monday it was slower\n")
    for named in ("s3://traces/checked/*.jsonl", "s3://traces/checked/", "s3://traces/check*/[01].jsonl"):
        done = _run("validate", named)
        assert done.exit_code == 0, done.output
        assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == [
            f"s3://traces/checked/{rank}.jsonl" for rank in range(2)
        ]
    lines = (tmp_path / "1.jsonl").read_bytes().replace(b'"kind":"kernel"', b'"kind":"beacon"')
    store.pipe_file("traces/checked/1.jsonl", lines)
    assert _run("validate", "s3://traces/checked/").exit_code == 1


@pytest.mark.parametrize("command", few(["convert", "info", "summary", "validate"], 1))
@pytest.mark.parametrize("wrong", ["s3://traces/nothing*/x.json", "s3://traces/nothing.json", "s3://traces/nothing/"])
def test_a_wrong_url_is_an_error_everywhere(store: Any, tmp_path: Path, command: str, wrong: str) -> None:
    done = _run(command, wrong, *(["-o", tmp_path / "o.csv"] if command == "convert" else []))
    assert isinstance(done.exception, ktrace.InputError), done.exception
    assert "nothing" in str(done.exception)


def test_a_remote_folder_that_only_a_local_reader_knows(store: Any, tmp_path: Path) -> None:
    for file in (SAMPLES / "rocprofv3").iterdir():
        if file.is_dir():
            for each in file.rglob("*.csv"):
                store.put_file(str(each), f"traces/roc/{each.name}")
            break
    with pytest.raises(ktrace.InputError, match="which is read as a whole") as error:
        ktrace.convert("s3://traces/roc/", tmp_path / "o.csv")
    assert error.value.remedy == "copy it to this machine"


def test_a_big_file_is_read_in_ranges(store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "STEP", 1 << 20)
    source = write_big_trace(tmp_path / "rank3.json")
    store.put_file(str(source), "traces/big/rank3.json")
    report = ktrace.batch("s3://traces/big/*.json", OUT, jobs=2)
    assert (report.failed, report.as_whole, len(report.done[0].shards)) == ({}, {}, 2)
    assert not store.find("traces/run.parquet/_ktrace/ranges")
    one, other = (
        trace.events.sort_values("id").reset_index(drop=True) for trace in (ktrace.read(source), ktrace.read(OUT))
    )
    assert one.equals(other)
    assert len(ktrace.batch("s3://traces/big/*.json", OUT).kept) == 1
