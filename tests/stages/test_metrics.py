"""Metrics of launches on the kernels of another tool's timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ktrace
from ktrace.errors import InputError, UsageError
from ktrace.naming.short_names import base_name, spelled_alike
from ktrace.pipeline.info import inspect

SIZE = {"grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
OTHER = SIZE | {"grid_x": 8}


def _written(path: Path, records: list[dict[str, Any]]) -> Path:
    lines = [{"ktrace": "1.0"}, *({"source": path.stem, **record} for record in records)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _timeline(path: Path, *kernels: dict[str, Any]) -> Path:
    rows = [
        {
            "record": "event",
            "id": number,
            "kind": "kernel",
            "ts": 1000 * number,
            "dur": 10 * number,
            "timing": "measured",
        }
        | {"pid": 5, "device": 0, "stream": 7, "correlation": 100 + number, **SIZE}
        | kernel
        for number, kernel in enumerate(kernels, 1)
    ]
    return _written(path, rows)


def _launches(path: Path, *kernels: dict[str, Any]) -> Path:
    rows: list[dict[str, Any]] = []
    for number, kernel in enumerate(kernels):
        head = {"record": "summary", "id": 10 * number + 1, "kind": "kernel", "metric": "duration", "unit": "ns"}
        rows.append(head | {"total": 500.0 + number, "count": 1, "pid": 9, "device": 0, "stream": 7, **SIZE} | kernel)
        child = {"record": "summary", "id": 10 * number + 2, "parent": 10 * number + 1, "kind": "metric"}
        rows.append(child | {"name": "throughput", "metric": "sm__throughput", "unit": "%", "value": 60.0 + number})
    return _written(path, rows)


def _counters(trace: ktrace.Trace, name: str = "sm__throughput") -> list[tuple[int, int, int, float]]:
    found = trace.events[trace.events["name"] == name]
    return [tuple(row) for row in found[["parent", "ts", "dur", "value"]].values.tolist()]


def _joined(tmp_path: Path, timeline: Path, launches: Path, **options: Any) -> tuple[ktrace.Trace, ktrace.Report]:
    out = tmp_path / "out.parquet"
    report = ktrace.convert(timeline, out, metrics=launches, overwrite=True, **options)
    assert report.balanced()
    return ktrace.read(out), report


def _refused(tmp_path: Path, timeline: Path, launches: Path, **options: Any) -> str:
    """What the error says where no launch has a kernel; nothing is written."""
    with pytest.raises(ktrace.InputError, match="none of its") as error:
        ktrace.convert(timeline, tmp_path / "refused.parquet", metrics=launches, **options)
    assert not (tmp_path / "refused.parquet").exists()
    return str(error.value)


def test_launches_that_are_equally_often_get_their_metrics_in_their_order(tmp_path: Path) -> None:
    timeline = _timeline(
        tmp_path / "t.jsonl", {"name": "gemm"}, {"name": "norm"}, {"name": "gemm"}, {"name": "gemm"} | OTHER
    )
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "gemm"} | OTHER, {"name": "gemm"})
    trace, report = _joined(tmp_path, timeline, launches)
    assert _counters(trace) == [(1, 1000, 10, 60.0), (4, 4000, 40, 61.0), (3, 3000, 30, 62.0)]
    assert [row[3] for row in _counters(trace, "gpu__time_duration.sum")] == [500.0, 501.0, 502.0]
    assert set(trace.events["source"]) == {"t"}
    assert trace.events["id"].is_unique
    assert "unmatched-launch" not in report.issues
    assert [entry["format"] for entry in report.inputs] == ["jsonl", "jsonl"]


def test_unequal_numbers_are_reported_and_not_guessed(tmp_path: Path) -> None:
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm"}, {"name": "gemm"}, {"name": "norm"})
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "norm"}, {"name": "copy"})
    trace, report = _joined(tmp_path, timeline, launches)
    assert _counters(trace) == [(3, 3000, 30, 61.0)]
    issue = report.issues["unmatched-launch"]
    assert issue.rows == 4
    assert [detail for _, detail in issue.places] == [
        "gemm: 1 launches of this size have metrics, 2 are in the timeline",
        "copy: no such kernel in the timeline",
    ]


def test_launches_after_those_that_were_skipped(tmp_path: Path) -> None:
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm"}, {"name": "gemm"}, {"name": "norm"}, {"name": "gemm"})
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "norm"})
    trace, report = _joined(tmp_path, timeline, launches, launch_skip=1)
    assert [row[0] for row in _counters(trace)] == [2, 3]
    assert "unmatched-launch" not in report.issues
    why = _refused(tmp_path, timeline, launches, launch_skip=2)
    assert "the launches after the first 2 of the timeline are different ones" in why


def test_skipped_launches_of_the_names_that_were_asked_for(tmp_path: Path) -> None:
    """`ncu -k gemm --launch-skip 1` counts the launches of gemm alone."""
    names = ["norm", "gemm", "norm", "gemm", "norm", "gemm"]
    timeline = _timeline(tmp_path / "t.jsonl", *({"name": name} for name in names))
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "gemm"})
    trace, _ = _joined(tmp_path, timeline, launches, launch_skip=1)
    assert [row[0] for row in _counters(trace)] == [4, 6]
    one = _launches(tmp_path / "n.jsonl", {"name": "gemm"})  # the second kernel, or the second of its name
    assert "may be those of all names or of these" in _refused(tmp_path, timeline, one, launch_skip=1)


def test_the_launch_counts_not_the_time(tmp_path: Path) -> None:
    """On two streams the kernel that was launched first may run last."""
    timeline = _timeline(
        tmp_path / "t.jsonl", {"name": "gemm", "correlation": 9}, {"name": "gemm", "correlation": 3, "stream": 8}
    )
    trace, _ = _joined(tmp_path, timeline, _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "gemm"}))
    assert [(row[0], row[3]) for row in _counters(trace)] == [(2, 60.0), (1, 61.0)]


def test_names_as_other_tools_demangle_them(tmp_path: Path) -> None:
    """A name that is there to the letter isn't taken for another of the same function."""
    timeline = _timeline(
        tmp_path / "t.jsonl",
        {"name": "void ns::gemm<(int)128, float>(const float *, int)"},
        {"name": "void ns::gemm<(int)64, float>(const float *, int)"},
        {"name": "void ns::norm<float>(float *)", "short_name": "norm"},
    )
    launches = _launches(
        tmp_path / "n.jsonl", {"name": "void ns::gemm<64, float>(float const*, int)"}, {"name": "norm(float *)"}
    )
    trace, report = _joined(tmp_path, timeline, launches)
    assert [(row[0], row[3]) for row in _counters(trace)] == [(2, 60.0), (3, 61.0)]
    assert not report.issues


