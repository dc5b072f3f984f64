"""Reads Kineto traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ktrace.conversion import Conversion
from ktrace.jsontext import dump_json
from ktrace.model import Batch
from ktrace.rows import to_batch
from ktrace.source import Source

from .._shared.trace_json.document import Member, read_document
from .._shared.trace_json.phases import mapper
from .dialect import DIALECT
from .facts import facts_of


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """The events of all categories, links, and the facts of the document.

    Raises DamagedInput for what is no Trace Event JSON at all.
    """
    yield from read_document(source, conversion, mapper(DIALECT), member)


def member(found: Member, conversion: Conversion) -> Iterable[Batch]:
    """The facts that a member of the document gives."""
    try:
        value = json.loads(found.text)
    except ValueError:
        value = found.text.decode("utf-8", "replace")
    rows = [
        row | {"source": conversion.label, "id": found.byte, "facts": dump_json(row["facts"])}
        for row in facts_of(found.key, value)
    ]
    return [to_batch("catalog", [{name: cell for name, cell in row.items() if cell is not None} for row in rows])]
