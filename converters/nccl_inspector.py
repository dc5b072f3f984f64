"""Logs of NCCL's Inspector plug-in: each collective of a process with its size, time and bandwidth, one a line.

    {"header": {"id": "0x7f8c", "comm_name": "DP Group 0", "rank": 2, "n_ranks": 8, "nnodes": 1},
     "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node1", "pid": 77, ...},
     "coll_perf": {"coll": "AllReduce", "coll_sn": 1407, "coll_msg_size_bytes": 1048576, "coll_exec_time_us": 61,
                   "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 17.1, "coll_busbw_gbs": 30.0,
                   "event_trace_ts": {"coll_start_ts": 17.., "kernel_events": [{"kernel_start_ts": 17..}, ...]}}}

plugins/profiler/inspector/inspector_json.cc of NCCL writes it (in 2.28 and 2.29 ext-profiler/inspector/inspector.cc).
Sends and receives have `p2p_perf` with `p2p_sn`, `p2p_peer` and so on. `event_trace_sn` and `event_trace_ts` are there
if NCCL_INSPECTOR_DUMP_VERBOSE=1; times are those of gettimeofday() at NCCL's callbacks.

Turns each line into a kernel, or a call where only this was timed: an event if the log has times, else a summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.model.row_builder import RowBuilder

#: Bytes in which the first line is searched.
_FIRST = 1 << 14


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line with the version of the format."""
    if b'"inspector_output_format_version"' in sample.head[:_FIRST]:
        return Match(Score.DIALECT, "has collectives with 'inspector_output_format_version' of NCCL's Inspector")
    return None


#: Times are below this: 2^62 ns, here in us.
_LIMIT = (1 << 62) // 1000

#: Fields of header and metadata that become arguments.
_ABOUT = ("comm_name", "rank", "n_ranks", "nnodes")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each collective, send or receive. A line that can't be understood is skipped and reported."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    versions: dict[str, None] = {}
    for line in lines:
        if not line.text.strip():
            lines.structure()
            continue
        try:
            record = decode_document(line.text.encode())
        except NOT_JSON as error:
            is_cut = lines.peek() is None and line.text.lstrip().startswith("{")
            lines.skip("cut" if is_cut else "bad-record", str(error))
        else:
            if problem := _add(record, rows, versions):
                lines.skip("bad-record", problem)
            else:
                lines.used()
        yield from rows.ready()
    facts: dict[str, Any] = {"tool": "NCCL Inspector"}
    rows.fact("source", facts=facts | ({"format_version": ", ".join(versions)} if versions else {}))
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    yield from rows.rest()


def _add(record: Any, rows: RowBuilder, versions: dict[str, None]) -> str | None:
    """Adds the kernel of a record; returns what is wrong with another record."""
    prefix, figures = _figures(record)
    name = figures.get(prefix)
    if type(name) is not str or not name:
        return "no coll_perf or p2p_perf with a name"
    took = figures.get(f"{prefix}_exec_time_us")
    if not isinstance(took, (int, float)) or isinstance(took, bool) or not 0 <= took < _LIMIT:
        return "no execution time"
    header, metadata = _member(record, "header"), _member(record, "metadata")
    version = metadata.get("inspector_output_format_version")
    if type(version) is str and len(versions) < 8:
        versions[version[:40]] = None
    args = {key: header[key] for key in _ABOUT if type(header.get(key)) in (int, str)}
    used = {prefix, f"{prefix}_sn", f"{prefix}_msg_size_bytes", f"{prefix}_exec_time_us", "event_trace_sn"}
    args |= {key: value for key, value in figures.items() if key not in used and value is not None}
    group, host = header.get("id"), metadata.get("hostname")
    columns: dict[str, Any] = {
        "host": host if type(host) is str and host else None,
        "pid": _to_int_or_none(metadata.get("pid")),
        "comm": group if type(group) is str else None,
        "comm_seq": _to_int_or_none(figures.get("coll_sn")),
        "bytes": _to_int_or_none(figures.get(f"{prefix}_msg_size_bytes")),
        "operation": "collective",
        "args": args,
    }
    is_call = figures.get(f"{prefix}_timing_source") == "collective_cpu"
    kind = "op" if is_call else "kernel"
    start = _start(figures, prefix, is_call=is_call)
    if start is None:
        place: dict[str, Any] = {"table": 0, "scope": ["execution times"]}
        rows.summary(kind, name, unit="ns", count=1, total=1000.0 * took, **place, **columns)
    else:
        words = ("communicator", str(args.get("comm_name", "")), columns["comm"] or "")
        rows.event(kind, name, ts=1000 * start, dur=round(1000 * took), track=" ".join(filter(None, words)), **columns)
    return None


def _figures(record: Any) -> tuple[str, dict[str, Any]]:
    """The figures of a collective, or of a send or receive, and the prefix of their keys."""
    for prefix in ("coll", "p2p"):
        if members := _member(record, f"{prefix}_perf"):
            return prefix, members
    return "", {}


def _start(figures: dict[str, Any], prefix: str, *, is_call: bool) -> int | None:
    """When the first channel of the kernel began, or for a call when this began, in us; None without times.

    v4.0 has the channels' times in `event_trace_ts.kernel_events`, v4.1 in the `event_trace_ts` of each of `events`.
    """
    times = _member(figures, "event_trace_ts")
    channels = [*_list(times, "kernel_events"), *(_member(one, "event_trace_ts") for one in _list(figures, "events"))]
    begins = [_to_int_or_none(one.get("kernel_start_ts")) for one in channels if isinstance(one, dict) and not is_call]
    begins_set = [begin for begin in begins if begin]
    return min(begins_set) if begins_set else _to_int_or_none(times.get(f"{prefix}_start_ts")) or None


def _list(holder: dict[str, Any], key: str) -> list[Any]:
    value = holder.get(key)
    return value if isinstance(value, list) else []


def _member(record: Any, key: str) -> dict[str, Any]:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


def _to_int_or_none(value: Any) -> int | None:
    """A whole number that can be used, also one written as 17.0; None for another value."""
    return as_int64(int(value) if isinstance(value, float) and value.is_integer() else value, 0, _LIMIT - 1)


FORMAT = Format(
    "nccl-inspector",
    "NCCL Inspector log",
    patterns=("*-pid*.log",),
    probe=probe,
    read=read,
    words=('"inspector_output_format_version"',),
)
