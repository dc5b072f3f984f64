"""Databases of Huawei Ascend's profilers: ascend_pytorch_profiler*.db, ascend_mindspore_profiler*.db, msprof_*.db.

TASK                 startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId, taskId
COMPUTE_TASK_INFO    globalTaskId, name, blockDim (blockNum from 2026 on), opType, inputShapes, ...
CANN_API             startNs, endNs, type, globalTid (pid << 32 | tid), connectionId, name
PYTORCH_API          startNs and endNs as text, globalTid, name, type, ...
STRING_IDS           id, value: all names, types and shapes

Times are ns since 1970. 4294967295 means "none".
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ascend_folder import DB, chosen

#: Tables with rows that are read; one of them is enough next to STRING_IDS.
_OWN = ("TASK", "CANN_API", "PYTORCH_API", "COMMUNICATION_OP", "MSTX_EVENTS")


def probe(sample: Sample) -> Match | None:
    """MAGIC for STRING_IDS and one of the tables with times; NEAR without STRING_IDS."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != DB:
            return None
        return Match(Score.DIALECT, f"contains {files.read[0]} of Ascend's profiler")
    names = {name.upper(): {column.casefold() for column in columns} for name, columns in (sample.tables or {}).items()}
    table = next((name for name in _OWN if {"startns", "endns"} <= names.get(name, set())), None)
    if table is None:
        return None
    if "STRING_IDS" not in names:
        return Match(Score.NEAR, f"is an SQLite database with {table}, but without STRING_IDS")
    return Match(Score.MAGIC, f"is an SQLite database with {table} and STRING_IDS")


FORMAT = Format(
    "ascend-db",
    "Huawei Ascend databases (torch_npu, MindSpore, msprof)",
    patterns=("ascend_*_profiler*.db", "msprof_*.db"),
    probe=probe,
    read="ktrace.converters.ascend_db.reader:read",
    database=True,
    reads_folders=True,
)
