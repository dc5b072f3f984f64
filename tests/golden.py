"""What each sample becomes, written down once and checked by hand: `python -m tests.golden --format mlc`.

tests/golden_rows/<format>.json contains, for every sample of a format, the account of its records, its skips, and
figures of its rows: how many by record and kind, their names, first and last time, sums. tests/test_contract.py
compares. Where a change of a reader changes them, it is either a fault, or this script writes them anew and the diff of
the file is reviewed.

Skips aren't taken over silently: records that are left out without a declaration are an error, and `--accept-skips`
declares them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktrace.input.format import builtin_formats
from ktrace.input.source import MAPPING_SUFFIX
from ktrace.pipeline.read import read_batches
from ktrace.report import Report, Severity
from ktrace.trace.trace import Trace

TESTS = Path(__file__).parent
SAMPLES = TESTS.parent / "samples"
ROWS = TESTS / "golden_rows"

#: Record -> the columns that part its rows, and those that are added up.
FIGURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "events": (("kind",), ("dur", "value", "bytes")),
    "summaries": (
        ("kind", "metric"),
        ("count", "total", "avg", "median", "min", "max", "stddev", "p95", "p99", "value", "percent", "bytes"),
    ),
    "links": (("link", "role"), ()),
    "catalog": (("entity",), ()),
}

#: Distinct names of a kind that are listed; of others only how many they are.
NAMES = 16


def read(path: Path, name: str) -> Trace:
    """The sample as its reader gives it."""
    report = Report()
    return Trace(read_batches([str(path)], report, format=name), report)


def golden(trace: Trace) -> dict[str, Any]:
    """The account and the figures of a sample, as plain values."""
    report = trace.report
    skipped = skips(report)
    outcomes = {name: count for name, count in sorted(report.reader.removed.items()) if name not in skipped}
    return {
        "records": {"read": report.reader.taken, "used": report.reader.given, **outcomes},
        "skips": skipped,
        "notes": {kind: it.rows for kind, it in sorted(report.issues.items()) if it.severity < Severity.SKIP},
        "rows": {
            key: figures for record, table in trace.to_arrow().items() for key, figures in _kinds(record, table).items()
        },
    }


def skips(report: Report) -> dict[str, int]:
    """Kind of issue -> how many records were left out, or 0 for an input that ends too early."""
    return {kind: it.rows for kind, it in sorted(report.issues.items()) if it.severity >= Severity.SKIP}


def _kinds(record: str, table: pa.Table) -> dict[str, dict[str, Any]]:
    """`events kernel` -> the figures of these rows."""
    parted: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    by, sums = FIGURES[record]
    wanted = [name for name in (*by, "name", "ts", *sums) if name in table.column_names]
    for row in table.select(wanted).to_pylist():
        parted[" ".join([record, *(str(row[name]) for name in by)])].append(row)
    return {key: _figures(rows, sums) for key, rows in sorted(parted.items())}


def _figures(rows: list[dict[str, Any]], sums: tuple[str, ...]) -> dict[str, Any]:
    figures: dict[str, Any] = {"rows": len(rows)}
    names = list(dict.fromkeys(row["name"] for row in rows if row.get("name") is not None))
    if names:
        figures["names"] = names[:NAMES]
    if len(names) > NAMES:
        figures["distinct"] = len(names)
    times = [row["ts"] for row in rows if row.get("ts") is not None]
    if times:
        figures |= {"first": min(times), "last": max(times)}
    for name in sums:
        values = [row[name] for row in rows if row.get(name) is not None]
        finite = [value for value in values if math.isfinite(value)]
        if values:
            figures[name] = sum(values) if all(isinstance(value, int) for value in values) else math.fsum(finite)
    return figures


def samples_of(name: str) -> list[Path]:
    return sorted(path for path in (SAMPLES / name).glob("*") if not path.name.endswith(MAPPING_SUFFIX))


def file_of(name: str) -> Path:
    return ROWS / f"{name}.json"


def load(name: str) -> dict[str, Any]:
    """Sample -> what is written down of it; empty where nothing is."""
    known: dict[str, Any] = json.loads(file_of(name).read_text("utf-8")) if file_of(name).exists() else {}
    return known


def text(found: dict[str, Any]) -> str:
    """The file of a format: a line for each kind of row."""
    blocks = []
    for sample, it in sorted(found.items()):
        lines = [f"  {_json(key)}: {_json(it[key])}" for key in ("records", "skips", "notes")]
        rows = ",\n".join(f"   {_json(key)}: {_json(figures)}" for key, figures in it["rows"].items())
        blocks.append(f" {_json(sample)}: {{\n" + ",\n".join([*lines, f'  "rows": {{\n{rows}\n  }}\n }}']))
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> int:
    """Writes the files; the exit code says whether a sample has skips that aren't declared."""
    readers = list(dict.fromkeys(fmt.name for fmt in builtin_formats() if fmt.reads and not fmt.closed))
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--format", nargs="+", choices=readers, default=readers, metavar="NAME")
    parser.add_argument("--accept-skips", action="store_true", help="declare the records that are left out now")
    asked = parser.parse_args(arguments)
    refused = 0
    for name in asked.format:
        known, found = load(name), {}
        for path in samples_of(name):
            it = golden(read(path, name))
            declared = known.get(path.name, {"skips": {}})["skips"]
            if it["skips"] != declared and not asked.accept_skips:
                print(f"{name}/{path.name}: leaves out {it['skips']}, declared are {declared}: --accept-skips?")
                refused += 1
                if path.name in known:
                    found[path.name] = known[path.name]
                continue
            found[path.name] = it
        ROWS.mkdir(exist_ok=True)
        file_of(name).write_text(text(found), "utf-8")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
