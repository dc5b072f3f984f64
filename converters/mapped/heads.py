"""Looks at the head of a file: JSON objects, or the line that has the headings of a table."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import msgspec

from ktrace.errors import InputError
from ktrace.input.mapping import ColumnMap
from ktrace.input.source import Sample
from ktrace.kit.columnar.csv_headings import SEPARATORS, Dialect, headings_of
from ktrace.model.json_text import NOT_JSON

from .fields import count_found, resolved
from .json_lines import Record, paths_in

#: Lines of the head that are looked at for headings, and objects whose keys are collected.
_LINES, _OBJECTS = 400, 200


@dataclass(frozen=True)
class Head:
    """The columns of a table: their names, the line of the headings, the dialect; None for JSON lines."""

    columns: tuple[str, ...]
    line: int
    dialect: Dialect | None

    @property
    def where(self) -> str:
        """The place of the columns, for messages."""
        return f"line {self.line}" if self.dialect else "its first objects"


def is_json(sample: Sample) -> bool:
    """Whether the file consists of JSON objects, one to a line, rather than of cells with separators."""
    return next((line.startswith("{") for line in sample.lines if line.strip()), sample.head.startswith(b"{"))


def objects(sample: Sample) -> Iterator[Record]:
    """Yields the first objects of the head."""
    decode = msgspec.json.Decoder(Record).decode
    for line in sample.lines[:_OBJECTS]:
        try:
            yield decode(line.encode())
        except NOT_JSON:
            continue


def _keys(sample: Sample) -> Head | None:
    """Returns the keys of JSON lines, None if no line is an object."""
    keys = dict.fromkeys(key for record in objects(sample) for key in paths_in(record))
    return Head(tuple(keys), 1, None) if keys else None


def head_for(mapping: ColumnMap, sample: Sample, path: str) -> Head:
    """Returns the columns that a mapping names, or else those of the line that has most of them.

    Raises InputError for a file without any table.
    """
    best: tuple[int, Head] | None = None
    if is_json(sample):
        if keys := _keys(sample):
            return keys
        raise no_table(path)

    def recognise(cells: list[str]) -> bool | None:
        return True if not isinstance(resolved(mapping, cells), str) else None

    for number, line in enumerate(sample.lines or [sample.text or ""], 1):
        if found := headings_of(line, cast("object", recognise)):  # type: ignore[arg-type]
            return Head(tuple(found[0]), number, found[2])
        if number > _LINES:
            continue
        for separator in SEPARATORS:
            cells = _cells(line, separator) if separator in line else []
            score = count_found(mapping, cells) if len(cells) > 1 else 0
            if len(cells) > 1 and (best is None or score > best[0]):
                best = score, Head(tuple(cells), number, Dialect(separator, False))
    if best is None:
        raise no_table(path)
    return best[1]


def no_table(path: str) -> InputError:
    """Returns the error that a file has no table."""
    return InputError(
        "has no table that a mapping could describe",
        path=path,
        expected="headings and rows separated by commas, tabs or semicolons, or a JSON object in each line",
        remedy="ktrace info FILE shows what it is",
    )


def first_table(sample: Sample) -> Head | None:
    """Returns the columns of the first line with headings: words, followed by a row with as many cells."""
    if is_json(sample):
        return _keys(sample)
    lines = sample.lines[:_LINES]
    for number, line in enumerate(lines[:-1], 1):
        for separator in SEPARATORS:
            if separator not in line:
                continue
            cells, below = _cells(line, separator), _cells(lines[number], separator)
            words = [cell for cell in cells if cell and not cell[0].isdigit() and cell[0] not in "+-."]
            if len(cells) > 1 and len(words) == len(cells) and len(below) == len(cells):
                spaced = separator != "\t" and f"{separator} " in line
                return Head(tuple(cells), number, Dialect(separator, spaced))
    return None


def _cells(line: str, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]
    except csv.Error:
        return []
