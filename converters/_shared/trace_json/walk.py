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

    `bare` has the texts (begin and end of what is between the quotes) that have quotes within.
    """

    end: int
    closed: bool
    bare: list[tuple[int, int]]


_MARK = re.compile(rb'["{}\[\]]')
_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_GOES_ON = re.compile(rb'\s*,\s*"[^"\\]*"\s*:')

#: What follows a quote that ends a text: a key, a value of an object, an element of a list.
_AFTER = {
    "key": re.compile(rb"\s*:"),
    "value": re.compile(rb'\s*(?:\}|,\s*(?:"[^"\\]*"\s*:|\})|\Z)'),
    "element": re.compile(rb"\s*[,\]]"),
}

#: The begin of an event: an object, of which the first key is one that events have.
EVENT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:')

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
        self._hopeless: set[str] = set()

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
            elif mark in b"{[":
                if frames and frames[-1] == _OBJECT and before in b",}]" and EVENT.match(text, place):
                    return self._ended(place, closed=False)
                frames.append(_OBJECT if mark == b"{"[0] else _LIST)
            elif mark in frames:
                while frames.pop() != mark:
                    pass
                if not frames:
                    if mark == _LIST or not _GOES_ON.match(text, at):
                        return self._ended(at, closed=True)
                    frames.append(mark)  # a brace too many
            elif mark == _LIST:  # the end of the list of events
                return self._ended(place, closed=False)
            before = mark
        return None

    def _ended(self, end: int, *, closed: bool) -> Walked:
        if not closed:
            end = len(self._text[:end].rstrip(b" \t\r\n,"))
        return Walked(end, closed, self._bare)

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
        while end >= 0 and role not in self._hopeless:
            if after.match(text, end + 1):
                if bare or end < first:
                    self._bare.append((start, end))
                return end
            bare = True
            end = text.find(b'"', end + 1) if escaped else self._quote(end + 1)
        self._hopeless.add(role)
        return first

    def _quote(self, start: int) -> int:
        """The next quote from a place on before which no backslash stands; -1 where there is none."""
        found = _REST.match(self._text, start)
        end = found.end() if found else start
        return end if end < len(self._text) and self._text[end] == _QUOTE else -1
