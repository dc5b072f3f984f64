"""Real traces of PyTorch's profiler in which one thing is planted, by rewriting the source document.

    trace.json ── warp ──► a.json    each piece of work takes a little longer or shorter
             └── warp ──► b.json    other noise, and one kernel (name, grid) 10 % slower, a gap or a copy in each step

A warp maps time to time, rising, so that whatever came after something still does: what is queued, waited for, nested.
What is true of the outcome is added up from its events, by plain loops.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import ktrace
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.work.steadiness import RUNS
from ktrace.naming.short_names import short_name
from ktrace.tables import shortened

from .comparisons import findings, is_calm
from .questions import Answered
from .spread import least
from .truth import length

Event = dict[str, Any]

_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_CALLS = {"cuda_runtime", "cuda_driver", "runtime"}
_STEP = re.compile(r"ProfilerStep#\d+$")

#: A planted kernel is one of this many heaviest, and takes this many times as long as before.
_HEAVIEST, SLOWER = 3, 1.1
#: A planted gap or copy takes a part of a step between these, and a copy this much more for its call.
_PART, _CALL = (0.05, 0.2), 5_000
_COPY = "Memcpy DtoD (Device -> Device)"
#: The key of the text of an event.
_TEXT = "text of the event"
#: Noise of single pieces of work and gaps.
_JITTER = (0.005, 0.02, 0.05)


@dataclass
class Trace:
    """A document, and its events with times: `ts` and `dur` are whole ns from `base`."""

    head: dict[str, Any]
    events: list[Event]
    base: int

    @cached_property
    def work(self) -> list[Event]:
        """Kernels and copies, in the order of their begin."""
        found = [one for one in self.events if str(one.get("cat")).lower() in _WORK and "dur" in one]
        return sorted(found, key=lambda one: (one["ts"], one["ts"] + one["dur"]))

    @cached_property
    def steps(self) -> list[Event]:
        """The steps on the host."""
        named = [one for one in self.events if _STEP.match(str(one.get("name"))) and "dur" in one]
        host = [one for one in named if str(one.get("cat")).lower() in ("user_annotation", "cpu_op", "operator")]
        return sorted(host, key=lambda one: one["ts"])

    @cached_property
    def calls(self) -> dict[int, Event]:
        """Calls of the API by correlation."""
        of = [one for one in self.events if str(one.get("cat")).lower() in _CALLS and "dur" in one]
        return {one["args"]["correlation"]: one for one in of if "correlation" in one.get("args", {})}


@lru_cache(maxsize=1)
def trace(path: Path) -> Trace:
    """Reads a document."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        head = json.loads(file.read(), parse_float=Decimal, strict=False)
    events = head.pop("traceEvents")
    timed = [one for one in events if isinstance(one.get("ts"), (int, Decimal))]
    base = min(_ns(one["ts"]) for one in timed if one.get("ph") == "X")
    for one in timed:
        one["ts"] = _ns(one["ts"]) - base
        if "dur" in one:
            one["dur"] = _ns(one["dur"])
    return Trace(head, [_text(one) for one in events], base)


def _ns(us: int | Decimal) -> int:
    return int(us * 1000)


class Warp:
    """A rising map of times: stretches of the original with their new length."""

    def __init__(self, stretches: Iterable[tuple[int, int, int]]) -> None:
        self.begins, self.ends, self.lengths = np.array([(0, 0, 0), *stretches], np.int64).T
        moved = self.begins[1:] - self.ends[:-1] + self.lengths[:-1]
        self.news = np.concatenate([[0], np.cumsum(moved)])

    def __call__(self, times: Sequence[int]) -> list[int]:
        """The new times."""
        old = np.array(times, np.int64)
        place = np.maximum(np.searchsorted(self.begins, old, "right") - 1, 0)
        begin, end, length = self.begins[place], self.ends[place], self.lengths[place]
        inside = length * np.minimum(old - begin, end - begin) // np.maximum(end - begin, 1)
        new: list[int] = (self.news[place] + inside + np.maximum(old - end, 0)).tolist()
        return new


