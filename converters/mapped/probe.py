"""Recognises a table by the mapping that is kept next to it; a table without one is a near miss."""

from __future__ import annotations

from pathlib import Path

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: Bytes and lines at the beginning of a file that may show a table, and the fewest columns that one has.
_HEAD, _LINES, _FEWEST = 4096, 3, 3


def probe(sample: Sample) -> Match | None:
    """STATED with a mapping; NEAR for lines with the same number of separators, or of JSON objects."""
    if sample.mapping:
        return Match(Score.STATED, f"has a mapping of its columns next to it, {Path(sample.mapping).name}")
    if sample.listing is not None or sample.tables is not None or b"\0" in sample.head[:_HEAD]:
        return None
    lines = sample.head[:_HEAD].splitlines()[: _LINES + 1]
    lines = lines if sample.whole and len(sample.head) <= _HEAD and len(lines) <= _LINES else lines[:-1]
    if len(lines) < 2:
        return None
    if all(line.startswith(b'{"') and line.rstrip().endswith(b"}") for line in lines):
        return Match(Score.NEAR, "lines of JSON objects, without a mapping of their keys")
    for separator, word in ((b",", "commas"), (b"\t", "tabs"), (b";", "semicolons")):
        counts = {line.count(separator) for line in lines if b'"' not in line} or {0}
        if len(counts) == 1 and min(counts) >= _FEWEST - 1:
            return Match(Score.NEAR, f"a table with {word}, without a mapping of its columns")
    return None
