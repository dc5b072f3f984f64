"""The queues that the layer names, and their devices."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ktrace.input.source import Source

_NAME = re.compile(
    rb'"name"\s*:\s*"thread_name"\s*,\s*"pid"\s*:\s*\d{1,12}\s*,\s*"tid"\s*:\s*(?:-(\d{1,9})|(\d{1,9})\.1)\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]{0,400})"'
)
_DEVICE = re.compile(r"(?:(?:IOQ|OOQ) )?0x[0-9a-fA-F]+(?:\.\d+)* (.+)")
_CHUNK = 4 << 20
_LONGEST = 1024


@dataclass
class Queues:
    """The devices in the order of their first queues, the device and the name of each queue."""

    devices: list[str] = field(default_factory=list)
    device_of: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def add(self, queue: int, name: str) -> None:
        """Adds a queue."""
        found = _DEVICE.fullmatch(name)
        device = found[1] if found else name
        if device not in self.devices:
            self.devices.append(device)
        self.device_of[queue] = self.devices.index(device)
        self.names[queue] = name


def queues_of(source: Source) -> Queues:
    """Returns the queues that are named anywhere in the document."""
    queues = Queues()
    with source.open(quiet=True) as stream:
        text = b""
        while data := stream.read(_CHUNK):
            text = text[-_LONGEST:] + data
            if b'"thread_name"' in text:
                for old, new, name in _NAME.findall(text):
                    queues.add(int(old or new), name.decode("utf-8", "replace"))
    return queues
