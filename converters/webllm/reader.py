"""Each block becomes a kernel; everything else in the text is skipped."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from ktrace.conversion import Conversion
from ktrace.converters._shared.text.lines import Lines
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: A block ends within so many lines, or it is none.
MOST_LINES = 200

_BLOCK_KEYS = ("entryPoints", "start", "end")
_MARK = re.compile(r'[{}]|\\?"entryPoints\\?"\s*(?::|$)')
_BEGIN = re.compile(r'\{\s*(?:\\?"|\})')
_BLANK = re.compile(r"\s*\Z")
_LIMIT = 1 << 62


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A kernel a block. In the report a block is a record, and the lines that hold blocks are structure."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "WebLLM"})
    rows.fact("clock", facts={"kind": "session"})
    rows.fact("device", device=0, facts={"api": "webgpu"})
    scan = _Scan(lines)
    for line in lines:
        for number, text in scan.take(line.number, line.text):
            conversion.report.record()
            _add(text, f"line {number}", rows, conversion.report)
        if lines.peek() is None:
            scan.finish()
        yield from rows.ready()
    yield from rows.rest()


@dataclass
class _Held:
    """A line that is held: its number and text, and whether it is of blocks or has nothing but brackets."""

    number: int
    text: str
    is_structure: bool = False


@dataclass(frozen=True)
class _Open:
    """A brace that is open: where it stands, and whether a JSON object may begin with it."""

    line: int
    column: int
    may_begin: bool


class _Scan:
    """Finds the innermost braces around `entryPoints`, over line ends, whatever text is around them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._held: deque[_Held] = deque()
        self._open: list[_Open] = []
        self._key = (0, 0)  # line and column of the last key `entryPoints`
        self._done_to = (0, 0)  # line and column of the end of the last block: braces around it are no block

    def take(self, number: int, text: str) -> list[tuple[int, str]]:
        """The blocks that end on this line: (line where the block begins, its text)."""
        self._lines.defer()
        held = _Held(number, text)
        self._held.append(held)
        blocks = []
        for found in _MARK.finditer(text):
            if found.group() == "{":
                self._open.append(_Open(number, found.start(), _may_begin(text, found.start())))
            elif found.group() != "}":
                self._key = (number, found.start())
            elif self._open and (block := self._close(number, found.start())):
                blocks.append(block)
        if not text.strip(" \t[]{},"):
            held.is_structure = True
        self._settle()
        return blocks

    def _close(self, number: int, column: int) -> tuple[int, str] | None:
        """The text between the innermost open brace and this one, if it is a block."""
        begin = self._open.pop()
        if not begin.may_begin or not self._done_to <= (begin.line, begin.column) < self._key:
            return None
        parts = [held for held in self._held if begin.line <= held.number <= number]
        if len(parts) == 1:  # not the whole line: an array of all blocks may be one
            text = parts[0].text[begin.column : column + 1]
        else:
            first, last = parts[0].text[begin.column :], parts[-1].text[: column + 1]
            text = "\n".join([first, *(held.text for held in parts[1:-1]), last])
        self._done_to = (number, column)
        for held in parts:
            held.is_structure = True
        return begin.line, text

    def _settle(self) -> None:
        """Lets go of the lines before the first brace that a block may begin with, and of those that are too old."""
        waiting = next((brace.line for brace in self._open if brace.may_begin), None)
        while self._held and (waiting is None or self._held[0].number < waiting or len(self._held) > MOST_LINES):
            self._let_go(self._held.popleft())
        oldest = self._held[0].number if self._held else None
        self._open = [brace for brace in self._open if oldest is not None and brace.line >= oldest]

    def _let_go(self, held: _Held) -> None:
        if held.is_structure:
            self._lines.structure()
        else:
            self._lines.skip_deferred("unrecognised", held.number, held.number)

    def finish(self) -> None:
        """To be called on the last line: what is open then is a block that breaks off."""
        begin = next((brace.line for brace in reversed(self._open) if brace.may_begin), None)
        while self._held and (begin is None or self._held[0].number < begin):
            self._let_go(self._held.popleft())
        if self._held:
            self._lines.skip_deferred("cut", self._held[0].number, self._held[-1].number, "a block that has no end")


def _may_begin(text: str, column: int) -> bool:
    """Whether a JSON object may begin with the brace: a key follows, or the line ends where JSON would break it."""
    if _BEGIN.match(text, column):
        return True
    return _BLANK.match(text, column + 1) is not None and text[:column].rstrip()[-1:] in ("", "[", ",", ":", "{")


def _add(text: str, where: str, rows: RowBuilder, report: Report) -> None:
    """Adds the kernel of a block, or reports why there is none."""
    block = _parsed(text)
    if block is None:
        report.issue("bad-record", where, "the block is no JSON")
        return
    start, end = (_nanoseconds(block.get(key)) for key in ("start", "end"))
    if start is None or end is None:
        report.issue("bad-record", where, "the block has no start or no end")
    elif end[0] < start[0]:
        report.issue("negative-duration", where, f"{end[0] - start[0]} ns")
    elif max(abs(start[0]), abs(end[0])) >= _LIMIT:
        report.issue("time-range", where)
    else:
        args = {key: value for key, value in block.items() if key not in _BLOCK_KEYS}
        for key, (_, exact) in (("start", start), ("end", end)):
            if not exact:
                report.issue("rounded", where)
                args[key] = block[key].text if isinstance(block[key], _Digits) else str(block[key])
        name = _name(block["entryPoints"], args)
        rows.event("kernel", name, ts=start[0], dur=end[0] - start[0], device=0, args=dump_json(args) if args else None)
        report.used()


class _Digits(float):
    """A float that remembers its digits: times are read from these, all else is a float as in any JSON."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _Digits:
        self = super().__new__(cls, text)
        self.text = text
        return self


def _parsed(text: str) -> dict[str, Any] | None:
    """The object of a block; one that was logged as a JSON string has its quotes escaped."""
    for candidate in (text, text.replace('\\"', '"')):
        try:
            block = json.loads(candidate, parse_float=_Digits)
        except (ValueError, RecursionError):
            continue
        if isinstance(block, dict) and "entryPoints" in block:
            return block
    return None


def _nanoseconds(value: Any) -> tuple[int, bool] | None:
    """A time in whole ns and whether it is exact. JavaScript's BigInt may stand as "123" or "123n"."""
    if isinstance(value, bool) or not isinstance(value, (int, str, _Digits)):
        return None
    try:
        digits = value.text if isinstance(value, _Digits) else str(value)
        exact = Decimal(digits.removesuffix("n"))
        whole = exact.quantize(Decimal(1), ROUND_HALF_EVEN)
    except InvalidOperation:
        return None
    if not exact.is_finite():
        return None
    return int(whole), whole == exact


def _name(entry_points: Any, args: dict[str, Any]) -> str:
    """The entry point; of several all, which then stand in args, too."""
    if isinstance(entry_points, str):
        return entry_points
    if isinstance(entry_points, list) and len(entry_points) == 1 and isinstance(entry_points[0], str):
        return entry_points[0]
    args["entryPoints"] = entry_points
    names = entry_points if isinstance(entry_points, list) else [entry_points]
    return ", ".join(map(str, names)) or "compute pass"
