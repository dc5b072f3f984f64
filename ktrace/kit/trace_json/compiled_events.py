"""Events of known shapes, read by compiled code (`ktrace/native/events.c`) where it was built.

It gives what msgspec and `Gather` give, and refuses a list in which anything is unusual: a key twice, a number beyond
int64, a time that ns don't represent, half a surrogate pair. The caller then reads that list in Python.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int32, Int64
from ktrace.native import compiled

from .cells import MOST_DISTINCT, dictionary_of, numbers_of, raw_column
from .events import MEMBERS, TEXTS, Events, Moves
from .gather import CLOCKS, joined_columns
from .shapes import Struct

#: Members of flows.
OF_FLOWS = frozenset({"ph", "name", "pid", "tid", "ts", "dur", "id", "bp"})

#: The members by whose text shapes are told apart, as in events.c.
TAG_FIELDS = ("cat", "ph")

#: The numbers of kinds in columns.h.
_KINDS = {"raw": 0, "str": 1, "int": 2, "float": 3, "bool": 4}
_CLOCK = 5
#: The states of a number in columns.h.
_WHOLE, _DOUBLE = 1, 2

#: After so many lists in a row that were refused, no further one is tried.
_MOST_REFUSED = 8


class CompiledEvents:
    """Gathers the events of lists. `structs`: all shapes of a document, for which `can_read` is true."""

    def __init__(self, structs: list[Struct], folded: Container[str]) -> None:
        self.structs = structs
        self._refused = 0
        self._columns: list[list[_Column]] = []
        shapes = []
        for struct in structs:
            members = [(key, _CLOCK if key in CLOCKS else _KINDS[kind]) for key, kind in struct.members]
            args = [(key, _KINDS[kind]) for key, kind in struct.args]
            drops = struct.tag_field == "cat" and struct.tag in folded and may_fold(struct)
            self._columns.append(
                [
                    *(_Column(kind, as_text=key in TEXTS, null=key not in MEMBERS) for key, kind in members),
                    *(_Column(kind) for _, kind in args),
                ]
            )
            field = TAG_FIELDS.index(struct.tag_field)
            shapes.append((field, struct.tag.encode(), drops, _encoded(members), _encoded(args)))
        self._events: Any = compiled.Events(shapes)

    def take(self, text: bytes, moves: Moves) -> tuple[int, int] | None:
        """Takes the events of a JSON list, which `moves` places: how many there are, and how many of them folded.

        The list must be UTF-8. None if it is refused; then nothing was taken.
        """
        if self._refused == _MOST_REFUSED:
            return None
        found: tuple[int, int] | None = self._events.take(text, moves.byte, moves.offsets, moves.by)
        self._refused = self._refused + 1 if found is None else 0
        return found

    def finish(self) -> Iterator[Events]:
        """Yields the events since the last call, a shape at a time."""
        for number, ats, cells in self._events.finish(MOST_DISTINCT):
            struct = self.structs[number]
            at: Int64 = np.frombuffer(ats, np.int64)
            columns = [column.finish(*cell) for column, cell in zip(self._columns[number], cells, strict=True)]
            members = dict(zip((key for key, _ in struct.members), columns, strict=False))
            args = dict(zip((key for key, _ in struct.args), columns[len(members) :], strict=True))
            yield joined_columns(at, struct, members, args)


def can_read(structs: list[Struct]) -> bool:
    """Whether there is compiled code, and it can read events of these shapes."""
    return compiled is not None and bool(structs) and not any(struct.loose for struct in structs)


def may_fold(struct: Struct) -> bool:
    """Whether events of this shape have nothing but what flows have."""
    if struct.args or struct.loose:
        return False
    return ("ph", "str") in struct.members and OF_FLOWS.issuperset(key for key, _ in struct.members)


def _encoded(keys: list[tuple[str, int]]) -> list[tuple[bytes, int]]:
    return [(key.encode(), kind) for key, kind in keys]


class _Column:
    """Makes Arrow columns of what compiled code returns for one key, and keeps the texts that it told."""

    def __init__(self, kind: int, *, as_text: bool = False, null: bool = True) -> None:
        self._kind = kind
        self._options = {"as_text": as_text, "null": null}
        self._raws: list[bytes] = []
        self._ids: dict[str, int] = {}
        self._id_of: list[int] = []  # of a code: differs from it only if a text was spelled in two ways
        self._known: pa.Array | None = None

    def finish(self, cells: bytes, more: Any) -> pa.Array:
        """`more`: the new texts in the order of their codes, or the states of numbers."""
        if self._kind == _KINDS["raw"]:
            self._raws += more
            column = raw_column(np.frombuffer(cells, np.int32), self._raws, **self._options)
            if len(self._raws) > MOST_DISTINCT:
                self._raws = []
            return column
        if self._kind == _KINDS["str"]:
            return self._texts(np.frombuffer(cells, np.int32), more)
        values, states = np.frombuffer(cells, np.int64), np.frombuffer(more, np.uint8)
        if self._kind == _KINDS["bool"]:
            return pa.array(values == 1, mask=states == 0)
        if self._kind == _KINDS["float"]:
            return numbers_of(values, states == _WHOLE, states == _DOUBLE)
        return pa.array(values, mask=None if states.all() else states == 0)

    def _texts(self, codes: Int32, new: list[bytes]) -> pa.Array:
        for raw in new:
            text = msgspec.json.decode(raw, type=str)
            self._id_of.append(self._ids.setdefault(text, len(self._ids)))
        if len(self._ids) < len(self._id_of):
            codes = np.array([*self._id_of, -1], np.int32)[codes]
        if self._known is None or len(self._known) < len(self._ids):
            self._known = pa.array(list(self._ids), pa.string())
        column = dictionary_of(codes, self._known)
        if len(self._id_of) > MOST_DISTINCT:
            self._ids, self._id_of, self._known = {}, [], None
        return column
