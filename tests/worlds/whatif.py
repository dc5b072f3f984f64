"""What `ktrace whatif` says of a world, against the same world carried out with the change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktrace.analysis.answers.whatif import WhatIf, whatif
from ktrace.analysis.answers.whatif.changes import Changes

from . import plants
from .kineto import write
from .programs import AUTOGRAD, COMM, COMPUTE, LOADER, MAIN, Do
from .world import WORK, Plant, World, build


def files(world: World, folder: Path) -> list[Path]:
    """The files of all ranks, called as Kineto does."""
    folder.mkdir(exist_ok=True)
    name = "node7_{}.17240000000000{}.pt.trace.json"
    ranks = range(world.shape.ranks)
    return [write(world, folder / name.format(4000 + rank, rank), rank) for rank in ranks]


def step_time(world: World) -> float:
    """The mean time of a step: until its work and the host are done, from when the step before was; not of the first.

    That of several ranks is their mean.
    """
    return sum(_of_rank(world, rank) for rank in range(world.shape.ranks)) / world.shape.ranks


def _of_rank(world: World, rank: int) -> float:
    mine = [one for one in world.pieces if one.rank == rank]
    steps = [world.at(one) for one in mine if one.kind == "step"]
    work = [(world.times[world.pieces[one.call or 0].begin], world.times[one.end]) for one in mine if one.kind in WORK]
    times, done = [], 0
    for begin, end in steps:
        ends = max([end, done, *(over for at, over in work if begin <= at < end)])
        times.append(ends - max(begin, done))
        done = ends
    counted = times[1:] if len(times) > 2 else times
    return sum(counted) / len(counted)


def without_waits(todo: list[list[Do]]) -> None:
    """No call waits, but the last one at the end of all."""
    for mine in todo:
        mine[:] = [one for one in mine[:-1] if one.do != "sync"] + mine[-1:]


def loader(factor: float) -> Plant:
    """The workers of the loader take this many times as long for a batch."""

    def plant(todo: list[list[Do]]) -> None:
        for one in (one for mine in todo for one in mine):
            if one.thread == LOADER and one.what == "loader":
                one.host = round(one.host * factor)

    return plant


def as_graph(todo: list[list[Do]]) -> None:
    """From the first to the last launch of a thread between two waits, steps or batches the host takes no time."""
    for mine in todo:
        for thread in (MAIN, AUTOGRAD):
            for stretch in _stretches(mine, thread):
                launches = [at for at, one in enumerate(stretch) if one.do in ("launch", "graph")]
                for one in stretch[launches[0] + 1 : launches[-1] + 1] if launches else ():
                    one.host = one.latency = 0


def _stretches(todo: list[Do], thread: int) -> Iterator[list[Do]]:
    opened: list[str] = []
    stretch: list[Do] = []
    for one in todo:
        if thread not in (one.thread, one.to):
            continue
        if one.do == "open":
            opened.append(one.kind)
        kind = opened[-1] if one.do == "open" else opened.pop() if one.do == "close" else ""
        if one.do in ("sync", "hand") or kind == "step":
            yield stretch
            stretch = []
        else:
            stretch.append(one)
    yield stretch


def on_one_stream(todo: list[list[Do]]) -> None:
    """Collectives run on the stream of the compute."""
    for mine in todo:
        for one in mine:
            one.stream = COMPUTE if one.stream == COMM else one.stream


def beside(todo: list[list[Do]]) -> None:
    """Collectives run beside the compute; calls that wait for that wait for them, too."""
    for mine in todo:
        for one in mine:
            one.stream = None if one.do == "sync" else one.stream


#: The changes, each with the plants that make the world that they describe.
CASES: dict[str, tuple[Changes, list[Plant]]] = {
    "gemm=0.5": (Changes(scale={"gemm": 0.5}), [plants.slow_kernel("gemm", 0.5)]),
    "gemm=2": (Changes(scale={"gemm": 2.0}), [plants.slow_kernel("gemm", 2.0)]),
    "attention=0.1": (Changes(scale={"flash": 0.1}), [plants.slow_kernel("attention", 0.1)]),
    "no-sync": (Changes(no_sync=True), [without_waits]),
    "graph": (Changes(graph=True), [as_graph]),
    "both": (Changes(scale={"gemm": 0.5}, no_sync=True), [plants.slow_kernel("gemm", 0.5), without_waits]),
}


def asked(
    seed: int, changes: Changes, made: list[Plant], folder: Path, first: list[Plant] | None = None, **shape: Any
) -> tuple[WhatIf, float]:
    """The answer about a world, and how far off it is from the world with the change, in parts of that."""
    world = build(seed, plants=first or [], **shape)
    answer = whatif(files(world, folder), changes)
    true = step_time(build(seed, plants=[*(first or []), *made], **shape))
    return answer, abs(answer.cases[-1].step - true) / true


def covered(seed: int, changes: Changes, made: list[Plant], folder: Path, **shape: Any) -> bool:
    """Whether the step of another run with the change is in the interval."""
    fast = loader(0.02)
    case = whatif(files(build(seed, plants=[fast], **shape), folder), changes).cases[-1]
    true = step_time(build(seed, run=1, plants=[fast, *made], **shape))
    return case.low is not None and case.high is not None and case.low <= true <= case.high
