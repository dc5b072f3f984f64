"""Folded stacks, as github brendangregg/FlameGraph reads them: frames, outermost first, and a number.

python3;forward;aten::mm 1200
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .lines import Lines
from .numbers import last_number


def read_folded(
    lines: Lines, conversion: Conversion, kind: str, *, factor: float = 1.0, **columns: Any
) -> Iterator[Batch]:
    """Yields a summary of `kind` for each stack: its name is the innermost frame, its scope the frames around it.

    Its total is the number times `factor`. Lines that aren't stacks are reported.
    """
    rows = RowBuilder(conversion)
    for line in lines:
        if found := last_number(line.text):
            *scope, name = found[0].split(";")
            rows.summary(kind, name or "?", scope=scope or None, total=factor * float(found[1]), **columns)
            lines.used()
        elif not line.text.strip() or line.text.startswith("#"):
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()
