"""Finds the most likely end of a broken object: walks over its brackets and texts, with a rule for quotes.

    {"ph": "X", "name": "f("a")", "args": {"x": foo}}, {"ph": "X", ...
                                                     ^ all brackets are closed, and an event begins

A quote ends a text, depending on the rule, if no backslash precedes it (`PLAIN`); if in addition the text after it is
possible there, as in `"name": "f("a")",` (`PLAUSIBLE`); or if the text after it is possible, even after a backslash,
as in `"C:\",` (`ESCAPED`).

`candidates` are the ends by these rules, the likeliest first; an event that follows confirms one. An object may end
sooner, where an event begins in it that can't be part of it (`before_event`, `broken_off`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

import msgspec

from .grammar import object_end, own_key
from .json_values import members_of


class Rule(Enum):
    """When a quote ends a text."""

    PLAIN = 0
    PLAUSIBLE = 1
    ESCAPED = 2


class Walked(NamedTuple):
    """Where an object ends: `closed` by its brackets, else cut there.

    `bare` are the texts (begin and end between the quotes) that contain quotes. `steady`: the last texts, and all
    others but two, are followed by possible text; else quotes that begin texts may have been read as ends.
    """

    end: int
    closed: bool
    bare: list[tuple[int, int]]
    steady: bool


_MARK = re.compile(rb'["{}\[\]]')
_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_AFTER_TEXT = re.compile(rb"\s*[:,}\]]")
_KEY_END = re.compile(rb"\s*:")
_VALUE_END = re.compile(rb'\s*(?:\}|,\s*(?:"[^"\\]*"\s*:|\})|\Z)')
_ELEMENT_END = re.compile(rb"\s*[,\]]")

#: How an object continues after a value.
GOES_ON = re.compile(rb'\s*,\s*"[^"\\]*"\s*:')

#: Texts with something impossible after them in an object whose other texts are trusted.
_MOST_ODD = 2

#: What follows the quote that ends a key, a value of an object, an element of a list.
_AFTER = {
    "key": _KEY_END,
    "value": _VALUE_END,
    "element": _ELEMENT_END,
}

#: The start of an event: an object whose first key is one of events.
_MEMBER = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:'
EVENT = re.compile(rb"\{\s*" + _MEMBER)
_EVENTS = re.compile(rb"(?:\[\s*)?" + EVENT.pattern)
_EVENT_GOES_ON = re.compile(rb"\s*,\s*" + _MEMBER)

_QUOTE, _COLON = b'"'[0], b":"[0]
_LIST, _OBJECT, _OPENING = b"]"[0], b"}"[0], b"{"[0]


def walk(text: bytes, rule: Rule) -> Walked | None:
    """Walks over the object at the start of a text; returns None if the text ends first."""
    return _Walk(text, rule).run()


class _Walk:
    def __init__(self, text: bytes, rule: Rule) -> None:
        self._text = text
        self._rule = rule
        self._frames = bytearray()  # what closes the brackets that are open
        self._open = {_OBJECT: 0, _LIST: 0}  # how many of each
        self._bare: list[tuple[int, int]] = []
        self._looked: dict[str, tuple[int, int, bool]] = {}
        self._plausible = (True, True, True)  # for the last texts
        self._odd = 0

    def run(self) -> Walked | None:
        text, frames = self._text, self._frames
        at, before = 0, 0
        while found := _MARK.search(text, at):
            place = found.start()
            gap = text[at:place].strip()
            before = gap[-1] if gap else before
            mark = text[place]
            at = place + 1
            if mark == _QUOTE:
                end = self._end_of_text(at, before)
                if end < 0:
                    return None
                at = end + 1
                self._plausible = (*self._plausible[1:], bool(_AFTER_TEXT.match(text, at)))
                self._odd += not self._plausible[-1]
            elif mark in b"{[":
                if self._breaks_off(before, place):
                    return self._ended(place, closed=False)
                self._push(_OBJECT if mark == _OPENING else _LIST)
            elif self._open.get(mark):
                while self._pop() != mark:
                    pass
                if not frames:
                    if mark == _LIST or not GOES_ON.match(text, at):
                        return self._ended(at, closed=True)
                    self._push(mark)  # a surplus brace
            elif mark == _LIST and not _EVENT_GOES_ON.match(text, at):  # the end of the list of events
                return self._ended(place, closed=False)
            before = mark
        return None

    def _breaks_off(self, before: int, place: int) -> bool:
        """Whether an event, or a list of them, begins where an object goes on with a key, a comma or its end."""
        inside = self._frames and self._frames[-1] == _OBJECT and before not in (_COLON, _OPENING)
        return bool(inside) and _EVENTS.match(self._text, place) is not None

    def _push(self, mark: int) -> None:
        self._frames.append(mark)
        self._open[mark] += 1

    def _pop(self) -> int:
        mark = self._frames.pop()
        self._open[mark] -= 1
        return mark

    def _ended(self, end: int, *, closed: bool) -> Walked:
        if not closed:
            end = len(self._text[:end].rstrip(b" \t\r\n,"))
        return Walked(end, closed, self._bare, all(self._plausible) and self._odd <= _MOST_ODD)

    def _end_of_text(self, start: int, before: int) -> int:
        """The position of the quote that ends the text which begins at `start`; -1 for none."""
        text = self._text
        first = end = self._quote(start)
        if self._rule is Rule.PLAIN:
            return end
        role = "element" if self._frames and self._frames[-1] == _LIST else "value" if before == _COLON else "key"
        escaped = self._rule is Rule.ESCAPED and role == "value"
        begin = text.find(b'"', start) if escaped else first
        end = self._plausible_end(begin, role, escaped=escaped)
        if end < 0:
            return first
        if end != begin or end < first:
            self._bare.append((start, end))
        return end

    def _plausible_end(self, begin: int, role: str, *, escaped: bool) -> int:
        """The first quote from `begin` on that may end a text, by what follows it; -1 for none before the next key.

        The quotes up to it are looked at once, also if further texts begin among them.
        """
        if begin < 0:
            return -1
        text, after = self._text, _AFTER[role]
        since, end, ends = self._looked.get(role, (0, -1, False))
        if not since <= begin <= end:
            end = begin
            while end >= 0:
                if (ends := bool(after.match(text, end + 1))) or _KEY_END.match(text, end + 1):
                    break
                end = text.find(b'"', end + 1) if escaped else self._quote(end + 1)
            if end < 0:
                end, ends = len(text), False
            self._looked[role] = begin, end, ends
        return end if ends else -1

    def _quote(self, start: int) -> int:
        """The position of the next quote without a backslash before it; -1 for none."""
        found = _REST.match(self._text, start)
        end = found.end() if found else start
        return end if end < len(self._text) and self._text[end] == _QUOTE else -1


#: What follows an element.
_FOLLOWED = re.compile(rb"[\s}]*(?:,\s*(?:[{\[\],]|null|\Z)|[{\]]|\Z)")
#: The start of an event.
BEGIN = re.compile(rb"[^\[:]" + EVENT.pattern)
#: The same after a byte that an object can't follow.
_IMPOSSIBLE = re.compile(rb"[^\s\[:,](?=\s*" + EVENT.pattern + rb")")
#: The same in place of a value.
_IN_PLACE = re.compile(rb":(?=\s*" + EVENT.pattern + rb")")
_NEXT = re.compile(rb"\s*(?:,\s*)?\{")
PHASE = frozenset((b"ph",))


def before_event(piece: bytes, fault: int, walked: Walked) -> int:
    """Where an object that is given up ends: before a valid event in it that can't be part of it."""
    view, left = memoryview(piece), 4 * len(piece)
    for pattern, first in _patterns(walked, fault):
        at = first
        while left > 0 and (begin := pattern.search(piece, at, walked.end)):
            at = begin.start() + 1
            if _is_event(view[at:]):
                return max(len(piece[:at].rstrip(b" \t\r\n,")), 1)
            left -= 1 - object_end(view[at:])
    return walked.end


