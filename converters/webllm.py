"""GPU timestamps of WebLLM's compute passes, logged as blocks of JSON between other text.

    [12:01:07] decode step 3
    {"entryPoints":["NT_matmul7_kernel_2"],"start":1038090240,"end":1054801920}
    {"entryPoints":["rms_norm2_kernel"],"start":1054801920,"end":1054867456}

Times are ns of a WebGPU timestamp query; browsers round them to steps of 65,536 or 100,000 ns, so that many
passes take 0 ns. A pass that ran several entry points is one block that lists all of them.

Reads each block as a kernel and skips everything else in the text.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from itertools import islice
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_BLOCK = re.compile(r'"entryPoints\\?"\s*:\s*(?:\[|\\?")')
_TIMES = (re.compile(r'"start\\?"\s*:\s*\\?"?-?\d'), re.compile(r'"end\\?"\s*:\s*\\?"?-?\d'))

#: The number of characters on either side of `entryPoints` that are searched for the block's other keys.
_REACH = 4_000

#: The number of occurrences of `entryPoints` that are examined.
_LOOKS = 100


def probe(sample: Sample) -> Match | None:
    """DIALECT if `entryPoints`, `start` and `end` are near each other."""
    text = sample.text
    if not text:
        return None
    block = None
    for block in islice(_BLOCK.finditer(text), _LOOKS):
        near = text[max(0, block.start() - _REACH) : block.end() + _REACH]
        if all(time.search(near) for time in _TIMES):
            return Match(Score.DIALECT, "has blocks with the keys entryPoints, start and end")
    return Match(Score.NEAR, "has entryPoints, but no block with start and end") if block else None


#: A block has at most this many lines; anything longer isn't read as a block.
MOST_LINES = 200

_BLOCK_KEYS = ("entryPoints", "start", "end")
_MARK = re.compile(r'[{}]|\\?"entryPoints\\?"\s*(?::|$)')
_BEGIN = re.compile(r'\{\s*(?:\\?"|\})')
_BLANK = re.compile(r"\s*\Z")
_LIMIT = 1 << 62


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each block. In the report a block is a record, and the lines of blocks are structure."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.tool_and_clock("WebLLM", "session")
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
class _Waiting:
    """A deferred line: its number and text, and whether it is part of a block or has only brackets."""

    number: int
    text: str
    is_structure: bool = False


@dataclass(frozen=True)
class _Open:
    """An open brace: its place, and whether a JSON object may begin with it."""

    line: int
    column: int
    may_begin: bool


class _Scan:
    """Finds the innermost braces around `entryPoints`, across line ends and in any text."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._waiting: deque[_Waiting] = deque()
        self._open: list[_Open] = []
        self._key = (0, 0)  # line and column of the last key `entryPoints`
        self._done_to = (0, 0)  # line and column of the end of the last block: braces around it aren't a block

    def take(self, number: int, text: str) -> list[tuple[int, str]]:
        """Returns the blocks that end on this line: (line where the block begins, its text)."""
        self._lines.defer()
        line = _Waiting(number, text)
        self._waiting.append(line)
        blocks = []
        for match in _MARK.finditer(text):
            if match.group() == "{":
                self._open.append(_Open(number, match.start(), _may_begin(text, match.start())))
            elif match.group() != "}":
                self._key = (number, match.start())
            elif self._open and (block := self._close(number, match.start())):
                blocks.append(block)
        if not text.strip(" \t[]{},"):
            line.is_structure = True
        self._settle()
        return blocks

    def _close(self, number: int, column: int) -> tuple[int, str] | None:
        """Returns the text between the innermost open brace and this one, if it is a block."""
        begin = self._open.pop()
        if not begin.may_begin or not self._done_to <= (begin.line, begin.column) < self._key:
            return None
        lines = [line for line in self._waiting if begin.line <= line.number <= number]
        if len(lines) == 1:  # not the whole line: it may be an array of all blocks
            text = lines[0].text[begin.column : column + 1]
        else:
            first, last = lines[0].text[begin.column :], lines[-1].text[: column + 1]
            text = "\n".join([first, *(line.text for line in lines[1:-1]), last])
        self._done_to = (number, column)
        for line in lines:
            line.is_structure = True
        return begin.line, text

    def _settle(self) -> None:
        """Decides the lines before the first brace that may begin a block, and those more than MOST_LINES back."""
        begin = next((brace.line for brace in self._open if brace.may_begin), None)
        while self._waiting and (begin is None or self._waiting[0].number < begin or len(self._waiting) > MOST_LINES):
            self._decide(self._waiting.popleft())
        oldest = self._waiting[0].number if self._waiting else None
        self._open = [brace for brace in self._open if oldest is not None and brace.line >= oldest]

    def _decide(self, line: _Waiting) -> None:
        if line.is_structure:
            self._lines.structure()
        else:
            self._lines.skip_deferred("unrecognised", line.number, line.number)

    def finish(self) -> None:
        """Must be called on the last line: a block that is still open breaks off."""
        begin = next((brace.line for brace in reversed(self._open) if brace.may_begin), None)
        while self._waiting and (begin is None or self._waiting[0].number < begin):
            self._decide(self._waiting.popleft())
        if self._waiting:
            first, last = self._waiting[0].number, self._waiting[-1].number
            self._lines.skip_deferred("cut", first, last, "an unterminated block")


def _may_begin(text: str, column: int) -> bool:
    """Whether a JSON object may begin with the brace: a key follows, or the line ends where JSON may have a break."""
    if _BEGIN.match(text, column):
        return True
    return _BLANK.match(text, column + 1) is not None and text[:column].rstrip()[-1:] in ("", "[", ",", ":", "{")


def _add(text: str, where: str, rows: RowBuilder, report: Report) -> None:
    """Adds the kernel of a block, or reports why it can't."""
    block = _parsed(text)
    if block is None:
        report.issue("bad-record", where, "the block isn't JSON")
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
    """A float that keeps its digits, so that times can be read exactly; other numbers are ordinary floats."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _Digits:
        self = super().__new__(cls, text)
        self.text = text
        return self


def _parsed(text: str) -> dict[str, Any] | None:
    """Returns the object of a block; in one that was logged as a JSON string the quotes are escaped."""
    for candidate in (text, text.replace('\\"', '"')):
        try:
            block = json.loads(candidate, parse_float=_Digits)
        except (ValueError, RecursionError):
            continue
        if isinstance(block, dict) and "entryPoints" in block:
            return block
    return None


def _nanoseconds(value: Any) -> tuple[int, bool] | None:
    """Returns a time in whole ns and whether it is exact. JavaScript's BigInt may be written as "123" or "123n"."""
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
    """Returns the entry point, or all of several joined, which then go to args, too."""
    if isinstance(entry_points, str):
        return entry_points
    if isinstance(entry_points, list) and len(entry_points) == 1 and isinstance(entry_points[0], str):
        return entry_points[0]
    args["entryPoints"] = entry_points
    names = entry_points if isinstance(entry_points, list) else [entry_points]
    return ", ".join(map(str, names)) or "compute pass"


FORMAT = Format(
    "webllm",
    "WebLLM timestamp blocks (WebGPU)",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read=read,
    words=("entrypoints",),
)
