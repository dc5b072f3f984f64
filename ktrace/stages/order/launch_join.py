"""Launches are joined with the device work that they started, by correlation within a process."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktrace.model.arrays import Int32, Int64, Structured
from ktrace.model.tracks import Track
from ktrace.store.events import GONE, LAUNCHED, EventStore
from ktrace.store.joins import find, fresh
from ktrace.store.spill import Runs


def join_launches(store: EventStore, tracks: list[Track], ends: Runs, size: int) -> int:
    """Joins launches with their work by correlation, and returns how many arrows that gave. Marks the work."""
    process = _numbers((track.source, track.host, track.pid) for track in tracks)
    machine = _numbers((track.source, track.host) for track in tracks)
    nowhere = np.array([track.pid is None for track in tracks], np.bool_)
    keys, arrows = store.keys.rows, 0
    for part in store.correlated.parts(size):
        rows = part[keys["flags"][part["place"]] & GONE == 0]
        launches, works = rows[rows["launch"]], rows[~rows["launch"]]
        launches = _outermost(launches, keys[launches["place"]], process)
        if not _rises(works["correlation"]):
            works = works[_in_order(works["correlation"], keys[works["place"]])]
        launch = _launch_of(works, launches, process)
        lost = (launch < 0) & nowhere[works["track"]]
        launch[lost] = _only_launch(works[lost], launches, machine)
        joined = np.flatnonzero(launch >= 0)
        arrow = arrows + 1 + np.arange(len(joined))
        arrows += len(joined)
        calls, started = launches["place"][launch[joined]], works["place"][joined]
        keys["flags"][started] |= LAUNCHED
        for place, peer, out in ((calls, started, True), (started, calls, False)):
            known = {"place": place, "arrow": arrow, "peer": peer, "kind": 0, "out": out}
            ends.append(ts=keys["ts"][place], **known, link=False, last=not out)
    return arrows


def _in_order(correlation: Int64, keys: Structured, *then: Any) -> Int64:
    return np.lexsort((keys["id"], keys["track"], -keys["end"], keys["ts"], *then, correlation))


def _outermost(launches: Structured, keys: Structured, process: Int32) -> Structured:
    """Of the calls of a process with one correlation the first and longest, under which the others stand."""
    if _rises(launches["correlation"]):
        return launches
    launches = launches[_in_order(launches["correlation"], keys, process[launches["track"]])]
    return launches[fresh((launches["correlation"], process[launches["track"]]))]


def _launch_of(works: Structured, launches: Structured, process: Int32) -> Int64:
    """The position of the launch of each work, -1 where there is none. Works and launches are sorted by correlation."""
    correlation, known = works["correlation"], launches["correlation"]
    if not _rises(known):
        return find((correlation, process[works["track"]]), (known, process[launches["track"]]))
    at = np.searchsorted(known, correlation)
    at[at == len(known)] = -1
    if len(known):
        same = (known[at] == correlation) & (process[launches["track"][at]] == process[works["track"]])
        at[~same] = -1
    return at


def _rises(correlation: Int64) -> bool:
    """Whether each is greater than the one before: then none repeats."""
    return bool(np.all(correlation[1:] > correlation[:-1]))


def _only_launch(works: Structured, launches: Structured, machine: Int32) -> Int64:
    """The launch of each work of unknown process, if just one process of the machine has one."""
    order = np.lexsort((machine[launches["track"]], launches["correlation"]))
    known = (launches["correlation"][order], machine[launches["track"]][order])
    if not len(order):
        return np.full(len(works), -1, np.int64)
    starts = np.flatnonzero(fresh(known))
    alone = starts[np.diff(np.append(starts, len(order))) == 1]
    found = find((works["correlation"], machine[works["track"]]), (known[0][alone], known[1][alone]))
    return np.where(found >= 0, order[alone][found] if len(alone) else -1, -1)


def _numbers(values: Any) -> Int32:
    """Equal values get equal numbers."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int32)
