"""The five real logs through every output, against arithmetic of our own and the real engine."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import engine
import pytest
from nightly import few

import ktrace

Row = tuple[str, int]

UNITS = {"s": 10**9, "ms": 10**6, "μs": 10**3, "µs": 10**3, "us": 10**3, "ns": 1}


def doppler(text: str) -> list[Row]:
    """Rows of the reports and their TOTAL lines, which are drawn under the label of the report."""
    rows, label = [], ""
    for line in text.splitlines():
        if found := re.fullmatch(r"\[browser:warning\] \[[\d.]+ms\]\[Profile\] (.+\)):", line):
            label = found.group(1)
        elif found := re.fullmatch(r"(\S+)\s+(\d+\.\d\d)\s+\d+\.\d", line):
            name = label if found.group(1) == "TOTAL" else found.group(1)
            rows.append((name, int(Decimal(found.group(2)) * 10**6)))
    return rows


def metallic(text: str) -> list[Row]:
    """Every line with a total; the rows below a shape of a matmul have the shape before their name."""
    rows, shape = [], ""
    for line in text.splitlines():
        if found := re.fullmatch(r"  (op=.*):", line):
            shape = found.group(1) + " | "
        elif found := re.fullmatch(r"(  +)(.*): count=\d+ \| total=([\d.]+)ms .*", line):
            name = (shape if len(found.group(1)) > 2 else "") + found.group(2).split(" (count=")[0]
            rows.append((name, int(Decimal(found.group(3)) * 10**6)))
    return rows


def mlc(text: str) -> list[Row]:
    """Rows of the statistics tables, which have seven columns."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 7 and re.fullmatch(r"[\d.]+", cells[1]):
            rows.append((cells[0], int(Decimal(cells[1]) * 10**6)))
    return rows


def nsys(text: str) -> list[Row]:
    """Rows of both tables: the second cell is the total, the last the name."""
    rows = []
    for line in text.splitlines():
        cells = line.split("\t")
        if found := re.fullmatch(r"([\d.]+) (s|ms|μs|µs|us|ns)", cells[1] if len(cells) > 3 else ""):
            rows.append((cells[-1].strip(), int(Decimal(found.group(1)) * UNITS[found.group(2)])))
    return rows


TOTALS = {0: doppler, 1: metallic, 2: mlc, 4: nsys}


def wanted(seed: Any, number: int) -> list[Row]:
    rows = TOTALS[number](seed(number).read_text("utf-8"))
    assert len(rows) == {0: 9149 + 65, 1: 155, 2: 22 + 22 + 21, 4: 202}[number]
    return rows


def without_points(rows: list[Row]) -> Counter[Row]:
    return Counter(row for row in rows if row[1])


@pytest.mark.parametrize("number", TOTALS)
def test_tables_hold_every_row_to_the_nanosecond(seed: Any, number: int, tmp_path: Path) -> None:
    rows = Counter(wanted(seed, number))
    for name in ("o.parquet", "o.csv", "o.jsonl"):
        ktrace.convert(seed(number), tmp_path / name)
    sql = f"select name, total::bigint from '{tmp_path}/o.parquet' where record = 'summary' and total is not null"
    assert Counter(duckdb.sql(sql).fetchall()) == rows
    with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as file:
        found = [(row["name"], int(Decimal(row["total"]))) for row in csv.DictReader(file) if row["total"]]
    assert Counter(found) == rows
    lines = map(json.loads, (tmp_path / "o.jsonl").read_text("utf-8").splitlines())
    assert Counter((line["name"], int(line["total"])) for line in lines if "total" in line) == rows


@pytest.mark.parametrize("number", TOTALS)
@pytest.mark.parametrize("name", ["o.perfetto", "o.trace.json"])
def test_the_engine_finds_every_row_on_the_timeline(seed: Any, number: int, name: str, tmp_path: Path) -> None:
    rows = wanted(seed, number)
    ktrace.convert(seed(number), tmp_path / name)
    slices, totals, timings, faults = engine.query(
        tmp_path / name,
        "select name, dur from slice where dur > 0",
        "select s.name, a.int_value as total from slice s join args a using (arg_set_id) "
        "where a.key in ('debug.total_ns', 'args.total_ns') and a.int_value is not null",
        "select a.string_value as timing, count(*) as rows from slice s join args a using (arg_set_id) "
        "where a.key in ('debug.timing', 'args.timing') and s.dur > 0 group by 1",
        engine.FAULTS,
    )
    assert faults == []
    assert Counter((row["name"], row["total"]) for row in totals) == Counter(rows)
    drawn = Counter((row["name"], row["dur"]) for row in slices)
    # A total is drawn as wide as what stands in it where rounding made it smaller.
    differing = without_points(rows) - drawn
    assert all(label.startswith(("Prefill", "Batch decode")) for label, _ in differing), differing
    assert sum(drawn.values()) == sum(without_points(rows).values())
    assert timings == [{"timing": "synthetic", "rows": sum(drawn.values())}]


@pytest.mark.parametrize("number", few(range(5), lambda number: number > 0))  # the first is the longest
def test_every_output_of_a_seed_adds_up_and_loads(seed: Any, number: int, tmp_path: Path) -> None:
    for name in (
        "o.perfetto",
        "o.pftrace",
        "o.trace.json",
        "o.trace.json.gz",
        "o.jsonl",
        "o.json",
        "o.parquet",
        "o.csv",
    ):
        assert ktrace.convert(seed(number), tmp_path / name).balanced()
    for name in ("o.perfetto", "o.trace.json.gz"):
        assert engine.errors(tmp_path / name) == []


def test_the_decode_of_seed_0_takes_its_forty_seconds(seed: Any, tmp_path: Path) -> None:
    """Each report ends at the time of its own log line, and no report reaches back into the one before."""
    text = seed(0).read_text("utf-8")
    ends = [int(Decimal(ms) * 10**6) for ms in re.findall(r"\[([\d.]+)ms\]\[Profile\] GPU Profile Report", text)]
    ktrace.convert(seed(0), tmp_path / "o.perfetto")
    sql = "select ts, dur from slice where name glob 'Prefill*' or name glob 'Batch decode*' order by ts"
    (reports,) = engine.query(tmp_path / "o.perfetto", sql)
    reports = [row for row in reports if row["dur"] > 10**6]
    assert [row["ts"] + row["dur"] for row in reports] == ends
    assert all(before["ts"] + before["dur"] <= after["ts"] for before, after in pairwise(reports))
    decoding = reports[-1]["ts"] + reports[-1]["dur"] - reports[0]["ts"] - reports[0]["dur"]
    assert 40 < decoding / 10**9 < 41


def test_seed_3_is_drawn_by_shares_of_the_cycle(seed: Any, tmp_path: Path) -> None:
    """oncpu took 162.78 % of a cycle of 631,394.91 us in one run, 156.42 % of 38,515.56 us in the other."""
    ktrace.convert(seed(3), tmp_path / "o.perfetto")
    (slices,) = engine.query(tmp_path / "o.perfetto", "select dur from slice where name = 'oncpu' order by dur desc")
    assert [row["dur"] for row in slices] == [
        round(Decimal("162.78") * Decimal("631394.91") * 10),
        round(Decimal("156.42") * Decimal("38515.56") * 10),
    ]
