"""The writer's bytes, decoded by the protobuf library, against messages built one by one: over random rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import SHARED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nightly import examples
from perfetto_reference import (
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    Decoded,
    annotation,
    decode,
    said,
    written,
)
from scene import EPOCH, write

from ktrace.converters.perfetto.field_numbers import TRACK_EVENT
from ktrace.converters.perfetto.wire import int_field, text_field
from ktrace.converters.perfetto.writing.fields import CodedField, ConstantField, Part, PieceTable, encoder
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch

LINT = SHARED / "tools" / "gpu_lint.py"

numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
plain = st.one_of(st.none(), st.booleans(), numbers, st.floats(allow_nan=False, allow_infinity=False), texts)
values = st.recursive(
    plain | st.integers(2**64, 2**70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
#: Type of a typed argument -> its values.
TYPED = {
    "int": (pa.int64(), numbers),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), texts),
    "word": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "ein längeres Wort"])),
    "json": (pa.binary(), values),
}
KEYS = {f"{kind} {number}": kind for kind in TYPED for number in (1, 2)} | {"id": "int", "registers": "text"}

HOST = {"pid": 7, "tid": 8}
GPU = {"device": 0, "context": 1, "stream": 7}


def optional(strategy: Any) -> Any:
    return st.none() | strategy


row_strategy = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["op", "api", "range", "instant", "counter", "kernel", "memcpy", "alloc"]),
        "name": texts,
        "ts": st.integers(0, 400),
        "dur": optional(st.integers(0, 200)),
        "cat": optional(st.sampled_from(["cpu_op", "x"])),
        "timing": st.sampled_from(["measured", "derived"]),
        "external_id": optional(numbers),
        "grid_x": optional(st.integers(1, 500)),
        "grid_y": optional(st.integers(1, 3)),
        "block_x": optional(st.sampled_from([32, 256])),
        "registers": optional(st.integers(0, 255)),
        "occupancy": optional(st.floats(0, 100)),
        "bytes": optional(st.integers(0, 2**40)),
        "value": optional(st.floats()),
        "typed": st.dictionaries(st.sampled_from(sorted(KEYS)), st.integers(), max_size=4),
        "args": optional(st.dictionaries(texts, values, max_size=3)),
        "on_gpu": st.booleans(),
    }
)


@st.composite
def traces(draw: Any) -> list[dict[str, Any]]:
    made = []
    for number, row in enumerate(draw(st.lists(row_strategy, min_size=1, max_size=25))):
        row["id"] = number
        row["typed"] = {key: draw(TYPED[KEYS[key]][1]) for key in row["typed"]}
        if row["kind"] in ("counter", "instant"):
            row["dur"] = None
        if row["args"]:
            row["args"] = {key: value for key, value in row["args"].items() if key not in row["typed"]}
        if row["kind"] in ("kernel", "memcpy"):
            row["on_gpu"] = True
        made.append(row)
    return made


def batch_of(trace: list[dict[str, Any]]) -> Batch:
    """The rows as a batch of typed columns."""
    table = []
    for row in trace:
        cells = {name: value for name, value in row.items() if name not in ("typed", "on_gpu", "args")}
        cells |= GPU if row["on_gpu"] else HOST
        if row["args"] is not None:
            cells["args"] = json.dumps(row["args"])
        table.append(cells | {"source": "run"})
    batch = to_batch("events", table)
    columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
    for key, kind in KEYS.items():
        found = [row["typed"].get(key, ...) for row in trace]
        if any(value is not ... for value in found):
            if kind == "json":
                cells_ = [None if value is ... else json.dumps(value).encode() for value in found]
            else:
                cells_ = [None if value is ... else value for value in found]
            plain_ = pa.array(cells_, TYPED[kind][0] if kind != "word" else pa.string())
            columns[f"args.{key}"] = plain_.dictionary_encode() if kind == "word" else plain_
    return Batch("events", pa.RecordBatch.from_pydict(columns))


def is_slice(row: dict[str, Any]) -> bool:
    return row["kind"] in ("op", "api", "range", "kernel", "memcpy") or (
        row["kind"] == "alloc" and row["dur"] is not None
    )


def end_of(trace: list[dict[str, Any]]) -> int:
    return max(row["ts"] + (row["dur"] or 0) for row in trace)


def source_arguments(row: dict[str, Any], reserved: set[str]) -> dict[str, Any]:
    """The source's arguments by the name that they must have."""
    found = {**row["typed"], **(row["args"] or {})}
    shown = {}
    for key, value in found.items():
        hidden = key in reserved or key.startswith(("args.", "x_"))
        if isinstance(value, float) and KEYS.get(key) == "float" and key in row["typed"]:
            value = float(value)  # noqa: PLW2901
        shown[f"args.{key}" if hidden else key] = value
    return shown


