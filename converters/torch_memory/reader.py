"""Turns a snapshot into allocations with counters, and summaries of its segments and blocks.

Reads a snapshot, from a pickle, JSON, a database or a page, into entries, segments and blocks.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.torch import BEGIN, Stacks, is_small, note_unknown_members, read_pickle
from ktrace.kit.trace_json.salvage import decode_mended
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .database import read_database

#: Greatest number of a time, an address or a size that is used.
_LIMIT = 1 << 62

_EXPECTED = 'a dict with "segments" and "device_traces"'
_REMEDY = "write it with torch.cuda.memory._dump_snapshot(), with a smaller max_entries if it is too big"

#: Members of a snapshot.
_MEMBERS = frozenset({"segments", "device_traces", "external_annotations", "allocator_settings"})

#: Fields of an entry that have a place of their own; the others are arguments.
_OWN = frozenset({"action", "addr", "size", "stream", "time_us", "frames"})


class Entry(NamedTuple):
    """An action of the allocator. `rest` has the other fields."""

    action: str
    addr: int | None
    size: int | None
    stream: int | None
    time_us: int | None
    frames: Any
    rest: dict[str, Any] | None


class Snapshot(NamedTuple):
    """A snapshot: for each device its entries, where None isn't one; segments as they are; whether the file is cut."""

    traces: dict[int, list[Entry | None]]
    segments: list[Any]
    annotations: list[Any]
    settings: dict[str, Any]
    is_cut: bool


#: The pickle in a page.
_IN_PAGE = re.compile(rb'"base64"\s*:\s*"(?P<pickle>[A-Za-z0-9+/=]*)')


def read_snapshot(source: Source, conversion: Conversion) -> Snapshot:
    """Reads a snapshot. Raises DamagedInput for anything else."""
    report = conversion.report
    with source.open() as stream:
        head = stream.peek(16) if hasattr(stream, "peek") else b""
        if head[:2] in BEGIN:
            value, is_cut = read_pickle(stream, source.path, _REMEDY, _compact)
        elif head.startswith(b"SQLite format 3"):
            value, is_cut = read_database(source, conversion, _REMEDY), False
        else:
            text = current().whole(stream, source.path)
            report.bytes.take_whole(len(text))
            if text.lstrip()[:1] == b"<":
                value, is_cut = read_pickle(_of_page(text, source.path), source.path, _REMEDY, _compact)
            else:
                value, is_cut = _json(text, source.path, report), False
    if isinstance(value, list) and value:  # memory_snapshot() of early versions: only segments
        value = {"segments": value}
    if not isinstance(value, dict) or not value.keys() & {"segments", "device_traces"}:
        what = "it ends before its first value" if is_cut else "it has neither segments nor traces"
        raise DamagedInput(what, path=source.path, expected=_EXPECTED, remedy=_REMEDY)
    note_unknown_members(value, _MEMBERS, report)
    each = value.get("device_traces")
    devices = each.items() if isinstance(each, dict) else enumerate(_list(value, "device_traces"))
    traces = {device: _entries(trace) for device, trace in devices if type(device) is int}
    last = traces[max(traces)] if is_cut and traces else []
    if last and last[-1] is None:
        last.pop()  # the entry that was cut
    settings = value.get("allocator_settings")
    return Snapshot(
        traces,
        _list(value, "segments"),
        _list(value, "external_annotations"),
        settings if isinstance(settings, dict) else {},
        is_cut,
    )


