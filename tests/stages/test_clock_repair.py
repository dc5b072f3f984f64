"""Clocks of devices that are apart from the host's, planted in worlds whose true times are known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT
from idle_traces import host, work, written
from worlds import World, build, write
from worlds.databases import nsys, rocpd
from worlds.world import Record

import ktrace
from ktrace.analysis.questions.checks import sentence
from ktrace.cli import cli
from ktrace.stages.clock_repair import move_of, steps_of

SEEDS = range(15)
_DEVICE = ("kernel", "collective", "copy")
_BASE = 4 * 10**9


@dataclass
class Apart(World):
    """A world whose device is `early` ns behind the host, which begins after 4 s."""

    early: int = 0

    def records(self, rank: int = 0) -> list[Record]:
        found = super().records(rank)
        by = [_BASE - self.early * (one.kind in _DEVICE) for one in found]
        return [replace(one, begin=one.begin + ns, end=one.end + ns) for one, ns in zip(found, by, strict=True)]


def apart(seed: int, early: int) -> Apart:
    world = build(seed, ranks=1, layers=4, scale=0.4, steps=4, uses_graph=False)
    return Apart(**vars(world), early=early)


def perfetto(world: World, path: Path) -> Path:
    """The trace as ktrace writes it for Perfetto."""
    out = path.with_suffix(".perfetto")
    ktrace.convert(write(world, path.with_suffix(".json")), out)
    return out


WRITERS: dict[str, Callable[[World, Path], Path]] = {
    "run.json": write,
    "run.sqlite": nsys,
    "run.db": rocpd,
    "run.perfetto": perfetto,
}


def rows_of(path: Path, **options: Any) -> tuple[list[dict[str, Any]], ktrace.Report]:
    """The rows of work and calls, in the order of the source, and the report."""
    trace = ktrace.read(path, **options)
    rows = trace.events.to_dict("records")
    return sorted(rows, key=lambda row: (row["source"], row["id"])), trace.report


def lags(rows: list[dict[str, Any]]) -> list[int]:
    calls = {row["correlation"]: row["ts"] for row in rows if row["kind"] == "api"}
    work = [row for row in rows if row["kind"] in ("kernel", "memcpy")]
    return [row["ts"] - calls[row["correlation"]] for row in work if row["correlation"] in calls]


@pytest.mark.parametrize("name", WRITERS)
def test_an_offset_is_found_to_within_the_smallest_lag(name: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        early = random.Random(seed).choice((40_000, 900_000, 12_000_000, 3_000_000_000))
        path = WRITERS[name](apart(seed, early), tmp_path / f"{seed}{name}")
        before, _ = rows_of(path)
        after, report = rows_of(path, repair_clock=True)
        (clock,) = report.clocks
        assert clock["moved"] and clock["drift_ppm"] is None, (seed, clock)
        least = early + min(lags(before))
        assert min(lags(after)) == 0 and clock["offset_ns"] == early - least
        assert clock["offset_ns"] <= early <= clock["offset_ns"] + clock["slack_ns"], "the truth is within its bounds"
        for old, new in zip(before, after, strict=True):
            assert new["ts"] - old["ts"] == clock["offset_ns"] * (old["kind"] in ("kernel", "memcpy"))
            assert new["dur"] == old["dur"]


@pytest.mark.parametrize("name", WRITERS)
def test_sound_clocks_stay(name: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        path = WRITERS[name](apart(seed, 0), tmp_path / f"{seed}{name}")
        before, _ = rows_of(path)
        after, report = rows_of(path, repair_clock=True)
        assert [(row["ts"], row["dur"]) for row in before] == [(row["ts"], row["dur"]) for row in after]
        assert not any(clock["moved"] for clock in report.clocks)
        assert "clock-kept" in report.issues and "clock-moved" not in report.issues


def _paced(rng: random.Random) -> list[dict[str, Any]]:
    """Steps of a second in all whose kernels queue in their second half, on two streams."""
    rows: list[dict[str, Any]] = []
    now, done = 10**9, [0, 0]
    for step in range(20):
        for at in range(30):
            call = rng.randrange(2_000, 6_000)
            rows.append(host("cudaLaunchKernel", now, now + call, len(rows) + 1))
            stream = at % 2
            start = max(done[stream], now + call + rng.randrange(1_000, 4_000))
            done[stream] = start + rng.randrange(20_000, 40_000) * (1 if at < 15 else 4)
            rows.append(work("gemm", start, done[stream], len(rows), stream=stream))
            now += call + rng.randrange(30_000, 80_000)
        if step % 4 == 3:
            now = max(now, *done) + 4_000
    return rows


def _seen(row: dict[str, Any], early: int, rate: float) -> dict[str, Any]:
    """A row by a clock that is `early` ns behind after 1 s, and loses `rate` ns each ns."""
    begin, end = (ns - early - round(rate * (ns - 10**9)) for ns in (row["ts"], row["ts"] + row["dur"]))
    return {**row, "ts": begin, "dur": end - begin}


@pytest.mark.parametrize("sign", [1, -1])
def test_drift_is_told_from_scatter(sign: int, tmp_path: Path) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        true = _paced(rng)
        span = true[-1]["ts"] - 10**9
        rate = sign * rng.uniform(4e-4, 9e-4)  # of 40 ms: as much as 20 to 40 ppm of a second
        begin = 30_000 + (round(-rate * span) if rate < 0 else 0)
        seen = [row if row["kind"] == "api" else _seen(row, begin, rate) for row in true]
        path = written(tmp_path / f"{seed}.jsonl", seen)
        after, report = rows_of(path, repair_clock=True)
        (clock,) = report.clocks
        assert clock["drift_ppm"] == pytest.approx(1e6 * rate, abs=1e6 * 6_000 / span), (seed, clock)
        off = [row["ts"] - old["ts"] for row, old in zip(after, true, strict=True)]
        assert min(lags(after)) >= 0
        assert max(map(abs, off)) < 12_000, "the scatter of launches, and what a busy device can't fall"
        assert [row["dur"] for row in after] == [row["dur"] for row in seen]
        for stream in (0, 1):
            mine = [row for row in after if row["stream"] == stream]
            assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(mine))


def test_the_line_is_above_all_needs_and_falls_only_while_the_device_is_idle() -> None:
    chance = np.random.default_rng(3)
    for rate in (-3e-5, 0.0, 4e-5):
        begin = np.cumsum(chance.integers(10_000, 90_000, 4_000)) + 10**18
        need = 50_000 + np.rint(rate * (begin - begin[0])).astype(np.int64) - chance.integers(2_000, 9_000, 4_000)
        move = move_of(begin, need)
        assert bool(move.rate) is bool(rate)
        steps = steps_of(move, begin, np.append(begin[1:], begin[-1]))  # always busy
        by = steps.shift_at(begin)
        assert np.all(by >= need) and np.all(np.diff(by) >= 0)
        assert len(steps.at) == 1 or rate > 0


def _rows(early: int) -> list[dict[str, Any]]:
    """Ten kernels whose device is `early` ns ahead, an annotation, a counter, and a synchronisation."""
    rows = []
    for at in range(10):
        begin = 1_000_000 + 100_000 * at
        rows.append(host("cudaLaunchKernel", begin, begin + 3_000, at + 1))
        rows.append(work("gemm", begin + 5_000 - early, begin + 65_000 - early, at + 1))
    rows.append(host("cudaDeviceSynchronize", 1_910_000, 1_980_000))
    place = {"pid": 1, "device": 0, "stream": 7}
    rows.append({"kind": "range", "name": "step", "ts": 1_005_000 - early, "dur": 960_000, **place})
    rows.append({"kind": "counter", "name": "power", "ts": 1_010_000 - early, "value": 300.0, "pid": 1, "device": 0})
    rows.append({"kind": "alloc", "name": "allocate", "ts": 1_000_500, "bytes": 4096, "pid": 1, "device": 0})
    return rows


def test_all_rows_on_the_device_move(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", _rows(20_000))
    before, _ = rows_of(path)
    after, report = rows_of(path, repair_clock=True)
    (clock,) = report.clocks
    assert (clock["offset_ns"], clock["early"], clock["of"], clock["slack_ns"]) == (15_000, 10, 10, 20_000)
    by = {"api": 0, "alloc": 0, "kernel": 15_000, "range": 15_000, "counter": 15_000}
    assert all(new["ts"] - old["ts"] == by[old["kind"]] for old, new in zip(before, after, strict=True))
    assert report.to_dict()["clocks"] == report.clocks and report.balanced()


def test_the_report_says_by_how_much_and_how_sure_that_is(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", _rows(20_000))
    summary = ktrace.summary(path, by=["idle"], repair_clock=True)
    (found,) = summary.checks
    assert found.code == "check.clock_repaired"
    assert sentence(found).startswith(
        "The times of device 0 were moved by 15.0 us, the smallest shift after which no work starts before its call; "
        "up to 20.0 us more is possible, judging by the calls that waited for the device."
    )
    late = next(one for one in summary.findings if one.code == "idle.host_late")
    assert late.doubts == ["check.clock_repaired"]
    assert {one.code for one in ktrace.summary(path, by=["idle"]).checks} == {"check.cause_after_effect"}


def test_work_that_then_outlasts_its_waits_has_wrong_durations(tmp_path: Path) -> None:
    rows = _rows(20_000)
    rows[-4] = host("cudaDeviceSynchronize", 1_910_000, 1_920_000)
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"], repair_clock=True)
    said = " ".join(map(sentence, summary.checks))
    assert "now work ends up to 40.0 us after a call that waited for it: durations are wrong, too" in said


def test_arrows_tell_which_call_launched_what(tmp_path: Path) -> None:
    """A trace of TrackEvents and the like has no correlation ids."""
    path = written(tmp_path / "run.jsonl", [{**row, "correlation": None} for row in _rows(20_000)])
    lines = path.read_text("utf-8").splitlines()
    number = len(lines)
    for at in range(10):
        for role, event in (("out", 2 * at + 1), ("in", 2 * at + 2)):
            link = {"record": "link", "source": "run", "id": number, "link": "launch", "key": f"{at}", "role": role}
            lines.append(json.dumps(link | {"event": event, "pid": 1}))
            number += 1
    path.write_text("\n".join(lines) + "\n", "utf-8")
    _, report = rows_of(path, repair_clock=True)
    assert [clock["offset_ns"] for clock in report.clocks] == [15_000]


@pytest.mark.parametrize("early", [0, 20_000])
def test_the_commands_have_the_option(early: int, tmp_path: Path) -> None:
    path = str(written(tmp_path / "run.jsonl", _rows(early)))
    told = CliRunner().invoke(cli, ["check", path, "--repair-clock", "--format", "json"])
    (clock,) = json.loads(told.stdout)["clocks"]
    assert told.exit_code == 0 and clock["moved"] is bool(early)
    for command in (["summary", path], ["diff", path, path], ["query", path, "select count(*) from events"]):
        assert CliRunner().invoke(cli, [*command, "--repair-clock"]).exit_code == 0
    out = tmp_path / "out.perfetto"
    done = CliRunner().invoke(cli, ["convert", path, "--repair-clock", "-o", str(out)])
    assert ("note: clock-moved (run, device 0)" in done.stderr) is bool(early)
    assert ("note: clock-kept (run, device 0)" in done.stderr) is not bool(early)
    assert CliRunner().invoke(cli, ["check", str(out)]).exit_code == 0
    merged = CliRunner().invoke(cli, ["merge", path, path, "--repair-clock", "-o", str(tmp_path / "both.perfetto")])
    assert merged.exit_code == 0


@pytest.mark.parametrize("name", ["out.perfetto", "out.json", "out.jsonl", "out.parquet", "run.parquet/"])
def test_that_clocks_were_repaired_outlasts_conversion(name: str, tmp_path: Path) -> None:
    """The offset and its bounds are a fact of the source; a sound run has none."""
    for early, said in ((20_000, True), (0, False)):
        path = written(tmp_path / f"run{early}.jsonl", _rows(early))
        ran = ["batch", "--jobs", "1"] if name.endswith("/") else ["convert"]
        out = str(tmp_path / f"{early}" / name)
        Path(out).parent.mkdir()
        done = CliRunner().invoke(cli, [*ran, str(path), "--repair-clock", "-o", out])
        assert done.exit_code == 0, done.output
        (clock,) = json.loads(
            CliRunner().invoke(cli, ["check", str(path), "--repair-clock", "--format", "json"]).stdout
        )["clocks"]
        kept = [one for one in ktrace.summary(out).checks if one.code == "check.clock_repaired"]
        assert len(kept) == said
        for one in kept:
            assert (one.value, one.subject["device"]) == (clock["offset_ns"], clock["device"])
            assert one.details == {key: clock[key] for key in ("early", "most_ns", "drift_ppm", "slack_ns")}


def test_a_batch_is_made_anew_with_repaired_clocks(tmp_path: Path) -> None:
    """Datasets with and without differ, and each is kept where it is asked for again."""
    path, out = written(tmp_path / "run.jsonl", _rows(20_000)), tmp_path / "run.parquet"
    made = [len(ktrace.batch(path, out, jobs=1, repair_clock=repair).done) for repair in (False, True, True, False)]
    assert made == [1, 1, 0, 1]


def test_rows_are_the_same_in_batches_of_any_size(tmp_path: Path) -> None:
    from ktrace.pipeline.read import read_batches
    from ktrace.report import Report
    from ktrace.stages.clock_repair import with_repaired_clocks
    from ktrace.stages.order.pairing import pair_halves

    path = write(apart(3, 70_000), tmp_path / "run.json")
    seen = []
    for size in (7, 65_536):
        report = Report()
        batches = with_repaired_clocks(pair_halves(read_batches([str(path)], report, batch_rows=size), report), report)
        rows = [row for batch in batches if batch.record == "events" for row in batch.columns.to_pylist()]
        seen.append((sorted((row["id"], row["ts"]) for row in rows), report.clocks))
    assert seen[0] == seen[1]


def test_times_beyond_the_model_and_single_records_decide_nothing(tmp_path: Path) -> None:
    """One kernel of 200 a second early is a wrong record; a time of 2^62 is none at all."""
    rows: list[dict[str, Any]] = []
    for at in range(200):
        rows.append(host("cudaLaunchKernel", 10**10 + 10_000 * at, 10**10 + 10_000 * at + 3_000, at + 1))
        rows.append(work("gemm", 10**10 + 10_000 * at + 5_000, 10**10 + 10_000 * at + 9_000, at + 1))
    rows[101]["ts"] -= 10**9
    rows[103]["ts"] = 1 << 62
    _, report = rows_of(written(tmp_path / "run.jsonl", rows), repair_clock=True)
    assert [(clock["moved"], clock["early"], clock["of"]) for clock in report.clocks] == [(False, 1, 199)]


REPORT = ROOT.parent / "shared/reports/foreign/causality.pt.trace.json"


@pytest.mark.skipif(not REPORT.exists(), reason="the reports aren't here")
def test_what_was_reported() -> None:
    summary = ktrace.summary(REPORT, by=["idle"], repair_clock=True)
    assert [(one.code, one.value) for one in summary.checks] == [("check.clock_repaired", 15_000)]
