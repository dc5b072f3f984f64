"""Events of Chrome's older traces: a TrackEvent whose `legacy_event` has the phase of the JSON format.

track_event { name_iid 1  legacy_event { phase 88  duration_us 12 } }                 X: a whole slice
track_event { name_iid 1  legacy_event { phase 98  global_id 7  id_scope "io" } }     b: begins on track "io/7"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktrace.converters._shared.columnar.protobuf import LENGTH, Value
from ktrace.model.json_text import dump_json

from ..proto import field_numbers as f
from .args import Chunk, int64
from .context import Context
from .tracks import first, gather, int32, text

if TYPE_CHECKING:
    from .events import Parsed

_L = f.LEGACY_EVENT

#: Phase -> what the event is (the numbers of read_events).
_BEGIN, _END, _INSTANT, _COMPLETE, _NOTHING = 1, 2, 3, 6, 7
_PHASES = {
    **dict.fromkeys("BSb", _BEGIN),
    **dict.fromkeys("EFe", _END),
    **dict.fromkeys("iIRnTpPNODCstf()", _INSTANT),
    "X": _COMPLETE,
}
_ASYNC = "SFTpbneNOD"


def read_legacy(context: Context, chunk: Chunk, parsed: Parsed) -> None:
    """Gives events with a phase their kind, place, duration and name; metadata (M) goes into the catalog.

    What it says beyond that stays in the argument `$legacy_event`.
    """
    column = parsed.fields.get(f.TRACK_EVENT["legacy_event"], LENGTH)
    if not len(column.owner):
        return
    if not parsed.own:
        from .rows import own_codes

        parsed.name, parsed.category, parsed.own = (
            own_codes(chunk, parsed.name),
            own_codes(chunk, parsed.category),
            True,
        )
    for row, start, size in zip(column.owner.tolist(), column.start.tolist(), column.value.tolist(), strict=True):
        try:
            found = gather(chunk.data[start : start + size].tobytes())
        except ValueError:
            continue  # stays without a type, and is reported so
        _read(context, chunk, parsed, row, found)


def _read(context: Context, chunk: Chunk, parsed: Parsed, row: int, found: dict[int, list[Value]]) -> None:
    number = int32(first(found, _L["phase"], 0))
    phase = chr(number) if 0 < number < 128 else ""
    state = chunk.states[int(parsed.events.state[row])]
    if phase:
        parsed.what[row] = _PHASES.get(phase, _INSTANT)
    name = state.texts["names"].get(int(first(found, _L["name_iid"], 0)))
    if parsed.name[row] < 0 and name >= 0:
        parsed.name[row] = chunk.own.code(context.pool.texts[name].encode())
    if phase == "X":
        parsed.dur[row] = int64(first(found, _L["duration_us"], 0)) * 1000
    if phase not in _PLAIN or found.keys() - _USED:
        said = {_FIELDS.get(key, str(key)): _shown(values[-1]) for key, values in found.items()}
        parsed.extra.append((row, chunk.own.code(dump_json(said | {"phase": phase}).encode())))
    if phase == "M":
        parsed.what[row] = _NOTHING
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
        category = chunk.own.texts[code] if code >= 0 else ""
        columns = {
            "host": columns["host"],
            "pid": columns["pid"],
            "track": "/".join(part for part in (scope or category, f"{identity:#x}")),
        }
    if columns != {name: place.columns.get(name) for name in _PLACE}:
        parsed.place[row] = context.tracks.keyed(tuple(columns.items()), **columns)


def _shown(value: Value) -> int | str:
    return value if isinstance(value, int) else text(value)


_FIELDS = {number: name for name, number in _L.items()}
_PLACE = ("host", "pid", "tid", "track")
_PLAIN, _USED = "BEXiI", {_L["phase"], _L["name_iid"], _L["duration_us"]}
_IDS = ("unscoped_id", "local_id", "global_id")
