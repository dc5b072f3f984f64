"""Reads a damaged list element by element: valid elements are kept, faults of tools are mended, the rest is lost.

    an element that                            becomes
    is valid                                   itself, with `mend` if it isn't UTF-8
    is a document with a list of events        the start of that list, which continues this one
    is an object that the parser refuses       what `mend_value` makes of it up to a likely end; else lost
    is valid, and goes on: `}, "key":`         itself; the rest is lost
    is nested too deeply                       lost, up to its end by brackets
    doesn't end within the bytes allowed       lost, up to the next valid event
    is anything else                           lost, up to what may begin an element

A likely end of a broken object is that by its brackets, or before the next valid event. What is lost ends there: a
fault costs the event that it hits. An event that is an argument of a broken one may be taken for the next.

What is examined in vain is counted, so that the time is in proportion to the text (`_within`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from ktrace.byte_account import Owner
from ktrace.kit.columnar.dictionaries import is_utf8

from .chunks import Text
from .grammar import Nest, Value, find_key, object_end, own_key, value_at
from .json_values import elements_of, members_of
from .repair import Repair, mend, mend_value

#: Bytes of a broken element that are examined: at first, at most, and in any case.
LOOKED_AT = 1 << 11
MOST_LOOKED_AT = 1 << 24
LEAST_LOOKED_AT = 1 << 14

#: Text that isn't an element, up to text that may begin one.
_STRAY = re.compile(rb'(?:"[^"\\\r\n{}]*(?:\\.[^"\\\r\n{}]*)*"?|[^,{\[\]"])+|["\[]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")

#: The start of an event, an object whose first key is one of events; the same after what may precede it in a list.
_MEMBER = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:'
EVENT = re.compile(rb"\{\s*" + _MEMBER)
BEGIN = re.compile(rb"[^\[:]" + EVENT.pattern)
_HEADLESS = re.compile(_MEMBER)
PHASE = frozenset((b"ph",))

#: How an object continues after a value; the end of a list of events; a brace that may end a broken object.
_GOES_ON = re.compile(rb'\s*,\s*"[^"\\]*"\s*:')
_LIST_END = re.compile(rb'\s*\]\s*(?:,\s*"[^"\\]*"\s*:|\}|\Z)')
_IN_PLACE = re.compile(rb":\s*(?=" + EVENT.pattern + rb")")
_FOLLOWING = re.compile(rb"\s*,\s*\{")
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(:\s*)?[{\[]|[}\]]', re.DOTALL)
_AFTER_TEXT = re.compile(rb"\s*[:,}\]]")
_BRACE, _QUOTE = b'{"'
_OBJECT_END = re.compile(rb"\}(?=\s*(?:,\s*(?:\{|\Z)|\]|\Z))")

#: How many of such braces are tried.
_MOST_ENDS = 4
_DECISIVE = frozenset((b"ph", b"traceEvents"))
_OPENING = re.compile(rb"\s*\[")

#: Levels of nesting, of the interpreter's limit (1000), that are reserved for the callers that process a text further.
_SPARE = 100


class Salvaged(msgspec.Struct):
    """Elements as JSON texts, `false` for one that was lost; `places` and `repairs` have positions in the document."""

    elements: list[bytes] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)
    repairs: list[Repair] = msgspec.field(default_factory=list)
    lost: list[Repair] = msgspec.field(default_factory=list)

    def keep(self, start: int, content: bytes, repairs: Iterable[Repair] = ()) -> bool:
        """Takes an element that was repaired, at places counted from its start; False if it still isn't JSON."""
        if not is_json(content):
            return False
        self._add(start, content)
        self.repairs += (repair._replace(place=start + repair.place) for repair in repairs)
        return True

    def lose(self, kind: str, start: int, shown: str) -> None:
        """Gives an element up."""
        self._add(start, b"false")
        self.lost.append(Repair(kind, start, shown))

    def repaired(self, place: int, detail: str) -> None:
        """States a repair of the list."""
        self.repairs.append(Repair("json-repair", place, detail))

    def _add(self, start: int, content: bytes) -> None:
        self.elements.append(content)
        self.places.append(start)


