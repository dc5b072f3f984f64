"""IKET: launches, ranges, markers and lifetimes of warps against the source's own numbers."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import SAMPLES

import ktrace

SAMPLE = SAMPLES / "iket" / "two-roles-on-two-multiprocessors.iket.json"


def test_rows_are_those_of_each_warp() -> None:
    source = json.loads(SAMPLE.read_text())["launches"]
    rows = ktrace.read(SAMPLE).events.to_dict("records")
    kernels = {row["id"]: row for row in rows if row["kind"] == "kernel"}
    assert [(row["name"], row["ts"], row["dur"], row["timing"]) for row in kernels.values()] == [
        ("gemm_ws_kernel", 992, 2016, "derived"),
        ("scale_kernel", 4992, 384, "derived"),
    ]
    expected = sorted(
        (launch["kernelName"], one["rangeName"], one["startTs"], one["endTs"] - one["startTs"], place["warpId"])
        for launch in source
        for one in launch["ranges"]
        for place in one.get("warpLocs", [])
    )
    inside = [row for row in rows if row["cat"] == "in-kernel range"]
    assert expected == sorted(
        (kernels[row["parent"]]["name"], row["name"], row["ts"], row["dur"], int(row["track"].rpartition(" ")[2]))
        for row in inside
    )
    assert {row["track"] for row in inside} >= {"SM 0 CTA 0,0,0 warp 1", "SM 3 CTA 1,0,0 warp 0"}
    (marker,) = (row for row in rows if row["kind"] == "instant")
    assert (marker["name"], marker["ts"], json.loads(marker["args"])["payloadVal"]) == ("done", 2976, 5)
    assert sum(row["cat"] == "warp lifetime" for row in rows) == sum(len(one["warpLifetimes"]) for one in source)


def test_a_launch_without_an_inside_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"launches": [{"gridId": 0, "kernelName": "k", "ranges": [], "warpLifetimes": []}]}')
    data = ktrace.read(path)
    assert not len(data.events)
    assert list(data.report.issues) == ["bad-record"]
