"""Reads the tests of any output, one after the other, as fields by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import beginning, json_items, plain_value
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Text, read_tables
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from . import columns_of
from .results import Results

_INSERT = re.compile(r"\s*INSERT INTO (?:llama_bench|test) \((?P<fields>[\w, ]+)\) VALUES \((?P<values>.*)\);\s*")
_VALUE = re.compile(r"'(.*?)'(?:, (?=')|\Z)")
_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS (?:llama_bench|test) \(|  \w+ (?:TEXT|INTEGER|REAL),?|\);")
_LINE = re.compile(
    r"^(?:INSERT INTO|CREATE TABLE IF NOT EXISTS) (?:llama_bench|test) |^\{\"build_commit\":", re.MULTILINE
)
_BUILD = re.compile(r"build: (?P<commit>\w+) \((?P<number>\d+)\)")
_DEVICE = re.compile(r"\s*Device (?P<number>\d{1,4}): (?P<name>[^,]+), compute capability (?P<capability>\d+\.\d+)\b.*")

#: Fields that are texts, whatever they look like: a commit may be 12345678 or 8e427551.
_TEXTS = frozenset(
    (
        *("build_commit", "cpu_info", "gpu_info", "backends", "model_filename", "model_type"),
        *("cpu_mask", "devices", "tensor_split", "tensor_buft_overrides"),
    )
)

_INTEGER, _DECIMAL = re.compile(r"-?\d{1,19}"), re.compile(r"-?\d{1,18}\.\d{1,9}")

#: Bytes in which the first statement or the first object of a log is looked for.
_BEGINNING = 1 << 16


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a range and a metric for each test: the time of a repetition, and tokens/s."""
    rows = RowBuilder(conversion)
    results = Results(rows)
    begin = beginning(source, _BEGINNING)
    if begin.startswith("["):
        tests = _of_json(source, results, conversion.report)
    elif begin.startswith("{") or _LINE.search(begin):
        tests = _of_lines(Lines(source, conversion), results)
    else:
        tests = _of_tables(Lines(source, conversion), results, rows)
    for _ in tests:
        yield from rows.ready()
    results.facts()
    yield from rows.rest()


def _of_json(source: Source, results: Results, report: Report) -> Iterator[None]:
    for item in json_items(source, report):
        report.record()
        if item.problem:
            report.issue(item.problem, item.where, item.text[:80])
        elif not isinstance(item.value, dict):
            report.issue("bad-record", item.where, "not a test")
        elif problem := results.add({key: plain_value(value) for key, value in item.value.items()}):
            report.issue("bad-record", item.where, problem)
        else:
            report.used()
        yield


def _of_lines(lines: Lines, results: Results) -> Iterator[None]:
    """The tests of JSON Lines or SQL."""
    for line in lines:
        text = line.text
        if not text.strip() or _CREATE.fullmatch(text):
            lines.structure()
        elif text.lstrip().startswith(("{", "INSERT INTO ")):
            is_last = lines.peek() is None
            try:
                problem = results.add(_object(text) if text.lstrip().startswith("{") else _inserted(text))
            except (*NOT_JSON, ValueError) as error:
                lines.skip("cut" if is_last else "bad-record", str(error))
            else:
                lines.skip("bad-record", problem) if problem else lines.used()
        yield


def _object(text: str) -> dict[str, Any]:
    found = decode_document(text.encode())
    if not isinstance(found, dict):
        raise ValueError("not a test")
    return found


def _inserted(text: str) -> dict[str, Any]:
    """The fields of a statement, whose values are in quotes that nothing escapes. Raises ValueError for another."""
    found = _INSERT.fullmatch(text)
    if not found:
        raise ValueError("not a whole statement")
    names, values = found["fields"].split(", "), _VALUE.findall(found["values"])
    if len(names) != len(values):
        raise ValueError(f"{len(values)} values of {len(names)} fields")
    return _typed(names, values)


def _typed(names: Iterable[str], values: Iterable[str]) -> dict[str, Any]:
    """The fields of CSV or SQL with the types that they have in JSON, but 0 and 1 for booleans."""
    return {name: value if name in _TEXTS else _value(value) for name, value in zip(names, values, strict=True)}


def _value(text: str) -> int | float | str:
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _of_tables(lines: Lines, results: Results, rows: RowBuilder) -> Iterator[None]:
    """The tests of Markdown or CSV, and what a log says of build and devices around them."""
    for item in read_tables(lines, columns_of):
        if isinstance(item, Row):
            problem = _in_table(item, results)
            lines.skip("bad-record", problem) if problem else lines.used()
        elif isinstance(item, Text):
            if found := _BUILD.fullmatch(item.text.strip()):
                results.see({"build_commit": found["commit"], "build_number": found["number"]})
                lines.became("catalog")
            elif found := _DEVICE.fullmatch(item.text):
                facts = {"api": "cuda", "compute_capability": found["capability"]}
                rows.fact("device", device=int(found["number"]), name=found["name"], facts=facts)
                lines.became("catalog")
        yield


def _in_table(row: Row, results: Results) -> str | None:
    cells = {head.text: cell.strip() for head, cell in zip(row.table.headings, row.cells, strict=True)}
    fields = row.table.fields or {}
    if "rate" not in fields:
        return results.add(_typed(cells.keys(), cells.values()))
    printed = {row.table.headings[fields[field]].text for field in ("name", "model", "rate")}
    settings = {heading: cell for heading, cell in cells.items() if heading not in printed and cell}
    return results.add_printed(row.text("name"), row.text("model"), row.text("rate"), settings, row.table.ordinal)
