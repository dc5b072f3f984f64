"""Jobs of many ranks with known truth, in stages, replicas and groups of tensors or experts, as torch.profiler's files.

    fleet = Fleet(stages=4, replicas=8, width=2, seed=3, late={5: 1.1})
    fleet.write(folder)                     # folder/rank0.json, ...: the clock of each host of 8 ranks is its own
    fleet.own                               # (step, rank): the time of a step without what is exposed of communication

Micro-batches go forward through all stages, then back; all work of a rank is on one stream, what it receives on
another one that it waits for. `python -m tests.worlds.fleets FOLDER --ranks 512` writes one for measurements.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

#: Between kernels, from the call to its kernel, of a transfer between stages, of a collective; in ns.
BETWEEN, LAUNCHED, SENT, REDUCED = 900, 5_000, 8_000, 60_000

#: Ranks of a host, and the unix time of the first step.
PER_HOST, EPOCH = 8, 1_750_000_000_000_000_000


@dataclass
class _Record:
    """Something that all ranks of a stage do: times (replica, place), and what the arguments say of each."""

    stage: int
    step: int
    name: str
    stream: int
    begin: Times
    dur: Times
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Fleet:
    """A job. Rank = (stage * replicas + replica) * width + place.

    `late` are factors of the work of ranks, `passing` those of (rank, step), `slow_link` (a replica and stage) whose
    group of tensors takes so many times as long, `hot` the place whose experts get so many times as many tokens.
    """

    stages: int = 1
    replicas: int = 8
    width: int = 1
    steps: int = 6
    micro: int = 4
    layers: int = 3
    kernels: int = 4  #: of a layer
    seed: int = 0
    noise: float = 0.01
    late: Mapping[int, float] = field(default_factory=dict)
    passing: Mapping[tuple[int, int], float] = field(default_factory=dict)
    slow_link: tuple[int, int, float] | None = None
    hot: tuple[int, float] | None = None
    numbered: bool = True

    def __post_init__(self) -> None:
        self.ranks = self.stages * self.replicas * self.width
        self.shape = (self.stages, self.replicas, self.width)
        self.random = np.random.default_rng(self.seed)
        self.now = np.zeros(self.shape, np.int64)
        self.records: list[list[_Record]] = [[] for _ in range(self.stages)]
        self.bounds: list[Times] = []
        self.waited = np.zeros((self.steps, *self.shape), np.int64)  # for other ranks in collectives
        self.exposed, self.computed = self.waited.copy(), self.waited.copy()
        self.received = np.zeros(self.shape, np.int64)
        self._count: dict[tuple[str, int], int] = {}
        for step in range(self.steps):
            self._begin(step)
            self._step(step)
        self._begin(self.steps)

    def _begin(self, step: int) -> None:
        self.bounds.append(self.now.copy())
        factor = np.ones(self.ranks)
        for rank, times in self.late.items():
            factor[rank] *= times
        for (rank, when), times in self.passing.items():
            factor[rank] *= times if when == step else 1.0
        self.factor = factor.reshape(self.shape)

    @cached_property
    def own(self) -> Times:
        """(step, rank): the time of each step that isn't exposed communication."""
        walls = np.diff(np.stack(self.bounds), axis=0)
        result: Times = (walls - self.exposed).reshape(self.steps, self.ranks)
        return result

    def _step(self, step: int) -> None:
        sent: dict[tuple[int, int], Times] = {}
        for micro in range(self.micro):
            for stage in range(self.stages):
                self._pass(step, stage, stage - 1, sent, micro)
        for micro in range(self.micro if self.stages > 1 else 0):
            for stage in reversed(range(self.stages)):
                self._pass(step, stage, stage + 1, sent, self.micro + micro)
        for stage in range(self.stages):
            if self.replicas > 1:
                self._collective(step, stage, "all_reduce", 0, 64 << 20, REDUCED)
            self._kernel(step, stage, "multi_tensor_apply_kernel<FusedAdamMathFunctor>", 20_000)

    def _pass(self, step: int, stage: int, of: int, sent: dict[tuple[int, int], Times], micro: int) -> None:
        """A micro-batch on a stage, which comes from stage `of` and goes to the one on the other side."""
        to = 2 * stage - of
        if 0 <= of < self.stages:
            begin, ready = self.now[stage].copy(), sent[of, micro]
            end = np.maximum(begin, ready) + SENT
            self._add(step, stage, "recv", 22, begin, end - begin, self._pair(of, stage))
            self._add(step, of, "send", 21, ready, end - ready, self._pair(of, stage))
            self.exposed[step, stage] += end - begin
            self.now[stage] = end + BETWEEN
        for _ in range(self.layers):
            for number in range(self.kernels):
                self._kernel(
                    step, stage, ("ampere_bf16_s16816gemm_128x128", "softmax_warp_forward")[number % 2], 30_000
                )
            if self.hot:
                self._experts(step, stage)
            elif self.width > 1:
                self._collective(step, stage, "all_reduce", 1, 4 << 20, REDUCED // 3)
        if 0 <= to < self.stages:
            sent[stage, micro] = self.now[stage].copy()

    def _pair(self, of: int, to: int) -> dict[str, Any]:
        return {"of": of, "to": to, "bytes": 1 << 20}

    def _add(self, step: int, stage: int, name: str, stream: int, begin: Times, dur: Times, args: Any = None) -> None:
        self.records[stage].append(_Record(stage, step, name, stream, begin.copy(), dur.astype(np.int64), args or {}))

    def _kernel(self, step: int, stage: int, name: str, base: float | npt.NDArray[Any]) -> None:
        noise = 1 + self.noise * self.random.standard_normal(self.shape[1:])
        dur = np.maximum(base * self.factor[stage] * noise, 1_000).astype(np.int64)
        self._add(step, stage, name, 7, self.now[stage], dur)
        self.computed[step, stage] += dur
        self.now[stage] += dur + BETWEEN

    def _collective(self, step: int, stage: int, name: str, axis: int, size: Any, transfer: int, **more: Any) -> None:
        """A collective along an axis of (replica, place): it ends everywhere so long after the last rank has begun."""
        begin = self.now[stage].copy()
        takes = np.full(self.shape[1:], transfer, np.int64)
        if self.slow_link and axis == 1 and self.slow_link[0] == stage:
            takes[self.slow_link[1]] = round(transfer * self.slow_link[2])
        last = np.broadcast_to(begin.max(axis=axis, keepdims=True), begin.shape)
        number = self._count[name, axis, stage] = self._count.get((name, axis, stage), 0) + 1  # type: ignore[index]
        self._add(
            step, stage, name, 7, begin, last + takes - begin, {"axis": axis, "bytes": size, "seq": number, **more}
        )
        self.waited[step, stage] += last - begin
        self.exposed[step, stage] += last + takes - begin
        self.now[stage] = last + takes + BETWEEN

    def _experts(self, step: int, stage: int) -> None:
        """Tokens go to the ranks of their experts and back; the hot place gets more of them."""
        assert self.hot
        share = np.ones(self.width)
        share[self.hot[0]] = self.hot[1]
        tokens = np.round(4_096 * share / share.sum()).astype(np.int64)  # of each rank, to each place
        whole = np.full(self.shape[1:], int(tokens.sum()), np.int64) * 1_024
        arrives = np.broadcast_to(tokens * self.width, self.shape[1:]) * 1_024
        self.received[stage] += arrives * 2
        self._collective(step, stage, "all_to_all", 1, whole, REDUCED // 3, out=arrives)
        self._kernel(step, stage, "ampere_bf16_s16816gemm_128x128", 30_000 * tokens / tokens.mean())
        self._collective(step, stage, "all_to_all", 1, arrives, REDUCED // 3, out=whole)

    def write(self, folder: Path, *, packed: bool = False, only: Sequence[int] | None = None) -> Path:
        """Writes a file for each rank, or for some."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks) if only is None else only:
            text = self._file(rank)
            if packed:
                (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(text.encode(), 1))
            else:
                (folder / f"rank{rank}.json").write_text(text, "utf-8")
        return folder

    def _file(self, rank: int) -> str:
        stage, replica, place = (int(one) for one in np.unravel_index(rank, self.shape))
        ahead = (rank // PER_HOST) * 7_000_003
        pid, device = 4_000 + rank, rank % PER_HOST
        rows, calls, events = self.records[stage], [], []
        order = sorted(range(len(rows)), key=lambda row: rows[row].begin[replica, place])
        for number, row in enumerate(order, 1):
            one = rows[row]
            begin, dur = int(one.begin[replica, place]) + ahead, int(one.dur[replica, place])
            args = f'"device": {device}, "context": 1, "stream": {one.stream}, "correlation": {number}'
            args += self._stated(one, stage, replica, place)
            name = one.name if not one.args else _kernel_of(one.name)
            events.append(
                f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": {device}, "tid": {one.stream}, '
                f'"ts": {_us(begin)}, "dur": {_us(dur)}, "args": {{{args}}}}}'
            )
            calls.append(
                f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {pid}, "tid": {pid}, "ts": '
                f'{_us(begin - LAUNCHED)}, "dur": 2.000, "args": {{"cbid": 211, "correlation": {number}}}}}'
            )
        for step in range(self.steps):
            begin, end = (int(self.bounds[at][stage, replica, place]) + ahead for at in (step, step + 1))
            calls.append(
                f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": {pid}, "tid": {pid}, '
                f'"ts": {_us(begin - 2 * LAUNCHED)}, "dur": {_us(end - begin)}, "args": {{}}}}'
            )
        head = {
            "schemaVersion": 1, "baseTimeNanoseconds": EPOCH, "displayTimeUnit": "ms",
            "host_name": f"node{rank // PER_HOST}",
            "deviceProperties": [{"id": device, "name": "NVIDIA H100 80GB HBM3"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.ranks},
        }  # fmt: skip
        return f'{json.dumps(head)[:-1]}, "traceEvents": [\n' + ",\n".join(calls + events) + "\n]}\n"

    def members(self, stage: int, replica: int, place: int, axis: int | None) -> list[int]:
        """The ranks of a group: those along an axis of (replica, place), or of all stages."""
        every = np.arange(self.ranks).reshape(self.shape)
        along = {None: every[:, replica, place], 0: every[stage, :, place], 1: every[stage, replica, :]}
        return [int(one) for one in along[axis]]

    def _stated(self, one: _Record, stage: int, replica: int, place: int) -> str:
        """What the arguments say of a piece of communication."""
        if not one.args:
            return ""
        axis = one.args.get("axis")
        ranks = self.members(stage, replica, place, axis)
        what = {None: "pp", 0: "dp", 1: "ep" if self.hot else "tp"}[axis]

        def of(size: Any) -> int:
            return int(size[replica, place] if isinstance(size, np.ndarray) else size) // 2

        sent, out = of(one.args["bytes"]), of(one.args.get("out", one.args["bytes"]))
        said = {
            "Collective name": one.name.replace("_", ""), "dtype": "BFloat16", "In msg nelems": sent,
            "Out msg nelems": out, "Group size": len(ranks), "Process Group Name": f"{what} {ranks[0]}",
            "Process Group Description": what, "Process Group Ranks": str(ranks),
        }  # fmt: skip
        if axis is None:
            said |= {"Src Rank": ranks[one.args["of"]], "Dst Rank": ranks[one.args["to"]]}
        elif self.numbered:
            said["Seq"] = one.args["seq"]
        return "".join(f', "{key}": {json.dumps(value)}' for key, value in said.items())


def _kernel_of(name: str) -> str:
    kind = {"all_reduce": "AllReduce_Sum_bf16_RING_LL"}.get(name, "SendRecv")
    return f"ncclDevKernel_{kind}(ncclDevKernelArgsStorage<4096ul>)"


def _us(ns: int) -> str:
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--steps", type=int, default=10)
    asked = parser.parse_args()
    made = Fleet(
        stages=4, replicas=asked.ranks // 16, width=4, steps=asked.steps, micro=8, layers=5, kernels=5, seed=1,
        late={asked.ranks // 3: 1.08}, passing={(asked.ranks // 2, 4): 1.5},
    )  # fmt: skip
    print(sum(len(stage) for stage in made.records) / 4 * 2, "events a rank")
    made.write(asked.folder, packed=True)
