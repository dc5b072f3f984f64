"""Logs of nvidia-smi, dcgmi, amd-smi, rocm-smi, xpu-smi: counters, ranges of states, times without a zone or none."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read
from ktrace.trace.trace import Trace

THROTTLED = SAMPLES / "smi" / "nvidia-smi-two-gpus-throttled.csv"
QUERIED = "timestamp, index, power.draw [W]\n"


def written(tmp_path: Path, text: str, name: str = "smi.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def readings(trace: Trace) -> list[tuple[int | None, str, int, float, str | None]]:
    """Device, name, time, value and unit of all counters."""
    rows = trace.events
    rows = rows[rows.kind == "counter"]
    columns = [rows[name] if name in rows else pd.Series([None] * len(rows)) for name in ("device", "unit")]
    places = [None if pd.isna(device) else int(device) for device in columns[0]]
    units = [None if pd.isna(unit) else str(unit) for unit in columns[1]]
    return sorted(zip(places, rows.name, map(int, rows.ts), rows.value, units, strict=True), key=str)


def states(trace: Trace) -> set[tuple[int, str, str, int, int]]:
    """Device, track, name, start and end of all ranges, in ns from the first row."""
    rows = trace.events
    zero = rows.ts.min()
    rows = rows[rows.kind == "range"]
    assert set(rows.timing) <= {"derived"}
    return {
        (row.device, row.track, row.name_, row.ts - zero, row.ts - zero + row.dur)
        for row in rows.rename(columns={"name": "name_"}).itertuples()
    }


def test_nvidia_smi_cell_by_cell() -> None:
    headings, *lines = [line.split(", ") for line in THROTTLED.read_text("utf-8").splitlines()]
    names = {heading: heading.partition(" [")[0] for heading in headings}
    units = {"MiB": "B", "%": "%", "W": "W", "MHz": "MHz"}
    expected = []
    for cells in lines:
        row = dict(zip(headings, cells, strict=True))
        moment = datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc)
        ts = round(moment.timestamp() * 1000) * 10**6
        for heading in (*headings[7:11], "temperature.gpu"):
            if row[heading].startswith("["):
                continue
            number, _, unit = row[heading].partition(" ")
            value = float(Decimal(number) * (1 << 20 if unit == "MiB" else 1))
            expected.append((int(row["index"]), names[heading], ts, value, units[unit] if unit else "C"))
    assert len(expected) == 39
    assert readings(read(THROTTLED)) == sorted(expected, key=str)


def test_reasons_last_from_reading_to_reading() -> None:
    ms = 10**6
    track = "clock event reasons"
    assert states(read(THROTTLED)) == {
        (0, "pstate", "P0", 0, 3000 * ms),
        (0, "pstate", "P2", 3000 * ms, 3000 * ms),
        (1, "pstate", "P0", 4 * ms, 3004 * ms),
        (0, track, "gpu_idle", 0, 1000 * ms),
        (0, track, "sw_power_cap", 1000 * ms, 3000 * ms),
        (0, track, "sw_thermal_slowdown", 2000 * ms, 3000 * ms),
        (0, track, "hw_slowdown", 3000 * ms, 3000 * ms),  # in the mask and in its own column: once
        (0, track, "0x400", 3000 * ms, 3000 * ms),  # a bit without a name
    }


def test_devices_have_names_and_identities() -> None:
    facts = {
        entry["device"]: entry for entry in read(THROTTLED).catalog.to_dict("records") if entry["entity"] == "device"
    }
    assert [facts[device]["name"] for device in (0, 1)] == ["NVIDIA H100 SXM5"] * 2
    assert json.loads(facts[1]["facts"]) == {
        "vendor": "NVIDIA",
        "uuid": "GPU-00000000-0000-0000-0000-000000000002",
        "bus_id": "00000000:02:00.0",
        "memory": 81559 * 1024 * 1024,
    }


def test_dmon_column_by_column() -> None:
    path = SAMPLES / "smi" / "dmon-with-date-and-time.txt"
    lines = path.read_text("utf-8").splitlines()
    names, units = lines[0].split()[3:], lines[1].split()[3:]
    midnight = 1_714_608_000 * 10**9  # 2024-05-02
    seconds = {"23:59:58": -2, "23:59:59": -1, "00:00:00": 0}
    expected = []
    for line in lines:
        if not line.startswith("#"):
            _, time, device, *cells = line.split()
            for name, unit, cell in zip(names, units, cells, strict=True):
                if cell != "-":
                    ts = midnight + seconds[time] * 10**9
                    expected.append((int(device), name, ts, float(cell), None if unit == "bool" else unit))
    assert readings(read(path)) == sorted(expected, key=str)


def test_pmon_has_processes_and_goes_over_midnight() -> None:
    rows = read(SAMPLES / "smi" / "pmon-over-midnight.txt")
    found = rows.events[["pid", "device", "cat", "name", "value", "ts"]].values.tolist()
    day = 86_400 * 10**9
    assert [row for row in found if row[3] == "sm"] == [
        [4711, 0, "C", "sm", 97.0, day - 10**9],
        [4711, 0, "C", "sm", 98.0, day],
        [4712, 1, "C+G", "sm", 3.0, day],
    ]
    catalog = rows.catalog[rows.catalog.entity == "process"]
    assert dict(zip(catalog.pid, catalog.name, strict=True)) == {4711: "python3", 4712: "my server"}


def test_amd_smi_has_units_lists_and_states() -> None:
    trace = read(SAMPLES / "smi" / "amd-smi-metric-with-lists.csv")
    second = 10**9
    last = [row for row in readings(trace) if row[2] == 1_714_567_891 * second and row[0] == 0]
    assert [(name, value, unit) for _, name, _, value, unit in last] == [
        ("gfx_0_clk", 2100.0, "MHz"),
        ("gfx_0_min_clk", 500.0, "MHz"),
        ("gfx_activity", 99.0, "%"),
        ("hotspot", 71.0, "C"),
        ("mem", 48.0, "C"),
        ("mem_0_clk", 1300.0, "MHz"),
        ("socket_power", 701.0, "W"),
        ("umc_activity", 45.0, "%"),
        ("vcn_activity[0]", 3.0, None),
        ("vcn_activity[1]", 0.0, None),
    ]
    throttled = {state for state in states(trace) if state[1] == "throttle_status"}
    assert throttled == {(1, "throttle_status", "THROTTLED", second, second)}


def test_amd_smi_monitor_has_a_share_of_memory(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp,gpu,power_usage,gfx,mem\n1714567890,3,512,99,41\n")
    assert readings(read(path)) == [
        (3, "gfx", 1_714_567_890 * 10**9, 99.0, "%"),
        (3, "mem", 1_714_567_890 * 10**9, 41.0, "%"),
        (3, "power_usage", 1_714_567_890 * 10**9, 512.0, "W"),
    ]


def test_xpu_smi_has_tiles_and_several_reasons_in_a_cell() -> None:
    trace = read(SAMPLES / "smi" / "xpu-smi-tiles.csv")
    track = "tile 0 Throttle Reason"
    assert states(trace) == {
        (0, track, "Thermal", 1_001_000_000, 2_000_000_000),
        (0, track, "Power", 1_001_000_000, 2_000_000_000),
    }
    power = trace.events[trace.events.name == "GPU Power"]
    assert power.groupby("track").value.sum().to_dict() == {"tile 0": 357.75, "tile 1": 60.25}
    assert set(power.unit) == {"W"}


def test_xpu_smi_with_names_of_fields_is_no_nvidia_smi(tmp_path: Path) -> None:
    head = "Timestamp, DeviceId, power.draw (W), clocks.throttle.reason\n"
    trace = read(written(tmp_path, f"{head}2026/01/02 06:14:46.250, 0, 119.25, None\n"))
    assert readings(trace) == [(0, "power.draw", 1_767_334_486_250_000_000, 119.25, "W")]
    assert '"vendor":"Intel"' in "".join(trace.catalog.facts.dropna())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvidia-smi-two-gpus-throttled.csv", True),
        ("amd-smi-metric-with-lists.csv", False),
        ("xpu-smi-tiles.csv", False),
    ],
)
def test_times_of_no_zone_are_told(name: str, said: bool) -> None:
    """Unix times need no zone, and times without a date can't be unix times."""
    assert ("local-time" in read(SAMPLES / "smi" / name).report.issues) is said


