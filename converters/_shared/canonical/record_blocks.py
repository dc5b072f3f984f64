"""Many records at once: lines that are all as the model says become columns without a look at each of them.

A block that isn't taken is nobody's fault: the records of it are read one by one then, and what is wrong is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.model.batch import RECORDS, Batch, arrow_schema, is_required
from ktrace.model.json_text import SPECIAL

from ..columnar.decoding import is_utf8, no_gc
from .encode import is_json
from .records import ABSENT, RECORD, decoder_of


class Blocks:
    """Decodes blocks of records. It expects the columns that the last blocks had: fewer are faster."""

    def __init__(self, conversion: Conversion) -> None:
        self._report = conversion.report
        self._size = conversion.batch_rows
        self._columns: dict[str, frozenset[str]] = {}
        self._held: dict[str, list[pa.Table]] = {record: [] for record in RECORDS}

    def take(self, text: bytes, count: int, document: bool = False) -> bool:
        """Takes `text`, `count` records on lines, and accounts for them. In a `document` commas are between them.

        False where a record of it isn't as this version of the model says; then none is taken.
        """
        if not is_utf8(text):
            return False
        with no_gc():
            rows = self._decoded(text, document)
            if rows is None or len(rows) != count:
                return False
            found = {record: (len(mine), _columns(record, mine)) for record, mine in _by_record(rows)}
        if any(columns is None for _, columns in found.values()):
            return False
        for record, (number, columns) in found.items():
            assert columns is not None
            self._columns[record] = self._columns.get(record, frozenset()).union(columns)
            self._held[record].append(pa.table(columns))
            self._report.used(number, outcome="catalog" if record == "catalog" else None)
        return True

    def ready(self) -> Iterator[Batch]:
        """The batches that are full."""
        for record, tables in self._held.items():
            if sum(table.num_rows for table in tables) >= self._size:
                yield from self._batches(record, whole_only=True)

    def rest(self) -> Iterator[Batch]:
        """What is left."""
        for record in RECORDS:
            yield from self._batches(record)

    def _batches(self, record: str, *, whole_only: bool = False) -> Iterator[Batch]:
        tables, self._held[record] = self._held[record], []
        if not tables:
            return
        table = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
        (rows,) = table.to_batches()
        for start in range(0, table.num_rows, self._size):
            part = rows.slice(start, self._size)
            if whole_only and part.num_rows < self._size:
                self._held[record] = [table.slice(start)]
            else:
                yield Batch(record, part)

    def _decoded(self, text: bytes, document: bool) -> list[Any] | None:
        """The records as structs, by the columns that are expected, else by all of the model."""
        expected = tuple((record, columns) for record, columns in self._columns.items())
        if document:
            text = b"[" + text.rstrip(b" \t\r\n,") + b"]"
        for columns in (expected, ()) if expected else ((),):
            decoder = _decoder(columns, document)
            try:
                rows: list[Any] = decoder.decode(text) if document else decoder.decode_lines(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            return rows
        return None


@cache
def _decoder(expected: tuple[tuple[str, frozenset[str]], ...], document: bool) -> msgspec.json.Decoder[Any]:
    """Decodes records, or a list of them; of the records in `expected` those columns only."""
    return decoder_of(dict(expected), as_list=document)


def _by_record(rows: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The structs of each record, in their order."""
    kinds = set(map(type, rows))
    found = {RECORD[kind.__struct_config__.tag]: kind for kind in kinds}  # type: ignore[attr-defined]
    for record in RECORDS:
        if record in found:
            kind = found[record]
            yield record, rows if len(kinds) == 1 else [row for row in rows if type(row) is kind]


def _columns(record: str, rows: list[Any]) -> dict[str, pa.Array] | None:
    """The columns that aren't null throughout; None where `args` or `facts` is no object."""
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
    """JSON texts, null where they are absent or null; None where one of them is no object."""
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
