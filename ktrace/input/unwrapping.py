"""Looks for a text within what other programs put around it (`wrapping.py` beside this)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from ktrace.input.format import Format
from ktrace.input.source import Sample
from ktrace.input.wrapping import (
    LONGEST,
    Wrapping,
    common_layer,
    is_text,
    may_be_messages,
    outermost_layer,
    without_layer,
)

_OBJECT = re.compile(rb"^\s*[{\[]", re.MULTILINE)
_FENCE = re.compile(rb"\s{0,3}(```|~~~)[ \t]*(?:[\w.+-]+[ \t]*)?\r?\n?$")

#: Lines whose layers are counted, and at which a text may begin.
LINES = 400

#: Bytes of a text that are looked at without its layers.
REACH = 1 << 17

#: Lines from a start on whose words are looked at.
_WINDOW = 12

#: The first lines from which all formats are asked.
_FIRST = 6

#: Lines that begin as JSON from which all formats of JSON are asked; logs may have one in each line.
_DOCUMENTS = 4

#: Lines from the first ones on, and from words on, that show whether a format knows the start of a text.
_NEAR, _AT_WORDS = 128, 32

#: The most layers of a line.
_LAYERS = 6


@dataclass(frozen=True)
class Bare:
    """A sample without a wrapping. `window` is the start of its text, in lower case, if it begins at a later line.

    `start` are its first lines, where it isn't the text from its first line on: what lines before it change is there.
    Formats are asked about the whole sample, which is made when needed, only where they know its start. `has_any` tells
    whether the text from its first line on has some of the words, which are in lower case.
    """

    wrapping: Wrapping
    whole: Callable[[], Sample]
    window: str = ""
    is_document: bool = False
    start: Sample | None = None
    has_any: Callable[[tuple[str, ...]], bool] | None = None

    @cached_property
    def sample(self) -> Sample:
        """The sample, all of it."""
        return self.whole()

    def may_be(self, fmt: Format) -> bool:
        """Whether a format is to be asked: from a later line on one that knows words there, or documents."""
        if self.window:
            return (self.is_document and not fmt.prose) or any(map(self.window.__contains__, fmt.words))
        return not fmt.words or self.has_any is None or self.has_any(fmt.words)

    def asks_at_start(self, fmt: Format) -> bool:
        """Whether a format is asked about the start alone first: documents are known as a whole."""
        return self.start is not None and not (self.is_document and not fmt.prose)


def behind_objects(sample: Sample) -> Bare | None:
    """A text behind the lines at its start that are an object of JSON each; None if it has none, or nothing else."""
    if not sample.is_json:
        return None
    lines = list(io.BytesIO(sample.head[:REACH]))
    count = next((number for number, line in enumerate(lines) if line.strip() and not _is_object(line)), 0)
    while count and not lines[count - 1].strip():
        count -= 1
    if not count and len(lines) > 1 and _is_object(lines[0]):
        count = 1  # objects in all lines: the first may be another program's
    if not count:
        return None
    wrapping = _behind(Wrapping(), lines[:count])
    bare = replace(sample, head=sample.head[wrapping.size :])
    return Bare(wrapping, lambda: bare)


def _is_object(line: bytes) -> bool:
    if line[:1] != b"{" or not line.endswith(b"}\n") or len(line) > LONGEST:
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def ended(sample: Sample, wrapping: Wrapping, is_document: bool) -> Wrapping | None:
    """The wrapping with what follows a text: the end of the fence that it is in, or of its document; None without."""
    if not sample.whole:
        return None
    text = sample.head[wrapping.size :]
    before = sample.head[: wrapping.size].rstrip().rpartition(b"\n")[2]
    if fence := wrapping.lines and _FENCE.match(wrapping.bare(before + b"\n")):
        end = re.search(rb"^" + fence[1] + rb"[ \t]*\r?$", text, re.MULTILINE)
        return wrapping.ending(text, end.start()) if end else None
    if not is_document or wrapping.layers or text.rstrip()[-1:] in b"]}":
        return None
    try:
        length = json.JSONDecoder().raw_decode(text.decode().lstrip("\ufeff \t\r\n"))[1]
    except (ValueError, RecursionError):
        return None
    blank = len(text) - len(text.lstrip(b"\xef\xbb\xbf \t\r\n"))
    size = blank + len(text.decode().lstrip("\ufeff \t\r\n")[:length].encode())
    return None if _OBJECT.search(text, size) else wrapping.ending(text, size)  # there may be several documents


def fenced(sample: Sample) -> tuple[Bare, Sample] | None:
    """The only block in fences of a text, and the text around it; None if it has none or several."""
    if not sample.whole or b"```" not in sample.head or sample.text is None:
        return None
    lines = list(io.BytesIO(sample.head))
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    if len(fences) != 2:
        return None
    first, last = fences[0] + 1, fences[1]
    wrapping = _behind(Wrapping(), lines[:first]).ending(b"".join(lines[first:]), sum(map(len, lines[first:last])))
    inside = replace(sample, head=b"".join(lines[first:last]))
    return Bare(wrapping, lambda: inside), replace(sample, head=b"".join(lines[: first - 1] + lines[last + 1 :]))


def common_layers(sample: Sample) -> Iterator[Bare]:
    """Yields a text without the layer that nearly all of its lines have, then without the next such layer, ...

    What begins as JSON has JSON around its lines, or none.
    """
    lines, wrapping = list(io.BytesIO(sample.head)), Wrapping()
    for _ in range(_LAYERS):
        first = [line for line in lines[:LINES] if line.strip()]
        if sample.is_json and not wrapping.layers and not may_be_messages(first):
            return
        layer, margin = common_layer(first)
        if not layer:
            return
        wrapping = wrapping.within(layer, margin)
        lines = [without_layer(layer, line, margin) for line in lines]
        yield Bare(wrapping, partial(_from, sample, wrapping, lines, 0, sample.whole))


def bare_samples(sample: Sample) -> Iterator[Bare]:
    """Yields a text without the wrappings that it may have.

    First without more and more layers, and where it still begins as JSON does also without its first lines; then from
    each of its first lines on, for the formats that know words in the lines there.
    """
    if not sample.head or not is_text(sample.head):
        return
    head = sample.head[:REACH]
    head = head if len(head) == len(sample.head) else head[: head.rfind(b"\n") + 1]
    whole = sample.whole and len(head) == len(sample.head)
    states = list(_states(list(io.BytesIO(head))))
    is_page = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<!", b"<?"))  # nothing is read behind a declaration
    for wrapping, lines in states:
        yield Bare(wrapping, partial(_from, sample, wrapping, lines, 0, whole))
        words = [] if is_page else [number for number, line in enumerate(lines[:LINES]) if number and line.strip()]
        has_any: Callable[[tuple[str, ...]], bool] | None = None
        first = next((number for number in words if lines[number].lstrip()[:1] not in b"{[<"), 0)
        for number in sorted({*words[:_FIRST], first} - {0}):
            has_any = has_any or _words_in(sample, wrapping, lines)
            behind = _behind(wrapping, states[0][1][:number])
            start = _start(sample, lines, number, _NEAR)
            yield Bare(behind, partial(_from, sample, wrapping, lines, number, whole), start=start, has_any=has_any)
    for wrapping, lines in () if is_page else states:
        documents = 0
        for number in (number for number, line in enumerate(lines[:LINES]) if number and line.strip()):
            window = b"".join(lines[number : number + _WINDOW]).decode("utf-8", "replace").lower()
            start = _start(sample, lines, number, _AT_WORDS)
            documents += start.is_json
            is_document = start.is_json and documents <= _DOCUMENTS
            make = partial(_from, sample, wrapping, lines, number, whole)
            yield Bare(_behind(wrapping, states[0][1][:number]), make, window, is_document, start)


def _behind(wrapping: Wrapping, before: list[bytes]) -> Wrapping:
    return replace(wrapping, lines=len(before), size=sum(map(len, before)))


def _from(sample: Sample, wrapping: Wrapping, lines: list[bytes], first: int, whole: bool) -> Sample:
    return replace(sample, head=b"".join(lines[first:]), tail=wrapping.bare_text(sample.tail), whole=whole)


def _words_in(sample: Sample, wrapping: Wrapping, lines: list[bytes]) -> Callable[[tuple[str, ...]], bool]:
    """Whether a text has some of the words, or its tail; each words are looked for once."""
    parts = [part.decode("utf-8", "replace").lower() for part in (b"".join(lines), wrapping.bare_text(sample.tail))]
    return cache(lambda words: any(word in part for part in parts for word in words))


def _start(sample: Sample, lines: list[bytes], first: int, count: int) -> Sample:
    """The first lines of a text that begins at a line."""
    return replace(sample, head=b"".join(lines[first : first + count]), tail=b"", whole=False)


def _states(lines: list[bytes]) -> Iterator[tuple[Wrapping, list[bytes]]]:
    """Yields the lines as they are, then without the layer that most of them have, then without the next one, ..."""
    wrapping = Wrapping()
    yield wrapping, lines
    for _ in range(_LAYERS):
        layer, margin = outermost_layer([line for line in lines[:LINES] if line.strip()])
        if not layer:
            return
        wrapping = wrapping.within(layer, margin)
        lines = [without_layer(layer, line, margin) for line in lines]
        yield wrapping, lines
