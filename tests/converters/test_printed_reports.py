"""Reports that programs print: TAU's pprof, Kokkos' kp_reader, Unreal's ProfileGPU, torch.utils.benchmark, XRT."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.trace.trace import Trace

NAMES = {
    "tau": "kernels-and-calls-of-two-threads.txt",
    "kokkos": "regions-kernels-and-sums.txt",
    "unreal": "two-frames-in-a-log.log",
    "torch-benchmark": "two-tables-a-gap-and-colours.txt",
    "xrt": "calls-kernels-and-transfers.csv",
}


def sample(name: str) -> Path:
    return SAMPLES / name / NAMES[name]


def of(text: str, tmp_path: Path) -> Trace:
    path = tmp_path / "x.log"
    path.write_text(text)
    return ktrace.read(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_recognised_amid_other_lines(name: str, tmp_path: Path) -> None:
    assert choose(Source(str(sample(name)))).name == name
    path = tmp_path / "run.log"
    path.write_text(f"starting the run\n\n{sample(name).read_text('utf-8')}\ndone in 3 s\n")
    assert choose(Source(str(path))).name == name
    rows = ktrace.read(path).report.rows
    assert rows == ktrace.read(sample(name)).report.rows


def test_exclusive_times_of_tau_add_up() -> None:
    trace = ktrace.read(sample("tau"))
    rows = trace.summaries[trace.summaries.metric == "duration"]
    assert rows.total.tolist() == [38_000, 10_250e6, 40_000e6, 20_249.962e6, 7.5e6, 68_800]
    assert rows.kind.tolist() == ["op", "op", "kernel", "api", "op", "kernel"]
    assert rows["count"].tolist() == [1, 1, 1000, 2, 1, 25] and rows.tid.tolist() == [0, 0, 0, 0, 1, 1]
    assert rows.device.dropna().tolist() == [0] and rows.short_name.dropna().tolist()[-1] == "gather_kernel<float>"
    inclusive = trace.summaries[trace.summaries.metric == "inclusive"]
    assert inclusive.total.tolist()[:2] == [70_500e6, 70_499e6]
    assert trace.report.reader.removed["folded"] == 2


def test_times_of_tau_from_an_hour_on(tmp_path: Path) -> None:
    lines = sample("tau").read_text("utf-8").splitlines()[2:7]
    row = "100.0     1:00.000   1:02:03.500           1           0  3723500000 main"
    rows = of("\n".join([*lines, row, ""]), tmp_path).summaries
    assert rows.total.tolist() == [60e9, 3723.5e9]


def test_kernels_and_regions_of_kokkos() -> None:
    rows = ktrace.read(sample("kokkos")).summaries
    assert rows[["kind", "name", "count", "total", "percent"]].to_numpy().tolist()[:4] == [
        ["range", "solve [cg]", 1, 450e6, 90],
        ["kernel", "step", 100, 400e6, 80],
        ["kernel", "Kokkos::View::initialization [x - y] via memset", 2, 40e6, 8],
        ["kernel", "norm", 100, 60e6, 12],
    ]
    assert rows.total.tolist()[4:] == [1e9, 500e6] and rows.kind.tolist()[4:] == ["total"] * 2


def test_passes_of_unreal_are_within_the_frame() -> None:
    trace = ktrace.read(sample("unreal"))
    rows = [row for row in trace.to_arrow()["summaries"].to_pylist() if row["metric"] == "duration"]
    found = [(row["kind"], row["name"], row["total"], row["scope"][1:]) for row in rows if row["table"] == 0]
    assert found == [
        ("total", "total GPU time", 5e6, []),
        ("kernel", "FRAME", 0.2e6, []),
        ("kernel", "Scene", 0.3e6, ["FRAME"]),
        ("kernel", "PrePass DDM_AllOpaque (Forced by DBuffer)", 0.75e6, ["FRAME", "Scene"]),
        (
            *("kernel", "BeginRenderingPrePass", 0.25e6),
            ["FRAME", "Scene", "PrePass DDM_AllOpaque (Forced by DBuffer)"],
        ),
        ("kernel", "BasePass", 3e6, ["FRAME", "Scene"]),
        ("kernel", "ComputeLightGrid", 0.2e6, ["FRAME", "Scene"]),
        ("kernel", "PostProcessing", 0.3e6, ["FRAME"]),
    ]
    assert sum(time for kind, _, time, _ in found if kind == "kernel") == 5e6
    assert rows[1]["args"] == '{"draws":24,"prims":2400,"verts":3600}'


def test_cells_of_torch_benchmark_have_the_unit_below() -> None:
    rows = ktrace.read(sample("torch-benchmark")).summaries
    assert rows[["name", "avg"]].to_numpy().tolist() == [
        ["dense, B=8", 12_800],
        ["dense, B=16", 141_900],
        ["sparse, B=8", 77_900],
        ["dense, B=8", 6400],
        ["dense, B=16", 70_500],
        ["a @ b, time", 1.5e6],
    ]
    assert [list(scope) for scope in rows.scope][3] == ["softmax", "4 threads"]
    assert rows.args[4] == '{"variance":"9%"}' and set(rows.kind) == {"op"}


def test_cells_without_a_unit_are_no_times(tmp_path: Path) -> None:
    text = sample("torch-benchmark").read_text("utf-8").partition("Times are in")[0]
    trace = of(text, tmp_path)
    assert len(trace.summaries) == 0 and "cut" in trace.report.issues


def test_pairs_and_transfers_of_xrt() -> None:
    trace = ktrace.read(sample("xrt"))
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
