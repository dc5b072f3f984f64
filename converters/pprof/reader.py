"""Turns samples, which have no time, into summaries: one for each of their values that isn't 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.columnar.protobuf import fields_of, signed_one
from ktrace.kit.stacks import NO_STACK, bytes_of, frame_text, innermost_args
from ktrace.kit.text.numbers import TIME_NS
from ktrace.kit.varint import varint
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: The fields of a Profile.
_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _TEXT = 1, 2, 3, 4, 5, 6
_NUMBERS = {9: "time_nanos", 10: "duration_nanos", 12: "period"}
_PERIOD_TYPE, _COMMENT, _DEFAULT_TYPE = 11, 13, 14

Fields = dict[int, list[Any]]


#: Bytes of a stack that real ones hardly have; what others have is counted as what references give.
_STACK = 64 << 10


class _Frame(NamedTuple):
    name: str
    text: str


class _Frames(NamedTuple):
    """The frames of a location, what was inlined last, and their bytes."""

    frames: list[_Frame]
    size: int


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each value of each sample. Raises DamagedInput for what isn't a whole profile."""
    with source.open() as stream:
        data = current().whole(stream, source.path)
    try:
        reading = _Profile(profile := _fields(data), conversion)
    except (ValueError, IndexError, TypeError):
        raise DamagedInput(
            "isn't a whole profile",
            path=source.path,
            expected="a protobuf message Profile of pprof, with gzip or without",
            remedy="fetch all of it again",
        ) from None
    rows = RowBuilder(conversion)
    rows.fact("source", facts=reading.facts())
    for number, message in enumerate(profile.get(_SAMPLE, ())):
        conversion.report.record()
        if problem := _add(message, reading, rows):
            conversion.report.issue("bad-record", f"sample {number}", problem)
        else:
            conversion.report.used()
        yield from rows.ready()
    yield from rows.rest()


def _add(message: Any, profile: _Profile, rows: RowBuilder) -> str:
    """Adds the rows of a sample; returns what is wrong with it, '' for nothing."""
    try:
        fields = _fields(message)
        values, frames = _numbers(fields, 2), profile.stack(_numbers(fields, 1))
        args = profile.labels(fields)
    except (ValueError, IndexError, TypeError):
        return "it isn't a message Sample"
    except KeyError as error:
        return f"a location or function that doesn't exist: {error}"
    if len(values) != len(profile.types):
        return f"{len(values)} values, and {len(profile.types)} types"
    scope = [frame.text for frame in frames[:-1]] or None
    name = frames[-1].name if frames else NO_STACK
    args |= innermost_args(name, [frame.text for frame in frames])
    for (metric, unit, factor), value in zip(profile.types, values, strict=True):
        if value:
            figures: dict[str, Any] = {"metric": metric, "unit": unit, "total": float(factor * signed_one(value))}
            rows.summary(profile.kind, name, scope=scope, args=args, **figures)
    return ""