def _of_page(text: bytes, path: str) -> io.BytesIO:
    """The pickle in a page of torch.cuda._memory_viz, also of one that is cut."""
    match = _IN_PAGE.search(text)
    try:
        encoded = match["pickle"] if match else b""
        pickle = base64.b64decode(encoded[: len(encoded) // 4 * 4])
    except binascii.Error:
        pickle = b""
    if pickle[:2] not in BEGIN:
        raise DamagedInput("has no pickle in its base64", path=path, expected="a page of trace_plot", remedy=_REMEDY)
    return io.BytesIO(pickle)


def as_int64(value: Any) -> int | None:
    """A whole number that can be used, None for another value."""
    return value if type(value) is int and -_LIMIT < value < _LIMIT else None


def _json(text: bytes, path: str, report: Report) -> Any:
    try:
        return decode_mended(text, report)
    except NOT_JSON as error:
        raise DamagedInput(f"isn't JSON: {error}", path=path, expected=_EXPECTED, remedy=_REMEDY) from None


def _list(value: dict[str, Any], key: str) -> list[Any]:
    entries = value.get(key)
    return entries if isinstance(entries, list) else []


def _entries(trace: Any) -> list[Entry | None]:
    return [one if isinstance(one, Entry) else _entry(one) for one in trace] if isinstance(trace, list) else []


def _compact(items: list[Any]) -> list[Any]:
    """Entries in place of their dicts, which take four times the memory. The memo keeps the dicts, emptied."""
    if not items or type(items[0]) is not dict or "action" not in items[0]:
        return items
    entries: list[Any] = []
    for item in items:
        entry = _entry(item)
        entries.append(entry)
        if entry is not None:
            item.clear()
    return entries


def _entry(value: Any) -> Entry | None:
    """The entry of a dict, None if it has no action."""
    action = value.get("action") if type(value) is dict else None
    if type(action) is not str:
        return None
    rest = {key: one for key, one in value.items() if key not in _OWN and type(key) is str and one is not None}
    frames = value.get("frames")
    get = value.get
    return Entry(
        action,
        get("addr") if type(get("addr")) is int else None,
        as_int64(get("size")),
        as_int64(get("stream")),
        as_int64(get("time_us")),
        frames if type(frames) in (list, tuple) and frames else None,
        rest or None,
    )


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
    snapshot = read_snapshot(source, conversion)
    reading = _SnapshotReader(snapshot, conversion)
    yield from reading.traces()
    reading.annotations()
    reading.segments()
    reading.facts()
    if snapshot.is_cut:
        conversion.report.issue("cut", "the end", "the pickle has no end", 0)
    yield from reading.rows.rest()


def _has_time(entry: Entry) -> bool:
    return entry.time_us is not None and abs(entry.time_us) < 1 << 52


def _unchanged(trace: list[Entry | None], effects: dict[int, str], values: dict[str, int]) -> dict[str, int]:
    """The counters that no action of a device changes: a timeline has no place for what the snapshot states of them."""
    actions = {effects.get(number, entry.action) for number, entry in enumerate(trace) if entry is not None}
    changed = {counter for action in actions for counter in _COUNTERS.get(action, {})}
    return {counter: value for counter, value in values.items() if value and counter not in changed}


class _SnapshotReader:
    """The rows of a snapshot."""

    def __init__(self, snapshot: Snapshot, conversion: Conversion) -> None:
        self.rows = RowBuilder(conversion)
        self._snapshot = snapshot
        self._report: Report = conversion.report
        self._stacks = Stacks(self.rows)
        self._devices: set[int] = set()

    def traces(self) -> Iterator[Batch]:
        """Adds the actions of all devices."""
        for device, trace in self._snapshot.traces.items():
            if not trace:
                continue
            self._devices.add(device)
            effects = _effects(trace)
            values = self._first_values(device, trace, effects)
            constant = _unchanged(trace, effects, values)
            untimed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for number, entry in enumerate(trace):
                self._report.record()
                if entry is None:
                    self._report.issue("bad-record", f"device {device}, entry {number}", "it has no action")
                elif not _has_time(entry):
                    untimed[entry.action][0] += 1
                    untimed[entry.action][1] += entry.size or 0
                    self._report.used()
                else:
                    effect, ts = effects.get(number, entry.action), (entry.time_us or 0) * 1000
                    self._add(device, entry, effect, ts, values, constant)
                    constant = {}
                    self._report.used()
                yield from self.rows.ready()
            for action, (count, size) in untimed.items():
                figures: dict[str, Any] = {"count": count, "total": float(size), "unit": "B"}
                self.rows.summary("alloc", action, metric="bytes", device=device, **figures)

    def _first_values(self, device: int, trace: list[Entry | None], effects: dict[int, str]) -> dict[str, int]:
        """The counters before the first action, computed from the end: a snapshot has only the last actions."""
        values = dict.fromkeys(_AT_END, 0)
        for segment in self._snapshot.segments:
            if isinstance(segment, dict) and segment.get("device", 0) == device:
                for counter, field in _AT_END.items():
                    values[counter] += as_int64(segment.get(field)) or 0
        for number, entry in enumerate(trace):
            if entry is not None and entry.size is not None:
                for counter, sign in _COUNTERS.get(effects.get(number, entry.action), {}).items():
                    values[counter] -= sign * entry.size
        return {counter: max(value, 0) for counter, value in values.items()}

    def _add(
        self, device: int, entry: Entry, effect: str, ts: int, values: dict[str, int], constant: dict[str, int]
    ) -> None:
        """Adds an action, the counters that it changes as the action `effect` does, and `constant` ones."""
        sign = _BYTES.get(effect)
        args: dict[str, Any] = {} if entry.addr is None else {"addr": f"{entry.addr:#x}"}
        if entry.size is not None and sign is None:
            args["size"] = entry.size
        if entry.rest:
            args |= {key: value for key, value in entry.rest.items() if is_small(value)}
        if stack := self._stacks.key(entry.frames):
            args["stack"] = stack
        is_counted = entry.action in _COUNTERS
        event = self.rows.event(
            "alloc" if is_counted else "instant",
            entry.action,
            ts=ts,
            device=device,
            stream=entry.stream,
            cat="segment" if entry.action.startswith("segment") else "block" if is_counted else None,
            bytes=sign * entry.size if sign and entry.size is not None else None,
            args=args,
        )
        shown = dict(constant)
        for counter, change in _COUNTERS.get(effect, {}).items() if entry.size is not None else ():
            values[counter] += change * (entry.size or 0)
            shown[counter] = values[counter]
        for counter, value in shown.items():
            place: dict[str, Any] = {"device": device, "track": counter, "parent": event}
            self.rows.event("counter", counter, ts=ts, value=float(value), unit="B", **place)

    def annotations(self) -> None:
        """Adds the starts and ends of ranges that a program marked."""
        for number, annotation in enumerate(self._snapshot.annotations):
            self._report.record()
            time = as_int64(annotation.get("time_us")) if isinstance(annotation, dict) else None
            if time is None or abs(time) >= 1 << 52:
                self._report.issue("bad-record", f"annotation {number}", "it has no time")
                continue
            name = annotation.get("name")
            args = {key: value for key, value in annotation.items() if key not in ("name", "time_us", "device")}
            args = {str(key): value for key, value in args.items() if is_small(value)}
            name = name if isinstance(name, str) and name else "annotation"
            self.rows.event("instant", name, ts=time * 1000, device=_device(annotation), args=args)
            self._report.used()

    def segments(self) -> None:
        """Adds a summary for each segment, and one for the blocks of each device, state and stack."""
        groups: dict[tuple[int | None, str, str | None], list[int]] = {}
        names: dict[str | None, str] = {}
        for number, segment in enumerate(self._snapshot.segments):
            self._report.record()
            size = as_int64(segment.get("total_size")) if isinstance(segment, dict) else None
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
            place = {"device": device, "stream": as_int64(segment.get("stream")), "scope": ["segments"], "table": 0}
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
        size = as_int64(block.get("size")) if isinstance(block, dict) else None
        if size is None:
            self._report.issue("bad-record", f"segment {segment}", "a block has no size")
            return
        state = block.get("state")
        stack = self._stacks.key(block.get("frames"))
        if stack is not None and stack not in names:
            names[stack] = self._stacks.name(block["frames"])
        key = device, state if isinstance(state, str) and state else "block", stack
        group = groups.setdefault(key, [0, 0, 0])
        for place, number in enumerate((1, size, as_int64(block.get("requested_size")) or 0)):
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


def _effects(trace: list[Entry | None]) -> dict[int, str]:
    """Entries that do what another action does: a free_completed whose request is missing frees what is allocated."""
    allocated: set[int | None] = set()
    effects: dict[int, str] = {}
    for number, entry in enumerate(trace):
        if entry is None:
            continue
        if entry.action == "alloc":
            allocated.add(entry.addr)
        elif entry.action == "free_completed" and entry.addr in allocated:
            effects[number] = "free"
            allocated.discard(entry.addr)
        elif entry.action in ("free_requested", "free"):
            allocated.discard(entry.addr)
    return effects


def _device(entry: dict[str, Any]) -> int | None:
    device = entry.get("device")
    return device if type(device) is int and 0 <= device < 1 << 31 else None
