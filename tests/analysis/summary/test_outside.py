"""What devices lose before their first and after their last work, what is set up once, and what to do about it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from idle_traces import Row, host, work, written

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.answers.summary.verdict import advice
from ktrace.analysis.work.findings import Finding
from ktrace.tables import brief


def summary_of(folder: Path, rows: list[Row]) -> Summary:
    return ktrace.summary(written(folder / "run.jsonl", rows), by=["idle"])


def back_to_back(first: int, count: int = 10, dur: int = 1_000_000) -> list[Row]:
    """Kernels of 1 ms in a row, launched one after the other, with a synchronisation behind them."""
    rows: list[Row] = []
    for number in range(count):
        rows.append(host("cudaLaunchKernel", first + 10_000 * number, first + 10_000 * number + 5_000, number + 1))
        begin = first + 10_000 + number * (dur + 1_000)
        rows.append(work("softmax", begin, begin + dur, number + 1))
    return rows


def outside(summary: Summary) -> Finding | None:
    return next((one for one in summary.findings if one.code == "outside"), None)


def test_the_host_before_the_first_work_of_a_step(tmp_path: Path) -> None:
    """98 ms of preprocessing, then 10 ms of kernels without a gap: the step is the host's."""
    rows = [host("ProfilerStep#6", 1_000_000, 112_000_000, kind="range")]
    rows += [host("preprocess", 1_010_000, 99_010_000, kind="range"), *back_to_back(100_000_000)]
    summary = summary_of(tmp_path, rows)
    found = outside(summary)
    assert found is not None
    assert (found.value, found.whole, found.of, found.look) == (99_010_000 + 1_981_000, 111_000_000, "the step", 1)
    assert (found.details["before_ns"], found.details["after_ns"]) == (99_010_000, 1_981_000)
    assert found.details["host_was_in"] == "preprocess" and found.remedy
    assert summary.verdict[1].startswith("Device 0 is busy for 9.0% of the step, 111 ms: for 99.9% of the 10.0 ms")
    assert not any("Little time is lost" in line for line in summary.verdict)


def test_what_the_host_was_in_before_is_not_said_of_the_time_after(tmp_path: Path) -> None:
    rows = [host("ProfilerStep#6", 0, 112_000_000, kind="range"), host("preprocess", 10_000, 9_000_000, kind="range")]
    summary = summary_of(tmp_path, [*rows, *back_to_back(10_000_000)])
    found = outside(summary)
    assert found is not None and found.details["after_ns"] == 91_981_000 and found.remedy
    assert "host_was_in" not in found.details
    assert "the CPU after the last device work" in " ".join(summary.verdict) and "preprocess" not in str(
        summary.verdict
    )


def test_a_host_that_is_not_recorded_is_not_accused(tmp_path: Path) -> None:
    """Two devices one after the other: each is without work for most of the recording, which tells of no calls."""
    rows = [{**work("matmul", 1_000, 2_250, 0), "device": 1}, {**work("softmax", 3_000, 3_150, 0), "device": 0}]
    summary = summary_of(tmp_path, rows)
    found = outside(summary)
    assert found is not None and (found.value, found.whole) == (2_150 - 150 + 2_150 - 1_250, 2 * 2_150)
    said = " ".join(summary.verdict)
    assert "the time before the first and after the last device work" in said and "CPU" not in said
    assert "The 2 devices are each busy for 100.0% of their time" in said
    assert found.remedy.startswith("Record host calls")


@pytest.mark.parametrize(
    ("after", "where"), [(1_000_000, "before the first"), (60_000_000, "before the first and after the last")]
)
def test_time_at_both_ends_is_said_of_both(after: int, where: str, tmp_path: Path) -> None:
    rows = [host("ProfilerStep#6", 0, 110_019_000 + after, kind="range")]
    rows += [host("preprocess", 10_000, 99_000_000, kind="range"), *back_to_back(100_000_000)]
    assert f"the CPU {where} device work: " in summary_of(tmp_path, rows).verdict[-1]


