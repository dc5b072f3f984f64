"""The tables of a `Trace`: joins batches into Arrow tables, compares values, converts tables to DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ktrace.model.batch import DEVICE_KINDS, Batch, arrow_schema
from ktrace.model.json_text import decoded

if TYPE_CHECKING:
    import pandas as pd


def all_columns(batch: Batch) -> pa.RecordBatch:
    """Returns all columns of the model, dictionaries decoded to strings, followed by columns of other packages."""
    full = batch.full()
    arrays = [decoded(array) for array in full.columns]
    names = list(full.schema.names)
    for name in batch.columns.schema.names:
        if name.startswith("x_"):
            names.append(name)
            arrays.append(batch.columns.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def joined_table(record: str, parts: list[pa.RecordBatch]) -> pa.Table:
    """Joins the batches of one record into a table with the schema of the record."""
    if not parts:
        return arrow_schema(record).empty_table()
    table = pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="permissive")
    fields = {field.name: field for field in arrow_schema(record)}
    schema = pa.schema([fields.get(field.name, field) for field in table.schema])
    return table.combine_chunks().cast(schema).unify_dictionaries()


def values(table: pa.Table) -> dict[str, Any]:
    """Returns the columns that aren't entirely null, in a form in which equal values compare as equal."""
    return {
        name: comparable(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.null_count < len(column)
    }


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decodes dictionaries, and returns floats as their bits, so that NaN equals NaN."""
    import pyarrow.compute as pc

    if pa.types.is_float64(column.type):
        bits = [pc.if_else(pc.is_nan(chunk), float("nan"), chunk).view(pa.int64()) for chunk in column.chunks]
        return pa.chunked_array(bits, pa.int64())
    return decoded(column)


def data_frame(table: pa.Table) -> pd.DataFrame:
    """Returns a table as a DataFrame with nullable integers and strings."""
    import pandas as pd

    plain = pa.table({name: decoded(column) for name, column in zip(table.column_names, table.columns, strict=True)})
    types = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.string(): pd.StringDtype()}
    frame: pd.DataFrame = plain.to_pandas(types_mapper=types.get)
    return frame


def span_of(events: pa.Table) -> tuple[int, int] | None:
    """Returns the first begin and the last end of events in ns, None without events."""
    import pyarrow.compute as pc

    if not events.num_rows:
        return None
    ends = pc.add(events["ts"], pc.coalesce(events["dur"], pa.scalar(0, pa.int64())))
    return pc.min(events["ts"]).as_py(), pc.max(ends).as_py()


def device_time_of(events: pa.Table) -> int:
    """Returns the total duration of the device work among events, in ns."""
    import pyarrow.compute as pc

    mine = pc.is_in(decoded(events["kind"]), pa.array(DEVICE_KINDS))
    return pc.sum(events["dur"].filter(mine)).as_py() or 0
