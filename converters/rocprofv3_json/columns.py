"""Values of records as Arrow columns, with the names of the same values in rocpd.

dispatch_info.workgroup_size.x   workgroup_size_x
dispatch_info.agent_id.handle    agent_id
correlation_id.internal          correlation_id.internal
"""

from __future__ import annotations

import pyarrow as pa

from ktrace.kit.columnar.blocks import Block
from ktrace.model.json_text import dump_json

from .walk import Records

_TIMES = ("start_timestamp", "end_timestamp", "timestamp")
_LATE = 1 << 62

#: Columns of whole numbers. Other values become an argument whose name has a "$".
_WHOLE = frozenset(
    {
        *("thread_id", "dispatch_id", "private_segment_size", "group_segment_size", "queue_id", "stream_id", "bytes"),
        *(
            "allocation_size",
            "correlation_id",
            *(f"correlation_id.{of}" for of in ("internal", "external", "ancestor")),
        ),
        *(f"{of}_size_{axis}" for of in ("workgroup", "grid") for axis in "xyz"),
    }
)

#: Sizes of the records' C structures.
_STRUCTURES = ("size", "dispatch_info.size", "dispatch_data.size", "dispatch_data.dispatch_info.size")


def block_of(records: Records, *, left_out: tuple[str, ...] = ()) -> Block:
    """Returns the records as a block; columns with numbers beyond int64 are JSON texts."""
    columns: dict[str, pa.Array] = {}
    for key, values in records.columns.items():
        if key in _STRUCTURES or key in left_out:
            continue
        name = _name(key)
        name = name if name not in columns else key
        if name in _TIMES:
            columns[name] = times(values)
        elif name in ("agent_id", "src_agent_id", "dst_agent_id"):
            columns[name] = wholes(values, 0, (1 << 64) - 1, pa.uint64())
        elif name in _WHOLE:
            columns[name] = wholes(values, -(1 << 63), (1 << 63) - 1, pa.int64())
            if columns[name].null_count > values.count(None):
                whole = columns[name].is_valid().to_pylist()
                columns[f"${name}"] = column([None if ok else value for ok, value in zip(whole, values, strict=True)])
        else:
            columns[name] = column(values)
    numbers = pa.array(range(records.first + 1, records.first + records.rows + 1), pa.int64())
    return Block(f"{'.'.join(records.path)} record", numbers, columns)


def _name(key: str) -> str:
    parts = [part for part in key.split(".") if part not in ("dispatch_info", "dispatch_data", "handle")]
    if parts[:-1] in (["workgroup_size"], ["grid_size"]):
        return "_".join(parts)
    return ".".join(parts) or key


def column(values: list[object]) -> pa.Array:
    """A column of whole numbers, numbers, texts or booleans, else of JSON."""
    kinds = {type(value) for value in values} - {type(None)}
    wanted = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    try:
        if len(kinds) == 1 and (kind := kinds.pop()) in wanted:
            return pa.array(values, wanted[kind])
        if not kinds:
            return pa.nulls(len(values), pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        pass
    return pa.array([None if value is None else dump_json(value).encode() for value in values], pa.binary())


def wholes(values: list[object], least: int, greatest: int, kind: pa.DataType) -> pa.Array:
    """A column of whole numbers, null for other values."""
    if {type(value) for value in values} <= {int, type(None)}:
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            pass
    return pa.array([value if type(value) is int and least <= value <= greatest else None for value in values], kind)


def times(values: list[object]) -> pa.Array:
    """A column of times in ns; numbers beyond int64 are out of range, values that aren't whole numbers null."""
    if {type(value) for value in values} <= {int, type(None)}:
        try:
            return pa.array(values, pa.int64())
        except (OverflowError, pa.ArrowInvalid):
            pass
    return pa.array([max(-_LATE, min(value, _LATE)) if type(value) is int else None for value in values], pa.int64())
