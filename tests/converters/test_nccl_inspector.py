"""Logs of NCCL's Inspector: collectives and sends, with and without times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import UnknownFormat

VERBOSE = SAMPLES / "nccl-inspector" / "verbose-with-sends.log"
BROKEN = SAMPLES / "nccl-inspector" / "no-times-two-lines-broken.log"
NEWER = SAMPLES / "nccl-inspector" / "times-as-decimals-and-channels-of-v4.1.log"
HUNT = SHARED / "hunt/nccl"
START = 1_765_000_000_000_000_000


def rows_of(path: Path, record: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ktrace.read(path, from_="nccl-inspector").to_arrow()[record].to_pylist()
    return rows


def line(**figures: Any) -> str:
    about = {"header": {"id": "0x1", "rank": 0}, "metadata": {"inspector_output_format_version": "v4.0"}}
    return (
        json.dumps(about | {"coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_exec_time_us": 5} | figures}) + "\n"
    )


def test_kernels_begin_with_their_first_channel() -> None:
    rows = rows_of(VERBOSE, "events")
    found = [(row["kind"], row["name"], row["ts"] - START, row["dur"], row["comm"], row["comm_seq"]) for row in rows]
    assert found == [
        ("kernel", "AllReduce", 108_000, 61_000, "0xa1", 5),
        ("kernel", "AllReduce", 228_000, 58_000, "0xa1", 6),
        ("kernel", "Send", 308_000, 9_000, "0xb2", None),
        ("kernel", "ReduceScatter", 338_000, 410_000, "0xb2", 1),
    ]
    assert [row["bytes"] for row in rows] == [1 << 20, 1 << 20, 1 << 16, 1 << 25]
    assert {(row["host"], row["pid"]) for row in rows} == {("node7", 3100)}
    assert {row["track"] for row in rows} == {"communicator DP Group 0 0xa1", "communicator unknown 0xb2"}
    args = json.loads(rows[2]["args"])
    assert (args["p2p_peer"], args["rank"], args["p2p_timing_source"]) == (3, 1, "kernel_gpu")
    assert [channel["channel_id"] for channel in args["event_trace_ts"]["kernel_events"]] == [0, 1, 2]


def test_without_times_they_are_summaries() -> None:
    found = [(row["kind"], row["name"], row["total"], row["count"]) for row in rows_of(BROKEN, "summaries")]
    assert found == [("op", "AllReduce", 11_000, 1), ("op", "AllReduce", 10_000, 1), ("kernel", "Broadcast", 6_000, 1)]
    report = ktrace.read(BROKEN).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"bad-record": 2}


def test_times_with_decimals_and_the_channels_of_newer_versions() -> None:
    found = [(row["name"], row["total"], row["bytes"]) for row in rows_of(NEWER, "summaries")]
    assert found == [("AllReduce", 77_000, 2048), ("AllReduce", 12_625, 2048)]
    (row,) = rows_of(NEWER, "events")
    assert (row["ts"] - START, row["dur"]) == (1_133_000, 300_000)
    assert [event["event_type"] for event in json.loads(row["args"])["events"]] == ["KernelCh", "KernelCh", "ProxyOp"]


@pytest.mark.skipif(not HUNT.exists(), reason="the real logs are not at hand (../shared/hunt)")
def test_examples_of_others() -> None:
    (row,) = rows_of(HUNT / "inspector_datadog.log", "summaries")
    assert (row["name"], row["total"], row["bytes"], row["comm_seq"]) == ("AllReduce", 5_663_000, 2360832, 8995)
    (row,) = rows_of(HUNT / "inspector_v41.log", "events")
    assert (row["ts"], row["dur"]) == (1752867229235181 * 1000, 41057 * 1000)


def test_the_summary_adds_up_the_device() -> None:
    groups = ktrace.summary(VERBOSE, by=["kernel"]).groups["kernel"]
    assert {group.key: (group.total, group.count) for group in groups} == {
        "ReduceScatter": (410_000, 1),
        "AllReduce": (119_000, 2),
        "Send": (9_000, 1),
    }


def test_a_call_that_was_timed_on_the_host_begins_with_the_call(tmp_path: Path) -> None:
    times = {"coll_start_ts": 7, "kernel_events": [{"channel_id": 0, "kernel_start_ts": 9}]}
    text = line(coll_timing_source="collective_cpu", event_trace_ts=times) + line(event_trace_ts=times)
    (tmp_path / "a.log").write_text(text + line(event_trace_ts={"coll_start_ts": 8, "kernel_events": []}))
    found = [(row["kind"], row["ts"], row["dur"]) for row in rows_of(tmp_path / "a.log", "events")]
    assert found == [("op", 7_000, 5_000), ("kernel", 9_000, 5_000), ("kernel", 8_000, 5_000)]


@pytest.mark.parametrize(
    "text",
    [
        line(coll=5),
        line(coll_exec_time_us=-1),
        line(coll_exec_time_us=1 << 70),
        line(coll_exec_time_us="5"),
        '{"coll_perf": []}\n',
        "[1]\n",
        "5\n",
        "{" * 5000 + "\n",
    ],
)
def test_another_line_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.log").write_text(line() + text + line())
    read = ktrace.read(tmp_path / "a.log")
    assert read.report.issues["bad-record"].rows == 1
    assert read.report.rows["summaries"] == 2
    assert read.report.reader.balanced()


def test_odd_values_are_left_out(tmp_path: Path) -> None:
    odd = {
        "coll_sn": "x",
        "coll_msg_size_bytes": -4,
        "coll_busbw_gbs": "nan",
        "event_trace_ts": {"kernel_events": [5, {}]},
    }
    (tmp_path / "a.log").write_text(line(**odd))
    (row,) = rows_of(tmp_path / "a.log", "summaries")
    assert (row["comm_seq"], row["bytes"], json.loads(row["args"])["coll_busbw_gbs"]) == (None, None, "nan")


def test_a_cut_line_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(line() + line()[:100])
    assert list(ktrace.read(tmp_path / "a.log").report.issues) == ["cut"]


def test_other_json_lines_are_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"coll_perf": {"coll": "AllReduce"}}\n')
    with pytest.raises(UnknownFormat):
        ktrace.read(tmp_path / "a.log")