def noisy(one: Trace, chance: Random, jitter: float, slower: Callable[[Event], bool] = lambda _: False) -> Trace:
    """Work and gaps take longer or shorter by chance, and `SLOWER` times as long where work is `slower`."""
    run = chance.gauss(1.0, RUNS)
    spans = [
        (work["ts"], work["ts"] + work["dur"], max(0.5, chance.gauss(run, jitter)) * (SLOWER if slower(work) else 1.0))
        for work in one.work
    ]
    cuts = sorted({time for begin, end, _ in spans for time in (begin, end)})
    active, stretches, place = list[tuple[int, float]](), list[tuple[int, int, int]](), 0
    for low, high in pairwise(cuts):
        while place < len(spans) and spans[place][0] <= low:
            active.append(spans[place][1:])
            place += 1
        active = [(end, factor) for end, factor in active if end > low]
        factor = max((factor for _, factor in active), default=max(0.5, chance.gauss(run, 2 * jitter)))
        stretches.append((low, high, round((high - low) * factor)))
    return warped(one, Warp(stretches))


def warped(one: Trace, warp: Warp) -> Trace:
    """The same events at other times."""
    timed = [event for event in one.events if isinstance(event.get("ts"), int)]
    begins = warp([event["ts"] for event in timed])
    ends = warp([event["ts"] + event.get("dur", 0) for event in timed])
    moved = [
        event | ({"ts": begin, "dur": end - begin} if "dur" in event else {"ts": begin})
        for event, begin, end in zip(timed, begins, ends, strict=True)
    ]
    return Trace(one.head, [*(event for event in one.events if not isinstance(event.get("ts"), int)), *moved], one.base)


def gaps(one: Trace) -> dict[int, tuple[int, Event]]:
    """The first moment of each step at which its device has nothing to do, and the work of the step that is next.

    Steps have none whose device never rests, or only before work of earlier steps, and before the first work of all.
    """
    of = {id(work): number for number, work in steps_of(one) if _call(one, work)}
    numbers = [of.get(id(work)) for work in one.work]
    later = _least_from(numbers)
    found: dict[int, tuple[int, Event]] = {}
    begun, end = -1, 0
    for place, (work, number) in enumerate(zip(one.work, numbers, strict=True)):
        mine = number is not None and 0 <= begun <= number <= later[place] and one.steps[number]["ts"] < work["ts"]
        if number is not None and mine and work["ts"] > end + 1:
            found.setdefault(number, (work["ts"] - 1, work))
        begun = max(begun, -1 if number is None else number)
        end = max(end, work["ts"] + work["dur"])
    return found


def _least_from(numbers: Sequence[int | None]) -> list[int]:
    """The least number from each place on."""
    rising = [len(numbers) if number is None else number for number in reversed(numbers)]
    return np.minimum.accumulate(rising)[::-1].tolist() if rising else []


def paused(one: Trace, at: dict[int, int]) -> Trace:
    """Nothing happens at these moments, for as long as they say."""
    return warped(one, Warp((moment, moment + 1, 1 + dur) for moment, dur in sorted(at.items())))


def copied(one: Trace, dur: int) -> Trace:
    """A copy of `dur` before some work of each step, on its stream, called just before that work was."""
    at = [moment for moment, _ in gaps(one).values()]
    works = [work for _, work in gaps(one).values()]
    calls = [one.calls[work["args"]["correlation"]]["ts"] - 1 for work in works]
    last, made = max(one.calls), []
    pauses = dict.fromkeys(calls, _CALL) | dict.fromkeys(at, dur + _CALL)
    after = paused(one, pauses)
    warp = Warp((moment, moment + 1, 1 + pause) for moment, pause in sorted(pauses.items()))
    for number, (call_at, copy_at, work) in enumerate(zip(warp(calls), warp(at), works, strict=True), 1):
        call = one.calls[work["args"]["correlation"]]
        args = {"correlation": last + number, "device": work["args"]["device"], "stream": work["args"]["stream"]}
        where = {"ph": "X", "pid": work["pid"], "tid": work["tid"], "name": _COPY}
        where["cat"] = "gpu_memcpy" if str(work["cat"]).islower() else "Memcpy"
        made.append({key: call[key] for key in ("ph", "cat", "pid", "tid")} | {"name": "cudaMemcpyAsync"})
        made[-1] |= {"ts": call_at + 100, "dur": _CALL - 1_000, "args": {"correlation": last + number}}
        made.append(where | {"ts": copy_at + 100, "dur": dur, "args": args | {"bytes": dur * 100}})
    return Trace(after.head, [*after.events, *map(_text, made)], after.base)


