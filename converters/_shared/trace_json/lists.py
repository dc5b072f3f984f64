"""Lists of events, chunk by chunk: decoded whole where that can be done, mended or picked out one by one where not.

A chunk that begins where a whole one ended, and that is a JSON list itself, ends between two events: a cut that was
guessed wrong, in a text or in a nested list, leaves a text or a bracket open. So no guess is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from ktrace.report import Report

from ..decoding import is_utf8
from .chunks import Text
from .decode import Decoder
from .events import Events
from .raw import elements_of
from .repair import Repair, mend, mend_words
from .salvage import salvage

#: Cuts that are tried for a chunk before its events are picked out one by one.
MOST_CUTS = 4

Way = Callable[[bytes], tuple[bytes, list[Repair]]]

_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_LINES = re.compile(rb"\}(\s*)[\r\n](\s*)\{")


class List:
    """Reads the events of a list into a decoder. `lines`: an event a line, with no brackets and commas around."""

    def __init__(self, text: Text, decoder: Decoder, report: Report, chunk: int, *, lines: bool = False) -> None:
        self._text = text
        self._decoder = decoder
        self._report = report
        self._chunk = chunk
        self._lines = lines
        self.ended = False

    def read(self, stop: int | None = None) -> Iterator[Events]:
        """The events up to the list's end, or to the first chunk that begins at `stop` or behind.

        `ended` is then whether the end was met; the bracket is not read.
        """
        text = self._text
        while not self.ended and (stop is None or text.pos < stop):
            comma = self._separators()
            first = text.peek()
            if first == b"]" and comma:
                self._report.issue("json-repair", f"byte {text.pos}", "a comma behind the last event")
            if first in (b"]", b"") or (self._lines and not is_event(text)):
                self.ended = True
                return
            if stop is not None and text.pos >= stop:
                return
            self._take_chunk()
            if self._decoder.full:
                yield from self._decoder.flush()

    def _separators(self) -> bool:
        """Goes to the next event, over one comma; whether there was one."""
        text = self._text
        if text.skip_blank() != b"," or self._lines:
            return False
        text.pos += 1
        text.skip_blank()
        return True

    def _take_chunk(self) -> None:
        text = self._text
        end = first_end = text.cut((text.pos // self._chunk + 1) * self._chunk, lines=self._lines)
        if self._take(text.view(text.pos, end), end):
            return
        part = text.part(text.pos, end)
        if self._take_mended(mend_words, part, end):
            return
        for _ in range(MOST_CUTS):
            if end == text.end and text.ended:
                break
            end = text.cut(end, lines=self._lines)
            if self._take(text.view(text.pos, end), end):
                return
        if not self._take_mended(mend, part, first_end):
            self._salvage(first_end)

    def _take_mended(self, way: Way, part: bytes, end: int) -> bool:
        """Takes the chunk as a way of mending makes it. False where that changes nothing, or doesn't do."""
        mended, repairs = way(part)
        return bool(repairs) and self._take(mended, end, repairs)

    def _take(self, part: bytes | memoryview, end: int, repairs: list[Repair] | None = None) -> bool:
        """Decodes the events up to a place, or to the end of the list before it. False where that can't be done."""
        start = self._text.pos
        whole = b"".join((b"[", part, b"]"))
        if not is_utf8(whole):
            return False
        if self._lines:
            whole = _LINES.sub(rb"},\1\2{", whole)
        try:
            self._decoder.take(whole, start)
            self._text.pos = end
        except msgspec.DecodeError as error:
            close = -1 if self._lines else _list_end(whole, str(error))
            if close < 0 or (repairs and any(repair.place > close - 2 for repair in repairs)):
                return False
            grown = len(whole) - 2 - (end - start)
            if repairs and grown:  # places behind a repair aren't known well enough
                return False
            try:
                self._decoder.take(whole[:close], start)
            except msgspec.DecodeError:  # nested too deeply
                return False
            self._text.pos = start + close - 2  # before the bracket
        self._tell(repairs or [], start)
        return True

    def _salvage(self, end: int) -> None:
        """Takes the events that begin before `end` one by one."""
        start = self._text.pos
        found = salvage(self._text, end, lines=self._lines)
        self._decoder.take(b"[" + b",".join(found.elements) + b"]", start, salvaged=True)
        self._tell(found.repairs, 0)
        for loss in found.lost:
            self._report.issue(loss.kind, f"byte {loss.place}", loss.detail)

    def _tell(self, repairs: list[Repair], start: int) -> None:
        for repair in repairs:
            self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)


#: A member that an event has, as the first of an object.
_EVENT = re.compile(
    rb'\{\s*(?="(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:)(?:(?!"traceEvents").)*?"ph"\s*:', re.DOTALL
)


def is_event(text: Text) -> bool:
    """Whether what begins here is an event, and no document."""
    return bool(_EVENT.match(text.peek(1 << 16)))


def _list_end(text: bytes, error: str) -> int:
    """Where the list that the text begins with ends, of which the error says that more follows; -1 where it doesn't."""
    found = _TRAILING.search(error)
    at = int(found[1]) if found else 0
    while (at := text.rfind(b"]", 0, at)) > 0:
        try:
            elements_of(text[: at + 1])
            return at + 1
        except msgspec.DecodeError:
            pass
    return -1
