"""Times of things within things, as printed with indents: what each takes by itself, and with all that is within it.

    FRAME        4.00 ms            FRAME      1.00 ms, inclusive 4.00 ms
       Scene     3.00 ms     ──►    Scene      3.00 ms               scope FRAME

The times of all rows add up, as those of kernels do. The time with what is within is a row of its own: a metric.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ktrace.model.row_builder import RowBuilder

#: The metric of a time with what is within.
INCLUSIVE = "inclusive"


@dataclass
class _Node:
    """A row: its indent, kind and name, its time with what is within it in ns, and that of what is right within it."""

    indent: int
    kind: str
    name: str
    total: float
    figure: str
    scope: list[str]
    columns: dict[str, Any]
    within: float = field(default=0.0)


class TimeTree:
    """Collects rows, and adds those of each tree to the reader's once it is whole."""

    def __init__(self, rows: RowBuilder, scope: list[str]) -> None:
        self._rows = rows
        self._scope = scope
        self._nodes: list[_Node] = []
        self._above: list[_Node] = []

    def add(self, indent: int, kind: str, name: str, total: float, *, figure: str = "total", **columns: Any) -> None:
        """Adds a row, which is within the last one with less indent. `figure` is the column of its time."""
        while self._above and self._above[-1].indent >= indent:
            self._above.pop()
        if self._above:
            self._above[-1].within += total
        else:
            self.finish()
        scope = [*self._scope, *(node.name for node in self._above)]
        node = _Node(indent, kind, name, total, figure, scope, columns)
        self._nodes.append(node)
        self._above.append(node)

    def finish(self) -> None:
        """Adds the rows of the last tree: with the time without what is within, and the one with it."""
        rows = self._rows
        for node in self._nodes:
            percent = node.columns.pop("percent", None)
            scope = node.scope or None
            place: dict[str, Any] = {"table": node.columns.get("table"), "scope": scope}
            exclusive = max(node.total - node.within, 0.0)
            share = {"percent": percent} if percent is not None and not node.within else {}
            columns = node.columns | {node.figure: exclusive, "unit": "ns"} | share
            number = rows.summary(node.kind, node.name, **columns, scope=scope)
            if node.within:
                share = {"percent": percent} if percent is not None else {}
                metric: dict[str, Any] = {"metric": INCLUSIVE, "unit": "ns", node.figure: node.total} | share
                rows.summary("metric", node.name, parent=number, **metric, **place)
        self._nodes, self._above = [], []
