"""What ktrace is asked about worlds, and whether it was right.

Each question plants one thing in the world of a seed, writes it, asks, and compares with the truth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import ktrace
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer
from ktrace.analysis.questions.critical_path import CriticalPathAnswer
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.tables import brief

from . import databases, kineto, plants
from .truth import Stretch, Truth, collectives, waited_for
from .world import Plant, World, build


@dataclass(frozen=True)
class Answered:
    """Of one world: whether the tables are the truth, what was planted is named first, or at all, or another is.

    `gate` is whether the exit code of a gate is right; None if none was asked, or the truth is near its limit. `known`
    is whether what was planted is beyond the spread.
    """

    is_exact: bool
    first: bool = False
    found: bool = False
    accused: bool = False
    gate: bool | None = None
    said: tuple[str, ...] = ()
    known: bool = True


def late_rank(seed: int, folder: Path) -> Answered:
    """A rank whose host and kernels take 10 to 30 % longer; of every third world, a clock is ahead.

    Nothing else is wrong in these worlds: kernels take longer than their launch, and batches are small.
    """
    ranks = 2 + seed % 4
    late = seed % ranks
    ahead = {(late + 1) % ranks: 700_000 * (seed % 7 + 1)} if seed % 3 == 0 else {}
    plant = plants.late_rank(late, 1.1 + seed % 5 / 20)
    world = build(seed, ranks=ranks, plants=[plant], offsets=ahead, scale=(0.4, 1.0, 2.0)[seed % 3], batch=1 << 18)
    return _of_ranks(world, folder, late)


def noise_of_ranks(seed: int, folder: Path) -> Answered:
    """Ranks that differ by noise alone; of every third world, a clock is ahead."""
    ranks = 2 + seed % 4
    ahead = {seed % ranks: 700_000 * (seed % 7 + 1)} if seed % 3 == 0 else {}
    return _of_ranks(build(seed, ranks=ranks, offsets=ahead), folder, None)


def late_in_turns(seed: int, folder: Path) -> Answered:
    """Ranks of which each is late in some steps, or that differ by noise: how long they waited in all, and no name."""
    ranks, is_planted = 2 + seed % 4, seed % 2 == 0
    planted = [plants.late_in_turns(1.6)] if is_planted else []
    world = build(seed, ranks=ranks, plants=planted, scale=1.0, batch=1 << 18, steps=4, uses_graph=False)
    paths = [kineto.write(world, folder / f"rank{rank}.json", rank) for rank in range(ranks)]
    found = ktrace.summary(paths, by=["collective"])
    whole, true = sum(use.span for use in found.devices), sum(waited_for(world).values())
    stated = [one.details["ranks_waited_ns"] for one in found.findings if "ranks_waited_ns" in one.details]
    named = any(one.code == "straggler" for one in found.findings)
    said = f"ranks waited {brief(true)} for the last of them" in " ".join(found.verdict)
    is_right = bool(stated) == (true >= 0.05 * whole) or named
    return Answered(stated in ([], [true]), is_right, said, named, said=tuple(found.verdict))


def _of_ranks(world: World, folder: Path, late: int | None) -> Answered:
    paths = [kineto.write(world, folder / f"rank{rank}.json", rank) for rank in range(world.shape.ranks)]
    found = ktrace.summary(paths, by=["collective"])
    answer = found.answers["collective"]
    assert isinstance(answer, CollectivesAnswer)
    waited = {one.rank: one.others_waited.total if one.others_waited else 0 for one in answer.ranks}
    true = collectives(world)
    skews = sorted(max(one.begins) - min(one.begins) for one in true)
    stated = sorted((use.skew.max for use in answer.collectives if use.skew), reverse=True)
    exact = waited == waited_for(world) and answer.joint == len(true) and stated[:1] == skews[-1:]
    named = re.findall(r"rank (\d+), which the others wait for", " ".join(found.verdict))
    first = re.search(r"Look first at rank (\d+)", " ".join(found.verdict))
    late_name = None if late is None else str(late)
    is_first = first is not None and first[1] == late_name
    return Answered(exact, is_first, named == [late_name], any(one != late_name for one in named))


#: Writes a rank of a world, by the name of the format.
WRITERS: dict[str, Callable[[World, Path], Path]] = {
    "Kineto": lambda world, folder: kineto.write(world, folder / "world.json"),
    "nsys": lambda world, folder: databases.nsys(world, folder / "world.sqlite"),
    "rocpd": lambda world, folder: databases.rocpd(world, folder / "world.db"),
    "XPlane": lambda world, folder: databases.xplane(world, folder / "world.xplane.pb"),
}

HOST = "late launches (launch-bound)"
#: What is planted to make a device idle, and what the verdict calls the place to look at; "" is none.
IDLE: dict[str, tuple[Sequence[Plant], str]] = {
    "noise": ((), ""),
    "synchronisation": (
        (plants.synchronisation(every=2),),
        "sync points, after which the device has nothing to do",
    ),
    "loader": ((plants.slow_loader(20_000_000),), HOST),
    "host": ((plants.slow_host(16),), HOST),
    "begun in the middle": ((), ""),
    "dropped records": ((), ""),
}
#: The causes of places that the verdict may name, and of time that isn't explained.
PLACES = {HOST: "host late", IDLE["synchronisation"][1]: "host synchronised"}
PLACES |= {"blocked work": "dependency", "launch latency": "launch overhead"}
UNEXPLAINED = ("unknown", "not recorded")


def idle(seed: int, folder: Path, form: str = "Kineto") -> Answered:
    """Why a device is idle: in a world of any shape, and in one whose device is busy unless something is planted."""
    what = list(IDLE)[seed % len(IDLE)]
    busy: dict[str, object] = {"steps": 3, "layers": 4, "scale": 1.0, "uses_graph": False, "syncs": False}
    shapes: tuple[dict[str, object], ...] = ({}, busy | {"batch": 1 << 16})
    some, one = (_idle_of(_idle_world(what, seed, shape), what, WRITERS[form], folder) for shape in shapes)
    return Answered(some.is_exact and one.is_exact, one.first, one.first, some.accused or one.accused)


def _idle_world(what: str, seed: int, shape: dict[str, object]) -> World:
    since, drop = 0.4 * (what == "begun in the middle"), 0.01 * (what == "dropped records")
    shape = {**shape, "uses_graph": False} if drop else shape  # nothing tells what a graph lacks
    return build(seed, plants=IDLE[what][0], since=since, drop=drop, **shape)


def _idle_of(world: World, what: str, write: Callable[[World, Path], Path], folder: Path) -> Answered:
    """Of lost records, nothing more may be said than is true; and what the verdict names must be there."""
    summary = ktrace.summary(write(world, folder), by=["idle"])
    answer = summary.answers["idle"]
    assert isinstance(answer, IdleAnswer)
    (device,) = answer.devices
    found = {one.cause: one.time for one in device.causes}
    true: Counter[str] = Counter()
    for gap in Truth(world).gaps():
        true[gap.cause] += gap.time
    exact = found == true and device.idle == sum(true.values())
    if world.dropped:
        known = all(time <= true[cause] for cause, time in found.items() if cause not in UNEXPLAINED)
        exact = known and sum(found.values()) == sum(true.values())
    said = summary.verdict[-1]
    span = device.span - true["queued before the recording"]
    wrong = any(place in said and 100 * true[cause] < 4.99 * span for place, cause in PLACES.items())
    named = any(place in said for place in PLACES)
    place = IDLE[what][1]
    return Answered(exact, said.startswith(f"Look first at {place}") if place else not named, accused=wrong)


def idle_of_ranks(seed: int, folder: Path) -> Answered:
    """Why each device of a job of 2 to 4 ranks is idle; found is what was planted where the verdict names its place."""
    what = [one for one in IDLE if one != "dropped records"][seed % 5]
    since = 0.4 * (what == "begun in the middle")
    world = build(seed, ranks=2 + seed % 3, plants=IDLE[what][0], since=since)
    paths = [kineto.write(world, folder / f"rank{rank}.json", rank) for rank in range(world.shape.ranks)]
    summary = ktrace.summary(paths, by=["idle"])
    answer, true, span = summary.answers["idle"], Counter[str](), 0
    assert isinstance(answer, IdleAnswer)
    exact = len(answer.devices) == world.shape.ranks
    for rank, device in enumerate(answer.devices):
        mine: Counter[str] = Counter()
        for gap in Truth(world, rank).gaps():
            mine[gap.cause] += gap.time
        exact &= {one.cause: one.time for one in device.causes} == mine
        true, span = true + mine, span + device.span - mine["queued before the recording"]
    said, place = summary.verdict[-1], IDLE[what][1]
    wrong = any(one in said and 100 * true[cause] < 4.99 * span for one, cause in PLACES.items())
    return Answered(exact, said.startswith(f"Look first at {place}") if place else not wrong, place in said, wrong)


#: What is planted in worlds whose critical path is asked for.
PATH: dict[str, Sequence[Plant]] = {
    "noise": (),
    "slower kernel": (plants.slow_kernel("gemm", 1.3),),
    "loader": (plants.slow_loader(20_000_000),),
    "synchronisation": (plants.synchronisation(every=5),),
    "begun in the middle": (),
    "lost records": (),
}


def critical_path(seed: int, folder: Path, form: str = "Kineto") -> Answered:
    """The path through the steps: its length, the time of each kind, and that of each call and operator.

    Only Kineto's files tell how a thread of the host hands over to another, and for which stream another one waits. So
    with other formats all time of the host is one kind, and copies run on the stream of the kernels.

    The heaviest of all must be that of the truth. Where records are lost, what isn't there may be called nothing but
    unknown or not recorded, and without losses nothing is.
    """
    what = list(PATH)[seed % len(PATH)]
    lost, shape = what == "lost records", {"uses_graph": False} if what == "lost records" else {}
    for since in (0.4, 0.2, 0.1) if what == "begun in the middle" else (0.0,):
        more = () if form == "Kineto" else (plants.lost_overlap(),)
        world = build(seed, plants=(*PATH[what], *more), since=since, drop=0.01 * lost, **shape)
        if Truth(world).steps():  # some step is recorded whole
            break
    answer = ktrace.summary(WRITERS[form](world, folder), by=["critical-path"]).answers["critical-path"]
    assert isinstance(answer, CriticalPathAnswer) and answer.path is not None
    rows = answer.path.to_pylist()
    true = Truth(replace(world, dropped=frozenset())).path(steps=True)
    ahead = rows[0]["ts"] - true[0][0]
    said = [(row["ts"] - ahead, row["ts"] - ahead + row["dur"], row["kind"], row["name"]) for row in rows]
    whole = said[-1][1] == true[-1][1] and all(one[1] == other[0] for one, other in pairwise(said))
    if lost:
        gone = {*map(world.at, Truth(world).lost)} & {(begin, end) for begin, end, *_ in true}
        claims = [one for one in said if one[2] not in UNEXPLAINED and "Synchronize" not in one[3]]
        wrong = any(begin < until and end > since for begin, end, *_ in claims for since, until in gone)
        return Answered(whole, not wrong, not wrong, wrong)
    found, wanted = (_composition(path, form) for path in (said, Truth(world).path(said, steps=True)))
    first = max(found, key=found.__getitem__) == max(wanted, key=wanted.__getitem__)
    return Answered(whole and found == wanted, first, first, any(kind in UNEXPLAINED for _, _, kind, _ in said))


def _composition(path: Sequence[Stretch], form: str) -> Counter[tuple[str, str]]:
    """The time of each kind; of calls and operators by name, too, where the format tells these of a thread."""
    found: Counter[tuple[str, str]] = Counter()
    for begin, end, kind, name in path:
        named = kind in ("API call", "host operator")
        one = (
            (kind, name if named else "")
            if form == "Kineto" or not (named or kind == "between calls")
            else ("host", "")
        )
        found[one] += end - begin
    return found


#: Questions by name.
QUESTIONS: dict[str, Callable[[int, Path], Answered]] = {
    "late rank": late_rank,
    "ranks, noise": noise_of_ranks,
    "ranks, late in turns": late_in_turns,
    "idle": idle,
    "idle of ranks": idle_of_ranks,
    "critical path": critical_path,
    **{f"idle, {form}": partial(idle, form=form) for form in WRITERS if form != "Kineto"},
    **{f"critical path, {form}": partial(critical_path, form=form) for form in WRITERS if form != "Kineto"},
}
