"""What is asked, and what is true: of worlds by their schedule, of real traces by plain loops over the source."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from worlds import plants
from worlds.kineto import write
from worlds.programs import KERNELS
from worlds.truth import Truth, union, waited_for
from worlds.world import build

REAL = Path(__file__).resolve().parents[2] / "samples/real/corpus/pytorch_kineto"

#: Real traces with several kinds of device work.
TRACES = (
    *("nccl_data.json.gz", "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "worker0.1623143089861.pt.trace.json.gz"),
    *("graph_execution.json.gz", "mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
)

#: Seeds of worlds of one rank.
WORLDS = (3, 5, 8, 11)

#: A kind of question in words.
ASKED = {
    "total": "How long do all kernels, copies and memsets take together?",
    "top": "Which kernel takes the most time?",
    "launches": "How often was that kernel launched?",
    "busy": "How long are the devices busy, each instant counted once?",
    "idle": "How long are the devices idle between their first and their last work?",
    "exposed": "For how long does a device communicate, and nothing computes on it?",
    "cause": "What is the device idle for, mostly?",
    "late": "Which rank do the others wait for?",
    "slower": "Which kernel got slower?",
}


@dataclass(frozen=True)
class Question:
    """A question (a key of ASKED) about files in a folder, and the true answer; None if nothing is to be named."""

    kind: str
    paths: tuple[Path, ...]
    true: int | str | None

    def __str__(self) -> str:
        names = self.paths[0].name if len(self.paths) == 1 else f"{len(self.paths)} files, {self.paths[0].name} first"
        return f"{ASKED[self.kind]} ({names})"


def questions(folder: Path) -> Iterator[Question]:
    """All questions; worlds are written to the folder."""
    for seed in WORLDS:
        yield from _of_world(seed, folder)
    for seed, late in ((4, 2), (7, 1), (6, None), (9, None)):
        yield _of_ranks(seed, late, folder)
    for seed, what in ((2, "gemm"), (5, "softmax"), (3, None), (12, None)):
        yield _of_two_runs(seed, what, folder)
    for name in TRACES:
        yield from _of_source(REAL / name)


def _of_world(seed: int, folder: Path) -> Iterator[Question]:
    world = build(seed, uses_graph=False)
    truth, path = Truth(world), write(world, folder / f"world{seed}.json")
    times = truth.times_by_name()
    top = max((name for name in times if not name.startswith("Mem")), key=lambda name: sum(times[name]))
    causes: Counter[str] = Counter()
    for gap in truth.gaps():
        causes[gap.cause] += gap.time
    use = truth.use()
    true: dict[str, int | str] = {"top": top, "cause": causes.most_common(1)[0][0], "launches": len(times[top])}
    true |= {"total": sum(map(sum, times.values())), "busy": use.busy, "idle": use.idle}
    true |= {"exposed": use.exposed_communication}
    for kind, answer in true.items():
        yield Question(kind, (path,), answer)


def _of_ranks(seed: int, late: int | None, folder: Path) -> Question:
    planted = [] if late is None else [plants.late_rank(late, 1.25)]
    world = build(seed, ranks=4, plants=planted, scale=0.4, batch=1 << 18)
    if late is not None:
        assert max(waited_for(world).items(), key=lambda one: one[1])[0] == late
    (folder / f"job{seed}").mkdir()
    paths = [write(world, folder / f"job{seed}/rank{rank}.json", rank) for rank in range(4)]
    return Question("late", tuple(paths), None if late is None else str(late))


def _of_two_runs(seed: int, what: str | None, folder: Path) -> Question:
    slow = [] if what is None else [plants.slow_kernel(what, 1.3)]
    worlds = build(seed), build(seed, run=1, plants=slow)
    paths = [write(one, folder / f"runs{seed}{name}.json") for one, name in zip(worlds, "ab", strict=True)]
    return Question("slower", tuple(paths), None if what is None else KERNELS[what])


#: Categories of device work in Kineto's JSON, also those of 2021.
CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def events_of(path: Path) -> list[dict[str, Any]]:
    """The events of Kineto's JSON, times as they are written."""
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data, parse_float=Decimal)
    listed: list[dict[str, Any]] = document["traceEvents"] if isinstance(document, dict) else document
    return listed


def _of_source(path: Path) -> Iterator[Question]:
    """By plain loops, in whole ns."""
    work: defaultdict[Any, list[tuple[int, int, str, str]]] = defaultdict(list)
    for one in events_of(path):
        if one.get("ph") == "X" and one.get("cat") in CATEGORIES:
            begin = round(Decimal(one["ts"]) * 1000)
            place = one.get("args", {}).get("device", one["pid"])
            work[place].append((begin, begin + round(Decimal(one["dur"]) * 1000), one["cat"].lower(), one["name"]))
    every = [one for of_device in work.values() for one in of_device]
    by_name: Counter[str] = Counter()
    for begin, end, category, name in every:
        by_name[name] += end - begin if category == "kernel" else 0
    top = max(by_name, key=lambda name: by_name[name])
    busy = idle = exposed = 0
    for of_device in work.values():
        covered = union([(begin, end) for begin, end, *_ in of_device])
        took = sum(end - begin for begin, end in covered)
        busy, idle = busy + took, idle + covered[-1][1] - covered[0][0] - took
        compute = [(b, e) for b, e, category, name in of_device if category != "gpu_memcpy" and "nccl" not in name]
        sends = [(b, e) for b, e, _, name in of_device if "nccl" in name]
        compute = [span for span in compute if span not in sends]
        exposed += sum(e - b for b, e in union(compute + sends)) - sum(e - b for b, e in union(compute))
    launches = sum(name == top for *_, name in every)
    true = {"total": sum(end - begin for begin, end, *_ in every), "top": top, "launches": launches, "busy": busy}
    for kind, answer in (true | {"idle": idle, "exposed": exposed}).items():
        yield Question(kind, (path,), answer)