#: What is planted, by name.
PLANTED = ("noise", "a slower kernel", "a slow loader", "an extra copy")


@dataclass(frozen=True)
class Plant:
    """A trace in which one thing is planted, how the first finding begins, and whether it is beyond the spread."""

    after: Trace
    named: Callable[[Diff], str | tuple[str, ...]]
    is_known: bool = True


def asked(path: Path, seed: int, folder: Path, planted: Sequence[str] = PLANTED) -> dict[str, Answered]:
    """Plants each in a trace, and asks `ktrace diff` what changed; leaves out what can't be planted in each step."""
    whole, chance = trace(path), Random(f"{path.name} {seed}")
    jitter = chance.choice(_JITTER)
    before = noisy(whole, chance, jitter)
    a, found = write(before, folder / "a.json"), dict[str, Answered]()
    for what in planted:
        plant = _planted(what, whole, chance, jitter)
        if plant is None:
            continue
        diff = ktrace.diff(a, write(plant.after, folder / "b.json"), by=["kernel"])
        mine = [one.startswith(plant.named(diff)) for one in findings(diff)]
        first = is_calm(diff) if what == "noise" else mine[:1] == [True]
        wrong = not first and (what == "noise" or bool(mine))
        exact = _is_exact(before, plant.after, diff)
        found[what] = Answered(exact, first, first or any(mine), wrong, None, tuple(diff.verdict), plant.is_known)
    return found


def _planted(what: str, whole: Trace, chance: Random, jitter: float) -> Plant | None:
    """Other noise and one thing planted; None where a step has no place for it."""
    if what == "a slower kernel":
        name, grid = chance.choice(_heavy(whole))
        slow = noisy(whole, chance, jitter, lambda one: (one["name"], _grid(one)) == (name, grid))
        launches = [(n, one["dur"]) for n, one in steps_of(whole) if (one["name"], _grid(one)) == (name, grid)]
        known = _is_slower_known(launches, len(whole.steps), jitter, _number(whole))
        return Plant(
            slow, lambda diff: tuple(f"{shortened(row, 48)} +" for row in _rows(diff, short_name(name))), known
        )
    after = noisy(whole, chance, jitter)
    if what == "noise":
        return Plant(after, lambda _: "")
    if len(gaps(after)) < len(after.steps):
        return None
    step = sum(one["dur"] for one in after.steps) // len(after.steps)
    dur = round(step * chance.uniform(*_PART))
    if what == "a slow loader":
        known = dur >= least(*_per_step(_free(whole), len(whole.steps), 2 * jitter), rows=1)
        return Plant(paused(after, dict.fromkeys((at for at, _ in gaps(after).values()), dur)), lambda _: "idle", known)
    copies = [(n, one["dur"]) for n, one in steps_of(whole) if one["name"] == _COPY]
    known = not copies or dur >= least(*_per_step(copies, len(whole.steps), jitter), rows=_number(whole))
    return Plant(copied(after, dur), lambda _: f"{_COPY} +", known)


def _is_slower_known(launches: Sequence[tuple[int, int]], steps: int, jitter: float, rows: int) -> bool:
    """Whether a test finds that launches (step, ns) are slower, by the totals of steps or one by one."""
    single = [dur for _, dur in launches]
    samples = _per_step(launches, steps, jitter), (single, [jitter * dur for dur in single])
    return any((SLOWER - 1) * sum(one) / len(one) >= least(one, noise, rows) for one, noise in samples)


def _per_step(times: Sequence[tuple[int, int]], steps: int, jitter: float) -> tuple[list[int], list[float]]:
    """The total of each step of times (step, ns), and what noise adds to it."""
    mine = [[dur for number, dur in times if number == step] for step in range(steps)]
    return [sum(one) for one in mine], [jitter * math.hypot(*one) for one in mine]


def _free(one: Trace) -> list[tuple[int, int]]:
    """The times in which the device does nothing, and the step of the work after each, where there is one."""
    of, found, end = {id(work): number for number, work in steps_of(one)}, [], one.work[0]["ts"]
    for work in one.work:
        if work["ts"] > end and id(work) in of:
            found.append((of[id(work)], work["ts"] - end))
        end = max(end, work["ts"] + work["dur"])
    return found


def _number(one: Trace) -> int:
    """How many rows a table by kernel has."""
    return len({short_name(work["name"]) for _, work in steps_of(one)})


