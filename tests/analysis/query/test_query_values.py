"""Values of SQL that Python or Arrow can't hold, in every output: DuckDB's own text, never another value or a fault."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES
from fork_server import program

import ktrace

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"

#: Columns of DuckDB's table of the extremes of all types; a database has others in other versions.
EXTREMES = [name for (name, *_) in duckdb.sql("describe from test_all_types()").fetchall()]

#: A value -> what it is in JSON.
VALUES = {
    "'infinity'::timestamp": '"infinity"',
    "'-infinity'::date": '"-infinity"',
    "'290000-01-01'::date": '"290000-01-01"',
    "'290000-01-01 12:30:00.5'::timestamp": '"290000-01-01 12:30:00.5"',
    "'4000-01-01 (BC)'::date": '"4000-01-01 (BC)"',
    "'infinity'::timestamptz": '"infinity"',
    "'12:30:00+05'::timetz": '"12:30:00+05"',
    "'24:00:00'::time": '"24:00:00"',
    "interval '300000 years 4 days'": '"300000 years 4 days"',
    "'2026-01-02'::date": '"2026-01-02"',
    "'2026-01-02 03:04:05'::timestamp": '"2026-01-02 03:04:05"',
    "'340282366920938463463374607431768211455'::uhugeint": '"340282366920938463463374607431768211455"',
    "'-170141183460469231731687303715884105728'::hugeint": "-170141183460469231731687303715884105728",
    "'18446744073709551615'::ubigint": "18446744073709551615",
    "'12345678901234567890.12345678901234567'::decimal(38, 17)": "12345678901234567890.12345678901234567",
    "'-9999999999999999999999999999.9999999999'::decimal(38, 10)": "-9999999999999999999999999999.9999999999",
    "1.50::decimal(38, 10)": "1.5",
    "'10101'::bit": '"10101"',
    "'nan'::double": None,
    "'inf'::float": None,
    "'\\xFF\\x00'::blob": '"\\\\xff\\u0000"',
    "'a'::enum('a', 'b')": '"a"',
    "['infinity'::date, null]": '["infinity", null]',
    "{'from': 'infinity'::timestamp, 'a \"b\"': [1]}": '{"from": "infinity", "a \\"b\\"": [1]}',
    "map {'290000-01-01'::date: interval '1 month'}": '[["290000-01-01", "1 month"]]',
    "[[interval '1 day']]": '[["1 day"]]',
    "uuid '00000000-0000-0000-0000-000000000001'": '"00000000-0000-0000-0000-000000000001"',
}


def query(sql: str, *options: str) -> str:
    done = subprocess.run([program(), "query", STEP, sql, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_values_that_python_lacks_are_what_duckdb_writes() -> None:
    sql = "select " + ", ".join(f'{value} as "{number}"' for number, value in enumerate(VALUES))
    (line,) = query(sql, "--format", "jsonl").splitlines()
    found = json.loads(line, parse_float=str, parse_int=str)
    for number, (value, expected) in enumerate(VALUES.items()):
        assert found[str(number)] == json.loads(expected or "null", parse_float=str, parse_int=str), value


@pytest.mark.parametrize("form", ["table", "csv", "tsv", "json", "jsonl", "md"])
def test_the_extremes_of_all_types_are_written(form: str) -> None:
    text = query("from test_all_types()", "--format", form, "--rows", "3")
    assert "goo" in text
    assert "5877642-06-25 (BC)" in text


def test_text_of_types_with_an_order_is_that_of_duckdb() -> None:
    chosen = ["date", "time", "timestamp", "timestamp_s", "timestamp_ms", "time_tz", "timestamp_tz", "bit", "bignum"]
    columns = ", ".join(f'"{name}"' for name in chosen if name in EXTREMES)
    texts = ", ".join(f'"{name}"::varchar' for name in chosen if name in EXTREMES)
    expected = duckdb.sql(f"set timezone = 'UTC'; select {texts} from test_all_types()").fetchall()
    rows = list(csv.reader(io.StringIO(query(f"select {columns} from test_all_types()", "--format", "csv"))))[1:]
    assert len(expected) == len(rows) == 3
    for found, row in zip(rows, expected, strict=True):
        assert [cell.removeprefix("'") for cell in found] == [cell or "" for cell in row]


def test_what_arrow_and_parquet_hold_stays_a_date(tmp_path: Path) -> None:
    sql = "select '2026-01-02'::date as day, 'infinity'::timestamp as at, interval '1 month' as long, 2::uhugeint as n"
    kinds = [str(kind) for kind in ktrace.query(STEP, sql).schema.types]
    assert kinds == ["date32[day]", "timestamp[us]", "month_day_nano_interval", "string"]
    query(sql, "-o", str(tmp_path / "out.parquet"))
    kinds = [str(kind) for kind in pq.read_schema(tmp_path / "out.parquet").types]
    assert kinds == ["date32[day]", "timestamp[us]", "string", "string"]


FAILING_LATE: dict[str, Any] = {
    "a function": ("select case when i = 500000 then error('late') else i end from range(1000000) t(i)", "late"),
    "a cast": (
        "select (case when i = 500000 then 'x' else '1' end)::int from range(1000000) t(i)",
        "Could not convert",
    ),
}


@pytest.mark.parametrize("case", FAILING_LATE)
def test_what_fails_in_the_midst_of_an_answer_is_an_error_of_the_query(case: str) -> None:
    sql, message = FAILING_LATE[case]
    with pytest.raises(ktrace.UsageError, match=message):
        ktrace.query(STEP, sql)
