"""Folded stacks, the input of flame graphs (github brendangregg/FlameGraph, speedscope, inferno): a stack and its time.

    python3;thread 4242;forward;aten::mm 1200
    python3;thread 4242;forward;aten::mm;cudaLaunchKernel;GPU 0, stream 7;gemm 58000

The number is what the last frame has of its own, summed over all its occurrences with the same stack: ns where ktrace
writes it, samples in what `py-spy record --format raw`, stackcollapse-perf.pl and others write.

They have no times: they are read as sums. A timeline is written with host slices by nesting, and kernels below the
call that launched them.

austin 3 writes a line for each sample instead, in their order (github P403n1x87/austin-python, collapsed_stack.py), so
that weights are times:

    # austin: 3.4.1
    # mode: wall
    P8374;T0:8374;serve.py:<module>:40;serve.py:step:12 1798     wall and cpu: µs since the thread's sample before
    P8374;T0:8374;serve.py:<module>:40 1798,1,-30                full: µs, whether it was idle, bytes
    P8374;T0:8374;serve.py:<module>:40 4096                      memory: bytes
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.stacks import NO_STACK, Stacks, read_folded
from ktrace.kit.text.json_items import beginning
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, Lines
from ktrace.kit.text.numbers import last_number
from ktrace.kit.timelines import track_paths
from ktrace.model.batch import Batch
from ktrace.model.masks import slice_rows
from ktrace.output import Sink
from ktrace.stages.order import Timeline, TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

PATTERNS = ("*.folded", "*.collapsed")

_AUSTIN = re.compile(r"(?:# [^\n]*\n){0,8}# austin: [^\n]*\n(?:# [^\n]*\n){0,8}(?:P\d+;T|\s*\Z)")

#: Lines that are looked at.
_LINES = 256

#: The characters of a number, which is no frame.
_FIGURES = "0123456789 \t.,:%+-"

#: The fewest stacks of several frames in a text whose name doesn't say what it is.
_LEAST = 3


def probe(sample: Sample) -> Match | None:
    """DIALECT for the head that austin writes; SHAPE for folded stacks in all lines, in half of them if so named."""
    text = sample.text or ""
    if text.startswith("# ") and _AUSTIN.match(text):
        return Match(Score.DIALECT, "starts like austin's samples")
    if text[:1] == "<" or sample.is_json:
        return None
    named = sample.name.lower().endswith(tuple(pattern[1:] for pattern in PATTERNS))
    lines = [line for line in sample.lines[:_LINES] if line.strip() and not line.startswith("#")]
    stacks = [depth for line in lines if (depth := _depth(line))]
    several = sum(depth > 1 for depth in stacks)
    if 2 * several >= len(lines) and (several if named else len(stacks) == len(lines) and several >= _LEAST):
        return Match(Score.SHAPE, "has a stack of frames and a number in its lines")
    return None


def _depth(line: str) -> int:
    """The number of frames of a folded stack; 0 for another line.

    A line of nearly any text may end with a number, and the cells of a CSV with semicolons may all be numbers.
    """
    number = last_number(line)
    frames = number[0].split(";") if number else []
    return 0 if any(frame and not frame.strip(_FIGURES) for frame in frames) else len(frames)


_ABOUT = re.compile(r"# ([a-z]{1,40}): (.*)")
_SAMPLE = re.compile(
    r"P(?P<pid>\d{1,18});T(?:(?P<iid>\d{1,18}):)?(?P<thread>[^;\s]{1,64})(?:;(?P<frames>\S.*))?"
    r" (?P<number>-?\d{1,15})(?:,(?P<idle>[01]),(?P<memory>-?\d{1,18}))?"
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each stack, or a sample for each line of austin."""
    if re.match(r"(?:# .*\n){0,8}# austin: ", beginning(source)):
        yield from _Austin.read(source, conversion)
    else:
        yield from read_folded(Lines(source, conversion), conversion, "sample", metric="weight")


