"""Repairs invalid JSON that real tools write, and reads damaged lists element by element.

    mend            token by token: "blocks per SM": -nan(ind), "path": "C:\\Work", {"a": 1,}, 007, +1, .5, 0x1f,
                    "datatype": ncclFloat32, raw control bytes in texts, bytes that aren't UTF-8
    mend_words      bare nan and inf alone, in a whole chunk, ten times as fast
    mend_value      of a value whose end is known: as `mend`, or first quotes in texts: "f<"a">"
    shallow         by brackets: [[[[...]]]] in more than 200 others
    mended_at       where a parser stops: "time": two words, "a": 1       "name": "gemm, "time": 1
    mend_document   `shallow` and `mend`; if that isn't enough, `mended_at` again and again between them

A repair is a guess: it is used only if the text is JSON afterwards, and each one is reported with its place.

`salvage` keeps the valid elements of a list, mends what tools break, and gives up the rest:

    an element that                            becomes
    is valid                                   itself, with `mend` if it isn't UTF-8
    is a document with a list of events        the start of that list, which continues this one
    is an object that the parser refuses       what `mend_value` makes of it up to a likely end; else lost
    is valid, and goes on: `}, "key":`         itself; the rest is lost
    is nested too deeply                       lost, up to its end by brackets
    doesn't end within the bytes allowed       lost, up to the next valid event
    is anything else                           lost, up to what may begin an element

A likely end of a broken object is that by its brackets, or before the next valid event. What is lost ends there: a
fault costs the event that it hits. An event that is an argument of a broken one may be taken for the next. What is
examined in vain is counted, so that the time is in proportion to the text (`_within`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ktrace.byte_account import Owner
from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import is_utf8
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.report import Report

from .chunks import Nest, Text, Value, find_key, object_end, own_key, unescaped_quotes, value_at
from .events import elements_of, members_of


class Repair(NamedTuple):
    """A repair: the kind of issue, the position in the unrepaired text, and what was done."""

    kind: str
    place: int
    detail: str


_TOKEN = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
    rb"|[-+]?(?:\.?\d[\w.+\-]*(?:#\w+)?|[A-Za-z_][\w.]*(?:\(\w*\))?)"
    rb"|,(?=\s*[,}\]])",
    re.DOTALL,
)
_ODD = re.compile(rb"[\\\x00-\x1f]")
_CONTROL = re.compile(rb"[\x00-\x1f]")
_CONTROLS = [bytes([byte]) for byte in range(0x20)]
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|)')
_RIGHT_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_SURROGATES = re.compile(rb"(?i)\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\ud[89a-f][0-9a-f]{2}")
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LOOSE_NUMBER = re.compile(rb"\+?(-?)(\d*)(?:\.(\d*))?([eE][-+]?\d+)?")
_BARE_WORD = re.compile(rb"(?<=[\s:,\[])-?(?:nan(?:\(ind\))?|NaN|inf|Infinity)(?=\s*[,}\]])")
_NAME = re.compile(rb"[A-Za-z_][\w.]*")
_HEX = re.compile(rb"0[xX][0-9a-fA-F]{1,16}")
#: Lists and objects in which a value may be; Python's own limit depends on how deep its stack is.
_DEEPEST = 200
_WORDS = {b"true": b"true", b"false": b"false", b"null": b"null", b"none": b"null", b"undefined": b"null"}

#: What stands where a value should be or go on; what follows the quote of a key; the end of a text without its quote.
_STRAY_WORDS = re.compile(r"[^\s,:\[\]{}\"]+(?:[ \t]+[^\s,:\[\]{}\"]+)*")
_KEY_REST = re.compile(r'[^"\n]{0,400}"\s*:')
_BRACKETS = "{}[] \t\r\n"

#: What no bare word contains.
_BORDERS = ' \t\r\n,:[]{}"'

#: Characters before a fault that are looked at.
_BEFORE = 400

#: The most characters that are decoded again because of faults; a copy of the text takes a 64th of that time, a repair
#: that of so many.
MOST_AGAIN, A_REPAIR = 1 << 26, 4096
_PARSER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)

_BARE_QUOTE = re.compile(rb'(\\.)|(")', re.DOTALL)

#: A quote that may end a text, by what follows it; and the same with what a backslash escapes before it.
_END = rb'"(?=\s*(?:[:}\]]|,\s*(?:[-\d\[{tfn}]|"[^"\\]*"\s*[:,\]])|\Z))'
_ENDS = (re.compile(rb"\\.|" + _END, re.DOTALL), re.compile(_END))
_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


def mend_words(text: bytes) -> tuple[bytes, list[Repair], list[int]]:
    """Turns bare nan and inf into texts: as `mend` does, but ten times as fast if nothing else is wrong.

    Also returns by how many bytes each repair made the text longer.
    """
    repairs: list[Repair] = []
    grown: list[int] = []
    pieces: list[bytes] = []
    words = _bare_words(text)
    if not words:
        return text, [], []
    quotes = unescaped_quotes(np.frombuffer(text, np.uint8))
    after = 0
    for word in words:
        if np.searchsorted(quotes, word.start()) % 2 == 0:
            better = _scalar(word[0])
            pieces += (text[after : word.start()], better)
            after = word.end()
            repairs.append(Repair("json-repair", word.start(), f"{word[0].decode()} read as {better.decode()}"))
            grown.append(len(better) - len(word[0]))
    return b"".join((*pieces, text[after:])), repairs, grown


def _bare_words(text: bytes) -> list[re.Match[bytes]]:
    """The matches of `_BARE_WORD`, found by their letters: a search for the pattern takes fifty times as long."""
    matches: list[re.Match[bytes]] = []
    for word in (b"nan", b"NaN", b"inf", b"Infinity"):
        at = text.find(word)
        while at >= 0:
            if match := _BARE_WORD.match(text, at - (text[at - 1 : at] == b"-")):
                matches.append(match)
            at = text.find(word, at + 1)
    return sorted(matches, key=lambda match: match.start())


def mend(text: bytes) -> tuple[bytes, list[Repair]]:
    """Repairs everything that is unambiguous; returns the text and the repairs."""
    repairs: list[Repair] = []

    def mended(match: re.Match[bytes]) -> bytes:
        token = match[0]
        first = token[:1]
        if first == b'"':
            better, detail = _text(token) if _ODD.search(token) else (token, "")
        elif first == b",":
            better, detail = b"", "a surplus comma"
        else:
            better = _scalar(token)
            detail = f"{token.decode(errors='replace')} read as {better.decode()}"
        if better != token:
            repairs.append(Repair("json-repair", match.start(), detail))
        return better

    better = _TOKEN.sub(mended, text)
    try:
        better.decode()
    except UnicodeDecodeError as error:
        repairs.append(Repair("encoding", error.start, f"{error.object[error.start : error.end]!r}"))
        better = better.decode(errors="replace").encode()
    return better, repairs


def mend_document(text: bytes) -> tuple[bytes, list[Repair]]:
    """Repairs a whole document that can't be decoded for one odd value: as `mend`, and without the deepest lists.

    If that isn't enough, values that can't be read are null.
    """
    flat, nests, _ = shallow(text)
    whole, repairs = mend(flat)
    try:
        decode_document(whole)
    except NOT_JSON:
        sound, faults = _without_faults(flat)
        whole, repairs = mend(sound) if faults else (whole, repairs)
        repairs = faults + repairs
    return whole, nests + repairs


def _without_faults(text: bytes) -> tuple[bytes, list[Repair]]:
    """Repairs a document where the parser stops, again and again; no repairs if that doesn't make it JSON."""
    mended, repairs, spent = text.decode(errors="replace"), [], 0
    left = len(mended) + 1
    while spent < MOST_AGAIN:
        try:
            _PARSER.decode(mended)
        except json.JSONDecodeError as error:
            change = mended_at(mended, error.pos) if len(mended) - error.pos < left else None
            if change is None:
                break
            left = len(mended) - error.pos
            repairs.append(Repair("json-repair", len(mended[: change.start].encode()), change.detail))
            mended = change.apply(mended)
            spent += error.pos + (len(mended) >> 6) + A_REPAIR
        except RecursionError:
            break
        else:
            return mended.encode(), repairs
    return text, []


