"""Decodes chunks of events from JSON text to `Events`: compiled code those of known shapes, Python all others.

[{"ph":"X","cat":"kernel","ts":1.000,...},{"ph":"s","cat":"ac2g",...}]   ->   columns for each category

Both give the same, and one of them takes a list as a whole. Compiled code (`ktrace/native/events.c`, by
`CompiledEvents`) refuses a list at the first event that its shapes don't fit; then these learn from the events there,
and it is tried again. It also refuses a list in which anything is unusual: a key twice, a number beyond int64, a time
with an exponent or in quotes, half a surrogate pair. What is refused for such a reason, or damaged (`salvage`), is
read by Python, and so are all lists where nothing is compiled.

A shape is the keys that events of one category have, and the kinds of their values:

    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1.000, "args": {"device": 0, "grid": [64, 1, 1]}}

has the tag ("cat", "kernel"), the members ph, name, ts, and the args device (int) and grid (raw). Events without a
category have their phase as tag. An event that doesn't match widens its shape: by a further key, or a wider kind. The
keys of the first list say in which order arguments are, too, whoever reads the events.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.kit.columnar.blocks import is_sparse
from ktrace.kit.columnar.dictionaries import constant, no_gc
from ktrace.model.arrays import Bools as Truths
from ktrace.model.arrays import Int32, Int64
from ktrace.model.json_text import decode_document, json_cells
from ktrace.model.masks import present
from ktrace.native import compiled
from ktrace.report import EXAMPLES, Report
from ktrace.store.vocabulary import Interner

from .dialect import EDGE
from .events import (
    LONG,
    MEMBERS,
    TEXTS,
    Events,
    Moves,
    Raw,
    Tag,
    by_tag,
    divided,
    elements_of,
    events_within,
    first_beyond,
    key_ends,
    kind_of,
    may_repeat,
    members_of,
    nanoseconds,
    repeated_keys,
    same_spelling,
    view,
)

#: Greatest numbers of events, and of names of columns that they have, whose rows are put in order together. The first
#: event beyond them is the first of the next ones, whatever was read at once.
MOST_EVENTS, MOST_NAMES = 1 << 17, 1 << 11

#: Events with ever new keys are divided so often until names are counted.
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
        self._compiled: list[CompiledEvents] = []
        self.compiled = False  # whether compiled code took the last list
        self._gathered = self._splits = 0  # events, and how often columns were divided for their ever new keys
        self._waiting: list[Events] = []  # what Python read, and the last events, which may belong to the next ones

    def feed(self, text: bytes, moves: Moves, *, salvaged: bool = False) -> int:
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
        return self._gathered > self._rows or self._splits >= MOST_PIECES

    def flush(self, *, all_: bool = True) -> Iterator[Events]:
        """Yields all gathered events, those of a tag at a time, in the order of their first events.

        Without `all_` those wait to which further ones may belong.
        """
        gathered = self._waiting
        for reader in self._compiled:
            gathered += reader.finish()
        self._compiled = [reader for reader in self._compiled if reader.shapes is self._shapes.current()]
        order = self._order or {}
        while (end := first_beyond(gathered, self._rows, MOST_NAMES)) is not None:
            some, gathered = divided(gathered, end)
            yield from by_tag(some, order)
        if all_:
            yield from by_tag(gathered, order)
        self._waiting = [] if all_ else gathered
        self._gathered, self._splits = sum(map(len, self._waiting)), 0

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
            taken = events.feed(text, moves) if events else -1
            if not isinstance(taken, int):
                count, folded, rounded, first = taken
                self._report.record(count)
                if folded:
                    self._report.used(folded, outcome="folded")
                if rounded:
                    self._report_rounded(rounded, first, text, moves)
                return count
            if events is None or taken < 0:
                return 0
            elements = elements_of(text)
            throughout = elements[:: max(len(elements) // _LEARNT, 1)]
            if not self._shapes.learn(_objects([*elements[taken : taken + _LEARNT], *throughout])):
                return 0
        return 0

    def _report_rounded(self, count: int, first: list[Element], text: bytes, moves: Moves) -> None:
        """Reports so many times that lost digits below 1 ns; `first` are more of them than a report shows."""
        places = sorted((text.find(cell, event), cell) for event, cell in first)[:EXAMPLES]
        for place, cell in places:
            self._report.issue("rounded", f"byte {moves.place(place)}", cell.decode())
        if count > len(places):
            self._report.issue("rounded", "", rows=count - len(places))

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
        """As `feed`, for events of any shape."""
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
        """Keeps events, which lose members, as columns, and reports what is odd about their times."""
        times: dict[str, pa.Array] = {}
        odd: list[tuple[int, str, bytes]] = []
        for key in CLOCKS:
            cells = [members.pop(key, None) for members, _ in events]
            parsed = nanoseconds(cells)
            times[key] = pa.array(parsed.ns, mask=None if parsed.valid is None else ~parsed.valid)
            if parsed.kept:
                codes = np.full(len(events), -1, np.int32)
                codes[list(parsed.kept)] = np.arange(len(parsed.kept), dtype=np.int32)
                times[f"args.${key}"] = dictionary_of(codes, pa.array(parsed.kept.values(), pa.binary()))
            for kind, rows in (("rounded", parsed.rounded), ("text-number", () if self.quoted else parsed.texts)):
                for row in rows:
                    cell = bytes(cells[row] or b"")
                    odd.append((text.find(cell, int(starts[row])), kind, cell))
        for place, kind, cell in sorted(odd):
            self._report.issue(kind, f"byte {moves.place(place)}", cell.decode())
        parts = [*_as_columns(events, moves.places(starts), times)]
        self._waiting += parts
        self._splits += len(parts) - 1

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


#: Distinct values that compiled code keeps from one `Events` to the next.
MOST_DISTINCT = 1 << 16

#: How numbers begin.
_DIGITS = {b"-", *(b"%d" % digit for digit in range(10))}

#: A number of fewer characters, without an exponent, is finite as float64.
_FINITE = 300
_EXPONENT = re.compile(rb"[eE]")

#: How lists and objects begin.
_NESTED = frozenset((b"[", b"{"))


def raw_column(codes: Int32, every: list[bytes], *, as_text: bool, null: bool) -> pa.Array:
    """A column of any JSON values by their codes; -1 is absent.

    `as_text`: a text column; `null`: null is a value, different from absent.
    """
    used = np.flatnonzero(np.bincount(codes + 1, minlength=1)[1:])
    place = np.full(len(every) + 1, -1, np.int32)  # the last entry is for -1
    place[used] = np.arange(len(used), dtype=np.int32)
    codes, texts = place[codes], [every[code] for code in used.tolist()]
    if as_text:
        return dictionary_of(codes, pa.array([_as_text(text) for text in texts], pa.string()), nulls=True)
    if not null and b"null" in texts:
        codes = np.where(codes == texts.index(b"null"), np.int32(-1), codes)
    kinds = _kinds(texts if null else [text for text in texts if text != b"null"])
    if kinds == {"str"}:
        return dictionary_of(codes, pa.array(msgspec.json.decode(b"[%b]" % b",".join(texts)), pa.string()))
    if kinds in ({"int"}, {"float"}, {"bool"}):
        scalars = decode_document(b"[%b]" % b",".join(texts))
        try:
            plain = pa.array(scalars, {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}[kinds.pop()])
            return plain.take(pa.array(codes, mask=codes < 0))
        except (OverflowError, TypeError, pa.ArrowInvalid):
            pass
    if kinds != {"raw"}:
        texts = [(text if text[:1] in _NESTED else same_spelling(text)) for text in texts]
    return dictionary_of(codes, pa.array(texts, pa.binary()))


def _kinds(texts: list[bytes]) -> set[str]:
    """The kinds of JSON values; most often it is one, which all of them together tell."""
    firsts = {text[:1] for text in texts}
    if firsts == {b'"'}:
        return {"str"}
    if firsts and firsts <= _NESTED:
        return {"raw"}
    if firsts <= _DIGITS and not _EXPONENT.search(every := b",".join(texts)):
        points = every.count(b".")
        if not points:
            return {"int"}
        if points == len(texts) and max(map(len, texts)) < _FINITE:
            return {"float"}
    return {"raw" if text[:1] in _NESTED else kind_of(text) for text in texts}


def numbers_of(values: Int64, whole: Truths, real: Truths) -> pa.Array:
    """A column of numbers, of which some are `whole` and the values of others the bits of doubles; both as JSON."""
    if not real.any():
        return pa.array(values, mask=~whole)
    parts = pa.array(values.view(np.float64), mask=~real)
    if not whole.any():
        return parts
    return pc.coalesce(json_cells(pa.array(values, mask=~whole)), json_cells(parts)).cast(pa.binary())


def dictionary_of(codes: Int32, values: pa.Array, *, nulls: bool = False) -> pa.DictionaryArray:
    """A column from codes and values; -1 is null, and so is the code of a null value if there may be `nulls`."""
    if nulls and values.null_count:
        away = np.flatnonzero(~present(values))
        codes = np.where(np.isin(codes, away), np.int32(-1), codes)
        values = values.fill_null("")
    absent = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent if bool(absent.any()) else None), values)


def _as_text(text: bytes) -> str | None:
    """A JSON value as text: the content of a string, None for null, else the JSON text."""
    if text[:1] == b'"':
        return msgspec.json.decode(text, type=str)
    return None if text == b"null" else text.decode()


CLOCKS = ("ts", "dur")


#: The JSON texts of the members of an event, and of those of its args, where these are an object.
Event = tuple[dict[str, Raw], dict[str, Raw]]


class Columns:
    """Values of objects by key: members of events, or of their args. Objects with the same keys are taken together."""

    def __init__(self, *, of_events: bool = False) -> None:
        self._of_events = of_events
        self._keys: dict[str, None] = {}
        self._alike: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}  # by their keys: row and values of each object
        self.filled = 0

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, row: int, members: dict[str, Raw]) -> None:
        """Adds an object to a row."""
        keys = tuple(members)
        alike = self._alike.get(keys)
        if alike is None:
            alike = self._alike[keys] = []
            self._keys |= dict.fromkeys(keys)
        alike.append((row, *members.values()))
        self.filled += len(keys)

    def finish(self, rows: int) -> dict[str, pa.Array]:
        """The columns of so many rows."""
        codes = {key: np.full(rows, -1, np.int32) for key in self._keys}
        distinct = {key: Interner() for key in self._keys}
        for keys, alike in self._alike.items():
            row, *columns = zip(*alike, strict=True)
            at = np.array(row)
            for key, cells in zip(keys, columns, strict=True):
                codes[key][at] = distinct[key].numbers(map(bytes, cells))
        return {
            key: raw_column(
                codes[key],
                list(distinct[key]),
                as_text=self._of_events and key in TEXTS,
                null=not self._of_events or key not in MEMBERS,
            )
            for key in self._keys
        }


def _as_columns(events: Sequence[Event], ats: Int64, times: dict[str, pa.Array]) -> Iterator[Events]:
    """Events at those places, with the columns of their times: several where most cells would be empty."""

    def finished(stop: int) -> Events:
        columns = {key: column[start:stop] for key, column in times.items()}
        kept = {key: columns.pop(key) for key in times if key not in CLOCKS}
        return joined_columns(ats[start:stop], columns | members.finish(stop - start), args.finish(stop - start), kept)

    start, members, args = 0, Columns(of_events=True), Columns()
    for row, (cells, given) in enumerate(events):
        if is_sparse(len(members) + len(args), row - start, members.filled + args.filled):
            yield finished(row)
            start, members, args = row, Columns(of_events=True), Columns()
        members.add(row - start, cells)
        if given:
            args.add(row - start, given)
    yield finished(len(events))


def joined_columns(
    ats: Int64, members: dict[str, pa.Array], args: dict[str, pa.Array], kept: dict[str, pa.Array] | None = None
) -> Events:
    """Events from the columns of their members and args, without those that no event has.

    `kept`: source texts of times that their columns don't represent.
    """
    columns = {key: members.pop(key) for key in MEMBERS if key in members}
    columns |= {f"args.{key}": column for key, column in args.items()}
    for key, column in (*((f"args.${key}", column) for key, column in members.items()), *(kept or {}).items()):
        name = key
        while name in columns:  # the source has an argument of that name
            name = name.replace("args.", "args.$", 1)
        columns[name] = column
    return Events(ats, {key: column for key, column in columns.items() if column.null_count < len(ats)})


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
    kind_so_far = kinds.get(key, kind)
    wide = kind if kind_so_far == kind else "float" if {kind_so_far, kind} == {"int", "float"} else _RAW
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
        shape_before = self._shapes.get(tag)
        shape = shape_before or self._shapes.setdefault(tag, Shape(tag))
        if not shape.learn(event) and shape_before:
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

    def feed(self, text: bytes, moves: Moves) -> tuple[int, int, int, list[Element]] | int:
        """Takes the events of a JSON list, which `moves` places.

        Returns how many there are, how many of them folded, how many times lost digits below 1 ns, and the first of
        these: where their events begin in the text, and the source's own numbers. The list must be UTF-8. If it is
        refused nothing was taken: then how many events precede the cause, or -1 if the list wasn't looked at.
        """
        if self._refused == _MOST_REFUSED:
            return -1
        taken: tuple[int, int, int, list[Element]] | int = self._events.take(text, moves.byte, moves.offsets, moves.by)
        self._refused = self._refused + 1 if isinstance(taken, int) else 0
        return taken

    def finish(self) -> Iterator[Events]:
        """Yields the events since the last call, a shape at a time."""
        for number, ats, cells in self._events.finish(MOST_DISTINCT):
            shape = self.shapes[number]
            at: Int64 = np.frombuffer(ats, np.int64)
            columns = [column.finish(*cell[:2]) for column, cell in zip(self._columns[number], cells, strict=True)]
            members = dict(zip(shape.members, columns, strict=False))
            args = dict(zip(shape.args, columns[len(members) :], strict=True))
            rounded = {key: cell[2:] for key, cell in zip(shape.members, cells, strict=False) if len(cell) > 2}
            kept = {f"args.${key}": _kept_numbers(*rounded[key]) for key in CLOCKS if key in rounded}
            yield joined_columns(at, {shape.tag[0]: constant(shape.tag[1], len(at))} | members, args, kept)


def _kept_numbers(codes: bytes, texts: list[bytes]) -> pa.Array:
    """The source's own numbers of times that were rounded; null for the others."""
    return dictionary_of(np.frombuffer(codes, np.int32), pa.array(texts, pa.binary()))


def can_read(shapes: Sequence[Shape]) -> bool:
    """Whether there is compiled code, and it can read events of these shapes."""
    return compiled is not None and bool(shapes) and not any(shape.loose for shape in shapes)


class _Column:
    """Makes Arrow columns of what compiled code returns for one key, and keeps the texts that it told."""

    def __init__(self, kind: int, *, as_text: bool = False, null: bool = True) -> None:
        self._kind = kind
        self._options = {"as_text": as_text, "null": null}
        self._raws: list[bytes] = []
        self._ids = Interner()
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
            self._id_of.append(self._ids[text])
        if len(self._ids) < len(self._id_of):
            codes = np.array([*self._id_of, -1], np.int32)[codes]
        if self._known is None or len(self._known) < len(self._ids):
            self._known = pa.array(list(self._ids), pa.string())
        column = dictionary_of(codes, self._known)
        if len(self._id_of) > MOST_DISTINCT:
            self._ids, self._id_of, self._known = Interner(), [], None
        return column
