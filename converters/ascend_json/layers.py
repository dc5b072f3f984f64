"""The layers of a document: the names of its processes and threads, and the devices that they belong to.

{"name": "process_name", "pid": 33, "args": {"name": "Communication"}, "ph": "M"}
{"name": "process_labels", "pid": 33, "args": {"labels": "NPU 1"}, "ph": "M"}
{"name": "thread_name", "pid": 33, "tid": 0, "args": {"name": "Group 123 Communication"}, "ph": "M"}
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ktrace.input.source import Source

HARDWARE = "Ascend Hardware"

#: Layers of communication: until and from 2024 on.
COMMUNICATION = frozenset({"HCCL", "Communication"})

#: Bytes read at once, and the most that an object of metadata has.
_CHUNK = 1 << 22
_LONGEST = 1 << 10

_METADATA = re.compile(rb'"(process_name|process_labels|thread_name)"')
_LAUNCH = re.compile(rb'"Node@launch')
_DEVICE_LAYER = re.compile(r"NPU ([0-9]{1,9})")
_GROUP = re.compile(r"Group (?P<group>.+) Communication")

#: The most processes, and threads, that a document may have; a profile has some twenty.
_MOST = 1 << 12


class Layers(msgspec.Struct):
    """pid -> name, pid -> label, (pid, tid) -> name of a thread, and whether the calls that launch tasks are there."""

    names: dict[int, str] = msgspec.field(default_factory=dict)
    labels: dict[int, str] = msgspec.field(default_factory=dict)
    threads: dict[tuple[int, int], str] = msgspec.field(default_factory=dict)
    has_launches: bool = False

    @property
    def devices(self) -> dict[int, int]:
        """pid -> device of the layers of the hardware."""
        return self._devices(frozenset({HARDWARE}))

    @property
    def communication(self) -> dict[int, int]:
        """pid -> device of the layers of communication."""
        return self._devices(COMMUNICATION)

    @property
    def groups(self) -> dict[tuple[int, int], str]:
        """(pid, tid) -> the group whose operators are on this thread."""
        pids = self.communication
        names = {at: _GROUP.fullmatch(name) for at, name in self.threads.items() if at[0] in pids}
        return {at: group["group"] for at, group in names.items() if group}

    def _devices(self, layers: frozenset[str]) -> dict[int, int]:
        """Versions before 2024 don't write the number of a device: theirs is 0, or the pid's position."""
        pids = sorted(pid for pid, name in self.names.items() if name in layers)
        labels = {pid: _DEVICE_LAYER.fullmatch(self.labels.get(pid, "")) for pid in pids}
        return {pid: int(label[1]) if label else number for number, (pid, label) in enumerate(labels.items())}


def layers_of(source: Source) -> Layers:
    """Reads the bytes of a document once for the names and labels of its processes."""
    layers, before = Layers(), b""
    with source.open(quiet=True) as stream:
        while chunk := stream.read(_CHUNK):
            text = before + chunk
            for match in _METADATA.finditer(text):
                _take(layers, _object(text, match.start()))
            layers.has_launches = layers.has_launches or _LAUNCH.search(text) is not None
            before = text[-2 * _LONGEST :]
    return layers


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


def _take(layers: Layers, event: Any) -> None:
    if not isinstance(event, dict) or event.get("ph") != "M":
        return
    pid, tid, args = _number(event.get("pid")), _number(event.get("tid")), event.get("args")
    if pid is None or not isinstance(args, dict) or max(len(layers.names), len(layers.threads)) >= _MOST:
        return
    text = args.get("labels" if event.get("name") == "process_labels" else "name")
    if not isinstance(text, str):
        return
    if event.get("name") != "thread_name":
        names = layers.names if event.get("name") == "process_name" else layers.labels
        names[pid] = text.strip()
    elif tid is not None:
        layers.threads[pid, tid] = text.strip()


def _number(cell: Any) -> int | None:
    """The id of a process or thread, which may be a text."""
    if isinstance(cell, str) and cell.isascii() and cell.isdecimal() and len(cell) < 19:
        cell = int(cell)
    return cell if type(cell) is int and abs(cell) < 1 << 62 else None
