"""What can be planted in a world: each changes what ranks do, and nothing else.

build(7, plants=[slow_kernel("gemm", 1.1)])
build(7, since=0.4)                 # recorded from 40 % of the time on
build(7, ranks=4, offsets={2: 80_000}, drop=0.01)     # a clock that is ahead by 80 us, records that are lost
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from .programs import AUTOGRAD, COMPUTE, COPIES, LOADER, MAIN, Do
from .world import Plant


def slow_kernel(what: str, factor: float) -> Plant:
    """Work of this kind (a key of KERNELS) takes this many times as long, on all ranks."""

    def plant(todo: list[list[Do]]) -> None:
        for one in (one for mine in todo for one in mine):
            if one.what == what:
                one.dur = round(one.dur * factor)
            one.works = [(name, round(dur * factor) if name == what else dur) for name, dur in one.works]

    return plant


def synchronisation(every: int = 8, stream: int | None = COMPUTE) -> Plant:
    """The host waits for the stream after each `every`-th kernel."""

    def plant(todo: list[list[Do]]) -> None:
        for place, mine in enumerate(todo):
            made: list[Do] = []
            kernels = 0
            for one in mine:
                made.append(one)
                if one.do == "launch" and one.kind == "kernel":
                    kernels += 1
                    if kernels % every == 0:
                        made.append(Do("sync", thread=one.thread, stream=stream, host=1_800))
            todo[place] = made

    return plant


def slow_loader(ns: int) -> Plant:
    """The data loader takes this long for each batch but the first, which is there when the loop begins."""

    def plant(todo: list[list[Do]]) -> None:
        for one in (one for mine in todo for one in mine):
            if one.thread == LOADER and one.what == "loader" and one.host:
                one.host = ns

    return plant


def uneven(steps: Collection[int], factor: float, pause: int = 0) -> Plant:
    """In these steps, from 0, kernels take this many times as long, and the host pauses for so many ns at the end."""

    def plant(todo: list[list[Do]]) -> None:
        for place, mine in enumerate(todo):
            made: list[Do] = []
            for step, one, is_end in _in_steps(mine):
                if step in steps and is_end and pause:
                    made.append(Do("host", thread=MAIN, host=pause))
                slow = step in steps and one.kind == "kernel"
                made.append(replace(one, dur=round(one.dur * factor)) if slow else one)
            todo[place] = made

    return plant


def wait_each_step() -> Plant:
    """The host waits for the device at the end of each step."""

    def plant(todo: list[list[Do]]) -> None:
        for place, mine in enumerate(todo):
            made: list[Do] = []
            for _, one, is_end in _in_steps(mine):
                made += [Do("sync", thread=MAIN, host=1_800)] * is_end
                made.append(one)
            todo[place] = made

    return plant


def _in_steps(todo: list[Do]) -> Iterator[tuple[int, Do, bool]]:
    """What a rank does, the number of its step, and whether that closes it."""
    step, depth = -1, 0
    for one in todo:
        depth += {"open": 1, "close": -1}.get(one.do, 0) * (one.thread == MAIN)
        step += one.do == "open" and one.kind == "step"
        yield step, one, one.do == "close" and one.thread == MAIN and not depth


def slow_host(factor: float) -> Plant:
    """What the host does between launches takes this many times as long."""

    def plant(todo: list[list[Do]]) -> None:
        for one in (one for mine in todo for one in mine):
            if one.do == "host" and one.thread != LOADER:
                one.host = round(one.host * factor)

    return plant


def late_rank(rank: int, factor: float) -> Plant:
    """The kernels of a rank, apart from collectives, and its host take this many times as long."""

    def plant(todo: list[list[Do]]) -> None:
        for one in todo[rank]:
            if one.kind == "kernel":
                one.dur = round(one.dur * factor)
            one.works = [(name, round(dur * factor)) for name, dur in one.works]
            if one.do == "host" and one.thread != LOADER:
                one.host = round(one.host * factor)

    return plant


def late_in_turns(factor: float) -> Plant:
    """In each step the kernels of another rank, apart from collectives, take this many times as long."""

    def plant(todo: list[list[Do]]) -> None:
        for place, mine in enumerate(todo):
            steps = [*_in_steps(mine)]
            todo[place] = [
                replace(one, dur=round(one.dur * factor)) if one.kind == "kernel" and step % len(todo) == place else one
                for step, one, _ in steps
            ]

    return plant


def lost_overlap() -> Plant:
    """The copies of batches run on the stream of the kernels."""

    def plant(todo: list[list[Do]]) -> None:
        for mine in todo:
            for place, one in enumerate(mine):
                if one.do in ("launch", "record") and one.stream == COPIES:
                    mine[place] = replace(one, stream=COMPUTE)

    return plant


def extra_copy(size: int = 1 << 20) -> Plant:
    """Each step copies this much more from the device, on the stream of the kernels, before the backward pass."""

    def plant(todo: list[list[Do]]) -> None:
        for place, mine in enumerate(todo):
            made: list[Do] = []
            for one in mine:
                if one.do == "hand" and one.to == AUTOGRAD:
                    made.append(
                        Do(
                            "launch", name="Memcpy DtoD (Device -> Device)", kind="copy", what="extra copy",
                            thread=MAIN,
                            stream=COMPUTE, dur=1_500 + size // 20, bytes=size, host=3_200, latency=2_300,
                        )
                    )  # fmt: skip
                made.append(one)
            todo[place] = made

    return plant


def smaller_batch(factor: float = 0.5) -> Plant:
    """Kernels, copies and collectives take this part of their time, and copies move this part of their bytes."""

    def plant(todo: list[list[Do]]) -> None:
        for one in (one for mine in todo for one in mine):
            if one.do == "launch" and one.what not in ("loss", "adam"):
                one.dur = round(one.dur * factor)
                one.bytes = None if one.bytes is None else round(one.bytes * factor) // 4 * 4
            one.works = [(name, round(dur * factor)) for name, dur in one.works]

    return plant
