"""Finds where values of a document end, by the grammar of JSON.

    {"ph": "O", "args": {"snapshot": [{"ph": "X", "ts": 1}, {"text": "},{\\"ph\\""}]}}, {"ph": ...
                                                                                    ^ here, and not earlier

A strict parser finds it (msgspec's, which scans a value at some GB/s and keeps nothing). What it refuses is broken.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.model.arrays import Int64, UInt8
from ktrace.model.json_text import refuse_deep

from .chunks import Text

_whole = msgspec.json.Decoder(msgspec.Raw).decode
_PLACE = re.compile(r"\(byte (\d+)\)")
_BLANK = frozenset(b" \t\r\n")

#: At the end of a window a parser may report a fault up to this many bytes earlier (half of a surrogate pair).
_UNSURE = 16

_KEY = re.compile(rb'"((?:[^"\\]|\\.){0,64})"\s*(:?)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_OPENING, _CLOSING = b"{[", b"}]"


class Value(NamedTuple):
    """A value: where it begins and ends; for a broken one the reason, and the byte of the fault instead of the end.

    `fault`: "" if it is valid; "broken"; "cut" if the document ends first; "large"; "deep" if it is nested too deeply.
    """

    start: int
    end: int
    fault: str = ""


def value_at(text: Text, start: int, most: int | None = None) -> Value:
    """Returns the value that begins at a position of the window, which grows as far as necessary.

    It grows to at most `most` bytes, by default `text.largest`; the time is in proportion to the value's length.
    """
    most = text.largest if most is None else most
    while True:
        window = text.view(start, text.end)
        end, fault = _end_of(window)
        if fault in ("", "broken") and (end < len(window) - _UNSURE or text.ended):
            return Value(start, start + end, fault)
        if fault == "deep":
            return Value(start, start, fault)
        size = len(window)
        if size > most:
            return Value(start, text.end, "large")
        grown = text.more()
        while grown and text.end - start < size + size // 2:
            grown = text.more()
        if text.end - start == size:
            return Value(start, start + end, fault) if fault != "cut" else Value(start, text.end, "cut")


def _end_of(window: memoryview) -> tuple[int, str]:
    """The end of the value at the start of a text, and ""; or the position of a fault, and its name."""
    try:
        try:
            end = memoryview(_whole(window)).nbytes
        except msgspec.DecodeError as error:
            end = place_of(error)
            if end < 0:
                return len(window), "cut"
            if "trailing characters" not in str(error):
                return end, "broken"
            while window[end - 1] in _BLANK:
                end -= 1
        refuse_deep(window[:end])
    except RecursionError:
        return 0, "deep"
    return end, ""


def object_end(text: bytes | memoryview) -> int:
    """Where the object at the start of a text ends; if it is broken or cut, the place of the fault negated."""
    end, fault = _end_of(memoryview(text))
    return end if not fault else -end


def place_of(error: msgspec.DecodeError) -> int:
    """The position of a parser's error; -1 if the text was cut, or if the error contains no position."""
    found = _PLACE.search(str(error))
    return int(found[1]) - 1 if found else -1


def own_key(text: bytes | memoryview, wanted: frozenset[bytes]) -> bytes | None:
    """The first of the wanted keys in the object at the start of a text (not in nested objects).

    Returns b"" if the object ends without one, None if the text ends first.
    """
    found = find_key(text, wanted)
    return None if found is None else found[0]


def find_key(text: bytes | memoryview, wanted: frozenset[bytes]) -> tuple[bytes, int] | None:
    """As `own_key`, and where the text after the key and its colon begins."""
    depth = 0
    for found in _KEY.finditer(text):
        mark = found[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth <= 0:
                return b"", found.end()
        elif depth == 1 and found[2] and found[1] in wanted:
            return found[1], found.end()
    return None


class Nest:
    """Searches for the end of a list, an object or a text by brackets and quotes alone, block by block."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._slashes = 0

    def end(self, block: memoryview) -> int:
        """Where it ends in the block; -1 if it continues after the block."""
        cells = np.frombuffer(block, np.uint8)
        quotes = unescaped_quotes(cells, self._slashes)
        marks = np.flatnonzero((cells | 32 == 123) | (cells | 32 == 125))  # [ and {, ] and }
        inside = (np.searchsorted(quotes, marks) + self._quoted) % 2 == 1
        marks = marks[~inside]
        steps = np.where(cells[marks] | 32 == 123, 1, -1)
        depths = self._depth + np.cumsum(steps)
        closed = marks[(depths <= 0) & (steps < 0)]
        ends = [int(closed[0]) + 1] if len(closed) else []
        if self._depth == 0:  # a text, unless a bracket opens
            first = int(marks[0]) if len(marks) else len(cells)
            closing = quotes[(1 - self._quoted) :: 2]
            ends += [int(closing[0]) + 1] if len(closing) and closing[0] < first else []
        if ends:
            return min(ends)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        self._quoted = (len(quotes) + self._quoted) % 2 == 1
        self._slashes = _trailing_slashes(cells, self._slashes)
        return -1


def unescaped_quotes(cells: UInt8, slashes: int = 0) -> Int64:
    """The positions of quotes after an even number of backslashes; `slashes` of them precede the first byte."""
    quotes = np.flatnonzero(cells == 34)
    slashed = quotes[(quotes > 0) & (cells[quotes - 1] == 92)]
    if slashes and len(quotes) and not quotes[0]:
        slashed = np.concatenate(([0], slashed))
    if not len(slashed):
        return quotes
    others = np.flatnonzero(cells != 92)  # the last of these before a quote precedes its run of backslashes
    before = np.searchsorted(others, slashed) - 1
    counts = np.where(before >= 0, slashed - others[before] - 1, slashed + slashes)
    return np.setdiff1d(quotes, slashed[counts % 2 == 1], assume_unique=True)


def _trailing_slashes(cells: UInt8, before: int) -> int:
    """The number of backslashes at the end of a block, including those before it."""
    others = np.flatnonzero(cells[-64:] != 92)
    if len(others):
        return min(len(cells), 64) - 1 - int(others[-1])
    others = np.flatnonzero(cells != 92)
    return len(cells) - 1 - int(others[-1]) if len(others) else len(cells) + before
