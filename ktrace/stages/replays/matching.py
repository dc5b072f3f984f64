"""Finds the captured call of each replayed kernel, or why there is none.

    captured   a  b  copy  a  c
    replay     a     copy  a            a subsequence: every kernel must match, else none gets anything

Several streams: the captured calls are walked in order, each goes to the stream whose next kernel has its name; among
several to the one whose next kernels go on longest as the calls do.

CUDA's calls have no name of a kernel. They match by position alone: on one stream, if both have equally many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ktrace.model.arrays import Int64
from ktrace.stages.replays.gather import ANY, CALL, COPY, SET, Capture, Replay, Run

Streams = tuple[tuple[str, ...], ...]
Fit = tuple[tuple[int, ...], ...]

#: What tells that only the position of a kernel says which call it is of.
BY_POSITION = {"operator_matched": "position"}


class Matched(NamedTuple):
    """What is known of the rows of replays: their ids, the number of what is known of each, and that by number.

    `reasons` are why replays have no capture, with their pieces of work; `foreign` counts those of another run than
    their capture.
    """

    ids: Int64
    numbers: Int64
    facts: list[dict[str, Any]]
    reasons: Counter[str]
    foreign: int


def matched(replays: Sequence[Replay], captures: Sequence[Capture]) -> Matched:
    """The captured call of each piece of work of each replay."""
    fits: dict[tuple[Streams, tuple[str, ...]], Fit | None] = {}
    groups: defaultdict[tuple[int, ...], list[Replay]] = defaultdict(list)
    for replay in replays:
        groups[_candidates(replay, captures, fits)].append(replay)
    ids, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    facts: list[dict[str, Any]] = []
    known: dict[tuple[Streams, tuple[int, ...]], list[Int64]] = {}
    reasons: Counter[str] = Counter()
    foreign = 0
    for candidates, own in groups.items():
        for place, replay in enumerate(own):
            if not candidates:
                reasons[_why(replay, captures)] += _pieces(replay)
                continue
            chosen = _chosen(candidates, captures, replay, place, len(own))
            key = replay.streams, chosen
            if key not in known:
                known[key] = _agreed(replay, [captures[number] for number in chosen], fits, facts)
            ids += replay.ids
            numbers += known[key]
            foreign += 0 if any(_same(captures[one].run, replay.run) for one in chosen) else _pieces(replay)
    return Matched(np.concatenate(ids), np.concatenate(numbers), facts, reasons, foreign)


def _pieces(replay: Replay) -> int:
    return sum(map(len, replay.streams))


def _candidates(
    replay: Replay, captures: Sequence[Capture], known: dict[tuple[Streams, tuple[str, ...]], Fit | None]
) -> tuple[int, ...]:
    """The captures that a replay can be of: those that are the same, else those of which it is a part."""
    found = []
    for number, capture in enumerate(captures):
        key = replay.streams, capture.works
        if key not in known:
            known[key] = fit(*key)
        if known[key] is not None and (ANY not in capture.works or _same(capture.run, replay.run)):
            found.append(number)
    same = [number for number in found if len(captures[number].works) == _pieces(replay)]
    return tuple(same or found)


def _same(one: Run, other: Run) -> bool:
    """Whether nothing tells two runs apart."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def fit(streams: Streams, works: tuple[str, ...]) -> Fit | None:
    """The place of the captured call of each piece of work of each stream; None unless every piece has one."""
    if ANY in works:
        alike = len(streams) == 1 and len(streams[0]) == len(works) and all(map(_may_be, streams[0], works))
        return (tuple(range(len(works))),) if alike else None
    found = _walk(streams, works)
    return found if all(len(own) == len(calls) for own, calls in zip(streams, found, strict=True)) else None


def _may_be(work: str, call: str) -> bool:
    return work == call or (call == ANY and work not in (COPY, SET))


