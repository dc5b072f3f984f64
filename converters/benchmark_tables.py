"""Tables of programs that measure kernels: each row is a measurement, named by the parameters in some of its cells.

    transA,transB,grouped_gemm,batch_count,m,n,k,alpha,...,hipblaslt-Gflops,hipblaslt-GB/s,us          hipblaslt-bench
    N,N,0,1,896,896,896,1,...,58624.5,196.1,24.54                avg 24,540 ns of `N N 896x896x896`

    |  T  | N (pow2) | Samples | CPU Time  | Noise | GPU Time  | Noise |                                      nvbench
    | U32 |     2^16 |  39312x | 16.500 us | 4.51% | 12.600 us | 5.30% |  39,312 kernels of 12,600 ns on average

Without its table nvbench's log says the same, in ms: `Run:  [1/2] copy [Device=0 T=U32 N=2^16]` and, below it,
`Pass: Cold: 0.0126ms GPU, 0.0165ms CPU, 0.50s total GPU, 0.70s total wall, 39312x`.

A tool below is the headings that tell it, and what its rows say. Candidates for one problem are a choice, and times of
a benchmark of the host aren't work of a device: such measurements are metrics, which nothing adds up.

Facts: the sources of rocBLAS' clients and of llama.cpp's batched-bench; public outputs of hipBLASLt, MIOpen, CUTLASS,
pytest-benchmark, Liger-Kernel and PresentMon; nvbench's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Heading, as_int64, figure, plain
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import is_missing, nanoseconds
from ktrace.kit.text.tables import Below, Row, Table, Text, headings_at, may_have_tables, read_tables
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: A measurement: its kind, its name, the columns of its summary.
Measured = tuple[str, str, dict[str, Any]]

_BEFORE = re.compile(r"\[\d{1,6}\]:?")
_HEADING = re.compile(r"(?P<word>.+?)(?: ?\((?:time in )?(?P<unit>[^()]{1,8})\)| (?P<bare>s|t/s))?")
_DEVICE = re.compile(r"\[(?P<device>\d{1,4})\] .+")
_NO_AXES = ("benchmark", "device", "device name", "skipped")
_GEMM = ("transa", "transb", "uplo", "side", "diag", "m", "n", "k", "batch_count")


class _Cells:
    """The cells of a row by their headings, in lower case and without unit; with `#2` for the second of one word."""

    def __init__(self, table: Table, cells: Sequence[str]) -> None:
        self.titles = [title.text for title in table.path]
        self.texts: dict[str, str] = {}
        self.units: dict[str, str] = {}
        self._heads: dict[str, str] = {}
        for (word, unit), cell in zip(_words(table.headings), cells, strict=False):
            key = word.lower() if word.lower() not in self.texts else f"{word.lower()}#2"
            self.texts[key], self.units[key] = cell.strip(), unit
            self._heads[key] = word + key[len(word) :] + (f" ({unit})" if unit else "")
        self._taken: set[str] = set()

    def name(self, *words: str) -> str:
        """Those of some cells that have a text, as a name; sizes of a product are one word."""
        headings = [word for word in words if self.texts.get(word) and not is_missing(self.texts[word])]
        self._taken.update(headings)
        text = " ".join("x" * (word in ("n", "k")) + self.texts[word] for word in headings)
        return text.replace(" x", "x") if {"m", "n"} <= set(headings) else text

    def time(self, word: str, unit: str = "") -> float | None:
        """The time in a cell in ns; None without one."""
        read = figure(self.texts.get(word, ""))
        ns = nanoseconds(read.number, read.unit or self.units[word] or unit) if read else None
        self._taken |= {word} if ns is not None else set()
        return None if ns is None else float(ns)

    def count(self, word: str) -> int | None:
        """The count in a cell, which may end with an x."""
        read = figure(self.texts.get(word, "").removesuffix("x"))
        self._taken |= {word} if read else set()
        return as_int64(read.number) if read else None

    def rest(self) -> dict[str, Any]:
        """The other cells."""
        left = {word: cell for word, cell in self.texts.items() if word not in self._taken and not is_missing(cell)}
        return {self._heads[word]: plain(cell) for word, cell in left.items()}

    def pair(self, word: str) -> str:
        """A heading with its cell."""
        self._taken.add(word)
        return f"{self._heads[word].partition(' (')[0].removesuffix('#2')}={self.texts[word]}"


def _product(unit: str, word: str) -> Callable[[_Cells], Iterator[Measured]]:
    """Rows of a program that runs one product many times, and prints the average time of a run."""

    def rows(cells: _Cells) -> Iterator[Measured]:
        yield "metric", cells.name(*_GEMM), {"avg": cells.time(word, unit)}

    return rows


def _miopen(cells: _Cells) -> Iterator[Measured]:
    yield "metric", cells.name("stats: name").removeprefix("stats: "), {"avg": cells.time("timems", "ms")}


def _cutlass(cells: _Cells) -> Iterator[Measured]:
    if cells.texts["disposition"] not in ("passed", "not_verified"):
        return
    yield "metric", cells.name("operation"), {"avg": cells.time("runtime", "ms"), "bytes": cells.count("bytes")}


def _nvbench(cells: _Cells) -> Iterator[Measured]:
    """The GPU time is the mean of the samples; a title, or a column, says the benchmark and the device."""
    words = list(cells.texts)
    place: dict[str, Any] = {"device": cells.count("device")} if "device" in cells.texts else {}
    if cells.titles and (match := _DEVICE.fullmatch(cells.titles[-1])):
        place = {"device": int(match["device"])}
    title = next((title for title in reversed(cells.titles) if not _DEVICE.fullmatch(title)), "")
    benchmark = cells.name("benchmark") or title
    axes = [word for word in words[: words.index("samples")] if word not in _NO_AXES]
    named = [cells.pair(word) for word in axes if cells.texts[word] and f"{word}#2" not in axes]
    figures = {"count": cells.count("samples"), "avg": cells.time("gpu time", "s")}
    yield "kernel", benchmark + (f" [{' '.join(named)}]" if named else ""), place | figures


def _pytest(cells: _Cells) -> Iterator[Measured]:
    unit = cells.units["name"]
    figures = {"avg": "mean", "min": "min", "max": "max", "median": "median", "stddev": "stddev"}
    times = {name: cells.time(word, unit) for name, word in figures.items() if word in cells.texts}
    yield "metric", cells.name("name"), times | {"count": cells.count("rounds")}


def _batched(cells: _Cells) -> Iterator[Measured]:
    """The times of the prompts of a batch, and of the tokens generated for it; without a batch, those after others."""
    prompts, tokens = (cells.count(word) or 0 for word in ("pp", "tg"))
    batch = cells.count("b") if "b" in cells.texts else None
    what = f"b{batch}" if batch is not None else f"after {cells.count('n_kv')}"
    for word, name, count in (("t_pp", f"pp{prompts}", prompts), ("t_tg", f"tg{tokens}", tokens)):
        yield "metric", f"{name} {what}", {"total": cells.time(word, "s"), "count": count * (batch or 1) or None}
    cells.time("t")


def _liger(cells: _Cells) -> Iterator[Measured]:
    """A kernel of a provider at one size: its median time, or another measure such as memory in the unit stated."""
    unit = cells.texts["metric_unit"]
    name = cells.name("kernel_name", "kernel_provider", "kernel_operation_mode", "x_value")
    if (median := cells.time("y_value_50", unit)) is not None:
        yield "metric", name, {"median": median}
    elif read := figure(cells.texts["y_value_50"]):
        what = cells.name("metric_name")
        yield "metric", f"{name} {what}", {"value": float(read.number), "unit": unit, "metric": what}


def _frames(word: str) -> Callable[[_Cells], Iterator[Measured]]:
    """Rows of PresentMon: the GPU was busy for so many ms with a frame of an application."""

    def rows(cells: _Cells) -> Iterator[Measured]:
        name, pid = cells.name("application"), cells.count("processid")
        yield "kernel", f"frame of {name}", {"total": cells.time(word, "ms"), "count": 1, "pid": pid}

    return rows


class Tool(NamedTuple):
    """A tool: the headings, in lower case, that it has, that of a time, and what a row of its table says."""

    name: str
    signs: tuple[str, ...]
    time: str
    rows: Callable[[_Cells], Iterator[Measured]]


TOOLS = (
    Tool("hipblaslt-bench", ("hipblaslt-gflops", "us"), "us", _product("us", "us")),
    Tool("rocblas-bench", ("rocblas-gflops", "us"), "us", _product("us", "us")),
    Tool("MIOpenDriver", ("stats: name", "timems"), "timems", _miopen),
    Tool("cutlass_profiler", ("problem", "provider", "operation", "disposition", "runtime"), "runtime", _cutlass),
    Tool("nvbench", ("samples", "gpu time", "noise"), "gpu time", _nvbench),
    Tool("pytest-benchmark", ("name", "min", "mean", "rounds", "iterations"), "mean", _pytest),
    Tool("llama-batched-bench", ("pp", "tg", "b", "n_kv", "t_pp", "t_tg"), "t_tg", _batched),
    Tool("llama-sweep-bench", ("pp", "tg", "n_kv", "t_pp", "t_tg"), "t_tg", _batched),
    Tool("Liger-Kernel", ("kernel_name", "kernel_provider", "metric_unit", "y_value_50"), "y_value_50", _liger),
    *(
        Tool("PresentMon", ("application", "processid", word), word, _frames(word))
        for word in ("msgpubusy", "gpubusy", "msgpuactive")
    ),
)

#: Words, of which each table has one in its headings, and some lines.
WORDS = (
    "-gflops",
    "timems",
    "operationkind",
    "gpu time",
    "name (time in ",
    "t_pp s",
    "gpu kernel time",
    "wall-clock time",
    "operation: ",
    "processid,",
    "pass: cold: ",
    "kernel_provider",
)

#: Figures of which a measurement has one.
FIGURES = frozenset(("avg", "total", "median", "value"))

#: Lines that say more of the row above, or a time that a row below repeats.
_SOLUTION = re.compile(r"\s*--(?P<key>[\w ]{1,40}):\s+(?P<value>\S.*)")
_ELAPSED = re.compile(
    r"(?:\*\*)?(?:GPU Kernel|(?P<wall>Wall-clock)) Time (?P<name>[^:]{1,80}?)\.? Elapsed:(?:\*\*)?"
    r" (?P<time>\d{1,12}(?:\.\d{1,9})?) ms(?P<mean> \(average\))?"
)
_PRETTY = re.compile(
    r" +Operation: (?P<operation>\S.{0,1000})| +Runtime: (?P<runtime>\d{1,12}(?:\.\d{0,9})?(?:e[+-]?\d{1,2})?) +ms *"
)
#: What nvbench logs: a state of a benchmark, the mean GPU time of its samples, and the time of a batch of them.
_RUN = re.compile(
    r"Run:\s+\[\d{1,6}/\d{1,6}\] (?P<name>\S.{0,300}?) \[(?:Device=(?P<device>\d{1,4}) ?)?(?P<axes>[^\]]{0,500})\]"
)
_COLD = re.compile(r"Pass: Cold: (?P<time>\d{1,12}(?:\.\d{1,9})?)ms GPU, .{0,120}, (?P<samples>\d{1,18})x")


def _words(headings: Sequence[Heading]) -> list[tuple[str, str]]:
    """The headings without their units, and the units."""
    match = [_HEADING.fullmatch(_BEFORE.sub("", head.text.strip(), count=1)) for head in headings]
    return [(one["word"], one["unit"] or one["bare"] or "") if one else ("", "") for one in match]


def tool_of(headings: Sequence[Heading]) -> Tool | None:
    """The tool that has these headings."""
    words = {word.lower() for word, _ in _words(headings)}
    return next((tool for tool in TOOLS if words.issuperset(tool.signs)), None)


def recognise(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """The columns of a name and of a figure; None for a table of no tool."""
    tool = tool_of(headings)
    if tool is None:
        return None
    words = [word.lower() for word, _ in _words(headings)]
    return {"name": 0, "value": words.index(tool.time)}


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of a tool, or a time of MIOpenDriver; SHAPE for nvbench's log, as tables repeat it."""
    log: Match | None = None
    if not may_have_tables(sample):
        return None
    for number, line in likely_lines(sample, WORDS):
        if _COLD.fullmatch(line.strip()):
            log = log or Match(Score.SHAPE, f"has a measurement in nvbench's log (line {number})")
        if _ELAPSED.fullmatch(line.strip()):
            return Match(Score.DIALECT, f"has a time of MIOpenDriver (line {number})")
        table = headings_at(sample.lines, number, recognise)
        if table and (tool := tool_of(table.headings)):
            return Match(Score.DIALECT, f"has a table of {tool.name} (line {number})")
        if _PRETTY.fullmatch(line) and sample.text and "\n  Problem ID: " in sample.text:
            return Match(Score.DIALECT, f"has an operation of cutlass_profiler (line {number})")
    return log


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each measurement."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    reading = _Reading(lines, rows)
    for item in read_tables(lines, recognise):
        if isinstance(item, Table):
            reading.flush()
            reading.tool(tool_of(item.headings))
        elif isinstance(item, Row):
            reading.row(item)
        else:
            reading.text(item)
        yield from rows.ready()
    reading.flush()
    reading.flush_log()
    yield from rows.rest()


