"""The path in simulated runs, whose dependencies are known, against a walk over their objects."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from path_timelines import Piece, Timeline

LAUNCH, BETWEEN = "launch delay", "launch overhead"


@dataclass
class Kernel:
    """A kernel, and the one that it has to wait for: the one before on its stream, or one that an event names."""

    name: str
    begin: int
    end: int
    call: tuple[int, int]
    before: Kernel | None


class Run:
    """A host thread that launches kernels to three streams, waits now and then, and lets streams wait for others."""

    def __init__(self, seed: int) -> None:
        self.line, self.chance = Timeline(), random.Random(seed)
        self.now, self.corr = 0, 0
        self.last: dict[int, Kernel | None] = dict.fromkeys((7, 20, 21))
        self.event: dict[int, Kernel | None] = dict.fromkeys(self.last)
        self.host: list[tuple[int, int, str, str, Kernel | None]] = []  # what the host did, and what it waited for

    def simulate(self, count: int) -> None:
        for _ in range(count):
            self.pause()
            actions = self.launch, self.wait_for_stream, self.wait_for_all, self.let_wait
            self.chance.choices(actions, (12, 1, 1, 3))[0]()
        self.pause()
        self.wait_for_all()
        self.line.step(1, 0, self.now)

    def pause(self) -> None:
        time = self.chance.choice((0, 300, 900, 2_500))
        if time:
            self.host.append((self.now, self.now + time, "between calls", "between calls", None))
        self.now += time

    def call(self, name: str, until: int, awaited: Kernel | None = None) -> int:
        self.corr += 1
        self.host.append((self.now, until, "API call", name, awaited))
        row = self.line.host("api", name, self.now, until, corr=self.corr)
        self.now = until
        return row

    def launch(self) -> None:
        stream = self.chance.choice(list(self.last))
        called = self.now
        self.call("cudaLaunchKernel", called + self.chance.randint(500, 3_000))
        befores = [one for one in (self.last[stream], self.event[stream]) if one]
        before = max(befores, key=lambda one: one.end, default=None)
        begin = max(self.now + 1_000, before.end + 700 if before else 0)
        name = f"kernel_{self.corr}"
        kernel = Kernel(name, begin, begin + self.chance.randint(500, 9_000), (called, self.now), before)
        self.line.work(name, kernel.begin, kernel.end, stream, self.corr)
        self.last[stream], self.event[stream] = kernel, None

    def wait_for_stream(self) -> None:
        stream = self.chance.choice(list(self.last))
        self.sync("cudaStreamSynchronize", "Stream Sync", self.last[stream], stream)

    def wait_for_all(self) -> None:
        last = max((one for one in self.last.values() if one), key=lambda one: one.end, default=None)
        self.sync("cudaDeviceSynchronize", "Context Sync", last, None)

    def sync(self, call: str, name: str, kernel: Kernel | None, stream: int | None) -> None:
        begin, until = self.now, max(self.now, kernel.end if kernel else 0) + 400
        self.call(call, until, kernel if kernel and kernel.end > begin else None)
        self.line.add(
            kind="sync", name=name, ts=begin, dur=until - begin, timing="measured", correlation=self.corr, device=0,
            stream=stream,
        )  # fmt: skip

    def let_wait(self) -> None:
        source, target = self.chance.sample(list(self.last), 2)
        record = self.call("cudaEventRecord", self.now + 200)
        key = str(self.corr)
        self.call("cudaStreamWaitEvent", self.now + 300)
        wait = self.line.work("Stream Wait Event", self.now - 300, self.now, target, self.corr, kind="sync")
        self.line.rows[-1]["args"] = {"wait_on_stream": source}
        self.line.arrow("wait", key, record, wait)
        known = [one for one in (self.last[source], self.event[target]) if one]
        self.event[target] = max(known, key=lambda one: one.end, default=None)

    def path(self) -> list[Piece]:
        """The path, walked back over the objects."""
        found: list[Piece] = []
        time, kernel = self.now, None
        while time > 0:
            if kernel is None:
                begin, end, kind, name, awaited = next(one for one in reversed(self.host) if one[0] < time)
                if awaited and end == time:  # it returned because the kernel ended
                    kernel, begin = awaited, awaited.end
                found.append((begin, time, kind, name))
                time = begin
                continue
            found.append((kernel.begin, time, "kernel", kernel.name))
            before, (called, returned) = kernel.before, kernel.call
            if before and before.end + 700 > returned + 1_000:  # else it began because it was launched
                found.append((before.end, kernel.begin, BETWEEN, BETWEEN))
                time, kernel = before.end, before
            else:
                found += [(returned, kernel.begin, LAUNCH, LAUNCH), (called, returned, "API call", "cudaLaunchKernel")]
                time, kernel = called, None
        return found[::-1]


@pytest.mark.parametrize("seed", range(12))
def test_the_path_of_a_simulated_run(seed: int, tmp_path: Path) -> None:
    run = Run(seed)
    run.simulate(150)
    expected = run.path()
    assert len({kind for _, _, kind, _ in expected}) == 5  # every kind that there is in such a run
    assert run.line.path(tmp_path) == expected