def test_merge_moves_a_log_by_its_zone(tmp_path: Path) -> None:
    """The log of a machine at UTC+2 lies on a trace in unix time once it is moved by two hours."""
    base = 1_714_559_696_500_000_000  # 2024-05-01 10:34:56.5 UTC
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 0, "dur": 5, "args": {"device": 0}}
    run = written(
        tmp_path, json.dumps({"baseTimeNanoseconds": base, "schemaVersion": 1, "traceEvents": [event]}), "run.json"
    )
    out = tmp_path / "both.jsonl"
    ktrace.merge([run, THROTTLED], out, offsets={THROTTLED.name: "-2h"})
    rows = read(out).events
    first = rows[rows.kind == "counter"].ts.min()
    assert first == rows[rows.kind == "kernel"].ts.item()


def test_devices_without_numbers_have_those_of_their_order(tmp_path: Path) -> None:
    rows = "2024/05/01 12:00:00.000, 00000000:8A:00.0, 70 W\n2024/05/01 12:00:00.001, 00000000:01:00.0, 80 W\n" * 2
    trace = read(written(tmp_path, f"timestamp, pci.bus_id, power.draw [W]\n{rows}"))
    assert [(device, value) for device, _, _, value, _ in readings(trace)] == [(0, 70.0)] * 2 + [(1, 80.0)] * 2


