"""Finds the kernel of a timeline for each launch that another tool measured.

    launches   0 gemm 64x256   1 norm 8x256   2 gemm 64x256
    kernels    0 gemm 64x256   1 gemm 64x256  2 norm 8x256       ──►   0, 2, 1

Launches and kernels are grouped by process, device, name, grid and block; the first launch of a group is its first
kernel, and so on, if the group has as many launches as kernels. If launches were skipped before the first that was
measured, the others must have the same order in the timeline. A launch that doesn't match has no kernel; nothing is
guessed.

Kernels are rows of numbers, so that a timeline may have millions: their texts are kept once, in a `Distinct`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.naming.short_names import base_name, spelled_alike
from ktrace.store.joins import distinct_rows
from ktrace.store.vocabulary import Interner

#: How names are compared, the strictest comparison first.
SPELLINGS: tuple[Callable[[str], str], ...] = (str, spelled_alike, base_name)

#: Columns of the place, the size and the name of a kernel.
PLACE = ("source", "host", "pid", "tid", "device", "context", "stream", "track", "clock")
SIZE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
NAMES = ("name", "short_name")

_PID, _DEVICE = PLACE.index("pid"), PLACE.index("device")
_NONE = "no such kernel in the timeline"


@dataclass
class Launch:
    """A launch that was measured. `place` names its row, for a report."""

    place: str
    process: int | None
    device: int | None
    name: str
    size: tuple[int | None, ...]


class Distinct:
    """The distinct combinations of values in some columns, each with a number."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.rows = Interner()
        self._columns = columns

    def numbers(self, batch: Batch) -> Int64:
        """The number of the combination in each row of a batch."""
        columns = [batch.column(name) for name in self._columns if batch.has(name)]
        first, which = distinct_rows(columns, len(batch))
        texts = {name: decoded(batch.column(name).take(pa.array(first))).to_pylist() for name in self._columns}
        rows = zip(*texts.values(), strict=True)
        return self.rows.numbers(rows)[which]


