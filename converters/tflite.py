"""What TensorFlow Lite's benchmark_model prints: how long runs took, and each operator; text or CSV.

    INFO: count=64 first=16067 curr=15102 min=14661 max=17579 avg=15517.6 std=551
    INFO: Operator-wise Profiling Info for Regular Benchmark Runs:
    ============================== Run Order ==============================
    [node type]  [first]  [avg ms]     [%]  [cdf%]  [mem KB]  [times called]  [Name]       (tabs and blanks between)
        CONV_2D    0.398     0.407  2.658%  3.986%     0.000               1  [conv0/Relu]:1

    node type, first, avg_ms, %, cdf%, mem KB, times called, name
    CONV_2D, 0.398, 0.407, 2.658%, 3.986%, 0, 1, [Conv2d_0/Relu6]:1

The writers: stats_calculator.cc and lite/tools/benchmark of TensorFlow, 2018 (with a column [start]) to 2026; LiteRT's
benchmark_model (litert/tools) and TensorFlow's of 2018, with the place of the program before each line:

    INFO: [./litert/tools/benchmark_litert_model.h:88] Inference (avg):      0.46 ms (2112 runs)
    2018-09-10 12:36:37.574169: I tensorflow/core/util/stat_summarizer.cc:85] \\t   Conv2D\\t    0.401\\t    3.169 ...

The average is of a call; calls are those of one run, rounded down. Of an operator that is called in some runs alone
(0 times), its share of the time of all operators, `Timings`, says what it takes in one.

Reads operators and the times of runs as summaries: of one run, since calls are counted so.
"""

from __future__ import annotations

import re
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import as_int64, cell_quantity
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line

#: The headings of operators, and those of the sums by type, without brackets.
HEADINGS = ("node type", "start", "first", "avg ms", "%", "cdf%", "mem KB", "times called", "name")
_BRACKETS = re.compile(r"\[([^\]]{1,20})\]")
#: The time of all runs of a kind.
RUNS = re.compile(
    r"(?P<all>Timings \(microseconds\): )?count=[1-9]\d{0,11} (?:.{0,300}? avg|curr)=[\d.e+]{1,30}.{0,200}"
)
TIMINGS = "Inference timings in us: Init:"
#: The same as programs of before 2020 print it, which have no such line.
OF_RUNS = re.compile(r"count=\d{1,12} first=\d{1,12} curr=\d{1,12} min=\d{1,12} max=\d{1,12} avg=[\d.e+]{1,30} std=")


