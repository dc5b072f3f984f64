"""What NVIDIA's PyProf tells of each kernel of PyTorch: `pyprof.parse` as Python literals, `pyprof.prof` as a table.

    {'kShortName': 'elementwise_kernel', 'kDuration': 3168, 'layer': [], 'trace': ['lm.py:106'], 'dir': 'fprop',
     'mod': ['Tensor'], 'op': ['__mul__'], 'tid': 39403, 'device': 0, 'stream': 7, 'grid': (274, 1, 1), ...}

    "Kernel","Module","Op","Direction","Sil(ns)","TC","FLOPs","Bytes","Device","Stream","Block","Grid"       --csv
    "elementwise_kernel","Tensor","__mul__","fprop","3168","-","140000.0","1120000","0","7","512,1,1","274,1,1"

    Kernel              Op              Sil(ns)    TC FLOPs        Bytes        Dev Str Block                -w 100
    elementwise_kernel  __mul__               3168 -        140000      1120000   0   7 512,1,1

    Kernel Op Sil(ns) TC FLOPs                                                                             neither

Facts: pyprof/parse/kernel.py (keys; kDuration is end - start of the database, in ns), pyprof/prof/output.py (headings,
widths; texts are cut to their width, numbers may exceed it), data.py and prof.py ("na" and "-" are no value) of github
NVIDIA/PyProf 3.11; the same as in apex. Neither says when a kernel ran: each is a summary of one execution.

A literal is parsed only if all of it are texts, numbers and brackets: nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64
from ktrace.model.row_builder import RowBuilder

_BEGIN = "{'kShortName': "

#: Heading -> width of its column by -w, None for what depends on the width of the whole; those of numbers.
_WIDTHS: dict[str, int | None] = {
    **{
        "Idx": 7,
        "SeqId": 7,
        "AltSeqId": 7,
        "TId": 12,
        "Layer": 10,
        "Trace": 25,
        "Direction": 5,
        "Sub": 3,
        "Module": 15,
    },
    **{"Op": 15, "Kernel": None, "Params": None, "Sil(ns)": 10, "TC": 2, "Device": 3, "Stream": 3, "Grid": 12},
    **{"Block": 12, "FLOPs": 12, "Bytes": 12},
}
_NUMBERS = frozenset({"Idx", "TId", "Sub", "Sil(ns)", "Device", "Stream", "FLOPs", "Bytes"})
_CUT = {heading[:width]: heading for heading, width in _WIDTHS.items()}
_NO_VALUE = frozenset({"", "-", "na"})

#: Bytes of a literal; its tokens; the deepest brackets.
_LONGEST = 1 << 20
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?\d[\d.eE+-]{0,40}|None|True|False|(?P<open>[{\[(])|(?P<close>[}\])])|[\s,:]+"
)
_DEEPEST = 16
_LIMIT = 1 << 62
_LINES = 200

Cells = Callable[[str], list[str] | None]


def probe(sample: Sample) -> Match | None:
    """DIALECT for a kernel as a literal, or the headings of the table."""
    for number, text in enumerate(sample.lines[:_LINES], 1):
        if text.startswith(_BEGIN) and "'kDuration': " in text:
            return Match(Score.DIALECT, f"has kernels of pyprof.parse (line {number})")
        if "Sil(ns)" in text and _table(text):
            return Match(Score.DIALECT, f"has the headings of pyprof.prof (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each kernel. A line that can't be understood is skipped and reported."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    table: tuple[list[str], Cells] | None = None
    for line in lines:
        text = line.text
        if not text.strip():
            lines.structure()
        elif text.startswith(_BEGIN):
            _take(lines, _add_literal(text, rows), cut=lines.is_open and not text.rstrip().endswith("}"))
        elif "Sil(ns)" in text and (parsed := _table(text)):
            table = parsed
            lines.structure()
        elif table:
            headings, split = table
            cells = split(text)
            fits = cells is not None and len(cells) == len(headings)
            problem = (
                _add_cells(dict(zip(headings, cells or (), strict=False)), rows)
                if fits
                else "not as many cells as headings"
            )
            _take(lines, problem, cut=lines.is_open and not fits)
        yield from rows.ready()
    rows.fact("source", facts={"tool": "PyProf"})
    yield from rows.rest()


def _take(lines: Lines, problem: str | None, *, cut: bool) -> None:
    if problem is None:
        lines.used()
    else:
        lines.skip("cut" if cut else "bad-record", problem)


def _table(text: str) -> tuple[list[str], Cells] | None:
    """The headings of a table, and what splits its lines; None for another line."""
    if text.startswith('"'):
        headings, split = _quoted(text) or [], _quoted
        return (headings, split) if _are_headings(headings) else None
    words = [(word.start(), word[0]) for word in re.finditer(r"\S+", text)]
    headings = [_CUT.get(word, word) for _, word in words]
    if not _are_headings(headings):
        return None
    if text == " ".join(headings):
        return headings, lambda line: line.split(" ")
    begins = [begin for begin, _ in words]
    places = zip(headings, begins, [*begins[1:], 0], strict=True)
    widths = [_WIDTHS[heading] or max(end - begin - 1, 0) for heading, begin, end in places]
    return headings, lambda line: _columnated(line, headings, widths)


def _are_headings(words: list[str]) -> bool:
    return (
        "Sil(ns)" in words
        and len(words) > 1
        and len(set(words)) == len(words)
        and all(word in _WIDTHS for word in words)
    )


def _quoted(text: str) -> list[str] | None:
    """The cells of CSV: each is in quotes, and quotes within aren't doubled."""
    text = text.rstrip()
    return text[1:-1].split('","') if len(text) > 1 and text[0] == text[-1] == '"' else None


