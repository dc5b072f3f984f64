"""The bytes of text in rows, once each row has its own: a dictionary has a text once that 65,536 rows may name.

What looks at texts row by row (writers, joins) needs as much memory as a batch has text. So batches have a bounded
size, and text that is far more than rows of profilers have is counted as what references give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

#: The most bytes of text in a batch of more than one row.
MOST = 64 << 20

#: Bytes of text of a row of a profiler, at most: names of templates have up to 8 kB, texts of operations 10 kB.
_OF_A_ROW = 16 << 10

#: Text columns of dictionaries that may have up to this many bytes aren't measured row by row.
_FEW = 2 << 20


def bounded(batch: Batch, expanded: Callable[[int], None]) -> Iterator[Batch]:
    """Yields a batch in parts with at most `MOST` bytes of text each; `expanded` gets the bytes of an odd one."""
    size = text_bytes(batch.columns)
    if size > _OF_A_ROW * max(1, len(batch)):
        expanded(size)
    yield from _parts(batch, size)


def _parts(batch: Batch, size: int) -> Iterator[Batch]:
    if size <= MOST or len(batch) < 2:
        yield batch
        return
    half = len(batch) // 2
    for part in (batch.columns.slice(0, half), batch.columns.slice(half)):
        yield from _parts(Batch(batch.record, part), text_bytes(part))


def text_bytes(columns: pa.RecordBatch) -> int:
    """The bytes of all texts, and of lists of texts; of dictionaries with short texts perhaps more than there are."""
    return sum(map(column_bytes, columns.columns))


def column_bytes(column: pa.Array) -> int:
    """The same of one column."""
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return 0 if pa.types.is_primitive(kind) else int(column.nbytes)
    if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)) or not len(column.dictionary):
        return 0
    lengths: Int64 = np.asarray(pc.fill_null(pc.binary_length(column.dictionary), 0)).astype(np.int64)
    most = int(lengths.max()) * len(column)
    if most <= _FEW:
        return most
    codes = column.indices
    return int(lengths[(codes.drop_null() if codes.null_count else codes).to_numpy()].sum())


def row_texts(rows: list[dict[str, Any]]) -> int:
    """The characters of rows that are dicts, in the columns that aren't dictionaries."""
    size = 0
    for row in rows:
        for column in _PLAIN:
            if type(text := row.get(column)) is str:
                size += len(text)
        if isinstance(scope := row.get("scope"), (list, tuple)):
            size += sum(len(text) for text in scope if type(text) is str)
    return size


#: Columns of texts that RowBuilder makes without a dictionary.
_PLAIN = ("name", "args", "facts", "comm", "key")