class Change(NamedTuple):
    """Characters of a text that are replaced."""

    start: int
    end: int
    better: str
    detail: str

    def apply(self, text: str) -> str:
        """The changed text."""
        return text[: self.start] + self.better + text[self.end :]


def mended_at(text: str, at: int) -> Change | None:
    """The repair of a JSON text at the place where Python's parser stops; None if nothing is known there.

    A bare word, or what no value is, becomes a text or null. A text that runs on to the next key ends before it.
    """
    before = text[max(0, at - _BEFORE) : at]
    if text[at : at + 1] == '"' and text.find('"', at + 1) < 0:
        return _missing_quote(text, at + 1, len(text))
    if before.rstrip()[-1:] == '"' and (end := at - len(before) + len(before.rstrip()) - 1) > 0:
        begin = text.rfind('"', 0, end) + 1
        change = _missing_quote(text, begin, end) if begin and _KEY_REST.match(text, at) else None
        return change if change and "," in text[change.start : end] else None
    if text[at : at + 1] == "\\":
        return Change(at, at, "\\", "a backslash that doesn't start an escape sequence")
    trimmed = before.rstrip(" \t")
    word = next((size for size, one in enumerate(reversed(trimmed)) if one in _BORDERS), len(trimmed))
    start = at - (len(before) - len(trimmed)) - word if word else at
    stray = _STRAY_WORDS.match(text, start)
    if not stray or stray.end() <= at:
        return None
    better = _scalar(stray[0].encode()).decode()
    try:
        json.loads(better, parse_int=str)
    except ValueError:
        better = "null"
    return Change(start, stray.end(), better, f"{stray[0][:60]} read as {better[:60]}")