class _Austin(LineReader):
    """The samples of austin."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._stacks = Stacks(self._rows)
        self._about: dict[str, str] = {}
        self._now: Counter[tuple[int, str]] = Counter()

    def take(self, line: Line) -> None:
        if match := _SAMPLE.fullmatch(line.text):
            self._add(match)
            self._lines.used()
        elif about := _ABOUT.fullmatch(line.text):
            self._about[about[1]] = about[2]
            self._lines.became("catalog")
        elif not line.text.strip():
            self._lines.structure()

    def end(self) -> None:
        facts: dict[str, Any] = {"tool": "austin", "version": self._about.pop("austin", None)}
        self._rows.fact("source", facts={key: value for key, value in (facts | self._about).items() if value})
        self._rows.fact("clock", facts={"kind": "session"})

    def _add(self, match: re.Match[str]) -> None:
        thread, number = match["thread"], int(match["number"])
        frames = tuple(match["frames"].split(";")) if match["frames"] else ()
        place: dict[str, Any] = {"pid": int(match["pid"])}
        place |= {"tid": int(thread)} if thread.isdecimal() else {"track": thread}
        args: dict[str, Any] = {key: int(match[key]) for key in ("iid", "idle", "memory") if match[key]}
        if key := self._stacks.key(frames):
            args["stack"] = key
        name = _function(frames[-1]) if frames else NO_STACK
        if self._about.get("mode") == "memory":
            place |= {"unit": "B", "total": float(number)}
            self._rows.summary("sample", name, metric="memory", args=args, **place)
            return
        thread_key = place["pid"], thread
        ts = self._now[thread_key]
        self._now[thread_key] += 1000 * number
        self._rows.event("sample", name, ts=ts, timing="derived", value=1000.0 * number, unit="ns", args=args, **place)


def _function(frame: str) -> str:
    """The function of a frame of file, function and line."""
    parts = frame.rsplit(":", 2)
    return parts[1] if len(parts) == 3 and parts[1] else frame


_LAUNCH = ARROW_KINDS.index("launch")
#: A semicolon ends a frame, a line end ends the stack.
_RESERVED = re.compile(r"[;\r\n]+")

Stack = tuple[str, ...]


class _Open:
    """A slice that is open: its stack, when it began, the time of the slices in it."""

    __slots__ = ("begin", "inside", "stack")

    def __init__(self, stack: Stack, begin: int) -> None:
        self.stack = stack
        self.begin = begin
        self.inside = 0


class Writer:
    """A TimelineWriter of slices. Points, counters and arrows have no place in folded stacks."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._totals: Counter[Stack] = Counter()
        self._open: dict[tuple[int, int], list[_Open]] = {}
        #: The stacks of calls that launch something, by serial, until the work comes.
        self._launching: dict[int, Stack] = {}

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks."""
        self._paths = {number: tuple(map(_frame, path)) for number, path in track_paths(timeline).items()}
        self._on_device = [track.is_on_device for track in timeline.tracks]

    def write(self, batch: TimelineBatch) -> int:
        """Adds up the self times and returns the number of slices."""
        slices = slice_rows(batch)
        is_slice = slices.tolist()
        names = batch.column("name").to_pylist()
        serials = batch.serial.tolist()
        calls, launched = self._launches(batch)
        edges = batch.edges
        columns = (column.tolist() for column in (edges.ts, edges.row, edges.track, edges.lane))
        for ts, row, track, lane in zip(*columns, strict=True):
            if row >= 0 and not is_slice[row]:
                continue
            stack = self._open.setdefault((track, lane), [])
            if row < 0:
                self._end(stack, ts)
                continue
            path = self._stack(track, stack, self._launching.get(launched.get(row, 0)))
            frames = (*path, _frame(names[row]))
            stack.append(_Open(frames, ts))
            if row in calls:
                self._launching[serials[row]] = frames
        return int(np.count_nonzero(slices))

    def close(self) -> None:
        """Writes the stacks, sorted."""
        for stack, total in sorted(self._totals.items()):
            if total:
                self._stream.write(f"{';'.join(stack)} {total}\n".encode("utf-8", "replace"))

    def _launches(self, batch: TimelineBatch) -> tuple[set[int], dict[int, int]]:
        """The rows that launch something, and for each row that was launched the serial of its call."""
        arrows = batch.arrows
        launch = arrows.kind == _LAUNCH
        calls = set(arrows.row[launch & arrows.out].tolist())
        there = launch & ~arrows.out & (arrows.peer > 0)
        return calls, dict(zip(arrows.row[there].tolist(), arrows.peer[there].tolist(), strict=True))

    def _stack(self, track: int, opened: list[_Open], call: Stack | None) -> Stack:
        """The stack in which a slice begins: below its call if it is on a device, else below the slice around it."""
        if call is not None and self._on_device[track]:
            return (*call, ", ".join(self._paths[track][1:]) or self._paths[track][0])
        return opened[-1].stack if opened else self._paths[track]

    def _end(self, opened: list[_Open], ts: int) -> None:
        ended = opened.pop()
        dur = ts - ended.begin
        self._totals[ended.stack] += dur - ended.inside
        if opened:
            opened[-1].inside += dur


def _frame(name: str) -> str:
    return _RESERVED.sub(":", name) or "?"


FORMAT = Format(
    "folded",
    "folded stacks for flame graphs: py-spy, perf, austin",
    patterns=PATTERNS,
    probe=probe,
    read=read,
    writer=Writer,
    timeline=True,
    prose=True,
    words=(";",),
)
