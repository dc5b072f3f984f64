"""Reads a snapshot, from a pickle or from JSON, into entries, segments and blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.torch.members import note_unknown_members
from ktrace.kit.torch.pickles import BEGIN, read_pickle
from ktrace.kit.trace_json.repair import decode_mended
from ktrace.model.json_text import NOT_JSON
from ktrace.report import Report

#: Greatest number of bytes of a snapshot as JSON, which is decoded whole.
LARGEST_JSON = 256 << 20

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

    traces: list[list[Entry | None]]
    segments: list[Any]
    annotations: list[Any]
    settings: dict[str, Any]
    is_cut: bool


def read_snapshot(source: Source, report: Report) -> Snapshot:
    """Reads a snapshot. Raises DamagedInput for anything else."""
    with source.open() as stream:
        head = stream.peek(2) if hasattr(stream, "peek") else b""
        if head[:2] in BEGIN:
            value, is_cut = read_pickle(stream, source.path, _REMEDY, _compact)
        else:
            text = stream.read(LARGEST_JSON + 1)
            report.bytes.take_whole(len(text))
            value, is_cut = _json(text, source.path, report), False
    if isinstance(value, list) and value:  # memory_snapshot() of early versions: only segments
        value = {"segments": value}
    if not isinstance(value, dict) or not value.keys() & {"segments", "device_traces"}:
        what = "it ends before its first value" if is_cut else "it has neither segments nor traces"
        raise DamagedInput(what, path=source.path, expected=_EXPECTED, remedy=_REMEDY)
    note_unknown_members(value, _MEMBERS, report)
    traces = [_entries(trace) for trace in _list(value, "device_traces")]
    if is_cut and traces and traces[-1] and traces[-1][-1] is None:
        traces[-1].pop()  # the entry that was cut
    settings = value.get("allocator_settings")
    return Snapshot(
        traces,
        _list(value, "segments"),
        _list(value, "external_annotations"),
        settings if isinstance(settings, dict) else {},
        is_cut,
    )


def whole(value: Any) -> int | None:
    """A whole number that can be used, None for another value."""
    return value if type(value) is int and -_LIMIT < value < _LIMIT else None


def _json(text: bytes, path: str, report: Report) -> Any:
    if len(text) > LARGEST_JSON:
        size = f"has more than {LARGEST_JSON >> 20:,} MiB"
        raise DamagedInput(size, path=path, expected="a pickle, or smaller JSON", remedy=_REMEDY)
    try:
        return decode_mended(text, report)
    except NOT_JSON as error:
        raise DamagedInput(f"isn't JSON: {error}", path=path, expected=_EXPECTED, remedy=_REMEDY) from None


def _list(value: dict[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _entries(trace: Any) -> list[Entry | None]:
    return [one if isinstance(one, Entry) else _entry(one) for one in trace] if isinstance(trace, list) else []


def _compact(items: list[Any]) -> list[Any]:
    """Entries in place of their dicts, which take four times the memory. The memo keeps the dicts, emptied."""
    if not items or type(items[0]) is not dict or "action" not in items[0]:
        return items
    found: list[Any] = []
    for item in items:
        entry = _entry(item)
        found.append(entry)
        if entry is not None:
            item.clear()
    return found


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
        whole(get("size")),
        whole(get("stream")),
        whole(get("time_us")),
        frames if type(frames) in (list, tuple) and frames else None,
        rest or None,
    )
