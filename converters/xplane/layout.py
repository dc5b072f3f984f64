"""The layout of a file: where its planes, their lines, and the metadata of events and stats are.

XSpace  planes { name  lines { .. }  event_metadata { .. }  stat_metadata { .. }  stats { .. } }  errors  hostnames
XLine   id  name  timestamp_ns  events { .. }  events { .. }  display_id  display_name

A plane names its events after its lines, and a line may state its time after its events. So a file is walked first,
without its events, and then read.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from ktrace.kit.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, bounds_of, run_of, signed_one
from ktrace.kit.varint import varint
from ktrace.model.arrays import Int64

#: The bytes of a file.
Data = bytes | mmap.mmap

#: Bytes in which the heads of events are looked for at once.
_BLOCK = 1 << 20

#: A head has at most this many bytes: a tag and a length.
_HEAD = 20

#: No protobuf message is larger.
_LARGEST = 1 << 31

#: What a program writes for bytes that aren't UTF-8: U+FFFD.
_REPLACED = "\ufffd".encode()

_EVENT = 4 << 3 | LENGTH

#: Fields of a line -> attributes of `Line`.
_NUMBERS = {1: "id", 3: "timestamp_ns", 10: "display_id"}
_TEXTS = {2: "name", 11: "display_name"}

#: Longer names of planes and lines are cut.
_LONGEST_NAME = 4096

#: A field: number, wire type, start and end of its value.
Place = tuple[int, int, int, int]


class Broken(Exception):
    """A message can't be read any further: the file ends at `place` (`cut`), or the bytes there aren't protobuf."""

    def __init__(self, place: int, *, cut: bool) -> None:
        super().__init__(f"byte {place}")
        self.place, self.cut = place, cut


@dataclass
class Line:
    """A line: its place in the file and what it states about itself."""

    begin: int
    end: int
    id: int = 0
    display_id: int = 0
    name: str = ""
    display_name: str = ""
    timestamp_ns: int = 0


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


def walk(data: Data) -> Layout:
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


def _plane(data: Data, at: int, stop: int) -> Plane:
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


def _line(data: Data, begin: int, end: int) -> Line:
    """The line there; its events are walked only if it doesn't state its name and time before them."""
    line = Line(begin, end)
    try:
        for number, wire, first, last in _fields(data, begin, end):
            if number == 4:
                break
            _state(line, number, wire, data, first, last)
        if not (line.name and line.timestamp_ns):
            for _ in events_of(data, line):
                pass
    except Broken:
        pass  # the second walk reports it
    return line


def _state(line: Line, number: int, wire: int, data: Data, begin: int, end: int) -> None:
    """Adds to a line what a field states about it."""
    if wire == VARINT and number in _NUMBERS:
        setattr(line, _NUMBERS[number], signed_one(varint(data, begin)[0]))
    elif wire == LENGTH and number in _TEXTS:
        setattr(line, _TEXTS[number], _text(data, begin, end))


def _fields(data: Data, at: int, stop: int) -> Iterator[Place]:
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


def _field(data: Data, at: int) -> Place:
    """Returns number, wire type, start and end of the field there. Raises IndexError and ValueError."""
    tag, at = varint(data, at)
    wire, begin = tag & 7, at
    if wire == VARINT:
        _, end = varint(data, at)
    elif wire == LENGTH:
        size, begin = varint(data, at)
        end = begin + size
        if size >= _LARGEST:
            raise ValueError("too long")
    else:
        end = at + {FIXED64: 8, FIXED32: 4}.get(wire, _LARGEST)
    if tag < 8 or end - at > 2 * _LARGEST or wire not in (VARINT, LENGTH, FIXED64, FIXED32):
        raise ValueError("not a field")
    return tag >> 3, wire, begin, end


def events_of(data: Data, line: Line) -> Iterator[tuple[Int64, Int64]]:
    """Yields starts and ends of the events of a line, those of some bytes at a time. Raises Broken.

    Completes what the line states about itself.
    """
    base, here = line.begin, 0
    block = data[base : min(base + _BLOCK, line.end)]
    while base + here < line.end:
        is_last = base + len(block) == line.end
        if not is_last and here >= len(block) - _HEAD:
            base, here = base + here, 0
            block = data[base : min(base + _BLOCK, line.end)]
            continue
        first = here
        try:
            stop = len(block) if is_last else len(block) - _HEAD
            ends = run_of(block, here, stop, _EVENT)
            beyond = bool(ends) and base + ends[-1] > line.end
            if beyond:
                ends.pop()
            here = ends[-1] if ends else first
            starts, stops = bounds_of(block, first, ends)
            yield starts + base, stops + base
            if beyond:
                raise IndexError
            if here < stop:  # not an event, or one whose head is damaged
                number, wire, begin, end = _field(block, here)
                if base + end > line.end:
                    raise IndexError
                _state(line, number, wire, data, base + begin, base + end)
                here = end
        except (IndexError, ValueError) as error:
            cut = isinstance(error, IndexError) and line.end == len(data)
            raise Broken(base + here, cut=cut) from None


def _text(data: Data, begin: int, end: int) -> str:
    return data[begin : min(end, begin + _LONGEST_NAME)].decode("utf-8", "replace")


def is_transcoded(head: bytes) -> bool:
    """Whether a program read the file as text: all of it is UTF-8, and U+FFFD is frequent."""
    if head.count(_REPLACED) * 64 < len(head):
        return False
    whole = head[:-4]
    return whole.decode("utf-8", "replace").count("\ufffd") <= whole.count(_REPLACED) + 1
