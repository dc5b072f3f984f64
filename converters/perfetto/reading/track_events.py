"""TrackEvents as rows.

    track_event { SLICE_BEGIN  track 3  name_iid 1  category_iids 2  debug_annotations { .. } }   half: begin
    track_event { SLICE_END    track 3 }                                                         half: end
    track_event { INSTANT ..   COUNTER  track 9  counter_value 42 }                              instant, counter

The pairing stage joins the halves of foreign traces, whose packets can be in any order. PyTorch lists all begins of a
group of slices, and then all ends in the same order (monitor_pftrace.cpp), so that times needn't tell which end is
whose; in one ns they can't. In a trace that ktrace wrote,
an end belongs to the innermost open slice before it in the file: those slices are paired here, and the slices that are
still open are carried over to the next packets.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import FIXED64, LENGTH, VARINT, signed
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.stages.order.pairing import match
from ktrace.store.joins import ranges

from .. import field_numbers as f
from .arguments import (
    ANNOTATION,
    INT,
    JSON,
    Chunk,
    Restore,
    Values,
    event_batches,
    joined_values,
    read_values,
    restore_event,
)
from .context import Context, Events
from .event_fields import BEGIN, COMPLETE, COUNTER, END, NOTHING, STATE, Parsed, as_work, parse_events, rule, rules_of
from .extra_rows import event_waits, extra_counters, flow_links, submissions
from .messages import bits

_T = f.TRACK_EVENT
_KINDS = ["range", "range", "range", "instant", "counter", "range", "range", "instant"]

#: Fields that ktrace writes for viewers: the API of the device, and what the stack in the arguments means.
_DERIVED = frozenset({_T["gpu_api"], _T["callstack_iid"], _T["callstack_weight"]})

#: Fields with a column; all other fields become arguments with a "$".
_KNOWN = {
    _T[name] << 3 | wire
    for wire, names in {
        VARINT: ("category_iids", "name_iid", "type", "track_uuid", "counter_value", "flow_ids_old"),
        FIXED64: ("double_counter_value", "flow_ids", "terminating_flow_ids", "extra_double_counter_values"),
        LENGTH: ("categories", "name", "debug_annotations", "legacy_event", "gpu_correlation"),
    }.items()
    for name in names
} | {
    _T[name] << 3 | wire
    for name in (
        *("terminating_flow_ids_old", "extra_counter_track_uuids", "extra_counter_values", "flow_ids", "flow_ids_old"),
        *("extra_double_counter_track_uuids", "extra_double_counter_values", "terminating_flow_ids"),
        *("timestamp_absolute_us", "timestamp_delta_us"),
    )
    for wire in (VARINT, LENGTH)
}
_NAMES = {number: name for name, number in _T.items()}


def read_foreign_events(context: Context, chunk: Chunk, events: Events) -> Iterator[Batch]:
    """Yields the rows of TrackEvents of a trace that ktrace didn't write."""
    parsed = parse_events(context, chunk, events)
    begins, ends = _listed_alike(parsed)
    parsed.dur[begins] = events.ts[ends] - events.ts[begins]
    parsed.event_type[begins], parsed.event_type[ends] = COMPLETE, NOTHING
    if len(ends):
        context.conversion.report.used(len(ends), outcome="end of a slice")
    used = np.flatnonzero(parsed.event_type != NOTHING)
    context.conversion.report.used(len(used))
    used = used[~_ended_states(context, parsed)[used]]
    yield from _state_ends(context, parsed)
    rules, before = rules_of(context, chunk, parsed), len(context.correlated)
    for number in np.unique(rules[used]).tolist():
        rows = used[rules[used] == number]
        for batch in _rows(context, chunk, parsed, rows, None, None, partial(as_work, rule(number))):
            context.correlations(batch)
            yield batch
            yield from event_waits(context, batch)
    index = np.full(len(events), -1, np.int64)
    index[used] = used
    for ids, _, _ in context.correlated[before:]:  # flows of these events repeat the correlation
        index[np.isin(events.id, ids)] = -1
    yield from flow_links(context, parsed, events.id, index)
    yield from extra_counters(context, chunk, parsed.events, parsed.fields)


