"""What events carry besides their own fields: arguments, texts and numbers from columns, and the ends of arrows.

Arrows depend on their ends, as Perfetto draws them:

slice -> slice                flow_ids of both
slice -> render stage         gpu_correlation.render_stage_submission_event_ids of the slice; at most one per stage
render stage -> slice         gpu_correlation.render_stage_wait_event_ids of the slice
render stage -> render stage  event_wait_ids of the second
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Float64, Int64, UInt64
from ktrace.model.json_text import decoded
from ktrace.model.masks import present
from ktrace.stages.order import TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

from .. import field_numbers as f
from ..wire import bytes_tag, double_tag, int_tag, varint
from .arguments import HostArguments, Naming, StageArguments
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

#: Doubles represent every integer up to this.
_EXACT = 2.0**53

#: A column of plain texts with more distinct values isn't interned.
_DISTINCT = 1 << 10


def argument_field(name: str, column: pa.Array, into: HostArguments | StageArguments, tag: bytes) -> Field | None:
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
        words = [_whole_text(tag, into.json(name, word)) for word in (b"false", b"true")]
        codes = values.astype(np.int32)
        return CodedField(PieceTable(words), codes if valid is None else np.where(valid, codes, np.int32(-1)))
    return _text(name, column, into, tag)


def _text(name: str, column: pa.Array, into: HostArguments | StageArguments, tag: bytes) -> Field:
    value = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_json = pa.types.is_binary(value) or pa.types.is_large_binary(value)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
        if not is_json and len(column.dictionary) > max(_DISTINCT, len(column) // 2):
            text = TextField(decoded(column).cast(pa.large_binary()))
            return MessageField(tag, into.head(name), [MessageField(into.text_tag, b"", [text])], validity(column))

    def make(text: bytes, many: bool) -> bytes:
        body = into.json(name, text) if is_json else into.text(name, text, often=many)
        return body if isinstance(into, HostArguments) else _whole_text(tag, body)

    return coded(column, make)


def _whole_text(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


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


def source_argument_field(column: pa.Array, into: HostArguments, naming: Naming) -> Field | None:
    """Returns the `args` texts as arguments of the host; None if all are null."""
    if column.null_count == len(column):
        return None
    return coded(column, lambda text, _: into.object(text, naming))


def whole(column: pa.Array) -> UInt64:
    """Returns an integer column as the words of its varints; of a null it may be any word."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), np.uint64)
    values: Any = np.frombuffer(data, column.type.to_pandas_dtype())[column.offset :][: len(column)]
    words: UInt64 = values.astype(np.int64, copy=False).view(np.uint64)
    return words


def is_integral(values: Float64) -> Bools:
    """Returns which doubles an integer can replace: not -0.0, and none so large that it could be rounded."""
    found: Bools = (np.abs(values) < _EXACT) & (values == np.trunc(values)) & ~((values == 0) & np.signbit(values))
    return found


def any_of(valid: Sequence[Bools | None]) -> Bools | None:
    """Returns which rows have one of several fields; None: all."""
    found = [which for which in valid if which is not None]
    return np.logical_or.reduce(found) if found and len(found) == len(valid) else None


def validity(column: pa.Array) -> Bools | None:
    """Returns which rows aren't null; None if all are."""
    if not column.null_count:
        return None
    valid: Bools = present(column)
    return valid


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
        found: Bools = (self._bytes[np.where(inside, numbers >> 3, 0)] >> (numbers & 7).astype(np.uint8)) & 1 == 1
        return found & inside


class HostArrows(msgspec.Struct, frozen=True):
    """Arrows of some rows, by row: numbers of flows, and ids of the stages that they start and that they wait for."""

    count: int
    flows: tuple[Int64, Int64]
    submissions: tuple[Int64, Int64]
    waits: tuple[Int64, Int64]

    def of(self, rows: Int64) -> HostArrows:
        """The same by position in `rows`, which contains all rows with an arrow."""
        number = np.full(self.count, -1, np.int64)
        number[rows] = np.arange(len(rows))
        flows, starts, waits = ((number[at], value) for at, value in (self.flows, self.submissions, self.waits))
        return HostArrows(len(rows), flows, starts, waits)

    def fields(self) -> list[Field]:
        """The fields of TrackEvents."""
        found: list[Field] = []
        rows, flow = self.flows
        if len(rows):
            single, value, several = _alone(self.count, rows, flow)
            found.append(FixedField(_FLOW, value, single))
            if len(several[0]):
                found.append(TextField(_joined("TrackEvent", [_flows(*several)], self.count)))
        found += self._correlations()
        return found

    def _correlations(self) -> list[Field]:
        rows, event = self.submissions
        if not len(rows) and not len(self.waits[0]):
            return []
        single, value, several = _alone(self.count, rows, event)
        crossed = np.zeros(self.count, np.bool_)
        crossed[self.waits[0]] = True
        moved = single & crossed  # has both, so it is encoded with the waits
        single &= ~crossed
        found: list[Field] = [number_field(_CORRELATION, b"", _SUBMISSION, value, single)]
        at, more = np.flatnonzero(moved), value[moved].view(np.int64)
        parts = [_ids(*several, _SUBMISSION), _ids(at, more, _SUBMISSION), _ids(*self.waits, _HOST_WAIT)]
        if any(len(part[0]) for part in parts):
            text = TextField(_joined("GpuCorrelation", parts, self.count))
            found.append(MessageField(_CORRELATION, b"", [text], text.valid))
        return found


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
            waits = _joined("GpuRenderStageEvent", [_ids(row[waiting], peer[waiting], _STAGE_WAIT)], len(batch))
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


def _flows(rows: Int64, flows: Int64) -> _Fields:
    return rows, FixedField(_FLOW, flows.astype(np.uint64))


def _ids(rows: Int64, ids: Int64, tag: bytes) -> _Fields:
    """Ids of stages, as varints after a tag."""
    return rows, VarintField(tag, ids.astype(np.uint64))


def _joined(kind: str, parts: list[_Fields], count: int) -> pa.LargeBinaryArray:
    """The fields of all parts, which are of one kind of message, joined by row; null for a row without any."""
    rows = np.concatenate([part[0] for part in parts])
    order = np.argsort(rows, kind="stable")
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    places = np.split(place, np.cumsum([len(part[0]) for part in parts])[:-1])
    fields = [Part([field], mine) for (_, field), mine in zip(parts, places, strict=True)]
    data, ends = encoder(kind, fields, len(rows))()
    bounds = np.concatenate([[0], ends])
    offsets = np.ascontiguousarray(bounds[np.searchsorted(rows[order], np.arange(count + 1))])
    joined = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    has = np.bincount(rows, minlength=count) > 0
    return pc.if_else(pa.array(has), joined, pa.scalar(None, joined.type))
