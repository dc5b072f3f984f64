"""Where values of a document end, by the grammar of JSON alone.

    {"ph": "O", "args": {"snapshot": [{"ph": "X", "ts": 1}, {"text": "},{\\"ph\\""}]}}, {"ph": ...
                                                                                    ^ here, and nowhere before

A strict parser says it (msgspec's, which goes over a value at some GB/s and keeps nothing of it). What it refuses is
broken, and `walk` says where that ends most likely.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.model.arrays import Int64, UInt8

from .chunks import LARGEST, Text

_whole = msgspec.json.Decoder(msgspec.Raw).decode
_PLACE = re.compile(r"\(byte (\d+)\)")
_BLANK = frozenset(b" \t\r\n")

#: A parser may take the end of a window for a fault this many bytes before it (half of a surrogate pair).
_UNSURE = 16

_KEY = re.compile(rb'"((?:[^"\\]|\\.){0,64})"\s*(:?)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_OPENING, _CLOSING = b"{[", b"}]"


class Value(NamedTuple):
    """A value: where it begins and ends, or, where it's broken, why, and at which byte that shows.

    `fault`: "" of a whole one; "broken"; "cut" where the document ends before it does; "large"; "deep", nested beyond
    what can be read.
    """

    start: int
    end: int
    fault: str = ""


def value_at(text: Text, start: int, most: int = LARGEST) -> Value:
    """The value that begins at a place of the window, which grows as far as is needed.

    No further than `most` bytes; the time is in proportion to the value's length.
    """
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
    """Where the value ends that a text begins with; or where a fault shows, and which."""
    try:
        return memoryview(_whole(window)).nbytes, ""
    except msgspec.DecodeError as error:
        end, message = place_of(error), str(error)
    except RecursionError:
        return 0, "deep"
    if end < 0:
        return len(window), "cut"
    if "trailing characters" not in message:
        return end, "broken"
    while window[end - 1] in _BLANK:
        end -= 1
    return end, ""


def place_of(error: msgspec.DecodeError) -> int:
    """The place in a text that a parser couldn't take; -1 where the text was cut, or the error says none."""
    found = _PLACE.search(str(error))
    return int(found[1]) - 1 if found else -1


def own_key(text: bytes, wanted: frozenset[bytes]) -> bytes | None:
    """The first of the wanted keys that the object has itself which a text begins with; b"" where the object ends.

    None where the text ends before.
    """
    depth = 0
    for found in _KEY.finditer(text):
        mark = found[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth <= 0:
                return b""
        elif depth == 1 and found[2] and found[1] in wanted:
            return found[1]
    return None


class Nest:
    """Looks for the end of a list, an object or a text by brackets and quotes alone, block by block."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._slashes = 0

    def end(self, block: memoryview) -> int:
        """Where it ends in the block; -1 where it goes on behind it."""
        cells = np.frombuffer(block, np.uint8)
        quotes = unescaped_quotes(cells, self._slashes)
        marks = np.flatnonzero((cells | 32 == 123) | (cells | 32 == 125))  # [ and {, ] and }
        inside = (np.searchsorted(quotes, marks) + self._quoted) % 2 == 1
        marks = marks[~inside]
        steps = np.where(cells[marks] | 32 == 123, 1, -1)
        depths = self._depth + np.cumsum(steps)
        closed = marks[(depths <= 0) & (steps < 0)]
        ends = [int(closed[0]) + 1] if len(closed) else []
        if self._depth == 0:  # a text, as far as no bracket opens
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
    """The places of quotes before which no backslash stands, or an even number; `slashes` stand before the first."""
    quotes = np.flatnonzero(cells == 34)
    behind = quotes[(quotes > 0) & (cells[quotes - 1] == 92)]
    if slashes and len(quotes) and not quotes[0]:
        behind = np.concatenate(([0], behind))
    if not len(behind):
        return quotes
    runs = np.flatnonzero(cells != 92)  # what is no backslash: the last of these before a quote begins its run
    before = np.searchsorted(runs, behind) - 1
    counts = np.where(before >= 0, behind - runs[before] - 1, behind + slashes)
    return np.setdiff1d(quotes, behind[counts % 2 == 1], assume_unique=True)


def _trailing_slashes(cells: UInt8, before: int) -> int:
    """How many backslashes a block ends with, with those before it."""
    others = np.flatnonzero(cells[-64:] != 92)
    if len(others):
        return min(len(cells), 64) - 1 - int(others[-1])
    others = np.flatnonzero(cells != 92)
    return len(cells) - 1 - int(others[-1]) if len(others) else len(cells) + before
