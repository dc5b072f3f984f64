"""Members of a document other than its events, and the types of the two functions that receive a document's content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch

from .events import Events

#: Greatest number of bytes of a member; a longer one (an ftrace text) is skipped in bounded memory.
LARGEST_MEMBER = 32 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the top-level object: its key, its JSON text (repaired if necessary), where the text begins."""

    key: str
    text: bytes
    byte: int

    def value(self, number: Callable[[str], Any] = float) -> Any:
        """Parses the value; `number` converts numbers with a point or an exponent. Returns the text if Python can't."""
        try:
            return json.loads(self.text, parse_float=number)
        except ValueError:  # a whole number of thousands of digits
            return self.text.decode("utf-8", "replace")


#: Makes rows from events.
RowsOf = Callable[[Events, Conversion], Iterator[Batch]]
#: Makes rows, usually facts, from a member.
MemberOf = Callable[[Member, Conversion], Iterable[Batch]]
