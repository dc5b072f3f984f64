"""Turns collectives into slices from their call to the notice of their end, and measured durations into summaries.

A collective of a dump, with its fields checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
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

#: Bytes of an element, by the names of c10::ScalarType.
_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "Bits8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16", "Bits16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}

#: Greatest time, size or number that is used.
_LIMIT = 1 << 62

_COLUMNS = frozenset(
    {"profiling_name", "time_created_ns", "process_group", "frames", "time_discovered_completed_ns"}
)  # fmt: skip


class Collective(NamedTuple):
    """A collective: `end` is when its completion was noticed, `duration` its time on the device in ns if measured."""

    name: str
    start: int
    end: int | None
    duration: int | None
    is_retired: bool
    group: str | None
    description: str
    number: int | None
    bytes: int | None
    frames: Any
    args: dict[str, Any]


def collective(entry: dict[str, Any]) -> Collective | None:
    """The collective of an entry, None without a name or a time."""
    name, start = entry.get("profiling_name"), as_int64(entry.get("time_created_ns"))
    if type(name) is not str or not name or start is None or start <= 0:
        return None
    end = as_int64(entry.get("time_discovered_completed_ns"))
    group, description = _group(entry)
    number = as_int64(entry.get("collective_seq_id", entry.get("seq_id")))
    return Collective(
        name,
        start,
        end or None,  # JSON has 0 for a time that isn't known
        _nanoseconds(entry.get("duration_ms")),
        entry.get("retired") is True,
        group,
        description,
        None if entry.get("is_p2p") is True else number,
        _bytes(entry.get("input_sizes"), entry.get("input_dtypes")),
        entry.get("frames"),
        {key: value for key, value in entry.items() if _is_argument(key, value)},
    )


def _is_argument(key: Any, value: Any) -> bool:
    is_unknown = value is None or (key == "time_discovered_started_ns" and value == 0)
    return type(key) is str and key not in _COLUMNS and not is_unknown


def as_int64(value: Any) -> int | None:
    """A whole number that can be used, None for another value."""
    return value if type(value) is int and -_LIMIT < value < _LIMIT else None


def _group(entry: dict[str, Any]) -> tuple[str | None, str]:
    """The name and the description of the process group; of version 1 the number as name."""
    group: Any = entry.get("process_group")
    if type(group) in (tuple, list) and len(group) == 2 and all(type(one) is str for one in group):
        return group[0], "" if group[1] == "undefined" else group[1]
    number = as_int64(entry.get("pg_id"))
    return (None if number is None else str(number)), ""


def _nanoseconds(value: Any) -> int | None:
    if type(value) not in (int, float) or not 0 <= value < 1e12:
        return None
    return int((Decimal(value) * 1_000_000).quantize(Decimal(1), ROUND_HALF_EVEN))


def _bytes(sizes: Any, types: Any) -> int | None:
    """The bytes of the input tensors, None if a size or a type isn't known."""
    if type(sizes) not in (list, tuple) or type(types) not in (list, tuple) or len(sizes) != len(types) or not sizes:
        return None
    total = 0
    for size, kind in zip(sizes, types, strict=True):
        width = _BYTES.get(kind) if type(kind) is str else None
        if width is None or type(size) not in (list, tuple) or len(size) > 64:
            return None
        for extent in size:
            if as_int64(extent) is None or extent < 0:
                return None
            width *= extent
            if width >= _LIMIT:
                return None
        total += width
    return total if total < _LIMIT else None


#: Members of a dump.
_MEMBERS = frozenset({"entries", "pg_config", "pg_status", "version", "comm_lib_version", "nccl_version"})