def test_a_log_of_one_device_needs_no_device(tmp_path: Path) -> None:
    trace = read(written(tmp_path, "timestamp, power.draw [W]\n2024/10/30 18:42:33.189, 22.89 W\n"))
    assert readings(trace) == [(None, "power.draw", 1_730_313_753_189_000_000, 22.89, "W")]


def test_headings_repeat_and_a_last_row_is_cut(tmp_path: Path) -> None:
    row = "2024/05/01 12:00:00.000, 0, 70 W\n"
    trace = read(written(tmp_path, f"{QUERIED}{row}{QUERIED}{row}\nFailed to initialize NVML\n2024/05/01 12:0"))
    assert dict(trace.report.reader.removed) == {"structure": 3, "bad-record": 2}
    assert len(readings(trace)) == 2


def test_times_that_are_none_or_too_late_are_skipped(tmp_path: Path) -> None:
    times = ("2024/05/01 12:00:00.000", "2024/02/30 12:00:00.000", "9999/05/01 12:00:00.000", "12:00:00.000", "later")
    trace = read(written(tmp_path, QUERIED + "".join(f"{time}, 0, 70 W\n" for time in times)))
    assert dict(trace.report.reader.removed) == {"structure": 1, "bad-record": 3, "time-range": 1}
    assert len(readings(trace)) == 1


def test_what_a_log_lacks_is_told(tmp_path: Path) -> None:
    with pytest.raises(KtraceError, match="readings of nvidia-smi, but no headings"):
        read(written(tmp_path, "2024/05/01 12:34:56.500, 0, 98 %, 71.25 W\n", "gpu.log"))


def summarised(trace: Trace) -> dict[tuple[str, str], tuple[float, ...]]:
    """Count, mean, least and greatest of each figure by place and name; of states the number of readings."""
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for row in trace.summaries.astype(object).where(trace.summaries.notna(), None).to_dict("records"):
        place = f"GPU {row['device']}" if row.get("track") is None else row["track"]
        figures = [row.get(name) for name in ("count", "avg", "min", "max")]
        found[place, row["name"]] = (row["value"],) if row.get("value") is not None else tuple(figures)
    return found


def statistics(readings: list[Decimal]) -> tuple[float, ...]:
    return len(readings), float(sum(readings) / len(readings)), float(min(readings)), float(max(readings))