@pytest.mark.parametrize("recorded", [10, 4])
def test_what_was_queued_when_the_recording_ended_is_not_the_hosts(recorded: int, tmp_path: Path) -> None:
    """The host has launched all, and goes on; of the work the first kernels alone are there."""
    later = host("write_checkpoint", 11_100_000, 80_000_000, kind="range")
    rows = [row for row in back_to_back(1_000_000) if row["kind"] != "kernel" or row["correlation"] <= recorded]
    summary = summary_of(tmp_path, [host("ProfilerStep#1", 990_000, 80_000_000, kind="range"), *rows, later])
    found, codes = outside(summary), [one.code for one in summary.checks]
    assert (found is None, codes) == ((False, []) if recorded == 10 else (True, ["check.queued_at_end"]))
    said = "6 of 10 launches were still queued when the recording of the device ended: their work isn't in it."
    assert any(said in line for line in advice(summary.findings)) == (recorded == 4)


def test_little_is_lost_where_devices_work_throughout(tmp_path: Path) -> None:
    rows = [host("ProfilerStep#6", 99_900_000, 110_100_000, kind="range"), *back_to_back(100_000_000)]
    summary = summary_of(tmp_path, rows)
    assert outside(summary) is None
    assert summary.verdict[1].startswith("Device 0 is busy for 99.9% of its 10.0 ms")
    assert summary.verdict[-1].startswith("Little time is lost")


def test_a_recording_without_steps_has_its_host_too(tmp_path: Path) -> None:
    rows = [host("read_batch", 0, 50_000_000, kind="range"), *back_to_back(50_000_000)]
    found = outside(summary_of(tmp_path, rows))
    assert found is not None and found.of == "the recording" and found.details["host_was_in"] == "read_batch"


@pytest.mark.parametrize(("from_", "said"), [(0, True), (49_000_000, False)])
def test_a_call_is_blamed_only_for_its_own_part_of_the_time(from_: int, said: bool, tmp_path: Path) -> None:
    """A recording of rocmProfileData has 82 us of hipMalloc in 3.5 s: allocating less doesn't help."""
    rows = [host("hipGetDevice", 0, 100), host("hipMalloc", from_ + 1_000, 50_000_000), *back_to_back(50_000_000)]
    summary = summary_of(tmp_path, rows)
    found = outside(summary)
    assert found is not None
    assert ("hipMalloc" in str(found.details["host_was_in"])) is said is found.remedy.startswith("Allocate once")
    assert ("hipMalloc" in " ".join(summary.verdict)) is said
    assert ("49.0 ms of it the CPU was in no recorded call or range" in " ".join(summary.verdict)) is not said


def test_what_the_first_work_was_queued_behind_is_not_the_hosts(tmp_path: Path) -> None:
    """Launched at once, begun 150 ms later: the device did what the recording lacks."""
    rows = [row | {"ts": row["ts"] + 150_000_000} if row["kind"] == "kernel" else row for row in back_to_back(0)]
    found = {one.code: one for one in summary_of(tmp_path, rows).findings}
    assert "outside" not in found and found["heaviest.operation"].look == 1
    later = [row | {"ts": row["ts"] + 150_000_000} for row in back_to_back(0)]
    found = {one.code: one for one in summary_of(tmp_path, [host("read", 0, 149_000_000), *later]).findings}
    assert found["outside"].value == 150_010_000


def test_what_the_host_waited_for_before_the_first_work_is_not_its_own(tmp_path: Path) -> None:
    """100 ms in a synchronisation, and 20 ms elsewhere: a device that isn't seen to work worked for the 100."""
    rows = [host("hipDeviceSynchronize", 0, 100_000_000), host("read", 100_000_000, 120_000_000, kind="range")]
    rows += back_to_back(120_000_000)
    found = outside(summary_of(tmp_path, rows))
    assert found is not None
    assert (found.value, found.details["host_was_in"]) == (20_010_000, "read")
    rows[0]["name"] = "roctxMarkA"
    found = outside(summary_of(tmp_path, rows))
    assert found is not None and found.value == 120_010_000


