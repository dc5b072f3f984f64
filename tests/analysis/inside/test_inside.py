"""Inside kernels: times of ranges, roles and tails against sums by hand, and when nothing may be said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.inside import InsideAnswer

SAMPLE = SAMPLES / "iket" / "two-roles-on-two-multiprocessors.iket.json"


def inside(path: Path) -> InsideAnswer:
    answer = ktrace.summary(path, by=["inside"]).answers["inside"]
    assert isinstance(answer, InsideAnswer)
    return answer


def test_kernels_ranges_and_tails_are_those_of_the_source() -> None:
    first, second = inside(SAMPLE).kernels
    assert (first.name, first.launches, first.warps, first.multiprocessors) == ("gemm_ws_kernel", 1, 4, 2)
    assert (first.time, first.alive) == (3008 - 992, 2016 + 2016 + 384 + 1408)
    assert (first.waiting, first.marked) == (320 + 416 + 64 + 448, 4768)
    assert (first.tail, first.sm_time) == (3008 - 2432, 2 * 2016)
    assert first.most == pytest.approx(4032 / ((4032 + 1792) / 2))
    assert (second.name, second.time, second.waiting) == ("scale_kernel", 384, 0)
    times = {(one.kernel, one.name): (one.times.total, one.times.count, one.is_wait) for one in inside(SAMPLE).ranges}
    assert times["gemm_ws_kernel", "mma_issue"] == (640 + 640 + 896, 3, False)
    assert times["gemm_ws_kernel", "tma_wait"] == (320, 1, True)


def test_roles_overlap_within_their_block_alone() -> None:
    roles = {one.name: one for one in inside(SAMPLE).roles if one.kernel == "gemm_ws_kernel"}
    producer = roles["tma_issue, tma_wait, epilogue"]
    assert (producer.active, producer.waiting, producer.overlapped) == (832, 320, 320 + 192)
    assert roles["mma_wait, mma_issue, epilogue"].overlapped == 512
    assert roles["tma_issue"].overlapped == 0  # its neighbour waits all the time that it works


def nested(path: Path, depth: int) -> Path:
    """A warp with `depth` ranges in one another, each 100 ns shorter at both ends, the last a wait."""
    warp = {"smId": 0, "ctaId": [0, 0, 0], "warpId": 0}
    ranges: list[dict[str, Any]] = [
        {"rangeName": f"part{level}" if level < depth - 1 else "mbar_wait", "startTs": 1000 + 100 * level,
         "endTs": 9000 - 100 * level, "warpLocs": [warp]}
        for level in range(depth)
    ]  # fmt: skip
    path.write_text(json.dumps({"launches": [{"gridId": 0, "kernelName": "k", "ranges": ranges}]}))
    return path


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_nested_ranges_count_once(tmp_path: Path, depth: int) -> None:
    (kernel,) = inside(nested(tmp_path / "n.json", depth)).kernels
    assert (kernel.alive, kernel.marked) == (8000, 8000)
    assert kernel.waiting == 8000 - 200 * (depth - 1)


def test_ranges_without_kernels_around_them_say_nothing() -> None:
    summary = ktrace.summary(SAMPLES / "triton-server" / "three-requests-of-two-models.json", by=["inside"])
    assert "inside" not in summary.answers


def test_the_answer_is_the_same_from_our_own_forms(tmp_path: Path) -> None:
    for form in ("jsonl", "parquet"):
        ktrace.convert(SAMPLE, tmp_path / f"run.{form}")
        assert inside(tmp_path / f"run.{form}") == inside(SAMPLE)


def test_the_verdict_names_the_question_where_it_can_be_asked(tmp_path: Path) -> None:
    busy = nested(tmp_path / "n.json", 2)
    remedies = [one.remedy for one in ktrace.summary(busy).findings if one.code.startswith("heaviest.")]
    assert any("--by inside" in one for one in remedies)
    other = ktrace.summary(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json")
    assert not any("--by inside" in one.remedy for one in other.findings)
