"""What other programs put around a text: lines before it, and something before each of its lines.

    {'loss': 2.3012, 'epoch': 0.1}                              a line before it
    web-1  | [2025-01-01 10:00:00] [INFO] == L0 Backend ==      a container's name, a time, a level: three layers
    > $ ./app                                                   a quotation, a prompt

A text that no format knows is looked at without them: one layer after the other is taken off, then lines at its start.
Where a format is sure then, the source gives its reader the text without them, and lines keep their numbers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

from ktrace.input.compression import text_encoding

if TYPE_CHECKING:
    from ktrace.report import Report

_TIME = rb"\d{1,2}:\d\d:\d\d(?:[.,:]\d{1,9})?"
_ZONE = rb"(?: ?Z| ?[+-]\d\d:?\d\d| UTC)?"
_STAMP = rb"(?:(?:\d{4}|\d\d)[-/.]\d\d(?:[-/.]\d\d(?:\d\d)?)?[ T_-])?(?:" + _TIME + rb"|\d\d\.\d\d\.\d\d:\d{3})" + _ZONE
_LEVEL = (
    rb"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SUCCESS"
    rb"|trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)"
)
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][A-Z0-9])")

#: Layers by their names. Each pattern is what a line has before what was printed. Of two that as many lines have the
#: first one counts: the head of a logger has a time in it.
LAYERS = {
    "a quotation": rb" {0,3}> ?",
    "a comment": rb" {0,3}(?://+|#+|;+|--) ",
    "a container": rb"[\w.-]{1,80}[-_]\d{1,4} {1,40}\| ?|\[[\w.-]+/[\w./-]{1,160}\] ",
    "a stream": rb"(?:" + _STAMP + rb" )?std(?:out|err) [FP] |\[?std(?:out|err)\]?: ?",
    "the head of a logger": (
        rb"[IWEFDV]\d{4} " + _TIME + rb" +\d+ [\w./-]{1,120}:\d+\] ?|\[[IWECD] \d{6} " + _TIME + rb" [^\]\n]{1,120}\] ?"
        rb"|\d\d-\d\d " + _TIME + rb" +\d+ +\d+ [VDIWEF] [^:\n]{1,80}: ?|[VDIWEF]/[^:(\n]{1,80}(?:\( *\d+\))?: ?"
        rb"|[A-Z][a-z]{2} [ \d]\d " + _TIME + rb" (?:[\w.-]{1,80} )?(?:[\w./-]{1,80}(?:\[\d+\])?: ?)?"
        rb"|[VDIWEF] [\w.-]{1,40}: (?:\[" + _TIME + rb"\] ?)?|[IWEFDV] [\w./-]{1,120}:\d{1,6}\] ?"
        rb"|\[ *\d{1,12}\.\d{3,9}\] "
    ),
    "a rank": (
        rb"\[(?:rank ?|default|Rank |Worker )?\d{1,6}\]:? ?|\([\w.:-]{1,80} (?:pid|rank|ip)=[^()\n]{1,120}\) ?"
        rb"|\[\d{1,6},\d{1,6}\](?:<\w{1,10}>)?:? ?| {0,6}\d{1,6}: "
    ),
    "a time": rb"\[" + _STAMP + rb"[^\[\]\n]{0,60}\](?:\[ *\d{1,6}\])?:? ?|" + _STAMP + rb" ",
    "a level": (
        rb"[-|: ]{0,3}(?:[\w.:<>-]{1,80} ?[-|] ?)?(?:\[ ?"
        + _LEVEL
        + rb" *\]|<"
        + _LEVEL
        + rb">|"
        + _LEVEL
        + rb"\b)(?: {0,9}\|(?= )| ?[-:](?= |$))? ?"
    ),
    "a place in a program": (
        rb"[\w./<>-]{1,120}:(?:[\w./<>-]{1,120}:)?\d{1,6}(?::\w{1,80})?[\]:)]? ?[-|]? |\[[^\[\]\n]{1,120}\]:? ?"
    ),
    "a part of a program": rb"[\w.]{1,80}: ?(?=[^\s:])",  # the same in many lines: else it says what they are of
}

#: Keys of a message in the lines of JSON that programs make of what others print.
_MESSAGES = ("log", "message", "msg", "textPayload", "MESSAGE")

#: Layers of a text that a program which watches others, or a person, puts around it: no format has them.
OUTER = frozenset(("a quotation", "a container", "a stream", "a rank", "JSON around each line", "colours", "a margin"))

#: Layers that differ from line to line.
_VARYING = frozenset(("a time", "a stream", "the head of a logger", "a place in a program"))

#: The share of lines, and the fewest, for a layer to be one of the whole text.
_NEARLY, _LEAST = 0.9, 3

#: A longer line is no message in JSON, but a document: programs that write logs cut lines there.
LONGEST = 1 << 16
#: The share of lines for a layer to be there, and the bytes in which they are counted.
_SOME, _REACH = 0.1, 1 << 16

AROUND_LINES, _COLOURS, _INDENT = "JSON around each line", "colours", "a margin"


@cache
def _pattern(layer: str) -> re.Pattern[bytes]:
    """Compiled where a text is looked at: most inputs are known without."""
    return re.compile(LAYERS[layer])


@dataclass(frozen=True)
class Wrapping:
    """Lines before a text, with their bytes, and the layers before its lines, outermost first.

    `margin` are the blanks that all lines begin with where one of the layers is a margin. `length` are the bytes of the
    text where something follows it, of `after` lines and `rest` bytes.
    """

    layers: tuple[str, ...] = ()
    lines: int = 0
    size: int = 0
    margin: bytes = b""
    length: int | None = None
    after: int = 0
    rest: int = 0
    number: int = 0  # of the first line that follows

    def ending(self, text: bytes, length: int) -> Wrapping:
        """The wrapping where only so many bytes of what follows its start are the text."""
        ending_text = text[length:]
        number = self.lines + text.count(b"\n", 0, length) + 1
        after = ending_text.count(b"\n") + (not ending_text.endswith(b"\n"))
        return replace(self, length=length, after=after, rest=len(ending_text), number=number)

    def within(self, layer: str, margin: bytes) -> Wrapping:
        """The wrapping with one more layer."""
        return replace(self, layers=(*self.layers, layer), margin=margin or self.margin)

    def bare(self, line: bytes) -> bytes:
        """The line without its layers; its end stays."""
        for layer in self.layers:
            line = without_layer(layer, line, self.margin)
        return line

    def bare_text(self, text: bytes) -> bytes:
        """Whole lines without the layers around them."""
        return b"".join(map(self.bare, io.BytesIO(text))) if self.layers else text

    def report(self, report: Report, place: str = "") -> None:
        """Accounts for the lines before the text, and notes the layers. `place` precedes the numbers of lines."""
        if said := ", ".join(layer for layer in self.layers if layer not in (_COLOURS, _INDENT)):
            report.issue("wrapped-lines", f"{place}before the lines", said, 0)
        end = self.size + (self.length or 0)
        for first, count, start, size in ((1, self.lines, 0, self.size), (self.number, self.after, end, self.rest)):
            if count:
                report.record(count)
                lines = f"line {first}" if count == 1 else f"lines {first}-{first + count - 1}"
                report.issue("unrecognised", f"{place}{lines}", rows=count)
                report.bytes.size += size
                report.bytes.skip(start, start + size, place)


def without_layer(layer: str, line: bytes, margin: bytes) -> bytes:
    """A line without one layer; the line itself if it doesn't have it."""
    if layer == _COLOURS:
        return _last_drawn(_ESCAPE.sub(b"", line))
    if layer == _INDENT:
        return line.removeprefix(margin)
    if layer == AROUND_LINES:
        return _message(line)
    match = _pattern(layer).match(line)
    return line[match.end() :] if match else line


