"""A trace in numbered outputs that a viewer can open: run.perfetto becomes run.000.perfetto, run.001.perfetto, ...

All of them appear or none. A part that came out greater than it may be is written again with fewer rows.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktrace.conversion import Conversion
from ktrace.errors import OutputError, UsageError
from ktrace.input.format import Format
from ktrace.input.source import COMPRESSED
from ktrace.model.batch import Batch
from ktrace.output.sink import Sink, open_sink
from ktrace.output.write import write_batches
from ktrace.report import Report
from ktrace.stages.pair import pair_halves
from ktrace.stages.split.split_by import SplitBy
from ktrace.stages.split.stage import Split

#: Most parts: their numbers have three digits.
MOST = 1000

#: Rows of the part that is tried first where a size is wanted; what share of it is aimed at from then on.
_FIRST_ROWS, _AIM = 100_000, 0.95

#: A part below this share of the size is written again with more rows.
_ENOUGH = 0.6


class NumberedOutputs:
    """The outputs of a trace in parts, which appear together (`writing`). `path` is what the whole would be called.

    Raises UsageError where it can't be split, OutputError where parts are there already, unless `overwrite`: then those
    go, however many they are.
    """

    def __init__(self, path: str, fmt: Format, *, overwrite: bool = False) -> None:
        if path == "-":
            raise UsageError("--split-by writes several files", expected="a name with -o, not '-'")
        self.path = path
        self.format = fmt
        self._overwrite = overwrite
        whole = Path(path)
        self._folder = whole.parent
        self._suffix = _suffix(whole.name, fmt)
        self._stem = whole.name.removesuffix(self._suffix)
        self._sinks: list[Sink] = []
        self._committed: list[Sink] = []
        if (there := self._there()) and not overwrite:
            raise OutputError("exists already", path=str(there[0]), remedy="--overwrite, or another name with -o")

    def _there(self) -> list[Path]:
        """The parts that are there."""
        if not self._folder.is_dir():
            return []
        name = re.compile(re.escape(self._stem) + r"\.[0-9]{3}" + re.escape(self._suffix))
        return sorted(path for path in self._folder.iterdir() if name.fullmatch(path.name))

    def begin(self) -> Sink:
        """The output of the next part."""
        number = len(self._sinks)
        if number >= MOST:
            raise UsageError(f"that makes more than {MOST} parts", remedy="a longer time, or a greater size")
        path = str(self._folder / f"{self._stem}.{number:03d}{self._suffix}") + "/" * self.path.endswith("/")
        sink = open_sink(path, self.format, overwrite=self._overwrite)
        self._sinks.append(sink)
        sink.make()
        return sink

    def drop(self) -> None:
        """Removes the last part, which is to be written again."""
        self._sinks.pop().abort()

    def make(self) -> None:
        """Nothing is made before the first part."""

    def commit(self) -> None:
        """Puts all parts in their places, instead of those that are there."""
        stale = self._there()
        for sink in self._sinks:
            self._committed.append(sink)
            sink.commit()
        for path in set(stale) - {Path(sink.path) for sink in self._sinks}:
            _remove(path)

    def abort(self) -> None:
        """Leaves no part behind."""
        for sink in self._sinks:
            sink.abort()
        for sink in self._committed:
            _remove(Path(sink.path))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _suffix(name: str, fmt: Format) -> str:
    """The end of a name that says format and compression: ".trace.json.gz"."""
    packed = next((end for end in COMPRESSED if name.lower().endswith(end)), "")
    plain = name[: len(name) - len(packed)]
    ends = [pattern.removeprefix("*") for pattern in fmt.patterns if plain.lower().endswith(pattern.removeprefix("*"))]
    return name[len(plain) - len(max(ends, key=len, default=Path(plain).suffix)) :]


def write_parts(batches: Iterable[Batch], by: SplitBy, parts: NumberedOutputs, conversion: Conversion) -> None:
    """Writes all batches in parts, adds the account of each to that of the conversion and lists it in `Report.parts`.

    Raises UsageError where that makes too many parts, or where nothing fits into a size.
    """
    with Split(pair_halves(batches, conversion.report), by) as split:
        writer = _Writer(split, parts, conversion)
        if by.size is not None:
            writer.by_size(by.size)
            return
        if len(split.cuts) > MOST:
            raise UsageError(f"that makes {len(split.cuts):,} parts", expected=f"at most {MOST}")
        for first, last in zip(split.cuts, [*split.cuts[1:], split.rows], strict=True):
            if split.count(first, last) or len(split.cuts) == 1:
                writer.keep(first, last, *writer.write(first, last))


class _Writer:
    """Writes parts, each with an account of its own."""

    def __init__(self, split: Split, parts: NumberedOutputs, conversion: Conversion) -> None:
        self._split = split
        self._parts = parts
        self._report = conversion.report
        self._options = conversion.options

    def write(self, first: int, last: int) -> tuple[Report, int, str]:
        """Writes a part; its account, its bytes, its path."""
        account = Report(strict=self._report.strict)
        sink = self._parts.begin()
        rows = _counted(self._split.batches(first, last), account)
        write_batches(rows, self._parts.format, sink, Conversion(account, options=self._options))
        account.require_balance()
        return account, sink.finish(), sink.path

    def keep(self, first: int, last: int, account: Report, size: int, path: str) -> None:
        """Takes a part into the account."""
        self._report.add_part(account)
        start, end = self._split.span(first, last) or (None, None)
        said = {"path": path, "rows": account.written, "bytes": size, "start_ns": start, "end_ns": end}
        self._report.parts.append(said)

    def by_size(self, limit: int) -> None:
        """Writes parts of at most so many bytes; a row that is greater has one of its own."""
        first, rows = 0, _FIRST_ROWS
        while first < self._split.rows:
            taken, rows = self._fitting(first, rows, limit)
            first += taken

    def _fitting(self, first: int, rows: int, limit: int) -> tuple[int, int]:
        """Writes the part from a rank on, `rows` at first, until it fits; its ranks, and how many the next may have."""
        left = self._split.rows - first
        rows, fit, too_many = min(rows, left), 0, left + 1
        while True:
            account, size, path = self.write(first, first + rows)
            likely = max(1, int(rows * limit / size * _AIM))
            if size > limit and rows > 1:
                if not fit:
                    self._check_empty(limit)
                too_many = rows
            elif size >= _ENOUGH * limit or rows + 1 >= too_many:
                self.keep(first, first + rows, account, size, path)
                return rows, likely
            else:
                fit = rows
            self._parts.drop()
            rows = likely if fit < likely < too_many else max(1, (fit + too_many) // 2)

    def _check_empty(self, limit: int) -> None:
        """Refuses a size that is less than that of a part without events."""
        _, size, _ = self.write(0, 0)
        self._parts.drop()
        if size >= limit:
            raise UsageError(
                f"a part of {limit:,} bytes can't be: without any event it has {size:,}", remedy="a greater size"
            )


def _counted(batches: Iterable[Batch], account: Report) -> Iterator[Batch]:
    for batch in batches:
        account.rows[batch.record] += len(batch)
        yield batch
