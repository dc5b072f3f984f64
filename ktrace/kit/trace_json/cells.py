"""Columns that grow piece by piece: a piece has the values of one key in a chunk of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import error, pack
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools as Truths
from ktrace.model.arrays import Int32, Int64
from ktrace.model.json_text import decode_document, json_cells
from ktrace.model.masks import present

from .json_values import Raw, kind_of, nanoseconds, same_spelling

#: Distinct values that a column keeps from one `Events` to the next.
MOST_DISTINCT = 1 << 16

#: How lists and objects begin.
_NESTED = (b"[", b"{")


class Codes(dict[Any, int]):
    """A code for each distinct value, in the order of first occurrence; None is -1."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self) - 1
        return code

    def texts(self) -> list[Any]:
        """The values in the order of their codes."""
        values = list(self)
        return values[1:]


class Texts:
    """A column of texts, as a dictionary."""

    def __init__(self) -> None:
        self._codes = Codes()
        self._pieces: list[Int32] = []
        self._known: pa.Array | None = None

    def add(self, cells: Sequence[str | None]) -> Int32:
        """Adds the cells of a chunk, and returns their codes."""
        first, count = cells[0], len(cells)
        if cells[-1] == first and cells.count(first) == count:  # takes a fifth of the time of single lookups
            piece = np.full(count, self._codes[first], np.int32)
        else:
            piece = _codes(map(self._codes.__getitem__, cells), count)
        self._pieces.append(piece)
        return piece

    def values(self) -> list[str]:
        """The distinct texts so far, in the order of their codes."""
        return self._codes.texts()

    def finish(self) -> pa.Array:
        """Returns the column of all cells since the last call."""
        codes = _joined(self._pieces)
        self._pieces = []
        if self._known is None or len(self._known) < len(self._codes) - 1:
            self._known = pa.array(self._codes.texts(), pa.string())
        column = dictionary_of(codes, self._known)
        if len(self._codes) > MOST_DISTINCT:
            self._codes, self._known = Codes(), None
        return column


class Raws:
    """A column of any JSON values. `as_text`: a text column; `null`: null is a value, different from absent."""

    def __init__(self, *, as_text: bool = False, null: bool = True) -> None:
        self._codes = Codes()
        self._pieces: list[Int32] = []
        self._as_text = as_text
        self._null = null

    def add(self, cells: Sequence[Raw | None]) -> Int32:
        """Adds the cells of a chunk, and returns their codes."""
        try:
            piece = _codes(map(self._codes.__getitem__, map(bytes, cells)), len(cells))  # type: ignore[arg-type]
        except TypeError:
            texts = [None if cell is None else bytes(cell) for cell in cells]
            piece = _codes(map(self._codes.__getitem__, texts), len(cells))
        self._pieces.append(piece)
        return piece

    def values(self) -> list[str]:
        """The distinct values so far as texts, in the order of their codes."""
        return [_as_text(text) or "" for text in self._codes.texts()]

    def finish(self) -> pa.Array:
        """Returns the column of all cells since the last call."""
        codes = _joined(self._pieces)
        self._pieces = []
        column = raw_column(codes, self._codes.texts(), as_text=self._as_text, null=self._null)
        if len(self._codes) > MOST_DISTINCT:
            self._codes = Codes()
        return column


class Sparse(Raws):
    """A column of JSON values that few rows have."""

    def __init__(self, *, as_text: bool = False, null: bool = True) -> None:
        super().__init__(as_text=as_text, null=null)
        self._rows: list[int] = []
        self._cells: list[bytes] = []

    def put(self, row: int, text: bytes) -> None:
        """Adds the value of a row."""
        self._rows.append(row)
        self._cells.append(text)

    def spread(self, start: int, end: int) -> pa.Array:
        """Returns the column of the rows from `start` to before `end`, where all values are."""
        codes = np.full(end - start, -1, np.int32)
        codes[np.array(self._rows) - start] = _codes(map(self._codes.__getitem__, self._cells), len(self._cells))
        self._pieces = [codes]
        self._rows, self._cells = [], []
        return self.finish()


