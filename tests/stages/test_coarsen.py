"""Coarse timelines: what short slices became, against plain Python; figures, arrows, counters; the command."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.cli import cli
from ktrace.errors import UsageError
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.stages.select.coarsen import budget_of

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"

Row = dict[str, Any]


def written(tmp_path: Path, rows: list[Row]) -> Path:
    """A canonical file with these events."""
    usual = {"record": "event", "source": "run", "timing": "measured"}
    lines = [{"ktrace": "1.0"}, *(usual | {"id": place} | row for place, row in enumerate(rows))]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def coarse(path: Path, budget: int) -> tuple[list[Row], Report]:
    """The events and links of a coarse timeline, and its report."""
    report = Report()
    batches = [one for one in read_selected([str(path)], report, Selection(budget=budget)) if one.record != "catalog"]
    report.require_balance()
    return [{"record": batch.record} | row for batch in batches for row in to_rows(batch)], report


def args_of(row: Row) -> Row:
    found = json.loads(row["args"]) if row.get("args") else {}
    return found | {
        name.removeprefix("args."): row[name] for name in row if name.startswith("args.") and row[name] is not None
    }


def nested(rng: random.Random, begin: int, end: int, depth: int) -> list[Row]:
    """Slices of a thread that nest, with gaps of all sizes."""
    rows, at = [], begin
    while at < end:
        at += rng.choice((0, 1, 10, 1_000))
        dur = min(rng.choice((1, 5, 40, 700, 20_000)), end - at)
        if dur <= 0:
            break
        rows.append({"kind": "op", "name": rng.choice("abcd"), "ts": at, "dur": dur, "pid": 1, "tid": 2})
        if depth and dur > 20:
            rows += nested(rng, at, at + dur, depth - 1)
        at += dur
    return rows


def busy(slices: list[Row]) -> int:
    """The time in which at least one of the slices is open."""
    total, reached = 0, -1
    for row in sorted(slices, key=lambda row: row["ts"]):
        total += max(row["ts"] + row["dur"] - max(row["ts"], reached), 0)
        reached = max(reached, row["ts"] + row["dur"])
    return total


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("part", [3, 10])
def test_merged_slices_add_up(tmp_path: Path, seed: int, part: int) -> None:
    rng = random.Random(seed)
    rows = nested(rng, 0, 300_000, 3)
    at = 0
    for number in range(400):
        at += rng.choice((0, 3, 900)) + 1
        dur = rng.choice((2, 50, 4_000))
        rows.append({"kind": "kernel", "name": f"k{number % 5}", "ts": at, "dur": dur, "device": 0, "stream": 7})
        at += dur
    budget = len(rows) // part
    found, report = coarse(written(tmp_path, rows), budget)
    merged = [row for row in found if "merged" in args_of(row)]
    stays = {row["id"] for row in found if "merged" not in args_of(row)}
    gone: defaultdict[Any, list[Row]] = defaultdict(list)
    for place, row in enumerate(rows):
        if place not in stays:
            gone[row.get("stream")].append(row)
    assert merged and len(found) <= budget
    assert all(rows[row["id"]].items() <= row.items() for row in found if row["id"] in stays)
    whole = 0
    for run in merged:
        begin, end, told = run["ts"], run["ts"] + run["dur"], args_of(run)
        mine = [row for row in gone[run.get("stream")] if begin <= row["ts"] and row["ts"] + row["dur"] <= end]
        assert told["merged"] == len(mine) > 1
        assert told["busy_ns"] == busy(mine)
        assert (begin, end) == (min(row["ts"] for row in mine), max(row["ts"] + row["dur"] for row in mine))
        times: Counter[str] = Counter()
        for row in mine:
            times[row["name"]] += row["dur"]
        heaviest = [f"{time:,} ns" for _, time in times.most_common(3)]
        assert [" ".join(words.split(" ")[1:]) for words in told["heaviest"].split(", ")] == heaviest
        assert (run["timing"], told["derived_by"]) == ("derived", "ktrace")
        whole += len(mine)
    assert whole == sum(map(len, gone.values())) == report.issues["coarsened"].rows


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_it_makes_no_difference_how_much_is_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Runs of slices that go over the end of what is added up at once, tracks over ranges of time, columns on disk."""
    rows = [row | {"tid": tid} for tid in (2, 3) for row in nested(random.Random(tid), 0, 100_000, 3)]
    rows += [{"kind": "counter", "name": "c", "ts": at, "value": at % 7, "pid": 1} for at in range(0, 9_000, 9)]
    path = written(tmp_path, sorted(rows, key=lambda row: row["ts"]))
    whole, _ = coarse(path, 60)
    for name, value in (("_MERGED", at_once), ("RANGE_ROWS", 5 * at_once), ("SPILL_BYTES", 0), ("_ROWS", at_once)):
        monkeypatch.setattr(f"ktrace.stages.select.coarsen.{name}", value)
    in_parts, _ = coarse(path, 60)
    assert len(whole) > 60
    assert in_parts == whole


