"""Work on a GPU as rows.

    gpu_render_stage_event { event_id 7 duration 500 hw_queue_iid 1 stage_iid 2 context 1 kernel_iid 1
                             launch { grid_size {x 256} workgroup_size {x 128} args { name "regs" uint_value 32 } } }

Queue, stage, kernel and context are interned; traces of older tools list them in the first packet. Each combination of
them is looked up once for all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Fields, distinct_of, parse, signed, texts_at
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.store.joins import ranges

from .. import field_numbers as f
from .argument_values import CHUNK_TEXT, INT, JSON, STAGE_ARGUMENT, Chunk, Values, joined_values, read_values
from .context import Context, Events
from .device_work import stage_columns
from .extra_rows import remember_stages
from .interned_stages import KEYS, InternedStage, Specifications, interned_stages
from .messages import first, lenient
from .rows import event_batches, restore_stage

_G = f.GPU_RENDER_STAGE_EVENT

_KNOWN = {_G[name] for name in (*KEYS, "event_id", "duration", "name", "launch", "extra_data", "event_wait_ids")}
_KNOWN.add(_G["specifications"])
_NAMES = {number: name for name, number in _G.items()}


def read_stages(context: Context, chunk: Chunk, events: Events, specifications: Specifications) -> Iterator[Batch]:
    """Yields the rows of GpuRenderStageEvents."""
    found = parse(chunk.data, events.start, events.end)
    kept = _work(context, chunk, events, found, specifications)
    rows = np.flatnonzero(kept)
    if not len(rows):
        return
    stages, of = interned_stages(context, chunk, events, found, specifications)
    index = np.where(kept, np.cumsum(kept) - 1, -1)
    duration = found.get(_G["duration"], VARINT)
    has_dur = duration.has(len(events))[rows]
    columns = context.tracks.columns(np.array([one.place for one in stages])[of[rows]])
    columns |= {
        "id": pa.array(events.row[rows]),
        "ts": pa.array(events.ts[rows] + context.origin),
        "dur": pa.array(signed(duration.last(len(events)))[rows], mask=~has_dur),
        "timing": constant("measured", len(rows)),
        "name": _spelled([one.name for one in stages], of[rows]),
        "short_name": _spelled([one.short_name for one in stages], of[rows]),
        "kind": words([one.kind for one in stages], of[rows]).cast(pa.string()).dictionary_encode(),
        "cat": _spelled([one.category for one in stages], of[rows]),
    }
    if events.clock is not None:
        columns["clock"] = chunk.chunk_texts.column(events.clock[rows].astype(np.int32))
    columns["name"] = _own_names(chunk, found, index, columns["name"], stages, of)
    launched, dimensions = _launch(chunk, events, found, index, len(rows))
    columns |= dimensions
    values = joined_values([_kernel_arguments(chunk, stages, of, rows), launched, *_rest(chunk, found, index)])
    if context.observer is not None:
        is_kernel = np.array([one.is_compute for one in stages], np.int64)[of[rows]]
        context.observer.observe_stages(chunk, values, events.ts[rows], is_kernel)
    shape = np.zeros(len(rows), np.int64)
    restore = restore_stage if context.by_ktrace else stage_columns
    for batch in event_batches(chunk, columns, shape, values, restore):
        if not context.by_ktrace:
            context.correlations(batch)
        yield batch
    if not context.by_ktrace:  # a trace that ktrace wrote has its links in the sidecar
        remember_stages(context, chunk, events, found, index, rows)


def _work(context: Context, chunk: Chunk, events: Events, found: Fields, specifications: Specifications) -> Bools:
    """Returns which events are work; others are damaged, or contain only specifications, which are read here."""
    report = context.conversion.report
    for row in found.bad.tolist():
        report.issue("bad-record", context.where(int(events.id[row])), "not protobuf")
    kept = np.ones(len(events), np.bool_)
    kept[found.bad] = False
    for start, size in _places(found, "specifications"):
        specifications.take(chunk.data[start : start + size].tobytes())
    no_work = found.get(_G["specifications"], LENGTH).has(len(events)) & kept
    for name in ("event_id", "duration"):
        no_work &= ~found.get(_G[name], VARINT).has(len(events))
    if no_work.any():
        report.used(int(no_work.sum()), outcome="specifications")
    kept &= ~no_work
    report.used(int(kept.sum()))
    return kept


def _places(found: Fields, name: str) -> list[tuple[int, int]]:
    column = found.get(_G[name], LENGTH)
    return list(zip(column.start.tolist(), column.value.tolist(), strict=True))


def _spelled(texts: list[str | None] | list[str], index: Int64) -> pa.DictionaryArray:
    distinct = list(dict.fromkeys(word for word in texts if word is not None))
    code = {word: number for number, word in enumerate(distinct)}
    codes = np.array([code.get(word, -1) if word is not None else -1 for word in texts], np.int32)[index]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(distinct, pa.string()))


def _own_names(
    chunk: Chunk, found: Fields, index: Int64, names: pa.Array, stages: list[InternedStage], of: Int64
) -> pa.Array:
    """Returns the names; an event without an interned kernel may spell its name."""
    column = found.get(_G["name"], LENGTH)
    unnamed = np.array([one.kernel is None for one in stages], np.bool_)[of]
    mine = (index[column.owner] >= 0) & unnamed[column.owner]
    if not mine.any():
        return names
    codes = np.full(len(names), -1, np.int32)
    spelled = texts_at(chunk.data, column.start[mine], signed(column.value)[mine])
    codes[index[column.owner[mine]]] = chunk.chunk_texts.codes(spelled)
    return pc.coalesce(decoded(chunk.chunk_texts.column(codes)), decoded(names))


def _launch(
    chunk: Chunk, events: Events, found: Fields, index: Int64, count: int
) -> tuple[Values, dict[str, pa.Array]]:
    """Returns arguments and dimensions of launches."""
    column = found.get(_G["launch"], LENGTH)
    mine = index[column.owner] >= 0
    owner, start = column.owner[mine], column.start[mine]
    launch = parse(chunk.data, start, start + signed(column.value)[mine])
    c = f.COMPUTE_KERNEL_LAUNCH
    dimensions = {}
    for name, size in (("grid", "grid_size"), ("block", "workgroup_size")):
        given = launch.get(c[size], LENGTH)
        parts = parse(chunk.data, given.start, given.start + signed(given.value))
        for axis in "xyz":
            along = parts.get(f.DIM3[axis], VARINT)
            if len(along.owner):
                row = index[owner[given.owner[along.owner]]]
                size_along, absent = np.zeros(count, np.int64), np.ones(count, np.bool_)
                size_along[row], absent[row] = signed(along.value), False
                dimensions[f"{name}_{axis}"] = pa.array(size_along, mask=absent)
    arguments = launch.get(c["args"], LENGTH)
    event = owner[arguments.owner]
    size_of = signed(arguments.value)
    values = read_values(chunk, index[event], events.state[event], arguments.start, size_of, STAGE_ARGUMENT)
    return values, dimensions


def _kernel_arguments(chunk: Chunk, stages: list[InternedStage], of: Int64, rows: Int64) -> Values:
    """Returns the arguments of the interned kernel for each row that refers to it."""
    flat = np.array([part for one in stages for part in one.arguments], np.int64).reshape(-1, 3)
    sizes = np.array([len(one.arguments) for one in stages])
    begin = np.cumsum(sizes) - sizes
    count = sizes[of[rows]]
    row = np.repeat(np.arange(len(rows)), count)
    which = ranges(begin[of[rows]], count)
    value_type, number = flat[which, 1].astype(np.uint8), flat[which, 2]
    texts = np.flatnonzero(value_type == JSON)  # their codes are of trace_texts
    codes, of_code = distinct_of(number[texts])
    own = [chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode()) for code in codes.tolist()]
    number[texts] = np.array(own, np.int64)[of_code]
    return Values(row, flat[which, 0].astype(np.int32), value_type, number)


def _rest(chunk: Chunk, found: Fields, index: Int64) -> Iterator[Values]:
    """Yields extra_data, always texts, under their names, and fields that have no column, with a "$"."""
    gathered = []
    for row, (start, size) in zip(found.get(_G["extra_data"], LENGTH).owner, _places(found, "extra_data"), strict=True):
        parts = lenient(chunk.data[start : start + size].tobytes())
        name, value = (first(parts, f.EXTRA_DATA[part], b"") for part in ("name", "value"))
        if index[row] >= 0:
            gathered.append((index[row], chunk.argument_names.code(name), chunk.chunk_texts.code(value)))
    if gathered:
        row_, key_, number = np.array(gathered, np.int64).T
        yield Values(row_, key_.astype(np.int32), np.full(len(row_), CHUNK_TEXT, np.uint8), number)
    for tag in found.tags:
        if tag >> 3 in _KNOWN or tag & 7 != VARINT:
            continue
        column = found.get(tag >> 3, VARINT)
        mine = index[column.owner] >= 0
        count = int(mine.sum())
        key = chunk.argument_names.code(f"${_NAMES.get(tag >> 3, tag >> 3)}".encode())
        yield Values(
            index[column.owner[mine]],
            np.full(count, key, np.int32),
            np.full(count, INT, np.uint8),
            signed(column.value)[mine],
        )
