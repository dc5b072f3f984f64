"""A trace in parts: nothing is lost or twice, each row is in the part that plain arithmetic says."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from canonical_rows import GPU, HOST, Row, event, link, steps_of_two_ranks
from click.testing import CliRunner
from conftest import SAMPLES
from engine import FAULTS, query
from nightly import few

import ktrace
from ktrace.cli import cli
from ktrace.errors import InputError, OutputError, UsageError
from ktrace.kit.canonical.record_forms import RecordWriter
from ktrace.output import parts
from ktrace.stages.split import SplitBy

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def written(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [{"ktrace": "1.0"}, *rows]))
    return path


def split(tmp_path: Path, rows: list[Row], by: str, name: str = "out.jsonl") -> list[list[Row]]:
    """The rows of each part, the catalog's among them; the account is checked against the files."""
    report = ktrace.convert(written(tmp_path / "t.jsonl", rows), tmp_path / name, split_by=by)
    parts = sorted(tmp_path.glob("out.[0-9]*.jsonl"))
    found = [[json.loads(line) for line in path.read_text().splitlines()[1:]] for path in parts]
    assert report.balanced()
    assert [part["path"] for part in report.parts] == list(map(str, parts))
    assert [part["bytes"] for part in report.parts] == [path.stat().st_size for path in parts]
    mine = [[row for row in part if row["record"] != "catalog"] for part in found]
    assert [part["rows"] for part in report.parts] == list(map(len, mine))
    assert report.written == sum(map(len, mine))
    for part, own in zip(report.parts, mine, strict=True):
        times = [row["ts"] for row in own if row["record"] == "event"]
        assert (part["start_ns"], part["end_ns"]) == ((min(times), max(times)) if times else (None, None))
    return found


def plain(row: Row) -> str:
    return json.dumps({name: value for name, value in row.items() if value is not None}, sort_keys=True)


def keys(rows: list[Row]) -> Counter[tuple[str, int]]:
    return Counter((row["source"], row["id"]) for row in rows if row["record"] != "catalog")


def where(parts: list[list[Row]]) -> dict[tuple[str, int], int]:
    """The part that each row is in."""
    return {key: number for number, part in enumerate(parts) for key in keys(part)}


@pytest.mark.parametrize("seed", few(range(8), 1))
@pytest.mark.parametrize("by", ["time=700ns", "time=10us", "time=1s", "step", "size=6kB", "size=40kB"])
def test_every_row_is_in_one_part_unchanged(tmp_path: Path, by: str, seed: int) -> None:
    rows = steps_of_two_ranks(random.Random(seed))
    parts = split(tmp_path, rows, by)
    together = [row for part in parts for row in part if row["record"] != "catalog"]
    assert sorted(map(plain, together)) == sorted(plain(row) for row in rows if row["record"] != "catalog")
    for part in parts:
        used = {row["source"] for row in part if row["record"] != "catalog"}
        assert used <= {row["source"] for row in part if row["record"] == "catalog"}


@pytest.mark.parametrize("seed", few(range(8), 1))
@pytest.mark.parametrize("length", [700, 3000, 10_000])
def test_a_row_is_in_the_part_where_it_begins_and_figures_with_their_row(
    tmp_path: Path, length: int, seed: int
) -> None:
    rows = steps_of_two_ranks(random.Random(seed))
    events = {(row["source"], row["id"]): row for row in rows if row["record"] == "event"}
    start = min(row["ts"] for row in events.values())
    expected = {}
    for key, row in events.items():
        host = events.get((row["source"], row.get("parent", -1)), row)
        expected[key] = (host["ts"] - start) // length
    for row in rows:
        if row["record"] == "link" and "event" in row:
            expected[row["source"], row["id"]] = expected[row["source"], row["event"]]
        if row["record"] == "summary" and "ts" not in row and "parent" not in row:
            expected[row["source"], row["id"]] = 0
    found = where(split(tmp_path, rows, f"time={length}ns"))
    numbers = {part: number for number, part in enumerate(sorted(set(expected.values())))}
    assert {key: found[key] for key in expected} == {key: numbers[part] for key, part in expected.items()}


