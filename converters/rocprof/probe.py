"""Recognises the tables of rocprof, rocprofv2 and rocprof-compute, CSV and printed."""

from __future__ import annotations

import re

from ktrace.converters._shared.columnar.csv_headings import headings_of
from ktrace.converters._shared.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .printed import printed_row

_PRINTED = re.compile(r"\w\([^()]*\), ?[\w-]+\(")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of these tables, and for a printed row."""
    for number, line in likely_lines(sample, LIKELY):
        if "," not in line or not WORDS.search(line):
            continue
        found = headings_of(line, table_kind)
        if found and not is_v3(found[0], found[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprof (line {number})")
        if _PRINTED.search(line) and (row := printed_row(line)) and table_kind(list(row)):
            return Match(Score.DIALECT, f"contains a row in rocprof's printed form (line {number})")
    return None
