"""Reads a list of events with several processes, a byte range at a time each.

    file   [ {..},{..},{..},{..},{..},{..},{..},{..},{..} ], "traceName": ...
    ranges   |  0           |  1        |  2        |          from the first boundary in a range to that in the next

The begin of a range is a guess. It is right if the range before it, whose begin is known to be right, ended exactly
there; else the range is read again from where that one ended.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch
from ktrace.parallel.fork import Workers
from ktrace.report import Report

from . import chunks
from .byte_ranges import seek
from .chunks import Text
from .decode import MOST_EVENTS, Decoder
from .lists import List
from .member import RowsOf

#: One process reads a file of less than so many bytes.
LEAST = 32 << 20


@dataclass(frozen=True)
class RangeResult:
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
