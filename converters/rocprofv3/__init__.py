"""rocprofv3's CSV files: one, or a folder of them as one trace (ROCm 6.2 to 7).

host/834304_kernel_trace.csv
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",...
"KERNEL_DISPATCH","Agent 4",1,1,834304,1,10,"void add<float>(float*)",1,1550151853029637,1550151853042437,...

host/834304_hip_api_trace.csv
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"

The names of rocprofv3's files: `<prefix>_<what>.csv`; by default the prefix is the process, the folder the host.

host/834304_kernel_trace.csv      process 834304 on host
out_hip_api_trace.csv             process not in the name
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.kit.text.headings import headings_of
from ktrace.kit.text.titles import likely_lines

_NAME = re.compile(
    r"(?:(?P<folder>.*)/)?(?:(?P<prefix>[^/]*?)_)?(?P<what>(?:kernel|memory_copy|memory_allocation|scratch_memory"
    r"|(?:hip|hsa|hipfile)(?:_[a-z]+)*|marker|roctx|rccl|rocdecode|rocjpeg|ompt|kokkos|region)(?:_api)?_(?:trace|stats)"
    r"|domain_stats|(?:counter_collection|pc_sampling\w*|streaming_performance_monitor|spm)(?:_stats)?|agent_info)"
    r"\.csv(?:\.gz|\.zst)?"
)
_OTHER = re.compile(r"(?:(?P<folder>.*)/)?(?P<prefix>[^/]*)_(?:results\.(?:json|db|pftrace|otf2)|config\.json)")
_PID = re.compile(r"(?:.*[_.-])?(\d{1,18})")

#: The title of a table in the summary that rocprofv3 prints, or writes to a file of any name.
TITLE = re.compile(r"\s*(ROCPROFV3 (?:.* )?SUMMARY):?\s*")

#: Greatest depth of files below the folder of `-d`: `pass_1/host/4242_kernel_trace.csv`.
_DEEPEST = 2

#: Tables that are read first: agents before counters, kernels before their counters.
_FIRST = ("agent_info", "kernel_trace")


class Named(NamedTuple):
    """A file by its path: its content, the process in its prefix, the folder and prefix that files of a run share."""

    path: str
    what: str
    group: tuple[str, str]
    pid: int | None
    host: str | None


def named(path: str) -> Named | None:
    """Returns the parts of a path, None for a path that isn't rocprofv3's."""
    found = _NAME.fullmatch(path)
    if not found:
        return None
    folder, prefix = found["folder"] or "", found["prefix"] or ""
    pid = _PID.fullmatch(prefix)
    host = folder.rsplit("/", 1)[-1] if prefix.isdecimal() else None
    return Named(path, found["what"], (folder, prefix), int(pid[1]) if pid else None, host or None)


def is_of(path: str, groups: Collection[tuple[str, str]]) -> bool:
    """Whether a path is another format of one of the runs that have CSV files."""
    found = _OTHER.fullmatch(path)
    return found is not None and (found["folder"] or "", found["prefix"]) in groups


def own_files(listing: Iterable[str]) -> list[Named]:
    """Returns the CSV files of a rocprofv3 folder; none for a folder with other content, or with many runs.

    The files are in it or in folders for its passes, hosts and processes; at most half as many files may be others.
    """
    found, others = [], 0
    for path in listing:
        if about := named(path):
            found.append(about)
        elif not _OTHER.fullmatch(path):
            others += 1
    deep = any(about.path.count("/") > _DEEPEST for about in found)
    return [] if deep or others > len(found) // 2 else found


def in_order(files: list[Named]) -> list[Named]:
    """Sorts files: agents first, then kernels, then the rest, each by path."""
    rank = {what: index for index, what in enumerate(_FIRST)}
    return sorted(files, key=lambda file: (rank.get(file.what, len(rank)), file.path))


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of rocprofv3, and for a folder of files with its names."""
    if sample.listing is not None:
        own = own_files(sample.listing)
        return Match(Score.DIALECT, f"contains {len(own)} files of rocprofv3, such as {own[0].path}") if own else None
    for number, line in likely_lines(sample, (*LIKELY, "rocprofv3")):
        if TITLE.fullmatch(line):
            return Match(Score.DIALECT, f"contains the title of a rocprofv3 summary (line {number})")
        found = headings_of(line, table_kind) if "," in line and WORDS.search(line) else None
        if found and is_v3(found[0], found[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprofv3 (line {number})")
    return None


FORMAT = Format(
    "rocprofv3",
    "ROCm rocprofv3 CSV, a file or a folder",
    patterns=("*_trace.csv", "*_counter_collection.csv", "*_stats.csv", "*_agent_info.csv"),
    probe=probe,
    read="ktrace.converters.rocprofv3.reader:read",
    words=("rocprofv3", "timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"),
    prose=True,
    reads_folders=True,
)
