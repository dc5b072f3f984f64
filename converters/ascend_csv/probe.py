"""Recognises Ascend's CSV files by their headings, and folders that have no timeline or database of the same run."""

from __future__ import annotations

from ktrace.converters._shared.ascend.folder import CSV, chosen
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .tables import WORDS, table_kind

#: The headings are the first line; a few lines may be before them.
_LINES = 8


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of one of the tables, and for a folder of such files."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != CSV:
            return None
        return Match(Score.DIALECT, f"contains files of Ascend's profiler, such as {files.read[0]}")
    start = sample.head[:4096]
    if b"," not in start or not any(word.encode() in start for word in WORDS):
        return None
    for line in sample.lines[:_LINES] if len(sample.head) < 4096 else _first_lines(sample):
        if "," in line and (what := table_kind(line.split(","))):
            return Match(Score.DIALECT, f"has the headings of Ascend's table {what}")
    return None


def _first_lines(sample: Sample) -> list[str]:
    text = sample.head[: 1 << 14].decode("utf-8", "replace").removeprefix("\ufeff")
    return text.splitlines()[:_LINES]
