"""Reads canonical Parquet, a file, a folder, or a dataset of many files; also some of its columns or rows.

`read` returns batches, for conversion; `texts` the records as texts, for `ktrace validate`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.capabilities import Pushdown
from ktrace.input.limits import current
from ktrace.input.source import Source, file_in
from ktrace.kit.canonical import BadRecord, check_version, embedded, is_json, table_texts
from ktrace.kit.canonical.flat_tables import FlatRows, record_of_columns
from ktrace.kit.canonical.record_batches import RecordBatches
from ktrace.kit.canonical.unique_ids import with_unique_ids
from ktrace.model.arrays import Int64
from ktrace.model.batch import VERSION, Batch, arrow_schema, union_schema
from ktrace.model.json_text import NOT_JSON, Fault, RecordRun, json_decoder
from ktrace.model.schema import RECORDS
from ktrace.parallel.threads import prefetch
from ktrace.store.joins import isin_sorted

from .dataset import dataset_of

#: Rows that `ktrace validate` checks at once.
CHECKED_ROWS = 16_384

#: Columns of text with few repeated values. All others are read as dictionaries.
_PLAIN = ("args", "facts", "key")

_DICTIONARIES = {
    field.name
    for field in union_schema()
    if pa.types.is_dictionary(field.type) or (pa.types.is_string(field.type) and field.name not in _PLAIN)
}

#: Columns that are always read: they separate the records, and a row without a required value is counted as bad.
_NEEDED = {"record", "dur"} | {field.name for record in RECORDS for field in arrow_schema(record) if not field.nullable}


#: Opens a file once more, with these texts as dictionaries, too.
_Again = Callable[[Iterable[str]], pq.ParquetFile]

#: About how many bytes of texts are read at once. The bytes of a row at least: its id.
_TEXT, _LEAST = 64 << 20, 8

#: Nothing is left out.
_ALL = Pushdown()


def read(source: Source, conversion: Conversion, pushdown: Pushdown = _ALL) -> Iterator[Batch]:
    """Yields the batches of the file, or of the files of a folder or dataset; the catalog of each file first.

    Raises DamagedInput for a file that is cut, or that isn't canonical, and VersionError.
    """
    files = _files(source, conversion, pushdown.ranks)
    batches = chain.from_iterable(_read_file(file, shown, conversion, pushdown) for file, shown in files)
    return with_unique_ids(batches, conversion.report, noted=pushdown.ids is not None)


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """Yields for each file its version as number 0, faults of its columns, its rows, and the facts of its footer."""
    number = 1
    for path, shown in _files(source):
        try:
            file = open_file(path, shown)
        except DamagedInput as error:
            yield Fault(0, "$", error.what)
            continue
        with file:
            number = yield from _file_texts(file, partial(open_file, path, shown), shown, number)


def _files(
    source: Source, conversion: Conversion | None = None, ranks: frozenset[int] | None = None
) -> Iterator[tuple[Path | BinaryIO, str]]:
    """The files to read, each with its path for messages; for a conversion the catalog first, and only some `ranks`.

    Raises DamagedInput for a folder without any of them.
    """
    if dataset := dataset_of(source):
        for shard in dataset.wanted(conversion, ranks) if conversion else dataset.shards():
            with dataset.opened(shard) as file:
                yield file, dataset.shown(shard)
    elif source.is_folder:
        records = ("catalog", *RECORDS[:-1]) if conversion else RECORDS
        names = [f"{record}.parquet" for record in records]
        files = [name for name in names if (Path(source.path) / name).exists()]
        if not files:
            raise DamagedInput(
                "has none of the files of a canonical folder",
                path=source.path,
                expected=", ".join(names),
                remedy="name the folder that ktrace wrote",
            )
        for name in files:
            inside = file_in(source, name)
            with inside.local_path() as path:
                yield path, inside.path
    else:
        with source.local_path() as path:
            yield path, source.path


def _read_file(path: Path | BinaryIO, shown: str, conversion: Conversion, pushdown: Pushdown) -> Iterator[Batch]:
    with open_file(path, shown) as file:
        current().check_inflated(_LEAST * file.metadata.num_rows, _size(path), shown)
        footer = file.metadata.metadata or {}
        names = file.schema_arrow.names
        if version := footer.get(b"ktrace.version"):
            check_version(version.decode("utf-8", "replace"), conversion, shown, "the footer")
        record = record_of(names, footer, shown)
        rows = FlatRows(conversion, record)
        yield from _catalog(_facts(footer, shown), conversion)
        to_read = _columns_to_read(names, record, pushdown.columns)
        ids = pushdown.ids if record != "catalog" else None
        try:
            again = partial(open_file, path, shown)
            for columns, first in prefetch(_parts(file, again, to_read, conversion.batch_rows, ids)):
                yield from rows.batches(columns, first, None if ids is None else _has_id(columns.column("id"), ids))
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise _damaged(shown, error) from None


def _file_texts(
    file: pq.ParquetFile, again: _Again, shown: str, number: int
) -> Generator[RecordRun | Fault, None, int]:
    """Yields the parts of a file that `texts` names; `number` is that of its first record. Returns the next number."""
    footer = file.metadata.metadata or {}
    if version := footer.get(b"ktrace.version"):
        yield RecordRun(0, None, [b'{"ktrace":%s}' % msgspec.json.encode(version.decode("utf-8", "replace"))])
    else:
        yield Fault(0, "$", 'the footer has no key "ktrace.version"')
    names = file.schema_arrow.names
    record = record_of(names, footer, shown)
    yield from _column_faults(file.schema_arrow, record, (version or VERSION.encode()) == VERSION.encode())
    try:
        for rows, first in _parts(file, again, names, CHECKED_ROWS, None):
            yield RecordRun(number + first - 1, None, table_texts(rows, record, _json_column))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        yield Fault(number, "$", _damaged(shown, error).what)
        return number
    number += file.metadata.num_rows
    try:
        facts = _facts(footer, shown)
    except DamagedInput as error:
        yield Fault(number, "$", error.what)
        return number
    yield RecordRun(number, None, list(map(bytes, facts)))
    return number + len(facts)


def _json_column(name: str, column: pa.Array) -> pa.Array:
    return embedded(column) if is_json("events", name) or is_json("catalog", name) else column


def _column_faults(schema: pa.Schema, record: str | None, exactly: bool) -> Iterator[Fault]:
    """Yields the faults of the columns themselves. A newer minor version may have more columns: `exactly` is false."""
    model = {field.name: field.type for field in (arrow_schema(record) if record else union_schema())}
    for field in schema:
        expected = _value_type(model.get(field.name, field.type))
        if field.name not in model and not field.name.startswith("x_") and exactly:
            yield Fault(0, f"$.{field.name}", "isn't a column of the model")
        elif _value_type(field.type) != expected:
            yield Fault(0, f"$.{field.name}", f"the column is of type {field.type}, in the model {expected}")


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _columns_to_read(names: list[str], record: str | None, columns: frozenset[str] | None) -> list[str]:
    """The columns of the file that are read; rows of the catalog are always read with all columns."""
    if columns is None or record == "catalog":
        return names
    needed = _NEEDED | columns | (set() if record else set(arrow_schema("catalog").names))
    return [name for name in names if name in needed]


def _parts(
    file: pq.ParquetFile, again: _Again, columns: list[str], size: int, ids: Int64 | None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields rows with the number of the first, from 1; with `ids`, only row groups that may contain one of them."""
    first = 1
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if ids is None or _may_have(group, ids):
            start, at_once = first, _at_once(group, number, again, columns, size)
            for rows in file.iter_batches(at_once, row_groups=[number], columns=columns):
                yield rows, start
                start += rows.num_rows
        first += group.num_rows


