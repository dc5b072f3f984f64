"""Reads the JSON of benchmark_app (`-json_stats`): lists of nodes, one for each infer request or one with averages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import Item, json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .layers import STATUSES, Layer, Layers, ns, percent_of, status_of

_AVERAGE = "avg_performance"
_DETAILED = "detailed_performance"
_KNOWN = frozenset({"name", "node_type", "status", "real_time", "exec_type", "%"})


def read_json(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each node, and the totals. Each node is a record, and so is each other member."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "OpenVINO benchmark_app"})
    report, layers = conversion.report, Layers(rows)
    table = -1
    for item in json_items(source, report):
        if item.problem:
            report.record()
            report.issue(item.problem, item.where, item.text[:80])
        elif item.key in (_AVERAGE, _DETAILED) and isinstance(item.value, dict):
            table += 1
            scope = [f"infer request {item.number - 1}"] if item.key == _DETAILED else ["average"]
            _nodes(item, layers, report, table, scope)
        else:
            report.record()
            if item.key == "report_type":
                report.used(outcome="structure")
            else:
                report.issue("unrecognised", item.where, str(item.value)[:80])
        yield from rows.ready()
    yield from rows.rest()


def _nodes(item: Item, layers: Layers, report: Report, table: int, scope: list[str]) -> None:
    """Adds the nodes of a request and its total."""
    found = item.value.get("nodes")
    nodes = found if isinstance(found, list) else []
    if item.key == _AVERAGE and len(nodes) == 1:
        report.issue("incomplete-report", item.where, "one node; the CSV and the log have all")
    for number, node in enumerate(nodes, 1):
        report.record()
        layer = _layer(node) if isinstance(node, dict) else None
        if layer is None:
            report.issue("bad-record", f"{item.where}, node {number}", "no name, no status or no time")
            continue
        layers.add(layer, table=table, scope=scope)
        report.used()
    total = ns(item.value.get("total_real_time"))
    report.record()
    if total is None:
        report.issue("bad-record", item.where, "no total_real_time")
        return
    args = {"total_cpu_time (ms)": _plain(item.value["total_cpu_time"])} if "total_cpu_time" in item.value else {}
    layers.total("Total", total, table=table, scope=scope, args=args)
    report.used()


def _layer(node: dict[str, Any]) -> Layer | None:
    name, status, real = node.get("name"), node.get("status"), ns(node.get("real_time"))
    if not isinstance(name, str) or not isinstance(status, str) or not name or real is None:
        return None
    if status_of(status) not in STATUSES:
        return None
    args = {key: _plain(value) for key, value in node.items() if key not in _KNOWN}
    exec_type, node_type = node.get("exec_type"), node.get("node_type")
    return Layer(
        name,
        status_of(status),
        node_type if isinstance(node_type, str) else "",
        exec_type if isinstance(exec_type, str) else "",
        real,
        args,
        percent_of(node["%"]) if "%" in node else None,
    )


def _plain(value: Any) -> Any:
    """A value for `args`: a number in quotes as a number."""
    if isinstance(value, str) and (time := ns(value, 1)) is not None:
        return time
    return plain_value(value)
