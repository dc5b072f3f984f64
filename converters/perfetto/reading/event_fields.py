"""TrackEvents taken apart: what each of them is, its track, name and category.

    track_event { SLICE_BEGIN  track 3  name_iid 1  category_iids 2 }                    a begin
    track_event { name_iid 1  legacy_event { phase 88  duration_us 12 } }                X: a whole slice
    track_event { name_iid 1  legacy_event { phase 98  global_id 7  id_scope "io" } }    b: begins on track "io/7"

Older versions of Chrome write a `legacy_event`, which contains the phase of the JSON format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Column, Fields, Value, parse, signed, texts_at
from ktrace.model.arrays import Int8, Int32, Int64
from ktrace.model.json_text import dump_json

from .. import field_numbers as f
from .argument_values import Chunk, chunk_codes
from .context import Context, Events
from .messages import first, gather, int32, int64, text
from .sequence_state import look_up

_T, _L = f.TRACK_EVENT, f.LEGACY_EVENT

#: What an event becomes. Only old Chrome traces have COMPLETE.
UNSPECIFIED, BEGIN, END, INSTANT, COUNTER, STATE, COMPLETE, NOTHING = range(8)

#: Phase of a `legacy_event` -> what the event is.
_PHASES = {
    **dict.fromkeys("BSb", BEGIN),
    **dict.fromkeys("EFe", END),
    **dict.fromkeys("iIRnTpPNODCstf()", INSTANT),
    "X": COMPLETE,
}
_ASYNC = "SFTpbneNOD"

_FIELDS = {number: name for name, number in _L.items()}

_PLACE = ("host", "pid", "tid", "track")

_PLAIN, _USED = "BEXiI", {_L["phase"], _L["name_iid"], _L["duration_us"]}

_IDS = ("unscoped_id", "local_id", "global_id")


@dataclass
class Parsed:
    """TrackEvents, taken apart. `event_type` is BEGIN and so on; `place` indexes `Tracks.places`.

    `name` and `category` are codes of `Chunk.trace_texts`, or of `Chunk.chunk_texts` if `in_chunk_texts`; -1 is none.
    """

    events: Events
    fields: Fields
    event_type: Int8
    place: Int64
    name: Int32
    category: Int32
    dur: Int64
    in_chunk_texts: bool = False
    ended_states: list[int] = field(default_factory=list)  # events at which a state ends
    legacy_arguments: list[tuple[int, int]] = field(default_factory=list)  # event, code of its `$legacy_event`


def parse_events(context: Context, chunk: Chunk, events: Events) -> Parsed:
    """Takes events apart. Damaged ones are reported and get the type NOTHING."""
    count = len(events)
    found = parse(chunk.data, events.start, events.end)
    event_type = found.get(_T["type"], VARINT).last(count).astype(np.int8)
    event_type[(event_type < 0) | (event_type > STATE)] = UNSPECIFIED
    track = found.get(_T["track_uuid"], VARINT)
    uuid = np.array([state.track or 0 for state in chunk.states], np.uint64)[events.state]
    uuid[track.owner] = track.value
    place = context.tracks.at(uuid, np.array([state.machine for state in chunk.states], np.int64)[events.state])
    name, category, own = _texts(chunk, events, found)
    parsed = Parsed(events, found, event_type, place, name, category, np.zeros(count, np.int64), own)
    _read_legacy(context, chunk, parsed)
    odd = np.flatnonzero(parsed.event_type == UNSPECIFIED)
    report = context.conversion.report
    bad = set(found.bad.tolist())
    for row in sorted(bad.union(odd.tolist())):
        why = "not protobuf" if row in bad else "a TrackEvent without a type"
        report.issue("bad-record", context.where(int(events.id[row])), why)
        parsed.event_type[row] = NOTHING
    return parsed


def _texts(chunk: Chunk, events: Events, found: Fields) -> tuple[Int32, Int32, bool]:
    """Returns codes of names and categories, and whether they are codes of `chunk_texts`."""
    count = len(events)
    columns = []
    spelled = False
    for iids, texts, table in (("name_iid", "name", "names"), ("category_iids", "categories", "categories")):
        codes = np.full(count, -1, np.int32)
        iid, text = found.get(_T[iids], VARINT), found.get(_T[texts], LENGTH)
        if len(iid.owner):
            codes[iid.owner] = look_up(chunk.states, events.state[iid.owner], table, iid.value)
        spelled |= len(text.owner) > 0
        columns.append((codes, text, iid))
    once = np.bincount(columns[1][2].owner, minlength=1).max() <= 1
    if not spelled and once:
        return columns[0][0], columns[1][0], False
    result = []
    for codes, text, _ in columns:
        own = chunk_codes(chunk, codes)
        if len(text.owner):
            own[text.owner] = chunk.chunk_texts.codes(texts_at(chunk.data, text.start, signed(text.value)))
        result.append(own)
    _join_categories(chunk, events, columns[1][2], columns[1][1], result[1])
    return result[0], result[1], True


def _join_categories(chunk: Chunk, events: Events, iid: Column, text: Column, codes: Int32) -> None:
    """Joins the categories of events that have several to one text each, interned ones first."""
    several = np.bincount(np.concatenate([iid.owner, text.owner]), minlength=len(events)) > 1
    parts: dict[int, list[str]] = {}
    mine = several[iid.owner]
    owner = iid.owner[mine]
    found = look_up(chunk.states, events.state[owner], "categories", iid.value[mine])
    for row, code in zip(owner.tolist(), found.tolist(), strict=True):
        parts.setdefault(row, []).extend([chunk.trace_texts.texts[code]] if code >= 0 else [])
    mine = several[text.owner]
    spelled = chunk.chunk_texts.codes(texts_at(chunk.data, text.start[mine], signed(text.value)[mine]))
    for row, code in zip(text.owner[mine].tolist(), spelled.tolist(), strict=True):
        parts.setdefault(row, []).append(chunk.chunk_texts.texts[code])
    for row, words_ in parts.items():
        codes[row] = chunk.chunk_texts.code(",".join(words_).encode())


def _read_legacy(context: Context, chunk: Chunk, parsed: Parsed) -> None:
    """Sets kind, place, duration and name of events with a phase; metadata (M) goes into the catalog.

    All other fields stay in the argument `$legacy_event`.
    """
    column = parsed.fields.get(f.TRACK_EVENT["legacy_event"], LENGTH)
    if not len(column.owner):
        return
    if not parsed.in_chunk_texts:
        parsed.name, parsed.category, parsed.in_chunk_texts = (
            chunk_codes(chunk, parsed.name),
            chunk_codes(chunk, parsed.category),
            True,
        )
    for row, start, size in zip(column.owner.tolist(), column.start.tolist(), column.value.tolist(), strict=True):
        try:
            found = gather(chunk.data[start : start + size].tobytes())
        except ValueError:
            continue  # stays without a type, which is reported
        _read_phase(context, chunk, parsed, row, found)


def _read_phase(context: Context, chunk: Chunk, parsed: Parsed, row: int, found: dict[int, list[Value]]) -> None:
    number = int32(first(found, _L["phase"], 0))
    phase = chr(number) if 0 < number < 128 else ""
    state = chunk.states[int(parsed.events.state[row])]
    if phase:
        parsed.event_type[row] = _PHASES.get(phase, INSTANT)
    name = state.texts["names"].get(int(first(found, _L["name_iid"], 0)))
    if parsed.name[row] < 0 and name >= 0:
        parsed.name[row] = chunk.chunk_texts.code(context.trace_texts.texts[name].encode())
    if phase == "X":
        parsed.dur[row] = int64(first(found, _L["duration_us"], 0)) * 1000
    if phase not in _PLAIN or found.keys() - _USED:
        stated = {_FIELDS.get(key, str(key)): _shown(values[-1]) for key, values in found.items()}
        parsed.legacy_arguments.append((row, chunk.chunk_texts.code(dump_json(stated | {"phase": phase}).encode())))
    if phase == "M":
        parsed.event_type[row] = NOTHING
        context.conversion.report.used(outcome="legacy metadata")
        return
    place = context.tracks.places[int(parsed.place[row])]
    columns: dict[str, Any] = {name: place.columns.get(name) for name in _PLACE}
    if _L["pid_override"] in found:
        columns["pid"] = int32(first(found, _L["pid_override"], 0))
    if _L["tid_override"] in found:
        columns["tid"] = int32(first(found, _L["tid_override"], 0))
    if phase and phase in _ASYNC:
        identity = next((first(found, _L[name], 0) for name in _IDS if _L[name] in found), 0)
        scope = text(first(found, _L["id_scope"], b""))
        code = int(parsed.category[row])
        category = chunk.chunk_texts.texts[code] if code >= 0 else ""
        columns = {
            "host": columns["host"],
            "pid": columns["pid"],
            "track": "/".join(part for part in (scope or category, f"{identity:#x}")),
        }
    if columns != {name: place.columns.get(name) for name in _PLACE}:
        parsed.place[row] = context.tracks.keyed(tuple(columns.items()), **columns)


def _shown(value: Value) -> int | str:
    return value if isinstance(value, int) else text(value)
