"""JSON Schemas of what tools take and answer."""

from __future__ import annotations

from typing import Any

from ktrace.analysis.mcp.paging import BYTES, LEAST_BYTES, MOST_BYTES, MOST_ROWS, ROWS

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
    "rows": number(f"At most so many rows of each table; {ROWS} by default.", 1, MOST_ROWS),
    "bytes": number(f"At most so many bytes; {BYTES} by default.", LEAST_BYTES, MOST_BYTES),
    "cursor": text("The next of a table in an earlier answer, to go on there."),
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
        "next": {"type": ["string", "null"], "description": "The cursor to go on with, null at the end."},
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
    verdict=texts("The findings in at most three sentences."),
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
    bytes=number("Its size; of a folder that of all files."),
)
