"""Decodes records of a list as structs with the keys seen in it, and turns these into columns.

    {"kind": 11, "correlation_id": {"internal": 3}}     a struct with a struct in it
    correlation_id.internal  [3, 4, 5]                  a column

Structs are decoded twice as fast as dicts, and refuse an unknown key, so that no key is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

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
