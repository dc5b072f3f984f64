"""Nsight Systems: the SQLite export of a report (`nsys export --type sqlite`) by every release since 2021.

    StringIds                      671 | saxpy                        every name once; other tables have its id
    CUPTI_ACTIVITY_KIND_KERNEL     924922186 | 942626994 | 0 | 1 | 7 | 140 | 302119223558144 | 670 | 671 | ...
    CUPTI_ACTIVITY_KIND_RUNTIME    924890173 | 924923126 | 0 | 302119224788637 | 140 | 672 | 0 | ...
    NVTX_EVENTS                    924881857 | 924940911 | 59 | ... | saxpy | 302119224788637 | ...

There is a table for each kind of event, with times in ns since the start of the session, and process and thread packed
into one number. A table exists only if it has rows, and each release adds columns: everything is found by name.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_EXPORT = {"meta_data_export", "export_meta_data"}
_EVENTS = re.compile(
    r"cupti_activity_kind_\w+|nvtx_events|osrt_api|composite_events|sched_events|(gpu|soc)_metrics|net_\w+_metric|cuda_\w+|"
    r"cudnn_events|cublas_events|(mpi|ucp)_\w*events|(vulkan|opengl|dx1[12]|openmp)_\w+|target_info_\w+|diagnostic_event"
)

#: Columns that only Nsight Systems has in a table of CUPTI's activities.
_OWN = {"globalpid", "globaltid", "demangledname"}


def probe(sample: Sample) -> Match | None:
    """MAGIC for the table about the export, DIALECT for the strings with a table of events, or nsys' own columns."""
    if sample.tables is None:
        return None
    tables = {table.casefold(): columns for table, columns in sample.tables.items()}
    events = sorted(table.upper() for table in tables if _EVENTS.fullmatch(table))
    if stated := _EXPORT & tables.keys():
        return Match(Score.MAGIC, f"has the table {stated.pop().upper()} of an export of Nsight Systems")
    if "stringids" in tables and events:
        return Match(Score.DIALECT, f"has the tables StringIds and {events[0]} of Nsight Systems")
    for table in events:
        if typical := _OWN & set(map(str.casefold, tables[table.casefold()])):
            return Match(Score.DIALECT, f"has the table {table} with the column {sorted(typical)[0]} of Nsight Systems")
    if "target_info_session_start_time" in tables:
        return Match(Score.DIALECT, "has the table TARGET_INFO_SESSION_START_TIME of Nsight Systems")
    return None


FORMAT = Format(
    "nsys",
    "Nsight Systems SQLite export",
    patterns=("*.sqlite", "*.sqlite3", "*.db"),
    probe=probe,
    read="ktrace.converters.nsys.reader:read",
    about="ktrace.converters.nsys.reader:about",
    database=True,
)