def test_readings_without_times_are_summed_up() -> None:
    path = SAMPLES / "smi" / "dcgmi-dmon-without-times.txt"
    columns = {"GPUTL": 0, "POWER": 1, "TMPTR": 2}
    readings: dict[tuple[str, str], list[Decimal]] = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("GPU"):
            kind, number, *cells = line.split()
            for name, column in columns.items():
                if cells[column] != "N/A":
                    readings.setdefault((f"{kind} {number}", name), []).append(Decimal(cells[column]))
    trace = read(path)
    masks = {  # 1, 1, 1 of GPU 1; 0, 4, 36 of GPU 0
        ("GPU 1", "gpu_idle"): (3.0,),
        ("GPU 0", "sw_power_cap"): (2.0,),
        ("GPU 0", "sw_thermal_slowdown"): (1.0,),
    }
    assert summarised(trace) == {key: statistics(found) for key, found in readings.items()} | masks
    assert dict(zip(trace.summaries.name, trace.summaries.unit, strict=True))["POWER"] == "W"
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert dict(zip(devices.device, devices.name, strict=True)) == dict.fromkeys((0, 1), "NVIDIA H100 PCIe")
    assert trace.report.reader.removed == {"structure": 7}


def test_times_that_the_shell_has_put_before_lines() -> None:
    path = SAMPLES / "smi" / "dcgmi-dmon-with-times-of-ts.txt"
    expected = []
    for line in path.read_text("utf-8").splitlines()[2:]:
        stamp, _, device, *link, power, energy, active = line.split()
        cells = zip(("POWER", "TOTEC", "SMACT"), ("W", "mJ", None), (power, energy, active), strict=True)
        ts = int(Decimal(stamp) * 10**9)
        expected += [(int(device), name, ts, float(cell), unit) for name, unit, cell in cells if cell != "N/A"]
        assert not link or link == ["LINK", "2"]
    trace = read(path)
    assert readings(trace) == sorted(expected, key=str)
    assert dict(trace.report.reader.removed) == {"structure": 2}
    assert trace.events.track.dropna().tolist() == ["LINK 2"]


@pytest.mark.parametrize("stamp", ["2024-05-01 12:34:56", "[2024-05-01T12:34:56.000]", "1714566896", "12:34:56"])
def test_forms_of_times_before_lines(tmp_path: Path, stamp: str) -> None:
    lines = ("#Entity   GPUTL", "ID", "GPU 3     98")
    trace = read(written(tmp_path, "".join(f"{stamp} {line}\n" for line in lines)))
    midnight = 0 if stamp == "12:34:56" else 1_714_521_600
    assert readings(trace) == [(3, "GPUTL", (midnight + 45_296) * 10**9, 98.0, None)]


def test_rocm_smi_csv_and_json(tmp_path: Path) -> None:
    trace = read(SAMPLES / "smi" / "rocm-smi-of-two-calls.csv")
    found = summarised(trace)
    assert found["GPU 0", "Average Graphics Package Power"] == (2, 536.0, 512.0, 560.0)
    assert found["GPU 1", "Average Graphics Package Power"] == (1, 90.5, 90.5, 90.5)  # the other one is N/A
    assert found["GPU 0", "sclk clock speed"] == (2, 1900.0, 1700.0, 2100.0)
    assert (found["GPU 0", "auto"], found["GPU 0", "manual"], found["GPU 1", "auto"]) == ((1.0,), (1.0,), (2.0,))
    memory = trace.catalog[trace.catalog.name == "AMD Instinct MI250X"].facts
    assert [json.loads(facts)["memory"] for facts in memory] == [68_702_699_520] * 2
    path = SAMPLES / "smi" / "rocm-smi-a-line-a-call.json"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    expected = {
        (f"GPU {card[4:]}", heading.partition(" (C)")[0].partition(" (%)")[0].partition(" (VRAM%)")[0].rstrip(":")): (
            statistics([Decimal(line[card][heading].strip("()Mhz")) for line in lines])
        )
        for card in ("card0", "card1")
        for heading in lines[0][card]
    }
    assert summarised(read(path)) == expected
    damaged = written(tmp_path, path.read_text("utf-8") + '{"card0": {"GPU use (%)": 98}}\n{"card0": {"GP', "cut.json")
    assert dict(read(damaged).report.reader.removed) == {"bad-record": 2}


