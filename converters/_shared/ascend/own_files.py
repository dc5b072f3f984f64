"""The files that a reader opens of a folder; the others are reported."""

from __future__ import annotations

from pathlib import PurePath

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source

from .folder import chosen


def own_files(folder: Source, what: str, conversion: Conversion) -> list[tuple[str, Source]]:
    """Returns path and source of each file to read, and reports those that repeat them, and other files.

    Raises DamagedInput for a folder without one profile in the form `what`.
    """
    files = chosen(folder.sample().listing or ())
    if files is None or files.what != what:
        raise DamagedInput(
            f"is no folder of one profile in the form {what}",
            path=folder.path,
            expected="ASCEND_PROFILER_OUTPUT or mindstudio_profiler_output",
            remedy="name the file, or leave out --from",
        )
    report = conversion.report
    for path in files.same_run:
        report.record()
        report.used(outcome="same-run")
        report.issue("same-run", path)
    for path in files.strange:
        report.record()
        report.issue("unrecognised", path, "not a file of Ascend's profiler")
    return [(path, _opened(folder, path)) for path in files.read]


def _opened(folder: Source, path: str) -> Source:
    place = str(PurePath(folder.path) / path)
    return Source(place, label=folder.label, on_cut=folder.on_cut, progress=folder.progress)
