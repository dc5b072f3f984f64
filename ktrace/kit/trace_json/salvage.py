"""Reads a damaged list element by element: valid elements are kept, the others repaired or given up.

{"ph": "X", "name": "f("a")", "args": {"x": nan}},   {"ph": "X", ...     and here the file ends
 refused by the parser, repaired                ^ where `walk` ends     ^ a cut
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from ktrace.kit.columnar.dictionaries import is_utf8

from .chunks import Text
from .grammar import Nest, Value, find_key, object_end, own_key, value_at
from .json_values import elements_of, members_of
from .repair import Repair, mend, mend_value
from .walk import BEGIN, EVENT, GOES_ON, PHASE, Rule, Walked, before_event, broken_off, candidates, event_follows, walk

#: Bytes of a broken element that are examined: at first, at most, and in any case.
LOOKED_AT = 1 << 11
MOST_LOOKED_AT = 1 << 24
LEAST_LOOKED_AT = 1 << 14

#: How often the bytes of a broken element are walked over: once by each rule, in pieces that get four times as long.
_WALKS = 4

#: Text that isn't an element, up to text that may begin one.
_STRAY = re.compile(rb'(?:"[^"\\\r\n{}]*(?:\\.[^"\\\r\n{}]*)*"?|[^,{\[\]"])+|["\[]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")
_DECISIVE = frozenset((b"ph", b"traceEvents"))
_OPENING = re.compile(rb"\s*\[")

#: Levels of nesting, of the interpreter's limit (1000), that are reserved for the callers that process a text further.
_SPARE = 100


@dataclass
class Salvaged:
    """Elements as JSON texts, `false` for one that was given up; `places` and `repairs` have positions in the document.

    `ended`: the text is at the list's bracket. `resumed`: the last element was given up, together with the separator
    after it.
    """

    elements: list[bytes] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
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
        start, lost = text.pos, len(found.lost)
        if first == b'"':
            _take_headless(text, found)
            text.own("read" if lost == len(found.lost) else "skipped", start)
            continue
        value = known if known and known.start == text.pos else value_at(text, text.pos, _allowed(text, text.largest))
        whole = None
        if not value.fault and first == b"{" and text.match(GOES_ON, value.end) > value.end:
            after = text.match(_SEPARATORS, value.end)
            if _headless_end(text, after) < 0 or not _has_phase(text, value):
                whole, value = value, value._replace(fault="broken")  # by a surplus brace
        if first == b"{" and (inner := _list_within(text, value)) > 0:
            found.repairs.append(Repair("json-repair", text.pos, "a document begins within the list"))
            text.pos = inner
            text.own("structure", start)
            found.resumed = True
            continue
        if not value.fault:
            _take_whole(text, value, found)
        elif first == b"{":
            _take_broken(text, value, found, whole)
        else:
            _take_stray(text, found)
        text.own("read" if lost == len(found.lost) else "skipped", max(start, text.owned))
    return found


def _has_phase(text: Text, value: Value) -> bool:
    return own_key(text.part(value.start, value.end), PHASE) == b"ph"


def _list_within(text: Text, value: Value) -> int:
    """Where the list of events of a document begins that begins here; 0 if this isn't a document."""
    end = min(text.end, value.start + LEAST_LOOKED_AT)
    head = text.part(value.start, end if value.fault else min(end, value.end))
    key, place = find_key(head, _DECISIVE) or (b"", 0)
    begin = _OPENING.match(head, place) if key == b"traceEvents" else None
    return value.start + begin.end() if begin else 0


def _take_headless(text: Text, found: Salvaged) -> None:
    """Takes an event whose opening brace is missing; else the text is stray."""
    start, end = text.pos, _headless_end(text, text.pos)
    if end < 0 or not _keep(found, start, *mend(b"{" + text.part(start, end))):
        _take_stray(text, found)
        return
    found.repairs.append(Repair("json-repair", start, "an opening brace is missing"))
    text.pos = end


def _headless_end(text: Text, start: int) -> int:
    """Where an event ends whose first key begins at `start`, without its opening brace; -1 if this isn't one."""
    size = LOOKED_AT
    while True:
        while text.end - start < size and text.more():
            pass
        piece = b"{" + text.part(start, min(text.end, start + size))
        if not EVENT.match(piece):
            return -1
        end = object_end(piece)
        if end > 0:
            return start + end - 1 if own_key(piece[:end], PHASE) == b"ph" else -1
        text.wasted -= end
        if -end < len(piece) or len(piece) <= size or size > _allowed(text, MOST_LOOKED_AT):
            return -1
        size *= 4


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
        start, text.pos = text.pos, after
        text.own("read", start)
        if after < text.end or not text.more():
            return commas


