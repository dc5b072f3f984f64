"""LatencyPrism's comparison: seed 003, and a sample."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

from ktrace.converters.latencyprism import _kind
from ktrace.trace import read
from ktrace.trace.trace import Trace

NORMAL, ABNORMAL = "normal_pid_805580", "abnormal_pid_842126"
SAMPLE = SAMPLES / "latencyprism" / "pipes-in-a-name-fillers-nan.md"


@pytest.fixture(scope="module")
def sample() -> Trace:
    return read(SAMPLE, "latencyprism")


def seed_table(path: Path, columns: int) -> list[dict[str, str]]:
    """The one table of seed 003 that has so many columns: its rows by heading. No name in it holds a pipe."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text("utf-8").split("\n")]
    head, _, *body = [cells for cells in rows if len(cells) == columns]
    return [dict(zip(head, cells, strict=True)) for cells in body]


def number(cell: str) -> float:
    return float(cell.replace(",", "").rstrip("%"))


def args(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["args"])
    return found


def test_seed_003_overall(seed: Callable[[int], Path]) -> None:
    rows = read(seed(3)).summaries
    rows = rows[rows.table == 0]
    assert rows.kind.tolist() == ["metric", "metric", "total", "total"]
    assert rows.run.tolist() == [NORMAL, ABNORMAL] * 2
    assert rows.pid.tolist() == [805580, 842126] * 2
    assert rows.value.tolist() == [14, 238, 631_394_910, 38_515_560]
    assert rows["count"].tolist()[2:] == [14, 238]
    assert set(rows.scope.map(lambda scope: scope[0])) == {"1. High-Level Performance Summary"}
    delta = f"Δ ({ABNORMAL} - {NORMAL})"
    assert args(rows.iloc[3])["compare"] == {delta: -592879.35, "Change (%)": -93.9}
    assert args(rows.iloc[1])["compare"] == {delta: 224}


def test_seed_003_cycles(seed: Callable[[int], Path]) -> None:
    path = seed(3)
    rows = read(path).summaries
    rows = rows[rows.table == 1]
    assert rows.run.value_counts().to_dict() == {NORMAL: 14, ABNORMAL: 238}
    expected = [line.split("|")[1:6] for line in path.read_text("utf-8").split("\n")[13:251]]
    assert len(expected) == 238
    for run, column in ((NORMAL, 1), (ABNORMAL, 2)):
        cells = [cells[column].strip() for cells in expected]
        assert rows[rows.run == run].value.tolist() == [number(cell) * 1000 for cell in cells if cell != "-"]
    last = rows.iloc[-1]
    assert (last["kind"], last["name"], last["unit"], args(last)) == ("range", "cycle", "ns", {"Time Rank": 238})
    assert rows[rows.baseline.notna()].run.value_counts().to_dict() == {ABNORMAL: 14}


def test_seed_003_functions_cell_by_cell(seed: Callable[[int], Path]) -> None:
    path = seed(3)
    rows, table = read(path).summaries, seed_table(path, 17)
    rows = rows[rows.table == 2]
    assert (len(table), len(rows)) == (264, 528)
    for run, group in rows.groupby("run"):
        for cells, (_, row) in zip(table, group.iterrows(), strict=True):
            assert (row["name"], row["metric"]) == (cells["Function Name"], cells["Metric Name"])
            assert (row["percent"], row["value"]) == (number(cells[f"β_{run}(%)"]), number(cells[f"μ_{run}"]))
            on_gpu = cells["Device"] == "GPU 7"
            assert (row["device"] == 7) if on_gpu else args(row)["Device"] == "Host"
            assert on_gpu == (row["kind"] in ("kernel", "memcpy", "memset"))


def test_seed_003_compares_in_the_second_run(seed: Callable[[int], Path]) -> None:
    path = seed(3)
    rows, table = read(path).summaries, seed_table(path, 17)
    rows = rows[rows.table == 2]
    rows = rows[rows.run == ABNORMAL]
    own = {"Function Name", "Metric Name", "Device", *(heading for heading in table[0] if "pid_" in heading)}
    for cells, (_, row) in zip(table, rows.iterrows(), strict=True):
        expected = {key: "NaN" if cell == "nan" else number(cell) for key, cell in cells.items() if key not in own}
        assert args(row)["compare"] == expected and len(expected) == 10
        assert row["baseline"] == NORMAL