def _walk(streams: Streams, works: tuple[str, ...]) -> Fit:
    """The calls of each stream, as far as they go."""
    found: list[list[int]] = [[] for _ in streams]
    for number, work in enumerate(works):
        ready = [
            stream
            for stream, own in enumerate(streams)
            if len(found[stream]) < len(own) and own[len(found[stream])] == work
        ]
        if not ready:
            continue
        stream = ready[0]
        if len(ready) > 1:
            stream = max(ready, key=lambda one: _run(streams[one], len(found[one]), works, number))
        found[stream].append(number)
    return tuple(map(tuple, found))


def _run(own: tuple[str, ...], place: int, works: tuple[str, ...], number: int) -> int:
    """How many kernels of a stream from a place on are those of the calls from a number on."""
    count = 0
    while place + count < len(own) and number + count < len(works) and own[place + count] == works[number + count]:
        count += 1
    return count


def _chosen(
    numbers: tuple[int, ...], captures: Sequence[Capture], replay: Replay, place: int, replays: int
) -> tuple[int, ...]:
    """The capture of a replay among those that fit; several where nothing tells which one it is of.

    The smallest captured batch that holds the replay's, if both are stated; else the captures in their order, if they
    are launched equally often.
    """
    sizes = {number: captures[number].size for number in numbers}
    holding = [size for size in sizes.values() if size is not None and size >= (replay.size or 0)]
    if replay.size is not None and None not in sizes.values() and holding:
        numbers = tuple(number for number in numbers if sizes[number] == min(holding))
    if len(numbers) > 1 and len({sizes[number] for number in numbers}) == 1 and replays % len(numbers) == 0:
        return (numbers[place % len(numbers)],)
    return numbers


def _agreed(
    replay: Replay,
    captures: list[Capture],
    known: dict[tuple[Streams, tuple[str, ...]], Fit | None],
    facts: list[dict[str, Any]],
) -> list[Int64]:
    """For each stream the numbers of what the captures agree on for each piece of work, which `facts` gets."""
    fits = [found for one in captures if (found := known[replay.streams, one.works]) is not None]
    first = len(facts)
    for stream, works in enumerate(replay.streams):
        for place in range(len(works)):
            one, *others = (own.facts[found[stream][place]] for own, found in zip(captures, fits, strict=True))
            agreed = {key: value for key, value in one.items() if all(other.get(key) == value for other in others)}
            facts.append(agreed | (BY_POSITION if agreed.keys() - {CALL} and ANY in captures[0].works else {}))
    lengths = [len(works) for works in replay.streams]
    return np.split(np.arange(first, len(facts)), np.cumsum(lengths)[:-1])


def _why(replay: Replay, captures: Sequence[Capture]) -> str:
    """Why a replay has no capture."""
    if not captures:
        return "there is no capture"
    pieces = _pieces(replay)
    if all(ANY in capture.works for capture in captures):
        if not any(_same(capture.run, replay.run) for capture in captures):
            return "calls of CUDA tell no kernels, and the captures are of another run"
        if len(replay.streams) > 1:
            return "calls of CUDA tell no kernels, and the replay has several streams"
        counts = sorted({len(capture.works) for capture in captures})
        if pieces in counts:
            return "calls of CUDA tell no kernels, and the copies and sets of the captures are at other places"
        shown = ", ".join(map(str, counts[:5])) + (", ..." if len(counts) > 5 else "")
        return f"calls of CUDA tell no kernels, and the captures have {shown} calls for {pieces:,} pieces of work"
    furthest = max((_walk(replay.streams, capture.works) for capture in captures), key=lambda one: sum(map(len, one)))
    stream = next(n for n, own in enumerate(replay.streams) if len(furthest[n]) < len(own))
    names = {COPY: "a copy", SET: "a set"}
    work = replay.streams[stream][len(furthest[stream])]
    matching = sum(map(len, furthest))
    return f"no capture goes on to {names.get(work, work)} after {matching:,} of {pieces:,} pieces of work"
