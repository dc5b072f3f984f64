"""A summary on one screen: the answer in 40 lines, what proves it, and what else can be asked of the input.

    run · PyTorch profiler · NVIDIA H100 80GB HBM3 · 1 step, 1.00 ms · 1.01 ms recorded

    busy 86.4%   compute 73.1%   exposed communication 12.1%   exposed copies 1.2%   idle 13.6%
    Device 0 is busy for ...

    where to look first, share of the devices' time
    1  12.1%  117 us  communication without compute at the same time
                      try: Overlap it with compute: ...
    ...
    operation         time  share  count      median         max
    gemm        249.629 us  26.8%      4   62.288 us   66.431 us

Everything that it says is a sentence of the verdict, a note, or a figure of a table that `--full` prints whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

import numpy as np

from ktrace.analysis.answers.summary.summary import spread_of_devices
from ktrace.analysis.answers.summary.verdict import Said, losses
from ktrace.analysis.work.stated import stated_table
from ktrace.analysis.work.steadiness import FEWEST
from ktrace.model.tracks import natural, without_number
from ktrace.report import counted
from ktrace.tables import Cell, Column, Table, brief, escape_controls, percent
from ktrace.tables.text import BOLD, DIM, as_text, styled

if TYPE_CHECKING:
    from ktrace.analysis.answers.summary.summary import Summary

#: The lines of the screen, and its columns where there is no terminal.
LINES, WIDTH = 40, 100

#: Rows of each table, at most.
_ROWS = 8

#: How many notes are shown, names in the first line, tables of groups.
_NOTES, _NAMES, _TABLES = 3, 3, 4

#: So many devices have a row each; of more the least, the median and the most, and those that are worst.
_DEVICES = 6

#: The shares of the devices' time, in the order of the line; those after the first are left out where they are 0.
_SHARES = ("busy", "compute", "exposed communication", "exposed copies")

#: A blank at which no line breaks.
_FIXED = "\xa0"

#: Answers that the screen gives as findings.
_SAID = ("idle", "collective")

#: The figures of a group that are left out.
_LEFT_OUT = ("average", "p95")

#: What two lines of prose lack to be twice as wide as the screen: how far in they are, and where words break.
_MARGIN = 24

#: The questions that are named where an input can't answer them.
_MISSED = ("op", "memory")


def screen(summary: Summary, top: int | None = None, *, width: int | None = None, colour: bool = False) -> str:
    """Returns the summary as at most `LINES` lines; `top` is the number of rows of its tables, however many lines.

    `width` is that of the terminal, None where there is none. `colour` makes figures bold.
    """
    return _Screen(summary, width or WIDTH, colour).text(top)


def inputs_of(summary: Summary) -> str:
    """The inputs in a line: their names, of many the first and the last."""
    names = sorted(dict.fromkeys(summary.sources), key=natural)
    return ", ".join(names) if len(names) <= _NAMES else f"{len(names):,} inputs, {names[0]} to {names[-1]}"


def _models(summary: Summary) -> str:
    """The models of devices and how many of each there are: "8 x NVIDIA H100", or "8 devices"; "" for one unnamed."""
    uses = summary.devices
    models = Counter(model for use in uses if (model := without_number(use.name, use.device)))
    if not models:
        return counted(len(uses), "device") if len(uses) > 1 else ""
    return ", ".join(f"{many:,} x {model}" if len(uses) > 1 else model for model, many in models.most_common(_NAMES))


#: Where the longest step takes so many times as long as the shortest, something stands out, be it not known what.
_APART = 1.5


class _Screen:
    """The parts of the screen, as lines."""

    def __init__(self, summary: Summary, width: int, colour: bool) -> None:
        self._summary, self._width, self._colour = summary, width, colour
        self._findings = summary.findings
        self._said = Said.of(self._findings)

    def text(self, top: int | None) -> str:
        """The whole screen; without `top` tables have as many rows as fit the terminal."""
        unsteady = [line for one in self._said.steps for line in self._wrapped(one)]
        before = [self._head(), self._doubts(), self._use() + unsteady, self._look()]
        after = [self._steps(), self._notes(), self._hints()]
        tables, whole = self._tables(), ""
        for rows in [top] if top else range(_ROWS, 0, -1):
            parts = [*before, *(self._table(one, rows) for one in tables), *after]
            whole = "\n".join("".join(f"{line}\n" for line in part) for part in parts if part)
            if whole.count("\n") <= LINES:
                break
        return whole

    def _head(self) -> list[str]:
        """The line that says what this is."""
        summary = self._summary
        parts = [inputs_of(summary)]
        parts += [", ".join(summary.tools[:_NAMES])] if summary.tools else []
        parts += [models] if (models := _models(summary)) else []
        if len(times := summary.step_times):
            median = f"{'median ' if len(times) > 1 else ''}{brief(float(np.median(times)))}"
            parts.append(f"{counted(len(times), 'step')}, {median}")
        is_one = not any(one.code == "check.runs_apart" for one in summary.checks)  # else it is mostly a pause
        if summary.longest and summary.unit == "ns" and is_one:
            parts.append(f"{brief(summary.longest)} recorded")
        return self._joined(parts, BOLD)

    def _doubts(self) -> list[str]:
        """What is wrong with the recording."""
        return [line for one in self._said.doubts for line in self._wrapped(f"! {one}", BOLD, 2)]

    def _use(self) -> list[str]:
        """How busy the devices are, in shares of their time, and in words."""
        lines = [shares] if (shares := self._shares()) else []
        takes = "" if self._said.look else self._said.takes
        sentences = (*self._said.benchmarks, self._said.memory, takes, self._said.waits)
        return lines + [line for one in sentences for line in self._wrapped(one)]

    def _shares(self) -> str:
        """The shares of the devices' time; "" where they aren't known, or in doubt."""
        codes = {one.code for one in self._findings}
        uses = [use for use in self._summary.devices if use.span]
        if not uses or not codes & {"busy", "busy.least"} or "idle" not in codes:
            return ""
        span = sum(use.span for use in uses)
        times = [(name, sum(getattr(use, name.replace(" ", "_")) for use in uses)) for name in (*_SHARES, "idle")]
        return "   ".join(
            f"{name} {self._bold(f'{percent(time, span):.1f}%')}"
            for name, time in times
            if time or name in ("busy", "idle")
        )

    def _look(self) -> list[str]:
        """What is worth a look, with figures, and what to do about it."""
        of, listed = losses(self._findings)
        if not listed:
            return []
        lines = [self._dim(f"where to look first, share of {of}")]
        wide = max(len(one.time) for one in listed)
        for place, one in enumerate(listed, 1):
            figures = f"{place}  {one.share:>6}  {one.time:>{wide}}"
            indent = " " * (len(figures) + 2)
            first, *rest = self._wrapped(f"{indent}{one.text}", "", len(indent))
            lines += [f"{self._bold(figures)}  {first[len(indent) :]}", *rest]
            if one.remedy:
                lines += self._wrapped(f"{indent}try: {one.remedy}", "", len(indent) + 5)
            for more in one.unknown:
                lines += self._wrapped(f"{indent}{more}", DIM, len(indent))
        return lines

    def _tables(self) -> list[Table]:
        """The tables that prove it: devices, if there are several, operations and kernels, or what there is instead."""
        summary = self._summary
        names = [name for name in ("operation", "kernel") if name in summary.groups]
        devices = [_devices(summary)] if len(summary.devices) > 1 else []
        groups = [_narrow(one) for one in summary.tables(names, brief=True) if (one.name.partition(" of ")[0] in names)]
        answers = [answer for name, answer in summary.answers.items() if name not in _SAID]
        instead = answers + ([summary.instead] if summary.instead is not None else [])
        others = [table for answer in instead for table in answer.tables(brief=True)]
        stated = [stated_table(summary.stated)] if summary.stated else []
        return [*devices, *stated, *groups[:_TABLES], *others[:_TABLES]]

    def _table(self, table: Table, top: int) -> list[str]:
        """A table with so many rows; the heading of its first column says of how many."""
        rows = [self._begun(row, table) for row in table.rows[: _own_rows(table) or top]]
        if not rows:
            return []
        first, *others = table.columns
        title = "" if table.title == f"by {first.name}" else table.title
        every = table.more + len(table.rows)
        if len(rows) < every:
            first = replace(first, name=f"{first.name} ({len(rows):,} of {every:,})")
        shown = replace(table, title=title, columns=(first, *others), rows=rows, more=0, notes=[])
        return as_text([shown], width=self._width, colour=self._colour).splitlines()

    def _begun(self, row: tuple[Cell, ...], table: Table) -> tuple[Cell, ...]:
        """A row of which prose is two lines at most."""
        return tuple(
            shorten(str(cell), 2 * self._width - _MARGIN, placeholder=" …") if column.prose and cell else cell
            for cell, column in zip(row, table.columns, strict=True)
        )

    def _steps(self) -> list[str]:
        """How long the steps take, where nothing is said of them above."""
        times = self._summary.step_times
        if self._said.steps or len(times) < FEWEST:
            return []
        least, most = float(times.min()), float(times.max())
        none = "; none stands out" if most < _APART * least else ""
        lengths = " to ".join(dict.fromkeys((brief(least), brief(most))))
        return self._wrapped(f"Steps take {lengths}{none}.")

    def _notes(self) -> list[str]:
        """Notes on what the figures mean or lack."""
        notes = self._summary.notes
        shown = [line for one in notes[:_NOTES] for line in self._wrapped(one)]
        more = [f"... and {len(notes) - _NOTES:,} more notes: --full"] if len(notes) > _NOTES else []
        return [*shown, *more]

    def _hints(self) -> list[str]:
        """What else can be asked of this input, what can't, and how to get all of it."""
        summary = self._summary
        hints = [f"also known: --by {', '.join(summary.askable)}"] if summary.askable else []
        missing = [name for name in _MISSED if name not in summary.askable] if summary.devices else []
        hints += [f"not recorded: {', '.join(missing)}"] if missing else []
        hints += ["all tables: --full", "a page: -o page.html"]
        return self._joined(hints, DIM)

    def _joined(self, parts: Sequence[str], style: str) -> list[str]:
        """The parts in lines that break between them."""
        whole = " · ".join(part.replace(" ", _FIXED) for part in parts)
        return [line.replace(_FIXED, " ") for line in self._wrapped(whole, style)]

    def _bold(self, text: str) -> str:
        return styled(text, BOLD, self._colour)

    def _dim(self, text: str) -> str:
        return styled(text, DIM, self._colour)

    def _wrapped(self, text: str, style: str = "", indent: int = 0) -> list[str]:
        """The text in lines of whole words as wide as the screen, the later ones indented by so much."""
        lines = wrap(escape_controls(text), self._width, subsequent_indent=" " * indent, break_on_hyphens=False)
        return [styled(line, style, self._colour) for line in lines]


