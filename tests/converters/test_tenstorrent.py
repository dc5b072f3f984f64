"""Tenstorrent: operations and zones by arithmetic over the CSV itself, the real reports whole."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput
from ktrace.model.json_text import decoded

OURS = SAMPLES / "tenstorrent"
OPS = OURS / "ops_perf_results_signposts-two-chips-host-op.csv"
ZONES = OURS / "profile_log_device.csv"
REAL = SHARED / "hunt" / "tenstorrent"

#: Each real report: operations, signposts, MHz of the chip, ns of the kernels as tt-perf-report adds them up.
REPORTS = {
    "bh20_oft": (1571, 50, 1350, 197_010_388),
    "bh_64_clip_encoder_1": (660, 0, 1350, 7_342_805),
    "bh_p100_dlv3": (387, 0, 1350, 8_697_954),
    "wh_clip_encoder_2": (1872, 0, 1000, 63_218_148),
}


def rows(path: Path, record: str = "events", kind: str | None = None) -> list[dict[str, Any]]:
    """The rows by id without their nulls, `args` and `facts` decoded."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    found = [row | {key: json.loads(row[key]) for key in ("args", "facts") if key in row} for row in found]
    return sorted((row for row in found if kind in (None, row.get("kind"))), key=lambda row: row["id"])


def ns(cycles: int, mhz: int) -> int:
    """Cycles in ns, rounded half up."""
    return int(Fraction(1000 * cycles, mhz) + Fraction(1, 2))


@pytest.mark.parametrize("name", REPORTS)
def test_real_reports(name: str) -> None:
    path = REAL / f"{name}.csv"
    if not path.exists():
        pytest.skip("the real reports are not at hand (../shared/hunt/tenstorrent)")
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    operations = [line for line in lines if line["OP TYPE"] != "signpost"]
    count, signposts, mhz, total = REPORTS[name]
    kernels, marks = rows(path, kind="kernel"), rows(path, kind="instant")
    assert (len(kernels), len(marks)) == (count, signposts) == (len(operations), len(lines) - len(operations))
    durations = [int(line["DEVICE KERNEL DURATION [ns]"]) for line in operations]
    assert [row["dur"] for row in kernels] == durations
    assert sum(durations) == total
    ends = [ns(int(line["DEVICE FW END CYCLE"]), mhz) for line in operations]
    assert [row["ts"] + row["dur"] for row in kernels] == ends
    assert [row["args"]["CORE COUNT"] for row in kernels] == [int(line["CORE COUNT"]) for line in operations]
    spans = sorted((row["ts"], row["ts"] + row["dur"]) for row in kernels)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))  # a chip runs one after the other
    if mhz == 1000:  # where cycles are ns, the gaps are those that the report states, within 40 ns
        stated = [int(line["OP TO OP LATENCY [ns]"]) for line in operations[1:]]
        gaps = [after[0] - before[1] for before, after in pairwise(spans)]
        assert max(abs(gap - latency) for gap, latency in zip(gaps, stated, strict=True)) <= 40


def test_signposts_are_between_the_kernels_around_them() -> None:
    path = REAL / "bh20_oft.csv"
    if not path.exists():
        pytest.skip("the real reports are not at hand (../shared/hunt/tenstorrent)")
    events = rows(path)  # ids are lines
    for index, row in enumerate(events):
        if row["kind"] == "instant":
            before = [one for one in events[:index] if one["kind"] == "kernel"][-1]
            after = next(one for one in events[index:] if one["kind"] == "kernel")
            assert row["ts"] == before["ts"] + before["dur"] <= after["ts"]


def test_operations_of_two_chips() -> None:
    with OPS.open(newline="") as file:
        on_chips = [line for line in csv.DictReader(file) if line["DEVICE FW END CYCLE"]]
    kernels = rows(OPS, kind="kernel")
    assert [(row["name"], row["device"]) for row in kernels] == [
        ("MatmulDeviceOperation", 0),
        ("MatmulDeviceOperation", 1),
        ("SoftmaxDeviceOperation", 0),
    ]
    for row, line in zip(kernels, on_chips, strict=True):
        assert row["dur"] == int(line["DEVICE KERNEL DURATION [ns]"])
        assert row["ts"] == ns(int(line["DEVICE FW END CYCLE"]), 1350) - row["dur"]
        assert (row["timing"], row["args"]["DEVICE FW START CYCLE"]) == ("derived", int(line["DEVICE FW START CYCLE"]))
    assert kernels[0]["args"]["MATH FIDELITY"] == "HiFi2"
    marks = {row["name"]: row for row in rows(OPS, kind="instant")}
    assert marks["warm up"]["ts"] == ns(7_000_000_000, 1350)  # nothing ran before it
    assert marks["decode"]["ts"] == kernels[0]["ts"] + kernels[0]["dur"]  # not the end on the other chip
    assert marks["decode"]["args"] == {"ATTRIBUTES": "step 3", "HOST START TS": 20000}
    chips = [row for row in rows(OPS, "catalog") if row["entity"] == "device"]
    assert [(row["device"], row["name"]) for row in chips] == [(0, "wormhole_b0"), (1, "wormhole_b0")]


