"""Joins columns to rows of text, a column at a time: shared by all outputs in JSON.

    parts   '{"id":'  Cells([1, 2])  ',"queued":'  Cells([0, null])   '}'
    rows    {"id":1,"queued":0}
            {"id":2}

Arrow joins the texts. A part takes 8 ns a row even where it is null, so rows with the same columns are joined
together: each column is then present in all of them or absent from all, and equal texts are merged to one constant.
The text of a value is made once per distinct value where a column has few of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.json_text import decoded, dump_json, json_cells

#: Rows that have the same columns have one shape. Shapes with fewer rows than this are joined in one group.
FEW_ROWS = 128

#: Values that are sampled to tell whether a column has few distinct values, and the most that are few.
_SAMPLE, _FEW = 512, 64


class Cells(msgspec.Struct, frozen=True):
    """A column as a part of rows: the JSON text of its value between two texts, empty where the value is null.

    Binary values are JSON text already, as in the columns `args.<key>`; `as_text` turns a column of texts into binary.
    """

    before: str
    column: pa.Array
    after: str = ""


Part = str | Cells


def as_text(column: pa.Array) -> pa.Array:
    """A column of texts that are already JSON, or pieces of JSON, as binary; without a copy."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, as_text(column.dictionary))
    return column.view(pa.binary())


def join_rows(parts: Sequence[Part], rows: int) -> pa.BinaryArray:
    """A text for each of `rows` rows: its parts, one after the other."""
    masks: dict[bytes, pa.BooleanArray] = {}
    written = [part if isinstance(part, str) else _written(part, masks) for part in parts]
    written = [part for part in written if isinstance(part, str) or part.column.null_count < rows]
    if not masks or not rows:
        return _joined([piece for part in written for piece in _pieces(part, None)], rows)
    shapes, few = _shapes(list(masks.values()), rows)
    texts, places_of_texts = [], []
    for index in shapes:
        here = {number for number, valid in enumerate(masks.values()) if valid[int(index[0])].as_py()}
        places = _RowPlaces(index)
        pieces = [
            piece
            for part in written
            if isinstance(part, str) or part.mask is None or part.mask in here
            for piece in _pieces(part, places)
        ]
        texts.append(_joined(pieces, len(index)))
        places_of_texts.append(index)
    if len(few):
        places = _RowPlaces(few)
        texts.append(_joined([piece for part in written for piece in _mixed_pieces(part, places)], len(few)))
        places_of_texts.append(few)
    return _in_order(texts, places_of_texts, rows)


def _in_order(texts: list[pa.BinaryArray], index: list[Int64], rows: int) -> pa.BinaryArray:
    """Merges texts of groups of rows to those of all rows; `index` has the places of each group."""
    if len(texts) == 1:
        return texts[0]
    given = np.concatenate(index)
    together = pa.concat_arrays(texts)
    if np.all(given[1:] > given[:-1]):
        return together
    places = np.empty(rows, np.int64)
    places[given] = np.arange(rows)
    return together.take(pa.array(places))


def fold_args(text: pa.Array, typed: dict[str, pa.Array]) -> pa.StringArray:
    """JSON objects (or null) with members added: key -> typed column, of the types that `Batch` names.

    A key occurs in the text or in a column, not in both. Rows without any member stay null.
    """
    given = text = decoded(text)
    typed = {key: column for key, column in typed.items() if column.null_count < len(column)}
    if not typed:
        return text
    members: list[Part] = [Cells(f"{dump_json(key)}:", column, ",") for key, column in typed.items()]
    has_member = _any_valid(list(typed.values()))
    head: list[Part] = ["{"]
    if text.null_count < len(text):
        text = _without_blanks(text)
        begun = pc.if_else(has_member, _patched_ends(text, ord(",")), text)
        head = [Cells("", as_text(pc.fill_null(begun, "{")))]
    rows = join_rows([*head, *members], len(text))
    folded = _patched_ends(rows.view(pa.string()), ord("}"), fresh=True)
    if has_member.true_count == len(text):
        return folded
    return pc.if_else(has_member, folded, given)


