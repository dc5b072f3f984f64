"""Shapes of events, for compiled code: the keys that events of one category have, and the kinds of their values.

    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.000, "args": {"device": 0, "grid": [64, 1, 1]}}

has the tag ("cat", "kernel"), the members ph, name, ts, and the args device (int) and grid (raw). Events without a
category have their phase as tag. An event that doesn't match is refused, and its shape is widened: by a further key, or
a wider kind. The keys of the first list say in which order arguments are, too, whoever reads the events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from .events import TEXTS, Tag
from .json_values import Raw, kind_of, members_of

#: The members by whose text shapes are told apart, in the order of preference.
TAG_FIELDS = ("cat", "ph")

#: Limits for distinct tags, for keys of one shape's args, for members: events beyond them aren't for compiled code.
MOST_TAGS = 64
MOST_KEYS = 160
MOST_MEMBERS = 48

#: Keys that compiled code can't compare, since JSON has them in several spellings.
ODD_KEY = re.compile(r'["\\\x00-\x1f]')

#: The member that only documents have.
_LIST = "traceEvents"

#: The kinds of members that are none of the event's own values: the kind of a list, an object, null, a time.
_RAW = "raw"


@dataclass
class Shape:
    """The keys of events with one tag, each with the kind of its values. `loose`: its args aren't for compiled code."""

    tag: tuple[str, str]
    members: dict[str, str] = field(default_factory=lambda: {"name": "str", "ts": _RAW, "dur": _RAW})
    args: dict[str, str] = field(default_factory=dict)
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
        return len(members) > MOST_MEMBERS or _LIST in members or any(map(ODD_KEY.search, members))

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
        if shape.is_wide or sum(tag[0] == other[0] for other in self._shapes) > MOST_TAGS:
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
