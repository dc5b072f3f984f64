"""Values of records as Arrow columns, under the names that the same things have in rocpd.

dispatch_info.workgroup_size.x   workgroup_size_x
dispatch_info.agent_id.handle    agent_id
correlation_id.internal          correlation_id.internal
"""

from __future__ import annotations

import pyarrow as pa

from ktrace.jsontext import dump_json

from .._shared.blocks import Block
from .walk import Records

_TIMES = ("start_timestamp", "end_timestamp", "timestamp")
_LATE = 1 << 62

#: Sizes of the C structures that the records were.
_STRUCTURES = ("size", "dispatch_info.size", "dispatch_data.size", "dispatch_data.dispatch_info.size")


def block_of(records: Records, *, left_out: tuple[str, ...] = ()) -> Block:
    """The records as a block; those numbers that no int64 holds are texts of JSON."""
    columns: dict[str, pa.Array] = {}
    for key, values in records.columns.items():
        if key in _STRUCTURES or key in left_out:
            continue
        name = _name(key)
        name = name if name not in columns else key
        handles = key.endswith("agent_id.handle")
        columns[name] = times(values) if name in _TIMES else agents(values) if handles else column(values)
    numbers = pa.array(range(records.first + 1, records.first + records.rows + 1), pa.int64())
    return Block(f"{'.'.join(records.path)} record", numbers, columns)


def _name(key: str) -> str:
    parts = [part for part in key.split(".") if part not in ("dispatch_info", "dispatch_data", "handle")]
    if parts[:-1] in (["workgroup_size"], ["grid_size"]):
        return "_".join(parts)
    return ".".join(parts) or key


def column(values: list[object]) -> pa.Array:
    """A column of whole numbers, numbers, texts or truths, else of JSON."""
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


def agents(values: list[object]) -> pa.Array:
    """Handles of agents, which may fill 64 bits; they never become arguments."""
    try:
        return pa.array(values, pa.uint64())
    except (OverflowError, pa.ArrowInvalid, TypeError):
        return column(values)


def times(values: list[object]) -> pa.Array:
    """A column of times in ns; what no int64 holds is beyond all times, what is no whole number null."""
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid, TypeError):
        whole = (value if isinstance(value, int) else None for value in values)
        return pa.array([None if value is None else min(value, _LATE) for value in whole], pa.int64())
