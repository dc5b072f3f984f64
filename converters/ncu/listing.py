"""Reads the text that `ncu` prints: processes, launches, sections with their tables, advice from the rules.

The lines after that of a kernel name one NVTX range each, with its level (`<0,forward>`), between domains and colours.
"""

from __future__ import annotations

import re
from typing import Any

from ktrace.kit.ncu_cells import is_unit
from ktrace.kit.ncu_launches import Launches
from ktrace.kit.text.lines import Lines

from . import METRICS, REMARK, SECTION, is_placed, launch_line, unprefixed
from .text_tables import Table, runs_of

_PROCESS = re.compile(r"\s*\[(\d{1,18})\] (.*)@(\S+)\s*")
_RULER = re.compile(r"\s*-{3,}(?: +-{3,})+\s*")

#: What is left of a ruler in a text that was cut.
_DASHES = re.compile(r"\s*---[\s-]*")
_ADVICE = re.compile(r"\s*(INF|WRN|OPT|ERR|MSG|OK)\s{2,}(\S(?:.*\S)?)\s*")
_SPEEDUP = re.compile(r"Est(?:\.|imated) (?:(Local|Global) )?Speedup: (\d+(?:[.,]\d*)?)%\s*(.*)", re.DOTALL)
_FIGURE = re.compile(r"[-+]?[\d.,]+|(?:\(!\) )?n/a")
_NVTX = re.compile(r"\s*NVTX .*")

#: A line that names a range, with its level.
_LEVEL = re.compile(r"<\s*\d+\s*,(.*)>")

#: The title and description of a table in the body of a section.
_PART = re.compile(r"\s*Table Name ?: (\S(?:.*\S)?)\s*")
_DESCRIPTION = re.compile(r"\s*Table Description ?: .*")

#: A device; in summaries its launches follow below this line.
_DEVICE = re.compile(r"\s+Device (\d{1,18})(?:, CC (\d+\.\d+))?\s*")

#: Lines that --print-rule-details adds to an advice.
_FOCUS = re.compile(r"\s*>\s+Metric: (\S(?:.*\S)?)\s*")
_FOCUS_MORE = re.compile(r"\s*(Value|Info) +: ((?:.*\S)?)\s*")

_TITLE = re.compile(r"    \s*[A-Za-z][^\s]*(?: [^\s]+){0,9}\s*")

#: A rule's text without a mark such as OPT, in the column where the text after a mark starts.
_UNMARKED = re.compile(r" {10}\S.*|" + REMARK.pattern)

#: The most lines between the title of a part of a section and its table.
_TITLES = 4

#: The name of a launch whose own line isn't in the text, only its sections.
_UNNAMED = "unnamed kernel"

_COLUMNS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "context", "stream", "device", "count")


