"""Real traces: operators and ranges against json, calls against sqlite3, all with numpy masks instead of nesting."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SAMPLES, SHARED
from plain import ns, percentile
from real_traces import NSYS, at_hand, kineto

import ktrace
from ktrace.analysis.questions.hosts.answer import ApiTable, HostCosts

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
KINETO = [
    STEP,
    *kineto(
        "nccl_data.json.gz",
        "sglang_Qwen3-8B_decode.json.gz",
        "mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    ),
]


class Spans:
    """Spans of threads as columns; `around` are those around a time on a thread, innermost last."""

    def __init__(self, rows: list[tuple[Any, int, int, str]]) -> None:
        rows = sorted(rows, key=lambda row: (row[1], -row[2]))
        self.names = [name for *_, name in rows]
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(row[0] for row in rows))}
        self.thread = np.array([threads[row[0]] for row in rows])
        self.numbers = threads
        self.begin, self.end = np.array([row[1] for row in rows]), np.array([row[1] + row[2] for row in rows])

    def around(self, thread: Any, at: int) -> list[str]:
        mine = (self.thread == self.numbers.get(thread, -1)) & (self.begin <= at) & (self.end > at)
        return [self.names[place] for place in np.flatnonzero(mine).tolist()]


def costs_of(work: list[tuple[int, Any, int | None]], spans: Spans, nothing: str) -> dict[str, list[int]]:
    """Name -> own, total, launched own, launched of work (duration, thread and time of its call)."""
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    known: dict[tuple[Any, int], list[str]] = {}
    for dur, thread, at in work:
        around = [nothing] if at is None else known.setdefault((thread, at), spans.around(thread, at) or [nothing])
        found[around[-1]][0] += dur
        found[around[-1]][2] += 1
        for name in set(around):
            found[name][1] += dur
            found[name][3] += 1
    return dict(found)


def told(costs: Any) -> dict[str, list[int]]:
    assert isinstance(costs, HostCosts)
    assert sum(row.own for row in costs.rows) == costs.device
    return {row.name: [row.own, row.total, row.launched_own, row.launched] for row in costs.rows if row.launched}


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name[:20])
def test_operators_of_kineto(path: Path) -> None:
    packed = at_hand(path).read_bytes()
    text = gzip.decompress(packed) if path.suffix == ".gz" else packed
    document = json.loads(text, parse_float=Decimal, strict=False)
    whole = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    spans = Spans(
        [
            ((one["pid"], one["tid"]), ns(one["ts"]), ns(one["dur"]), one["name"])
            for one in whole
            if one["cat"] == "cpu_op"
        ]
    )
    calls = {
        one["args"]["correlation"]: ((one["pid"], one["tid"]), ns(one["ts"]))
        for one in whole
        if one["cat"] in ("cuda_runtime", "cuda_driver") and one["args"].get("correlation")
    }
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    work = [
        (ns(one["dur"]), *calls.get(one["args"].get("correlation"), (None, None)))
        for one in whole
        if one["cat"] in kinds
    ]
    expected = costs_of(work, spans, "no operator")
    assert len(expected) > 4
    summary = ktrace.summary(path, by=["op"])
    assert told(summary.answers["op"]) == expected
    assert sum(own for own, *_ in expected.values()) == summary.total


def rows_of(query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{at_hand(NSYS)}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


def test_ranges_of_nsys() -> None:
    """The texts have an id each: 16,582 different ones."""
    texts = rows_of(
        "select globalTid, start, end - start, coalesce(text, value) from NVTX_EVENTS"
        " left join StringIds on StringIds.id = textId where end is not null and eventType = 59"
    )
    assert len({text for *_, text in texts}) == 16_582
    spans = Spans([(tid, start, dur, re.sub(r", op_id = \d+$", "", text)) for tid, start, dur, text in texts])
    work = []
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        work += rows_of(
            f"select k.end - k.start, r.globalTid, r.start from CUPTI_ACTIVITY_KIND_{table} k left join"
            " CUPTI_ACTIVITY_KIND_RUNTIME r on r.correlationId = k.correlationId"
            " and r.globalTid >> 24 = k.globalPid >> 24"
        )
    expected = costs_of(work, spans, "no range")
    summary = ktrace.summary(NSYS, by=["range", "op"])
    assert told(summary.answers["range"]) == expected
    assert expected["aten::mm"][3] == 264 and expected["no range"][3] == 2_276
    assert {row.name: row.calls for row in _costs(summary.answers["range"]).rows if row.level} == {
        name: spans.names.count(name) for name in set(spans.names)
    }
    operators = told(summary.answers["op"])
    assert "aten::copy_" in operators and not any(name.startswith("FSDP") for name in operators)
    assert operators["aten::mm"] == expected["aten::mm"]


def _costs(answer: Any) -> HostCosts:
    assert isinstance(answer, HostCosts)
    return answer


def test_calls_of_nsys() -> None:
    """The figures of `nsys stats --report cuda_api_sum`, and the work by correlation."""
    calls = rows_of(
        "select value, r.end - r.start, r.correlationId, r.globalTid >> 24 from CUPTI_ACTIVITY_KIND_RUNTIME r"
        " join StringIds on StringIds.id = nameId"
    )
    times: defaultdict[str, list[int]] = defaultdict(list)
    for name, dur, *_ in calls:
        times[name].append(dur)
    launched: defaultdict[str, list[int]] = defaultdict(list)
    by_id = {(correlation, process): name for name, _, correlation, process in calls}
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        for dur, *key in rows_of(
            f"select end - start, correlationId, globalPid >> 24 from CUPTI_ACTIVITY_KIND_{table}"
        ):
            if tuple(key) in by_id:
                launched[by_id[tuple(key)]].append(dur)
    answer = ktrace.summary(NSYS, by=["api"]).answers["api"]
    assert isinstance(answer, ApiTable)
    assert {row.calls.key: (row.launched, row.device) for row in answer.rows if row.launched} == {
        name: (len(work), sum(work)) for name, work in launched.items()
    }
    assert [row.calls.key for row in answer.rows] == sorted(times, key=lambda name: -sum(times[name]))
    for row in answer.rows:
        own = times[row.calls.key]
        assert (row.calls.count, row.calls.total) == (len(own), sum(own))
        assert (row.calls.min, row.calls.max) == (min(own), max(own))
        assert row.calls.median == pytest.approx(percentile(own, 50))
        assert row.calls.p95 == pytest.approx(percentile(own, 95))


def test_host_time_of_operators_is_that_of_torch() -> None:
    """The table that torch 2.13 itself printed for the same run, to the digits that it printed."""
    folder = SHARED / "corpus/made/pytorch_single"
    lines = at_hand(folder / "table_default.txt").read_text().splitlines()
    units = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
    expected = {}
    for line in lines:
        cells = re.split(r"\s{2,}", line.strip())
        times = [re.fullmatch(r"([\d.]+)(us|ms|s)", cell) for cell in (cells[2], cells[4])] if len(cells) > 8 else []
        if len(times) == 2 and times[0] and times[1] and "." in cells[2]:
            expected[cells[0]] = [(float(time[1]), units[time[2]]) for time in times if time], int(cells[8])
    assert len(expected) == 57
    costs = _costs(ktrace.summary(folder / "single.pt.trace.json.gz", by=["op"]).answers["op"])
    compared = 0
    for row in costs.rows:
        name = row.name if len(row.name) <= 52 else f"{row.name[:52]}..."  # as torch clips it
        (own, total), calls = expected[name]
        assert row.calls == calls
        assert (row.host_own or 0) / own[1] == pytest.approx(own[0], abs=0.0011), row.name
        assert (row.host or 0) / total[1] == pytest.approx(total[0], abs=0.0011), row.name
        compared += 1
    assert compared == 52