#: Two steps; the work of the first one runs in the second, that of the second after it.
STEPS = [
    event(1, "op", "import", 900, 10, **HOST),
    event(2, "range", "ProfilerStep#3", 1000, 100, **HOST),
    event(3, "range", "ProfilerStep#4", 1150, 100, **HOST),
    event(4, "api", "launch", 1090, 15, **HOST, correlation=1),
    event(5, "op", "between", 1120, 10, **HOST),
    event(6, "api", "launch", 1200, 15, **HOST, correlation=2),
    event(7, "kernel", "gemm", 1160, 40, **GPU, correlation=1),
    event(8, "kernel", "gemm", 1500, 40, **GPU, correlation=2),
    event(9, "counter", "dram", 1160, parent=7, value=1.0, **GPU),
    event(10, "range", "ProfilerStep#3", 1160, 40, **GPU),
    event(11, "op", "behind", 2000, 10, **HOST),
    link(20, "a", "out", event=4),
    link(21, "a", "in", event=8),
    link(22, "b", "out", ts=1095, **HOST),
    link(23, "b", "in", ts=1500, bind="next", **HOST),
    event(12, "api", "launch", 1020, 5, pid=5, tid=9),
    event(13, "kernel", "by a link", 1900, 40, **GPU),
    link(24, "c", "out", event=12, link="launch"),
    link(25, "c", "in", event=13, link="launch"),
]


def test_work_goes_with_the_step_that_launched_it(tmp_path: Path) -> None:
    parts = [{number for _, number in keys(part)} for part in split(tmp_path, STEPS, "step")]
    assert parts == [{1}, {2, 4, 5, 7, 9, 10, 12, 13, 20, 22, 24, 25}, {3, 6, 8, 11, 21, 23}]


def test_steps_that_are_counted_anew_are_further_parts(tmp_path: Path) -> None:
    rows = [event(n, "range", f"Iteration {n % 2}", 1000 + 100 * n, 90, **HOST) for n in range(4)]
    rows += [event(10 + n, "range", f"Iteration {n % 2}", 1000 + 100 * n, 90, pid=5, tid=7) for n in range(4)]
    rows += [{**event(n, "op", "x", 1050 + 100 * n, 1), "source": "without steps"} for n in range(4)]
    parts = split(tmp_path, rows, "step")
    assert [sorted(number for _, number in keys(part)) for part in parts] == [[n, n, 10 + n] for n in range(4)]


def test_without_a_step_there_is_an_error_and_no_part(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no steps"):
        split(tmp_path, [event(1, "op", "x", 5, 1)], "step")
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize(
    ("name", "limit"),
    [("run.perfetto", 3_000), ("run.perfetto", 50_000), ("run.trace.json.gz", 5_000), ("run.parquet", 25_000)],
)
def test_parts_are_not_greater_than_they_may_be(tmp_path: Path, name: str, limit: int) -> None:
    text = random.Random(1).randbytes
    rows = [event(n, "op", f"op {n % 50}", 1000 * n, 900, args={"n": text(8).hex()}, **HOST) for n in range(4000)]
    report = ktrace.convert(written(tmp_path / "t.jsonl", rows), tmp_path / name, split_by=f"size={limit}B")
    sizes = [Path(part["path"]).stat().st_size for part in report.parts]
    assert len(sizes) > 1
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit / 4
    assert sum(part["rows"] for part in report.parts) == 4000


def test_one_row_may_be_greater(tmp_path: Path) -> None:
    rows = [event(n, "op", "x" * (5000 if n == 3 else 5), 1000 * n, 1) for n in range(6)]
    parts = split(tmp_path, rows, "size=1kB")
    assert [sorted(number for _, number in keys(part)) for part in parts] == [[0, 1, 2], [3], [4, 5]]


def test_durations_add_up_to_the_nanosecond(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    ktrace.convert(STEP, whole)
    ktrace.convert(STEP, parts, split_by="time=100us")
    ask = "select record, kind, count(*), sum(dur), sum(ts), sum(correlation) from '{}' group by all order by all"
    assert len(list(tmp_path.glob("out.[0-9]*.parquet"))) == 9
    told = duckdb.sql(ask.format(tmp_path / "out.*.parquet")).fetchall()
    assert told == duckdb.sql(ask.format(whole)).fetchall()


def test_each_part_opens_in_the_engine(tmp_path: Path) -> None:
    ktrace.convert(STEP, tmp_path / "whole.perfetto")
    ktrace.convert(STEP, tmp_path / "run.perfetto", split_by="time=500us")
    parts = sorted(tmp_path.glob("run.[0-9]*.perfetto"))
    count = "select count(*) as n, sum(dur) as dur from slice"
    sums: Counter[str] = Counter()
    for path in parts:
        [faults, [slices]] = query(path, FAULTS, count)
        assert {row["name"] for row in faults} <= {"unknown_extension_fields"}  # GPU fields
        sums.update(slices)
    assert len(parts) == 2
    assert dict(sums) == query(tmp_path / "whole.perfetto", count)[0][0]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("run.perfetto", "run.{}.perfetto"),
        ("run.trace.json.gz", "run.{}.trace.json.gz"),
        ("run.v2.JSONL.zst", "run.v2.{}.JSONL.zst"),
        ("run.parquet/", "run.{}.parquet"),
        ("run.csv", "run.{}.csv"),
    ],
)
def test_names(tmp_path: Path, name: str, parts: str) -> None:
    report = ktrace.convert(STEP, str(tmp_path / name) + "/" * name.endswith("/"), split_by="time=500us")
    assert sorted(path.name for path in tmp_path.iterdir()) == [parts.format("000"), parts.format("001")]
    assert all(Path(part["path"]).is_dir() == name.endswith("/") for part in report.parts)