def _last_drawn(line: bytes) -> bytes:
    """A line that was drawn over itself, as progress bars are, as it was drawn last: what follows its last CR.

    Of a line with quotes only what stands between two of them, or before the first, is drawn over.
    """
    stem = line.rstrip(b"\r\n")
    first = stem.find(b"\r")
    if first < 0:
        return line
    start, end = stem.rfind(b'"', 0, first) + 1, stem.find(b'"', first)
    return line[:start] + line[stem.rfind(b"\r", first, end if end >= 0 else len(stem)) + 1 :]


def _message(line: bytes) -> bytes:
    """The message in a line of JSON; the line itself if there is none."""
    if line[:1] != b"{" or len(line) > LONGEST:
        return line
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    message = next((record[key] for key in _MESSAGES if isinstance(record.get(key), str)), None)
    return line if message is None else message.rstrip("\r\n").encode("utf-8", "replace") + b"\n"


def unwrapped(raw: BinaryIO, wrapping: Wrapping) -> Iterator[bytes]:
    """Yields the bytes of a text without its wrapping, some whole lines at a time."""
    raw.read(wrapping.size)
    left = wrapping.length
    while text := raw.read(1 << 20 if left is None else left):
        left = left and left - len(text)
        is_whole = not wrapping.layers or left == 0 or text.endswith(b"\n")
        yield wrapping.bare_text(text if is_whole else text + raw.readline())


