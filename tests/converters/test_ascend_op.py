"""Tables of msprof op, of one kernel each, against the module csv; the samples are synthetic."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from conftest import SAMPLES
from test_ascend_csv import rows

import ktrace
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.kit.ascend_folder import CSV, OP, chosen

KERNELS = SAMPLES / "ascend-csv" / "two-kernels-of-msprof-op"
FACTORS = {"us": 1000, "KB": 1024, "GB/s": 1024**3}


def _metrics(folder: Path) -> list[tuple[str, tuple[str, ...], str, float]]:
    """Run, place, metric and value of each figure in a folder of runs, by hand."""
    found = []
    for path in folder.rglob("*.csv"):
        if not path.name.startswith("OpBasicInfo"):
            for row in csv.DictReader(path.read_text().splitlines()):
                place = f"block {row['block_id']}", row["sub_block_id"]
                for heading, cell in list(row.items())[2:]:
                    if cell not in ("NA", ""):
                        parts = re.fullmatch(r"([^(]*)(?:\((.*?)\))?(.*)", heading)
                        assert parts
                        run = str(path.parent.relative_to(folder))
                        found.append((run, place, parts[1] + parts[3], float(cell) * FACTORS.get(parts[2], 1)))
    return sorted(found)


def test_every_figure_is_a_metric_of_its_kernel() -> None:
    trace = ktrace.read(KERNELS)
    found = rows(trace, "summaries")
    ours = [(row["run"], tuple(row["scope"]), row["metric"], row["value"]) for row in found if "value" in row]
    assert sorted(ours) == _metrics(KERNELS)
    units = {row["metric"]: row.get("unit") for row in found}
    assert units["aic_cube_time"] == "ns"
    assert units["L1_to_GM_datas(estimate)"] == "B"
    assert units["aic_mte3_active_bw"] == "B/s"
    assert units["L1_to_GM_bw_usage_rate(estimate)"] == "%"
    assert units["aic_total_cycles"] is units["aic_cube_ratio"] is None
    assert not trace.report.issues


def test_the_kernels_and_what_is_theirs() -> None:
    found = rows(ktrace.read(KERNELS), "summaries")
    kernels = {row["id"]: row for row in found if row["metric"] == "duration"}
    assert {
        row["run"]: (row["name"], row["total"], row["count"], row["grid_x"], row["device"], row["cat"], row.get("pid"))
        for row in kernels.values()
    } == {
        "gemm_mix_aic/0": ("gemm_mix_aic", 9250.0, 1, 2, 3, "mix", 7001),
        "add_custom/0": ("add_custom", 4500.0, 1, 8, 0, "vector", None),
    }
    for row in found:
        if row["metric"] != "duration":
            kernel = kernels[row["parent"]]
            assert [row[key] for key in ("name", "run", "device")] == [kernel[key] for key in ("name", "run", "device")]


def test_one_run_has_no_label_and_a_table_alone_no_kernel() -> None:
    (folder,) = (KERNELS / "add_custom").iterdir()
    found = rows(ktrace.read(folder), "summaries")
    assert {row["name"] for row in found} == {"add_custom"}
    assert not any("run" in row for row in found)
    (table,) = folder.glob("Arith*")
    alone = rows(ktrace.read(table), "summaries")
    assert {(row["name"], row.get("parent"), row.get("device")) for row in alone} == {("[no name]", None, None)}
    assert len(alone) == len(found) - 1


def test_cores_without_blocks() -> None:
    (row,) = rows(ktrace.read(SAMPLES / "ascend-csv" / "l2-cache-of-a-310p.csv"), "summaries")
    assert (row["metric"], row["value"], row["unit"]) == ("aic_l2_cache_hit_rate", 72.5, "%")
    assert "scope" not in row


def test_cells_that_are_no_figures(tmp_path: Path) -> None:
    path = tmp_path / "PipeUtilization.csv"
    path.write_text(
        "block_id,sub_block_id,aic_time(us),aic_total_cycles,mystery,\n"
        "0,cube0,1.5,odd,7,\n1,cube0,NA,NA,NA,\n2,cube0,x,5,,\n"
    )
    trace = ktrace.read(path)
    found = [(row["scope"][0], row["metric"], row["value"], row.get("args")) for row in rows(trace, "summaries")]
    assert found == [
        ("block 0", "aic_time", 1500.0, {"aic_total_cycles": "odd"}),
        ("block 0", "mystery", 7.0, None),
        ("block 2", "aic_total_cycles", 5.0, {"aic_time(us)": "x"}),
    ]
    issues = trace.report.issues
    assert [place[1] for place in issues["misfit"].places] == ["aic_time(us): x", "aic_total_cycles: odd"]
    assert issues["bad-record"].rows == 1


def test_a_kernel_without_a_duration_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "OpBasicInfo.csv").write_text("Op Name,Op Type,Task Duration(us),Block Dim,Pid\ngemm,cube,NA,1,2\n")
    (tmp_path / "MemoryUB.csv").write_text("block_id,sub_block_id,aic_time(us),aic_total_cycles\n0,cube0,1,2\n")
    trace = ktrace.read(tmp_path)
    assert {(row["name"], row.get("parent")) for row in rows(trace, "summaries")} == {("[no name]", None)}
    assert trace.report.issues["bad-record"].rows == 1


def test_which_folders_are_of_msprof_op() -> None:
    found = chosen(["x/OpBasicInfo.csv", "x/Memory.csv", "x/dump/L2Cache.bin", "x/visualize_data.bin"])
    assert found is not None
    assert (found.what, len(found.read), len(found.same_run), found.strange) == (OP, 2, 2, ())
    beside = chosen(["op_summary_1.csv", "OPPROF_1/OpBasicInfo.csv", "OPPROF_1/L2Cache.csv"])
    assert beside is not None
    assert (beside.what, beside.read) == (CSV, ("op_summary_1.csv",))
    assert beside.strange == ("OPPROF_1/L2Cache.csv", "OPPROF_1/OpBasicInfo.csv")


@pytest.mark.parametrize("names", [["Memory.csv"], ["L2Cache.csv", "Memory_1.csv"]])
def test_names_that_may_be_of_any_tool(names: list[str]) -> None:
    assert chosen(names) is None


def test_tables_beside_a_run_are_said_to_be_apart(tmp_path: Path) -> None:
    (tmp_path / "op_summary_1.csv").write_text(
        "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)\n"
        "0,a,b,AI_CORE,1760000050000100.5,2\n"
    )
    (tmp_path / "OpBasicInfo.csv").write_text("Op Name,Op Type,Task Duration(us),Block Dim,Pid\ngemm,cube,5,1,2\n")
    trace = ktrace.read(tmp_path)
    assert not rows(trace, "summaries")
    (place,) = trace.report.issues["unrecognised"].places
    assert place == ("OpBasicInfo.csv", "tables of msprof op, a profile of their own: name them")


def test_instructions_and_lines_of_the_simulator() -> None:
    folder = SAMPLES / "ascend-csv"
    for name, first, core in (
        ("core1.veccore0_instr_exe_20260301120000123.csv", "instr", "core1.veccore0"),
        ("core1.cubecore0_code_exe.csv", "code", "core1.cubecore0"),
    ):
        cells = [row for row in csv.DictReader((folder / name).read_text().splitlines()) if row[first]]
        trace = ktrace.read(folder / name)
        found = [(row["name"], row["total"], row.get("count"), tuple(row["scope"])) for row in rows(trace, "summaries")]
        assert found == [
            (
                row[first],
                round(float(row["running_time(us)"]) * 1000),
                int(row["call_count"]) if row["call_count"].isdecimal() else None,
                (core, row["pipe"]) if "pipe" in row else (core,),
            )
            for row in cells
        ]
        assert {row["unit"] for row in rows(trace, "summaries")} == {"ns"}


def test_rows_of_a_real_table_of_the_simulator(tmp_path: Path) -> None:
    """Three rows that a skill for agents shows; the file has a name of its own."""
    path = tmp_path / "hot.csv"
    path.write_text(
        "instr,addr,pipe,call_count,cycles,running_time(us),detail\n"
        'VF,282121064,PUSHQ,1,564,0.300000,"addr:0x10d0da00,instr_num:0x8,"\n'
        'SET_FLAG,282121124,VECTOR,1,555,0.300000,"PIPE:VEC,TRIGGERPIPE:SCALAR,FLAGID:0xffffffff,"\n'
        'ST_XD_XN,282120960,SCALAR,1,546,0.300000,"dtype:B32,XD:X24=0,XN:X7=0x1b94d800,..."\n'
    )
    found = [(row["name"], row["total"], tuple(row["scope"])) for row in rows(ktrace.read(path), "summaries")]
    assert found == [("VF", 300, ("PUSHQ",)), ("SET_FLAG", 300, ("VECTOR",)), ("ST_XD_XN", 300, ("SCALAR",))]


def test_the_timeline_of_the_simulator_is_not_kinetos() -> None:
    trace = ktrace.read(SAMPLES / "chrome" / "instructions-of-msprof-op-simulator.json")
    found = [(row["name"], row["track"], row["ts"], row["dur"]) for row in rows(trace, "events")]
    assert sorted(found, key=lambda row: row[2]) == [
        ("MOV_OUT_TO_UB", "core0.veccore0/MTE2", 250, 750),
        ("SET_FLAG", "core0.veccore0/MTE2", 1_000, 125),
        ("VADD", "core0.veccore0/VECTOR", 1_250, 500),
    ]
    assert choose(Source(str(SAMPLES / "chrome" / "instructions-of-msprof-op-simulator.json"))).name == "chrome"
