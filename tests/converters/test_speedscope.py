"""Profiles of speedscope: weights, times and stacks compared with the JSON itself, added up without ktrace."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput, KtraceError
from ktrace.trace.trace import Trace

SAMPLED = SAMPLES / "speedscope/py-spy-two-threads-and-an-unknown-frame.speedscope.json"
EVENTED = SAMPLES / "speedscope/ranges-unclosed-heap-counts-without-a-weight.json"
PY_SPY = SHARED / "corpus/made/pyspy/threads.speedscope.json"


def document(profiles: list[dict[str, Any]], names: str = "abc") -> dict[str, Any]:
    schema = "https://www.speedscope.app/file-format-schema.json"
    return {"$schema": schema, "shared": {"frames": [{"name": name} for name in names]}, "profiles": profiles}


def read(tmp_path: Path, *profiles: dict[str, Any]) -> Trace:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document(list(profiles))), "utf-8")
    return ktrace.read(path)


def evented(*events: tuple[str, int, float], unit: str = "nanoseconds") -> dict[str, Any]:
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": "t", "unit": unit, "startValue": 0, "endValue": 99, "events": listed}


def stacks(trace: Trace) -> dict[str, list[str]]:
    rows = trace.catalog[trace.catalog["entity"] == "stack"]
    return {name: json.loads(facts)["frames"] for name, facts in zip(rows["name"], rows["facts"], strict=True)}


@pytest.mark.parametrize("path", [SAMPLED, PY_SPY], ids=lambda path: path.name)
def test_samples_begin_where_the_weights_before_them_end(path: Path) -> None:
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    found = json.loads(path.read_text("utf-8"), parse_float=Fraction)
    frames = found["shared"]["frames"]
    expected = []
    for profile in found["profiles"]:
        at = Fraction(profile["startValue"])
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            if all(number < len(frames) for number in stack):
                name = frames[stack[-1]]["name"] if stack else "[no stack]"
                expected.append((name, round(at * 10**9), float(weight * 10**9), len(stack)))
            at += weight
    trace = ktrace.read(path)
    rows, known = trace.events, stacks(trace)
    depths = [len(known[json.loads(args)["stack"]]) if args else 0 for args in rows["args"].fillna("")]
    assert list(zip(rows["name"], rows["ts"], rows["value"], depths, strict=True)) == expected
    assert set(rows["kind"]) == {"sample"} and set(rows["unit"]) == {"ns"} and set(rows["timing"]) == {"derived"}


def test_threads_are_those_of_the_names_of_py_spy() -> None:
    trace = ktrace.read(SAMPLED)
    threads = trace.catalog[trace.catalog["entity"] == "thread"]
    assert list(zip(threads["pid"], threads["tid"], threads["name"], strict=True)) == [
        (4242, 4242, "MainThread"),
        (4242, 0x7F31, "loader"),
    ]
    assert Counter(zip(trace.events["pid"], trace.events["tid"], strict=True)) == {(4242, 4242): 5, (4242, 0x7F31): 2}
    assert stacks(trace)["1"] == ["<module> (serve.py:40)", "step (serve.py:12)", "matmul (torch/functional.py:7)"]


def test_a_range_lasts_from_its_frame_s_opening_to_its_close() -> None:
    rows = ktrace.read(EVENTED).events.sort_values("id")
    durations = [int(dur) if ended else None for dur, ended in zip(rows["dur"], rows["dur"].notna(), strict=True)]
    assert list(zip(rows["name"], rows["ts"], durations, strict=True)) == [
        ("main", 100_000_000, None),
        ("load", 101_500_000, 3_750_000),
        ("load", 102_000_000, 2_000_000),
        ("parse", 110_000_000, 2_000_001),
        ("load", 115_000_000, None),
    ]
    assert set(rows["track"]) == {"main thread"} and set(rows["kind"]) == {"range"}


def test_profiles_without_times_become_sums_of_stacks_and_no_times() -> None:
    rows = ktrace.read(EVENTED).summaries
    assert "ts" not in rows or rows["ts"].isna().all()
    heap = rows[rows["unit"] == "B"]
    assert [(*scope, name) for scope, name in zip(heap["scope"], heap["name"], strict=True)] == [
        ("heap", "main"),
        ("heap", "main", "load"),
        ("heap", "main", "parse"),
    ]
    assert list(heap["total"]) == [1024, 2048 + 512, 512] and heap["total"].sum() == 4096
    counts = rows[rows["unit"].isna()]
    assert list(zip(counts["name"], counts["total"], counts["count"], strict=True)) == [("load", 5, 2), ("main", 1, 1)]


def test_what_isn_t_sound_is_reported_and_the_rest_read(tmp_path: Path) -> None:
    backwards = evented(("O", 0, 10), ("O", 7, 11), ("C", 1, 12), ("X", 0, 13), ("C", 0, 5))
    trace = read(tmp_path, backwards, {"type": "other"}, evented(("O", 1, 1), ("C", 1, 3)))
    assert trace.report.reader.removed["bad-record"] == 3
    assert trace.report.reader.removed["end-without-begin"] == 1
    assert trace.report.reader.removed["negative-duration"] == 2
    assert trace.report.balanced()
    assert list(zip(trace.events["name"], trace.events["dur"], strict=True)) == [("b", 2)]


def test_a_frame_that_closes_out_of_turn_ends_the_innermost_of_its_own(tmp_path: Path) -> None:
    events = (("O", 0, 1), ("O", 1, 2), ("O", 0, 3), ("C", 1, 5), ("C", 0, 7), ("C", 0, 9))
    rows = read(tmp_path, evented(*events)).events.sort_values("id")
    assert list(zip(rows["name"], rows["ts"], rows["dur"], strict=True)) == [("a", 1, 8), ("b", 2, 3), ("a", 3, 4)]
    sums = read(tmp_path, evented(*events, unit="bytes")).summaries
    assert sums["total"].sum() == 8


@pytest.mark.parametrize(
    "text", ['{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[{}', "{}"]
)
def test_a_document_without_its_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.speedscope.json"
    path.write_text(text, "utf-8")
    with pytest.raises(DamagedInput, match="speedscope"):
        ktrace.read(path, from_="speedscope")


def test_a_larger_document_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document([evented(*[("O", 0, 1)] * 200)])), "utf-8")
    with pytest.raises(KtraceError, match="value"):
        ktrace.read(path, limits="value=1KiB")


def test_what_ktrace_writes_is_read_back(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": f"s{i}", "pid": 1, "tid": 2, "ts": 10 * i, "dur": 30 - i} for i in range(8)]
    (tmp_path / "in.trace.json").write_text(json.dumps(rows), "utf-8")
    ktrace.convert(tmp_path / "in.trace.json", tmp_path / "out.speedscope.json")
    ours = ktrace.read(tmp_path / "out.speedscope.json").events
    expected = [(row["name"], 1000 * row["ts"], 1000 * row["dur"]) for row in rows]
    assert sorted(zip(ours["name"], ours["ts"], ours["dur"], strict=True)) == expected
