"""Reads a report twice: first the strings in the headers of its blocks, then the results and the facts for the catalog.

Facts are about the session, the machine and its devices, and the functions of the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ncu_launches import Launches
from ktrace.model.batch import Batch
from ktrace.report import Report, counted

from .container import MOST_ENTRY, VERSION, Block, Broken, Container, Decoder, Entry
from .fields import SESSION, SOURCE, SOURCES, STRINGS
from .results import KINDS, Results, local_time

_TOOL = "NVIDIA Nsight Compute"
_TARGET = "Nsight Compute Target"

#: Attribute of a device -> the fact of the model.
_DEVICE = {"multiprocessor_count": "sm_count", "total_memory": "memory"}
_PREFIX = "device__attribute_"

#: A field of a source with more bytes than this is code, and isn't read.
_MOST = 1 << 20


class Session:
    """Collects the facts of the session, which are spread over several blocks."""

    def __init__(self, decoder: Decoder, report: Report) -> None:
        self._decoder, self._report = decoder, report
        self._source: dict[str, Any] = {}
        self._versions: dict[str, str] = {}
        self._host: dict[str, Any] = {}
        self._devices: dict[int, tuple[str, dict[str, Any]]] = {}
        self._host_name: str | None = None

    def add(self, data: bytes, host: str | None, place: str) -> None:
        """Adds the facts of a block. Raises ValueError if they are damaged."""
        session = self._decoder.message(data, SESSION, "session")
        self._host_name = self._host_name or host
        for name in ("command", "comment"):
            if session.get(name):
                self._source[name] = session[name].strip()
        if session.get("created"):
            self._source["created"] = local_time(session["created"])
        self._versions |= {
            tool["of"]: tool.get("version", "") for tool in session.get("versions", ()) if tool.get("of")
        }
        program = session.get("program", {})
        if any(program.get(name) for name in ("path", "arguments")):
            self._source["program"] = " ".join(filter(None, (program.get("path"), program.get("arguments"))))
        if program.get("environment"):
            self._report.issue("environment", place)
        for pair in session.get("properties", {}).get("properties", ()):
            self._source.setdefault("properties", {})[pair.get("key", "")] = pair.get("value", "")
        self._add_system(session.get("target", {}), "")
        self._add_system(session.get("host", {}), "profiled_from_")
        for device in session.get("devices", ()):
            self._add_device(device)

    def _add_system(self, system: dict[str, Any], prefix: str) -> None:
        """Adds the facts of a machine, without its network addresses."""
        release = " ".join(filter(None, (system.get("os"), system.get("build"))))
        facts = {"os": release, "cpu": system.get("cpu"), "architecture": system.get("architecture")}
        facts["computer"] = system.get("computer")
        self._host |= {prefix + name: value for name, value in facts.items() if value}

    def _add_device(self, device: dict[str, Any]) -> None:
        attributes = {
            attribute.get("name", "").removeprefix(_PREFIX): next(iter(attribute.get("value", {}).values()), None)
            for attribute in device.get("attributes", ())
        }
        name, facts = self._devices.get(device.get("number", 0), ("", {}))
        self._devices[device.get("number", 0)] = device.get("name") or name, facts | attributes

    def add_facts(self, launches: Launches, version: int) -> None:
        """Adds the facts to the catalog."""
        facts: dict[str, Any] = {"tool": _TOOL, "report_version": version}
        if _TARGET in self._versions:
            facts["version"] = self._versions.pop(_TARGET)
        facts |= {"versions": self._versions} if self._versions else {}
        launches.fact("source", facts=facts | self._source)
        host = {"host": self._host_name} if self._host_name else {}
        if host and self._host:
            launches.fact("host", **host, facts=self._host)
        for number, (name, attributes) in self._devices.items():
            more = {_DEVICE[key]: value for key, value in attributes.items() if key in _DEVICE}
            more |= {"attributes": attributes} if attributes else {}
            named = {"name": name} if name else {}
            launches.fact("device", **host, device=number, **named, facts={"vendor": "NVIDIA", "api": "cuda"} | more)


def functions_of(entry: Entry, container: Container, decoder: Decoder) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (mangled name, facts) for each function of a source, without reading code and the text of files.

    Raises Broken or ValueError if the source is damaged.
    """
    source: dict[str, Any] = {}
    size = 0
    for number, wire, value in container.fields(entry, _MOST):
        field = SOURCE.get(number)
        if field is None:
            decoder.unknown["source", number] += 1
        elif number == 4:
            size = value if isinstance(value, int) else len(value)
        elif field.how == "int" and wire == 0:
            source[field.name] = value
        elif not isinstance(field.how, str) and isinstance(value, bytes):
            source[field.name] = decoder.message(value, field.how, f"source, {field.name}")
    facts = {"source": source.get("number"), "code_bytes": size or None, "sm_revision": source.get("revision")}
    files = [file["path"] for file in source.get("files", {}).get("files", ()) if file.get("path")]
    facts |= {"files": files or None}
    facts_given = {name: value for name, value in facts.items() if value is not None}
    for symbol in source.get("symbols", {}).get("functions", ()):
        if symbol.get("name"):
            yield symbol["name"], facts_given | ({"address": symbol["address"]} if "address" in symbol else {})


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each launch followed by its metrics and notes, and counters for its samples.

    Reads the intact part of a damaged file. Raises DamagedInput if it has no result.
    """
    decoder = Decoder()
    strings = _strings(source)
    launches = Launches(conversion, european=False)
    with source.open() as stream:
        container = Container(stream, decoder, source.path)
        reading = _ReportReader(container, decoder, conversion, launches, strings)
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


class _ReportReader:
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
            self._report.issue("unknown-field", f"field {number} of {what}", counted(count, "time"), count)
        if self._decoder.texts:
            self._report.issue("encoding", "texts", "", self._decoder.texts)
        if self._broken is not None:
            self._report.record()
            kind = "cut" if self._broken.cut else "bad-record"
            rest = "" if self._broken.cut else "; the rest of the file isn't read"
            self._report.issue(kind, f"byte {self._broken.place}", self._broken.detail + rest)
        self._session.add_facts(self._launches, version)
