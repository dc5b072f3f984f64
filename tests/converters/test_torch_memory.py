"""Memory snapshots of PyTorch: actions, counters, segments, blocks; pickles and JSON."""

from __future__ import annotations

import base64
import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source

DEVICES = SAMPLES / "torch-memory" / "two-devices-earlier-allocations-oom.pickle"
OLD = SAMPLES / "torch-memory" / "no-times-as-json.json"


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    found = ktrace.read(path, from_="torch-memory").to_arrow()
    return {name: table.to_pylist() for name, table in found.items()}


def snapshot(entries: int = 0, **more: Any) -> dict[str, Any]:
    frames = [[{"name": f"f{number}", "filename": "a.py", "line": number}] for number in range(7)]
    trace = [
        {"action": "alloc", "addr": 512 * number, "size": 512, "stream": 0, "time_us": 10 * number}
        | {"frames": frames[number % 7]}
        for number in range(entries)
    ]
    return {"segments": [], "device_traces": [trace]} | more


def written(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def test_actions_have_bytes_once_and_change_counters() -> None:
    events = tables(DEVICES)["events"]
    actions = [row for row in events if row["kind"] == "alloc" and row["device"] == 0]
    assert [(row["name"], row["bytes"]) for row in actions] == [
        ("free_requested", -1024),
        ("free_completed", None),
        ("segment_alloc", 2097152),
        ("alloc", 512),
        ("alloc", 1536),
        ("free_requested", -512),
        ("free_completed", None),
        ("segment_map", 20971520),
        ("alloc", 3145728),
    ]
    assert [row["stream"] for row in actions] == [0] * 7 + [94000000001] * 2
    assert actions[0]["ts"] == 1_760_000_000_000_005_000
    assert {row["name"] for row in events if row["kind"] == "instant"} == {
        *("oom", "workspace_snapshot", "snapshot", "train_step")
    }


def test_counters_end_at_the_values_of_the_segments() -> None:
    """The trace begins with memory that was allocated before it: 1,024 B are freed first."""
    found, value = tables(DEVICES), pickle.loads(DEVICES.read_bytes())
    for device in (0, 2):
        mine = [row for row in found["events"] if row["kind"] == "counter" and row["device"] == device]
        last = {row["name"]: row["value"] for row in mine}
        fields = {"allocated": "allocated_size", "active": "active_size", "reserved": "total_size"}
        segments = [one for one in value["segments"] if one["device"] == device]
        for counter, figure in last.items():
            assert figure == sum(one[fields[counter]] for one in segments), (device, counter)
    first = next(row for row in found["events"] if row["kind"] == "counter")
    assert (first["name"], first["value"], first["unit"]) == ("allocated", 8192, "B")


def test_segments_and_blocks_are_summaries() -> None:
    found, value = tables(DEVICES), pickle.loads(DEVICES.read_bytes())
    segments = [row for row in found["summaries"] if row["name"] == "segment"]
    assert [row["value"] for row in segments] == [one["total_size"] for one in value["segments"]]
    assert json.loads(segments[2]["args"])["segment_type"] == "large"
    assert [row["stream"] for row in segments] == [0, 0, 94000000001, 0]
    blocks = [block for segment in value["segments"] for block in segment["blocks"]]
    rows = [row for row in found["summaries"] if row["scope"][0] == "blocks"]
    assert (sum(row["count"] for row in rows), sum(row["total"] for row in rows)) == (
        len(blocks),
        sum(block["size"] for block in blocks),
    )
    alive = {(row["name"], row["total"]) for row in rows if row["scope"][1] == "active_allocated"}
    assert alive == {
        ("forward (/app/model.py:40)", 9728),
        ("main (/app/train.py:9)", 3145728),
        ("active_allocated", 2048),
    }


def test_stacks_are_facts_outermost_first() -> None:
    found = tables(DEVICES)
    stacks = {row["name"]: json.loads(row["facts"])["frames"] for row in found["catalog"] if row["entity"] == "stack"}
    assert stacks["0"] == [
        "main (/app/train.py:7)",
        "forward (/app/model.py:40)",
        "linear (/env/torch/nn/functional.py:12)",
    ]
    used = {json.loads(row["args"])["stack"] for row in found["events"] if "stack" in (row["args"] or "")}
    assert used == set(stacks) == {"0", "1"}


def test_entries_without_times_are_added_up() -> None:
    found = tables(OLD)
    assert not found["events"]
    assert [(row["name"], row["count"], row["total"]) for row in found["summaries"]][:4] == [
        ("segment_alloc", 1, 2097152),
        ("alloc", 2, 2048),
        ("free_requested", 1, 512),
        ("free_completed", 1, 512),
    ]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_protocols_and_json_have_the_same_rows(tmp_path: Path, protocol: int) -> None:
    value = snapshot(2_500)
    (tmp_path / "a.json").write_text(json.dumps(value))
    path = written(tmp_path / "a.pickle", value, protocol)
    assert choose(Source(str(path))).name == choose(Source(str(tmp_path / "a.json"))).name == "torch-memory"
    one, other = tables(path), tables(tmp_path / "a.json")
    assert len(one["events"]) == 7_500
    for name in ("events", "summaries"):
        assert [row | {"source": ""} for row in one[name]] == [row | {"source": ""} for row in other[name]]
    assert sum(row["bytes"] or 0 for row in one["events"]) == 2_500 * 512


def test_an_entry_without_an_action_and_odd_values_are_reported(tmp_path: Path) -> None:
    value = snapshot(
        2, segments=[{"device": 0}, 5, {"total_size": 9, "blocks": [{}, 7]}], external_annotations=[{"name": "x"}]
    )
    value["device_traces"][0] += [
        {"size": 3},
        {"action": "alloc", "size": "big", "time_us": 5},
        {"action": "alloc", "time_us": 1 << 60},
    ]
    read = ktrace.read(written(tmp_path / "a.pickle", value))
    assert read.report.issues["bad-record"].rows == 1 + 2 + 2 + 1
    assert read.report.reader.balanced()
    assert (read.report.reader.taken, read.report.reader.given) == (11, 5)


class _Evil:
    def __reduce__(self) -> Any:
        return print, ("never",)


def test_a_snapshot_with_an_object_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pickle", snapshot(1, more=_Evil()))
    assert choose(Source(str(path))).name == "torch-memory"
    with pytest.raises(DamagedInput, match="GLOBAL would import or call something") as caught:
        ktrace.read(path)
    assert "_dump_snapshot" in str(caught.value.remedy)


def test_the_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DamagedInput, match="more than"):
        ktrace.read(OLD, limits="value=100")
    monkeypatch.setattr("ktrace.kit.torch.MOST_MEMORY", 10_000)
    with pytest.raises(DamagedInput, match="of memory"):
        ktrace.read(written(tmp_path / "a.pickle", snapshot(1_000)))