class _Profile:
    """What the samples refer to. Texts and numbers that aren't there are empty."""

    def __init__(self, profile: Fields, conversion: Conversion) -> None:
        self._profile, self._expanded = profile, conversion.expanded
        self._texts = [text.decode("utf-8", "replace") for text in profile.get(_TEXT, ()) if isinstance(text, bytes)]
        self.types = [self._type(message) for message in profile.get(_TYPE, ())]
        #: Profiles of memory have a value in bytes.
        self.kind = "alloc" if any(unit == "B" for _, unit, _ in self.types) else "sample"
        self._functions = self._by_id(_FUNCTION)
        self._locations = self._by_id(_LOCATION)
        self._mappings = self._by_id(_MAPPING)
        self._comments = _numbers(profile, _COMMENT)
        self._period = self._pair(profile[_PERIOD_TYPE][-1]) if _PERIOD_TYPE in profile else ()
        self._known: dict[int, _Frames] = {}

    def stack(self, locations: list[int]) -> list[_Frame]:
        """The frames of a stack, outermost first. Raises KeyError for one that doesn't exist."""
        frames, size = list[_Frame](), 0
        for location in reversed(locations):
            entry = self._frames(location)
            frames += entry.frames
            size += entry.size
            if size > _STACK:
                self._expanded(size)
                size = 0
        return frames

    def labels(self, sample: Fields) -> dict[str, Any]:
        """The labels of a sample: texts, and numbers with their unit beside them."""
        typed: dict[str, Any] = {}
        for message in sample.get(3, ()):
            label = _fields(message)
            key = self._text(_last(label, 1))
            typed[key] = self._text(_last(label, 2)) if _last(label, 2) else signed_one(_last(label, 3))
            if unit := self._text(_last(label, 4)):
                typed[f"${key}_unit"] = unit
        return typed

    def facts(self) -> dict[str, Any]:
        """What the profile says of itself."""
        profile = self._profile
        profile_facts: dict[str, Any] = {key: signed_one(_last(profile, number)) for number, key in _NUMBERS.items()}
        profile_facts["period_type"] = " ".join(filter(None, self._period))
        profile_facts["default_sample_type"] = self._text(_last(profile, _DEFAULT_TYPE))
        profile_facts["comments"] = [self._text(number) for number in self._comments]
        return {key: value for key, value in profile_facts.items() if value}

    def _frames(self, number: int) -> _Frames:
        """The frames of a location."""
        if number not in self._known:
            location = self._locations[number]
            lines = [_fields(line) for line in reversed(location.get(4, []))]
            frames = [self._frame(line) for line in lines] or [self._unnamed(location)]
            self._known[number] = _Frames(frames, bytes_of([frame.text for frame in frames]))
        return self._known[number]

    def _frame(self, line: Fields) -> _Frame:
        function = self._functions[_last(line, 1)]
        name = self._text(_last(function, 2)) or self._text(_last(function, 3)) or "?"
        return _Frame(name, frame_text(name, self._text(_last(function, 4)), _last(line, 2) or None))

    def _unnamed(self, location: Fields) -> _Frame:
        """A location without a function: its address, and the file that it is in."""
        mapping = self._mappings.get(_last(location, 2), {})
        name = f"0x{_last(location, 3):x}"
        return _Frame(name, frame_text(name, self._text(_last(mapping, 5))))

    def _by_id(self, number: int) -> dict[int, Fields]:
        messages = (_fields(message) for message in self._profile.get(number, ()))
        return {_last(fields, 1): fields for fields in messages}

    def _pair(self, message: bytes) -> tuple[str, str]:
        fields = _fields(message)
        return self._text(_last(fields, 1)), self._text(_last(fields, 2))

    def _type(self, message: bytes) -> tuple[str, str | None, int]:
        """Metric, unit and the factor to that unit of a type of values."""
        name, unit = self._pair(message)
        if unit in TIME_NS and TIME_NS[unit] >= 1:
            return name or "value", "ns", int(TIME_NS[unit])
        return name or "value", {"bytes": "B", "": None}.get(unit, unit), 1

    def _text(self, number: int) -> str:
        return self._texts[number] if number < len(self._texts) else ""


def _fields(message: bytes) -> Fields:
    """The fields of a message. Raises ValueError if it isn't one."""
    fields: Fields = {}
    for number, _, value in fields_of(message):
        fields.setdefault(number, []).append(value)
    return fields


def _last(fields: Fields, number: int) -> int:
    """The last value of a field that is a number, 0 without one."""
    value = fields[number][-1] if number in fields else 0
    return value if isinstance(value, int) else 0


def _numbers(fields: Fields, number: int) -> list[int]:
    """All values of a repeated field of numbers, packed or not. Raises ValueError and IndexError."""
    numbers: list[int] = []
    for value in fields.get(number, ()):
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            numbers.append(one)
    return numbers
