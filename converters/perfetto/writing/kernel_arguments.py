"""Decides which arguments of launches are interned with the kernel: those with few combinations of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int32, Int64
from ktrace.model.masks import present

#: Arguments that differ in every launch.
_VARYING = frozenset({"id", "parent", "correlation", "external_id"})

#: An argument is judged by this many rows.
_SAMPLE = 4096

#: A combination must occur in this many rows of the sample, on average.
_SHARE = 8

_NULL = np.int64(-0x61C8864680B583EB)
_FACTOR = np.int64(0x2545F4914F6CDD1D)


class InternedArguments:
    """Remembers the choice; an argument is judged when it occurs first."""

    def __init__(self) -> None:
        self._judged: dict[str, bool] = dict.fromkeys(_VARYING, False)

    def choose(self, columns: dict[str, pa.Array], track: Int32) -> set[str]:
        """Returns the names of the arguments that are interned with the kernel."""
        new = [name for name in columns if name not in self._judged]
        if new:
            self._judge(new, columns, track)
        return {name for name in columns if self._judged[name]}

    def _judge(self, new: list[str], columns: dict[str, pa.Array], track: Int32) -> None:
        """Adds the least varying arguments first, as long as there are few combinations."""
        count = min(len(track), _SAMPLE)
        spread = {name: number_codes(columns[name].slice(0, count)) for name in columns}
        distinct = {name: len(np.unique(spread[name])) for name in new}
        together = track[:count].astype(np.int64)
        for name in columns:
            if self._judged.get(name):
                together = _combined(together, spread[name])
        for name in sorted(new, key=distinct.__getitem__):
            both = _combined(together, spread[name])
            self._judged[name] = len(np.unique(both)) <= max(count // _SHARE, 16)
            if self._judged[name]:
                together = both


def number_combinations(numbers: Sequence[npt.NDArray[np.generic]], columns: Sequence[pa.Array]) -> tuple[Int32, Int64]:
    """Numbers the combinations of values. Returns the number of each row, and the first row of each number."""
    values = [number.astype(np.int64) for number in numbers] + [number_codes(column) for column in columns]
    together = values[0]
    for value in values[1:]:
        together = _combined(together, value)
    codes = pa.array(together).dictionary_encode().indices.to_numpy()
    first = _first(codes)
    if any((value != value[first[codes]]).any() for value in values):  # two combinations have the same hash
        codes = np.unique(np.stack(values), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)
        first = np.unique(codes, return_index=True)[1]
    return codes, first


def _first(codes: Int32) -> Int64:
    """Returns the first row of each number; numbers are in the order of their first rows."""
    most = np.maximum.accumulate(codes) if len(codes) else codes
    return np.flatnonzero(np.diff(most, prepend=np.int32(-1)))


def number_codes(column: pa.Array) -> Int64:
    """Returns a number per value of the column: equal values have equal numbers."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    elif pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False).view(np.int64)
    else:
        if not pa.types.is_dictionary(kind):
            column = column.dictionary_encode()
        values = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if column.null_count:
        values = np.where(present(column), values, _NULL)
    found: Int64 = values
    return found


def _combined(one: Int64, other: Int64) -> Int64:
    with np.errstate(over="ignore"):
        return (one ^ (one >> 29)) * _FACTOR + other
