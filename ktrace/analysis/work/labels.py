"""The names of groups: the keys by which work is grouped.

by kernel      gemm                          its short name
by device      device 0                      with the source, or the host, if there are several
by stream      device 0 stream 7             with the device if there are several
by rank        3                             of the source, from its facts
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktrace.analysis.work.keys import CLASSIFIED, GRID, OF_GRID, OTHER, UNCLASSIFIED
from ktrace.model.catalog import Catalog

#: A combination of values, or a row of statistics: by column, None or absent if the source doesn't have a value.
Shape = dict[str, Any]
Key = Callable[[Shape], str]


class Labels:
    """Keys of the rows of some sources. Names of several devices include source and host if needed."""

    def __init__(self, catalog: Catalog, devices: set[tuple[Any, ...]]) -> None:
        """`devices` are (source, host, device) of all work."""
        self._catalog = catalog
        self._by_source = len({source for source, _, _ in devices}) > 1
        self._by_host = len({(source, host) for source, host, _ in devices}) > len({source for source, _, _ in devices})
        self._by_device = len(devices) > 1

    def key(self, by: str) -> Key:
        """The function that returns the key of a row."""
        own: dict[str, Key] = {
            "kernel": _kernel,
            GRID: _with_grid,
            "stream": self.stream,
            "device": self._device,
            "rank": lambda row: _text(self.rank(row["source"])),
            UNCLASSIFIED: _unclassified,
            "step": lambda row: OTHER,
            "run": lambda row: row.get("run") or self._run(row["source"]),
        }
        return own.get(by) or (lambda row: row.get(by) or OTHER)

    def rank(self, source: str) -> int | None:
        """The rank of a source, None if it isn't known."""
        return self._catalog.rank(source)

    def _run(self, source: str) -> str:
        """The run of a source, from its facts."""
        entry = self._catalog.get("source", source=source)
        return _text(entry.facts.get("run") if entry else None)

    def device(self, place: tuple[str, str | None, int | None]) -> str:
        """The name of a device."""
        source, host, device = place
        words = [source] if self._by_source else []
        words += [host] if self._by_host and host else []
        return " ".join([*words, "device" if device is None else f"device {device}"])

    def _device(self, row: Shape) -> str:
        known = self._by_device or row.get("device") is not None
        return self.device((row["source"], row.get("host"), row.get("device"))) if known else OTHER

    def stream(self, row: Shape) -> str:
        """The name of a stream: its number, else its track."""
        stream, track = row.get("stream"), row.get("track")
        if stream is None and track is None:
            return OTHER
        own = str(track) if stream is None else f"stream {stream}"
        if not self._by_device:
            return own
        return f"{self.device((row['source'], row.get('host'), row.get('device')))} {own}"


def _kernel(row: Shape) -> str:
    return str(row.get("short_name") or row["name"])


def _with_grid(row: Shape) -> str:
    """The kernel and its grid, as far as that is known."""
    grid = [str(size) for axis in "xyz" if (size := row.get(f"grid_{axis}")) is not None]
    return _kernel(row) + (OF_GRID + "x".join(grid) if grid else "")


def _unclassified(row: Shape) -> str:
    known = row["kind"] != "kernel" or row.get("operation") not in (None, OTHER)
    return CLASSIFIED if known else str(row["name"])


def _text(value: Any) -> str:
    return OTHER if value is None else str(value)
