"""`ktrace diff --why` in worlds with two causes at once: parts add up, and the causes are in their order."""

from __future__ import annotations

from pathlib import Path

from worlds.comparisons import why
from worlds.test_diff import MISSED, SEEDS


def test_two_causes_at_once_are_named_in_their_order(tmp_path: Path) -> None:
    asked = {seed: why(seed, tmp_path) for seed in SEEDS}
    assert [seed for seed, one in asked.items() if not one.is_exact] == []
    missed = {seed: one.said for seed, one in asked.items() if not one.first}
    assert len(missed) <= MISSED, missed