def _columnated(text: str, headings: list[str], widths: list[int]) -> list[str] | None:
    """The cells of columns: texts have their width exactly, numbers at least."""
    cells, at = [], 0
    for heading, width in zip(headings, widths, strict=True):
        end = at + width
        if heading in _NUMBERS:
            begin = at + len(text[at:]) - len(text[at:].lstrip(" "))
            blank = text.find(" ", begin)
            end = max(end, len(text) if blank < 0 else blank)
        elif not width:
            end = len(text)
        cells.append(text[at:end].strip())
        if text[end : end + 1] not in ("", " "):
            return None
        at = end + 1
    return cells


def _add_cells(cells: dict[str, str], rows: RowBuilder) -> str | None:
    """Adds a kernel of a table; returns what is wrong with it."""
    given = {heading: cell for heading, cell in cells.items() if cell not in _NO_VALUE}
    took = _number(given.pop("Sil(ns)", ""))
    if type(took) is not int or not 0 <= took < _LIMIT:
        return "no time in Sil(ns)"
    name = given.pop("Kernel", None) or given.get("Op") or given.get("Module") or "?"
    columns: dict[str, Any] = {"layer": given.pop("Layer", None)}
    for key in ("Grid", "Block"):
        parts = [_number(part) for part in given.get(key, "").split(",")]
        if _is_extent(parts):
            del given[key]
            columns |= _extent(key.lower(), parts)
    args = {key: cell if key in ("SeqId", "AltSeqId") else _number(cell) for key, cell in given.items()}
    columns |= {key.lower(): number for key in ("Device", "Stream") if (number := _ordinal(args, key)) is not None}
    _kernel(rows, name, took, args=args, **columns)
    return None


def _number(text: str) -> int | float | str:
    """A whole number, or one with decimals as `140000.0`; other text unchanged."""
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,40}\.\d{1,40}(?:e[+-]\d{1,2})?", text) else text


def _add_literal(text: str, rows: RowBuilder) -> str | None:
    """Adds a kernel of pyprof.parse; returns what is wrong with it."""
    record = literal(text)
    if not isinstance(record, dict):
        return "not a dict of plain values"
    record = {key: value for key, value in record.items() if type(key) is str}
    took, short, name = (record.pop(key, None) for key in ("kDuration", "kShortName", "kLongName"))
    if type(took) is not int or not 0 <= took < _LIMIT:
        return "no kDuration in ns"
    if type(short) is not str or not short:
        return "no kShortName"
    columns: dict[str, Any] = {"short_name": short}
    layer = record.pop("layer", None)
    if isinstance(layer, list) and layer:
        columns["layer"] = ":".join(map(str, layer))
    columns |= {key: number for key in ("device", "stream") if (number := _ordinal(record, key)) is not None}
    for key in ("grid", "block"):
        if _is_extent(record.get(key)):
            columns |= _extent(key, record.pop(key))
    args = {key: _plain(value) for key, value in record.items() if value not in (None, [], ())}
    _kernel(rows, name if type(name) is str and name else short, took, args=args, **columns)
    return None


def literal(text: str) -> Any:
    """The value of a literal of texts, numbers and brackets; None for all other text."""
    at = depth = 0
    while at < len(text) <= _LONGEST:
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        depth += bool(token["open"]) - bool(token["close"])
        if depth > _DEEPEST:
            return None
        at = token.end()
    try:
        return ast.literal_eval(text.strip()) if at == len(text) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple, set)) else value


def _ordinal(record: dict[str, Any], key: str) -> int | None:
    """The number of a device or stream, which is taken out of the record."""
    number = as_int64(record.get(key), 0, _LIMIT)
    if number is not None:
        del record[key]
    return number


def _is_extent(parts: Any) -> bool:
    return (
        isinstance(parts, (list, tuple)) and len(parts) == 3 and all(type(p) is int and 0 <= p < _LIMIT for p in parts)
    )


def _extent(key: str, parts: Any) -> dict[str, int]:
    return {f"{key}_{axis}": part for axis, part in zip("xyz", parts, strict=True)}


def _kernel(rows: RowBuilder, name: str, took: int, **columns: Any) -> None:
    rows.summary("kernel", name, unit="ns", count=1, total=float(took), table=0, scope=["kernels"], **columns)


FORMAT = Format(
    "pyprof",
    "PyProf: kernels of PyTorch with their operators, by pyprof.parse or pyprof.prof",
    patterns=("*.dict", "*.csv", "*.txt"),
    probe=probe,
    read=read,
    words=("{'kshortname'", "sil(ns)"),
)
