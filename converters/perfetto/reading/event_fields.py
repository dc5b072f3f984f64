"""What TrackEvents are: type, track, name and category; and which of them are calls and device work of other tools.

    track_event { SLICE_BEGIN  track 3  name_iid 1  category_iids 2 }                    a begin
    track_event { name_iid 1  legacy_event { phase 88  duration_us 12 } }                X: a whole slice
    track_event { name_iid 1  legacy_event { phase 98  global_id 7  id_scope "io" } }    b: begins on track "io/7"

    category "kernel_dispatch"  agent "GPU-4"  queue 1  corr_id 7      kernel, device 4, stream 1, correlation 7
    thread "stream 7" of process 0: correlation 7  grid [8, 1, 1]      kernel, device 0, stream 7, correlation 7
    extra_data { "stream id" "7" } extra_data { "correlation" "7" }    stream 7, correlation 7

Older versions of Chrome write a `legacy_event`, which contains the phase of the JSON format. rocprofv3 (rocprofiler-
sdk, generatePerfetto.cpp), rocprof-sys and the first form of PyTorch write device work as slices on tracks of its own;
the second form of PyTorch, and others, write stages whose arguments are texts. The first slice of a track tells whether
it is a device's, since a begin and its end must be on one track.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Column, Fields, Value, parse, signed, texts_at
from ktrace.kit.rocm.common import agent, blocks_of, copy_kind
from ktrace.kit.trace_json.dialect import Into, Rule
from ktrace.kit.trace_json.draft import Draft, direction, mapped, numbered
from ktrace.kit.trace_json.torch_categories import API, CATS, DEVICE, KERNEL, SYNC
from ktrace.model.arrays import Int8, Int32, Int64
from ktrace.model.json_text import decoded, dump_json, encoded

from .. import field_numbers as f
from .arguments import ANNOTATION, CHUNK_TEXT, INT, TRACE_TEXT, Chunk, chunk_codes, read_values
from .context import Context, Events, TrackPlace
from .messages import first, gather, int32, int64, look_up, text

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
    fields = parse(chunk.data, events.start, events.end)
    event_type = fields.get(_T["type"], VARINT).last(count).astype(np.int8)
    event_type[(event_type < 0) | (event_type > STATE)] = UNSPECIFIED
    track = fields.get(_T["track_uuid"], VARINT)
    uuid = np.array([state.track or 0 for state in chunk.states], np.uint64)[events.state]
    uuid[track.owner] = track.value
    place = context.tracks.at(uuid, np.array([state.machine for state in chunk.states], np.int64)[events.state])
    name, category, given_names = _texts(chunk, events, fields)
    parsed = Parsed(events, fields, event_type, place, name, category, np.zeros(count, np.int64), given_names)
    _read_legacy(context, chunk, parsed)
    odd = np.flatnonzero(parsed.event_type == UNSPECIFIED)
    report = context.conversion.report
    bad = set(fields.bad.tolist())
    for row in sorted(bad.union(odd.tolist())):
        why = "not protobuf" if row in bad else "a TrackEvent without a type"
        report.issue("bad-record", context.where(int(events.id[row])), why)
        parsed.event_type[row] = NOTHING
    return parsed


def _texts(chunk: Chunk, events: Events, fields: Fields) -> tuple[Int32, Int32, bool]:
    """Returns codes of names and categories, and whether they are codes of `chunk_texts`."""
    count = len(events)
    columns = []
    spelled = False
    for iids, texts, table in (("name_iid", "name", "names"), ("category_iids", "categories", "categories")):
        codes = np.full(count, -1, np.int32)
        iid, text = fields.get(_T[iids], VARINT), fields.get(_T[texts], LENGTH)
        if len(iid.owner):
            codes[iid.owner] = look_up(chunk.states, events.state[iid.owner], table, iid.value)
        spelled |= len(text.owner) > 0
        columns.append((codes, text, iid))
    once = np.bincount(columns[1][2].owner, minlength=1).max() <= 1
    if not spelled and once:
        return columns[0][0], columns[1][0], False
    result = []
    for codes, text, _ in columns:
        copied = chunk_codes(chunk, codes)
        if len(text.owner):
            copied[text.owner] = chunk.chunk_texts.codes(texts_at(chunk.data, text.start, signed(text.value)))
        result.append(copied)
    _join_categories(chunk, events, columns[1][2], columns[1][1], result[1])
    return result[0], result[1], True


def _join_categories(chunk: Chunk, events: Events, iid: Column, text: Column, codes: Int32) -> None:
    """Joins the categories of events that have several to one text each, interned ones first."""
    several = np.bincount(np.concatenate([iid.owner, text.owner]), minlength=len(events)) > 1
    parts: dict[int, list[str]] = {}
    selected = several[iid.owner]
    owner = iid.owner[selected]
    word_codes = look_up(chunk.states, events.state[owner], "categories", iid.value[selected])
    for row, code in zip(owner.tolist(), word_codes.tolist(), strict=True):
        parts.setdefault(row, []).extend([chunk.trace_texts.texts[code]] if code >= 0 else [])
    selected = several[text.owner]
    spelled = chunk.chunk_texts.codes(texts_at(chunk.data, text.start[selected], signed(text.value)[selected]))
    for row, code in zip(text.owner[selected].tolist(), spelled.tolist(), strict=True):
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
            fields = gather(chunk.data[start : start + size].tobytes())
        except ValueError:
            continue  # stays without a type, which is reported
        _read_phase(context, chunk, parsed, row, fields)


def _read_phase(context: Context, chunk: Chunk, parsed: Parsed, row: int, fields: dict[int, list[Value]]) -> None:
    number = int32(first(fields, _L["phase"], 0))
    phase = chr(number) if 0 < number < 128 else ""
    state = chunk.states[int(parsed.events.state[row])]
    if phase:
        parsed.event_type[row] = _PHASES.get(phase, INSTANT)
    name = state.texts["names"].get(int(first(fields, _L["name_iid"], 0)))
    if parsed.name[row] < 0 and name >= 0:
        parsed.name[row] = chunk.chunk_texts.code(context.trace_texts.texts[name].encode())
    if phase == "X":
        parsed.dur[row] = int64(first(fields, _L["duration_us"], 0)) * 1000
    if phase not in _PLAIN or fields.keys() - _USED:
        last = {_FIELDS.get(key, str(key)): values[-1] for key, values in fields.items()}
        stated = {name: value if isinstance(value, int) else text(value) for name, value in last.items()}
        parsed.legacy_arguments.append((row, chunk.chunk_texts.code(dump_json(stated | {"phase": phase}).encode())))
    if phase == "M":
        parsed.event_type[row] = NOTHING
        context.conversion.report.used(outcome="legacy metadata")
        return
    place = context.tracks.places[int(parsed.place[row])]
    columns: dict[str, Any] = {name: place.columns.get(name) for name in _PLACE}
    if _L["pid_override"] in fields:
        columns["pid"] = int32(first(fields, _L["pid_override"], 0))
    if _L["tid_override"] in fields:
        columns["tid"] = int32(first(fields, _L["tid_override"], 0))
    if phase and phase in _ASYNC:
        identity = next((first(fields, _L[name], 0) for name in _IDS if _L[name] in fields), 0)
        scope = text(first(fields, _L["id_scope"], b""))
        code = int(parsed.category[row])
        category = chunk.chunk_texts.texts[code] if code >= 0 else ""
        columns = {
            "host": columns["host"],
            "pid": columns["pid"],
            "track": "/".join(part for part in (scope or category, f"{identity:#x}")),
        }
    if columns != {name: place.columns.get(name) for name in _PLACE}:
        parsed.place[row] = context.tracks.keyed(tuple(columns.items()), **columns)


#: Arguments of AMD's tools.
_AMD = {
    "corr_id": Into("correlation"),
    "group_segment_size": Into("shared_memory"),
    "copy_bytes": Into("bytes"),
    "bytes": Into("bytes"),
    "size": Into("bytes"),
}
_CALL = Rule("api", columns={"corr_id": Into("correlation")})
_COPY = Rule("memcpy", "device", _AMD)

#: Slices without a category on the track of a stream, and those of unknown categories.
_ON_STREAM = Rule("range", "device", DEVICE, named=((re.compile("Memcpy"), "memcpy"), (re.compile("Memset"), "memset")))
_OTHER = Rule("range")

#: Arguments of slices without a category -> what these are; the last one that a slice has counts.
_SIGNS = {"cbid": API, "grid": KERNEL, "registers per thread": KERNEL, "cuda_sync_kind": SYNC}

#: Category -> what its slices are; names of AMD's also begin with `rocm_`.
_BY_CATEGORY: Mapping[str, Rule] = {
    **CATS,
    "kernel_dispatch": Rule("kernel", "device", _AMD),
    "memory_copy": _COPY,
    **dict.fromkeys(("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "hipfile_api"), _CALL),
    **dict.fromkeys(("hip", "hsa", "rccl"), _CALL),
    "marker_api": _OTHER,
    "device_hip": Rule("kernel", "device", _AMD, named=((re.compile("(?i).*(copy|memcpy)"), "memcpy"),)),
    "hip_stream": Rule(
        "kernel",
        "device",
        _AMD,
        kinds={f"SCRATCH_MEMORY_{word}": "range" for word in ("ALLOC", "FREE", "ASYNC_RECLAIM")},
        named=((re.compile("MEMORY_COPY_"), "memcpy"),),
    ),
}
_RULES = [_OTHER, _ON_STREAM, *{id(rule): rule for rule in _BY_CATEGORY.values() if rule is not _OTHER}.values()]
_NUMBER_OF = {id(rule): number for number, rule in enumerate(_RULES)}

#: Arguments of stages; the counterparts of `device id` and the like are columns of the queue.
_STAGE = Rule(
    "kernel",
    "device",
    DEVICE
    | {
        "registers_per_thread": Into("registers", "int32"),
        "shared_mem": Into("shared_memory"),
        "copy kind": Into("copy_kind", "copy"),
    },
)

#: Calls that have no category and no `cbid`: they have a correlation and a name of their API.
_CALL_NAME = r"(cuda|cu|hip)[A-Z]\w*$"

#: Numbers of a collective: a stage's arguments are all texts.
_NUMBERS = ("In msg nelems", "Out msg nelems", "Group size", "Rank")

_STREAM = re.compile(r"stream\s*(?:[#\[][\s\"]*)?(\d{1,18})(?!\d)", re.IGNORECASE)
_STREAM_THREAD = re.compile(r"stream -?\d{1,18}")
_THREAD = re.compile(r"THREAD \d+ \((\d{1,18})\)")
#: A stream in rocprof-sys' traces: kernels there name no device, and copies the nodes of their agents, CPUs included.
_HIP_STREAM = re.compile("HIP Activity Stream ")
_LANE = re.compile(r"\[(\d{1,18})\] .")
_QUEUE = re.compile(r"queue\s*(?:[#\[]\s*)?(\d{1,18})(?!\d)", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"(?:agent|compute|dispatch|device|gpu)\s*\[?(\d{1,9})(?!\d)", re.IGNORECASE)
_SIZE = re.compile(r"\(?\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)?")

Columns = dict[str, pa.Array]


def stream_of_queue(name: str) -> tuple[int | None, str]:
    """The stream that a hardware queue is, and its name: 7 for "Stream #7" and "[007] stream 7", "[7] all-gather"."""
    match = _LANE.match(name)
    title = name[match.end() - 1 :].strip() if match else name.strip()
    match = match or _STREAM.fullmatch(title)
    return (int(match[1]), title) if match else (None, name)


def rules_of(context: Context, chunk: Chunk, parsed: Parsed) -> Int64:
    """The number of the rule for each event: by its category, by its track, or because it submits device work."""
    pool = chunk.chunk_texts if parsed.in_chunk_texts else chunk.trace_texts
    codes, back = np.unique(parsed.category, return_inverse=True)
    rules = np.array([_number_of(pool.texts[code] if code >= 0 else "") for code in codes.tolist()], np.int64)[back]
    is_call = np.zeros(len(rules), np.bool_)
    is_call[parsed.fields.get(_T["gpu_correlation"], LENGTH).owner] = True
    rules[is_call & (rules == 0)] = _NUMBER_OF[id(API)]
    places, back = np.unique(parsed.place, return_inverse=True)
    on_stream = np.array([_is_stream(context, context.tracks.places[place]) for place in places.tolist()], np.bool_)
    rules[on_stream[back] & (parsed.category < 0)] = _NUMBER_OF[id(_ON_STREAM)]
    _place_on_devices(context, chunk, parsed, rules)
    return rules


def _number_of(category: str) -> int:
    rules = (_BY_CATEGORY.get(word.removeprefix("rocm_"), _OTHER) for word in category.split(","))
    return next((number for rule in rules if (number := _NUMBER_OF[id(rule)])), 0)


def rule(number: int) -> Rule:
    """The rule with a number; 0 is that of all other events."""
    return _RULES[number]


def _is_stream(context: Context, place: TrackPlace) -> bool:
    """Whether a track is a thread with the name of a stream."""
    track = context.tracks.descriptors.get(place.uuid) if place.uuid is not None else None
    if place.uuid is None or track is None or track.tid is None:
        return False
    return _STREAM_THREAD.fullmatch(context.tracks.title(place.uuid).strip()) is not None


def _place_on_devices(context: Context, chunk: Chunk, parsed: Parsed, rules: Int64) -> None:
    """Moves tracks to devices whose first slice is device work."""
    begins = np.flatnonzero(np.isin(parsed.event_type, (BEGIN, COMPLETE, INSTANT)))
    places, first = np.unique(parsed.place[begins], return_index=True)
    for place, row in sorted(zip(places.tolist(), begins[first].tolist(), strict=True), key=lambda pair: pair[1]):
        if place in context.decided_places:
            continue
        context.decided_places.add(place)
        if _RULES[rules[row]].place == "host":
            _to_thread(context, context.tracks.places[place])
        else:
            name = parsed.name[row]
            pool = chunk.chunk_texts if parsed.in_chunk_texts else chunk.trace_texts
            given = _arguments_of(chunk, parsed, row)
            _to_device(context, context.tracks.places[place], pool.texts[name] if name >= 0 else "", given)


def _to_thread(context: Context, place: TrackPlace) -> None:
    """Gives a track that is a thread by its name alone, as rocprofv3 writes all but the first, its thread id."""
    title = context.tracks.title(place.uuid) if place.uuid is not None else ""
    if "tid" not in place.columns and (thread := _THREAD.fullmatch(title.strip())):
        place.columns = {key: value for key, value in place.columns.items() if key != "track"} | {"tid": int(thread[1])}


def _arguments_of(chunk: Chunk, parsed: Parsed, row: int) -> dict[str, int | str]:
    """The arguments of an event that are whole numbers or texts."""
    column = parsed.fields.get(_T["debug_annotations"], LENGTH)
    rows = column.owner == row
    state = parsed.events.state[column.owner[rows]]
    read = read_values(chunk, column.owner[rows], state, column.start[rows], signed(column.value)[rows], ANNOTATION)
    arguments: dict[str, int | str] = {}
    for key, value_type, number in zip(*(part.tolist() for part in read[1:]), strict=True):
        texts = {CHUNK_TEXT: chunk.chunk_texts, TRACE_TEXT: chunk.trace_texts}.get(value_type)
        if value_type == INT or (texts and number >= 0):
            arguments[chunk.argument_names.texts[key]] = texts.texts[number] if texts else number
    return arguments


def _to_device(context: Context, place: TrackPlace, name: str, given: Mapping[str, int | str]) -> None:
    """Replaces process and thread of a track by device, context and stream, as far as they are known.

    A copy to the host is on its source device. Tracks that would become one keep their names.
    """
    track = context.tracks.descriptors.get(place.uuid) if place.uuid is not None else None
    title = context.tracks.title(place.uuid) if place.uuid is not None else ""
    is_thread = track is not None and track.tid is not None
    kept = ("source", "host") if is_thread else ("source", "host", "pid")
    columns = {key: value for key, value in place.columns.items() if key in kept}
    agents = ("src_agent", "src_agent_id", "dst_agent", "dst_agent_id")
    agents = agents if copy_kind(name) == "DtoH" else (*agents[2:], *agents[:2])
    numbers = (agent(given[key]) for key in ("device", "device id", "agent", "agent_id", *agents) if key in given)
    device = next((number for number in numbers if number is not None), None)
    if _HIP_STREAM.match(title):
        device = None
    elif device is None:
        spelled = _DEVICE_NAME.search(title)
        device = int(spelled[1]) if spelled else place.columns.get("pid") if is_thread else None
    by_name, queue = _STREAM.search(title), _QUEUE.search(title)
    streams = (
        given.get("stream"),
        int(by_name[1]) if by_name else None,
        given.get("stream_id") or given.get("stream_ID") or None,
        int(queue[1]) if queue else None,
        given.get("queue"),
        given.get("stream_id", given.get("stream_ID")),
        place.columns.get("tid") if is_thread else None,
    )  # the first that is known
    stream = next((number for number in streams if isinstance(number, int)), None)
    places = {"device": device, "context": given.get("context"), "stream": stream}
    columns |= {key: value for key, value in places.items() if isinstance(value, int) and value >= 0}
    place_key = tuple(columns.items())
    if (stream is None and not is_thread) or place_key in context.device_tracks:
        columns["track"] = title or place.columns.get("track") or str(place.uuid)
    context.device_tracks.add(place_key)
    place.columns = columns


def as_work(rule: Rule, columns: Columns, arguments: Columns) -> Columns:
    """The columns of some events of one rule, with the arguments that have none."""
    columns = dict(columns)
    kinds, moves = _kinds(rule, columns, arguments), dict(rule.columns)
    if rule in (_OTHER, _ON_STREAM):
        for key in _SIGNS.keys() & arguments.keys():
            moves |= _SIGNS[key].columns
        if pc.any(pc.equal(kinds, "api")).as_py():
            moves |= API.columns
    if rule.place == "device":
        directions = by_distinct(columns["name"], lambda name: direction(name) or copy_kind(name), pa.string())
        columns["copy_kind"] = pc.if_else(pc.equal(kinds, "memcpy"), directions, None)
        _without_places(columns, arguments)
        _sizes(columns, arguments)
    columns["kind"] = encoded(kinds)
    return _moved(moves, columns, arguments)


def _kinds(rule: Rule, columns: Columns, arguments: Columns) -> pa.Array:
    """The kind of each event; instants and counters stay what they are."""
    given = decoded(columns["kind"])
    kinds = by_distinct(columns["name"], rule.kind_of, pa.string())
    if rule is _ON_STREAM and "correlation" in arguments:  # work has one
        kinds = pc.if_else(pc.and_(pc.equal(kinds, "range"), arguments["correlation"].is_valid()), "kernel", kinds)
    if rule in (_OTHER, _ON_STREAM):
        for key, sign in _SIGNS.items():
            if key in arguments and (rule is _ON_STREAM or sign.place == "host"):
                kinds = pc.if_else(arguments[key].is_valid(), sign.kind, kinds)
    if rule is _OTHER and "correlation" in arguments:
        is_call = pc.match_substring_regex(decoded(columns["name"]), f"^{_CALL_NAME}")
        nameless = pc.and_(arguments["correlation"].is_valid(), decoded(columns["cat"]).is_null())
        kinds = pc.if_else(pc.fill_null(pc.and_(is_call, nameless), False), "api", kinds)
    return pc.if_else(pc.equal(given, "range"), kinds, given)


def stage_columns(columns: Columns, arguments: Columns) -> Columns:
    """The columns of stages: arguments of other tools that have a column, texts of digits among them."""
    columns, count = dict(columns), len(columns["ts"])
    shared = [_to_integers(arguments.pop(f"shared_mem_{part}", None)) for part in ("static", "dynamic")]
    stated = [part for part in shared if part is not None]
    if stated:
        total = stated[0] if len(stated) == 1 else pc.add(*(part.fill_null(0) for part in stated))
        arguments["shared_mem"] = pc.if_else(stated[-1].is_valid(), total, stated[0])
    for name in ("device", "context", "stream"):
        column, given = columns.get(name, pa.nulls(count, pa.int64())), _to_integers(arguments.get(f"{name} id"))
        if given is not None:
            first = (
                (given, column) if name == "context" else (column, given)
            )  # a graphics context is the trace's own number
            columns[name] = pc.coalesce(*first)
        elif name == "stream" and (given := _to_integers(arguments.get(name))) is not None:
            columns[name] = pc.coalesce(column, given)
    if "stream" in columns and "track" in columns:
        columns["track"] = pc.if_else(columns["stream"].is_valid(), None, decoded(columns["track"]))
    _without_places(columns, arguments)
    for key in _NUMBERS:
        whole, rest = numbered(arguments[key]) if key in arguments else (None, None)
        if whole is not None and rest is None:
            arguments[key] = whole
    return _moved(_STAGE.columns, columns, arguments)


def _to_integers(column: pa.Array | None) -> pa.Array | None:
    """The whole numbers of a column, also those in texts."""
    return None if column is None else numbered(column)[0]


def _moved(moves: Mapping[str, Into], columns: Columns, arguments: Columns) -> Columns:
    """Moves arguments to their columns."""
    draft = Draft(np.arange(len(columns["ts"])), {f"args.{key}": column for key, column in arguments.items()}, columns)
    for key, into in moves.items():
        if into.how in ("int", "int32") and (column := draft.left.get(f"args.{key}")) is not None:
            taken, rest = numbered(column)
            if taken is not None and rest is None:
                draft.left[f"args.{key}"] = taken
        draft.move(key, into)
    return columns | {name: column for name, column in draft.left.items() if name.startswith("args.")}


def _without_places(columns: Columns, arguments: Columns) -> None:
    """Drops arguments that repeat a column of the track, such as `stream`, `stream id`; -1 is none."""
    for key in ("device", "stream", "context", "device id", "stream id", "context id"):
        name, column = key.removesuffix(" id"), arguments.get(key)
        taken = None if column is None else numbered(column)[0]
        if taken is not None:
            same = pc.equal(taken, pc.coalesce(columns.get(name, pa.nulls(len(taken), pa.int64())), -1))
            arguments[key] = pc.if_else(pc.fill_null(same, False), None, decoded(column))


def _sizes(columns: Columns, arguments: Columns) -> None:
    """Makes grid and block of AMD's work-items: "(1024,1,1)", or their product, of which only the total is known."""
    grid, group = (_axes(arguments.get(key)) for key in ("grid_size", "workgroup_size"))
    if not grid or len(grid) != len(group):
        return
    left = arguments["grid_size"].is_null()
    for axis, items, threads in zip("xyz", grid, group, strict=False):
        made = blocks_of(items, threads)
        if made is not None:
            columns[f"grid_{axis}"], columns[f"block_{axis}"] = made.blocks, threads
            left = pc.or_(left, made.left.is_valid())
    arguments["grid_size"] = pc.if_else(left, decoded(arguments["grid_size"]), None)
    del arguments["workgroup_size"]


def _axes(column: pa.Array | None) -> list[pa.Array]:
    """Three columns of texts such as "(1024,1,1)", one of whole numbers, none of anything else."""
    if column is None or pa.types.is_integer(column.type):
        return [] if column is None else [column]
    axes = [mapped(column, pa.int64(), partial(_axis, axis))[0] for axis in (1, 2, 3)]
    return [axis for axis in axes if axis is not None]


def _axis(axis: int, text: Any) -> int | None:
    match = _SIZE.fullmatch(text if isinstance(text, str) else "")
    return int(match[axis]) if match else None