def test_compressed_parts_are_whole(tmp_path: Path) -> None:
    ktrace.convert(STEP, tmp_path / "run.trace.json.gz", split_by="size=2500B")
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 2
    assert all(json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] for path in parts)


def test_parts_of_an_earlier_run_are_refused_or_go(tmp_path: Path) -> None:
    other = tmp_path / "run.0000.perfetto"
    other.write_text("somebody's")
    ktrace.convert(STEP, tmp_path / "run.perfetto", split_by="time=100us")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OutputError, match="already exists"):
        ktrace.convert(STEP, tmp_path / "run.perfetto", split_by="time=500us")
    assert sorted(tmp_path.iterdir()) == before
    ktrace.convert(STEP, tmp_path / "run.perfetto", split_by="time=500us", overwrite=True)
    names = ["run.000.perfetto", "run.0000.perfetto", "run.001.perfetto"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_after_a_failure_there_is_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    close = RecordWriter.close

    def fail(self: Any) -> None:
        close(self)
        closed.append(self)
        if len(closed) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "close", fail)
    with pytest.raises(OutputError, match="No space"):
        ktrace.convert(STEP, tmp_path / "run.jsonl", split_by="time=100us")
    assert len(closed) == 3
    assert not list(tmp_path.iterdir())


def test_statistics_alone_are_one_part(tmp_path: Path) -> None:
    row = {"record": "summary", "source": "t", "id": 1, "kind": "op", "name": "x", "metric": "duration", "total": 9.0}
    [part] = split(tmp_path, [row], "time=1s")
    assert keys(part) == {("t", 1): 1}


def test_tracks_that_a_part_has_nothing_on_are_not_in_its_catalog(tmp_path: Path) -> None:
    rows = [event(n, "op", "x", 1000 * n, 1, pid=5, tid=n) for n in range(3)]
    rows += [
        {"record": "catalog", "source": "t", "id": 10 + n, "entity": "thread", "pid": 5, "tid": n} for n in range(3)
    ]
    rows += [{"record": "catalog", "source": "t", "id": 20, "entity": "process", "pid": 5, "name": "python"}]
    rows += [{"record": "catalog", "source": "t", "id": 21, "entity": "clock", "name": "tsc", "facts": {"at_ns": 1}}]
    parts = split(tmp_path, rows, "time=1us")
    assert [[row["id"] for row in part if row["record"] == "catalog"] for part in parts] == [
        [10, 20, 21],
        [11, 20, 21],
        [12, 20, 21],
    ]


@pytest.mark.parametrize("text", ["", "time", "time=10", "time=0s", "time=-1s", "size=", "size=5", "size=5XB", "steps"])
def test_what_is_no_way_to_split(text: str) -> None:
    with pytest.raises(UsageError):
        SplitBy.parse(text)


