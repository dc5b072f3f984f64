"""Events of known shapes, read by compiled code (`ktrace/native/events.c`) where it was built.

A shape is the keys that events of one category have, and the kinds of their values:

    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.000, "args": {"device": 0, "grid": [64, 1, 1]}}

has the tag ("cat", "kernel"), the members ph, name, ts, and the args device (int) and grid (raw). Events without a
category have their phase as tag. An event that doesn't match is refused, and its shape is widened: by a further key, or
a wider kind. The keys of the first list say in which order arguments are, too, whoever reads the events.

Compiled code gives what `Gather` gives, and refuses a list in which anything is unusual: a key twice, a number beyond
int64, a time that ns don't represent, half a surrogate pair. The caller then reads that list in Python.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from ktrace.kit.columnar.dictionaries import constant
from ktrace.model.arrays import Int32, Int64
from ktrace.native import compiled

from .events import MEMBERS, TEXTS, Events, Moves, Tag
from .gather import CLOCKS, MOST_DISTINCT, dictionary_of, joined_columns, numbers_of, raw_column
from .json_values import Raw, kind_of, members_of

#: The members by whose text shapes are told apart, in the order of preference.
_TAG_FIELDS = ("cat", "ph")

#: Limits for distinct tags, for keys of one shape's args, for members: events beyond them aren't for compiled code.
_MOST_TAGS = 64
MOST_KEYS = 160
_MOST_MEMBERS = 48

#: Keys that compiled code can't compare, since JSON has them in several spellings.
ODD_KEY = re.compile(r'["\\\x00-\x1f]')

#: The member that only documents have.
_LIST = "traceEvents"

#: The kinds of members that are none of the event's own values: the kind of a list, an object, null, a time.
_RAW = "raw"


class Shape(msgspec.Struct):
    """The keys of events with one tag, each with the kind of its values. `loose`: its args aren't for compiled code."""

    tag: tuple[str, str]
    members: dict[str, str] = msgspec.field(default_factory=lambda: {"name": "str", "ts": _RAW, "dur": _RAW})
    args: dict[str, str] = msgspec.field(default_factory=dict)
    loose: bool = False

    def learn(self, event: dict[str, Raw]) -> bool:
        """Widens the shape by an event; returns whether anything about it is new."""
        new = False
        for key, value in event.items():
            if key == "args":
                new |= self._learn_args(bytes(value))
            elif key != self.tag[0]:
                new |= _widen(self.members, key, _kind_of_member(key, bytes(value)))
        return new

    @property
    def is_wide(self) -> bool:
        """Whether the members are too many, or odd, for compiled code."""
        members = self.members
        return len(members) > _MOST_MEMBERS or _LIST in members or any(map(ODD_KEY.search, members))

    def _learn_args(self, text: bytes) -> bool:
        before = self.loose
        if text[:1] != b"{":
            self.loose = True
            return not before
        new = [_widen(self.args, key, kind_of(bytes(value))) for key, value in members_of(text).items()]
        self.loose = self.loose or len(self.args) > MOST_KEYS or any(map(ODD_KEY.search, self.args))
        return any(new) or self.loose != before


def _widen(kinds: dict[str, str], key: str, kind: str) -> bool:
    known = kinds.get(key, kind)
    wide = kind if known == kind else "float" if {known, kind} == {"int", "float"} else _RAW
    if kinds.get(key) == wide:
        return False
    kinds[key] = wide
    return True


def _kind_of_member(key: str, text: bytes) -> str:
    """The kind of a member: times stay raw, and a member that should be a text is a text or raw."""
    if key in ("ts", "dur"):
        return _RAW
    kind = kind_of(text)
    return kind if kind == "str" or key not in TEXTS else _RAW


class Shapes:
    """The shapes of a document by their tags."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, str], Shape] = {}
        self._unusable: set[str] = set()  # tag fields with too many tags or members
        self._current: Sequence[Shape] | None = None

    def copy(self) -> Shapes:
        """The same shapes, which then widen on their own."""
        copied = Shapes()
        copied._shapes = {tag: _copied(shape) for tag, shape in self._shapes.items()}
        copied._unusable, copied._current = set(self._unusable), self._current
        return copied

    @property
    def by_category(self) -> bool:
        """Whether events with a category have a shape by it, and not by their phase."""
        return "cat" not in self._unusable

    def order(self) -> dict[Tag, list[str]]:
        """The keys of args by tag, in the order in which they were learnt."""
        return {tag: list(shape.args) for tag, shape in self._shapes.items()}

    def teach(self, events: Iterable[dict[str, Raw]]) -> None:
        """Learns all keys of events: of those with the same keys, from the first."""
        first: dict[tuple[Any, ...], dict[str, Raw]] = {}
        for event in events:
            args = event.get("args")
            keys = tuple(members_of(args)) if args is not None and bytes(args)[:1] == b"{" else ()
            first.setdefault((self._tag_of(event), *event, None, *keys), event)
        self.learn(first.values())

    def learn(self, events: Iterable[dict[str, Raw]]) -> bool:
        """Widens the shapes by events; returns whether anything about them is new."""
        return sum(map(self._learn, events)) > 0

    def _learn(self, event: dict[str, Raw]) -> bool:
        tag = self._tag_of(event)
        if tag is None or tag[0] in self._unusable:
            return False
        known = self._shapes.get(tag)
        shape = known or self._shapes.setdefault(tag, Shape(tag))
        if not shape.learn(event) and known:
            return False
        if shape.is_wide or sum(tag[0] == other[0] for other in self._shapes) > _MOST_TAGS:
            self._unusable.add(tag[0])
        self._current = None
        return True

    def _tag_of(self, event: dict[str, Raw]) -> tuple[str, str] | None:
        """By the category, or the phase if there is none, or if categories are unusable."""
        member = "ph" if "cat" not in event or "cat" in self._unusable else "cat"
        tag = bytes(event.get(member, b""))
        return (member, msgspec.json.decode(tag, type=str)) if tag[:1] == b'"' else None

    def current(self) -> Sequence[Shape]:
        """All that is known and usable, as it is now: the same object until something is learnt."""
        if self._current is None:
            usable = (shape for shape in self._shapes.values() if shape.tag[0] not in self._unusable)
            self._current = [_copied(shape) for shape in usable]
        return self._current


def _copied(shape: Shape) -> Shape:
    return replace(shape, members=dict(shape.members), args=dict(shape.args))


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
                    _TAG_FIELDS.index(field),
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
