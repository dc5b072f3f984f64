"""rocprof and rocprofv2, CSV and text, and rocprof-compute's tables of counters (ROCm 3 to 6).

Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,...,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs
0,"vecCopy(double*, double*) [clone .kd]",2,0,0,1271546,1271546,1048576,256,0,0,...,16384,14102,14103,14104,14105

Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,...,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES
Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(611510516160324), End_Timestamp(...), Correlation_ID(2)

Printed rows have headings before their cells in brackets:

Dispatch_ID(1), GPU_ID(4), ..., Kernel_Name("f(int, int)"), Begin_Timestamp(10), End_Timestamp(20), Correlation_ID(7)
Record(1), Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(10), End_Timestamp(20), Correlation_ID(2)
Domain(HIP_OPS_DOMAIN), Operation_Name(KernelExecution), Kernel_Name(f(int, int)), Start_Timestamp(10), ...
Domain(ROCTX_DOMAIN), Timestamp(10), ROCTX_ID(1), ROCTX_Message(step (of 3))
dispatch[0], gpu-id(0), queue-id(0), ..., kernel-name("f(int) [clone .kd]"), time(1,2,3,4)
  SQ_WAVES (16384.0000000000)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.rocm.csv_file import IDS_OF_FILE, Agents, RocmFile, read_file
from ktrace.kit.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.kit.text.headings import Dialect, headings_of
from ktrace.kit.text.lines import Line
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_PRINTED = re.compile(r"\w\([^()]*\), ?[\w-]+\(")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of these tables, and for a printed row."""
    for number, line in likely_lines(sample, LIKELY):
        if "," not in line or not WORDS.search(line):
            continue
        table = headings_of(line, table_kind)
        if table and not is_v3(table[0], table[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprof (line {number})")
        if _PRINTED.search(line) and (row := printed_row(line)) and table_kind(list(row)):
            return Match(Score.DIALECT, f"contains a row in rocprof's printed form (line {number})")
    return None


_CELL = re.compile(r'(?P<key>[\w-]+)(?:\((?P<cell>"[^"]*(?:""[^"]*)*"|[^()]*)\)|\[(?P<number>\d+)\])(?:, *|\s*$)')
#: Cells without quotes that may contain brackets, and the text after them.
_OPEN = re.compile(r"(?P<key>Kernel_Name|ROCTX_Message)\((?!\")")
_ENDS = {"Kernel_Name": ("), Start_Timestamp(", "), Begin_Timestamp("), "ROCTX_Message": ()}

_COUNTER = re.compile(r"\s+(\w+) \((-?[\d.]+(?:e[+-]?\d+)?)\)\s*")
_TIMES = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs")


def printed_row(text: str) -> dict[str, str] | None:
    """Returns heading -> cell of a line, None for another line."""
    text = text.strip()
    row: dict[str, str] = {}
    at = 0
    while at < len(text):
        if wide := _OPEN.match(text, at):
            end = _end(text, wide)
            row[wide["key"]] = text[wide.end() : end].strip()
            at = end + 1 + len(text[end + 1 :]) - len(text[end + 1 :].lstrip(", "))
            continue
        match = _CELL.match(text, at)
        if not match:
            return None
        cell = match["number"] if match["number"] is not None else match["cell"]
        row[match["key"]] = cell[1:-1].replace('""', '"') if cell.startswith('"') else cell
        at = match.end()
    times = row.pop("time", "").split(",")
    if len(times) == len(_TIMES):
        row |= dict(zip(_TIMES, times, strict=True))
    if "dispatch" in row:
        row["Index"] = row.pop("dispatch")
    return row if len(row) > 2 else None


def _end(text: str, cell: re.Match[str]) -> int:
    """The position of the bracket that closes a cell which may contain brackets."""
    ends = [at for end in _ENDS[cell["key"]] if (at := text.find(end, cell.end())) >= 0]
    last = text.rfind(")")
    return min(ends, default=last if last >= cell.end() else len(text))


def printed_counter(text: str) -> tuple[str, str] | None:
    """Returns name and value of a counter of the dispatch above, None for another line."""
    match = _COUNTER.fullmatch(text)
    return (match[1], match[2]) if match else None


#: rocprof's own messages.
_MESSAGE = re.compile(
    r"(?:RPL|ROCP?[Rr]of\w*|ROCtracer|Enabling|File '.*' is generating|dump json)\b.*|.*contexts collected.*",
    re.DOTALL,
)

#: `results.hip_stats.csv`
_STATS = re.compile(r"(?:.*\.)?(\w*stats)\.csv")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields events for rows with times, summaries for the others."""
    scope = _STATS.fullmatch(PurePath(source.name).name)
    printed = _Printed(conversion)
    agents, rows = Agents(), RowBuilder(conversion)
    file = RocmFile(source, scope=scope[1] if scope else "")
    yield from read_file(file, conversion, agents, rows, printed.line, printed.rest)
    agents.facts(rows, IDS_OF_FILE)
    rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()


class _Printed:
    """Gathers printed rows while they belong to the same kind of table."""

    def __init__(self, conversion: Conversion) -> None:
        self._size = conversion.batch_rows
        self._gathered: list[tuple[int, dict[str, str]]] = []
        self._what: str | None = None

    def line(self, line: Line, blocks: CsvBlocks) -> Iterator[CsvRows]:
        """Takes a line outside of CSV tables; yields gathered rows if it begins another table."""
        if (counter := printed_counter(line.text)) and self._gathered:
            self._gathered[-1][1][counter[0]] = counter[1]
            blocks.became("counters")
        elif row := printed_row(line.text):
            what = table_kind(list(row))
            if what is None:
                return
            if len(self._gathered) >= self._size or (self._gathered and what != self._what):
                yield from self.rest()
            self._what = what
            self._gathered.append((line.number, row))
            blocks.defer()
        elif _MESSAGE.fullmatch(line.text.strip()):
            blocks.structure()

    def rest(self) -> Iterator[CsvRows]:
        """Yields the gathered rows."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            names = tuple(dict.fromkeys(name for _, row in gathered for name in row))
            columns = {name: pa.array([row.get(name, "") for _, row in gathered], pa.string()) for name in names}
            table = CsvTable(0, gathered[0][0], names, ("",) * len(names), self._what, Dialect("", False))
            yield CsvRows(table, Block("line", pa.array([number for number, _ in gathered], pa.int64()), columns))


FORMAT = Format(
    "rocprof",
    "ROCm rocprof and rocprofv2 tables, CSV or text; rocprof-compute counters",
    patterns=("results*.csv", "pmc_perf*.csv", "*.txt"),
    probe=probe,
    read=read,
    words=("timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"),
    prose=True,
)