def headings_of(text: str) -> list[str] | None:
    """The headings of a table of operators, or of the sums by type; None for another line."""
    if "[" in text and (brackets := _BRACKETS.findall(text)):
        names = [name.lower() if name == "Name" else name for name in brackets]
    elif text.startswith("node type, "):
        names = [cell.replace("avg_ms", "avg ms") for cell in text.split(", ")]
    else:
        return None
    is_table = len(names) > 5 and names[0].lower() == "node type" and {"avg ms", "times called"} <= {*names}
    return [names[0].lower(), *(name.strip() for name in names[1:])] if is_table else None


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table of operators, or the times of runs."""
    for number, text in enumerate(sample.lines, 1):
        if ("[node type]" in text or text.startswith("node type, ")) and headings_of(text.strip()):
            return Match(Score.DIALECT, f"has operators of TensorFlow Lite's benchmark_model (line {number})")
        if TIMINGS in text or OF_RUNS.match(text):
            return Match(Score.DIALECT, f"has times of TensorFlow Lite's benchmark_model (line {number})")
    return None


#: What a logger puts before a line: how bad it is, the time, the place of the program.
_PREFIX = re.compile(
    r"(?:INFO|WARNING|VERBOSE|ERROR): (?:\[[^\[\]]{1,200}:\d{1,9}\])?"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWE] [^ \[\]]{1,200}:\d{1,9}\]"
)
_TITLE = re.compile(r"={3,} (?P<title>[A-Za-z ]{3,60}) ={3,}")
_SECTION = re.compile(r"(?P<name>[A-Z][^:\[\]]{2,120}?) ?:")
_SETTING = re.compile(r"#?(?P<key>[A-Za-z][^:\[\]]{0,80}): \[(?P<value>.{0,4000})\]")
_FIELDS = re.compile(r"(\w{1,12})=(\S{1,40})")
#: What else the program prints.
_WORDS = re.compile(
    r"STARTING!|Loaded model |Created TensorFlow |The input model file size|Initialized (?:session|TensorFlow)"
    r"|Running benchmark for |Note: as the benchmark |Number of nodes executed: |Memory \(bytes\): "
    r"|\d{1,9} nodes observed|=+$|Memory Usage:|Average inference timings in us: "
)
#: LiteRT's results: those of the runs repeat their statistics.
_RESULT = re.compile(r"(?P<key>Model initialization|Warmup \(first\)): +(?P<value>[\d.]{1,30}) ms")
_REPEATED = re.compile(r"(?:Warmup|Inference) \((?:avg|min|max|std)\): ")
_FOOTPRINT = re.compile(
    r"(?P<key>Memory footprint delta[^:]{0,60}|Peak memory footprint[^:]{0,40}|Init footprint|Overall footprint"
    r"|Throughput): +(?P<value>\S.{0,200})"
)
_ONCE = re.compile(r"(?P<name>Init|First inference): (?P<value>[\d.]{1,30})")
_PLACE = re.compile(r":\d{1,9}$")

#: Statistics of runs as columns of a summary.
_STATISTICS = {"avg": "avg", "min": "min", "max": "max", "std": "stddev", "median": "median", "p95": "p95"}
_US, _MS = 1_000, 1_000_000


class _Text(LineReader):
    """Adds a summary for each operator of each section, and for the runs of each kind.

    Knows of the lines before the section, the table, the operators that the section has already.
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._section: str | None = None
        self._table = 0
        self._headings: list[str] | None = None
        self._is_csv = False
        self._seen: set[tuple[str, str]] = set()
        self._has_all = self._repeats = False  # the table in the order of the run, which the others repeat
        self._rare: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._runs = 0
        self._settings: dict[str, str] = {}

    def take(self, line: Line) -> None:
        full = line.text.strip()
        prefix = _PREFIX.match(full)
        text = full[prefix.end() :].strip() if prefix else full
        if not text:
            self._headings = None
            self._lines.structure()
        elif headings := headings_of(text):
            self._headings, self._is_csv = headings, "[" not in text
            self._lines.structure()
        elif match := _TITLE.fullmatch(text):
            self._has_all |= (is_first := match["title"] == "Run Order")
            self._repeats = self._has_all and not is_first
            self._lines.structure()
        elif _WORDS.match(text):
            self._lines.structure()
        elif self._headings and (cells := _cells(text, self._headings, is_csv=self._is_csv)):
            self._operator(cells)
        elif match := RUNS.fullmatch(text):
            self._statistics(text, of_operators=match["all"] is not None)
        elif TIMINGS in text:
            self._timings(text)
        elif match := _RESULT.fullmatch(text):
            self._once(match["key"].replace("Model i", "I"), match["value"], _MS)
            self._lines.used()
        elif _REPEATED.match(text):
            self._lines.became("folded")
        elif match := _SETTING.fullmatch(text) or _FOOTPRINT.fullmatch(text):
            self._settings[match["key"]] = match["value"]
            self._lines.structure()
        elif match := _SECTION.fullmatch(text):
            self._end_section()
            self._section, self._headings = match["name"], None
            self._table += 1
            self._seen.clear()
            self._has_all = self._repeats = False
            self._lines.structure()
        elif self._headings and self._lines.peek() is None:
            self._lines.skip("cut", "the last row is cut off")
        elif prefix and not self._headings:
            self._lines.structure()  # what else is logged

    def end(self) -> None:
        self._end_section()
        settings = {"settings": self._settings} if self._settings else {}
        self._rows.fact("source", facts={"tool": "benchmark_model", **settings})

    def _end_section(self, run: Any = None) -> None:
        """Adds the operators that aren't called in each run; `run` is the average time of all operators in one."""
        for named, columns in self._rare:
            share = columns["percent"]
            total = None if run is None or share is None else float(run) * share / 100
            self._rows.summary(*named, **columns, total=total)
        self._rare.clear()

    def _operator(self, cells: dict[str, str]) -> None:
        """Adds an operator; the other tables of a section repeat those of the first one, in another order."""
        kind, name = cells["node type"], cells.get("name")
        if name is None or (kind, name) in self._seen:
            self._lines.became("folded")
            return
        keys = ("first", "avg ms", "%", "times called", "mem KB", "start")
        figures = {key: _number(cells.get(key, "")) for key in keys}
        avg, called = figures["avg ms"], figures["times called"]
        calls = None if called is None else as_int64(called)
        if avg is None or calls is None or not kind:
            is_cut = self._lines.peek() is None
            what = "no time" if avg is None else "no number of calls" if kind else "no type"
            self._lines.skip("cut" if is_cut else "bad-record", "the last row is cut off" if is_cut else what)
            return
        if self._repeats:
            self._lines.became("folded")
            return
        self._seen.add((kind, name))
        args: dict[str, Any] = {"node": name}
        args |= {key: float(value) for key in ("first", "start", "mem KB") if (value := figures[key]) is not None}
        args |= {f"{key}_ms": args.pop(key) for key in ("first", "start") if key in args}
        share = figures["%"]
        named = ("overhead" if self._section and "Initialization" in self._section else "op", kind)
        columns: dict[str, Any] = {
            **{"run": self._section, "table": self._table, "unit": "ns", "args": args, "avg": float(avg * _MS)},
            "percent": None if share is None else float(share),
            "layer": _PLACE.sub("", name).strip("[]") or None,
        }
        if calls:
            self._rows.summary(*named, **columns, count=calls, total=float(avg * calls * _MS))
        else:
            self._rare.append((named, columns))
        self._lines.used()

    def _statistics(self, text: str, *, of_operators: bool) -> None:
        """Adds the times of runs, in us: of the warm-up, then of those that count; or of all operators in them."""
        numbers = {key: number for key, value in _FIELDS.findall(text) if (number := _number(value)) is not None}
        if "curr" in numbers:
            numbers.setdefault("avg", numbers["curr"])  # of a single run, or where all are the same
        columns: dict[str, Any] = {
            column: float(numbers[key] * _US) for key, column in _STATISTICS.items() if key in numbers
        }
        args = {f"{key}_us": float(numbers[key]) for key in ("first", "curr") if key in numbers}
        if of_operators:
            self._end_section(columns.get("avg"))
            columns |= {"run": self._section, "table": self._table}
        kind, name = (
            ("total", "all operators") if of_operators else ("metric", ("warm-up run", "run")[min(self._runs, 1)])
        )
        self._runs += not of_operators
        self._rows.summary(kind, name, unit="ns", count=as_int64(numbers["count"]), args=args, **columns)
        self._lines.used()

    def _timings(self, text: str) -> None:
        """Adds how long the initialisation and the first run took; the averages are those of the runs."""
        for match in _ONCE.finditer(text):
            self._once(match["name"], match["value"], _US)
        self._lines.used()

    def _once(self, what: str, text: str, factor: int) -> None:
        """Adds what takes time once: the initialisation, the first run."""
        if (value := _number(text)) is not None:
            name = "initialisation" if what.startswith("Init") else "first run"
            self._rows.summary("metric", name, unit="ns", total=float(value * factor), count=1)


