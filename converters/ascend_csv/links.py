"""Links between ranks in MindSpore's hccl_raw_*.csv: what each collective of a step sent over each of them.

step_num,communication_cost,wait_cost,link_info,communication_operator_cost
1,2.6,270.25,"{...}","{""stream_41_0_AllReduce-op4582"": [""1"", 0.003, 0.01, {""1-0"": {""SDMA"": [0.2, 4.096, 7]}}]}"

The first two figures of a link are its time in ms and its size in KB of 1000 bytes: metrics of the collective. Older
versions have costs in ms and the bandwidth in KB/s, newer ones in us and GB/s, and nothing says which: these are
arguments. link_info is the sum of the operators; the last row, `-`, is the average of the others. Facts:
mindspore/profiler/parser/hccl_parser.py (2021), ascend_hccl_generator.py (2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.text.headings import plain
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .step_trace import COLLECTIVE, stream_of

_OPERATORS = "communication_operator_cost"

#: The metrics of a link: name, unit, and the factor to it.
_METRICS = (("Transit Time", "ns", 10**6), ("Transit Size", "B", 10**3))

#: The ids of the rows of a line begin at this times its number.
_IDS = 1 << 24

_GREATEST = 1e15


class _Link(NamedTuple):
    """What a collective sent over a link: its name and stream, the link, the transport, all figures, its costs."""

    name: str
    stream: int | None
    link: str
    transport: str
    figures: list[Any]
    costs: dict[str, Any]


def add_links(item: CsvRows, rows: RowBuilder, report: Report, first_id: int) -> None:
    """Adds a metric for the time and the size of each link of each collective; reports rows without any."""
    steps, cells = (item.block.take(name).to_pylist() for name in ("step_num", _OPERATORS))  # type: ignore[union-attr]
    costs = {name: item.block.get(name) for name in ("communication_cost", "wait_cost")}
    for row, (line, step, cell) in enumerate(zip(item.block.numbers.to_pylist(), steps, cells, strict=True)):
        if (step or "").strip() == "-":
            report.used(outcome="structure")
            continue
        first = number = first_id + line * _IDS
        where = f"{item.block.place} {line}"
        of_step = {f"${name}": plain(column[row].as_py() or "") for name, column in costs.items() if column is not None}
        for link in _links(cell or ""):
            figures = [
                (metric, value) for metric, value in zip(_METRICS, link.figures, strict=False) if _is_figure(value)
            ]
            if len(figures) < len(_METRICS):
                report.issue("misfit", where, f"{link.name}, {link.link}: {str(link.figures)[:40]}")
            args = of_step | {"transport": link.transport, **link.costs, "figures": link.figures}
            for (metric, unit, factor), value in figures:
                columns: dict[str, Any] = {
                    "metric": metric,
                    "unit": unit,
                    "value": float(Decimal(repr(value)) * factor),
                }
                columns |= {"scope": [f"step {step}", link.link], "stream": link.stream, "args": args, "cat": "HCCL"}
                rows.summary("kernel", link.name, id=number, table=item.table.ordinal, **columns)
                number, args, of_step = number + 1, {}, {}
        if number == first:
            report.issue("bad-record", where, f"{_OPERATORS} has no links")
        else:
            report.used()


def _links(cell: str) -> Iterator[_Link]:
    """The links in the JSON of a step."""
    try:
        operators = load_json(cell)
    except ValueError:
        return
    for name, parts in operators.items() if isinstance(operators, dict) else ():
        match = COLLECTIVE.fullmatch(name)
        if not match or not isinstance(parts, list) or len(parts) < 4 or not isinstance(parts[3], dict):
            continue
        costs = {"communication_cost": parts[1], "wait_cost": parts[2]}
        for link, transports in parts[3].items():
            for transport, figures in transports.items() if isinstance(transports, dict) else ():
                if isinstance(figures, list) and figures:
                    yield _Link(match["name"], stream_of(match), link, transport, figures, costs)


def _is_figure(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < _GREATEST
    )
