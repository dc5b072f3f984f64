"""Real files of torch, py-spy and VizTracer, made for these tests: what was counted of them by others is what we write.

The counts stand in the corpus' INDEX.tsv, and were made by json and plain loops.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from nightly import few

import ktrace
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect

MADE = ROOT.parent / "shared" / "corpus" / "made"
TRACES = [
    "pyspy/threads.chrometrace.json",
    "viztracer/threads.json",
    "pytorch_compile/compiled.pt.trace.json",
    *(f"pytorch_gloo4_stack/rank{rank}.pt.trace.json.gz" for rank in range(4)),
    "pytorch_single/single.pt.trace.json.gz",
    "pytorch_single/autograd_profiler_kineto0.json",
    "pytorch_single/autograd_profiler_kineto1.json",
    "pytorch_single/autograd_profiler_legacy.json",
]
STACKS = "pytorch_single/stacks.txt"
RAW = "pytorch_single/memory_timeline.raw.json.gz"
SIZES = "pytorch_single/memory_timeline.json"

pytestmark = pytest.mark.skipif(not MADE.is_dir(), reason="the corpus isn't at hand")


def counted(name: str) -> str:
    """What INDEX.tsv says that a file contains."""
    with (MADE / "INDEX.tsv").open() as stream:
        [row] = [row for row in csv.reader(stream, delimiter="\t") if row[0] == name]
    return row[4]


def rows_of(path: Path, record: str = "events") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ktrace.read(path).to_arrow()[record].to_pylist()
    return found


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("output", few(["perfetto", "parquet"], 1))
def test_counts_and_sums_are_those_of_the_index(tmp_path: Path, name: str, output: str) -> None:
    said = counted(name)
    phases = Counter(eval_counts(said, "by ph"))
    total = Decimal(re.search(r"sum of dur of X = ([0-9.]+) us", said)[1])  # type: ignore[index]
    target = tmp_path / f"out.{output}"
    report = convert(MADE / name, target)
    assert report.balanced()
    assert report.reader.taken == sum(phases.values())
    assert {kind for kind, issue in report.issues.items() if issue.rows} <= {"rounded", "lane"}
    events = rows_of(target)
    slices = [row for row in events if row["dur"] is not None]
    assert len(slices) == phases["X"] + phases["B"]
    if phases["X"]:  # a text of more digits than ns is rounded, event by event
        tolerance = report.issues["rounded"].rows if "rounded" in report.issues else 0
        assert abs(sum(row["dur"] for row in slices) - total * 1000) <= tolerance
    if output == "parquet":
        assert inspect(MADE / name).kinds == Counter(("events", row["kind"]) for row in events)


def eval_counts(said: str, what: str) -> dict[str, int]:
    """The counts behind some words: by ph {'M': 8, 'X': 28}."""
    found = re.search(rf"{what} (\{{.*?\}})", said)
    assert found
    counts: dict[str, int] = json.loads(found[1].replace("'", '"'))
    return counts


def test_begins_and_ends_are_one_slice_for_info() -> None:
    """py-spy: 422 events, 211 slices."""
    info = inspect(MADE / TRACES[0])
    assert sum(info.kinds.values()) == 211


def test_stacks_of_torch() -> None:
    said = counted(STACKS)
    stacks, total = map(int, re.findall(r"[0-9]+", said))
    found = rows_of(MADE / STACKS, "summaries")
    assert (len(found), sum(row["total"] for row in found)) == (stacks, 1000.0 * total)


def test_memory_events_of_torch() -> None:
    actions = eval_counts(counted(RAW), "by action")
    allocs, before = rows_of(MADE / RAW), rows_of(MADE / RAW, "summaries")
    words = {"1": "preexisting", "2": "create", "3": "increment_version", "4": "destroy"}
    assert Counter(row["name"] for row in [*allocs, *before]) == {
        words[action]: count for action, count in actions.items()
    }
    raw = json.loads(gzip.decompress((MADE / RAW).read_bytes()))
    assert sum(row["bytes"] for row in allocs) + sum(row["value"] for row in before) == sum(row[2] for row in raw)


def test_memory_by_category_of_torch() -> None:
    times, sizes = json.loads((MADE / SIZES).read_text())
    assert counted(SIZES).startswith(f"{len(times)} times, {len(sizes)} rows of {len(sizes[0])} sizes")
    found = rows_of(MADE / SIZES)
    assert len({row["ts"] for row in found}) == len(set(times))
    assert sum(row["value"] for row in found) == sum(map(sum, sizes))
    last = {row["name"]: row["value"] for row in found}
    names = ["parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail"]
    names.append("unknown")
    assert last == {name: size for name, size in zip(names, sizes[-1][1:], strict=True) if name in last}


def test_the_page_of_a_memory_timeline_is_refused() -> None:
    with pytest.raises(ktrace.KtraceError, match="picture"):
        ktrace.read(MADE / "pytorch_single" / "memory_timeline.html")
