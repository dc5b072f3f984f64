"""Rows of any form and schemas, read with expat: what `scan` leaves."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from ktrace.model.arrays import Int64

from .values import Values

_BETWEEN = re.compile(rb"</row>([^<]*)")


class Schema(NamedTuple):
    """A table: its name, the mnemonics of its columns, and their engineering types."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()


class _Element:
    """An element that is open: its id or reference, its text, the value of the first one inside it, and its frames."""

    __slots__ = ("fmt", "frames", "id", "inner", "name", "ref", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.id = attributes.get("id")
        self.ref = attributes.get("ref")
        self.fmt = attributes.get("fmt")
        self.name = attributes.get("name") if tag == "frame" else None
        self.frames: list[int] = []
        self.text: list[str] = []
        self.inner: int | None = None


class _Rows:
    """The handlers of expat: gathers the codes of the cells of each row, and whether text is between them."""

    def __init__(self, values: Values) -> None:
        self.rows: list[list[int]] = []
        self.has_stray = False
        self._values = values
        self._open: list[_Element] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) == 1:
            self.rows.append([])
        self._open.append(_Element(tag, attributes))

    def data(self, text: str) -> None:
        self._open[-1].text.append(text)
        self.has_stray |= len(self._open) == 1 and bool(text.strip())

    def end(self, _tag: str) -> None:
        element = self._open.pop()
        if len(self._open) < 2:
            return
        code = self._code(element)
        if element.id is not None:
            self._values.define_one(element.id, code)
        parent = self._open[-1]
        if len(self._open) == 2:
            self.rows[-1].append(code)
        elif parent.inner is None:
            parent.inner = code
        if element.tag == "frame":
            parent.frames.append(code)

    def _code(self, element: _Element) -> int:
        if element.ref is not None:
            return self._values.lookup_one(element.ref)
        if element.name is not None:
            return self._values.text_code(element.name.encode())
        if element.frames:  # a backtrace
            return self._values.text_code("\n".join(map(self._values.text, element.frames)).encode())
        text = "".join(element.text).encode()
        if element.inner is None and text.strip():
            return self._values.code(text)
        if element.fmt:
            return self._values.text_code(element.fmt.encode())
        return element.inner or 0


def _parse(text: bytes, rows: _Rows) -> None:
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = rows.start
    parser.EndElementHandler = rows.end
    parser.CharacterDataHandler = rows.data
    parser.Parse(b"<rows>", False)
    parser.Parse(text, False)
    parser.Parse(b"</rows>", True)


class RowsRead(NamedTuple):
    """The codes of the cells of rows; why rows are damaged, by their index; starts and ends of text between rows."""

    codes: Int64
    damage: dict[int, str]
    stray: list[tuple[int, int]]


def read_rows(chunk: bytes, width: int, values: Values) -> RowsRead:
    """Returns the cells of whole rows."""
    damage: dict[int, str] = {}
    whole = _Rows(values)
    try:
        _parse(chunk, whole)
        rows = whole.rows
    except expat.ExpatError:
        rows = _one_by_one(chunk, values, damage)
        whole.has_stray = True  # perhaps
    codes = np.zeros((len(rows), width), np.int64)
    for index, cells in enumerate(rows):
        if len(cells) == width:
            codes[index] = cells
        else:
            damage.setdefault(index, f"{len(cells)} cells, the table has {width} columns")
    return RowsRead(codes, damage, _stray(chunk) if whole.has_stray else [])


def _stray(chunk: bytes) -> list[tuple[int, int]]:
    """Where text is between rows, blanks aside."""
    found = (piece.span(1) for piece in _BETWEEN.finditer(chunk))
    return [(start, end) for start, end in found if chunk[start:end].strip()]


def _one_by_one(chunk: bytes, values: Values, damage: dict[int, str]) -> list[list[int]]:
    """Reads rows of which at least one is damaged."""
    rows: list[list[int]] = []
    for text in chunk.split(b"</row>")[:-1]:
        one = _Rows(values)
        try:
            _parse(text + b"</row>", one)
        except expat.ExpatError as error:
            damage[len(rows)] = f"isn't XML: {expat.ErrorString(error.code)}"
            rows.append([])
        else:
            rows += one.rows
    return rows


def read_schema(text: bytes) -> Schema | None:
    """Returns the name and the columns of a <schema>; None for one that isn't XML."""
    name, columns, types, inside = "", list[str](), list[str](), ""

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal name, inside
        if tag == "schema":
            name = attributes.get("name", "")
        elif tag == "col":
            columns.append("")
            types.append("")
        inside = tag

    def data(piece: str) -> None:
        if inside == "mnemonic" and columns:
            columns[-1] += piece
        elif inside == "engineering-type" and types:
            types[-1] += piece

    def end(_tag: str) -> None:
        nonlocal inside
        inside = ""

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, data
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        return None
    return Schema(name, *(tuple(word.strip() for word in words) for words in (columns, types)))