class Numbers:
    """A column of numbers: all int, all float, or both, then as JSON texts."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._pieces: list[pa.Array] = []

    def add(self, cells: Sequence[float | None]) -> None:
        """Adds the cells of a chunk."""
        try:
            self._pieces.append(_ints(cells) if self._kind == "int" else _floats(cells))
        except (OverflowError, pa.ArrowInvalid):  # beyond int64
            parts = pa.array([cell if isinstance(cell, float) else None for cell in cells], pa.float64())
            whole = pa.array([str(cell) if isinstance(cell, int) else None for cell in cells], pa.string())
            self._pieces.append(pc.coalesce(whole, json_cells(parts)))

    def finish(self) -> pa.Array:
        """Returns the column of all cells since the last call."""
        pieces, self._pieces = self._pieces, []
        whole = [piece for piece in pieces if piece.null_count < len(piece)]
        kinds = {piece.type for piece in whole}
        if len(kinds) == 1 and kinds != {pa.string()}:
            return pa.concat_arrays([piece.cast(whole[0].type) for piece in pieces])
        return pa.concat_arrays([json_cells(piece) if piece.type != pa.string() else piece for piece in pieces]).cast(
            pa.binary()
        )


class Bools:
    """A column of true and false."""

    def __init__(self) -> None:
        self._pieces: list[pa.Array] = []

    def add(self, cells: Sequence[bool | None]) -> None:
        """Adds the cells of a chunk."""
        self._pieces.append(pa.array(cells, pa.bool_()))

    def finish(self) -> pa.Array:
        """Returns the column of all cells since the last call."""
        pieces, self._pieces = self._pieces, []
        return pa.concat_arrays(pieces)


class Clock:
    """A column of times in ns, from microseconds as text; and the source's numbers that ns don't represent."""

    def __init__(self) -> None:
        self._pieces: list[pa.Array] = []
        self._kept: list[tuple[int, bytes]] = []
        self._rows = 0
        self.rounded: Sequence[int] = ()
        self.texts: Sequence[int] = ()

    def add(self, cells: Sequence[Raw | None]) -> None:
        """Adds the cells of a chunk. Sets `rounded` and `texts` to the rows that were rounded or in quotes."""
        self.rounded = self.texts = ()
        count = len(cells)
        if cells[0] is None and cells.count(None) == count:
            self._pieces.append(pa.nulls(count, pa.int64()))
        else:
            times = nanoseconds(cells)
            self._pieces.append(pa.array(times.ns, mask=None if times.valid is None else ~times.valid))
            if times.kept:
                self._kept += ((self._rows + row, text) for row, text in times.kept.items())
            self.rounded, self.texts = times.rounded, times.texts
        self._rows += count

    def finish(self) -> tuple[pa.Array, pa.Array | None]:
        """Returns the column of all cells since the last call, and the numbers that it doesn't represent."""
        column = pa.concat_arrays(self._pieces)
        kept = None
        if self._kept:
            codes = np.full(self._rows, -1, np.int32)
            rows, texts = zip(*self._kept, strict=True)
            codes[list(rows)] = np.arange(len(rows), dtype=np.int32)
            kept = dictionary_of(codes, pa.array(texts, pa.binary()))
        self._pieces, self._kept, self._rows = [], [], 0
        return column, kept


def raw_column(codes: Int32, every: list[bytes], *, as_text: bool, null: bool) -> pa.Array:
    """A column of any JSON values by their codes; -1 is absent. `as_text` and `null` as for `Raws`."""
    used = np.unique(codes)
    used = used[used >= 0]
    place = np.full(len(every) + 1, -1, np.int32)  # the last entry is for -1
    place[used] = np.arange(len(used), dtype=np.int32)
    codes, texts = place[codes], [every[code] for code in used.tolist()]
    if as_text:
        return dictionary_of(codes, pa.array([_as_text(text) for text in texts], pa.string()), nulls=True)
    if not null and b"null" in texts:
        codes = np.where(codes == texts.index(b"null"), np.int32(-1), codes)
    kinds = {"raw" if text[:1] in _NESTED else kind_of(text) for text in texts if null or text != b"null"}
    if kinds == {"str"}:
        return dictionary_of(codes, pa.array([_as_text(text) for text in texts], pa.string()))
    if kinds in ({"int"}, {"float"}, {"bool"}):
        scalars = [decode_document(text) for text in texts]
        try:
            plain = pa.array(scalars, {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}[kinds.pop()])
            return plain.take(pa.array(codes, mask=codes < 0))
        except (OverflowError, TypeError, pa.ArrowInvalid):
            pass
    return dictionary_of(codes, pa.array([_spelled(text) for text in texts], pa.binary()))


def numbers_of(values: Int64, whole: Truths, real: Truths) -> pa.Array:
    """A column of numbers, of which some are `whole` and the values of others the bits of doubles; both as JSON."""
    if not real.any():
        return pa.array(values, mask=~whole)
    parts = pa.array(values.view(np.float64), mask=~real)
    if not whole.any():
        return parts
    return pc.coalesce(json_cells(pa.array(values, mask=~whole)), json_cells(parts)).cast(pa.binary())


def _codes(codes: Iterable[int], count: int) -> Int32:
    """The codes as an array; struct takes a third of the time that numpy takes for Python's integers."""
    found: Int32 = np.frombuffer(pack(f"{count}i", *codes), np.int32)
    return found


def _ints(cells: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(np.frombuffer(pack(f"{len(cells)}q", *cells), np.int64))
    except error:  # a null among them, or beyond int64
        return pa.array(cells, pa.int64())


def _floats(cells: Sequence[Any]) -> pa.Array:
    kinds = set(map(type, cells))
    if kinds == {float}:
        return pa.array(np.frombuffer(pack(f"{len(cells)}d", *cells), np.float64))
    if int not in kinds:
        return pa.array(cells, pa.float64())
    if float not in kinds:
        return pa.array(cells, pa.int64())
    whole = pa.array([cell if type(cell) is int else None for cell in cells], pa.int64())
    parts = pa.array([cell if type(cell) is float else None for cell in cells], pa.float64())
    return pc.coalesce(json_cells(whole), json_cells(parts))


def _joined(pieces: list[Int32]) -> Int32:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def dictionary_of(codes: Int32, values: pa.Array, *, nulls: bool = False) -> pa.DictionaryArray:
    """A column from codes and values; -1 is null, and so is the code of a null value if there may be `nulls`."""
    if nulls and values.null_count:
        away = np.flatnonzero(~present(values))
        codes = np.where(np.isin(codes, away), np.int32(-1), codes)
        values = values.fill_null("")
    absent = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent if bool(absent.any()) else None), values)


def _spelled(text: bytes) -> bytes:
    return text if text[:1] in _NESTED else same_spelling(text)


def _as_text(text: bytes) -> str | None:
    """A JSON value as text: the content of a string, None for null, else the JSON text."""
    if text[:1] == b'"':
        return msgspec.json.decode(text, type=str)
    return None if text == b"null" else text.decode()
