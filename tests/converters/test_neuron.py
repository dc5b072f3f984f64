"""Profiles of AWS Neuron Explorer and their summaries, against plain arithmetic over tables of random figures."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES
from neuron_samples import TABLES, Table, profile

import ktrace
from ktrace.errors import InputError

SAMPLE = SAMPLES / "neuron" / "mlp@latest"
SUMMARY = SAMPLES / "neuron" / "two-profiles.summary.json"


def test_the_sample_is_that_of_the_helper(tmp_path: Path) -> None:
    for path in profile(tmp_path / "made").iterdir():
        assert pq.read_table(path).equals(pq.read_table(SAMPLE / path.name))


def large(seed: int, rows: int = 5_000) -> dict[str, Table]:
    chance = random.Random(f"neuron {seed}")
    start = [chance.randrange(10**12) for _ in range(rows)]
    end = [one + chance.randrange(10_000) for one in start]
    times = {"start_ts": start, "end_ts": end, "duration_ns": [b - a for a, b in zip(start, end, strict=True)]}
    some = [chance.choice((None, chance.randrange(16))) for _ in range(rows)]
    return {
        "Instruction": times
        | {"engine": chance.choices(("tensor", "vector", "scalar"), k=rows), "opcode": chance.choices("ABC", k=rows)},
        "DmaPacket": times | {"engine_idx": some, "transfer_bytes": [one % 4096 for one in start]},
        "DmaPacketAggregated": times | {"queue_name": ["q"] * rows, "transfer_bytes": [one % 4096 for one in start]},
        "SbufUsage": {
            "timestamp": start,
            "avg_util_percent": [one and one / 16 for one in some],
            "partition_0_util_percent": some,
        },
        "Metadata": {"neuroncore_idx": [0]},
    }


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_sums_are_those_of_the_tables(tmp_path: Path, seed: int) -> None:
    tables = large(seed)
    trace = ktrace.read(profile(tmp_path / "run", tables))
    events = trace.events
    assert trace.report.balanced()
    for kind, table in (("kernel", "Instruction"), ("memcpy", "DmaPacket"), ("range", "DmaPacketAggregated")):
        mine = events[events["kind"] == kind]
        assert len(mine) == len(tables[table]["start_ts"])
        assert mine["ts"].sum() == sum(tables[table]["start_ts"])
        assert mine["dur"].sum() == sum(tables[table]["duration_ns"])
    assert events[events["kind"] == "memcpy"]["bytes"].sum() == sum(tables["DmaPacket"]["transfer_bytes"])
    engines = events[events["kind"] == "kernel"].groupby("track")["dur"].sum().to_dict()
    assert engines == {
        engine: sum(
            dur
            for own, dur in zip(tables["Instruction"]["engine"], tables["Instruction"]["duration_ns"], strict=True)
            if own == engine
        )
        for engine in ("tensor", "vector", "scalar")
    }
    counters = events[events["kind"] == "counter"]
    for column in ("avg_util_percent", "partition_0_util_percent"):
        mine = counters[counters["name"] == f"SbufUsage {column}"]
        known = [value for value in tables["SbufUsage"][column] if value is not None]
        assert (len(mine), set(mine["unit"])) == (len(known), {"%"})
        assert mine["value"].sum() == pytest.approx(sum(known))


def test_transfers_are_work_only_where_their_packets_are_not_there(tmp_path: Path) -> None:
    tables = {name: TABLES[name] for name in ("Instruction", "DmaPacketAggregated", "Metadata")}
    events = ktrace.read(profile(tmp_path / "run", tables)).events
    assert events[events["name"] == "x"]["kind"].tolist() == ["memcpy"]
    events = ktrace.read(SAMPLE).events
    assert sorted(events[events["name"] == "x"]["kind"]) == ["memcpy", "range"]


def test_what_is_not_read_is_said() -> None:
    report = ktrace.read(SAMPLE).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {
        "negative-duration": 1,
        "unrecognised": 2,
        "capture-warning": 0,
    }
    assert "TensorInfo" in str(report.issues["unrecognised"])


def test_events_of_the_system_are_on_threads_and_devices(tmp_path: Path) -> None:
    rows = {
        "name": ["nrt_execute", "forward", "execution"],
        "start_ts": [10, 20, 30],
        "end_ts": [15, 40, 38],
        "duration_ns": [5, 20, 8],
        "trace_event_source": ["neuron_rt", "framework", "neuron_hw"],
        "instance_id": ["i-0b"] * 3,
        "process_id": [7, 7, 7],
        "thread_id": [8, 9, 0],
        "nc_idx": [2, None, 2],
        "flow_id": [[1, 2], [], None],
    }
    folder = profile(
        tmp_path / "run", {"SystemProfileEvents": rows, "SystemProfileMetadata": {"explorer_version": ["1"]}}
    )
    events = ktrace.read(folder).events
    assert events["kind"].tolist() == ["api", "range", "range"]
    assert events["tid"].fillna(-1).tolist() == [8, 9, -1]
    assert events["device"].fillna(-1).tolist() == [-1, -1, 2]
    assert [json.loads(args).get("flow_id") for args in events["args"]] == ["[1,2]", "[]", None]


def test_a_summary_has_the_metrics_of_each_profile() -> None:
    trace, document = ktrace.read(SUMMARY), json.loads(SUMMARY.read_text())
    rows = trace.summaries
    for run, metrics in document.items():
        mine = rows[rows["run"] == run].set_index("metric")
        assert len(mine) == sum(isinstance(value, (int, float)) for value in metrics.values())
        assert mine.loc["total_time", ["value", "unit"]].tolist() == [round(metrics["total_time"] * 1e9), "ns"]
        share = mine.loc["tensor_engine_active_time_percent"]
        assert (share["value"], share["unit"]) == (
            pytest.approx(100 * metrics["tensor_engine_active_time_percent"]),
            "%",
        )
    assert json.loads(rows["args"].dropna().iloc[0]) == {"instance": "trn1.2xlarge"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"n": 7, "x": ["total_active_time", "tensor_engine_active_time"]}', "has no metrics of a profile"),
        ('{"n": {"total_active_time": 1, "tensor_engine_active_time": ', "can't be read"),
    ],
)
def test_other_json_is_an_error_with_a_remedy(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        ktrace.convert(path, tmp_path / "out.jsonl", from_="neuron")
    assert "--output-format summary-json" in str(caught.value)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_damaged_table_costs_itself(tmp_path: Path) -> None:
    folder = profile(tmp_path / "run")
    data = (folder / "CcOp.parquet").read_bytes()
    (folder / "CcOp.parquet").write_bytes(data[: len(data) // 2])
    trace = ktrace.read(folder)
    assert trace.report.issues["bad-file"].rows == 1
    assert "AllGather" not in set(trace.events["name"])
    assert np.count_nonzero(trace.events["kind"] == "kernel") == 3


def test_numbers_of_any_type_are_read(tmp_path: Path) -> None:
    tables = {name: TABLES[name] for name in ("Instruction", "Metadata")}
    folder = profile(tmp_path / "run", tables)
    table = pq.read_table(folder / "Instruction.parquet")
    times = [table.schema.get_field_index(name) for name in ("start_ts", "end_ts")]
    for place in times:
        table = table.set_column(place, table.schema.names[place], table.column(place).cast(pa.uint64()))
    table = table.set_column(3, "engine", table.column("engine").dictionary_encode())
    pq.write_table(table, folder / "Instruction.parquet")
    assert ktrace.read(folder).events["dur"].tolist() == [350, 1200, 0]
