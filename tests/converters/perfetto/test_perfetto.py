"""Perfetto traces, asked back from the real engine and decoded by the package `perfetto`."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine import FAULTS, errors, query, shows_launches
from scene import EPOCH, KERNEL, PLACES, rows, scene, write

import ktrace
from ktrace.converters.perfetto.wire import varint
from ktrace.stages.order import order

#: Every slice with its process, thread and track. A render stage says its process in an argument (v52).
SLICES = """
    select s.id, s.ts, s.dur, s.name, s.category, s.depth, t.name as track, t.type, p.pid, p.name as process
    from slice s join track t on t.id = s.track_id
    left join thread_track tt on tt.id = s.track_id left join thread using (utid)
    left join process_track pt on pt.id = s.track_id
    left join process p on p.upid = coalesce(thread.upid, pt.upid, extract_arg(s.arg_set_id, 'upid'))
"""


#: Every arrow by the names of its slices.
FLOWS = """
    select o.name as out, i.name as inn from flow
    join slice o on o.id = slice_out join slice i on i.id = slice_in
"""

ARGUMENTS = "select name, key, string_value, int_value, real_value, value_type from slice join args using (arg_set_id)"


def native(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The faults without the one that v52 has with every trace of interned kernels."""
    return [fault for fault in faults if fault["name"] != "unknown_extension_fields"]


def arguments(path: Path) -> dict[str, dict[str, Any]]:
    """Name of the slice -> its arguments by their full key."""
    found: dict[str, dict[str, Any]] = {}
    for row in query(path, ARGUMENTS)[0]:
        values = (row[column] for column in ("string_value", "int_value", "real_value"))
        value = next((value for value in values if value is not None), None)
        key = row["key"].removeprefix("debug.")
        found.setdefault(row["name"], {})[key] = bool(value) if row["value_type"] == "bool" else value
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("perfetto") / "scene.perfetto"
    write(scene(), "perfetto", made)
    return made


def arrows() -> list[tuple[str, str]]:
    """The arrows of the scene that the engine draws."""
    return [("aten::mm", "launch"), *([("launch", KERNEL)] if shows_launches() else [])]


def test_slices_counters_and_arrows_come_back_to_the_nanosecond(path: Path) -> None:
    slices, counters, flows, faults = query(
        path,
        SLICES,
        "select c.ts, c.value, t.name, t.unit from counter c join counter_track t on t.id = c.track_id"
        " where t.type != 'gpu_counter' and t.name != 'work in a run' order by 3, 1",
        FLOWS,
        FAULTS,
    )
    assert native(faults) == []
    assert {row["name"]: (row["ts"], row["dur"]) for row in slices} == PLACES
    assert len(slices) == len(PLACES)
    by_name = {row["name"]: row for row in slices}
    assert by_name["same begin, inner"]["depth"] == by_name["same begin, outer"]["depth"] + 1
    assert by_name["next"]["depth"] == 0
    assert by_name["aten::mm"]["category"] == "cpu_op"
    assert {name for name in by_name if by_name[name]["type"] == "gpu_render_stage"} == {
        KERNEL,
        "overlapping",
        "no end",
    }
    assert [(row["ts"], row["value"], row["name"]) for row in counters] == [
        (ts, value, name) for name in ("hw clock", "memory") for ts, value in ((0, 1.0), (1000, 2.5), (3000, 7e9))
    ]
    assert {row["unit"] for row in counters} == {"bytes", "MHz"}
    assert [(row["out"], row["inn"]) for row in flows] == arrows()


def test_processes_and_tracks(path: Path) -> None:
    by_name = {row["name"]: row for row in query(path, SLICES)[0]}
    assert (by_name["aten::mm"]["process"], by_name["aten::mm"]["pid"]) == ("python3 é", 4242)
    assert by_name[KERNEL]["process"] == "python3 é"
    assert by_name["laid out"]["process"] == "fp16"
    assert 0 < by_name["far"]["pid"] < 2**31
    assert len({by_name[name]["pid"] for name in ("aten::mm", "laid out", "far", "mark", "[ok] Loading Ω")}) == 4
    assert by_name[KERNEL]["track"] == by_name["overlapping"]["track"] == " GPU 0 stream 7"  # above "GPU 0 stream 20"
    threads, descriptions = query(
        path,
        "select tid, thread.name from thread_track join thread using (utid)",
        "select string_value from track join args on arg_set_id = source_arg_set_id where flat_key = 'description'",
    )
    assert {"tid": 4242, "name": "main thread"} in threads
    assert "About the run." in {row["string_value"] for row in descriptions}


