"""Reads exports of xctrace: one file, or a folder with a file for each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat, DamagedInput
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.kit.stacks import Stacks
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import counted

from . import INTERVALS, TABLE_FILE
from .document import Begin, Document, Node, Reader, Rows
from .recording import Gpu, block_of
from .rows import Schema, read_rows, scan
from .tables import Tables
from .values import Values

_COMMAND = (
    "xcrun xctrace export --input RUN.trace --xpath "
    '\'/trace-toc/run[@number="1"]/data/table[@schema="metal-gpu-intervals"]\' --output RUN.xml'
)

#: What follows the name of a table whose rows are of a run that isn't read.
_ANOTHER = " of another run"

#: Rows that become a block at least, unless another table begins.
_GATHERED = 8192

#: Tables that are read before the others: names for rows of the others.
_FIRST = ("gpu-counter-info", "metal-application-encoders-list", INTERVALS)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all tables. Raises ClosedFormat for a table of contents, DamagedInput for other XML."""
    gpu, rows = Gpu(), RowBuilder(conversion, first_id=0)
    tables = Tables(conversion, gpu, Stacks(rows))
    bad = BadFiles(conversion.report)
    for file, place in _files(source, conversion):
        reading = _File(file, conversion, tables, gpu, place, alone=not source.is_folder).read()
        yield from bad.left_out(file.path, reading)
        yield from rows.ready()
    bad.end()
    if gpu.unjoined:
        conversion.report.issue(
            "capture-warning", source.path, f"{gpu.unjoined:,} labels of encoders weren't joined", 0
        )
    gpu.facts(rows)
    yield from rows.rest()


def _files(source: Source, conversion: Conversion) -> list[tuple[Source, str]]:
    if not source.is_folder:
        return [(source, "")]
    paths = []
    for path in source.sample().listing or ():
        if path.endswith((".xml", ".xml.gz", ".xml.zst")):
            paths.append(path)
        else:
            conversion.report.record()
            conversion.report.issue("unrecognised", path, "not an export of xctrace")
    paths.sort(key=_rank)
    return [(file_in(source, path), f"{path}: ") for path in paths]


def _rank(path: str) -> tuple[int, str]:
    named = TABLE_FILE.fullmatch(path)
    rank = next((rank for rank, table in enumerate(_FIRST) if named and table in named[1]), len(_FIRST))
    return rank, path


class _File:
    """Reads one file."""

    def __init__(
        self, source: Source, conversion: Conversion, tables: Tables, gpu: Gpu, place: str, *, alone: bool
    ) -> None:
        self._source = source
        self._conversion = conversion
        self._tables = tables
        self._gpu = gpu
        self._place = place
        self._alone = alone
        self._values = Values(conversion.expanded)
        self._schema: Schema | None = None
        self._run: int | None = None
        self._other_run = False
        self._row = 1
        self._waiting: list[Int64] = []
        self._unread: Counter[str] = Counter()
        self._empty: dict[str, None] = {}

    def read(self) -> Iterator[Batch]:
        """Yields the rows of the file; reports the tables that aren't read."""
        report = self._conversion.report
        begun = False
        with self._source.open() as stream:
            document = Document(stream, self._source.path, report, Reader(self._scan, self._owner, self._place))
            for item in document:
                part = self._tables.known(item) if isinstance(item, Schema) else item
                begun = True
                self._values.read_bytes = document.read_bytes
                if isinstance(part, Rows):
                    yield from self._rows(part)
                    continue
                yield from self._gathered()
                if isinstance(part, Schema):
                    self._empty[part.name] = None
                    self._row = self._row if part == self._schema else 1
                    self._schema = part
                elif isinstance(part, Node):
                    self._run = self._run or part.run
                    self._other_run = part.run != self._run
                    self._gpu.begin_node()
                elif isinstance(part, Begin):
                    self._values.clear()
            yield from self._gathered()
            contents = document.is_contents
        for what, rows in self._unread.items():
            of = "another run" if what.endswith(_ANOTHER) else "a table without a time"
            report.issue("unrecognised", f"{self._place}{what}", f"{counted(rows, 'row')} of {of}", rows)
        for name in self._empty:
            report.issue("empty-table", f"{self._place}{name}", "has no rows", 0)
        if self._values.bad_texts:
            report.issue("encoding", f"{self._place}texts", rows=self._values.bad_texts)
        if self._alone or not begun:
            self._check(contents, begun)

    def _check(self, contents: bool, begun: bool) -> None:
        """Raises for a file without any table."""
        if contents and self._alone:
            raise ClosedFormat(
                "is the table of contents of a recording of Apple Instruments, without the tables",
                path=self._source.path,
                remedy=_COMMAND,
            )
        if self._schema is None and not contents:
            raise DamagedInput(
                "contains no table" if begun else "isn't an export of xctrace",
                path=self._source.path,
                expected="XML with a <schema>",
                remedy=f"check the path that was given to --xpath: {_COMMAND}",
            )

    def _scan(self, text: bytes) -> Int64 | None:
        return scan(text, len(self._schema.columns), self._values) if self._schema else None

    def _is_read(self) -> bool:
        """Whether the rows of the current table are read."""
        return not self._other_run and self._schema is not None and self._tables.reads(self._schema)

    def _owner(self) -> Owner:
        return "read" if self._is_read() else "skipped"

    def _rows(self, rows: Rows) -> Iterator[Batch]:
        """Gathers rows of the regular form up to a good size; reads others at once."""
        if rows.codes is not None:
            self._waiting.append(rows.codes)
            if sum(map(len, self._waiting)) >= _GATHERED:
                yield from self._gathered()
            return
        yield from self._gathered()
        schema = self._schema or Schema("", ())
        codes, damage, stray = read_rows(rows.text, len(schema.columns), self._values)
        for start, end in stray if self._is_read() else ():
            self._skip(rows, start, end)
        yield from self._batches(schema, codes, damage)

    def _skip(self, rows: Rows, start: int, end: int) -> None:
        """Reports text between rows, which were counted as read with it."""
        report, shown = self._conversion.report, rows.text[start:end].strip()[:40].decode(errors="replace")
        report.issue("unrecognised", f"{self._place}byte {rows.start + start}", repr(shown), 0)
        report.bytes.own("read", start - end)
        report.bytes.skip(rows.start + start, rows.start + end, self._place)

    def _gathered(self) -> Iterator[Batch]:
        """Yields the rows that wait, all of them of the table now being read."""
        if self._waiting and self._schema:
            codes = np.concatenate(self._waiting)
            self._waiting.clear()
            yield from self._batches(self._schema, codes, {})

    def _batches(self, schema: Schema, codes: Int64, damage: dict[int, str]) -> Iterator[Batch]:
        report, first = self._conversion.report, self._row
        self._empty.pop(schema.name, None)
        self._row += len(codes)
        report.record(len(codes))
        if not self._is_read():
            name = schema.name or "table without a schema"
            self._unread[f"{name}{_ANOTHER}" if self._other_run else name] += len(codes)
            return
        for row, why in damage.items():
            report.issue("bad-record", f"{self._place}{schema.name} row {first + row}", why)
        block = block_of(schema, codes, first, self._values, self._place)
        if damage:
            good = np.ones(len(codes), np.bool_)
            good[list(damage)] = False
            block = block.filter(pa.array(good))
        if len(block):
            yield from self._tables.read(schema.name, block)
