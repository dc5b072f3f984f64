"""Metallic's analysis text: the real seed 001 against a parser of our own, and older spellings in our samples."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace

NESTED = SAMPLES / "metallic" / "repeated-and-nested-totals.txt"
OLDER = SAMPLES / "metallic" / "two-runs-and-older-spellings.txt"


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = ktrace.read(path).to_arrow()["summaries"].to_pylist()
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in rows]


def printed(path: Path) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Section -> its rows as (name, figures as text), by splitting at the words of the format."""
    sections: dict[str, list[tuple[str, dict[str, str]]]] = {}
    rows: list[tuple[str, dict[str, str]]] = []
    for line in path.read_text("utf-8").splitlines():
        if re.match(r"\S.*:$", line):
            rows = sections[line[:-1]] = []
        elif line.endswith(": no samples"):
            rows.append((line.strip()[: -len(": no samples")], {}))
        elif ": count=" in line:
            name, figures = line.strip().rsplit(": count=", 1)
            found = re.findall(r"(\w+)=([\d.]+)", "count=" + figures)
            rows.append((name, {key.removesuffix("_ms"): value for key, value in found}))
    return sections


def test_the_seed_has_every_row_of_every_section(seed: Any) -> None:
    path = seed(1)
    sections = printed(path)
    assert len(sections) == 15
    assert [len(rows) for rows in sections.values()] == [11, 1, 1, 1, 3, 20, 33, 20, 15, 1, 1, 20, 20, 20, 1]
    read = [row for row in rows_of(path) if row["scope"]]
    assert len(read) == 168
    expected = [
        (table, section, {key: Decimal(value) for key, value in figures.items()})
        for table, (section, rows) in enumerate(sections.items())
        for _, figures in rows
    ]
    for row, (table, section, figures) in zip(read, expected, strict=True):
        assert (row["table"], row["scope"], row["run"]) == (table, [section], "prof-metallic-throughput-fp16")
        if "count" in figures:
            assert row["count"] == figures.pop("count")
        for column in ("total", "avg", "min", "max", "p95", "p99"):
            assert row[column] == (float(figures.pop(column) * 10**6) if column in figures else None)
        assert not figures


def test_names_of_the_seed_are_whole(seed: Any) -> None:
    path = seed(1)
    read = [row for row in rows_of(path) if row["scope"]]
    names = [(section, name) for section, rows in printed(path).items() for name, _ in rows]
    for row, (section, name) in zip(read, names, strict=True):
        if section == "Event type summary":
            assert f"{row['name']} (count={row['count']})" == name
        elif section == "Matmul shape backend summary":
            assert row["name"].endswith(f" | {name}")
        else:
            assert row["name"] == name


def test_every_line_of_the_seed_is_accounted_for(seed: Any) -> None:
    report = ktrace.read(seed(1)).report
    assert report.balanced()
    assert not report.issues
    # 168 rows and the number of events; 15 section titles, 20 shapes, blank lines; the title went to the catalog
    blank = sum(not line.strip() for line in seed(1).read_text("utf-8").splitlines())
    assert report.reader.taken == 221
    assert report.reader.given == 169
    assert dict(report.reader.removed) == {"structure": 15 + 20 + blank, "catalog": 1}


def test_device_time_of_the_seed_is_counted_once(seed: Any) -> None:
    path = seed(1)
    kernels = [row for row in rows_of(path) if row["kind"] == "kernel"]
    by_type = printed(path)["GPU kernel aggregate (by kernel type)"]
    assert [row["name"] for row in kernels] == [name for name, _ in by_type]
    assert sum(row["total"] for row in kernels) == float(sum(Decimal(f["total"]) for _, f in by_type) * 10**6)


def test_fields_of_the_matmul_rows_of_the_seed(seed: Any) -> None:
    rows = [row for row in rows_of(seed(1)) if row["scope"] == ["Matmul shape backend summary"]]
    assert len(rows) == 20
    assert rows[2]["args"] == {
        **{"op": "matmul", "batch": 1, "m": 1, "n": 151936, "k": 896, "tA": 0, "tB": 1},
        "backend": "gemv",
    }
    (pair,) = (row for row in rows_of(seed(1)) if row["scope"] == ["Matmul op/backend summary"])
    assert pair["args"] == {"op": "matmul", "backend": "gemv"}


