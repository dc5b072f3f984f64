"""What a log states about the run: the command, the version, the device, the options."""

from __future__ import annotations

import re
from typing import Any

from ktrace.kit.text.numbers import quantity
from ktrace.model.row_builder import RowBuilder

_RUN = re.compile(r"&&&& (?:RUNNING|PASSED|FAILED|WAIVED) TensorRT\.trtexec(?: \[TensorRT v(\d+)\])?[^#]{0,40}# ?(.*)")
_VERSION = re.compile(r"TensorRT version: ([\d.]{1,30})\s*")
_FACT = re.compile(r"(?P<key>[A-Za-z][\w ./()-]{0,60}): (?P<value>.*)")
_LISTED = re.compile(r"Device (?P<number>\d{1,4}): \"(?P<name>.*)\" UUID: (?P<uuid>\S*)\s*")
_DEVICE = {
    "Selected Device": "name",
    "Selected Device ID": "id",
    "Selected Device UUID": "uuid",
    "Compute Capability": "compute_capability",
    "SMs": "sm_count",
    "Device Global Memory": "memory",
}


class About:
    """Collects the facts of the sections, and adds them at the end. `device` is the ordinal, once it is known."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self.section = ""
        self.device: int | None = None
        self._source: dict[str, Any] = {"tool": "TensorRT trtexec"}
        self._facts: dict[str, Any] = {}
        self._options: dict[str, dict[str, str]] = {}

    def takes(self, text: str) -> bool:
        """Whether the line is a fact; keeps it."""
        if found := _RUN.match(text):
            if found[1]:
                self._source.setdefault("build", found[1])
            self._source.setdefault("command", found[2].strip())
            return True
        if found := _VERSION.fullmatch(text):
            self._source["version"] = found[1]
            return True
        if not self.section.endswith((" Options", "Device Information")) or text.startswith("[TRT]"):
            return False
        if found := _LISTED.fullmatch(text.strip()):
            facts = {"uuid": found["uuid"]}
            self._rows.fact("device", device=int(found["number"]), name=found["name"], facts=facts)
            return True
        fact = _FACT.fullmatch(text.strip())
        if not fact:
            return False
        key, value = fact["key"], fact["value"].strip()
        if self.section == "Device Information":
            self._of_device(key, value)
        else:
            self._options.setdefault(self.section, {})[key] = value
            if self.section == "Model Options" and key == "Model" and value:
                self._source.setdefault("model", value)
        return True

    def _of_device(self, key: str, value: str) -> None:
        name = _DEVICE.get(key, key)
        number = quantity(value)
        if name == "id":
            self.device = int(value) if value.isdigit() and len(value) < 5 else None
        elif name == "sm_count" and value.isdigit():
            self._facts[name] = int(value)
        elif name == "memory" and number and number.unit == "MiB":
            self._facts[name] = int(number.number) << 20
        else:
            self._facts[name] = value

    def end(self) -> None:
        """Adds the facts."""
        self._rows.fact("source", facts=self._source | self._options)
        if self._facts:
            name = self._facts.pop("name", None)
            self._rows.fact("device", device=self.device or 0, name=name, facts={"api": "cuda"} | self._facts)
