"""Drafts of rows: members and arguments of events move, one after the other, to the columns of the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, indices
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import SPECIAL, decoded, encoded, json_cells, load_json
from ktrace.model.masks import present
from ktrace.report import Report

from .dialect import Dialect, Into
from .events import Events

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_JSON_INTEGER = re.compile(rb"-?(0|[1-9][0-9]{0,18})")
_THREES = msgspec.json.Decoder(list[tuple[int, int, int]])
_DIRECTION = re.compile(
    r"(?:(?i:Memcpy[ _]?)|Copy)?"
    r"(?:(HtoD|DtoH|DtoD|HtoH|PtoP)|(Host|Device|Peer|[HDP])(?:To|2)(Host|Device|Peer|[HDP]))(?![A-Za-z0-9])"
)
_INT32 = 1 << 31

#: Values that mean "none" wherever they stand: the last is -1 as a number of 64 bits without a sign.
_NOTHING = ("null", "18446744073709551615")

#: Times lie between -LIMIT and LIMIT (ns).
LIMIT = 1 << 62


class Draft(msgspec.Struct):
    """Some events on their way to rows: `left` has the members and arguments that aren't in `columns` yet."""

    at: Int64
    left: dict[str, pa.Array]
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def from_events(cls, events: Events) -> Draft:
        """A draft of the events without columns yet, and without their phase."""
        left = dict(events.columns)
        left.pop("ph", None)
        return cls(events.at, left, {})

    def move(self, key: str, into: Into) -> pa.Array | None:
        """Moves the values of `args.<key>` that `into` can represent.

        Returns those that it can't represent; they stay arguments.
        """
        column = self.left.get(f"args.{key}")
        if column is None:
            return None
        taken, rest = _MOVES[into.how](column)
        if taken is None:
            return rest if rest is not None else column
        misfits = rest
        names = [f"{into.column}_{axis}" for axis in "xyz"] if into.how == "dims" else [into.column]
        parts = taken if into.how == "dims" else [taken]
        if any(name in self.columns for name in names):
            free = pc.is_null(self.columns[names[0]])
            rest = pc.if_else(free, pa.nulls(len(self), column.type) if rest is None else rest, column)
            parts = [pc.coalesce(self.columns[name], part) for name, part in zip(names, parts, strict=True)]
        self.columns |= zip(names, parts, strict=True)
        self.set_rest(f"args.{key}", rest)
        return misfits

    def set_rest(self, name: str, rest: pa.Array | None) -> None:
        """Sets the values that are left of a member or argument."""
        if rest is None or rest.null_count == len(rest):
            self.left.pop(name, None)
        else:
            self.left[name] = rest

    def keep_as_argument(self, member: str) -> None:
        """Keeps a member of the event as `args.$<member>`."""
        column = self.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            self.left[f"args.${member}"] = column

    def fill(self, **words: str) -> None:
        """Fills each column with one word."""
        for column, word in words.items():
            self.columns[column] = constant(word, len(self))

    def where(self, mask: Bools) -> Draft:
        """The rows for which the mask is true."""
        if mask.all():
            return self
        index = pa.array(np.flatnonzero(mask))
        parts = ({name: column.take(index) for name, column in of.items()} for of in (self.left, self.columns))
        return Draft(self.at[mask], *parts)

    def batch(self, record: str, offset: int = 0) -> Batch:
        """Returns the rows, with `at` + offset as their ids, and with the arguments that are left."""
        columns = {"id": pa.array(self.at + offset if offset else self.at)}
        columns |= {name: column for name, column in self.columns.items() if column.null_count < len(self)}
        for name, column in self.left.items():
            if name.startswith("args.") and column.null_count < len(self):
                columns[name] = column
        return Batch(record, pa.RecordBatch.from_pydict(columns))


