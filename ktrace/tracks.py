"""Tracks and the processes they belong to, with the names that people see: shared by all timeline writers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ktrace.catalog import Catalog, Entry


class Process(NamedTuple):
    """What a timeline shows as one process: a process of the source, a run of its tables, or the source itself."""

    source: str
    host: str | None
    pid: int | None
    run: str | None


class Track(NamedTuple):
    """One row of a timeline: the track columns of the model, the run of a table that was laid out."""

    source: str
    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    track: str | None = None
    run: str | None = None

    @property
    def process(self) -> Process:
        """The process that the track stands under."""
        return Process(self.source, self.host, self.pid, self.run)


@dataclass(frozen=True)
class Shown:
    """Name and place of a process or track."""

    name: str
    order: int | None = None
    description: str | None = None


def show_process(process: Process, catalog: Catalog) -> Shown:
    """The name of a process: the catalog's, else its run, else that of the source."""
    entry = catalog.get("process", source=process.source, host=process.host, pid=process.pid)
    source = catalog.get("source", source=process.source)
    run = process.run
    known = entry.name if entry else None
    if known and run and run != known:
        name = f"{run} ({known})"
    else:
        name = known or run or (source.name if source and source.name else process.source)
    facts: dict[str, Any] = source.facts if source else {}
    return Shown(name, entry.order if entry else None, facts.get("description"))


def show_track(track: Track, catalog: Catalog) -> Shown:
    """The name of a track: the catalog's, else put together from its numbers ("GPU 0 stream 7")."""
    for entity in ("track", "thread", "stream"):
        if entry := _entry(entity, track, catalog):
            return Shown(entry.name or _compose(track, catalog), entry.order, entry.facts.get("description"))
    return Shown(_compose(track, catalog))


def _entry(entity: str, track: Track, catalog: Catalog) -> Entry | None:
    key = {name: value for name, value in track._asdict().items() if name != "run"}
    if entity == "thread":
        if track.tid is None or track.device is not None or track.track is not None:
            return None
        key = {name: key[name] for name in ("source", "host", "pid", "tid")}
    if entity == "stream":
        if track.stream is None or track.track is not None:
            return None
        key.pop("track")
    return catalog.get(entity, **key)


def _compose(track: Track, catalog: Catalog) -> str:
    if track.track is not None:
        return track.track
    parts = []
    if track.device is not None:
        device = catalog.get("device", source=track.source, host=track.host, device=track.device)
        parts.append(f"GPU {track.device}" + (f" {device.name}" if device and device.name else ""))
    if track.context is not None:
        parts.append(f"context {track.context}")
    if track.stream is not None:
        parts.append(f"stream {track.stream}")
    if track.tid is not None:
        parts.append(f"thread {track.tid}")
    return " ".join(parts) or "events"
