"""llama-bench: five outputs of the same tests, whose figures are computed here, and what isn't a test."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.model.json_text import decoded

OURS = SAMPLES / "llama-bench"
JSON, CSV, SQL = OURS / "three-tests.json", OURS / "three-tests.csv", OURS / "a-quote-in-a-value.sql"
REAL = SHARED / "hunt" / "llama" / "llama-bench.md"

#: What builds wrote before some settings came or went: the fields of 2023, and those of early 2026.
OLD = {"build_commit": "12345678", "build_number": 1199, "cuda": True, "blas": True, "f16_kv": True, "mul_mat_q": True}


def rows(path: Path, record: str = "summaries") -> list[dict[str, Any]]:
    """The rows without their nulls, `args` decoded."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    return [row | {key: json.loads(row[key]) for key in ("args", "facts") if key in row} for row in found]


def of(path: Path, metric: str) -> list[dict[str, Any]]:
    return [row for row in rows(path) if row["metric"] == metric]


def test_times_of_repetitions() -> None:
    tests = json.loads(JSON.read_text())
    found = of(JSON, "duration")
    assert [row["name"] for row in found] == ["pp512", "tg128", "pp512+tg128 @ d1024"]
    for row, test in zip(found, tests, strict=True):
        samples = test["samples_ns"]
        assert (row["count"], row["total"]) == (len(samples), sum(samples))
        assert (row["min"], row["max"], row["avg"]) == (min(samples), max(samples), sum(samples) // len(samples))
        assert (row["unit"], row["kind"], row["args"]["samples_ns"]) == ("ns", "range", samples)
    assert found[0]["ts"] == 1_770_091_506 * 10**9  # 2026-02-03T04:05:06Z, by `date -d`
    assert sum(row["total"] for row in found) == sum(sum(test["samples_ns"]) for test in tests) == 9_719_000_000


def test_rates_are_tokens_by_time() -> None:
    for row, test in zip(of(JSON, "tokens/s"), json.loads(JSON.read_text()), strict=True):
        tokens = test["n_prompt"] + test["n_gen"]
        each = [tokens * 1e9 / ns for ns in test["samples_ns"]]
        assert row["avg"] == pytest.approx(sum(each) / len(each), abs=1e-6)
        assert (row["unit"], row["args"]["samples_ts"]) == ("tokens/s", test["samples_ts"])
    assert [row["parent"] for row in of(JSON, "tokens/s")] == [row["id"] for row in of(JSON, "duration")]


def test_csv_and_sql_say_the_same_without_samples() -> None:
    by_csv = list(csv.DictReader(CSV.open()))
    database = sqlite3.connect(":memory:")
    with pytest.raises(sqlite3.OperationalError):  # llama-bench doesn't escape the quote in tiny's.gguf
        database.executescript(SQL.read_text())
    database.executescript(SQL.read_text().replace("tiny's", "tiny''s"))
    by_sql = list(database.execute("SELECT avg_ns, stddev_ns, avg_ts FROM llama_bench"))
    for path in (CSV, SQL):
        found, rates = of(path, "duration"), of(path, "tokens/s")
        figures = [(row["avg"], row["stddev"], rate["avg"]) for row, rate in zip(found, rates, strict=True)]
        assert figures == by_sql == [(int(r["avg_ns"]), int(r["stddev_ns"]), float(r["avg_ts"])) for r in by_csv]
        assert not any({"count", "total", "min", "max"} & row.keys() for row in found + rates)
        same = ("name", "scope", "ts", "avg", "stddev", "metric")
        assert [[row.get(key) for key in same] for row in rows(path)] == [
            [row.get(key) for key in same] for row in rows(JSON)
        ]
        assert found[0]["args"]["build_commit"] == "8e427551"  # not 8 times 10 to the power of 427551
        assert found[0]["args"]["model_filename"] == "models/tiny's.gguf"


def test_json_lines_one_of_which_is_no_test() -> None:
    path = OURS / "broken-line-and-cut-end.jsonl"
    assert [row | {"source": ""} for row in rows(path)] == [row | {"source": ""} for row in rows(JSON)[:4]]


def test_settings_tell_tests_apart() -> None:
    first, _, third = (row["scope"] for row in of(JSON, "duration"))
    assert first == ["llama 1B Q4_0", "CUDA, ngl 99, threads 8"]
    assert third == ["llama 1B Q4_0", "CUDA, ngl 99, threads 8, n_ubatch 256, type_k q8_0, fa 1"]


def test_markdown_in_a_log() -> None:
    path = OURS / "log-with-devices-two-builds.md"
    found = rows(path)
    printed = re.findall(r"([\d.]+) ± +(?:[\d.]+|-nan)", path.read_text())
    assert [row["avg"] for row in found] == [float(rate) for rate in printed]
    assert [row.get("stddev") for row in found] == [121.2, 1.73, 1.21, None]
    assert {row["metric"] for row in found} == {"tokens/s"}  # no time was printed, none is made up
    assert not any("count" in row for row in found)
    assert [row["name"] for row in found] == ["pp512", "tg128 @ d1024", "pp 64", "tg 16"]
    assert [row["scope"][1] for row in found] == ["CUDA, ngl 99, fa 0", "CUDA, ngl 99, fa 1"] + ["CPU, threads 8"] * 2
    catalog = rows(path, "catalog")
    assert [row["name"] for row in catalog if row["entity"] == "device"] == ["Example GPU A", "Example GPU B"]


def test_json_lines_below_those_of_ggml(tmp_path: Path) -> None:
    path = tmp_path / "bench.log"
    lines = (OURS / "broken-line-and-cut-end.jsonl").read_text().splitlines(keepends=True)[:2]
    path.write_text("ggml_cuda_init: found 2 CUDA devices:\n" + "".join(lines))
    trace = ktrace.read(path)
    assert [row["name"] for row in rows(path)] == ["pp512", "pp512", "tg128", "tg128"]
    assert {kind: issue.rows for kind, issue in trace.report.issues.items()} == {"unrecognised": 1}


def test_a_log_with_kernels_is_read_for_these(tmp_path: Path) -> None:
    table = (OURS / "log-with-devices-two-builds.md").read_text()
    path = tmp_path / "both.log"
    path.write_text((SAMPLES / "llama" / "vulkan-blocks-and-backend-ops.txt").read_text() + table)
    assert ktrace.detect(path)[0].format == "llama"
    path.write_text(table)
    assert ktrace.detect(path)[0].format == "llama-bench"


def test_headings_in_other_letters(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("| Model | Backend | Test | T/S |\n|---|---|---|---|\n| llama 1B | CUDA | pp512 | 12.50 ± 0.50 |\n")
    (row,) = rows(path)
    assert (row["name"], row["avg"], row["stddev"], row["scope"][0]) == ("pp512", 12.5, 0.5, "llama 1B")


def test_facts_in_which_tests_agree(tmp_path: Path) -> None:
    tests = json.loads(JSON.read_text())
    facts = {row["entity"]: row["facts"] for row in rows(JSON, "catalog")}
    source = {key: facts["source"].get(key) for key in ("tool", "version", "model")}
    assert source == {"tool": "llama-bench", "version": "8e427551 (7001)", "model": "llama 1B Q4_0"}
    assert facts["host"] == {"cpu": "Example CPU 8-Core"}
    tests[1] |= {"build_number": 7002, "model_type": "llama 3B Q4_0", "cpu_info": "Another CPU"}
    several = tmp_path / "several.json"
    several.write_text(json.dumps(tests))
    facts = {row["entity"]: row["facts"] for row in rows(several, "catalog")}
    assert not {"version", "model"} & facts["source"].keys()
    assert "host" not in facts
    assert of(several, "duration")[1]["args"]["cpu_info"] == "Another CPU"


def test_fields_of_2023(tmp_path: Path) -> None:
    figures = {"avg_ns": 213000000, "stddev_ns": 1000, "avg_ts": 2403.7, "stddev_ts": 0.5}
    place = {"model_type": "llama 7B mostly Q4_0", "n_prompt": 512, "n_gen": 0, "test_time": "2023-09-21T01:02:03Z"}
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps(OLD | place | figures) + "\n")
    (took,) = of(path, "duration")
    assert (took["name"], took["avg"], took["args"]["cuda"]) == ("pp512", 213000000, True)


def test_the_real_table() -> None:
    if not REAL.exists():
        pytest.skip("the table is not at hand (../shared/hunt/llama)")
    assert [(row["name"], row["avg"], row["stddev"]) for row in rows(REAL)] == [
        ("pp512", 13573.98, 20.63),
        ("tg128", 186.12, 0.24),
    ]
