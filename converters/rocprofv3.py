"""rocprofv3's CSV files: one, or a folder of them as one trace (ROCm 6.2 to 7).

host/834304_kernel_trace.csv
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",...
"KERNEL_DISPATCH","Agent 4",1,1,834304,1,10,"void add<float>(float*)",1,1550151853029637,1550151853042437,...

host/834304_hip_api_trace.csv
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"

The name is `<prefix>_<what>.csv`; by default the prefix is the process, the folder the host:

host/834304_kernel_trace.csv      process 834304 on host
out_hip_api_trace.csv             process not in the name

The summary that rocprofv3 prints at the end (-S, -D) or writes (--summary-output-file):

ROCPROFV3 KERNEL_DISPATCH SUMMARY:
|NAME|     DOMAIN      | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
|----|-----------------|-------|-----------------|----------------|---------------|------------|------------|--------|
|f(T)| KERNEL_DISPATCH |     8 |          184324 |      2.304e+04 |     40.681542 |      11200 |      98802 |  3e+04 |

"ROCPROFV3 SUMMARY:" repeats the rows of all domains; its rows are folded into those, if these were printed, too.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from ktrace.conversion import Conversion
from ktrace.errors import InputError
from ktrace.input.boundary import BadFiles, input_faults
from ktrace.input.source import Source, file_in
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.rocm.csv_file import IDS_OF_FILE, Agents, RocmFile, kind_of, read_file
from ktrace.kit.rocm.dispatches import KnownDispatches
from ktrace.kit.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.kit.text.headings import STATISTICS, Columns, headings_of
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Text, read_tables
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_NAME = re.compile(
    r"(?:(?P<folder>.*)/)?(?:(?P<prefix>[^/]*?)_)?(?P<what>(?:kernel|memory_copy|memory_allocation|scratch_memory"
    r"|(?:hip|hsa|hipfile)(?:_[a-z]+)*|marker|roctx|rccl|rocdecode|rocjpeg|ompt|kokkos|region)(?:_api)?_(?:trace|stats)"
    r"|domain_stats|(?:counter_collection|pc_sampling\w*|streaming_performance_monitor|spm)(?:_stats)?|agent_info)"
    r"\.csv(?:\.gz|\.zst)?"
)
_OTHER = re.compile(
    r"(?:(?P<folder>.*)/)?(?P<prefix>[^/]*)_(?:results(?:\.(?:json|db|pftrace|otf2|def)|/\d+\.(?:def|evt))|config\.json)"
)
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
    match = _NAME.fullmatch(path)
    if not match:
        return None
    folder, prefix = match["folder"] or "", match["prefix"] or ""
    pid = _PID.fullmatch(prefix)
    host = folder.rsplit("/", 1)[-1] if prefix.isdecimal() else None
    return Named(path, match["what"], (folder, prefix), int(pid[1]) if pid else None, host or None)


def is_of(path: str, groups: Collection[tuple[str, str]]) -> bool:
    """Whether a path is another format of one of the runs that have CSV files."""
    match = _OTHER.fullmatch(path)
    return match is not None and (match["folder"] or "", match["prefix"]) in groups


def own_files(listing: Iterable[str]) -> list[Named]:
    """Returns the CSV files of a rocprofv3 folder; none for a folder with other content, or with many runs.

    The files are in it or in folders for its passes, hosts and processes; at most half as many files may be others.
    """
    files, others = [], 0
    for path in listing:
        if about := named(path):
            files.append(about)
        elif not _OTHER.fullmatch(path):
            others += 1
    deep = any(about.path.count("/") > _DEEPEST for about in files)
    return [] if deep or others > len(files) // 2 else files


def in_order(files: list[Named]) -> list[Named]:
    """Sorts files: agents first, then kernels, then the rest, each by path."""
    rank = {what: index for index, what in enumerate(_FIRST)}
    return sorted(files, key=lambda file: (rank.get(file.what, len(rank)), file.path))


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of rocprofv3, and for a folder of files with its names."""
    if sample.listing is not None:
        files = own_files(sample.listing)
        return (
            Match(Score.DIALECT, f"contains {len(files)} files of rocprofv3, such as {files[0].path}")
            if files
            else None
        )
    for number, line in likely_lines(sample, (*LIKELY, "rocprofv3")):
        if TITLE.fullmatch(line):
            return Match(Score.DIALECT, f"contains the title of a rocprofv3 summary (line {number})")
        table = headings_of(line, table_kind) if "," in line and WORDS.search(line) else None
        if table and is_v3(table[0], table[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprofv3 (line {number})")
    return None


#: The title of the table of all domains.
_ALL = "ROCPROFV3 SUMMARY"

_COLUMNS = Columns(
    {
        "name": ("name",),
        "domain": ("domain",),
        **STATISTICS,
        "total": ("duration",),
        "percent": (*STATISTICS["percent"], "percent inc", "percent (inc)"),
    },
    required=("name", "domain", "count", "total"),
)


def read_summary(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each row, in the unit of its table; reports the program's own output."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    scope: list[str] | None = None
    seen: set[tuple[str, str, str, str]] = set()
    for item in read_tables(lines, lambda headings, _: _COLUMNS.match(headings)):
        if isinstance(item, Row):
            name, domain, figures = item.text("name"), item.text("domain"), item.figures()
            if not name or not figures:
                lines.skip("bad-record", "no figure" if name else "no name")
                continue
            key = (name, domain, item.text("count"), item.text("total"))
            if scope == [_ALL] and key in seen:
                lines.became("folded")
                conversion.report.issue("folded", f"line {item.line}")
                continue
            seen.add(key)
            kind = kind_of(name, domain.casefold())
            rows.summary(
                kind, name, table=item.table.ordinal, scope=scope, cat=domain, args=figures.args, **figures.columns
            )
            lines.used()
        elif isinstance(item, Text) and (title := TITLE.fullmatch(item.text)):
            scope = [title[1]]
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()


_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields kernels, copies, calls, markers, counters, samples; summaries from statistics; GPUs as facts."""
    if not source.is_folder and any(map(TITLE.fullmatch, source.sample().lines)):
        yield from read_summary(source, conversion)
        return
    agents, rows = Agents(), RowBuilder(conversion)
    files = _of_folder(source, conversion) if source.is_folder else [_single(source)]
    bad = BadFiles(conversion.report)
    for file in files:
        yield from bad.left_out(file.source.path, read_file(file, conversion, agents, rows))
    bad.end()
    agents.facts(rows, len(files) * IDS_OF_FILE)
    rows.fact("clock", facts={"kind": "boottime"})
    yield from rows.rest()


def _single(source: Source) -> RocmFile:
    about = named(PurePath(source.name).name)
    return RocmFile(source, pid=about.pid if about else None, scope=about.what if about else "")


def _of_folder(source: Source, conversion: Conversion) -> list[RocmFile]:
    """Returns the files of a folder; reports those that aren't rocprofv3's."""
    listing = source.sample().listing or ()
    files = [about for path in listing if (about := named(path))]
    prefixes = {about.group for about in files}
    for path in listing:
        if named(path):
            continue
        conversion.report.record()
        if is_of(path, prefixes):
            conversion.report.used(outcome="same-run")
            conversion.report.issue("same-run", path)
        else:
            conversion.report.issue("unrecognised", path, "not a CSV file of rocprofv3")
    groups = {about.group: KnownDispatches() for about in files}
    counted = {about.group for about in files if about.what.startswith(("counter_collection", "streaming", "spm"))}
    pids = {about.group: about.pid for about in files}
    for about in files:
        if pids[about.group] is None:
            pids[about.group] = _pid_in(file_in(source, about.path))
    hosts = _distinct_hosts({about.group: (about.host, pids[about.group]) for about in files})
    return [
        RocmFile(
            file_in(source, about.path),
            number,
            place=f"{about.path}: ",
            pid=pids[about.group],
            host=hosts[about.group],
            scope=about.what,
            dispatched=groups[about.group],
            remember=about.group in counted,
        )
        for number, about in enumerate(in_order(files))
    ]


def _distinct_hosts(groups: dict[tuple[str, str], tuple[str | None, int | None]]) -> dict[tuple[str, str], str | None]:
    """Returns the host of each group of files; for runs with the same host and process, their path instead."""
    twice = {place for place, count in Counter(groups.values()).items() if count > 1}
    return {
        (folder, prefix): "/".join(filter(None, (folder, prefix))) if place in twice else place[0]
        for (folder, prefix), place in groups.items()
    }


def _pid_in(source: Source) -> int | None:
    """The process in the first row of a file, None for none or a file that can't be read."""
    try:
        with input_faults(source.path), source.open(quiet=True) as stream:
            lines: Sequence[str] = io.StringIO(stream.read(_HEAD).decode("utf-8-sig", "replace")).readlines()
    except InputError:  # raised again when its rows are read
        return None
    row = next(csv.DictReader(lines[:2]), {})
    pid = row.get("Process_Id") or ""
    return int(pid) if pid.isdecimal() and len(pid) < 19 else None


FORMAT = Format(
    "rocprofv3",
    "ROCm rocprofv3 CSV, a file or a folder",
    patterns=("*_trace.csv", "*_counter_collection.csv", "*_stats.csv", "*_agent_info.csv"),
    probe=probe,
    read=read,
    words=("rocprofv3", "timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"),
    prose=True,
    reads_folders=True,
    holds="blocks",
)
