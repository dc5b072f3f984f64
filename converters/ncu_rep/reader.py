"""Reads a report twice: the strings and the session first, which stand in the headers of blocks, then the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.converters._shared.ncu.launches import Launches
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .blocks import MOST_ENTRY, VERSION, Block, Broken, Container, Entry
from .decode import Decoder
from .fields import SOURCES, STRINGS
from .results import KINDS, Results
from .session import Session, functions_of


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A summary a launch, behind it its metrics and notes; counters for what was sampled. What is whole is read.

    Raises DamagedInput where nothing is.
    """
    decoder = Decoder()
    strings = _strings(source)
    launches = Launches(conversion, european=False)
    with source.open() as stream:
        container = Container(stream, decoder, source.path)
        reading = _Reading(container, decoder, conversion, launches, strings)
        for _ in reading.blocks():
            yield from launches.ready()
        reading.finish(source.path)
        yield from launches.rest()


def _strings(source: Source) -> list[str]:
    """The names of metrics by their number: the strings of all blocks, one behind the other."""
    decoder = Decoder()
    strings: list[str] = []
    with source.open(quiet=True) as stream:
        try:
            for block in Container(stream, decoder, source.path).blocks():
                strings += decoder.message(block.header.get("strings", b""), STRINGS, "strings").get("strings", ())
        except (Broken, ValueError):
            pass  # which the second reading reports
    return strings


class _Reading:
    """Goes through the blocks."""

    def __init__(
        self, container: Container, decoder: Decoder, conversion: Conversion, launches: Launches, strings: list[str]
    ) -> None:
        self._container, self._decoder = container, decoder
        self._report = conversion.report
        self._launches = launches
        self._results = Results(launches, strings, conversion)
        self._session = Session(decoder, conversion.report)
        self._process: dict[str, Any] = {}
        self._broken: Broken | None = None

    def blocks(self) -> Iterator[None]:
        """Reads block after block; stands still after each entry."""
        try:
            for block in self._container.blocks():
                self._header(block)
                for entry in self._container.entries(block):
                    self._entry(entry)
                    yield
        except Broken as broken:
            self._broken = broken

    def _header(self, block: Block) -> None:
        """The process that the block is of, and facts of the session."""
        place = f"byte {block.payload}"
        process = block.header.get("process", {})
        self._process = process if process.get("path", "").strip() else self._process | process
        if data := block.header.get("session"):
            self._report.record()
            try:
                self._session.add(data, process.get("host"), place)
                self._report.used(outcome="catalog")
            except ValueError as error:
                self._report.issue("bad-record", place, str(error))

    def _entry(self, entry: Entry) -> None:
        place = f"byte {entry.place}"
        if entry.kind == SOURCES:
            self._report.record()
            try:
                for name, facts in functions_of(entry, self._container, self._decoder):
                    self._launches.fact("name", name=name, facts=facts)
                self._report.used(outcome="catalog")
            except ValueError as error:
                self._report.issue("bad-record", place, str(error))
            except Broken as broken:
                self._report.issue("bad-record", place, broken.what)
                raise
        elif entry.data is None:
            self._report.record()
            detail = f"{entry.size:,} bytes are more than the {MOST_ENTRY:,} that are read of one of the {entry.kind}"
            self._report.issue("bad-record", place, detail)
        else:
            kind = KINDS[entry.kind]
            try:
                result = self._decoder.message(entry.data, kind.shape, entry.kind)
            except ValueError as error:
                self._report.record()
                self._report.issue("bad-record", place, str(error))
                return
            self._results.add(result, kind, self._process, place)

    def finish(self, path: str) -> None:
        """Says what is odd of the whole file, and tells the facts."""
        version = self._container.version
        if not self._results.count:
            broken = self._broken
            raise DamagedInput(
                f"has no result that can be read: {broken.what}" if broken else "has no result: no kernel was profiled",
                path=path,
                where=f"byte {broken.place}" if broken else None,
                expected="launches of kernels with their metrics",
                remedy="copy the file again, or profile again (`ncu --log-file run.log` says what ncu did)"
                if version == VERSION
                else f"it is of version {version}: ncu --import {path} --csv --page raw > run.csv",
            )
        if version != VERSION:
            detail = f"version {version} where {VERSION} is known; `ncu --import` knows all of its own"
            self._report.issue("unknown-version", "file header", detail, 1)
        for (what, number), count in sorted(self._decoder.unknown.items()):
            self._report.issue("unknown-field", f"field {number} of {what}", f"{count:,} times", count)
        if self._decoder.texts:
            self._report.issue("encoding", "texts", "", self._decoder.texts)
        if self._broken is not None:
            self._report.record()
            kind = "cut" if self._broken.cut else "bad-record"
            rest = "" if self._broken.cut else "; what stands behind it isn't read"
            self._report.issue(kind, f"byte {self._broken.place}", self._broken.what + rest)
        self._session.tell(self._launches, version)