def test_the_start_of_a_recording_is_not_first_where_steady_work_follows(tmp_path: Path) -> None:
    """Two recordings that begin with 60 and 600 ms of the host; then 10 kernels of 10 ms, 2 ms apart."""
    for start, first in ((60_000_000, "idle.host_late"), (600_000_000, "outside")):
        rows: list[Row] = [host("read", 0, start, kind="range")]
        for number in range(10):
            call = start + 12_000_000 * number
            rows += [host("cudaLaunchKernel", call, call + 5_000, number + 1)]
            rows += [work("gemm", call + 10_000, call + 10_010_000, number + 1)]
        found = {one.look: one.code for one in summary_of(tmp_path, rows).findings if one.look}
        assert found[1] == first and set(found.values()) == {"idle.host_late", "outside"}
        assert "before the first device work, once in the recording" in summary_of(tmp_path, rows).verdict[-1]
    rows.append(host("ProfilerStep#1", 0, start + 120_000_000, kind="range"))
    assert next(one.code for one in summary_of(tmp_path, rows).findings if one.look == 1) == "outside"
    assert "before the first device work: 602 ms" in summary_of(tmp_path, rows).verdict[-1]


def test_the_profilers_own_range_is_not_the_host(tmp_path: Path) -> None:
    rows = back_to_back(1_000_000)
    own = host("PyTorch Profiler (0)", 0, 900_000_000, kind="range") | {"cat": "Trace", "tid": None, "pid": None}
    assert outside(summary_of(tmp_path, [*rows, own])) is None
    assert outside(summary_of(tmp_path, [*rows, own | {"cat": "user_annotation"}])) is not None


@pytest.mark.parametrize(("gap", "looks"), [(100_000, "heaviest.operation"), (400_000, "idle.unknown")])
def test_idle_time_that_nothing_explains_is_first_where_it_is_much(gap: int, looks: str, tmp_path: Path) -> None:
    rows = [work("gemm", number * (1_000_000 + gap), number * (1_000_000 + gap) + 1_000_000, 0) for number in range(20)]
    assert [one.code for one in summary_of(tmp_path, rows).findings if one.look] == [looks]


def test_what_is_set_up_once_is_apart(tmp_path: Path) -> None:
    """6.5 s of cudaFree before the first kernel make a context: nothing that the program could do meanwhile."""
    rows = [host("cudaFree", 0, 6_500_000_000), *back_to_back(6_500_100_000)]
    assert outside(summary_of(tmp_path, rows)) is None


def test_a_module_that_is_loaded_in_between_is_no_late_host(tmp_path: Path) -> None:
    rows = back_to_back(1_000_000)
    load = host("cuModuleLoadData", 11_100_000, 31_000_000)
    later = back_to_back(31_000_000)
    for row in later:
        row["correlation"] = row["correlation"] and row["correlation"] + 100
    codes = {one.code: one for one in summary_of(tmp_path, [*rows, load, *later]).findings}
    assert codes["idle.setup"].value > 19_000_000 and codes["idle.setup"].look == 2
    assert "idle.host_late" not in codes or codes["idle.host_late"].value < 200_000
    assert codes["heaviest.operation"].details["setup_ns"] == codes["idle.setup"].value
    last = summary_of(tmp_path, [*rows, load, *later]).verdict[-1]
    assert last.startswith("Apart from 20.0 ms of one-time set-up, little time is lost between kernels")
    short = summary_of(tmp_path, rows).verdict[-1]
    assert short.startswith("Little time is lost between kernels")
    load["name"] = "read_batch"
    codes = {one.code: one for one in summary_of(tmp_path, [*rows, load, *later]).findings}
    assert "idle.setup" not in codes and codes["idle.host_late"].look == 1


