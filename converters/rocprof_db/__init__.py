"""The SQLite database that `rocprof` (ROCm 2 to 6) writes next to its CSV with --hip-trace, --hsa-trace, --sys-trace.

    HIP, HSA   BeginNs, EndNs, pid, tid, Name, args, Index, Data, __section, __lane         calls
    OPS, COPY  BeginNs, EndNs, dev-id, queue-id, Name, pid, tid, roctx-range, stream-id, Index, ...   work of HIP
    COPY       BeginNs, EndNs, Name, pid, tid, Index, ...         without HIP: copies that HSA traced
    rocTX      BeginNs, EndNs, pid, tid, Name, Index, ...         ranges and marks
    KERN       Index, KernelName, gpu-id, ..., counters           the rows of results.csv

Facts: rocprofiler's bin/tblextr.py, which makes the database, results.csv and results.json of one run.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_TRACED = frozenset(("hip", "hsa", "kfd", "ops", "copy", "roctx"))


def probe(sample: Sample) -> Match | None:
    """MAGIC for a traced table with rocprof's own columns, or for its table of kernels."""
    for name, columns in (sample.tables or {}).items():
        own = {column.casefold() for column in columns}
        traced = name.casefold() in _TRACED and {"beginns", "endns", "name", "__section", "__lane"} <= own
        if traced or (name.casefold() == "kern" and {"index", "kernelname", "gpu-id"} <= own):
            return Match(Score.MAGIC, f"is an SQLite database with rocprof's table {name}")
    return None


FORMAT = Format(
    "rocprof-db",
    "ROCm rocprof database (results.db)",
    patterns=("*.db",),
    probe=probe,
    read="ktrace.converters.rocprof_db.reader:read",
    database=True,
)
