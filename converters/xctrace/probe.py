"""Recognises exports of xctrace by their root element, and a folder of them by the names of its files."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--(?:(?!-->).){0,4000}-->\s*)*<(trace-query-result|trace-toc)\b",
    re.DOTALL,
)

#: The table that a folder of exports must have, and the names of tables of the GPU.
INTERVALS = "metal-gpu-intervals"
TABLE_FILE = re.compile(r"(?:.*[/._-])?((?:metal|gpu)-[a-z-]{1,60}[a-z])[^/]{0,120}\.xml(?:\.gz|\.zst)?")


def probe(sample: Sample) -> Match | None:
    """MAGIC for the root element; SHAPE for a folder with an export of the GPU's intervals."""
    if sample.listing is not None:
        return _folder(sample.listing)
    if sample.head[:1] not in (b"<", b"\xef", b" ", b"\n", b"\r", b"\t"):
        return None
    found = _ROOT.match(sample.head[:8192])
    return Match(Score.MAGIC, f"has the root element <{found[1].decode()}>") if found else None


def _folder(listing: tuple[str, ...]) -> Match | None:
    tables = [path for path in listing if TABLE_FILE.fullmatch(path)]
    others = [path for path in listing if not path.endswith((".xml", ".xml.gz", ".xml.zst"))]
    if len(others) > len(tables) or not any(INTERVALS in path for path in tables):
        return None
    return Match(Score.DIALECT, f"contains exports of xctrace, such as {tables[0]}")