def may_try(text: Text, size: int) -> bool:
    """Whether a chunk of so many bytes may be tried, which costs more than its elements if it is in vain."""
    return size <= _within(MOST_LOOKED_AT, text.pos, text.tried)


def _allowed(text: Text, most: int) -> int:
    """Bytes of an element that may be examined in vain. What was tried before, in chunks of any size, doesn't count."""
    return _within(most, text.pos, text.wasted)


def _within(most: int, pos: int, spent: int) -> int:
    """Bytes that may be examined in vain: `most` once, then as many as were read, so that the time stays linear."""
    return max(LEAST_LOOKED_AT, min(most, most + 2 * pos - spent))


def _take_whole(text: Text, value: Value, found: Salvaged) -> None:
    """An element that the grammar allows."""
    content = text.part(value.start, value.end)
    text.pos = value.end
    if (content[:1] not in b"{[" and content != b"null") or not _is_shallow(content):
        _lose(found, Repair("bad-record", value.start, _shown(content)))
    elif is_utf8(content):
        found.elements.append(content)
        found.places.append(value.start)
    elif not _keep(found, value.start, *mend(content)):
        _lose(found, Repair("bad-record", value.start, _shown(content)))


def _take_broken(text: Text, value: Value, found: Salvaged, whole: Value | None = None) -> None:
    """An object that the parser refuses; `whole` is the valid one at its begin, if more of it seems to follow."""
    start = text.pos
    shown = _shown(text.part(start, min(start + 60, text.end)))
    if value.fault == "broken":
        end = _mended(text, value, found)
        if end > start:
            text.pos = end
            return
        if whole and -end > whole.end:
            _take_whole(text, whole, found)
            text.own("read", start)
            start = whole.end
            shown = _shown(text.part(start, min(start + 60, text.end)))
    elif value.fault == "deep":
        end = -_end_by_brackets(text)
        shown = f"nested too deeply: {shown}"
    else:  # the examined part is JSON
        text.wasted += value.end - start
        end = -start
    if end < -start:
        text.pos = -end
    else:
        text.pos = start  # a further brace may begin an event
        resume(text)
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
        cut = broken_off(piece, fault)
        if cut > 0:
            return -(start + before_event(piece, fault, Walked(cut, False, [], False)))
        ends = []
        for walked in candidates(piece, last=last):
            for way in mend_value(piece[: walked.end]) if walked.closed else ():
                if _keep(found, start, *way):
                    _waste(text, piece, walked.end)
                    return start + walked.end
            ends.append(before_event(piece, fault, walked))
            if not walked.closed or event_follows(piece, walked.end):
                break
        if ends:
            _waste(text, piece, min(ends))
            return -(start + min(ends))
        if last or size > most:
            _waste(text, piece, 0)
            return -start
        size *= 4


def mended_object(piece: bytes) -> tuple[bytes, int, list[Repair]] | None:
    """The broken object at the start of a text, repaired: its JSON text, where it ends in the piece, the repairs.

    None if it can't be repaired, or doesn't end in the piece.
    """
    walks = (walk(piece, rule) for rule in Rule)
    for end in chain([Nest().end(memoryview(piece))], (one.end for one in walks if one and one.closed)):
        for whole, repairs in mend_value(piece[:end]) if end > 0 else ():
            if is_json(whole):
                return whole, end, repairs
    return None


def _waste(text: Text, piece: bytes, end: int) -> None:
    """Counts what was examined of a piece, of which an element takes the bytes up to `end`; the least isn't counted."""
    text.wasted += _WALKS * max(len(piece) - LOOKED_AT - 3 * end, 0)


def _keep(found: Salvaged, start: int, content: bytes, repairs: list[Repair]) -> bool:
    """Takes a repaired element; returns False if it still isn't JSON."""
    if not is_json(content):
        return False
    found.elements.append(content)
    found.places.append(start)
    found.repairs += (repair._replace(place=start + repair.place) for repair in repairs)
    return True


def resume(text: Text, other: re.Pattern[bytes] | None = None) -> None:
    """Goes to the next valid event, or to the end of the document; drops the text between.

    Stops before that where `other` matches.
    """
    at = text.pos
    while True:
        found = text.search(BEGIN, at)
        if other and (sooner := text.search(other, at, found + 1 if found >= 0 else None)) >= 0:
            text.pos = sooner
            return
        if found < 0 or (found > text.end - LEAST_LOOKED_AT and not text.ended):
            at = text.pos = max(text.pos, min(found if found >= 0 else text.end, text.end - 64))
            if text.more():
                continue
            if found < 0:
                text.pos = text.end
                return
        value = value_at(text, found + 1, _allowed(text, MOST_LOOKED_AT))
        if not value.fault and own_key(text.part(found + 1, value.end), PHASE) == b"ph":
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
    found.places.append(loss.place)
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
