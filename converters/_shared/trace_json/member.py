"""Members of a document beside its events, and the two calls that take a document's contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch

from .events import Events

#: Bytes of a member's text that are handed over at most; a longer one (an ftrace text) is passed by in bounded memory.
LARGEST_MEMBER = 32 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a top-level object: its key, its JSON text (repaired, if need be), where the text begins."""

    key: str
    text: bytes
    byte: int

    def value(self, number: Callable[[str], Any] = float) -> Any:
        """The value, with `number` made of what has a point or an exponent; the text where Python can't have it."""
        try:
            return json.loads(self.text, parse_float=number)
        except ValueError:  # a whole number of thousands of digits
            return self.text.decode("utf-8", "replace")


#: Makes rows of events.
RowsOf = Callable[[Events, Conversion], Iterator[Batch]]
#: Makes rows, as a rule facts, of a member.
MemberOf = Callable[[Member, Conversion], Iterable[Batch]]
