"""Texts that a spreadsheet would evaluate, such as =HYPERLINK(...) or -[MTLCommandBuffer commit].

name                    cell                      with the option `formulas`
=1+1                    "'=1+1"                   "=1+1"
-[MTLBuffer length]     "'-[MTLBuffer length]"    "-[MTLBuffer length]"
'=1+1                   "''=1+1"                  "''=1+1"

Reading removes one apostrophe, so that every text comes back as it was, in either form.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import union_schema

#: What a formula begins with, behind apostrophes of the text itself.
_BEGINS = r"('*[=+\-@\t\r])"
_BEGINS_QUOTED = r"('+[=+\-@\t\r])"

#: Columns of numbers, whose cells are never texts.
_NUMBERS = {
    field.name
    for field in union_schema()
    if not (pa.types.is_string(field.type) or pa.types.is_dictionary(field.type) or pa.types.is_nested(field.type))
}


def guarded(column: pa.ChunkedArray, *, formulas: bool) -> pa.ChunkedArray:
    """Returns a column with an apostrophe before texts that begin like formulas; with `formulas`, only where needed."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _guarded(chunk.dictionary, formulas))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, kind) if chunks else column
    return _guarded(column, formulas) if pa.types.is_string(kind) else column


def _guarded(texts: pa.Array, formulas: bool) -> pa.Array:
    return pc.replace_substring_regex(texts, f"^{_BEGINS_QUOTED if formulas else _BEGINS}", r"'\1", max_replacements=1)


def unguarded(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Returns columns of texts without those apostrophes."""
    found = dict(zip(columns.schema.names, columns.columns, strict=True))
    for name, column in found.items():
        if name not in _NUMBERS and pc.any(pc.starts_with(column, "'")).as_py():
            found[name] = pc.replace_substring_regex(column, f"^'{_BEGINS}", r"\1", max_replacements=1)
    return pa.RecordBatch.from_pydict(found)
