"""The ways to read a line as the headings of a table, with the lines below it that belong to them.

Kernel   Total           two lines above a rule            shape of polars and DuckDB: a line of types
         (us)                                              str      f64
------  ------
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile, zip_longest

from .headings import are_types, are_units, figure
from .layouts import (
    DELIMITERS,
    LONGEST_HEADER,
    SIDES,
    Dashes,
    Delimited,
    Edges,
    Layout,
    Pipes,
    Spaces,
    Words,
    begins_with_edge,
    chunks_of,
    ends_with_edge,
    is_rule,
    is_rule_below,
    runs_of,
)
from .markup import markup_of
from .wrapped import joined

#: What headings never contain: a time of day, a key of JSON.
_NO_HEADINGS = re.compile(r"\d\d:\d\d|\"\s*:\s")
_SIDE = re.compile(f"[{SIDES}]")
#: A heading in a line whose blanks don't separate cells: a known one of two words, else one word; and its unit.
_WORDS = re.compile(
    r"(?:(?:total|avg|min|max) time|num calls|kernel name|\S+)(?: ?[(\[][^()\[\]]*[)\]])?", re.IGNORECASE
)
_MOST_WORDS = 24
_TOP = re.compile(r"\s*[+┌┏╔╭]")

_WORD = re.compile(r"\S+")

#: Rows that show where cells end.
_MOST_ROWS = 9

#: A number that headings of columns which only gaps part don't have.
_NUMBER = re.compile(r"\d{3}|\d\.\d")

#: Behind its unit a heading ends, even one blank before the next.
_UNIT_ENDS = re.compile(r"(?<=[\w%][)\]]) (?=[A-Za-z])")

#: The fewest rows that show where all of them are blank.
_FEWEST_ROWS = 2

#: Headings of known words, which no end of a line cuts.
_ARE_WORDS = re.compile(
    r"(?i)(?:(?:total|avg|average|mean|min|max|self|num|number|no\.|of|per|gpu|cpu|cuda|device|kernel|op|calls?|times?|duration"
    r"|name|count|share|[(\[][a-z%]{1,5}[)\]]) ?){2,6}"
)

#: Lines that headings may extend over.
_MOST_LINES = 5


@dataclass(frozen=True)
class Candidate:
    """A line read as headings: the layout, the texts, and whether the line below is a rule.

    `lines` is how many lines the headings have, with types below them.
    """

    layout: Layout
    texts: list[str]
    ruled: bool
    lines: int = 1


def candidates(text: str, peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """Yields the ways to read a line as the headings of a table, the surest first. `peek(1)` is the line below."""
    if len(text) > LONGEST_HEADER or _NO_HEADINGS.search(text) or is_rule(text):
        return
    if markup := markup_of(text, peek):
        layout, whole, more = markup
        yield from _candidate(layout, whole, False, lines=1 + more)
        return
    below = peek(1) or ""
    ruled = is_rule(below)
    if "|" in text:
        yield from _pipes(text, peek, boxed=False)
    if _SIDE.search(text):
        yield from _pipes(text, peek, boxed=True)
    for name, delimiter in DELIMITERS.items():
        if delimiter in text:
            yield from _candidate(Delimited(name, quoted=delimiter != "\t" or '"' in text), text, ruled)
    spans = tuple(chunk.span() for chunk in chunks_of(text))
    if not ruled and not any(mark in text for mark in ",;\t|"):
        yield from _right_aligned(text, len(spans), peek)
    if not ruled or len(runs_of(below)) <= len(spans) or not _parts(below, (text, peek(2) or "")):
        yield from _words(text, len(spans), peek)
    yield from _fixed_width(text, spans, peek)


def _parts(rule: str, lines: Sequence[str]) -> bool:
    """Whether lines have a cell below or above each run of a rule, and blanks between them."""
    runs = runs_of(rule)
    return all(
        all(line[begin:end].strip() for begin, end in runs)
        and all(line[end:begin].isspace() for (_, end), (begin, _) in pairwise(runs))
        for line in lines
    )


def _candidate(layout: Layout, text: str, ruled: bool, lines: int = 1) -> Iterator[Candidate]:
    pieces = layout.split(text)
    if pieces:
        yield Candidate(layout, [piece.strip() for piece in pieces], ruled, lines)


def _pipes(text: str, peek: Callable[[int], str | None], *, boxed: bool) -> Iterator[Candidate]:
    """Yields headings between pipes or sides, and such headings of several lines."""
    below = peek(1) or ""
    sides = SIDES if boxed else "|"
    marked = text.lstrip().startswith("|_.")
    first, last = text.lstrip()[:1] in sides, text.rstrip()[-1:] in sides
    first = first and (begins_with_edge(below) or not below.strip())
    last = last and (ends_with_edge(below) or not below.strip())
    for lines in _heights(text, peek, Pipes(first, last, boxed, marked=marked)):
        rule = peek(lines) or ""
        ruled = is_rule_below(rule)
        cuts: tuple[int, ...] = ()
        if ruled and first and last and not boxed:
            cuts = tuple(place for place, char in enumerate(rule) if char in "+|")
        layout = Pipes(first, last, boxed, cuts if len(cuts) > 2 else (), marked)
        yield from _stacked(layout, text, peek, lines)


def _heights(text: str, peek: Callable[[int], str | None], layout: Layout) -> Iterator[int]:
    """Yields of how many lines the headings may consist: those above a rule, or one."""
    pieces = layout.split(text)
    for ahead in range(1, _MOST_LINES):
        below = peek(ahead) or ""
        if is_rule_below(below):
            if ahead > 1:
                yield ahead
            break
        row = layout.split(below) if pieces else None
        if row is None or pieces is None or len(row) != len(pieces) or any(map(figure, row)):
            if ahead > 1 and are_types(layout.split(peek(ahead - 1) or "") or ()):
                yield ahead
            break
    yield 1


def _stacked(layout: Layout, text: str, peek: Callable[[int], str | None], lines: int) -> Iterator[Candidate]:
    """Yields the headings in several lines, joined by columns, without a last line of types."""
    rows = [layout.split(text), *(layout.split(peek(ahead) or "") for ahead in range(1, lines))]
    parts = [row for row in rows if row is not None]
    ruled = is_rule_below(peek(lines) or "")
    if len(parts) < lines:
        return
    while len(parts) > 1 and (are_types(parts[-1]) or not any(part.strip(" -") for part in parts[-1])):
        parts.pop()
    whole = [cell.strip() for cell in joined(layout, parts[0], parts[1:])]
    stacked = [" ".join(cell for part in parts if (cell := part[column].strip())) for column in range(len(parts[0]))]
    texts = [one if _ARE_WORDS.fullmatch(one) else other for one, other in zip(stacked, whole, strict=True)]
    yield Candidate(layout, texts, ruled, lines)


def _fixed_width(text: str, spans: Sequence[tuple[int, int]], peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """Yields headings above runs of dashes, or at least two blanks apart."""
    below = peek(1) or ""
    ruled = is_rule(below)
    has_types = are_types(chunk.group() for chunk in chunks_of(peek(2) or ""))  # below marks that aren't columns
    if ruled and not has_types and not _TOP.match(below) and len(runs := runs_of(below)) > 1:
        yield from _candidate(Dashes(runs), text, True)
    if not spans:
        return
    if not ruled and not begins_with_edge(peek(2) or ""):
        yield from _wrapped(text, below, peek(2) or "")
        yield from _in_two_lines(text, spans, below, peek)
        yield from _qualified(spans, text, below)
    if len(spans) > 1 or text[:1] == " ":
        for layout, texts in _with_unnamed(text, spans, peek(1 + ruled) or ""):
            yield Candidate(layout, texts, ruled)
    if len(spans) > 1:
        ends = [match.end() for match in _UNIT_ENDS.finditer(text)]
        parts = [
            span for begin, end in spans for span in pairwise([begin, *(at for at in ends if begin < at < end), end])
        ]
        if len(spans) < len(parts) == len(chunks_of(peek(1 + ruled) or "")):
            yield Candidate(Spaces(tuple(parts)), [text[begin:end].strip() for begin, end in parts], ruled)
        yield from _candidate(Spaces(tuple(spans)), text, ruled)
    yield from _between_gaps(text, len(spans), 1 + ruled, peek)


def _between_gaps(text: str, chunks: int, first: int, peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """Yields headings between the places that are blank in them and in all rows, if they are more than usually shown.

    A place with blanks below a heading, or without a heading, parts nothing.
    """
    rows = list(takewhile(_may_be_row, (peek(ahead) or "" for ahead in range(first, first + _MOST_ROWS))))
    if len(rows) < _FEWEST_ROWS or _NUMBER.search(text):
        return
    lines = [text, *rows]
    ink = "".join(" " if "".join(chars).isspace() else "x" for chars in zip_longest(*lines, fillvalue=" "))
    runs = [match.span() for match in _WORD.finditer(ink)]
    columns: list[tuple[int, int]] = []
    for begin, end in runs:
        is_column = text[begin:end].strip() and any(row[begin:end].strip() for row in rows)
        if columns and not is_column:
            columns[-1] = columns[-1][0], end
        else:
            columns.append((begin, end))
    if len(columns) > max(chunks, 2):
        yield from _candidate(Dashes(tuple(columns)), text, first == 2)


def _may_be_row(text: str) -> bool:
    """Whether a line below headings of fixed width may be a row: it isn't blank, no rule, and has several words."""
    return len(text.split()) > 1 and not is_rule(text)