class Task(msgspec.Struct, frozen=True):
    """What handlers of events share: the dialect, the label of the source, the report."""

    dialect: Dialect
    label: str
    report: Report

    def skip(self, kind: str, detail: str, at: Int64) -> None:
        """Reports events that become no rows, the first of them with their ids."""
        for number in at[:20].tolist():
            self.report.issue(kind, f"record {number}", detail)
        if len(at) > 20:
            self.report.issue(kind, f"record {int(at[20])}", detail, len(at) - 20)

    def move(self, draft: Draft, key: str, into: Into) -> None:
        """Moves an argument to its column, and reports the values that don't fit."""
        misfits = draft.move(key, into)
        if misfits is None or into.how in ("ordinal", "copy"):
            return
        texts = json_cells(misfits)
        nothing = pc.is_in(texts, value_set=pa.array(_NOTHING))
        rows = np.flatnonzero(pc.and_(texts.is_valid(), pc.invert(nothing)).to_numpy(zero_copy_only=False))
        if len(rows):
            first = int(rows[0])
            self.report.issue("misfit", f"record {draft.at[first]}", f"{key}: {texts[first].as_py()[:40]}", len(rows))

    def timed(self, draft: Draft) -> Draft:
        """Returns the events with a time and without a negative duration, with `ts` filled; reports the others."""
        ts = draft.left.pop("ts", None)
        if ts is None:
            ts = pa.nulls(len(draft), pa.int64())
        if self.dialect.origin:
            ts = pc.add(ts, self.dialect.origin)
        draft.columns["ts"] = ts
        draft = self._without(draft, ~valid(ts), "bad-record", "no time")
        for name in ("ts", "dur"):
            column = draft.columns["ts"] if name == "ts" else draft.left.get("dur")
            if column is None or not len(draft):
                continue
            ends = pc.min_max(column)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is None:
                continue
            if low <= -LIMIT or high >= LIMIT:
                values = column.fill_null(0).to_numpy(zero_copy_only=False)
                draft = self._without(
                    draft, (values <= -LIMIT) | (values >= LIMIT), "time-range", f"{name} of {high} ns"
                )
            if name == "dur" and low < 0 and len(draft):
                values = draft.left["dur"].fill_null(0).to_numpy(zero_copy_only=False)
                draft = self._without(draft, values < 0, "negative-duration", f"{low} ns")
        return draft

    def _without(self, draft: Draft, mask: Bools, kind: str, detail: str) -> Draft:
        if not mask.any():
            return draft
        self.skip(kind, detail, draft.at[mask])
        return draft.where(~mask)


def valid(column: pa.Array) -> Bools:
    """Whether each row has a value."""
    return present(column)


def by_word(column: pa.Array | None, rows: int, function: Callable[[str | None], int]) -> Int64:
    """A number for each row of a column of words, computed once for each word."""
    if column is None:
        return np.full(rows, function(None), np.int64)
    column = encoded(column)
    numbers = np.array([*map(function, map(as_text, column.dictionary.to_pylist())), function(None)], np.int64)
    return numbers[indices(column)]


def as_text(value: str | bytes | None) -> str | None:
    """Returns a text as it is; for JSON bytes the content of a string, else the JSON text."""
    if not isinstance(value, bytes):
        return value
    if value.startswith(b'"'):
        json_text = _json_text(value)
        if json_text is not None:
            return json_text
    return value.decode("utf-8", "replace")


Taken = tuple[pa.Array | None, pa.Array | None]


def mapped(column: pa.Array, kind: pa.DataType, function: Callable[[Any], Any]) -> Taken:
    """Applies a function to the distinct values of a column; returns its results, and the values without a result."""
    column = encoded(column)
    made = [None if value is None else function(value) for value in column.dictionary.to_pylist()]
    if all(value is None for value in made):
        return None, column
    taken = pa.array(made, kind).take(column.indices)
    return taken, _rest(column, taken)


def _rest(column: pa.DictionaryArray, taken: pa.Array) -> pa.Array | None:
    """The values of a column that weren't taken; None if there are none."""
    if taken.null_count == column.null_count:
        return None
    return pc.if_else(pc.is_null(taken), column.dictionary_decode(), pa.scalar(None, column.type.value_type))


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_json(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_binary(kind))


def integers(column: pa.Array) -> Taken:
    """Splits a column into whole numbers and the rest."""
    if pa.types.is_integer(column.type):
        return column, None
    if _is_json(column.type):
        return mapped(column, pa.int64(), _json_integer)
    return None, column


def numbered(column: pa.Array, spelling: re.Pattern[str] = _INTEGER) -> Taken:
    """Splits a member into whole numbers, including those in texts, and the rest."""
    if pa.types.is_integer(column.type):
        return column, None
    if not _is_text(column.type) and not _is_json(column.type):
        column = json_cells(column).cast(pa.binary())
    return mapped(column, pa.int64(), partial(_number, spelling))


def _number(spelling: re.Pattern[str], value: str | bytes) -> int | None:
    whole = _json_integer(value) if isinstance(value, bytes) else None
    return _spelled(_whole(value), spelling) if whole is None else whole


def _whole(value: str | bytes) -> str:
    """The text of a member; 12.0 becomes 12, because tables write whole numbers so."""
    text = as_text(value) or ""
    return text.removesuffix(".0") if isinstance(value, bytes) and value[:1] != b'"' else text


def _spelled(text: str, spelling: re.Pattern[str]) -> int | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    match = spelling.fullmatch(text)
    return int(match[1]) if match and match.lastindex and abs(int(match[1])) < 1 << 62 else None


def _json_integer(text: bytes) -> int | None:
    if not _JSON_INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


