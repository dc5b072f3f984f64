"""A profile folder: `<logdir>/plugins/profile/<run>/<host>.xplane.pb`, a file for each host.

Next to them are the same events as Trace Event JSON, and results of XProf's analyses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

from ktrace.conversion import Conversion
from ktrace.errors import InputError
from ktrace.input.source import Source, file_in

_FILE = re.compile(r"(?:(?P<run>.*)/)?(?P<host>[^/]+)\.xplane\.pb(?:\.gz|\.zst)?")
_RUN = re.compile(r"(?:.*/)?plugins/profile/[^/]+")

#: The events of one host, or of all, as Trace Event JSON.
_EVENTS = re.compile(r"(?:(?P<run>.*)/)?(?:(?P<host>[^/]+)\.trace|perfetto_trace)\.json(?:\.gz)?")

#: Results of analyses and caches.
_RESULTS = re.compile(
    r"(?:.*/)?(?:[^/]+\.(?:trace_table|memory_profile|op_stats|op_metrics|input_pipeline|overview_page|kernel_stats|"
    r"tensorflow_stats|pod_viewer|hlo_proto|events_cache|SSTABLE)\b[^/]*|(?:ALL_HOSTS|[^/]+)\.(?:\w+\.)?pb(?:\.gz)?)"
)

#: Files outside the run that another format may read.
_TRACE = re.compile(
    r".*\.(?:json|csv|tsv|txt|log|db|sqlite3?|perfetto|pftrace|parquet|arrows|nsys-rep|ncu-rep)(?:\.gz|\.zst)?"
)


class HostFile(NamedTuple):
    """The file of one host."""

    host: str | None
    source: Source


def runs(listing: Iterable[str]) -> dict[str, list[str]]:
    """Returns the XPlane files of each run, run -> paths."""
    found: dict[str, list[str]] = {}
    for path in listing:
        if about := _FILE.fullmatch(path):
            found.setdefault(about["run"] or "", []).append(path)
    return found


def is_ours(listing: Iterable[str]) -> bool:
    """Whether a folder is a profile of XLA: it has XPlane files, and no other traces outside their folders."""
    paths = list(listing)
    found = runs(paths)
    inside = tuple(f"{run}/" if run else "" for run in found)
    if len(found) > 1 and not all(_RUN.fullmatch(run) or "/" not in run for run in found):
        return False
    return bool(found) and not any(_TRACE.fullmatch(path) for path in paths if not path.startswith(inside))


def files_of(source: Source, conversion: Conversion) -> list[HostFile]:
    """Returns the XPlane files of the source, itself or those in the folder; reports the folder's other files.

    Raises InputError for a folder without one, or with those of several runs.
    """
    if not source.is_folder:
        return [HostFile(None, source)]
    listing = source.sample().listing or ()
    found = runs(listing)
    if not found:
        raise InputError("contains no XPlane file", path=source.path, expected="<host>.xplane.pb", remedy="name a file")
    if len(found) > 1:
        names = ", ".join(list(found)[:5]) + (", ..." if len(found) > 5 else "")
        raise InputError(
            f"contains the profiles of {len(found)} runs: {names}",
            path=source.path,
            expected="the files of one run",
            remedy=f"name the folder of a run: {PurePath(source.path) / next(iter(found))}",
        )
    (paths,) = found.values()
    hosts = {about["host"] for path in paths if (about := _FILE.fullmatch(path))}
    for path in listing:
        if not _FILE.fullmatch(path):
            _report(path, hosts, conversion)
    return [HostFile(_host(path), file_in(source, path)) for path in paths]


def _report(path: str, hosts: set[str], conversion: Conversion) -> None:
    """Reports a file that isn't read."""
    report = conversion.report
    repeats = _EVENTS.fullmatch(path)
    if repeats and (repeats["host"] is None or repeats["host"] in hosts):
        report.record()
        report.used(outcome="same-run")
        report.issue("same-run", path)
    elif repeats:
        report.record()
        report.issue("unrecognised", path, f"there is no XPlane file of {repeats['host']}")
    else:
        what = "a result of XProf" if _RESULTS.fullmatch(path) else "not an XPlane file"
        report.issue("no-trace", path, what)


def _host(path: str) -> str | None:
    about = _FILE.fullmatch(path)
    return about["host"] if about else None
