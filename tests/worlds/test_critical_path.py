"""The critical path of worlds whose schedule is known: its length and what it consists of, to the ns.

Among them are recordings that begin in the middle, and lost records, whose time may be called nothing but unknown.
"""

from __future__ import annotations

from pathlib import Path

from worlds.questions import PATH, critical_path
from worlds.test_diff import MISSED, SEEDS, WRONG


def test_the_path_is_that_of_the_schedule(tmp_path: Path) -> None:
    asked = {(seed, list(PATH)[seed % len(PATH)]): critical_path(seed, tmp_path) for seed in SEEDS}
    assert [one for one, answered in asked.items() if not answered.is_exact] == []
    missed = [one for one, answered in asked.items() if not answered.first]
    wrong = [one for one, answered in asked.items() if answered.accused]
    assert len(missed) <= MISSED, missed
    assert len(wrong) <= WRONG, wrong