def _right_aligned(text: str, chunks: int, peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """Yields headings that end where the cells below end, if these are more than texts two blanks apart."""
    rows = list(takewhile(str.strip, (peek(ahead) or "" for ahead in range(1, _MOST_ROWS))))
    ends = [match.end() for match in _WORD.finditer(text)]
    common = [
        end
        for end in ends
        if all(_ends_at(row, end) for row in rows) and any(row[end - 1 : end].strip() for row in rows)
    ]
    is_narrow = any(len(chunks_of(row)) < chunks for row in rows)
    if not rows or len(common) <= max(chunks - is_narrow, 2) or common[-1] != ends[-1]:
        return
    index = [chunks_of(row)[0].end() for row in rows]
    starts = len(text) - len(text.lstrip())
    if max(index) <= starts and all(row[max(index) : max(index) + 1].isspace() for row in rows):
        common.insert(0, max(index))
    layout = Edges(tuple(common))
    yield Candidate(layout, layout.place(text), False)


def _ends_at(row: str, end: int) -> bool:
    """Whether a cell of a row ends at a place, or its cell there is blank."""
    return (row[end : end + 1] or " ").isspace() and (not row[end - 1 : end].isspace() or row[end - 3 : end].isspace())


def _with_unnamed(text: str, spans: Sequence[tuple[int, int]], row: str) -> Iterator[tuple[Spaces, list[str]]]:
    """Yields headings with an empty one before them, where the row below begins left of them: with an index."""
    chunks = [chunk.span() for chunk in chunks_of(row)]
    if len(chunks) == len(spans) + 1 and chunks[0][1] <= spans[0][0]:
        yield Spaces((chunks[0], *spans)), ["", *(text[begin:end] for begin, end in spans)]


def _in_two_lines(
    text: str, spans: Sequence[tuple[int, int]], below: str, peek: Callable[[int], str | None]
) -> Iterator[Candidate]:
    """Yields headings whose second line has units, or the names of an index that stands left of the first line."""
    more = chunks_of(below)
    rule = is_rule(peek(2) or "")
    if not more or any(figure(chunk.group()) for chunk in more):
        return
    if more[-1].end() <= spans[0][0]:
        layout = Spaces((*(chunk.span() for chunk in more), *spans))
        yield Candidate(layout, [*(chunk.group() for chunk in more), *(text[a:b] for a, b in spans)], rule, 2)
    elif len(spans) > 1 and are_units(chunk.group().strip("()[]") for chunk in more):
        layout = Spaces(tuple(spans))
        heads, units = [text[a:b] for a, b in spans], layout.place(below)
        texts = [f"{head} ({unit.strip('()[]')})" if unit else head for head, unit in zip(heads, units, strict=True)]
        yield Candidate(layout, texts, rule, 2)
    elif len(spans) > 1 and rule and len(runs := runs_of(peek(2) or "")) > 1:
        yield from _stacked(Dashes(runs), text, peek, 2)


def _qualified(spans: Sequence[tuple[int, int]], text: str, below: str) -> Iterator[Candidate]:
    """Yields headings of which some differ by a word in the line above alone: `self seconds`, `total seconds`."""
    heads = chunks_of(below)
    names = [head.group() for head in heads]
    if len(spans) < 2 or len(set(names)) == len(names) or any(map(figure, names)):
        return
    above = [""] * len(heads)
    for begin, end in spans:
        under = [index for index, head in enumerate(heads) if head.start() < end and begin < head.end()]
        if len(under) != 1 or above[under[0]]:
            return
        above[under[0]] = text[begin:end]
    texts = [f"{word} {name}".strip() for word, name in zip(above, names, strict=True)]
    if len(set(texts)) == len(texts):
        yield Candidate(Spaces(tuple(head.span() for head in heads)), texts, False, 2)


def _words(text: str, chunks: int, peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """Yields headings that single blanks separate, if the row below has a cell for each."""
    texts = _WORDS.findall(text)
    if not max(chunks, 3) < len(texts) <= _MOST_WORDS:
        return
    ruled = is_rule(peek(1) or "")
    row = peek(1 + ruled) or ""
    if 2 < chunks == len(chunks_of(row)) and min(len(chunk.group().split()) for chunk in chunks_of(row)) == 1:
        return  # two blanks between all of them
    pair = [" ".join(texts[:2]), *texts[2:]], [*texts[:-2], " ".join(texts[-2:])]
    for names in (texts, *([["", *texts]] if text[:1] == " " else []), *pair):
        layout = Words(len(names))
        if layout.split(row):
            yield Candidate(layout, names, ruled)
            return


def _wrapped(text: str, below: str, rule: str) -> Iterator[Candidate]:
    """Yields headings that continue in the next line, above a rule with a run for each."""
    if not below.strip() or not is_rule(rule):
        return
    runs = runs_of(rule)
    texts = [chunk.group() for chunk in (*chunks_of(text), *chunks_of(below))]
    if len(runs) == len(texts):
        yield Candidate(Dashes(runs), texts, True, lines=2)


def framed(text: str) -> str:
    """Returns a line without the sides of a frame that has none between its cells; '' for another line."""
    bare = text.strip()
    sides = f"|{SIDES}"
    if len(bare) < 3 or bare[0] not in sides or bare[-1] not in sides or any(side in bare[1:-1] for side in sides):
        return ""
    return unframed(text)


def unframed(text: str) -> str:
    """Returns a line without the sides at its ends."""
    bare = text.strip()
    if len(bare) < 3 or not all(end in f"|{SIDES}" for end in (bare[0], bare[-1])):
        return text
    at = text.index(bare)
    return f"{text[:at]} {bare[1:-1]}".rstrip()