def _at_once(group: pq.RowGroupMetaData, number: int, again: _Again, columns: list[str], size: int) -> int:
    """How many of `size` rows to read at once: a text of a dictionary is a text of each row that names it.

    ktrace writes no dictionaries of texts that aren't read as such; others do.
    """
    chunks = (group.column(index) for index in range(group.num_columns))
    texts = [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.has_dictionary_page
        and chunk.physical_type == "BYTE_ARRAY"
        and (root := chunk.path_in_schema.partition(".")[0]) in columns
        and root not in _DICTIONARIES
    ]
    if not texts or not group.num_rows:
        return size
    with again(texts) as file:
        row = next(file.iter_batches(1, row_groups=[number], columns=texts))
    return max(1, min(size, _TEXT // max(1, *map(_longest, row.columns))))


def _longest(column: pa.Array) -> int:
    """The bytes of the longest text of a dictionary, which may be in lists."""
    while pa.types.is_list(column.type):
        column = column.values
    if not pa.types.is_dictionary(column.type):
        return 0
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)


def _size(file: Path | BinaryIO) -> int:
    return file.stat().st_size if isinstance(file, Path) else file.seek(0, os.SEEK_END)


def _may_have(group: pq.RowGroupMetaData, ids: Int64) -> bool:
    """Whether a row group may contain one of the ids: one is between the group's smallest and largest id."""
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    statistics = columns["id"].statistics if "id" in columns else None
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(np.searchsorted(ids, statistics.min) < np.searchsorted(ids, statistics.max, "right"))


def _has_id(column: pa.Array, ids: Int64) -> pa.BooleanArray:
    """A mask of the rows that have one of the ids."""
    given = column.cast(pa.int64()).fill_null(-1).to_numpy()
    return pa.array(isin_sorted(given, ids))


def _opened_if_odd(path: Path | BinaryIO) -> Path | BinaryIO:
    """The path, or a stream of the file where its name isn't UTF-8: Arrow can't open such names."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        assert isinstance(path, Path)
        return path.open("rb")
    return path


def open_file(path: Path | BinaryIO, shown: str, texts: Iterable[str] = ()) -> pq.ParquetFile:
    """Opens the file, with texts as dictionaries, also those of further columns. Raises DamagedInput."""
    try:
        path = _opened_if_odd(path)
        metadata = pq.read_metadata(path)
        dictionaries = sorted(_DICTIONARIES & set(metadata.schema.names)) + list(texts)
        file = pq.ParquetFile(path, metadata=metadata, read_dictionary=dictionaries)
        _ = file.schema_arrow.names  # may be of any bytes
        return file
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _damaged(shown, error) from None


def _damaged(path: str, error: Exception) -> DamagedInput:
    return DamagedInput(
        f"the Parquet file is damaged: {error}",
        path=path,
        expected="a complete file: its directory is at its end",
        remedy="copy or export it again; a Parquet file that was cut off can't be read",
    )


def record_of(names: list[str], footer: dict[bytes, bytes], path: str) -> str | None:
    """The record of the rows, None for the union of all; found by the columns where the footer was lost."""
    stated = footer.get(b"ktrace.record", b"").decode("utf-8", "replace")
    if stated in RECORDS:
        return stated
    if {"record", "source", "id"} <= set(names):
        return None
    record = record_of_columns(names)
    if record is None:
        raise DamagedInput(
            "isn't a canonical Parquet file",
            path=path,
            where=f"columns {', '.join(names[:8])}",
            expected="the columns of a record of ktrace's model, or their union with `record`",
            remedy="see docs/model.md",
        )
    return record


_RECORDS = json_decoder(list[msgspec.Raw])


def _facts(footer: dict[bytes, bytes], path: str) -> list[msgspec.Raw]:
    """The records of the catalog in a footer. Raises DamagedInput."""
    try:
        return _RECORDS(footer.get(b"ktrace.catalog", b"[]"))
    except NOT_JSON as error:
        raise DamagedInput(
            f'the catalog, "ktrace.catalog" in the footer, isn\'t a JSON list: {error}',
            path=path,
            where="ktrace.catalog in the footer",
            expected="a list of facts, as ktrace writes it",
            remedy="remove that key from the footer to read the rows alone, or export the file again",
        ) from None


def _catalog(facts: list[msgspec.Raw], conversion: Conversion) -> Iterator[Batch]:
    batches = RecordBatches(conversion)
    for number, fact in enumerate(facts, 1):
        conversion.report.record()
        try:
            batches.feed(bytes(fact), f"fact {number} in the footer")
            conversion.report.used(outcome="catalog")
        except BadRecord as bad:
            conversion.report.issue("bad-record", f"fact {number} in the footer", str(bad))
    yield from batches.rest()


__all__ = ["read"]
