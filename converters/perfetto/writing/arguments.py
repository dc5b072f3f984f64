"""What events carry besides their own fields: arguments, texts and numbers from columns, and the ends of arrows.

Arguments are DebugAnnotations on the tracks of the host, ExtraComputeArgs on render stages. One on a host track keeps
its JSON type. Values without a protobuf type are texts with the type name `json`: integers beyond 64 bits, empty
objects and lists, values nested too deep or too long, null in a list. Any other null is an argument of that type
without a value, which viewers leave out. An argument of a stage is a number or a text; if its name is spelled out
instead of interned, it is JSON text. A sequence interns texts: from its second use on, a number replaces a text.

Arguments that come as the JSON text of an object in each row, as they do from tables, are made columns of their values,
since a column is encoded at once, while a text would be parsed and encoded on its own:

    {"External id": 1, "device": 0}        External id  device
    {"External id": 2, "device": 1}   ->   1            0
                                           2            1

Arrows depend on their ends, as Perfetto draws them:

    slice -> slice                flow_ids of both
    slice -> render stage         gpu_correlation.render_stage_submission_event_ids of the slice; at most one per stage
    render stage -> slice         gpu_correlation.render_stage_wait_event_ids of the slice
    render stage -> render stage  event_wait_ids of the second
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import is_utf8, no_gc, used_words
from ktrace.kit.trace_json.decode import MOST_KEYS, ODD_KEY, Columns
from ktrace.kit.trace_json.events import members_of
from ktrace.model.arrays import Bools, Float64, Int64, UInt64
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import present
from ktrace.stages.order import TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

from .. import field_numbers as f
from ..wire import bytes_tag, double, double_tag, int_field, int_tag, message, varint
from .fields import (
    CodedField,
    Field,
    FixedField,
    MessageField,
    Part,
    PieceTable,
    TextField,
    VarintField,
    encoder,
    number_field,
)

#: Bytes of texts of one kind that are kept to intern them; further texts are spelled out.
REMEMBERED = 16 << 20

# The field numbers are the same in EventName, EventCategory, DebugAnnotationName, InternedString and the like.
_IID = f.EVENT_NAME["iid"]
_TEXT = bytes_tag(f.EVENT_NAME["name"])


class InternedTexts:
    """Texts (UTF-8) of one kind.

    `entries` is the field of InternedData; `iid` and `text` are the fields of the user that contain a number or the
    text. New entries gather in `fresh`.
    """

    def __init__(self, entries: int, iid: int, text: int) -> None:
        self.fresh: list[bytes] = []
        self._entries = bytes_tag(entries)
        self._iid = int_tag(iid)
        self._text = bytes_tag(text)
        self._known: dict[bytes, bytes] = {}
        self._seen_once: set[bytes] = set()
        self._budget = REMEMBERED

    def field(self, text: bytes, *, often: bool = True) -> bytes:
        """Returns the field of a text: a number if the text is used `often` or was used before."""
        iid = self._known.get(text)
        if iid is not None:
            return iid
        if text in self._seen_once:
            self._seen_once.discard(text)
            return self._intern(text)
        if self._budget >= len(text):
            self._budget -= len(text)
            if often:
                return self._intern(text)
            self._seen_once.add(text)
        return self._text + varint(len(text)) + text

    def _intern(self, text: bytes) -> bytes:
        number = len(self._known) + 1
        entry = int_field(_IID, number) + _TEXT + varint(len(text)) + text
        self.fresh.append(self._entries + varint(len(entry)) + entry)
        field = self._known[text] = self._iid + varint(number)
        return field


class _Interning(Protocol):
    fresh: list[bytes]


def fresh(*tables: _Interning) -> bytes:
    """Returns the entries of InternedData that are new since the last call."""
    entries = b"".join(entry for table in tables for entry in table.fresh)
    for table in tables:
        table.fresh.clear()
    return entries


#: Levels of an argument that are nested messages; deeper values are JSON texts.
_DEEPEST = 32

#: Bytes of JSON of a list or object that is nested messages; a longer one is JSON text. The engine makes a row of each
#: element, and the messages take twenty times the memory of the text.
_LONGEST = 1 << 20

#: The cache of messages is limited to this many bytes.
_REMEMBERED = 16 << 20

#: Ids of the type names: a value that is JSON text, and a text that is all of `args`.
JSON_TYPE, ARGS_TYPE = 1, 2

#: Their entries of InternedData, written at the start of the sequence.
TYPE_NAMES = message(
    f.INTERNED_DATA,
    debug_annotation_value_type_names=[
        message(f.EVENT_NAME, iid=JSON_TYPE, name="json"),
        message(f.EVENT_NAME, iid=ARGS_TYPE, name="args"),
    ],
)

_BOOL = int_tag(f.DEBUG_ANNOTATION["bool_value"])
_ENTRY = bytes_tag(f.DEBUG_ANNOTATION["dict_entries"])
_ELEMENT = bytes_tag(f.DEBUG_ANNOTATION["array_values"])
_JSON = int_field(f.DEBUG_ANNOTATION["proto_type_name_iid"], JSON_TYPE)
_ARGS = int_field(f.DEBUG_ANNOTATION["proto_type_name_iid"], ARGS_TYPE)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

#: Key of the source's `args` -> the name that is written.
Naming = Callable[[str], str]


def tagged(tag: bytes, body: bytes) -> bytes:
    """A message or text with its tag and length."""
    return tag + varint(len(body)) + body


class Arguments(ABC):
    """Arguments as messages without tag and length. `names` and `texts` intern their names and text values."""

    bool_tag: bytes | None = None

    def __init__(self, numbers: Mapping[str, int], names: str) -> None:
        """`numbers` are those of the fields of the message, `names` is the field of InternedData with the names."""
        self.names = InternedTexts(f.INTERNED_DATA[names], numbers["name_iid"], numbers["name"])
        self.texts = InternedTexts(
            f.INTERNED_DATA["debug_annotation_string_values"], numbers["string_value_iid"], numbers["string_value"]
        )
        self.int_tag, self.uint_tag = int_tag(numbers["int_value"]), int_tag(numbers["uint_value"])
        self.double_tag, self.text_tag = double_tag(numbers["double_value"]), bytes_tag(numbers["string_value"])

    def head(self, name: str) -> bytes:
        """The field of an argument's name."""
        return self.names.field(name.encode("utf-8", "replace"))

    def text(self, name: str, value: bytes, *, often: bool) -> bytes:
        """An argument that is a text."""
        return self.head(name) + self.texts.field(value, often=often)

    def json(self, name: str, text: bytes) -> bytes:
        """An argument that is any JSON value."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand levels
            return self._json_text(name, text, often=False)
        return self.value(name, value)

    def object(self, text: bytes, naming: Naming) -> list[bytes]:
        """The arguments of a whole `args` object."""
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            return [self._whole(text)]
        return [self.value(naming(key), value) for key, value in members.items()]

    def value(self, name: str, value: Any) -> bytes:
        """An argument that is a value of JSON."""
        scalar = self._scalar(value)
        return self._json_text(name, _spelled(value)) if scalar is None else self.head(name) + scalar

    def _scalar(self, value: Any) -> bytes | None:
        """A number, or a text; None for another value, an integer beyond 64 bits, a text with half a surrogate pair."""
        kind = type(value)
        if kind is int and -(2**63) <= value < 2**63:
            return self.int_tag + varint(value)
        if kind is float:
            return self.double_tag + double(value)
        if kind is str:
            with suppress(UnicodeEncodeError):
                return self.texts.field(value.encode())
        return None

    @abstractmethod
    def _json_text(self, name: str, text: bytes, *, often: bool = True) -> bytes:
        """An argument that is marked as JSON text."""

    def _whole(self, text: bytes) -> bytes:
        """All of `args`, which can't be decoded."""
        return self._json_text("args", text, often=False)