def _cells(text: str, headings: list[str], *, is_csv: bool) -> dict[str, str] | None:
    """The cells of a row by their headings; None if it isn't one.

    Types and names may contain commas and blanks: shares, which end in %, tell where the numbers are.
    """
    cells = text.split(", ") if is_csv else re.split(r"\t[\t ]*| {2,}", text)
    cells = [cell.strip() for cell in cells]
    share = headings.index("avg ms") + 1
    before = share - 1
    place = next((at for at, cell in enumerate(cells[:-1]) if cell.endswith("%") and cells[at + 1].endswith("%")), 0)
    if place <= before - 1:
        return None
    mark = ", " if is_csv else "  "
    kind = mark.join(cells[: place - before])
    numbers = cells[place - before : place - before + headings.index("times called")]
    name = mark.join(cells[place - before + len(numbers) :])
    name = name.replace("\t", ",") if is_csv else name
    named = dict(zip(headings[1:], numbers, strict=False)) | {"node type": kind}
    return named | ({"name": name} if "name" in headings else {})


def _number(text: str) -> Any:
    quantity = cell_quantity(text)
    return quantity.number if quantity and quantity.number.is_finite() else None


FORMAT = Format(
    "tflite",
    "TensorFlow Lite benchmark_model: times of runs, of operators, as text or CSV",
    patterns=("*.txt", "*.log", "*.csv"),
    probe=probe,
    read=_Text.read,
    words=("[node type]", "node type, ", "inference timings in us", " curr="),
    prose=True,
)
