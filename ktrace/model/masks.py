"""Which rows of a batch: masks of numpy for columns of Arrow, and the rows that these name.

kind   kernel  api  kernel     words_in(column, ("kernel",))          True  False  True
name   gemm    -    memset     NameTest(lambda name: "mem" in name)       False False  True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools
from ktrace.model.batch import ALWAYS_SLICES, POINT_KINDS, Batch
from ktrace.model.json_text import decoded, encoded


def truth(mask: pa.Array) -> Bools:
    """A mask for numpy; null is false."""
    found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def words_in(column: pa.Array, words: tuple[str, ...]) -> Bools:
    """Which rows of a column of text hold one of these words."""
    return truth(pc.is_in(decoded(column), pa.array(words, pa.string())))


class NameTest:
    """A test of the texts of a column, batch after batch; each distinct one is looked at once in a batch.

    Batches that have the dictionary of the one before cost nothing anew. Null doesn't fit.
    """

    def __init__(self, test: Callable[[str], bool]) -> None:
        self._test = test
        self._last: tuple[pa.Array, pa.Array] | None = None

    def __call__(self, column: pa.Array) -> Bools:
        """Which rows fit."""
        coded = encoded(column)
        if self._last is None or not self._last[0].equals(coded.dictionary):
            fits = [word is not None and self._test(word) for word in coded.dictionary.to_pylist()]
            self._last = coded.dictionary, pa.array(fits, pa.bool_())
        return truth(self._last[1].take(coded.indices))


def slice_mask(of_kinds: Callable[[tuple[str, ...]], Bools], has_dur: Bools) -> Bools:
    """Which events are slices: those of most slice kinds always, those of other kinds but points with a duration.

    `of_kinds` tells which events are of some kinds. An alloc, and a kind that another package adds, may be either.
    """
    return of_kinds(ALWAYS_SLICES) | (has_dur & ~of_kinds(POINT_KINDS))


def rows_where(batch: Batch, mask: Bools) -> Batch:
    """The rows of a mask."""
    return batch if mask.all() else Batch(batch.record, batch.columns.filter(pa.array(mask)))


def each_source(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """The rows of each source, in the order in which these come; nearly all batches are of one."""
    column = batch.column("source")
    words: list[str] = decoded(column.unique()).to_pylist()
    for word in words:
        mine = None if len(words) == 1 else truth(pc.equal(decoded(column), word))
        yield word, batch if mine is None else rows_where(batch, mine)