def test_arguments(path: Path) -> None:
    by_name = arguments(path)
    found = by_name["aten::mm"]
    assert found["Input Dims[0][1]"] == 8192
    assert found["Input Dims[1]"] == "[]"
    assert found["Input Dims[2][1]"] == "null"
    assert found["nested.deep.flag"] is True
    assert (found["nested.deep.list[0]"], found["nested.deep.list[1]"]) == ("a", 2.5)
    assert found["nested.empty"] == "{}"
    assert found["negative"] == -3
    assert found["beyond"] == str(2**70)
    assert (found["share"], found["not a number"], found["off"]) == (0.1, "NaN", False)
    assert "nothing" not in found
    assert found['quote " and \\ and \n'] == "tab\t"
    assert found["args_id"] == "the source's own"
    assert "id" not in found  # the packet has the row's
    assert "kind" not in found  # the category says it
    assert found["external_id"] == 9
    assert by_name["laid out"]["timing"] == "synthetic"
    sample = by_name["temperature"]
    assert (sample["value"], sample["unit"]) == (61.5, "degC")


def test_a_trace_without_unix_times_begins_where_the_source_does(tmp_path: Path) -> None:
    write(scene(EPOCH), "perfetto", tmp_path / "epoch.perfetto")
    found = query(tmp_path / "epoch.perfetto", SLICES)[0]
    assert {row["name"]: (row["ts"] - EPOCH, row["dur"]) for row in found} == PLACES


def test_negative_times_are_moved_and_this_is_said(tmp_path: Path) -> None:
    report = write(scene(-1500), "perfetto", tmp_path / "negative.perfetto")
    slices, notes = query(
        tmp_path / "negative.perfetto",
        SLICES,
        "select string_value from track join args on arg_set_id = source_arg_set_id where flat_key = 'description'"
        " and type glob '*_track_event'",
    )
    assert {row["name"]: (row["ts"], row["dur"]) for row in slices} == PLACES
    assert report.issues["origin"].places == [("output", "1500 ns were added")]
    assert all("1500 ns later" in row["string_value"] for row in notes)


def test_the_time_of_day_is_a_clock_snapshot(tmp_path: Path) -> None:
    made = rows()
    made.fact("clock", name="page", facts={"kind": "page", "at_ns": 400, "unix_ns": EPOCH})
    made.event("range", "first", ts=1000, dur=5)
    write(list(made.rest()), "perfetto", tmp_path / "clock.perfetto")
    assert query(
        tmp_path / "clock.perfetto",
        "select clock_name, ts, clock_value from clock_snapshot where clock_id < 64 order by 1",
    )[0] == [
        {"clock_name": "BOOTTIME", "ts": 1000, "clock_value": 1000},
        {"clock_name": "REALTIME", "ts": 1000, "clock_value": EPOCH + 600},
    ]


def test_many_counters_have_a_group(tmp_path: Path) -> None:
    made = rows()
    for number in range(6):
        made.event("counter", f"series {5 - number}", ts=number, track=f"series {5 - number}", value=1.5, unit="B")
    write(list(made.rest()), "perfetto", tmp_path / "counters.perfetto")
    found = query(
        tmp_path / "counters.perfetto",
        "include perfetto module viz.summary.track_event; "
        "select g.name, p.name as parent from _track_event_tracks_ordered_groups g "
        "left join track p on p.id = g.parent_id where g.is_counter order by order_id",
    )[0]
    assert found == [{"name": f"series {5 - number}", "parent": "counters"} for number in range(6)]


def test_small_ranges_of_time_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=2))
    write(scene(), "perfetto", tmp_path / "ranges.perfetto")
    slices, flows, faults = query(tmp_path / "ranges.perfetto", SLICES, FLOWS, FAULTS)
    assert native(faults) == []
    assert {row["name"]: (row["ts"], row["dur"]) for row in slices} == PLACES
    assert [(row["out"], row["inn"]) for row in flows] == arrows()


def test_an_empty_trace_loads(tmp_path: Path) -> None:
    write([], "perfetto", tmp_path / "empty.perfetto")
    assert query(tmp_path / "empty.perfetto", "select count(*) as n from slice") == [[{"n": 0}]]


