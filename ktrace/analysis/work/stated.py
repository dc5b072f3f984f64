"""Figures that a source states itself, such as the log of a server: time to first token, tokens per second.

    [Perf] TTFT: 76ms | Prefill: 54ms        ──►   TTFT      76.000 ms
                                                   Prefill   54.000 ms

They are the summaries of kind metric that belong to no other row, up to a number: more are a table of something else,
unless a few are stated again and again, such as the rates of each request, of which the spread is shown.
"""

from __future__ import annotations

import itertools
from statistics import median
from typing import Any

import pyarrow as pa

from ktrace.model.batch import Batch
from ktrace.model.masks import truth, words_in
from ktrace.model.row_builder import to_rows
from ktrace.tables import Column, Table, exact

#: A source with more figures than this is a table of them, or of so few names at most states some of each request.
_MOST, _FEW = 64, 8

#: The columns that hold a figure, the best first, and what is said of those that aren't the figure itself.
_FIGURES = {"value": "", "total": "", "avg": "mean", "median": "median", "p99": "p99", "p95": "p95", "max": "max"}

_NEEDED = ("source", "name", "metric", "unit", "scope", *_FIGURES)

#: Units that tables write.
_UNITS = ("ns", "%", "B", "B/s", "count")


class Stated:
    """Collects the figures, and the times of ranges, which are figures where nothing else is there."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]] | None] = {"metric": [], "range": []}
        self._repeated: dict[tuple[str, str], list[float]] | None = {}

    def add(self, batch: Batch) -> None:
        """Collects the figures among some summaries."""
        alone = words_in(batch.column("kind"), tuple(self._rows))
        for owner in ("parent", "device", "stream"):
            if batch.has(owner):
                alone &= ~truth(batch.column(owner).is_valid())
        there = [name for name in _NEEDED if batch.has(name)]
        for kind, rows in self._rows.items() if alone.any() else ():
            of_kind = alone & words_in(batch.column("kind"), (kind,))
            columns = batch.columns.select(there).filter(pa.array(of_kind))
            if kind == "metric":
                self._repeat(columns)
            if rows is not None and len(columns) + len(rows) > _MOST:
                self._rows[kind] = None
            elif rows is not None and len(columns):
                rows.extend(to_rows(Batch("summaries", columns)))

    def _repeat(self, columns: pa.RecordBatch) -> None:
        """Adds figures that are stated again and again, of something else each time; gives up where others are."""
        if self._repeated is None or not len(columns):
            return
        stated = {"name", "unit", "scope", "value"} <= {*columns.schema.names}
        if not stated or columns["value"].null_count or columns["scope"].null_count or columns["unit"].null_count:
            self._repeated = None
            return
        texts = (columns[name].to_pylist() for name in ("name", "unit"))
        for name, unit, value in zip(*texts, columns["value"].to_pylist(), strict=True):
            self._repeated.setdefault((name, unit), []).append(value)
        if len(self._repeated) > _FEW:
            self._repeated = None

    def _spreads(self) -> list[tuple[str, str]]:
        """The median and the range of figures that are stated again and again."""
        return [
            (
                f"{name}, median of {len(values):,}",
                f"{_in_unit(median(values), unit)} ({_in_unit(min(values), '')} to {_in_unit(max(values), '')})",
            )
            for (name, unit), values in (self._repeated or {}).items()
            if len(values) > 1
        ]

    def figures(self, *, ranges: bool = False) -> list[tuple[str, str]]:
        """Name and figure of each, in the order of the source; none without a value. With `ranges`, those of these."""
        figures = dict(self._spreads() if self._rows["metric"] is None else ())
        shown = [*(self._rows["metric"] or ()), *(self._rows["range"] or () if ranges else ())]
        scopes: dict[str, set[tuple[str, ...]]] = {}
        for row in shown:
            scopes.setdefault(row["name"], set()).add(tuple(row.get("scope") or ()))
        for row in shown:
            figure = next((name for name in _FIGURES if row.get(name) is not None), None)
            if figure is None:
                continue
            name = " ".join(word for word in (row["name"], _FIGURES[figure]) if word)
            if name in figures and (row.get("metric") or "duration") != "duration":
                name = f"{name}, {row['metric'].replace('_', ' ')}"
            if row.get("scope") and len(scopes[row["name"]]) > 1:
                name = f"{name}, {', '.join(row['scope'])}"
            repeats = itertools.count(2)
            unique = name
            while unique in figures:
                unique = f"{name} ({next(repeats)})"
            figures[unique] = _figure_text(row, figure)
        return [*figures.items()]


def _figure_text(row: dict[str, Any], figure: str) -> str:
    return _in_unit(row[figure], row.get("unit") or "")


def _in_unit(value: float, unit: str) -> str:
    if unit in _UNITS:
        return exact(value, unit)
    if float(value).is_integer():
        return f"{exact(value, 'count')} {unit}".rstrip()
    text = f"{value:,.3f}".rstrip("0") if abs(value) >= 0.1 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def stated_table(figures: list[tuple[str, str]], top: int | None = None) -> Table:
    """The figures as a table of texts, at most `top` rows."""
    columns = (Column("figure"), Column("value"))
    return Table(
        "stated", "stated by the source", columns, [*figures[:top]], more=max(len(figures) - (top or len(figures)), 0)
    )