def has_layer(head: bytes, layer: str) -> bool:
    """Whether a text has a layer of that name in some of its lines."""
    if layer not in LAYERS:
        return False
    lines = [line for line in io.BytesIO(head[:_REACH]) if line.strip()]
    return sum(_pattern(layer).match(line) is not None for line in lines) >= _SOME * len(lines)


def is_text(head: bytes) -> bool:
    """Whether bytes are a text without a doubt: they have hardly any control characters but blanks and colours."""
    start = head[:4096]
    return text_encoding(head) == "utf-8" and b"\0" not in head and 200 * len(_CONTROL.findall(start)) <= len(start)


def outermost_layer(lines: list[bytes]) -> tuple[str, bytes]:
    """The layer that most of the lines have, '' if none has any; and the margin, if it is that."""
    layers = _counted(lines)
    layer = max(layers, key=lambda name: layers[name][0], default="")
    return layer, _margin(lines) if layer == _INDENT else b""


def common_layer(lines: list[bytes]) -> tuple[str, bytes]:
    """The layer that nearly all of the lines have, in a few forms at most, as `outermost_layer`."""
    layers = _counted(lines)
    for layer, (often, forms) in sorted(layers.items(), key=lambda one: -one[1][0]):
        few = layer in _VARYING or forms <= max(1, often // 4)
        if often >= _NEARLY * len(lines) and often >= _LEAST and few:
            return layer, _margin(lines) if layer == _INDENT else b""
    return "", b""


def may_be_messages(lines: list[bytes]) -> bool:
    """Whether JSON may be around nearly all of these lines: hardly a line of a document begins as an object."""
    return sum(line[:1] == b"{" for line in lines) >= max(_LEAST, _NEARLY * len(lines))


def _margin(lines: list[bytes]) -> bytes:
    """The blanks that all lines begin with."""
    first = min(lines, key=lambda line: len(line) - len(line.lstrip(b" \t")), default=b"")
    margin = first[: len(first) - len(first.lstrip(b" \t"))]
    return margin if all(line.startswith(margin) for line in lines) else b""


def _counted(lines: list[bytes]) -> dict[str, tuple[int, int]]:
    """Each layer with the lines that have it, and the number of its forms in them."""
    if any(_ESCAPE.search(line) or b"\r" in line.rstrip(b"\r\n").partition(b'"')[0] for line in lines):
        return {_COLOURS: (len(lines), 1)}
    if _margin(lines):
        return {_INDENT: (len(lines), 1)}
    counted = {}
    for name in LAYERS:
        forms = [match[0] for match in map(_pattern(name).match, lines) if match]
        if forms:
            counted[name] = (len(forms), len(set(forms)))
    messages = sum(line[:1] == b"{" and _message(line) is not line for line in lines)
    return counted | ({AROUND_LINES: (messages, 1)} if messages else {})
