"""What Chrome trace JSON keeps of typed columns, members of events, counters, arrows and tracks, row by row."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine import FAULTS, query
from scene import EPOCH, rows, write

from ktrace.model.batch import Batch
from ktrace.stages.order import order

TYPED: dict[str, pa.DataType] = {
    "whole": pa.int64(),
    "share": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
    "kind": pa.dictionary(pa.int32(), pa.string()),
    "Input Dims": pa.dictionary(pa.int32(), pa.binary()),
    "json": pa.binary(),
    "$tts": pa.int64(),
    "$cname": pa.string(),
    "$ts": pa.binary(),
    "$bind_id": pa.string(),
}

#: Values of each type, as the columns have them, with what JSON says of them.
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "whole": [(2**53 + 1, 2**53 + 1), (-1, -1), (0, 0)],
    "share": [(0.1, 0.1), (3.0, 3.0), (float("inf"), "Infinity"), (1e-7, 1e-7)],
    "flag": [(True, True), (False, False)],
    "text": [('"\\\n', '"\\\n'), ("é", "é"), ("", "")],
    "kind": [("mine", "mine"), ("yours", "yours")],
    "Input Dims": [(b"[[4096, 8192],[]]", [[4096, 8192], []]), (b"[]", [])],
    "json": [(b"null", None), (b'{"a":1}', {"a": 1}), (b"1.50", 1.5)],
    "$tts": [(77, 77), (78, 78)],
    "$cname": [("good", "good")],
    "$ts": [(b"1.0005", 1.0005)],
    "$bind_id": [("0x1", "0x1")],
}


def read(path: Path) -> Any:
    return json.loads(path.read_bytes(), parse_float=Decimal)


def chosen(trace: Any, *phases: str) -> list[Any]:
    return [event for event in trace["traceEvents"] if event["ph"] in phases]


def typed_rows(count: int, chance: random.Random, keys: int) -> tuple[Batch, list[dict[str, Any]]]:
    """Events with different sets of typed arguments, and the JSON that they must become.

    `keys` sets of keys are used: with few of them there are many rows of each shape.
    """
    shapes = [[key for key in TYPED if chance.random() < 0.5] for _ in range(keys)]
    said, columns = [], {f"args.{key}": [] for key in TYPED}  # type: ignore[var-annotated]
    for _ in range(count):
        shape = chance.choice(shapes)
        drawn = {key: chance.choice(VALUES[key]) for key in shape}
        said.append({key: value for key, (_, value) in drawn.items()})
        for key, column in columns.items():
            column.append(drawn[key.removeprefix("args.")][0] if key.removeprefix("args.") in drawn else None)
    text = ['{"own":1,"id":2}' if chance.random() < 0.2 else None for _ in range(count)]
    for row, more in zip(said, text, strict=True):
        row.update(json.loads(more) if more else {})
    base = {
        "source": pa.array(["run"] * count),
        "id": pa.array(range(1, count + 1), pa.int64()),
        "ts": pa.array([EPOCH + 1000 * number for number in range(count)], pa.int64()),
        "dur": pa.array([10 + number % 7 for number in range(count)], pa.int64()),
        "kind": pa.array(["op"] * count),
        "name": pa.array([f"op {number % 3}" for number in range(count)]),
        "timing": pa.array(["measured"] * count),
        "args": pa.array(text, pa.string()),
    }
    made = {name: pa.array(values, TYPED[name.removeprefix("args.")]) for name, values in columns.items()}
    return Batch("events", pa.RecordBatch.from_pydict(base | made)), said


@pytest.mark.parametrize(
    ("count", "keys"), [(50, 40), (3000, 2), (3000, 300)], ids=["few", "two shapes", "many shapes"]
)
def test_every_argument_of_every_row_is_there(tmp_path: Path, count: int, keys: int) -> None:
    batch, said = typed_rows(count, random.Random(count + keys), keys)
    write([batch], "chrome", tmp_path / "typed.trace.json")
    found = {
        event["args"]["id"]: event for event in chosen(json.loads((tmp_path / "typed.trace.json").read_bytes()), "X")
    }
    assert len(found) == count
    for number, row in enumerate(said, 1):
        event = found[number]
        assert {key[1:]: event[key[1:]] for key in ("$tts", "$cname") if key in row} == {
            key[1:]: row[key] for key in ("$tts", "$cname") if key in row
        }
        assert ("tts" in event, "cname" in event) == ("$tts" in row, "$cname" in row)
        renamed = {"id": "args.id", "kind": "args.kind"}
        own = {renamed.get(key, key): value for key, value in row.items() if key not in ("$tts", "$cname")}
        assert {key: value for key, value in event["args"].items() if key != "id"} == own


def test_members_of_events_are_put_back_from_texts_too(tmp_path: Path) -> None:
    made = rows()
    args = {"$s": "p", "$cname": "bad", "a": 1.0, "$ts": "x", "args.id": 5, "id": 6, "price": "5$"}
    made.event("instant", "mark", ts=5, pid=1, tid=1, args=args)
    made.event("op", "empty", ts=6, dur=1, pid=1, tid=1, args={})
    write(list(made.rest()), "chrome", tmp_path / "m.trace.json")
    mark, empty = chosen(read(tmp_path / "m.trace.json"), "i", "X")
    assert (mark["s"], mark["cname"], mark["ts"]) == ("p", "bad", 0)
    assert mark["args"] == {
        "id": 1, "a": 1, "$ts": "x", "args.args.id": 5, "args.id": 6, "price": "5$"
    }  # fmt: skip
    assert empty["args"] == {"id": 2}


def test_a_counter_keeps_its_unit_and_arguments(tmp_path: Path) -> None:
    made = rows()
    kernel = made.event("kernel", "gemm", ts=10, dur=30, device=0, stream=7)
    metric = {"value": 12.5, "unit": "%", "parent": kernel, "args": {"raw": "12.5 %", "$tts": 3}}
    made.event("counter", "busy", ts=10, dur=30, device=0, stream=7, cat="metrics", **metric)
    made.event("counter", "plain", ts=20, value=2**53, track="plain")
    write(list(made.rest()), "chrome", tmp_path / "c.trace.json")
    trace = read(tmp_path / "c.trace.json")
    busy, plain = chosen(trace, "C")
    assert (busy["name"], busy["cat"], busy["args"]) == ("GPU 0 › stream 7 busy", "metrics", {"%": Decimal("12.5")})
    assert (busy["ts"], busy["dur"], busy["tts"]) == (0, Decimal("0.030"), 3)
    assert busy["ktrace.args"] == {**{"kind": "counter", "device": 0, "stream": 7, "parent": kernel, "raw": "12.5 %"}}
    assert (busy["ktrace.id"], busy["ktrace.name"]) == (2, "busy")
    assert plain["args"] == {"value": 2**53}
    tracks = [row["track"] for row in trace["otherData"]["ktrace"]["rows"]]
    assert tracks[busy["ktrace.track"]] == {"source": "run", "device": 0, "stream": 7}
    assert tracks[plain["ktrace.track"]] == {"source": "run", "track": "plain"}
    values, faults = query(
        tmp_path / "c.trace.json",
        "select t.name, c.value from counter c join counter_track t on t.id = c.track_id order by 1",
        FAULTS,
    )
    assert [(row["name"], row["value"]) for row in values] == [
        ("GPU 0 › stream 7 busy %", 12.5),
        ("plain value", 2**53),
    ]
    assert faults == []


def test_rows_have_their_tracks_and_lanes(tmp_path: Path) -> None:
    made = rows()
    for number in range(4):
        made.event("kernel", f"k{number}", ts=number, dur=10, pid=9, device=1, context=2, stream=7)
    made.event("op", "op", ts=0, dur=1, pid=9, tid=2**31 - 5)
    write(list(made.rest()), "chrome", tmp_path / "r.trace.json")
    trace = read(tmp_path / "r.trace.json")
    known = trace["otherData"]["ktrace"]
    first, each = known["lanes"]["first"], known["lanes"]["each"]
    by_tid = {row["tid"]: index for index, row in enumerate(known["rows"])}
    places = {}
    for event in chosen(trace, "X"):
        tid = event["tid"]
        index, lane = (by_tid[tid], 0) if tid < first else ((tid - first) // each, (tid - first) % each + 1)
        assert event["pid"] == known["rows"][index]["pid"]
        places[event["name"]] = (known["rows"][index]["track"], lane)
    stream = {"source": "run", "pid": 9, "device": 1, "context": 2, "stream": 7}
    assert places.pop("op") == ({"source": "run", "pid": 9, "tid": 2**31 - 5}, 0)
    assert places == {f"k{number}": (stream, number) for number in range(4)}
    assert known["ktrace"] == "1.0"


def test_arrows_are_named_after_their_kind(tmp_path: Path) -> None:
    made = rows()
    events = {}
    for number in range(1, 300):
        call = made.event("api", "launch", ts=number * 100, dur=9, pid=1, tid=1, correlation=number)
        for part in range(number % 3):
            kernel = {"pid": 1, "device": 0, "stream": part, "correlation": number}
            events[number, part] = made.event("kernel", "k", ts=number * 100 + 50, dur=9, **kernel)
        made.link("fwdbwd", str(number), "out" if number % 2 else "in", event=call)
        if number % 2:
            back = made.event("op", "backward", ts=number * 100 + 60, dur=9, pid=1, tid=2)
            made.link("fwdbwd", str(number), "in", event=back)
    path = tmp_path / "a.trace.json"
    write(list(made.rest()), "chrome", path)
    trace = read(path)
    ends: dict[tuple[str, int], list[tuple[str, Any]]] = {}
    for event in chosen(trace, "s", "t", "f"):
        assert event["name"] == event["cat"]
        ends.setdefault((event["cat"], event["id"]), []).append((event["ph"], event.get("args", {}).get("event")))
    launches = [found for (cat, _), found in ends.items() if cat == "launch"]
    assert launches == [[("s", None), ("f", None)]] * len(events)
    assert sum(cat == "fwdbwd" for cat, _ in ends) == 299
    assert all(event is not None for (cat, _), found in ends.items() if cat == "fwdbwd" for _, event in found)
    (arrows,) = query(
        path,
        "select o.name as a, i.name as b from flow join slice o on o.id=slice_out join slice i on i.id=slice_in",
    )
    assert sorted({(row["a"], row["b"]) for row in arrows}) == [("launch", "backward"), ("launch", "k")]
    assert len([row for row in arrows if row["b"] == "k"]) == len(events)


def test_dimensions_and_unfinished_slices(tmp_path: Path) -> None:
    made = rows()
    full = {"grid_x": 1, "grid_y": 2, "grid_z": 3, "block_x": 64}
    made.event("kernel", "a", ts=0, dur=5, stream=1, **full)
    made.event("kernel", "b", ts=10, dur=5, stream=1, grid_x=7, block_x=8, block_y=1, block_z=1)
    made.event("kernel", "c", ts=20, stream=1, grid_x=7, grid_y=1)
    made.event("alloc", "[memory]", ts=12, stream=1, bytes=-64)
    made.event("alloc", "resize", ts=30, dur=2, stream=1, bytes=64)
    write(list(made.rest()), "chrome", tmp_path / "d.trace.json")
    trace = read(tmp_path / "d.trace.json")
    found = {event["name"]: event for event in chosen(trace, "X")}
    assert [event["args"] for event in chosen(trace, "i")] == [{"id": 4, "stream": 1, "bytes": -64}], (
        "an allocation is at a time"
    )
    assert found["resize"]["dur"] == Decimal("0.002")
    assert found["a"]["args"] == {"id": 1, "stream": 1, "grid": {"x": 1, "y": 2, "z": 3}, "block": 64}
    assert found["b"]["args"] == {"id": 2, "stream": 1, "grid": 7, "block": {"x": 8, "y": 1, "z": 1}}
    assert found["c"]["args"] == {"id": 3, "stream": 1, "unfinished": True, "grid": {"x": 7, "y": 1, "z": None}}


@pytest.mark.parametrize("range_rows", [3, 10_000])
@pytest.mark.parametrize(
    ("roles", "flows"),
    [
        ("oi", {"si": 1}),
        ("oioioi", {"si": 3}),
        ("ooii", {"si": 2}),
        ("oiii", {"siii": 1}),
        ("oiioi", {"sii": 1, "si": 1}),
        ("ooo", {"s": 3}),
        ("ii", {"ii": 1}),
    ],
)
def test_an_arrow_that_leaves_again_is_another_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: str, flows: dict[str, int], range_rows: int
) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=range_rows))
    made = rows()
    for number, role in enumerate(roles):
        event = made.event("op", f"{number}", ts=number * 100, dur=50, pid=1, tid=1)
        made.link("flow", "same", "out" if role == "o" else "in", event=event)
    path = tmp_path / "f.trace.json"
    write(list(made.rest()), "chrome", path)
    found: dict[int, str] = {}
    for event in chosen(read(path), "s", "t", "f"):
        phase = event["ph"]
        assert not found.get(event["id"], "").endswith("f"), "nothing follows an end"
        found[event["id"]] = found.get(event["id"], "") + phase
    assert Counter(chain.replace("t", "i").replace("f", "i") for chain in found.values()) == flows
    assert all(chain.endswith(("f", "s")) and "f" not in chain[:-1] for chain in found.values())
    (faults,) = query(path, FAULTS)
    if roles.startswith("o"):  # arrows that never leave are told by the engine, too
        assert faults == []
