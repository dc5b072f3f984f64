"""The database of nvprof (`nvprof -o run.nvvp ./app`) and of the Visual Profiler, CUDA 5 to 12: CUPTI's records.

    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL   _id_, start, end, deviceId, streamId, gridX, correlationId, name, ...
    CUPTI_ACTIVITY_KIND_RUNTIME             _id_, cbid, start, end, processId, threadId, correlationId
    CUPTI_ACTIVITY_KIND_MARKER              _id_, flags, timestamp, id, objectKind, objectId, name, domain
    StringTable                             _id_, value

Times are ns of unix time. A name is the _id_ of a string; the name of a call is a number (cbid) of CUPTI.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score


def probe(sample: Sample) -> Match | None:
    """DIALECT for nvprof's table of strings together with one of CUPTI's records."""
    if sample.tables is None:
        return None
    columns = {table.casefold(): {name.casefold() for name in names} for table, names in sample.tables.items()}
    tables = sorted(name for name in sample.tables if name.upper().startswith("CUPTI_ACTIVITY_KIND_"))
    if "_id_" in columns.get("stringtable", set()) and tables:
        return Match(Score.DIALECT, f"has the tables StringTable and {tables[0]} of nvprof")
    return None


FORMAT = Format(
    "nvvp",
    "nvprof and Visual Profiler database",
    patterns=("*.nvvp", "*.nvprof"),
    probe=probe,
    read="ktrace.converters.nvvp.reader:read",
    database=True,
)