def test_long_slices_steps_and_ranges_stay(tmp_path: Path) -> None:
    host = {"pid": 1, "tid": 2}
    rows: list[Row] = [{"kind": "range", "name": "ProfilerStep#3", "ts": 0, "dur": 40, **host}]
    rows += [{"kind": "range", "name": "load", "ts": 1, "dur": 2, **host}]
    rows += [{"kind": "op", "name": "a", "ts": 5 + 2 * number, "dur": 1, **host} for number in range(10)]
    rows += [{"kind": "op", "name": "long", "ts": 100, "dur": 900, **host}]
    found, _ = coarse(written(tmp_path, rows), 6)
    assert [row["name"] for row in sorted(found, key=lambda row: row["ts"])] == [
        "ProfilerStep#3",
        "load",
        "a +9",
        "long",
    ]


def test_nothing_merges_over_the_end_of_a_slice_or_a_long_gap(tmp_path: Path) -> None:
    host = {"pid": 1, "tid": 2, "kind": "op"}
    rows: list[Row] = [{"name": "long", "ts": 0, "dur": 10_000, **host}]
    rows += [{"name": "in", "ts": 9_000 + 2 * number, "dur": 1, **host} for number in range(6)]
    rows += [{"name": "out", "ts": 10_000 + 2 * number, "dur": 1, **host} for number in range(6)]
    rows += [{"name": "far", "ts": 90_000 + 2 * number, "dur": 1, **host} for number in range(6)]
    found, _ = coarse(written(tmp_path, rows), 5)
    assert sorted(row["name"] for row in found) == ["far +5", "in +5", "long", "out +5"]


def test_slices_without_time_merge_too(tmp_path: Path) -> None:
    rows = [{"kind": "op", "name": "a", "ts": 3 * place, "dur": 0, "pid": 1, "tid": 2} for place in range(9)]
    (found,), _ = coarse(written(tmp_path, rows), 1)
    told = args_of(found)
    assert (found["ts"], found["dur"], told["merged"], told["busy_ns"]) == (0, 24, 9, 0)


def test_where_nothing_can_merge_all_stays(tmp_path: Path) -> None:
    """More slices than wanted, each alone on its thread."""
    rows = [{"kind": "op", "name": "a", "ts": place, "dur": 5, "pid": 1, "tid": place} for place in range(9)]
    found, report = coarse(written(tmp_path, rows), 3)
    assert len(found) == 9
    assert "coarsened" not in report.issues


def test_a_trace_within_the_budget_stays_as_it_is(tmp_path: Path) -> None:
    whole, _ = coarse(STEP, 10**6)
    batches = [batch for batch in read_selected([str(STEP)], Report(), Selection()) if batch.record != "catalog"]
    rows = [row for batch in batches for row in to_rows(batch)]
    assert sorted(map(repr, ({"record": None} | row for row in rows))) == sorted(
        repr(row | {"record": None}) for row in whole
    )


