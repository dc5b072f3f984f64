"""Reads XPlane files: events by plane and line, and the facts of planes.

The stats of planes and the names of lines state facts about the source, its devices, threads and streams. A profile
folder has a file for each host; next to them are the same events as Trace Event JSON, and results of XProf's analyses.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError
from ktrace.input.boundary import BadFiles
from ktrace.input.snapshot import snapshot_bytes
from ktrace.input.source import Source, file_in
from ktrace.kit.columnar.blocks import BatchBuilder
from ktrace.kit.xla import HOST, Device, Placed, What, device_of, placed
from ktrace.model.arrays import UInt8
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import FILE, runs
from .events import SINCE_1970, PlaneReader
from .layout import Data, Layout, Line, Plane, is_transcoded, walk

METADATA, TASK = "/host:metadata", "Task Environment"

#: Stats of a device's plane -> the facts of the model.
_DEVICE = {"device_vendor": "vendor", "core_count": "sm_count", "memory_size": "memory", "gpu_device_name": "name"}
_APIS = {"nvidia": "cuda", "amd": "hip"}

#: At most this many modules are named.
MODULES = 1000

#: The events of one host, or of all, as Trace Event JSON.
_EVENTS = re.compile(r"(?:(?P<run>.*)/)?(?:(?P<host>[^/]+)\.trace|perfetto_trace)\.json(?:\.gz)?")

#: Results of analyses and caches.
_RESULTS = re.compile(
    r"(?:.*/)?(?:[^/]+\.(?:trace_table|memory_profile|op_stats|op_metrics|input_pipeline|overview_page|kernel_stats|"
    r"tensorflow_stats|pod_viewer|hlo_proto|events_cache|SSTABLE)\b[^/]*|(?:ALL_HOSTS|[^/]+)\.(?:\w+\.)?pb(?:\.gz)?)"
)


class _HostFile(NamedTuple):
    """The file of one host."""

    host: str | None
    source: Source


def add_device(rows: RowBuilder, host: str | None, device: Device, stats: dict[str, Any]) -> None:
    """Adds a device with its facts; a part of a device adds them to the whole."""
    facts = {_DEVICE.get(name, name): value for name, value in stats.items()}
    if api := _APIS.get(str(facts.get("vendor", "")).lower()):
        facts["api"] = api
    major, minor = facts.get("compute_cap_major"), facts.get("compute_cap_minor")
    if isinstance(major, int) and isinstance(minor, int):
        facts["compute_capability"] = f"{major}.{minor}"
        del facts["compute_cap_major"], facts["compute_cap_minor"]
    name = facts.pop("name", None) or f"{device.type} {device.number}"
    if device.part:
        facts = {f"{device.part}: {key}": value for key, value in facts.items()}
    elif device.type != "GPU":
        facts["kind"] = device.type
    rows.fact("device", host=host, device=device.number, name=None if device.part else name, facts=facts)


def add_lines(rows: RowBuilder, plane: Plane, placed: list[Placed], host: str | None, pid: int | None) -> None:
    """Adds the names of threads and streams, and of the process."""
    if pid is not None and plane.name == HOST:
        rows.fact("process", host=host, pid=pid, name=HOST)
    for order, (line, place) in enumerate(zip(plane.lines, placed, strict=True)):
        if place.what == What.STREAM and not place.track:
            rows.fact("stream", host=host, device=place.device, stream=place.stream, name=_title(line))
        elif place.what == What.THREAD and place.track is None:
            rows.fact("thread", host=host, pid=pid, tid=place.tid, name=_title(line), order=order)


def source_facts(stats: dict[str, Any], modules: list[str]) -> dict[str, Any]:
    """The facts of the source from the stats of the planes that describe it."""
    facts = {"tool": "XLA profiler"} | stats
    for name, tool in (("jax_version", "JAX"), ("tensorflow_version", "TensorFlow")):
        if facts.get(name):
            facts |= {"tool": tool, "version": facts.pop(name)}
            break
    return facts | ({"hlo_modules": modules} if modules else {})


def _title(line: Line) -> str:
    return line.display_name or line.name


#: Bytes that are looked at to tell whether a program read the file as text.
_HEAD = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of a file, or of the files of a profile folder, one for each host; facts come last.

    A file of a folder that can't be read is reported. Raises DamagedInput if no file can be read, InputError for a
    folder with several runs.
    """
    batches, rows, clock = BatchBuilder(conversion), RowBuilder(conversion, first_id=0), _Clock()
    bad = BadFiles(conversion.report)
    for one in _files_of(source, conversion):
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
        batches: BatchBuilder,
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
                raise self._damaged("was saved as text by some program, which replaced bytes with U+FFFD")
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
            remedy="copy the file again in binary mode, or profile again",
        )

    def _planes(self, data: Data, layout: Layout) -> Iterator[Batch]:
        array = np.frombuffer(data, np.uint8)
        if len(layout.hostnames) == 1:
            self._host = layout.hostnames[0]
        readers = [self._reader(data, array, plane) for plane in layout.planes]
        stats = [reader.plane_stats() for reader in readers]
        start = self._start(layout, stats)
        pids = {plane.name: stated.get("process_id") for plane, stated in zip(layout.planes, stats, strict=True)}
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
        """Returns the unix time of the start of the profile. That of the first file is the origin of the main clock."""
        stated = next((about["profile_start_time"] for about in stats if "profile_start_time" in about), None)
        start = stated if type(stated) is int else None
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


def _files_of(source: Source, conversion: Conversion) -> list[_HostFile]:
    """Returns the XPlane files of the source, itself or those in the folder; reports the folder's other files.

    Raises InputError for a folder without one, or with those of several runs.
    """
    if not source.is_folder:
        return [_HostFile(None, source)]
    listing = source.sample().listing or ()
    by_run = runs(listing)
    if not by_run:
        raise InputError("contains no XPlane file", path=source.path, expected="<host>.xplane.pb", remedy="name a file")
    if len(by_run) > 1:
        names = ", ".join(list(by_run)[:5]) + (", ..." if len(by_run) > 5 else "")
        raise InputError(
            f"contains the profiles of {len(by_run)} runs: {names}",
            path=source.path,
            expected="the files of one run",
            remedy=f"name the folder of a run: {PurePath(source.path) / next(iter(by_run))}",
        )
    (paths,) = by_run.values()
    hosts = {about["host"] for path in paths if (about := FILE.fullmatch(path))}
    for path in listing:
        if not FILE.fullmatch(path):
            _report(path, hosts, conversion)
    return [_HostFile(_host(path), file_in(source, path)) for path in paths]


def _report(path: str, hosts: set[str], conversion: Conversion) -> None:
    """Reports a file that isn't read."""
    report = conversion.report
    repeats = _EVENTS.fullmatch(path)
    if repeats and (repeats["host"] is None or repeats["host"] in hosts):
        report.record()
        report.used(outcome="same-run")
        report.issue("same-run", path)
    elif repeats:
        report.record()
        report.issue("unrecognised", path, f"there is no XPlane file of {repeats['host']}")
    else:
        what = "a result of XProf" if _RESULTS.fullmatch(path) else "not an XPlane file"
        report.issue("no-trace", path, what)


def _host(path: str) -> str | None:
    about = FILE.fullmatch(path)
    return about["host"] if about else None