def read_ktrace_events(context: Context, chunk: Chunk, events: Events, *, last: bool) -> Iterator[Batch | Events]:
    """Yields the rows of TrackEvents of a trace that ktrace wrote, then the slices that are still open.

    The next events must follow these. With `last` they are rows without a duration.
    """
    report = context.conversion.report
    parsed = parse_events(context, chunk, events)
    is_half = np.flatnonzero((parsed.event_type == BEGIN) | (parsed.event_type == END))
    ts = events.ts[is_half]
    if np.any(ts[1:] < ts[:-1]):
        is_half = is_half[np.argsort(ts, kind="stable")]
    halves = is_half[np.argsort(parsed.place[is_half], kind="stable")]
    pairs = match(parsed.place[halves].astype(np.int32), parsed.event_type[halves] == END)
    begins, ends, opened = halves[pairs.begins], halves[pairs.ends], halves[pairs.lone_begins]
    for row in halves[pairs.lone_ends].tolist():
        report.issue("end-without-begin", context.where(int(events.id[row])))
    report.used(len(ends), outcome="end of a slice")
    parsed.dur[begins] = events.ts[ends] - events.ts[begins]
    has_dur = np.zeros(len(events), np.bool_)
    has_dur[begins] = True
    done = has_dur | ((parsed.event_type != BEGIN) & (parsed.event_type != END) & (parsed.event_type != NOTHING))
    if last:
        done[opened] = True
    rows = np.flatnonzero(done)
    report.used(len(rows))
    end_of = np.full(len(events), -1, np.int64)
    end_of[ends] = begins
    yield from _rows(context, chunk, parsed, rows, ~has_dur, end_of)
    if not last:
        yield events.take(np.sort(opened))


def _listed_alike(parsed: Parsed) -> tuple[Int64, Int64]:
    """The halves of slices whose writer lists begins and then, in the same order of tracks, ends: the rows of both.

    What is written as time goes has no end that is earlier than a begin before it; such a writer has.
    """
    halves = np.flatnonzero((parsed.event_type == BEGIN) | (parsed.event_type == END))
    is_end = parsed.event_type[halves] == END
    border = np.flatnonzero(np.diff(is_end, prepend=~is_end[:1], append=~is_end[-1:]))
    length = np.diff(border)
    groups = np.flatnonzero(~is_end[border[:-2]] & (length[:-1] == length[1:])) if len(length) > 1 else border[:0]
    first, length = border[groups], length[groups]
    begins, ends = halves[ranges(first, length)], halves[ranges(first + length, length)]
    ts = parsed.events.ts
    alike = (parsed.place[begins] == parsed.place[ends]) & (ts[ends] >= ts[begins])
    at = np.append(0, np.cumsum(length))
    alike = np.repeat(np.diff(np.append(0, np.cumsum(alike))[at]) == length, length)
    returns = ts[ends[at[:-1]]] < ts[begins[at[1:] - 1]]
    return (begins[alike], ends[alike]) if returns.any() else (begins[:0], ends[:0])


def _ended_states(context: Context, parsed: Parsed) -> Bools:
    """Returns which events end a state and begin none: they have no name. The others begin one, like slices."""
    is_state = parsed.event_type == STATE
    nameless = parsed.name < 0
    parsed.event_type[is_state & ~nameless] = BEGIN
    for row in np.flatnonzero(is_state).tolist():
        place = int(parsed.place[row])
        if place in context.open_states:
            parsed.ended_states.append(row)
        (context.open_states.discard if nameless[row] else context.open_states.add)(place)
    result: Bools = is_state & nameless
    return result


def _state_ends(context: Context, parsed: Parsed) -> Iterator[Batch]:
    """Yields the ends of states: a state lasts until the next one of its track."""
    rows = np.array(parsed.ended_states, np.int64)
    if not len(rows):
        return
    columns = context.tracks.columns(parsed.place[rows])
    columns |= {
        "id": pa.array(parsed.events.id[rows] - 1),  # sorts before the start of the next one in the same nanosecond
        "ts": pa.array(parsed.events.ts[rows]),
        "name": constant("", len(rows)),
        "kind": constant("range", len(rows)),
        "timing": constant("measured", len(rows)),
        "half": constant("end", len(rows)),
    }
    yield Batch("events", pa.RecordBatch.from_pydict(columns))


def _rows(
    context: Context,
    chunk: Chunk,
    parsed: Parsed,
    rows: Int64,
    no_dur: Bools | None,
    begin_of: Int64 | None,
    restore: Restore = restore_event,
) -> Iterator[Batch]:
    """Yields batches of those events.

    `no_dur` None means that slices are halves; `begin_of` has the start of each end.
    """
    if not len(rows):
        return
    events, event_type = parsed.events, parsed.event_type[rows]
    index = np.full(len(events), -1, np.int64)
    index[rows] = np.arange(len(rows))
    if begin_of is not None:
        ends = np.flatnonzero(begin_of >= 0)
        index[ends] = index[begin_of[ends]]
    pool = chunk.chunk_texts if parsed.in_chunk_texts else chunk.trace_texts
    columns = context.tracks.columns(parsed.place[rows])
    columns |= {
        "id": pa.array(events.row[rows]),
        "ts": pa.array(events.ts[rows] + context.origin),
        "name": _names(context, chunk, parsed, rows),
        "cat": pool.column(parsed.category[rows]),
        "timing": constant("measured", len(rows)),
        "kind": words(_KINDS, event_type.astype(np.int64)),
    }
    if no_dur is not None:
        columns["dur"] = pa.array(parsed.dur[rows], mask=no_dur[rows] & (event_type != COMPLETE))
    else:
        columns["dur"] = pa.array(parsed.dur[rows], mask=event_type != COMPLETE)
        half = np.where(event_type == BEGIN, 0, np.where(event_type == END, 1, -1)).astype(np.int32)
        columns["half"] = pa.DictionaryArray.from_arrays(pa.array(half, mask=half < 0), pa.array(["begin", "end"]))
    if events.clock is not None:
        columns["clock"] = chunk.chunk_texts.column(events.clock[rows].astype(np.int32))
    columns |= _counters(context, parsed, rows)
    values = _arguments(chunk, parsed, index)
    shape = np.minimum(event_type, COMPLETE).astype(np.int64)
    yield from event_batches(chunk, columns, shape, values, restore)
    if not context.by_ktrace:  # a trace that ktrace wrote has its links in the sidecar
        submissions(context, chunk, parsed.fields, events.id[rows], index)


