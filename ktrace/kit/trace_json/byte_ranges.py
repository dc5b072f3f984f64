"""Byte ranges of a document that are read separately, in other processes or on other machines.

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

from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.model.json_text import NOT_JSON
from ktrace.report import Report

from .chunks import CHUNK, Text
from .decode import MOST_EVENTS, Decoder
from .events import Events
from .json_values import elements_of
from .lists import List

_LIST = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[|\{.*?"traceEvents"\s*:\s*\[)', re.DOTALL)
_HALF = re.compile(rb'"ph"\s*:\s*"[BEbeSF]"')
_SEPARATOR = re.compile(rb"\s*,\s*")

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
        part = text.part(text.match(_SEPARATOR, text.pos), end)
        try:
            elements_of(b"[" + part + b"]")
        except NOT_JSON:
            continue
        return True
    return False
