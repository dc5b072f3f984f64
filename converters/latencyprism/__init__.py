"""LatencyPrism's "Cross Performance Comparison" of two runs, in Markdown (compare_perf_data.py, 2025).

    | Metric              | normal_pid_805580 | abnormal_pid_842126 | Δ (…)       | Change (%) |
    |   Time Rank | normal_pid_805580 Time (us) | abnormal_pid_842126 Time (us) | Δ (us) | Δ (%) |
    | Function Name | Metric Name | Device | Suspicion Score | β_normal_…(%) | β_abnormal_…(%) | Δβ(%) | …

β is the share of a cycle that a function takes, μ the mean of a resource metric while the function runs.

Recognises the tables of a comparison by their headings, which also name the runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Heading, spelling
from ktrace.kit.text.tables import Table

_TITLE = "Performance Comparison"


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a table, or for a table of functions or cycles without the title."""
    text = sample.text
    if not text or ("|" not in text and "," not in text):
        return None
    from ktrace.kit.text.tables import find_tables

    from . import columns_of

    for table in find_tables(sample, columns_of):
        for title in table.path:
            if _TITLE in title.text:
                return Match(Score.DIALECT, f"has the title '{title.text.partition(':')[0]}'")
        if table.fields and table.fields.keys() & {"name", "rank"}:
            return Match(Score.DIALECT, f"has a comparison of runs as LatencyPrism writes it (line {table.line})")
    return None


FORMAT = Format(
    "latencyprism",
    "LatencyPrism comparison",
    patterns=("*.md",),
    probe=probe,
    read="ktrace.converters.latencyprism.reader:read",
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


_CHANGE = re.compile(r"[Δ∆]|change\b", re.IGNORECASE)
_CYCLE = re.compile(r"(?=.*[)\]]\Z)(?P<run>.*?\S)\s+Time\s*[(\[].+", re.IGNORECASE | re.DOTALL)
_SHARE = re.compile(r"[βß][_ ](?P<run>\S(?:.*?\S)??)\s*(?:[(\[]%[)\]])?")
_MEAN = re.compile(r"[μµ][_ ](?P<run>.+)")
_PID = re.compile(r"pid[_: ]*(\d{1,18})(?!\d)", re.IGNORECASE)
_STRICT = re.compile(r"Strict .*\(PID: *(\d{1,18})\)\s*", re.IGNORECASE)


def columns_of(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
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
    for field, pattern in (("share", _SHARE), ("mean", _MEAN)):
        for column, head in enumerate(headings):
            if found := pattern.fullmatch(head.text):
                number = runs.setdefault(found.group("run"), len(runs))
                fields[f"{field} {number}"] = column
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
    for field, column in (table.fields or {}).items():
        what, _, number = field.rpartition(" ")
        if what in ("run", "share", "mean"):
            runs.setdefault(int(number), _run(table.headings[column].text))
    strict = _STRICT.fullmatch(table.path[0].text) if table.path else None
    pid = int(strict.group(1)) if strict else None
    return [Run(runs[number].name, runs[number].pid or pid) for number in sorted(runs)]


def _run(text: str) -> Run:
    for pattern in (_CYCLE, _SHARE, _MEAN):
        if found := pattern.fullmatch(text):
            text = found.group("run")
            break
    pid = _PID.search(text)
    return Run(text, int(pid.group(1)) if pid else None)