class _RowPlaces:
    """Rows in rising order, to select from columns."""

    def __init__(self, index: Int64) -> None:
        self._first, self._count = int(index[0]), len(index)
        self._index = None if int(index[-1]) - self._first + 1 == self._count else pa.array(index)

    def of(self, column: pa.Array) -> pa.Array:
        """The column at these rows."""
        return column.slice(self._first, self._count) if self._index is None else column.take(self._index)


class _Written(msgspec.Struct, frozen=True):
    """Cells, written as far as possible before rows are chosen.

    `mask` is the index of the column's mask among the masks of columns with nulls. `constant` is the text of all rows
    that have the column, if it is the same. `texts` are those of the distinct values; `column` has their indices then.
    """

    before: bytes
    column: pa.Array
    after: bytes
    mask: int | None
    constant: bytes | None = None
    texts: pa.BinaryArray | None = None


def _written(cells: Cells, masks: dict[bytes, pa.BooleanArray]) -> _Written:
    column, before, after = cells.column, cells.before.encode(), cells.after.encode()
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = decoded(column)
    mask = None
    if 0 < column.null_count < len(column):
        valid = column.is_valid()
        bits = _bits(valid)
        masks.setdefault(bits, valid)
        mask = list(masks).index(bits)
    constant = _constant(column)
    if constant is not None:
        return _Written(before, column, after, mask, before + constant + after)
    table = _table(column)
    if table is None:
        return _Written(before, column, after, mask)
    indices, distinct = table
    texts = _joined_valid([before, json_cells(distinct).view(pa.binary()), after])
    return _Written(before, indices, after, mask, texts=texts)


def _bits(valid: pa.BooleanArray) -> bytes:
    bits = np.frombuffer(valid.buffers()[1], np.uint8)[: (len(valid) + 7) // 8].copy()
    if len(valid) % 8:
        bits[-1] &= (1 << len(valid) % 8) - 1
    return bits.tobytes()


def _shapes(masks: list[pa.BooleanArray], rows: int) -> tuple[list[Int64], Int64]:
    """Groups of many rows that have the same columns, and all other rows."""
    codes = np.zeros(rows, np.int64)
    for number, valid in enumerate(masks, 1):
        codes = codes * 2 + valid.to_numpy(zero_copy_only=False)
        if number % 32 == 0:  # numbers of rows, and 32 bits, are an int64
            codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    shape = pa.array(codes).dictionary_encode().indices.to_numpy()
    counts = np.bincount(shape)
    many = np.flatnonzero(counts >= FEW_ROWS)
    groups = [np.flatnonzero(shape == number) for number in many]
    few = np.flatnonzero(~np.isin(shape, many)) if len(many) < len(counts) else np.empty(0, np.int64)
    return groups, few


def _pieces(part: str | _Written, places: _RowPlaces | None) -> list[bytes | pa.Array]:
    """The texts of rows (None: all) that all have the column: constants, and columns of texts."""
    if isinstance(part, str):
        return [part.encode()]
    if part.constant is not None:
        return [part.constant]
    column = places.of(part.column) if places else part.column
    if part.texts is not None:
        return [part.texts.take(column)]
    return [part.before, json_cells(column).view(pa.binary()), part.after]


def _mixed_pieces(part: str | _Written, places: _RowPlaces) -> list[bytes | pa.Array]:
    """The texts of rows where the column may be null in some."""
    if isinstance(part, str) or part.mask is None:
        return _pieces(part, places)
    column = places.of(part.column)
    if part.constant is not None:
        return [pc.if_else(column.is_valid(), pa.scalar(part.constant), pa.scalar(None, pa.binary()))]
    if part.texts is not None:
        return [part.texts.take(column)]
    return [_joined_valid([part.before, json_cells(column).view(pa.binary()), part.after])]


def _joined(pieces: Sequence[bytes | pa.Array], rows: int) -> pa.BinaryArray:
    """Pieces, one after the other; a null is an empty piece."""
    merged: list[bytes | pa.Array] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        elif not isinstance(piece, bytes) or piece:
            merged.append(piece)
    if all(isinstance(piece, bytes) for piece in merged):
        return pa.repeat(pa.scalar(b"".join(merged), pa.binary()), rows)
    values = [pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece for piece in merged]
    separator = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*values, separator, null_handling="replace", null_replacement=b"")


