"""What `ktrace diff`, its gate, steps and the verdict say of worlds, and whether they are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import ktrace
from ktrace.analysis.answers.diff import NOISE, UNKNOWN
from ktrace.analysis.answers.diff.comparison import Diff, gate
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.breakdown import BreakdownAnswer

from . import plants
from .kineto import write
from .questions import IDLE, Answered
from .truth import Truth
from .world import Plant, World, build

#: The limit of the gate, and how near to it truth may go either way, in percent.
LIMIT, NEAR = 5.0, 3.0


@dataclass(frozen=True)
class Planted:
    """What is planted in the second of two runs, and how the first finding of the verdict begins ("" for none).

    `shape` is that of both worlds, `other` how the second is recorded.
    """

    plants: Sequence[Plant]
    named: str
    shape: Mapping[str, Any] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)


#: Devices that are at work all the time, as hosts run ahead.
_BUSY: dict[str, Any] = {"syncs": False, "scale": 1.0, "uses_graph": False}

#: Recording begins where the device is behind the host, or at a step's begin; what isn't noise is wrong.
PLANTED = {
    "noise": Planted((), ""),
    "a clock that is ahead": Planted((), "", other={"offsets": {0: 80_000_000}}),
    "recorded from the middle": Planted((), "", other={"since": 0.4}),
    "a slower kernel": Planted([plants.slow_kernel("gemm", 1.1)], "ampere_bf16_s16816gemm"),
    "a much slower kernel": Planted([plants.slow_kernel("gemm", 1.3)], "ampere_bf16_s16816gemm"),
    "a slower kernel among others": Planted([plants.slow_kernel("softmax", 1.5)], "softmax"),
    "a faster kernel": Planted([plants.slow_kernel("gemm", 0.7)], "ampere_bf16_s16816gemm"),
    "a slow loader": Planted([plants.slow_loader(30_000_000)], "idle"),
    "a synchronisation": Planted([plants.synchronisation(every=2)], "idle", _BUSY),
    "an extra copy": Planted([plants.extra_copy(1 << 22)], "Memcpy DtoD"),
    "a smaller batch": Planted([plants.smaller_batch(0.5)], "less"),
    "lost overlap": Planted([plants.lost_overlap()], "exposed copies", {"syncs": False, "scale": 1.0}),
    "lost records": Planted((), "lost records", other={"drop": 0.02}),
}

#: What a sentence of the verdict names, and what that is called here; a kernel is called by its name.
_NAMES = (
    ("Records of ", "lost records"),
    ("idle for ", "idle"),
    ("Its exposed copies ", "exposed copies"),
    ("What got slower: ", ""),
    ("What got faster: ", ""),
    ("The largest changes by kernel: ", ""),
)


def findings(diff: Diff) -> list[str]:
    """What the second sentence of the verdict names, in its order; lost records, where the first one says so."""
    if any(one.code == "check.launches_lost" for one in diff.findings):
        return ["lost records"]
    said = diff.verdict[1] if len(diff.verdict) > 1 else ""
    found = sorted((said.find(words), name or said.partition(words)[2]) for words, name in _NAMES if words in said)
    return [name for _, name in found]


def is_calm(diff: Diff) -> bool:
    """Whether the verdict accuses nothing: no change of the whole, no finding, unless it says that nothing is known."""
    sure = diff.time is not None and diff.time.verdict not in (NOISE, UNKNOWN)
    said = findings(diff) and not diff.verdict[-1].startswith("Whether the change exceeds noise isn't known")
    return not sure and not said and ", but " not in diff.verdict[0]


def compared(seed: int, folder: Path, what: str) -> Answered:
    """Two runs of a job, one with something planted: `ktrace diff`, its table, and the gate."""
    one = PLANTED[what]
    a = build(seed, layers=4, **one.shape)
    b = build(seed, run=1, plants=one.plants, layers=4, **one.shape, **one.other)
    diff = ktrace.diff(write(a, folder / "a.json"), write(b, folder / "b.json"), by=["kernel"])
    exact = _is_exact(a, diff.whole.total_a) and (bool(b.dropped) or _is_exact(b, diff.whole.total_b))
    found, failed = findings(diff), gate(diff, LIMIT).failed
    if not one.named:
        calm = is_calm(diff)
        return Answered(exact, calm, calm, not calm, not failed, tuple(diff.verdict))
    truth = None if "drop" in one.other else slower(a, b)  # what is lost isn't faster
    right = not failed if truth is None else (failed == (truth > LIMIT) if abs(truth - LIMIT) > NEAR else None)
    if one.named == "less":
        text = " ".join(diff.verdict)
        longer = " longer than" in text and "within noise" not in text
        is_less = " less (" in text and not longer and diff.whole.delta < 0
        return Answered(exact, is_less, is_less, longer, right, tuple(diff.verdict))
    mine = [name.startswith(one.named) for name in found]
    wrong = bool(mine) and not any(mine)
    first = mine[:1] == [True] and (one.named == "lost records" or _looked_at(diff).startswith(one.named))
    return Answered(exact, first, any(mine), wrong, right, tuple(diff.verdict))


def _looked_at(diff: Diff) -> str:
    """What the findings for programs look at first: a kernel, or else what the finding is called."""
    first = next((one for one in diff.findings if one.look == 1), None)
    if first is None:
        return ""
    return str(first.subject.get("kernel") or first.code.replace(".", " "))


def _is_exact(world: World, total: float) -> bool:
    steps = Truth(world).steps()
    return total == sum(step.work for step in steps) / len(steps)


def slower(a: World, b: World) -> float:
    """By how much the whole got slower, in percent: all work in the steps, or the time of everything."""
    before, after = (sum(step.work for step in Truth(world).steps()) for world in (a, b))
    return max(100 * (after / before - 1), 100 * (b.span / a.span - 1))


def steps(seed: int, folder: Path) -> Answered:
    """What belongs to a step, by step and with `--step`; hosts run ahead in some worlds, some begin in the middle."""
    since = 0.4 if seed % 5 == 4 else 0.0
    planted = [plants.lost_overlap()] if seed % 3 == 0 else ()
    world = build(seed, layers=4, syncs=seed % 2 == 0, plants=planted, since=since)
    path, truth = write(world, folder / "a.json"), Truth(world)
    whole = ktrace.summary(path, by=["step"])
    if not truth.steps():  # none is recorded whole
        return Answered(*3 * ["step" not in whole.groups and not whole.step_use])
    groups = {group.key: (group.total, group.count) for group in whole.groups["step"]}
    uses = {use.label: use for use in whole.step_use}
    exact = True
    for step in truth.steps():
        use = uses[step.name]
        alone = ktrace.summary(path, by=["kernel"], crop=ktrace.Crop(step=step.name))
        exact &= groups[step.name] == (alone.total, alone.count) == (step.work, step.count)
        exact &= use.wall == step.end - step.begin
        exact &= use.compute + use.exposed_communication + use.exposed_copies + use.idle == use.span
        exact &= use.idle >= 0 and use.busy <= use.span
    first = min(step.begin for step in truth.steps())
    last = max(max(step.end, step.device_end or 0) for step in truth.steps())
    exact &= sum(use.span for use in whole.step_use) <= last - first  # no time is in two steps
    exact &= sum(use.busy for use in whole.step_use) <= truth.use().busy
    return Answered(exact, exact, exact)


def slow_loader(seed: int, folder: Path) -> Answered:
    """A loader that takes 30 ms for each batch: the verdict of `ktrace summary` names the host, and the loader."""
    world = build(seed, layers=4, plants=[plants.slow_loader(30_000_000)])
    said = ktrace.summary(write(world, folder / "a.json"), by=["kernel"]).verdict
    first = said[-1].startswith("Look first at late launches (launch-bound)") and "DataLoader" in said[-1]
    return Answered(True, first, "DataLoader" in " ".join(said), not first, said=tuple(said))


def synchronisation(seed: int, folder: Path) -> Answered:
    """A host that waits for each second kernel: the verdict of `ktrace summary` names synchronisations."""
    world = build(seed, layers=4, plants=[plants.synchronisation(every=2)], **_BUSY)
    said = ktrace.summary(write(world, folder / "a.json"), by=["kernel"]).verdict
    named = IDLE["synchronisation"][1] in said[-1]
    first = said[-1].startswith(f"Look first at {IDLE['synchronisation'][1]}")
    return Answered(True, first, named, not first and "Look first" in said[-1], said=tuple(said))


#: What is planted for `diff --why`: by the part that it adds to, or the other one that may take its place.
WHY: dict[str, Callable[[Random], Plant]] = {
    "compute: gemm": lambda chance: plants.slow_kernel("gemm", chance.uniform(1.2, 1.8)),
    "compute: attention": lambda chance: plants.slow_kernel("attention", chance.uniform(1.2, 1.8)),
    "idle: data loading": lambda chance: plants.slow_loader(chance.randint(15_000_000, 40_000_000)),
    "idle: synchronisation": lambda chance: plants.synchronisation(every=chance.choice([2, 3])),
    "exposed copies": lambda chance: plants.extra_copy(1 << chance.choice([21, 22, 23])),
    "idle: launch-bound": lambda chance: plants.slow_host(chance.uniform(2, 4)),
}
#: What follows a wait is launched too late, and a slow host is slow after waits, too.
_INSTEAD = {"idle: synchronisation": "idle: launch-bound", "idle: launch-bound": "idle: synchronisation"}


def why(seed: int, folder: Path) -> Answered:
    """Two of `WHY` at once: parts add up to the time of devices at each step, and the causes come in the right order.

    The order is that of what each costs alone, by the schedule; what costs less than a tenth may be hidden.
    """
    chance = Random(seed)
    planted = {part: WHY[part](chance) for part in chance.sample(list(WHY), 2)}
    a = build(seed, layers=4)
    alone = {part: _device_time(build(seed, run=1, plants=[one], layers=4)) for part, one in planted.items()}
    b = build(seed, run=1, plants=list(planted.values()), layers=4)
    costs = {part: time - _device_time(a) for part, time in alone.items()}
    ordered = sorted(costs, key=lambda part: -costs[part])
    matters = [part for part in ordered if costs[part] >= 0.1 * (_device_time(b) - _device_time(a))]
    paths = write(a, folder / "a.json"), write(b, folder / "b.json")
    diff = ktrace.diff(*paths, by=["breakdown"])
    exact = all(_adds_up(ktrace.summary(path, by=["breakdown", "step"])) for path in paths)
    slower = [one.key for one in diff.rows["breakdown"] if one.delta > 0][: len(matters)]
    right = [named in (part, _INSTEAD.get(part)) for part, named in zip(matters, slower, strict=True)]
    if len(matters) == 2 and costs[matters[0]] < 1.3 * costs[matters[1]]:  # either may come first
        right = [{*slower} <= {*matters, *map(_INSTEAD.get, matters)}]
    said = diff.verdict[1]
    return Answered(
        exact, all(right), all(part in said for part in slower[:1]), not all(right), said=tuple(diff.verdict)
    )


def _device_time(world: World) -> float:
    """The time of a step: from the first until devices are done with the last."""
    steps = Truth(world).steps()
    return (max(max(one.end, one.device_end or 0) for one in steps) - steps[0].begin) / len(steps)


def _adds_up(summary: Summary) -> bool:
    """Whether the parts of each step are the time of the devices at it."""
    answer = summary.answers["breakdown"]
    assert isinstance(answer, BreakdownAnswer)
    times = np.sum([one.steps for one in answer.parts if one.steps is not None], axis=0)
    return times.tolist() == [use.span for use in summary.step_use] and answer.whole == sum(times)


#: Questions by name.
COMPARED: dict[str, Callable[[int, Path], Answered]] = {
    **{f"diff, {what}": partial(compared, what=what) for what in PLANTED},
    "steps": steps,
    "diff --why, two causes at once": why,
    "verdict, a slow loader": slow_loader,
    "verdict, a synchronisation": synchronisation,
}