def _own_rows(table: Table) -> int:
    """The rows of the table of devices, which are never cut; 0 for others."""
    return len(table.rows) if table.name == "devices" else 0


def _narrow(table: Table) -> Table:
    """A table of groups with its name, totals and counts, and the figures that a screen has space for."""
    kept = [place for place, column in enumerate(table.columns) if column.name not in _LEFT_OUT]
    rows = [tuple(row[place] for place in kept) for row in table.rows]
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=rows)


def _devices(summary: Summary) -> Table:
    """A row for each device; of many the least, the median and the most of each figure, and the worst of them."""
    uses = summary.devices
    shares = [name for name in _SHARES if name == "busy" or any(getattr(use, name.replace(" ", "_")) for use in uses)]
    columns = (Column("device"), Column("span", "ns"), *(Column(name, "%") for name in shares))
    waited = summary.others_waited
    columns += (Column("others waited", "ns"),) if waited else ()
    rows: list[tuple[Cell, ...]] = [
        (use.label, use.span, *(percent(getattr(use, name.replace(" ", "_")), use.span) for name in shares))
        + ((waited.get((use.source, use.device), 0),) if waited else ())
        for use in uses
    ]
    table = Table("devices", "", columns, rows)
    return table if len(uses) <= _DEVICES else spread_of_devices(table, summary)
