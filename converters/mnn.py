"""What MNN's tools print of a model's speed: times of runs (benchmark.out), of nodes (timeProfile.out, MNNV2Basic.out).

    Forward type: CPU thread=4 precision=2 sparsity=0 sparseBlockOC=0 testQuantizedModel=0 enableKleidiAI=0
    --------> Benchmarking... loop = 10, warmup = 5
    [ - ] resnet-v2-50.mnn            max =   19.063 ms  min =   18.063 ms  avg =   18.500 ms

    Open Model mobilenetv2-7.mnn
    Sort by node name !
    Node Name              Op Type              Avg(ms)   %         Flops Rate               (tabs between)
    339                    BinaryOp             0.039300  0.364004  0.023848
    Sort by time cost !
    Node Type              Avg(ms)   %          Called times  Flops Rate
    total time : 10.796584 ms, total mflops : 300.983246

                   conv1  [Convolution] run 10 average cost 0.251000 ms, 12.340 %, FlopsRate: 20.100 %
    Avg= 2.030000 ms, OpSum = 1.980000 ms min= 1.900000 ms, max= 2.300000 ms

Facts: benchmark/benchmark.cpp, tools/cpp/Profiler.cpp, tools/cpp/MNNV2Basic.cpp of MNN. The average of a node is its
time in one run; nodes by type are the sums of those by name.

Reads runs and nodes as summaries: no line has a time of day.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line

_NUMBER = r"(\d{1,12}\.\d{1,6})"
_MODEL = re.compile(rf"\[ - \] (\S.{{0,200}}?) +max = +{_NUMBER} ?ms +min = +{_NUMBER} ?ms +avg = +{_NUMBER} ?ms")
_NODE = re.compile(
    rf"(\S.{{0,500}}?) *\t\[(\w{{1,60}})\] run (\d{{1,9}}) average cost {_NUMBER} ms, {_NUMBER} %, "
    r"FlopsRate: (\S{1,20}) %"
)
_RUNS = re.compile(rf"Avg= {_NUMBER} ms, OpSum = {_NUMBER} ms min= {_NUMBER} ms, max= {_NUMBER} ms")
_TOTAL = re.compile(rf"total time : {_NUMBER} ms, total mflops : (\S{{1,20}})")
_FORWARD = re.compile(r"Forward type: (?:\*\*)?(\w{1,40})(?:\*\*)?(.{0,300})")
_FIELD = re.compile(r"(\w{1,30})=(-?[\w.]{1,20})")
_LOOP = re.compile(r"-{4,}> Benchmarking\.\.\. loop = (\d{1,9})(?:, warmup = (\d{1,9}))?")
_RUN = re.compile(r"precision:\d{1,3}, memory: \d{1,3}, Run (\d{1,9}) time:")
_OPENED = re.compile(r"Open Model (\S.{0,1000})")
_BY_NAME = ["Node Name", "Op Type", "Avg(ms)", "%"]
_BY_TYPE = ["Node Type", "Avg(ms)", "%"]
_STRUCTURE = re.compile(
    r"MNN benchmark|Warming up\.\.\.|Sort by (?:node name|time cost) !|Print <=\d+ slowest Op for |inputDims: |cpuIds: "
    r"|Set ThreadNumber = |Use extra forward type: |=+> Session |The device supports: |.{1,60}, \d+, cost time: "
)
_SLOW = re.compile(r".{1,500} -  \S{1,20} GFlops, \S{1,20} rate")
_MS = 1_000_000


def probe(sample: Sample) -> Match | None:
    """DIALECT for the time of a model, or for a table or a line of nodes."""
    for number, text in enumerate(sample.lines, 1):
        line = text.strip()
        if "[ - ] " in line and _MODEL.fullmatch(line):
            return Match(Score.DIALECT, f"has times of MNN's benchmark.out (line {number})")
        if "\t" in line and (_headings(line) or _NODE.fullmatch(line)):
            return Match(Score.DIALECT, f"has nodes of a model, as MNN's tools print them (line {number})")
    return None


def _headings(line: str) -> list[str] | None:
    """The headings of a table of nodes; None for another line."""
    cells = [cell.strip() for cell in line.split("\t")]
    return cells if cells[: len(_BY_NAME)] == _BY_NAME or cells[: len(_BY_TYPE)] == _BY_TYPE else None


class _Text(LineReader):
    """Adds a summary for each model, for each node, and for the runs; knows settings, table, number of runs."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._headings: list[str] = []
        self._has_names = False  # nodes by type add up those by name
        self._table = 0
        self._settings: dict[str, Any] = {}
        self._runs: int | None = None
        self._facts = {"tool": "MNN"}

    def take(self, line: Line) -> None:
        text = line.text.strip()
        if not text:
            self._headings = []
            self._lines.structure()
        elif match := _MODEL.fullmatch(text):
            self._model(match)
        elif match := _NODE.fullmatch(text):
            self._runs = int(match[3])
            mean = Decimal(match[4]) * _MS
            figures = {"avg": float(mean), "count": self._runs, "total": float(mean * self._runs)}
            self._node(match[2], match[1], match[5], {"Flops Rate": match[6]}, figures)
        elif headings := _headings(text):
            self._begin(headings)
        elif self._headings and "\t" in text:
            self._cells([cell.strip() for cell in line.text.rstrip().split("\t")])
        elif match := _RUNS.fullmatch(text):
            each, nodes, least, greatest = (float(Decimal(time) * _MS) for time in match.groups())
            place: dict[str, Any] = {"unit": "ns", "count": self._runs or None, "table": self._table}
            self._rows.summary("metric", "run", avg=each, min=least, max=greatest, **place)
            if nodes:
                self._rows.summary("total", "all nodes", avg=nodes, **place)
            self._end()
        elif match := _TOTAL.fullmatch(text):
            args = {"mflops": match[2]}
            took = float(Decimal(match[1]) * _MS)
            self._rows.summary("total", "all nodes", unit="ns", avg=took, table=self._table, args=args)
            self._end()
        else:
            self._setting(text)

    def end(self) -> None:
        self._rows.fact("source", facts=self._facts)

    def _end(self) -> None:
        """Ends the figures of a model."""
        self._headings, self._has_names, self._runs = [], False, None
        self._table += 1
        self._lines.used()

    def _model(self, match: re.Match[str]) -> None:
        greatest, least, mean = (float(Decimal(time) * _MS) for time in match.groups()[1:])
        figures: dict[str, Any] = {"avg": mean, "min": least, "max": greatest, "count": self._settings.get("loop")}
        self._rows.summary("metric", match[1], unit="ns", table=self._table, args=self._settings, **figures)
        self._lines.used()

    def _begin(self, headings: list[str]) -> None:
        self._headings = headings
        self._has_names |= headings[0] == _BY_NAME[0]
        self._lines.structure()

    def _cells(self, cells: list[str]) -> None:
        """Adds a row of a table of nodes."""
        by_heading = dict(zip(self._headings, cells, strict=False))
        time, share = by_heading.pop(_BY_NAME[2], ""), by_heading.pop("%", "")
        if not (len(cells) == len(self._headings) and re.fullmatch(_NUMBER, time) and re.fullmatch(_NUMBER, share)):
            is_cut = self._lines.peek() is None
            self._lines.skip("cut" if is_cut else "bad-record", "the last row is cut off" if is_cut else "no time")
            return
        mean, kind, name = Decimal(time) * _MS, by_heading.pop("Op Type", None), by_heading.pop(self._headings[0])
        if kind is not None:
            self._node(
                kind, name, share, by_heading, {"avg": float(mean), "total": float(mean), "count": 1}
            )  # of one run
        elif self._has_names:
            self._lines.became("folded")
        else:
            called = by_heading.pop("Called times", "")
            times = int(Decimal(called)) if re.fullmatch(_NUMBER, called) else 0
            figures = {"count": times, "avg": float(mean / times)} if times else {}
            self._node(name, "", share, by_heading, {"total": float(mean)} | figures)

    def _node(self, kind: str, name: str, share: str, args: dict[str, str], figures: dict[str, Any]) -> None:
        """Adds a node: its type is what it computes, its name its place in the model."""
        place: dict[str, Any] = {"layer": name or None, "table": self._table, "percent": float(share)}
        self._rows.summary("op", kind, unit="ns", args=args, **place, **figures)
        self._lines.used()

    def _setting(self, line: str) -> None:
        """Takes what was asked for, passes over what else the tools print."""
        if match := _FORWARD.fullmatch(line):
            self._settings = {"forward type": match[1]} | dict(_FIELD.findall(match[2]))
        elif match := _LOOP.fullmatch(line):
            self._settings |= {"loop": int(match[1])} | ({"warmup": int(match[2])} if match[2] else {})
        elif match := _RUN.fullmatch(line):
            self._runs = int(match[1])
        elif match := _OPENED.fullmatch(line):
            self._facts["model"] = match[1]
        elif not (_STRUCTURE.match(line) or _SLOW.fullmatch(line)):
            return
        self._lines.structure()


FORMAT = Format(
    "mnn",
    "MNN: times of models (benchmark.out) and of nodes (timeProfile.out, MNNV2Basic.out)",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=_Text.read,
    words=("[ - ] ", "avg(ms)", "average cost "),
    prose=True,
)
