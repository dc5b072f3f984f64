"""Canonical Parquet as texts of records, for `ktrace validate`: the types of the columns first, then the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.converters._shared.canonical.encode import is_json, one_line
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.model.batch import RECORDS, VERSION, WORD, arrow_schema, union_schema
from ktrace.model.json_rows import Cells, as_text, join_rows
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.record_texts import Fault, RecordRun

from .dataset import dataset_of
from .reader import open_file, record_of

ROWS = 16_384


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """The version as number 0, then the rows and after them the facts of the footer; the files of a folder in turn."""
    if not source.is_folder:
        with source.local_path() as path:
            yield from _file(path, source.path, 1)
        return
    number = 1
    for file, shown in _files(source):
        for item in _file(file, shown, number):
            number = item.number + len(item.texts) if isinstance(item, RecordRun) and item.number else number
            yield item


def _files(source: Source) -> Iterator[tuple[Path | BinaryIO, str]]:
    """The files of a folder or of a dataset, each with its path."""
    if dataset := dataset_of(source):
        for shard in dataset.shards():
            with dataset.opened(shard) as file:
                yield file, dataset.shown(shard)
        return
    for record in RECORDS:
        path = Path(source.path) / f"{record}.parquet"
        if path.exists():
            yield path, str(path)


def _file(path: Path | BinaryIO, shown: str, number: int) -> Iterator[RecordRun | Fault]:
    try:
        file = open_file(path, shown)
    except DamagedInput as error:
        yield Fault(0, "$", error.what)
        return
    with file:
        footer = file.metadata.metadata or {}
        if version := footer.get(b"ktrace.version"):
            yield RecordRun(0, None, [b'{"ktrace":%s}' % msgspec.json.encode(version.decode())])
        else:
            yield Fault(0, "$", 'the footer has no key "ktrace.version"')
        record = record_of(file.schema_arrow.names, footer, shown)
        yield from _columns(file.schema_arrow, record, (version or VERSION.encode()).decode() == VERSION)
        yield from _rows(file, record, number)
        number += file.metadata.num_rows
        try:
            facts = msgspec.json.decode(footer.get(b"ktrace.catalog", b"[]"), type=list[msgspec.Raw])
            yield RecordRun(number, None, list(map(bytes, facts)))
        except (msgspec.DecodeError, RecursionError) as error:
            yield Fault(number, "$", f'the catalog, "ktrace.catalog" in the footer, is no list of JSON: {error}')


def _columns(found: pa.Schema, record: str | None, exactly: bool) -> Iterator[Fault]:
    """What is wrong with the columns themselves. In a file of a newer minor version there may be more of them."""
    model = {field.name: field.type for field in (arrow_schema(record) if record else union_schema())}
    for field in found:
        expected = _value_type(model.get(field.name, field.type))
        if field.name not in model and not field.name.startswith("x_") and exactly:
            yield Fault(0, f"$.{field.name}", "is no column of the model")
        elif _value_type(field.type) != expected:
            yield Fault(0, f"$.{field.name}", f"the column is of type {field.type}, in the model {expected}")


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _rows(file: pq.ParquetFile, record: str | None, number: int) -> Iterator[RecordRun]:
    groups = range(file.num_row_groups)
    for rows in file.iter_batches(ROWS, groups) if groups else ():  # pyarrow 18 refuses a file without row groups
        if record:
            words = pa.array([WORD[record]] * rows.num_rows, pa.string())
        else:
            words = pc.fill_null(decoded(rows.column("record")), "")
        members = [Cells('{"record":', words)]
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if name != "record":
                embedded = is_json("events", name) or is_json("catalog", name)
                members.append(Cells(f",{dump_json(name)}:", as_text(one_line(column)) if embedded else column))
        yield RecordRun(number, None, join_rows([*members, "}"], rows.num_rows).to_pylist())
        number += rows.num_rows
