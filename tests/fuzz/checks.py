"""Looks at accounts and outputs without the code that made them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.report import Report

#: Records that are rows; those of the catalog aren't counted as written.
_ROWS = ("events", "summaries", "links", "event", "summary", "link")


def unbalanced(report: Report) -> str:
    """Returns what doesn't add up in an account, computed from its figures, or nothing."""
    account = report.to_dict()
    chain = account["chain"]
    for entry in chain:
        given = entry["in"] + sum(entry["added"].values()), entry["out"] + sum(entry["removed"].values())
        if given[0] != given[1] or min(entry["in"], entry["out"], *entry["removed"].values(), 0) < 0:
            return f"unbalanced: {entry['stage']} took {given[0]} and accounts for {given[1]}"
    rows = sum(account["rows"].get(record, 0) for record in ("events", "summaries", "links"))
    for entry in chain[1:]:
        if entry["in"] != rows:
            return f"unbalanced: {entry['stage']} took {entry['in']} of {rows} rows"
        rows = entry["out"]
    read = chain[0]["in"] - chain[0]["removed"].get("structure", 0)
    if account["read"] != read or account["written"] != rows or not account["balanced"]:
        return f"unbalanced: read {account['read']} of {read}, wrote {account['written']} of {rows}"
    return ""


def check_output(fmt: str, path: Path, report: Report) -> str:
    """Returns a fault of an output: nobody else can read it, or it hasn't as many rows as the account says."""
    if not path.exists() or (not path.stat().st_size and fmt != "folded"):  # slices of 0 ns leave no line
        return "unreadable output: there is none"
    try:
        rows = _rows(fmt, path)
    except Exception as error:  # of any library
        return f"unreadable output: {fmt}: {type(error).__name__}: {error}"
    if rows is not None and rows != report.written:
        return f"unbalanced: {fmt} has {rows} rows, the account says {report.written}"
    return ""


def _rows(fmt: str, path: Path) -> int | None:
    """Returns the number of rows in an output, None for one whose rows can't be counted without its writer."""
    match fmt:
        case "jsonl":
            return sum(_json(line).get("record") in _ROWS for line in path.read_text("utf-8").split("\n") if line)
        case "json":
            return sum(row["record"] in _ROWS for row in _json(path.read_text("utf-8"))["records"])
        case "csv":
            before = csv.field_size_limit(1 << 30)  # a damaged text may be as long as the file
            try:
                with path.open(encoding="utf-8", newline="") as file:
                    return sum(row["record"] in _ROWS for row in csv.DictReader(file))
            finally:
                csv.field_size_limit(before)
        case "parquet":
            return sum(value in _ROWS for value in pq.read_table(path).column("record").to_pylist())
        case "arrow":
            return sum(value in _ROWS for value in pa.ipc.open_file(path).read_all().column("record").to_pylist())
        case "chrome" | "speedscope" | "otlp":
            _json(path.read_text("utf-8"))
        case "perfetto":
            assert sum(1 for _ in _packets(path.read_bytes())) > 0
        case _:
            path.read_text("utf-8")
    return None


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, parse_int=str)  # numbers of any length are JSON


def _refuse(word: str) -> None:
    raise ValueError(f"{word} isn't JSON")


def _packets(data: bytes) -> Iterator[bytes]:
    """Yields the packets of a Perfetto trace."""
    at = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise ValueError(f"no packet at byte {at:,}")
        size, shift, at = 0, 0, at + 1
        while True:
            size |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
        if at + size > len(data):
            raise ValueError("the last packet ends behind the file")
        yield data[at : at + size]
        at += size
