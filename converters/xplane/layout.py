"""The layout of a file: where its planes, their lines, and the metadata of events and stats are.

XSpace  planes { name  lines { .. }  event_metadata { .. }  stat_metadata { .. }  stats { .. } }  errors  warnings  hostnames
XLine   id  name  timestamp_ns  events { .. }  events { .. }  display_id  display_name

A plane names its events after its lines, and a line may state its time after its events. So a file is walked first,
without its events, and then read.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from ktrace.converters._shared.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, varint

#: Bytes in which the heads of events are looked for at once.
_BLOCK = 1 << 20

#: A head has at most this many bytes: a tag and a length.
_HEAD = 20

#: No protobuf message is larger.
_LARGEST = 1 << 31

_EVENT = 4 << 3 | LENGTH

#: Longer names of planes and lines are cut.
_LONGEST_NAME = 4096

#: A field: number, wire type, begin and end of its value.
Place = tuple[int, int, int, int]


class Broken(Exception):
    """A message can't be read any further: the file ends at `place` (`cut`), or the bytes there aren't protobuf."""

    def __init__(self, place: int, *, cut: bool) -> None:
        super().__init__(f"byte {place}")
        self.place, self.cut = place, cut


@dataclass
class Line:
    """A line: its place in the file and what it states about itself. `size` is the number of its events."""

    begin: int
    end: int
    id: int = 0
    display_id: int = 0
    name: str = ""
    display_name: str = ""
    timestamp_ns: int = 0
    size: int = 0


@dataclass
class Plane:
    """A plane: what it states about itself, its lines, and the places of its metadata and stats.

    `broken` is where it can't be read any further.
    """

    name: str = ""
    lines: list[Line] = field(default_factory=list)
    event_metadata: tuple[array[int], array[int]] = field(default_factory=lambda: (array("q"), array("q")))
    stat_metadata: tuple[array[int], array[int]] = field(default_factory=lambda: (array("q"), array("q")))
    stats: tuple[array[int], array[int]] = field(default_factory=lambda: (array("q"), array("q")))
    broken: Broken | None = None


@dataclass
class Layout:
    """The layout of a file. `broken` is where the file itself, not only a plane, can't be read any further."""

    planes: list[Plane] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)
    broken: Broken | None = None


def walk(data: mmap.mmap) -> Layout:
    """Returns the layout of a file."""
    layout = Layout()
    try:
        for number, wire, begin, end in _fields(data, 0, len(data)):
            if number == 1 and wire == LENGTH:
                layout.planes.append(_plane(data, begin, end))
            elif number in (2, 3) and wire == LENGTH:
                layout.messages.append(_text(data, begin, end))
            elif number == 4 and wire == LENGTH:
                layout.hostnames.append(_text(data, begin, end))
    except Broken as broken:
        layout.broken = broken
    return layout


def _plane(data: mmap.mmap, at: int, stop: int) -> Plane:
    plane = Plane()
    places = {4: plane.event_metadata, 5: plane.stat_metadata, 6: plane.stats}
    try:
        for number, wire, begin, end in _fields(data, at, stop):
            if wire != LENGTH:
                continue
            if number == 2:
                plane.name = _text(data, begin, end)
            elif number == 3:
                plane.lines.append(_line(data, begin, end))
            elif number in places:
                places[number][0].append(begin)
                places[number][1].append(end)
    except Broken as broken:
        plane.broken = broken
    return plane


def _line(data: mmap.mmap, begin: int, end: int) -> Line:
    line = Line(begin, end)
    try:
        for begins, _, others in event_places(data, begin, end, 1 << 16):
            line.size += len(begins)
            for number, wire, first, last in others:
                if wire == VARINT and number in (1, 3, 10):
                    value = _signed(varint(data, first)[0])
                    name = {1: "id", 3: "timestamp_ns", 10: "display_id"}[number]
                    setattr(line, name, value)
                elif wire == LENGTH and number in (2, 11):
                    setattr(line, "name" if number == 2 else "display_name", _text(data, first, last))
    except Broken:
        pass  # the second walk reports it
    return line


def _fields(data: mmap.mmap, at: int, stop: int) -> Iterator[Place]:
    """Yields the fields of a message; one that the end of the file cuts off as far as it is there. Raises Broken."""
    while at < stop:
        place = at
        try:
            number, wire, begin, at = _field(data, at)
        except IndexError:
            raise Broken(place, cut=True) from None
        except ValueError:
            raise Broken(place, cut=False) from None
        if at > stop:
            if stop < len(data):
                raise Broken(place, cut=False)
            if wire == LENGTH:
                yield number, wire, begin, stop
            raise Broken(place, cut=True)
        yield number, wire, begin, at


def _field(data: bytes | mmap.mmap, at: int) -> Place:
    """Returns number, wire type, begin and end of the field there. Raises IndexError and ValueError."""
    tag, at = varint(data, at)  # type: ignore[arg-type]
    wire, begin = tag & 7, at
    if wire == VARINT:
        _, end = varint(data, at)  # type: ignore[arg-type]
    elif wire == LENGTH:
        size, begin = varint(data, at)  # type: ignore[arg-type]
        end = begin + size
        if size >= _LARGEST:
            raise ValueError("too long")
    else:
        end = at + {FIXED64: 8, FIXED32: 4}.get(wire, _LARGEST)
    if tag < 8 or end - at > 2 * _LARGEST or wire not in (VARINT, LENGTH, FIXED64, FIXED32):
        raise ValueError("not a field")
    return tag >> 3, wire, begin, end


def event_places(data: mmap.mmap, at: int, stop: int, most: int) -> Iterator[tuple[list[int], list[int], list[Place]]]:
    """Yields begins and ends of the events of a line, up to `most` at a time, and its other fields. Raises Broken."""
    begins: list[int] = []
    ends: list[int] = []
    others: list[Place] = []
    base, here = at, 0
    block = data[base : min(base + _BLOCK, stop)]
    try:
        while base + here < stop:
            if here > len(block) - _HEAD and base + len(block) < stop:
                base, here = base + here, 0
                block = data[base : min(base + _BLOCK, stop)]
            place = here
            if block[here] == _EVENT:
                length, begin = block[here + 1], here + 2
                if length > 127:
                    length, begin = varint(block, here + 1)
                here = begin + length
                if base + here > stop:
                    raise IndexError
                begins.append(base + begin)
                ends.append(base + here)
                if len(begins) == most:
                    yield begins, ends, others
                    begins, ends, others = [], [], []
                continue
            number, wire, begin, here = _field(block, here)
            if base + here > stop:
                raise IndexError
            others.append((number, wire, base + begin, base + here))
    except (IndexError, ValueError) as error:
        yield begins, ends, others
        raise Broken(base + place, cut=isinstance(error, IndexError) and stop == len(data)) from None
    yield begins, ends, others


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(data: mmap.mmap, begin: int, end: int) -> str:
    return data[begin : min(end, begin + _LONGEST_NAME)].decode("utf-8", "replace")


def is_transcoded(head: bytes) -> bool:
    """Whether a program read the file as text and replaced its bytes by U+FFFD: all is UTF-8, and U+FFFD is frequent."""
    if head.count(b"\xef\xbf\xbd") * 64 < len(head):
        return False
    return b"\xff" not in head and head[: len(head) - 4].decode("utf-8", "replace").count("\ufffd") == head[
        : len(head) - 4
    ].count(b"\xef\xbf\xbd")


