"""Four real ranks on the CPU (gloo), against arithmetic on their JSON; and a trace of a GPU with gloo in it."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer

FOLDER = SHARED / "corpus/made/pytorch_gloo4_stack"


def answer(paths: list[Path]) -> CollectivesAnswer:
    found = ktrace.summary(paths, by=["collective"]).answers["collective"]
    assert isinstance(found, CollectivesAnswer)
    return found


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the corpus")
def test_real_ranks() -> None:
    """The k-th collective of a name and size is the same on all ranks, which share a host and its clock."""
    paths = sorted(FOLDER.glob("rank*.json.gz"))
    ranks: list[defaultdict[tuple[str, int | None], list[tuple[float, float]]]] = []
    for path in paths:
        rows = [row for row in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if "gloo:" in row["name"]]
        ranks.append(defaultdict(list))
        for row in sorted(rows, key=lambda row: row["ts"]):
            dims = row["args"].get("Input Dims")
            assert row["args"].get("Input type") in (["float"], None)
            size = 4 * dims[0][0] if dims and dims[0] else None
            ranks[-1][row["name"], size].append((row["ts"], row["dur"]))
    found = answer(paths)
    assert (found.clocks, found.joint, found.alone) == ("unix", sum(map(len, ranks[0].values())), 0)
    lasts: Counter[int] = Counter()
    for use in found.collectives:
        together = list(zip(*(rank["gloo:" + use.operation, use.largest] for rank in ranks), strict=True))
        assert (use.count, use.rows) == (len(together), 4 * len(together))
        begins = [[begin for begin, _ in one] for one in together]
        lasts.update(begin.index(max(begin)) for begin in begins)
        assert use.skew is not None
        assert use.transfer is not None
        assert use.skew.median == pytest.approx(1000 * median(max(begin) - min(begin) for begin in begins), abs=2)
        assert use.transfer.median == pytest.approx(1000 * median(min(dur for _, dur in one) for one in together))
    assert {one.rank: one.last for one in found.ranks} == lasts


def test_kernels_come_before_ranges_of_a_backend(tmp_path: Path) -> None:
    """A GPU's trace in which gloo synchronises the hosts has collectives of NCCL."""
    trace: dict[str, Any] = json.loads((SAMPLES / "kineto/collectives-of-two-ranks-rank0.json").read_text())
    place = {"ph": "X", "cat": "user_annotation", "pid": 4242, "tid": 4243, "args": {}}
    trace["traceEvents"].append(place | {"name": "gloo:barrier", "ts": 5100.0, "dur": 4.0})
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(trace))
    assert [(use.operation, use.count) for use in answer([path]).collectives] == [("all_reduce", 6)]
    trace["traceEvents"] = [row for row in trace["traceEvents"] if row.get("cat") != "kernel"]
    path.write_text(json.dumps(trace))
    assert [(use.operation, use.count, use.largest) for use in answer([path]).collectives] == [("barrier", 1, None)]
