"""Chrome trace JSON, parsed as JSON and asked back from the real engine."""

from __future__ import annotations

import gzip
import json
import random
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from engine import FAULTS, errors, query
from scene import ARGS, ARROWS, EPOCH, KERNEL, PLACES, rows, scene, write

import ktrace
from ktrace.stages.order import order

SLICES = "select name, ts, dur, category, depth from slice"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chrome") / "scene.trace.json"
    write(scene(EPOCH), "chrome", made)
    return made


@pytest.fixture(scope="module")
def trace(path: Path) -> Any:
    return json.loads(path.read_bytes())


def events(trace: Any, *phases: str) -> list[Any]:
    return [event for event in trace["traceEvents"] if event["ph"] in phases]


def nanoseconds(number: Any) -> int:
    exact = Decimal(repr(number)) * 1000
    assert exact == int(exact)
    return int(exact)


def test_times_are_exact_and_count_from_the_begin(path: Path, trace: Any) -> None:
    found = {
        event["name"]: (nanoseconds(event["ts"]), nanoseconds(event.get("dur", 0))) for event in events(trace, "X", "i")
    }
    assert found == PLACES
    assert trace["otherData"]["ktrace"]["origin_ns"] == EPOCH
    assert trace["displayTimeUnit"] == "ns"
    assert not any("s" in event for event in events(trace, "i")), "a thread's is what viewers take it for"
    assert b'"ts":1.000,"dur":5.001' in path.read_bytes()


def test_the_origin_is_reported(tmp_path: Path) -> None:
    assert write(scene(EPOCH), "chrome", tmp_path / "a.trace.json").issues["origin"].places == [
        ("output", f"{EPOCH} ns were subtracted")
    ]
    assert "origin" not in write(scene(), "chrome", tmp_path / "b.trace.json").issues
    moved = write(scene(-1500), "chrome", tmp_path / "c.trace.json").issues["origin"]
    assert moved.places == [("output", "-1500 ns were subtracted")]


def test_the_engine_reads_the_same_slices_counters_and_arrows(path: Path) -> None:
    slices, counters, flows, processes, faults = query(
        path,
        SLICES,
        "select c.ts, c.value, t.name from counter c join counter_track t on t.id = c.track_id order by 3, 1",
        "select o.name as out, i.name as inn from flow "
        "join slice o on o.id = slice_out join slice i on i.id = slice_in",
        "select s.name, p.pid, p.name as process, tid, t.name as thread from slice s join thread_track tt "
        "on tt.id = s.track_id join thread t using (utid) join process p using (upid)",
        FAULTS,
    )
    assert faults == []
    assert {row["name"]: (row["ts"], row["dur"]) for row in slices} == PLACES
    by_name = {row["name"]: row for row in slices}
    assert by_name["same begin, inner"]["depth"] == by_name["same begin, outer"]["depth"] + 1
    assert by_name["next"]["depth"] == 0
    assert [(row["ts"], row["value"], row["name"]) for row in counters] == [
        (ts, value, name)
        for name in ("GPU 0 · H100 memory B", "hw clock MHz")
        for ts, value in ((0, 1.0), (1000, 2.5), (3000, 7e9))
    ]
    assert {(row["out"], row["inn"]) for row in flows} == ARROWS
    where = {row["name"]: row for row in processes}
    assert where["aten::mm"] == {
        "name": "aten::mm", "pid": 4242, "process": "python3 é", "tid": 4242, "thread": "main thread"
    }  # fmt: skip
    assert where[KERNEL]["thread"] == where["overlapping"]["thread"] == "GPU 0 · H100 › stream 7"
    assert where[KERNEL]["tid"] != where["overlapping"]["tid"]
    assert where["laid out"]["process"] == "fp16"


def test_rows_and_their_order(trace: Any) -> None:
    names, ranks = (
        {(event["pid"], event.get("tid")): event["args"][key] for event in events(trace, "M") if key in event["args"]}
        for key in ("name", "sort_index")
    )
    assert names.keys() == ranks.keys()
    assert all(0 < number < 2**31 for place in names for number in place if number is not None)
    threads = [(pid, rank) for (pid, tid), rank in ranks.items() if tid is not None]
    assert len(set(threads)) == len(threads)
    used = {(event["pid"], event["tid"]) for event in events(trace, "X", "i")}
    assert used == {place for place in names if place[1] is not None}
    streams = sorted((ranks[place], name) for place, name in names.items() if name.startswith("GPU"))
    assert [name for _, name in streams] == ["GPU 0 · H100 › stream 7"] * 2 + ["GPU 0 · H100 › stream 20"]
    assert streams[1][0] == streams[0][0] + 1