def test_seed_003_keeps_what_is_said_in_words(seed: Callable[[int], Path]) -> None:
    trace = read(seed(3))
    notes = trace.summaries[trace.summaries.kind == "note"]
    findings = notes[notes.scope.map(lambda scope: scope[-1] == "Key Findings:")]
    assert len(notes) == 1 + 3 + 2 + 1 + 6
    assert findings.name.tolist()[1].startswith("**`oncpu` on device `Host`:**\n  - Its contribution")
    assert findings.name.tolist()[1].count("\n") == 5
    assert not trace.report.issues and trace.report.reader.balanced()
    assert trace.report.reader.taken == len(seed(3).read_text("utf-8").split("\n")) - 1


def test_a_pipe_in_a_name_and_rows_of_fillers(sample: Trace) -> None:
    rows = sample.summaries[sample.summaries.table == 2]
    reduce = rows[rows.name == "void reduce<4, Op|Mean, float>(float*, int)"]
    assert reduce.percent.tolist() == [0.06, 0.0]
    assert math.isnan(reduce.value.iloc[0]) and reduce.value.iloc[1] == 1024
    compare = args(reduce.iloc[1])["compare"]
    assert (compare["Δμ"], compare["Z-Score(β)"], compare["Suspicion Score"]) == (-2.07235e08, "NaN", 0.0)
    copy = rows[rows.kind == "memcpy"]
    assert (copy.run.tolist(), copy.copy_kind.tolist()) == (["fast_pid_101"], ["HtoD"])
    assert args(copy.iloc[0])["compare"] == {"Suspicion Score": 0.0, "p-value(β)": 1, "U-test p(β)": 1,
                                             "p-value(μ)": 1, "U-test p(μ)": 1}  # fmt: skip


def test_units_of_metrics_are_told_only_where_they_are_sure(sample: Trace) -> None:
    rows = sample.summaries[sample.summaries.table == 2]
    units = rows.groupby("metric")["unit"].first()
    assert units["gpu_usage"] == units["gpu_sm_util"] == "%"
    assert units.isna().to_dict() == {
        "cpu_frequency": True,
        "gpu_link_receive": True,
        "gpu_sm_util": False,
        "gpu_usage": False,
    }


def test_paragraphs_and_bullets_are_a_note_each(sample: Trace) -> None:
    notes = sample.summaries[sample.summaries.kind == "note"]
    assert notes.name.tolist() == [
        "The difference is driven by **`gemm_f16`**,\nas far as can be told.",
        "**`gemm_f16` on device `GPU 1`:**\n  - Its contribution (β) **increased** from **10.00%** to **40.00%**.\n"
        "    - **`gpu_usage`**: decreased from 7.25 to 2.00.",
        "**`oncpu` on device `Host`:**\n  - Its contribution (β) **decreased**.",
        "*Note: A β value greater than 100% means several calls.*",
        "**β (Beta)**: share of a cycle.",
        "**Suspicion Score**: `|Δβ| * (|Z-Score(β)| + |Z-Score(log_μ)|)`.",
    ]


def test_the_title_is_a_fact_on_the_source(sample: Trace) -> None:
    (facts,) = sample.catalog[sample.catalog.entity == "source"].facts
    assert json.loads(facts)["run"].startswith("Cross Performance Comparison: demo")


@pytest.mark.parametrize("mu", ["μ", "µ"])
def test_columns_in_any_order_and_either_mu(tmp_path: Path, mu: str) -> None:
    head = [f"{mu}_a", "Device", "β_b(%)", "Metric Name", "β_a(%)", f"Δ{mu}", "Function Name", f"{mu}_b"]
    text = "| " + " | ".join(head) + " |\n" + "|---" * 8 + "|\n| 1 | cuda:3 | 20 | gpu_util | 10 | 2 | f|g | 3 |\n"
    path = tmp_path / "strict_comparison.md"
    path.write_text(text, "utf-8")
    trace = read(path)
    rows = trace.summaries
    assert rows.name.tolist() == ["f|g"] * 2 and rows.device.tolist() == [3, 3]
    said = rows.sort_values("percent")[["percent", "value"]].to_numpy().tolist()
    assert said == [[10.0, 1.0], [20.0, 3.0]]


