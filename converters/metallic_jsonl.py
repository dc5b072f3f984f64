"""Raw metrics of Metallic (github cchance27/test-burn, crates/metallic_instrumentation), one record per line.

    {"timestamp":"2025-10-21T17:03:11.123456789Z","span_id":7,"parent_span_id":null,"span_name":"decode",
     "event":{"type":"GpuOpCompleted","data":{"op_name":"block_3/sdpa#12","backend":"Metal","duration_us":142}}}
    METRIC: {"timestamp":…}

The first form is the file of METALLIC_METRICS_JSONL_PATH (each record on one line), the second the console's.
The timestamp of a record is the time of its emission, which is the end of the work.

Reads each line's record as an event; times are ns since 1970, and starts are derived from ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Line, Lines
from ktrace.kit.text.numbers import unix_seconds
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: The number of lines that are examined.
_MOST_LINES = 2_000
_RECORD = re.compile(r'(?:^|\bMETRIC: )\s*(\{.*"event"\s*:.*)')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line that is a record with `timestamp`, `span_id` and a typed `event`."""
    text = sample.text
    if not text:
        return None
    near = None
    lines = text.splitlines() if sample.whole else sample.lines
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        match = _RECORD.search(line)
        if not match:
            continue
        record = _object(match.group(1))
        event = record.get("event")
        if isinstance(event, dict) and isinstance(event.get("type"), str) and "data" in event:
            if "timestamp" in record and "span_id" in record:
                return Match(Score.DIALECT, f"line {number} is a record of Metallic of type {event['type']}")
            near = Match(Score.NEAR, f"line {number} has a typed event, but no timestamp or no span_id")
    return near


def _object(text: str) -> dict[str, object]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


#: Figures of a memory record other than `…_bytes` -> unit of their counter.
_COUNTER_UNITS = {"tensor_count": "count"}

#: Records of the state of the memory.
MEMORY = frozenset({"HostMemory", "ForwardStep", "ModelWeights", "GgufFileMmap", "TensorMemory"})

#: Known records without a duration, which become instants with all their data.
POINTS = frozenset(
    {"KernelBackendSelected", "ResourceCacheAccess", "ResourceCacheSummary", "CacheEviction", "TensorPreparationStats"}
)

#: Fields of a record that go to columns; others go to args.
KNOWN = frozenset({"timestamp", "event"})

_PREFIX = "METRIC: "
_TIME = re.compile(
    r"(?P<minute>\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):(?P<second>\d\d)(?:\.(?P<part>\d+))?(?P<zone>[Zz]|[+-]\d\d:?\d\d)"
)
_BLOCK = re.compile(r"block_\d+")
_LIMIT = 1 << 62


