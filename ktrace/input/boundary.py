"""The boundary of readers: whatever is raised while an input is read becomes an error of that input.

    KtraceError                       passes: it names file, place, expectation and remedy already
    OSError of the system             InputError: the disk, the network, the space for temporary files
    AssertionError                    InternalError: an invariant of a reader is broken
    MemoryError, KeyboardInterrupt    pass: they say nothing of the input; so does an interruption that was swallowed
    anything else                     DamagedInput, with the place; `--debug` shows the original exception

Readers handle bad values themselves and skip the record. What arrives here as anything but a KtraceError is therefore a
gap in a reader, but the user learns which file it is, where the reader was, and that no output is at fault.

A folder that is one trace has many files: `ktrace.input.source.file_in` opens one, `BadFiles` goes on with the others.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Protocol, TypeVar

from ktrace.errors import DamagedInput, InputError, InternalError, KtraceError, error_text
from ktrace.parallel.interruption import INTERRUPTION
from ktrace.report import Ledger, Report

_Item = TypeVar("_Item")

#: Errors of a full disk. A reader writes nothing but temporary files.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Named(Protocol):
    """What messages say of a `Format`: its name and title, and the package that it comes from."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def package(self) -> str: ...


@contextmanager
def input_faults(path: str, fmt: Named | None = None, report: Report | None = None) -> Iterator[None]:
    """Within this block, which only reads the input, errors become errors of the input at `path`.

    `fmt` is its format, if that is known. `report` tells how far the reader got since the start of the block. Raises
    InputError, DamagedInput and InternalError, each from the original exception.
    """
    before = report.reader.taken if report else 0
    if report:
        report.at = None
    try:
        with INTERRUPTION.heeded():
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


def _damaged(error: BaseException, path: str, fmt: Named | None, report: Report | None, before: int) -> DamagedInput:
    where = _place(report, before)
    if fmt is None:
        return DamagedInput(
            f"can't be read: {error_text(error)}",
            path=path,
            where=where,
            expected="a log, table or trace",
            remedy="copy or export it again, or name its format with --from",
        )
    if fmt.package:
        return DamagedInput(
            f"the reader of the format {fmt.name}, of {fmt.package}, raised {error_text(error)}",
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
    """Where the reader was: what it says itself, else how many records it had counted; None if it is at the start."""
    if report is None:
        return None
    if report.at and (place := report.at()):
        return place
    taken = report.reader.taken - before
    return f"within the first {taken:,} records" if taken else None


class BadFiles:
    """The files of a folder that can't be read, or not to their end: they are reported, and the others are read.

    for file in files:
        yield from bad.left_out(file.path, reader_of(file))
    bad.end()
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._bad: list[tuple[str, InputError, int]] = []
        self._good = 0

    def left_out(self, path: str, items: Iterator[_Item], *, waiting: bool = False) -> Iterator[_Item]:
        """Yields what a file gives, up to where it can't be read.

        `waiting`: the records since the last item are lost with the reader. Otherwise those that it counted as used
        have become rows, or will. Raises InputError where the system is at fault, not the file.
        """
        report = self._report
        reader, texts, used = deepcopy(report.reader), deepcopy(report.bytes), report.reader.given
        try:
            with input_faults(path, None, report):
                for item in items:
                    yield item
                    used = report.reader.given
        except InputError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL:
                raise
            if waiting:
                report.reader.given = used
            report.bytes.give_up(texts, f"{path}: ")
            lost = _unsettled(report.reader) - _unsettled(reader)
            self._bad.append((path, error, lost))
        else:
            self._good += 1

    def end(self) -> None:
        """Reports the bad files. Raises the error of the first one if no file could be read to its end."""
        if self._bad and not self._good:
            raise self._bad[0][1]
        for path, error, lost in self._bad:
            report_bad_file(self._report, path, error, lost)


def _unsettled(reader: Ledger) -> int:
    """The number of records of which it isn't known yet what they become."""
    return reader.taken - reader.given - reader.removed.total()


def report_bad_file(report: Report, path: str, error: InputError, records: int = 0) -> None:
    """Reports a file of a folder that is left out, with place, expectation and remedy; `records` of it were counted."""
    if records < 1:
        report.record(1 - records)
    parts = (error.where, error.what.splitlines()[0], error.expected and f"expected {error.expected}", error.remedy)
    report.issue("bad-file", error.path or path, "; ".join(filter(None, parts)), max(1, records))
