"""Worlds in which some steps take longer: named in the summary and in the comparison, and the gate is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from worlds.test_diff import MISSED, SEEDS, WRONG
from worlds.uneven import UNEVEN, asked


@pytest.mark.parametrize("what", UNEVEN)
def test_slow_steps_are_named_and_even_ones_are_not(tmp_path: Path, what: str) -> None:
    found = {seed: asked(seed, tmp_path, what) for seed in SEEDS}
    missed = {seed: one.said for seed, one in found.items() if not one.first}
    assert len(missed) <= (MISSED if UNEVEN[what].code else WRONG), missed
    assert sum(one.accused for one in found.values()) <= WRONG
    gates = {seed: one.said for seed, one in found.items() if one.gate is False}
    assert len(gates) <= (MISSED if UNEVEN[what].code else WRONG), gates
