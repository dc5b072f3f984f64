"""Rows of maps, and of messages in words, of text and JSON alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ktrace.kit.text.numbers import TIME_NS
from ktrace.model.row_builder import RowBuilder

#: The most keys of a map that are remembered, to know when it is printed again. A map has 4096, or what a script says.
_MOST_KEYS = 1 << 16
_STATISTICS = frozenset({"total", "sum", "avg", "average", "max", "min", "hist", "lhist", "stats", "dist"})


class Bucket(NamedTuple):
    """A bucket of a histogram: from where, below what, None for open ends, and how many."""

    lower: Any
    upper: Any
    number: int


class _Map(NamedTuple):
    """A map: its name with the @, and by what its numbers are multiplied to get the unit, None for none."""

    name: str
    unit: str | None
    factor: int


class Maps:
    """Adds the rows of maps. An entry is prepared first, so that a bad record adds none."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._waiting: list[tuple[str, str, dict[str, Any]]] = []
        self._tables = -1
        self._printing: tuple[str, set[str | None]] = ("", set())
        self._units: dict[str, _Map] = {}
        self.time = ""
        self.timed = False

    def number(self, name: str, key: str | None, value: int, figure: str = "value") -> None:
        """A number: that of a count, a sum, a time or anything, or with `figure` what is known of it."""
        bpf_map = self._map(name)
        scaled = value * bpf_map.factor
        args = {} if int(float(scaled)) == scaled else {"value": value}
        figures: dict[str, Any] = {figure: float(scaled)}
        self._entry(bpf_map, key, args, **figures)

    def stats(self, name: str, key: str | None, count: int, average: int, total: int) -> None:
        """What stats() collects. The average is rounded towards 0, as bpftrace does."""
        bpf_map = self._map(name)
        figures: dict[str, Any] = {"avg": float(average * bpf_map.factor), "total": float(total * bpf_map.factor)}
        self._entry(bpf_map, key, {}, count=count, **figures)

    def histogram(self, name: str, key: str | None, buckets: Sequence[Bucket]) -> None:
        """A histogram: its buckets in the unit of the row."""
        bpf_map = self._map(name)
        names = ("from", "below")
        shown = []
        for bucket in buckets:
            bounds = zip(names, bucket, strict=False)
            scaled = {one: bound * bpf_map.factor if type(bound) is int else bound for one, bound in bounds}
            shown.append({one: bound for one, bound in scaled.items() if bound is not None} | {"count": bucket.number})
        self._entry(bpf_map, key, {"buckets": shown}, count=sum(bucket.number for bucket in buckets))

    def note(self, name: str, key: str | None, value: Any) -> None:
        """A value that isn't a number: a text, a tuple, a record."""
        self._entry(self._map(name), key, {"value": value}, kind="note")

    def point(self, name: str, key: str | None, stamp: int, value: int) -> None:
        """A value of a time series."""
        bpf_map = self._map(name)
        track = name if key is None else f"{name}[{key}]"
        figures: dict[str, Any] = {
            "ts": stamp,
            "value": float(value * bpf_map.factor),
            "unit": bpf_map.unit,
            "track": track,
        }
        self._waiting.append(("event", track, {"kind": "counter", **figures}))

    def words(self, kind: str, text: str, args: dict[str, Any] | None = None) -> None:
        """A message in words; `kind` is the type of the message."""
        place: dict[str, Any] = {"kind": "note", "metric": "note", "scope": [kind], "args": args or {}}
        self._waiting.append(("summary", text, place))

    def begin(self) -> None:
        """What follows is printed apart from what was before."""
        self._printing = ("", set())

    def give_up(self) -> None:
        """Drops the rows of a record that is bad."""
        self._waiting.clear()

    def write(self) -> None:
        """Adds the rows that were prepared."""
        for record, name, columns in self._waiting:
            kind = columns.pop("kind")
            if record == "event":
                self._rows.event(kind, name, **columns)
                self.timed = True
            else:
                self._rows.summary(kind, name, **columns)
        self._waiting.clear()

    def _entry(
        self, bpf_map: _Map, key: str | None, args: dict[str, Any], kind: str = "metric", **figures: Any
    ) -> None:
        printed, keys = self._printing
        if printed != bpf_map.name or key in keys:
            self._tables += 1
            self._printing = bpf_map.name, set()
        if len(self._printing[1]) < _MOST_KEYS:
            self._printing[1].add(key)
        name, scope = bpf_map.name if key is None else key or "''", [bpf_map.name]
        if key is not None and "\n" in key:
            others, frames = _stack(key)
            scope += [*others, *frames[:0:-1]]
            name = frames[0] if frames else "?"
        if self.time:
            args["time"] = self.time
        place: dict[str, Any] = {"metric": bpf_map.name, "unit": bpf_map.unit, "table": self._tables, "scope": scope}
        self._waiting.append(("summary", name, {"kind": kind, "args": args, **place, **figures}))

    def _map(self, name: str) -> _Map:
        bpf_map = self._units.get(name)
        if bpf_map is None:
            bpf_map = _Map(name, *unit_of(name))
            if len(self._units) < 1000:
                self._units[name] = bpf_map
        return bpf_map


def unit_of(name: str) -> tuple[str | None, int]:
    """The unit that a map's name ends with, and its size in it: @usecs, @launch_us, @ns_total, @readBytes."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    while len(words) > 1 and words[-1].lower() in _STATISTICS:
        words.pop()
    last = words[-1].lower() if words and not words[-1].isupper() else ""
    if "per" in (word.lower() for word in words) or len(last) < 2:
        return None, 1
    if last in ("byte", "bytes"):
        return "B", 1
    size = TIME_NS.get(last)
    return ("ns", int(size)) if size and size >= 1 else (None, 1)


def _stack(key: str) -> tuple[list[str], list[str]]:
    """The other parts of a key with stacks, and the frames, innermost first."""
    first, *between, last = key.split("\n")
    inner = [line.strip() for line in between]
    others = (first, *(line for line in inner if line.startswith(",")), last)
    parts = [part for one in others if (part := one.strip(" ,"))]
    return parts, [line for line in inner if line and not line.startswith(",")]