@pytest.mark.parametrize("row", ["GPU 0     98      71.2    5", "GPU zero  98      71.2", "98      71.2"])
def test_rows_of_dcgmi_that_fit_no_heading_are_skipped(tmp_path: Path, row: str) -> None:
    text = f"#Entity   GPUTL   POWER\nID                W\nGPU 0     97      70.0\n{row}\n"
    trace = read(written(tmp_path, text, "gpu.log"))
    assert summarised(trace)["GPU 0", "POWER"] == (1, 70.0, 70.0, 70.0)
    assert dict(trace.report.reader.removed) == {"structure": 2, "bad-record": 1}


@pytest.mark.parametrize(("end", "said"), [("", False), ("\n", True)])
def test_a_state_that_only_a_cut_line_has_is_none(tmp_path: Path, end: str, said: bool) -> None:
    """`3` may be what is left of `36`."""
    text = f"#Entity   GPUTL   DVCCTR\nID\nGPU 0     97      4\nGPU 0     98      3{end}"
    found = summarised(read(written(tmp_path, text)))
    assert found["GPU 0", "sw_power_cap"] == (1.0,)
    assert (("GPU 0", "gpu_idle") in found) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# gpu   pwr gtemp\n# Idx     W     C\n    0    71    33\n", True),
        ("#Time        gpu   pwr\n#HH:MM:SS    Idx     W\n 12:34:56      0    71\n", False),
    ],
)
def test_readings_without_times_are_told(tmp_path: Path, text: str, said: bool) -> None:
    trace = read(written(tmp_path, text))
    assert ("no-times" in trace.report.issues) is said
    assert len(trace.summaries) == (2 if said else 0)


@pytest.mark.parametrize(("own", "said"), [({"device": 0}, True), ({"pid": 1, "tid": 7}, False)])
def test_states_of_a_device_are_nothing_that_the_host_did(tmp_path: Path, own: dict[str, int], said: bool) -> None:
    """A log of states has nothing to add up; ranges of a thread are added up."""
    nothing = "There is nothing to add up: no device work and no host calls."
    assert [note[: len(nothing)] for note in ktrace.summary(THROTTLED).notes] == [nothing]
    row = {
        "record": "event",
        "source": "a",
        "id": 1,
        "kind": "range",
        "name": "P0",
        "ts": 1,
        "dur": 5,
        "timing": "measured",
    }
    path = written(tmp_path, '{"ktrace":"1.0"}\n' + json.dumps(row | own) + "\n", "rows.jsonl")
    assert (nothing in ktrace.summary(path).notes) is said


def test_a_summary_of_readings_alone_says_how_to_ask_for_them(tmp_path: Path) -> None:
    """The question in the note is asked; a log of states has none."""
    log = SAMPLES / "smi/amd-smi-metric-with-lists.csv"
    (note,) = ktrace.summary(log, by=["kernel"]).notes
    assert note.endswith(f" Its counters: ktrace summary {log} --by counter")
    row = {"record": "event", "source": "a", "id": 1, "kind": "range", "name": "P0", "ts": 1, "dur": 5, "device": 0}
    states = written(tmp_path, '{"ktrace":"1.0"}\n' + json.dumps(row | {"timing": "measured"}) + "\n", "rows.jsonl")
    assert ktrace.summary(states).notes == ["There is nothing to add up: no device work and no host calls."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# gpu   pwr gtemp\n# Idx     W     C\n    0    71    33\n", 'ktrace query {} "from summaries"'),
        ("#Time        gpu   pwr\n#HH:MM:SS    Idx     W\n 12:34:56      0    71\n", "ktrace summary {} --by counter"),
    ],
)
def test_figures_without_times_are_summaries(tmp_path: Path, text: str, said: str) -> None:
    log = written(tmp_path, text)
    (note,) = (note for note in ktrace.summary(log, by=["kernel"]).notes if "ktrace" in note)
    assert note.endswith(said.format(log))
    records = {"query": "from summaries", "summary": "from events"}[said.split()[1]]
    (row,) = (one for one in ktrace.query(log, records).to_pylist() if one["unit"] == "W")
    assert row["value" if records == "from events" else "avg"] == 71
