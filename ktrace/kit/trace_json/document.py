"""Reads a Trace Event JSON document: passes its events as columns to `rows`, its other members one by one to `member`.

    {"deviceProperties": [...], "traceEvents": [{...}, {...}], "traceName": "rank0.json"}
    [{...}, {...},
    {"ph": "X", ...}\\n{"ph": "X", ...}\\n

    read_dialect(source, conversion, dialect, change=None, member=None, part=None) -> Iterator[Batch]
    read_document(source, conversion, rows, member, folded, quoted=False, part=None) -> Iterator[Batch]

    dialect
        has rules for events; `change` gets each batch that they make, in any process.

    rows(events: Events, conversion: Conversion) -> Iterator[Batch]
        is called with some events of the document at a time, in any process, with the `conversion.report` of that part;
        it keeps no state between calls. It states the outcome of each event: report.used(n) for those that became rows,
        report.used(n, outcome="catalog"), report.issue("bad-record", f"id {at}", ...). The decoder has called
        report.record() for all events, and has settled elements that it doesn't pass on: `{}` and null ("structure"),
        elements that aren't objects or can't be repaired ("bad-record").

    member(found: Member, conversion: Conversion) -> Iterable[Batch]
        is called in the parent process for each member of the top-level object that isn't a list of events, in the
        order of the document: deviceProperties, baseTimeNanoseconds, otherData, stackFrames, ... Members aren't
        records: they aren't counted. A member of more than `LARGEST_MEMBER` bytes is reported, not passed on.

    part
        is the byte range of the first list of events to read; `member` is called only for the last range.

    folded
        are categories whose flows repeat other events (by `correlation`): the decoder counts them and makes no columns,
        so that `rows` gets only flows with information of their own.

    quoted
        means that the program always writes its numbers in quotes, so that this isn't reported as a repair.

The columns of `Events`, in addition to events.py: texts are dictionary<int32, string>; lists, objects, null and columns
of several types are dictionary<int32, binary>, the source's JSON text (always so for lists such as grid, which are then
parsed once for each distinct text: `column.dictionary`); columns of only int are int64, of only numbers with a point or
exponent float64. The same event has the same values at every reading, but a column's type may differ between two
`Events`.

A list is read chunk by chunk. A chunk that begins where a valid one ended, and that is a JSON list itself, ends
between two events: a wrong cut, in a text or in a nested list, would leave a text or a bracket open. In that case the
end of the chunk is searched element by element. Repairs begin if a strict parser finds a fault before the chunk's end.

Byte ranges of a list are read separately, in other processes or on other machines:

    {"schemaVersion": 1, "traceEvents": [ {..},{..},{..},{..},{..},{..},{..},{..} ], "traceName": ...
    ranges                               |  0           |  1        |  2        and all other members

The start of a range is a guess: the first boundary after it. It is right if the range before it, whose begin is known
to be right, ended exactly there; else the range is read again from where that one ended. Cuts are at multiples of a
chunk, where reading the whole document ends its chunks, too, so that ids are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import is_utf8
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON
from ktrace.parallel.fork import Workers, may_fork
from ktrace.report import Report

from . import chunks
from .chunks import CHUNK, Nest, Text, Value, own_key, place_of, value_at
from .decode import MOST_EVENTS, Decoder
from .dialect import Dialect
from .events import LARGEST_MEMBER, Events, Member, MemberOf, Moves, RowsOf, elements_of
from .phases import mapper
from .salvage import EVENT, Repair, is_json, may_try, mend, mend_document, mend_value, mend_words, resume, salvage

#: A stored (compressed) file of at least this many bytes is read by several processes.
LEAST_STORED = 4 << 20


def read_document(
    source: Source,
    conversion: Conversion,
    rows: RowsOf,
    member: MemberOf,
    folded: Container[str] = (),
    *,
    quoted: bool = False,
    quiet: bool = False,
    part: ByteRange | None = None,
) -> Iterator[Batch]:
    """Yields the batches of a document; memory is bounded by the batch, whatever the size of the document.

    A `quiet` reading is one more than that of the user's input, and counts no progress.

    Raises DamagedInput if it isn't Trace Event JSON at all.
    """
    if part and part.stop is not None:
        decoder = Decoder(conversion.report, MOST_EVENTS, folded, quoted=quoted)
        with source.open() as stream:
            for events in _read_range(Text(stream), part, decoder, conversion.report, begun=part.guessed):
                yield from rows(events, conversion)
        return
    with (
        _opened(source, conversion, quiet=quiet) as (stream, file),
        closing(
            iter(Document(Text(stream), conversion, source.path, file, rows, folded, quoted=quoted, part=part))
        ) as items,
    ):
        for item in items:
            if isinstance(item, Events):
                yield from rows(item, conversion)
            elif isinstance(item, Member):
                yield from member(item, conversion)
            else:  # a batch from another process
                yield item


def read_dialect(
    source: Source,
    conversion: Conversion,
    dialect: Dialect,
    change: Callable[[Batch], Batch] | None = None,
    member: MemberOf | None = None,
    *,
    part: ByteRange | None = None,
) -> Iterator[Batch]:
    """Yields the batches of a document by the rules of a dialect, each as `change` returns it, in any process.

    Raises DamagedInput if it isn't Trace Event JSON at all.
    """
    rows = mapper(dialect) if change is None else partial(_changed, mapper(dialect), change)
    member = member or (lambda entry, conversion: ())
    return read_document(source, conversion, rows, member, dialect.folded, quoted=dialect.quoted, part=part)


def _changed(rows: RowsOf, change: Callable[[Batch], Batch], events: Events, conversion: Conversion) -> Iterator[Batch]:
    return map(change, rows(events, conversion))


@contextmanager
def _opened(source: Source, conversion: Conversion, *, quiet: bool) -> Iterator[tuple[BinaryIO, str]]:
    """Opens the text as a stream, and returns the file that contains it if several processes shall read it.

    Large compressed input is inflated into a temporary file first.
    """
    if conversion.jobs > 1 and may_fork() and (source.size or 0) >= LEAST_STORED:
        with source.local_path() as path, path.open("rb") as stream:
            yield stream, str(path)
    else:
        with source.open(quiet=quiet) as stream:
            yield stream, ""


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
        self._report.issue("cut", f"byte {text.pos}", "the document isn't closed", 0)

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
            while (match := text.search(_TRACE_EVENTS, text.pos)) < 0:
                searched = text.end - 64
                if not text.more():
                    raise self._no_trace("the members of the document are damaged")
                text.pos = max(text.pos, searched)
            text.pos = match
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
                parts = Ranges(self._file, self._path, self._conversion, self._rows, self._decoder)
                yield from parts.read(self._text.pos)
                self._text.jump(parts.end)
            else:
                yield from reading.read()
                yield from reading.end_range()
            if text.peek() != b"]":
                if not lines:
                    self._report.issue("cut", f"byte {text.pos}", "the list of events isn't closed", 0)
                return
            place = text.pos
            text.step()
            again = not lines and self._continues()
            if not again:
                return
            self._report.issue("json-repair", f"byte {place}", "the list of events ends, and continues")

    def _continues(self) -> bool:
        """Whether a comma and a further event follow the end of a list; if so, goes to that event."""
        text = self._text
        start = text.pos
        match = _FURTHER.match(text.peek(1 << 12))
        if match:
            text.pos += match.end()
            if is_event(text):
                text.own("structure", start)
                return True
        text.pos = start
        return False


#: One process reads a file of less than so many bytes.
LEAST = 32 << 20


class Ranges:
    """Reads the rest of a list in a plain file; `rows` as in `read_document`."""

    def __init__(self, path: str, source: str, conversion: Conversion, rows: RowsOf, decoder: Decoder) -> None:
        self._path = path
        self._source = source  # the source's path; if it isn't `path`, progress was reported while it was inflated
        self._conversion = conversion
        self._rows = rows
        self._decoder = decoder
        self.end = 0

    def read(self, pos: int) -> Iterator[Batch]:
        """Yields the batches of the events from `pos`, a position between two events, to the list's end: then `end`."""
        step = chunks.RANGE
        first = pos // step
        bounds = [step * number for number in range(first, -(-Path(self._path).stat().st_size // step) + 1)]
        bounds[0] = pos
        workers = Workers(
            lambda number: self._range(ByteRange(bounds[number], bounds[number + 1], guessed=number > 0)),
            len(bounds) - 1,
            self._conversion.jobs,
        )
        self.end = pos
        try:
            for number, stop in enumerate(bounds[1:]):
                result = workers.result(number)
                if result and result.value[0].begun == self.end:
                    part, report = result.value
                    yield from result.batches
                else:
                    part, report = yield from self._range(ByteRange(self.end, stop, guessed=False))
                self._conversion.report.merge(report)
                if self._conversion.progress and self._path == self._source:
                    self._conversion.progress(part.end - part.begun)
                self.end = part.end
                if part.closed:
                    break
        finally:
            workers.close()

    def _range(self, part: ByteRange) -> Generator[Batch, None, tuple[ByteRange, Report]]:
        """Yields the events of a range; returns it with where they began and ended, and their report."""
        report = Report()
        conversion = replace(self._conversion, report=report, progress=None)
        decoder_of_list = self._decoder
        decoder = Decoder(
            report, MOST_EVENTS, decoder_of_list.folded, decoder_of_list.first_shapes, quoted=decoder_of_list.quoted
        )
        with open(self._path, "rb") as stream:
            for events in _read_range(Text(stream), part, decoder, report, begun=True):
                yield from self._rows(events, conversion)
        return part, report


def _readings(value: bytes) -> Iterator[tuple[bytes, list[Repair]]]:
    """Yields the text of a member as it is, and then, as long as it isn't JSON, repaired."""
    yield value, []
    yield from mend_value(value)
    yield mend_document(value)


#: Boundaries are tried from this many bytes before a wanted border on.
_LOOKED_BACK = (1 << 15, 1 << 17)

#: Bytes before the end of a range that are a chunk of their own, which ends by the grammar.
_LAST = 1 << 14

#: Bytes of an object that are searched for its phase.
LARGEST_HEAD = 32 << 20

#: The place of a parser's fault in a chunk: none, at its end, which may be a wrong cut, or before that.
_NONE, _AT_END, _WITHIN = range(3)

_SEPARATOR = re.compile(rb"\s*,?\s*")
_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
_LINES = re.compile(rb"\}([ \t\f\v]*)[\r\n](\s*)\{")


class List:
    """Reads the events of a list into a decoder. `lines`: one event on each line, without brackets and commas.

    `begun`: there are events before these, so that what separates them is counted as read.
    """

    def __init__(
        self, text: Text, decoder: Decoder, report: Report, chunk: int, *, lines: bool = False, begun: bool = False
    ) -> None:
        self._text = text
        self._decoder = decoder
        self._report = report
        self._chunk = chunk
        self._end = 0  # of the range: it goes on to the first element's end from here on, whatever the chunks were
        self._lines = lines
        self._separator: Owner = "read" if begun else "structure"
        self.ended = False

    def read(self, stop: int | None = None, *, chunks: int = -1) -> Iterator[Events]:
        """Yields the events of `chunks`, or up to the list's end or to the first chunk that begins at or after `stop`.

        `ended` is then whether the list ended; its bracket isn't read.
        """
        text = self._text
        self._end = self._end or _end_of_range(text.pos, stop)
        while not self.ended and chunks and (stop is None or text.pos < stop):
            comma = self._separators()
            first = text.peek()
            if first == b"]" and comma:
                self._report.issue("json-repair", f"byte {text.pos}", "a comma after the last event")
            if first in (b"]", b"") or (self._lines and not is_event(text)):
                self.ended = True
                return
            self._separator = "read"
            self._take_chunk()
            chunks -= 1
            if text.pos >= self._end:
                yield from self.end_range()
                self._end = _end_of_range(text.pos, stop)
            elif self._decoder.full:
                yield from self._decoder.flush(all_=False)

    def end_range(self) -> Iterator[Events]:
        """Yields what is gathered, and settles the account, as a process does that reads this range of bytes alone."""
        yield from self._decoder.end_range()
        self._text.finish(self._report)
        self._text.renew()

    def _separators(self) -> bool:
        """Goes to the next event, and returns whether it skipped a comma."""
        text = self._text
        if text.skip_blank(self._separator) != b"," or self._lines:
            return False
        text.step(self._separator)
        text.skip_blank(self._separator)
        return True

    def _take_chunk(self) -> None:
        text = self._text
        start = text.pos
        target = min((start // self._chunk + 1) * self._chunk, self._end - _LAST)
        end = text.cut(target, lines=self._lines) if start < target else self._end
        if end >= self._end:
            self._take_last()
            return
        if end > target + self._chunk and not may_try(text, end - start):
            self._salvage(target, None)
            return
        fault = self._decode(text.view(start, end), end)
        if fault == _NONE:
            return
        text.tried += end - start
        value = None
        if fault == _AT_END:  # the cut may be wrong, and the text whole
            border, value = self._border(target)
            if not value and self._decode(text.view(text.pos, border), border) == _NONE:
                return
        elif self._take_words(end):
            return
        self._salvage(end, value)

    def _take_last(self) -> None:
        """Takes the elements that begin, or whose separator begins, before the end of the range."""
        text = self._text
        border, value = self._border(self._end)
        if value or self._decode(text.view(text.pos, border), border) != _NONE:
            self._salvage(self._end, value)

    def _border(self, target: int) -> tuple[int, Value | None]:
        """The end of the first element that reaches `target`, or of the list; and the broken element, if any."""
        text = self._text
        at = self._known_border(target)
        while at < target:
            while (after := text.match(_SEPARATOR, at)) == text.end and text.more():
                pass
            if after == text.end or text.part(after, after + 1) == b"]":
                return after, None
            value = value_at(text, after)
            if value.fault:
                return at, value
            at = value.end
        return at, None

    def _known_border(self, target: int) -> int:
        """A position between two elements before `target`: a boundary up to which the list is valid."""
        text = self._text
        for back in _LOOKED_BACK:
            at = text.search(_BOUNDARY, max(target - back, text.pos), target) + 1
            if text.pos < at < target:
                try:
                    elements_of(b"".join((b"[", text.view(text.pos, at), b"]")))
                    return at
                except NOT_JSON:
                    pass
        return text.pos

    def _take_words(self, end: int) -> bool:
        """Takes the chunk with nan and inf as texts. Returns False if there are none, or if that isn't enough."""
        mended, repairs, grown = mend_words(self._text.part(self._text.pos, end))
        if not repairs:
            return False
        longer = np.cumsum(grown)
        places = np.array([repair.place for repair in repairs])
        moves = Moves(self._text.pos - 1, places + 1 + longer, -longer)
        return self._decode(mended, end, repairs, moves) == _NONE

    def _decode(
        self, part: bytes | memoryview, end: int, repairs: list[Repair] | None = None, moves: Moves | None = None
    ) -> int:
        """Decodes the events up to a position, or to the end of the list before it. Returns the place of a fault."""
        start = self._text.pos
        moves = moves or Moves.none(start)
        whole = b"".join((b"[", part, b"]"))
        if not is_utf8(whole):
            return _WITHIN
        if self._lines:
            whole = _LINES.sub(rb"},\1\2{", whole)
        try:
            self._decoder.feed(whole, moves)
            self._text.pos = end
        except msgspec.DecodeError as error:
            place = place_of(error)
            if self._lines or "trailing characters" not in str(error):
                return _WITHIN if 0 <= place < len(whole) - 1 else _AT_END
            close = whole.rindex(b"]", 0, place) + 1  # the list ends before the chunk
            if repairs and any(repair.place > close - 2 for repair in repairs):
                return _WITHIN
            grown = len(whole) - 2 - (end - start)
            if repairs and grown:  # positions after a repair aren't exact
                return _WITHIN
            try:
                self._decoder.feed(whole[:close], moves)
            except msgspec.DecodeError:  # nested too deeply
                return _WITHIN
            self._text.pos = start + close - 2  # before the bracket
        self._text.own("read", start)
        self._report_repairs(repairs or [], start)
        return _NONE

    def _salvage(self, end: int, value: Value | None) -> None:
        """Takes the events that begin before `end`, one by one."""
        salvaged = salvage(self._text, end, lines=self._lines, value=value)
        offsets = 1 + np.cumsum([0, *(len(element) + 1 for element in salvaged.elements[:-1])])
        moves = Moves(0, offsets, np.array(salvaged.places, np.int64) - offsets if salvaged.places else offsets[:0])
        self._decoder.feed(b"[" + b",".join(salvaged.elements) + b"]", moves, salvaged=True)
        self._report_repairs(salvaged.repairs, 0)
        for loss in salvaged.lost:
            self._report.issue(loss.kind, f"byte {loss.place}", loss.detail)

    def _report_repairs(self, repairs: list[Repair], start: int) -> None:
        for repair in repairs:
            self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)


def _end_of_range(pos: int, stop: int | None) -> int:
    """Where the range ends that begins, or goes on, at a position: so its events don't depend on chunks."""
    end = (pos // chunks.RANGE + 1) * chunks.RANGE
    return end if stop is None else min(end, stop)


#: An object that begins with a member of events, and has a phase.
_EVENT = re.compile(
    rb'\{\s*(?="(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts)"\s*:)(?:(?!"traceEvents").)*?"ph"\s*:', re.DOTALL
)
_DECISIVE = frozenset((b"ph", b"traceEvents"))


def is_event(text: Text) -> bool:
    """Whether the object that begins here is an event, not a document: it has a phase itself."""
    if not EVENT.match(text.peek(1 << 10)):
        return False
    size = 1 << 16
    while (key := own_key(head := text.peek(size), _DECISIVE)) is None and len(head) == size < LARGEST_HEAD:
        size <<= 4
    if key == b"":  # events on lines, the first without a phase
        return bool(_EVENT.match(head)) and b"\n" in head
    return key == b"ph" if key is not None else bool(_EVENT.match(head[: 1 << 16]))


_LIST = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[|\{.*?"traceEvents"\s*:\s*\[)', re.DOTALL)
_HALF = re.compile(rb'"ph"\s*:\s*"[BEbeSF]"')
_COMMA = re.compile(rb"\s*,\s*")

#: Boundaries that are tried as the start of a range and as the end of a check, and the bytes that a check covers.
_MOST_BEGINS = 256
_MOST_CUTS = 4
_CHECKED = 1 << 16


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """Returns ranges of about `step` bytes of a document of `size` bytes; none if it must be read as a whole.

    That is the case if it is compressed or can't be read from the middle, if it doesn't begin with a list of events,
    and if its sample contains halves of slices.
    """
    count = size // step
    sample = source.sample()
    match = _LIST.match(sample.head)
    if count < 2 or not match or not source.in_ranges() or _HALF.search(sample.head) or _HALF.search(sample.tail):
        return []
    cuts = [size * number // count // CHUNK * CHUNK for number in range(1, count)]
    first = ByteRange(match.end(), cuts[0], guessed=False)
    return [first, *map(ByteRange, cuts, [*cuts[1:], None])]


def _read_range(text: Text, part: ByteRange, decoder: Decoder, report: Report, *, begun: bool) -> Iterator[Events]:
    """Yields the events of a range with a `stop`; sets in it where they began and ended. `begun` as for `List`."""
    begin(text, part)
    reading = List(text, decoder, report, CHUNK, begun=begun)
    yield from chain(reading.read(part.stop), decoder.flush())
    text.finish(report)
    part.end, part.closed = text.pos, reading.ended


def begin(text: Text, part: ByteRange) -> None:
    """Goes to the start of a range; if that is a guess, to the first border between events from there on."""
    if part.guessed:
        seek(text, part.start)
    else:
        text.jump(part.start)
    part.begun = text.pos


def seek(text: Text, start: int) -> None:
    """Goes to the end of the first event that ends at a position or after it: most likely, since texts and lists may
    look like events."""
    text.jump(start - 1)
    first = text.cut(text.pos, near=0)
    text.begin_at(first)
    for _ in range(_MOST_BEGINS):
        if _between_events(text):
            return
        text.begin_at(text.cut(text.pos, near=0))
    text.jump(first)


def _between_events(text: Text) -> bool:
    """Whether elements of a list follow: the text up to one of the next boundaries is JSON."""
    end = text.pos + _CHECKED
    for _ in range(_MOST_CUTS):
        end = text.cut(end)
        part = text.part(text.match(_COMMA, text.pos), end)
        try:
            elements_of(b"[" + part + b"]")
        except NOT_JSON:
            continue
        return True
    return False
