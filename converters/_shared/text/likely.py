"""Lines of a sample that contain telling words, for probes whose lines always contain one of them.

Most files contain none of the words, which one search of the whole text shows; other files contain them in few lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrace.input.source import Sample


def likely_lines(sample: Sample, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yields (number, line) of the lines with one of the words. Words are in lower case, lines in any."""
    if not has_any(sample, words):
        return
    for number, line in enumerate(sample.lines, 1):
        folded = line.lower()
        if any(word in folded for word in words):
            yield number, line


def has_any(sample: Sample, words: Sequence[str]) -> bool:
    """Whether a text contains one of the words. Words are in lower case, the text in any."""
    folded = sample.folded
    return any(word in folded for word in words)


def utf8_head(sample: Sample) -> bytes:
    """The head in UTF-8: searching bytes is faster than searching text, and most heads are UTF-8."""
    head = sample.head
    return (sample.text or "").encode() if head.startswith((b"\xff\xfe", b"\xfe\xff")) else head
