"""Files of Proton, compared with the module json and, for MessagePack, with the same tree in another encoding."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput

FOLDER = SAMPLES / "proton"
TREE = FOLDER / "own-kernels-cycles-and-metrics-of-users.hatchet"
PACKED = FOLDER / "samples-of-two-gpus.hatchet_msgpack"
LINES = FOLDER / "a-document-for-each-stream.chrome_trace"
LANES = FOLDER / "lanes-a-graph-and-a-launch.chrome_trace"
CYCLES = FOLDER / "cycles-of-the-warps-of-a-kernel-named-kernel.chrome_trace"
REAL = SHARED / "corpus" / "proton" / "triton.json"

Row = dict[str, Any]


def rows(path: Path, record: str) -> list[Row]:
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path).to_arrow()[record].to_pylist()
    ]


def nodes(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The path and the metrics of each node of a tree."""
    here = (*path, node["frame"]["name"])
    yield here, node["metrics"]
    for child in node["children"]:
        yield from nodes(child, here)


def own_times(tree: Any) -> Counter[tuple[tuple[str, ...], int, int]]:
    """Path below the root, time in ns and count of each node that has a time."""
    return Counter(
        (path[1:], metrics["time (ns)"], metrics["count"])
        for path, metrics in nodes(tree[0])
        if metrics.get("time (ns)")
    )


def read_times(path: Path) -> Counter[tuple[tuple[str, ...], int, int]]:
    return Counter(
        ((*row["scope"], row["name"]), int(row["total"]), row["count"])
        for row in rows(path, "summaries")
        if row["kind"] in ("kernel", "overhead")
    )


def test_every_node_keeps_its_own_time() -> None:
    assert read_times(TREE) == own_times(json.loads(TREE.read_text()))
    assert read_times(PACKED) == own_times(msgspec.msgpack.decode(PACKED.read_bytes()))


def test_children_and_the_kernels_of_proton_itself_are_not_counted_twice() -> None:
    kinds = {row["name"]: row["kind"] for row in rows(TREE, "summaries") if row["kind"] != "metric"}
    assert kinds["cast_kernel"] == "overhead" and kinds["matmul_kernel"] == kinds["add_kernel"] == "kernel"
    assert ktrace.summary(TREE).total == 152_576 + 9_000 + 2_048 + 1_664


def test_metrics_are_measures_of_their_node() -> None:
    found = rows(TREE, "summaries")
    heads = {row["id"]: row["name"] for row in found}
    measures = {
        (heads[row["parent"]], row["metric"]): (row["value"], row.get("unit"))
        for row in found
        if "parent" in row and "value" in row
    }
    assert measures == {
        ("matmul_kernel", "flops16"): (6442450944.0, "flop"),
        ("matmul_kernel", "bytes"): (25165824.0, "B"),
        ("load", "tokens"): (128.0, None),
        ("attention", "normalized_cycles"): (1600.5, "cycle"),
    }
    cycles = next(row for row in found if row["name"] == "attention" and row["kind"] == "range")
    assert (cycles["metric"], cycles["total"], cycles["unit"]) == ("cycles", 51_200.0, "cycle")
    assert next(row for row in found if row["name"] == "load")["total"] == 81_250.0
    assert [row["args"] for row in found if row["kind"] == "note"] == [
        '{"note":"first batch"}',
        '{"weights":[0.5,0.25]}',
    ]


def test_samples_of_a_line_are_metrics_without_a_time() -> None:
    found = {row["metric"]: row["value"] for row in rows(PACKED, "summaries") if row["name"].startswith("gemm.py")}
    assert found == {"num_samples": 40.0, "num_stalled_samples": 31.0, "stalled_wait": 31.0}


def test_devices_are_facts() -> None:
    facts = {
        (row["device"], row["name"]): json.loads(row["facts"])
        for path in (TREE, PACKED)
        for row in rows(path, "catalog")
        if row["entity"] == "device"
    }
    assert set(facts) == {(0, "CUDA 0"), (1, "CUDA 1"), (0, "HIP 0"), (1, "HIP 1")}
    assert (facts[0, "CUDA 0"]["compute_capability"], facts[1, "HIP 1"]["sm_count"]) == ("9.0", 304)


@pytest.mark.skipif(not REAL.exists(), reason="no ../shared/corpus/proton")
def test_a_real_tree() -> None:
    assert (
        read_times(REAL)
        == own_times(json.loads(REAL.read_text()))
        == Counter(
            {
                (("scope", "__proton_launch_metadata", "cuda_kernel"), 4064, 1): 1,
                (("scope", "triton_kernel"), 1664, 1): 1,
            }
        )
    )
    assert ktrace.summary(REAL).total == 1664


