"""What tools answer: tables within limits, at most so many rows each, and so many bytes together; where to go on.

    Page(rows=2, bytes=4000).document([table])

    {"tables": [{"name": "kernel", "columns": ["kernel", "time_ns"], "rows": [["gemm", 1200], ["norm", 300]],
                 "more": 11, "next": "kernel:2"}], "notes": []}

Figures have the digits that they deserve (`ktrace.tables.rounded`); long texts are cut in the middle. JSON
Schemas describe what tools take and answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ktrace.errors import UsageError
from ktrace.tables import Cell, Limits, Table, fitted, plain, rounded, shortened

#: Rows of a table and bytes of an answer without a limit, and at most.
ROWS, MOST_ROWS = 20, 1_000
BYTES, LEAST_BYTES, MOST_BYTES = 16_000, 1_000, 1_000_000

#: Characters of a text.
_LONGEST = 1_000

#: What no encoding of text has: halves of characters, as JSON may state them.
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Page:
    """The limits of an answer, and the cursor to go on from: the `next` of a table."""

    rows: int = ROWS
    bytes: int = BYTES
    cursor: str | None = None

    @property
    def place(self) -> tuple[str | None, int]:
        """The table of the cursor, and the place of the row to go on with. Raises UsageError."""
        return Limits(after=self.cursor).cursor()

    def document(self, tables: Iterable[Table], notes: Iterable[str] = ()) -> dict[str, Any]:
        """The tables for JSON; with a cursor that table alone.

        Raises UsageError for a cursor that isn't of them, and where the limit of bytes is too small.
        """
        cut = Limits(rows=self.rows, after=self.cursor).select(list(tables))
        return self._fitted(cut, list(notes) if self.cursor is None else [])

    def part(self, table: Table, count: int, notes: Sequence[str] = ()) -> dict[str, Any]:
        """One table for JSON, which has the rows from the cursor on, of `count`. Raises UsageError as `document`."""
        begin = self.place[1]
        end = begin + len(table.rows)
        more = f"{table.key}:{end}" if end < count else ""
        return self._fitted([replace(table, begin=begin, more=max(count - end, 0), next=more)], notes)

    def _fitted(self, tables: Sequence[Table], notes: Sequence[str]) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(fitted(tables, lambda some: as_text(_document(some, notes)), self.bytes))
        return document


def _document(tables: Sequence[Table], notes: Sequence[str]) -> dict[str, Any]:
    sentences = {one.key: [row[0] for row in one.rows] for one in tables if one.sentences}
    of_tables = [note for one in tables if not one.begin for note in one.notes]
    return {
        **sentences,
        "tables": [_shown(one) for one in tables if not one.sentences],
        "notes": list(dict.fromkeys([*notes, *of_tables])),
    }


def _shown(table: Table) -> dict[str, Any]:
    units = [column.unit for column in table.columns]
    return {
        "name": table.key,
        "columns": [column.key for column in table.columns],
        "rows": [[_cell(cell, unit) for cell, unit in zip(row, units, strict=True)] for row in table.rows],
        "more": table.more,
        "next": table.next or None,
    }


def _cell(cell: Cell, unit: str) -> Cell:
    value = plain(cell)
    if isinstance(value, str):
        return shortened(value, _LONGEST)
    return value if unit == "exact" else rounded(value, unit)


def as_text(document: dict[str, Any]) -> str:
    """An answer as JSON in a line."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def require_text(arguments: dict[str, Any]) -> None:
    """Raises UsageError for arguments that no program can write as JSON, and so as a path or SQL."""
    try:
        text = json.dumps(arguments, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise UsageError("the arguments are nested too deeply, or have a number of thousands of digits") from None
    if _HALF.search(text):
        raise UsageError("a text contains half a character (a lone surrogate)", expected="Unicode")


def sendable(document: dict[str, Any]) -> dict[str, Any]:
    """An answer whose texts can be encoded: half a character, of a name that isn't text, is the sign for that."""
    text = as_text(document)
    if not _HALF.search(text):
        return document
    answer: dict[str, Any] = json.loads(_HALF.sub("\N{REPLACEMENT CHARACTER}", text))
    return answer


def cut(value: Any) -> Any:
    """A document with its long texts cut in the middle."""
    if isinstance(value, dict):
        return {key: cut(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(cut, value))
    return shortened(value, _LONGEST) if isinstance(value, str) else value


def named(tables: Iterable[Table], pattern: str | None) -> list[Table]:
    """The tables with those rows whose first cell has the text or matches the pattern (`*gemm*`), whatever its case."""
    if not pattern:
        return list(tables)
    whole = pattern.lower() if any(mark in pattern for mark in "*?[") else f"*{pattern.lower()}*"

    def fits(row: tuple[Cell, ...]) -> bool:
        return fnmatchcase(str(row[0]).lower(), whole)

    return [replace(one, rows=list(filter(fits, one.rows))) for one in tables]


Schema = dict[str, Any]


def text(about: str) -> Schema:
    """A text."""
    return {"type": "string", "description": about}


def number(about: str, least: int | None = None, most: int | None = None) -> Schema:
    """A whole number."""
    limits = {"minimum": least, "maximum": most}
    given = {key: value for key, value in limits.items() if value is not None}
    return {"type": "integer", "description": about, **given}


def texts(about: str, words: list[str] | None = None) -> Schema:
    """A list of texts, perhaps of these words."""
    return {"type": "array", "items": {"type": "string", **({"enum": words} if words else {})}, "description": about}


HANDLE = text("The handle that open returned.")

#: The limits of an answer, which tools that answer tables take.
PAGE: Schema = {
    "rows": number(f"The most rows per table; {ROWS} by default.", 1, MOST_ROWS),
    "bytes": number(f"The most bytes of the answer; {BYTES} by default.", LEAST_BYTES, MOST_BYTES),
    "cursor": text("`next` of a table in an earlier answer, to continue there."),
}

_NUMBERS: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}

ERROR: Schema = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in ("kind", "message", "file", "place", "expected", "remedy")},
    "required": ["kind", "message"],
}

