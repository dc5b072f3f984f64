"""Reads XPlane files: events by plane and line, and the facts of planes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar.blocks import Batches
from ktrace.errors import DamagedInput
from ktrace.input.source import Source, printable
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .events import SINCE_1970, PlaneReader
from .facts import METADATA, MODULES, TASK, add_device, add_lines, source_facts
from .folder import files_of
from .layout import Layout, Plane, is_transcoded, walk
from .lines import HOST, device_of, placed

#: Bytes that are looked at to tell whether a program read the file as text.
_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of a file, or of the files of a profile folder, one for each host; facts come last.

    Raises DamagedInput if a file has no plane.
    """
    batches, rows = Batches(conversion), RowBuilder(conversion, first_id=0)
    rows.fact("source", name=conversion.label, facts={"path": printable(source.path), "format": "xplane"})
    for host, file in files_of(source, conversion):
        for batch in _File(file, conversion, batches, rows, host).read():
            for first in range(0, len(batch), conversion.batch_rows):
                yield Batch(batch.record, batch.columns.slice(first, conversion.batch_rows))
        yield from rows.ready()
    yield from rows.rest()


class _File:
    """One file. `host` names it where the file itself doesn't; its facts go to `rows`."""

    def __init__(
        self, source: Source, conversion: Conversion, batches: Batches, rows: RowBuilder, host: str | None
    ) -> None:
        self._source, self._conversion, self._batches, self._rows = source, conversion, batches, rows
        self._host = host
        self._about: dict[str, Any] = {}
        self._modules: list[str] = []

    def read(self) -> Iterator[Batch]:
        """Yields the rows of all planes."""
        with self._source.local_path() as path, path.open("rb") as file:
            if not path.stat().st_size:
                raise self._damaged("is empty")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if is_transcoded(data[:_HEAD]):
                raise self._damaged("was read as text by some program, which replaced its bytes by U+FFFD")
            layout = walk(data)
            if not any(plane.name for plane in layout.planes):
                raise self._damaged("isn't an XPlane file, or was cut off within its first plane")
            yield from self._planes(data, layout)
            self._problems(layout)
            self._facts(layout)

    def _damaged(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._source.path,
            expected="planes of XLA's profiler (a message XSpace)",
            remedy="copy the file again as binary, or profile again",
        )

    def _planes(self, data: mmap.mmap, layout: Layout) -> Iterator[Batch]:
        array = np.frombuffer(data, np.uint8)
        if len(layout.hostnames) == 1:
            self._host = layout.hostnames[0]
        readers = [self._reader(data, array, plane) for plane in layout.planes]
        stats = [reader.plane_stats() for reader in readers]
        start = next((found.get("profile_start_time") for found in stats if "profile_start_time" in found), None)
        pids = [found.get("process_id") for found in stats]
        pid = next((one for one, plane in zip(pids, layout.planes, strict=True) if plane.name == HOST), None)
        for plane, reader, about, own in zip(layout.planes, readers, stats, pids, strict=True):
            reader.pid = next((one for one in (own, pid) if type(one) is int), None)
            reader.shift_ns = start if type(start) is int else 0
            self._describe(plane, reader, about)
            yield from reader.read()
            add_lines(self._rows, plane, reader.placed, self._host, reader.pid)
            if hasattr(data, "madvise"):
                data.madvise(mmap.MADV_DONTNEED)

    def _reader(self, data: mmap.mmap, array: Any, plane: Plane) -> PlaneReader:
        return PlaneReader(
            data, array, plane, placed(plane), self._batches, self._conversion, self._host, pid=None, shift_ns=0
        )

    def _describe(self, plane: Plane, reader: PlaneReader, stats: dict[str, Any]) -> None:
        device = device_of(plane.name)
        if device is not None and device.number is not None:
            add_device(self._rows, self._host, device, stats)
        elif plane.name in (METADATA, TASK):
            self._about |= stats
            if plane.name == METADATA:
                self._modules += reader.entry_names(MODULES)
        elif kept := {name: value for name, value in stats.items() if name != "process_id"}:
            self._about[plane.name] = kept

    def _problems(self, layout: Layout) -> None:
        """Reports what is wrong with the file as a whole, and what the profiler itself reported."""
        report = self._conversion.report
        for broken, name in (*((plane.broken, plane.name) for plane in layout.planes), (layout.broken, "")):
            if broken is None:
                continue
            report.record()
            what = f"the plane {name}" if name else "the file"
            detail = f"{what} is cut off" if broken.cut else f"{what} can't be read from here on"
            report.issue("cut" if broken.cut else "bad-record", f"byte {broken.place}", detail)
        for message in layout.messages:
            report.issue("capture-warning", self._host or self._source.label, message)

    def _facts(self, layout: Layout) -> None:
        """Adds facts about the source, its host and its clock."""
        start = self._about.get("profile_start_time")
        if self._host is not None:
            self._rows.fact("host", host=self._host, name=self._host)
        self._rows.fact("source", host=self._host, facts=source_facts(self._about, self._modules))
        first = next((line.timestamp_ns for plane in layout.planes for line in plane.lines), 0)
        if type(start) is int:
            self._rows.fact("clock", host=self._host, facts={"kind": "session", "at_ns": 0, "unix_ns": start})
        elif first >= SINCE_1970:
            self._rows.fact("clock", host=self._host, facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        else:
            self._rows.fact("clock", host=self._host, facts={"kind": "session"})
