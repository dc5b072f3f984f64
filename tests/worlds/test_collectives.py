"""Worlds of several ranks: who waits for whom, to the ns; the late rank is named, and noise accuses nobody.

`python -m tests.worlds` measures the same on 200 worlds of each kind; here are fewer, as each takes half a second.
"""

from __future__ import annotations

from pathlib import Path

from nightly import examples

from worlds.questions import late_in_turns, late_rank, noise_of_ranks

#: Of each kind.
WORLDS = examples(6)


def test_the_late_rank_is_found_first_and_the_tables_are_true(tmp_path: Path) -> None:
    late = [late_rank(seed, tmp_path) for seed in range(WORLDS)]
    assert [seed for seed, one in enumerate(late) if not one.is_exact] == []
    assert sum(one.first for one in late) >= 0.95 * len(late)
    assert not any(one.accused for one in late)


def test_noise_accuses_no_rank(tmp_path: Path) -> None:
    noise = [noise_of_ranks(seed, tmp_path) for seed in range(WORLDS)]
    assert [seed for seed, one in enumerate(noise) if not one.is_exact] == []
    assert sum(one.accused for one in noise) <= 0.02 * len(noise)


def test_waiting_for_ranks_in_turns_is_a_figure_and_names_none(tmp_path: Path) -> None:
    """In every second world ranks are late in turns, in the others by noise."""
    turns = [late_in_turns(seed, tmp_path) for seed in range(WORLDS)]
    assert all(one.is_exact and one.first and not one.accused for one in turns), turns
    assert [one.found for one in turns] == [seed % 2 == 0 for seed in range(WORLDS)]
