"""The containers of Trace Event JSON: finds the events and the other members of a document.

{"deviceProperties": [...], "traceEvents": [{...}, {...}], "traceName": "rank0.json"}
[{...}, {...},
{"ph": "X", ...}\n{"ph": "X", ...}\n

Reads a list of events with several processes, a byte range at a time each.

    file   [ {..},{..},{..},{..},{..},{..},{..},{..},{..} ], "traceName": ...
    ranges   |  0           |  1        |  2        |          from the first boundary in a range to that in the next

The start of a range is a guess. It is right if the range before it, whose begin is known to be right, ended exactly
there; else the range is read again from where that one ended.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.capabilities import ByteRange
from ktrace.model.batch import Batch
from ktrace.parallel.fork import Workers
from ktrace.report import Report

from . import chunks
from .chunks import CHUNK, Text
from .decode import MOST_EVENTS, Decoder
from .events import LARGEST_MEMBER, Events, Member, RowsOf
from .grammar import Nest
from .lists import List, begin, is_event, seek
from .repair import Repair, mend, mend_document, mend_value
from .salvage import is_json, resume

_TRACE_EVENTS = re.compile(rb'"traceEvents"\s*:\s*(?=\[)')
_SURPLUS = re.compile(rb"[\]},\s]*")
_STRAY = re.compile(rb"[^{\[]*")
_SCALAR = re.compile(rb"[^\s,\]}]*")
_PLAIN_KEY = re.compile(rb'"[^"\\\x00-\x1f]{0,1000}"')
_FURTHER = re.compile(rb"[\s\]}]*,[\s,\]}]*(?=\{)")


class Document:
    """Yields the decoded events of a document, and its other members, in their order."""

    def __init__(
        self,
        text: Text,
        conversion: Conversion,
        path: str,
        file: str,
        rows: RowsOf,
        folded: Container[str] = (),
        *,
        quoted: bool = False,
        part: ByteRange | None = None,
    ) -> None:
        self._text = text
        self._conversion = conversion
        self._report = conversion.report
        self._path = path
        self._file = file
        self._rows = rows
        self._decoder = Decoder(conversion.report, MOST_EVENTS, folded, quoted=quoted)
        self._found = False
        self._on_lines = False
        self._part = part

    def __iter__(self) -> Generator[Events | Member | Batch, None, None]:
        text = self._text
        if text.peek(3) == b"\xef\xbb\xbf":
            text.pos = 3
            text.own("structure", 0)
        self._report.bytes.open += 1
        while first := text.skip_blank():
            if first == b"[":
                text.step()
                yield from self._events()
            elif first == b"{" and is_event(text):
                yield from self._events(lines=True)
            elif first == b"{":
                text.step()
                yield from self._object()
            else:
                self._stray()
        text.finish(self._report)
        self._report.bytes.open -= 1
        yield from self._decoder.flush()
        if not self._found:
            raise self._no_trace("it contains no list of events")

    def _is_large(self) -> bool:
        """Whether the rest is large enough for several processes, in a file that they can read."""
        return bool(self._file) and Path(self._file).stat().st_size - self._text.pos >= LEAST

    def _no_trace(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._path,
            where=f"byte {self._text.pos}",
            expected='a list of events, or an object with "traceEvents"',
            remedy="name the format with --from, or export the trace again",
        )

    def _stray(self) -> None:
        """Skips text that isn't part of a document, up to text that may begin one: all of it as one piece."""
        text = self._text
        start = text.pos
        if not self._found:
            raise self._no_trace(f"{text.peek(20)!r} isn't Trace Event JSON")
        detail = text.peek(60).decode(errors="replace")
        surplus = detail[0] in "],}"
        while True:
            text.pos = text.match(_SURPLUS if surplus else _STRAY, text.pos)
            if text.pos < text.end or not text.more():
                break
        text.own("structure" if surplus else "skipped", start)
        if surplus:
            several = detail[1:].lstrip()[:1] in ("]", "}", ",")
            what = f"{text.pos - start:,} bytes of surplus brackets and commas" if several else f"a surplus {detail[0]}"
            self._report.issue("json-repair", f"byte {start}", what)
        else:
            self._report.record()
            self._report.issue("unrecognised", f"byte {start}", detail)

    def _object(self) -> Iterator[Events | Member | Batch]:
        """Yields the members of an object whose brace is read."""
        text = self._text
        while first := text.skip_blank():
            if first == b"}":
                text.step()
                return
            if first == b",":
                text.step()
                continue
            start = text.pos
            key = self._key()
            if key is None:
                text.pos = start
                self._resume()
                if text.peek() == b"{":
                    yield from self._events(lines=self._on_lines)
                    continue
                key = "traceEvents"
            else:
                text.own("structure", start)
            text.skip_blank()
            if key == "traceEvents" and text.peek() == b"[":
                text.step()
                yield from self._events()
            else:
                start = text.pos
                value = self._sound(self._value(), key, start)
                text.own("skipped" if value is None else "read", start)
                if value is not None and key != "traceEvents":
                    yield Member(key, value, start)
        self._report.issue("cut", f"byte {text.pos}", "the document has no end", 0)

    def _key(self) -> str | None:
        """Reads the key of a member and the colon; returns None if there is no key."""
        text = self._text
        if (end := text.match(_PLAIN_KEY, text.pos)) > text.pos:
            key, text.pos = text.part(text.pos, end), end
        else:
            key = (self._value() or b"") if text.peek() == b'"' else b""
        if text.skip_blank() != b":":
            return None
        text.pos += 1
        try:
            return msgspec.json.decode(mend(key)[0], type=str)
        except msgspec.DecodeError:
            return None

    def _resume(self) -> None:
        """Resumes at the next list of events, because the members before it are damaged.

        After a list of events that may have ended too early, resumes at the next event, too.
        """
        text = self._text
        start = text.pos
        if self._found and text.peek() == b"{" and is_event(text):
            self._report.issue("json-repair", f"byte {start}", "the list of events ends, and continues")
            return
        if self._found:
            resume(text, _TRACE_EVENTS)
        else:
            while (found := text.search(_TRACE_EVENTS, text.pos)) < 0:
                searched = text.end - 64
                if not text.more():
                    raise self._no_trace("the members of the document are damaged")
                text.pos = max(text.pos, searched)
            text.pos = found
        end = text.pos
        text.own("skipped", start)
        text.pos = text.match(_TRACE_EVENTS, end)
        text.own("structure", end)
        self._report.record()
        self._report.issue("unrecognised", f"byte {start}", f"members of the document, {text.pos - start:,} bytes")

    def _sound(self, value: bytes | None, key: str, start: int) -> bytes | None:
        """The JSON text of a member, repaired if necessary; if that fails it is reported, and None."""
        if not value:
            return None
        for whole, repairs in _readings(value):
            if is_json(whole):
                for repair in repairs:
                    self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)
                return whole
        self._report.issue("unrecognised", f"byte {start}", f"the member {key} is damaged", 0)
        return None

    def _value(self) -> bytes | None:
        """Reads the JSON text that begins here, up to its end by brackets; returns None if it is too long."""
        text, start = self._text, self._text.pos
        at = self._end_of_nested() if text.peek() in (b'"', b"{", b"[") else self._end_of_scalar()
        if at - start > LARGEST_MEMBER:
            text.pos = at
            self._report.issue("unrecognised", f"byte {start}", f"a member of {at - start:,} bytes", 0)
            return None
        whole = text.part(start, at)
        text.pos = at
        return whole

    def _end_of_scalar(self) -> int:
        text = self._text
        at = text.match(_SCALAR, text.pos + 1)
        while at == text.end and text.more():
            at = text.match(_SCALAR, at)
        return at

    def _end_of_nested(self) -> int:
        """The end of the text, list or object that begins here, or of the document; what is too long isn't kept."""
        text, nest, size = self._text, Nest(), 1 << 12
        start = at = text.pos
        while True:
            block = text.view(at, min(text.end, at + size))
            end = nest.end(block)
            if end >= 0:
                return at + end
            at, size = at + len(block), min(4 * size, 1 << 20)
            if at - start > LARGEST_MEMBER:
                text.pos = at
            if at == text.end and not text.more():
                return at

    def _events(self, *, lines: bool = False) -> Iterator[Events | Member | Batch]:
        """Yields the events of a list whose bracket is read, or those of lines."""
        self._found = True
        self._on_lines = lines
        text = self._text
        again = False
        part = self._part
        if part and part.list < 0 and not lines:
            part.list = text.pos
            begin(text, part)
        while True:
            reading = List(text, self._decoder, self._report, CHUNK, lines=lines, begun=True)
            if not again:  # so that processes inherit the first shapes; always, so that the order of rows is the same
                first = List(text, self._decoder, self._report, chunks.FIRST, lines=lines)
                yield from first.read(chunks=1)
                yield from first.end_range()
                reading.ended = first.ended
            if not lines and not again and self._is_large() and not reading.ended:
                yield from self._in_ranges()
            else:
                yield from reading.read()
                yield from reading.end_range()
            if text.peek() != b"]":
                if not lines:
                    self._report.issue("cut", f"byte {text.pos}", "the list of events has no end", 0)
                return
            place = text.pos
            text.step()
            again = not lines and self._continues()
            if not again:
                return
            self._report.issue("json-repair", f"byte {place}", "the list of events ends, and continues")

    def _in_ranges(self) -> Iterator[Events | Batch]:
        """Yields the rest of the events of a list, read by several processes."""
        parts = Ranges(self._file, self._path, self._conversion, self._rows, self._decoder, CHUNK)
        yield from parts.read(self._text.pos)
        self._text.jump(parts.end)

    def _continues(self) -> bool:
        """Whether a comma and a further event follow the end of a list; if so, goes to that event."""
        text = self._text
        start = text.pos
        found = _FURTHER.match(text.peek(1 << 12))
        if found:
            text.pos += found.end()
            if is_event(text):
                text.own("structure", start)
                return True
        text.pos = start
        return False