def _spelled(value: Any) -> bytes:
    return json.dumps(value).encode() if type(value) is str else dump_json(value).encode("utf-8", "backslashreplace")


class HostArguments(Arguments):
    """DebugAnnotations; the messages of some JSON texts are kept."""

    tag = bytes_tag(f.TRACK_EVENT["debug_annotations"])
    bool_tag = _BOOL

    def __init__(self) -> None:
        super().__init__(f.DEBUG_ANNOTATION, "debug_annotation_names")
        self._known: dict[tuple[str, bytes], list[bytes]] = {}
        self._budget = _REMEMBERED

    def json(self, name: str, text: bytes) -> bytes:
        """An argument that is any JSON value."""
        if len(text) > _LONGEST and text[:1] in (b"{", b"["):
            return self._json_text(name, text, often=False)
        make = super().json
        (body,) = self._remembered(name, text, lambda: [make(name, text)])
        return body

    def object(self, text: bytes, naming: Naming) -> list[bytes]:
        """The arguments of a whole `args` object."""
        if len(text) > _LONGEST:
            with suppress(msgspec.DecodeError, RecursionError):
                return [self.json(naming(key), bytes(part)) for key, part in _members(text).items()]
        make = super().object
        return self._remembered("", text, lambda: make(text, naming))

    def value(self, name: str, value: Any) -> bytes:
        """An argument that is a value of JSON."""
        return self.head(name) + self._member(value, 0)

    def _remembered(self, name: str, text: bytes, make: Callable[[], list[bytes]]) -> list[bytes]:
        """The messages of a text under a name, which are made if they aren't known."""
        encoded = self._known.get((name, text))
        if encoded is None:
            encoded = make()
            self._budget -= len(text) + sum(map(len, encoded))
            if self._budget < 0:
                self._known.clear()
                self._budget = _REMEMBERED
            self._known[name, text] = encoded
        return encoded

    def _member(self, value: Any, depth: int) -> bytes:
        return _JSON if value is None else self._value(value, depth)

    def _value(self, value: Any, depth: int) -> bytes:
        scalar = self._scalar(value)
        if scalar is not None:
            return scalar
        if type(value) is bool:
            return _BOOL + varint(value)
        if value and depth < _DEEPEST and type(value) is dict:
            members = ((self.head(key), self._member(item, depth + 1)) for key, item in value.items())
            return b"".join(tagged(_ENTRY, head + body) for head, body in members)
        if value and depth < _DEEPEST and type(value) is list:
            return b"".join(tagged(_ELEMENT, self._value(item, depth + 1)) for item in value)
        return _JSON + self.texts.field(_spelled(value))

    def _json_text(self, name: str, text: bytes, *, often: bool = True) -> bytes:
        return self.head(name) + _JSON + self.texts.field(text, often=often)

    def _whole(self, text: bytes) -> bytes:
        return self.head("args") + _ARGS + self.texts.field(text, often=False)