def test_overlapping_slices_of_a_thread_keep_their_durations(tmp_path: Path) -> None:
    chance = random.Random(5)
    made = rows()
    put: dict[str, tuple[int, int]] = {}
    for number in range(300):
        ts, dur = chance.randrange(2000), chance.choice((0, 1, chance.randrange(400)))
        put[f"slice {number}"] = (ts, dur)
        made.event("op", f"slice {number}", ts=ts, dur=dur, pid=7, tid=chance.choice((7, 8)))
    write(list(made.rest()), "perfetto", tmp_path / "dense.perfetto")
    assert errors(tmp_path / "dense.perfetto") == []
    found = query(tmp_path / "dense.perfetto", "select name, ts, dur from slice")[0]
    assert {row["name"]: (row["ts"], row["dur"]) for row in found} == put


def decoded(path: Path) -> Any:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    return Trace.FromString(path.read_bytes())


def test_the_rules_of_a_sequence(path: Path) -> None:
    packets = decoded(path).packet
    cleared, needed = 1, 2
    derived = 1 << 30
    for sequence in (1, 2, derived):
        flags = [packet.sequence_flags for packet in packets if packet.trusted_packet_sequence_id == sequence]
        assert flags == [cleared] + [needed] * (len(flags) - 1)
    assert {packet.trusted_packet_sequence_id for packet in packets} == {0, 1, 2, derived}
    outside = [packet for packet in packets if packet.trusted_packet_sequence_id == 0]
    assert all(packet.HasField("gpu_info") or packet.HasField("for_testing") for packet in outside)


def test_tracks_and_texts_are_introduced_before_they_are_used(path: Path) -> None:
    uuids = {0}
    fields = ("event_names", "event_categories", "debug_annotation_names")
    of_sequence: dict[bool, dict[str, set[int]]] = {one: {field: set() for field in fields} for one in (True, False)}
    for packet in decoded(path).packet:
        iids = of_sequence[packet.trusted_packet_sequence_id >= 1 << 30]
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.parent_uuid in uuids
            uuids.add(packet.track_descriptor.uuid)
        for field, known in iids.items():
            new = [entry.iid for entry in getattr(packet.interned_data, field)]
            assert not known & set(new)
            known.update(new)
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in uuids
            assert not event.name_iid or event.name_iid in iids["event_names"]
            assert set(event.category_iids) <= iids["event_categories"]
            assert {note.name_iid for note in event.debug_annotations} <= iids["debug_annotation_names"]
    assert len(uuids) > 10
    assert iids["event_categories"]


def test_a_text_that_is_met_again_is_interned(tmp_path: Path) -> None:
    made = rows()
    for number in range(50):
        made.event("kernel", "a long name " * 20, ts=number * 10, dur=5, args={"shape": "4096 x 4096 " * 20})
    write(list(made.rest()), "perfetto", tmp_path / "same.perfetto")
    assert (tmp_path / "same.perfetto").stat().st_size < 6000
    found = query(
        tmp_path / "same.perfetto",
        "select distinct name, string_value from slice join args using (arg_set_id) where string_value is not null",
    )[0]
    assert found == [{"name": "a long name " * 20, "string_value": "4096 x 4096 " * 20}]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 4095, 4096, 2**32, 2**63 - 1, 2**64 - 1, -1, -(2**63)])
def test_varint(value: int) -> None:
    from google.protobuf.internal.decoder import _DecodeVarint

    assert _DecodeVarint(varint(value), 0) == (value % 2**64, len(varint(value)))


def test_arguments_that_python_cannot_decode_are_kept_as_text(tmp_path: Path) -> None:
    source, out = tmp_path / "huge.jsonl", tmp_path / "huge.perfetto"
    huge = "7" * 5000
    event = '{"record":"event","source":"a","id":1,"ts":5,"args":{"n":HUGE},"kind":"op","name":"x","timing":"measured"}'
    source.write_text('{"ktrace":"1.0"}\n' + event.replace("HUGE", huge) + "\n")
    assert ktrace.convert(source, out).balanced()
    (rows,) = query(out, "select extract_arg(arg_set_id, 'debug.args') as args from slice")
    assert rows == [{"args": f'{{"n":{huge}}}'}]