def test_processes_are_told_by_number_or_by_name(tmp_path: Path) -> None:
    def process(pid: int, name: str, number: int) -> dict[str, Any]:
        return {"record": "catalog", "id": number, "entity": "process", "pid": pid, "name": name}

    kernels = ({"name": "gemm", "pid": 5}, {"name": "gemm", "pid": 6})
    timeline = _timeline(tmp_path / "t.jsonl", *kernels)
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm", "pid": 21}, {"name": "gemm", "pid": 22})
    assert "none of its 2 launches matches" in _refused(tmp_path, timeline, launches)
    for path, names in ((timeline, {5: "train", 6: "serve"}), (launches, {21: "serve", 22: "train"})):
        rows = [process(pid, name, 1000 + pid) | {"source": path.stem} for pid, name in names.items()]
        path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    trace, _ = _joined(tmp_path, timeline, launches)
    assert [(row[0], row[3]) for row in _counters(trace)] == [(2, 60.0), (1, 61.0)]


def test_ranks_are_told_by_their_devices(tmp_path: Path) -> None:
    """Where each process has one device of its own; else nothing is guessed."""
    kernels = [{"name": "gemm", "pid": 50 + rank, "device": rank} for rank in range(3)]
    timeline = _timeline(tmp_path / "t.jsonl", *kernels)
    mine = [{"name": "gemm", "pid": 99 - rank, "device": rank} for rank in (2, 0)]
    trace, report = _joined(tmp_path, timeline, _launches(tmp_path / "n.jsonl", *mine))
    assert [(row[0], row[3]) for row in _counters(trace)] == [(3, 60.0), (1, 61.0)]
    assert not report.issues
    shared = [row | {"device": 0} for row in mine]
    assert "none of its 2 launches matches" in _refused(tmp_path, timeline, _launches(tmp_path / "n.jsonl", *shared))