class StageArguments(Arguments):
    """ExtraComputeArgs of a launch or of an interned kernel. A name that is spelled out marks JSON text."""

    def __init__(self) -> None:
        super().__init__(f.EXTRA_COMPUTE_ARG, "compute_arg_names")

    def _json_text(self, name: str, text: bytes, *, often: bool = True) -> bytes:
        return message(f.EXTRA_COMPUTE_ARG, name=name) + self.texts.field(text, often=often)


#: Texts with fewer distinct values than one in so many rows are cheaper one by one.
_ROWS_PER_TEXT = 8


#: A number of more digits than Python reads.
_DIGITS = 4300
_HUGE = re.compile(rb"\d{%d}" % _DIGITS)


class ArgumentTexts:
    """Makes columns of argument texts; remembers their keys, for the order of the columns."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._usable = True

    def columns(self, texts: pa.Array) -> dict[str, pa.Array] | None:
        """Returns the values by key, null where a text lacks the key; None if the texts are better taken as such.

        They are if there are few distinct ones, or if one isn't an object, is damaged, or has too many or odd keys.
        """
        coded = decoded(texts).dictionary_encode()
        if not self._usable or len(coded.dictionary) * _ROWS_PER_TEXT < len(texts):
            return None
        with no_gc():
            try:
                parsed = self._decoded(coded.dictionary.cast(pa.binary()).to_pylist())
            except (msgspec.DecodeError, RecursionError):
                return None
        return None if parsed is None else {key: column.take(coded.indices) for key, column in parsed.items()}

    def _decoded(self, texts: list[bytes]) -> dict[str, pa.Array] | None:
        if not texts or not all(map(is_utf8, texts)):
            return None
        columns = Columns()
        for row, text in enumerate(texts):
            self._usable = text[:1] == b"{" and len(columns) <= MOST_KEYS
            if not self._usable or (len(text) > _DIGITS and _HUGE.search(text)):
                return None
            columns.add(row, members_of(text))
        columns_of_keys = columns.finish(len(texts))
        self._keys |= dict.fromkeys(columns_of_keys)
        self._usable = len(self._keys) <= MOST_KEYS and not any(map(ODD_KEY.search, columns_of_keys))
        if not self._usable:
            return None
        return {key: used_words(columns_of_keys[key]) for key in self._keys if key in columns_of_keys}


#: Doubles represent every integer up to this.
_EXACT = 2.0**53

#: A column of plain texts with more distinct values isn't interned.
_DISTINCT = 1 << 10


def argument_field(name: str, column: pa.Array, into: Arguments, tag: bytes) -> Field | None:
    """Returns a column as an argument; None if all its values are null."""
    if column.null_count == len(column):
        return None
    kind = column.type
    valid = validity(column)
    if pa.types.is_integer(kind):
        number = into.uint_tag if pa.types.is_unsigned_integer(kind) else into.int_tag
        return number_field(tag, into.head(name), number, whole(column), valid)
    if pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return MessageField(tag, into.head(name), [FixedField(into.double_tag, values.view(np.uint64))], valid)
    if pa.types.is_boolean(kind):
        values = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        if into.bool_tag is not None:
            return number_field(tag, into.head(name), into.bool_tag, values.astype(np.uint64), valid)
        words = [tagged(tag, into.json(name, word)) for word in (b"false", b"true")]
        codes = values.astype(np.int32)
        return CodedField(PieceTable(words), codes if valid is None else np.where(valid, codes, np.int32(-1)))
    return _text(name, column, into, tag)


def _text(name: str, column: pa.Array, into: Arguments, tag: bytes) -> Field:
    value = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_json = pa.types.is_binary(value) or pa.types.is_large_binary(value)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
        if not is_json and len(column.dictionary) > max(_DISTINCT, len(column) // 2):
            text = TextField(decoded(column).cast(pa.large_binary()))
            return MessageField(tag, into.head(name), [MessageField(into.text_tag, b"", [text])], validity(column))

    def make(text: bytes, many: bool) -> bytes:
        return tagged(tag, into.json(name, text) if is_json else into.text(name, text, often=many))

    return coded(column, make)


def coded(column: pa.Array, make: Callable[[bytes, bool], bytes]) -> CodedField:
    """Returns a column of texts or JSON as a table of pieces, one per distinct value that occurs.

    `make` gets the bytes of a value, and whether it occurs more than once, and returns the piece.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    elif column.dictionary.null_count:
        column = column.dictionary_decode().dictionary_encode()
    indices = column.indices.cast(pa.int32())
    codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
    counts = np.bincount(codes + 1, minlength=len(column.dictionary) + 1)[1:]
    used = np.flatnonzero(counts)
    if len(used) < len(counts):
        number = np.full(len(counts) + 1, -1, np.int32)
        number[used] = np.arange(len(used))
        codes = number[codes]
    values = column.dictionary.take(pa.array(used)).cast(pa.large_binary()).to_pylist()
    pieces = [make(value, count > 1) for value, count in zip(values, counts[used].tolist(), strict=True)]
    return CodedField(PieceTable(pieces), codes)