def salvage(text: Text, end: int, *, lines: bool = False, known: Value | None = None) -> Salvaged:
    """Takes the elements that begin before `end`, as far as they can be read. `lines`: no commas are expected.

    `known` is an element that has already been examined.
    """
    return _Salvage(text, known).run(end, lines=lines)


class _Salvage:
    """`resumed`: the last element was given up, together with the separator after it."""

    def __init__(self, text: Text, known: Value | None) -> None:
        self._text = text
        self._known = known
        self._found = Salvaged()
        self._resumed = False

    def run(self, end: int, *, lines: bool) -> Salvaged:
        text, found = self._text, self._found
        while text.pos < end:
            commas = self._separators()
            first = text.peek()
            fault = _fault(commas, int(bool(found.elements)), first)
            if fault and not lines and not self._resumed:
                found.repaired(text.pos, fault)
            if first in (b"", b"]"):
                break
            self._resumed = False
            start, lost = text.pos, len(found.lost)
            owner: Owner = "read"
            if first == b"{":
                owner = self._object()
            elif first == b'"' or (value := self._value()).fault:
                self._stray()
            else:
                self._whole(value)
            text.own("skipped" if lost < len(found.lost) else owner, max(start, text.owned))
        return found

    def _separators(self) -> int:
        """Goes to the next element, and returns the number of commas before it."""
        text, commas = self._text, 0
        while True:
            after = text.match(_SEPARATORS, text.pos)
            commas += text.part(text.pos, after).count(b",")
            start, text.pos = text.pos, after
            text.own("read", start)
            if after < text.end or not text.more():
                return commas

    def _value(self) -> Value:
        text = self._text
        if self._known and self._known.start == text.pos:
            return self._known
        return value_at(text, text.pos, _allowed(text, text.largest))

    def _object(self) -> Owner:
        """An element that begins with a brace; returns whether it was read, or is structure."""
        text, value = self._text, self._value()
        if (inner := _list_within(text, value)) > 0:
            self._found.repaired(text.pos, "a document begins within the list")
            text.pos = inner
            self._resumed = True
            return "structure"
        if value.fault:
            self._broken(value)
        else:
            self._whole(value)
            if text.match(_GOES_ON, value.end) != value.end:  # a surplus brace
                text.own("read", max(value.start, text.owned))
                self._lose_rest(value.end)
        return "read"

    def _whole(self, value: Value) -> None:
        """An element that the grammar allows."""
        content = self._text.part(value.start, value.end)
        self._text.pos = value.end
        if (content[:1] in b"{[" or content == b"null") and _is_shallow(content):
            if is_utf8(content):
                self._found._add(value.start, content)
                return
            if self._found.keep(value.start, *mend(content)):
                return
        self._found.lose("bad-record", value.start, _shown(content))

    def _broken(self, value: Value) -> None:
        """An object that the parser refuses."""
        text, start, end, shown = self._text, value.start, value.start, ""
        if value.fault == "broken":
            end, mended = self._mended(value)
            if mended:
                text.pos = end
                return
        elif value.fault == "deep":
            end, shown = _end_by_brackets(text), "nested too deeply: "
        else:  # the examined part is JSON
            text.wasted += value.end - start
        shown += _shown(text.part(start, min(start + 60, text.end)))
        text.pos = end
        if end == start:
            resume(text)
            self._resumed = True
        self._found.lose("cut" if text.ended and text.pos == text.end else "bad-record", start, shown)

    def _mended(self, value: Value) -> tuple[int, bool]:
        """Takes a broken object if it can be mended. Returns its end, or its begin if no end is known; and whether."""
        text, start, fault = self._text, value.start, value.end - value.start
        size = LOOKED_AT + 2 * fault
        most = max(size, _allowed(text, MOST_LOOKED_AT))
        while True:
            piece = _piece(text, start, size)
            following = _next_event(piece)
            if following or size > most or (text.ended and start + len(piece) == text.end):
                break
            size *= 4
        closed, following = _by_brackets(piece, following)
        begins = [
            begin.start() + 1
            for begin, _ in zip(BEGIN.finditer(piece, fault, following), range(_MOST_ENDS), strict=False)
        ]
        limits = [len(piece[:begin].rstrip(b" \t\r\n,")) for begin in (*begins, following)]  # broken ones, a valid one
        for end in dict.fromkeys((closed, *(limits if following else _ends(piece, fault)))):
            if end and any(self._found.keep(start, *way) for way in mend_value(piece[:end])):
                _waste(text, piece, end)
                return start + end, True
        if closed and (not following or _may_end(piece, closed)):
            end = closed
        else:
            end = next(
                (end for end, begin in zip(limits, begins, strict=False) if b"\n" in piece[end:begin]), limits[-1]
            )
        _waste(text, piece, end)
        return start + end, False

    def _lose_rest(self, start: int) -> None:
        """Gives up what follows a valid element that goes on, up to the next event."""
        text = self._text
        text.pos = text.match(_SEPARATORS, start)
        shown = _shown(text.part(start, min(start + 60, text.end)))
        resume(text)
        self._resumed = True
        self._found.lose("bad-record", start, shown)

    def _stray(self) -> None:
        """Text that isn't an element."""
        text, start = self._text, self._text.pos
        if text.match(_HEADLESS, start) > start:  # an event without its opening brace
            resume(text)
            self._resumed = True
            self._found.lose("bad-record", start, _shown(text.part(start, min(start + 60, text.end))))
            return
        while text.match(_STRAY, start) == text.end and text.end - start < LEAST_LOOKED_AT and text.more():
            pass
        text.pos = max(text.match(_STRAY, start), start + 1)
        content = text.part(start, text.pos).strip()
        if content == b"[":
            self._found.repaired(start, "a list begins within the list")
        else:
            self._found.lose("bad-record", start, _shown(content))


