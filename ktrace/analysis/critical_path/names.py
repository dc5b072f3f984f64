"""The names of the pieces of a path.

kernel, copy          its short name               host operator, API call     its name
between calls         the range around it          dependency, unknown         what ran meanwhile
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.critical_path.path import DEPENDENCY, KINDS, OPERATOR, Path, operation_of
from ktrace.analysis.work.events import Work
from ktrace.analysis.work.labels import Labels
from ktrace.analysis.work.span_names import generic
from ktrace.model.arrays import Int64, Integers
from ktrace.naming.short_names import short_name

#: The name of a wait that no known work comes after.
NOTHING_KNOWN = "(nothing known)"


class Names:
    """Names of pieces as numbers of `words`, and the `kernel` and `operation` of each shape of device work.

    `kernel` and `operation` are indices of `kernels` and `operations`. `classified` are the operations of shapes, also
    where the rows aren't classified, None where there is none.
    """

    def __init__(self, work: Work, labels: Labels) -> None:
        if work.rows is not work.gathered.work:
            work = Work.of_devices(work.gathered)
        self.shapes, spans = work.shapes, work.gathered.spans.names
        self.kernel, self.kernels = work.by_shape(_short)
        self.operation, self.operations = work.by_shape(labels.key("operation"))
        self.classified: list[str | None] = [operation_of(shape) for shape in work.shapes]
        self.threads: list[int | None] = [thread["tid"] for thread in work.threads]
        meanwhile = [f"while {name} ran" for name in self.kernels]
        before = [f"before {name}" for name in self.kernels]
        self.words = [*map(generic, spans), *self.kernels, *meanwhile, *before, *KINDS, NOTHING_KNOWN]
        self._kernels = len(spans)
        self._kinds = len(spans) + 3 * len(self.kernels)

    def of_work(self, path: Path, work: Int64) -> Int64:
        """The kernel of each piece of work, -1 for -1."""
        if not len(path.device):
            return np.full(len(work), -1, np.int64)
        return np.where(work >= 0, self.kernel[path.device.shape[work]], -1)

    def texts(self, path: Path, rows: Int64) -> pa.DictionaryArray:
        """The names of some pieces, as a column."""
        return words(self.words, self.of(path, rows))

    def of(self, path: Path, rows: Int64) -> Int64:
        """The number of the name of each of some pieces."""
        kind, span, work = path.columns.kind[rows], path.columns.span[rows], path.columns.work[rows]
        kernel = self.of_work(path, work)
        found = self._kinds + kind.astype(np.int64)
        if len(path.threads.names):
            found = np.where(span >= 0, path.threads.names[span], found)
        found = np.where(kind < OPERATOR, self._kernels + kernel, found)
        waits = kind >= DEPENDENCY
        if waits.any():
            other = self.of_work(path, path.columns.other[rows])
            wait = np.where(kernel >= 0, self._kernels + 2 * len(self.kernels) + kernel, len(self.words) - 1)
            wait = np.where(other >= 0, self._kernels + len(self.kernels) + other, wait)
            found = np.where(waits, wait, found)
        return found


def _short(shape: dict[str, Any]) -> str:
    """The short name of work, also where the rows aren't classified."""
    name: str = shape["name"]
    return shape["short_name"] or (short_name(name) if shape["kind"] == "kernel" else name)


def words(known: Sequence[str | None], numbers: Integers) -> pa.DictionaryArray:
    """A column of words by their numbers, null for -1; its dictionary has each that occurs once."""
    used = np.flatnonzero(np.bincount(numbers + 1, minlength=1))
    codes = np.zeros(len(known) + 1, np.int32)
    texts: dict[str | None, int] = {}
    for number in used.tolist():
        codes[number] = texts.setdefault(known[number - 1] if number else None, len(texts))
    return pa.DictionaryArray.from_arrays(pa.array(codes[numbers + 1]), pa.array([*texts], pa.string()))
