"""LatencyPrism's "Cross Performance Comparison" of two runs, in Markdown (compare_perf_data.py, 2025).

    | Metric              | normal_pid_805580 | abnormal_pid_842126 | Δ (…)       | Change (%) |
    |   Time Rank | normal_pid_805580 Time (us) | abnormal_pid_842126 Time (us) | Δ (us) | Δ (%) |
    | Function Name | Metric Name | Device | Suspicion Score | β_normal_…(%) | β_abnormal_…(%) | Δβ(%) | …

β is the share of a cycle that a function takes, μ the mean of a resource metric while the function runs.

Reads a comparison of two runs as summaries: one per run, with the comparison in `args` of the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Heading, as_int64, cell_quantity, heading, own_key, plain, spelling, to_base
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.tables import Row, Table, Text, find_tables, read_tables
from ktrace.kit.text.titles import Title
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TITLE = "Performance Comparison"


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a table, or for a table of functions or cycles without the title."""
    text = sample.text
    if not text or ("|" not in text and "," not in text):
        return None
    for table in find_tables(sample, columns_of):
        for title in table.path:
            if _TITLE in title.text:
                return Match(Score.DIALECT, f"has the title '{title.text.partition(':')[0]}'")
        if table.fields and table.fields.keys() & {"name", "rank"}:
            return Match(Score.DIALECT, f"has a comparison of runs as LatencyPrism writes it (line {table.line})")
    return None


_CHANGE = re.compile(r"[Δ∆]|change\b", re.IGNORECASE)
_CYCLE = re.compile(r"(?=.*[)\]]\Z)(?P<run>.*?\S)\s+Time\s*[(\[].+", re.IGNORECASE | re.DOTALL)
_SHARE = re.compile(r"[βß][_ ](?P<run>\S(?:.*?\S)??)\s*(?:[(\[]%[)\]])?")
_MEAN = re.compile(r"[μµ][_ ](?P<run>.+)")
_PID = re.compile(r"pid[_: ]*(\d{1,18})(?!\d)", re.IGNORECASE)
_STRICT = re.compile(r"Strict .*\(PID: *(\d{1,18})\)\s*", re.IGNORECASE)