#: Names that belong to columns.
COLUMNS = {
    *("id", "kind", "timing", "unfinished", "grid", "block", "device", "context", "stream", "parent", "clock"),
    *("correlation", "external_id", "short_name", "operation", "library", "precision", "layer", "registers"),
    *("shared_memory", "shared_dynamic", "occupancy", "bytes", "copy_kind", "comm", "comm_seq", "value", "unit"),
}


def host_arguments(row: dict[str, Any]) -> list[str]:
    columns: dict[str, Any] = {}
    if row["cat"] is not None and (row["cat"], row["kind"]) != ("cpu_op", "op"):
        columns["kind"] = row["kind"]
    if row["timing"] != "measured":
        columns["timing"] = row["timing"]
    if row["on_gpu"]:
        columns |= GPU
    if row["dur"] is None and row["kind"] not in ("instant", "counter", "alloc"):  # an alloc is at a time
        columns["unfinished"] = True
    for name in ("external_id", "registers", "bytes"):
        if row[name] is not None:
            columns[name] = row[name]
    if row["occupancy"] is not None:
        columns["occupancy"] = float(row["occupancy"])
    if row["value"] is not None and row["kind"] != "counter":
        columns["value"] = float(row["value"])
    if row["grid_x"] is not None or row["grid_y"] is not None:
        axes = {"x": row["grid_x"], "y": row["grid_y"]}
        whole = {axis: value for axis, value in axes.items() if value is not None}
        columns["grid"] = whole if row["grid_y"] is not None else row["grid_x"]
    if row["block_x"] is not None:
        columns["block"] = row["block_x"]
    return said(annotation(name, value) for name, value in (columns | source_arguments(row, COLUMNS)).items())


#: Kind of a stage -> its category (2 is COMPUTE) and description.
STAGES = {"kernel": (2, "Kernel"), "memcpy": (0, "Memcpy"), "range": (0, "Range")}


def is_stage(row: dict[str, Any]) -> bool:
    """Whether it is work of a device, or a range on a stream of one."""
    return row["on_gpu"] and row["kind"] in STAGES


def check_events(trace: list[dict[str, Any]], found: Decoded) -> None:
    host = [row for row in trace if not is_stage(row)]
    host = [row for row in host if row["kind"] != "counter" or finite(row["value"])]
    by_id = {row["id"]: row for row in host}
    seen = []
    opened: Counter[Any] = Counter()
    for (ts, track, event), number in zip(found.events, found.rows, strict=True):
        place = (track.get("pid"), track.get("tid"), track.get("device"), track.get("stream"))
        if event.type == END:
            opened[ts, place] -= 1
            assert number is None
            continue
        assert number is not None
        row = by_id[number]
        seen.append(number)
        assert ts == row["ts"]
        assert place == ((None, None, 0, 7) if row["on_gpu"] else (7, 8, None, None))
        assert list(event.categories) == [row["cat"] if row["cat"] is not None else row["kind"]]
        assert said(event.debug_annotations) == host_arguments(row)
        if row["kind"] == "counter":
            assert event.type == COUNTER
            assert track["counter"] == row["name"]
            value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            assert value == row["value"]
            assert np.signbit(value) == np.signbit(row["value"])
            continue
        assert event.name == row["name"]
        assert event.type == (BEGIN if is_slice(row) else INSTANT)
        if is_slice(row):
            end = end_of(trace) if row["dur"] is None else ts + row["dur"]
            opened[end, place] += 1
    assert sorted(seen) == sorted(by_id)
    assert not any(opened.values())