def _missing_quote(text: str, begin: int, end: int) -> Change | None:
    """The quote after a text that seems to end at `end`: before the brackets and commas there that aren't its own."""
    least = max(begin, end - _BEFORE)
    tail = text[least:end].rstrip(_BRACKETS)
    tail = tail[:-1].rstrip(_BRACKETS) if tail.endswith(",") else tail
    comma = text.find(",", least + len(tail), end)
    between = text[least:comma]
    balanced = comma >= 0 and all(between.count(one) == between.count(other) for one, other in ("[]", "{}"))
    at = begin + len(text[begin:comma].rstrip()) if balanced else least + len(tail)
    return Change(at, at, '"', "a text without its end")


def whole_document(source: Source, report: Report) -> bytes:
    """The bytes of a document that is decoded as a whole, without a byte order mark.

    Raises DamagedInput where it is larger than the limit `value`.
    """
    with source.open() as stream:
        text = current().whole(stream, source.path)
    report.bytes.take_whole(len(text))
    return text.removeprefix(b"\xef\xbb\xbf")


def decode_whole(
    source: Source, report: Report, damaged: Callable[[str], DamagedInput], says: str = "isn't JSON"
) -> Any:
    """The value of a document that is decoded as a whole, after repairs. Raises what `damaged` makes of the reason."""
    try:
        return decode_mended(whole_document(source, report), report)
    except NOT_JSON as error:
        raise damaged(f"{says}: {error}") from None


def decode_mended(text: bytes, report: Report) -> Any:
    """The value of a document, after repairs, which are reported with their places. Raises as `NOT_JSON` says."""
    try:
        return decode_document(text)
    except NOT_JSON:
        whole, repairs = mend_document(text)
        value = decode_document(whole)
    for repair in repairs:
        report.issue(repair.kind, f"byte {repair.place}", repair.detail)
    return value


#: What each byte outside of texts adds to the depth.
_STEP = np.zeros(256, np.int8)
_STEP[[*b"[{"]], _STEP[[*b"]}"]] = 1, -1


def shallow(text: bytes) -> tuple[bytes, list[Repair], bool]:
    """Replaces lists and objects in more than `_DEEPEST` others by a text; also returns whether all of these end."""
    cells = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(_STEP[cells])
    places = places[np.searchsorted(unescaped_quotes(cells), places) % 2 == 0]
    steps = _STEP[cells[places]]
    depth = np.cumsum(steps, dtype=np.int64)
    begins = places[(depth == _DEEPEST + 1) & (steps > 0)].tolist()
    ends = (places[(depth == _DEEPEST) & (steps < 0)] + 1).tolist()
    pieces: list[bytes] = []
    after = 0
    for begin, end in zip(begins, [*ends, len(text)], strict=False):
        pieces += (text[after:begin], b'"[nested too deeply]"')
        after = end
    detail = f"a list or object in more than {_DEEPEST} others was left out"
    repairs = [Repair("json-repair", begin, detail) for begin in begins]
    return b"".join((*pieces, text[after:])), repairs, len(ends) >= len(begins)


