"""One big file as several tasks: what comes of its ranges is what comes of the whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fleet_traces import convert_or_die_once, shards, write_big_trace

import ktrace
from ktrace.fleet import batch, executor, inputs
from ktrace.fleet.tasks import Outcome, Task, convert_one
from ktrace.model.catalog import Catalog

MIB = 1 << 20


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of a MiB, so that files of some are big."""
    monkeypatch.setattr(inputs, "STEP", MIB)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks of batches, as they are done, in this process."""
    done: list[Task] = []

    def in_here(tasks: Iterable[Task], jobs: int) -> Iterator[Outcome]:
        for task in tasks:
            done.append(task)
            yield convert_one(task)

    monkeypatch.setattr(batch, "in_processes", in_here)
    return done


def equal(source: Path, out: Path) -> ktrace.Report:
    """Compares a dataset with what a conversion of the file gives, row by row; returns its report."""
    one = out.parent / "one.parquet"
    report = ktrace.convert(source, one, jobs=1, overwrite=True)
    names = [row[0] for row in duckdb.sql(f"describe select * from '{one}'").fetchall()]
    columns = ", ".join(f'"{name}"' for name in names)
    many = f"read_parquet('{out}/**/*.parquet', union_by_name = true, hive_partitioning = false)"
    for rows, others in ((f"'{one}'", many), (many, f"'{one}'")):
        query = f"select count(*) from (select {columns} from {rows} except all select {columns} from {others})"
        assert duckdb.sql(query).fetchall() == [(0,)]
    assert facts(one) == facts(out)
    return report


def facts(path: Path) -> list[tuple[Any, ...]]:
    """What the catalog of an input says."""
    catalog = Catalog()
    with ktrace.open_batches(path) as batches:
        for found in batches:
            if found.record == "catalog":
                catalog.add(found)
    told = ((e.entity, *e.key.items(), e.id, e.name, e.order, json.dumps(e.facts, sort_keys=True)) for e in catalog)
    return sorted(told, key=repr)


def write_slices(path: Path, event: Callable[[int], str], *, end: str = "]") -> Path:
    """A list of events of which the test says how they look."""
    path.write_text("[" + ",\n".join(map(event, range(20_000))) + end, "utf-8")
    return path


def plain(number: int, ph: str = "X") -> str:
    event = {"ph": ph, "name": f"slice {number}", "pid": 1, "tid": 2, "ts": number, "dur": 1}
    return json.dumps(event | {"args": {"text": "x" * 60}})


def test_ranges_are_the_file(tmp_path: Path) -> None:
    source, out = write_big_trace(tmp_path / "in/trace.json"), tmp_path / "out"
    report = ktrace.batch(source, out, jobs=2)
    [manifest] = report.done
    assert (report.failed, report.as_whole) == ({}, {})
    assert len(manifest.shards) == source.stat().st_size // MIB == 2
    assert {name.split("/")[2] for name in shards(out)} == {"rank=3"}, "the rank stands behind the events"
    whole = equal(source, out)
    assert whole.issues["bad-record"].rows == 2
    assert manifest.issues == {kind: issue.rows for kind, issue in whole.issues.items()}
    assert manifest.rows == whole.written
    assert not list(out.glob("_ktrace/ranges/*"))
    assert len(ktrace.batch(source, out, jobs=2).kept) == 1


def test_ranges_that_are_done_are_kept(tmp_path: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = write_slices(tmp_path / "slices.json", plain), tmp_path / "out"
    count = source.stat().st_size // MIB
    assert count > 2

    def interrupted(given: Iterable[Task], jobs: int) -> Iterator[Outcome]:
        first, second, *_ = given
        yield from map(convert_one, (first, second))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(batch, "in_processes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ktrace.batch(source, out)
    assert not shards(out), "nothing of an input that isn't finished is seen"
    made = {file.stat().st_mtime_ns for file in (out / "_ktrace/ranges").iterdir() if file.suffix != ".json"}
    assert len(made) == 2
    assert len(ktrace.batch(source, out).done) == 1
    assert len(tasks) == count - 2
    assert made < {(out / name).stat().st_mtime_ns for name in shards(out)}
    equal(source, out)
    tasks.clear()
    source.write_text(source.read_text().replace("slice 7", "slice seven"), "utf-8")
    assert len(ktrace.batch(source, out).done) == 1
    assert len(tasks) == count, "another file"
    equal(source, out)


def test_parts_of_other_options_or_inputs_are_not_kept(
    tmp_path: Path, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_slices(tmp_path / "slices.json", plain), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(inputs.Joiner, "_joined", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            ktrace.batch(source, out)
    count = len(tasks)
    assert len(list(out.glob("_ktrace/ranges/*"))) == 2 * count
    tasks.clear()
    assert len(ktrace.batch(source, out).done) == 1
    assert not tasks, "all ranges were there"
    with monkeypatch.context() as patched:
        patched.setattr(inputs.Joiner, "_joined", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            ktrace.batch(source, out, classify=True)
    assert len(tasks) == count
    assert len(ktrace.batch(source, out).kept) == 1
    assert not list(out.glob("_ktrace/ranges/*"))
    equal(source, out)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("middle", [True, False])
def test_slices_in_halves_are_read_as_a_whole(tmp_path: Path, tasks: list[Task], middle: bool) -> None:
    halves = range(14_000, 15_000) if middle else range(20_000)
    source = write_slices(tmp_path / "a.json", lambda at: plain(at, "BE"[at % 2]) if at in halves else plain(at))
    report = ktrace.batch(source, tmp_path / "out")
    [manifest] = report.done
    assert len(manifest.shards) == 1
    told = {str(source): "it records starts and ends of slices separately"}
    assert report.as_whole == (told if middle else {})
    assert ("as_whole" in report.to_dict()["inputs"][0]) == middle
    assert len(tasks) == (source.stat().st_size // MIB + 1 if middle else 1)
    assert not list(tmp_path.glob("out/_ktrace/ranges/*"))
    equal(source, tmp_path / "out")


@pytest.mark.parametrize(
    "end",
    [
        "]\n\n, " + ", ".join(map(plain, range(20_000, 40_000))) + "]",
        ("]" + "x" * 63) * (MIB // 32),
        ', {"ph": "X", "name": "cu',
    ],
)
def test_lists_that_end_early_go_on_or_break_off(tmp_path: Path, tasks: list[Task], end: str) -> None:
    source = write_slices(tmp_path / "a.json", plain, end=end)
    report = ktrace.batch(source, tmp_path / "out")
    assert report.as_whole == ({} if "cu" in end else {str(source): "its ranges don't meet"})
    whole = equal(source, tmp_path / "out")
    assert report.done[0].issues == {kind: issue.rows for kind, issue in whole.issues.items()}


def test_what_cannot_be_read_in_ranges_is_one_task(tmp_path: Path, tasks: list[Task]) -> None:
    source = write_slices(tmp_path / "a.json", plain)
    kernels = ktrace.Filter(names=["slice 1*"])
    assert len(ktrace.batch(source, tmp_path / "part", filter=kernels).done[0].shards) == 1
    ktrace.convert(source, tmp_path / "own.trace.json")
    ktrace.convert(source, tmp_path / "a.jsonl")
    for name in ("own.trace.json", "a.jsonl"):
        tasks.clear()
        report = ktrace.batch(tmp_path / name, tmp_path / f"{name}.out")
        assert (len(tasks), report.failed, report.as_whole) == (1, {}, {})


def test_a_range_whose_process_dies_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = write_slices(tmp_path / "a.json", plain), tmp_path / "out"
    monkeypatch.setattr(executor, "convert_one", convert_or_die_once)
    report = ktrace.batch(source, out, jobs=2)
    assert (tmp_path / "out.died").exists()
    assert (len(report.done), report.failed) == (1, {})
    assert len(shards(out)) > 2
    equal(source, out)


def test_ranges_of_a_url(tmp_path: Path) -> None:
    flask = pytest.importorskip("flask", reason="flask is not installed")
    serving = pytest.importorskip("werkzeug.serving")
    pytest.importorskip("aiohttp", reason="aiohttp, by which fsspec reads http, is not installed")
    source = write_big_trace(tmp_path / "in/rank3.json")
    app = flask.Flask(__name__)
    app.add_url_rule("/ranges/<name>", "ranges", lambda name: flask.send_from_directory(source.parent, name))
    app.add_url_rule("/none/<name>", "none", lambda name: source.read_bytes() + b" " * 8 * MIB)
    server = serving.make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        report = ktrace.batch(f"http://127.0.0.1:{server.port}/ranges/rank3.json", tmp_path / "out", jobs=2)
        other = ktrace.batch(f"http://127.0.0.1:{server.port}/none/rank3.json", tmp_path / "none", jobs=1)
    finally:
        server.shutdown()
    assert (report.failed, report.as_whole, len(report.done[0].shards)) == ({}, {}, 2)
    one, many = (
        trace.events.sort_values("id", ignore_index=True) for trace in map(ktrace.read, (source, tmp_path / "out"))
    )
    assert one.equals(many)
    assert len(other.failed) + len(other.done) == 1, "a server without ranges is no fault of the batch"
