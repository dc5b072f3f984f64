"""Reads folded stacks as sums, since they have no times, and austin's samples, whose times are those of their weights.

P8374;T0:8374;serve.py:<module>:40;serve.py:step:12 1798     wall and cpu: µs since the thread's sample before
P8374;T0:8374;serve.py:<module>:40 1798,1,-30                full: µs, whether it was idle, bytes
P8374;T0:8374;serve.py:<module>:40 4096                      memory: bytes
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.stacks import NO_STACK, Stacks, read_folded
from ktrace.kit.text.json_items import beginning
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_ABOUT = re.compile(r"# ([a-z]{1,40}): (.*)")
_SAMPLE = re.compile(
    r"P(?P<pid>\d{1,18});T(?:(?P<iid>\d{1,18}):)?(?P<thread>[^;\s]{1,64})(?:;(?P<frames>\S.*))?"
    r" (?P<number>-?\d{1,15})(?:,(?P<idle>[01]),(?P<memory>-?\d{1,18}))?"
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each stack, or a sample for each line of austin."""
    lines = Lines(source, conversion)
    if re.match(r"(?:# .*\n){0,8}# austin: ", beginning(source)):
        yield from _Austin(lines, conversion).rows()
    else:
        yield from read_folded(lines, conversion, "sample", metric="weight")


class _Austin:
    """The samples of austin."""

    def __init__(self, lines: Lines, conversion: Conversion) -> None:
        self._lines = lines
        self._rows = RowBuilder(conversion)
        self._stacks = Stacks(self._rows)
        self._about: dict[str, str] = {}
        self._now: Counter[tuple[int, str]] = Counter()

    def rows(self) -> Iterator[Batch]:
        """Yields the rows of all lines."""
        for line in self._lines:
            if found := _SAMPLE.fullmatch(line.text):
                self._add(found)
                self._lines.used()
            elif about := _ABOUT.fullmatch(line.text):
                self._about[about[1]] = about[2]
                self._lines.became("catalog")
            elif not line.text.strip():
                self._lines.structure()
            yield from self._rows.ready()
        facts: dict[str, Any] = {"tool": "austin", "version": self._about.pop("austin", None)}
        self._rows.fact("source", facts={key: value for key, value in (facts | self._about).items() if value})
        self._rows.fact("clock", facts={"kind": "session"})
        yield from self._rows.rest()

    def _add(self, found: re.Match[str]) -> None:
        thread, number = found["thread"], int(found["number"])
        frames = tuple(found["frames"].split(";")) if found["frames"] else ()
        place: dict[str, Any] = {"pid": int(found["pid"])}
        place |= {"tid": int(thread)} if thread.isdecimal() else {"track": thread}
        args: dict[str, Any] = {key: int(found[key]) for key in ("iid", "idle", "memory") if found[key]}
        if key := self._stacks.key(frames):
            args["stack"] = key
        name = _function(frames[-1]) if frames else NO_STACK
        if self._about.get("mode") == "memory":
            place |= {"unit": "B", "total": float(number)}
            self._rows.summary("sample", name, metric="memory", args=args, **place)
            return
        own = place["pid"], thread
        ts = self._now[own]
        self._now[own] += 1000 * number
        self._rows.event("sample", name, ts=ts, timing="derived", value=1000.0 * number, unit="ns", args=args, **place)


def _function(frame: str) -> str:
    """The function of a frame of file, function and line."""
    parts = frame.rsplit(":", 2)
    return parts[1] if len(parts) == 3 and parts[1] else frame