#: One process reads a file of less than so many bytes.
LEAST = 32 << 20


class RangeResult(msgspec.Struct, frozen=True):
    """The result of a range: where it began and ended, whether that is the list's end, its report."""

    start: int
    end: int
    ended: bool
    report: Report


class Ranges:
    """Reads the rest of a list in a plain file; `rows` as in `read_document`."""

    def __init__(
        self, path: str, source: str, conversion: Conversion, rows: RowsOf, decoder: Decoder, chunk: int
    ) -> None:
        self._path = path
        self._source = source  # the source's path; if it isn't `path`, progress was reported while it was inflated
        self._conversion = conversion
        self._rows = rows
        self._decoder = decoder
        self._chunk = chunk
        self.end = 0

    def read(self, pos: int) -> Iterator[Batch]:
        """Yields the batches of the events from `pos`, a position between two events, to the list's end: then `end`."""
        step = chunks.RANGE
        first = pos // step
        bounds = [step * number for number in range(first, -(-Path(self._path).stat().st_size // step) + 1)]
        bounds[0] = pos
        workers = Workers(
            lambda number: self._range(bounds[number], bounds[number + 1], guessed=number > 0),
            len(bounds) - 1,
            self._conversion.jobs,
        )
        self.end = pos
        try:
            for number, stop in enumerate(bounds[1:]):
                result = workers.result(number)
                if result and result.value.start == self.end:
                    part = result.value
                    yield from result.batches
                else:
                    part = yield from self._range(self.end, stop, guessed=False)
                self._conversion.report.merge(part.report)
                if self._conversion.progress and self._path == self._source:
                    self._conversion.progress(part.end - part.start)
                self.end = part.end
                if part.ended:
                    break
        finally:
            workers.close()

    def _range(self, start: int, stop: int, *, guessed: bool) -> Generator[Batch, None, RangeResult]:
        """Yields the events from `start` (or the first boundary after it) to the first boundary after `stop`."""
        report = Report()
        conversion = replace(self._conversion, report=report, progress=None)
        with open(self._path, "rb") as stream:
            text = Text(stream)
            if guessed:
                seek(text, start)
            else:
                text.jump(start)
            start = text.pos
            decoder = Decoder(
                report, MOST_EVENTS, self._decoder.folded, self._decoder.first_shapes, quoted=self._decoder.quoted
            )
            events = List(text, decoder, report, self._chunk, begun=True)
            for some in chain(events.read(stop), decoder.flush()):
                yield from self._rows(some, conversion)
            text.finish(report)
            return RangeResult(start, text.pos, events.ended, report)


def _readings(value: bytes) -> Iterator[tuple[bytes, list[Repair]]]:
    """Yields the text of a member as it is, and then, as long as it isn't JSON, repaired."""
    yield value, []
    yield from mend_value(value)
    yield mend_document(value)