def test_kinds_names_and_layers_of_a_sample() -> None:
    rows = {(row["table"], row["name"]): row for row in rows_of(NESTED)}
    kinds = {name: row["kind"] for (_, name), row in rows.items()}
    assert kinds["forward_cpu_block_0"] == "op"
    assert {row["kind"] for (_, name), row in rows.items() if "iteration_total" in name} == {"range"}
    assert kinds["Unscoped/cb_wait"] == "sync"
    assert kinds["Unscoped/cb_gpu"] == "range"
    assert kinds["GpuOpCompleted"] == "total"
    assert rows[3, "generation_loop :: block_0_total"]["args"] == {"parent": "generation_loop", "op": "block_0_total"}
    assert rows[5, "Generation Loop/block_3/op/metallic::kernels::rope::RoPEOp"]["layer"] == "block_3"
    assert [name for table, name in rows if table == 8] == [
        "op=matmul | batch=1 | m=1 | n=896 | k=4864 | tA=0 | tB=1 | backend=gemv",
        "op=matmul | batch=1 | m=1 | n=896 | k=4864 | tA=0 | tB=1 | backend=mps",
    ]


def test_rows_without_samples_are_kept_as_such() -> None:
    silent = [row for row in rows_of(NESTED) if row["args"].get("samples") == "no samples"]
    assert [(row["name"], row["count"], row["total"]) for row in silent] == [
        ("GpuKernelDispatched", 20, None),
        ("sync kernels", None, None),
    ]


def test_backend_selections_are_counts() -> None:
    rows = [row for row in rows_of(NESTED) if row["scope"] and row["scope"][0].startswith("Backend selection")]
    assert [(row["kind"], row["metric"], row["count"], row["args"]) for row in rows] == [
        ("metric", "count", 12, {"backend": "Metal"}),
        ("metric", "count", 8, {"backend": "MPS"}),
        ("metric", "count", 12, {"op": "sdpa", "backend": "Metal"}),
    ]


def test_two_runs_older_spellings_and_other_sections() -> None:
    rows = rows_of(OLDER)
    assert list(dict.fromkeys(row["run"] for row in rows)) == ["a", "b"]
    found = {(row["run"], row["name"]): row for row in rows}
    old = found["a", "generation_loop"]
    assert (old["count"], old["total"], old["avg"], old["min"], old["max"]) == (5, 44e6, 8.8e6, 7e6, 9.5e6)
    assert found["a", "HostMemory"]["count"] == 10
    assert (found["a", "Total sync time"]["value"], found["a", "Total sync time"]["unit"]) == (1.5e6, "ns")
    new = found["b", "GpuOpCompleted"]
    assert (new["median"], new["args"]) == (3e6, {"p90_ms": 3.8e6})
    assert found["b", "fused: qkv"]["count"] == 4
    notes = [row["name"] for row in rows if row["kind"] == "note"]
    assert notes == ["Error parsing line 7: Expecting value: line 1 column 1 (char 0)", "(no kernels matched)"]


@pytest.mark.parametrize(
    "tail", ["count=60 | total=30.", "count=60 | total=30.50m", "count=60 | total=30.50ms | avg", "count=6"]
)
def test_a_row_that_breaks_off_gives_no_figures(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(
        "=== Analyzing a.jsonl ===\nTotal events: 1\n\nGPU kernel aggregate (by kernel type):\n"
        "  rope: count=2 | total=1.00ms | avg=0.500ms\n"
        f"  gemv (C): {tail}",
        "utf-8",
    )
    trace = ktrace.read(path)
    assert [row["name"] for row in rows_of(path)] == ["Total events", "rope"]
    assert trace.report.balanced()
    assert set(trace.report.issues) <= {"cut", "unrecognised"}
    assert trace.report.issues


@pytest.mark.parametrize("tail", ["", "| p95_ms=", "#"])
def test_a_row_doubled_many_times_on_one_line_comes_to_an_end(tmp_path: Path, tail: str) -> None:
    row = "  gemv_kernel: count=3 | total=3.00ms | avg=1.000ms | min=1.000ms | max=1.000ms | p95_ms=1.000ms"
    path = tmp_path / "doubled.txt"
    path.write_text(
        f"=== Analyzing run.jsonl ===\nTotal events: 3\n\nKernels:\n{row}\n{row * 500}{tail}\n{row}\n", "utf-8"
    )
    trace = ktrace.read(path)
    read = [row for row in trace.to_arrow()["summaries"].to_pylist() if row["name"] == "gemv_kernel"]
    assert [(row["count"], row["total"]) for row in read] == [(3, 3e6)] * 2
    assert trace.report.balanced()
