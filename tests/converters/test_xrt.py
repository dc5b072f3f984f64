"""The timeline trace of XRT: pairs of starts and ends, transfers, and what has no other half."""

from __future__ import annotations

from pathlib import Path

from conftest import SAMPLES

import ktrace
from ktrace.input.detection import choose
from ktrace.input.source import Source

SAMPLE = SAMPLES / "xrt" / "calls-kernels-and-transfers.csv"


def test_it_is_recognised_by_its_headings(tmp_path: Path) -> None:
    assert choose(Source(str(SAMPLE))).name == "xrt"
    path = tmp_path / "run.csv"
    path.write_text("a line of another program\n" + SAMPLE.read_text("utf-8"))
    assert choose(Source(str(path))).name == "xrt"
    assert ktrace.read(path).report.rows == ktrace.read(SAMPLE).report.rows


def test_pairs_and_transfers_of_xrt() -> None:
    trace = ktrace.read(SAMPLE)
    rows = trace.events[["kind", "name", "ts", "dur"]].to_numpy().tolist()
    assert rows[:5] == [
        ["api", "clEnqueueTask|General", 100_000_000, 10_000],
        ["memcpy", "Kernel_Read|plat|mm|mm|mm_1|m_axi-DDR[0]|DDR", 100_150_000, 96],
        ["memcpy", "Kernel_Write|plat|mm|mm|mm_1|m_axi-DDR[1]|DDR", 100_300_000, 64],
        ["kernel", "KERNEL|plat|mm|mm|1:1:1|mm_1", 100_100_000, 220_000],
        ["api", "clFinish|General", 100_020_000, 310_000],
    ]
    assert trace.events.short_name.tolist()[3] == "mm"
    assert set(trace.report.issues) == {"unrecognised", "end-without-begin", "unfinished"}


def test_nested_calls_of_one_name_end_in_turn(tmp_path: Path) -> None:
    heading = SAMPLE.read_text("utf-8").splitlines()[4]
    times = ((1, "START"), (2, "START"), (3, "END"), (7, "END"))
    path = tmp_path / "run.csv"
    path.write_text(
        "\n".join([heading, *(f"{time}.000000,clFinish|General,{event},,,,,,,,,,,0," for time, event in times)])
    )
    rows = ktrace.read(path).events
    assert rows[["ts", "dur"]].to_numpy().tolist() == [[2_000_000, 1_000_000], [1_000_000, 6_000_000]]
