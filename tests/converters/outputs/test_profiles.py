"""speedscope and folded stacks, compared with sums that the tests compute from the canonical rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

KINETO = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
OVERLAPS = SAMPLES / "otlp" / "two-services-one-request-links-and-lanes.otlp.json"


def events_of(path: Path) -> list[dict[str, Any]]:
    return [row for batch in read_batches([str(path)], Report()) if batch.record == "events" for row in to_rows(batch)]


def test_every_profile_of_speedscope_nests_and_has_every_slice(tmp_path: Path) -> None:
    for source in (KINETO, OVERLAPS):
        out = tmp_path / f"{source.parent.name}.speedscope.json"
        report = ktrace.convert(str(source), str(out))
        assert report.balanced()
        found = json.loads(out.read_text())
        frames = [frame["name"] for frame in found["shared"]["frames"]]
        durations: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for profile in found["profiles"]:
            assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
            stack: list[tuple[int, int]] = []
            last = profile["startValue"]
            for event in profile["events"]:
                assert last <= event["at"] <= profile["endValue"]
                last = event["at"]
                if event["type"] == "O":
                    stack.append((event["frame"], event["at"]))
                    counts[frames[event["frame"]]] += 1
                else:
                    frame, begin = stack.pop()
                    assert frame == event["frame"]
                    durations[frames[frame]] += event["at"] - begin
            assert not stack
        rows = [row for row in events_of(source) if row["kind"] != "counter"]
        assert counts == Counter(row["name"] for row in rows)
        expected: Counter[str] = Counter()
        for row in rows:
            expected[row["name"]] += row.get("dur", 0)
        assert +durations == +expected
        assert len({profile["name"] for profile in found["profiles"]}) == len(found["profiles"]) > 2


def folded(path: Path) -> dict[tuple[str, ...], int]:
    """The stacks, as flamegraph.pl splits its lines: the number after the last blank, frames between semicolons."""
    lines = path.read_text().splitlines()
    assert all(re.fullmatch(r"[^;]+(;[^;]+)* [1-9][0-9]*", line) for line in lines)
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    return {tuple(line.rpartition(" ")[0].split(";")): int(line.rpartition(" ")[2]) for line in lines}


def test_folded_stacks_add_up_to_the_times_of_threads_and_kernels(tmp_path: Path) -> None:
    out = tmp_path / "a.folded"
    report = ktrace.convert(str(KINETO), str(out))
    assert report.balanced()
    stacks = folded(out)
    rows = [row for row in events_of(KINETO) if row.get("dur")]
    device = {"kernel", "memcpy", "memset"}
    work: Counter[str] = Counter()
    for row in rows:
        if row["kind"] in device:
            work[row["name"].replace(";", ":")] += row["dur"]
    found: Counter[str] = Counter()
    for stack, total in stacks.items():
        if stack[-1] in work:
            found[stack[-1]] += total
            assert any(frame.startswith("GPU 0") for frame in stack)
    assert found == work
    for thread in {row.get("tid") for row in rows if row.get("tid") is not None and row.get("device") is None}:
        own = [row for row in rows if row.get("tid") == thread and row.get("device") is None]
        ends, roots = -1, 0
        for row in sorted(own, key=lambda row: (row["ts"], -row["dur"])):
            if row["ts"] >= ends:
                roots += row["dur"]
                ends = row["ts"] + row["dur"]
        named = [
            total
            for stack, total in stacks.items()
            if len(stack) > 1 and stack[1].startswith(f"thread {thread}") and not any("GPU 0" in part for part in stack)
        ]
        assert sum(named) == roots


def test_a_kernel_is_below_the_call_that_launched_it(tmp_path: Path) -> None:
    out = tmp_path / "a.folded"
    ktrace.convert(str(KINETO), str(out))
    calls = {
        row["correlation"]: row["name"] for row in events_of(KINETO) if row["kind"] == "api" and "correlation" in row
    }
    kernels = {row["name"]: row for row in events_of(KINETO) if row["kind"] == "kernel"}
    seen = 0
    for stack in folded(out):
        row = kernels.get(stack[-1])
        if row is not None and row["correlation"] in calls:
            assert stack[-2] == f"GPU 0 · NVIDIA H100 80GB HBM3, stream {row['stream']}"
            assert stack[-3] in calls.values()
            seen += 1
    assert seen >= 5


def test_names_with_semicolons_and_line_ends_are_one_frame(tmp_path: Path) -> None:
    trace = [{"ph": "X", "name": "a;b\nc d", "pid": 1, "tid": 2, "ts": 0, "dur": 5}]
    (tmp_path / "in.json").write_text(json.dumps(trace))
    ktrace.convert(str(tmp_path / "in.json"), str(tmp_path / "out.folded"), from_="chrome")
    assert [stack[-1] for stack in folded(tmp_path / "out.folded")] == ["a:b:c d"]


@pytest.mark.parametrize("name", ["out.speedscope.json", "out.folded"])
def test_parts_compressed_outputs_and_equal_bytes(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "1" / name, tmp_path / "2" / name
    for path in (first, second):
        path.parent.mkdir()
        ktrace.convert(str(KINETO), str(path))
    if name.endswith("folded"):
        assert first.read_bytes() == second.read_bytes()
    assert ktrace.convert(str(KINETO), f"{first}.gz").balanced()
    report = ktrace.convert(str(KINETO), str(first), split_by="time=200us", overwrite=True)
    assert report.balanced()
    assert len(report.parts) > 2
    assert all(Path(part["path"]).stat().st_size for part in report.parts)
