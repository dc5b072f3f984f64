"""Rows of columns as texts, a column at a time: what all outputs of JSON have in common.

    parts   '{"id":'  Cells([1, 2])  ',"queued":'  Cells([0, null])   '}'
    rows    {"id":1,"queued":0}
            {"id":2}

Arrow joins the texts. A part costs its 8 ns a row even where it is null, so rows that have the same columns
are joined together: then a column is there for all of them or for none, and what is the same in all rows is one
constant. What has few distinct values is written once for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.jsontext import decoded, dump_json, json_cells

Int64 = npt.NDArray[np.int64]

#: Fewer rows of one shape than this are joined together with those of other shapes.
FEW_ROWS = 128

#: Values that are looked at to see whether a column has few distinct ones, and how many are few.
_SAMPLE, _FEW = 512, 64


@dataclass(frozen=True, slots=True)
class Cells:
    """A column as a part of rows: the JSON text of its value between two texts, nothing at all where it is null.

    Binary is text already, as in the columns `args.<key>`; `as_text` makes it of a column of texts.
    """

    before: str
    column: pa.Array
    after: str = ""


Part = str | Cells


def as_text(column: pa.Array) -> pa.Array:
    """A column of texts that are JSON, or pieces of JSON, already: as binary, without a copy."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, as_text(column.dictionary))
    return column.view(pa.binary())


def join_rows(parts: Sequence[Part], rows: int) -> pa.BinaryArray:
    """A text for each of `rows` rows: its parts, one behind the other."""
    parts = [part for part in map(_plain, parts) if isinstance(part, str) or part.column.null_count < rows]
    sparse = [part.column for part in parts if isinstance(part, Cells) and part.column.null_count]
    if not sparse or not rows:
        return _join(parts, rows)
    shapes, few = _shapes(sparse, rows)
    taken = [*shapes, few] if len(few) else shapes
    texts = [_join(_rows_of(parts, index), len(index)) for index in taken]
    if len(texts) == 1:
        return texts[0]
    index = np.concatenate(taken)
    together = pa.concat_arrays(texts)
    if np.all(index[1:] > index[:-1]):
        return together
    places = np.empty(rows, np.int64)
    places[index] = np.arange(rows)
    return together.take(pa.array(places))


