"""The peak rates of devices: the table of ktrace (`schema/peaks.json`), and tables of users that come first.

{"ktrace_peaks": "1.0", "devices": [{"name": "H100 PCIe", "tflops": {"bf16": 756.5}, "gb_per_s": 2000, ...}]}
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from ktrace.errors import UsageError

VERSION = "1.0"

#: The types of elements that have a rate.
RATED = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")

_KEYS = frozenset({"name", "about", "tflops", "gb_per_s", "source"})


class Peak(msgspec.Struct, frozen=True):
    """The peak rates of a device: TFLOP/s by type of the elements, and GB/s of its memory, None if it isn't known."""

    about: str
    tflops: dict[str, float]
    gb_per_s: float | None
    source: str = ""

    def seconds(self, flops: float | None, moved: float | None, precision: str) -> tuple[float | None, float | None]:
        """The shortest time for these operations, and for these bytes; None where it isn't known."""
        rate = self.tflops.get(precision)
        computing = flops / (rate * 1e12) if flops and rate else None
        moving = moved / (self.gb_per_s * 1e9) if moved is not None and self.gb_per_s else None
        return computing, moving


class Peaks:
    """Tables of peak rates."""

    def __init__(self, entries: list[tuple[re.Pattern[str], Peak]]) -> None:
        self._entries = entries

    def for_device(self, device: str | None) -> Peak | None:
        """The rates of a device, by its name; None if no entry matches."""
        return next((peak for name, peak in self._entries if device and name.search(device)), None)

    def before(self, other: Peaks) -> Peaks:
        """A table that looks these entries up first, then those of the other table."""
        return Peaks([*self._entries, *other._entries])


@cache
def published() -> Peaks:
    """The table that comes with ktrace."""
    text = resources.files("ktrace.schema").joinpath("peaks.json").read_text("utf-8")
    return _peaks(json.loads(text), "peaks.json")


def peaks_of(path: str | Path | None) -> Peaks:
    """The table in a file, followed by that of ktrace; None is only that. Raises UsageError."""
    if path is None:
        return published()
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"it can't be read as a table of peak rates: {error}", path=str(path)) from error
    return _peaks(document, str(path)).before(published())


def _peaks(document: Any, path: str) -> Peaks:
    if not isinstance(document, dict) or document.get("ktrace_peaks") != VERSION:
        raise UsageError(
            "it isn't a table of peak rates", path=path, expected=f'an object with "ktrace_peaks": "{VERSION}"'
        )
    devices = document.get("devices")
    if not isinstance(devices, list):
        raise UsageError("it has no devices", path=path, expected='"devices": [{"name": ..., "tflops": {...}}]')
    return Peaks([_entry(device, path, f"device {number}") for number, device in enumerate(devices, 1)])


def _entry(device: Any, path: str, where: str) -> tuple[re.Pattern[str], Peak]:
    if not isinstance(device, dict) or not isinstance(device.get("name"), str):
        raise UsageError(
            "it has no name", path=path, where=where, expected='{"name": "H100 PCIe", "tflops": {"bf16": 756.5}}'
        )
    if unknown := sorted(device.keys() - _KEYS):
        raise UsageError(f"unknown key '{unknown[0]}'", path=path, where=where, expected=", ".join(sorted(_KEYS)))
    rates, memory = device.get("tflops", {}), device.get("gb_per_s")
    if not isinstance(rates, dict) or any(key not in RATED or not _positive(rate) for key, rate in rates.items()):
        raise UsageError("tflops must be positive numbers", path=path, where=where, expected=f"by {', '.join(RATED)}")
    if memory is not None and not _positive(memory):
        raise UsageError(f"gb_per_s must be a positive number, not {memory!r}", path=path, where=where)
    try:
        name = re.compile(device["name"], re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"the name isn't a regular expression: {error}", path=path, where=where) from error
    rated = {key: float(rate) for key, rate in rates.items()}
    return name, Peak(str(device.get("about", device["name"])), rated, memory, str(device.get("source", "")))


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
