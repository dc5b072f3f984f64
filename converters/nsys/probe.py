"""Recognises a database of Nsight Systems by its tables."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

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
    if found := _EXPORT & tables.keys():
        return Match(Score.MAGIC, f"has the table {found.pop().upper()} of an export of Nsight Systems")
    if "stringids" in tables and events:
        return Match(Score.DIALECT, f"has the tables StringIds and {events[0]} of Nsight Systems")
    for table in events:
        if own := _OWN & set(map(str.casefold, tables[table.casefold()])):
            return Match(Score.DIALECT, f"has the table {table} with the column {sorted(own)[0]} of Nsight Systems")
    if "target_info_session_start_time" in tables:
        return Match(Score.DIALECT, "has the table TARGET_INFO_SESSION_START_TIME of Nsight Systems")
    return None