def test_arguments_are_the_source_s_own_and_the_columns(trace: Any) -> None:
    by_name = {event["name"]: event for event in events(trace, "X", "i")}
    (op,) = (row for row in scene()[0].columns.to_pylist() if row["name"] == "aten::mm")
    own = {"args.id" if key == "id" else key: value for key, value in ARGS.items()}
    assert by_name["aten::mm"]["args"] == {"id": op["id"], "kind": "op", "external_id": 9, **own}
    assert by_name["aten::mm"]["cat"] == "cpu_op"
    kernel = {key: value for key, value in by_name[KERNEL]["args"].items() if key != "id"}
    assert kernel.pop("grid") == {"x": 3, "y": 4, "z": 5}
    assert kernel == {"timing": "derived", "device": 0, "stream": 7, "block": 128} | {
        **{"registers": 96, "occupancy": 33.25, "bytes": -5}
    }
    assert by_name["no end"]["args"]["unfinished"] is True
    assert by_name["laid out"]["args"]["timing"] == "synthetic"
    assert by_name["temperature"]["args"]["value"] == 61.5


def test_arrows_have_a_begin_an_end_and_their_slice(trace: Any) -> None:
    arrows: dict[int, list[str]] = {}
    for event in events(trace, "s", "t", "f"):
        arrows.setdefault(event["id"], []).append(event["ph"])
        assert event["bp"] == "e"
    assert sorted("".join(phases) for phases in arrows.values()) == ["sf", "stf"]


def test_a_counter_that_isnt_a_number_is_counted(tmp_path: Path) -> None:
    report = write(scene(), "chrome", tmp_path / "nan.trace.json")
    assert report.issues["not-representable"].rows == 2
    assert "NaN" not in [event["args"] for event in events(json.loads((tmp_path / "nan.trace.json").read_text()), "C")]


def test_what_is_known_of_source_and_device_is_kept(trace: Any) -> None:
    known = trace["otherData"]["ktrace"]
    by_entity = {
        entry["entity"]: {key: value for key, value in entry.items() if key != "id"} for entry in known["catalog"]
    }
    facts = {"description": "About the run."}
    assert by_entity["source"] == {"entity": "source", "source": "run", "name": "run", "facts": facts}
    assert by_entity["device"] == {"entity": "device", "source": "run", "device": 0, "name": "H100"}


def test_small_ranges_of_time_give_the_same_slices(tmp_path: Path, trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=2))
    write(scene(EPOCH), "chrome", tmp_path / "ranges.trace.json")
    found = json.loads((tmp_path / "ranges.trace.json").read_bytes())
    assert [event["name"] for event in events(found, "X", "i")] == [event["name"] for event in events(trace, "X", "i")]
    assert {event["name"]: event for event in events(found, "X", "i")} == {
        event["name"]: event for event in events(trace, "X", "i")
    }


@pytest.mark.parametrize("range_rows", [2, 1000])
def test_a_long_arrow_goes_through_all_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, range_rows: int
) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=range_rows))
    made = rows()
    for number in range(40):
        event = made.event("op", f"step {number}", ts=number * 100, dur=50, pid=1, tid=1)
        made.link("flow", "long", "out" if number == 0 else "step", event=event)
    path = tmp_path / "long.trace.json"
    write(list(made.rest()), "chrome", path)
    ends = [end["ph"] for end in events(json.loads(path.read_bytes()), "s", "t", "f")]
    assert ends == ["s", *["t"] * 38, "f"]
    assert query(path, "select count(*) as arrows from flow", FAULTS) == [[{"arrows": 39}], []]


def test_gz(tmp_path: Path, trace: Any) -> None:
    write(scene(EPOCH), "chrome", tmp_path / "scene.trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "scene.trace.json.gz").read_bytes())) == trace


def test_an_empty_trace(tmp_path: Path) -> None:
    write([], "chrome", tmp_path / "empty.trace.json")
    assert json.loads((tmp_path / "empty.trace.json").read_bytes())["traceEvents"] == []


def test_overlapping_slices_of_a_thread_keep_their_durations(tmp_path: Path) -> None:
    chance = random.Random(6)
    made = rows()
    put: dict[str, tuple[int, int]] = {}
    for number in range(300):
        ts, dur = chance.randrange(10**6), chance.choice((0, 1, chance.randrange(10**5)))
        put[f"slice {number}"] = (ts, dur)
        made.event("op", f"slice {number}", ts=EPOCH + ts, dur=dur, pid=7, tid=chance.choice((7, 8)))
    write(list(made.rest()), "chrome", tmp_path / "dense.trace.json")
    first = min(ts for ts, _ in put.values())
    assert errors(tmp_path / "dense.trace.json") == []
    found = query(tmp_path / "dense.trace.json", SLICES)[0]
    assert {row["name"]: (row["ts"] + first, row["dur"]) for row in found} == put


def test_rows_are_numbered_in_the_order_in_which_they_are_drawn(tmp_path: Path) -> None:
    out = tmp_path / "o.trace.json"
    ktrace.convert(SAMPLES / "doppler" / "prefill-and-three-decodes.log", out)
    events = json.loads(out.read_text("utf-8"))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    places = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    assert sorted(places, key=lambda tid: places[tid]) == sorted(names)
    totals = [f"{name} (totals)" for name in ("Prefill", "Batch decode (N=4)")]
    assert [names[tid] for tid in sorted(names)][:5] == [*totals, "Perf", "ok", "metrics"], "instants are no totals"
