"""What packets refer to: texts interned per sequence, defaults, the default clock.

    packet { sequence 7, flags CLEARED      interned_data { event_names { iid 1 "gemm" } } }    a state begins
    packet { sequence 7, flags NEEDS_STATE  track_event { name_iid 1 } }                        is "gemm"

Texts become codes of one pool for the whole trace, so that a row's text is a number until it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.protobuf import fields_of
from ktrace.model.arrays import Int32, Int64, UInt64

from .. import field_numbers as f
from .messages import repeated

#: Field of InternedData -> table of its texts. All entries have the number in field 1 and the text in field 2.
TEXTS = {
    f.INTERNED_DATA["event_categories"]: "categories",
    f.INTERNED_DATA["event_names"]: "names",
    f.INTERNED_DATA["debug_annotation_names"]: "keys",
    f.INTERNED_DATA["debug_annotation_string_values"]: "strings",
    f.INTERNED_DATA["compute_arg_names"]: "arg_names",
    f.INTERNED_DATA["correlation_id_str"]: "correlations",
    f.INTERNED_DATA["debug_annotation_value_type_names"]: "types",
}

#: An array maps interned numbers to codes that are below this for each entry, a dict the others.
_DENSE = 64


class TextPool:
    """Distinct texts and their codes."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.damaged = 0  # texts that aren't UTF-8
        self._codes: dict[bytes, int] = {}

    def code(self, text: bytes) -> int:
        """Returns the code of a text."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            try:
                self.texts.append(text.decode())
            except UnicodeDecodeError:
                self.texts.append(text.decode("utf-8", "replace"))
                self.damaged += 1
        return code

    def codes(self, texts: pa.Array) -> Int32:
        """Returns the codes of an Arrow column of bytes."""
        distinct = texts.dictionary_encode()
        codes = np.array([self.code(text) for text in distinct.dictionary.to_pylist()], np.int32)
        found: Int32 = codes[distinct.indices.to_numpy()]
        return found

    def column(self, codes: Int32) -> pa.DictionaryArray:
        """Returns the texts of the codes as an Arrow dictionary without unused texts; -1 becomes null."""
        used = np.zeros(len(self.texts) + 1, np.bool_)
        used[codes] = True  # -1 indexes the last entry
        used[-1] = False
        present = np.flatnonzero(used)
        place = np.full(len(used), -1, np.int32)
        place[present] = np.arange(len(present), dtype=np.int32)
        indices = pa.array(place[codes], mask=codes < 0)
        texts = pa.array([self.texts[code] for code in present.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(indices, texts)


class TextCodes:
    """Number of an interned entry -> code of its text."""

    def __init__(self) -> None:
        self._count = 0
        self._codes = np.full(_DENSE, -1, np.int32)
        self._far: dict[int, int] = {}

    def put(self, number: int, code: int) -> None:
        """Sets the code of a number; a later entry replaces an earlier one."""
        self._count += 1
        if number >= _DENSE * self._count and number >= len(self._codes):
            self._far[number] = code
            return
        while number >= len(self._codes):
            self._codes = np.concatenate([self._codes, np.full(len(self._codes), -1, np.int32)])
            for near in [one for one in self._far if one < len(self._codes)]:
                self._codes[near] = self._far.pop(near)
        self._codes[number] = code

    def get(self, number: int) -> int:
        """Returns the code of a number, -1 if it is unknown."""
        return int(self._codes[number]) if number < len(self._codes) else self._far.get(number, -1)

    def find(self, numbers: UInt64) -> Int32:
        """Returns the codes of many numbers."""
        near = numbers < len(self._codes)
        found: Int32 = np.where(near, self._codes[np.where(near, numbers, 0).astype(np.int64)], np.int32(-1))
        if self._far:
            distinct, back = np.unique(numbers[~near], return_inverse=True)
            found[~near] = np.array([self._far.get(number, -1) for number in distinct.tolist()], np.int32)[back]
        return found


@dataclass
class SequenceState:
    """The incremental state of a sequence, from a packet that clears it to the next such packet."""

    valid: bool = False
    texts: dict[str, TextCodes] = field(default_factory=lambda: {name: TextCodes() for name in TEXTS.values()})
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (field of InternedData, iid) -> entry
    track: int | None = None  # the default track of its TrackEvents
    clock: int | None = None  # the default clock of its packets
    counter_tracks: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of extra counters: integers, doubles
    machine: int = 0  # the machine of its packets
    cache: dict[Any, Any] = field(default_factory=dict)  # what bytes that refer to this state were decoded to

    def intern(self, data: bytes, pool: TextPool, keys: TextPool) -> None:
        """Adds the entries of an InternedData; `keys` gets the names of arguments, `pool` all other texts.

        Raises ValueError if it isn't protobuf.
        """
        for number, wire, entry in fields_of(data):
            if wire != 2 or not isinstance(entry, bytes):
                continue
            iid, text = _entry(entry)
            if number in TEXTS:
                table = TEXTS[number]
                self.texts[table].put(iid, (keys if table in ("keys", "arg_names") else pool).code(text))
            else:
                self.entries[number, iid] = entry

    def defaults(self, data: bytes) -> None:
        """Reads a TracePacketDefaults. Raises ValueError if it isn't protobuf."""
        for number, _, value in fields_of(data):
            if number == f.TRACE_PACKET_DEFAULTS["timestamp_clock_id"] and isinstance(value, int):
                self.clock = value
            elif number == f.TRACE_PACKET_DEFAULTS["track_event_defaults"] and isinstance(value, bytes):
                for inner, _, what in fields_of(value):
                    if inner == f.TRACK_EVENT_DEFAULTS["track_uuid"] and isinstance(what, int):
                        self.track = what
                self.counter_tracks = (
                    tuple(repeated(value, f.TRACK_EVENT_DEFAULTS["extra_counter_track_uuids"])),
                    tuple(repeated(value, f.TRACK_EVENT_DEFAULTS["extra_double_counter_track_uuids"])),
                )

    def with_defaults_of(self, other: SequenceState) -> SequenceState:
        """Returns a state with the same texts and no defaults."""
        return SequenceState(other.valid, other.texts, other.entries, machine=other.machine, cache=other.cache)


def _entry(data: bytes) -> tuple[int, bytes]:
    """Returns number and text of an interned entry."""
    if len(data) > 4 and data[0] == 8 and data[1] < 128 and data[2] == 18 and data[3] == len(data) - 4:
        return data[1], data[4:]
    iid, text = 0, b""
    for number, wire, value in fields_of(data):
        if number == 1 and isinstance(value, int):
            iid = value
        elif number == 2 and wire == 2 and isinstance(value, bytes):
            text = value
    return iid, text


def look_up(states: list[SequenceState], of_row: Int64, table: str, numbers: UInt64) -> Int32:
    """Returns the codes of interned numbers, each from the table of its row's state."""
    first = int(of_row[0]) if len(of_row) else 0
    if not len(of_row) or (of_row == first).all():
        return states[first].texts[table].find(numbers) if len(of_row) else np.empty(0, np.int32)
    found = np.empty(len(numbers), np.int32)
    order = np.argsort(of_row, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1):
        found[rows] = states[int(of_row[rows[0]])].texts[table].find(numbers[rows])
    return found