def mend_quotes(text: bytes, bare: list[tuple[int, int]]) -> tuple[bytes, list[Repair]]:
    """Escapes the bare quotes inside some of the texts (start and end of each)."""
    repairs: list[Repair] = []
    pieces: list[bytes] = []
    after = 0
    for start, end in bare:
        better = text[start:end]
        if b"\\" in better:
            better = _BARE_QUOTE.sub(lambda quote: quote[1] or b'\\"', better)
        else:  # as above, without an object for each quote
            better = better.replace(b'"', b'\\"')
        if (len(better) - len(better.rstrip(b"\\"))) % 2:
            better += b"\\"
        repairs.append(Repair("json-repair", start, "a quote within a text"))
        pieces += (text[after:start], better)
        after = end
    return b"".join((*pieces, text[after:])), repairs


def mend_value(text: bytes) -> Iterator[tuple[bytes, list[Repair]]]:
    """Yields the possible repairs of a value whose end is known, the likeliest first."""
    yield mend(text)
    for ends in _ENDS:
        if bare := _bare_texts(text, ends):
            quoted, quotes = mend_quotes(text, bare)
            whole, repairs = mend(quoted)
            yield whole, quotes + repairs


def _bare_texts(text: bytes, ends: re.Pattern[bytes]) -> list[tuple[int, int]]:
    """The texts (start and end of each) that don't end at their first quote, but where one may end."""
    spans: list[tuple[int, int]] = []
    at = text.find(b'"')
    while at >= 0:
        start = at + 1
        end = ends.search(text, start)
        while end and end[0] != b'"':
            end = ends.search(text, end.end())
        if end is None:
            break
        plain = _REST.match(text, start)
        if plain is None or plain.end() != end.start():
            spans.append((start, end.start()))
        at = text.find(b'"', end.end())
    return spans


def _text(token: bytes) -> tuple[bytes, str]:
    """Repairs raw control bytes and wrong escapes in a quoted text."""
    better = token
    if b"\\" in _RIGHT_ESCAPE.sub(b"", token):
        better = _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else b"\\\\", token)
    detail = "a backslash that doesn't start an escape sequence" if better != token else ""
    controlled = better
    for byte in _CONTROLS if _CONTROL.search(better) else ():
        controlled = controlled.replace(byte, b"\\u%04x" % byte[0])
    detail = "a control byte within a text" if controlled != better else detail
    paired = _SURROGATES.sub(_pair, controlled)
    detail = "half of a surrogate pair" if paired != controlled else detail
    return paired, detail