def test_operations_without_cycles_are_sums() -> None:
    assert [(row["kind"], row["name"], row["total"], row["count"]) for row in rows(OPS, "summaries")] == [
        ("op", "ttnn.from_torch", 750, 1),
        ("kernel", "LayerNormDeviceOperation", 4000, 1),
    ]


def test_a_report_without_any_cycles_has_signposts_at_times_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "ops_perf_results.csv"
    path.write_text(
        "OP CODE,OP TYPE,DEVICE ID,HOST START TS,HOST DURATION [ns],DEVICE KERNEL DURATION [ns]\n"
        "start,signpost,,7000,,\nAddOperation,tt_dnn_device,0,8000,300,450\n"
    )
    (mark,) = rows(path)
    assert (mark["ts"], mark["timing"]) == (7000, "measured")
    assert [(row["total"], row["device"]) for row in rows(path, "summaries")] == [(450, 0)]


def test_the_kernels_own_cycles_where_they_are_stated() -> None:
    path = OURS / "cpp_device_perf_report.csv"
    found = [(row["name"], row["ts"], row["dur"], row["timing"]) for row in rows(path)]
    assert found == [
        ("UntilizeDeviceOperation", 2_000_400, 9500, "measured"),  # 2,700,540 cycles at 1350 MHz
        ("BinaryNgDeviceOperation", 2_010_400, 2500, "measured"),
    ]
    with path.open(newline="") as file:
        gap = int(list(csv.DictReader(file))[1]["OP TO OP LATENCY [ns]"])
    assert found[1][1] - found[0][1] - found[0][2] == gap


def test_zones_of_each_core_and_processor() -> None:
    found = [(row["device"], row["track"], row["name"], row["ts"], row["dur"]) for row in rows(ZONES, kind="range")]
    assert found == [
        (0, "core 1,2 BRISC", "BRISC-FW", 1_000_000_000, 2501),  # 3,376 cycles at 1350 MHz are 2500.7 ns
        (0, "core 1,2 BRISC", "BRISC-KERNEL", 1_000_000_200, 2000),
        (0, "core 1,2 TRISC_1", "TRISC-KERNEL", 1_000_000_300, 1600),
        (1, "core 1,2 BRISC", "BRISC-FW", 2_000_000_000, 1000),
    ]
    marks = [(row["name"], row["cat"], row["ts"], row["args"]["data"]) for row in rows(ZONES, kind="instant")]
    assert marks == [
        ("tiles", "TS_DATA", 1_000_000_500, 77),
        ("CB-COMPUTE-WAIT-FRONT", "ZONE_TOTAL", 1_000_000_300, 540),
    ]
    cycles = rows(ZONES, kind="range")[0]["args"]
    assert (cycles["time[cycles since reset]"], cycles["time[cycles since reset]#2"]) == (1350000000, 1350003376)


def test_zones_of_2024() -> None:
    path = OURS / "profile_log_device-of-2024.csv"
    found = [(row["track"], row["name"], row["ts"], row["dur"]) for row in rows(path)]
    assert found == [
        ("core 3,4 TRISC_0", "TRISC-FW", 1_000_000_000, 2000),
        ("core 3,4 TRISC_0", "TRISC-KERNEL", 1_000_000_500, 1000),
    ]


@pytest.mark.parametrize("first", ["", "ARCH: blackhole, CHIP_FREQ[MHz]: 0, Max Compute Cores: 120\n"])
def test_zones_without_a_frequency_have_no_times(first: str, tmp_path: Path) -> None:
    path = tmp_path / "profile_log_device.csv"
    path.write_text(first + "".join(ZONES.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(DamagedInput, match="frequency of the chip"):
        ktrace.read(path)