@pytest.mark.parametrize(("launches", "first"), [(60, "idle.host_synchronised"), (12, "idle.setup")])
def test_losses_are_of_the_time_without_set_up(launches: int, first: str, tmp_path: Path) -> None:
    """A module is loaded for 400 ms, and the host waits after each kernel of the rest, if there is much of it."""
    rows: list[Row] = [host("cudaLaunchKernel", 0, 5_000, 1), work("softmax", 10_000, 20_000, 1)]
    rows.append(host("cuModuleLoadData", 20_000, 400_020_000))
    now = 400_020_000
    for number in range(2, launches + 2):
        rows += [host("cudaLaunchKernel", now, now + 5_000, number), work("gemm", now + 10_000, now + 70_000, number)]
        rows.append(host("cudaStreamSynchronize", now + 5_000, now + 72_000))
        now += 90_000
    codes = {one.code: one for one in summary_of(tmp_path, rows).findings}
    assert codes[first].look == 1 and {codes[one].look for one in ("idle.setup", "idle.host_synchronised")} == {1, 2}
    waits, setup = codes["idle.host_synchronised"], codes["idle.setup"]
    assert (waits.whole or 0) == (setup.whole or 0) - setup.value and 20 < (waits.share or 0) < 40
    assert waits.of == "the devices' time without one-time set-up" and "run a warm-up" in setup.remedy


def test_the_first_call_of_a_name_may_set_something_up(tmp_path: Path) -> None:
    """Lazy loading makes the first launch long; one that is as long each time isn't set-up."""
    for every, cause in ((False, "idle.setup"), (True, "idle.host_late")):
        rows: list[Row] = [host("cudaLaunchKernel", 0, 5_000, 1), work("softmax", 10_000, 20_000, 1)]
        now = 30_000
        for number in range(2, 8):
            long = 50_000_000 if every or number == 2 else 4_000
            rows.append(host("cudaLaunchKernelExC", now, now + long, number))
            rows.append(work("softmax", now + long + 5_000, now + long + 15_000, number))
            now += long + 20_000
        codes = {one.code: one.value for one in summary_of(tmp_path, rows).findings}
        assert max((code for code in codes if code.startswith("idle.")), key=codes.__getitem__) == cause


@pytest.mark.parametrize(
    ("name", "before", "is_setup"),
    [
        ("cudaMalloc", False, True),
        ("cudaMalloc", True, False),
        ("hipGetDeviceCount", False, True),
        ("cudaMemcpy", False, False),
    ],
)
def test_the_first_call_of_all_creates_the_context(name: str, before: bool, is_setup: bool, tmp_path: Path) -> None:
    """One alone of its name, too; not one that copies, nor one after other calls."""
    rows = [host("cudaStreamCreate", 0, 5_000)] if before else []
    rows.append(host(name, 10_000, 1_200_010_000))
    for number in range(1, 21):
        now = 1_200_020_000 + number * 5_000
        rows.append(host("cudaLaunchKernel", now, now + 4_000, number))
        rows.append(
            work("gemm", 1_200_030_000 + number * 1_001_000, 1_200_030_000 + number * 1_001_000 + 1_000_000, number)
        )
    codes = {one.code: one for one in summary_of(tmp_path, rows).findings}
    assert ("outside" in codes) is not is_setup
    assert (codes["heaviest.operation"].details.get("setup_ns") == 1_200_000_000) is is_setup


@pytest.mark.parametrize("long", [400_000_000, 20_000_000_000])
@pytest.mark.parametrize("every", [False, True])
def test_a_first_launch_that_loads_a_module_is_no_late_host_before_the_work(
    every: bool, long: int, tmp_path: Path
) -> None:
    """A long first call of a step, be it nearly all of the recording; a host of which each call is so long is slow."""
    rows, now = [host("ProfilerStep#0", 0, 0, kind="range")], 10_000
    for number in range(1, 61):
        call = long if every or number == 1 else 4_000
        rows.append(host("cudaLaunchKernel", now, now + call, number))
        begin = max(now + call + 5_000, int(rows[-2].get("ts", 0)) + 1_001_000 if number > 1 else 0)
        rows.append(work("softmax", begin, begin + 1_000_000, number))
        now += call + 1_000
    end = begin + 1_100_000
    rows[0] = host("ProfilerStep#0", 0, end, kind="range")
    summary = summary_of(tmp_path, rows)
    codes = {one.code: one for one in summary.findings}
    if every:
        assert "setup_ns" not in codes["heaviest.operation"].details
        assert not summary.checks and codes["idle.host_late"].look == 1
    else:
        assert "outside" not in codes and codes["heaviest.operation"].details["setup_ns"] == long
        assert summary.verdict[-1].startswith(f"Apart from {brief(long)} of one-time set-up, little time is lost")