class Listing:
    """Reads the lines of a text one after the other and keeps the state between them."""

    def __init__(self, lines: Lines, launches: Launches) -> None:
        self._lines, self._launches = lines, launches
        self._process: dict[str, Any] = {}
        self._name = ""  # of the process
        self._head: dict[str, Any] | None = None  # a launch of which only its own line was read so far
        self._device: dict[str, Any] = {}
        self._table: Table | None = None
        self._section = self._part = ""
        self._known: dict[tuple[Any, ...], int] = {}  # ids of launches that repeat for each section
        self._repeated: tuple[Any, ...] | None = None
        self.leave()

    def leave(self) -> None:
        """Ends the current launch: the next lines don't belong to it."""
        self._end_row()
        self._current()
        self._inside = False
        self._section = self._part = ""
        self._table = None
        self._nvtx = False
        self._unnamed: set[str] | None = None  # the sections so far of a launch without its own line

    def line(self, text: str) -> bool:
        """Reads a line and records its outcome; returns False if it isn't one of ncu's."""
        text = unprefixed(text)
        if match := _PROCESS.fullmatch(text):
            self.leave()
            self._process, self._name = {"pid": int(match[1]), "host": match[3]}, match[2].strip()
            self._device = {}
            self._lines.became("catalog")
        elif match := _DEVICE.fullmatch(text):
            self.leave()
            self._summary_device(match)
        elif head := self._launch(text):
            self.leave()
            self._inside, self._head = True, head
            self._resume()
            self._lines.used()
        elif self._inside and not text.strip():
            self._end_row()
            self._table = None
            self._nvtx = False
            self._lines.structure()
        elif self._begins_unnamed(text):
            self.leave()
            self._inside, self._head = True, {"name": _UNNAMED, **self._process, "args": {}}
            self._unnamed = set()
            return self._within(text)
        elif self._inside:
            return self._within(text)
        else:
            return False
        return True

    def _begins_unnamed(self, text: str) -> bool:
        """Whether a line is the first section of a launch without its own line, as in quoted text.

        A table follows the line, or the current unnamed launch has this section already.
        """
        match = SECTION.fullmatch(text)
        if not match or (self._inside and self._unnamed is None):
            return False
        if self._unnamed is not None:
            return match[1] in self._unnamed
        ruler, headings = (unprefixed(self._lines.peek(ahead) or "") for ahead in (1, 2))
        return bool(_RULER.fullmatch(ruler) and METRICS.fullmatch(headings))

    def _within(self, text: str) -> bool:
        """Reads a line below that of a launch."""
        if self._table is not None and self._table.continue_row(text):
            self._lines.used()
            return True
        self._end_row()
        if match := SECTION.fullmatch(text):
            self._section, self._part, self._table, self._nvtx = match[1], "", None, False
            if self._unnamed is not None:
                self._unnamed.add(match[1])
            self._lines.structure()
        elif _RULER.fullmatch(text):
            self._ruler(text)
            self._lines.structure()
        elif self._table is not None and self._table.rows and _DASHES.fullmatch(text):
            self._table = None  # the text was cut within the ruler that ends a table
            self._lines.structure()
        elif match := METRICS.fullmatch(text):
            self._table = self._table or Table([])
            self._table.headed, self._table.several = True, "Minimum" in text
            self._lines.structure()
        elif match := _PART.fullmatch(text):
            self._part, self._table = match[1], None
            self._lines.structure()
        elif _DESCRIPTION.fullmatch(text):
            self._lines.structure()
        elif match := _ADVICE.fullmatch(text):
            self._advice(match[1], match[2])
        elif self._table is not None:
            return self._other_row(text) or self._begin_row(text)
        elif self._is_title(text):
            self._title(text)
        elif self._section and (_UNMARKED if self._table is None else REMARK).fullmatch(text):
            self._advice("", text.strip())
        elif self._head is not None and (self._nvtx or _NVTX.fullmatch(text)):
            self._range(text)
        else:
            return self._loose_figure(text)
        return True

    def _launch(self, text: str) -> dict[str, Any] | None:
        """Returns the launch that a line begins: the line names a context or device, or a section follows it."""
        match = launch_line(text)
        if not match:
            return None
        if not is_placed(match) and not self._section_follows():
            return None
        parts = match.groupdict()
        head: dict[str, Any] = {column: int(parts[column]) for column in _COLUMNS if parts.get(column)}
        args = {"CC": parts.get("cc"), "Kernel Time": parts.get("time")}
        for part in filter(None, (parts.get("rest") or "").split(", ")):
            key, _, value = part.rpartition(" ")
            args[key] = value
        args = {key: value for key, value in args.items() if value}
        head = {"name": parts["name"]} | self._process | self._device | head | {"args": args}
        add_facts(head, self._name, parts.get("cc") or "", self._launches)
        return head

    def _section_follows(self) -> bool:
        following = next(filter(None, ((self._lines.peek(ahead) or "").strip() for ahead in (1, 2))), "")
        following = unprefixed(following)
        return bool(SECTION.fullmatch(following) or METRICS.fullmatch(following))

    def _is_title(self, text: str) -> bool:
        """Whether a line is the title of a part of a section: a table follows, perhaps after more titles."""
        if not self._section or not _TITLE.fullmatch(text):
            return False
        for ahead in range(1, _TITLES + 1):
            following = unprefixed(self._lines.peek(ahead) or "")
            if _RULER.fullmatch(following) or _PART.fullmatch(following) or REMARK.fullmatch(following):
                return True
            if not _TITLE.fullmatch(following):
                return False
        return False

    def _title(self, text: str) -> None:
        """Reads the title of a part of a section; if more titles follow, this one is the part's name."""
        if _TITLE.fullmatch(unprefixed(self._lines.peek() or "")):
            self._part = text.strip()
        self._lines.structure()

    def _summary_device(self, match: re.Match[str]) -> None:
        """Reads a device of a summary; a table of its attributes may follow."""
        self._device = {"device": int(match[1])}
        if METRICS.fullmatch(unprefixed(self._lines.peek() or "")):
            args = {"CC": match[2]} if match[2] else {}
            name = f"Device {match[1]}"
            self._inside = True
            self._head = {"kind": "range", "name": name} | self._process | self._device | {"args": args}
            self._lines.used()
        else:
            self._lines.structure()

    def _resume(self) -> None:
        """Resumes a launch that was started before: summaries of 2022 repeat its line for each section."""
        head = self._head or {}
        if "count" not in head:
            self._repeated = None
            return
        self._repeated = tuple(sorted((key, value) for key, value in head.items() if key != "args"))
        if self._repeated in self._known:
            self._launches.resume(self._known[self._repeated])
            self._head = None

    def _current(self) -> Launches:
        """Returns the launches after starting the current one, if it hasn't been started."""
        if self._head is not None:
            identity = self._launches.start(**self._head)
            if self._repeated is not None:
                self._known[self._repeated] = identity
            self._head = None
        return self._launches

    def _ruler(self, text: str) -> None:
        runs = runs_of(text)
        table = self._table
        if table is not None and (table.rows or not (table.headed or table.headings)):
            self._table = None  # the ruler that ends a table
        elif table is not None:
            table.runs = runs  # the ruler below the headings
        elif len(runs) > 2:
            self._table = Table(runs)

    def _begin_row(self, text: str) -> bool:
        """Reads the first line of a row of a table; returns False if the line isn't one."""
        if self._table is None or not self._table.begin(text):
            return False
        self._lines.used()
        return True

    def _end_row(self) -> None:
        """Adds the row that was read last."""
        cells = self._table.take_row() if self._table is not None else None
        if cells is not None:
            name, unit, *values = cells
            self._add(name, unit, values)

    def _other_row(self, text: str) -> bool:
        """Reads a row of a table without metrics, which becomes a note; the table's first line is its headings."""
        table = self._table
        if table is None or table.headed:
            return False
        if table.headings:
            words = (f"{name} {cell}" for name, cell in zip(table.headings, table.cells(text), strict=True) if cell)
            self._current().note(", ".join(words), self._section, {})
            table.rows += 1
            self._lines.used()
        elif not table.rows and runs_of(unprefixed(self._lines.peek() or "")) == table.runs:
            table.headings = table.cells(text)
            self._lines.structure()
        else:
            return False
        return True

    def _loose_figure(self, text: str) -> bool:
        """Reads a row of a table without the lines around it: words far apart, a unit, and one value or three."""
        words = re.split(r"\s{2,}", text.strip())
        if not self._section or len(words) not in (3, 5) or not is_unit(words[1]):
            return False
        name, unit, *values = words
        if not all(_FIGURE.fullmatch(value) for value in values):
            return False
        self._add(name, unit, values)
        self._lines.used()
        return True

    def _add(self, name: str, unit: str, values: list[str]) -> None:
        """Adds a metric: its value, or the minimum, maximum and average of several launches."""
        launches = self._current()
        if not any(values):
            return
        name = name or self._part or self._section
        if len(values) == 1:
            launches.metric(launches.figure(name, unit, self._section, self._part), values[0])
        else:
            minimum, maximum, average = values
            figure = launches.figure(name, unit, self._section, self._part, several=True)
            launches.metric(figure, average, (minimum, maximum))

    def _advice(self, kind: str, text: str) -> None:
        """Adds the advice of a rule, which may have several lines."""
        self._table = None
        parts, read = [text], 0
        focus: list[dict[str, str]] = []
        while (more := self._lines.peek(read + 1)) is not None and self._continues_advice(unprefixed(more)):
            more = unprefixed(more)
            if match := _FOCUS.fullmatch(more):
                focus.append({"metric": match[1]})
            elif focus:
                _add_focus(focus[-1], more)
            else:
                parts.append(more.strip())
            read += 1
        args: dict[str, Any] = {"Rule Type": kind} if kind else {}
        args |= {"Focus Metrics": focus} if focus else {}
        advice = " ".join(parts)
        if match := _SPEEDUP.fullmatch(advice):
            args |= {"Estimated Speedup Type": (match[1] or "global").lower()}
            args |= {"Estimated Speedup": float(match[2].replace(",", "."))}
            advice = match[3] or advice
        self._current().note(advice, self._section, args)
        self._lines.used()
        following = iter(self._lines)
        for _ in range(read):
            next(following)
            self._lines.used()

    def _continues_advice(self, text: str) -> bool:
        """Whether a line is the next one of an advice."""
        ends = (SECTION, _RULER, _ADVICE, _PROCESS)
        if not text.strip() or text.startswith("==") or any(end.fullmatch(text) for end in ends):
            return False
        match = launch_line(text)
        return not (match and is_placed(match))

    def _range(self, text: str) -> None:
        """Reads a line of the NVTX ranges around a launch: names go to its scope, everything else to its args."""
        head = self._head or {}
        self._nvtx = True
        name = _range_name(text)
        if name:
            head.setdefault("scope", []).append(name)
        else:
            head["args"].setdefault("NVTX", []).append(text.strip())
        self._lines.used()


def _add_focus(metric: dict[str, str], text: str) -> None:
    """Adds a line with the value or advice of a metric that an advice is based on."""
    if match := _FOCUS_MORE.fullmatch(text):
        metric[{"Value": "value", "Info": "advice"}[match[1]]] = match[2]
    else:
        metric["advice"] = f"{metric.get('advice', '')} {text.strip()}".strip()


def _range_name(line: str) -> str | None:
    """Returns the name of the range that a line of the text names, None if it names none."""
    match = _LEVEL.fullmatch(line.strip())
    return match[1].strip() if match else None


def add_facts(head: dict[str, Any], process: str, capability: str, launches: Launches) -> None:
    """Adds the facts in a launch's line: the name of its process, the compute capability of its device."""
    host, pid, device = head.get("host"), head.get("pid"), head.get("device")
    if process and pid is not None:
        launches.fact("process", host=host, pid=pid, name=process)
    if device is not None:
        facts = {"api": "cuda", "vendor": "NVIDIA"} | ({"compute_capability": capability} if capability else {})
        launches.fact("device", host=host, device=device, facts=facts)
