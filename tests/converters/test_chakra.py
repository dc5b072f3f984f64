"""Chakra execution traces: nodes of the host and of devices, with and without starts, and what isn't whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source

TIMED = SAMPLES / "chakra" / "kernels-a-collective-and-a-time-out-of-range.et"
SUMS = SAMPLES / "chakra" / "no-starts-and-a-broken-message.0.et"


def test_nodes_of_a_device_are_kernels_and_others_operators() -> None:
    trace = ktrace.read(TIMED)
    assert trace.events[["kind", "name", "ts", "dur"]].values.tolist() == [
        ["op", "aten::mm", 100_000, 80_000],
        ["kernel", "gemm_f16_128x64", 150_000, 400_000],
        ["kernel", "nccl:all_reduce", 550_000, 1_200_000],
    ]
    assert trace.events.operation.dropna().tolist() == ["collective"]
    assert json.loads(trace.events.args.iloc[2]) == {
        **{"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20, "share": 0.5},
        **{"node": 4, "type": "COMM_COLL_NODE", "data_deps": [3]},
    }
    assert json.loads(trace.events.args.iloc[1])["ctrl_deps"] == [1, 2]
    assert dict(trace.report.reader.removed) == {"catalog": 2, "time-range": 1, "cut": 1}


def test_without_starts_nodes_are_sums() -> None:
    trace = ktrace.read(SUMS)
    assert len(trace.events) == 0
    assert trace.summaries.name.tolist() == ["aten::mm", "COMM_COLL_NODE_all_reduce"]
    assert trace.summaries.total.fillna(-1).tolist() == [80_000, -1]
    assert trace.report.issues["bad-record"].places == [("message 3", "")]


@pytest.mark.parametrize("name", [TIMED, SUMS], ids=lambda path: path.name)
def test_a_sample_cut_anywhere_is_read_up_to_there(name: Path, tmp_path: Path) -> None:
    data = name.read_bytes()
    path = tmp_path / "cut.et"
    for size in range(60, len(data), 7):
        path.write_bytes(data[:size])
        try:
            report = ktrace.read(path).report
        except KtraceError:
            continue
        assert report.reader.balanced()


@pytest.mark.parametrize("data", [b"\x07\n\x050.0.4", b"\x07\n\x050.0.4\x03\x08\x01\x12"])
def test_a_version_alone_or_before_a_node_is_chakra(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.et").write_bytes(data)
    assert choose(Source(str(tmp_path / "x.et"))).name == "chakra"
