"""The shortest way to a format of lines: `begins_with` recognises it, `by_line` reads it.

FORMAT = Format("beeper", "Beeper log", ("*.beep",), probe=begins_with(b"BEEP 1."), read=by_line(row))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample, Source

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.model.batch import Batch
    from ktrace.model.row_builder import RowBuilder


def begins_with(magic: bytes) -> Callable[[Sample], Match | None]:
    """A probe that is sure of files that begin with these bytes, and of no others."""

    def probe(sample: Sample) -> Match | None:
        if not sample.head.startswith(magic):
            return None
        return Match(Score.MAGIC, f"begins with {magic.decode('utf-8', 'replace')!r}")

    return probe


def by_line(row: Callable[[str, RowBuilder], bool]) -> Callable[[Source, Conversion], Iterator[Batch]]:
    """A reader that calls `row(line, rows)` for each line, without its end.

    `row` adds rows and returns True, or returns False for a line that isn't part of the format. A line for which it
    raises ValueError, IndexError, KeyError or ArithmeticError is a bad record. Both are reported with their numbers.
    """

    def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
        from ktrace.kit.text.lines import Lines
        from ktrace.model.row_builder import RowBuilder

        lines, rows = Lines(source, conversion), RowBuilder(conversion)
        for line in lines:
            if not line.text.strip():
                lines.structure()
                continue
            try:
                used = row(line.text, rows)
            except (ValueError, LookupError, ArithmeticError) as error:
                lines.skip("bad-record", f"{type(error).__name__}: {error}")
            else:
                if used:
                    lines.used()
            yield from rows.ready()
        yield from rows.rest()

    return read
