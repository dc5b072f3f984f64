"""The file with the names of a run: chares, entry methods, events and figures of the user, counters.

VERSION 11.0                                  of the logs' layout
SMPMODE 2 1                                   workers of a node, and nodes
CHARE 2 "Ring" 1                              since version 9 with the dimensions of its elements
ENTRY CHARE 2 "pass(int hop)" 2 0             of chare 2; before version 9 and by vt without quotes
EVENT 40 solve
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch


@dataclass
class Names:
    """What the file of names says."""

    version: float = 0
    chares: dict[int, str] = field(default_factory=dict)
    entries: dict[int, str] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    counters: dict[int, str] = field(default_factory=dict)
    counted: int = 0
    node_size: int = 0
    nodes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def read(self, lines: Lines) -> Iterator[Batch]:
        """Reads the lines; there are no rows of them."""
        for line in lines:
            key, _, rest = line.text.partition(" ")
            try:
                table = self._line(key, rest.strip())
            except (ValueError, IndexError):
                lines.skip("bad-record", f"not as {key} is")
                continue
            if table:
                lines.became("catalog")
            elif not line.text.strip() or key in ("END", "PROJECTIONS_ID") or key.startswith("TOTAL_"):
                lines.structure()
        yield from ()

    def _line(self, key: str, rest: str) -> bool:
        """Reads what follows a word; returns whether it is known. Raises ValueError and IndexError for what is odd."""
        words = rest.split()
        if key == "VERSION":
            self.version = float(rest)
        elif key == "SMPMODE":
            self.node_size, self.nodes = whole(words[0]), whole(words[1])
        elif key == "TOTAL_PAPI_EVENTS":
            self.counted = whole(rest)
        elif key == "CHARE":
            self.chares[whole(words[0])] = _quoted(rest.removeprefix(words[0]), int(self.version >= 9))
        elif key == "ENTRY":
            chare = self.chares.get(whole(words[-2]), "")
            name = _quoted(rest.partition(words[1])[2], 2)
            self.entries[whole(words[1])] = f"{chare.removeprefix('::')}::{name}" if chare else name
        elif key in (tables := {"EVENT": self.events, "STAT": self.stats, "PAPI_EVENT": self.counters}):
            tables[key][whole(words[0])] = " ".join(words[1:])
        elif key in _FACTS:
            self.facts[_FACTS[key]] = _quoted(rest, 0)
        else:
            return key in ("MESSAGE", "USERNAME", "FUNCTION")
        return True


#: Words of the file of names -> what they are called as facts of the source.
_FACTS = {
    **{"CHARMVERSION": "version", "MACHINE": "machine", "PROCESSORS": "processors", "HOSTNAME": "hostname"},
    **{"COMMANDLINE": "command", "TIMESTAMP": "written"},
}


def _quoted(text: str, after: int) -> str:
    """A name, in quotes since version 9, without the `after` words behind it."""
    words = text.strip().rsplit(None, after) if after else [text.strip()]
    name = words[0] if len(words) > after or not after else text.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def whole(text: str) -> int:
    """A whole number. Raises ValueError for anything else, and for one that has more digits than 64 bits."""
    if len(text) > 20 or not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError(text[:20])
    return int(text)
