"""Which rows of a batch satisfy a condition: numpy masks of Arrow columns, and the rows of a mask.

kind   kernel  api  kernel     words_in(column, ("kernel",))             True  False  True
name   gemm    -    memset     NameTest(lambda name: "mem" in name)      False False  True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools
from ktrace.model.batch import ALWAYS_SLICES, POINT_KINDS, Batch, EventRows
from ktrace.model.json_text import decoded, encoded

#: Up to so many words are tested one by one.
_FEW = 32


def truth(mask: pa.Array) -> Bools:
    """The numpy mask of a boolean column; null is false."""
    if not (isinstance(mask, pa.BooleanArray) and len(mask)):
        is_true: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return is_true
    valid, data = mask.buffers()
    bits = _unpacked(data, mask)
    return bits & _unpacked(valid, mask) if mask.null_count else bits


def present(column: pa.Array) -> Bools:
    """Which rows of a column aren't null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    bits = column.buffers()[0] if isinstance(column, pa.Array) else None
    return truth(column.is_valid()) if bits is None else _unpacked(bits, column)


def _unpacked(bits: pa.Buffer, column: pa.Array) -> Bools:
    """The bits of a column's rows: Arrow itself takes ten times as long."""
    first, count = column.offset, len(column)
    flags = np.unpackbits(np.frombuffer(bits, np.uint8), count=first + count, bitorder="little")
    return flags[first:].view(np.bool_)


def words_in(column: pa.Array, words: tuple[str, ...]) -> Bools:
    """Which rows of a text column have one of these words; null has none. Of a dictionary only its words are tested."""
    if not pa.types.is_dictionary(column.type):
        return truth(pc.is_in(column, pa.array(words, pa.string())))
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.bool_), *(words_in(chunk, words) for chunk in column.chunks)])
    codes, distinct = column.indices, column.dictionary
    if len(distinct) <= _FEW:  # a call of Arrow takes ten times as long
        is_wanted = [word in words for word in distinct.to_pylist()]
    else:
        is_wanted = truth(pc.is_in(distinct, pa.array(words, pa.string()))).tolist()
    if not any(is_wanted):
        return np.zeros(len(codes), np.bool_)
    if all(is_wanted) and not codes.null_count:
        return np.ones(len(codes), np.bool_)
    numbers = (codes.fill_null(len(is_wanted)) if codes.null_count else codes).to_numpy()
    is_member: Bools = np.array([*is_wanted, False], np.bool_).take(numbers)
    return is_member


class NameTest:
    """A test of the texts of a column, batch after batch; each distinct text of a batch is tested once.

    A batch with the same dictionary as the one before needs no new tests. Null doesn't pass.
    """

    def __init__(self, test: Callable[[str], bool]) -> None:
        self._test = test
        self._last: tuple[pa.Array, pa.Array] | None = None

    def __call__(self, column: pa.Array) -> Bools:
        """Which rows pass."""
        coded = encoded(column)
        if self._last is None or not self._last[0].equals(coded.dictionary):
            passes = [word is not None and self._test(word) for word in coded.dictionary.to_pylist()]
            self._last = coded.dictionary, pa.array(passes, pa.bool_())
        return truth(self._last[1].take(coded.indices))


def slice_mask(of_kinds: Callable[[tuple[str, ...]], Bools], has_dur: Bools) -> Bools:
    """Which events are slices: all events of ALWAYS_SLICES, and those of other kinds, except points, with a duration.

    `of_kinds` returns which events have one of some kinds. An alloc, and a kind that another package adds, is a slice
    only with a duration.
    """
    return of_kinds(ALWAYS_SLICES) | (has_dur & ~of_kinds(POINT_KINDS))


def slice_rows(batch: EventRows) -> Bools:
    """Which rows are slices: those with a duration, or of a kind that has one even if it is unknown."""
    return slice_mask(partial(words_in, batch.column("kind")), present(batch.column("dur")))


def rows_where(batch: Batch, mask: Bools) -> Batch:
    """The rows of a mask."""
    return batch if mask.all() else Batch(batch.record, batch.columns.filter(pa.array(mask)))


def columns_where(batch: Batch, mask: Bools, names: Iterable[str]) -> pa.RecordBatch:
    """Those of the named columns that the batch has, at the rows of a mask."""
    columns = batch.columns.select([name for name in names if batch.has(name)])
    return columns if mask.all() else columns.filter(pa.array(mask))


def words_of(column: pa.Array) -> list[str]:
    """The different values of a text column that has no nulls, in the order of their first rows."""
    if pa.types.is_dictionary(column.type) and len(column.dictionary) == 1 and len(column):
        one: list[str] = column.dictionary.to_pylist()
        return one
    words: list[str] = decoded(column.unique()).to_pylist()
    return words


def each_source(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Yields each source and its rows, in the order of their first rows; nearly all batches have one source."""
    column = batch.column("source")
    words = words_of(column)
    for word in words:
        of_source = None if len(words) == 1 else truth(pc.equal(decoded(column), word))
        yield word, batch if of_source is None else rows_where(batch, of_source)
