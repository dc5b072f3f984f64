"""Decodes chunks of events from JSON text to `Events`: by structs of known shapes, or one by one if that fails.

[{"ph":"X","cat":"kernel","ts":1.000,...},{"ph":"s","cat":"ac2g",...}]   ->   structs   ->   columns for each shape
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from operator import itemgetter
from struct import pack
from typing import Any

import msgspec
import numpy as np

from ktrace.kit.columnar.dictionaries import no_gc
from ktrace.report import Report

from .compiled_events import CompiledEvents, can_read, may_fold
from .events import Events, Moves, Tag, by_tag, divided, first_beyond
from .gather import Gather, Group
from .json_values import Raw, elements_of, events_within, members_of, starts_of
from .shapes import Shapes, Struct

#: Greatest numbers of events, and of names of columns that they have, whose rows are put in order together. The first
#: event beyond them is the first of the next ones, whatever was read at once.
MOST_EVENTS, MOST_NAMES = 1 << 17, 1 << 11

#: Number of pieces, beyond one of each shape, of gathered events with ever new keys from which on names are counted.
MOST_PIECES = 8

#: The phases of flows.
_FLOWS = {"s", "t", "f"}

#: How often a chunk is decoded with ever wider shapes, and how many of its events widen them at a time.
_ATTEMPTS = 10
_LEARNT = 64

#: What `before` is after shapes were widened by all events.
_LAST = -2

#: The element in the path of msgspec's error: "... - at `$[17].args.stream`".
_ELEMENT = re.compile(r"`\$\[(\d+)\]")

#: Bytes of an event that is searched for repeated keys part by part.
_LONG = 1 << 20

#: The end of a key; within a text, too, so that there are never fewer than keys.
_KEYS = re.compile(rb'"\s*:')

#: An element that isn't an event: its position in the chunk, and its text.
Strange = tuple[int, bytes]


class Decoder:
    """Gathers the events of chunks, and yields them as columns, a shape at a time."""

    def __init__(
        self,
        report: Report,
        rows: int,
        folded: Container[str] = (),
        shapes: tuple[Shapes, Shapes] | None = None,
        *,
        quoted: bool = False,
    ) -> None:
        """Flows of the categories `folded` repeat other events: they are counted and dropped.

        `quoted`: the program always writes numbers in quotes, so that this isn't reported.
        """
        self._report = report
        self._rows = rows
        self.folded = folded
        self.quoted = quoted
        self.first_shapes = shapes  # those after the first chunk, with which every range of a document begins
        self._by_cat, self._by_phase = (one.copy() for one in shapes or (Shapes("cat"), Shapes("ph")))
        self._gathers: dict[Any, Gather] = {}
        self._compiled: list[CompiledEvents] = []
        self.compiled = False  # whether compiled code took the last list
        self._gathered = 0
        self._waiting: list[Events] = []  # the last of those that were gathered, which may belong to the next ones

    def take(self, text: bytes, moves: Moves, *, salvaged: bool = False) -> int:
        """Decodes a JSON list of events, which `moves` places in the document, and returns their number.

        In a `salvaged` list each `false` is an element that was given up, which the caller reports. Raises
        msgspec.DecodeError if it isn't a JSON list, or if one of its events is a document with a list of events; then
        nothing was taken.
        """
        self.compiled = False
        with no_gc():
            try:
                groups, count, strange = self._groups(text, moves, salvaged=salvaged)
            except RecursionError:
                raise msgspec.DecodeError("nested too deeply") from None
            self._report.record(count)
            if not self.compiled:
                self._find_repeats(text, moves)
            self._settle([pair for pair in strange if not salvaged or pair[1] != b"false"], moves)
            if groups:
                self._gather(groups, text, moves)
        self._gathered += count
        return count

    @property
    def full(self) -> bool:
        """Whether enough events are gathered for `flush`."""
        if self._gathered > self._rows:
            return True
        return sum(gather.pieces for gather in self._gathers.values()) - len(self._gathers) >= MOST_PIECES

    def flush(self, *, all_: bool = True) -> Iterator[Events]:
        """Yields all gathered events, those of a tag at a time, in the order of their first events.

        Without `all_` those wait to which further ones may belong.
        """
        found = self._waiting
        for key, gather in list(self._gathers.items()):
            if gather.ats:
                found += gather.finish()
            else:  # a shape that was widened since, or that doesn't occur any more
                del self._gathers[key]
        for compiled in self._compiled:
            found += compiled.finish()
        current = self._structs()
        self._compiled = [compiled for compiled in self._compiled if compiled.structs == current]
        known = self.first_shapes or self._shapes
        keys: dict[Tag, list[str]] = {
            (one.tag_field, tag): list(shape.args) for one in known for tag, shape in one.shapes.items()
        }
        while (end := first_beyond(found, self._rows, MOST_NAMES)) is not None:
            some, found = divided(found, end)
            yield from by_tag(some, keys)
        if all_:
            yield from by_tag(found, keys)
        self._waiting = [] if all_ else found
        self._gathered = sum(map(len, self._waiting))

    @property
    def _shapes(self) -> tuple[Shapes, Shapes]:
        return self._by_cat, self._by_phase

    def end_range(self) -> Iterator[Events]:
        """As `flush`; the next range begins with what the first chunk taught, as it does in a process of its own."""
        yield from self.flush()
        if self.first_shapes is None:
            self.first_shapes = self._by_cat.copy(), self._by_phase.copy()
        self._by_cat, self._by_phase = (one.copy() for one in self.first_shapes)
        self._gathers, self._compiled = {}, []

    def _groups(self, text: bytes, moves: Moves, *, salvaged: bool) -> tuple[list[Group], int, list[Strange]]:
        """The events by shape, the number of elements, and the elements that aren't events.

        Events that compiled code took aren't among them.
        """
        before = -1
        for attempt in range(_ATTEMPTS):
            try:
                taken = 0 if salvaged else self._take_compiled(text, moves)
                return ([], taken, []) if taken else (*self._typed(text), [])
            except msgspec.ValidationError as error:
                place = _element_of(error)
                # One event doesn't match: those around it teach enough, as a rule. If they don't, all events may.
                last = attempt == _ATTEMPTS - 2 or place == before
                taught = attempt < _ATTEMPTS - 1 and self._learn(text, None if last else place, salvaged=salvaged)
                if not taught or before == _LAST:
                    break
                before = _LAST if last else place
        return _one_by_one(text)

    def _take_compiled(self, text: bytes, moves: Moves) -> int:
        """The number of events that compiled code took; 0 if it isn't at hand, or refuses the list."""
        events = self._compiled_for_all()
        count, folded = (events and events.take(text, moves)) or (0, 0)
        if folded:
            self._report.used(folded, outcome="folded")
        self.compiled = count > 0
        return count

    def _compiled_for_all(self) -> CompiledEvents | None:
        """What reads events of all known shapes."""
        structs = self._structs()
        for events in reversed(self._compiled):
            if events.structs == structs:
                return events
        if not can_read(structs):
            return None
        self._compiled.append(CompiledEvents(structs, self.folded))
        return self._compiled[-1]

    def _structs(self) -> list[Struct]:
        return [struct for shapes in self._shapes if shapes.usable for struct in shapes.current()]

    def _typed(self, text: bytes) -> tuple[list[Group], int]:
        """The events by shape, and their number. Raises msgspec.ValidationError if one doesn't match."""
        if not self._by_phase.usable:
            raise msgspec.ValidationError("too many shapes")
        if not self._by_cat.usable or b'"cat"' not in text:
            events = self._by_phase.decode(text)
            return list(_by_type(events, self._by_phase)), len(events)
        try:
            events = self._by_cat.decode(text)
            return list(_by_type(events, self._by_cat)), len(events)
        except msgspec.ValidationError as error:
            if "required field `cat`" not in str(error):
                raise
        return self._mixed(text)

    def _mixed(self, text: bytes) -> tuple[list[Group], int]:
        """As `_typed`, if some events have a `cat` and others don't."""
        elements = elements_of(text)
        has_cat = np.array([b'"cat"' in bytes(element) for element in elements])
        groups: list[Group] = []
        for shapes, rows in (
            (self._by_cat, np.flatnonzero(has_cat)),
            (self._by_phase, np.flatnonzero(~has_cat)),
        ):
            if len(rows):
                part = b"[" + b",".join([elements[row] for row in rows.tolist()]) + b"]"
                found = _by_type(shapes.decode(part), shapes)
                del part  # it may be one long event
                groups += (Group(group.struct, rows[group.rows], group.events) for group in found)
        return groups, len(elements)

    def _learn(self, text: bytes, place: int | None, *, salvaged: bool) -> bool:
        """Widens the shapes by events of a chunk: the first, some throughout and those from `place` on; None: by all.

        Returns False if that is useless: an element isn't an event.
        """
        elements = elements_of(text)
        objects = [element for element in elements if bytes(element)[:1] == b"{"]
        some = objects
        if place is not None:
            throughout = objects[_LEARNT :: max(len(objects) // _LEARNT, 1)]
            some = [*objects[:_LEARNT], *throughout, *objects[place : place + _LEARNT]]
        events = [members_of(element) for element in some]
        if not salvaged and any("traceEvents" in event and "ph" not in event for event in events):
            raise msgspec.DecodeError("a document within the list")
        if self._by_cat.usable:
            self._by_cat.learn(event for event in events if "cat" in event)
            self._by_phase.learn(event for event in events if "cat" not in event)
        if not self._by_cat.usable:
            self._by_phase.learn(events)
        return len(objects) == len(elements) and self._by_phase.usable

    def _gather(self, groups: list[Group], text: bytes, moves: Moves) -> None:
        """Adds the events of a chunk to the columns of their shapes."""
        starts = np.array(starts_of(text), np.int64)
        places = moves.places(starts)
        odd: list[tuple[int, str, bytes]] = []
        for group in groups:
            if self._is_folded(group):
                self._report.used(len(group.rows), outcome="folded")
                continue
            key = group.struct.type if group.struct else None
            gather = self._gathers.get(key)
            if gather is None:
                gather = self._gathers[key] = Gather(group.struct)
            for row, kind, cell in gather.add(group.events):
                if kind != "text-number" or not self.quoted:
                    odd.append((text.find(cell, int(starts[group.rows[row]])), kind, cell))
            gather.ats.append(places[group.rows])
        for place, kind, cell in sorted(odd):
            self._report.issue(kind, f"byte {moves.place(place)}", cell.decode())

    def _is_folded(self, group: Group) -> bool:
        """Whether all are flows of a folded category, without information of their own."""
        struct = group.struct
        if struct is None or struct.tag_field != "cat" or struct.tag not in self.folded:
            return False
        return may_fold(struct) and set(map(struct.get("ph"), group.events)) <= _FLOWS

    def _find_repeats(self, text: bytes, moves: Moves) -> None:
        """Reports keys that an event or its args have twice (the last value counts).

        Compiled code refuses a list with such an event.
        """
        if len(text) < _LONG and not _may_repeat(text):
            return
        place = 1
        for element in map(_view, elements_of(text)):  # not copied: it may be long
            place = text.find(element, place)
            if _may_repeat(element):
                with suppress(RecursionError):
                    for key in _repeated(json.loads(bytes(element), object_pairs_hook=_Pairs, parse_int=str)):
                        self._report.issue("duplicate-key", f"byte {moves.place(place)}", key)
            place += len(element)

    def _settle(self, strange: list[Strange], moves: Moves) -> None:
        """Accounts for the elements that aren't events."""
        for offset, element in strange:
            place = moves.place(offset)
            if element in (b"{}", b"null"):
                self._report.used(outcome="structure")
            elif element == b"[":
                self._report.issue("json-repair", f"byte {place}", "a list within the list")
            else:
                detail = f"not an event: {element[:40].decode(errors='replace')}"
                self._report.issue("bad-record", f"byte {place}", detail)


def _element_of(error: msgspec.ValidationError) -> int:
    """The index of the element that doesn't match."""
    found = _ELEMENT.search(str(error))
    return int(found[1]) if found else 0


def _may_repeat(element: Any) -> bool:
    """Whether a key may occur twice in an object of an element."""
    if len(element) > _LONG:
        return _may_repeat_in_parts(element)
    try:
        return _key_count(msgspec.json.decode(element)) < _ends_of_keys(element)
    except (msgspec.DecodeError, RecursionError):  # a number that is too long for it
        return True


def _may_repeat_in_parts(value: Any) -> bool:
    """As `_may_repeat`, of a long value: one part of it at a time, since its objects take twenty times its memory."""
    keys, parts = _ends_of_keys(value), list[Raw]()
    if value[:1] == b"{":
        parts = list(members_of(value).values())
        if len(parts) + sum(_ends_of_keys(_view(part)) for part in parts) < keys:
            return True
    elif value[:1] == b"[" and keys:
        parts = elements_of(value)
    return any(_may_repeat(_view(part)) for part in parts)


def _view(value: Raw) -> Any:
    """A view of the text of a value, since `bytes` copies it."""
    return memoryview(value)


def _ends_of_keys(text: Any) -> int:
    return sum(1 for _ in _KEYS.finditer(text))


def _key_count(value: Any) -> int:
    """How many keys the objects in a JSON value have."""
    if isinstance(value, dict):
        return len(value) + sum(_key_count(item) for item in value.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        return sum(_key_count(item) for item in value if isinstance(item, dict | list))
    return 0


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, none of them lost."""


def _repeated(value: Any) -> Iterator[str]:
    """Yields the keys that an event, and that its args, have more than once; of a list, those of its events."""
    if isinstance(value, _Pairs):
        for pairs in (value, *(one for key, one in value if key == "args" and isinstance(one, _Pairs))):
            yield from (key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    elif isinstance(value, list):
        for one in value:
            yield from _repeated(one)


def _by_type(events: list[Any], shapes: Shapes) -> Iterator[Group]:
    """Structs by their type."""
    numbers = {kind: number for number, kind in enumerate(shapes.structs)}
    kinds = np.frombuffer(pack(f"{len(events)}i", *map(numbers.__getitem__, map(type, events))), np.int32)
    for number in np.flatnonzero(np.bincount(kinds)).tolist():
        rows = np.flatnonzero(kinds == number)
        part: Any = events
        if len(rows) == 1:
            part = (events[int(rows[0])],)
        elif len(rows) < len(events):
            part = itemgetter(*rows.tolist())(events)
        struct = shapes.structs[type(part[0])]
        yield Group(struct, rows, part)


def _one_by_one(text: bytes) -> tuple[list[Group], int, list[Strange]]:
    """As `Decoder._groups`, with dictionaries of JSON texts, for events without a shape."""
    rows: list[int] = []
    events: list[dict[str, Raw]] = []
    strange: list[Strange] = []
    elements: list[bytes] = []
    place = 1
    for content in map(bytes, elements_of(text)):
        inner = events_within(content)
        elements += inner or (content,)
        if inner:
            strange.append((text.find(content, place), b"["))
    for row, content in enumerate(elements):
        place = text.find(content, place)
        event = members_of(content) if content[:1] == b"{" else None
        if event:
            rows.append(row)
            events.append(event)
        else:
            strange.append((place, b"{}" if event is not None else content))
        place += len(content)
    return [Group(None, np.array(rows, np.int64), events)] if rows else [], len(elements), strange
