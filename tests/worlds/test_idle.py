"""Why a device is idle, in worlds whose schedule is known: the table to the ns, and what the verdict names first.

One of six things is planted: a synchronisation, a slow loader, a slow host, nothing, a recording that begins in the
middle, lost records. Of lost records, no cause may have more time than is true.
"""

from __future__ import annotations

from pathlib import Path

from worlds.questions import IDLE, idle
from worlds.test_diff import MISSED, SEEDS, WRONG


def test_causes_are_the_truth_and_what_was_planted_is_looked_at_first(tmp_path: Path) -> None:
    asked = {(seed, list(IDLE)[seed % len(IDLE)]): idle(seed, tmp_path) for seed in SEEDS}
    assert [one for one, answered in asked.items() if not answered.is_exact] == []
    missed = [one for one, answered in asked.items() if not answered.first]
    wrong = [one for one, answered in asked.items() if answered.accused]
    assert len(missed) <= MISSED, missed
    assert len(wrong) <= WRONG, wrong