def _pair(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(match[0]) == len("\\ud800") else match[0]


def _scalar(token: bytes) -> bytes:
    """A bare word or number as JSON, another name as text; unchanged if its meaning is unknown."""
    if _NUMBER.fullmatch(token):
        return token
    word = token.lower().lstrip(b"+-")
    sign = b"-" if token[:1] == b"-" else b""
    if word in _WORDS and not sign:
        return _WORDS[word]
    if word.startswith(b"nan") or "#IND" in (loud := token.decode(errors="replace").upper()) or "#QNAN" in loud:
        return b'"NaN"'
    if word in (b"inf", b"infinity") or "#INF" in loud:
        return b'"%sInfinity"' % sign
    if _HEX.fullmatch(token):
        return b"%d" % int(token, 16)
    number = _LOOSE_NUMBER.fullmatch(token)
    if number and (number[2] or number[3]):
        parts = b"." + number[3] if number[3] else b""
        return number[1] + (number[2].lstrip(b"0") or b"0") + parts + (number[4] or b"")
    return b'"%s"' % token if _NAME.fullmatch(token) else token


#: Bytes of a broken element that are examined: at first, at most, and in any case.
LOOKED_AT = 1 << 11
MOST_LOOKED_AT = 1 << 24
LEAST_LOOKED_AT = 1 << 14

#: Text that isn't an element, up to text that may begin one.
_STRAY = re.compile(rb'(?:"[^"\\\r\n{}]*(?:\\.[^"\\\r\n{}]*)*"?|[^,{\[\]"])+|["\[]', re.DOTALL)
_SEPARATORS = re.compile(rb"[\s,]*")

#: The start of an event, an object whose first key is one of events; the same after what may precede it in a list.
_MEMBER = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:'
EVENT = re.compile(rb"\{\s*" + _MEMBER)
BEGIN = re.compile(rb"[^\[:]" + EVENT.pattern)
_HEADLESS = re.compile(_MEMBER)
PHASE = frozenset((b"ph",))

#: How an object continues after a value; the end of a list of events; a brace that may end a broken object.
_GOES_ON = re.compile(rb'\s*,\s*"[^"\\]*"\s*:')
_LIST_END = re.compile(rb'\s*\]\s*(?:,\s*"[^"\\]*"\s*:|\}|\Z)')
_IN_PLACE = re.compile(rb":\s*(?=" + EVENT.pattern + rb")")
_FOLLOWING = re.compile(rb"\s*,\s*\{")
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(:\s*)?[{\[]|[}\]]', re.DOTALL)
_AFTER_TEXT = re.compile(rb"\s*[:,}\]]")
_BRACE, _QUOTE = b'{"'
_OBJECT_END = re.compile(rb"\}(?=\s*(?:,\s*(?:\{|\Z)|\]|\Z))")

#: How many of such braces are tried.
_MOST_ENDS = 4
_DECISIVE = frozenset((b"ph", b"traceEvents"))
_OPENING = re.compile(rb"\s*\[")

#: Levels of nesting, of the interpreter's limit (1000), that are reserved for the callers that process a text further.
_SPARE = 100


class Salvaged(msgspec.Struct):
    """Elements as JSON texts, `false` for one that was lost; `places` and `repairs` have positions in the document."""

    elements: list[bytes] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)
    repairs: list[Repair] = msgspec.field(default_factory=list)
    lost: list[Repair] = msgspec.field(default_factory=list)

    def keep(self, start: int, content: bytes, repairs: Iterable[Repair] = ()) -> bool:
        """Takes an element that was repaired, at places counted from its start; False if it still isn't JSON."""
        if not is_json(content):
            return False
        self._add(start, content)
        self.repairs += (repair._replace(place=start + repair.place) for repair in repairs)
        return True

    def lose(self, kind: str, start: int, shown: str) -> None:
        """Gives an element up."""
        self._add(start, b"false")
        self.lost.append(Repair(kind, start, shown))

    def repaired(self, place: int, detail: str) -> None:
        """States a repair of the list."""
        self.repairs.append(Repair("json-repair", place, detail))

    def _add(self, start: int, content: bytes) -> None:
        self.elements.append(content)
        self.places.append(start)


def salvage(text: Text, end: int, *, lines: bool = False, value: Value | None = None) -> Salvaged:
    """Takes the elements that begin before `end`, as far as they can be read. `lines`: no commas are expected.

    `value` is an element that has already been examined.
    """
    return _Salvage(text, value).run(end, lines=lines)