@pytest.mark.parametrize(
    ("long", "new", "cause"), [(6_500_000, True, "setup"), (6_500_000, False, "host_late"), (60_000, True, "host_late")]
)
def test_the_first_launch_of_a_kernel_may_load_its_module(long: int, new: bool, cause: str, tmp_path: Path) -> None:
    """As on an MI250, whose 17th launch is the first of its kernel; a launch that long of a known kernel is none."""
    rows: list[Row] = []
    now = 0
    for number in range(1, 12):
        call = long if number == 9 else 5_000
        rows.append(host("hipLaunchKernel", now, now + call, number))
        name = "add" if number == 9 and new else "softmax"
        rows.append(work(name, now + call + 5_000, now + call + 15_000, number))
        now += call + 20_000
    codes = {one.code: one.value for one in summary_of(tmp_path, rows).findings}
    assert max((code for code in codes if code.startswith("idle.")), key=codes.__getitem__) == f"idle.{cause}"


@pytest.mark.parametrize("is_told", [True, False])
def test_calls_that_are_recorded_are_not_asked_for_where_none_found_the_device_idle(
    is_told: bool, tmp_path: Path
) -> None:
    """Each kernel begins 300 us after its call has returned, while those of eight others run: nothing says why."""
    rows: list[Row] = []
    for number in range(80):
        call = 36_000 * number + 700 * (number % 5)
        rows += [host("cudaLaunchKernel", call, call + 4_000, number + 1)] * is_told
        rows.append(work("gemm", call + 304_000, call + (313_000, 305_400, 305_100)[number % 3], number + 1))
    (found,) = (one for one in summary_of(tmp_path, rows).findings if one.look == 1)
    assert found.code == "idle.unknown"
    assert ("Record host calls, too" in found.remedy) is not is_told


@pytest.mark.parametrize("late", [40_000, 60_000, 400_000])
def test_work_queued_before_excuses_no_gap_of_the_host(late: int, tmp_path: Path) -> None:
    """100 kernels, each launched within the gap before it, then one of another stream that begins late."""
    rows: list[Row] = []
    for number in range(100):
        call = 1_000_000 + 500_000 * number
        rows += [host("cudaLaunchKernel", call, call + 5_000, number + 1)]
        rows += [work("gemm", call + 10_000, call + 110_000, number + 1)]
    rows += [host("cudaLaunchKernel", 51_000_000, 51_005_000, 101)]
    rows += [work("gemm", 51_005_000 + late, 51_105_000 + late, 101, stream=8)]
    codes = {one.code: one for one in summary_of(tmp_path, rows).findings}
    assert codes["idle.host_late"].look == 1 and (codes["idle.host_late"].share or 0) > 78


def test_small_causes_together_are_not_little(tmp_path: Path) -> None:
    """Exposed copies and a late host of 4 % each, which alone would be nothing."""
    rng = random.Random(1)
    rows: list[Row] = []
    now, correlation = 0, 0
    for _ in range(40):
        for kind, name, dur in (("kernel", "gemm", 900_000), ("memcpy", "Memcpy HtoD", 55_000 + rng.randrange(500))):
            correlation += 1
            rows += [host("cudaLaunchKernel", now, now + 5_000, correlation)]
            rows += [work(name, now + 30_000, now + 30_000 + dur, correlation, kind=kind)]
            now += 30_000 + dur
    summary = summary_of(tmp_path, rows)
    losses = [one for one in summary.findings if one.look]
    assert losses and all((one.share or 0) < 6 for one in losses) and sum(one.share or 0 for one in losses) >= 8
    assert not any("Little time is lost" in line for line in summary.verdict)


