"""Stacks of events as interned callstacks: by the classes of protobuf, and by what Perfetto's engine makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES
from engine import FAULTS, query, shows_launches
from perfetto_reference import decode

import ktrace

PY_SPY = SAMPLES / "speedscope" / "py-spy-two-threads-and-an-unknown-frame.speedscope.json"
NODE = SAMPLES / "cpuprofile" / "node-collects-garbage-a-step-back-and-an-unknown-node.cpuprofile"
HERMES = SAMPLES / "chrome" / "hermes-samples-with-numbers-as-texts.json"
INSTRUMENTS = SAMPLES / "xctrace" / "tables-of-the-host-hangs-signposts-samples.xml"


def interned(path: Path) -> dict[int, Any]:
    """The entries of InternedData by their number, which no two kinds share."""
    from ktrace.proto.extensions import message_class

    found = {}
    for packet in message_class("Trace").FromString(path.read_bytes()).packet:
        for name in ("function_names", "source_paths", "frames", "callstacks"):
            found |= {entry.iid: entry for entry in getattr(packet.interned_data, name)}
    return found


def frame_text(frame: Any, entries: dict[int, Any]) -> str:
    name = entries[frame.function_name_id].str.decode()
    if not frame.source_path_iid:
        return name
    place = entries[frame.source_path_iid].str.decode()
    return f"{name} ({place}:{frame.line_number})" if frame.HasField("line_number") else f"{name} ({place})"


def known(trace: ktrace.Trace) -> dict[tuple[str, str], list[str]]:
    stacks = trace.catalog[trace.catalog["entity"] == "stack"]
    columns = (stacks[name] for name in ("source", "name", "facts"))
    return {(source, name): json.loads(facts)["frames"] for source, name, facts in zip(*columns, strict=True)}


@pytest.mark.parametrize("sample", [PY_SPY, NODE, HERMES, INSTRUMENTS], ids=lambda path: path.parent.name)
def test_frames_are_those_of_the_catalog(tmp_path: Path, sample: Path) -> None:
    trace, out = ktrace.read(sample), tmp_path / "out.perfetto"
    ktrace.convert(sample, out)
    frames, entries = known(trace), interned(out)
    rows = {row["id"]: row for row in trace.to_arrow()["events"].to_pylist()}
    shown = unknown = 0
    decoded = decode(out.read_bytes())
    for (_, _, event), number in zip(decoded.events, decoded.rows, strict=True):
        row = rows.get(number, {})
        args = json.loads(row.get("args") or "{}")
        stack = frames.get((row.get("source"), str(args.get("stack", args.get("$sf")))))
        assert event.HasField("callstack_iid") == (stack is not None)
        unknown += stack is None and not args.keys().isdisjoint(("stack", "$sf"))
        if stack is not None:
            callstack = entries[event.callstack_iid]
            assert [frame_text(entries[one], entries) for one in callstack.frame_ids] == stack
            assert event.HasField("callstack_weight") == (row["value"] is not None)
            assert event.callstack_weight == (row["value"] or 0)
            shown += 1
    named = [row for row in rows.values() if not json.loads(row["args"] or "{}").keys().isdisjoint(("stack", "$sf"))]
    assert shown == len(named) - unknown > 0
    assert unknown == (sample == HERMES), "one of its samples names a frame that it doesn't describe"


def test_the_form_for_older_viewers_has_none(tmp_path: Path) -> None:
    ktrace.convert(PY_SPY, tmp_path / "out.perfetto", gpu="slices")
    assert interned(tmp_path / "out.perfetto").keys() == set()
    assert query(tmp_path / "out.perfetto", FAULTS)[0] == []


def test_what_has_no_known_stack_has_no_callstack(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    place = {"record": "event", "pid": 1, "tid": 1, "kind": "sample", "name": "step", "timing": "measured"}
    stack = {"record": "catalog", "entity": "stack", "name": "0", "id": 9}
    rows = [
        {"ktrace": "1.0"},
        {**place, "source": "a", "id": 1, "ts": 1, "args": {"stack": "0"}},
        {**place, "source": "b", "id": 1, "ts": 2, "args": {"stack": "0"}},
        {**place, "source": "c", "id": 1, "ts": 3, "args": {"stack": "0"}},
        {**place, "source": "a", "id": 2, "ts": 4, "args": {"stack": "7"}},
        {**place, "source": "a", "id": 3, "ts": 5, "args": {"stack": ["main"]}},
        {**place, "source": "a", "id": 4, "ts": 6},
        {**stack, "source": "a", "facts": {"frames": ["main", "void step (int)"]}},
        {**stack, "source": "b", "facts": {"frames": ["serve (app/main.py)"]}},
        {**stack, "source": "c", "facts": {"frames": []}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out.perfetto"
    ktrace.convert(path, out)
    entries = interned(out)
    found = {ts: event for ts, _, event in decode(out.read_bytes()).events if event.HasField("callstack_iid")}
    texts = {
        ts: [frame_text(entries[one], entries) for one in entries[e.callstack_iid].frame_ids] for ts, e in found.items()
    }
    assert texts == {1: ["main", "void step (int)"], 2: ["serve (app/main.py)"]}
    assert [entry.str for entry in entries.values() if "str" in entry.DESCRIPTOR.fields_by_name] == [
        *(b"main", b"void step (int)", b"serve", b"app/main.py")
    ], "a signature isn't a place"


@pytest.mark.parametrize("sample", [PY_SPY, NODE], ids=lambda path: path.parent.name)
def test_the_engine_adds_up_what_each_function_weighs(tmp_path: Path, sample: Path) -> None:
    out = tmp_path / "out.perfetto"
    ktrace.convert(sample, out)
    if not shows_launches():
        pytest.skip("the engine is older than callstacks of events")
    assert query(out, FAULTS)[0] == []
    trace = ktrace.read(sample)
    frames = known(trace)
    events = trace.events.assign(
        top=[
            frames.get((source, json.loads(args)["stack"] if pd.notna(args) else ""), [""])[-1].partition(" (")[0]
            for source, args in zip(trace.events["source"], trace.events["args"], strict=True)
        ]
    )
    own = events[events["top"] != ""].groupby("top")["value"].sum()
    (rows,) = query(
        out,
        "select f.name as top, sum(c.weight) as value from __intrinsic_track_event_callstacks c"
        " join stack_profile_callsite s on s.id = c.callsite_id join stack_profile_frame f on f.id = s.frame_id"
        " group by 1",
    )
    pd.testing.assert_series_equal(pd.DataFrame(rows).set_index("top")["value"].sort_index(), own.sort_index())
