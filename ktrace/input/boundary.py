"""The boundary of readers: whatever is raised while an input is read becomes an error of that input.

    KtraceError                       passes: it names file, place, expectation and remedy already
    OSError of the system             InputError: the disk, the network, the space for temporary files
    AssertionError                    InternalError: an invariant of a reader is broken
    MemoryError, KeyboardInterrupt    pass: they say nothing of the input
    anything else                     DamagedInput, with the place; `--debug` shows the original exception

Readers handle bad values themselves and skip the record. What arrives here as anything but a KtraceError is therefore a
gap in a reader, but the user learns which file it is, where the reader was, and that no output is at fault.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ktrace.errors import DamagedInput, InputError, InternalError, KtraceError
from ktrace.input.format import Format, error_text, package_of
from ktrace.report import Report

#: Errors of a full disk. A reader writes nothing but temporary files.
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def input_faults(path: str, fmt: Format | None = None, report: Report | None = None) -> Iterator[None]:
    """Within this block, which only reads the input, errors become errors of the input at `path`.

    `fmt` is its format, if that is known. `report` tells how far the reader got since the begin of the block. Raises
    InputError, DamagedInput and InternalError, each from the original exception.
    """
    before = report.reader.taken if report else 0
    if report:
        report.at = None
    try:
        yield
    except DamagedInput as error:
        error.path = error.path or path
        raise
    except (KtraceError, MemoryError):
        raise
    except OSError as error:
        if error.errno is None:  # of a library: the data, not the system
            raise _damaged(error, path, fmt, report, before) from error
        what, remedy = f"can't be read: {error.strerror or error}", "check the disk, and the space in TMPDIR"
        if error.errno in _FULL:
            what, remedy = f"can't be unpacked or copied to the temporary folder: {error.strerror}", "set TMPDIR"
        raise InputError(what, path=path, remedy=remedy) from error
    except AssertionError as error:
        raise InternalError(
            f"an invariant of the reader{f' of {fmt.name}' if fmt else ''} is broken: {error_text(error)}",
            path=path,
            where=_place(report, before),
            remedy="report this bug in ktrace with the output of --debug",
        ) from error
    except (Exception, SystemExit) as error:
        raise _damaged(error, path, fmt, report, before) from error


def _damaged(error: BaseException, path: str, fmt: Format | None, report: Report | None, before: int) -> DamagedInput:
    where = _place(report, before)
    if fmt is None:
        return DamagedInput(
            f"can't be read: {error_text(error)}",
            path=path,
            where=where,
            expected="a log, table or trace",
            remedy="copy or export it again, or name its format with --from",
        )
    if not fmt.is_ours:
        return DamagedInput(
            f"the reader of the format {fmt.name}, of {package_of(fmt.name)}, raised {error_text(error)}",
            path=path,
            where=where,
            remedy="report it to the authors of that package, or name another format",
        )
    return DamagedInput(
        f"can't be read as {fmt.name}: {error_text(error)}",
        path=path,
        where=where,
        expected=f"{fmt.title}, undamaged",
        remedy="copy or export it again; if the tool's own viewer opens it, report it with the output of --debug",
    )


def _place(report: Report | None, before: int) -> str | None:
    """Where the reader was: what it says itself, else how many records it had counted; None if it is at the begin."""
    if report is None:
        return None
    if report.at and (place := report.at()):
        return place
    taken = report.reader.taken - before
    return f"within the first {taken:,} records" if taken else None
