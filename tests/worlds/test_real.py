"""Changes planted in a real trace: what was planted is found first, the table is the truth, noise accuses nothing."""

from __future__ import annotations

from pathlib import Path

from real_traces import at_hand, kineto

import ktrace
from worlds.real import asked, gaps, paused, trace, write


def test_what_was_planted_in_a_real_trace_is_found_first(tmp_path: Path) -> None:
    """Three steps of training on several GPUs (Kineto); `python -m tests.worlds --real` asks of more traces."""
    (path,) = kineto("nccl_data.json.gz")
    answers = asked(at_hand(path), 0, tmp_path, ("noise", "a slower kernel"))
    assert [(what, one) for what, one in answers.items() if not one.is_exact or not one.first or one.accused] == []


def test_a_gap_is_planted_in_each_step(tmp_path: Path) -> None:
    (path,) = kineto("nccl_data.json.gz")
    whole, dur = trace(at_hand(path)), 10_000_000
    longer = paused(whole, {moment: dur for moment, _ in gaps(whole).values()})
    a, b = (
        ktrace.summary(write(one, tmp_path / name), by=["kernel"]).step_use
        for one, name in ((whole, "a.json"), (longer, "b.json"))
    )
    assert [other.idle - one.idle for one, other in zip(a, b, strict=True)] == [dur] * 3
    assert [other.wall - one.wall for one, other in zip(a, b, strict=True)] == [dur] * 3
