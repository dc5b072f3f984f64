"""A log of several processes, whose lines have the name of theirs before them, as one text for each process.

[rank0]: gemm  10  100.0        rank0:  gemm  10  100.0
[rank1]: gemm  10  120.0        rank1:  gemm  10  120.0
[rank0]: relu   5    2.5                relu   5    2.5     (of rank0)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from ktrace.input.wrapping import LAYERS

#: What processes are named by, in the order in which it is looked for.
_LAYERS = ("a container", "a rank")
_PREFIXES = {layer: re.compile(LAYERS[layer]) for layer in _LAYERS}

#: The number of a rank in what torchrun, mpirun, srun and loggers write; another name is one of a process.
_RANK = re.compile(r"\[?(?:rank ?|Rank |\d{1,6},)?(\d{1,6})(?:\]|: ?$).*|\(.*\brank=(\d{1,6})\).*")

#: The most processes of a log, the fewest lines of each, and the share of lines that must have a name.
_MOST, _FEWEST, _NEARLY = 256, 2, 0.9

#: Bytes at the start of a text whose lines tell whether all are looked at.
_HEAD = 4096


@dataclass(frozen=True)
class Part:
    """The lines of one process: the layer that its name is in, and what its lines begin with."""

    layer: str
    prefix: bytes
    is_first: bool = False

    @property
    def rank(self) -> int | None:
        """The number of its rank, None if it isn't known by one."""
        number = _RANK.fullmatch(self.prefix.decode("utf-8", "replace").strip())
        return int(number[1] or number[2]) if number and self.layer == "a rank" else None

    @property
    def label(self) -> str:
        """The name of the rank: `rank3`, `worker-2`."""
        if self.rank is not None:
            return f"rank{self.rank}"
        return self.prefix.decode("utf-8", "replace").strip(" |[]():\t")

    def text_of(self, line: bytes) -> bytes | None:
        """What the process printed in a line, None for a line of another one. A line without a name is the first's."""
        named = _PREFIXES[self.layer].match(line)
        if named is None:
            return line if self.is_first else None
        return line[named.end() :] if named[0].strip() == self.prefix else None

    def texts(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yields what the process printed in these lines."""
        return (text for line in lines if (text := self.text_of(line)) is not None)


def parts_in(stream: BinaryIO) -> list[Part]:
    """Returns `parts_of` a stream, of which little is read unless its head has lines of several processes."""
    head = stream.read(_HEAD)
    lines = head.splitlines()
    if not any(sum(prefix.match(line) is not None for line in lines) >= _FEWEST for prefix in _PREFIXES.values()):
        return []
    first = (head + stream.readline()).splitlines(keepends=True)
    return parts_of(chain(first, stream))


def parts_of(lines: Iterable[bytes]) -> list[Part]:
    """Returns the parts of a log of several processes, in the order of their names; none of another text."""
    often: dict[str, Counter[bytes]] = {layer: Counter() for layer in _LAYERS}
    count = 0
    for line in lines:
        count += bool(line.strip())
        for layer, pattern in _PREFIXES.items():
            if name := pattern.match(line):
                often[layer][name[0].strip()] += 1
        if all(len(names) > _MOST for names in often.values()):
            return []
    for layer, names in often.items():
        if 1 < len(names) <= _MOST and min(names.values()) >= _FEWEST and names.total() >= _NEARLY * count:
            parts = sorted((Part(layer, name) for name in names), key=lambda part: (part.rank or 0, part.label))
            return [Part(part.layer, part.prefix, number == 0) for number, part in enumerate(parts)]
    return []
