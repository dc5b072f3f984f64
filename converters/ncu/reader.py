"""Reads the launches in Nsight Compute's output as summaries: text and CSV pages, one after the other or mixed.

Pages are details (a line per metric), raw (a line per launch), and summaries of several launches. A CSV cell contains
the thread and the stack of the NVTX ranges around a launch, outermost first; the heading names the parts:

    thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg
    13416  "<default domain>:forward:none:none:none:none:none:none"  "<default domain>:layer 3:none:..."
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import ALLOW_COUNTERS, DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ncu_cells import is_european
from ktrace.kit.ncu_launches import Launches
from ktrace.kit.text.headings import plain
from ktrace.kit.text.lines import Line, Lines
from ktrace.model.batch import Batch

from . import AVERAGES, FIXED, OWN, PLACES, REMARK, SIZES, Headings, fields_of, headings
from .listing import Listing, add_facts

_FORBIDDEN = "ERR_NVGPUCTRPERM"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each launch, followed by one for each metric and rule; skips and reports program output.

    Raises DamagedInput if nothing was profiled because the user may not read the counters.
    """
    lines = Lines(source, conversion)
    launches = Launches(conversion, european=is_european(source.sample().text or ""))
    reading = _NcuReader(lines, launches, source.path)
    for line in lines:
        reading.line(line)
        yield from launches.ready()
    reading.finish()
    yield from launches.rest()


class _NcuReader:
    """The state of reading: the current page or listing, and the remarks so far."""

    def __init__(self, lines: Lines, launches: Launches, path: str) -> None:
        self._lines, self._launches, self._path = lines, launches, path
        self._listing = Listing(lines, launches)
        self._page: _Page | None = None
        self._pages = 0
        self._remarks: list[tuple[str, str]] = []
        self._forbidden = 0  # the line that reports missing permission
        self._note = False  # within the remark about averages that every summary has

    def line(self, line: Line) -> None:
        """Reads a line; one without an outcome is reported as unrecognised."""
        text = line.text
        if "==" in text and (match := OWN.fullmatch(text)):
            self._own(match, line)
        elif self._note or text.lstrip().startswith(AVERAGES):
            self._note = bool(text.strip())
            self._lines.structure()
        elif found_headings := headings(text):
            if found_headings.is_shuffled:
                raise DamagedInput(
                    "ncu wrote the figures of this page into wrong columns, as it always does for --page raw with "
                    "--print-summary per-gpu and --csv",
                    path=self._path,
                    where=f"line {line.number}",
                    expected="a name below Metric Name",
                    remedy="leave out --csv, or use --print-summary per-kernel",
                )
            self._page, self._pages = _Page(found_headings, self._pages), self._pages + 1
            self._listing.leave()
            self._lines.structure()
        else:
            in_page = self._page is not None and self._page.row(line, self._lines, self._launches)
            if not in_page and not self._listing.line(text) and not text.strip():
                self._lines.structure()

    def _own(self, match: re.Match[str], line: Line) -> None:
        if match["kind"] in ("WARNING", "ERROR"):
            self._remarks.append((match["kind"], match["text"].strip()))
            self._lines.used()
            if _FORBIDDEN in match["text"]:
                self._forbidden = self._forbidden or line.number
        else:
            self._lines.structure()

    def finish(self) -> None:
        """Adds ncu's remarks after the launches. Raises DamagedInput if there is no launch."""
        self._listing.leave()
        if self._forbidden and not self._launches.profiled:
            raise DamagedInput(
                f"no kernel was profiled, because the user may not read the GPU's performance counters ({_FORBIDDEN})",
                path=self._path,
                where=f"line {self._forbidden}",
                expected="launches of kernels with their metrics",
                remedy=ALLOW_COUNTERS,
            )
        if self._pages and not (self._launches.profiled or self._remarks):
            raise DamagedInput(
                "has the headings of a page but no launch below them",
                path=self._path,
                expected="rows of launches",
                remedy="use ncu --page raw, which has all launches; per-nvtx only has those in recorded ranges",
            )
        for kind, text in self._remarks:
            self._launches.start(kind="note", metric="note", name=text, args={"type": kind})


#: Words in the heading of a stack of ranges, and of ranges that don't form a stack.
PUSHED, STARTED = "Push/Pop_Range", "Start/Stop_Range"

_RANGE = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_DEFAULT = "<default domain>"
_PARTS = 6


def stack(cell: str) -> tuple[list[str], bool]:
    """Returns the names of the ranges in a cell, and whether the cell has nothing else but the thread."""
    names, only_names = [], True
    for text in _RANGE.findall(cell):
        domain, _, rest = text.partition(":")
        parts = rest.rsplit(":", _PARTS)
        if len(parts) < _PARTS + 1:
            parts = rest.split(":")
        names.append(parts[0])
        only_names &= domain == _DEFAULT and all(part == "none" for part in parts[1:])
    return [name for name in names if name], only_names


