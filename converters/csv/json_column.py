"""A column of CSV as JSON values."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.canonical.encode import embedded, is_json
from ktrace.model.batch import union_schema
from ktrace.model.json_rows import as_text
from ktrace.model.json_text import NOT_JSON, quoted

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_column(name: str, cells: pa.StringArray) -> pa.Array:
    """The cells as JSON values of the column's type; what isn't of that type becomes a string."""
    if is_json("events", name) or is_json("catalog", name) or name == "scope":
        valid = [text is None or _is_json(text) for text in cells.to_pylist()]
        return pc.if_else(pa.array(valid, pa.bool_()), embedded(cells), as_text(quoted(cells)))
    kind = union_schema().field(name).type if name in union_schema().names else None
    if kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if kind is not None and pa.types.is_floating(kind):
            for written, spelled in _SPECIAL.items():
                cells = pc.if_else(pc.equal(cells, written), spelled, cells)
        return as_text(pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, quoted(cells)))
    return cells


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except NOT_JSON:
        return False
    return True