class _Reading:
    """The measurement that waits for the lines that say more of it, and what was read of cutlass_profiler."""

    def __init__(self, lines: Lines, rows: RowBuilder) -> None:
        self._lines, self._rows = lines, rows
        self._waiting: tuple[str, str, dict[str, Any]] | None = None
        self._operation = ""
        self._known: set[tuple[str, str]] = set()
        self._tools: set[str] = set()
        self._seen: set[tuple[str, float | None]] = set()
        self._run: re.Match[str] | None = None
        self._log: list[tuple[str, dict[str, Any]]] = []  # of nvbench, whose tables repeat it
        self._repeats = False  # below "Winner:" of hipblaslt-bench

    def tool(self, tool: Tool | None) -> None:
        """States the tool that printed what follows, once."""
        if tool and tool.name not in self._tools:
            self._tools.add(tool.name)
            self._rows.fact("source", facts={"tool": tool.name})

    def row(self, row: Row) -> None:
        """Adds the measurements of a row of a table, or says why there are none."""
        self.flush()
        cells, tool = _Cells(row.table, row.cells), tool_of(row.table.headings)
        if (cells.texts.get("operation", ""), cells.texts.get("runtime", "")) in self._known:
            self._lines.became("folded")  # as the text above says it
            return
        measured = list(tool.rows(cells)) if tool else []
        if not measured or not all(FIGURES & {name for name, value in it[2].items() if value} for it in measured):
            self._lines.skip("bad-record", "no time")
            return
        rest = cells.rest()
        if self._repeats and all((name, columns.get("avg")) in self._seen for _, name, columns in measured):
            self._lines.became("folded")  # the best of the measurements above
            return
        for kind, name, columns in measured:
            self.flush()
            place = {"table": row.table.ordinal, "scope": cells.titles or None, "args": dict(rest)}
            place |= {key: value for key, value in columns.items() if value is not None}
            self._waiting = kind, name, place
            self._seen.add((name, columns.get("avg")))
        self._lines.used()

    def text(self, text: Text) -> None:
        """Adds what a line outside of tables says."""
        line = text.text.strip()
        self._repeats = self._repeats or line == "Winner:"
        if self._logged(line):
            return
        if match := _ELAPSED.fullmatch(line):
            following = self._lines.peek() or ""
            if following.startswith("stats: ") and "not implemented" not in following:
                self._lines.became("folded")  # the table below has the time, too
                return
            self.flush()
            ns = nanoseconds(Decimal(match["time"]), "ms")
            name = match["name"] + (", wall-clock" if match["wall"] else "")
            self._waiting = "metric", name, {"avg" if match["mean"] else "total": float(ns or 0), "args": {}}
            self._lines.used()
        elif self._waiting and (match := _SOLUTION.fullmatch(line)):
            self._waiting[2]["args"][match["key"]] = plain(match["value"])
            self._lines.became("folded")
        elif match := _PRETTY.fullmatch(text.text):
            self._pretty(match["operation"] or "", match["runtime"] or "")

    def _logged(self, line: str) -> bool:
        """Keeps what a line of nvbench's log says, until it is known whether a table says it, too."""
        if match := _RUN.fullmatch(line):
            self._run = match
            self._lines.structure()
        elif self._run and (match := _COLD.fullmatch(line)):
            run, ns = self._run, nanoseconds(Decimal(match["time"]), "ms")
            device = {"device": int(run["device"])} if run["device"] else {}
            name = run["name"] + (f" [{run['axes']}]" if run["axes"] else "")
            self._log.append((name, device | {"avg": float(ns or 0), "count": int(match["samples"])}))
            self._run = None
            self._lines.defer()
        else:
            return False
        return True

    def flush_log(self) -> None:
        """Adds what nvbench's log measured, unless a table repeats it."""
        if "nvbench" in self._tools and self._log:
            self._lines.became("folded", len(self._log))
        elif self._log:
            self.tool(next(tool for tool in TOOLS if tool.name == "nvbench"))
            for name, columns in self._log:
                self._rows.summary("kernel", name, unit="ns", **columns)
            self._lines.used(len(self._log))

    def _pretty(self, operation: str, runtime: str) -> None:
        """Reads the name of an operation of cutlass_profiler, or its time."""
        if operation:
            self._operation = operation
            self._lines.structure()
        elif self._operation:
            self.tool(next(tool for tool in TOOLS if tool.name == "cutlass_profiler"))
            self.flush()
            ns = nanoseconds(Decimal(runtime), "ms")
            self._waiting = "metric", self._operation, {"avg": float(ns or 0), "args": {}}
            self._known.add((self._operation, runtime))
            self._operation = ""
            self._lines.used()

    def flush(self) -> None:
        """Adds the measurement that waits."""
        if self._waiting:
            kind, name, columns = self._waiting
            columns["args"] = columns["args"] or None
            self._rows.summary(kind, name or "measurement", **{"unit": "ns"} | columns)
            self._waiting = None


FORMAT = Format(
    "benchmark-tables",
    "benchmarks: nvbench, hipblaslt, rocblas, MIOpen, CUTLASS, pytest, llama-batched-bench, Liger-Kernel, PresentMon",
    patterns=("*.txt", "*.log", "*.md", "*.csv"),
    probe=probe,
    read=read,
    words=WORDS,
    prose=True,
)
