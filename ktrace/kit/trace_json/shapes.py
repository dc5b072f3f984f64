"""Shapes of events, learnt from the events: structs made at run time, which msgspec decodes at full speed.

    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.000, "args": {"device": 0, "grid": [64, 1, 1]}}

is a struct with the tag "kernel" and the members ph, name, ts, args, the last a struct of device (int) and grid (Raw).
An event that doesn't match is refused, and the shape is widened: by a further key, a wider type, a further tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Union

import msgspec

from .events import MEMBERS, TEXTS
from .json_values import Raw, kind_of, members_of

#: Limits for distinct tags, for keys of one shape's args, for members: beyond them events are decoded one by one.
MOST_TAGS = 64
MOST_KEYS = 160
MOST_MEMBERS = 48

#: Keys that msgspec can't have as fields.
_ODD_KEY = re.compile(r'["\\\x00-\x1f]')

_TYPES: dict[str, Any] = {"int": int, "float": int | float, "str": str, "bool": bool, "raw": Raw}


@dataclass(frozen=True)
class Struct:
    """A shape as a type. `members` and `args` are (key, kind) in the order of the fields."""

    type: type[msgspec.Struct]
    tag_field: str
    tag: str
    members: tuple[tuple[str, str], ...]
    args: tuple[tuple[str, str], ...]
    loose: bool

    def get(self, key: str) -> attrgetter[Any]:
        """A function that returns a member of an event."""
        return attrgetter(f"f{[known for known, _ in self.members].index(key)}")


@dataclass
class Shape:
    """The keys of events with one tag, each with the kind of its values. `loose`: args aren't typed."""

    members: dict[str, str] = field(default_factory=lambda: {"name": "str", "ts": "raw", "dur": "raw"})
    args: dict[str, str] = field(default_factory=dict)
    loose: bool = False
    struct: Struct | None = None

    def learn(self, event: dict[str, Raw], tag_field: str) -> bool:
        """Widens the shape by an event. Returns False if it can't: there are too many members."""
        for key, value in event.items():
            if key == "args":
                self._learn_args(bytes(value))
            elif key != tag_field:
                self._widen(self.members, key, _kind_of_member(key, bytes(value)))
        return len(self.members) <= MOST_MEMBERS and not any(map(_ODD_KEY.search, self.members))

    def _learn_args(self, text: bytes) -> None:
        if text[:1] != b"{":
            self.loose = True
            self.struct = None
            return
        for key, value in members_of(text).items():
            self._widen(self.args, key, kind_of(bytes(value)))
        if not self.loose and (len(self.args) > MOST_KEYS or any(map(_ODD_KEY.search, self.args))):
            self.loose = True
            self.struct = None

    def _widen(self, kinds: dict[str, str], key: str, kind: str) -> None:
        known = kinds.get(key)
        if known == kind:
            return
        if known is not None:
            kind = "float" if {known, kind} == {"int", "float"} else "raw"
            if known == kind:
                return
        kinds[key] = kind
        self.struct = None


def _kind_of_member(key: str, text: bytes) -> str:
    """The kind of a member: times stay raw, and a member that should be a text is a text or raw."""
    if key in ("ts", "dur"):
        return "raw"
    kind = kind_of(text)
    return kind if kind == "str" or key not in TEXTS else "raw"


class Shapes:
    """The shapes of a document, by the text of one member: `cat`, or `ph` for events without `cat`."""

    def __init__(self, tag_field: str) -> None:
        self.tag_field = tag_field
        self.shapes: dict[str, Shape] = {}
        self.structs: dict[type, Struct] = {}
        self.usable = True
        self._decoder: msgspec.json.Decoder[list[Any]] | None = None

    def copy(self) -> Shapes:
        """The same shapes, which then widen on their own."""
        copied = Shapes(self.tag_field)
        copied.shapes = {
            tag: replace(shape, members=dict(shape.members), args=dict(shape.args))
            for tag, shape in self.shapes.items()
        }
        copied.structs, copied.usable, copied._decoder = dict(self.structs), self.usable, self._decoder
        return copied

    def learn(self, events: Iterable[dict[str, Raw]]) -> None:
        """Widens the shapes by events."""
        for event in events:
            tag = event.get(self.tag_field)
            if tag is None or bytes(tag)[:1] != b'"':
                continue
            name = msgspec.json.decode(tag, type=str)
            shape = self.shapes.get(name)
            if shape is None:
                shape = self.shapes[name] = Shape()
            if not shape.learn(event, self.tag_field) or len(self.shapes) > MOST_TAGS:
                self.usable = False
                return
        self._decoder = None

    def current(self) -> list[Struct]:
        """The structs of all that is known."""
        if self._decoder is None and self.shapes:
            self._decoder = self._compile()
        return list(self.structs.values())

    def decode(self, text: bytes) -> list[Any]:
        """Returns the events of a JSON list as structs. Raises msgspec.ValidationError for one that doesn't match."""
        if not self.current() or self._decoder is None:
            raise msgspec.ValidationError("nothing is known yet")
        return self._decoder.decode(text)

    def _compile(self) -> msgspec.json.Decoder[list[Any]]:
        for tag, shape in self.shapes.items():
            if shape.struct is None:
                shape.struct = _struct(shape, self.tag_field, tag)
        structs = [shape.struct for shape in self.shapes.values() if shape.struct]
        self.structs = {struct.type: struct for struct in structs}
        unused = msgspec.defstruct("Unused", [], tag_field=self.tag_field, tag="\ufffe", gc=False)
        union: Any = Union[(unused, *self.structs)]
        return msgspec.json.Decoder(list[union])


def _struct(shape: Shape, tag_field: str, tag: str) -> Struct:
    members = tuple((key, kind) for key, kind in shape.members.items())
    args = () if shape.loose else tuple(shape.args.items())
    kind: Any = Raw
    if not shape.loose:
        kind = struct_of(shape.args)
    whole = _define("Event", members, [("args", kind, None)], tag_field=tag_field, tag=tag)
    return Struct(whole, tag_field, tag, members, args, shape.loose)


def struct_of(keys: Mapping[str, str]) -> type[msgspec.Struct]:
    """A struct for objects with these keys, each with the kind of its values; absent ones are None."""
    return _define("Args", tuple(keys.items()), [])


def _define(
    name: str, keys: tuple[tuple[str, str], ...], more: list[tuple[str, Any, None]], **tags: Any
) -> type[msgspec.Struct]:
    """A struct with a field for each key; absent ones are None."""
    fields = [(f"f{number}", _TYPES[kind], None) for number, (_, kind) in enumerate(keys)]
    names = {f"f{number}": key for number, (key, _) in enumerate(keys)}
    return msgspec.defstruct(
        name, [*fields, *more], rename=names | {"args": "args"}, gc=False, forbid_unknown_fields=True, eq=False, **tags
    )


def column_name(key: str) -> str:
    """The column of `Events` for a member of an event."""
    return key if key in MEMBERS else f"args.${key}"
