"""The three tables of a comparison, recognised by their headings; the names of the runs are taken from these."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._shared.columns import Heading, spelling
from .._shared.tables import Table

_CHANGE = re.compile(r"[Δ∆]|change", re.IGNORECASE)
_CYCLE = re.compile(r"(?P<run>.+?)\s+Time\s*[(\[].+[)\]]", re.IGNORECASE)
_SHARE = re.compile(r"[βß][_ ](?P<run>.+?)\s*(?:[(\[]%[)\]])?")
_MEAN = re.compile(r"[μµ][_ ](?P<run>.+)")
_PID = re.compile(r"pid[_: ]*(\d+)", re.IGNORECASE)


def fits(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """Field -> index of its column for any of the three tables.

    Overall metrics: `metric`, and a column a run. Cycles: `rank`, and a column a run. Functions: `name`,
    `metric`, `device`, and for each run `share 0` (β) and `mean 0` (μ). Runs are numbered in their order.
    """
    index = {spelling(head.name): number for number, head in reversed(list(enumerate(headings)))}
    if "function name" in index and "metric name" in index:
        fields = {"name": index["function name"], "metric": index["metric name"]}
        fields |= {"device": index["device"]} if "device" in index else {}
        fields |= _numbered("share", headings, _SHARE.fullmatch) | _numbered("mean", headings, _MEAN.fullmatch)
        return fields if "share 0" in fields or "mean 0" in fields else None
    if "time rank" in index:
        runs = _numbered("run", headings, _CYCLE.fullmatch)
        return {"rank": index["time rank"], **runs} if runs else None
    if index.get("metric") == 0 and any(_CHANGE.search(head.text) for head in headings):
        runs = _numbered("run", headings[1:], lambda text: not _CHANGE.search(text))
        return {"metric": 0, **{field: number + 1 for field, number in runs.items()}} if runs else None
    return None


def _numbered(field: str, headings: Sequence[Heading], is_one: Callable[[str], object]) -> dict[str, int]:
    columns = [number for number, head in enumerate(headings) if is_one(head.text)]
    return {f"{field} {run}": number for run, number in enumerate(columns)}


@dataclass(frozen=True)
class Run:
    """A run: its name as the headings have it, and the process id in it."""

    name: str
    pid: int | None


def runs_of(table: Table) -> list[Run]:
    """The runs that the headings of a table name, in their order; the first is the baseline."""
    fields = table.fields or {}
    texts = [table.headings[column].text for field, column in fields.items() if field[:-1] in ("run ", "share ")]
    texts = texts or [table.headings[column].text for field, column in fields.items() if field.startswith("mean ")]
    return [_run(text) for text in texts]


def _run(text: str) -> Run:
    for pattern in (_CYCLE, _SHARE, _MEAN):
        if found := pattern.fullmatch(text):
            text = found.group("run")
            break
    pid = _PID.search(text)
    return Run(text, int(pid.group(1)) if pid else None)