def _joined_valid(texts: Sequence[bytes | pa.Array]) -> pa.BinaryArray:
    """The pieces joined; null where one of them is null."""
    values = [pa.scalar(text, pa.binary()) if isinstance(text, bytes) else text for text in texts]
    return pc.binary_join_element_wise(*values, pa.scalar(b"", pa.binary()))


def _constant(column: pa.Array) -> bytes | None:
    """The JSON text of all values that aren't null, if it is the same for all."""
    kind = column.type
    is_dictionary = pa.types.is_dictionary(kind)
    if not is_dictionary and not pa.types.is_integer(kind):
        return None
    bounds = pc.min_max(column.indices if is_dictionary else column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or low != high:
        return None
    if not is_dictionary:
        return b"%d" % low
    text: bytes = json_cells(column.dictionary.slice(low, 1)).view(pa.binary())[0].as_py()
    return text


def _table(column: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """(indices, distinct values) of a column with far fewer distinct values than rows, else None."""
    rows = len(column)
    if pa.types.is_dictionary(column.type):
        return (column.indices, column.dictionary) if len(column.dictionary) <= rows else None
    if rows < _SAMPLE or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return None
    if pa.types.is_signed_integer(column.type):
        bounds = pc.min_max(column).as_py()
        low, high = bounds["min"], bounds["max"]
        if low is not None and high - low <= rows // 4:
            return pc.subtract(column, low), pa.array(np.arange(low, high + 1), column.type)
    sample = column.drop_null() if column.null_count else column
    if len(sample.slice(0, _SAMPLE).unique()) > _FEW:
        return None
    encoded = column.dictionary_encode()
    return (encoded.indices, encoded.dictionary) if len(encoded.dictionary) <= rows // 4 else None


def _any_valid(columns: list[pa.Array]) -> pa.BooleanArray:
    """The rows that have a value in any of the columns."""
    valid = columns[0].is_valid()
    for column in columns[1:]:
        if valid.true_count == len(valid):
            break
        valid = pc.or_(valid, column.is_valid())
    return valid


def _without_blanks(text: pa.StringArray) -> pa.StringArray:
    """Objects without white space around them; null where they are empty."""
    text = pc.ascii_trim_whitespace(text)
    short = pc.less(pc.binary_length(text), 32)
    if pc.any(short).as_py():
        empty = pc.and_(short, pc.match_substring_regex(text, r"^\{\s*\}$"))
        text = pc.if_else(empty, pa.scalar(None, text.type), text)
    return text


def _patched_ends(text: pa.StringArray, byte: int, *, fresh: bool = False) -> pa.StringArray:
    """Replaces the last byte of each text. Empty texts and nulls stay. `fresh`: the text has no other user."""
    return _patched(text, byte, 1, fresh)


def patched_begins(text: pa.StringArray, byte: int) -> pa.StringArray:
    """Replaces the first byte of each text. Empty texts and nulls stay."""
    return _patched(text, byte, 0)


def _patched(text: pa.StringArray, byte: int, end: int, fresh: bool = False) -> pa.StringArray:
    validity, offsets, data = text.buffers()
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    if data is None or places[0] == places[-1]:
        return text
    some = places[1:] > places[:-1]
    bytes_ = np.frombuffer(data, np.uint8)
    if not fresh or not data.is_mutable:
        bytes_ = bytes_.copy()
    bytes_[places[1:][some] - 1 if end else places[:-1][some]] = byte
    return pa.Array.from_buffers(text.type, len(text), [validity, offsets, pa.py_buffer(bytes_)], offset=text.offset)
