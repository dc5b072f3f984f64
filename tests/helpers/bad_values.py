"""Conversions of files with bad values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ktrace
from ktrace.model.json_text import load_json
from ktrace.report import Report

#: More digits than Python parses at once.
DIGITS = "9" * 5000

#: Lists in lists, more than fit in a stack of 8 MB: Python 3.14 counts its bytes, older ones a thousand calls.
DEEP = "[" * 100_000 + "]" * 100_000

OUTPUTS = ("jsonl", "perfetto", "trace.json", "parquet", "csv", "otlp.json")


def converted(path: Path, out: str = "jsonl") -> tuple[Report, list[dict[str, Any]]]:
    """The account of a conversion, which balances, and the rows of JSON Lines."""
    target = path.parent / f"out.{out}"
    report = ktrace.convert(path, target, overwrite=True)
    assert report.balanced()
    if out != "jsonl":
        return report, []
    return report, [load_json(line) for line in target.read_text("utf-8").splitlines()[1:]]


def details(report: Report, kind: str) -> list[str]:
    return [detail for _, detail in report.issues[kind].places]