_TABLE: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "columns": texts("Keys, which end in the unit: time_ns, share_percent."),
        "rows": {"type": "array", "items": {"type": "array"}, "description": "Cells in the order of the columns."},
        "more": number("Rows that were left out after these.", 0),
        "next": {"type": ["string", "null"], "description": "The cursor to continue with, null at the end."},
    },
    "required": ["name", "columns", "rows", "more", "next"],
}


def arguments(required: tuple[str, ...], properties: Schema) -> Schema:
    """The schema of arguments; others aren't allowed."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def answer(**properties: Schema) -> Schema:
    """The schema of an answer: these properties, all of them, or an error."""
    return {
        "type": "object",
        "properties": properties | {"error": ERROR},
        "anyOf": [{"required": list(properties)}, {"required": ["error"]}],
    }


#: Tables and notes; a summary also has its verdict.
TABLES = answer(tables={"type": "array", "items": _TABLE}, notes=texts("What the figures mean or lack."))

OPENED = answer(
    handle=text("Names the trace in other calls."),
    format=texts("The format of each input."),
    sources=texts("The sources: ranks, processes of a profiler."),
    rows=_NUMBERS,
    span={"type": ["object", "null"], "properties": {"begin_ns": {"type": "integer"}, "end_ns": {"type": "integer"}}},
    devices=texts("The devices that did work."),
    steps=texts("The steps of the profiler or the training loop."),
    phases=texts("The phases of inference."),
    notes=texts("What the figures mean or lack; what was repaired or left out."),
)

FINDINGS = answer(
    verdict=texts("The findings in a few sentences."),
    findings={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "metric": {"type": "string"}, "unit": {"type": "string"}},
            "required": ["code", "metric", "value", "unit", "evidence"],
        },
    },
    notes=texts("What the figures mean or lack."),
)

EXPORTED = answer(
    path=text("The file that was written."),
    format=text("Its format."),
    rows=number("The rows that were written."),
    bytes=number("Its size; for a folder, that of all its files."),
)