def _rows(diff: Diff, kernel: str) -> list[str]:
    """The keys of the rows of a kernel, which may be one for each of its grids."""
    return [row.key for row in diff.rows["kernel"] if row.key == kernel or row.key.startswith(f"{kernel} grid ")]


def _heavy(one: Trace) -> list[tuple[str, str]]:
    """The heaviest kernels by name and grid, of those in each step whose short name is no other's."""
    times: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[int, str, str]] = Counter()
    for number, work in steps_of(one):
        if str(work["cat"]).lower() == "kernel" and "nccl" not in work["name"]:
            times[work["name"], _grid(work)] += work["dur"]
            counts[number, work["name"], _grid(work)] += 1
    even = {key for key in times if min(counts[(number, *key)] for number in range(len(one.steps))) > 0}
    alike = Counter(short_name(name) for name in {work["name"] for work in one.work})
    return [key for key, _ in times.most_common() if alike[short_name(key[0])] == 1 and key in even][:_HEAVIEST]


def _grid(work: Event) -> str:
    return str(work["args"].get("grid"))


def steps_of(one: Trace) -> list[tuple[int, Event]]:
    """The work of steps, in its order: where its call begins, or where it begins itself if its call isn't known.

    Work that was queued before the recording is of none.
    """
    found, queued = [], _queued(one)
    for work in one.work:
        if id(work) in queued:
            continue
        at = one.calls[work["args"]["correlation"]]["ts"] if _call(one, work) else work["ts"]
        mine = [n for n, step in enumerate(one.steps) if step["ts"] <= at < step["ts"] + step["dur"]]
        found += [(mine[0], work)] if mine else []
    return found


def _queued(one: Trace) -> set[int]:
    """The identities of what streams do before their first work whose call is known, unless most calls aren't."""
    streams, found = defaultdict[tuple[Any, Any], list[Event]](list), set[int]()
    for work in one.work:
        streams[work["pid"], work["tid"]].append(work)
    for mine in streams.values():
        first = next((place for place, work in enumerate(mine) if _call(one, work)), 0)
        if 2 * sum(_call(one, work) for work in mine) >= len(mine) - first:
            found.update(map(id, mine[:first]))
    return found


def _is_exact(a: Trace, b: Trace, diff: Diff) -> bool:
    """Whether all work, each kernel, the idle time of the device, and steps on the host are as the events say."""
    exact, number = True, len(a.steps)
    sides = (a, diff.a, diff.whole.total_a), (b, diff.b, diff.whole.total_b)
    for one, side, total in sides:
        times: Counter[str] = Counter()
        for _, work in steps_of(one):
            times[work["name"]] += work["dur"]
        spans = [(work["ts"], work["ts"] + work["dur"]) for work in one.work]
        (device,) = side.devices
        exact &= total == sum(times.values()) / number and device.busy == length(spans)
        exact &= device.idle == max(end for _, end in spans) - min(begin for begin, _ in spans) - length(spans)
        exact &= sum(use.wall for use in side.step_use) == sum(step["dur"] for step in one.steps)
        for group in side.groups["kernel"]:
            if group.name in times and group.steps is not None:  # else it isn't one name, or was decoded
                exact &= float(group.steps.sum()) == times[group.name]
    return exact


def _call(one: Trace, work: Event) -> bool:
    return work["args"].get("correlation") in one.calls


def write(one: Trace, path: Path) -> Path:
    """Writes the document; times have three decimals."""
    head = json.dumps(one.head, default=_float)[:-1]
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{head}, "traceEvents": [\n')
        file.writelines(_lines(one))
        file.write("]}\n")
    return path


def _lines(one: Trace) -> Iterator[str]:
    for place, event in enumerate(one.events):
        times = f', "ts": {_us(event["ts"] + one.base)}' if isinstance(event.get("ts"), int) else ""
        times += f', "dur": {_us(event["dur"])}' if times and "dur" in event else ""
        yield f"{',' if place else ' '}{event[_TEXT]}{times}}}\n"


def _text(event: Event) -> Event:
    """An event with its JSON text, without times and the closing brace."""
    rest = {key: value for key, value in event.items() if key not in ("ts", "dur")}
    return event | {_TEXT: json.dumps(rest, default=_float)[:-1]}


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _float(value: Decimal) -> float:
    return float(value)