def test_a_remedy_fits_what_the_host_was_in(tmp_path: Path) -> None:
    cases = (
        ("DataLoader.__next__", "loader"),
        ("cudaMalloc", "Allocate"),
        ("read", "Shorten what the host does in read"),
    )
    for name, words in cases:
        rows: list[Row] = []
        for number in range(10):
            begin = 1_000_000 * number
            kind = "api" if name.startswith("cuda") else "op"
            rows += [host(name, begin, begin + 800_000, kind=kind)]
            rows += [host("cudaLaunchKernel", begin + 800_000, begin + 805_000, number + 1)]
            rows += [work("gemm", begin + 810_000, begin + 990_000, number + 1)]
        summary = summary_of(tmp_path, rows)
        first = next(one for one in summary.findings if one.look == 1)
        assert first.code == "idle.host_late" and words in first.remedy
        assert not any(one.remedy for one in summary.findings if not one.look)
        assert f"Try: {first.remedy}" in str(summary.tables()[0])


def test_short_gaps_are_those_of_launches(tmp_path: Path) -> None:
    rows: list[Row] = []
    for number in range(50):
        begin = 100_000 * number
        rows += [host("cudaLaunchKernel", begin, begin + 90_000, number + 1)]
        rows += [work("gemm", begin + 95_000, begin + 115_000, number + 1)]
    first = next(one for one in summary_of(tmp_path, rows).findings if one.look == 1)
    assert first.code == "idle.host_late" and first.remedy.startswith("Launch less often")


@pytest.mark.parametrize("related", [False, True])
def test_clocks_that_nothing_relates_leave_the_devices_own_figures(related: bool, tmp_path: Path) -> None:
    """A report of tt-metal has the host's times on the host's clock; of the same run with calls the host is late."""
    begins = [7_000_000_000 + 1_000_000 * number for number in range(20)]
    if related:
        rows: list[Row] = []
        for number, begin in enumerate(begins, 1):
            rows += [host("launch", begin - 9_000, begin - 5_000, number), work("Matmul", begin, begin + 9_500, number)]
        path = written(tmp_path / "run.jsonl", rows)
    else:
        head = "OP CODE,OP TYPE,GLOBAL CALL COUNT,DEVICE ID,DEVICE ARCH,HOST START TS,HOST END TS,HOST DURATION [ns],"
        lines = [f"{head}DEVICE FW START CYCLE,DEVICE FW END CYCLE,DEVICE FW DURATION [ns],DEVICE KERNEL DURATION [ns]"]
        for number, begin in enumerate(begins):
            times = f"{5_000 + 1_000_000 * number},{9_000 + 1_000_000 * number},4000,{begin},{begin + 10_000}"
            lines.append(f"Matmul,tt_dnn_device,{number},0,wormhole_b0,{times},10000,9500")
        path = tmp_path / "ops_perf_results.csv"
        path.write_text("\n".join(lines) + "\n")
    summary = ktrace.summary(path, by=["idle"])
    first = next(one for one in summary.findings if one.look == 1)
    assert (summary.devices[0].busy, first.code == "idle.host_late") == (190_000, related)
    blamed = [one.code for one in summary.findings if one.code.startswith(("idle.host", "idle.launch", "outside"))]
    assert (blamed != []) == related == any("late launches" in line for line in summary.verdict)
    if not related:
        assert first.code == "idle.unknown" and first.value == 19 * 1_000_000 - 19 * 9_500
        assert "Device 0 is busy for 1.0% of its 19.0 ms, and idle for 18.8 ms." in summary.verdict
        assert "on another clock" in first.remedy and not any("CPU" in line for line in summary.verdict)