def _fault(commas: int, wanted: int, after: bytes) -> str:
    """What is wrong with this number of commas before a byte, '' for nothing."""
    if after == b"]":
        return "a comma after the last event" if commas else ""
    if not after or commas == wanted:
        return ""
    return "a surplus comma" if commas > wanted else "a comma is missing"


def _piece(text: Text, start: int, size: int) -> bytes:
    """So many bytes from a position on, or up to the end of the document."""
    while text.end - start < size and text.more():
        pass
    return text.part(start, min(text.end, start + size))


def _list_within(text: Text, value: Value) -> int:
    """Where the list of events of a document begins that begins here; 0 if this isn't a document."""
    end = min(text.end, value.start + LEAST_LOOKED_AT)
    head = text.part(value.start, end if value.fault else min(end, value.end))
    key, place = find_key(head, _DECISIVE) or (b"", 0)
    begin = _OPENING.match(head, place) if key == b"traceEvents" else None
    return value.start + begin.end() if begin else 0


def _next_event(piece: bytes) -> int:
    """Where the next valid event begins after the object at the start of a text; 0 for none."""
    view, left, at = memoryview(piece), 4 * len(piece), 0
    while left > 0 and (begin := BEGIN.search(piece, at)):
        at = begin.start() + 1
        if _is_event(view[at:]):
            return at
        left -= 1 - object_end(view[at:])
    return 0


def _by_brackets(piece: bytes, following: int) -> tuple[int, int]:
    """Where the object at the start of a text is closed, 0 if it isn't; and where the next event begins, if not there.

    An event can't be a member of an object without a key before it. Where what follows a text is impossible, its quote
    may begin another one: nothing is known by brackets.
    """
    frames = bytearray()
    for found in _MARK.finditer(piece):
        mark = found[0][-1]
        if mark == _QUOTE and not _AFTER_TEXT.match(piece, found.end()):
            break
        if mark == _BRACE and frames[-1:] == b"{" and not found[1] and EVENT.match(piece, found.end() - 1):
            value = _IN_PLACE.search(piece, 1, found.end() - 1)  # of an object that breaks off before it
            return 0, value.end() if value and _is_event(memoryview(piece)[value.end() :]) else found.end() - 1
        if mark in b"{[":
            frames.append(mark)
        elif mark != _QUOTE:
            frames.pop()
            if not frames:
                return found.end(), following
    return 0, following


def _may_end(piece: bytes, end: int) -> bool:
    """Whether a list ends after an object, or a valid event follows."""
    found = _FOLLOWING.match(piece, end)
    return _LIST_END.match(piece, end) is not None or (
        found is not None and _is_event(memoryview(piece)[found.end() - 1 :])
    )