def test_counters_keep_the_extremes_of_each_piece(tmp_path: Path) -> None:
    rng = random.Random(1)
    values = [rng.randint(0, 1_000) for _ in range(1_000)]
    rows = [
        {"kind": "counter", "name": "power", "ts": 10 * place, "value": value, "device": 0}
        for place, value in enumerate(values)
    ]
    found, report = coarse(written(tmp_path, rows), 100)
    assert len(found) <= 100
    width = (10 * 999) // 50 + 1
    pieces: defaultdict[int, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        pieces[10 * place // width].append(value)
    kept: defaultdict[int, list[float]] = defaultdict(list)
    for row in found:
        kept[row["ts"] // width].append(row["value"])
    assert {piece: (min(some), max(some)) for piece, some in kept.items()} == {
        piece: (min(some), max(some)) for piece, some in pieces.items()
    }
    assert report.stages[-1].removed["thinned"] == 1_000 - len(found)


def test_the_memory_of_allocations_keeps_its_extremes(tmp_path: Path) -> None:
    rows: list[Row] = []
    for place in range(500):
        usual = {"ts": 10 * place, "device": 0}
        rows += [{"kind": "alloc", "name": "[memory]", **usual}]
        value = 10_000 if place == 250 else place
        rows += [{"kind": "counter", "name": "allocated", "value": value, "parent": 2 * place, **usual}]
    found, _ = coarse(written(tmp_path, rows), 60)
    counters = [row["value"] for row in found if row["kind"] == "counter"]
    assert len(found) <= 120
    assert (min(counters), max(counters)) == (0, 10_000)


def test_figures_and_arrows_go_with_their_slice() -> None:
    found, report = coarse(STEP, 50)
    assert report.issues["coarsened"].rows > 0
    ids = {row["id"] for row in found if row["record"] == "events"}
    assert any(row["record"] == "links" for row in found)
    assert all(row["event"] in ids for row in found if row["record"] == "links" and row.get("event") is not None)
    assert all(row["parent"] in ids for row in found if row.get("kind") == "counter" and row.get("parent") is not None)


@pytest.mark.parametrize(("text", "number"), [("300k", 300_000), ("2M", 2_000_000), (17, 17), (" 5 ", 5)])
def test_budgets(text: str | int, number: int) -> None:
    assert budget_of(text) == number


@pytest.mark.parametrize("text", ["", "k", "0", "-3", "3.5", "1G", "٣"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="isn't a number of slices"):
        budget_of(text)


def test_the_command_says_what_became_of_the_slices(tmp_path: Path) -> None:
    out = tmp_path / "run.perfetto"
    result = CliRunner().invoke(cli, ["convert", str(STEP), "-o", str(out), "--budget", "25"])
    assert result.exit_code == 0
    assert "Short slices were merged with their neighbours, as --budget asks." in result.output


@pytest.mark.parametrize(("budget", "said"), [(25, True), (300_000, False)])
def test_a_summary_of_a_coarse_timeline_says_so(tmp_path: Path, budget: int, said: bool) -> None:
    ktrace.convert(STEP, tmp_path / "run.perfetto", budget=budget)
    found = [note for note in ktrace.summary(tmp_path / "run.perfetto").notes if "coarse" in note]
    expected = "a coarse timeline, in which --budget merged short slices; counts and sums aren't those of the run."
    assert found == [f"one-step-of-training.pt.trace: {expected}"] * said


def test_a_table_takes_no_budget(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--budget is for timelines, parquet is none"):
        ktrace.convert(STEP, tmp_path / "run.parquet", budget=25)
    assert not (tmp_path / "run.parquet").exists()


def test_without_need_nothing_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["convert", str(STEP), "-o", str(tmp_path / "run.perfetto"), "--budget", "300k"])
    assert result.exit_code == 0
    assert "--budget" not in result.output
