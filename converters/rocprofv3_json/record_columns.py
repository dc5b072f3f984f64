"""Records of a list as columns: decoded as structs with the keys seen in it, then in Arrow with the names of rocpd.

    {"kind": 11, "correlation_id": {"internal": 3}}     a struct with a struct in it
    correlation_id.internal          [3, 4, 5]          a column
    dispatch_info.workgroup_size.x   workgroup_size_x   its name
    dispatch_info.agent_id.handle    agent_id

Structs are decoded twice as fast as dicts, and refuse an unknown key, so that no key is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from ktrace.kit.columnar.blocks import Block
from ktrace.model.json_text import dump_json

#: Keys beyond which those of earlier records are forgotten: every record has a cell for each known key.
MOST_KEYS = 500

#: Key of a shape -> the keys of the object there, None for any other value.
Tree = dict[str, Any]


class Shape:
    """The shape of the records of a list, learned from them."""

    def __init__(self) -> None:
        self._tree: Tree = {}
        self._decode: Any = None
        self._leaves: list[tuple[tuple[str, ...], str]] = []

    def decode(self, text: bytes) -> list[object]:
        """Returns the records of a JSON list. Raises msgspec.DecodeError."""
        for _ in range(2):
            if self._decode is not None:
                try:
                    rows: list[object] = self._decode(text)
                    return rows
                except msgspec.ValidationError:
                    pass
            self._learn(msgspec.json.decode(text, type=list[dict[str, Any]]))
        try:
            learned: list[object] = self._decode(text)
        except msgspec.ValidationError:  # a key that is an object in one record and a number in another
            self._decode = msgspec.json.Decoder(list[dict[str, Any]]).decode
            learned = self._decode(text)
        return learned

    def _learn(self, records: Iterable[dict[str, Any]]) -> None:
        if len(self._leaves) > MOST_KEYS:
            self._tree = {}
        for record in records:
            _merge(self._tree, record)
        self._leaves = list(_leaves(self._tree, (), ()))
        try:
            kind = _struct(self._tree)
        except ValueError:  # a key that can't be a field of a struct
            self._decode = msgspec.json.Decoder(list[dict[str, Any]]).decode
        else:
            self._decode = msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]

    def columns(self, rows: list[object]) -> dict[str, list[object]]:
        """Returns dotted key -> its values, None for a record without it."""
        if rows and isinstance(rows[0], dict):
            return {".".join(keys): [_inner(row, keys) for row in rows] for keys, _ in self._leaves}
        return {".".join(keys): _values(rows, where) for keys, where in self._leaves}


def _values(rows: list[object], where: str) -> list[object]:
    get = attrgetter(where)
    try:
        return list(map(get, rows))
    except AttributeError:  # null in place of an object
        return [_value(row, where.split(".")) for row in rows]


def _value(row: Any, where: list[str]) -> object:
    for step in where:
        row = getattr(row, step, None)
    return row


def _inner(value: Any, keys: tuple[str, ...]) -> object:
    """The value at a path of keys, None for no value."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _merge(tree: Tree, record: dict[str, Any]) -> None:
    """Adds the keys of an object. A key with an object in one record and another value elsewhere has any value."""
    for key, value in record.items():
        if isinstance(value, dict) and value:
            if key not in tree:
                tree[key] = {}
            if tree[key] is not None:
                _merge(tree[key], value)
        elif key not in tree or (value is not None and tree[key] is not None and not isinstance(value, dict)):
            tree[key] = None


def _struct(tree: Tree) -> type[msgspec.Struct]:
    """A struct with these keys, all optional."""
    fields: list[tuple[str, Any, Any]] = []
    for number, inner in enumerate(tree.values()):
        if inner is None:
            fields.append((f"f{number}", Any, None))
        else:
            kind = _struct(inner)
            fields.append((f"f{number}", kind | None, kind()))
    names = {f"f{number}": key for number, key in enumerate(tree)}
    return msgspec.defstruct("Record", fields, rename=names, forbid_unknown_fields=True, gc=False, frozen=True)


def _leaves(tree: Tree, keys: tuple[str, ...], where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for number, (key, inner) in enumerate(tree.items()):
        here = (*where, f"f{number}")
        if inner is None:
            yield (*keys, key), ".".join(here)
        else:
            yield from _leaves(inner, (*keys, key), here)


_TIMES = ("start_timestamp", "end_timestamp", "timestamp")
_LATE = 1 << 62

#: Columns of whole numbers. Other values become an argument whose name has a "$".
_WHOLE = frozenset(
    {
        *("thread_id", "dispatch_id", "private_segment_size", "group_segment_size", "queue_id", "stream_id", "bytes"),
        *("allocation_size", "correlation_id"),
        *(f"correlation_id.{of}" for of in ("internal", "external", "ancestor")),
        *(f"{of}_size_{axis}" for of in ("workgroup", "grid") for axis in "xyz"),
    }
)

#: Sizes of the records' C structures.
_STRUCTURES = ("size", "dispatch_info.size", "dispatch_data.size", "dispatch_data.dispatch_info.size")


class Records(NamedTuple):
    """Some records of a list: the path of keys to it, the number of the first record, the values as columns."""

    entry: int
    path: tuple[str, ...]
    first: int
    rows: int
    columns: dict[str, list[object]]


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
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    try:
        if len(kinds) == 1 and (kind := kinds.pop()) in types:
            return pa.array(values, types[kind])
        if not kinds:
            return pa.nulls(len(values), pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        pass
    return pa.array([None if value is None else dump_json(value).encode() for value in values], pa.binary())


def wholes(values: list[object], least: int, greatest: int, kind: pa.DataType) -> pa.Array:
    """A column of whole numbers, null for other values."""
    return _integers(values, kind, lambda value: value if least <= value <= greatest else None)


def times(values: list[object]) -> pa.Array:
    """A column of times in ns; numbers beyond int64 are out of range, values that aren't whole numbers null."""
    return _integers(values, pa.int64(), lambda value: max(-_LATE, min(value, _LATE)))


def _integers(values: list[object], kind: pa.DataType, fit: Callable[[int], int | None]) -> pa.Array:
    """A column of whole numbers; where one is too large, or there are other values, each whole number as it fits."""
    if {type(value) for value in values} <= {int, type(None)}:
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            pass
    return pa.array([fit(value) if type(value) is int else None for value in values], kind)
