"""Comparisons of files: against arithmetic on the text of the files, by pandas, and of copies changed by pandas."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES, SHARED
from runs import monday

import ktrace
from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change
from ktrace.errors import InputError, UsageError
from ktrace.naming.short_names import short_name

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
KINETO = SHARED / "corpus" / "pytorch_kineto"
OLD, NEW_RUN = "worker0.1623143089861.pt.trace.json.gz", "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
DEVICE_WORK = ("Kernel", "Memcpy", "Memset", "kernel", "gpu_memcpy", "gpu_memset")


def corpus(name: str) -> Path:
    path = KINETO / name
    if not path.exists():
        pytest.skip("the corpus is not at hand (../shared/corpus)")
    return path


def of_json(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Total (ns) and count of device work by short name, by the standard library alone."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in json.loads(text.decode("utf-8", "replace"), parse_float=str)["traceEvents"]:
        if event.get("cat") in DEVICE_WORK and event.get("ph") == "X":
            whole, _, part = str(event["dur"]).partition(".")
            totals[short_name(event["name"])] += int(whole) * 1000 + int((part + "000")[:3])
            counts[short_name(event["name"])] += 1
    return totals, counts


def to_folder(trace: Path, folder: Path) -> Path:
    """The trace as a folder of Parquet, for pandas to change."""
    ktrace.convert(trace, f"{folder}/")
    return folder


def changed(folder: Path, target: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Path:
    """A copy of the folder with the events that pandas makes of them."""
    target.mkdir()
    for path in folder.glob("*.parquet"):
        table = pq.read_table(path)
        if path.name == "events.parquet":
            frame = change(table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
            table = pa.Table.from_pandas(frame, schema=table.schema.with_metadata(None), preserve_index=False)
            table = table.replace_schema_metadata(pq.read_schema(path).metadata)
        pq.write_table(table, target / path.name)
    return target


@pytest.mark.parametrize("names", [(OLD, NEW_RUN), (NEW_RUN, OLD), (NEW_RUN, "graph_execution.json.gz")])
def test_changes_are_those_of_plain_arithmetic_on_the_json(names: tuple[str, str]) -> None:
    a, b = (corpus(name) for name in names)
    (totals_a, counts_a), (totals_b, counts_b) = of_json(a), of_json(b)
    diff = ktrace.diff(a, b, by=["kernel"], total=True)
    alone: dict[str, list[Change]] = {}
    for change in diff.rows["kernel"]:
        if change.matched in ("", "name", "short name"):
            key = change.key.partition(" grid ")[0].removesuffix(", different grids")
            alone.setdefault(key, []).append(change)
    assert len(alone) > 20
    for key, changes in alone.items():  # several where one grid of a kernel is apart
        assert sum(change.total_a for change in changes) == totals_a[key], key
        assert sum(change.total_b for change in changes) == totals_b[key], key
        counts = sum(change.count_a or 0 for change in changes), sum(change.count_b or 0 for change in changes)
        assert counts == (counts_a[key], counts_b[key]), key
        if not counts_a[key] or not counts_b[key]:
            assert [change.verdict for change in changes] == [GONE if counts_a[key] else NEW], key
    assert diff.whole.delta == sum(totals_b.values()) - sum(totals_a.values())
    assert sum(change.delta for change in diff.rows["kernel"]) == diff.whole.delta
    sizes = [abs(change.delta) for change in diff.rows["kernel"]]
    assert sizes == sorted(sizes, reverse=True)
    for change in diff.rows["kernel"]:
        assert change.from_count is not None
        assert change.from_duration is not None
        assert change.from_count + change.from_duration == pytest.approx(change.delta, abs=1e-3)


def test_medians_are_those_of_pandas() -> None:
    a, b = corpus(OLD), corpus(NEW_RUN)
    diff = ktrace.diff(a, b, by=["operation"])
    for path, side in ((a, "a"), (b, "b")):
        events = ktrace.read(path).classify().events
        work = events[events.kind.isin(["kernel", "memcpy", "memset"])]
        medians = work.groupby(work.operation.fillna("other")).dur.median()
        for change in diff.rows["operation"]:
            group = getattr(change, side)
            assert (group is None) == (change.key not in medians)
            if group is not None:
                assert group.median == medians[change.key]


def test_steps_are_compared_by_step() -> None:
    """The work of a step is what was launched in it: told by pandas, by correlation and time."""
    paths = {"a": corpus(OLD), "b": corpus(NEW_RUN)}
    diff = ktrace.diff(paths["a"], paths["b"])
    assert diff.per == "step"
    for side, path in paths.items():
        events = ktrace.read(path).events
        steps = events[events.name.str.startswith("ProfilerStep#") & events.tid.notna()].sort_values("ts")
        calls = events[(events.kind == "api") & events.correlation.notna()].groupby("correlation").ts.min()
        work = events[events.kind.isin(["kernel", "memcpy", "memset"])]
        launched = work.correlation.map(calls)
        totals = [
            int(work.dur[(launched >= step.ts) & (launched < step.ts + step.dur)].sum()) for step in steps.itertuples()
        ]
        group = getattr(diff.whole, side)
        assert [int(total) for total in group.steps] == totals
        assert getattr(diff.whole, f"total_{side}") == pytest.approx(sum(totals) / len(totals))
        assert diff.wall is not None
        assert getattr(diff.wall, f"total_{side}") == pytest.approx(steps.dur.mean())


def test_a_file_against_itself_has_not_changed() -> None:
    for path in (STEP, corpus(OLD)):
        diff = ktrace.diff(path, path)
        for change in (diff.whole, *diff.steps, *(change for rows in diff.rows.values() for change in rows)):
            assert (change.delta, change.verdict) == (0, NOISE)
        assert all(use.a == use.b for use in diff.devices)


def test_a_kernel_that_pandas_made_slower_is_found_and_first(tmp_path: Path) -> None:
    folder = to_folder(corpus(NEW_RUN), tmp_path / "before.parquet")
    before = ktrace.read(folder).events
    kernels = before[before.kind == "kernel"].groupby("name").dur.agg(["count", "sum"])
    name = kernels[kernels["count"] > 50].sort_values("sum").index[-1]

    def slower(events: pd.DataFrame) -> pd.DataFrame:
        mine = events.name == name
        events.loc[mine, "dur"] = (events.loc[mine, "dur"] * 11) // 10
        return events

    diff = ktrace.diff(folder, changed(folder, tmp_path / "after.parquet", slower))
    first, *rest = diff.rows["kernel"]
    assert first.key == short_name(name)
    assert first.verdict == CLEAR
    assert {change.delta for change in rest if change.key != first.key} == {0}
    exact = (kernels["sum"][name] * 0.1) / 5  # of five steps
    assert first.delta == pytest.approx(exact, rel=0.01)


def test_noise_that_pandas_added_is_not_called_clear(tmp_path: Path) -> None:
    """Each duration times a random factor of no trend: kernels change, none of them clearly but by chance."""
    folder = to_folder(corpus(NEW_RUN), tmp_path / "before.parquet")
    random = pd.Series(range(1_000_000)).sample(frac=1, random_state=1).to_numpy()

    def noisy(events: pd.DataFrame) -> pd.DataFrame:
        factors = 0.95 + random[: len(events)] / 1e7
        events["dur"] = (events.dur * factors).round().astype("Int64")
        return events

    one = changed(folder, tmp_path / "one.parquet", noisy)
    random = random[::-1]
    diff = ktrace.diff(one, changed(folder, tmp_path / "two.parquet", noisy))
    shared = [change for change in diff.rows["kernel"] if change.delta]
    assert len(shared) > 30
    assert sum(change.verdict == CLEAR for change in shared) <= 0.05 * len(shared)


def test_kernels_that_pandas_renamed_or_removed_are_told(tmp_path: Path) -> None:
    folder = to_folder(STEP, tmp_path / "before.parquet")
    kernels = ktrace.read(folder).events.query("kind == 'kernel'")
    renamed, removed = kernels.name.iloc[0], kernels.name.iloc[-1]
    assert renamed != removed

    def edited(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
        return lambda events: events[events.name != removed].replace({"name": {renamed: name}})

    a = changed(
        folder, tmp_path / "a.parquet", lambda events: events.replace({"name": {renamed: "triton_poi_fused_1"}})
    )
    b = changed(folder, tmp_path / "b.parquet", edited("triton_poi_fused_22"))
    found = {change.key: change for change in ktrace.diff(a, b).rows["kernel"]}
    assert found["triton_poi_fused_1"].matched == "name without number"
    assert found["triton_poi_fused_1"].delta == 0
    assert (found[short_name(removed)].verdict, found[short_name(removed)].percent) == (GONE, -100)


def test_operations_of_two_engines(seed: Any) -> None:
    """Doppler's attention against MLC's, each by a plain look at its file."""
    doppler, mlc = seed(0), seed(2)
    diff = ktrace.diff(doppler, mlc)
    assert next(iter(diff.rows)) == "operation"
    assert "kernel" not in diff.rows
    found = {change.key: change for change in diff.rows["operation"]}
    row = r"^\|? *(?:batch_prefill\w+|batch_decode\w+|merge_state\w+) *\|? +([\d.]+) *\|? +\d+"
    totals = [float(total) for total in re.findall(row, mlc.read_text(), re.M)]  # ms, of three runs
    assert len(totals) == 12
    assert found["attention"].total_b == pytest.approx(sum(totals) * 1e6)
    logged = ktrace.read(doppler).summaries
    mine = logged[(logged.name == "attention") & (logged.kind == "kernel") & (logged.metric == "duration")]
    assert found["attention"].total_a == pytest.approx(mine.total.fillna(mine["value"]).sum())
    assert {found[name].verdict for name in ("attention", "gemm")} == {UNKNOWN}
    assert found["attention"].why == "statistics only"


def test_two_runs_of_one_input(seed: Any) -> None:
    path = seed(3)
    diff = ktrace.diff(path)
    assert (diff.name_a, diff.name_b, diff.unit) == ("normal_pid_805580", "abnormal_pid_842126", "%")
    backwards = ktrace.diff(path, runs=(diff.name_b, diff.name_a))
    assert backwards.whole.delta == -diff.whole.delta
    with pytest.raises(InputError, match="has no run 'other'"):
        ktrace.diff(path, runs=("other", diff.name_b))
    with pytest.raises(UsageError, match="runs of one input"):
        ktrace.diff(path, path, runs=("a", "b"))


def test_an_input_that_says_no_runs_cannot_be_compared_with_itself() -> None:
    with pytest.raises(InputError, match="doesn't contain exactly two runs"):
        ktrace.diff(STEP)


def test_traces_summaries_and_paths_are_sides() -> None:
    trace = ktrace.read(STEP)
    want = ktrace.diff(STEP, STEP).whole
    assert trace.diff(trace).whole == want
    assert trace.diff(STEP, by=["stream"]).rows["stream"]
    assert ktrace.diff(trace.summary(), str(STEP)).whole == want


def test_what_nobody_asked_for_is_not_noted() -> None:
    """A trace without steps and layers, which summaries say of themselves where these are asked for."""
    path = SAMPLES / "kineto" / "amd-clock-skew-overlap-bare-inf.json"
    assert ktrace.diff(path, path).notes == []


def test_the_part_is_that_of_both_sides() -> None:
    diff = ktrace.diff(STEP, STEP, filter=ktrace.Filter(kinds=("memcpy",)), by=["kernel"])
    totals, _ = of_json(STEP)
    assert diff.whole.total_a == diff.whole.total_b == sum(of for name, of in totals.items() if "Memcpy" in name) > 0


def test_work_before_the_first_step_is_no_launch_of_a_step(tmp_path: Path) -> None:
    """Counts are those of the launches in steps, in the median and the average too, also against itself."""
    plain = json.loads(monday(tmp_path).read_text())
    first = min(event["ts"] for event in plain["traceEvents"])
    work = next(event for event in plain["traceEvents"] if event["cat"] == "kernel" and "gemm" in event["name"])
    call = next(event for event in plain["traceEvents"] if event["cat"] == "cuda_runtime")
    for number in (900_001, 900_002):
        arguments = {**work["args"], "correlation": number}
        plain["traceEvents"].append({**call, "ts": first - 900, "args": {"correlation": number}})
        plain["traceEvents"].append({**work, "ts": first - 800 + number % 2 * 400, "dur": 390.0, "args": arguments})
    warm = tmp_path / "warm.pt.trace.json"
    warm.write_text(json.dumps(plain))
    diff = ktrace.diff(warm, warm)
    assert (diff.whole.count_a, diff.whole.count_b) == (37, 37)
    diff = ktrace.diff(warm, tmp_path / "monday.pt.trace.json", by=["kernel"])
    assert all(change.count_a == change.count_b and change.delta == 0 for change in diff.rows["kernel"])
    assert {change.matched for change in diff.rows["kernel"]} <= {"name", "short name"}
    shown = next(table for table in diff.tables() if table.name == "kernel")
    keys = [column.key for column in shown.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in shown.rows]
    assert all(row["median_a_ns"] == row["median_b_ns"] and row["each_percent"] == 0 for row in rows)
