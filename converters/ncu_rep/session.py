"""What a report says of the session, the machine and its devices, and of the code: facts of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.converters._shared.ncu.launches import Launches
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

#: Bytes of a field of a source beyond which it isn't looked at: code.
_MOST = 1 << 20


class Session:
    """Gathers the facts of the session, which stand in several blocks, one or a few each."""

    def __init__(self, decoder: Decoder, report: Report) -> None:
        self._decoder, self._report = decoder, report
        self._source: dict[str, Any] = {}
        self._versions: dict[str, str] = {}
        self._host: dict[str, Any] = {}
        self._devices: dict[int, tuple[str, dict[str, Any]]] = {}
        self._host_name: str | None = None

    def add(self, data: bytes, host: str | None, place: str) -> None:
        """Takes the facts of a block. Raises ValueError where they are damaged."""
        said = self._decoder.message(data, SESSION, "session")
        self._host_name = self._host_name or host
        for name in ("command", "comment"):
            if said.get(name):
                self._source[name] = said[name].strip()
        if said.get("created"):
            self._source["created"] = local_time(said["created"])
        self._versions |= {one["of"]: one.get("version", "") for one in said.get("versions", ()) if one.get("of")}
        program = said.get("program", {})
        if any(program.get(name) for name in ("path", "arguments")):
            self._source["program"] = " ".join(filter(None, (program.get("path"), program.get("arguments"))))
        if program.get("environment"):
            self._report.issue("environment", place)
        for pair in said.get("properties", {}).get("properties", ()):
            self._source.setdefault("properties", {})[pair.get("key", "")] = pair.get("value", "")
        self._system(said.get("target", {}), "")
        self._system(said.get("host", {}), "profiled_from_")
        for device in said.get("devices", ()):
            self._device(device)

    def _system(self, said: dict[str, Any], prefix: str) -> None:
        """A machine; addresses aren't read."""
        system = " ".join(filter(None, (said.get("os"), said.get("build"))))
        facts = {"os": system, "cpu": said.get("cpu"), "architecture": said.get("architecture")}
        facts["computer"] = said.get("computer")
        self._host |= {prefix + name: value for name, value in facts.items() if value}

    def _device(self, said: dict[str, Any]) -> None:
        attributes = {
            attribute.get("name", "").removeprefix(_PREFIX): next(iter(attribute.get("value", {}).values()), None)
            for attribute in said.get("attributes", ())
        }
        name, known = self._devices.get(said.get("number", 0), ("", {}))
        self._devices[said.get("number", 0)] = said.get("name") or name, known | attributes

    def tell(self, launches: Launches, version: int) -> None:
        """Gives the facts to the catalog."""
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
    """(mangled name, facts) of each function of a source. Code and the text of files are not looked at.

    Raises Broken or ValueError where it is damaged.
    """
    found: dict[str, Any] = {}
    size = 0
    for number, wire, value in container.fields(entry, _MOST):
        field = SOURCE.get(number)
        if field is None:
            decoder.unknown["source", number] += 1
        elif number == 4:
            size = value if isinstance(value, int) else len(value)
        elif field.how is How.INT and wire == 0:
            found[field.name] = value
        elif not isinstance(field.how, How) and isinstance(value, bytes):
            found[field.name] = decoder.message(value, field.how, f"source, {field.name}")
    facts = {"source": found.get("number"), "code_bytes": size or None, "sm_revision": found.get("revision")}
    files = [file["path"] for file in found.get("files", {}).get("files", ()) if file.get("path")]
    facts |= {"files": files or None}
    kept = {name: value for name, value in facts.items() if value is not None}
    for symbol in found.get("symbols", {}).get("functions", ()):
        if symbol.get("name"):
            yield symbol["name"], kept | ({"address": symbol["address"]} if "address" in symbol else {})
