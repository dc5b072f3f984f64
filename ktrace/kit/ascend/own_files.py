"""The files that a reader opens of a folder; the others are reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError
from ktrace.input.boundary import input_faults
from ktrace.input.source import Source, file_in

from .folder import chosen, form_of


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
    return [(path, file_in(folder, path)) for path in files.read]


@contextmanager
def own_file(folder: Source, what: str, conversion: Conversion) -> Iterator[Source]:
    """Provides the only file to read of a source, which may be a folder. An error names the run's other forms.

    Raises DamagedInput as `own_files` does.
    """
    if not folder.is_folder:
        yield folder
        return
    ((path, file),) = own_files(folder, what, conversion)
    others = sorted((other for other in folder.sample().listing or () if other != path and form_of(other)), key=len)
    try:
        with input_faults(file.path, None, conversion.report):
            yield file
    except InputError as error:
        if others:
            other = f"name another form of the run, such as {PurePath(folder.path) / others[0]}"
            error.remedy = f"{error.remedy}; or {other}" if error.remedy else other
        raise
