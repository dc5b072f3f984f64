"""Lines of a sample that are worth a look: for probes that know words without which no line is theirs.

Most files have none of the words, which a search of the whole text says at once; of the others it is a few lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrace.input.source import Sample


def likely_lines(sample: Sample, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines with one of some words, which are in lower case, and their numbers; upper case is the same."""
    if not has_any(sample, words):
        return
    for number, line in enumerate(sample.lines, 1):
        folded = line.lower()
        if any(word in folded for word in words):
            yield number, line


def has_any(sample: Sample, words: Sequence[str]) -> bool:
    """Whether a text has one of some words, which are in lower case."""
    folded = sample.folded
    return any(word in folded for word in words)
