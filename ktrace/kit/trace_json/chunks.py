"""The text of a document, read through a window: where it may be cut into chunks of events, and where values end.

    ..."dur": 7.770}},  {"ph": "s", ...
                     ^ the end of a chunk: an object ends, a comma, an object begins; unless it is inside a text

    {"ph": "O", "args": {"snapshot": [{"ph": "X", "ts": 1}, {"text": "},{\\"ph\\""}]}}, {"ph": ...
                                                  the value ends here, not earlier ^

A strict parser finds the end of a value (msgspec's, which scans a value at some GB/s and keeps nothing). What it
refuses is broken.
"""

from __future__ import annotations

import re
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np

from ktrace.byte_account import ByteAccount, Owner
from ktrace.input.limits import current, exceeded, sized
from ktrace.model.arrays import Int64, UInt8
from ktrace.model.json_text import refuse_deep
from ktrace.report import Report

#: Bytes of a chunk of events: small enough for the cache (chunks of 1 MiB take a tenth longer). What is read
#: doesn't depend on it.
CHUNK = 1 << 19

#: Bytes of the first chunk, which teaches shapes, and so the order of arguments.
FIRST = 1 << 19

#: Bytes of a range of a document, whose events are put in order together, and which one process reads.
RANGE = 1 << 24

#: Bytes that are read at once, at least.
BLOCK = 1 << 20

#: Bytes of a window that any limit of a value allows.
LEAST = 2 * BLOCK

#: Greatest number of bytes of one event, unless the limit is higher; a longer one is treated as damage.
LARGEST = 1 << 29

_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
_AT_LINE_END = re.compile(rb"\}\s*,[ \t\r]*\n\s*\{")
_LINE = re.compile(rb"\}[ \t\f\v]*[\r\n]\s*\{")
#: What may be a boundary that crosses the window's end.
_BROKEN_BOUNDARY = re.compile(rb"\}\s*(?:,\s*)?\Z")

#: A boundary at the end of a line is preferred to one in a line if it is this near: in a line may be a nested list.
_NEAR = 1 << 14

_BLANK = re.compile(rb"\s*")


