r"""Where a broken object ends most likely: a walk over its brackets and texts, with a rule for quotes.

    {"ph": "X", "name": "f("a")", "args": {"x": foo}}, {"ph": "X", ...
                                                     ^ all brackets are closed, and an event begins

A quote ends a text, by the rules, if no backslash stands before it (`PLAIN`); if what follows fits its place, too, as
in `"name": "f("a")",` (`FITTING`); or if what follows fits, also behind a backslash, as in `"C:\",` (`ESCAPED`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Rule(Enum):
    """When a quote ends a text."""

    PLAIN = 0
    FITTING = 1
    ESCAPED = 2


class Walked(NamedTuple):
    """Where an object ends; `closed` by its brackets, else it was broken off there.

    `bare` has the texts (begin and end of what is between the quotes) that have quotes within. `steady`: behind the
    last texts, and all others but two, stands what may stand there; else quotes that begin texts may have been taken
    for such that end them.
    """

    end: int
    closed: bool
    bare: list[tuple[int, int]]
    steady: bool


_MARK = re.compile(rb'["{}\[\]]')
_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_BEHIND = re.compile(rb"\s*[:,}\]]")
_KEY_END = re.compile(rb"\s*:")

#: How an object goes on behind a value.
GOES_ON = re.compile(rb'\s*,\s*"[^"\\]*"\s*:')

#: Texts behind which something odd stands, of an object whose other texts are believed.
_MOST_ODD = 2

#: What follows a quote that ends a text: a key, a value of an object, an element of a list.
_AFTER = {
    "key": _KEY_END,
    "value": re.compile(rb'\s*(?:\}|,\s*(?:"[^"\\]*"\s*:|\})|\Z)'),
    "element": re.compile(rb"\s*[,\]]"),
}

#: The begin of an event: an object, of which the first key is one that events have.
_MEMBER = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:'
EVENT = re.compile(rb"\{\s*" + _MEMBER)
_EVENT_GOES_ON = re.compile(rb"\s*,\s*" + _MEMBER)

_QUOTE, _COLON = b'"'[0], b":"[0]
_LIST, _OBJECT = b"]"[0], b"}"[0]


def walk(text: bytes, rule: Rule) -> Walked | None:
    """Goes over the object that a text begins with; None where the text ends before it does."""
    return _Walk(text, rule).run()


class _Walk:
    def __init__(self, text: bytes, rule: Rule) -> None:
        self._text = text
        self._rule = rule
        self._frames = bytearray()  # what closes the brackets that are open
        self._bare: list[tuple[int, int]] = []
        self._fitting = (True, True, True)  # the last texts
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
                self._fitting = (*self._fitting[1:], bool(_BEHIND.match(text, at)))
                self._odd += not self._fitting[-1]
            elif mark in b"{[":
                if frames and frames[-1] == _OBJECT and before in b",}]" and EVENT.match(text, place):
                    return self._ended(place, closed=False)
                frames.append(_OBJECT if mark == b"{"[0] else _LIST)
            elif mark in frames:
                while frames.pop() != mark:
                    pass
                if not frames:
                    if mark == _LIST or not GOES_ON.match(text, at):
                        return self._ended(at, closed=True)
                    frames.append(mark)  # a brace too many
            elif mark == _LIST and not _EVENT_GOES_ON.match(text, at):  # the end of the list of events
                return self._ended(place, closed=False)
            before = mark
        return None

    def _ended(self, end: int, *, closed: bool) -> Walked:
        if not closed:
            end = len(self._text[:end].rstrip(b" \t\r\n,"))
        return Walked(end, closed, self._bare, all(self._fitting) and self._odd <= _MOST_ODD)

    def _end_of_text(self, start: int, before: int) -> int:
        """Where the quote is that ends the text which begins at `start`; -1 where the text has none."""
        text = self._text
        first = end = self._quote(start)
        if self._rule is Rule.PLAIN:
            return end
        role = "element" if self._frames and self._frames[-1] == _LIST else "value" if before == _COLON else "key"
        after = _AFTER[role]
        escaped = self._rule is Rule.ESCAPED and role == "value"
        if escaped:
            end = text.find(b'"', start)
        bare = False
        while end >= 0:
            if after.match(text, end + 1):
                if bare or end < first:
                    self._bare.append((start, end))
                return end
            if _KEY_END.match(text, end + 1):  # a key was passed by
                break
            bare = True
            end = text.find(b'"', end + 1) if escaped else self._quote(end + 1)
        return first

    def _quote(self, start: int) -> int:
        """The next quote from a place on before which no backslash stands; -1 where there is none."""
        found = _REST.match(self._text, start)
        end = found.end() if found else start
        return end if end < len(self._text) and self._text[end] == _QUOTE else -1