def object_field(column: pa.Array, into: Arguments, naming: Naming, tag: bytes) -> Field:
    """Returns a column of `args` texts as arguments."""
    return coded(column, lambda text, _: b"".join(tagged(tag, body) for body in into.object(text, naming)))


def whole(column: pa.Array) -> UInt64:
    """Returns an integer column as the words of its varints; of a null it may be any word."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), np.uint64)
    values: Any = np.frombuffer(data, column.type.to_pandas_dtype())[column.offset :][: len(column)]
    result: UInt64 = values.astype(np.int64, copy=False).view(np.uint64)
    return result


def is_integral(values: Float64) -> Bools:
    """Returns which doubles an integer can replace: not -0.0, and none so large that it could be rounded."""
    result: Bools = (np.abs(values) < _EXACT) & (values == np.trunc(values)) & ~((values == 0) & np.signbit(values))
    return result


def any_of(valid: Sequence[Bools | None]) -> Bools | None:
    """Returns which rows have one of several fields; None: all."""
    masks = [which for which in valid if which is not None]
    return np.logical_or.reduce(masks) if masks and len(masks) == len(valid) else None


def validity(column: pa.Array) -> Bools | None:
    """Returns which rows aren't null; None if all are."""
    if not column.null_count:
        return None
    return present(column)


