"""The layers of a document: its processes by name, and the devices that they belong to. Metadata may be anywhere.

{"name": "process_name", "pid": 800, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"}
{"name": "process_labels", "pid": 800, "tid": 0, "args": {"labels": "NPU 1"}, "ph": "M"}     device 1
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ktrace.input.source import Source

HARDWARE = "Ascend Hardware"

#: Bytes read at once, and the most that an object of metadata has.
_CHUNK = 1 << 22
_LONGEST = 1 << 10

_METADATA = re.compile(rb'"(process_name|process_labels)"')
_LAUNCH = re.compile(rb'"Node@launch')
_DEVICE = re.compile(r"NPU ([0-9]{1,9})")

#: The most processes that a document may have; a profile has some twenty.
_MOST = 1 << 12


@dataclass
class Layers:
    """pid -> name, pid -> device for the layer of the hardware, and whether the calls that launch tasks are there."""

    names: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    has_launches: bool = False

    @property
    def devices(self) -> dict[int, int]:
        """pid -> device. Versions before 2024 don't write the number: theirs is 0, or the pid's position."""
        hardware = sorted(pid for pid, name in self.names.items() if name == HARDWARE)
        found = {pid: _DEVICE.fullmatch(self.labels.get(pid, "")) for pid in hardware}
        return {pid: int(label[1]) if label else number for number, (pid, label) in enumerate(found.items())}


def layers_of(source: Source) -> Layers:
    """Reads the bytes of a document once for the names and labels of its processes."""
    found, before = Layers(), b""
    with source.open(quiet=True) as stream:
        while chunk := stream.read(_CHUNK):
            text = before + chunk
            for match in _METADATA.finditer(text):
                _take(found, _object(text, match.start()))
            found.has_launches = found.has_launches or _LAUNCH.search(text) is not None
            before = text[-2 * _LONGEST :]
    return found


def _object(text: bytes, at: int) -> Any:
    """The object around a position, None if it isn't whole."""
    start = text.rfind(b"{", max(0, at - _LONGEST), at)
    if start < 0:
        return None
    piece = text[start : start + _LONGEST].decode("utf-8", "replace")
    try:
        return json.JSONDecoder().raw_decode(piece)[0]
    except (ValueError, RecursionError):
        return None


def _take(found: Layers, event: Any) -> None:
    if not isinstance(event, dict) or event.get("ph") != "M":
        return
    pid, args = event.get("pid"), event.get("args")
    if isinstance(pid, str) and pid.isascii() and pid.isdecimal() and len(pid) < 19:
        pid = int(pid)
    if type(pid) is not int or abs(pid) >= 1 << 62 or not isinstance(args, dict) or len(found.names) >= _MOST:
        return
    key, names = ("name", found.names) if event.get("name") == "process_name" else ("labels", found.labels)
    text = args.get(key)
    if isinstance(text, str):
        names[pid] = text.strip()
