"""Reads the JSON of onetrace and its relatives.

The dialect of onetrace: no categories; numbers in quotes.

The queues of a document, numbered in the order of their first rows, and the places of rows on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.intel import Place, Work, device_work, work
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_QUEUE = re.compile(rb'"tid"\s*:\s*"(?:[0-9.]{1,40}\.)?(0x[0-9a-fA-F]{1,16}|[0-9A-F]{16})"')
_OWN = re.compile(r"(?:[0-9.]{1,40}\.)?(0x[0-9a-fA-F]{1,16}|[0-9A-F]{16})")
_STAGE = re.compile(r" \((Appended|Queued|Submitted|Executed)\)$")
_CHUNK = 4 << 20
_LONGEST = 256

#: No program has more queues; more are other texts.
_MOST = 1 << 16


class Queues:
    """The queues; whether the document has commands of OpenCL and none of Level Zero."""

    def __init__(self) -> None:
        self.streams: dict[str, int] = {}
        self.opencl = False

    def place(self, name: str, _tid: int | None, track: str | None) -> Place:
        """The place of a row: the stages before the execution are ranges."""
        found = _OWN.fullmatch(track or "")
        stream = self.streams.get(found[1]) if found else None
        stage = _STAGE.search(name)
        if stage and stage[1] != "Executed":
            return Place(Work("range", name), stream, waits=True)
        return Place(work(name[: stage.start()] if stage else name, self.opencl), stream, waits=False)


def queues_of(source: Source) -> Queues:
    """Returns the queues anywhere in the document."""
    queues, level_zero = Queues(), False
    with source.open(quiet=True) as stream:
        text = b""
        while data := stream.read(_CHUNK):
            text = text[-_LONGEST:] + data
            queues.opencl |= b'"clEnqueue' in text
            level_zero |= b'"zeCommand' in text
            for queue in dict.fromkeys(_QUEUE.findall(text)):
                if len(queues.streams) < _MOST:
                    queues.streams.setdefault(queue.decode(), len(queues.streams))
    queues.opencl &= not level_zero
    return queues


DIALECT = Dialect(cats={}, other=Rule("api"), quoted=True)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields calls and device work. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of, queues = mapper(DIALECT), queues_of(source)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield device_work(batch, queues.place, {}) if batch.record == "events" else batch

    yield from read_document(source, conversion, placed, lambda found, conversion: (), quoted=DIALECT.quoted)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "onetrace"})
    rows.fact("clock", facts={"kind": "session"})
    rows.fact("device", device=0, name="Intel GPU", facts={"vendor": "Intel"})
    for queue, stream in queues.streams.items():
        rows.fact("stream", device=0, stream=stream, name=f"Queue {queue}")
    yield from rows.rest()
