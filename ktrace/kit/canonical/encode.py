"""Writes rows of a batch as JSON text, a column at a time: the records of the canonical JSON forms.

    {"record":"event","source":"run","id":1,"ts":1000,"args":{"queued":0},"kind":"kernel","name":"gemm","dur":40,"timing":"measured"}

Null columns are left out; `args` and `facts` are embedded as their JSON text; NaN and the infinities are strings.
Arrow joins the texts of the columns, so Python code runs only for strings that need escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import WORD, Batch, arrow_schema, fields
from ktrace.model.json_rows import Cells, Part, as_text, join_rows
from ktrace.model.json_text import decoded, dump_json

#: Rows that are joined at once; this bounds the memory of the texts.
CHUNK = 16_384


def encode(batch: Batch, start: str = "", end: str = "\n") -> Iterator[memoryview]:
    """Yields the rows as bytes of JSON, each between `start` and `end`."""
    for offset in range(0, len(batch), CHUNK):
        yield as_bytes(json_rows(Batch(batch.record, batch.columns.slice(offset, CHUNK)), start, end))


def json_rows(batch: Batch, start: str = "", end: str = "") -> pa.BinaryArray:
    """One JSON text per row."""
    columns: dict[str, pa.Array] = {}
    for name in column_names(batch):
        column = batch.args_text() if name == "args" else batch.column(name)
        columns[name] = embedded(column) if is_json(batch.record, name) else column
    return _records(f'{start}{{"record":"{WORD[batch.record]}"', columns, len(batch), end)


def table_texts(rows: pa.RecordBatch, record: str | None, cell: Callable[[str, pa.Array], pa.Array]) -> list[bytes]:
    """The rows of a flat table of `record` (None: the union of all) as the JSON texts of their records.

    `cell` turns a column, given its name, into cells of JSON.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    words = columns.pop("record", None)
    if record:
        start: Part = f'{{"record":"{WORD[record]}"'
    else:
        start = Cells('{"record":', pc.fill_null(decoded(words), ""))
    cells = {name: cell(name, column) for name, column in columns.items() if column.null_count < len(column)}
    texts: list[bytes] = _records(start, cells, rows.num_rows).to_pylist()
    return texts


def _records(start: Part, columns: dict[str, pa.Array], rows: int, end: str = "") -> pa.BinaryArray:
    members = [Cells(f",{dump_json(name)}:", column) for name, column in columns.items()]
    return join_rows([start, *members, "}" + end], rows)


def column_names(batch: Batch) -> list[str]:
    """The columns of the batch: the model's columns in their order, then those of other packages."""
    own = [
        name for name in arrow_schema(batch.record).names if batch.has(name) or (name == "args" and batch.typed_args())
    ]
    return own + extra_columns(batch)


def extra_columns(batch: Batch) -> list[str]:
    """The columns of other packages, `x_...`."""
    return [name for name in batch.columns.schema.names if name.startswith("x_")]


def is_json(record: str, column: str) -> bool:
    """Whether the text of the column is JSON itself."""
    return fields(record).get(column, {}).get("x-arrow") == "json"


def embedded(column: pa.Array) -> pa.Array:
    """A column of JSON texts as cells: without line ends, which occur only between the tokens of JSON."""
    text = decoded(column)
    if not pa.types.is_string(text.type):  # of another program
        text = pa.array([None if value is None else dump_json(value) for value in text.to_pylist()], pa.string())
    if pc.any(pc.match_substring_regex(text, r"[\r\n]")).as_py():
        text = pc.replace_substring_regex(text, r"[\r\n]", " ")
    return as_text(text)


def as_bytes(rows: pa.BinaryArray) -> memoryview:
    """The texts of an array, joined; without a copy."""
    offsets = memoryview(rows.buffers()[1]).cast("i")
    first, last = offsets[rows.offset], offsets[rows.offset + len(rows)]
    return memoryview(rows.buffers()[2])[first:last]
