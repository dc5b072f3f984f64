"""Logs of Legion Prof, the profiler of Legion (Legate, cuPyNumeric, FlexFlow, ...), binary ones: a file for each node.

    legate --profile app.py;  app -lg:prof 1 -lg:prof_logfile legion_%.prof

    FileType: BinaryLegionProf v: 1011
    TaskKind {id:11, task_id:TaskID:4, name:string:-1, overwrite:bool:1}
    TaskInfo {id:18, op_id:UniqueID:8, task_id:TaskID:4, ..., start:timestamp_t:8, stop:timestamp_t:8, ...}
    (an empty line)
    b"\\x0b\\0\\0\\0" b"\\x2a\\0\\0\\0" b"saxpy\\0" b"\\1" ...

The text describes the records: after the number of its kind, each has the fields in this order, of these sizes, little
endian; a text ends with a zero. Fields are found by their names, so that other versions are read as far as they have
them. One field isn't always there: the `redop` of PhysicalInstanceUsage follows where `mode` is 4 (REDUCE). Times are
ns since the zero time, which the record ZeroTime states as unix time.

Facts: legion_profiling_serializer.cc and legion_profiling.cc of Legion 25.06; the parts of ids in Realm's id.h; kinds
of processors, memories and partitions in tools/legion_prof_rs/src/state.rs; logs that Legate 26.6.1 wrote.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score


def probe(sample: Sample) -> Match | None:
    """MAGIC for the first line of a binary log."""
    if sample.head.startswith(b"FileType: BinaryLegionProf"):
        return Match(Score.MAGIC, "starts like a binary log of Legion Prof")
    return None


FORMAT = Format(
    "legion-prof",
    "Legion Prof logs, binary: Legate and other programs on Legion",
    patterns=("*.prof",),
    probe=probe,
    read="ktrace.converters.legion_prof.reader:read",
    words=("binarylegionprof",),
    binary=True,
)