def columns_of(headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
    """Returns field -> index of its column for any of the tables, None for other tables.

    Overall metrics: `metric`, and a column per run. Cycles: `rank`, and a column per run. Functions: `name`,
    `metric`, `device`, and for each run `share 0` (β) and `mean 0` (μ). Runs are numbered in the order of the columns.
    An exploratory report has two more tables: the runs (`role`), and clusters of similar runs (`cluster`).
    """
    index = {spelling(head.name): number for number, head in reversed(list(enumerate(headings)))}
    if "function name" in index and "metric name" in index:
        fields = {"name": index["function name"], "metric": index["metric name"]}
        fields |= {"device": index["device"]} if "device" in index else {}
        run_columns = _run_columns(headings)
        return fields | run_columns if run_columns else None
    if "role" in index and "total cycles" in index:
        spellings = {"role": "role", "cycles": "total cycles", "time": "avg cycle time", "pid": "pid"}
        return {field: index[word] for field, word in spellings.items() if word in index}
    if "cluster representative" in index:
        return {"cluster": index["cluster representative"]}
    if "time rank" in index:
        runs = _numbered("run", headings, _CYCLE.fullmatch)
        return {"rank": index["time rank"], **runs} if runs else None
    if index.get("metric") == 0 and any(_CHANGE.match(head.text) for head in headings):
        runs = _numbered("run", headings[1:], lambda text: not _CHANGE.match(text))
        return {"metric": 0, **{field: number + 1 for field, number in runs.items()}} if runs else None
    return None


def _numbered(field: str, headings: Sequence[Heading], is_run: Callable[[str], object]) -> dict[str, int]:
    columns = [number for number, head in enumerate(headings) if is_run(head.text)]
    return {f"{field} {run}": number for run, number in enumerate(columns)}


def _run_columns(headings: Sequence[Heading]) -> dict[str, int]:
    """Returns the columns of β and μ; a run has the same number in both, whatever the order of the columns."""
    runs: dict[str, int] = {}
    fields = {}
    for figure, pattern in (("share", _SHARE), ("mean", _MEAN)):
        for column, head in enumerate(headings):
            if match := pattern.fullmatch(head.text):
                number = runs.setdefault(match.group("run"), len(runs))
                fields[f"{figure} {number}"] = column
    return fields


@dataclass(frozen=True)
class Run:
    """A run: its name as in the headings, and the process id in that name."""

    name: str
    pid: int | None


def runs_of(table: Table) -> list[Run]:
    """Returns the runs that a table's headings name, in the order of their numbers; the first is the baseline.

    In a strict comparison both runs have one process, which only the title names.
    """
    runs: dict[int, Run] = {}
    for figure, column in (table.fields or {}).items():
        what, _, number = figure.rpartition(" ")
        if what in ("run", "share", "mean"):
            runs.setdefault(int(number), _run(table.headings[column].text))
    strict = _STRICT.fullmatch(table.path[0].text) if table.path else None
    pid = int(strict.group(1)) if strict else None
    return [Run(runs[number].name, runs[number].pid or pid) for number in sorted(runs)]


def _run(text: str) -> Run:
    for pattern in (_CYCLE, _SHARE, _MEAN):
        if match := pattern.fullmatch(text):
            text = match.group("run")
            break
    pid = _PID.search(text)
    return Run(text, int(pid.group(1)) if pid else None)


_GPU = re.compile(r"(?:GPU|XPU|cuda)[ :_]?(?P<number>\d{1,6})(?P<virtual> \(virtual\))?", re.IGNORECASE)
_COPY = re.compile(r"Memcpy ([HDP]to[HDP])\b.*")
_SHARES = ("_usage", "_util", "_occupancy")
_BULLET = re.compile(r"[-*+] +")
_CYCLES = "total cycles"

#: The number of a run, and the columns of its summary.
_RunColumns = tuple[int, dict[str, Any]]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields metrics, cycles and functions of both runs; prose becomes notes."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    reading = _ComparisonReader(lines, rows)
    for item in read_tables(lines, columns_of):
        if isinstance(item, Text):
            reading.text(item)
        elif isinstance(item, Row):
            reading.row(item)
        yield from rows.ready()
    reading.end_note()
    yield from rows.rest()


@dataclass
class _ComparisonReader:
    """What later rows need: the cycles of each run, the note being read, the title."""

    lines: Lines
    rows: RowBuilder
    cycles: dict[str, int] = field(default_factory=dict)
    note: list[Text] = field(default_factory=list)
    title: Title | None = None

    def row(self, row: Row) -> None:
        """Reads a row of any table: a summary per run, with the comparison in the last one."""
        fields = row.table.fields or {}
        self._document(row.table.path)
        if "role" in fields or "cluster" in fields:
            self._exploratory(row)
            self.end_note()
            return
        read_figures = self._function if "name" in fields else self._cycle if "rank" in fields else self._overall
        summaries = list(read_figures(row))
        if summaries:
            self.lines.used()
        else:
            self.lines.skip("bad-record", "no figure for any run")
        runs = runs_of(row.table)
        for number, columns in summaries:
            if number == summaries[-1][0] and (compare := _comparison(row)):
                columns["args"] = columns.get("args", {}) | {"compare": compare}
            baseline = runs[0].name if number and summaries[0][0] == 0 else None
            scope = _scope(row.table.path) or row.table.scope
            run = runs[number]
            self.rows.summary(
                run=run.name, pid=run.pid, baseline=baseline, table=row.table.ordinal, scope=scope, **columns
            )
        self.end_note()

    def _exploratory(self, row: Row) -> None:
        """Reads a row of an exploratory report: a run and its cycles, or a cluster of runs."""
        place: dict[str, Any] = {"table": row.table.ordinal, "scope": _scope(row.table.path) or row.table.scope}
        args = _comparison(row)
        if cluster := row.text("cluster"):
            self.rows.summary("note", cluster, metric="note", args=args, **place)
            self.lines.used()
            return
        cycles, time = cell_quantity(row.text("cycles")), cell_quantity(row.text("time"))
        if not row.text("role") or not cycles or not time:
            self.lines.skip("bad-record", "no role, or a figure is missing")
            return
        heads = [row.table.headings[(row.table.fields or {})[field]] for field in ("cycles", "time")]
        unit, value = to_base(time.number, time.unit or heads[1].unit)
        pid = row.text("pid")
        place |= {"run": row.text("role"), "pid": int(pid) if re.fullmatch(r"[0-9]{1,18}", pid) else None}
        count = as_int64(cycles.number)
        self.rows.summary("metric", heads[0].text, metric=heads[0].name, unit="count", value=count, args=args, **place)
        self.rows.summary("total", heads[1].text, unit=unit, value=float(value), count=count, **place)
        self.lines.used()

    def text(self, text: Text) -> None:
        """Reads a line of a note; lines before the first title aren't part of the document."""
        if not text.path:
            return
        self._document(text.path)
        self.lines.defer()
        if self.note and not self._continues_note(text):
            self.end_note()
        self.note.append(text)

    def _continues_note(self, text: Text) -> bool:
        """Whether a line continues the note: it is the next line and, if the note is a bullet, it is indented."""
        if text.line != self.note[-1].line + 1 or _BULLET.match(text.text):
            return False
        return text.text.startswith((" ", "\t")) or not _BULLET.match(self.note[0].text)

    def end_note(self) -> None:
        """Adds the note that was being read. The current line must have its outcome already."""
        if self.note:
            words = "\n".join(text.text for text in self.note).strip()
            scope = _scope(self.note[0].path) or None
            bullet = _BULLET.match(words)
            self.rows.summary("note", words[bullet.end() :] if bullet else words, metric="note", scope=scope)
            self.lines.used(len(self.note))
            self.note.clear()

    def _document(self, path: tuple[Title, ...]) -> None:
        """Adds the title of the document as a fact of the source, once."""
        if path and path[0].level == 1 and path[0] != self.title:
            self.title = path[0]
            self.rows.fact("source", facts={"run": self.title.text})

    def _overall(self, row: Row) -> Iterator[_RunColumns]:
        """Yields a metric of each whole run; the mean time of a cycle is the total that shares refer to."""
        head = heading(row.text("metric"))
        for number, run in enumerate(runs_of(row.table)):
            quantity = cell_quantity(row.text(f"run {number}"))
            if not quantity:
                continue
            unit, value = to_base(quantity.number, quantity.unit or head.unit)
            columns: dict[str, Any] = {"name": head.text, "unit": unit or None, "value": float(value)}
            if head.name.casefold() == _CYCLES and (cycles := as_int64(value)) is not None:
                self.cycles[run.name] = cycles
                columns["unit"] = "count"
            if unit == "ns":
                columns |= {"kind": "total", "metric": "duration", "count": self.cycles.get(run.name)}
            else:
                columns |= {"kind": "metric", "metric": head.name}
            yield number, columns

    def _cycle(self, row: Row) -> Iterator[_RunColumns]:
        """Yields the cycle of a rank in each run; the first rank is the longest cycle."""
        fields = row.table.fields or {}
        rank = row.table.headings[fields["rank"]].text
        for number in range(len(runs_of(row.table))):
            quantity = cell_quantity(row.text(f"run {number}"))
            if quantity:
                unit, value = to_base(
                    quantity.number, quantity.unit or row.table.headings[fields[f"run {number}"]].unit
                )
                columns = {"kind": "range", "name": "cycle", "metric": "duration", "unit": unit, "value": float(value)}
                yield number, columns | {"args": {rank: plain(row.text("rank"))}}

    def _function(self, row: Row) -> Iterator[_RunColumns]:
        """Yields a (function, metric, device) of each run: β as percent, μ as the metric's value."""
        name, metric = row.text("name"), row.text("metric")
        where = _place(row.text("device"))
        kind, copy = _kind(name, "device" in where)
        unit = "%" if metric.endswith(_SHARES) else None
        for number in range(len(runs_of(row.table))):
            share, mean = _figure(row.text(f"share {number}")), _figure(row.text(f"mean {number}"))
            if name and (share is not None or mean is not None):
                columns = {"kind": kind, "name": name, "metric": metric, "copy_kind": copy, "unit": unit}
                yield number, columns | where | {"value": mean, "percent": share}


def _scope(path: tuple[Title, ...]) -> list[str]:
    """Returns the sections, without the title of the document, which is a fact of the source."""
    return [title.text for title in path if title.level > 1]


def _comparison(row: Row) -> dict[str, Any]:
    """Returns the cells that compare the runs, under their own headings."""
    used = set((row.table.fields or {}).values())
    compare: dict[str, Any] = {}
    for column, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=True)):
        if column not in used and not is_missing(cell):
            compare[own_key(compare, head)] = plain(cell, head)
    return compare


def _figure(cell: str) -> float | None:
    quantity = cell_quantity(cell)
    return float(quantity.number) if quantity else None


def _place(device: str) -> dict[str, Any]:
    """Returns the `device` of a GPU; "Host", and a text with more than the number, go to `args`."""
    match = _GPU.fullmatch(device)
    if match:
        args = {"args": {"Device": device}} if match["virtual"] else {}
        return {"device": int(match["number"])} | args
    return {} if is_missing(device) else {"args": {"Device": device}}


def _kind(name: str, on_gpu: bool) -> tuple[str, str | None]:
    """Returns the kind of a function and a copy's direction: Kineto's names of copies and memsets, else a kernel."""
    if not on_gpu:
        return "range", None
    if match := _COPY.fullmatch(name):
        return "memcpy", match.group(1)
    return ("memset", None) if name.startswith("Memset") else ("kernel", None)


FORMAT = Format(
    "latencyprism",
    "LatencyPrism comparison",
    patterns=("*.md",),
    probe=probe,
    read=read,
    words=(
        "performance comparison",
        "function name",
        "functionname",
        "function_name",
        "time rank",
        "timerank",
        "time_rank",
    ),
    prose=True,
)
