"""Jobs of several ranks compared: the late rank is named first, noise names none, and what differs is said first."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly import examples

from worlds.jobs import UNLIKE, alike, late_in_turns, late_rank, noise_of_ranks

#: Of each kind.
WORLDS = examples(3)


def test_the_late_rank_is_named_first_with_what_the_others_wait(tmp_path: Path) -> None:
    found = [late_rank(seed, tmp_path) for seed in range(WORLDS)]
    assert all(one.is_exact for one in found)
    assert sum(one.first for one in found) >= 0.95 * len(found), [one.said for one in found if not one.first]
    assert not any(one.accused for one in found)


def test_ranks_that_are_late_in_turns_are_no_slower_collective(tmp_path: Path) -> None:
    found = [late_in_turns(seed, tmp_path) for seed in range(WORLDS)]
    assert all(one.is_exact and one.first and not one.accused for one in found), found


def test_noise_names_no_rank(tmp_path: Path) -> None:
    found = [noise_of_ranks(seed, tmp_path) for seed in range(WORLDS)]
    assert sum(one.accused for one in found) <= 0.02 * len(found)
    assert not any(one.gate is False for one in found)


@pytest.mark.parametrize("what", UNLIKE)
def test_what_differs_is_said_first(tmp_path: Path, what: str) -> None:
    found = [alike(seed, tmp_path, what) for seed in range(WORLDS)]
    assert all(one.first for one in found), [one.said for one in found]
    assert not any(one.accused for one in found)
    assert sum(one.gate is False for one in found) <= 0.05 * len(found), [one.said for one in found]
