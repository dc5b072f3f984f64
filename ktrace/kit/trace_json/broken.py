"""Where a broken object ends, and which events in it are its neighbours.

{"ph": "X", "name": "a"b", "args": {"i": 1}}, {"ph": "X", ...
  a quote too many                          ^ `walk` ends here by one of its rules; the event that follows confirms it
"""

from __future__ import annotations

import re

import msgspec

from .grammar import object_end, own_key
from .json_values import members_of
from .walk import EVENT, Rule, Walked, walk

#: What follows an element.
_FOLLOWED = re.compile(rb"[\s}]*(?:,\s*(?:[{\[\],]|null|\Z)|[{\]]|\Z)")
#: The begin of an event.
BEGIN = re.compile(rb"[^\[:]" + EVENT.pattern)
#: The same after a byte that an object can't follow.
_IMPOSSIBLE = re.compile(rb"[^\s\[:,](?=\s*" + EVENT.pattern + rb")")
#: The same in place of a value.
_IN_PLACE = re.compile(rb":(?=\s*" + EVENT.pattern + rb")")
_NEXT = re.compile(rb"\s*(?:,\s*)?\{")
PHASE = frozenset((b"ph",))


def before_event(piece: bytes, fault: int, walked: Walked) -> int:
    """Where an object that is given up ends: before a valid event in it that can't be part of it."""
    view, left = memoryview(piece), 4 * len(piece)
    for pattern, first in _patterns(walked, fault):
        at = first
        while left > 0 and (begin := pattern.search(piece, at, walked.end)):
            at = begin.start() + 1
            if _is_event(view[at:]):
                return max(len(piece[:at].rstrip(b" \t\r\n,")), 1)
            left -= 1 - object_end(view[at:])
    return walked.end


def _patterns(walked: Walked, fault: int) -> list[tuple[re.Pattern[bytes], int]]:
    """What may precede such an event, and from where on."""
    if not walked.closed:  # the object breaks off: an event in place of a value is the next one
        return [(_IN_PLACE, 1), (BEGIN, fault)]
    return [(_IMPOSSIBLE, 1)] if walked.steady and not walked.bare else [(BEGIN, fault)]


def broken_off(piece: bytes, fault: int) -> int:
    """Where the object ends if a valid event begins inside its seeming last text before the fault; else -1.

    {"ph": "X", "name": "a},
    {"ph": "X", "name": "b"},         the parser stumbles over the first ph of this line
    """
    quote = piece.rfind(b'"', 0, max(piece.rfind(b'"', 0, fault), 0))
    begin = BEGIN.search(piece, max(quote, 1))
    if not begin or begin.start() > fault + 1 or not _is_event(memoryview(piece)[begin.start() + 1 :]):
        return -1
    return len(piece[: begin.start()].rstrip(b" \t\r\n,"))


def _is_event(text: bytes | memoryview) -> bool:
    """Whether a text begins with a valid object that has a phase."""
    if own_key(text, PHASE) != b"ph":
        return False
    try:
        members_of(text)
    except msgspec.DecodeError as error:
        return "trailing characters" in str(error)
    except (RecursionError, UnicodeDecodeError):
        return False
    return True


def candidates(piece: bytes, *, last: bool) -> list[Walked]:
    """The possible ends of the object at the begin of a text, the likeliest first; `last`: nothing follows the text."""
    found: list[Walked] = []
    for rule in Rule:
        walked = walk(piece, rule)
        if walked and _may_end(piece, walked.end, last=last):
            if walked.steady and rule is Rule.PLAIN:
                return [walked]
            found.append(walked)
    steady = [walked for walked in found if walked.steady or (walked.closed and event_follows(piece, walked.end))]
    return sorted(steady or found, key=lambda walked: walked.end)


def event_follows(piece: bytes, end: int) -> bool:
    """Whether a valid event begins after a comma at `end`."""
    found = _NEXT.match(piece, end)
    return found is not None and _is_event(memoryview(piece)[found.end() - 1 :])


def _may_end(piece: bytes, end: int, *, last: bool) -> bool:
    """Whether the text after `end` may follow an element."""
    if end > len(piece) - 64 and not last:
        return False
    found = _FOLLOWED.match(piece, end)
    return found is not None and (found.end() < len(piece) or last)
