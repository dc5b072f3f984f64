"""Reads a report twice: first the strings in the headers of its blocks, then the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ncu.launches import Launches
from ktrace.model.batch import Batch

from .blocks import MOST_ENTRY, VERSION, Block, Broken, Container, Entry
from .decode import Decoder
from .fields import SOURCES, STRINGS
from .results import KINDS, Results
from .session import Session, functions_of


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each launch followed by its metrics and notes, and counters for its samples.

    Reads the intact part of a damaged file. Raises DamagedInput if it has no result.
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
    """Returns the names of metrics by their index: the strings of all blocks, one after the other."""
    decoder = Decoder()
    strings: list[str] = []
    with source.open(quiet=True) as stream:
        try:
            for block in Container(stream, decoder, source.path).blocks():
                strings += decoder.message(block.header.get("strings", b""), STRINGS, "strings").get("strings", ())
        except (Broken, ValueError):
            pass  # the second pass reports it
    return strings


class _Reading:
    """The second pass: reads the blocks, and keeps the session and what is wrong with the file."""

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
        """Reads block after block and yields after each entry."""
        try:
            for block in self._container.blocks():
                self._header(block)
                for entry in self._container.entries(block):
                    self._entry(entry)
                    yield
        except Broken as broken:
            self._broken = broken

    def _header(self, block: Block) -> None:
        """Reads the process of a block, and facts of the session."""
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
                self._report.issue("bad-record", place, broken.detail)
                raise
        elif entry.data is None:
            self._report.record()
            detail = f"one of the {entry.kind} has {entry.size:,} bytes, more than the limit of {MOST_ENTRY:,}"
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
        """Reports what is wrong with the file as a whole, and adds the facts. Raises DamagedInput without a result."""
        version = self._container.version
        if not self._results.count:
            broken = self._broken
            raise DamagedInput(
                f"has no readable result: {broken.detail}" if broken else "has no result: no kernel was profiled",
                path=path,
                where=f"byte {broken.place}" if broken else None,
                expected="launches of kernels with their metrics",
                remedy="copy the file again, or profile again (`ncu --log-file run.log` logs what ncu does)"
                if version == VERSION
                else f"it has version {version}, so export it: ncu --import {path} --csv --page raw > run.csv",
            )
        if version != VERSION:
            detail = f"version {version}, while ktrace knows version {VERSION}; `ncu --import` can read it"
            self._report.issue("unknown-version", "file header", detail, 1)
        for (what, number), count in sorted(self._decoder.unknown.items()):
            self._report.issue("unknown-field", f"field {number} of {what}", f"{count:,} times", count)
        if self._decoder.texts:
            self._report.issue("encoding", "texts", "", self._decoder.texts)
        if self._broken is not None:
            self._report.record()
            kind = "cut" if self._broken.cut else "bad-record"
            rest = "" if self._broken.cut else "; the rest of the file isn't read"
            self._report.issue(kind, f"byte {self._broken.place}", self._broken.detail + rest)
        self._session.add_facts(self._launches, version)
