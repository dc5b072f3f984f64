"""Lists of events, chunk by chunk: a chunk is decoded whole if possible, else repaired or read element by element.

A chunk that begins where a valid one ended, and that is a JSON list itself, ends between two events: a wrong cut, in a
text or in a nested list, would leave a text or a bracket open. In that case the end of the chunk is searched element by
element. Repairs begin if a strict parser finds a fault before the chunk's end.

Byte ranges of a list are read separately, in other processes or on other machines:

    {"schemaVersion": 1, "traceEvents": [ {..},{..},{..},{..},{..},{..},{..},{..} ], "traceName": ...
    ranges                               |  0           |  1        |  2        and all other members

The starts of the ranges, and of the list, are guesses. The caller that joins them checks that each range ended where
the next one began, and that the first began where the last one found the list. Cuts are at multiples of a chunk, where
reading the whole document ends its chunks, too, so that ids are the same.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from itertools import chain

import msgspec
import numpy as np

from ktrace.byte_account import Owner
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import is_utf8
from ktrace.model.json_text import NOT_JSON
from ktrace.report import Report

from . import chunks
from .chunks import CHUNK, Text
from .decode import MOST_EVENTS, Decoder
from .events import Events, Moves
from .grammar import Value, own_key, place_of, value_at
from .json_values import elements_of
from .repair import Repair, mend_words
from .salvage import EVENT, may_try, salvage

#: Boundaries are tried from this many bytes before a wanted border on.
_LOOKED_BACK = (1 << 15, 1 << 17)

#: Bytes before the end of a range that are a chunk of their own, which ends by the grammar.
_LAST = 1 << 14

#: Bytes of an object that are searched for its phase.
LARGEST_HEAD = 32 << 20

#: The place of a parser's fault in a chunk: none, at its end, which may be a wrong cut, or before that.
_NONE, _AT_END, _WITHIN = range(3)

_SEPARATOR = re.compile(rb"\s*,?\s*")
_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
_LINES = re.compile(rb"\}([ \t\f\v]*)[\r\n](\s*)\{")


class List:
    """Reads the events of a list into a decoder. `lines`: one event on each line, without brackets and commas.

    `begun`: there are events before these, so that what separates them is counted as read.
    """

    def __init__(
        self,
        text: Text,
        decoder: Decoder,
        report: Report,
        chunk: int,
        *,
        lines: bool = False,
        begun: bool = False,
    ) -> None:
        self._text = text
        self._decoder = decoder
        self._report = report
        self._chunk = chunk
        self._end = 0  # of the range: it goes on to the first element's end from here on, whatever the chunks were
        self._lines = lines
        self._separator: Owner = "read" if begun else "structure"
        self.ended = False

    def read(self, stop: int | None = None, *, chunks: int = -1) -> Iterator[Events]:
        """Yields the events of `chunks`, or up to the list's end or to the first chunk that begins at or after `stop`.

        `ended` is then whether the list ended; its bracket isn't read.
        """
        text = self._text
        self._end = self._end or _end_of_range(text.pos, stop)
        while not self.ended and chunks and (stop is None or text.pos < stop):
            comma = self._separators()
            first = text.peek()
            if first == b"]" and comma:
                self._report.issue("json-repair", f"byte {text.pos}", "a comma after the last event")
            if first in (b"]", b"") or (self._lines and not is_event(text)):
                self.ended = True
                return
            self._separator = "read"
            self._take_chunk()
            chunks -= 1
            if text.pos >= self._end:
                yield from self.end_range()
                self._end = _end_of_range(text.pos, stop)
            elif self._decoder.full:
                yield from self._decoder.flush(all_=False)

    def end_range(self) -> Iterator[Events]:
        """Yields what is gathered, and settles the account, as a process does that reads this range of bytes alone."""
        yield from self._decoder.end_range()
        self._text.finish(self._report)
        self._text.renew()

    def _separators(self) -> bool:
        """Goes to the next event, and returns whether it skipped a comma."""
        text = self._text
        if text.skip_blank(self._separator) != b"," or self._lines:
            return False
        text.step(self._separator)
        text.skip_blank(self._separator)
        return True

    def _take_chunk(self) -> None:
        text = self._text
        start = text.pos
        target = min((start // self._chunk + 1) * self._chunk, self._end - _LAST)
        end = text.cut(target, lines=self._lines) if start < target else self._end
        if end >= self._end:
            self._take_last()
            return
        if end > target + self._chunk and not may_try(text, end - start):
            self._salvage(target, None)
            return
        fault = self._take(text.view(start, end), end)
        if fault == _NONE:
            return
        text.tried += end - start
        known = None
        if fault == _AT_END:  # the cut may be wrong, and the text whole
            border, known = self._border(target)
            if not known and self._take(text.view(text.pos, border), border) == _NONE:
                return
        elif self._take_words(end):
            return
        self._salvage(end, known)

    def _take_last(self) -> None:
        """Takes the elements that begin, or whose separator begins, before the end of the range."""
        text = self._text
        border, known = self._border(self._end)
        if known or self._take(text.view(text.pos, border), border) != _NONE:
            self._salvage(self._end, known)

    def _border(self, target: int) -> tuple[int, Value | None]:
        """The end of the first element that reaches `target`, or of the list; and the broken element, if any."""
        text = self._text
        at = self._known_border(target)
        while at < target:
            while (after := text.match(_SEPARATOR, at)) == text.end and text.more():
                pass
            if after == text.end or text.part(after, after + 1) == b"]":
                return after, None
            value = value_at(text, after)
            if value.fault:
                return at, value
            at = value.end
        return at, None

    def _known_border(self, target: int) -> int:
        """A position between two elements before `target`: a boundary up to which the list is valid."""
        text = self._text
        for back in _LOOKED_BACK:
            at = text.search(_BOUNDARY, max(target - back, text.pos), target) + 1
            if text.pos < at < target:
                try:
                    elements_of(b"".join((b"[", text.view(text.pos, at), b"]")))
                    return at
                except NOT_JSON:
                    pass
        return text.pos

    def _take_words(self, end: int) -> bool:
        """Takes the chunk with nan and inf as texts. Returns False if there are none, or if that isn't enough."""
        mended, repairs, grown = mend_words(self._text.part(self._text.pos, end))
        if not repairs:
            return False
        longer = np.cumsum(grown)
        places = np.array([repair.place for repair in repairs])
        moves = Moves(self._text.pos - 1, places + 1 + longer, -longer)
        return self._take(mended, end, repairs, moves) == _NONE

    def _take(
        self, part: bytes | memoryview, end: int, repairs: list[Repair] | None = None, moves: Moves | None = None
    ) -> int:
        """Decodes the events up to a position, or to the end of the list before it. Returns the place of a fault."""
        start = self._text.pos
        moves = moves or Moves.none(start)
        whole = b"".join((b"[", part, b"]"))
        if not is_utf8(whole):
            return _WITHIN
        if self._lines:
            whole = _LINES.sub(rb"},\1\2{", whole)
        try:
            self._decoder.take(whole, moves)
            self._text.pos = end
        except msgspec.DecodeError as error:
            place = place_of(error)
            close = -1 if self._lines else _list_end(whole, error)
            if close < 0:
                return _WITHIN if 0 <= place < len(whole) - 1 else _AT_END
            if repairs and any(repair.place > close - 2 for repair in repairs):
                return _WITHIN
            grown = len(whole) - 2 - (end - start)
            if repairs and grown:  # positions after a repair aren't exact
                return _WITHIN
            try:
                self._decoder.take(whole[:close], moves)
            except msgspec.DecodeError:  # nested too deeply
                return _WITHIN
            self._text.pos = start + close - 2  # before the bracket
        self._text.own("read", start)
        self._report_repairs(repairs or [], start)
        return _NONE

    def _salvage(self, end: int, known: Value | None) -> None:
        """Takes the events that begin before `end`, one by one."""
        found = salvage(self._text, end, lines=self._lines, known=known)
        offsets = 1 + np.cumsum([0, *(len(element) + 1 for element in found.elements[:-1])])
        moves = Moves(0, offsets, np.array(found.places, np.int64) - offsets if found.places else offsets[:0])
        self._decoder.take(b"[" + b",".join(found.elements) + b"]", moves, salvaged=True)
        self._report_repairs(found.repairs, 0)
        for loss in found.lost:
            self._report.issue(loss.kind, f"byte {loss.place}", loss.detail)

    def _report_repairs(self, repairs: list[Repair], start: int) -> None:
        for repair in repairs:
            self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)


