"""Turns a snapshot into allocations with counters, and summaries of its segments and blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.torch.pickles import is_small
from ktrace.kit.torch.stacks import Stacks
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .snapshot import Entry, Snapshot, read_snapshot, whole

#: Action -> counter -> the sign with which its size changes the counter.
_COUNTERS: dict[str, dict[str, int]] = {
    "alloc": {"allocated": 1, "active": 1},
    "free_requested": {"allocated": -1},
    "free": {"allocated": -1, "active": -1},  # of early versions
    "free_completed": {"active": -1},
    "segment_alloc": {"reserved": 1},
    "segment_free": {"reserved": -1},
    "segment_map": {"reserved": 1},
    "segment_unmap": {"reserved": -1},
}

#: Action -> the sign of its bytes; a free has bytes once, where it is requested.
_BYTES = {"alloc": 1, "free_requested": -1, "free": -1}
_BYTES |= {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}

#: Counter -> the field of a segment with its value at the time of the snapshot.
_AT_END = {"allocated": "allocated_size", "active": "active_size", "reserved": "total_size"}

#: Fields of segments that become arguments.
_SEGMENT = (
    *("segment_type", "allocated_size", "active_size", "requested_size", "is_expandable", "segment_pool_id"),
    "registration_counter",
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each action, counters of bytes, and summaries. Raises DamagedInput for another file."""
    snapshot = read_snapshot(source, conversion.report)
    reading = _Reading(snapshot, conversion)
    yield from reading.traces()
    reading.annotations()
    reading.segments()
    reading.facts()
    if snapshot.is_cut:
        conversion.report.issue("cut", "the end", "the pickle has no end", 0)
    yield from reading.rows.rest()


