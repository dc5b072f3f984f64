"""Reads the lines one by one. A table waits until the properties of its kernels are known; a call waits for its end.

The forms of the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.intel import ParsedName, work
from ktrace.kit.text.lines import Line, Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.store.vocabulary import Interner

#: Calls that wait for their end; more aren't nested in one another.
_MOST_OPEN = 4096

#: Times beyond this are refused: they would overflow in ns.
_GREATEST = 1 << 62


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields summaries of tables, device work of timelines, calls of logs; devices and queues as facts."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    tables, timeline, calls = _Tables(rows), _Timeline(rows), _Calls(rows)
    for line in lines:
        text = line.text.strip()
        if not text:
            lines.structure()
        elif text.startswith((">>>> [", "<<<< [")):
            calls.read(text, lines)
        elif " (submit) " in text:
            timeline.read(text, lines)
        else:
            _other(line, text, tables, timeline, lines)
        yield from rows.ready()
    calls.finish()
    tables.finish()
    timeline.facts()
    yield from rows.rest()


def _other(line: Line, text: str, tables: _Tables, timeline: _Timeline, lines: Lines) -> None:
    if match := START.fullmatch(text):
        timeline.start = int(match["ns"])
        lines.became("catalog")
    elif tables.read(text, lines):
        return
    elif NOTE.match(text):
        lines.structure()


@dataclass
class _Row:
    """A row of a table of device work, until its properties are known."""

    work: ParsedName
    columns: dict[str, Any]
    properties: Properties | None = None


@dataclass
class _Tables:
    """The tables: titles, backends, totals and rows."""

    rows: RowBuilder
    title: str = ""
    backend: str = ""
    table: int = -1
    headings: list[str] = field(default_factory=list)
    waiting: list[_Row] = field(default_factory=list)

    def read(self, text: str, lines: Lines) -> bool:
        """Reads a line; returns whether it is one of a table."""
        if match := TITLE.fullmatch(text):
            if match["what"] != "Kernel Properties":  # these are those of the table before, of the same backend
                self.finish()
                self.title, self.backend = match["what"], ""
            self.headings = []
        elif match := BACKEND.fullmatch(text):
            self.finish()
            self.backend, self.headings = match["backend"], []
        elif SECTION.fullmatch(text):
            self.finish()
            self.title, self.headings = "", []
            return False
        elif self.title and HEADINGS.fullmatch(text):
            self.headings = [cell.strip() for cell in text.split(",")]
            self.table += "Calls" in self.headings
        elif self.title and (match := TOTAL.fullmatch(text)):
            self._total(match)
            lines.used()
            return True
        else:
            return bool(self.headings) and self._row(text, lines)
        lines.structure()
        return True

    def _total(self, match: re.Match[str]) -> None:
        name = f"Total {match['what']} Time"
        scope = [self._scope(), match["backend"]] if match["backend"] else [self._scope()]
        self.rows.summary("total", name, scope=scope, unit="ns", total=float(int(match["ns"])))

    def _scope(self) -> str:
        return f"{self.title} Timing" if self.title in ("API", "Device") else self.title

    def _place(self) -> dict[str, Any]:
        return {"table": self.table, "scope": [self._scope(), *filter(None, (self.backend,))], "unit": "ns"}

    @property
    def _opencl(self) -> bool:
        return not self.backend.startswith("L0")

    def _row(self, text: str, lines: Lines) -> bool:
        if "Calls" not in self.headings:
            return self._properties(text, lines)
        form = SUBMISSION if self.title == "Kernel Submission" else WIDE if "SIMD" in self.headings else TIMING
        match = form.fullmatch(text)
        if not match:
            return False
        if self.title == "Kernel Submission":
            self._submission(match)
        else:
            self._timing(match)
        lines.used()
        return True

    def _timing(self, match: re.Match[str]) -> None:
        figures: dict[str, Any] = {name: float(int(match[name])) for name in ("total", "avg", "min", "max")}
        figures |= {"count": int(match["count"]), "percent": share(match["percent"])} | self._place()
        if self.title == "API":
            self.rows.summary("api", match["name"].strip('"'), **figures)
        else:
            parts = work(match["name"], self._opencl)
            if width := match.groupdict().get("simd"):
                parts = replace(parts, args={**parts.args, "simd": int(width)})
            self.waiting.append(_Row(parts, figures))

    def _submission(self, match: re.Match[str]) -> None:
        """A row of three figures: time until the append, the submission, and of the execution."""
        parts = work(match["name"], self._opencl)
        for part, metric in (("append", "append"), ("submit", "submit"), ("execute", "duration")):
            self.rows.summary(
                parts.kind,
                parts.name,
                metric=metric,
                count=int(match["count"]),
                total=float(int(match[part])),
                percent=share(match[f"{part}_share"]),
                args=parts.args,
                **parts.columns,
                **self._place(),
            )

    def _properties(self, text: str, lines: Lines) -> bool:
        name, *cells = (cell.strip() for cell in text.rsplit(",", len(self.headings) - 1))
        if len(cells) != len(self.headings) - 1 or not name or any('"' in cell for cell in cells):
            return False
        about = properties(self.headings[1:], cells)
        parts = work(name, self._opencl)
        for row in self.waiting:
            if row.properties is None and row.work == parts:
                row.properties = about
                lines.became("folded")
                return True
        args = {"registers": about.registers, "shared_memory": about.shared_memory, **about.args}
        self.rows.fact("name", name=parts.name, facts={key: value for key, value in args.items() if value is not None})
        lines.became("catalog")
        return True

    def finish(self) -> None:
        """Adds the rows that waited."""
        for row in self.waiting:
            args, columns = dict(row.work.args), dict(row.work.columns)
            if about := row.properties:
                args |= about.args
                columns |= {"registers": about.registers, "shared_memory": about.shared_memory}
            self.rows.summary(row.work.kind, row.work.name, args=args, **columns, **row.columns)
        self.waiting.clear()


class _Timeline:
    """Device work with its times."""

    def __init__(self, rows: RowBuilder) -> None:
        self.start: int | None = None
        self._rows = rows
        self._devices = Interner()
        self._queues = Interner()
        self._some = False

    def read(self, text: str, lines: Lines) -> None:
        """Reads a line with four times."""
        match = TIMELINE.fullmatch(text) or ONETRACE.fullmatch(text)
        if not match:
            return
        start, end = int(match["start"]), int(match["end"])
        if max(start, end) >= _GREATEST:
            lines.skip("time-range", f"start {start}, end {end}")
            return
        if end < start:
            lines.skip("negative-duration", f"start {start}, end {end}")
            return
        parts, groups = self._work(match), match.groupdict()
        args: dict[str, Any] = {match["first"]: int(match["append"]), "submit": int(match["submit"])}
        if groups.get("tid"):
            args["thread"] = int(groups["tid"])
        if groups.get("id"):
            args["id"] = groups["id"]
        stream = None
        if queue := groups.get("queue"):
            stream = self._queues[queue]
        self._rows.event(
            parts.kind,
            parts.name,
            ts=start,
            dur=end - start,
            pid=int(groups["pid"]) if groups.get("pid") else None,
            device=self._devices[groups.get("device") or ""],
            stream=stream,
            args=args | parts.args,
            **parts.columns,
        )
        self._some = True
        lines.used()

    @staticmethod
    def _work(match: re.Match[str]) -> ParsedName:
        """The work; unitrace quotes the names of Level Zero alone, onetrace calls the first time of OpenCL queued."""
        name = match["name"]
        opencl = match["first"] == "queued" or ("device" in match.groupdict() and not name.startswith('"'))
        return work(name, opencl)

    def facts(self) -> None:
        """Adds devices, queues and the clock."""
        if not self._some:
            return
        clock: dict[str, Any] = {"kind": "monotonic"}
        if self.start is not None and self.start > 1 << 59:  # of the epoch: times are since this one
            clock = {"kind": "session", "at_ns": 0, "unix_ns": self.start}
        self._rows.fact("clock", facts=clock)
        for handle, device in self._devices.items():
            name = f"Intel GPU {handle}".strip()
            self._rows.fact("device", device=device, name=name, facts={"vendor": "Intel"})
            for queue, stream in self._queues.items():
                self._rows.fact("stream", device=device, stream=stream, name=f"Queue {queue}")


class _Calls:
    """Calls: a line at the start and one at the end, which has the duration."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._open: dict[tuple[str | None, str | None], list[tuple[str, int, str]]] = {}

    def read(self, text: str, lines: Lines) -> None:
        """Reads a line of a call."""
        if match := BEGIN.fullmatch(text):
            if int(match["ns"]) >= _GREATEST:
                lines.skip("time-range", match["ns"])
                return
            waiting = self._open.setdefault((match["pid"], match["tid"]), [])
            if len(waiting) >= _MOST_OPEN:
                self._unfinished(waiting.pop(0), match["pid"], match["tid"])
            waiting.append((match["name"], int(match["ns"]), match["rest"].strip()))
            lines.used()
        elif match := END.fullmatch(text):
            end, dur = int(match["ns"]), int(match["dur"])
            if max(end, dur) >= _GREATEST:
                lines.skip("time-range", f"{end}, {dur} ns")
                return
            self._add(match, end - dur, dur)
            lines.used()

    def _add(self, match: re.Match[str], start: int, dur: int) -> None:
        waiting = self._open.get((match["pid"], match["tid"]), [])
        begun = next((index for index in reversed(range(len(waiting))) if waiting[index][0] == match["name"]), None)
        args = {"result": match["rest"].strip().removeprefix("-> ")}
        if begun is not None:
            args["arguments"] = waiting.pop(begun)[2]
        self._event(match["name"], start, dur, match["pid"], match["tid"], args)

    def _event(
        self, name: str, start: int, dur: int | None, pid: str | None, tid: str | None, args: dict[str, str]
    ) -> None:
        self._rows.event(
            "api",
            name,
            ts=start,
            dur=dur,
            pid=int(pid) if pid else None,
            tid=int(tid) if tid else None,
            track=None if tid else "Calls",
            args={key: value for key, value in args.items() if value},
        )

    def _unfinished(self, call: tuple[str, int, str], pid: str | None, tid: str | None) -> None:
        name, start, arguments = call
        self._event(name, start, None, pid, tid, {"arguments": arguments})

    def finish(self) -> None:
        """Adds the calls that never ended."""
        for (pid, tid), waiting in self._open.items():
            for call in waiting:
                self._unfinished(call, pid, tid)
        self._open.clear()


