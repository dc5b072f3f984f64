"""Waits from launch to begin that can't be: clocks that differ, or calls of other work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canonical_rows import GPU, HOST, event

import ktrace

MS = 1_000_000


def trace(path: Path, late: int) -> Path:
    """Ten kernels of 10 ms each, which begin `late` ns after their calls."""
    rows = [
        row
        for number in range(10)
        for row in (
            event(2 * number + 1, "api", "cudaLaunchKernel", 20 * MS * number, 10, **HOST, correlation=number + 1),
            event(
                2 * number + 2, "kernel", "gemm", 20 * MS * number + 10 + late, 10 * MS, **GPU, correlation=number + 1
            ),
        )
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *rows]))
    return path


@pytest.mark.parametrize(
    ("late", "is_shown"), [(5_000, True), (180 * MS, True), (191 * MS, True), (1001 * MS, False), (80_000 * MS, False)]
)
def test_work_that_always_waits_too_long_has_another_clock(tmp_path: Path, late: int, is_shown: bool) -> None:
    summary = ktrace.summary(trace(tmp_path / "t.jsonl", late))
    (device,) = summary.devices
    assert device.span == 190 * MS
    assert (device.queueing is not None) == is_shown
    if device.queueing is not None:
        assert (device.queueing.median, device.queueing.max) == (late, late)
    assert any("clocks of host and device differ" in note for note in summary.notes) == (not is_shown)


def test_a_short_wait_for_the_only_kernel_is_shown(tmp_path: Path) -> None:
    rows = [
        event(1, "api", "cudaLaunchKernel", 0, 10, **HOST, correlation=1),
        event(2, "kernel", "gemm", 5_000_010, 100, **GPU, correlation=1),
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *rows]))
    queueing = ktrace.summary(path).devices[0].queueing
    assert queueing is not None
    assert queueing.max == 5_000_000
