"""The account of the bytes of texts: those of records, of structure, and those that were left out, with their ranges.

A count of records can't miss what was never recognised as one. This account can: it divides the text itself.

    {"traceEvents": [{"ph": "X", ...}, {"ph": foo, ...}, {"ph": "X", ...}]}
    ├─ structure ───┤├─ read ───────┤├─ skipped: bytes 48-71

The records themselves are followed further by the accounts in `ktrace/report.py`: a record whose time is impossible
was read, and is skipped there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Owner = Literal["read", "structure", "skipped"]

#: How many ranges of skipped bytes are kept.
RANGES = 100

#: How many of them a line shows.
SHOWN = 5


class Range(NamedTuple):
    """Skipped bytes of a text: from `start` to before `end`. `place` precedes them: "host/12_kernel_trace.csv: "."""

    start: int
    end: int
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}bytes {self.start}-{self.end - 1}"


@dataclass
class ByteAccount:
    """The bytes of all texts that were read, after decompression (of UTF-16: as UTF-8).

    `size` counts them as they come from the stream, the other figures as their owner is known. `open` is the number of
    texts that weren't read to their end.
    """

    size: int = 0
    read: int = 0
    structure: int = 0
    skipped: int = 0
    ranges: list[Range] = field(default_factory=list)
    open: int = 0

    def own(self, owner: Owner, count: int) -> None:
        """Adds bytes of records or structure."""
        if owner == "read":
            self.read += count
        else:
            self.structure += count

    def take_whole(self, size: int) -> None:
        """Adds a document of `size` bytes that is decoded as a whole, or refused: all of it is read."""
        self.size += size
        self.read += size

    def skip(self, start: int, end: int, place: str = "") -> None:
        """Adds a range of skipped bytes."""
        self.skipped += end - start
        last = self.ranges[-1] if self.ranges else None
        if last and last.end == start and last.place == place:
            self.ranges[-1] = last._replace(end=end)
        elif end > start and len(self.ranges) < RANGES:
            self.ranges.append(Range(start, end, place))

    def take_back(self, surplus: int) -> None:
        """Subtracts bytes that aren't in the source: an invalid byte became U+FFFD, which has three."""
        self.size -= surplus
        if self.read >= surplus:
            self.read -= surplus
        else:
            self.skipped -= surplus

    def unowned(self) -> int:
        """Returns the number of bytes whose owner isn't known yet."""
        return self.size - self.read - self.structure - self.skipped

    def give_up(self, before: ByteAccount, place: str) -> None:
        """Skips the bytes without an owner of a text that can't be read further. `before` is the account before it."""
        unowned = self.unowned() - before.unowned()
        self.size -= min(unowned, 0)
        self.open = before.open
        end = self.size - before.size
        self.skip(end - max(unowned, 0), end, place)

    def merge(self, part: ByteAccount) -> None:
        """Adds the account of a part of the text, or of another text."""
        self.size += part.size
        self.read += part.read
        self.structure += part.structure
        self.skipped += part.skipped
        self.open += part.open
        self.ranges += part.ranges[: RANGES - len(self.ranges)]

    def balanced(self) -> bool:
        """Returns whether every byte has an owner, and every text was read to its end."""
        return not self.unowned() and not self.open

    def fault(self) -> str:
        """Returns what is wrong with an account that isn't balanced."""
        unread = f"; {self.open:,} texts weren't read to their end" if self.open else ""
        return f"bytes doesn't add up: {self.line()}{unread}"

    def line(self) -> str:
        """Returns the account as a line for users."""
        shown = ", ".join(map(str, self.ranges[:SHOWN]))
        shown += ", ..." if len(self.ranges) > SHOWN else ""
        return (
            f"text of {self.size:,} bytes: {self.read:,} of records, {self.structure:,} of structure, "
            f"{self.skipped:,} skipped" + (f" ({shown})" if shown else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the account as plain values, for `--report`."""
        figures = {"size": self.size, "read": self.read, "structure": self.structure, "skipped": self.skipped}
        return figures | ({"ranges": list(map(str, self.ranges))} if self.ranges else {})
