"""What is stored is what was read, and a part of it is what is in that part of the time: on samples of many formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import engine
import numpy as np
import pytest
from conftest import SAMPLES, SHARED

from ktrace.analysis.questions.overview import Stored, store
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.analysis.questions.overview.lanes import WORK, by_lane
from ktrace.analysis.work.gaps import SPOKEN
from ktrace.model.batch import ALWAYS_SLICES, DEVICE_KINDS, Batch
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.overview import BEYOND, idle_causes, window
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves

INPUTS = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "kineto/collectives-of-two-ranks-rank0.json",
    *sorted(SAMPLES.glob("nsys/*.sqlite"))[:1],
    *sorted(SAMPLES.glob("rocprofv3-json/*.json"))[:1],
    *sorted(SAMPLES.glob("xplane/*.pb"))[:1],
    *sorted(SAMPLES.glob("chrome/*.json"))[:1],
    *sorted((SHARED / "corpus/pytorch_kineto").glob("*.json.gz"))[:2],
]


def stored(path: Path, folder: Path) -> tuple[Stored, list[dict[str, Any]]]:
    """The stored trace, and its rows as they were read."""
    folder.mkdir()
    rows: list[dict[str, Any]] = []

    def kept(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            rows.extend({"record": batch.record} | row for row in to_rows(batch))
            yield batch

    report = Report()
    store(kept(pair_halves(read_selected([str(path)], report, Selection()), report)), folder, report)
    return Stored(folder), rows


@pytest.fixture(params=INPUTS, ids=lambda path: path.name)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Stored, list[dict[str, Any]]]:
    return stored(request.param, tmp_path / "stored")


def test_the_rows_are_those_that_were_read(both: tuple[Stored, list[dict[str, Any]]]) -> None:
    found, rows = both
    again = [{"record": batch.record} | row for batch in found.batches() for row in to_rows(batch)]
    assert again == rows
    assert found.rows == sum(row["record"] != "catalog" for row in rows)
    report = found.report()
    assert report.balanced()
    assert report.rows_read >= found.rows, "halves of slices were joined"


def test_the_work_of_each_lane_is_the_union_of_its_slices(both: tuple[Stored, list[dict[str, Any]]]) -> None:
    found, rows = both
    overview = Overview(found, "x")
    busy = {found.lanes.all[lane]: int(one.busy.sum()) for lane, one in by_lane(found.cells)}
    seen = 0
    for lane, ns in busy.items():
        track = lane.track
        if not track.is_on_device or lane.shows != WORK or track.stream is None:
            continue
        slices = sorted(
            (row["ts"], row["ts"] + row["dur"])
            for row in rows
            if row["record"] == "events"
            and row["kind"] in DEVICE_KINDS
            and row.get("dur") is not None
            and all(row.get(column) == value for column, value in track._asdict().items() if column != "run")
        )
        union, reached = 0, -(1 << 62)
        for begin, end in slices:
            union += max(0, end - max(begin, reached))
            reached = max(reached, end)
        assert union == ns
        seen += 1
    heavy = overview.heavy((0, overview.length))
    assert sum(row[1] for row in heavy["device"]) <= sum(busy.values())
    assert (seen > 0) == any(row.get("kind") in DEVICE_KINDS and row.get("stream") is not None for row in rows)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_the_engine_has_of_a_window_what_sql_finds_in_the_whole(path: Path, tmp_path: Path) -> None:
    import ktrace

    overview = Overview(stored(path, tmp_path / "stored")[0], "x")
    start, stop = (overview.stored.span[0] + part for part in (overview.length // 3, overview.length // 2))
    report = window(
        overview, (overview.length // 3, overview.length // 2), str(tmp_path / "part.perfetto"), gpu="slices"
    )
    assert report.balanced()
    (answer,) = engine.query(
        tmp_path / "part.perfetto", "select count(*) as n, sum(dur) as ns from slice where dur > 0"
    )
    rows = ktrace.query(
        path,
        "select count(*) as n, sum(dur) as ns, count(dur) as ended from events "
        f"where (dur > 0 or (dur is null and kind in {ALWAYS_SLICES})) and parent is null and kind != 'counter' "
        f"and ts < {stop} and (dur is null or ts + dur > {start})",
    )
    assert answer[0]["n"] == rows["n"][0].as_py() > 0
    if rows["ended"][0].as_py() == answer[0]["n"]:
        assert answer[0]["ns"] == rows["ns"][0].as_py()
    assert engine.errors(tmp_path / "part.perfetto") == []


def test_sums_of_parts_add_up_to_the_whole(both: tuple[Stored, list[dict[str, Any]]]) -> None:
    overview = Overview(both[0], "x")
    cuts = sorted({0, 1, overview.length // 7, overview.length // 3 + 1, overview.length - 1, overview.length})
    parts = [overview.heavy(part) for part in pairwise(cuts)]
    whole = overview.heavy((0, overview.length))
    assert sum(part["slices"] for part in parts) == whole["slices"]
    for number, device in enumerate(whole["devices"]):
        assert sum(part["devices"][number]["busy"] for part in parts) == device["busy"]
    assert sum(part["length"] for part in parts) == whole["length"] == overview.length


def test_narrow_buckets_come_from_the_rows_and_agree_with_wide_ones(both: tuple[Stored, list[dict[str, Any]]]) -> None:
    overview = Overview(both[0], "x")
    shift = overview.stored.cells.shift + 6
    wide = overview.cells((0, overview.length), shift)
    for bucket in np.unique(wide.bucket).tolist()[:20]:
        mine = {lane: int(one.busy[one.bucket == bucket].sum()) for lane, one in by_lane(wide) if bucket in one.bucket}
        start = bucket << shift
        narrow = overview.from_rows(
            tuple(overview.stored.span[0] + at for at in (start, start + (1 << shift))), max(shift - 9, 0)
        )
        assert {lane: int(one.busy.sum()) for lane, one in by_lane(narrow)} == mine


def test_the_idle_time_of_a_device_has_the_causes_of_the_summary(tmp_path: Path) -> None:
    import ktrace

    path = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    overview = Overview(stored(path, tmp_path / "stored")[0], "x")
    causes = dict(idle_causes(overview, (0, overview.length)) or ())
    answer = ktrace.summary(path, by=["idle"]).answers["idle"]
    truth: dict[str, int] = {}
    for device in answer.devices:
        for cause in device.causes:
            cause_name = SPOKEN.get(cause.cause, cause.cause)
            truth[cause_name] = truth.get(cause_name, 0) + cause.time
    assert causes == {cause: ns for cause, ns in truth.items() if ns}
    assert causes


def test_slices_that_go_on_beyond_the_window_say_so(tmp_path: Path) -> None:
    import ktrace

    path = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    overview = Overview(stored(path, tmp_path / "stored")[0], "x")
    events = ktrace.read(path).events
    kernel = events[events.kind == "kernel"].sort_values("dur").iloc[-1]
    middle = int(kernel.ts + kernel.dur // 2 - overview.stored.span[0])
    window(overview, (middle - 1000, middle + 1000), str(tmp_path / "part.perfetto"))
    cut = ktrace.read(tmp_path / "part.perfetto").events
    mine = cut[(cut.name == kernel["name"]) & (cut.ts == kernel.ts)]
    assert len(mine) == 1
    assert '"beyond_window":"begins' in mine.iloc[0].args.replace(" ", "", 1).replace('": "', '":"')
    inside = cut[
        (cut.ts >= kernel.ts + kernel.dur // 2 - 1000) & (cut.ts + cut.dur < kernel.ts + kernel.dur // 2 + 1000)
    ]
    assert not any(BEYOND.removeprefix("args.") in str(args) for args in inside.args)


def test_an_unfinished_slice_goes_on_to_the_end(tmp_path: Path) -> None:
    begun = {"ph": "B", "name": "waits", "pid": 1, "tid": 1, "ts": 10}
    whole = {"ph": "X", "name": "runs", "pid": 1, "tid": 2, "ts": 20, "dur": 30}
    (tmp_path / "open.json").write_text(json.dumps({"traceEvents": [begun, whole]}))
    overview = Overview(stored(tmp_path / "open.json", tmp_path / "stored")[0], "x")
    busy = {overview.stored.names[row[0]].name: row[1] for row in overview.heavy((0, overview.length))["host"]}
    busy |= {
        overview.stored.names[int(one.name[0])].name: int(one.busy.sum()) for _, one in by_lane(overview.stored.cells)
    }
    assert busy["waits"] == 40_000
    assert busy["runs"] == 30_000


def test_a_device_of_two_processes_is_one_group_that_is_busy_once(tmp_path: Path) -> None:
    def kernel(number: int, pid: int, ts: int, dur: int) -> dict[str, object]:
        where = {"source": "run", "id": number, "pid": pid, "device": 0, "stream": 7, "timing": "measured"}
        return {"record": "event", "kind": "kernel", "name": "gemm", "ts": ts, "dur": dur} | where

    rows = [kernel(1, 11, 10_000, 20_000), kernel(2, 12, 20_000, 20_000), kernel(3, 11, 60_000, 5_000)]
    (tmp_path / "two.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [{"ktrace": "1.0"}, *rows]))
    overview = Overview(stored(tmp_path / "two.jsonl", tmp_path / "stored")[0], "x")
    (device,) = overview.heavy((0, overview.length))["devices"]
    assert device["busy"] == 30_000 + 5_000
    (group,) = [group for group in overview.groups if group["lane"] is not None]
    assert [lane["name"].partition(" · ")[0] for lane in group["lanes"]] == ["stream 7", "stream 7"]
    assert len({lane["name"] for lane in group["lanes"]}) == 2


def test_counters_keep_their_least_and_greatest_reading(tmp_path: Path) -> None:
    rows = [
        {"record": "event", "kind": "counter", "name": name, "ts": ts, "value": value, "source": "run", "id": number}
        | {"device": device, "timing": "measured"}
        for number, (name, device, ts, value) in enumerate(
            [("power", 0, ts, float(ts * 7919 % 331)) for ts in range(0, 100_000, 37)]
            + [("power", 1, ts, -float(ts)) for ts in range(5, 100_000, 10_007)]
            + [("clock", 0, 50_000, 1410.0)],
            start=1,
        )
    ]
    (tmp_path / "power.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [{"ktrace": "1.0"}, *rows]))
    overview = Overview(stored(tmp_path / "power.jsonl", tmp_path / "stored")[0], "x")
    names = {counter["series"]: counter["name"] for counter in overview.about()["counters"]}
    assert sorted(name.partition(" ")[0] for name in names.values()) == ["clock", "power", "power"]
    start = overview.stored.span[0]
    for shift in (overview.stored.cells.shift + 3, 12, 40):
        for span in ((0, overview.length), (20_000, 61_234)):
            first, last = span[0] >> shift, (span[1] - 1) >> shift
            truth: dict[tuple[str, int], dict[int, list[float]]] = {}
            for row in rows:
                bucket = (row["ts"] - start) >> shift
                if first <= bucket <= last:
                    truth.setdefault((row["name"], row["device"]), {}).setdefault(bucket, []).append(row["value"])
            found = overview.counters(span, shift)
            assert sorted(
                (bucket, low, high) for one in found.values() for bucket, low, high in zip(*one, strict=True)
            ) == sorted((bucket, min(all_), max(all_)) for one in truth.values() for bucket, all_ in one.items())