def test_a_cut_snapshot_gives_the_actions_before_the_cut(tmp_path: Path) -> None:
    data = pickle.dumps(snapshot(3_000), 4)
    (tmp_path / "a.pickle").write_bytes(data[: len(data) // 2])
    read = ktrace.read(tmp_path / "a.pickle", from_="torch-memory")
    assert 1_000 < read.report.reader.taken < 2_000
    assert [issue.kind for issue in read.report.issues.values()] == ["cut"]


@pytest.mark.parametrize(
    "data", [b"\x80\x04.", b"\x80\x04]\x94.", b"\x80\x04}.", b"{}", b'{"segments": [', b"\x80\x04"]
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DamagedInput) as caught:
        list(ktrace.read(tmp_path / "a", from_="torch-memory").events.index)
    assert caught.value.remedy


def test_a_page_has_the_snapshot_of_its_pickle(tmp_path: Path) -> None:
    value = snapshot(9)
    text = base64.b64encode(pickle.dumps(value) + b"\0\0").decode()
    page = '<!DOCTYPE html>\n<script type="module">\nimport {add_local_files} from "https://host/MemoryViz.js"\n'
    page += f'const local_files = [{{"name": "snapshot.pickle", "base64": "{text}"}}]\nadd_local_files(local_files)'
    (tmp_path / "memory.html").write_text(page)
    assert choose(Source(str(tmp_path / "memory.html"))).name == "torch-memory"
    written(tmp_path / "memory.pickle", value)
    columns = ["kind", "name", "ts", "bytes", "value"]
    found, other = (ktrace.read(tmp_path / name).events[columns] for name in ("memory.html", "memory.pickle"))
    assert found.equals(other)
    (tmp_path / "cut.html").write_text(page[: page.index("base64") + 400])
    cut = ktrace.read(tmp_path / "cut.html")
    assert 0 < len(cut.events) < len(found) and "cut" in cut.report.issues
    (tmp_path / "none.html").write_text(page.replace(text, "AAAA"))
    with pytest.raises(DamagedInput, match="has no pickle"):
        list(ktrace.read(tmp_path / "none.html", from_="torch-memory").events.index)


def test_tables_are_the_dicts_of_a_pickle(tmp_path: Path) -> None:
    """Also blocks without a segment, devices that aren't numbers, stacks that aren't JSON."""
    path = tmp_path / "snapshot.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            create table device_traces(id integer primary key, device integer, action text, addr integer,
                                       size integer, stream integer, time_us integer, frames text);
            create table segments(id integer primary key, device integer, address integer, total_size integer,
                                  stream integer, segment_type text);
            create table blocks(id integer primary key, segment_id integer, address integer, size integer,
                                requested_size integer, state text, frames text);
            insert into device_traces values (0, 3, 'alloc', 512, 1024, 7, 10, '[{"name": "f"}]'),
                                             (1, 3, 'free_completed', 512, 1024, 7, 20, 'no stack'),
                                             (2, 'x', 'alloc', 512, 64, 0, 30, '[]'), (3, 3, null, 1, 1, 1, 1, null);
            insert into segments values (5, 3, 512, 2048, 7, 'small');
            insert into blocks values (1, 5, 512, 1024, 1000, 'inactive', '[]'),
                                      (2, 6, 0, 100, 9, 'active_allocated', '[]');
            """
        )
    trace = ktrace.read(path)
    assert trace.report.inputs[0]["format"] == "torch-memory"
    events = trace.events.query("kind == 'alloc'")
    assert [*zip(events.device, events.stream, events.ts, events.bytes, strict=True)] == [
        (3, 7, 10_000, 1_024),
        (3, 7, 20_000, -1_024),
        (0, 0, 30_000, 64),
    ]
    assert [*trace.summaries.query("name == 'segment'").value] == [2_048, 100]
    assert {kind: one.rows for kind, one in trace.report.issues.items()} == {"bad-record": 1, "unknown-field": 1}
    assert trace.report.reader.balanced()


def test_a_completed_free_whose_request_is_missing_frees(tmp_path: Path) -> None:
    value = snapshot(2)
    value["device_traces"][0].append({"action": "free_completed", "addr": 0, "size": 512, "stream": 0, "time_us": 30})
    value["device_traces"][0].append({"action": "free_completed", "addr": 9, "size": 512, "stream": 0, "time_us": 40})
    events = ktrace.read(written(tmp_path / "a.pickle", value)).events
    assert [*events.query("kind == 'alloc'").bytes.fillna(0)] == [512, 512, -512, 0], "9 was freed before the trace"