def test_what_ways_mean() -> None:
    assert SplitBy.parse("time=1.5ms") == SplitBy(time=1_500_000)
    assert SplitBy.parse("size=1.5GB") == SplitBy(size=1_500_000_000)
    assert SplitBy.parse("size=64KiB") == SplitBy(size=65_536)
    assert SplitBy.parse("step") == SplitBy(step=True)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-o", "-", "--to", "jsonl", "--split-by", "time=1ms"], "several files"),
        (["-o", "x.parquet", "--table", "events", "--split-by", "time=1ms"], "--table"),
        (["-o", "x.perfetto", "--split-by", "time=1parsec"], "isn't a unit of time"),
        (["-o", "x.perfetto", "--split-by", "size=100B"], "without events"),
    ],
)
def test_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], told: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["convert", str(STEP), *args])
    assert isinstance(result.exception, UsageError)
    assert told in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_more_parts_than_there_are_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_PARTS", 10)
    rows = [event(n, "op", "x", n, 1) for n in range(11)]
    for by in ("time=1ns", "size=200B"):
        with pytest.raises(UsageError, match="parts"):
            split(tmp_path, rows, by)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_the_command_lists_parts(tmp_path: Path) -> None:
    out, report = tmp_path / "run.perfetto", tmp_path / "r.json"
    args = ["convert", str(STEP), "-o", str(out), "--split-by", "time=500us", "--report", str(report)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0
    account = json.loads(report.read_text())
    assert account["balanced"] and len(account["parts"]) == 2
    assert account["written"] == sum(part["rows"] for part in account["parts"])
    for part in account["parts"]:
        assert f"{part['path']}: {part['rows']:,} rows" in result.output


def test_merge_splits_too(tmp_path: Path) -> None:
    rows = [event(n, "op", "x", 1000 * n, 1) for n in range(20)]
    files = [written(tmp_path / name, rows) for name in ("a.jsonl", "b.jsonl")]
    report = ktrace.merge(files, tmp_path / "run.jsonl", align="none", split_by="time=10us")
    assert report.balanced()
    assert [part["rows"] for part in report.parts] == [20, 20]
    with pytest.raises(UsageError, match="archive"):
        ktrace.merge(files, tmp_path / "run.tar", split_by="time=10us")


def test_many_parts_of_many_tracks_look_at_the_tracks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.store.vocabulary import TrackIndex

    asked: list[int] = []
    tracks = TrackIndex.tracks
    monkeypatch.setattr(TrackIndex, "tracks", lambda index: asked.append(1) or tracks(index))
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "dur": 1}
    events = [kernel | {"tid": n, "ts": n * 10, "args": {"device": 0, "stream": n}} for n in range(100)]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    report = ktrace.convert(tmp_path / "t.json", tmp_path / "o.jsonl", split_by="time=100us")
    assert len(report.parts) == 10
    assert len(asked) == 1


#: Two steps; what lies in the first was queued before the recording, as far as the stream has calls from then on.
RECORDED = [
    event(1, "range", "ProfilerStep#1", 1000, 100, **HOST),
    event(2, "range", "ProfilerStep#2", 1100, 100, **HOST),
    event(3, "api", "launch", 1010, 5, **HOST, correlation=7),
    event(4, "api", "launch", 1020, 5, **HOST, correlation=8),
    event(5, "kernel", "from before", 990, 30, **GPU, correlation=5),
    event(6, "kernel", "from before", 1030, 30, **GPU, correlation=6),
    event(7, "kernel", "gemm", 1070, 60, **GPU, correlation=7),
    event(8, "kernel", "norm", 1130, 10, **GPU, correlation=8),
    event(9, "kernel", "its call is lost", 1150, 10, **GPU, correlation=9),
    event(10, "kernel", "of another stream", 1040, 10, device=0, stream=9, correlation=10),
]
#: Of the third, most calls weren't recorded.
FEW = [event(n, "kernel", "add", 1060 + 5 * n, 5, **GPU, correlation=n) for n in range(20, 25)]


@pytest.mark.parametrize(
    "rows, first, second",
    [(RECORDED, [7, 8, 10], [9]), ([*RECORDED, *FEW], [6, 7, 8, 10], [9, *range(20, 25)])],
    ids=["queued", "calls of few"],
)
def test_work_queued_before_the_recording_is_of_no_step(
    tmp_path: Path, rows: list[Row], first: list[int], second: list[int]
) -> None:
    """The parts, the crop and the summary by step agree."""
    work = {row["id"] for row in rows if row["kind"] == "kernel"}
    before = sorted(work - {*first, *second})
    parts = [sorted(work & {number for _, number in keys(part)}) for part in split(tmp_path, rows, "step")]
    assert parts == [before, first, second]
    path = tmp_path / "t.jsonl"
    steps = {group.key: (group.count, group.total) for group in ktrace.summary(path, by=["step"]).groups["step"]}
    for name, mine in (("ProfilerStep#1", first), ("ProfilerStep#2", second)):
        dur = sum(row["dur"] for row in rows if row["id"] in mine)
        cropped = ktrace.summary(path, by=["kernel"], crop=ktrace.Crop(step=name))
        assert steps[name] == (cropped.count, cropped.total) == (len(mine), dur)
