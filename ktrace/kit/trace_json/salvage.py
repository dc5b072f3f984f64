"""Reads a damaged list element by element: valid elements are kept, the others repaired or given up.

{"ph": "X", "name": "f("a")", "args": {"x": nan}},   {"ph": "X", ...     and here the file ends
 refused by the parser, repaired                ^ where `walk` ends     ^ a cut

    an element that                            becomes
    is valid                                   itself, with `mend` if it isn't UTF-8
    is valid, and goes on: `}, "key":`         a broken object, with a surplus brace
    has no opening brace                       an event, if one ends there; else stray text
    is a document with a list of events        the start of that list, which continues this one
    is an object that the parser refuses       what `mend_value` makes of it up to an end that `walk` finds; else lost
    is nested too deeply                       lost, up to its end by brackets
    doesn't end within the bytes allowed       lost, up to the next valid event
    is anything else                           lost, up to what may begin an element

What is examined in vain is counted, so that the time is in proportion to the text (`_within`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

import msgspec

from ktrace.byte_account import Owner
from ktrace.kit.columnar.dictionaries import is_utf8

from .chunks import Text
from .grammar import Nest, Value, find_key, object_end, own_key, value_at
from .json_values import elements_of, members_of
from .repair import Repair, mend, mend_value
from .walk import BEGIN, EVENT, GOES_ON, PHASE, Rule, Walked, before_event, broken_off, candidates, event_follows, walk

#: Bytes of a broken element that are examined: at first, at most, and in any case.
LOOKED_AT = 1 << 11
MOST_LOOKED_AT = 1 << 24
LEAST_LOOKED_AT = 1 << 14

#: How often the bytes of a broken element are walked over: once by each rule, in pieces that get four times as long.
_WALKS = 4

#: Text that isn't an element, up to text that may begin one.
_STRAY = re.compile(rb'(?:"[^"\\\r\n{}]*(?:\\.[^"\\\r\n{}]*)*"?|[^,{\[\]"])+|["\[]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
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
            if first == b'"':
                self._headless()
            elif first == b"{":
                owner = self._object()
            elif (value := self._value()).fault:
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
        text, value, whole = self._text, self._value(), None
        if not value.fault and self._goes_on(value):
            value, whole = value._replace(fault="broken"), value
        if (inner := _list_within(text, value)) > 0:
            self._found.repaired(text.pos, "a document begins within the list")
            text.pos = inner
            self._resumed = True
            return "structure"
        if value.fault:
            self._broken(value, whole)
        else:
            self._whole(value)
        return "read"

    def _goes_on(self, value: Value) -> bool:
        """Whether an object goes on after a surplus brace: a key follows, and no event that lacks its own brace."""
        text = self._text
        if text.match(GOES_ON, value.end) == value.end:
            return False
        after = text.match(_SEPARATORS, value.end)
        return _headless_end(text, after) < 0 or own_key(text.part(value.start, value.end), PHASE) != b"ph"

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

    def _headless(self) -> None:
        """An event whose opening brace is missing; else the text is stray."""
        text, start = self._text, self._text.pos
        end = _headless_end(text, start)
        if end < 0 or not self._found.keep(start, *mend(b"{" + text.part(start, end))):
            self._stray()
            return
        self._found.repaired(start, "an opening brace is missing")
        text.pos = end

    def _broken(self, value: Value, whole: Value | None) -> None:
        """An object that the parser refuses; `whole` is the valid one at its begin, if more of it seems to follow."""
        text, start = self._text, self._text.pos
        shown = ""
        if value.fault == "broken":
            end = self._mended(value)
            if end > start:
                text.pos = end
                return
            if whole and -end > whole.end:
                self._whole(whole)
                text.own("read", start)
                start = whole.end
        elif value.fault == "deep":
            end, shown = -_end_by_brackets(text), "nested too deeply: "
        else:  # the examined part is JSON
            text.wasted += value.end - start
            end = -start
        shown += _shown(text.part(start, min(start + 60, text.end)))
        text.pos = start
        if end < -start:
            text.pos = -end
        else:  # a further brace may begin an event
            resume(text)
            self._resumed = True
        self._found.lose("cut" if text.ended and text.pos == text.end else "bad-record", start, shown)

    def _mended(self, value: Value) -> int:
        """Takes a broken object if it can be repaired, and returns its end; if it can't be, the end negated.

        If the end isn't known either, returns its begin negated.
        """
        text, start, fault = self._text, value.start, value.end - value.start
        size = LOOKED_AT + 2 * fault
        most = max(size, _allowed(text, MOST_LOOKED_AT))
        while True:
            piece = _piece(text, start, size)
            last = text.ended and start + len(piece) == text.end
            cut = broken_off(piece, fault)
            if cut > 0:
                return -(start + before_event(piece, fault, Walked(cut, False, [], False)))
            ends, tried = [], set[int]()  # several rules may find the same end
            for walked in candidates(piece, last=last):
                for way in mend_value(piece[: walked.end]) if walked.closed and walked.end not in tried else ():
                    if self._found.keep(start, *way):
                        _waste(text, piece, walked.end)
                        return start + walked.end
                tried.add(walked.end)
                ends.append(before_event(piece, fault, walked))
                if not walked.closed or event_follows(piece, walked.end):
                    break
            if ends or last or size > most:
                end = min(ends, default=0)
                _waste(text, piece, end)
                return -(start + end)
            size *= 4

    def _stray(self) -> None:
        """Text that isn't an element."""
        text, start = self._text, self._text.pos
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


def _headless_end(text: Text, start: int) -> int:
    """Where an event ends whose first key begins at `start`, without its opening brace; -1 if this isn't one."""
    size = LOOKED_AT
    while True:
        piece = b"{" + _piece(text, start, size)
        if not EVENT.match(piece):
            return -1
        end = object_end(piece)
        if end > 0:
            return start + end - 1 if own_key(piece[:end], PHASE) == b"ph" else -1
        text.wasted -= end
        if -end < len(piece) or len(piece) <= size or size > _allowed(text, MOST_LOOKED_AT):
            return -1
        size *= 4


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
    walks = (walk(piece, rule) for rule in Rule)
    for end in chain([Nest().end(memoryview(piece))], (one.end for one in walks if one and one.closed)):
        for whole, repairs in mend_value(piece[:end]) if end > 0 else ():
            if is_json(whole):
                return whole, end, repairs
    return None


def _waste(text: Text, piece: bytes, end: int) -> None:
    """Counts what was examined of a piece, of which an element takes the bytes up to `end`; the least isn't counted."""
    text.wasted += _WALKS * max(len(piece) - LOOKED_AT - 3 * end, 0)


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
