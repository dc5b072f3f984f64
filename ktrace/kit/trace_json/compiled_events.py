"""Events of known shapes, read by compiled code (`ktrace/native/events.c`) where it was built.

It gives what `Gather` gives, and refuses a list in which anything is unusual: a key twice, a number beyond int64, a
time that ns don't represent, half a surrogate pair. The caller then reads that list in Python.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import constant
from ktrace.model.arrays import Int32, Int64
from ktrace.native import compiled

from .cells import MOST_DISTINCT, dictionary_of, numbers_of, raw_column
from .events import MEMBERS, TEXTS, Events, Moves
from .gather import CLOCKS, joined_columns
from .shapes import TAG_FIELDS, Shape

#: Members of flows, but their category.
OF_FLOWS = frozenset({"ph", "name", "pid", "tid", "ts", "dur", "id", "bp"})

#: The numbers of kinds in columns.h.
_KINDS = {"raw": 0, "str": 1, "int": 2, "float": 3, "bool": 4}
_CLOCK = 5
#: The states of a number in columns.h.
_WHOLE, _DOUBLE = 1, 2

#: After so many lists in a row that were refused, no further one is tried.
_MOST_REFUSED = 8


class CompiledEvents:
    """Gathers the events of lists. `shapes`: all shapes of a document, for which `can_read` is true."""

    def __init__(self, shapes: Sequence[Shape], folded: Container[str]) -> None:
        self.shapes = shapes
        self._refused = 0
        self._columns: list[list[_Column]] = []
        described = []
        for shape in shapes:
            members = [(key, _CLOCK if key in CLOCKS else _KINDS[kind]) for key, kind in shape.members.items()]
            args = [(key, _KINDS[kind]) for key, kind in shape.args.items()]
            field, tag = shape.tag
            drops = field == "cat" and tag in folded
            self._columns.append(
                [
                    *(_Column(kind, as_text=key in TEXTS, null=key not in MEMBERS) for key, kind in members),
                    *(_Column(kind) for _, kind in args),
                ]
            )
            keys = [(key.encode(), kind, key in OF_FLOWS) for key, kind in members]
            described.append(
                (
                    TAG_FIELDS.index(field),
                    tag.encode(),
                    drops,
                    keys,
                    [(key.encode(), kind, False) for key, kind in args],
                )
            )
        self._events: Any = compiled.Events(described)

    def take(self, text: bytes, moves: Moves) -> tuple[int, int] | int:
        """Takes the events of a JSON list, which `moves` places: how many there are, and how many of them folded.

        The list must be UTF-8. If it is refused nothing was taken: then how many events precede the cause, or -1 if the
        list wasn't looked at.
        """
        if self._refused == _MOST_REFUSED:
            return -1
        found: tuple[int, int] | int = self._events.take(text, moves.byte, moves.offsets, moves.by)
        self._refused = self._refused + 1 if isinstance(found, int) else 0
        return found

    def finish(self) -> Iterator[Events]:
        """Yields the events since the last call, a shape at a time."""
        for number, ats, cells in self._events.finish(MOST_DISTINCT):
            shape = self.shapes[number]
            at: Int64 = np.frombuffer(ats, np.int64)
            columns = [column.finish(*cell) for column, cell in zip(self._columns[number], cells, strict=True)]
            members = dict(zip(shape.members, columns, strict=False))
            args = dict(zip(shape.args, columns[len(members) :], strict=True))
            yield joined_columns(at, {shape.tag[0]: constant(shape.tag[1], len(at))} | members, args)


def can_read(shapes: Sequence[Shape]) -> bool:
    """Whether there is compiled code, and it can read events of these shapes."""
    return compiled is not None and bool(shapes) and not any(shape.loose for shape in shapes)


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
