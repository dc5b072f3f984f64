"""Dumps of PyTorch's flight recorder: collectives, groups, states; pickles and JSON."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source

HUNG = SAMPLES / "nccl-flight-recorder" / "hung-all-gather_trace_rank_1"
ZEROS = SAMPLES / "nccl-flight-recorder" / "zeros-for-unknown-times_rank_2.json"
START = 1_770_000_000_000_000_000


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    found = ktrace.read(path, from_="nccl-flight-recorder").to_arrow()
    return {name: table.to_pylist() for name, table in found.items()}


def entry(number: int, **more: Any) -> dict[str, Any]:
    fields = {"record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number}
    fields |= {"profiling_name": "nccl:all_reduce", "time_created_ns": START + 10 * number, "retired": True}
    times = {
        "time_discovered_started_ns": START + 10 * number + 1,
        "time_discovered_completed_ns": START + 10 * number + 5,
    }
    return fields | times | {"is_p2p": False} | more


def dump(*entries: Any, **more: Any) -> dict[str, Any]:
    return {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": list(entries)} | more


def written(path: Path, value: Any) -> Path:
    path.write_bytes(pickle.dumps(value, 2))
    return path


def test_collectives_last_from_their_call_to_the_notice_of_their_end() -> None:
    found = [
        (row["kind"], row["name"], row["ts"] - START, row["dur"], row["comm"], row["comm_seq"])
        for row in tables(HUNG)["events"]
    ]
    assert found == [
        ("op", "nccl:all_reduce", 1_000, 899_000, "0", 17),
        ("op", "nccl:all_reduce", 5_000, 2_995_000, "0", 18),
        ("op", "nccl:broadcast", 700_000, 2_500_000, "3", 4),
        ("op", "nccl:send 1->2", 3_300_000, 200_000, "0", None),
        ("op", "nccl:all_gather", 3_600_000, None, "0", 19),
        ("op", "nccl:barrier", 3_650_000, None, "3", 5),
        ("instant", "nccl:reduce_scatter", 3_660_000, None, "0", 20),
    ]


def test_bytes_are_those_of_the_inputs() -> None:
    found = [row["bytes"] for row in tables(HUNG)["events"]]
    assert found == [1024 * 512 * 2, 1024 * 512 * 2 + 512 * 4, 7 * 8, 4 * 8 * 4, None, None, 4 * 8 * 4]


def test_durations_on_the_device_are_statistics() -> None:
    summaries = tables(HUNG)["summaries"]
    found = [
        (row["name"], row["comm"], row["count"], row["total"], row["min"])
        for row in summaries
        if row["kind"] == "kernel"
    ]
    assert found == [("nccl:all_reduce", "0", 2, 1_750_000, 250_000), ("nccl:broadcast", "3", 1, 125_000, 125_000)]
    status = {(row["name"], row["metric"]): row["value"] for row in summaries if row["kind"] == "metric"}
    assert status["process group 0", "last_completed_collective"] == 18
    assert len(status) == 6
    summary = ktrace.summary(HUNG, by=["kernel"])
    assert {group.key: group.total for group in summary.groups["kernel"]} == {
        "nccl:all_reduce": 1_750_000,
        "nccl:broadcast": 125_000,
    }


def test_facts_and_stacks() -> None:
    catalog, events = tables(HUNG)["catalog"], tables(HUNG)["events"]
    args = [json.loads(row["args"]) for row in events]
    assert [one.get("stack") for one in args] == ["0", "0", None, None, None, None, None]
    assert [one["is_p2p"] for one in args] == [False, False, False, True, False, False, False]
    assert (args[4]["state"], args[4]["timeout_ms"], args[4]["input_sizes"]) == ("started", 600_000, [[2, 3]])
    facts = [json.loads(row["facts"]) for row in catalog if row["entity"] == "source"][-1]
    assert (facts["rank"], facts["world_size"], facts["comm_lib_version"]) == (1, 4, "2.27.3")
    stacks = [json.loads(row["facts"])["frames"] for row in catalog if row["entity"] == "stack"]
    assert stacks == [["step (/app/train.py:12)", "all_reduce (/env/torch/distributed/distributed_c10d.py:31)"]]


def test_json_has_the_same_rows_as_the_pickle() -> None:
    same = ("kind", "name", "ts", "dur", "comm", "comm_seq", "bytes", "track")
    whole = {row["ts"]: row for row in tables(HUNG)["events"]}
    found = tables(ZEROS)["events"]
    assert len(found) == 3
    for row in found:
        assert {key: row[key] for key in same} == {key: whole[row["ts"]][key] for key in same}
    assert "time_discovered_started_ns" not in json.loads(found[-1]["args"])


def test_entries_of_version_1(tmp_path: Path) -> None:
    old = entry(3, seq_id=3)
    for key in ("process_group", "collective_seq_id", "is_p2p"):
        del old[key]
    path = written(tmp_path / "nccl_trace_rank_0", {"entries": [old], "version": "1.4", "pg_config": {0: [0, 1]}})
    assert choose(Source(str(path))).name == "nccl-flight-recorder"
    rows = tables(path)["events"]
    assert [(row["comm"], row["comm_seq"], row["dur"], row["track"]) for row in rows] == [
        ("0", 3, 5, "process group 0")
    ]


def test_what_is_not_an_entry_is_reported(tmp_path: Path) -> None:
    bad = [
        5,
        {},
        entry(1, time_created_ns="x"),
        entry(2, profiling_name=7),
        entry(3, time_discovered_completed_ns=START),
    ]
    odd = entry(
        4, input_sizes=[[10**9, 10**9, 10**9]], input_dtypes=["Float"], duration_ms=float("nan"), process_group=["a"]
    )
    read = ktrace.read(written(tmp_path / "a_rank_0", dump(*bad, odd)))
    assert {kind: issue.rows for kind, issue in read.report.issues.items()} == {"bad-record": 4, "negative-duration": 1}
    rows = read.to_arrow()["events"].to_pylist()
    assert [(row["bytes"], row["comm"]) for row in rows] == [(None, "0")]
    assert read.report.reader.balanced()


def test_a_dump_with_an_object_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a_rank_0", dump(entry(1), more=Path("x")))
    with pytest.raises(DamagedInput, match="would import or call something"):
        ktrace.read(path)


def test_a_cut_dump_gives_its_whole_entries(tmp_path: Path) -> None:
    data = HUNG.read_bytes()
    (tmp_path / "a").write_bytes(data[:-200])
    read = ktrace.read(tmp_path / "a", from_="nccl-flight-recorder")
    assert read.events["name"].tolist() == [row["name"] for row in tables(HUNG)["events"]][: len(read.events)]
    assert 3 < len(read.events) < 7
    assert list(read.report.issues) == ["cut"]


@pytest.mark.parametrize("data", [b"\x80\x02.", b"\x80\x02}.", b"\x80\x02", b"{}", b'{"entries": [', b"[1]"])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DamagedInput) as caught:
        ktrace.read(tmp_path / "a", from_="nccl-flight-recorder")
    assert caught.value.remedy


def test_the_size_of_json_is_limited() -> None:
    with pytest.raises(DamagedInput, match="has more than"):
        ktrace.read(ZEROS, limits="value=100")