class _Salvage:
    """`resumed`: the last element was given up, together with the separator after it."""

    def __init__(self, text: Text, value: Value | None) -> None:
        self._text = text
        self._known = value
        self._found = Salvaged()
        self._resumed = False

    def run(self, end: int, *, lines: bool) -> Salvaged:
        text, salvaged = self._text, self._found
        while text.pos < end:
            commas = self._separators()
            first = text.peek()
            fault = _fault(commas, int(bool(salvaged.elements)), first)
            if fault and not lines and not self._resumed:
                salvaged.repaired(text.pos, fault)
            if first in (b"", b"]"):
                break
            self._resumed = False
            start, lost = text.pos, len(salvaged.lost)
            owner: Owner = "read"
            if first == b"{":
                owner = self._object()
            elif first == b'"' or (value := self._value()).fault:
                self._stray()
            else:
                self._keep_valid(value)
            text.own("skipped" if lost < len(salvaged.lost) else owner, max(start, text.owned))
        return salvaged

    def _separators(self) -> int:
        """Goes to the next element, and returns the number of commas before it."""
        text, commas = self._text, 0
        while True:
            after = text.match(_SEPARATORS, text.pos)
            commas += text.part(text.pos, after).count(b",")
            start, text.pos = text.pos, after
            text.own("read", start)
            if after < text.end or not text.more():
                return commas

    def _value(self) -> Value:
        text = self._text
        if self._known and self._known.start == text.pos:
            return self._known
        return value_at(text, text.pos, _allowed(text, text.largest))

    def _object(self) -> Owner:
        """An element that begins with a brace; returns whether it was read, or is structure."""
        text, value = self._text, self._value()
        if (inner := _list_within(text, value)) > 0:
            self._found.repaired(text.pos, "a document begins within the list")
            text.pos = inner
            self._resumed = True
            return "structure"
        if value.fault:
            self._broken(value)
        else:
            self._keep_valid(value)
            if text.match(_GOES_ON, value.end) != value.end:  # a surplus brace
                text.own("read", max(value.start, text.owned))
                # Gives up what follows a valid element that goes on, up to the next event.
                text.pos = text.match(_SEPARATORS, value.end)
                shown = _shown(text.part(value.end, min(value.end + 60, text.end)))
                resume(text)
                self._resumed = True
                self._found.lose("bad-record", value.end, shown)
        return "read"

    def _keep_valid(self, value: Value) -> None:
        """An element that the grammar allows."""
        content = self._text.part(value.start, value.end)
        self._text.pos = value.end
        if (content[:1] in b"{[" or content == b"null") and _is_shallow(content):
            if is_utf8(content):
                self._found._add(value.start, content)
                return
            if self._found.keep(value.start, *mend(content)):
                return
        self._found.lose("bad-record", value.start, _shown(content))

    def _broken(self, value: Value) -> None:
        """An object that the parser refuses."""
        text, start, end, shown = self._text, value.start, value.start, ""
        if value.fault == "broken":
            end, mended = self._mended(value)
            if mended:
                text.pos = end
                return
        elif value.fault == "deep":
            end, shown = _end_by_brackets(text), "nested too deeply: "
        else:  # the examined part is JSON
            text.wasted += value.end - start
        shown += _shown(text.part(start, min(start + 60, text.end)))
        text.pos = end
        if end == start:
            resume(text)
            self._resumed = True
        self._found.lose("cut" if text.ended and text.pos == text.end else "bad-record", start, shown)

    def _mended(self, value: Value) -> tuple[int, bool]:
        """Takes a broken object if it can be mended. Returns its end, or its begin if no end is known; and whether."""
        text, start, fault = self._text, value.start, value.end - value.start
        size = LOOKED_AT + 2 * fault
        most = max(size, _allowed(text, MOST_LOOKED_AT))
        while True:
            while text.end - start < size and text.more():
                pass
            piece = text.part(start, min(text.end, start + size))
            following = _next_event(piece)
            if following or size > most or (text.ended and start + len(piece) == text.end):
                break
            size *= 4
        closed, following = _by_brackets(piece, following)
        begins = [
            begin.start() + 1
            for begin, _ in zip(BEGIN.finditer(piece, fault, following), range(_MOST_ENDS), strict=False)
        ]
        limits = [len(piece[:begin].rstrip(b" \t\r\n,")) for begin in (*begins, following)]  # broken ones, a valid one
        for end in dict.fromkeys((closed, *(limits if following else _ends(piece, fault)))):
            if end and any(self._found.keep(start, *way) for way in mend_value(piece[:end])):
                _waste(text, piece, end)
                return start + end, True
        if closed and (not following or _may_end(piece, closed)):
            end = closed
        else:
            end = next(
                (end for end, begin in zip(limits, begins, strict=False) if b"\n" in piece[end:begin]), limits[-1]
            )
        _waste(text, piece, end)
        return start + end, False

    def _stray(self) -> None:
        """Text that isn't an element."""
        text, start = self._text, self._text.pos
        if text.match(_HEADLESS, start) > start:  # an event without its opening brace
            resume(text)
            self._resumed = True
            self._found.lose("bad-record", start, _shown(text.part(start, min(start + 60, text.end))))
            return
        while text.match(_STRAY, start) == text.end and text.end - start < LEAST_LOOKED_AT and text.more():
            pass
        text.pos = max(text.match(_STRAY, start), start + 1)
        content = text.part(start, text.pos).strip()
        if content == b"[":
            self._found.repaired(start, "a list begins within the list")
        else:
            self._found.lose("bad-record", start, _shown(content))


def _fault(commas: int, expected: int, after: bytes) -> str:
    """What is wrong with this number of commas before a byte, '' for nothing."""
    if after == b"]":
        return "a comma after the last event" if commas else ""
    if not after or commas == expected:
        return ""
    return "a surplus comma" if commas > expected else "a comma is missing"


def _list_within(text: Text, value: Value) -> int:
    """Where the list of events of a document begins that begins here; 0 if this isn't a document."""
    end = min(text.end, value.start + LEAST_LOOKED_AT)
    head = text.part(value.start, end if value.fault else min(end, value.end))
    key, place = find_key(head, _DECISIVE) or (b"", 0)
    begin = _OPENING.match(head, place) if key == b"traceEvents" else None
    return value.start + begin.end() if begin else 0