def test_launches_that_say_no_device_or_size(tmp_path: Path) -> None:
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm", "device": 0}, {"name": "norm", "device": 1})
    bare = dict.fromkeys(("device", *SIZE))
    launches = _launches(tmp_path / "n.jsonl", {"name": "norm"} | bare, {"name": "gemm"} | bare)
    trace, _ = _joined(tmp_path, timeline, launches)
    assert [(row[0], row[3]) for row in _counters(trace)] == [(2, 60.0), (1, 61.0)]


def test_the_first_launches_have_metrics(tmp_path: Path) -> None:
    """`ncu --launch-count 2`: none was skipped, but not all were measured."""
    timeline = _timeline(tmp_path / "t.jsonl", *({"name": name} for name in ("gemm", "norm", "gemm", "norm")))
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "norm"})
    assert "none of its 2 launches matches" in _refused(tmp_path, timeline, launches)
    assert [row[0] for row in _counters(_joined(tmp_path, timeline, launches, launch_skip=0)[0])] == [1, 2]


def test_every_row_of_the_metrics_is_accounted_for(tmp_path: Path) -> None:
    """Figures said twice, texts, notes; of launches that have a kernel and of others."""
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm"}, {"name": "norm"})
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"}, {"name": "copy"})
    more = [
        {"kind": "metric", "name": "throughput", "metric": "sm__throughput", "unit": "%", "value": 60.0},
        {"kind": "metric", "name": "throughput", "metric": "sm__throughput", "unit": "%", "value": 59.0},
        {"kind": "metric", "name": "Cache", "metric": "launch__func_cache_config", "args": {"Metric Value": "none"}},
        {"kind": "note", "name": "too small", "metric": "note"},
    ]
    rows = [
        {"record": "summary", "source": "n", "parent": parent, "id": 100 + parent + number, **row}
        for parent in (1, 11)
        for number, row in enumerate(more)
    ]
    rows.append({"record": "summary", "source": "n", "id": 900, "kind": "note", "name": "no graphs", "metric": "note"})
    rows.append(
        {"record": "event", "source": "n", "id": 901, "kind": "instant", "name": "x", "ts": 1, "timing": "measured"}
    )
    launches.write_text(launches.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    trace, report = _joined(tmp_path, timeline, launches)
    assert [row[3] for row in _counters(trace)] == [60.0, 59.0]
    assert report.issues["no-launch"].rows == 2
    logs = trace.events[trace.events["kind"] == "log"]
    assert logs[["name", "parent", "ts"]].values.tolist() == [
        ["launch__func_cache_config", 1, 1000],
        ["too small", 1, 1000],
    ]
    assert json.loads(logs["args"].iloc[0]) == {"Metric Value": "none"}
    assert report.issues["unmatched-launch"].rows == 6  # its duration is told by the row of the launch
    (ledger,) = [stage for stage in report.stages if stage.stage == "metrics"]
    assert ledger.added.total() == 2 + 2 * 5 + 2
    assert ledger.removed["said twice"] == 1


def test_on_a_timeline_they_fill_the_gpu_tab_and_come_back(tmp_path: Path) -> None:
    """What a launch could reach is an argument there, too, as the tab wants it; the reader takes it for no estimate."""
    names = [
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "sm__maximum_warps_per_active_cycle_pct",
        "launch__waves_per_multiprocessor",
    ]
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm", "context": 1}, {"name": "norm", "context": 1})
    launches = _launches(tmp_path / "n.jsonl", {"name": "gemm"})
    child = {"record": "summary", "source": "n", "parent": 1, "kind": "metric", "unit": "%", "value": 7.5}
    rows = [child | {"id": 10 + number, "name": name, "metric": name} for number, name in enumerate(names)]
    launches.write_text(launches.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    trace, _ = _joined(tmp_path, timeline, launches)
    made = tmp_path / "out.perfetto"
    ktrace.convert(timeline, made, metrics=launches)
    back = ktrace.read(made)
    kernels = back.events[back.events["kind"] == "kernel"]
    assert kernels["occupancy"].isna().all()
    assert kernels["args"].isna().all()
    for found in (trace, back):
        counters = found.events[found.events["kind"] == "counter"]
        assert sorted(counters[["parent", "name", "value"]].values.tolist()) == sorted(
            [[1, "gpu__time_duration.sum", 500.0], [1, "sm__throughput", 60.0], *([1, name, 7.5] for name in names)]
        )
    shown = inspect(made).about["in ui.perfetto.dev"]
    assert {"Occupancy: shows", "Speed of Light: shows"} <= set(shown)


def test_launches_are_skipped_for_metrics_alone(tmp_path: Path) -> None:
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm"})
    with pytest.raises(UsageError, match="--launch-skip needs --metrics"):
        ktrace.convert(timeline, tmp_path / "out.perfetto", launch_skip=0)


def test_a_table_without_launches_is_an_error(tmp_path: Path) -> None:
    timeline = _timeline(tmp_path / "t.jsonl", {"name": "gemm"})
    with pytest.raises(InputError, match="has no launches with metrics"):
        ktrace.convert(timeline, tmp_path / "out.perfetto", metrics=timeline)
    assert not (tmp_path / "out.perfetto").exists()


@pytest.mark.parametrize(
    ("name", "alike", "base"),
    [
        ("void ns::gemm<(int)128, float>(const float *, T2)", "ns::gemm<128,float>", "gemm"),
        ("gemm", "gemm", "gemm"),
        ("void n::k<(bool)1, (bool)0, const float *>(T3)", "n::k<true,false,float*>", "k"),
        ("void n::k<true, false, float const*>(float const*)", "n::k<true,false,float*>", "k"),
        ("constant_fill(int)", "constant_fill", "constant_fill"),
        ("n::<unnamed>::k(int *)", "n::{anonymous}::k", "k"),
        ("void (anonymous namespace)::fill<int>(int*)", "{anonymous}::fill<int>", "fill"),
        ("k<void (*)(int)>(float*)", "k<void(*)(int)>", "k"),
        ("_Z4gemmPf", "gemm", "gemm"),
        ("_Z4gemmPf.kd", "gemm", "gemm"),
        ("void n::k<float>(float*) [clone .kd]", "n::k<float>", "k"),
        ("gemm.kd", "gemm", "gemm"),
        ("gemm.kd.x", "gemm.kd.x", "gemm.kd.x"),
    ],
)
def test_names(name: str, alike: str, base: str) -> None:
    assert spelled_alike(name) == alike
    assert base_name(name) == base


def test_a_report_brings_its_samples_and_advice(tmp_path: Path) -> None:
    """Samples stand at the time of the kernel, as far as it is long; what rules say is a line of its log."""
    from conftest import SAMPLES

    report_file = SAMPLES / "ncu-rep" / "names-behind-their-use-samples-and-rules.ncu-rep"
    name = "void gemm<float>(const float *, const float *, float *)"
    size = {"grid_x": 64, "grid_y": 2, "grid_z": 1, "block_x": 16, "block_y": 16, "block_z": 1}
    small = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    kernels = ({"name": name, "dur": 5000} | size, {"name": "saxpy", "ts": 9000} | small)
    timeline = _timeline(tmp_path / "t.jsonl", *kernels)
    trace, report = _joined(tmp_path, timeline, report_file, strict=True)
    sampled = trace.events[trace.events["track"] == "PM sampling"]
    assert sampled[["ts", "value", "device"]].values.tolist() == [
        [1000, 10.5, 0],
        [3000, 99.25, 0],
        [5000, 98.0, 0],
        [2000, 12.5, 0],
    ]
    assert sampled["parent"].isna().all()
    logs = trace.events[(trace.events["kind"] == "log") & (trace.events["parent"] == 1)]["name"].tolist()
    assert logs[-1] == "looks fine"
    assert "Only 64 blocks. See the Launch Statistics and the Guide (https://example.com/a)." in logs
    (ledger,) = [stage for stage in report.stages if stage.stage == "metrics"]
    assert ledger.removed == {"said twice": 2, "outside of the launch": 3}
