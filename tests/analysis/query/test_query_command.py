"""`ktrace query`: its output in each format, its overview, and what it says about wrong usage."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from conftest import SAMPLES
from fork_server import program

import ktrace
from ktrace.cli import cli
from ktrace.errors import KtraceError, UsageError

STEP = str(SAMPLES / "kineto/one-step-of-training.pt.trace.json")
BY_OPERATION = "select operation, sum(dur) as total, avg(dur) as mean from kernels group by 1 order by 2 desc limit 2"


def query(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["query", *map(str, arguments)], input=stdin)


def printed(*arguments: str | Path, stdin: str | None = None) -> str:
    result = query(*arguments, stdin=stdin)
    assert result.exception is None, result.output
    return result.stdout


def test_a_table_has_exact_numbers() -> None:
    assert printed(STEP, BY_OPERATION) == (
        "operation    total      mean\ngemm        249629  62407.25\ncollective  215806    107903\n"
    )
    assert printed(STEP, BY_OPERATION, "--no-headers").splitlines() == [
        "gemm        249629  62407.25",
        "collective  215806    107903",
    ]


def test_each_format_has_the_same_rows(tmp_path: Path) -> None:
    expected = [["gemm", 249629, 62407.25], ["collective", 215806, 107903.0]]
    assert [
        list(row.values()) for row in json.loads(printed(STEP, BY_OPERATION, "--format", "json"))["rows"]
    ] == expected
    for form in ("jsonl", "nl"):
        lines = printed(STEP, BY_OPERATION, "--format", form).splitlines()
        assert [list(json.loads(line).values()) for line in lines] == expected
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        found = list(csv.reader(io.StringIO(printed(STEP, BY_OPERATION, "--format", form)), delimiter=delimiter))
        assert found == [["operation", "total", "mean"], *([str(cell) for cell in row] for row in expected)]
    assert "| gemm | 249629 | 62407.25 |" in printed(STEP, BY_OPERATION, "--format", "md")
    printed(STEP, BY_OPERATION, "-o", tmp_path / "x.parquet")
    written = pq.read_table(tmp_path / "x.parquet")
    assert [list(row.values()) for row in written.to_pylist()] == expected
    assert list(map(str, written.schema.types)) == ["string", "int64", "double"]


@pytest.mark.parametrize(
    ("name", "form"), [("x.csv", "csv"), ("x.ndjson", "jsonl"), ("x.txt", "table"), ("x.md", "md")]
)
def test_the_name_of_the_output_decides_the_format(tmp_path: Path, name: str, form: str) -> None:
    printed(STEP, BY_OPERATION, "-o", tmp_path / name)
    assert (tmp_path / name).read_text("utf-8") == printed(STEP, BY_OPERATION, "--format", form)


def test_no_rows_are_valid_json_and_csv() -> None:
    none = "select name, ts from events where name = 'nothing'"
    assert json.loads(printed(STEP, none, "--format", "json"))["rows"] == []
    assert printed(STEP, none, "--format", "jsonl") == ""
    assert printed(STEP, none, "--format", "csv") == "name,ts\n"
    assert printed(STEP, none) == "name  ts\n"


def test_json_leaves_out_what_is_null() -> None:
    sql = "select id, stream, name as stream_, cast(null as int) as nothing from events order by id limit 40"
    found = json.loads(printed(STEP, sql, "--format", "json"))
    whole = [json.loads(line) for line in printed(STEP, sql, "--format", "jsonl").splitlines()]
    assert {row["stream"] is None for row in whole} == {True, False}
    assert found["rows"] == [{key: value for key, value in row.items() if value is not None} for row in whole]
    assert [column["name"] for column in found["columns"]] == list(whole[0]) == ["id", "stream", "stream_", "nothing"]


def test_one_value_for_a_shell() -> None:
    assert printed(STEP, "select sum(dur) from kernels where kind = $kind", "-p", "kind", "kernel", "-r") == "918742\n"
    assert printed(STEP, "select count(*) from kernels where dur >= $least", "-p", "least", "100000", "--raw") == "3\n"


def test_sql_from_a_file_and_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.sql").write_text(BY_OPERATION)
    assert printed(STEP, f"@{tmp_path / 'my.sql'}") == printed(STEP, BY_OPERATION)
    assert printed(STEP, "-", stdin=BY_OPERATION) == printed(STEP, BY_OPERATION)
    with pytest.raises(UsageError, match=r"none\.sql"):
        raise query(STEP, f"@{tmp_path / 'none.sql'}").exception or AssertionError


def test_the_input_may_come_from_standard_input() -> None:
    run = [program(), "query", "-", "select count(*) from events", "-r"]
    done = subprocess.run(run, input=Path(STEP).read_text("utf-8"), capture_output=True, text=True, check=True)
    assert done.stdout == "65\n"


def test_without_sql_the_views_are_shown() -> None:
    lines = printed(STEP).splitlines()
    heads = {line.split()[0]: line.split()[1] for line in lines if not line.startswith(" ")}
    counts = {
        view: str(ktrace.query(STEP, f"select count(*) as n from {view}").to_pylist()[0]["n"])
        for view in ("events", "kernels", "launches", "summaries", "links", "catalog")
    }
    assert heads == counts
    assert "registers" in "".join(lines)
    assert "p99" not in "".join(lines)


def test_the_overview_counts_values() -> None:
    found = json.loads(printed(STEP, "--format", "json"))["rows"]
    for view, column in (("events", "dur"), ("events", "args"), ("kernels", "operation"), ("kernels", "queue")):
        sql = f"select count(*) as rows, count({column}) as filled from {view}"
        (own,) = [row for row in found if (row["view"], row["column"]) == (view, column)]
        assert ktrace.query(STEP, sql).to_pylist() == [{"rows": own["rows"], "filled": own["filled"]}]


def test_the_schema_needs_no_input() -> None:
    found = json.loads(printed("--schema", "--format", "json"))["rows"]
    shown = {
        view: [row["column"] for row in found if row["view"] == view] for view in ("events", "kernels", "launches")
    }
    for view, columns in shown.items():
        assert ktrace.query(STEP, f"from {view} limit 0").schema.names == columns
    assert {
        "view": "kernels",
        "column": "call_ts",
        "type": "bigint",
        "unit": "ns",
        "meaning": "Start of the call.",
    } in found


def test_a_wide_table_leaves_out_empty_columns() -> None:
    text = printed(STEP, "select * from events limit 2")
    assert "host" not in text.splitlines()[0].split()
    assert "Without a value: parent, host, " in text
    assert printed(STEP, "select host from events limit 1").splitlines()[0] == "host"


def test_names_have_no_side_effects(tmp_path: Path) -> None:
    evil = tmp_path / "evil.jsonl"
    row = {"record": "event", "source": "a", "id": 1, "ts": 1, "dur": 1, "kind": "kernel", "timing": "measured"}
    name = "=1+1\x1b[2J\nx"
    evil.write_text(json.dumps({"ktrace": "1.0"}) + "\n" + json.dumps(row | {"name": name}))
    for form in ("table", "csv", "tsv", "json", "jsonl", "md"):
        text = printed(evil, "select name, 1 as n from events", "--format", form)
        assert "\x1b" not in text
        assert "\n".join(text.splitlines()) + "\n" == text
    assert json.loads(printed(evil, "select name, 1 as n from events", "--format", "json"))["rows"][0]["name"] == name
    assert printed(evil, "select name, 1 as n from events", "--format", "csv").splitlines()[1].startswith("'=")


def test_other_types_are_written(tmp_path: Path) -> None:
    sql = (
        "select [1, 2] as l, {'a': 1} as s, 1.50::decimal(9, 2) as d, true as t, null as n, "
        "date '2026-01-02' as day, 'nan'::double as f"
    )
    (row,) = json.loads(printed(STEP, sql, "--format", "json"))["rows"]
    assert row == {"l": [1, 2], "s": {"a": 1}, "d": 1.5, "t": True, "day": "2026-01-02"}
    assert printed(STEP, sql, "--format", "csv").splitlines()[1] == '"[1, 2]","{""a"": 1}",1.5,true,,2026-01-02,'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([STEP, "select nam from events"], "SQL: .*nam"),
        ([STEP, "select 1 + 1", "-o", "x.xyz"], "no format has this extension"),
        ([STEP, "select name from events", "-o", STEP], "is an input"),
        ([STEP, "select 1 + 1", "-p", "a", "1"], "SQL: .*a"),
        ([STEP, "select sum(ts::hugeint << 62) as s from events", "--format", "parquet"], "beyond 64 bits"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    error = query(*arguments).exception
    with pytest.raises(UsageError, match=words):
        raise error or AssertionError


def test_an_input_is_missing() -> None:
    result = query("select 1 + 1")
    assert result.exit_code == 2
    assert "IN..." in result.output


def test_without_duckdb_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(KtraceError, match=r'SQL needs duckdb\n  hint: pip install "ktrace\[sql\]"'):
        raise query(STEP, "select 1 + 1").exception or AssertionError


def test_a_part_of_the_trace() -> None:
    def count(*options: str) -> int:
        return int(printed(STEP, "select count(*) from kernels", "-r", *options))

    kernels: Any = ktrace.read(STEP).events.query("kind == 'kernel'")
    assert count("--kind", "kernel") == len(kernels)
    assert count("--kind", "kernel", "--min-dur", "50us") == int((kernels["dur"] >= 50_000).sum())


def test_rules_of_your_own_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"ktrace_operations": "1.0", "rules": [{"name": "sm90_xmma", "operation": "attention"}]}')
    counted = "select count(*) as n from kernels where operation = 'attention'"
    assert printed(STEP, counted, "--raw").strip() == "2"
    assert printed(STEP, counted, "--raw", "--rules", rules).strip() == "6"
