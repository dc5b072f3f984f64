"""rocpd, the SQLite database of rocprofiler-sdk (rocprofv3's default since ROCm 7, rocprof-sys), schema 3 and 4.

    rocpd_kernel_dispatch_0000ddb5_8903_...   nid, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, end, ...
    rocpd_region_0000ddb5_8903_...            nid, pid, tid, start, end, name_id, event_id  calls, roctx ranges
    rocpd_event_0000ddb5_8903_...             id, category_id, stack_id, correlation_id     what joins the two
    rocpd_info_process_0000ddb5_8903_...      id, nid, pid, command                         and thread, agent, stream
    rocpd_string_0000ddb5_8903_...            id, string

A set of tables is a process, with its uuid as their suffix; a database may contain several sets, each with its own ids.
The pid, tid, agent_id, queue_id and stream_id of a row, or in schema 4 those of its rocpd_track, are ids of the tables
rocpd_info_*. Names without a suffix are views on all sets, which ktrace doesn't read. Times are ns since boot
(CLOCK_BOOTTIME), grids are in work-items.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_WORK = re.compile(r"rocpd_(kernel_dispatch|region|memory_copy)(_[0-9a-f_]+)?", re.IGNORECASE)
_EVENT = re.compile(r"rocpd_event(_[0-9a-f_]+)?", re.IGNORECASE)


def probe(sample: Sample) -> Match | None:
    """MAGIC for tables of work and of events; RPD has neither."""
    if sample.tables is None:
        return None
    work = next((name for name in sample.tables if _WORK.fullmatch(name)), None)
    event = next((name for name in sample.tables if _EVENT.fullmatch(name)), None)
    if work and event:
        return Match(Score.MAGIC, f"is an SQLite database with {work} and {event}")
    if work or event:
        missing = "rocpd_event" if work else "rocpd_kernel_dispatch, rocpd_region or rocpd_memory_copy"
        return Match(Score.NEAR, f"is an SQLite database with {work or event}, but without {missing}")
    return None


FORMAT = Format(
    "rocpd",
    "ROCm rocprofiler-sdk database (rocprofv3, rocprof-sys)",
    patterns=("*_results.db",),
    probe=probe,
    read="ktrace.converters.rocpd.reader:read",
    database=True,
)
