"""The shapes of inputs: how many rows there are, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

#: Slices that are open at the same time on one track.
OPEN = 1000


class Record(NamedTuple):
    """A row: times are in the least unit of the format, after those of the row of the sample.

    A name of None is the sample's own; `filling` is what the row has more than that of the sample.
    """

    number: int = 0
    start: int = 0
    dur: int = 1
    track: int = 0
    name: str | None = None
    filling: str = ""


@dataclass(frozen=True)
class Shape:
    """A shape. `fields` are what a row must have for it, `filling` is what a long value repeats."""

    about: str
    fields: frozenset[str] = frozenset()
    filling: str = ""

    @property
    def is_long(self) -> bool:
        """Whether there is one long value instead of many rows."""
        return bool(self.filling)


#: What a row must have to be on a timeline.
_TIMED = frozenset(("start", "extent"))

SHAPES = {
    "rows": Shape("very many tiny rows"),
    "names": Shape("a name for each row", frozenset(("name",))),
    "tracks": Shape("a track for each row", frozenset(("track",))),
    "open": Shape("a thousand slices inside each other on one track", _TIMED),
    "lanes": Shape("a thousand slices that overlap on one track", _TIMED),
    "together": Shape("all rows begin at one time", _TIMED),
    "crossing": Shape("all slices of a track begin in turn and end in turn, after the last began", _TIMED),
    "keys": Shape("an argument of its own for each row", frozenset(("key",))),
    "text": Shape("one long name", frozenset(("name",)), "ab cd_"),
    "digits": Shape("one long name of digits", frozenset(("name",)), "7"),
    "blanks": Shape("one long name of blanks", frozenset(("name",)), " "),
    "lines": Shape("one long name of line ends", frozenset(("name",)), "\n"),
    "brackets": Shape("one long name of brackets", frozenset(("name",)), "[]"),
    "quotes": Shape("one long name of quotes", frozenset(("name",)), '"'),
    "row": Shape("one long row: a list of objects, or cells", frozenset(("filling",)), "row"),
    "empty": Shape("one long row of empty lists, or cells", frozenset(("filling",)), "empty"),
    "number": Shape("one long number", frozenset(("start",)), "number"),
}


def records(name: str, count: int) -> Iterator[Record]:
    """Yields the rows of a shape; for a long value, `count` is its length in bytes."""
    shape = SHAPES[name]
    match name:
        case "names":
            return (Record(i, 2 * i, name=f"name_{i:07}") for i in range(count))
        case "tracks":
            return (Record(i, 2 * i, track=i) for i in range(count))
        case "open":
            return (Record(i, *_nested(i)) for i in range(count))
        case "lanes":
            return (Record(i, 2 * i, 2 * OPEN) for i in range(count))
        case "together":
            return (Record(i, 0, 1 + i % 7, track=i % 3) for i in range(count))
        case "crossing":
            return (Record(i, i, count) for i in range(count))
        case "keys":
            return (Record(i, 2 * i, filling=f"keys {i}") for i in range(count))
        case "rows":
            return (Record(i, 2 * i) for i in range(count))
        case "row" | "empty" | "number":
            return iter((Record(0), Record(1, 2, filling=f"{name} {count}"), Record(2, 4)))
        case _:
            long = (shape.filling * (count // len(shape.filling) + 1))[:count]
            return iter((Record(0), Record(1, 2, name=long), Record(2, 4)))


def _nested(number: int) -> tuple[int, int]:
    """Start and duration of a slice that is inside the one before it, up to `OPEN` of them."""
    block, depth = divmod(number, OPEN)
    return block * 2 * OPEN + depth, 2 * OPEN - 2 * depth - 1
