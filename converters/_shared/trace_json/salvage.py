"""Reads a damaged list element by element: valid elements are kept, the others repaired or given up.

{"ph": "X", "name": "f("a")", "args": {"x": nan}},   {"ph": "X", ...     and here the file ends
 refused by the parser, repaired                ^ where `walk` ends     ^ a cut
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from ..columnar.decoding import is_utf8
from .chunks import Text
from .grammar import Nest, Value, own_key, value_at
from .json_values import elements_of, members_of
from .repair import Repair, mend, mend_value
from .walk import EVENT, GOES_ON, Rule, Walked, walk

#: Bytes of a broken element that are examined: at first, at most, and in any case.
LOOKED_AT = 1 << 11
MOST_LOOKED_AT = 1 << 24
LEAST_LOOKED_AT = 1 << 14

#: Text that isn't an element, up to text that may begin one.
_STRAY = re.compile(rb'(?:"[^"\\\r\n{}]*(?:\\.[^"\\\r\n{}]*)*"?|[^,{\[\]"])+|["\[]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
#: What follows an element.
_FOLLOWED = re.compile(rb"[\s}]*(?:,\s*(?:[{\[\],]|null|\Z)|[{\]]|\Z)")
#: The begin of an event.
_BEGIN = re.compile(rb"[\s,]" + EVENT.pattern)
_PHASE = frozenset((b"ph",))

#: Levels of nesting, of the interpreter's limit (1000), that are reserved for the callers that process a text further.
_SPARE = 100


@dataclass
class Salvaged:
    """Elements as JSON texts, `false` for one that was given up; `repairs` have positions in the document.

    `ended`: the text is at the list's bracket. `resumed`: the last element was given up, together with the separator
    after it.
    """

    elements: list[bytes] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    lost: list[Repair] = field(default_factory=list)
    ended: bool = False
    resumed: bool = False


def salvage(text: Text, end: int, *, lines: bool = False, known: Value | None = None) -> Salvaged:
    """Takes the elements that begin before `end`, as far as they can be read. `lines`: no commas are expected.

    `known` is an element that has already been examined.
    """
    found = Salvaged()
    while text.pos < end:
        commas = _separators(text)
        first = text.peek()
        fault = _fault(commas, int(bool(found.elements)), first)
        if fault and not lines and not found.resumed:
            found.repairs.append(Repair("json-repair", text.pos, fault))
        if not first:
            break
        if first == b"]":
            found.ended = True
            break
        found.resumed = False
        value = known if known and known.start == text.pos else value_at(text, text.pos, _allowed(text, text.largest))
        if not value.fault and first == b"{" and text.match(GOES_ON, value.end) > value.end:
            value = value._replace(fault="broken")  # by a surplus brace
        if not value.fault:
            _take_whole(text, value, found)
        elif first == b"{":
            _take_broken(text, value, found)
        else:
            _take_stray(text, found)
    return found


def _fault(commas: int, wanted: int, after: bytes) -> str:
    """What is wrong with this number of commas before a byte, '' for nothing."""
    if after == b"]":
        return "a comma after the last event" if commas else ""
    if not after or commas == wanted:
        return ""
    return "a surplus comma" if commas > wanted else "a comma is missing"


def _separators(text: Text) -> int:
    """Goes to the next element, and returns the number of commas before it."""
    commas = 0
    while True:
        after = text.match(_SEPARATORS, text.pos)
        commas += text.part(text.pos, after).count(b",")
        text.pos = after
        if after < text.end or not text.more():
            return commas


def _allowed(text: Text, most: int) -> int:
    """Bytes that may be examined in vain: `most` once, then as many as were read, so that the time stays linear."""
    return max(LEAST_LOOKED_AT, min(most, most + 2 * text.pos - text.wasted))


def _take_whole(text: Text, value: Value, found: Salvaged) -> None:
    """An element that the grammar allows."""
    content = text.part(value.start, value.end)
    text.pos = value.end
    if (content[:1] not in b"{[" and content != b"null") or not _is_shallow(content):
        _lose(found, Repair("bad-record", value.start, _shown(content)))
    elif is_utf8(content):
        found.elements.append(content)
    elif not _keep(found, value.start, *mend(content)):
        _lose(found, Repair("bad-record", value.start, _shown(content)))


def _take_broken(text: Text, value: Value, found: Salvaged) -> None:
    """An object that the parser refuses."""
    start = text.pos
    shown = _shown(text.part(start, min(start + 60, text.end)))
    if value.fault == "broken":
        end = _mended(text, value, found)
        if end > start:
            text.pos = end
            return
    elif value.fault == "deep":
        end = -_end_by_brackets(text)
        shown = f"nested too deeply: {shown}"
    else:  # the examined part is JSON
        text.wasted += value.end - start
        end = -start
    if end < -start:
        text.pos = -end
    else:
        text.pos = start + 1
        _resume(text)
        found.resumed = True
    at_end = text.ended and text.pos == text.end
    _lose(found, Repair("cut" if at_end else "bad-record", start, shown))


def _mended(text: Text, value: Value, found: Salvaged) -> int:
    """Takes a broken object if it can be repaired, and returns its end; if it can't be, the end negated.

    If the end isn't known either, returns its begin negated.
    """
    start, fault = value.start, value.end - value.start
    size = LOOKED_AT + 2 * fault
    most = max(size, _allowed(text, MOST_LOOKED_AT))
    while True:
        while text.end - start < size and text.more():
            pass
        piece = text.part(start, min(text.end, start + size))
        last = text.ended and start + len(piece) == text.end
        broken_off = _broken_off(piece, fault)
        if broken_off > 0:
            return -(start + broken_off)
        ends = []
        for walked in _candidates(piece, last=last):
            for way in mend_value(piece[: walked.end]) if walked.closed else ():
                if _keep(found, start, *way):
                    return start + walked.end
            ends.append(walked.end)
            if not walked.closed:
                break
        if ends:
            return -(start + min(ends))
        if last or size > most:
            text.wasted += len(piece)
            return -start
        size *= 4


def _broken_off(piece: bytes, fault: int) -> int:
    """Where the object ends if a valid event begins inside its seeming last text before the fault; else -1.

    {"ph": "X", "name": "a},
    {"ph": "X", "name": "b"},         the parser stumbles over the first ph of this line
    """
    quote = piece.rfind(b'"', 0, max(piece.rfind(b'"', 0, fault), 0))
    begin = _BEGIN.search(piece, max(quote, 1))
    if not begin or begin.start() > fault + 1 or not _is_event(piece[begin.start() + 1 :]):
        return -1
    return len(piece[: begin.start()].rstrip(b" \t\r\n,"))


def _is_event(text: bytes) -> bool:
    """Whether a text begins with a valid object that has a phase."""
    if own_key(text, _PHASE) != b"ph":
        return False
    try:
        members_of(text)
    except msgspec.DecodeError as error:
        return "trailing characters" in str(error)
    except (RecursionError, UnicodeDecodeError):
        return False
    return True


def _candidates(piece: bytes, *, last: bool) -> list[Walked]:
    """The possible ends of the object at the begin of a text, the likeliest first; `last`: nothing follows the text."""
    found: list[Walked] = []
    for rule in Rule:
        walked = walk(piece, rule)
        if walked and _may_end(piece, walked.end, last=last):
            if walked.steady and rule is Rule.PLAIN:
                return [walked]
            found.append(walked)
    steady = [walked for walked in found if walked.steady]
    return sorted(steady or found, key=lambda walked: walked.end)


def _may_end(piece: bytes, end: int, *, last: bool) -> bool:
    """Whether the text after `end` may follow an element."""
    if end > len(piece) - 64 and not last:
        return False
    found = _FOLLOWED.match(piece, end)
    return found is not None and (found.end() < len(piece) or last)


def _keep(found: Salvaged, start: int, content: bytes, repairs: list[Repair]) -> bool:
    """Takes a repaired element; returns False if it still isn't JSON."""
    if not is_json(content):
        return False
    found.elements.append(content)
    found.repairs += (repair._replace(place=start + repair.place) for repair in repairs)
    return True


def _resume(text: Text) -> None:
    """Goes to the next valid event, or to the end of the document; drops the text between."""
    at = text.pos
    while True:
        found = text.search(_BEGIN, at)
        if found < 0 or (found > text.end - LEAST_LOOKED_AT and not text.ended):
            at = text.pos = max(text.pos, min(found if found >= 0 else text.end, text.end - 64))
            if text.more():
                continue
            if found < 0:
                text.pos = text.end
                return
        value = value_at(text, found + 1, _allowed(text, MOST_LOOKED_AT))
        if not value.fault and own_key(text.part(found + 1, value.end), _PHASE) == b"ph":
            text.pos = found + 1
            return
        text.wasted += value.end - value.start
        at = found + 1


def _end_by_brackets(text: Text) -> int:
    """The end of an object that is nested too deeply, by its brackets alone; its begin if no end is found."""
    start, at, nest = text.pos, text.pos, Nest()
    most = _allowed(text, MOST_LOOKED_AT)
    while at < start + most:
        block = text.view(at, min(text.end, start + most))
        if (end := nest.end(block)) >= 0:
            return at + end
        at += len(block)
        if at == text.end and not text.more():
            break
    text.wasted += at - start
    return start


def _take_stray(text: Text, found: Salvaged) -> None:
    """Takes text that isn't an element."""
    start = text.pos
    while text.match(_STRAY, start) == text.end and text.end - start < LEAST_LOOKED_AT and text.more():
        pass
    text.pos = max(text.match(_STRAY, start), start + 1)
    content = text.part(start, text.pos).strip()
    if content == b"[":
        found.repairs.append(Repair("json-repair", start, "a list begins within the list"))
    else:
        _lose(found, Repair("bad-record", start, _shown(content)))


def _lose(found: Salvaged, loss: Repair) -> None:
    found.elements.append(b"false")
    found.lost.append(loss)


def _shown(text: bytes) -> str:
    return text[:60].decode(errors="replace")


def _is_shallow(text: bytes) -> bool:
    """Whether a text isn't nested so deeply that a caller of ours, some stack frames up, couldn't parse it."""
    if text.count(b"[") + text.count(b"{") <= _SPARE:
        return True
    try:
        elements_of(b"[" * _SPARE + text + b"]" * _SPARE)
    except RecursionError:
        return False
    return True


def is_json(text: bytes) -> bool:
    """Whether it is a JSON value with valid UTF-8, not nested too deeply."""
    try:
        members_of(text) if text[:1] == b"{" else msgspec.json.decode(text)
        return _is_shallow(text) and is_utf8(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
