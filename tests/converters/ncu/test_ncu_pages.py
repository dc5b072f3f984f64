"""Nsight Compute: pages as real programs of 2022 and 2024 print them. The samples are synthetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAMPLES
from test_ncu import launches, rows, write

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput
from ktrace.pipeline.convert import convert

NCU = SAMPLES / "ncu"


PARTS_TEXT = NCU / "printed-details-all-cells-over-lines.txt"
PARTS = NCU / "details-all-with-parts-and-both-names.csv"
SUMMARIES = NCU / "summaries-of-2022-and-per-gpu.txt"


def test_cells_over_several_lines() -> None:
    ((_, behind),) = launches(rows(PARTS_TEXT))
    found = {row["metric"]: row for row in behind if row["kind"] == "metric"}
    opcodes = found["sass__inst_executed_per_opcode"]
    assert opcodes["value"] == 5_242_880 + 3_145_728 + 15_204_352  # the aggregate leads
    assert opcodes["args"] == {"Metric Value": "23592960 (5242880; 3145728; 15204352)"}
    names = found["numa__dev_display_name_all"]
    assert (names["value"], names["args"]["Metric Value"]) == (2.0, "2 (Quadro P620; NVIDIA RTX A4500)")
    assert found["dram__cycles_active.avg.pct_of_peak_sustained_elapsed_over_the_whole"]["value"] == 53.25
    assert found["smsp__inst_executed.sum"]["value"] == 655_360
    assert "memory_type" not in found  # of which no value was printed
    assert len(found) == 2 + 1 + 4


def test_parts_of_a_section_are_scopes() -> None:
    ((_, behind),) = launches(rows(PARTS_TEXT))
    named = {row["name"]: row for row in behind}
    assert named["DRAM: Cycles Active"]["scope"] == ["GPU Speed Of Light Throughput", "Memory Throughput Breakdown"]
    assert named["DRAM: Cycles Active"]["metric"] == "dram__cycles_active.avg.pct_of_peak_sustained_elapsed"
    assert named["Memory Throughput"]["scope"] == ["GPU Speed Of Light Throughput"]


def test_advice_without_a_mark_and_with_its_metrics() -> None:
    ((_, behind),) = launches(rows(PARTS_TEXT))
    notes = {row["name"]: row["args"] for row in behind if row["kind"] == "note"}
    assert notes["No pipeline is over-utilized, says a rule without a mark."] == {}
    assert notes["Gathers are not coalesced."] == {
        "Rule Type": "OPT",
        "Focus Metrics": [
            {"metric": "sm__cycles_active.avg", "value": "33.5", "advice": "Decrease it, as far as it goes"}
        ],
        "Estimated Speedup Type": "local",
        "Estimated Speedup": 12.5,
    }
    assert list(notes)[2:] == [
        "GPU ID 0, GPU Name Quadro P620, CPU Affinity 0-15",
        "GPU ID 1, GPU Name NVIDIA RTX A4500, CPU Affinity 16-31",
        "The system does not have any NVLink connections.",
    ]


@pytest.mark.parametrize("path", [PARTS_TEXT, PARTS, SUMMARIES], ids=lambda path: path.stem)
def test_nothing_of_these_pages_is_left_over(path: Path, tmp_path: Path) -> None:
    assert convert(path, tmp_path / "out.parquet", strict=True).balanced()


def test_both_names_and_parts_of_the_csv() -> None:
    ((head, behind),) = launches(rows(PARTS))
    said = [(row["name"], row["metric"], row["value"]) for row in behind if row["kind"] == "metric"]
    active = "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active"
    executed = "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"
    memory = "dram__cycles_active.avg.pct_of_peak_sustained_elapsed"
    assert said == [
        ("Duration", "gpu__time_duration.sum", 12_500.0),
        ("ALU", active, 3.78),
        ("ALU", executed, 3.5),
        ("SM Frequency", "sm__cycles_elapsed.avg.per_second", 1.05e9),
        ("Executed Instruction Mix", "sass__inst_executed_per_opcode", 294_912.0 + 1_081_344.0),
        (memory, memory, 73.47),
    ]
    assert head["total"] == 12_500
    notes = [row["name"] for row in behind if row["kind"] == "note"]
    assert notes == [
        "GPU ID 0, GPU Name Quadro P620, CPU Affinity 0-15",
        "GPU ID 1, GPU Name NVIDIA RTX A4500, CPU Affinity 16-31",
        "The system does not have any NVLink connections.",
    ]


def test_summaries_of_2022_say_a_launch_for_each_section() -> None:
    gather, scatter, copy = launches(rows(SUMMARIES))
    head, behind = gather
    assert (head["name"], head["count"], head["device"], head["pid"]) == ("gather(int, double *)", 3, 1, 515)
    assert (head["block_x"], head["grid_x"], head["avg"]) == (256, 12_288, 240_008.0)
    assert [(row["metric"], row["avg"], row["min"], row["max"]) for row in behind] == [
        ("gpu__time_duration.sum", 240_008.0, 239_008.0, 241_008.0),
        ("sm__cycles_active.avg", 200.5, 100.5, 300.5),
        ("launch__occupancy_limit_blocks", 16.0, 16.0, 16.0),
    ]
    assert (scatter[0]["count"], scatter[0]["avg"]) == (1, 1500.0)
    assert (copy[0]["pid"], copy[0]["device"], copy[0]["count"], copy[0]["block_y"]) == (516, 0, 2, 8)


def test_rows_in_which_ncu_forgot_a_cell_are_no_metrics(tmp_path: Path) -> None:
    text = '"Process ID","Kernel Name","Device","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
    text += '"7","k(int)","0","x__y.avg","cycle","1.0","3.0","2.0"\n'
    text += '"7","k(int)","0","7","k(int)","0","x__z.avg","cycle"\n'
    text += '"7","k(int)","0","x__y.sum","cycle","10.0","30.0","20.0"\n'
    path = write(tmp_path / "summary.csv", text)
    ((_, behind),) = launches(rows(path))
    assert [(row["metric"], row["avg"]) for row in behind] == [("x__y.avg", 2.0), ("x__y.sum", 20.0)]
    assert convert(path, tmp_path / "out.jsonl").issues["bad-record"].rows == 1


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ('Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu ./app"\n', "session"),
        ("Launch Settings\n------ -----\nLaunch Attribute Value\n------ -----\n", "session"),
        ("------ ----\nKernel Name        k(int)\n------ ----\nAddress   Source   Warp S\n0x10  MOV R1  9\n", "source"),
    ],
)
def test_other_pages_are_refused_with_help(text: str, page: str, tmp_path: Path) -> None:
    with pytest.raises(ClosedFormat, match=f"the {page} page") as caught:
        ktrace.read(write(tmp_path / "page.txt", text))
    assert "--page raw" in str(caught.value.remedy)


def test_a_page_of_which_ncu_mixes_up_the_columns(tmp_path: Path) -> None:
    text = '"Process ID","Host Name","Device","CC","Kernel Name","Metric Name","Metric Unit","Average"\n'
    text += '"0","","","","","device__attribute_architecture","","368"\n'
    with pytest.raises(DamagedInput, match="into wrong columns"):
        ktrace.read(write(tmp_path / "raw.csv", text))


def test_a_summary_without_a_launch(tmp_path: Path) -> None:
    note = "Note: The shown averages are calculated as the arithmetic mean of the metric values\n"
    with pytest.raises(ClosedFormat, match="has no launch"):
        ktrace.read(write(tmp_path / "nvtx.txt", f"  {note}\n"))
    headings = '"Domain","Range:PL_Type:PL_Value","Kernel Name","Block Size","Grid Size","Device Id","Invocations",'
    headings += '"Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
    with pytest.raises((DamagedInput, ClosedFormat), match="no launch"):
        ktrace.read(write(tmp_path / "nvtx.csv", headings))
    text = (
        headings + '"<default domain>","forward:none","k(int)","256","8","1","3","x__y.sum","cycle","1.0","3.0","2.0"\n'
    )
    text += '"<default domain>","back:none","k(int)","256","8","1","2","x__y.sum","cycle","5.0","7.0","6.0"\n'
    found = launches(rows(write(tmp_path / "ranges.csv", text)))
    assert [(head["device"], head["count"], behind[0]["avg"]) for head, behind in found] == [(1, 3, 2.0), (1, 2, 6.0)]
    assert [head["args"]["Range:PL_Type:PL_Value"] for head, _ in found] == ["forward:none", "back:none"]
