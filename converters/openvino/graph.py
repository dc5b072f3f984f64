"""Reads a runtime model (`-exec_graph_path`): the layers as they were executed, each with its average time in us.

    <layer id="1" name="conv" type="Convolution">
        <data execOrder="1" execTimeMcs="103" originalLayersNames="conv,relu" primitiveType="jit_avx512_f32" .../>

A layer that was never measured has "not_executed" in place of a time. Documents that declare entities are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .layers import EXECUTED, Layer, Layers, ns

_CHUNK = 1 << 16
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
        self._sound = True
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
        if not self._sound:
            return
        self._held += chunk
        if len(self._held) < self._unfinished and not final:
            return
        chunk, self._held = bytes(self._held), bytearray()
        try:
            self._parser.Parse(chunk, final)
            self._unfinished = self._size - self._parser.CurrentByteIndex
        except expat.ExpatError as error:
            self._sound = False
            kind = "cut" if error.code in (3, 5) or final else "bad-record"
            self._report.record()
            self._report.issue(kind, f"line {error.lineno}", expat.ErrorString(error.code))

    def end(self) -> None:
        """Accounts for the bytes that are left, and for a layer that breaks off."""
        if not self._sound:
            self._owner = "skipped"
        self._own("structure", self._size)
        self._report.bytes.size += self._size
        if self._layer is not None:
            self._report.record()
            self._report.issue("cut", "the end", self._layer.get("name", ""))

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
