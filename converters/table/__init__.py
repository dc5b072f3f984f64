"""Any table in text with a column of names and a column of times: Markdown, TSV, CSV or fixed width.

Users' scripts, and tools without a format of their own, write them:

    | Kernel   | Time (ms) | Calls |
    |----------|----------:|------:|
    | gemm_f16 |     1,024 |     3 |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import TIME_WORDS
from ktrace.kit.text.layouts import LONGEST_HEADER, is_rule
from ktrace.kit.text.tables import Recogniser, Table, find_tables, headings_at, may_have_tables
from ktrace.kit.text.titles import likely_lines

from .columns import COLUMNS, NAMES, recognise

#: Each heading of names contains one of these words, in lower case.
_WORDS = tuple(dict.fromkeys(re.split(r" ", name)[0] for name in NAMES))

_NAME = "|".join(sorted((re.sub(" ", r"[\\s_\\-]*", name) for name in NAMES), key=len, reverse=True))
_UNIT = rf"(?:[\s_]*[(\[][^()\[\]]+[)\]]|[\s_](?:{TIME_WORDS})|[NUM]s)?\.?"

#: A heading of names as a cell of its own: between separators, or after a prefix.
_CELL = re.compile(
    rf"(?:^|[|,;\t│┃║>\]:)/]|\s\s|[A-Z\d] )(?=[\s\"*`a-z])[\s\"*`]{{0,8}}"
    rf"(?:{_NAME}){_UNIT}[\"*`]{{0,8}}(?:\s*(?:$|[|,;\t│┃║])|\s\s)",
    re.IGNORECASE,
)
_WORD = re.compile(rf"(?<![A-Za-z])(?:{_NAME})", re.IGNORECASE)

#: A unit of time in headings, below them or in a cell; and how many lines below the headings are searched for it.
_TIME = re.compile(rf"(?<![A-Za-z])(?:{TIME_WORDS}|ps)(?![A-Za-z])|[a-z](?:[NUM]s|[NUM]S)(?![a-z])", re.IGNORECASE)
_BELOW = 4

#: Blanks between cells: three or more are equivalent to two.
_PADDING = re.compile(r"(\s\s)\s+")

#: Headings don't contain many numbers with decimals.
_DECIMAL = re.compile(r"\d\.\d")
_MOST_POINTS = 8

#: A row below headings that single blanks separate: three figures or more at its begin or end.
_FIGURE = r"(?:[+-]?\d\S*(?: ?[%A-Za-zµμ/]{1,5})?|-|N/A)"
_FIGURES = re.compile(rf"^\s*(?:{_FIGURE}\s+){{2}}{_FIGURE}\s|\s{_FIGURE}(?:\s+{_FIGURE}){{2}}\s*$")


def probe(sample: Sample) -> Match | None:
    """SHAPE for a table with names and times, NEAR for a table with names but without a unit of time."""
    if not may_have_tables(sample):
        return None
    near: Table | None = None
    for number in _possible(sample):
        if _TIME.search("\n".join(sample.lines[number - 1 : number + _BELOW])) and _opened(sample, number, recognise):
            for table in find_tables(sample, recognise):
                words = ", ".join(f"'{head.text}'" for head in table.headings[:4])
                return Match(Score.SHAPE, f"contains a table with the columns {words} (line {table.line})")
            break
        near = near or _opened(sample, number, COLUMNS.match)
    if near:
        return Match(Score.NEAR, f"the table in line {near.line} has names, but no unit of time")
    return None


def _opened(sample: Sample, number: int, recogniser: Recogniser) -> Table | None:
    """The table whose headings are in a line; without recognised times it needs more than two columns."""
    table = headings_at(sample.lines, number, recogniser)
    return table if table and (recogniser is recognise or len(table.headings) > 2) else None


def _possible(sample: Sample) -> Iterator[int]:
    """Yields the numbers, from 1, of the lines that may be headings."""
    lines = sample.lines
    for number, line in likely_lines(sample, _WORDS):
        if len(line) > LONGEST_HEADER or (
            line.count(".") > _MOST_POINTS and len(_DECIMAL.findall(line)) > _MOST_POINTS
        ):
            continue
        heading = _PADDING.sub(r"\1", line)
        below = lines[number : number + 2]
        if _CELL.search(heading) or (_WORD.search(heading) and any(map(_is_below_headings, below))):
            yield number


def _is_below_headings(text: str) -> bool:
    """Whether a line is a rule, or a row of figures that single blanks separate."""
    if len(text) > LONGEST_HEADER:
        return False
    return (not text.lstrip()[:1].isalnum() and is_rule(text)) or _FIGURES.search(_PADDING.sub(r"\1", text)) is not None


FORMAT = Format(
    "table",
    "any Markdown, TSV or text table with a name and a time",
    patterns=("*.md", "*.tsv", "*.txt"),
    probe=probe,
    read="ktrace.converters.table.reader:read",
    prose=True,
    max_score=Score.SHAPE,
)
