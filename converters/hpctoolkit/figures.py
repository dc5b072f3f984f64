"""The figures of a profile: what the values of metrics are, and what each context has of its own.

profile.db   context  metric              value                    kernel <gpu kernel>
             12       GKER (sec) execution    0.002                    total 2,000,000 ns
             12       GKER (sec) function     0.002        ──►         count 8
             12       GKER:COUNT execution    8
             9        GKER (sec) execution    0.002                total main    total 2,000,000 ns
             13       GKER (sec) point        0.002                folded: 13 is an instruction, in 12
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import words
from ktrace.model.arrays import AnyArray, Bools, Float64, Int64, Structured
from ktrace.report import Report

from .database import DEEPEST, Meta, Metric, Tree

#: The first part of the names of metrics of GPUs -> the kind of what they measure.
_MEASURED = {
    **{"GKER": "kernel", "GXCOPY": "memcpy", "GICOPY": "memcpy", "GMSET": "memset", "GMEM": "alloc"},
    **{"GSYNC": "sync", "GPUOP": "total"},
}

#: Units in the names of metrics, such as "GKER (sec)" -> that of the model, and the factor to it.
_UNITS = {"sec": ("ns", 1e9), "s": ("ns", 1e9), "b": ("B", 1.0), "bytes": ("B", 1.0)}
_UNIT = re.compile(r"(?P<name>.*?) ?\((?P<unit>[^()]*)\)")
_COUNT = ":COUNT"

#: Which part of a row a value is: kinds of propagation scopes, the same of a count, and further scopes by name.
_POINT, _EXECUTION, _COUNT_POINT, _COUNT_EXECUTION, _OTHERS = 1, 2, 3, 4, 5

#: What is left of a sum less its parts by rounding alone; decimals of a difference: of a time in s those above 1 ps.
_ROUNDING, _DECIMALS = 1e-12, 12

VALUE = np.dtype([("metric", "<u2"), ("value", "<f8")])

_MOST = 1 << 62


def is_whole(starts: Int64, values: int) -> bool:
    """Whether the values of contexts lie one after the other, and all values are those of a context."""
    if not len(starts):
        return not values
    return bool(starts[0] == 0 and starts[-1] <= values and np.all(starts[1:] >= starts[:-1]))


def figures(
    data: Structured, contexts: AnyArray, tree: Tree, measures: Measures, report: Report, where: str
) -> tuple[Int64, Int64, dict[str, Any]]:
    """The nodes of the rows of a profile, the number of the row around each, and their columns.

    There is a row for each context of the tree and each measure, outer ones first. It has no row around it (-1) far
    within others. Values of contexts that the tree lacks are part of those around them.
    """
    measure, role = measures.of[data["metric"]], measures.role[data["metric"]]
    good = (measure >= 0) & np.isfinite(data["value"])
    if bad := len(good) - int(np.count_nonzero(good)):
        report.issue("bad-record", where, "values of no metric, or that aren't finite", bad)
    node, is_there = tree.nodes(contexts)
    is_exact = good & is_there & (role >= 0)
    count = np.int64(max(1, len(measures.factors)))
    keys, rows = np.unique(node[is_exact] * count + measure[is_exact], return_inverse=True)
    report.used(int(np.count_nonzero(good)) - len(keys), outcome="folded")
    node, which = np.divmod(keys, count)
    values = _Values(keys, rows, data["value"][is_exact], role[is_exact], tree.around[node] * count + which)
    alone, columns = values.columns(measures, which)
    columns |= measures.columns(which, alone)
    order = np.argsort(depth := tree.depths[node], kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    place, has_outer = values.outer
    around = np.where(has_outer & (depth < DEEPEST), number[place], -1)
    return node[order], around[order], {name: column.take(pa.array(order)) for name, column in columns.items()}


class _Values:
    """The values of a profile by row, which is a context and a measure, and by role.

    What a context has of its own is its sum less the sums of the contexts right below it: hpcprof leaves instructions
    out of the tree, and so what is measured at them has no place but the line around them.
    """

    def __init__(self, keys: Int64, rows: Int64, values: Float64, role: Int64, around: Int64) -> None:
        self._keys, self._rows, self._values, self._role, self._around = keys, rows, values, role, around

    def _of(self, role: int) -> tuple[Float64, Bools]:
        """The values with a role, and which rows have one."""
        rows = self._role == role
        sums: Float64 = np.bincount(self._rows[rows], self._values[rows], len(self._keys)).astype(np.float64)
        return sums, np.bincount(self._rows[rows], minlength=len(self._keys)) > 0

    @cached_property
    def outer(self) -> tuple[Int64, Bools]:
        """Which row is that of the context around each, and whether there is one."""
        place = np.minimum(np.searchsorted(self._keys, self._around), max(len(self._keys) - 1, 0))
        return place, (self._keys[place] == self._around) & (place != np.arange(len(self._keys)))

    def _own(self, point: int, below: int) -> tuple[Float64, Float64]:
        """What each context has of its own, 0 for nothing, and its sum."""
        exclusive, _ = self._of(point)
        sums, has_sum = self._of(below)
        if not len(sums):
            return exclusive, sums
        place, has_outer = self.outer
        inner = has_outer & has_sum
        parts = np.bincount(place[inner], sums[inner], len(self._keys))
        less = np.where(parts == 0, sums, np.round(sums - parts, _DECIMALS))
        less[np.abs(less) <= _ROUNDING * np.abs(sums)] = 0
        return np.where(has_sum, np.maximum(less, 0), exclusive), np.where(has_sum, sums, exclusive)

    def columns(self, measures: Measures, which: Int64) -> tuple[Bools, dict[str, Any]]:
        """Which rows are of contexts with something of their own, and the figures of all rows."""
        factors = measures.factors[which]
        sums, total = self._own(_POINT, _EXECUTION)
        number, numbers = self._own(_COUNT_POINT, _COUNT_EXECUTION)
        alone = (sums != 0) | (number != 0)
        value, count = np.where(alone, sums, total), np.where(alone, number, numbers)
        whole = (count > 0) & (count == np.floor(count)) & (count < _MOST)
        columns: dict[str, Any] = {
            "total": pa.array(value * factors, mask=value == 0),
            "count": pa.array(np.where(whole, count, 0).astype(np.int64), mask=~whole),
            "args.execution": pa.array(total * factors, mask=total == value),
        }
        for role, name in measures.scopes.items():
            mask, there = self._of(role)
            columns[f"args.{name}"] = pa.array(mask * factors, mask=~there | (mask == value))
        return alone, columns


class Measures:
    """What the values of each metric are: of which measure, and which part of its row (`role`), -1 for none.

    A measure is a metric in any scope, and GKER:COUNT is a part of GKER (sec).
    """

    def __init__(self, meta: Meta) -> None:
        split = {metric.name: _split(metric.name) for metric in meta.metrics.values()}
        timed_ones = {name: whole for whole, (name, unit, _) in split.items() if unit == "ns"}
        positions: dict[str, int] = {}
        self.scopes: dict[int, str] = {}
        self.of, self.role = np.full(1 << 16, -1), np.full(1 << 16, -1)
        for number, metric in meta.metrics.items():
            counted = timed_ones.get(metric.name.removesuffix(_COUNT)) if metric.name.endswith(_COUNT) else None
            self.of[number] = positions.setdefault(counted or metric.name, len(positions))
            self.role[number] = self._role(metric, counted is not None)
        parts = [split[name] for name in positions]
        kinds = [_MEASURED.get(name.split(":")[0], "sample") for name, _, _ in parts]
        self._kinds = [*kinds, *["total"] * len(parts)]
        self._metrics = [
            "duration" if name in _MEASURED and kind != "total" and unit == "ns" else name
            for kind, (name, unit, _) in zip(kinds, parts, strict=True)
        ] + [name for name, _, _ in parts]
        self._units = pa.array([unit for _, unit, _ in parts], pa.string())
        self.factors = np.array([factor for _, _, factor in parts], np.float64)

    def _role(self, metric: Metric, is_count: bool) -> int:
        if metric.kind in (_POINT, _EXECUTION):
            return metric.kind + (_COUNT_POINT - _POINT if is_count else 0)
        if is_count:
            return -1
        roles = {name: role for role, name in self.scopes.items()}
        role = roles.get(metric.scope, _OTHERS + len(roles))
        self.scopes[role] = metric.scope
        return role

    def columns(self, which: Int64, alone: Bools) -> dict[str, Any]:
        """Kind, metric and unit of rows: by their measures, and whether a row is of a context alone."""
        codes = np.where(alone, which, which + len(self.factors))
        return {
            "kind": words(self._kinds, codes),
            "metric": words(self._metrics, codes),
            "unit": self._units.take(pa.array(which)),
        }


def _split(name: str) -> tuple[str, str | None, float]:
    """The name of a metric without its unit, that unit, and the factor to it."""
    if name.endswith(_COUNT):
        return name, "count", 1.0
    match = _UNIT.fullmatch(name)
    if not match:
        return name, None, 1.0
    unit, factor = _UNITS.get(match["unit"].casefold(), (match["unit"], 1.0))
    return match["name"], unit, factor
