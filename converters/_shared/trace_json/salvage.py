"""Events of a damaged list, one by one: where one ends is tried at each place where it may, and is not believed before.

{"ph": "X", "name": "f("a")", "args": {"x": nan}},   {"ph": "X", ...     and then the file breaks off
                                                 ^ tried                                             ^ a cut
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ..decoding import is_utf8
from .chunks import Text
from .raw import elements_of, members_of
from .repair import Repair, mend, mend_all

#: Bytes that are looked at beyond an event's begin before it is given up.
MOST_LOOKED_AT = 8 << 20

#: Ends of an event that are tried.
MOST_TRIED = 24

_END = re.compile(rb'\}(?=\s*(?:,(?!\s*"(?:[^"\\]|\\.)*"\s*:)|[{\[\]]|\Z))', re.DOTALL)
_SCALAR = re.compile(rb'(?:"(?:[^"\\]|\\.)*"|[^,{\[\]"])+|["\[]', re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEXT = re.compile(rb"\s*,\s*\{")
_SEPARATORS = re.compile(rb"[\s,]*")

#: Levels of nesting, and calls, of the interpreter's limit (1000) that are left to those who go on with a text.
_SPARE = 100


@dataclass
class Salvaged:
    """Elements as JSON texts, `false` where one was given up; `repairs` have places in the document.

    `ended`: the list's bracket was met, and stands at the place where the text is. `cut`: the document's end was met.
    """

    elements: list[bytes] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    lost: list[Repair] = field(default_factory=list)
    ended: bool = False


def salvage(text: Text, end: int, *, lines: bool = False) -> Salvaged:
    """Takes the elements that begin before `end`, each as far as it can be told. `lines`: no commas are expected."""
    found = Salvaged()
    while text.pos < end:
        commas = _separators(text)
        first = text.peek()
        fault = _fault(commas, int(bool(found.elements)), first)
        if fault and not lines:
            found.repairs.append(Repair("json-repair", text.pos, fault))
        if not first:
            break
        if first == b"]":
            found.ended = True
            break
        if first == b"{":
            _take_object(text, found)
        else:
            _take_other(text, found)
    return found


def _fault(commas: int, wanted: int, after: bytes) -> str:
    """What is wrong with so many commas before a byte."""
    if after == b"]":
        return "a comma behind the last event" if commas else ""
    if not after or commas == wanted:
        return ""
    return "a comma too many" if commas > wanted else "a comma is missing"


def _separators(text: Text) -> int:
    """Goes to the next element, and returns how many commas stood before it."""
    commas = 0
    while True:
        after = text.match(_SEPARATORS, text.pos)
        commas += text.part(text.pos, after).count(b",")
        text.pos = after
        if after < text.end or not text.more():
            return commas


def _take_object(text: Text, found: Salvaged) -> None:
    """An element that begins with a brace."""
    start = text.pos
    ends: list[int] = []
    for end in _ends(text, start):
        ends.append(end)
        if _is_object(piece := text.part(start, end)):
            found.elements.append(piece)
            text.pos = end
            return
    for way in (mend, mend_all):
        for end in ends:
            piece, repairs = way(text.part(start, end))
            if _is_object(piece):
                found.elements.append(piece)
                found.repairs += (repair._replace(place=start + repair.place) for repair in repairs)
                text.pos = end
                return
    found.elements.append(b"false")
    text.pos = _best_end(text, start, ends)
    at_end = text.pos == text.end and text.ended
    detail = text.part(start, min(start + 60, text.pos)).decode(errors="replace")
    found.lost.append(Repair("cut" if at_end else "bad-record", start, detail))


def _ends(text: Text, start: int) -> Iterator[int]:
    """The places where the object that begins at `start` may end, the nearest first."""
    at = start
    for _ in range(MOST_TRIED):
        while True:
            found = text.search(_END, at)
            if 0 <= found < text.end - 64 or (found >= 0 and text.ended):
                break
            if text.end - start > MOST_LOOKED_AT or not text.more():
                found = text.search(_END, at)
                break
        if found < 0:
            return
        at = found + 1
        yield at


def _best_end(text: Text, start: int, ends: list[int]) -> int:
    """Where an event that can't be read ends most likely; the end of the window where nothing speaks for any place."""
    for end in ends:
        bare = _QUOTED.sub(b"", text.part(start, end))
        if bare.count(b"{") == bare.count(b"}") and bare.count(b"[") == bare.count(b"]"):
            return end
    return next((end for end in ends if text.match(_NEXT, end) > end), text.end)


def _take_other(text: Text, found: Salvaged) -> None:
    """An element that is no object."""
    start = text.pos
    while text.match(_SCALAR, start) == text.end and text.end - start < MOST_LOOKED_AT and text.more():
        pass
    text.pos = max(text.match(_SCALAR, start), start + 1)
    content = text.part(start, text.pos).strip()
    if content == b"null":
        found.elements.append(content)
    elif content == b"[":
        found.repairs.append(Repair("json-repair", start, "a list begins within the list"))
    else:
        found.elements.append(b"false")
        found.lost.append(Repair("bad-record", start, content[:60].decode(errors="replace")))


def _is_object(text: bytes) -> bool:
    """Whether it is a JSON object, its texts UTF-8."""
    try:
        members_of(text)
        _nested(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return is_utf8(text)


def _nested(text: bytes) -> None:
    """Raises RecursionError where a text is nested so deeply that who takes it, some calls further on, couldn't."""
    if text.count(b"[") + text.count(b"{") > _SPARE:
        elements_of(b"[" * _SPARE + text + b"]" * _SPARE)


def is_json(text: bytes) -> bool:
    """Whether it is a JSON value, its texts UTF-8."""
    try:
        elements_of(text) if text[:1] == b"[" else msgspec.json.decode(text)
        _nested(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return is_utf8(text)