TITLE = re.compile(r"=== (?P<what>API|Device|Kernel Submission|Kernel Properties|Kernel)\b.* ===")
BACKEND = re.compile(r"== (?P<backend>.+?) Backend:? ==")
SECTION = re.compile(r"=+ .+ =+")
TOTAL = re.compile(r"Total (?P<what>Execution|\w+) Time(?: for (?P<backend>.+?) backend)? \(ns\): +(?P<ns>\d{1,18})")
HEADINGS = re.compile(r"(?:Kernel|Function), +.*", re.DOTALL)
NOTE = re.compile(r"\[(?:INFO|WARNING|ERROR|DEBUG)\]")

_COUNT, _NS, _SHARE, _GAP = r"\d{1,18}", r"\d{1,18}", r"(?:\d{1,12}(?:\.\d{1,9})?|-?nan|inf)", r"(?:, *| +)"
TIMING = re.compile(
    rf"(?P<name>\S.*?), *(?P<count>{_COUNT}){_GAP}(?P<total>{_NS}){_GAP}(?P<percent>{_SHARE}){_GAP}"
    rf"(?P<avg>{_NS}){_GAP}(?P<min>{_NS}){_GAP}(?P<max>{_NS}),?"
)
#: The samples of pti-gpu, and its first tools, have the width of a kernel behind the calls.
WIDE = re.compile(TIMING.pattern.replace(rf"(?P<count>{_COUNT})", rf"(?P<count>{_COUNT}), *(?P<simd>\d{{1,3}})"))
SUBMISSION = re.compile(
    rf"(?P<name>\S.*?), *(?P<count>{_COUNT}){_GAP}(?P<append>{_NS}){_GAP}(?P<append_share>{_SHARE}){_GAP}"
    rf"(?P<submit>{_NS}){_GAP}(?P<submit_share>{_SHARE}){_GAP}(?P<execute>{_NS}){_GAP}(?P<execute_share>{_SHARE}),?"
)

