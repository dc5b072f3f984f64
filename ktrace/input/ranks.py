"""A log of several processes, whose lines have the name of theirs before them, as one text for each process.

[rank0]: gemm  10  100.0        rank0:  gemm  10  100.0
[rank1]: gemm  10  120.0        rank1:  gemm  10  120.0
[rank0]: relu   5    2.5                relu   5    2.5     (of rank0)
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ktrace.input.wrapping import LAYERS

#: What processes are named by, in the order in which it is looked for.
_LAYERS = ("a container", "a rank")
_PREFIXES = {layer: re.compile(LAYERS[layer]) for layer in _LAYERS}

#: The number of a rank in what torchrun, mpirun, srun and loggers write; another name is one of a process.
_RANK = re.compile(r"\[?(?:rank ?|Rank |\d{1,6},)?(\d{1,6})(?:\]|: ?$).*|\(.*\brank=(\d{1,6})\).*")

#: The most processes of a log, the fewest lines of each, and the share of lines that must have a name.
_MOST, _FEWEST, _NEARLY = 256, 2, 0.9

#: Bytes at the start of a text whose lines tell whether it is looked at.
HEAD = 4096


@dataclass(frozen=True)
class Part:
    """The lines of one process: the layer that its name is in, and what its lines begin with."""

    layer: str
    prefix: bytes
    is_first: bool = False

    @property
    def rank(self) -> int | None:
        """The number of its rank, None if it isn't known by one."""
        found = _RANK.fullmatch(self.prefix.decode("utf-8", "replace").strip())
        return int(found[1] or found[2]) if found and self.layer == "a rank" else None

    @property
    def label(self) -> str:
        """Its name: `rank3`, `worker-2`."""
        if self.rank is not None:
            return f"rank{self.rank}"
        return self.prefix.decode("utf-8", "replace").strip(" |[]():\t")

    def own(self, line: bytes) -> bytes | None:
        """What the process printed in a line, None for a line of another one. A line without a name is the first's."""
        found = _PREFIXES[self.layer].match(line)
        if found is None:
            return line if self.is_first else None
        return line[found.end() :] if found[0].strip() == self.prefix else None


class PartLines(io.RawIOBase):
    """A stream of the lines of one process."""

    def __init__(self, raw: BinaryIO, part: Part) -> None:
        self._raw = raw
        self._lines = _own_lines(raw, part)
        self._kept = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._kept:
            line = next(self._lines, None)
            if line is None:
                return 0
            self._kept = line
        data, self._kept = self._kept[: len(buffer)], self._kept[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _own_lines(raw: BinaryIO, part: Part) -> Iterator[bytes]:
    for line in raw:
        if (text := part.own(line)) is not None:
            yield text


def may_have_parts(head: bytes) -> bool:
    """Whether a text begins as a log of several processes does, which `parts_of` looks at."""
    lines = head.splitlines()
    return any(sum(pattern.match(line) is not None for line in lines) >= _FEWEST for pattern in _PREFIXES.values())


def parts_of(lines: Iterable[bytes]) -> list[Part]:
    """Returns the parts of a log of several processes, in the order of their names; none of another text."""
    often: dict[str, Counter[bytes]] = {layer: Counter() for layer in _LAYERS}
    count = 0
    for line in lines:
        count += bool(line.strip())
        for layer, pattern in _PREFIXES.items():
            if found := pattern.match(line):
                often[layer][found[0].strip()] += 1
        if all(len(names) > _MOST for names in often.values()):
            return []
    for layer, names in often.items():
        if 1 < len(names) <= _MOST and min(names.values()) >= _FEWEST and names.total() >= _NEARLY * count:
            parts = sorted((Part(layer, name) for name in names), key=lambda part: (part.rank or 0, part.label))
            return [Part(part.layer, part.prefix, number == 0) for number, part in enumerate(parts)]
    return []