@dataclass
class Kernels:
    """The kernels of a timeline as columns of numbers; `places`, `sizes` and `names` have the values behind them."""

    places: Distinct = field(default_factory=lambda: Distinct(PLACE))
    sizes: Distinct = field(default_factory=lambda: Distinct(SIZE))
    names: Distinct = field(default_factory=lambda: Distinct(NAMES))
    _parts: list[pa.Table] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Adds a batch of kernels."""
        kept = {name: batch.column(name) for name in ("id", "ts", "dur", "correlation")}
        numbers = {"place": self.places, "size": self.sizes, "name": self.names}
        kept |= {name: pa.array(distinct.numbers(batch).astype(np.int32)) for name, distinct in numbers.items()}
        self._parts.append(pa.table(kept))

    def table(self) -> pa.Table:
        """The kernels in the order of their launches: by correlation ids where all have one, else by time."""
        if not self._parts:
            return pa.table({name: pa.array([], pa.int64()) for name in ("id", "ts", "dur", "place", "size", "name")})
        rows = pa.concat_tables(self._parts)
        self._parts.clear()
        by = "ts" if rows["correlation"].null_count else "correlation"
        order = np.lexsort((rows["ts"].to_numpy(), rows[by].to_numpy()))
        return rows.drop_columns("correlation").take(pa.array(order))


class Keys(NamedTuple):
    """Launches or kernels of a process, with the numbers by which they are compared."""

    rows: Int64
    name: Int64
    whole: Int64

    def where(self, mask: Bools) -> Keys:
        """The rows of a mask."""
        return Keys(self.rows[mask], self.name[mask], self.whole[mask])


class Matching:
    """Finds the kernels of launches. `kernels` is `Kernels.table()`; `skip` how many launches came before the first."""

    def __init__(
        self,
        launches: list[Launch],
        facts: Catalog,
        seen: Kernels,
        kernels: pa.Table,
        catalog: Catalog,
        skip: int | None,
    ) -> None:
        self._launches = launches
        self._skip = skip
        self._places = list(seen.places.rows)
        self._sizes = list(seen.sizes.rows)
        self._names = list(seen.names.rows)
        self._place, self._size, self._name = (kernels[name].to_numpy() for name in ("place", "size", "name"))
        self._process = _processes(
            _Side({(launch.process, launch.device) for launch in launches}, facts),
            _Side({(place[_PID], place[_DEVICE]) for place in self._places}, catalog),
        )
        self.kernel = np.full(len(launches), -1, np.int64)
        self.why = [_NONE] * len(launches)
        self._find()

    def _find(self) -> None:
        """Sets the row of the kernel for each launch, or -1 and the reason."""
        by_process: defaultdict[int | None, list[int]] = defaultdict(list)
        for number, launch in enumerate(self._launches):
            by_process[launch.process].append(number)
        pids = [place[_PID] for place in self._places]
        for process, numbers in by_process.items():
            if process not in self._process:
                self._say(numbers, f"no process of the timeline matches {process}")
                continue
            there = np.array([pid == self._process[process] for pid in pids], np.bool_)
            theirs = np.flatnonzero(there[self._place]) if pids else np.zeros(0, np.int64)
            self._match(np.array(numbers), theirs)

    def _say(self, numbers: Iterable[int], why: str) -> None:
        for number in numbers:
            self.why[number] = why

    def _match(self, measured: Int64, theirs: Int64) -> None:
        """Finds the kernels of the launches of a process, each by the strictest spelling that finds its name."""
        reason = ""
        for spelling in SPELLINGS:
            here, there = self._keys(measured, theirs, spelling)
            if self._skip is not None:
                reason = self._in_sequence(here, there, self._skip)
                if not reason:
                    return
                continue
            ours, others = np.isin(here.name, there.name), np.isin(there.name, here.name)
            self._pair_groups(here.where(ours), there.where(others))
            measured, theirs = measured[~ours], theirs[~others]
        if reason:
            self._say(measured.tolist(), reason)

    def _keys(self, measured: Int64, theirs: Int64, spelling: Callable[[str], str]) -> tuple[Keys, Keys]:
        """The numbers by which rows are compared; sizes and devices only if all launches have them."""
        launches = [self._launches[number] for number in measured.tolist()]
        sized = all(launch.size[0] is not None for launch in launches)
        devices = [place[_DEVICE] for place in self._places]
        our_devices = {launch.device for launch in launches}
        others = {devices[place] for place in np.unique(self._place[theirs]).tolist()}
        placed = None not in our_devices and (len(our_devices) > 1 or len(others) > 1)
        names, numbers = Interner(), Interner()

        def key(name: str, device: int | None, size: tuple[int | None, ...]) -> tuple[Any, ...]:
            return name, device if placed else None, size if sized else None

        ours = [names[spelling(launch.name)] for launch in launches]
        here = [numbers[key(spelling(launch.name), launch.device, launch.size)] for launch in launches]
        spelled = [spelling(short if spelling is base_name and short else name) for name, short in self._names]
        parts = (self._name[theirs], self._place[theirs], self._size[theirs])
        first, which = distinct_rows([pa.array(part) for part in parts], len(theirs))
        rows = zip(*(part[first].tolist() for part in parts), strict=True)
        there = [(spelled[name], key(spelled[name], devices[place], self._sizes[size])) for name, place, size in rows]
        their_names = names.numbers(name for name, _ in there)
        their_keys = numbers.numbers(whole for _, whole in there)
        return (
            Keys(measured, np.array(ours, np.int64), np.array(here, np.int64)),
            Keys(theirs, their_names[which], their_keys[which]),
        )

    def _pair_groups(self, here: Keys, there: Keys) -> None:
        """Pairs the groups that have as many launches as kernels."""
        if not len(here.rows):
            return
        most = int(max(here.whole.max(), there.whole.max(initial=0))) + 1
        ours, theirs = np.bincount(here.whole, minlength=most), np.bincount(there.whole, minlength=most)
        even = ours == theirs
        for number, key in zip(here.rows.tolist(), here.whole.tolist(), strict=True):
            if not even[key]:
                counts = f"{ours[key]:,} launches of this size have metrics, {theirs[key]:,} are in the timeline"
                self.why[number] = counts
        here, there = here.where(even[here.whole]), there.where(even[there.whole] & (ours[there.whole] > 0))
        first, second = np.argsort(here.whole, kind="stable"), np.argsort(there.whole, kind="stable")
        self.kernel[here.rows[first]] = there.rows[second]

    def _in_sequence(self, here: Keys, there: Keys, skip: int) -> str:
        """Pairs the launches with the kernels after those that were skipped, or returns why this isn't possible.

        The number of skipped launches may count all kernels, or only those with names that have metrics, as tools count
        that filter by name.
        """
        candidates: list[Int64] = []
        for counted in (there, there.where(np.isin(there.name, here.name))):
            part = slice(skip, skip + len(here.rows))
            rows = counted.rows[part]
            if np.array_equal(counted.whole[part], here.whole) and not any(np.array_equal(rows, o) for o in candidates):
                candidates.append(rows)
        if len(candidates) != 1:
            what = "may be those of all names or of these names" if candidates else "are different ones"
            return f"the launches after the first {skip:,} of the timeline {what}"
        self.kernel[here.rows] = candidates[0]
        return ""


class _Side:
    """The processes of the launches or of the timeline, with their devices and names."""

    def __init__(self, places: set[tuple[int | None, int | None]], catalog: Catalog) -> None:
        self.devices: defaultdict[int | None, set[int | None]] = defaultdict(set)
        for pid, device in places:
            self.devices[pid].add(device)
        self.names = {pid: _name(catalog, pid) for pid in self.devices}

    def of_name(self, name: str | None) -> list[int | None]:
        """The processes with this name."""
        return [pid for pid, process_name in self.names.items() if name and process_name == name]

    def of_devices(self, devices: set[int | None]) -> list[int | None]:
        """The processes that have one of these devices."""
        return [pid for pid, used in self.devices.items() if used & devices]


def _name(catalog: Catalog, pid: int | None) -> str | None:
    names = {entry.name for entry in catalog.of("process") if entry.key.get("pid") == pid}
    return next(iter(names)) if len(names) == 1 else None


def _processes(ours: _Side, theirs: _Side) -> dict[int | None, int | None]:
    """The process of the timeline for each process with launches.

    It has the same pid, or is the only one, or the only one with its name, or the only one on its device if each
    process has its own device, as the ranks of a job have.
    """
    if set(ours.devices) <= set(theirs.devices):
        return {pid: pid for pid in ours.devices}
    if len(ours.devices) == len(theirs.devices) == 1:
        return {next(iter(ours.devices)): next(iter(theirs.devices))}
    matched: dict[int | None, int | None] = {}
    for pid, name in ours.names.items():
        same = theirs.of_name(name)
        if len(same) == 1 and len(ours.of_name(name)) == 1:
            matched[pid] = same[0]
    if not matched and all(_own_devices(side) for side in (ours, theirs)):
        for pid, devices in ours.devices.items():
            for other in theirs.of_devices(devices):
                matched[pid] = other
    return matched


def _own_devices(side: _Side) -> bool:
    """Whether each process has one device, and no two processes the same one."""
    devices = [device for used in side.devices.values() for device in used]
    return len(devices) == len(side.devices) == len(set(devices)) and None not in devices
