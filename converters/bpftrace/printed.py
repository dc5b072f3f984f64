"""Maps as bpftrace prints them by default, as text."""

from __future__ import annotations

import re

from ktrace.kit.text.lines import Lines

from . import BUCKET, HEAD, STATS, WHOLE
from .maps import Bucket, Maps

_BOUND = re.compile(r"(-?\d{1,20})([KMGTPE]?)")
_POINT = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d{3,9})?) [|*][ .*]{51}[|*] (\S{1,40})")
_FRAME = re.compile(r"<no data>|hh:mm:ss(?:\.[nmu]s)? +\|_+\||\s+v_+v|\s+-?\d{1,20}\s+-?\d{1,20}")
_CLOCK_TIME = re.compile(r"\d\d:\d\d:\d\d")

#: The most lines of a stack.
_DEEPEST = 2048
_POWERS = {letter: 1 << 10 * power for power, letter in enumerate(("", *"KMGTPE"))}


class Text:
    """Maps as text. What else a script prints is left out, as unrecognised."""

    def __init__(self, lines: Lines, maps: Maps) -> None:
        self._lines = lines
        self._maps = maps
        self._head: tuple[str, str | None] = ("", None)
        self._stack: list[str] = []
        self._block: list[re.Match[str] | None] = []

    def add(self, text: str) -> None:
        """Adds a line."""
        if self._stack:
            self._in_stack(text)
        elif self._block:
            self._in_block(text)
        elif text.startswith("@") and (match := HEAD.fullmatch(text)):
            self._begin(match)
        elif not text.strip() or text == "^C":
            self._lines.structure()
        else:
            self._maps.begin()
            if _CLOCK_TIME.fullmatch(text):
                self._maps.time = text
                self._lines.became("folded")

    def _begin(self, match: re.Match[str]) -> None:
        name, key, value = match[1], match["key"], match["value"]
        if key is not None:
            inner, bracket, value = key.rpartition("]: ") if not key.endswith("]:") else (key[:-2], "]:", "")
            if not bracket:
                self._begin_stack(name, key)
                return
            key = inner
        self._entry(name, key, value.strip(), 1)

    def _entry(self, name: str, key: str | None, value: str, lines: int) -> None:
        """Adds an entry, or waits for its histogram or series."""
        if WHOLE.fullmatch(value):
            self._maps.number(name, key, int(value))
        elif match := STATS.fullmatch(value):
            self._maps.stats(name, key, *map(int, match.groups()))
        elif value:
            self._maps.note(name, key, value)
        elif self._is_block(self._lines.peek()):
            self._head = name, key
            self._block = [None] * lines
            self._lines.defer()
            return
        else:
            self._lines.structure(lines)
            return
        self._maps.write()
        self._lines.used(lines)

    def _begin_stack(self, name: str, first: str) -> None:
        """Waits for the end of a key that has a stack, if it has one."""
        ahead = 1
        while (text := self._lines.peek(ahead)) is not None and ahead <= _DEEPEST:
            if text.startswith((",", "]")) and "]:" in text:
                self._head, self._stack = (name, None), [first]
                self._lines.defer()
                return
            if text.strip() and not text.startswith((" ", "\t", ",")):
                return
            ahead += 1
        if text is None:
            self._lines.skip("cut", "an unterminated stack")

    def _in_stack(self, text: str) -> None:
        if not (text.startswith((",", "]")) and "]:" in text):
            self._stack.append(text)
            self._lines.defer()
            return
        tail, _, value = text.rpartition("]:")
        key, lines = "\n".join((*self._stack, tail)), len(self._stack) + 1
        self._stack = []
        self._entry(self._head[0], key, value.strip(), lines)

    @staticmethod
    def _is_block(text: str | None) -> bool:
        return text is not None and bool(BUCKET.fullmatch(text) or _POINT.fullmatch(text) or _FRAME.fullmatch(text))

    def _in_block(self, text: str) -> None:
        self._block.append(BUCKET.fullmatch(text) or _POINT.fullmatch(text))
        if self._is_block(self._lines.peek()):
            self._lines.defer()
            return
        matches = [match for match in self._block if match]
        if matches and matches[0].re is BUCKET:
            self._maps.histogram(*self._head, [_bucket(match) for match in matches if match.re is BUCKET])
        else:
            points = {match[1]: int(match[2]) if WHOLE.fullmatch(match[2]) else match[2] for match in matches}
            self._maps.note(*self._head, {at: value for at, value in points.items() if value != "-"})
        self._maps.write()
        self._lines.used(len(self._block))
        self._block = []


def _bucket(match: re.Match[str]) -> Bucket:
    """A bucket of text: `[8K, 16K)`, `[1]` for one value, `(..., 0)` and `[100, ...)` for open ends."""
    bounds = [_bound(bound.strip()) for bound in match[2].split(",")]
    if len(bounds) == 1:
        only = bounds[0]
        return Bucket(only, only + 1 if type(only) is int else only, int(match[3]))
    return Bucket(bounds[0], bounds[1], int(match[3]))


def _bound(text: str) -> int | str | None:
    """A bound as a number; None for an open end, the text of what isn't a number, such as a member of an enum."""
    if text == "...":
        return None
    match = _BOUND.fullmatch(text)
    return int(match[1]) * _POWERS[match[2]] if match else text
