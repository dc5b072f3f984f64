"""Ends of arrows as links: flows between TrackEvents, and what starts or awaits work on a GPU.

    track_event { .. flow_ids 5 }   track_event { .. terminating_flow_ids 5 }             link "flow", key 5
    track_event { .. gpu_correlation { render_stage_submission_event_ids 17 } }           link "launch", key 17
    gpu_render_stage_event { event_id 18  event_wait_ids 17 }                             link "wait", key 17

Work on a GPU can be anywhere in the file, so its links are made at the end of the trace.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktrace.kit.columnar.protobuf import FIXED64, LENGTH, VARINT, Fields, signed
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from ..proto import field_numbers as f
from .argument_values import Chunk
from .context import Context, Events
from .event_fields import Parsed
from .messages import repeated

_T, _G = f.TRACK_EVENT, f.GPU_RENDER_STAGE_EVENT

#: Role of a host slice towards work on a GPU, and the field of GpuCorrelation.
_ROLES = (
    ("out", f.GPU_CORRELATION["render_stage_submission_event_ids"]),
    ("in", f.GPU_CORRELATION["render_stage_wait_event_ids"]),
)

#: Links that are made at the end of a trace have ids from here on; the id of others is the place of a byte.
_LATE_LINKS = 1 << 60


def flow_links(context: Context, parsed: Parsed, ids: Int64, index: Int64) -> Iterator[Batch]:
    """Yields the ends of arrows: a flow leaves where it occurs first, and arrives where it terminates."""
    found = parsed.fields
    parts = [
        (column, ends)
        for name, wire, ends in (
            ("flow_ids", FIXED64, False),
            ("terminating_flow_ids", FIXED64, True),
            ("flow_ids_old", VARINT, False),
            ("terminating_flow_ids_old", VARINT, True),
        )
        if len((column := found.get(_T[name], wire)).owner)
    ]
    if not parts:
        return
    owner = np.concatenate([column.owner for column, _ in parts])
    flow = np.concatenate([column.value for column, _ in parts])
    start = np.concatenate([column.start for column, _ in parts])
    ends = np.concatenate([np.full(len(column.owner), ends) for column, ends in parts])
    mine = index[owner] >= 0
    owner, flow, start, ends = owner[mine], flow[mine], start[mine], ends[mine]
    order = np.lexsort((start, ends, parsed.events.ts[owner]))
    owner, flow, start, ends = owner[order], flow[order], start[order], ends[order]
    role = np.where(ends, 2, 1)
    distinct, first = np.unique(flow, return_index=True)
    for number, place in zip(distinct.tolist(), first.tolist(), strict=True):
        if number not in context.known_flows:
            context.known_flows.add(number)
            role[place] = 0 if not ends[place] else 2
    row = index[owner]
    # The place of the field is unique and the same in every reading.
    at = start - parsed.events.start[owner] + parsed.events.id[owner]
    yield from context.links("flow", at, signed(flow), role, ids[row])


def submissions(context: Context, chunk: Chunk, found: Fields, ids: Int64, index: Int64) -> None:
    """Remembers which rows start or await which work on a GPU."""
    column = found.get(_T["gpu_correlation"], LENGTH)
    mine = index[column.owner] >= 0
    if not mine.any():
        return
    gathered: dict[str, tuple[list[int], list[int]]] = {"out": ([], []), "in": ([], [])}
    owners, starts, sizes = (array[mine].tolist() for array in (column.owner, column.start, signed(column.value)))
    for owner, start, size in zip(owners, starts, sizes, strict=True):
        data = chunk.data[start : start + size].tobytes()
        for role, number in _ROLES:
            for event in repeated(data, number):
                gathered[role][0].append(event)
                gathered[role][1].append(int(ids[index[owner]]))
    for role, (work, rows) in gathered.items():
        if work:
            context.stage_ends.append((np.array(work, np.uint64).view(np.int64), np.array(rows, np.int64), role))


def remember_stages(context: Context, chunk: Chunk, events: Events, found: Fields, index: Int64, rows: Int64) -> None:
    """Remembers the event id of each stage and the ids that it awaits, for links at the end of the trace."""
    ids = events.id[rows]
    event = found.get(_G["event_id"], VARINT)
    mine = index[event.owner] >= 0
    if mine.any():
        context.stage_rows.append((signed(event.value)[mine], ids[index[event.owner[mine]]]))
    waits = found.get(_G["event_wait_ids"], VARINT)
    if len(waits.owner):
        context.stage_ends.append((signed(waits.value), ids[index[waits.owner]], "in"))
    packed = found.get(_G["event_wait_ids"], LENGTH)
    for row in np.unique(packed.owner).tolist():
        message = chunk.data[int(events.start[row]) : int(events.end[row])].tobytes()
        awaited = np.array(repeated(message, _G["event_wait_ids"]), np.uint64).view(np.int64)
        context.stage_ends.append((awaited, np.full(len(awaited), ids[index[row]]), "in"))


def late_links(context: Context) -> Iterator[Batch]:
    """Yields arrows between a host slice or work on a GPU and the work that it starts or awaits."""
    if not context.stage_ends:
        return
    empty = np.empty(0, np.int64)
    events = np.concatenate([event for event, _ in context.stage_rows] or [empty])
    rows = np.concatenate([row for _, row in context.stage_rows] or [empty])
    order = np.argsort(events, kind="stable")
    events, rows = events[order], rows[order]
    first = _LATE_LINKS
    for link, mine, other in (("launch", "out", 2), ("wait", "in", 0)):
        keys = np.concatenate([key for key, _, role in context.stage_ends if role == mine] or [empty])
        ends = np.concatenate([row for _, row, role in context.stage_ends if role == mine] or [empty])
        role = np.full(len(keys), 0 if mine == "out" else 2)
        work = np.unique(keys)
        at = np.minimum(np.searchsorted(events, work), max(len(events) - 1, 0))
        known = events[at] == work if len(events) else np.zeros(len(work), np.bool_)
        keys, ends = np.concatenate([keys, work[known]]), np.concatenate([ends, rows[at[known]]])
        role = np.concatenate([role, np.full(int(known.sum()), other)])
        yield from context.links(link, first + np.arange(len(keys)), keys, role, ends)
        first += len(keys)
