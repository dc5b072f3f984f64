"""`ktrace validate` as a library: its faults and their places; it agrees with the readers and with jsonschema."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.cli import cli
from ktrace.errors import DamagedInput, InputError
from ktrace.pipeline.convert import convert
from ktrace.pipeline.validate import Fault, Validation, validate

EVENT = {"record": "event", "source": "run", "id": 1, "ts": 5, "kind": "kernel", "name": "k", "timing": "measured"}
HEADER = '{"ktrace":"1.0"}'
DEEP = "[" * 10_000 + "]" * 10_000
SOUND = [
    *(SAMPLES / "jsonl" / name for name in ("all-records.jsonl", "newer-minor.jsonl")),
    *sorted((SAMPLES / "json").glob("*")),
    *sorted((SAMPLES / "parquet").glob("*")),
    *(SAMPLES / "csv" / name for name in ("all-records.csv", "events-alone.csv")),
]


def check(tmp_path: Path, *lines: dict[str, Any] | str, name: str = "in.jsonl", limit: int = 20) -> Validation:
    path = tmp_path / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return validate(str(path), limit=limit)


def pairs(result: Validation) -> list[tuple[int, str]]:
    return [(fault.record, fault.path) for fault in result.faults]


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_sound_files_are_valid(path: Path) -> None:
    result = validate(str(path))
    assert result.faults == []
    assert result.checked > 1
    assert result.version in ("1.0", "1.7")


def test_patterns_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / "run" / name).write_text(HEADER + "\n" + json.dumps(EVENT) + "\n")
    (tmp_path / "run" / "notes.txt").write_text("on Monday it was slower\n")
    ktrace.convert("run/a.jsonl", "whole.parquet/")
    for named in ("run", "run/*.jsonl", "r*/[ab].jsonl"):
        done = CliRunner().invoke(cli, ["validate", named])
        assert (done.exit_code, done.stdout.splitlines()) == (
            0,
            [f"run/{name}: valid, 1 record, model 1.0" for name in ("a.jsonl", "b.jsonl")],
        )
    assert CliRunner().invoke(cli, ["validate", "whole.parquet"]).exit_code == 0
    assert isinstance(CliRunner().invoke(cli, ["validate", "run/*.parquet"]).exception, InputError)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "t.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "name": "x"}]}')
    done = CliRunner().invoke(cli, ["validate", "foreign"])
    assert isinstance(done.exception, InputError)
    assert "without a canonical file" in str(done.exception)


def test_the_number_of_records_is_that_of_the_lines() -> None:
    path = SAMPLES / "jsonl" / "all-records.jsonl"
    assert validate(str(path)).checked == len(path.read_text("utf-8").splitlines()) - 1


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"ts": "soon"}, "$.ts", "'soon' is not of type 'integer'"),
        ({"dur": -4}, "$.dur", "-4 is less than the minimum of 0"),
        ({"dur": None}, "$.dur", "None is not of type 'integer'"),
        ({"timing": "guessed"}, "$.timing", "'guessed' is not one of ['measured', 'derived', 'synthetic']"),
        ({"kind": "beacon"}, "$.kind", "'beacon' is not one of ["),
        ({"occupancy": "half"}, "$.occupancy", "'half' is not of type 'number'"),
        ({"args": [1]}, "$.args", "[1] is not of type 'object'"),
        ({"lanes": 4}, "$", "'lanes'"),
        ({"pid": 2**63}, "$.pid", "is greater than the maximum"),
        ({"registers": 2**31}, "$.registers", "is greater than the maximum"),
        ({"record": "evnt"}, "$.record", '"evnt" isn\'t one of event, summary, link, catalog'),
        ({"record": "summary"}, "$", "'metric' is a required property"),
    ],
)
def test_a_fault_has_its_record_path_reason_and_line(
    change: dict[str, Any], path: str, reason: str, tmp_path: Path
) -> None:
    result = check(tmp_path, HEADER, EVENT, "", EVENT | {"id": 2} | change)
    fault = next(fault for fault in result.faults if reason in fault.reason)
    assert (fault.record, fault.path, fault.line) == (2, path, 4)
    assert result.checked == 2


@pytest.mark.parametrize("change", [{"x_theirs": [1]}, {"kind": "x_theirs"}, {"value": "NaN"}, {"ts": 5.0}, {"dur": 0}])
def test_values_allowed_by_the_schema_are_no_faults(change: dict[str, Any], tmp_path: Path) -> None:
    assert check(tmp_path, HEADER, EVENT | change).faults == []


def test_a_line_that_is_not_json(tmp_path: Path) -> None:
    result = check(tmp_path, HEADER, EVENT, '{"record":"event"', json.dumps(EVENT | {"id": 3, "value": float("nan")}))
    assert [(fault.record, fault.path, fault.line) for fault in result.faults] == [(2, "$", 3), (3, "$", 4)]
    assert "NaN" in result.faults[1].reason


def test_numbers_beyond_a_double_are_json(tmp_path: Path) -> None:
    assert check(tmp_path, HEADER, json.dumps(EVENT)[:-1] + ',"args":{"a":1e400}}').faults == []


def test_integers_of_any_length_are_json(tmp_path: Path) -> None:
    """In arguments; as a time it is out of bounds."""
    row = json.dumps(EVENT | {"args": {"n": 0}})
    assert check(tmp_path, HEADER, row.replace('"n": 0', '"n": ' + "9" * 5000)).faults == []
    assert pairs(check(tmp_path, HEADER, row.replace('"ts": 5', '"ts": ' + "9" * 5000))) == [(1, "$.ts")]


def test_the_header_comes_first(tmp_path: Path) -> None:
    result = check(tmp_path, json.dumps(EVENT, separators=(",", ":")), HEADER)
    assert [(fault.record, fault.line) for fault in result.faults] == [(0, 1)]
    assert "isn't a header" in result.faults[0].reason


def test_another_major_version_is_a_fault(tmp_path: Path) -> None:
    assert pairs(check(tmp_path, '{"ktrace":"2.0"}', EVENT)) == [(0, "$.ktrace")]


def test_ids_that_occur_twice(tmp_path: Path) -> None:
    link = {"record": "link", "source": "run", "id": 1, "link": "flow", "key": "1", "role": "out"}
    fact = {"record": "catalog", "source": "run", "id": 1, "entity": "source"}
    result = check(tmp_path, HEADER, EVENT, fact, EVENT | {"source": "other"}, EVENT | {"id": 9}, link)
    assert result.faults == [Fault(5, "$.id", 'record 1 of the source "run" already has the id 1')]


def test_it_stops_after_the_limit(tmp_path: Path) -> None:
    bad = [EVENT | {"id": number, "ts": "soon"} for number in range(50)]
    result = check(tmp_path, HEADER, *bad, limit=3)
    assert pairs(result) == [(1, "$.ts"), (2, "$.ts"), (3, "$.ts")]


def test_a_long_value_is_shortened(tmp_path: Path) -> None:
    [fault] = check(tmp_path, HEADER, EVENT | {"ts": "x" * 10_000}).faults
    assert len(fault.reason) < 320
    assert fault.reason.endswith("is not of type 'integer'")


def test_compressed_and_broken_off(tmp_path: Path) -> None:
    lines = "\n".join([HEADER, *(json.dumps(EVENT | {"id": n, "name": f"k{n * 7919}"}) for n in range(4000))])
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    assert validate(str(path)) == Validation([], 4000, "1.0")
    path.write_bytes(gzip.compress(lines.encode())[:-900])
    assert any("breaks off" in fault.reason for fault in validate(str(path)).faults)


def test_json_documents(tmp_path: Path) -> None:
    opening = '{"ktrace":"1.0","records":['
    first, second = json.dumps(EVENT), json.dumps(EVENT | {"id": 2, "ts": "soon"})
    assert pairs(check(tmp_path, opening, first + ",", second, "]}", name="a.json")) == [(2, "$.ts")]
    assert pairs(check(tmp_path, opening, first, second, "]}", name="b.json")) == [(1, "$"), (2, "$.ts")]
    assert pairs(check(tmp_path, opening, first, name="c.json")) == [(1, "$")]
    assert pairs(check(tmp_path, opening, first + ",", "]}", name="d.json")) == [(1, "$")]
    pretty = json.dumps({"ktrace": "1.0", "records": [EVENT, EVENT | {"id": 2, "dur": -1}]}, indent=1)
    assert pairs(check(tmp_path, pretty, name="e.json")) == [(2, "$.dur")]
    assert pairs(check(tmp_path, opening, "]}", name="f.json")) == []
    assert pairs(check(tmp_path, opening, first + ",", HEADER, "]}", name="g.json")) == [(2, "$.record")]
    assert pairs(check(tmp_path, opening, first, "", "]}", first, name="h.json")) == [(1, "$")]


def test_too_deep_nesting_is_a_fault(tmp_path: Path) -> None:
    document = json.dumps({"ktrace": "1.0", "records": [EVENT | {"args": 0}]}).replace('"args": 0', f'"args": {DEEP}')
    assert pairs(check(tmp_path, document, name="a.json")) == [(0, "$")]
    row = f"run,1,5,kernel,k,measured,{DEEP}"
    assert pairs(check(tmp_path, "source,id,ts,kind,name,timing,args", row, name="a.csv")) == [(1, "$.args")]


def changed(tmp_path: Path, **columns: pa.Array) -> Path:
    """The sample in one Parquet file, some of its columns replaced."""
    table = pq.read_table(SAMPLES / "parquet" / "all-records.parquet")
    for name, column in columns.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, column)
        else:
            table = table.append_column(name, column)
    path = tmp_path / "in.parquet"
    pq.write_table(table, path)
    return path


def test_parquet_columns_and_rows(tmp_path: Path) -> None:
    rows = pq.read_metadata(SAMPLES / "parquet" / "all-records.parquet").num_rows
    path = changed(tmp_path, dur=pa.array([-1.5] + [None] * (rows - 1)), lanes=pa.array([4] + [None] * (rows - 1)))
    faults = {(fault.record, fault.path): fault.reason for fault in validate(str(path)).faults}
    assert faults[0, "$.dur"] == "the column is of type double, in the model int64"
    assert faults[0, "$.lanes"] == "isn't a column of the model"
    assert (1, "$.dur") in faults
    assert "'lanes'" in faults[1, "$"]


def test_parquet_facts_of_the_footer_are_checked(tmp_path: Path) -> None:
    table = pq.read_table(SAMPLES / "parquet" / "all-records.parquet")
    facts = [{"record": "catalog", "source": "run", "id": 0, "entity": "planet"}]
    path = tmp_path / "in.parquet"
    pq.write_table(table.replace_schema_metadata({"ktrace.version": "1.0", "ktrace.catalog": json.dumps(facts)}), path)
    assert pairs(validate(str(path))) == [(table.num_rows + 1, "$.entity")]


@pytest.mark.parametrize("catalog", ["[{", DEEP], ids=["cut", "deep"])
def test_a_parquet_catalog_that_is_not_json_is_a_fault_and_an_error(tmp_path: Path, catalog: str) -> None:
    table = pq.read_table(SAMPLES / "parquet" / "all-records.parquet")
    path = tmp_path / "in.parquet"
    pq.write_table(table.replace_schema_metadata({"ktrace.version": "1.0", "ktrace.catalog": catalog}), path)
    [fault] = validate(path).faults
    assert (fault.record, fault.path) == (table.num_rows + 1, "$")
    assert '"ktrace.catalog"' in fault.reason
    with pytest.raises(DamagedInput) as caught:
        convert(path, tmp_path / "out.jsonl", from_="parquet")
    assert (caught.value.path, caught.value.where) == (str(path), "ktrace.catalog in the footer")
    assert caught.value.remedy
    assert not (tmp_path / "out.jsonl").exists()


def test_a_cut_parquet_file_is_a_fault(tmp_path: Path) -> None:
    data = (SAMPLES / "parquet" / "all-records.parquet").read_bytes()
    path = tmp_path / "in.parquet"
    path.write_bytes(data[:-100])
    [fault] = validate(str(path)).faults
    assert "damaged" in fault.reason


def test_csv_rows() -> None:
    result = validate(str(SAMPLES / "csv" / "other-order-and-broken-rows.csv"))
    assert pairs(result) == [(2, "$.ts"), (3, "$"), (4, "$"), (5, "$")]


def test_a_file_that_is_not_canonical_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("hello\n")
    with pytest.raises(InputError, match="isn't a canonical file"):
        validate(str(path))


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.parquet", "out.csv"])
def test_files_written_by_ktrace_are_valid(name: str, tmp_path: Path) -> None:
    convert(SAMPLES / "jsonl" / "newer-minor.jsonl", tmp_path / name, from_="jsonl")
    assert validate(str(tmp_path / name)).faults == []