def _integers32(column: pa.Array) -> Taken:
    """Splits a column into whole numbers of 32 bits and the rest."""
    taken, rest = integers(column)
    if taken is None:
        return None, rest
    low, high = (pc.min_max(taken)[name].as_py() for name in ("min", "max"))
    if low is not None and (low < -_INT32 or high >= _INT32):
        fits = pc.and_(pc.greater_equal(taken, -_INT32), pc.less(taken, _INT32))
        taken = pc.if_else(fits, taken, None)
        rest = pc.if_else(pc.is_null(taken), decoded(column), None)
    return taken.cast(pa.int32()), rest


def _ordinals(column: pa.Array) -> Taken:
    """Splits a column into ordinals of devices or streams, which may be texts, and the rest; -1 means "none"."""
    taken, rest = numbered(column)
    if taken is None or (pc.min(taken).as_py() or 0) >= 0:
        return taken, rest
    none = pc.less(taken, 0)
    if rest is None:
        return pc.if_else(none, None, taken), pc.if_else(none, taken, None)
    taken = pc.if_else(none, None, taken)
    return taken, pc.if_else(pc.is_null(taken), decoded(column), None)


def numbers(column: pa.Array) -> Taken:
    """Splits a column into float64 numbers and the rest, including whole numbers that aren't exact as a float."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column, None
    if pa.types.is_integer(kind):
        try:
            return column.cast(pa.float64()), None
        except pa.ArrowInvalid:
            exact = pc.and_kleene(pc.less_equal(column, 1 << 53), pc.greater_equal(column, -(1 << 53)))
            return pc.if_else(exact, column, None).cast(pa.float64()), pc.if_else(exact, None, column)
    if _is_json(kind):
        return mapped(column, pa.float64(), _json_number)
    if _is_text(kind):
        return mapped(column, pa.float64(), SPECIAL.get)
    return None, column


def _json_number(text: bytes) -> float | None:
    try:
        value = load_json(text)
    except ValueError:
        return None
    if type(value) is int:
        return float(value) if abs(value) <= 1 << 53 else None
    if isinstance(value, str):
        return SPECIAL.get(value)
    return value if type(value) is float else None


def _texts(column: pa.Array) -> Taken:
    if _is_text(column.type):
        return column, None
    if _is_json(column.type):
        return mapped(column, pa.string(), _json_text)
    return None, column


def _json_text(text: bytes) -> str | None:
    try:
        value = load_json(text)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _dims(column: pa.Array) -> tuple[list[pa.Array] | None, pa.Array | None]:
    """Splits a column into [x, y, z], as three columns, and the rest."""
    if not _is_json(column.type):
        return None, column
    column = encoded(column)
    texts = column.dictionary.to_pylist()
    axes = _all_three(texts)
    if axes is None:
        made = [_three(text) if text is not None else None for text in texts]
        if not any(made):
            return None, column
        axes = [pa.array([None if dims is None else dims[axis] for dims in made], pa.int64()) for axis in range(3)]
    taken = [axis.take(column.indices) for axis in axes]
    return taken, _rest(column, taken[0])


def _all_three(texts: list[Any]) -> list[pa.Array] | None:
    """The columns of what `_three` makes of each text, at once; None if there is anything else than small lists."""
    joined = b"[%b]" % b",".join(texts) if texts and None not in texts else b"-"
    if joined.translate(None, b"0123456789[], "):
        return None
    try:
        triples = np.fromiter(chain.from_iterable(_THREES.decode(joined)), np.int64).reshape(-1, 3)
    except (msgspec.DecodeError, OverflowError):
        return None
    return [pa.array(triples[:, axis]) for axis in range(3)] if triples.max() < 1 << 62 else None


@lru_cache(maxsize=1 << 16)
def _three(text: bytes) -> tuple[int, int, int] | None:
    try:
        x, y, z = load_json(text)
    except (ValueError, TypeError):
        return None
    whole = all(type(value) is int and abs(value) < 1 << 62 for value in (x, y, z))
    return (x, y, z) if whole else None


def _copies(column: pa.Array) -> Taken:
    """Splits a column into directions of copies and the rest; a longer text is rest."""
    if not _is_text(column.type) and not _is_json(column.type):
        return None, column
    return mapped(column, pa.string(), _copy)


def _copy(value: str | bytes) -> str | None:
    text = value if isinstance(value, str) else _json_text(value)
    return text if text and direction(text) == text else None


def direction(text: str | None) -> str | None:
    """The direction at the start of a text: "HtoD" for "Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice"."""
    match = _DIRECTION.match(text or "")
    if not match:
        return None
    return match[1] or f"{match[2][0]}to{match[3][0]}"


_MOVES: dict[str, Callable[[pa.Array], Any]] = {
    "int": integers,
    "int32": _integers32,
    "float": numbers,
    "text": _texts,
    "dims": _dims,
    "copy": _copies,
    "ordinal": _ordinals,
    "digits": numbered,
}