_FLOW = double_tag(f.TRACK_EVENT["flow_ids"])
_CORRELATION = bytes_tag(f.TRACK_EVENT["gpu_correlation"])
_SUBMISSION = int_tag(f.GPU_CORRELATION["render_stage_submission_event_ids"])
_HOST_WAIT = int_tag(f.GPU_CORRELATION["render_stage_wait_event_ids"])
_STAGE_WAIT = int_tag(f.GPU_RENDER_STAGE_EVENT["event_wait_ids"])

_LAUNCH = ARROW_KINDS.index("launch")


class BitSet:
    """A set of numbers from 0, one bit each."""

    def __init__(self) -> None:
        self._bytes = np.zeros(1 << 10, np.uint8)

    def add(self, numbers: Int64) -> None:
        """Adds numbers."""
        if not len(numbers):
            return
        more = int(numbers.max()) // 8 + 1 - len(self._bytes)
        if more > 0:
            self._bytes = np.concatenate([self._bytes, np.zeros(max(more, len(self._bytes)), np.uint8)])
        np.bitwise_or.at(self._bytes, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))

    def has(self, numbers: Int64) -> Bools:
        """Returns which numbers are in the set."""
        inside = numbers >> 3 < len(self._bytes)
        mask: Bools = (self._bytes[np.where(inside, numbers >> 3, 0)] >> (numbers & 7).astype(np.uint8)) & 1 == 1
        return mask & inside


class HostArrows(msgspec.Struct, frozen=True):
    """Arrows of some rows, by row: numbers of flows, and ids of the stages that they start and that they wait for."""

    count: int
    flows: tuple[Int64, Int64]
    submissions: tuple[Int64, Int64]
    waits: tuple[Int64, Int64]

    def at_rows(self, rows: Int64) -> HostArrows:
        """The same by position in `rows`, which contains all rows with an arrow."""
        number = np.full(self.count, -1, np.int64)
        number[rows] = np.arange(len(rows))
        flows, starts, waits = ((number[at], value) for at, value in (self.flows, self.submissions, self.waits))
        return HostArrows(len(rows), flows, starts, waits)

    def fields(self) -> list[Field]:
        """The fields of TrackEvents."""
        arrows: list[Field] = []
        rows, flow = self.flows
        if len(rows):
            single, value, several = _alone(self.count, rows, flow)
            arrows.append(FixedField(_FLOW, value, single))
            if len(several[0]):
                rows, flow = several
                arrows.append(TextField(_joined([(rows, FixedField(_FLOW, flow.astype(np.uint64)))], self.count)))
        arrows += self._correlations()
        return arrows

    def _correlations(self) -> list[Field]:
        rows, event = self.submissions
        if not len(rows) and not len(self.waits[0]):
            return []
        single, value, several = _alone(self.count, rows, event)
        crossed = np.zeros(self.count, np.bool_)
        crossed[self.waits[0]] = True
        moved = single & crossed  # has both, so it is encoded with the waits
        single &= ~crossed
        fields: list[Field] = [number_field(_CORRELATION, b"", _SUBMISSION, value, single)]
        at, more = np.flatnonzero(moved), value[moved].view(np.int64)
        parts = [_ids(*several, _SUBMISSION), _ids(at, more, _SUBMISSION), _ids(*self.waits, _HOST_WAIT)]
        if any(len(part[0]) for part in parts):
            text = TextField(_joined(parts, self.count))
            fields.append(MessageField(_CORRELATION, b"", [text], text.valid))
        return fields


