"""Changes planted in a real trace: what was planted is found first, the table is the truth, noise accuses nothing."""

from __future__ import annotations

from pathlib import Path

from real_traces import at_hand, kineto

from worlds.real import asked


def test_what_was_planted_in_a_real_trace_is_found_first(tmp_path: Path) -> None:
    """Three steps of training on several GPUs (Kineto); `python -m tests.worlds --real` asks of more traces."""
    (path,) = kineto("nccl_data.json.gz")
    answers = asked(at_hand(path), 0, tmp_path, ("noise", "a slower kernel"))
    assert [(what, one) for what, one in answers.items() if not one.is_exact or not one.first or one.accused] == []