_TIMES = (
    r" \[ns\] (?:= )?(?P<append>\d{1,20}) \((?P<first>append|queued)\) (?P<submit>\d{1,20}) \(submit\) "
    r"(?P<start>\d{1,20}) \(start\) (?P<end>\d{1,20}) \(end\)"
)
TIMELINE = re.compile(
    r"(?:<PID:(?P<pid>\d{1,10})> )?Thread (?P<tid>\d{1,18}) Device (?P<device>\S+) : (?P<name>.+)" + _TIMES
)
ONETRACE = re.compile(
    r"(?:<PID:(?P<pid>\d{1,10})> )?Device Timeline(?: for \S+)? \(queue: (?P<queue>\S+)\): (?P<name>.+?)"
    r"(?:<(?P<id>[\d.]+)>)?" + _TIMES
)
START = re.compile(r"(?:<PID:\d{1,10}> )?(?:Device )?Timeline: start time \[ns\] = (?P<ns>\d{1,19})")

_WHO = r"\[(?P<ns>\d{1,20})\] (?:<PID:(?P<pid>\d{1,10})> )?(?:<TID:(?P<tid>\d{1,18})> )?"
BEGIN = re.compile(rf">>>> {_WHO}(?P<name>\w+):(?P<rest>.*)", re.DOTALL)
END = re.compile(rf"<<<< {_WHO}(?P<name>\w+) \[(?P<dur>\d{{1,20}}) ns\](?P<rest>.*)", re.DOTALL)


class Properties(NamedTuple):
    """A row of the properties of kernels: columns of the model and arguments."""

    registers: int | None
    shared_memory: int | None
    args: dict[str, int | str]


#: Headings of properties -> key of an argument; two of them are columns.
_KEYS = {
    "Compiled": "compiled",
    "SIMD": "simd",
    "Number of Arguments": "arguments",
    "SLM Per Work Group": "",
    "Private Memory Per Thread": "private_memory",
    "Spill Memory Per Thread": "spill_memory",
    "Register File Size Per Thread": "",
}


def properties(headings: list[str], cells: list[str]) -> Properties:
    """Returns the properties of a kernel from the cells below the headings."""
    members = dict(zip(headings, cells, strict=False))
    args: dict[str, int | str] = {}
    for heading, cell in members.items():
        key = _KEYS.get(heading, heading)
        if key and cell != "unknown":
            args[key] = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else cell.lower()
    whole = {
        heading: int(cell) for heading, cell in members.items() if cell.isascii() and cell.isdigit() and len(cell) < 10
    }
    return Properties(whole.get("Register File Size Per Thread"), whole.get("SLM Per Work Group"), args)


def share(text: str) -> float | None:
    """A percentage; None for nan."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return float(number) if number.is_finite() else None
