"""Reads counters of layers from any of benchmark_app's outputs.

Reads the JSON of benchmark_app (`-json_stats`): lists of nodes, one for each infer request or one with averages.

Reads the CSV of benchmark_app: a table for each infer request, or one with averages, or one sorted by time.

layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)          Python; C++ ends each line with a semicolon
layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms); %;      C++, sorted
layerName,execStatus,layerType,execType,realTime (ms),cpuTime (ms),"proportion (%)        Python, sorted
"
Names aren't quoted where semicolons separate, so that lines are split from the right.

Reads a runtime model (`-exec_graph_path`): the layers as they were executed, each with its average time in us.

    <layer id="1" name="conv" type="Convolution">
        <data execOrder="1" execTimeMcs="103" originalLayersNames="conv,relu" primitiveType="jit_avx512_f32" .../>

A layer that was never measured has "not_executed" in place of a time. Documents that declare entities are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source, begins_as_json
from ktrace.kit.text.json_items import Item, beginning, json_items, plain_value
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, quoted_cells
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .log import EXECUTED, STATUSES, BenchmarkAppLog, Layer, Layers, ns, number, percent_of, status_of

_CHUNK = 1 << 16

#: Faults of a document that ends too early: no element, a token, a character or a section that isn't closed.
_CUT = frozenset((3, 5, 6, 20))
_TIME = "execTimeMcs"


def read_graph(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each layer. Raises DamagedInput for a document that declares entities."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "OpenVINO"})
    graph = _Graph(source, conversion, rows)
    with source.open() as stream:
        while chunk := stream.read(_CHUNK):
            graph.feed(chunk)
            yield from rows.ready()
    graph.feed(b"", final=True)
    graph.end()
    yield from rows.rest()


class _Graph:
    def __init__(self, source: Source, conversion: Conversion, rows: RowBuilder) -> None:
        self._path = source.path
        self._report = conversion.report
        self._rows = rows
        self._layers = Layers(rows)
        self._layer: dict[str, str] | None = None
        self._data: dict[str, str] = {}
        self._count = 0
        self._fault: expat.ExpatError | None = None  # after which nothing is read
        self._size = 0  # bytes that were read
        self._held = bytearray()  # those of them that expat doesn't have yet
        self._unfinished = 0  # those that it has, but that aren't whole
        self._owned = 0  # and those of them that have an owner
        self._owner: Owner = "structure"  # of the bytes that follow
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.DefaultHandler = self._between

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        """Reads on. After a fault the rest of the document is left out.

        Before version 2.6, expat scans an element that isn't whole again with each chunk. So it gets the next part of a
        long one when that is as long as the first part: then all scans together take twice the time of the last.
        """
        self._size += len(chunk)
        if self._fault is not None:
            return
        self._held += chunk
        if len(self._held) < self._unfinished and not final:
            return
        chunk, self._held = bytes(self._held), bytearray()
        try:
            self._parser.Parse(chunk, final)
            self._unfinished = self._size - self._parser.CurrentByteIndex
        except expat.ExpatError as error:
            self._fault = error

    def end(self) -> None:
        """Accounts for the bytes that are left, and for a layer that breaks off."""
        cut = self._fault is None or self._fault.code in _CUT
        if self._fault is not None:
            self._owner = "skipped"
            left = (
                ""
                if cut
                else f"; nothing of the {self._size - self._parser.CurrentByteIndex:,} bytes from there on is read"
            )
            self._report.record()
            where = f"line {self._fault.lineno}"
            self._report.issue("cut" if cut else "bad-record", where, f"{expat.ErrorString(self._fault.code)}{left}")
        self._own("structure", self._size)
        self._report.bytes.size += self._size
        if self._layer is not None:
            self._report.record()
            kind, where = ("cut", "the end") if cut else ("bad-record", f"layer {self._count + 1}")
            self._report.issue(kind, where, self._layer.get("name", ""))

    def _own(self, following: Owner, end: int | None = None) -> None:
        """Gives the bytes up to here their owner, and states who owns those that follow."""
        at = self._parser.CurrentByteIndex if end is None else end
        if self._owner == "skipped":
            self._report.bytes.skip(self._owned, at)
        else:
            self._report.bytes.own(self._owner, at - self._owned)
        self._owned, self._owner = at, following

    def _between(self, data: str) -> None:
        """Text, comments and declarations. The model has no text outside of layers."""
        if self._layer is not None:
            return
        stray = data.strip() and not data.startswith("<")
        self._own("skipped" if stray else "structure")
        if stray:
            line = f"line {self._parser.CurrentLineNumber}"
            self._report.issue("unrecognised", line, f"{data.strip()[:40]!r} between elements", 0)

    def _refuse(self, *_: Any) -> None:
        raise DamagedInput(
            "it declares a document type, as no runtime model does",
            path=self._path,
            expected="XML written by benchmark_app -exec_graph_path",
            remedy="remove the declaration if you trust the file",
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._layer is None:
            self._own("read" if tag == "layer" else "structure")
        if tag == "layer":
            self._layer, self._data = attributes, {}
        elif tag == "data" and self._layer is not None:
            self._data = attributes
        elif tag == "net":
            facts = {"model": attributes["name"]} if attributes.get("name") else {}
            self._rows.fact("source", facts=facts)

    def _end(self, tag: str) -> None:
        if self._layer is None:
            self._own("structure")
        if tag != "layer" or self._layer is None:
            return
        about, data = self._layer, dict(self._data)
        self._layer = None
        self._count += 1
        self._report.record()
        stated, name = data.pop(_TIME, None), about.get("name", "")
        time = ns(stated, 1000) if stated and stated != "not_executed" else 0.0
        if stated is None or not name or time is None:
            self._report.issue("bad-record", f"layer {self._count}", f"no name or no {_TIME}")
            return
        status = "NOT_RUN" if stated == "not_executed" else EXECUTED
        exec_type = data.pop("primitiveType", "")
        args: dict[str, Any] = {key: value for key, value in data.items() if value}
        self._layers.add(Layer(name, status, about.get("type", ""), exec_type, time, args), table=0)
        self._report.used()


_FIRST = "layerName"
_TOTAL_LINE = re.compile(r"\"?(?P<name>Total(?: CPU)? time): (?P<value>\S+) milliseconds\"?,*\s*")


class _Tables(LineReader):
    """Adds a summary for each layer of a CSV, and the totals."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._rows.fact("source", facts={"tool": "OpenVINO benchmark_app"})
        self._layers = Layers(self._rows)
        self._headings: list[str] = []
        self._separator = ";"
        self._table = -1
        self._closed = True  # whether the table has its totals

    def take(self, line: Line) -> None:
        text = line.text
        if text.startswith(_FIRST):
            self._begin(text)
        elif not text.strip() or (text.strip() == '"' and self._separator == ","):
            self._lines.structure()
        elif match := _TOTAL_LINE.fullmatch(text):
            self._stated(match["name"], ns(match["value"]))
        elif self._headings:
            self._row(text)

    def end(self) -> None:
        if not self._closed:
            self._report.issue("cut", "the end", "the table has no totals", 0)

    def _begin(self, text: str) -> None:
        self._separator = text[len(_FIRST) : len(_FIRST) + 1]
        if self._separator not in (";", ","):
            return
        self._headings = [part.strip().strip('"') for part in text.split(self._separator)]
        self._table += 1
        self._closed = False
        self._lines.structure()

    def _stated(self, name: str, value: float | None) -> None:
        if value is None:
            self._lines.skip("bad-record", "the total isn't a number")
            return
        self._closed = True
        table = max(self._table, 0)
        if name == "Total time":
            self._layers.total(name, value, table=table)
        else:
            self._rows.summary("metric", name, unit="ns", value=value, table=table)
        self._lines.used()

    def _row(self, text: str) -> None:
        cells = self._cells(text)
        if cells is None:
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else f"not {len(self._headings)} cells")
            return
        row = dict(zip(self._headings, cells, strict=True))
        name, status = row.get("layerName", ""), status_of(row.get("execStatus", ""))
        real = ns(row.get("realTime (ms)", ""))
        if real is None or not name or (status not in STATUSES and not (name == "Total" and not status)):
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else "no name, no status or no time")
            return
        args = {"cpuTime (ms)": number(row["cpuTime (ms)"])} if row.get("cpuTime (ms)") else {}
        if not status:
            self._closed = True
            self._layers.total(name, real, table=self._table, args=args)
        else:
            share = next((value for key, value in row.items() if key.endswith("%") or key.startswith("proportion")), "")
            layer = Layer(name, status, row.get("layerType", ""), row.get("execType", ""), real, args)
            layer.percent = percent_of(share)
            self._layers.add(layer, table=self._table)
        self._lines.used()

    def _cells(self, text: str) -> list[str] | None:
        """The cells of a row; None if there are too few or, where names are quoted, too many."""
        semicolons = self._separator == ";"
        cells = text.rsplit(";", len(self._headings) - 1) if semicolons else quoted_cells(text)
        return cells if len(cells) == len(self._headings) else None


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
    value = item.value.get("nodes")
    nodes = value if isinstance(value, list) else []
    if item.key == _AVERAGE and len(nodes) == 1:
        report.issue("incomplete-report", item.where, "one node; the CSV and the log have all")
    for count, node in enumerate(nodes, 1):
        report.record()
        layer = _layer(node) if isinstance(node, dict) else None
        if layer is None:
            report.issue("bad-record", f"{item.where}, node {count}", "no name, no status or no time")
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


_HEAD = 1 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each layer, and the totals."""
    begin = beginning(source, _HEAD)
    if begins_as_json(begin):
        yield from read_json(source, conversion)
    elif begin.startswith("<"):
        yield from read_graph(source, conversion)
    elif "layerType: " not in begin:
        yield from _Tables.read(source, conversion)
    else:
        yield from BenchmarkAppLog.read(source, conversion)
