"""Decodes chunks of events from JSON text to `Events`: compiled code those of known shapes, Python all others.

[{"ph":"X","cat":"kernel","ts":1.000,...},{"ph":"s","cat":"ac2g",...}]   ->   columns for each category

Both give the same, and one of them takes a list as a whole. Compiled code (`compiled_events`) refuses it at the first
event that its shapes don't fit; then these learn from the events there, and it is tried again. What is refused for
another reason, or damaged (`salvage`), is read by Python (`gather`), and so are all lists where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec
import numpy as np

from ktrace.kit.columnar.dictionaries import no_gc
from ktrace.model.arrays import Int64
from ktrace.report import Report

from .compiled_events import OF_FLOWS, CompiledEvents, Shapes, can_read
from .dialect import EDGE
from .events import Events, Moves, Tag, by_tag, divided, first_beyond
from .gather import Event, Gather
from .json_values import LONG, Raw, elements_of, events_within, key_ends, may_repeat, members_of, repeated_keys, view

#: Greatest numbers of events, and of names of columns that they have, whose rows are put in order together. The first
#: event beyond them is the first of the next ones, whatever was read at once.
MOST_EVENTS, MOST_NAMES = 1 << 17, 1 << 11

#: Number of pieces of gathered events with ever new keys from which on names are counted.
MOST_PIECES = 8

#: The phases of flows.
_FLOWS = {b'"s"', b'"t"', b'"f"'}

#: How often shapes are widened for a list, and how many of its events widen them at a time.
_ATTEMPTS = 10
_LEARNT = 64

#: The position of an element in the chunk, and its text.
Element = tuple[int, bytes]


class Decoder:
    """Gathers the events of chunks, and yields them as columns, a category at a time."""

    def __init__(
        self,
        report: Report,
        rows: int,
        folded: Container[str] = (),
        shapes: Shapes | None = None,
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
        self._shapes = shapes.copy() if shapes else Shapes()
        self._order: dict[Tag, list[str]] | None = shapes.order() if shapes else None
        self._gather = Gather()
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
                if self._order is None:
                    self._shapes.teach(_objects(elements_of(text)))
                    self._order = self._shapes.order() or None
                count = 0 if salvaged else self._take_compiled(text, moves)
                self.compiled = count > 0
                count = count or self._take_any(text, moves, salvaged=salvaged)
            except RecursionError:
                raise msgspec.DecodeError("nested too deeply") from None
        self._gathered += count
        return count

    @property
    def full(self) -> bool:
        """Whether enough events are gathered for `flush`."""
        return self._gathered > self._rows or self._gather.pieces > MOST_PIECES

    def flush(self, *, all_: bool = True) -> Iterator[Events]:
        """Yields all gathered events, those of a tag at a time, in the order of their first events.

        Without `all_` those wait to which further ones may belong.
        """
        found = [*self._waiting, *self._gather.finish()]
        for compiled in self._compiled:
            found += compiled.finish()
        self._compiled = [compiled for compiled in self._compiled if compiled.shapes is self._shapes.current()]
        order = self._order or {}
        while (end := first_beyond(found, self._rows, MOST_NAMES)) is not None:
            some, found = divided(found, end)
            yield from by_tag(some, order)
        if all_:
            yield from by_tag(found, order)
        self._waiting = [] if all_ else found
        self._gathered = sum(map(len, self._waiting))

    def end_range(self) -> Iterator[Events]:
        """As `flush`; the next range begins with what the first chunk taught, as it does in a process of its own."""
        yield from self.flush()
        if self.first_shapes is None:
            self.first_shapes, self._order = self._shapes.copy(), self._order or {}
        self._shapes = self.first_shapes.copy()
        self._compiled = []

    def _take_compiled(self, text: bytes, moves: Moves) -> int:
        """The number of events that compiled code took; 0 if there is none, or if it refuses the list.

        Where it refuses an event for its shape, the events there and some throughout teach it.
        """
        for _ in range(_ATTEMPTS):
            events = self._compiled_for_all()
            found = events.take(text, moves) if events else -1
            if not isinstance(found, int):
                count, folded = found
                self._report.record(count)
                if folded:
                    self._report.used(folded, outcome="folded")
                return count
            if events is None or found < 0:
                return 0
            elements = elements_of(text)
            throughout = elements[:: max(len(elements) // _LEARNT, 1)]
            if not self._shapes.learn(_objects([*elements[found : found + _LEARNT], *throughout])):
                return 0
        return 0

    def _compiled_for_all(self) -> CompiledEvents | None:
        """What reads events of all known shapes."""
        shapes = self._shapes.current()
        if self.folded and not self._shapes.by_category:  # it folds by the category of a shape
            return None
        if self._compiled and self._compiled[-1].shapes is shapes:
            return self._compiled[-1]
        if not can_read(shapes):
            return None
        self._compiled.append(CompiledEvents(shapes, self.folded))
        return self._compiled[-1]

    def _take_any(self, text: bytes, moves: Moves, *, salvaged: bool) -> int:
        """As `take`, for events of any shape."""
        events: list[Event] = []
        starts: list[int] = []
        strange: list[Element] = []
        keys = folded = 0
        for place, content in _elements(text):
            members = members_of(content) if content[:1] == b"{" else {}
            if not members:
                strange.append((place, b"{}" if content[:1] == b"{" else content))
                continue
            if not salvaged and "traceEvents" in members and "ph" not in members:
                raise msgspec.DecodeError("a document within the list")
            keys += len(members)
            args = members_of(members.pop("args")) if bytes(members.get("args", b""))[:1] == b"{" else {}
            keys += len(args)
            if self._is_folded(members, args):
                folded += 1
            else:
                events.append((members, args))
                starts.append(place)
        count = len(events) + folded + sum(content != b"[" for _, content in strange)
        self._report.record(count)
        if folded:
            self._report.used(folded, outcome="folded")
        if keys < key_ends(text):
            self._find_repeats(text, moves)
        self._settle([pair for pair in strange if not salvaged or pair[1] != b"false"], moves)
        if events:
            self._gather_events(events, np.array(starts, np.int64), text, moves)
        return count

    def _gather_events(self, events: list[Event], starts: Int64, text: bytes, moves: Moves) -> None:
        found = self._gather.add(events, moves.places(starts))
        odd = [(text.find(cell, int(starts[row])), kind, cell) for row, kind, cell in found]
        for place, kind, cell in sorted(odd):
            if kind != "text-number" or not self.quoted:
                self._report.issue(kind, f"byte {moves.place(place)}", cell.decode())

    def _is_folded(self, members: dict[str, Raw], args: dict[str, Raw]) -> bool:
        """Whether it is a flow of a folded category, without information of its own."""
        if args or bytes(members.get("ph", b"")) not in _FLOWS or not members.keys() - {"cat"} <= OF_FLOWS:
            return False
        number = bytes(members.get("id", b""))
        if number.isdigit() and len(number) <= 18 and int(number) >= EDGE:
            return False
        category = bytes(members.get("cat", b""))
        return category[:1] == b'"' and msgspec.json.decode(category, type=str) in self.folded

    def _find_repeats(self, text: bytes, moves: Moves) -> None:
        """Reports keys that an event or its args have twice (the last value counts).

        Compiled code refuses a list with such an event.
        """
        if len(text) < LONG and not may_repeat(text):
            return
        place = 1
        for element in map(view, elements_of(text)):  # not copied: it may be long
            place = text.find(element, place)
            for key in repeated_keys(element):
                self._report.issue("duplicate-key", f"byte {moves.place(place)}", key)
            place += len(element)

    def _settle(self, strange: list[Element], moves: Moves) -> None:
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


def _elements(text: bytes) -> Iterator[Element]:
    """Yields the elements of a list with their positions; of a list of events within it a bracket, then its events."""
    place = 1
    for element in map(bytes, elements_of(text)):
        place = text.find(element, place)
        inner = events_within(element)
        if inner:
            yield place, b"["
        for content in inner:
            place = text.find(content, place)
            yield place, content
            place += len(content)
        if not inner:
            yield place, element
            place += len(element)


def _objects(elements: Iterable[Raw]) -> Iterator[dict[str, Raw]]:
    """The events among the elements of a list."""
    return (members_of(element) for element in elements if bytes(element)[:1] == b"{")