_LONG = (
    "Section Name",
    "Body Item Label",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Minimum",
    "Maximum",
    "Average",
)
_RULE = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")

_XYZ = re.compile(r"\(?\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)?")
_WHOLE = re.compile(r"-?\d{1,18}")
_ROW = re.compile(r'\s*"?\d+"?,')

#: The minimum or maximum of several values, which may be empty.
_SPAN = re.compile(r"\s*(?:(?:[-+]?[\d.,]+(?:[eE][-+]?\d+)?|-?nan|-?inf|(?:\(!\) )?n/a)\s*)?(?:\(.*)?", re.DOTALL)

#: A heading of a table without metrics.
_TITLE = re.compile(r"[A-Z][A-Za-z]*(?: [A-Za-z]+)*")

#: The most lines of one cell; names of kernels may have several.
_MOST_LINES = 200


class _Page:
    """A table with its headings, which reads its rows one after the other.

    `table` is its index in the source.
    """

    def __init__(self, headings: Headings, table: int) -> None:
        fields, long = headings
        self.fields = fields
        self._long = long
        self._at = {name: number for number, name in enumerate(fields)}
        self._table = table
        self._units: list[str] | None = None
        self._heads: dict[tuple[str, ...], int] = {}
        self._current: tuple[str, ...] | None = None
        nvtx = [name for name in fields if PUSHED in name or STARTED in name]
        columns = {*FIXED, *nvtx, *(_LONG + _RULE if long else ())}
        self._others = [name for name in fields if long and name not in columns]
        self._metrics = [number for number, name in enumerate(fields) if not long and name not in columns]
        self._names = [fields[number] for number in self._metrics]
        ranges = [name for name in fields if name == "Domain" or name.startswith("Range:")]
        self._key = [self._at[name] for name in fields if (name in FIXED or name in ranges) and name]
        if "ID" in self._at:
            self._key = [self._at[name] for name in ("ID", "Process ID", "Host Name") if name in self._at]
        self._number = self._at.get("ID", self._at.get("Process ID"))
        self._needed = max((self._at[name] for name in ("Metric Value", "Average") if name in self._at), default=0) + 1
        self._metric = [self._at.get(name, -1) for name in _LONG[:5]]
        self._several = "Average" in self._at and "Metric Value" not in self._at
        self._figures: list[int] | None = None
        self._other: list[str] = []  # the headings of a different table between the rows

    def row(self, line: Line, lines: Lines, launches: Launches) -> bool:
        """Reads a row with all of its lines; returns False if the line isn't a row of the page."""
        text, further = line.text, 0
        if self._current is not None and REMARK.fullmatch(text):
            launches.note(text.strip(), "", {})
            lines.used()
            return True
        while text.count('"') % 2:
            if not _ROW.match(text):
                return False
            more = lines.peek(further + 1)
            if more is None or further == _MOST_LINES or _ROW.match(more) or more.startswith("=="):
                return self._skip_broken(text, lines, at_end=more is None)
            text, further = f"{text}\n{more}", further + 1
        fields = fields_of(text)
        if fields is not None and self._other_row(fields, lines, launches):
            return True
        if fields is None or not self._is_row(fields):
            return self._skip_broken(text, lines, at_end=lines.peek() is None)
        self._defer(lines, further)
        if self._is_units(fields):
            self._units = fields
            self._figures = None
            lines.structure(further + 1)
        elif self._long:
            self._take_metric(fields, launches)
            lines.used(further + 1)
        else:
            self._take_launch(fields, launches)
            lines.used(further + 1)
        return True

    def _other_row(self, fields: list[str], lines: Lines, launches: Launches) -> bool:
        """Reads a row of a table without metrics, which may follow a blank line within the page.

        Its rows become notes of the previous launch.
        """
        if not self._long or self._current is None or len(fields) < 2:
            self._other = []
        elif len(fields) == len(self._other):
            words = (f"{name} {cell}" for name, cell in zip(self._other, fields, strict=True) if cell)
            launches.note(", ".join(words), "", {})
            lines.used()
            return True
        elif len(fields) < self._needed and all(_TITLE.fullmatch(field) for field in fields):
            self._other = fields
            lines.structure()
            return True
        else:
            self._other = []
        return False

    def _defer(self, lines: Lines, further: int) -> None:
        """Reads the further lines of a row and defers all of its lines but the last."""
        if further:
            lines.defer()
            following = iter(lines)
            for number in range(further):
                next(following)
                if number + 1 < further:
                    lines.defer()

    def _skip_broken(self, text: str, lines: Lines, *, at_end: bool) -> bool:
        """Skips a broken row of the page; returns False for other text."""
        if not _ROW.match(text) or text.count(",") < min(3, len(self.fields) - 1):
            return False
        lines.skip("cut" if at_end else "bad-record", "the row is cut off" if at_end else "a row of a different length")
        return True

    def _is_row(self, fields: list[str]) -> bool:
        """Whether cells are a row: one for each heading; rows of metrics may end after their value."""
        if len(fields) == len(self.fields) + 1 and not fields[-1]:
            fields.pop()
        if len(fields) > len(self.fields) or len(fields) < (self._needed if self._long else len(self.fields)):
            return False
        spans = [self._at[name] for name in ("Minimum", "Maximum") if self._at.get(name, len(fields)) < len(fields)]
        if self._several and not all(_SPAN.fullmatch(fields[at]) for at in spans):
            return False  # a fault of ncu's: it leaves out a cell of some rows
        if self._number is None:
            return bool(fields[self._at["Kernel Name"]])
        number = fields[self._number]
        return number.isdigit() or bool(_WHOLE.fullmatch(number.strip())) or self._is_units(fields)

    def _is_units(self, fields: list[str]) -> bool:
        return not self._long and not any(fields[at] for at in self._key) and any(fields)

    def _take_metric(self, fields: list[str], launches: Launches) -> None:
        given = len(fields)
        fields += [""] * (len(self.fields) + 1 - given)  # index -1 is the cell of columns that the page doesn't have
        self._go_to(fields, launches)
        section, part, name, unit, text = [fields[at].strip() for at in self._metric]
        if not name and (text or (self._several and self._cells(fields)("Average"))):
            name = part or section  # the one metric of a chart has no label
        if name and not self._several:
            launches.metric(launches.figure(name, unit, section, part), text)
        elif name:
            cell = self._cells(fields)
            figure = launches.figure(name, unit, section, part, several=True)
            launches.metric(figure, cell("Average"), (cell("Minimum"), cell("Maximum")))
        if given > self._needed:
            self._take_rule(section, self._cells(fields), launches)

    def _take_rule(self, section: str, cell: Callable[[str], str], launches: Launches) -> None:
        """Adds the advice of a rule, if the row has one."""
        if cell("Rule Name") or cell("Rule Description"):
            args: dict[str, Any] = {key: cell(key) for key in _RULE if key != "Rule Description" and cell(key)}
            if "Estimated Speedup" in args:
                args["Estimated Speedup"] = plain(args["Estimated Speedup"])
            launches.note(cell("Rule Description") or cell("Rule Name"), section, args)

    def _cells(self, fields: list[str]) -> Callable[[str], str]:
        at = self._at
        return lambda name: fields[at[name]].strip() if name in at else ""

    def _go_to(self, fields: list[str], launches: Launches) -> None:
        """Starts or resumes the launch of the row, if it isn't the launch of the previous row."""
        key = tuple([fields[at] for at in self._key])
        if key == self._current:
            return
        self._current = key
        if key in self._heads:
            launches.resume(self._heads[key])
        else:
            self._heads[key] = launches.start(**self._head(fields, launches))

    def _take_launch(self, fields: list[str], launches: Launches) -> None:
        if self._figures is None:
            units = self._units or [""] * len(self.fields)
            self._figures = [
                launches.figure(name, units[at]) for name, at in zip(self._names, self._metrics, strict=True)
            ]
        launches.start(**self._head(fields, launches))
        texts = [fields[at] for at in self._metrics]
        if "" in texts:
            given = [number for number, text in enumerate(texts) if text]
            launches.metrics([self._figures[number] for number in given], [texts[number] for number in given])
        else:
            launches.metrics(self._figures, texts)

    def _head(self, fields: list[str], launches: Launches) -> dict[str, Any]:
        """Returns the columns of a launch."""
        cell = self._cells(fields)
        name = fields[self._at["Kernel Name"]] if "Kernel Name" in self._at else f"ID {cell('ID')}"
        head: dict[str, Any] = {"table": self._table, "name": name}
        args: dict[str, Any] = {name: cell(name) for name in ("ID", "CC", "Kernel Time") if cell(name)}
        if _WHOLE.fullmatch(cell("ID")):
            args["ID"] = int(cell("ID"))
        for name, column in PLACES.items():
            if _WHOLE.fullmatch(cell(name)):
                head[column] = int(cell(name))
            elif cell(name):
                args[name] = cell(name)
        for name, axis in SIZES.items():
            match = _XYZ.fullmatch(cell(name))
            if match:
                head |= {f"{axis}_{letter}": int(text) for letter, text in zip("xyz", match.groups(), strict=True)}
            elif _WHOLE.fullmatch(cell(name)):
                head[f"{axis}_x"] = int(cell(name))
            elif cell(name):
                args[name] = cell(name)
        if _WHOLE.fullmatch(cell("Invocations")):
            head["count"] = int(cell("Invocations"))
        for name in self.fields:
            if PUSHED in name and cell(name):
                head["scope"], only_names = stack(cell(name))
                args |= {} if only_names and head["scope"] else {name: cell(name)}
            elif STARTED in name and cell(name):
                args[name] = cell(name)
        for name in self._others:
            if cell(name):
                args[name] = cell(name)
        head["host"] = cell("Host Name") or None
        add_facts(head, cell("Process Name"), cell("CC"), launches)
        return {name: value for name, value in head.items() if value is not None} | {"args": args}
