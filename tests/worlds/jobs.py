"""Jobs of several ranks in `ktrace diff`: who is late, and in what else the sides differ before any time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ktrace
from ktrace.analysis.answers.diff.comparison import Diff, gate

from . import plants
from .comparisons import LIMIT, NEAR
from .kineto import write
from .questions import Answered
from .truth import waited_for
from .world import World, build


def _sides(a: World, b: World, folder: Path, **head: str) -> Diff:
    """The comparison of two jobs; files are called as Kineto does. `head` is what those of b state."""
    paths = []
    for name, world, stated in (("a", a, {}), ("b", b, head)):
        (folder / name).mkdir(exist_ok=True)
        for old in (folder / name).iterdir():
            old.unlink()
        for rank in range(world.shape.ranks):
            file = f"node7_{4000 * ('ab'.index(name) + 1) + rank}.17240000000000{rank}.pt.trace.json"
            write(world, folder / name / file, rank, **stated)
        paths.append(folder / name)
    return ktrace.diff(*paths, by=["kernel"])


def late_rank(seed: int, folder: Path) -> Answered:
    """In the second of two runs, a rank takes 10 to 30 % longer: it is named first, with what the others wait."""
    count, late = 2 + seed % 4, seed % (2 + seed % 4)
    shape: dict[str, Any] = {"ranks": count, "scale": (0.4, 1.0, 2.0)[seed % 3], "batch": 1 << 18}
    a, b = build(seed, **shape), build(seed, run=1, plants=[plants.late_rank(late, 1.1 + seed % 5 / 20)], **shape)
    diff = _sides(a, b, folder)
    named = [one for one in diff.of_ranks if one.code == "straggler"]
    said = diff.verdict[1] if len(diff.verdict) > 1 else ""
    first = re.match(r"In b the others wait [\d.]+ \w+ a step for rank (\d+) ", said)
    true = waited_for(b)[late] / b.shape.steps
    exact = all(one.details["b_ns"] == true for one in named if one.subject["rank"] == str(late))
    right = bool(named) and (named[0].subject["side"], named[0].subject["rank"]) == ("b", str(late))
    blamed = "ncclDevKernel" in said.partition("What got slower")[2].partition(",")[0]
    return Answered(exact, first is not None and first[1] == str(late) and not blamed, right, bool(named) and not right,
                    said=tuple(diff.verdict))  # fmt: skip


def late_in_turns(seed: int, folder: Path) -> Answered:
    """In the second of two runs each rank is late in some steps: waiting comes first, and no collective got slower."""
    shape: dict[str, Any] = {"ranks": 2 + seed % 4, "batch": 1 << 18, "steps": 5, "uses_graph": False, "scale": 2.0}
    a, b = build(seed, **shape), build(seed, run=1, plants=[plants.late_in_turns(1.6)], **shape)
    diff = _sides(a, b, folder)
    first = next((one for one in diff.findings if one.look == 1), None)
    waits = {one.code: one.details for one in diff.of_ranks}.get("collectives.waiting", {})
    times = [sum(waited_for(world).values()) / world.shape.steps for world in (a, b)]
    is_waiting = first is not None and first.code == "collectives.waiting"
    blamed = "ncclDevKernel" in " ".join(diff.verdict).partition("What got slower")[2]
    named = any(one.code == "straggler" for one in diff.of_ranks)
    right = is_waiting or first is None or abs(first.value) >= times[1] - times[0]
    exact = [waits.get("a_ns"), waits.get("b_ns")] == times
    return Answered(exact, right and not blamed, is_waiting, named or blamed, said=tuple(diff.verdict))


def noise_of_ranks(seed: int, folder: Path) -> Answered:
    """Two runs of a job that differ by noise alone: no rank is named."""
    a, b = (build(seed, run=run, ranks=2 + seed % 4) for run in range(2))
    diff = _sides(a, b, folder)
    calm = not any(one.code == "straggler" for one in diff.of_ranks)
    return Answered(True, calm, calm, not calm, not gate(diff, LIMIT).failed, tuple(diff.verdict))


@dataclass(frozen=True)
class Unlike:
    """The finding that is right, "" for none; what the second job states, how many ranks more it has."""

    code: str
    head: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 0


UNLIKE = {
    "nothing": Unlike(""),
    "another device": Unlike("differs.device", {"device": "Tesla V100-SXM2-32GB"}),
    "another version": Unlike("differs.version", {"nccl": "2.27.3"}),
    "more ranks": Unlike("differs.ranks", ranks=2),
}


def alike(seed: int, folder: Path, what: str) -> Answered:
    """Two runs that differ by noise, and in what was recorded: this is said first, and the gate is right."""
    one, count = UNLIKE[what], 2 + seed % 2
    a, b = build(seed, ranks=count), build(seed, run=1, ranks=count + one.ranks)
    diff = _sides(a, b, folder, **one.head)
    found = [finding.code for finding in diff.findings if finding.code.startswith("differs.")]
    first = diff.verdict[0].startswith("Not like for like: ") == bool(one.code) and found == (
        [one.code] if one.code else []
    )
    truth = 100 * (b.span / a.span - 1)  # work is as much on each rank
    right = gate(diff, LIMIT).failed == (truth > LIMIT) if abs(truth - LIMIT) > NEAR else None
    return Answered(True, first, one.code in found, bool({*found} - {one.code}), right, tuple(diff.verdict))


#: Questions by name.
QUESTIONS: dict[str, Callable[[int, Path], Answered]] = {
    "diff, a late rank": late_rank,
    "diff, ranks late in turns": late_in_turns,
    "diff of ranks, noise": noise_of_ranks,
    **{f"alike, {what}": partial(alike, what=what) for what in UNLIKE},
}