def _names(context: Context, chunk: Chunk, parsed: Parsed, rows: Int64) -> pa.Array:
    """Returns the names, a counter's from its track; never null."""
    codes = parsed.name[rows]
    pool = chunk.chunk_texts if parsed.in_chunk_texts else chunk.trace_texts
    counters = np.flatnonzero((parsed.event_type[rows] == COUNTER) & (context.by_ktrace | (codes < 0)))
    places, of = np.unique(parsed.place[rows[counters]], return_inverse=True)
    names = [context.tracks.places[place].counter for place in places.tolist()]
    coded = np.array([-1 if name is None else pool.code(name.encode()) for name in names], np.int32)[of]
    codes[counters] = np.where(coded < 0, codes[counters], coded)
    return pool.column(np.where(codes < 0, pool.code(b""), codes).astype(np.int32))


def _counters(context: Context, parsed: Parsed, rows: Int64) -> dict[str, pa.Array]:
    """Returns value and unit of the counters among those rows."""
    counters = np.flatnonzero(parsed.event_type[rows] == COUNTER)
    if not len(counters):
        return {}
    count = len(parsed.events)
    value = np.full(count, np.nan)
    whole, real = parsed.fields.get(_T["counter_value"], VARINT), parsed.fields.get(_T["double_counter_value"], FIXED64)
    value[whole.owner] = signed(whole.value)
    value[real.owner] = bits(signed(real.value))
    has = whole.has(count) | real.has(count)
    value, has = value[rows], has[rows]
    places, of = np.unique(parsed.place[rows[counters]], return_inverse=True)
    tracks = [context.tracks.places[place] for place in places.tolist()]
    value[counters] *= np.array([track.scale for track in tracks], np.float64)[of]
    for number, track in enumerate(tracks):
        if track.incremental:
            here = counters[of == number]
            value[here] = track.total + np.cumsum(value[here])
            track.total = float(value[here[-1]])
    which = np.full(len(rows), -1, np.int64)
    which[counters] = of
    unit = pa.array([track.unit for track in tracks], pa.string()).take(pa.array(which, mask=which < 0))
    return {"value": pa.array(value, mask=(which < 0) | ~has), "unit": unit.dictionary_encode()}


def _arguments(chunk: Chunk, parsed: Parsed, index: Int64) -> Values:
    """Returns debug annotations, and fields that have no column; `index` is the row of each event, or -1."""
    events, fields = parsed.events, parsed.fields
    column = fields.get(_T["debug_annotations"], LENGTH)
    selected = index[column.owner] >= 0
    owner, start, size = column.owner[selected], column.start[selected], signed(column.value)[selected]
    parts = [read_values(chunk, index[owner], events.state[owner], start, size, ANNOTATION)]
    for tag in fields.tags:
        if tag in _KNOWN or (chunk.by_ktrace and tag >> 3 in _DERIVED):
            continue
        column = fields.get(tag >> 3, tag & 7)
        selected = index[column.owner] >= 0
        if not selected.any():
            continue
        key = chunk.argument_names.code(f"${_NAMES.get(tag >> 3, tag >> 3)}".encode())
        number, value_type = signed(column.value)[selected], INT
        if tag & 7 == LENGTH:
            data = zip(column.start[selected].tolist(), number.tolist(), strict=True)
            number, value_type = np.array([_base64(chunk, at, size) for at, size in data], np.int64), JSON
        row = index[column.owner[selected]]
        parts.append(
            Values(
                row, np.full(len(row), key, np.int32), np.full(len(row), value_type, np.uint8), number.astype(np.int64)
            )
        )
    if extra := [(index[row], code) for row, code in parsed.legacy_arguments if index[row] >= 0]:
        row, number = np.array(extra, np.int64).T
        key = chunk.argument_names.code(b"$legacy_event")
        parts.append(Values(row, np.full(len(row), key, np.int32), np.full(len(row), JSON, np.uint8), number))
    return joined_values(parts)


def _base64(chunk: Chunk, start: int, size: int) -> int:
    data = chunk.data[start : start + size].tobytes()
    return chunk.chunk_texts.code(dump_json({"$base64": base64.b64encode(data).decode()}).encode())