class _Bad(Exception):
    """Raised for a record that can't be used; contains the kind of issue and its detail."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class _Record(NamedTuple):
    """A record: its type, its data, the time of its emission, and the fields that go to args."""

    type: str
    data: dict[str, Any]
    end: int
    args: dict[str, Any]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each record, and a counter for each figure of a memory record."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.tool_and_clock("Metallic", "unix")
    rows.fact("process", name="Metallic")
    rows.fact("device", device=0, facts={"api": "metal"})
    for line in lines:
        text = _record_text(line.text)
        if text is None:
            if not line.text.strip():
                lines.structure()
            continue
        try:
            _add(_parse(text, line, conversion.report), rows, line, conversion.report)
        except _Bad as bad:
            cut = bad.kind == "bad-json" and lines.peek() is None
            lines.skip("cut" if cut else "bad-record" if bad.kind == "bad-json" else bad.kind, bad.detail)
        else:
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _record_text(line: str) -> str | None:
    """Returns the JSON of a line: the whole line, or the text after `METRIC: `; None if there is none."""
    if line.startswith("{"):
        return line
    _, prefix, rest = line.partition(_PREFIX)
    text = rest.lstrip() if prefix else line.lstrip()
    return text if text.startswith("{") else None


def _parse(text: str, line: Line, report: Report) -> _Record:
    """Parses the record of a line. Raises _Bad."""
    try:
        record = decode_document(text.rstrip().rstrip(",").encode())
    except NOT_JSON as error:
        raise _Bad("bad-json", str(error)) from None
    event = record.get("event")
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise _Bad("bad-record", "no event with a type")
    stamp = record.get("timestamp")
    end, exact = _unix_ns(stamp) if isinstance(stamp, str) else (None, True)
    if end is None:
        raise _Bad("bad-record", "no readable timestamp")
    if abs(end) >= _LIMIT:
        raise _Bad("time-range", str(stamp))
    args: dict[str, Any] = {key: value for key, value in record.items() if key not in KNOWN and value is not None}
    args |= {f"$event.{key}": value for key, value in event.items() if key not in ("type", "data")}
    if not exact:
        report.issue("rounded", f"line {line.number}")
        args["$ts"] = stamp
    data = event.get("data")
    if data is not None and not isinstance(data, dict):
        args["data"] = data
    return _Record(event["type"], dict(data) if isinstance(data, dict) else {}, end, args)


def _unix_ns(text: str) -> tuple[int | None, bool]:
    """Returns the ns since 1970 of an RFC 3339 time, and whether they are exact. A leap second is read as second 59."""
    match = _TIME.fullmatch(text.strip())
    second = unix_seconds(f"{match['minute']}:{min(int(match['second']), 59):02}", match["zone"]) if match else None
    if not match or second is None:
        return None, True
    part = Decimal("0." + (match["part"] or "0")) * 10**9
    whole = part.quantize(Decimal(1), ROUND_HALF_EVEN)
    return second * 10**9 + int(whole), whole == part


def _add(record: _Record, rows: RowBuilder, line: Line, report: Report) -> None:
    """Adds the rows of a record. Raises _Bad before it adds any."""
    add = _HANDLERS.get(record.type)
    if add:
        add(record, rows)
        return
    if record.type not in POINTS:
        report.issue("unknown-kind", f"line {line.number}", record.type)
    _point(record, rows)


def _gpu_op(record: _Record, rows: RowBuilder) -> None:
    """Adds work of the GPU; below /cb_gpu it is a whole command buffer, below /cb_wait the wait for one."""
    name = _text(record.data, "op_name")
    duration = _duration(record.data)
    if "/cb_gpu" in name:
        kind, track = "range", "command buffers"
    elif "cb_wait" in name or name.endswith("wait"):
        kind, track = "sync", "waits"
    else:
        kind, track = "kernel", "GPU"
    _slice(record, rows, kind, name, duration, device=0, track=track)


def _internal_kernel(record: _Record, rows: RowBuilder) -> None:
    """Adds work of the host. A total encloses other work."""
    name = _text(record.data, "internal_kernel_name")
    duration = _duration(record.data)
    parent = record.data.pop("parent_op_name", None)
    kind = "range" if name.endswith("_total") else "sync" if name.endswith("cb_wait") else "op"
    _slice(record, rows, kind, name, duration, track=None if parent is None else str(parent))


def _slice(record: _Record, rows: RowBuilder, kind: str, name: str, duration: int, **place: Any) -> None:
    if abs(record.end - duration) >= _LIMIT:
        raise _Bad("time-range", f"{duration} ns before the year 1970")
    args = _args(record)
    block = _BLOCK.search(name)
    times: dict[str, Any] = {"ts": record.end - duration, "dur": duration, "timing": "derived"}
    layer = block.group() if block else None
    rows.event(kind, name, cat=record.type, layer=layer, args=args, **times, **place)


def _dispatch(record: _Record, rows: RowBuilder) -> None:
    """Adds the dispatch of a kernel to the GPU. Metal's thread groups are blocks."""
    name = _text(record.data, "kernel_name")
    grid: dict[str, Any] = {}
    groups = record.data.get("thread_groups")
    if (
        isinstance(groups, list)
        and len(groups) == 3
        and all(type(group) is int and abs(group) < _LIMIT for group in groups)
    ):
        grid = dict(zip(("grid_x", "grid_y", "grid_z"), record.data.pop("thread_groups"), strict=True))
    rows.event("instant", name, ts=record.end, cat=record.type, track="dispatches", args=_args(record), **grid)


def _memory(record: _Record, rows: RowBuilder) -> None:
    """Adds an instant with the data that aren't figures, and a child counter for each figure."""
    figures = {
        key: value for key, value in record.data.items() if type(value) is int and abs(value) < _LIMIT and _unit(key)
    }
    for key in figures:
        del record.data[key]
    head = _point(record, rows)
    for key, value in figures.items():
        series = f"{record.type} {key}"
        place: dict[str, Any] = {"ts": record.end, "cat": record.type, "track": series, "parent": head}
        rows.event("counter", series, value=float(value), unit=_unit(key), **place)


def _unit(key: str) -> str | None:
    return "B" if key.endswith("_bytes") else _COUNTER_UNITS.get(key)


def _point(record: _Record, rows: RowBuilder) -> int:
    """Adds the whole record as an instant; returns the id of its event."""
    args = _args(record)
    return rows.event("instant", record.type, ts=record.end, cat=record.type, track=record.type, args=args)


def _args(record: _Record) -> dict[str, Any]:
    """Returns everything without a column: the rest of the data, and the span (with `$` if the data have that key)."""
    return record.data | {f"${key}" if key in record.data else key: value for key, value in record.args.items()}


def _text(data: dict[str, Any], key: str) -> str:
    value = data.pop(key, None)
    if not isinstance(value, str):
        raise _Bad("bad-record", f"no {key}")
    return value


def _duration(data: dict[str, Any]) -> int:
    """Returns `duration_us` in ns. Raises _Bad."""
    value = data.pop("duration_us", None)
    try:
        if isinstance(value, bool):
            raise _Bad("bad-record", "no duration_us")
        duration = int((Decimal(str(value)) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError):
        raise _Bad("bad-record", "no duration_us") from None
    if duration < 0:
        raise _Bad("negative-duration", f"{value} us")
    if duration >= _LIMIT:
        raise _Bad("time-range", f"{value} us")
    return duration


_HANDLERS: dict[str, Callable[[_Record, RowBuilder], None]] = {
    "GpuOpCompleted": _gpu_op,
    "InternalKernelCompleted": _internal_kernel,
    "GpuKernelDispatched": _dispatch,
    **dict.fromkeys(MEMORY, _memory),
}


FORMAT = Format(
    "metallic-jsonl",
    "Metallic raw JSON Lines",
    patterns=("*.jsonl",),
    probe=probe,
    read=read,
    words=('"event"',),
)