def _next_event(piece: bytes) -> int:
    """Where the next valid event begins after the object at the start of a text; 0 for none."""
    view, left, at = memoryview(piece), 4 * len(piece), 0
    while left > 0 and (begin := BEGIN.search(piece, at)):
        at = begin.start() + 1
        end = object_end(view[at:])  # first: to look for a key in what isn't JSON may take as long as the text is
        if end > 0 and own_key(view[at : at + end], PHASE) == b"ph":
            return at
        left -= 1 + abs(end)
    return 0


def _by_brackets(piece: bytes, following: int) -> tuple[int, int]:
    """Where the object at the start of a text is closed, 0 if it isn't; and where the next event begins, if not there.

    An event can't be a member of an object without a key before it. Where what follows a text is impossible, its quote
    may begin another one: nothing is known by brackets.
    """
    frames = bytearray()
    for match in _MARK.finditer(piece):
        mark = match[0][-1]
        if mark == _QUOTE and not _AFTER_TEXT.match(piece, match.end()):
            break
        if mark == _BRACE and frames[-1:] == b"{" and not match[1] and EVENT.match(piece, match.end() - 1):
            value = _IN_PLACE.search(piece, 1, match.end() - 1)  # of an object that breaks off before it
            return 0, value.end() if value and _is_event(memoryview(piece)[value.end() :]) else match.end() - 1
        if mark in b"{[":
            frames.append(mark)
        elif mark != _QUOTE:
            frames.pop()
            if not frames:
                return match.end(), following
    return 0, following


def _may_end(piece: bytes, end: int) -> bool:
    """Whether a list ends after an object, or a valid event follows."""
    match = _FOLLOWING.match(piece, end)
    return _LIST_END.match(piece, end) is not None or (
        match is not None and _is_event(memoryview(piece)[match.end() - 1 :])
    )


def _is_event(text: memoryview) -> bool:
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


def _ends(piece: bytes, fault: int) -> Iterator[int]:
    """The first braces from a fault on that may end the object at the start of a text."""
    return (brace.end() for brace in islice(_OBJECT_END.finditer(piece, fault), _MOST_ENDS))


def may_try(text: Text, size: int) -> bool:
    """Whether a chunk of so many bytes may be tried, which costs more than its elements if it is in vain."""
    return size <= _within(MOST_LOOKED_AT, text.pos, text.tried)


def _allowed(text: Text, most: int) -> int:
    """Bytes of an element that may be examined in vain. What was tried before, in chunks of any size, doesn't count."""
    return _within(most, text.pos, text.wasted)


def _within(most: int, pos: int, spent: int) -> int:
    """Bytes that may be examined in vain: `most` once, then as many as were read, so that the time stays linear."""
    return max(LEAST_LOOKED_AT, min(most, most + 2 * pos - spent))


def mended_object(piece: bytes) -> tuple[bytes, int, list[Repair]] | None:
    """The broken object at the start of a text, repaired: its JSON text, where it ends in the piece, the repairs.

    None if it can't be repaired, or doesn't end in the piece.
    """
    for end in dict.fromkeys((Nest().end(memoryview(piece)), *_ends(piece, 0))):
        for whole, repairs in mend_value(piece[:end]) if end > 0 else ():
            if is_json(whole):
                return whole, end, repairs
    return None


def _waste(text: Text, piece: bytes, end: int) -> None:
    """Counts what was examined of a piece, of which an element takes the bytes up to `end`; the least isn't counted."""
    text.wasted += 4 * max(len(piece) - LOOKED_AT - 3 * end, 0)


def resume(text: Text, other: re.Pattern[bytes] | None = None) -> None:
    """Goes to the next valid event, or to the end of the document; drops the text between.

    Stops before that where `other` matches.
    """
    at = text.pos
    while True:
        match = text.search(BEGIN, at)
        if other and (sooner := text.search(other, at, match + 1 if match >= 0 else None)) >= 0:
            text.pos = sooner
            return
        if match < 0 or (match > text.end - LEAST_LOOKED_AT and not text.ended):
            at = text.pos = max(text.pos, min(match if match >= 0 else text.end, text.end - 64))
            if text.more():
                continue
            if match < 0:
                text.pos = text.end
                return
        value = value_at(text, match + 1, _allowed(text, MOST_LOOKED_AT))
        if not value.fault and own_key(text.part(match + 1, value.end), PHASE) == b"ph":
            text.pos = match + 1
            return
        text.wasted += value.end - value.start
        at = match + 1


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
