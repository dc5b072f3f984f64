"""Counters by kernel and by device, against plain pandas over the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.counters import CountersAnswer
from ktrace.cli import cli

OF_LAUNCHES = SAMPLES / "rocprofv3/dispatches-out-of-order_counter_collection.csv"
OF_TABLES = SAMPLES / "nvprof/metrics-and-events-levels-rates-a-name-twice.csv"
OF_DEVICES = SAMPLES / "smi/amd-smi-metric-with-lists.csv"
WITHOUT = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def counters(path: Path, **options: Any) -> CountersAnswer:
    answer = ktrace.summary(path, by=["counter"], **options).answers["counter"]
    assert isinstance(answer, CountersAnswer)
    return answer


@pytest.mark.parametrize("path", [OF_LAUNCHES, SAMPLES / "rocprof/counters-with-times-behind-a-banner.csv"])
def test_counters_of_launches_are_those_of_their_kernels(path: Path) -> None:
    rows = ktrace.read(path).events
    counts = rows[(rows.kind == "counter") & rows.parent.notna()].merge(
        rows[["source", "id", "name"]],
        left_on=["source", "parent"],
        right_on=["source", "id"],
        suffixes=("", "_of"),
    )
    expected = counts.groupby(["name_of", "name"])["value"]
    found = counters(path)
    assert not found.devices and sum(one.times for one in found.kernels) == len(counts) > 2
    assert {
        (one.of, one.counter): (one.times, pytest.approx(one.mean), one.least, one.greatest) for one in found.kernels
    } == {
        (kernel.partition("(")[0].removesuffix(".kd"), counter): (len(each), each.mean(), each.min(), each.max())
        for (kernel, counter), each in expected
    }


def test_metrics_of_a_table_count_as_many_launches_as_their_kernel() -> None:
    found = {(one.of, one.counter): one for one in counters(OF_TABLES).kernels}
    branches = found["stencil", "branch_efficiency"]
    assert (branches.times, branches.unit, branches.least, branches.greatest) == (5, "%", 98.865132, 98.9)
    assert found["stencil", "warps_launched"].mean == 3168
    assert found["fill", "ipc"].times == 1


def test_readings_of_devices_have_no_kernel() -> None:
    rows = ktrace.read(OF_DEVICES).events.query("kind == 'counter'").groupby(["device", "name"])["value"]
    found = counters(OF_DEVICES)
    assert not found.kernels
    assert {(one.of, one.counter): (one.times, one.mean, one.least, one.greatest) for one in found.devices} == {
        (f"device {device}", name): (len(each), pytest.approx(each.mean()), each.min(), each.max())
        for (device, name), each in rows
    }


def test_a_filter_leaves_out_the_counters_of_other_kernels() -> None:
    assert {one.of for one in counters(OF_LAUNCHES).kernels} > {"add"}
    assert {one.of for one in counters(OF_LAUNCHES, filter=ktrace.Filter(names=("add*",))).kernels} == {"add"}


def test_a_format_between_changes_nothing(tmp_path: Path) -> None:
    ktrace.convert(OF_LAUNCHES, tmp_path / "a.parquet")
    assert counters(tmp_path / "a.parquet") == counters(OF_LAUNCHES)


def test_the_question_is_proposed_where_it_has_an_answer() -> None:
    assert "counter" in ktrace.summary(OF_LAUNCHES).askable
    assert any(
        note.endswith(f"ktrace summary {OF_TABLES} --by counter")
        for note in ktrace.summary(OF_TABLES, by=["kernel"]).notes
    )
    asked = ktrace.summary(WITHOUT, by=["counter"])
    assert "counter" not in asked.askable and "counter" not in asked.answers
    assert any("no counter information" in note and "rocprofv3 --pmc" in note for note in asked.notes)


@pytest.mark.parametrize(("asked", "title"), [("counter", "counters of kernels"), ("kernel,counter", "by kernel")])
def test_a_page_opens_with_the_tables_that_were_asked_for(asked: str, title: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["summary", str(OF_LAUNCHES), "--by", asked, "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    (opened,) = re.findall(r"<details open>\s*<summary>([^<]+)", (tmp_path / "page.html").read_text())
    assert opened.strip() == title