def fold_args(text: pa.Array, typed: dict[str, pa.Array]) -> pa.StringArray:
    """JSON objects (or null) with members added: key -> typed column, of the types that `ktrace.model.Batch` names.

    A key stands in the text or in a column, not in both. Rows without any member stay null.
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


def _plain(part: Part) -> Part:
    """The part, its column without a null in its dictionary."""
    if isinstance(part, Cells) and pa.types.is_dictionary(part.column.type) and part.column.dictionary.null_count:
        return Cells(part.before, decoded(part.column), part.after)
    return part


def _shapes(columns: list[pa.Array], rows: int) -> tuple[list[Int64], Int64]:
    """The rows that have the same columns, for each set of columns that many rows have; and all other rows."""
    masks: dict[bytes, pa.BooleanArray] = {}
    for column in columns:
        valid = column.is_valid()
        masks.setdefault(_bits(valid, rows), valid)
    codes = np.zeros(rows, np.int64)
    for number, valid in enumerate(masks.values(), 1):
        codes = codes * 2 + valid.to_numpy(zero_copy_only=False)
        if number % 48 == 0:
            codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    encoded = pa.array(codes).dictionary_encode()
    shape = encoded.indices.to_numpy()
    counts = np.bincount(shape)
    many = np.flatnonzero(counts >= FEW_ROWS)
    groups = [np.flatnonzero(shape == number) for number in many]
    few = np.flatnonzero(~np.isin(shape, many)) if len(many) < len(counts) else np.empty(0, np.int64)
    return groups, few


def _bits(valid: pa.BooleanArray, rows: int) -> bytes:
    bits = np.frombuffer(valid.buffers()[1], np.uint8)[: (rows + 7) // 8].copy()
    if rows % 8:
        bits[-1] &= (1 << rows % 8) - 1
    return bits.tobytes()


def _rows_of(parts: Sequence[Part], index: Int64) -> list[Part]:
    """The parts of some rows; parts that none of them has are gone."""
    first, count, places = int(index[0]), len(index), pa.array(index)
    in_a_row = int(index[-1]) - first + 1 == count
    taken: list[Part] = []
    for part in parts:
        if isinstance(part, Cells):
            column = part.column.slice(first, count) if in_a_row else part.column.take(places)
            if column.null_count < count:
                taken.append(Cells(part.before, column, part.after))
        else:
            taken.append(part)
    return taken


def _join(parts: Sequence[Part], rows: int) -> pa.BinaryArray:
    """The rows of one shape, or of any shape where columns have nulls."""
    pieces: list[bytes | pa.Array] = []
    for part in parts:
        for piece in [part.encode()] if isinstance(part, str) else _pieces(part):
            if isinstance(piece, bytes) and pieces and isinstance(pieces[-1], bytes):
                pieces[-1] += piece
            elif piece != b"" or not isinstance(piece, bytes):
                pieces.append(piece)
    return _joined(pieces, rows)


def _joined(pieces: Sequence[bytes | pa.Array], rows: int) -> pa.BinaryArray:
    if all(isinstance(piece, bytes) for piece in pieces):
        return pa.repeat(pa.scalar(b"".join(pieces), pa.binary()), rows)
    values = [pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece for piece in pieces]
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*values, nothing, null_handling="replace", null_replacement=b"")


def _pieces(cells: Cells) -> list[bytes | pa.Array]:
    """The texts of a column: constants, and columns of texts of which one may be null."""
    column, before, after = cells.column, cells.before.encode(), cells.after.encode()
    constant = _constant(column)
    if constant is not None:
        return [before + constant + after]
    table = _table(column)
    if table is None:
        texts = [before, json_cells(column).view(pa.binary()), after]
        return [_joined_valid(texts)] if column.null_count else texts
    indices, distinct = table
    return [_joined_valid([before, json_cells(distinct).view(pa.binary()), after]).take(indices)]


def _joined_valid(texts: Sequence[bytes | pa.Array]) -> pa.BinaryArray:
    """The pieces joined, null where one of them is null."""
    values = [pa.scalar(text, pa.binary()) if isinstance(text, bytes) else text for text in texts]
    return pc.binary_join_element_wise(*values, pa.scalar(b"", pa.binary()))


def _constant(column: pa.Array) -> bytes | None:
    """The JSON text that all rows have, if it is one."""
    if column.null_count or not len(column):
        return None
    kind = column.type
    is_dictionary = pa.types.is_dictionary(kind)
    if not is_dictionary and not pa.types.is_integer(kind):
        return None
    bounds = pc.min_max(column.indices if is_dictionary else column)
    if bounds["min"] != bounds["max"]:
        return None
    if not is_dictionary:
        return b"%d" % bounds["min"].as_py()
    value = column.dictionary[bounds["min"].as_py()].as_py()
    return value if isinstance(value, bytes) else dump_json(value).encode()


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
    if len(column.slice(0, _SAMPLE).unique()) > _FEW:
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
    """Objects without blanks around them; null where they are empty."""
    text = pc.ascii_trim_whitespace(text)
    short = pc.less(pc.binary_length(text), 32)
    if pc.any(short).as_py():
        empty = pc.and_(short, pc.match_substring_regex(text, r"^\{\s*\}$"))
        text = pc.if_else(empty, pa.scalar(None, text.type), text)
    return text


def _patched_ends(text: pa.StringArray, byte: int, *, fresh: bool = False) -> pa.StringArray:
    """The texts, the last byte of each another one. Empty texts and nulls stay. `fresh`: nobody else has the text."""
    return _patched(text, byte, 1, fresh)


def patched_begins(text: pa.StringArray, byte: int) -> pa.StringArray:
    """The texts, the first byte of each another one. Empty texts and nulls stay."""
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