class ArrowBook:
    """Splits the arrows of a batch by their ends, and remembers which stages have been started."""

    def __init__(self) -> None:
        self._started = BitSet()
        self._drawn = BitSet()

    def split(self, batch: TimelineBatch, stage: Bools) -> tuple[HostArrows, pa.Array, int]:
        """Returns the arrows of slices by row of the batch, the fields of waiting stages, and the number of ends that
        can't be drawn.
        """
        arrows = batch.arrows
        row, out, peer, work = arrows.row.astype(np.int64), arrows.out, arrows.peer, arrows.work
        on_stage, launch = stage[row], arrows.kind == _LAUNCH
        starting = self._starting(arrows.arrow, peer, ~on_stage & out & work & (launch | ~arrows.launched), launch)
        self._drawn.add(arrows.arrow[starting])
        flow = ~on_stage & ~work
        waiting = on_stage & ~out & work
        arrived = on_stage & ~out & ~work & (peer > 0) & (launch | self._drawn.has(arrows.arrow))
        left = on_stage & out & (peer > 0)
        kept = flow | starting | waiting | arrived | left | (~on_stage & ~out & work)
        host = HostArrows(
            len(batch),
            (row[flow], arrows.arrow[flow] << 3 | arrows.kind[flow]),
            (row[starting], peer[starting]),
            (row[~on_stage & ~out & work], peer[~on_stage & ~out & work]),
        )
        waits = None
        if waiting.any():
            waits = _joined([_ids(row[waiting], peer[waiting], _STAGE_WAIT)], len(batch))
        return host, waits, int(np.count_nonzero(~kept))

    def _starting(self, arrow: Int64, peer: Int64, possible: Bools, launch: Bools) -> Bools:
        """Returns which departures start their stage: launches first, and each stage is started once.

        `possible` excludes other arrows to work that a call launched, wherever that call is.
        """
        index = np.flatnonzero(possible)
        index = index[np.lexsort((arrow[index], ~launch[index]))]
        first = np.zeros(len(index), np.bool_)
        first[np.unique(peer[index], return_index=True)[1]] = True
        index = index[first & ~self._started.has(peer[index])]
        self._started.add(peer[index])
        starting = np.zeros(len(arrow), np.bool_)
        starting[index] = True
        return starting


def _alone(count: int, rows: Int64, values: Int64) -> tuple[Bools, UInt64, tuple[Int64, Int64]]:
    """Returns which of `count` rows have one value, the values by row, and (row, value) of rows with several."""
    many = np.bincount(rows, minlength=count)
    single = many == 1
    value = np.zeros(count, np.uint64)
    value[rows] = values.astype(np.uint64)
    several = many[rows] > 1
    return single, value, (rows[several], values[several])


#: Rows, and a field of each.
_Fields = tuple[Int64, Field]


def _ids(rows: Int64, ids: Int64, tag: bytes) -> _Fields:
    """Ids of stages, as varints after a tag."""
    return rows, VarintField(tag, ids.astype(np.uint64))


def _joined(parts: list[_Fields], count: int) -> pa.LargeBinaryArray:
    """The fields of all parts joined by row; null for a row without any."""
    rows = np.concatenate([part[0] for part in parts])
    order = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    places = np.split(place, np.cumsum([len(part[0]) for part in parts])[:-1])
    fields = [Part([field], rows_of_part) for (_, field), rows_of_part in zip(parts, places, strict=True)]
    data, ends = encoder(fields, len(rows))()
    bounds = np.concatenate([[0], ends])
    offsets = np.ascontiguousarray(bounds[np.searchsorted(rows[order], np.arange(count + 1))])
    joined = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    has = np.bincount(rows, minlength=count) > 0
    return pc.if_else(pa.array(has), joined, pa.scalar(None, joined.type))