_RANK = re.compile(r"rank[_-]?([0-9]{1,9})(?:\.\w{1,8})?", re.IGNORECASE)
_RANKS = re.compile(r"\[[0-9, ]*\]")
_EXPECTED = 'a dict with "entries", "pg_config" and "version"'
_REMEDY = "take what PyTorch writes to TORCH_FR_DUMP_TEMP_FILE, or torch._C._distributed_c10d._dump_fr_trace()"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a row for each collective, then summaries of durations and groups. Raises DamagedInput for other files."""
    rows, report = RowBuilder(conversion), conversion.report
    dump, is_cut = _dump(source, report)
    note_unknown_members(dump, _MEMBERS, report)
    stacks = Stacks(rows)
    durations: dict[tuple[str, str | None], list[int]] = {}
    entries: Any = dump.get("entries")
    entries = entries if isinstance(entries, list) else []
    for number, entry in enumerate(entries):
        if is_cut and number == len(entries) - 1 and not (isinstance(entry, dict) and "is_p2p" in entry):
            break  # the entry that was cut
        report.record()
        entry_read = collective(entry) if isinstance(entry, dict) else None
        if entry_read is None:
            report.issue("bad-record", f"entry {number}", "it has no name or no time")
        elif entry_read.end is not None and entry_read.end < entry_read.start:
            report.issue("negative-duration", f"entry {number}", entry_read.name)
        else:
            _add(entry_read, rows, stacks)
            if entry_read.duration is not None:
                durations.setdefault((entry_read.name, entry_read.group), []).append(entry_read.duration)
            report.used()
        yield from rows.ready()
    _add_durations(durations, rows)
    _add_status(dump.get("pg_status"), rows)
    _add_facts(dump, source, rows)
    if is_cut:
        report.issue("cut", "the end", "the pickle has no end", 0)
    yield from rows.rest()


def _dump(source: Source, report: Report) -> tuple[dict[str, Any], bool]:
    """The dump, and whether it is cut."""
    with source.open() as stream:
        head = stream.peek(2) if hasattr(stream, "peek") else b""
        if head[:2] in BEGIN:
            value, is_cut = read_pickle(stream, source.path, _REMEDY)
        else:
            text = current().whole(stream, source.path)
            report.bytes.take_whole(len(text))
            value, is_cut = _json(text, source.path, report), False
    if not isinstance(value, dict) or not value.keys() & {"entries", "pg_config", "pg_status"}:
        what = "it ends before its first value" if is_cut else "it has neither entries nor process groups"
        raise DamagedInput(what, path=source.path, expected=_EXPECTED, remedy=_REMEDY)
    return value, is_cut


def _json(text: bytes, path: str, report: Report) -> Any:
    try:
        return decode_mended(text, report)
    except NOT_JSON as error:
        raise DamagedInput(f"isn't JSON: {error}", path=path, expected=_EXPECTED, remedy=_REMEDY) from None


def _add(collective: Collective, rows: RowBuilder, stacks: Stacks) -> None:
    """Adds a collective: a slice, which has no end if it hasn't ended; a point if nobody knows when it ended.

    A retired collective without an end has timed out, or is one of a backend that doesn't observe them (gloo).
    """
    args = {key: value for key, value in collective.args.items() if is_small(value)}
    if stack := stacks.key(collective.frames):
        args["stack"] = stack
    words = ("process group", collective.group or "", collective.description)
    rows.event(
        "instant" if collective.end is None and collective.is_retired else "op",
        collective.name,
        ts=collective.start,
        dur=None if collective.end is None else collective.end - collective.start,
        track=" ".join(filter(None, words)),
        comm=collective.group,
        comm_seq=collective.number,
        bytes=collective.bytes,
        operation="collective",
        args=args,
    )


def _add_durations(durations: dict[tuple[str, str | None], list[int]], rows: RowBuilder) -> None:
    """Adds the times on the device, which have no begin, as statistics of each collective and group."""
    for (name, group), times in durations.items():
        rows.summary(
            "kernel",
            name,
            unit="ns",
            count=len(times),
            total=float(sum(times)),
            avg=sum(times) / len(times),
            min=float(min(times)),
            max=float(max(times)),
            comm=group,
            operation="collective",
            scope=["duration_ms"],
            table=0,
        )


def _add_status(status: Any, rows: RowBuilder) -> None:
    """Adds the numbers of the last collectives of each process group. JSON has them as texts."""
    for group, numbers in status.items() if isinstance(status, dict) else ():
        for key, value in numbers.items() if isinstance(numbers, dict) and type(group) in (str, int) else ():
            text = str(value) if is_small(value) else ""
            if type(key) is str and re.fullmatch(r"-?[0-9]{1,15}", text):
                place: dict[str, Any] = {"scope": ["pg_status"], "table": 1}
                rows.summary("metric", f"process group {group}", metric=key, value=float(text), **place)


def _add_facts(dump: dict[str, Any], source: Source, rows: RowBuilder) -> None:
    facts: dict[str, Any] = {"tool": "PyTorch flight recorder"}
    if isinstance(dump.get("version"), str):
        facts["dump_version"] = dump["version"][:40]
    library = dump.get("comm_lib_version", dump.get("nccl_version"))
    if isinstance(library, str) and library:
        facts["comm_lib_version"] = library[:100]
    if match := _RANK.search(source.name):
        facts["rank"] = int(match[1])
    groups, members = dump.get("pg_config"), {}
    for key, group in groups.items() if isinstance(groups, dict) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, str) and _RANKS.fullmatch(ranks) and ranks != "[]":
            members[str(group.get("name", key))] = ranks
            if group.get("desc") == "default_pg":
                facts["world_size"] = ranks.count(",") + 1
    if members:
        facts["process_groups"] = members
    rows.fact("source", facts=facts)
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
