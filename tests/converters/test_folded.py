"""Folded stacks and austin's samples: numbers and frames compared with the lines, split without ktrace."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.converters.folded import probe
from ktrace.input.format import Score
from ktrace.input.source import Sample

PERF = SAMPLES / "folded/perf-kernel-frames-a-comment-and-decimals.folded"
AUSTIN = SAMPLES / "folded/austin-two-threads-and-an-idle-one.austin"
PY_SPY = SHARED / "corpus/made/pyspy/threads.folded.txt"

SIX = "main;load 1\nmain;step 2\nmain;step;mm 30\nmain;step;norm 4\nmain 5\nother;thing 6\n"


def score(text: str, name: str = "run.txt") -> Score | None:
    match = probe(Sample(name, text.encode()))
    return match.score if match else None


@pytest.mark.parametrize("path", [PERF, PY_SPY], ids=lambda path: path.name)
def test_each_stack_has_its_number_and_no_time(path: Path) -> None:
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    expected: Counter[tuple[str, ...]] = Counter()
    for line in path.read_text("utf-8").splitlines():
        stack, _, number = line.rpartition(" ")
        if line.strip() and not line.startswith("#") and number.replace(".", "").isdigit():
            expected[tuple(stack.split(";"))] += float(number)
    trace = ktrace.read(path)
    rows = trace.summaries
    found: Counter[tuple[str, ...]] = Counter()
    for scope, name, total in zip(rows["scope"], rows["name"], rows["total"], strict=True):
        found[(*(() if scope is None else scope), name)] += total
    assert found == expected and found.total() == sum(expected.values())
    assert set(rows["kind"]) == {"sample"} and set(rows["metric"]) == {"weight"}
    assert not len(trace.events) and ("ts" not in rows or rows["ts"].isna().all())


def test_a_sample_of_austin_begins_where_those_of_its_thread_end() -> None:
    trace = ktrace.read(AUSTIN)
    stacks = trace.catalog[trace.catalog["entity"] == "stack"]
    frames = {key: json.loads(facts)["frames"] for key, facts in zip(stacks["name"], stacks["facts"], strict=True)}
    now: Counter[str] = Counter()
    expected = []
    for line in AUSTIN.read_text("utf-8").splitlines():
        if not line.startswith("P"):
            continue
        process, thread, *stack = line.rpartition(" ")[0].split(";")
        time, idle, memory = map(int, line.rpartition(" ")[2].split(","))
        tid = thread.partition(":")[2]
        name = stack[-1].split(":")[1] if stack else "[no stack]"
        expected.append((int(process[1:]), int(tid), now[tid] * 1000, time * 1000, name, stack, idle, memory))
        now[tid] += time
    found = []
    rows = trace.events
    for pid, tid, ts, value, name, text in zip(
        *(rows[key] for key in ("pid", "tid", "ts", "value", "name", "args")), strict=True
    ):
        args = json.loads(text)
        found.append((pid, tid, ts, value, name, frames.get(args.get("stack"), []), args["idle"], args["memory"]))
    assert found == expected
    assert set(rows["kind"]) == {"sample"} and set(rows["timing"]) == {"derived"} and set(rows["unit"]) == {"ns"}
    facts = json.loads(trace.catalog[trace.catalog["entity"] == "source"]["facts"].iloc[0])
    assert facts == {"tool": "austin", "version": "3.4.1", "interval": "1000", "mode": "full", "duration": "4805"}
    assert trace.report.reader.removed["unrecognised"] == 1


def test_memory_of_austin_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "memory.austin"
    path.write_text("# austin: 3.4.1\n# mode: memory\nP1;T0xa;a.py:f:1 4096\nP1;T2;a.py:g:2 -96\n", "utf-8")
    trace = ktrace.read(path)
    rows = trace.summaries
    assert not len(trace.events)
    assert list(zip(rows["name"], rows["total"], rows["unit"], strict=True)) == [("f", 4096, "B"), ("g", -96, "B")]
    assert rows["track"].iloc[0] == "0xa" and rows["tid"].iloc[1] == 2


def test_folded_stacks_are_known_by_their_lines() -> None:
    assert score(SIX) == Score.SHAPE
    assert score("# comment\n" + SIX.replace("\n", "\r\n")) == Score.SHAPE
    assert score(SIX + "no stack at all\n", "run.folded") == Score.SHAPE
    assert score("main;load 1\n", "run.collapsed") == Score.SHAPE


@pytest.mark.parametrize(
    "text",
    [
        SIX + "no stack at all\n",
        "main;load 1\nmain;step 2\n",
        "step 1\nloss 2\nmain;a 3\nmain;b 4\nmain;c 5\nlr 6\ntime 7\n",
        "kernel;grid;1 000\nnorm;grid;2 000\nmm;grid;3 000\n",
        "name;time\ngemm;12\nnorm;13\nmm;14\n",
        "epoch 1; step 1; loss 0.5\nepoch 1; step 2; loss 0.4\nepoch 1; step 3; loss 0.3\nepoch 2; a\n",
        '{"a;b": 1}\n{"a;b": 2}\n{"a;c": 3}\n',
        "",
    ],
)
def test_other_texts_with_numbers_and_semicolons_are_not(text: str) -> None:
    assert score(text) is None


@pytest.mark.parametrize("text", ["# austin: 3\n", "# interval: 100\n# austin: 3.4.0\n# mode: wall\nP1;T1 5\n"])
def test_austin_is_known_by_its_head(text: str) -> None:
    assert score(text) == Score.DIALECT


def test_what_ktrace_writes_is_read_back(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": f"s{i}", "pid": 1, "tid": 2, "ts": 10 * i, "dur": 5} for i in range(8)]
    (tmp_path / "in.trace.json").write_text(json.dumps(rows), "utf-8")
    ktrace.convert(tmp_path / "in.trace.json", tmp_path / "out.folded")
    ours = ktrace.read(tmp_path / "out.folded").summaries
    assert sorted(zip(ours["name"], ours["total"], strict=True)) == [(row["name"], 5000) for row in rows]
