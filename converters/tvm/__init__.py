"""TVM: profiling reports, the table of the debug executor, the summary of a time evaluator.

    report.json()    {"calls":[{"Name":{"string":"fused_dense"},"Duration (us)":{"microseconds":12.5},...}],
                      "device_metrics":{"cuda0":{...}},"configuration":{"Executor":{"string":"VM"}}}
    report.csv()     Argument Shapes,Count,Device,Duration (us),Hash,Name,Percent
    print(report)    Name         Duration (us)  Percent  Device  Count   Argument Shapes
                     fused_dense          12.50    25.00   cuda0      1  float32[1, 64]
    debug executor   Node Name    Ops          Time(us)  Time(%)  Shape    Inputs  Outputs  Measurements(us)
    time evaluator   Execution time summary:

Facts: src/runtime/profiling.cc (2021 to 2026), python/tvm/contrib/debugger/debug_result.py and
python/tvm/runtime/module.py of apache/tvm.

The tables that TVM prints: their headings, and how a line splits into cells.

A report pads its first column on the right and all others on the left; the debug executor pads all on the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import utf8_head

NAME = "Name"
DURATION = "Duration (us)"

#: Headings of a report, anywhere in a line.
REPORT = re.compile(r"(?:^|(?<=\s))Name {2,}Duration \(us\) +Percent\b", re.MULTILINE)

#: Headings of the debug executor.
DEBUG = re.compile(r"(?:^|(?<=\s))Node Name {2,}Ops {2,}Time\(us\) {2,}Time\(%\) ", re.MULTILINE)

_HEADING = re.compile(rb"\S+(?: \S+)*")
_NEEDED = frozenset({NAME, DURATION, "Percent"})


def is_csv_heading(line: str) -> bool:
    """Whether a line has the headings of a report as CSV: without quotes, in any order."""
    return "," in line and '"' not in line and {cell.strip() for cell in line.split(",")} >= _NEEDED


@dataclass(frozen=True)
class Grid:
    """The columns of a printed table: headings, and the bytes at which each begins and ends."""

    headings: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    right: bool

    def cells(self, text: str) -> dict[str, str] | None:
        """Returns the cells of a row by heading; None for a line that isn't a row."""
        return self._report(text.encode()) if self.right else self._debug(text)

    def _report(self, line: bytes) -> dict[str, str] | None:
        """TVM counts bytes. The first two columns are split at their last blank: a duration has none."""
        first = line[self.starts[0] : self.ends[1]].rsplit(None, 1)
        if len(first) != 2 or line[: self.starts[0]].strip(b" #>/*"):
            return None
        cells = [*first, *(line[end:until] for end, until in zip(self.ends[1:], self.ends[2:], strict=False))]
        return self._named([cell.decode(errors="replace") for cell in cells])

    def _debug(self, line: str) -> dict[str, str] | None:
        if len(line.rstrip()) <= self.starts[2] or line[: self.starts[0]].strip(" #>/*"):
            return None
        bounds = zip(self.starts, [*self.starts[1:], len(line)], strict=True)
        return self._named([line[start:end] for start, end in bounds])

    def _named(self, cells: list[str]) -> dict[str, str]:
        return {heading: cell.strip() for heading, cell in zip(self.headings, cells, strict=False)}


def grid_of(line: str) -> Grid | None:
    """Returns the columns that a line of headings declares, None for another line."""
    match = REPORT.search(line) or DEBUG.search(line)
    if not match:
        return None
    right = line[match.start() :].startswith(NAME + " ")
    text = line.encode() if right else line.encode("ascii", "replace")
    words = list(_HEADING.finditer(text, len(line[: match.start()].encode())))
    names = tuple(word[0].decode(errors="replace") for word in words)
    return Grid(names, tuple(word.start() for word in words), tuple(word.end() for word in words), right)


_CALLS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:calls|device_metrics|configuration)"\s*:')
_TYPED = re.compile(rb'"Duration \(us\)"\s*:\s*\{\s*"microseconds"\s*:')

#: How many lines with a heading are examined.
_MOST = 50

#: Where a text without tables has its summary.
_FIRST = 1 << 18


def probe(sample: Sample) -> Match | None:
    """DIALECT for a report, a table of the debug executor or the summary of a time evaluator."""
    head = utf8_head(sample)
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        if _CALLS.match(head) and _TYPED.search(head):
            return Match(Score.DIALECT, "is a profiling report of TVM as JSON")
        return None
    if b"(us)" not in head and b"Execution time summary:" not in head[:_FIRST]:
        return None
    text = sample.text or ""
    for word in ("Duration (us)", "Time(us)"):
        for line in _lines_with(word, text):
            if is_csv_heading(line):
                return Match(Score.DIALECT, "has the headings of TVM's profiling report as CSV")
            if grid := grid_of(line):
                what = "profiling report" if grid.right else "debug executor"
                return Match(Score.DIALECT, f"has the headings of TVM's {what}")
    if "Execution time summary:" in text and "mean (" in text:
        return Match(Score.DIALECT, "has the summary of TVM's time evaluator")
    return None


def _lines_with(word: str, text: str) -> Iterator[str]:
    """Yields the first lines with a word."""
    at = 0
    for _ in range(_MOST):
        at = text.find(word, at)
        if at < 0:
            return
        end = text.find("\n", at)
        end = end if end >= 0 else len(text)
        yield text[text.rfind("\n", 0, at) + 1 : end].rstrip("\r")
        at = end


FORMAT = Format(
    "tvm",
    "TVM: profiling reports, debug executor, time evaluator",
    patterns=("*.json", "*.csv", "*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.tvm.reader:read",
    words=("duration (us)", "time(us)", "execution time summary", '"microseconds"'),
)