def _end_of_range(pos: int, stop: int | None) -> int:
    """Where the range ends that begins, or goes on, at a position: so its events don't depend on chunks."""
    end = (pos // chunks.RANGE + 1) * chunks.RANGE
    return end if stop is None else min(end, stop)


#: An object that begins with a member of events, and has a phase.
_EVENT = re.compile(
    rb'\{\s*(?="(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:)(?:(?!"traceEvents").)*?"ph"\s*:', re.DOTALL
)
_DECISIVE = frozenset((b"ph", b"traceEvents"))


def is_event(text: Text) -> bool:
    """Whether the object that begins here is an event, not a document: it has a phase itself."""
    if not EVENT.match(text.peek(1 << 10)):
        return False
    size = 1 << 16
    while (key := own_key(head := text.peek(size), _DECISIVE)) is None and len(head) == size < LARGEST_HEAD:
        size <<= 4
    if key == b"":  # events on lines, the first without a phase
        return bool(_EVENT.match(head)) and b"\n" in head
    return key == b"ph" if key is not None else bool(_EVENT.match(head[: 1 << 16]))


def _list_end(text: bytes, error: msgspec.DecodeError) -> int:
    """The end of the list at the start of the text, if the error reports text after it; else -1."""
    return text.rindex(b"]", 0, place_of(error)) + 1 if "trailing characters" in str(error) else -1


_LIST = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[|\{.*?"traceEvents"\s*:\s*\[)', re.DOTALL)
_HALF = re.compile(rb'"ph"\s*:\s*"[BEbeSF]"')
_COMMA = re.compile(rb"\s*,\s*")

#: Boundaries that are tried as the start of a range and as the end of a check, and the bytes that a check covers.
_MOST_BEGINS = 256
_MOST_CUTS = 4
_CHECKED = 1 << 16


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """Returns ranges of about `step` bytes of a document of `size` bytes; none if it must be read as a whole.

    That is the case if it is compressed or can't be read from the middle, if it doesn't begin with a list of events,
    and if its sample contains halves of slices.
    """
    count = size // step
    sample = source.sample()
    found = _LIST.match(sample.head)
    if count < 2 or not found or not source.in_ranges() or _HALF.search(sample.head) or _HALF.search(sample.tail):
        return []
    cuts = [size * number // count // CHUNK * CHUNK for number in range(1, count)]
    first = ByteRange(found.end(), cuts[0], guessed=False)
    return [first, *map(ByteRange, cuts, [*cuts[1:], None])]


def read_range(
    text: Text, part: ByteRange, report: Report, folded: Container[str] = (), *, quoted: bool = False
) -> Iterator[Events]:
    """Yields the events of a range that isn't the last; sets in it where they began and ended."""
    begin(text, part)
    decoder = Decoder(report, MOST_EVENTS, folded, quoted=quoted)
    reading = List(text, decoder, report, CHUNK, begun=part.guessed)
    yield from chain(reading.read(part.stop), decoder.flush())
    text.finish(report)
    part.end, part.closed = text.pos, reading.ended


def begin(text: Text, part: ByteRange) -> None:
    """Goes to the start of a range; if that is a guess, to the first border between events from there on."""
    if part.guessed:
        seek(text, part.start)
    else:
        text.jump(part.start)
    part.begun = text.pos


def seek(text: Text, start: int) -> None:
    """Goes to the end of the first event that ends at a position or after it: most likely, since texts and lists may
    look like events."""
    text.jump(start - 1)
    first = text.cut(text.pos, near=0)
    text.begin_at(first)
    for _ in range(_MOST_BEGINS):
        if _between_events(text):
            return
        text.begin_at(text.cut(text.pos, near=0))
    text.jump(first)


def _between_events(text: Text) -> bool:
    """Whether elements of a list follow: the text up to one of the next boundaries is JSON."""
    end = text.pos + _CHECKED
    for _ in range(_MOST_CUTS):
        end = text.cut(end)
        part = text.part(text.match(_COMMA, text.pos), end)
        try:
            elements_of(b"[" + part + b"]")
        except NOT_JSON:
            continue
        return True
    return False
