"""The tables of a `Trace`: its batches as Arrow tables, DataFrames, and the form of Holistic Trace Analysis (HTA).

index cat          name               pid  tid  ts  dur stream correlation index_correlation iteration end
    7 cuda_runtime cudaLaunchKernel  4242 4242 167    6     -1         102                49         3 173
   49 kernel       at::native::...      0    7 173   13      7         102                 7         3 186

The columns have the values that `parse_trace_file` of HTA (facebookresearch/HolisticTraceAnalysis, hta/common/trace.py
and trace_parser.py) computes from Kineto's JSON. Here they come from any format.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ktrace.model.batch import DEVICE_KINDS, Batch, arrow_schema
from ktrace.model.json_text import decoded

if TYPE_CHECKING:
    import pandas as pd

    from ktrace.model.catalog import Catalog


def stored_columns(batch: Batch) -> pa.RecordBatch:
    """Returns the columns that a batch has, with the types of the model but dictionaries decoded to strings.

    Required columns are there in any case, columns of other packages follow.
    """
    typed = batch.typed_args()
    arrays: list[pa.Array] = []
    names: list[str] = []
    for field in arrow_schema(batch.record):
        if not batch.has(field.name) and field.nullable and not (typed and field.name == "args"):
            continue
        array = batch.args_text() if field.name == "args" else batch.column(field.name)
        arrays.append(decoded(array if array.type.equals(field.type) else array.cast(field.type)))
        names.append(field.name)
    for name in batch.columns.schema.names:
        if name.startswith("x_"):
            names.append(name)
            arrays.append(batch.columns.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def joined_table(record: str, parts: list[pa.RecordBatch]) -> pa.Table:
    """Joins the `stored_columns` of batches of one record into a table with the schema of the record."""
    if not parts:
        return arrow_schema(record).empty_table()
    table = pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="permissive")
    fields = {field.name: field for field in arrow_schema(record)}
    table = table.combine_chunks().cast(pa.schema([fields.get(field.name, field) for field in table.schema]))
    stored = dict(zip(table.schema.names, zip(table.schema, table.columns, strict=True), strict=True))
    every = {name: (field, None) for name, field in fields.items()} | stored
    columns = [pa.nulls(table.num_rows, field.type) if column is None else column for field, column in every.values()]
    return pa.Table.from_arrays(columns, schema=pa.schema([field for field, _ in every.values()])).unify_dictionaries()


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
    """Returns the first start and the last end of events in ns, None without events."""
    import pyarrow.compute as pc

    if not events.num_rows:
        return None
    ends = pc.add(events["ts"], pc.coalesce(events["dur"], pa.scalar(0, pa.int64())))
    return pc.min(events["ts"]).as_py(), pc.max(ends).as_py()


def device_time_of(events: pa.Table) -> int:
    """Returns the total duration of the device work among events, in ns."""
    import pyarrow.compute as pc

    is_work = pc.is_in(decoded(events["kind"]), pa.array(DEVICE_KINDS))
    return pc.sum(events["dur"].filter(is_work)).as_py() or 0


#: Kind -> Kineto's category, for sources without Kineto's categories. Ranges on a device are gpu_user_annotation.
CATEGORIES = {
    "kernel": "kernel",
    "graph": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "api": "cuda_runtime",
    "op": "cpu_op",
    "range": "user_annotation",
    "sync": "cuda_sync",
    "overhead": "overhead",
}

#: Categories of Kineto that are kept.
_KNOWN = {*CATEGORIES.values(), "gpu_user_annotation", "cuda_driver", "python_function", "cuda_profiler_range"}

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")

COLUMNS = (
    *("index", "cat", "name", "pid", "tid", "ts", "dur", "stream"),
    *("correlation", "index_correlation", "iteration", "end"),
)


def to_hta(events: pd.DataFrame, catalog: Catalog) -> dict[int, pd.DataFrame]:
    """Returns a DataFrame per rank, like `TraceAnalysis.t.traces` of HTA. Sources without a rank get free numbers.

    The columns are those of `COLUMNS`: int64, except for the texts `cat` and `name` (HTA has ids of its symbol table).
    Times are whole microseconds; like HTA this rounds begins up and ends down, so that slices that don't overlap still
    don't afterwards. A slice within one microsecond has `dur` 0. Rows are slices with an end, as in HTA.
    """
    frames: dict[int, pd.DataFrame] = {}
    sources = {str(source): rows for source, rows in events.groupby("source", sort=False, observed=True)}
    for source in sorted(sources, key=lambda label: catalog.rank(label) is None):
        rank = catalog.rank(source)
        if rank is None or rank in frames:
            rank = next(number for number in range(len(sources)) if number not in frames)
        frames[rank] = _frame(sources[source])
    return dict(sorted(frames.items()))


def _frame(events: pd.DataFrame) -> pd.DataFrame:
    """Returns the events of one source. Rows are numbered from 1, since 0 means a missing partner in HTA."""
    import pandas as pd

    rows = events[events["dur"].notna() & events["kind"].isin([*CATEGORIES])].reset_index(drop=True)
    frame = pd.DataFrame({"index": range(1, len(rows) + 1)}, dtype="int64")
    on_device = rows["kind"].isin(DEVICE_KINDS) | rows["stream"].notna()
    by_kind = rows["kind"].map(CATEGORIES).mask(on_device & (rows["kind"] == "range"), "gpu_user_annotation")
    frame["cat"] = rows["cat"].where(rows["cat"].isin(_KNOWN), by_kind).astype("string")
    frame["name"] = rows["name"]
    stream = rows["stream"].fillna(0).where(on_device, -1)
    frame["pid"] = rows["pid"].mask(on_device, rows["device"]).fillna(0).astype("int64")
    frame["tid"] = rows["tid"].mask(on_device, stream).fillna(0).astype("int64")
    end_ns = rows["ts"].astype("int64") + rows["dur"].astype("int64")
    frame["ts"] = -(-rows["ts"].astype("int64") // 1000)
    frame["dur"] = (end_ns // 1000 - frame["ts"]).clip(lower=0)
    frame["stream"] = stream.astype("int64")
    frame["correlation"] = rows["correlation"].fillna(-1).astype("int64")
    frame = frame.set_index("index", drop=False).rename_axis(None)
    frame["index_correlation"] = _partners(frame, rows)
    frame["iteration"] = _iterations(frame, rows)
    frame["end"] = frame["ts"] + frame["dur"]
    return frame[list(COLUMNS)]


def _partners(frame: pd.DataFrame, rows: pd.DataFrame) -> pd.Series[int]:
    """Returns the row of a call's device work or of the work's call; 0 if missing, -1 without a correlation id."""
    partners = frame["correlation"].clip(upper=0)
    pids = rows["pid"].set_axis(frame.index)
    linked = frame[["index", "correlation"]].assign(pid=pids)[frame["correlation"] >= 0]
    host = linked[frame.loc[linked.index, "stream"] < 0]
    pairs = host.merge(linked[frame.loc[linked.index, "stream"] >= 0], on="correlation", suffixes=("_host", "_work"))
    pairs = pairs[pairs["pid_work"].isna() | pairs["pid_host"].isna() | (pairs["pid_work"] == pairs["pid_host"])]
    partners.loc[pairs["index_host"]] = pairs["index_work"].to_numpy()
    partners.loc[pairs["index_work"]] = pairs["index_host"].to_numpy()
    return partners


def _iterations(frame: pd.DataFrame, rows: pd.DataFrame) -> pd.Series[int]:
    """Returns the N of the `ProfilerStep#N` in which a host row begins, for device work that of its call, or -1."""
    import pandas as pd

    rows = rows.set_axis(frame.index)
    on_host = frame["stream"] < 0
    iterations = pd.Series(-1, index=frame.index)
    steps = rows[on_host & rows["name"].str.match(_STEP.pattern)]
    numbers = steps["name"].str.extract(_STEP)[0].astype(int)
    for number, begin, dur in zip(numbers, steps["ts"], steps["dur"], strict=True):
        iterations[on_host & rows["ts"].between(begin, begin + dur, inclusive="left")] = number
    work = frame.index[~on_host & (frame["index_correlation"] > 0)]
    iterations.loc[work] = iterations.loc[frame.loc[work, "index_correlation"]].to_numpy()
    return iterations
