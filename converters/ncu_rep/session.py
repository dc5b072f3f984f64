"""Reads facts for the catalog: the session, the machine and its devices, and the functions of the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.kit.ncu.launches import Launches
from ktrace.report import Report

from .blocks import Container, Entry
from .decode import Decoder
from .fields import SESSION, SOURCE, How
from .results import local_time

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
        name, known = self._devices.get(device.get("number", 0), ("", {}))
        self._devices[device.get("number", 0)] = device.get("name") or name, known | attributes

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
            known = {_DEVICE[key]: value for key, value in attributes.items() if key in _DEVICE}
            known |= {"attributes": attributes} if attributes else {}
            named = {"name": name} if name else {}
            launches.fact("device", **host, device=number, **named, facts={"vendor": "NVIDIA", "api": "cuda"} | known)


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
        elif field.how is How.INT and wire == 0:
            source[field.name] = value
        elif not isinstance(field.how, How) and isinstance(value, bytes):
            source[field.name] = decoder.message(value, field.how, f"source, {field.name}")
    facts = {"source": source.get("number"), "code_bytes": size or None, "sm_revision": source.get("revision")}
    files = [file["path"] for file in source.get("files", {}).get("files", ()) if file.get("path")]
    facts |= {"files": files or None}
    known = {name: value for name, value in facts.items() if value is not None}
    for symbol in source.get("symbols", {}).get("functions", ()):
        if symbol.get("name"):
            yield symbol["name"], known | ({"address": symbol["address"]} if "address" in symbol else {})
