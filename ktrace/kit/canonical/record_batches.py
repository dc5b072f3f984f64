"""Records of JSON become batches: many lines at once where all of them match the model, else one at a time.

A block of lines is decoded straight into columns. Where one of its lines doesn't match the model, the block is
refused as a whole; the caller then passes its records one by one, and the fault is reported with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.canonical import ABSENT, RECORD, RecordDecoder, Row, is_json, record_decoder
from ktrace.kit.columnar.dictionaries import is_utf8, no_gc
from ktrace.model.batch import Batch, arrow_schema, is_required
from ktrace.model.json_text import NOT_JSON, SPECIAL, refuse_deep
from ktrace.model.schema import RECORDS


class RecordBatches:
    """Collects records as columns and yields batches, the rows of each record together.

    Blocks are decoded with the columns that earlier blocks had: fewer columns are faster.
    """

    def __init__(self, conversion: Conversion) -> None:
        self._report = conversion.report
        self._size = conversion.batch_rows
        self._decoder = RecordDecoder(conversion.report)
        self._rows: dict[str, list[Row]] = {record: [] for record in RECORDS}
        self._extra: dict[str, dict[int, dict[str, Any]]] = {record: {} for record in RECORDS}
        self._tables: dict[str, list[pa.Table]] = {record: [] for record in RECORDS}
        self._waiting = dict.fromkeys(RECORDS, 0)
        self._expected: dict[str, frozenset[str]] = {}

    def feed(self, text: bytes, where: str) -> str:
        """Adds one record and returns its name. Raises BadRecord."""
        record, row, extra = self._decoder.decode(text, where)
        if extra:
            self._extra[record][len(self._rows[record])] = extra
        self._rows[record].append(row)
        self._waiting[record] += 1
        return record

    def take_block(self, text: bytes, count: int, document: bool = False) -> bool:
        """Adds `count` records on lines and reports them as used. In a `document`, commas separate them.

        Returns False, and adds nothing, where one of them doesn't match this version of the model.
        """
        if not is_utf8(text):
            return False
        with no_gc():
            rows = self._decode_block(text, document)
            if rows is None or len(rows) != count:
                return False
            columns_by_record = {
                record: _columns(record, rows_of_record) for record, rows_of_record in _by_record(rows)
            }
        if any(columns is None for columns in columns_by_record.values()):
            return False
        for record, columns in columns_by_record.items():
            assert columns is not None
            self._expected[record] = self._expected.get(record, frozenset()).union(columns)
            self._settle(record)
            table = pa.table(columns)
            self._tables[record].append(table)
            self._waiting[record] += table.num_rows
            self._report.used(table.num_rows, outcome="catalog" if record == "catalog" else None)
        return True

    def ready(self) -> Iterator[Batch]:
        """Yields the full batches."""
        for record, count in self._waiting.items():
            if count >= self._size:
                yield from self._batches(record, full_only=True)

    def rest(self) -> Iterator[Batch]:
        """Yields all remaining rows."""
        for record in RECORDS:
            yield from self._batches(record)

    def _settle(self, record: str) -> None:
        """Makes a table of the rows that were added one by one."""
        rows, self._rows[record] = self._rows[record], []
        extra, self._extra[record] = self._extra[record], {}
        if not rows:
            return
        columns = _columns(record, rows)
        assert columns is not None, "RecordDecoder refuses what isn't an object"
        for name in dict.fromkeys(name for more in extra.values() for name in more):
            columns[name] = pa.array([extra.get(index, {}).get(name) for index in range(len(rows))])
        self._tables[record].append(pa.table(columns))

    def _batches(self, record: str, *, full_only: bool = False) -> Iterator[Batch]:
        self._settle(record)
        tables, self._tables[record] = self._tables[record], []
        if not tables:
            return
        self._waiting[record] = 0
        table = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
        (rows,) = table.to_batches()
        for start in range(0, table.num_rows, self._size):
            part = rows.slice(start, self._size)
            if full_only and part.num_rows < self._size:
                self._tables[record] = [table.slice(start)]
                self._waiting[record] = part.num_rows
            else:
                yield Batch(record, part)

    def _decode_block(self, text: bytes, document: bool) -> list[Row] | None:
        """Decodes records as structs, with the expected columns, else with all of the model."""
        expected = tuple(self._expected.items())
        if document:
            text = b"[" + text.rstrip(b" \t\r\n,") + b"]"
        for columns in (expected, ()) if expected else ((),):
            decoder = record_decoder(columns, as_list=document)
            try:
                refuse_deep(text)
                rows: list[Row] = decoder.decode(text) if document else decoder.decode_lines(text)
            except NOT_JSON:
                continue
            return rows
        return None


def _by_record(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The structs of each record, in their order."""
    kinds: set[Any] = set(map(type, rows))
    by_tag = {RECORD[kind.__struct_config__.tag]: kind for kind in kinds}
    for record in RECORDS:
        if record in by_tag:
            kind = by_tag[record]
            yield record, rows if len(kinds) == 1 else [row for row in rows if type(row) is kind]


def _columns(record: str, rows: list[Row]) -> dict[str, pa.Array] | None:
    """The columns that have a value; None where `args` or `facts` isn't an object."""
    names = rows[0].__struct_fields__
    given = dict(zip(names, zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True))
    columns = {}
    for field in arrow_schema(record):
        values = given.get(field.name)
        if values is None:
            continue
        column = _objects(values) if is_json(record, field.name) else _array(values, field.type)
        if column is None:
            return None
        if column.null_count < len(column) or is_required(record, field.name):
            columns[field.name] = column
    return columns


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        values = [SPECIAL[value] if isinstance(value, str) else value for value in values]
    return pa.array(values, kind)


def _objects(values: Sequence[Any]) -> pa.StringArray | None:
    """JSON texts, null where they are absent or null; None where one of them isn't an object."""
    texts = pa.array([None if raw is ABSENT else bytes(raw) for raw in values], pa.binary())
    if texts.null_count == len(texts):
        return texts.view(pa.string())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    begins = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[:-1][offsets[1:] > offsets[:-1]]]
    if np.all(begins == ord("{")):
        return texts.view(pa.string())
    if np.all((begins == ord("{")) | (begins == ord("n"))):
        return pa.array([None if text == b"null" else text for text in texts.to_pylist()], pa.string())
    return None