def _patterns(walked: Walked, fault: int) -> list[tuple[re.Pattern[bytes], int]]:
    """What may precede such an event, and from where on."""
    if not walked.closed:  # the object breaks off: an event in place of a value is the next one
        return [(_IN_PLACE, 1), (BEGIN, fault)]
    return [(_IMPOSSIBLE, 1)] if walked.steady and not walked.bare else [(BEGIN, fault)]


def broken_off(piece: bytes, fault: int) -> int:
    """Where the object ends if a valid event begins inside its seeming last text before the fault; else -1.

    {"ph": "X", "name": "a},
    {"ph": "X", "name": "b"},         the parser stumbles over the first ph of this line
    """
    quote = piece.rfind(b'"', 0, max(piece.rfind(b'"', 0, fault), 0))
    begin = BEGIN.search(piece, max(quote, 1))
    if not begin or begin.start() > fault + 1 or not _is_event(memoryview(piece)[begin.start() + 1 :]):
        return -1
    return len(piece[: begin.start()].rstrip(b" \t\r\n,"))


def _is_event(text: bytes | memoryview) -> bool:
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


def candidates(piece: bytes, *, last: bool) -> list[Walked]:
    """The possible ends of the object at the start of a text, the likeliest first; `last`: nothing follows the text."""
    found: list[Walked] = []
    for rule in Rule:
        walked = walk(piece, rule)
        if walked and _may_end(piece, walked.end, last=last):
            if walked.steady and rule is Rule.PLAIN:
                return [walked]
            found.append(walked)
    steady = [walked for walked in found if walked.steady or (walked.closed and event_follows(piece, walked.end))]
    return sorted(steady or found, key=lambda walked: walked.end)


def event_follows(piece: bytes, end: int) -> bool:
    """Whether a valid event begins after a comma at `end`."""
    found = _NEXT.match(piece, end)
    return found is not None and _is_event(memoryview(piece)[found.end() - 1 :])


def _may_end(piece: bytes, end: int, *, last: bool) -> bool:
    """Whether the text after `end` may follow an element."""
    if end > len(piece) - 64 and not last:
        return False
    found = _FOLLOWED.match(piece, end)
    return found is not None and (found.end() < len(piece) or last)
