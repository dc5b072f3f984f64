"""Tables of one run have its totals and its first finding: `nsys stats`, rocprof's files, rocprofv3's, torch's tables.

A table of kernels knows nothing of copies, calls and times; so each is compared with the run that has lost the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import one_run
import one_run_statistics as tables
import pytest
from conftest import SAMPLES, SHARED
from one_run import Event, Run
from one_run_tables import in_nsys, in_rocpd, nsys, rocpd, rocprofv3_json

import ktrace

Answer = tuple[list[tuple[str, float, float | None]], list[tuple[str, float, int | None]]]

RUNS = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "kineto/collectives-of-two-ranks-rank0.json",
    SHARED / "corpus/pytorch_kineto/nccl_data.json.gz",
]
_TORCH = SHARED / "corpus/made/pytorch_single"


def answer(path: Path) -> Answer:
    """The heaviest operation and kernel, and the totals and counts of all kernels."""
    summary = ktrace.summary(path, by=["operation", "kernel"])
    found = [(one.code, one.value, one.whole) for one in summary.findings if one.code.startswith("heaviest")]
    return found, [(group.key, group.total, group.count) for group in summary.heaviest["kernel"]]


def kernels_alone(one: Event) -> Event | None:
    """What is in tables of dispatches."""
    held = in_rocpd(one)
    return held if held is not None and held.cat == "kernel" else None


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def run(request: pytest.FixtureRequest) -> Run:
    path: Path = request.param
    if not path.exists():
        pytest.skip("the real traces are not at hand (../shared/corpus)")
    return one_run.load(path)


Write = Callable[[Run, Path], Path]


@pytest.mark.parametrize(("write", "name"), [(tables.nsys_text, "stats.txt"), (tables.nsys_csv, "stats.csv")])
def test_statistics_of_nsight_systems(run: Run, write: Write, name: str, tmp_path: Path) -> None:
    held = one_run.held_by(run, in_nsys)
    assert answer(write(held, tmp_path / name)) == answer(nsys(held, tmp_path / "run.sqlite"))


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (tables.rocprof_csv, "results.csv"),
        (tables.rocprof_stats, "results.stats.csv"),
        (tables.rocprof_json, "results.json"),
        (tables.rocprof_db, "results.db"),
        (tables.rocprofv3_stats, "4242_kernel_stats.csv"),
    ],
)
def test_kernels_in_files_of_rocprof(run: Run, write: Write, name: str, tmp_path: Path) -> None:
    held = one_run.held_by(run, kernels_alone)
    assert answer(write(held, tmp_path / name)) == answer(one_run.write_kineto(held, tmp_path / "run.pt.trace.json"))


@pytest.mark.parametrize(("write", "name"), [(tables.rocprofv3_csv, "run"), (rocprofv3_json, "run_results.json")])
def test_files_of_rocprofv3(run: Run, write: Write, name: str, tmp_path: Path) -> None:
    held = one_run.held_by(run, in_rocpd)
    assert answer(write(held, tmp_path / name)) == answer(rocpd(held, tmp_path / "run.db"))


@pytest.mark.parametrize(
    ("table", "trace"),
    [
        ("table_default.txt", "single.pt.trace.json.gz"),
        ("autograd_profiler_kineto0_averages.txt", "autograd_profiler_kineto0.json"),
        ("autograd_profiler_kineto1_averages.txt", "autograd_profiler_kineto1.json"),
    ],
)
def test_torch_s_table_and_trace(table: str, trace: str) -> None:
    """Real files of one run each. Ranges of the program are rows of a table; a trace adds up operators alone."""
    if not (_TORCH / table).exists():
        pytest.skip("the real traces are not at hand (../shared/corpus)")
    of_table, of_trace = (ktrace.summary(_TORCH / name, by=["kernel"]) for name in (table, trace))
    first = [summary.findings[0] for summary in (of_table, of_trace)]
    assert first[0].code == first[1].code == "heaviest.call"
    assert first[0].subject == first[1].subject
    listed, traced = ({one.key: one.total for one in summary.heaviest["kernel"]} for summary in (of_table, of_trace))
    whole = [name for name in traced if len(name) <= 52]  # tables cut longer ones
    assert [name for name in whole if abs(listed.get(name, 0) - traced[name]) > 1_500] == []  # and round to us
    assert all(not name.startswith("aten::") for name in listed.keys() - traced.keys())
