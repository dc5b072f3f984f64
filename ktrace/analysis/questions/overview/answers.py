"""What an overview shows: its lanes, how busy they are, what is heavy, and a trace of a part of the time.

Times are ns from the start of the trace, since a page counts exactly only up to 2^53.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ktrace.analysis.questions.overview import Span, Stored
from ktrace.analysis.questions.overview.checked import Damaged
from ktrace.analysis.questions.overview.lanes import MARK, RANGE, WORK, LaneCells, by_lane, cells_of, with_pieces
from ktrace.analysis.work.groups import OTHER, Group
from ktrace.model.arrays import AnyArray
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.tracks import Node, Track, arrange, natural
from ktrace.naming.phases import phase_of
from ktrace.naming.short_names import without_release
from ktrace.naming.taxonomy import taxonomy
from ktrace.store.joins import each_group

#: One bucket that is wider than any trace.
_ALL = 62

#: The most buckets of one answer, names of the heaviest, and inputs that are all named.
_BUCKETS, HEAVIEST, _INPUTS = 4_096, 40, 3

#: What is heavy is listed for the work of devices, for that of the host, and for ranges and steps.
TABLES = ("device", "host", "ranges")

_SHOWN = {WORK: "", RANGE: "ranges", MARK: "steps"}


_Answer = TypeVar("_Answer")


class Overview:
    """The answers about a stored trace. A part of the time is `(from, to)` in ns from its start.

    `again` stores the trace anew, where what was stored turns out to be damaged.
    """

    def __init__(self, stored: Stored, title: str, again: Callable[[], Stored] | None = None) -> None:
        self.stored = stored
        self.title = title
        self._again = again
        self._wider = cache(self._widened)

    def sure(self, ask: Callable[[], _Answer]) -> _Answer:
        """What `ask` returns, which asks this overview; asked again where the stored trace turned out to be damaged.

        Raises Damaged if it can't be stored anew, and what storing raises.
        """
        try:
            return ask()
        except Damaged:
            if self._again is None:
                raise
            self.stored = self._again()
            return ask()

    @property
    def length(self) -> int:
        """The time that the trace covers, in ns."""
        return self.stored.span[1] - self.stored.span[0]

    def about(self) -> dict[str, Any]:
        """What the page needs first: the lanes in the order in which they are drawn, and inputs."""
        report = self.stored.report()
        return {
            "title": self.title,
            "length": self.length,
            "rows": self.stored.rows,
            "shift": self.stored.cells.shift,
            "groups": self.groups,
            "rulers": self._rulers,
            "counters": self._counters,
            "inputs": _inputs(report.inputs),
            "line": report.line(),
        }

    @cached_property
    def _busy(self) -> dict[int, int]:
        """The busy time of each lane that has slices."""
        sums = self._sums((0, self.length))
        return {lane: int(buckets.busy.sum()) for lane, buckets in by_lane(sums)}

    @cached_property
    def _communication(self) -> dict[int, int]:
        """The time of collectives on each lane that has any."""
        cells = self._sums((0, self.length))
        sends = np.array([operation == "collective" for _, operation in self._labels], np.bool_)
        lanes, which = np.unique(cells.lane[sends[cells.name]], return_inverse=True)
        times = np.bincount(which, cells.time[sends[cells.name]], len(lanes))
        return {int(lane): int(time) for lane, time in zip(lanes.tolist(), times.tolist(), strict=True)}

    @cached_property
    def _ruled(self) -> set[int]:
        return {ruler["lane"] for ruler in self._rulers}

    @cached_property
    def groups(self) -> list[dict[str, Any]]:
        """Devices, then processes, each with its lanes; those of a process that are busy longest first."""
        tracks = [lane.track for lane in self.stored.lanes.all[: len(self.stored.lanes.whole)] if lane.shows == WORK]
        nodes = arrange(tracks, self.stored.catalog)
        groups = [*self._devices(nodes)]
        for process in nodes:
            lanes = [
                lane
                for node in process.walk()
                if node.number is not None and not tracks[node.number].is_on_device
                for lane in self._of_track(node.number, _name(node, process))
            ]
            if lanes:
                groups.append({"name": process.shown.name, "lane": None, "lanes": self._by_time(lanes)})
        return groups

    def _devices(self, nodes: Sequence[Node]) -> Iterator[dict[str, Any]]:
        """Each device with the lanes of its streams; those of several processes are in one group."""
        wholes = {lane.track: number for number, lane in enumerate(self.stored.lanes.all)}
        devices: dict[int | None, list[tuple[Node, Node]]] = {}
        for process in nodes:
            for node in process.walk():
                if node.kind == "device" and isinstance(node.key, Track):
                    whole = wholes.get(Track(node.key.source, node.key.host, None, None, node.key.device))
                    devices.setdefault(whole if whole in self._busy else None, []).append((process, node))
        names = Counter(of[0][1].shown.name for of in devices.values())
        for whole, of in devices.items():
            lanes = [
                lane
                for process, node in of
                for below in node.walk()
                if below.number is not None
                for lane in self._of_track(
                    below.number, _name(below, node) + (f" · {process.shown.name}" if len(of) > 1 else "")
                )
            ]
            process, node = of[0]
            name = node.shown.name if names[node.shown.name] == 1 else f"{node.shown.name} · {process.shown.name}"
            rank = self.stored.catalog.rank(node.key.source) if isinstance(node.key, Track) else None
            name = name if rank is None or len(devices) == 1 else f"rank {rank} · {name}"
            if whole is None:
                name, times = "devices without work", {}
            else:
                times = {"busy": self._busy[whole], "communication": self._communication.get(whole, 0)}
            if lanes:
                yield {"name": name, "lane": whole, "lanes": lanes, **times}

    def _of_track(self, track: int, name: str) -> Iterator[dict[str, Any]]:
        """The lanes of a track that have slices."""
        for shows, word in _SHOWN.items():
            number = len(_SHOWN) * track + shows
            if number in self._busy and number not in self._ruled:
                yield {"name": f"{name} {word}".strip(), "lane": number}

    def _by_time(self, lanes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(lanes, key=lambda lane: -self._busy[lane["lane"]])

    @cached_property
    def _counters(self) -> list[dict[str, Any]]:
        """The counters, by where they are."""
        on: dict[Track, list[tuple[str, int]]] = {}
        for number, (track, name) in enumerate(self.stored.series):
            on.setdefault(track, []).append((name, number))
        tracks = [*on]
        return [
            {"name": f"{name} · {process.shown.name if node.kind == 'track' else node.shown.name}", "series": number}
            for process in arrange(tracks, self.stored.catalog)
            for node in process.walk()
            if node.number is not None
            for name, number in on[tracks[node.number]]
        ]

    @cached_property
    def _rulers(self) -> list[dict[str, Any]]:
        """Lanes of steps and phases, and of the ranges of the thread that has most of them."""
        lanes = self.stored.lanes.all
        host = [number for number in self._busy if not lanes[number].track.is_on_device]
        marks = [number for number in host if lanes[number].shows == MARK]
        ranges = [number for number in host if lanes[number].shows == RANGE]
        marks = sorted(
            marks or [one for one in self._busy if lanes[one].shows == MARK], key=lambda one: -self._busy[one]
        )
        ranges = sorted(ranges, key=lambda one: -self._busy[one])
        names = (("steps", marks[:1]), ("ranges", ranges[:1]))
        return [{"name": name, "lane": number} for name, numbers in names for number in numbers]

    @cached_property
    def _labels(self) -> list[tuple[str, str]]:
        """What each name is called in short, and its operation; of the host as a summary calls it, and the kind."""
        rules = taxonomy(None)
        labelled = []
        for name in self.stored.names:
            if name.kind in DEVICE_KINDS:
                labels = rules.labels(name.name, name.kind)
                labelled.append((labels.short_name or name.name, labels.operation or OTHER))
            else:
                phase = phase_of(name.name) if name.kind in ("range", "op") else None
                shown = without_release(name.name) if name.kind == "api" else name.name
                labelled.append((shown, phase.phase if phase else name.kind))
        return labelled

    @cached_property
    def operations(self) -> list[Group]:
        """The operations of the work of devices, that which takes most time first."""
        time: dict[str, int] = {}
        cells = self._sums((0, self.length))
        on_device = self.tables[cells.lane] == "device"
        for name, busy in zip(cells.name[on_device].tolist(), cells.time[on_device].tolist(), strict=True):
            operation = self._labels[name][1]
            time[operation] = time.get(operation, 0) + busy
        return sorted((Group(operation, busy) for operation, busy in time.items()), key=lambda group: -group.total)

    def _widened(self, shift: int) -> LaneCells:
        return self.stored.cells.wider(shift)

    def absolute(self, span: Span) -> Span:
        start = self.stored.span[0]
        return start + max(span[0], 0), start + min(max(span[1], span[0] + 1), self.length)

    def from_rows(self, span: Span, shift: int) -> LaneCells:
        """The cells of a part of the time, from its slices."""
        lanes, origin = self.stored.lanes, self.stored.span[0]
        parts = [
            cells_of(rows, added, origin, shift, span, taken)
            for rows, added, taken in with_pieces(self.stored.slices(span), lanes, self.stored.span[1])
        ]
        return LaneCells.none(origin, shift).with_more(*parts)

    def cells(self, span: Span, shift: int) -> LaneCells:
        """The cells of whole buckets of this width that overlap a part of the time."""
        start, stop = self.absolute(span)
        origin, kept = self.stored.span[0], self.stored.cells
        first, last = (start - origin) >> shift, (stop - 1 - origin) >> shift
        if shift < kept.shift:
            return self.from_rows((origin + (first << shift), origin + ((last + 1) << shift)), shift)
        cells = self._wider(shift)
        return cells.where((cells.bucket >= first) & (cells.bucket <= last))

    def _sums(self, span: Span) -> LaneCells:
        """The sums of exactly this part of the time: one bucket."""
        start, stop = self.absolute(span)
        origin, kept = self.stored.span[0], self.stored.cells
        first, last = -((origin - start) >> kept.shift), (stop - origin) >> kept.shift
        if (start, stop) == self.stored.span:
            return self._wider(_ALL)
        if last <= first:
            return self.from_rows((start, stop), _ALL)
        inner = kept.where((kept.bucket >= first) & (kept.bucket < last)).wider(_ALL)
        begin, end = origin + (first << kept.shift), origin + (last << kept.shift)
        edges = [self.from_rows(edge, _ALL) for edge in ((start, begin), (end, stop)) if edge[0] < edge[1]]
        return inner.with_more(*edges)

    def level(self, span: Span, shift: int, lanes: Iterable[int] | None = None) -> dict[str, Any]:
        """How busy lanes are in the buckets of a part of the time; names with their operations by number."""
        chosen = None if lanes is None else set(lanes)
        shift = max(0, min(shift, _ALL))
        while (span[1] - span[0]) >> shift > _BUCKETS:
            shift += 1
        cells_of, used = {}, set[int]()
        for lane, buckets in by_lane(self.cells(span, shift)):
            if chosen is None or lane in chosen:
                used.update(np.unique(buckets.name).tolist())
                cells_of[lane] = [column.tolist() for column in buckets]
        return {"shift": shift, "lanes": cells_of, "names": self.named(used), "counters": self.counters(span, shift)}

    def counters(self, span: Span, shift: int) -> dict[int, list[list[float]]]:
        """Buckets, least and greatest reading of each counter in a part of the time."""
        envelope = self.stored.envelope(self.absolute(span), shift)
        return {
            int(envelope.series[rows.start]): [column[rows].tolist() for column in envelope[3:]]
            for rows in each_group((envelope.series,))
        }

    def named(self, numbers: Iterable[int]) -> dict[int, tuple[str, str, str]]:
        """The short name, operation and full name of some names."""
        return {number: (*self._labels[number], self.stored.names[number].name) for number in sorted(numbers)}

    def heavy(self, span: Span) -> dict[str, Any]:
        """What is heavy in a part of the time, on devices and on the host, and how idle devices are."""
        cells = self._sums(span)
        start, stop = self.absolute(span)
        used, tables, totals = set[int](), {}, {}
        tabled = self.tables[cells.lane]
        for title in TABLES:
            of_table = cells.where(tabled == title)
            tables[title], totals[title] = self._heaviest(of_table), int(of_table.time.sum())
            used.update(row[0] for row in tables[title])
        busy = {lane: int(buckets.busy.sum()) for lane, buckets in by_lane(cells)}
        devices = [
            {"name": group["name"], "busy": busy.get(group["lane"], 0)}
            for group in self.groups
            if group["lane"] is not None
        ]
        return {
            "length": stop - start,
            "slices": int(cells.count[tabled != ""].sum()),
            "devices": devices,
            **tables,
            "totals": totals,
            "names": self.named(used),
        }

    @cached_property
    def tables(self) -> AnyArray:
        """For each lane the table that has what is heavy on it, one of TABLES; "" for the lanes of whole devices."""
        lanes = self.stored.lanes
        of_tracks = [
            "ranges" if shows != WORK else "device" if track.is_on_device else "host"
            for track, shows in lanes.all[: len(lanes.whole)]
        ]
        return np.array(of_tracks + [""] * (len(lanes.all) - len(of_tracks)))

    @cached_property
    def _alike(self) -> AnyArray:
        """For each name the first one that is shown as it is, by short name and operation."""
        first: dict[tuple[str, str], int] = {}
        return np.array([first.setdefault(label, number) for number, label in enumerate(self._labels)], np.int64)

    def _heaviest(self, cells: LaneCells) -> list[tuple[int, int, int]]:
        """The heaviest names with their time and count; those that are shown alike are one."""
        names, which = np.unique(self._alike[cells.name], return_inverse=True)
        time, count = (np.bincount(which, column, len(names)).astype(np.int64) for column in (cells.time, cells.count))
        order = np.lexsort((names, -time))[:HEAVIEST]
        return list(zip(names[order].tolist(), time[order].tolist(), count[order].tolist(), strict=True))

    def found(self, words: str, most: int = 1_000) -> list[dict[str, Any]]:
        """The lanes and buckets with a name that contains the words."""
        small = words.lower()
        named = np.array([small in name.name.lower() for name in self.stored.names], np.bool_)
        cells = self.cells((0, self.length), max(self.stored.cells.shift, int(self.length).bit_length() - 10))
        named_cells = cells.where(named[cells.name] & (cells.lane < len(self.stored.lanes.whole)))
        return [
            {"lane": lane, "buckets": buckets.bucket.tolist()[:most], "shift": named_cells.shift}
            for lane, buckets in by_lane(named_cells)
        ]


def _inputs(inputs: Sequence[Mapping[str, Any]]) -> str:
    """The inputs with their formats; of many the first and the last."""
    names = sorted((Path(one["path"]).name for one in inputs), key=natural)
    formats = ", ".join(dict.fromkeys(one["format"] for one in inputs))
    if len(names) <= _INPUTS:
        return f"{', '.join(names)} ({formats})"
    return f"{len(names):,} inputs, {names[0]} to {names[-1]} ({formats})"


def _name(node: Node, above: Node) -> str:
    return node.shown.name if node is not above else "all"
