"""Titles above tables, and lines without words.

## Decode              Markdown
=== Decode ===         a banner
 ** Kernels (sum):     what nsys prints

Prefixes of lines: text before each line of a pasted or logged table that isn't part of the table.

> Time(%)  Total Time  Instances  Name            the mark of a quotation
[05/08/2026-14:05:14] [I]  Time(ms)  Layer        the time and level from a logger
[rank0]: Time (%)  Total Time (ns)  Name          the rank from a launcher
//  Time(%)  Total Time  Calls  Name              a comment in a program's source

Lines of a sample that contain telling words, for probes whose lines always contain one of them.

Most files contain none of the words, which one search of the whole text shows; other files contain them in few lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from ktrace.input.source import Sample

from .layouts import BOX

_DRAWN = re.compile(rf"[-=*_~#+|:{BOX}\s]{{3,}}")
_MARKUP = re.compile(r"(?:```|~~~)\s*\w*|</?\w[^<>]*>")
_MARKDOWN = re.compile(r"\s{0,3}(#{1,6})\s")
_BANNER = re.compile(r"(={2,3})\s*[^=\s]")
_BANNER_END = re.compile(r"={2,3}$")


@dataclass(frozen=True, slots=True)
class Title:
    """A title in the text: its level (1 is outermost), its words, its line."""

    level: int
    text: str
    line: int


def title_of(number: int, line: str) -> Title | None:
    """Returns the title in a line, None if the line isn't a title."""
    text = line.strip()
    if match := _MARKDOWN.match(line):
        return Title(len(match.group(1)), line[match.end() :].strip().rstrip("#").rstrip(), number)
    if (match := _BANNER.match(text)) and (end := _BANNER_END.search(text[-3:])):
        words = text[len(match.group(1)) : len(text) - len(end.group())].strip()
        return Title(4 - len(match.group(1)), words, number) if words else None
    if text.startswith("**") and text.endswith(("**", "**:", ":")):
        words = text[2:].removesuffix(":").removesuffix("**").strip()
        return Title(7, words, number) if words and "*" not in words else None
    return None


_COMPARED = re.compile(
    r"(?i)(?:before|after|old|new|baseline|main|master|(?:this |the )?pr|patched|original|without|with)\b[^:.;]{0,40}:"
    r"|before|after|baseline"
)


def is_compared(text: str) -> bool:
    """Whether a line is the heading of one of two runs: `Before:`, `After merging this PR:`."""
    return _COMPARED.fullmatch(text.strip()) is not None


def is_structure(text: str) -> bool:
    """Whether a line has no words: it is blank, drawn, a code fence or an HTML tag."""
    bare = text.strip()
    return not bare or _DRAWN.fullmatch(text) is not None or _MARKUP.fullmatch(bare) is not None


_QUOTE = r" {0,3}(?:> ?)+"
_COMMENT = r" {0,3}//+(?:\s|$)"
_CLOCK = r"(?:\d{4}[-/]\d\d[-/]\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_STAMP = rf"(?:\[[^\[\]]{{0,40}}\d\d:\d\d:\d\d[^\[\]]{{0,20}}\]|{_CLOCK}(?=\s|$))"
_RANK = r"(?:\[rank ?\d+\]:?|\[\d+,\d+\]<std\w+>:?|\(\w+ pid=\d[^()]*\))"
_LEVEL = r"(?: (?:\[\w{1,8}\]|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\b:?))*"
_PREFIX = re.compile(rf"{_QUOTE}|{_COMMENT}|{_RANK} ?|{_STAMP}{_LEVEL} ?")


def without_prefix(text: str) -> str:
    """Returns the line without its prefix, if it has one."""
    match = _PREFIX.match(text)
    return text[match.end() :] if match else text


def is_quoted(text: str) -> bool:
    """Whether the line begins with the mark of a quotation; no cell does."""
    return text.lstrip(" ").startswith(">")


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
    forms_present = (what for mark, form, what in forms if any(mark in part and form.search(part) for part in parts))
    return next(forms_present, None)