class Text:
    """A window onto a stream. `pos` is the current position, in bytes of the document; text before it is discarded.

    Whoever moves `pos` states by `own` what the bytes before it are: `account` divides the text among its owners. Bytes
    that nobody stated are skipped there, and `unowned` has their ranges.
    """

    def __init__(self, stream: BinaryIO, pos: int = 0) -> None:
        self.account = ByteAccount()
        self.unowned: list[tuple[int, int]] = []
        self.owned = pos
        self._stream = stream
        self._start = pos
        self._data = bytearray()
        self._most = current().value
        self.largest = max(LARGEST, self._most)
        self.pos = pos
        self.ended = False
        self.wasted = self.tried = 0  # bytes of elements, and of chunks, that were examined in vain
        self.renew()
        self._gap = (_BOUNDARY, pos, pos)  # between these positions no boundary begins

    def more(self) -> bool:
        """Reads a further block; False at the end of the stream. Raises DamagedInput at the limit of a value.

        The window grows by half its content, so that a long text takes time in proportion to its length.
        """
        if self.ended:
            return False
        rest = memoryview(self._data)[self.pos - self._start :]
        filled = len(rest)
        if filled > max(self._most, LEAST):
            what = f"a value or text that begins here doesn't end within {sized(filled)}"
            raise exceeded("value", what, where=f"byte {self.pos}")
        window = bytearray(filled + max(BLOCK, filled // 2))
        window[:filled] = rest
        space = memoryview(window)
        while filled < len(window) and (count := self._stream.readinto(space[filled:])):  # type: ignore[attr-defined]
            filled += count
        space.release()
        self.ended = filled == len(rest)
        if not self.ended:
            del window[filled:]
            self._data = window
            self._start = self.pos
        return not self.ended

    def jump(self, pos: int) -> None:
        """Goes to a position of a seekable stream."""
        self._stream.seek(pos)
        self._data = bytearray()
        self._start = self.pos = self.owned = pos
        self.ended = False
        self.renew()

    def renew(self) -> None:
        """Begins to count anew what is examined in vain: at most twice the bytes that are read from here on."""
        self.wasted = self.tried = 2 * self.pos

    def own(self, owner: Owner, start: int) -> None:
        """States what the text from `start` to the current position is."""
        start = max(start, self.owned)  # of a range whose begin was guessed wrong, text may come twice
        if start > self.owned:
            self._disown(start)
        if self.pos < start:
            return
        if owner == "skipped":
            self.account.skip(start, self.pos)
        else:
            self.account.own(owner, self.pos - start)
        self.account.size += self.pos - start
        self.owned = self.pos

    def _disown(self, start: int) -> None:
        """Skips the text before `start` that nobody owns."""
        self.unowned.append((self.owned, start))
        self.account.skip(self.owned, start)
        self.account.size += start - self.owned

    def finish(self, report: Report) -> None:
        """Adds the account of the text to a report. Bytes that nobody owns are reported as skipped."""
        if self.pos > self.owned:
            self._disown(self.pos)
            self.owned = self.pos
        for start, end in self.unowned:
            report.record()
            report.issue("unrecognised", f"bytes {start}-{end - 1}", "text that no record owns")
        report.bytes.merge(self.account)
        self.account, self.unowned = ByteAccount(), []

    def skip_rest(self, report: Report) -> None:
        """Skips what follows the end of a document, and ends the account; blanks are structure."""
        self.skip_blank()
        start, shown = self.pos, self.peek(40)
        while self.pos < self.end or self.more():
            self.pos = self.end
        if self.pos > start:
            self.own("skipped", start)
            report.record()
            report.issue("unrecognised", f"byte {start}", f"{shown!r} after the document")
        self.finish(report)

    def begin_at(self, pos: int) -> None:
        """Goes to a position of the window; the text before it is somebody else's."""
        self.pos = self.owned = pos

    def step(self, owner: Owner = "structure") -> None:
        """Goes past a byte: a bracket, a comma."""
        self.pos += 1
        self.own(owner, self.pos - 1)

    @property
    def end(self) -> int:
        """Where the window ends."""
        return self._start + len(self._data)

    def part(self, start: int, end: int) -> bytes:
        """The text between two positions of the window."""
        return bytes(self.view(start, end))

    def view(self, start: int, end: int) -> memoryview:
        """As `part`, not copied; valid until the window moves."""
        return memoryview(self._data)[start - self._start : end - self._start]

    def peek(self, size: int = 1) -> bytes:
        """The next bytes, fewer at the end of the document."""
        while self.end - self.pos < size and self.more():
            pass
        return self.part(self.pos, self.pos + size)

    def match(self, pattern: re.Pattern[bytes], at: int) -> int:
        """Where the match of the pattern at a position ends, within the window; the position itself for no match."""
        match = pattern.match(self._data, at - self._start)
        return self._start + match.end() if match else at

    def search(self, pattern: re.Pattern[bytes], at: int, stop: int | None = None) -> int:
        """Where the pattern is found from a position on, within the window and before `stop`; -1 if it isn't."""
        end = len(self._data) if stop is None else stop - self._start
        match = pattern.search(self._data, at - self._start, end)
        return self._start + match.start() if match else -1

    def skip_blank(self, owner: Owner = "structure") -> bytes:
        """Goes to the next byte that isn't white space, and returns it; b"" at the end of the document."""
        while True:
            start = self.pos
            self.pos = self.match(_BLANK, start)
            if self.pos > start == self.owned:
                self.own(owner, start)
            if self.pos < self.end or not self.more():
                return self.part(self.pos, self.pos + 1)

    def cut(self, at: int, *, lines: bool = False, near: int = _NEAR) -> int:
        """Returns the end of the chunk that begins at `pos`: the first boundary from `at` on.

        One at a line's end is preferred within `near` bytes. With `lines` it is a line end instead of a comma. If there
        is no boundary in `largest` bytes, it is the end of the document or of the window. A boundary may be wrong: in a
        text, or in a nested list.
        """
        boundary = _LINE if lines else _BOUNDARY
        while self.end < at + near and self.more():
            pass
        if not lines and (match := self.search(_AT_LINE_END, at, at + near)) >= 0:
            return match + 1
        boundary_before, first, after = self._gap
        gap = at
        if boundary_before is boundary and first <= at < after:
            gap, at = first, after
        while True:
            if at < self.end:
                match = self.search(boundary, at)
                if match >= 0:
                    self._gap = (boundary, gap, match)
                    return match + 1
                last = self._data.rfind(b"}", at - self._start)
                crosses = last >= 0 and _BROKEN_BOUNDARY.match(self._data, last)
                at = self._start + last if crosses else self.end
                self._gap = (boundary, gap, at)
            if self.end - self.pos > self.largest or not self.more():
                return self.end


_whole = msgspec.json.Decoder(msgspec.Raw).decode
_PLACE = re.compile(r"\(byte (\d+)\)")
_BLANKS = frozenset(b" \t\r\n")

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
            while window[end - 1] in _BLANKS:
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
    match = _PLACE.search(str(error))
    return int(match[1]) - 1 if match else -1


def own_key(text: bytes | memoryview, keys: frozenset[bytes]) -> bytes | None:
    """The first of the wanted keys in the object at the start of a text (not in nested objects).

    Returns b"" if the object ends without one, None if the text ends first.
    """
    key_and_end = find_key(text, keys)
    return None if key_and_end is None else key_and_end[0]


def find_key(text: bytes | memoryview, keys: frozenset[bytes]) -> tuple[bytes, int] | None:
    """As `own_key`, and where the text after the key and its colon begins."""
    depth = 0
    for match in _KEY.finditer(text):
        mark = match[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth <= 0:
                return b"", match.end()
        elif depth == 1 and match[2] and match[1] in keys:
            return match[1], match.end()
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
