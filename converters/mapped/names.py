"""Kinds of rows by their cells and names, and numbers for devices, streams, processes and threads that have names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import POINT_KINDS, SLICE_KINDS

from .cells import Reader

#: How cells spell kinds, in lower case and without blanks, '_' and '-'.
KINDS = {
    **{kind: kind for kind in (*SLICE_KINDS, *POINT_KINDS)},
    **dict.fromkeys(("kerneldispatch", "gpukernel", "gpu"), "kernel"),
    **dict.fromkeys(("memorycopy", "copy", "memcopy", "gpumemcpy"), "memcpy"),
    **dict.fromkeys(("memoryset", "fill", "gpumemset"), "memset"),
    **dict.fromkeys(("runtime", "driver", "apicall", "call", "cudaruntime", "cudadriver", "hipapi"), "api"),
    **dict.fromkeys(("cpu", "cpuop", "operator", "function", "task"), "op"),
    **dict.fromkeys(("annotation", "scope", "span", "region", "nvtx"), "range"),
    **dict.fromkeys(("wait", "barrier", "synchronization"), "sync"),
    **dict.fromkeys(("allocation", "malloc"), "alloc"),
    **dict.fromkeys(("marker", "event", "mark"), "instant"),
    **dict.fromkeys(("metric", "gauge"), "counter"),
}

_SIDE = r"(host|device|peer|[hdp])"
_WAY = re.compile(rf"(?:.*[^a-z])?{_SIDE}[ _-]*(?:to|2)[ _-]*{_SIDE}(?:[^a-z].*)?", re.IGNORECASE | re.DOTALL)
#: Longer cells aren't directions.
_LONGEST = 200

_LAST_NUMBER = re.compile(r"(?:.*\D)?(\d{1,18})\D?")


def kind_of(cell: str) -> str | None:
    """Returns the kind that a cell spells, None for an unknown one."""
    return KINDS.get(re.sub(r"[\s_\-]+", "", cell).casefold())


def direction(cell: str) -> str:
    """Returns the direction of a copy as `HtoD` if the cell spells one, else the cell."""
    found = _WAY.fullmatch(cell.strip()) if len(cell) <= _LONGEST else None
    return f"{found[1][0].upper()}to{found[2][0].upper()}" if found else cell.strip()


class Numbers:
    """The numbers of one kind of place, and the names of those that aren't numbers in the source.

    `queue 7` and `cuda:7` are 7, unless another name is 7 already; a name without a number gets the least free one.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, int] = {}
        self._taken: set[int] = set()

    def of(self, cells: pa.StringArray, read: Reader) -> pa.Int64Array:
        """Returns the numbers of the cells, null for no value."""
        numbers = read.whole(cells)
        if numbers.null_count == cells.null_count:
            self._taken.update(pc.unique(numbers).drop_null().to_pylist())
            return numbers
        coded = cells.dictionary_encode()
        found = pa.array([self._number(text, number) for text, number in _distinct(coded, read)], pa.int64())
        return found.take(coded.indices)

    def _number(self, text: str, number: int | None) -> int:
        if number is not None:
            self._taken.add(number)
            return number
        if text not in self._by_name:
            digits = _LAST_NUMBER.fullmatch(text)
            wanted = int(digits[1]) if digits else 0
            while wanted in self._taken:
                wanted += 1
            self._by_name[text] = wanted
            self._taken.add(wanted)
        return self._by_name[text]

    def names(self) -> Iterator[tuple[int, str]]:
        """Yields the numbers that have a name in the source."""
        for text, number in self._by_name.items():
            yield number, text


def _distinct(coded: pa.DictionaryArray, read: Reader) -> Iterator[tuple[str, int | None]]:
    texts = coded.dictionary
    return zip(texts.to_pylist(), read.whole(texts).to_pylist(), strict=True)
