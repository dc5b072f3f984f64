"""Recognises rocprofv3's CSV files, and folders of them."""

from __future__ import annotations

from ktrace.converters._shared.columnar.csv_headings import headings_of
from ktrace.converters._shared.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .files import TITLE, own_files


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of rocprofv3, and for a folder of files with its names."""
    if sample.listing is not None:
        own = own_files(sample.listing)
        return Match(Score.DIALECT, f"contains {len(own)} files of rocprofv3, such as {own[0].path}") if own else None
    for number, line in likely_lines(sample, (*LIKELY, "rocprofv3")):
        if TITLE.fullmatch(line):
            return Match(Score.DIALECT, f"contains the title of a rocprofv3 summary (line {number})")
        found = headings_of(line, table_kind) if "," in line and WORDS.search(line) else None
        if found and is_v3(found[0], found[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprofv3 (line {number})")
    return None