def independent(path: Path) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for line in path.read_text().splitlines():
        for event in json.loads(line, parse_float=Decimal)["traceEvents"]:
            if event["ph"] == "X":
                found[event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000)] += 1
    return found


@pytest.mark.parametrize("path", [LINES, LANES, CYCLES], ids=lambda path: path.name)
def test_events_of_all_documents(path: Path) -> None:
    assert Counter((row["name"], row["ts"], row["dur"]) for row in rows(path, "events")) == independent(path)


def test_streams_of_the_first_versions() -> None:
    found = {row["name"]: row for row in rows(LINES, "events")}
    assert {name: (row["kind"], row["stream"]) for name, row in found.items()} == {
        "matmul_kernel": ("kernel", 7),
        "cast_kernel": ("overhead", 7),
        "add_kernel": ("kernel", 13),
    }
    assert not any("pid" in row or "tid" in row for row in found.values())


def test_lanes_of_later_versions() -> None:
    found = {row["name"]: row for row in rows(LANES, "events")}
    assert {
        name: (row["kind"], row.get("device"), row.get("stream"), row.get("tid")) for name, row in found.items()
    } == {
        "step": ("range", None, None, 3),
        "inner: <loss, 0.5>": ("range", None, None, 3),
        "decode": ("range", 0, None, None),
        "matmul_kernel": ("kernel", 0, 13, None),
        "<metric>": ("overhead", 0, 13, None),
        "add_kernel": ("kernel", 1, 7, None),
    }
    assert found["decode"]["track"] == "Graph: Stream 13"
    ends = {row["role"]: (row.get("tid"), row.get("device"), row.get("stream")) for row in rows(LANES, "links")}
    assert ends == {"out": (3, None, None), "in": (None, 0, 13)}
    named = {(row["entity"], row.get("device"), row.get("stream")) for row in rows(LANES, "catalog") if "name" in row}
    assert {("stream", 0, 13), ("stream", 1, 7), ("track", 0, None), ("thread", None, None)} <= named
    clock = next(json.loads(row["facts"]) for row in rows(LANES, "catalog") if row["entity"] == "clock")
    assert clock == {"kind": "session", "at_ns": 0, "unix_ns": 1767323045000000000}


def test_cycles_are_ranges_even_of_a_kernel_named_kernel() -> None:
    found = rows(CYCLES, "events")
    assert {(row["kind"], row["timing"]) for row in found} == {("range", "derived")}
    assert Counter(row["track"] for row in found) == {
        "kernel Core7 CTA1/warp 0 (line 0)": 2,
        "kernel Core7 CTA1/warp 4 (line 0)": 1,
        "kernel Core7 CTA2/warp 0 (line 0)": 1,
    }


@pytest.mark.parametrize("path", [TREE, PACKED, LINES, LANES, CYCLES], ids=lambda path: path.name)
def test_kineto_does_not_claim_it(path: Path) -> None:
    assert next(match.format for match in ktrace.detect(path)) == "proton"
    assert "kineto" not in {match.format for match in ktrace.detect(path)}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[{"frame": {"name": "a"}, "metrics": {"time (ns)": 1}, "children": [', "can't be read as a tree"),
        ('[{"metrics": {}, "children": []}]', "has no tree"),
        ('[{"frame":' * 5000, "can't be read as a tree"),
    ],
)
def test_a_damaged_tree_is_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "damaged.hatchet"
    path.write_text(text)
    with pytest.raises(DamagedInput, match=what):
        ktrace.read(path, from_="proton")


def test_nodes_and_values_that_are_none_are_reported_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "odd.hatchet"
    odd = {
        "frame": {"name": "k"},
        "metrics": {"time (ns)": -1, "count": 1, "device_id": "x"},
        "children": [7, {"frame": 1}],
    }
    path.write_text(json.dumps([odd, 3]))
    trace = ktrace.read(path)
    assert trace.report.issues["bad-record"].rows == 3 and trace.report.reader.balanced()
    found = {row["metric"]: row.get("value") for row in rows(path, "summaries") if row["kind"] == "metric"}
    assert found == {"time": -1.0, "count": 1.0}


@pytest.mark.parametrize("path", [TREE, PACKED], ids=["json", "msgpack"])
def test_the_size_of_a_tree_is_limited(path: Path) -> None:
    with pytest.raises(DamagedInput, match="has more than 100 bytes"):
        ktrace.read(path, limits="value=100")
