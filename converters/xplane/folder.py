"""A profile folder: `<logdir>/plugins/profile/<run>/<host>.xplane.pb`, a file for each host.

Next to them are the same events as Trace Event JSON, and results of XProf's analyses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from ktrace.conversion import Conversion
from ktrace.errors import UnknownFormat
from ktrace.input.source import Source

_FILE = re.compile(r"(?:(?P<run>.*)/)?(?P<host>[^/]+)\.xplane\.pb(?:\.gz|\.zst)?")

#: Files that XLA and XProf write next to it from the same events.
_REPEATS = re.compile(
    r"(?:(?P<run>.*)/)?(?:[^/]*\.?trace\.json(?:\.gz)?|perfetto_trace\.json(?:\.gz)?|[^/]+\.trace_table"
    r"|[^/]+\.(?:op_stats|op_metrics|input_pipeline|overview_page|kernel_stats|memory_profile|tf_data_bottleneck_analysis"
    r"|pod_viewer|dcn_collective_stats|hlo_proto|all_hosts\.\w+|events_cache|tensorflow_stats)\b[^/]*"
    r"|[^/]+\.(?:SSTABLE|hlo_proto\.pb|pb\.gz|pb))"
)

#: Files of TensorBoard that name the folder.
_TENSORBOARD = re.compile(r"(?:.*/)?events\.out\.tfevents\.[^/]*")


def runs(listing: Iterable[str]) -> dict[str, list[str]]:
    """Returns the XPlane files of each run, run -> paths."""
    found: dict[str, list[str]] = {}
    for path in listing:
        if about := _FILE.fullmatch(path):
            found.setdefault(about["run"] or "", []).append(path)
    return found


def is_ours(listing: Iterable[str]) -> bool:
    """Whether a folder is the profile of one run: XPlane files in one folder, and only files of XLA next to them."""
    paths = list(listing)
    found = runs(paths)
    return len(found) == 1 and all(
        _FILE.fullmatch(path) or _REPEATS.fullmatch(path) or _TENSORBOARD.fullmatch(path) for path in paths
    )


def files_of(source: Source, conversion: Conversion) -> Iterator[tuple[str | None, Source]]:
    """Yields host and file for each XPlane file of the source; reports the folder's other files.

    Raises UnknownFormat for a folder without one.
    """
    if not source.is_folder:
        yield None, source
        return
    listing = source.sample().listing or ()
    found = runs(listing)
    if not found:
        raise UnknownFormat("contains no XPlane file", path=source.path, expected="<host>.xplane.pb", remedy="name a file")
    report = conversion.report
    for path in listing:
        if _FILE.fullmatch(path):
            continue
        report.record()
        if _REPEATS.fullmatch(path):
            report.used(outcome="same-run")
            report.issue("same-run", path)
        elif _TENSORBOARD.fullmatch(path):
            report.used(outcome="structure")
        else:
            report.issue("unrecognised", path, "not a file of XLA's profiler")
    for run, paths in found.items():
        for path in paths:
            about = _FILE.fullmatch(path)
            host = about["host"] if about else path
            named = host if len(found) == 1 else f"{run}/{host}"
            file = Source(
                str(PurePath(source.path) / path), label=source.label, on_cut=source.on_cut, progress=source.progress
            )
            yield named, file