def finite(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


#: Names that belong to columns, or are derived of them, of a render stage.
STAGE_COLUMNS = COLUMNS | {
    *("args", "cat", "process_id", "process_name", "api", "occupancy_source", "workgroup_size", "grid_size"),
    *("thread_count", "waves_per_multiprocessor", "shared_mem_static", "shared_mem_dynamic", "bandwidth"),
    *("occupancy_limit_warps", "registers_per_thread", "sm__maximum_warps_per_active_cycle_pct"),
}


def stage_arguments(row: dict[str, Any], dur: int) -> dict[str, tuple[str, Any]]:
    columns: dict[str, Any] = {"device": 0, "stream": 7, "context": 1, "process_id": 7}
    if row["timing"] != "measured":
        columns["timing"] = row["timing"]
    for name in ("cat", "external_id", "bytes"):
        if row[name] is not None:
            columns[name] = row[name]
    if row["registers"] is not None:
        columns["registers_per_thread"] = row["registers"]
    if row["value"] is not None:
        columns["value"] = float(row["value"])
    if row["occupancy"] is not None:
        columns["sm__maximum_warps_per_active_cycle_pct"] = float(row["occupancy"])
        columns["occupancy_source"] = "estimate"
    grid = None if row["grid_x"] is None else row["grid_x"] * (row["grid_y"] or 1)
    if grid is not None:
        columns["grid_size"] = grid
    if row["block_x"] is not None:
        columns["workgroup_size"] = row["block_x"]
    if grid is not None and row["block_x"] is not None:
        columns["thread_count"] = grid * row["block_x"]
    if row["bytes"] is not None and dur:
        columns["bandwidth"] = row["bytes"] * 1e9 / dur
    found = {}
    if row["dur"] is None:
        found["unfinished"] = ("json", "true")
    for name, value in (columns | source_arguments(row, STAGE_COLUMNS)).items():
        if type(value) is int and -(2**63) <= value < 2**63:
            found[name] = ("int_value", value)
        elif type(value) is float:
            found[name] = ("double_value", value)
        elif type(value) is str:
            found[name] = ("string_value", value)
        else:
            found[name] = ("json", json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return found


def check_stages(trace: list[dict[str, Any]], found: Decoded) -> None:
    by_id = {row["id"]: row for row in trace if is_stage(row)}
    assert len({stage.event.event_id for stage in found.stages}) == len(found.stages) == len(by_id)
    for stage in found.stages:
        row = by_id.pop(stage.row)
        dur = end_of(trace) - row["ts"] if row["dur"] is None else row["dur"]
        assert (stage.ts, stage.event.duration) == (row["ts"], dur)
        assert stage.queue == {"source": "run", **GPU, "gpu": [0, 0]}
        assert stage.kernel.demangled_name == stage.stage.name == row["name"]
        assert (stage.stage.category, stage.stage.description) == STAGES[row["kind"]]
        assert stage.context.pid
        assert stage.arguments.pop("process_name")[1].startswith("run")
        occupancy = stage.arguments.get("sm__maximum_warps_per_active_cycle_pct", ("", 0))
        if occupancy[0] == "int_value":
            stage.arguments["sm__maximum_warps_per_active_cycle_pct"] = ("double_value", float(occupancy[1]))
        expected = stage_arguments(row, dur) | {"process_id": ("int_value", stage.context.pid)}
        assert repr(sorted(stage.arguments.items())) == repr(sorted(expected.items()))  # NaN equals no NaN
        launch = stage.event.launch
        assert launch.HasField("grid_size") == (row["grid_x"] is not None or row["grid_y"] is not None)
        assert launch.grid_size.x == (row["grid_x"] or 0)
        assert launch.grid_size.HasField("y") == (row["grid_y"] is not None)
        assert launch.workgroup_size.x == (row["block_x"] or 0)
    assert not by_id


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=traces(), start=st.sampled_from([0, EPOCH]))
def test_bytes_are_those_messages(
    tmp_path_factory: pytest.TempPathFactory, trace: list[dict[str, Any]], start: int
) -> None:
    for row in trace:
        row["ts"] += start
    out = tmp_path_factory.mktemp("random") / "out.perfetto"
    report = write([batch_of(trace)], "perfetto", out)
    found = decode(out.read_bytes())
    check_events(trace, found)
    check_stages(trace, found)
    lost = sum(row["kind"] == "counter" and not finite(row["value"]) for row in trace)
    assert report.written == len(trace) - lost


def test_many_shapes_and_long_batches() -> None:
    chance = np.random.default_rng(7)
    trace = [
        {
            **{
                "kind": ("op", "kernel", "memcpy")[number % 3],
                "name": f"name {number % 40}",
                "ts": number,
                "id": number,
            },
            **{"dur": int(chance.integers(0, 2 ** chance.integers(1, 40))), "cat": None, "timing": "measured"},
            **dict.fromkeys(("grid_y", "block_x", "occupancy", "bytes", "value", "args")),
            "external_id": int(chance.integers(-9, 2**50)) if chance.random() < 0.5 else None,
            "registers": int(chance.integers(0, 3)) if chance.random() < 0.5 else None,
            "grid_x": int(chance.integers(1, 10**6)) if chance.random() < 0.5 else None,
            "typed": {key: _some(kind, chance) for key, kind in KEYS.items() if chance.random() < 0.5},
            "on_gpu": number % 3 > 0,
        }
        for number in range(3000)
    ]
    found = decode(written([batch_of(trace)]))
    check_events(trace, found)
    check_stages(trace, found)


def _some(kind: str, chance: np.random.Generator) -> Any:
    number = int(chance.integers(0, 2**32)) << int(chance.integers(0, 31))
    return {
        **{"int": number, "float": number / 7, "bool": number % 2 == 0, "text": f"text {number}"},
        **{"word": "ab"[number % 2], "json": {"a": [number, None]}},
    }[kind]


def test_tables_of_short_and_long_pieces() -> None:
    codes = np.array([0, -1, 1, 1], np.int32)
    for first, second in ("a", "1234567"), ("a", "x" * 100), ("", ""):
        pieces = [text_field(TRACK_EVENT["name"], text) for text in (first, second)]
        constant = int_field(TRACK_EVENT["type"], 1)
        fields = [ConstantField(constant), CodedField(PieceTable(pieces), codes)]
        data, ends = encoder([Part(fields, np.arange(4))], 4)()
        expected = [constant + piece for piece in (pieces[0], b"", pieces[1], pieces[1])]
        assert bytes(data) == b"".join(expected)
        assert ends.tolist() == np.cumsum([len(each) for each in expected]).tolist()
