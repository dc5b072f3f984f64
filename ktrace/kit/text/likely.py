"""Lines of a sample that contain telling words, for probes whose lines always contain one of them.

Most files contain none of the words, which one search of the whole text shows; other files contain them in few lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from ktrace.input.source import Sample


def likely_lines(sample: Sample, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields (number, line) of the lines with one of the words. Words are in lower case, lines in any."""
    before = 0
    for number in merge(*(_lines_with(sample, word) for word in words)):
        if number > len(sample.lines):  # it may be cut
            return
        if number > before:
            yield number, sample.lines[number - 1]
            before = number


def _lines_with(sample: Sample, word: str) -> Iterator[int]:
    """Yields the numbers of the lines with a word, from 1. Searching the text is faster than looking at each line."""
    at = sample.folded.find(word)
    while at >= 0:
        number = bisect_right(sample.line_starts, at)
        yield number
        at = sample.folded.find(word, sample.line_starts[number])


def utf8_head(sample: Sample) -> bytes:
    """The head in UTF-8: searching bytes is faster than searching text, and most heads are UTF-8."""
    head = sample.head
    return (sample.text or "").encode() if head.startswith((b"\xff\xfe", b"\xfe\xff")) else head


def first_form(sample: Sample, forms: Iterable[tuple[str, re.Pattern[str], str]]) -> str | None:
    """What a text, or its tail, has of these forms: (a word of its lines, a pattern of them, what they are)."""
    parts = (sample.text or "", sample.tail.decode(errors="replace"))
    found = (what for mark, form, what in forms if any(mark in part and form.search(part) for part in parts))
    return next(found, None)