class _Reading:
    """The rows of a snapshot."""

    def __init__(self, snapshot: Snapshot, conversion: Conversion) -> None:
        self.rows = RowBuilder(conversion)
        self._snapshot = snapshot
        self._report: Report = conversion.report
        self._stacks = Stacks(self.rows)
        self._devices: set[int] = set()

    def traces(self) -> Iterator[Batch]:
        """Adds the actions of all devices."""
        for device, trace in enumerate(self._snapshot.traces):
            if not trace:
                continue
            self._devices.add(device)
            values = self._first_values(device, trace)
            untimed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for number, entry in enumerate(trace):
                self._report.record()
                if entry is None:
                    self._report.issue("bad-record", f"device {device}, entry {number}", "it has no action")
                elif entry.time_us is None or abs(entry.time_us) >= 1 << 52:
                    untimed[entry.action][0] += 1
                    untimed[entry.action][1] += entry.size or 0
                    self._report.used()
                else:
                    self._add(device, entry, entry.time_us * 1000, values)
                    self._report.used()
                yield from self.rows.ready()
            for action, (count, size) in untimed.items():
                figures: dict[str, Any] = {"count": count, "total": float(size), "unit": "B"}
                self.rows.summary("alloc", action, metric="bytes", device=device, **figures)

    def _first_values(self, device: int, trace: list[Entry | None]) -> dict[str, int]:
        """The counters before the first action, computed from the end: a snapshot has only the last actions."""
        values = dict.fromkeys(_AT_END, 0)
        for segment in self._snapshot.segments:
            if isinstance(segment, dict) and segment.get("device", 0) == device:
                for counter, field in _AT_END.items():
                    values[counter] += whole(segment.get(field)) or 0
        for entry in trace:
            if entry is not None and entry.size is not None:
                for counter, sign in _COUNTERS.get(entry.action, {}).items():
                    values[counter] -= sign * entry.size
        return {counter: max(value, 0) for counter, value in values.items()}

    def _add(self, device: int, entry: Entry, ts: int, values: dict[str, int]) -> None:
        """Adds an action and the counters that it changes."""
        sign = _BYTES.get(entry.action)
        args: dict[str, Any] = {} if entry.addr is None else {"addr": f"{entry.addr:#x}"}
        if entry.size is not None and sign is None:
            args["size"] = entry.size
        if entry.rest:
            args |= {key: value for key, value in entry.rest.items() if is_small(value)}
        if stack := self._stacks.key(entry.frames):
            args["stack"] = stack
        known = entry.action in _COUNTERS
        event = self.rows.event(
            "alloc" if known else "instant",
            entry.action,
            ts=ts,
            device=device,
            stream=entry.stream,
            cat="segment" if entry.action.startswith("segment") else "block" if known else None,
            bytes=sign * entry.size if sign and entry.size is not None else None,
            args=args,
        )
        if entry.size is None:
            return
        for counter, change in _COUNTERS.get(entry.action, {}).items():
            values[counter] += change * entry.size
            place: dict[str, Any] = {"device": device, "track": counter, "parent": event}
            self.rows.event("counter", counter, ts=ts, value=float(values[counter]), unit="B", **place)

    def annotations(self) -> None:
        """Adds the begins and ends of ranges that a program marked."""
        for number, found in enumerate(self._snapshot.annotations):
            self._report.record()
            time = whole(found.get("time_us")) if isinstance(found, dict) else None
            if time is None or abs(time) >= 1 << 52:
                self._report.issue("bad-record", f"annotation {number}", "it has no time")
                continue
            name = found.get("name")
            args = {key: value for key, value in found.items() if key not in ("name", "time_us", "device")}
            args = {str(key): value for key, value in args.items() if is_small(value)}
            name = name if isinstance(name, str) and name else "annotation"
            self.rows.event("instant", name, ts=time * 1000, device=_device(found), args=args)
            self._report.used()

    def segments(self) -> None:
        """Adds a summary for each segment, and one for the blocks of each device, state and stack."""
        groups: dict[tuple[int | None, str, str | None], list[int]] = {}
        names: dict[str | None, str] = {}
        for number, segment in enumerate(self._snapshot.segments):
            self._report.record()
            size = whole(segment.get("total_size")) if isinstance(segment, dict) else None
            if size is None:
                self._report.issue("bad-record", f"segment {number}", "it has no size")
                continue
            self._report.used()
            device = _device(segment)
            args = {key: segment[key] for key in _SEGMENT if is_small(segment.get(key))}
            address = segment.get("address")
            args |= {"address": f"{address:#x}"} if type(address) is int else {}
            if stack := self._stacks.key(segment.get("frames")):
                args["stack"] = stack
            place = {"device": device, "stream": whole(segment.get("stream")), "scope": ["segments"], "table": 0}
            self.rows.summary("alloc", "segment", metric="bytes", unit="B", value=float(size), args=args, **place)
            blocks = segment.get("blocks")
            for block in blocks if isinstance(blocks, list) else ():
                self._block(block, number, device, groups, names)
        for (device, state, stack), (count, total, requested) in groups.items():
            args = {"state": state, "requested_size": requested} | ({"stack": stack} if stack else {})
            figures: dict[str, Any] = {"count": count, "total": float(total), "unit": "B"}
            place = {"device": device, "scope": ["blocks", state], "table": 1}
            self.rows.summary("alloc", names.get(stack) or state, metric="bytes", args=args, **figures, **place)

    def _block(
        self,
        block: Any,
        segment: int,
        device: int | None,
        groups: dict[tuple[int | None, str, str | None], list[int]],
        names: dict[str | None, str],
    ) -> None:
        """Adds a block to the group of its state and stack."""
        self._report.record()
        size = whole(block.get("size")) if isinstance(block, dict) else None
        if size is None:
            self._report.issue("bad-record", f"segment {segment}", "a block has no size")
            return
        state = block.get("state")
        stack = self._stacks.key(block.get("frames"))
        if stack is not None and stack not in names:
            names[stack] = self._stacks.name(block["frames"])
        key = device, state if isinstance(state, str) and state else "block", stack
        group = groups.setdefault(key, [0, 0, 0])
        for place, number in enumerate((1, size, whole(block.get("requested_size")) or 0)):
            group[place] += number
        self._report.used()

    def facts(self) -> None:
        """Adds facts about the clock, the allocator and the devices."""
        settings = {str(key): value for key, value in self._snapshot.settings.items() if is_small(value)}
        facts: dict[str, Any] = {"tool": "PyTorch memory snapshot"}
        self.rows.fact("source", facts=facts | ({"allocator_settings": settings} if settings else {}))
        self.rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        for device in sorted(self._devices):
            self.rows.fact("device", device=device)


def _device(found: dict[str, Any]) -> int | None:
    device = found.get("device")
    return device if type(device) is int and 0 <= device < 1 << 31 else None
