"""Reads XPlane files: events by plane and line, and the facts of planes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.boundary import BadFiles
from ktrace.input.snapshot import snapshot_bytes
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Batches
from ktrace.kit.xla.lines import HOST, device_of, placed
from ktrace.model.arrays import UInt8
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .events import SINCE_1970, PlaneReader
from .facts import METADATA, MODULES, TASK, add_device, add_lines, source_facts
from .folder import files_of
from .layout import Data, Layout, Plane, is_transcoded, walk

#: Bytes that are looked at to tell whether a program read the file as text.
_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of a file, or of the files of a profile folder, one for each host; facts come last.

    A file of a folder that can't be read is reported. Raises DamagedInput if no file can be read, InputError for a
    folder with several runs.
    """
    batches, rows, clock = Batches(conversion), RowBuilder(conversion, first_id=0), _Clock()
    bad = BadFiles(conversion.report)
    for one in files_of(source, conversion):
        reading = _File(one.source, conversion, batches, rows, clock, one.host).read()
        for batch in bad.left_out(one.source.path, reading):
            for first in range(0, len(batch), conversion.batch_rows):
                yield Batch(batch.record, batch.columns.slice(first, conversion.batch_rows))
        yield from rows.ready()
    bad.end()
    rows.fact("clock", facts=clock.facts)
    yield from rows.rest()


@dataclass
class _Clock:
    """The main clock: that of the first file, whose 0 is at `origin` in unix time if it is known."""

    origin: int | None = None
    is_unix: bool = False
    files: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """Its facts in the catalog."""
        if self.origin is not None:
            return {"kind": "session", "at_ns": 0, "unix_ns": self.origin}
        return {"kind": "unix", "at_ns": 0, "unix_ns": 0} if self.is_unix else {"kind": "session"}


class _File:
    """One file. `host` names it where the file itself doesn't; its facts go to `rows`."""

    def __init__(
        self,
        source: Source,
        conversion: Conversion,
        batches: Batches,
        rows: RowBuilder,
        clock: _Clock,
        host: str | None,
    ) -> None:
        self._source, self._conversion, self._batches, self._rows = source, conversion, batches, rows
        self._clock, self._host = clock, host
        self._about: dict[str, Any] = {}
        self._modules: list[str] = []

    def read(self) -> Iterator[Batch]:
        """Yields the rows of all planes."""
        with snapshot_bytes(self._source) as data:
            if not data:
                raise self._damaged("is empty")
            if is_transcoded(data[:_HEAD]):
                raise self._damaged("was read as text by some program, which replaced its bytes by U+FFFD")
            layout = walk(data)
            cuts = self._conversion.report.reader.removed["cut"]
            if not any(plane.name for plane in layout.planes):
                raise self._damaged("isn't an XPlane file, or was cut off within its first plane")
            yield from self._planes(data, layout)
            self._problems(layout, cuts)
            if self._host is not None:
                self._rows.fact("host", host=self._host, name=self._host)
            self._rows.fact("source", host=self._host, facts=source_facts(self._about, self._modules))

    def _damaged(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._source.path,
            expected="planes of XLA's profiler (a message XSpace)",
            remedy="copy the file again as binary, or profile again",
        )

    def _planes(self, data: Data, layout: Layout) -> Iterator[Batch]:
        array = np.frombuffer(data, np.uint8)
        if len(layout.hostnames) == 1:
            self._host = layout.hostnames[0]
        readers = [self._reader(data, array, plane) for plane in layout.planes]
        stats = [reader.plane_stats() for reader in readers]
        start = self._start(layout, stats)
        pids = {plane.name: found.get("process_id") for plane, found in zip(layout.planes, stats, strict=True)}
        for plane, reader, about in zip(layout.planes, readers, stats, strict=True):
            pid = pids[plane.name] or pids.get(HOST)
            reader.pid = pid if type(pid) is int else None
            reader.origin = self._clock.origin or 0
            reader.start = reader.origin if start is None else start
            self._describe(plane, reader, about)
            yield from reader.read()
            add_lines(self._rows, plane, reader.placed, self._host, reader.pid)
            if isinstance(data, mmap.mmap) and hasattr(data, "madvise"):
                data.madvise(mmap.MADV_DONTNEED)

    def _start(self, layout: Layout, stats: list[dict[str, Any]]) -> int | None:
        """Returns the unix time of the begin of the profile. That of the first file is the origin of the main clock."""
        found = next((about["profile_start_time"] for about in stats if "profile_start_time" in about), None)
        start = found if type(found) is int else None
        self._clock.files += 1
        if self._clock.files == 1:
            first = next((line.timestamp_ns for plane in layout.planes for line in plane.lines), 0)
            self._clock.origin, self._clock.is_unix = start, start is None and first >= SINCE_1970
        elif start is None or self._clock.origin is None:
            self._conversion.report.issue("begin-guessed", self._host or self._source.path)
            return None
        return start

    def _reader(self, data: Data, array: UInt8, plane: Plane) -> PlaneReader:
        lines = [(line.id, line.name or line.display_name) for line in plane.lines]
        return PlaneReader(data, array, plane, placed(plane.name, lines), self._batches, self._conversion, self._host)

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

    def _problems(self, layout: Layout, cuts: int) -> None:
        """Reports what is wrong with the file as a whole, and what the profiler itself reported.

        `cuts` were reported before this file: a file is cut off in one place only.
        """
        report = self._conversion.report
        for broken, name in (*((plane.broken, plane.name) for plane in layout.planes), (layout.broken, "")):
            if broken is None or (broken.cut and report.reader.removed["cut"] > cuts):
                continue
            report.record()
            what = f"the plane {name}" if name else "the file"
            detail = f"{what} is cut off" if broken.cut else f"{what} can't be read from here on"
            report.issue("cut" if broken.cut else "bad-record", f"byte {broken.place}", detail)
        for message in layout.messages:
            report.issue("capture-warning", self._host or self._source.label, message)
