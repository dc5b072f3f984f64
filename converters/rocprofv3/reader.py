"""rocprofv3's CSV files as events and summaries; a folder of them is one trace.

Reads the summary that rocprofv3 prints at the end (-S, -D) or writes (--summary-output-file).

ROCPROFV3 KERNEL_DISPATCH SUMMARY:
|NAME|     DOMAIN      | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
|----|-----------------|-------|-----------------|----------------|---------------|------------|------------|--------|
|f(T)| KERNEL_DISPATCH |     8 |          184324 |      2.304e+04 |     40.681542 |      11200 |      98802 |  3e+04 |

"ROCPROFV3 SUMMARY:" repeats the rows of all domains; its rows are folded into those, if these were printed, too.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from ktrace.conversion import Conversion
from ktrace.errors import InputError
from ktrace.input.boundary import BadFiles, input_faults
from ktrace.input.source import Source, file_in
from ktrace.kit.rocm.csv_file import IDS_OF_FILE, RocmFile, read_file
from ktrace.kit.rocm.known_dispatches import KnownDispatches
from ktrace.kit.rocm.rows import Agents, kind_of
from ktrace.kit.text.headings import STATISTICS, Columns
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Text, read_tables
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import TITLE, in_order, is_of, named

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
    found = [about for path in listing if (about := named(path))]
    prefixes = {about.group for about in found}
    for path in listing:
        if named(path):
            continue
        conversion.report.record()
        if is_of(path, prefixes):
            conversion.report.used(outcome="same-run")
            conversion.report.issue("same-run", path)
        else:
            conversion.report.issue("unrecognised", path, "not a CSV file of rocprofv3")
    groups = {about.group: KnownDispatches() for about in found}
    counted = {about.group for about in found if about.what.startswith(("counter_collection", "streaming", "spm"))}
    pids = {about.group: about.pid for about in found}
    for about in found:
        if pids[about.group] is None:
            pids[about.group] = _pid_in(file_in(source, about.path))
    hosts = _distinct_hosts({about.group: (about.host, pids[about.group]) for about in found})
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
        for number, about in enumerate(in_order(found))
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
