"""Arrows from calls to the device work that they launched, by correlation within a process."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64, Structured
from ktrace.model.tracks import Track
from ktrace.store.events import GONE, LAUNCHED, EventStore
from ktrace.store.launches import Correlated, find_launches
from ktrace.store.spill import Runs


def join_launches(store: EventStore, tracks: list[Track], ends: Runs, size: int) -> int:
    """Joins launches with their work by correlation, and returns how many arrows this made. Flags the work."""
    process = _numbers((track.source, track.host, track.pid) for track in tracks)
    machine = _numbers((track.source, track.host) for track in tracks)
    known = np.array([track.pid is not None for track in tracks], np.bool_)
    keys, arrows = store.keys.rows, 0
    for part in store.correlated.parts(size):
        rows = part[keys["flags"][part["place"]] & GONE == 0]
        launches, works = rows[rows["launch"]], rows[~rows["launch"]]
        if np.any(works["correlation"][1:] <= works["correlation"][:-1]):
            works = works[np.lexsort((*_first_and_longest(keys, works["place"]), works["correlation"]))]
        launch = find_launches(
            _correlated(works, process, machine, known),
            _correlated(launches, process, machine, known),
            partial(_first_and_longest, keys, launches["place"]),
        )
        joined = np.flatnonzero(launch >= 0)
        arrow = arrows + 1 + np.arange(len(joined))
        arrows += len(joined)
        calls, started = launches["place"][launch[joined]], works["place"][joined]
        keys["flags"][started] |= LAUNCHED
        for place, peer, out in ((calls, started, True), (started, calls, False)):
            columns = {"place": place, "arrow": arrow, "peer": peer, "kind": 0, "out": out}
            ends.append(ts=keys["ts"][place], **columns, link=False, last=not out)
    return arrows


def _correlated(rows: Structured, process: Int32, machine: Int32, known: Bools) -> Correlated:
    track = rows["track"]
    correlation = np.ascontiguousarray(rows["correlation"])
    return Correlated(correlation, process[track], machine[track], known[track])


def _first_and_longest(keys: Structured, places: Int64) -> tuple[Int64, ...]:
    """Columns that sort events by ts, then the longest first, then by track and id."""
    keys = keys[places]
    return keys["id"], keys["track"], -keys["end"], keys["ts"]


def _numbers(values: Any) -> Int32:
    """Equal values get equal numbers."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int32)
