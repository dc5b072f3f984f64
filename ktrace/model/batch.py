"""The canonical model in memory: Arrow batches of four records.

The columns come from `schema/ktrace-1.schema.json`, the one source of truth:

    events      one thing that happened, at a time
    summaries   the statistics of one metric of one thing
    links       one end of an arrow
    catalog     a fact about a source, device, stream, name, ...
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import cache
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.json_rows import fold_args
from ktrace.model.json_text import decoded
from ktrace.model.schema import RECORDS, WORD, fields, json_schema

VERSION = "1.0"

DEVICE_KINDS = ("kernel", "memcpy", "memset", "graph")
HOST_KINDS = ("api", "op")
SLICE_KINDS = (*DEVICE_KINDS, *HOST_KINDS, "range", "sync", "alloc", "overhead")
#: Kinds whose events are slices even without a duration (`masks.slice_mask`).
ALWAYS_SLICES = tuple(kind for kind in SLICE_KINDS if kind != "alloc")
POINT_KINDS = ("instant", "log", "sample", "counter")
#: Kinds of events and summaries; kinds that other packages add begin with "x_".
KINDS = (*SLICE_KINDS, *POINT_KINDS, "metric", "note", "total")

#: The columns that identify the track of a row.
TRACK_COLUMNS = ("source", "host", "pid", "tid", "device", "context", "stream", "track")

#: Entities whose key includes `name`; for other entities the name is only shown.
NAMED_ENTITIES = frozenset({"clock", "name", "metric", "stack"})

#: Columns that exist only inside the pipeline. `half`: begin or end of a slice yet to be paired.
#: `lane`: 0, or the extra row of its track where a slice nests. `run`: the run of a slice laid out from a table.
INTERNAL = {
    "half": pa.dictionary(pa.int32(), pa.string()),
    "lane": pa.int32(),
    "run": pa.dictionary(pa.int32(), pa.string()),
}

_ARROW = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "list<string>": pa.list_(pa.string()),
    "json": pa.string(),
}


@cache
def arrow_schema(record: str) -> pa.Schema:
    """The Arrow schema of `record` with every column of the model. Required columns are not nullable."""
    required = set(json_schema()["$defs"][WORD[record]]["required"])
    return pa.schema(
        pa.field(name, _ARROW[spec["x-arrow"]], nullable=name not in required) for name, spec in fields(record).items()
    )


@cache
def union_schema() -> pa.Schema:
    """The Arrow schema of one-file forms: `record` first, then the columns of all records."""
    columns = {"record": _ARROW["dictionary"]}
    for record in RECORDS:
        columns |= {field.name: field.type for field in arrow_schema(record)}
    return pa.schema(columns.items())


def is_required(record: str, column: str) -> bool:
    """Whether `column` of `record` is never null."""
    return not arrow_schema(record).field(column).nullable


class EventRows(Protocol):
    """Rows of events with columns by name: a `Batch`, or a batch of a timeline."""

    def __len__(self) -> int: ...

    def has(self, name: str) -> bool:
        """Whether the column is there; one that isn't is null in all rows."""

    def column(self, name: str) -> pa.Array:
        """The column; all null if no row has it."""


class Batch(msgspec.Struct, frozen=True):
    """Some rows of one record, as columns.

    `columns` has a subset of the record's columns; an absent column is null in all rows. A text column
    may be a dictionary. There may also be the internal columns and typed arguments `args.<key>`, which a table
    writer folds into `args` by `args_text`. The Arrow type of a typed argument is one of these:

        int64, float64, bool      a number, true or false
        string                    a text
        binary                    the JSON text of any value, as the source wrote it: b"[[4096,8192],[]]", b"null"

    string and binary may be dictionaries; null means that the row doesn't have the key.
    """

    record: str
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def has(self, name: str) -> bool:
        """Whether the column is there; one that isn't is null in all rows."""
        return bool(self.columns.schema.get_field_index(name) >= 0)

    def column(self, name: str) -> pa.Array:
        """The column; all null, with its type in the model, if the batch doesn't have it."""
        if (place := self.columns.schema.get_field_index(name)) >= 0:
            return self.columns.column(place)
        if name in INTERNAL:
            return pa.nulls(len(self), INTERNAL[name])
        return pa.nulls(len(self), arrow_schema(self.record).field(name).type)

    def arrays(self) -> dict[str, pa.Array]:
        """The columns that are there, by their names."""
        return dict(zip(self.columns.schema.names, self.columns.columns, strict=True))

    def replaced(self, columns: Mapping[str, pa.Array]) -> Batch:
        """Returns the batch with these columns, in place of those of their names."""
        return Batch(self.record, pa.RecordBatch.from_pydict({**self.arrays(), **columns}))

    def typed_args(self) -> list[str]:
        """Names of the `args.<key>` columns."""
        return [name for name in self.columns.schema.names if name.startswith("args.")]

    def argument(self, key: str, rows: pa.Array) -> pa.Array:
        """The values of an argument in some rows, as texts; null where a row doesn't have it."""
        if self.has(f"args.{key}"):
            return decoded(self.column(f"args.{key}").take(rows)).cast(pa.string())
        if not self.has("args"):
            return pa.nulls(len(rows), pa.string())
        texts = decoded(self.column("args").take(rows)).cast(pa.string())
        value = r'(?:"(?P<text>(?:[^"\\\\]|\\\\.)*)"|(?P<bare>[^"{\[,}\]]+))'
        found = pc.extract_regex(texts, f'"{re.escape(key)}": ?{value}')
        text, bare = pc.struct_field(found, "text"), pc.struct_field(found, "bare")
        return pc.if_else(pc.equal(bare, ""), text, bare)

    def args_text(self, keys: Container[str] | None = None) -> pa.Array:
        """`args` as JSON text, followed by the typed `args.<key>` columns: all, or those with these keys."""
        text = self.column("args")
        typed = [
            name
            for name in self.typed_args()
            if (keys is None or name.removeprefix("args.") in keys) and self.columns.column(name).null_count < len(self)
        ]
        return fold_args(text, {name.removeprefix("args."): self.columns.column(name) for name in typed})

    def full(self) -> pa.RecordBatch:
        """All columns of the record in the order of the model, with folded arguments and without internal columns."""
        schema = arrow_schema(self.record)
        arrays = [self.args_text() if field.name == "args" else self.column(field.name) for field in schema]
        typed = [
            array if array.type.equals(field.type) else array.cast(field.type)
            for array, field in zip(arrays, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(typed, schema=schema)
