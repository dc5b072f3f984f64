"""Twice the input costs at most 2.6 times the time and 1.3 times the memory: cases of `python -m tests.budget`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from budget import judge
from budget.held import HELD, TABLE, covered
from budget.judge import Effort, Trial, Verdict
from budget.measure import Cost
from budget.rows import LEFT_OUT, sources
from budget.selection import SELECTION
from budget.shapes import SHAPES, records
from budget.source import Source
from conftest import ROOT

from ktrace.input.format import builtin_formats

#: Every row of every format.
SOURCES = [source for several in sources().values() for source in several]

ROW = sources()["kineto"][0]


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the anonymous memory of Linux")
def test_the_selection_keeps_to_the_budget() -> None:
    """In a process of its own, whose children have no locks of a test's threads. about 150 s of CPU time."""
    command = [sys.executable, "-m", "tests.budget", "--selection"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(SELECTION)


def test_every_shape_is_in_the_selection_or_costs_what_another_one_does() -> None:
    alike = {"digits": "text", "blanks": "text", "brackets": "text"}
    chosen = {one.shape for one in SELECTION}
    assert chosen | set(alike) == set(SHAPES)
    assert chosen >= set(alike.values())
    assert all(not one.source.lacks(one.shape) for one in SELECTION)


def test_every_format_that_reads_has_rows_or_a_reason() -> None:
    assert set(sources()) | set(LEFT_OUT) == {fmt.name for fmt in builtin_formats() if fmt.reads}
    assert all(len(why.split()) > 4 for why in LEFT_OUT.values())


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.sample}-{type(source).__name__}")
def test_an_input_has_the_rows_of_its_shape(source: Source, tmp_path: Path) -> None:
    sizes = {}
    for count in (2, 400):  # a page of a database has some dozen rows
        folder = tmp_path / str(count)
        folder.mkdir()
        shape = "rows" if source.lacks("names") else "names"
        path = source.write(folder, records(shape, count))
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        sizes[count] = sum(file.stat().st_size for file in files)
    assert sizes[400] > sizes[2]


def test_a_thousand_slices_are_open_at_once() -> None:
    made = list(records("open", 2500))
    at = made[999].start
    assert sum(record.start <= at < record.start + record.dur for record in made) == 1000
    assert all(inner.start + inner.dur < outer.start + outer.dur for outer, inner in pairwise(made[:1000]))


def verdict(
    monkeypatch: pytest.MonkeyPatch, folder: Path, shape: str, cost: Callable[[int], tuple[float, float]]
) -> Verdict:
    """What the driver says of a conversion that costs so many seconds and megabytes for a size."""

    def measured(path: Path, out: Path, fmt: str) -> Cost:
        size = path.read_bytes().count(b'"aten::to"') if not SHAPES[shape].is_long else path.stat().st_size
        cpu, memory = cost(size)
        return Cost(cpu, int(memory * (1 << 20)), "some rows")

    monkeypatch.setattr(judge, "measure", measured)
    return Trial(ROW, shape, "perfetto", Effort(rows=2000, cpu=0.3), folder).run()


@pytest.mark.parametrize(
    ("cost", "over"),
    [
        (lambda size: (size / 1000, 1), []),
        (lambda size: ((size / 1000) ** 2, 1), ["time 4.0 and 4.0 times"]),
        (lambda size: (size / 1000 + (size > 1500), 1), []),  # a step that doesn't come again
        (lambda size: (size / 1000, size / 10), ["memory 104857.6 bytes more for each unit more"]),
        (lambda size: (size / 1000, min(size / 10, 190)), []),  # a buffer that fills up
        (lambda size: (size / 1000, size / 100), []),  # below what isn't compared
    ],
    ids=["linear", "square", "step", "memory", "buffer", "small"],
)
def test_only_what_grows_at_both_steps_is_over(
    cost: Callable[[int], tuple[float, float]], over: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(monkeypatch, tmp_path, "rows", cost).over == over


def test_a_slow_run_alone_is_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def cost(size: int) -> tuple[float, float]:
        runs.append(size)
        noise = 5.0 if runs.count(size) == 1 and size > 1500 else 0
        return size / 1000 + noise, 1

    assert verdict(monkeypatch, tmp_path, "rows", cost).over == []
    assert max(map(runs.count, runs)) > 2


def test_an_exception_has_shapes_a_figure_and_a_reason() -> None:
    for held in HELD:
        assert held.shapes <= set(SHAPES)
        assert len(held.why.split()) > 4
        [shape, *_] = held.shapes
        assert covered(shape, held.most)
        assert not covered(shape, held.most + 1)
    assert covered("rows", TABLE.most, table=True) and not covered("rows", TABLE.most)
    assert not covered("rows", TABLE.most + 1, table=True) and not covered("open", TABLE.most, table=True)