def _is_event(text: memoryview) -> bool:
    """Whether a text begins with a valid object that has a phase."""
    if own_key(text, PHASE) != b"ph":
        return False
    try:
        members_of(text)
    except msgspec.DecodeError as error:
        return "trailing characters" in str(error)
    except (RecursionError, UnicodeDecodeError):
        return False
    return True


def _ends(piece: bytes, fault: int) -> Iterator[int]:
    """The first braces from a fault on that may end the object at the start of a text."""
    return (brace.end() for brace in islice(_OBJECT_END.finditer(piece, fault), _MOST_ENDS))


def may_try(text: Text, size: int) -> bool:
    """Whether a chunk of so many bytes may be tried, which costs more than its elements if it is in vain."""
    return size <= _within(MOST_LOOKED_AT, text.pos, text.tried)


def _allowed(text: Text, most: int) -> int:
    """Bytes of an element that may be examined in vain. What was tried before, in chunks of any size, doesn't count."""
    return _within(most, text.pos, text.wasted)


def _within(most: int, pos: int, spent: int) -> int:
    """Bytes that may be examined in vain: `most` once, then as many as were read, so that the time stays linear."""
    return max(LEAST_LOOKED_AT, min(most, most + 2 * pos - spent))


def mended_object(piece: bytes) -> tuple[bytes, int, list[Repair]] | None:
    """The broken object at the start of a text, repaired: its JSON text, where it ends in the piece, the repairs.

    None if it can't be repaired, or doesn't end in the piece.
    """
    for end in dict.fromkeys((Nest().end(memoryview(piece)), *_ends(piece, 0))):
        for whole, repairs in mend_value(piece[:end]) if end > 0 else ():
            if is_json(whole):
                return whole, end, repairs
    return None


def _waste(text: Text, piece: bytes, end: int) -> None:
    """Counts what was examined of a piece, of which an element takes the bytes up to `end`; the least isn't counted."""
    text.wasted += 4 * max(len(piece) - LOOKED_AT - 3 * end, 0)


def resume(text: Text, other: re.Pattern[bytes] | None = None) -> None:
    """Goes to the next valid event, or to the end of the document; drops the text between.

    Stops before that where `other` matches.
    """
    at = text.pos
    while True:
        found = text.search(BEGIN, at)
        if other and (sooner := text.search(other, at, found + 1 if found >= 0 else None)) >= 0:
            text.pos = sooner
            return
        if found < 0 or (found > text.end - LEAST_LOOKED_AT and not text.ended):
            at = text.pos = max(text.pos, min(found if found >= 0 else text.end, text.end - 64))
            if text.more():
                continue
            if found < 0:
                text.pos = text.end
                return
        value = value_at(text, found + 1, _allowed(text, MOST_LOOKED_AT))
        if not value.fault and own_key(text.part(found + 1, value.end), PHASE) == b"ph":
            text.pos = found + 1
            return
        text.wasted += value.end - value.start
        at = found + 1


def _end_by_brackets(text: Text) -> int:
    """The end of an object that is nested too deeply, by its brackets alone; its begin if no end is found."""
    start, at, nest = text.pos, text.pos, Nest()
    most = _allowed(text, MOST_LOOKED_AT)
    while at < start + most:
        block = text.view(at, min(text.end, start + most))
        if (end := nest.end(block)) >= 0:
            return at + end
        at += len(block)
        if at == text.end and not text.more():
            break
    text.wasted += at - start
    return start


def _shown(text: bytes) -> str:
    return text[:60].decode(errors="replace")


def _is_shallow(text: bytes) -> bool:
    """Whether a text isn't nested so deeply that a caller of ours, some stack frames up, couldn't parse it."""
    if text.count(b"[") + text.count(b"{") <= _SPARE:
        return True
    try:
        elements_of(b"[" * _SPARE + text + b"]" * _SPARE)
    except RecursionError:
        return False
    return True


def is_json(text: bytes) -> bool:
    """Whether it is a JSON value with valid UTF-8, not nested too deeply."""
    try:
        members_of(text) if text[:1] == b"{" else msgspec.json.decode(text)
        return _is_shallow(text) and is_utf8(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
