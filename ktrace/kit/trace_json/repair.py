r"""Repairs of damaged JSON text: invalid JSON that real tools write.

    mend            token by token: "blocks per SM": -nan(ind), "path": "C:\Work", {"a": 1,}, 007, +1, .5, 0x1f,
                    "datatype": ncclFloat32, raw control bytes in texts, bytes that aren't UTF-8
    mend_words      bare nan and inf alone, in a whole chunk, ten times as fast
    mend_value      of a value whose end is known: as `mend`, or first quotes in texts: "f<"a">"
    shallow         by brackets: [[[[...]]]] in more than 200 others
    mended_at       where a parser stops: "time": two words, "a": 1       "name": "gemm, "time": 1
    mend_document   `shallow` and `mend`; if that isn't enough, `mended_at` again and again between them

A repair is a guess: it is used only if the text is JSON afterwards, and each one is reported with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.report import Report

from .grammar import unescaped_quotes


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
_STRAY = re.compile(r"[^\s,:\[\]{}\"]+(?:[ \t]+[^\s,:\[\]{}\"]+)*")
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
    for found in words:
        if np.searchsorted(quotes, found.start()) % 2 == 0:
            better = _scalar(found[0])
            pieces += (text[after : found.start()], better)
            after = found.end()
            repairs.append(Repair("json-repair", found.start(), f"{found[0].decode()} read as {better.decode()}"))
            grown.append(len(better) - len(found[0]))
    return b"".join((*pieces, text[after:])), repairs, grown


def _bare_words(text: bytes) -> list[re.Match[bytes]]:
    """The matches of `_BARE_WORD`, found by their letters: a search for the pattern takes fifty times as long."""
    found: list[re.Match[bytes]] = []
    for word in (b"nan", b"NaN", b"inf", b"Infinity"):
        at = text.find(word)
        while at >= 0:
            if match := _BARE_WORD.match(text, at - (text[at - 1 : at] == b"-")):
                found.append(match)
            at = text.find(word, at + 1)
    return sorted(found, key=lambda match: match.start())


def mend(text: bytes) -> tuple[bytes, list[Repair]]:
    """Repairs everything that is unambiguous; returns the text and the repairs."""
    repairs: list[Repair] = []

    def mended(found: re.Match[bytes]) -> bytes:
        token = found[0]
        first = token[:1]
        if first == b'"':
            better, detail = _text(token) if _ODD.search(token) else (token, "")
        elif first == b",":
            better, detail = b"", "a surplus comma"
        else:
            better = _scalar(token)
            detail = f"{token.decode(errors='replace')} read as {better.decode()}"
        if better != token:
            repairs.append(Repair("json-repair", found.start(), detail))
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
    found, repairs, spent = text.decode(errors="replace"), [], 0
    left = len(found) + 1
    while spent < MOST_AGAIN:
        try:
            _PARSER.decode(found)
        except json.JSONDecodeError as error:
            change = mended_at(found, error.pos) if len(found) - error.pos < left else None
            if change is None:
                break
            left = len(found) - error.pos
            repairs.append(Repair("json-repair", len(found[: change.start].encode()), change.detail))
            found = change.of(found)
            spent += error.pos + (len(found) >> 6) + A_REPAIR
        except RecursionError:
            break
        else:
            return found.encode(), repairs
    return text, []


class Change(NamedTuple):
    """Characters of a text that are replaced."""

    start: int
    end: int
    better: str
    detail: str

    def of(self, text: str) -> str:
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
        found = _missing_quote(text, begin, end) if begin and _KEY_REST.match(text, at) else None
        return found if found and "," in text[found.start : end] else None
    if text[at : at + 1] == "\\":
        return Change(at, at, "\\", "a backslash that doesn't begin an escape")
    trimmed = before.rstrip(" \t")
    word = next((size for size, one in enumerate(reversed(trimmed)) if one in _BORDERS), len(trimmed))
    start = at - (len(before) - len(trimmed)) - word if word else at
    stray = _STRAY.match(text, start)
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
    own = text[least:comma]
    balanced = comma >= 0 and all(own.count(one) == own.count(other) for one, other in ("[]", "{}"))
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
    found: list[tuple[int, int]] = []
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
            found.append((start, end.start()))
        at = text.find(b'"', end.end())
    return found


def _text(token: bytes) -> tuple[bytes, str]:
    """Repairs raw control bytes and wrong escapes in a quoted text."""
    better = token
    if b"\\" in _RIGHT_ESCAPE.sub(b"", token):
        better = _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else b"\\\\", token)
    detail = "a backslash that doesn't begin an escape" if better != token else ""
    controlled = better
    for byte in _CONTROLS if _CONTROL.search(better) else ():
        controlled = controlled.replace(byte, b"\\u%04x" % byte[0])
    detail = "a control byte within a text" if controlled != better else detail
    paired = _SURROGATES.sub(_pair, controlled)
    detail = "half of a surrogate pair" if paired != controlled else detail
    return paired, detail


def _pair(found: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(found[0]) == len("\\ud800") else found[0]


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
