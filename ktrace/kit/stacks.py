"""Stacks of samples and of what is allocated, outermost frame first.

Each distinct stack is a fact of the catalog, which rows name by its key in `args.stack`. Profiles without times have
only sums: a summary for each stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from ktrace.conversion import Conversion
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import last_number
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: The name of a sample without a frame.
NO_STACK = "[no stack]"


#: What a frame of a stack counts beside its text: its place in lists, in the catalog and in outputs.
_FRAME = 32


def bytes_of(frames: Sequence[str]) -> int:
    """The bytes that a stack gives."""
    return sum(map(len, frames)) + _FRAME * len(frames)


class Stacks:
    """Gives each distinct stack a key, and adds its fact. `prefix` keeps apart the keys that the source itself has."""

    def __init__(self, rows: RowBuilder, prefix: str = "") -> None:
        self._rows = rows
        self._prefix = prefix
        self._keys: dict[bytes, str] = {}  # by digests: many deep stacks would be much to hold

    def key(self, frames: tuple[str, ...]) -> str | None:
        """The key of a stack; None if it has no frame."""
        if not frames:
            return None
        digest = blake2b("\0".join(frames).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = self._keys.get(digest)
        if key is None:
            self._rows.expanded(bytes_of(frames))
            key = self._keys[digest] = f"{self._prefix}{len(self._keys)}"
            self._rows.fact("stack", name=key, facts={"frames": list(frames)})
        return key


class StackSums:
    """Adds up samples of equal stacks that have no time. `columns` has for all rows what isn't of their stack."""

    def __init__(self, rows: RowBuilder, *, metric: str, unit: str | None = None, **columns: Any) -> None:
        self._rows = rows
        self._columns = columns | {"metric": metric, "unit": unit}
        self._totals: dict[tuple[str, ...], list[float]] = {}
        self._names: dict[tuple[str, ...], str] = {}

    def add(self, name: str, frames: tuple[str, ...], weight: float, count: int = 1) -> None:
        """Adds samples of a stack: what they weigh together, in the unit of the sums, and how many they are.

        `name` is that of the innermost frame, without its place.
        """
        sums = self._totals.get(frames)
        if sums is None:
            self._rows.expanded(bytes_of(frames))
            sums = self._totals[frames] = [0, 0]
            self._names[frames] = name
        sums[0] += weight
        sums[1] += count

    def write(self, scope: Sequence[str] = ()) -> None:
        """Adds the summaries, each in the scope of its outer frames."""
        for frames, (total, count) in self._totals.items():
            figures = {"total": float(total), "count": int(count) or None, **self._columns}
            name, outer = self._names[frames], [*scope, *frames[:-1]] or None
            self._rows.summary("sample", name, scope=outer, args=innermost_args(name, frames), **figures)
        self._totals.clear()


def innermost_args(name: str, frames: Sequence[str]) -> dict[str, str]:
    """The argument `frame` of a row that is named as its innermost frame, where that frame says more: its place."""
    return {"frame": frames[-1]} if frames and frames[-1] != name else {}


def frame_text(name: str, file: object = None, line: object = None) -> str:
    """A frame as text, with its place where that is known: forward (model.py:7)."""
    if not isinstance(file, str) or not file:
        return name
    return f"{name} ({file}:{line})" if type(line) is int else f"{name} ({file})"


def read_folded(
    lines: Lines, conversion: Conversion, kind: str, *, factor: float = 1.0, **columns: Any
) -> Iterator[Batch]:
    """Yields a summary of `kind` for each folded stack: its name is the innermost frame, its scope those around it.

    `main;step 1200`: the outermost frame first. The total is the number times `factor`. Lines that aren't stacks are
    reported.
    """
    rows = RowBuilder(conversion)
    for line in lines:
        if number := last_number(line.text):
            *scope, name = number[0].split(";")
            rows.summary(kind, name or "?", scope=scope or None, total=factor * float(number[1]), **columns)
            lines.used()
        elif not line.text.strip() or line.text.startswith("#"):
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()