def test_text_above_all_titles_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "pasted.md"
    path.write_text("look at this:\n\n" + SAMPLE.read_text("utf-8"), "utf-8")
    trace = read(path)
    assert trace.report.issues["unrecognised"].places == [("line 1", "")]
    assert len(trace.summaries) == len(read(SAMPLE).summaries)


def test_a_strict_comparison_names_its_process_in_the_title() -> None:
    trace = read(SAMPLES / "latencyprism" / "strict-no-findings-virtual-gpu.md")
    rows = trace.summaries
    runs = rows[rows.run.notna()]
    assert set(runs.run) == {"normal", "abnormal"} and set(runs.pid) == {4711}
    notes = rows[rows.kind == "note"].name.tolist()
    assert "Each triplet of both runs, sorted by **Score** in descending order." in notes  # stars amid it stay
    gemm = rows[rows.name == "gemm"]
    assert gemm.kind.tolist() == ["kernel"] * 2 and gemm.device.tolist() == [3, 3]
    assert [args(row)["Device"] for _, row in gemm.iterrows()] == ["GPU 3 (virtual)"] * 2
    assert rows[rows.name == "runq"].kind.tolist() == ["range"] * 2
    assert trace.report.balanced() and not trace.report.issues


def test_an_exploratory_report_has_its_roles_and_clusters() -> None:
    trace = read(SAMPLES / "latencyprism" / "exploratory-with-clusters.md")
    rows = trace.summaries
    overview = rows[rows.table == 0]
    assert overview.run.tolist() == ["exchange_h1_11"] * 2 + ["b_h2_22"] * 2
    assert overview.pid.tolist() == [11, 11, 22, 22]
    assert overview.value.tolist() == [4, 1_000_500, 5, 2_000_500]
    assert args(overview.iloc[0]) == {"Source File": "/d/a_perf_data.csv"}
    clusters = rows[rows.table == 1]
    assert clusters.name.tolist() == ["exchange_h1_11", "b_h2_22"] and set(clusters.kind) == {"note"}
    # A run that is called exchange is a run, and no column of changes.
    overall = rows[rows.table == 2]
    assert overall.run.tolist() == ["exchange_h1_11", "b_h2_22"] * 2
    assert overall.value.tolist() == [4, 5, 1_000_500, 2_000_500]
    assert trace.report.balanced() and not trace.report.issues


def test_the_comparison_as_csv() -> None:
    trace = read(SAMPLES / "latencyprism" / "comparison-as-csv.csv")
    rows = trace.summaries
    assert rows.name.tolist() == ["gemm"] * 2 + ["void k<1, 2>(int)"] * 2
    assert rows.percent.tolist() == [2.5, 3.5, 0.1, 0.2] and rows.value.tolist() == [5, 6, 0, 0]
    assert rows.run.tolist() == ["normal", "abnormal"] * 2 and rows.device.tolist() == [7] * 4
    assert args(rows.iloc[1])["compare"]["Suspicion Score"] == 1.5
    assert trace.report.balanced() and not trace.report.issues


def test_a_heading_with_an_open_bracket_and_many_blanks_comes_to_an_end(tmp_path: Path) -> None:
    path = tmp_path / "wide.md"
    wide = f"void k({' ' * 3000}x"
    path.write_text(f"{SAMPLE.read_text('utf-8')}\n\n| {wide} | Time (us) |\n|---|---|\n| a | 1 |\n", "utf-8")
    trace = read(path, "latencyprism")
    assert trace.report.balanced()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memset (Device)", ("memset", None)),
        ("Memcpy HtoD (Pinned -> Device)", ("memcpy", "HtoD")),
        ("memset_rows", ("kernel", None)),
    ],
)
def test_kinds_of_device_work(name: str, kind: tuple[str, str | None]) -> None:
    assert _kind(name, True) == kind
    assert _kind(name, False) == ("range", None)
