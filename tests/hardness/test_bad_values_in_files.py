"""One bad value costs its cell or its record, never the file: each format where one once did."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_values import DIGITS, OUTPUTS, converted, details
from conftest import SAMPLES

import ktrace
from ktrace.conversion import Conversion
from ktrace.converters.otlp.writer import any_value
from ktrace.converters.perfetto.wire import bytes_field
from ktrace.errors import DamagedInput, KtraceError
from ktrace.input.source import Source
from ktrace.kit.columnar.protobuf import fields_of
from ktrace.kit.columnar.text_cells import times
from ktrace.kit.sqlite import opened
from ktrace.kit.sqlite.lookup import Children, Lookup, Texts
from ktrace.report import Report

# Canonical forms.


def test_cells_of_csv_beyond_64_bits_cost_their_rows(tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    values = ("10", DIGITS, "18446744073709551616", "1e999999999", "inf", "20")
    lines = [f"run,{id},{ts},kernel,gemm,5,measured" for id, ts in enumerate(values, 1)]
    table.write_text("\n".join(["source,id,ts,kind,name,dur,timing", *lines, ""]))
    for out in OUTPUTS:
        report, _ = converted(table, out)
        assert (report.read, report.written) == (6, 2)
        assert all(detail.startswith("ts: ") for detail in details(report, "bad-record"))


def test_bytes_that_are_not_utf8_cost_a_broken_row_of_csv_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "run.csv"
    lines = [
        b"source,id,ts,kind,name,dur,timing",
        b"run,1,10,kernel,caf\xe9,5,measured",
        b"run,2,20,kernel,\xff,5,measured,more,\xfe",
        "run,3,30,kernel,gr\u00fc\u00df,5,measured".encode(),
    ]
    table.write_bytes(b"\n".join(lines) + b"\n")
    report, rows = converted(table)
    assert [row["name"] for row in rows if row["record"] == "event"] == ["caf\ufffd", "gr\u00fc\u00df"]
    assert details(report, "bad-record") == ["has 9 cells of 7"]
    assert report.issues["encoding"].places == [(f"byte {table.read_bytes().index(0xE9)}", "")]
    assert "Exception ignored" not in capfd.readouterr().err


def test_a_heading_that_is_too_long_is_no_heading(tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    table.write_text("source,id,ts,kind,name,dur,timing," + "x" * 200_000 + "\nrun,1,10,kernel,gemm,5,measured,1\n")
    with pytest.raises(DamagedInput, match="isn't a canonical table"):
        ktrace.convert(table, tmp_path / "out.jsonl", from_="csv")


@pytest.mark.parametrize("number", [DIGITS, "1e999999999", "-1e400", "18446744073709551616"])
def test_a_record_of_json_lines_with_such_a_number_is_skipped_alone(tmp_path: Path, number: str) -> None:
    event = '{"record":"event","source":"run","id":%s,"ts":%s,"kind":"kernel","name":"a","dur":5,"timing":"measured"%s}'
    lines = [
        event % (1, 10, ""),
        event % (2, number, ""),
        event % (number, 30, ""),
        event % (4, 40, f',"odd":{number}'),
    ]
    for name, text in (
        ("run.jsonl", '{"ktrace":"1.0"}\n' + "\n".join(lines)),
        ("run.json", '{"ktrace":"1.0","records":[\n' + ",\n".join(lines) + "\n]}"),
    ):
        path = tmp_path / name
        path.write_text(text)
        report, rows = converted(path)
        assert [row["id"] for row in rows if row["record"] == "event"] in ([1, 4], [1])
        assert report.issues["bad-record"].rows >= 2


def test_parquet_with_odd_words_in_its_footer_is_read_or_refused(tmp_path: Path) -> None:
    columns = {"source": "run", "id": 1, "ts": 10, "dur": 5, "kind": "kernel", "name": "a", "timing": "measured"}
    events = pa.table({name: [value] for name, value in columns.items()})
    path = tmp_path / "run.parquet"
    for odd, value in ((b"ktrace.record", b"\xff"), (b"ktrace.record", b"evnts")):
        pq.write_table(events.replace_schema_metadata({b"ktrace.version": b"1.0", odd: value}), path)
        report, _ = converted(path)
        assert report.written == 1
    pq.write_table(events.replace_schema_metadata({b"ktrace.version": b"\xff1.0"}), path)
    with pytest.raises(DamagedInput, match="isn't a version of the model"):
        ktrace.convert(path, tmp_path / "out.jsonl", overwrite=True)
    assert ktrace.validate(path).faults


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_names_of_columns_that_are_not_utf8_refuse_the_file_in_our_words(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"run.{form}"
    ktrace.convert(SAMPLES / "jsonl/all-records.jsonl", path)
    path.write_bytes(path.read_bytes().replace(b"correlation", b"corr\xff\xfeation"))
    with pytest.raises(DamagedInput) as caught:
        ktrace.convert(path, tmp_path / "out.jsonl")
    assert not isinstance(caught.value.__cause__, UnicodeDecodeError)


def test_times_of_more_digits_than_arrows_decimals_have_are_not_wrapped() -> None:
    """Arrow casts the text 10^40 to a decimal of 38 digits without an error, and with another value."""
    cells = pa.array(["1e36", "9" * 39, "0." + "1" * 60, "5.5"])
    greatest = 2**63 - 1
    assert times(cells, "us").ns.to_pylist() == [greatest, greatest, 111, 5500]
    for cell in ("1e36", "-1e36", "9.5e28", "1" + "0" * 399):
        [ns] = times(pa.array([cell]), "us").ns.to_pylist()
        assert ns is None or abs(ns) == greatest, cell


# Trace Event JSON.


def trace(tmp_path: Path, *events: str) -> Path:
    path = tmp_path / "run.pt.trace.json"
    kernel = '{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d,"dur":2,"args":{"device":0,"stream":7%s}}'
    own = [kernel % (number, events[number] if number < len(events) else "") for number in range(6)]
    path.write_bytes(f'{{"schemaVersion":1,"traceEvents":[{",".join(own)}]}}'.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize(
    "argument",
    [
        f',"n":{DIGITS}',
        f',"n":[{DIGITS}]',
        f',"grid":[{DIGITS},1,1]',
        f',"stream":{DIGITS}',
        ',"n":1e400',
        ',"n":"\\ud800"',
        ',"deep":' + "[" * 900 + "]" * 900,
        f',"n":1,"n":{DIGITS}',
        ',"n":"\udcff"',
    ],
    ids=["integer", "in a list", "grid", "stream", "beyond a double", "surrogate", "deep", "twice", "bytes"],
)
def test_an_argument_beyond_any_type_costs_no_event(tmp_path: Path, argument: str) -> None:
    path = trace(tmp_path, "", argument)
    for out in OUTPUTS:
        report, _ = converted(path, out)
        assert report.written >= 5, out
        assert report.read == 6, out


def test_the_name_of_a_thread_may_have_a_number_of_any_length(tmp_path: Path) -> None:
    path = trace(tmp_path)
    name = f'{{"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{{"name":"stream {DIGITS}"}}}},'
    path.write_text(path.read_text().replace('"traceEvents":[', '"traceEvents":[' + name))
    report, _ = converted(path, "perfetto")
    assert report.written == 6


def test_sizes_of_a_memory_timeline_that_are_no_numbers_cost_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    rows = [[0, 4096, 0, 0], [0, 10**400, 0, 0], [0, None, 0, 0], [0, 1024, 5, 0]]
    path.write_text(json.dumps([[1715000000000000 + number for number in range(5)], [*rows, "odd"]]))
    report, found = converted(path)
    assert [row["value"] for row in found if row["record"] == "event"] == [4096.0, 0.0, 1024.0, 5.0]
    assert report.issues["bad-record"].rows == 3


# Other formats.


def test_texts_of_rocprofv3_json_that_are_not_utf8_cost_their_records(tmp_path: Path) -> None:
    sample = next(
        path for path in sorted((SAMPLES / "rocprofv3-json").glob("*.json")) if b"kernel_dispatch" in path.read_bytes()
    )
    good, _ = converted(_copied(sample, tmp_path, sample.read_bytes()))
    for word in (b'"formatted_kernel_name": "', b'"hostname": "', b'"new_key": "'):
        data = sample.read_bytes()
        at = data.index(word) + len(word)
        report, _ = converted(_copied(sample, tmp_path, data[:at] + b"\xff" + data[at:]))
        assert report.read > 0, word
    assert good.written


def _copied(sample: Path, folder: Path, data: bytes) -> Path:
    path = folder / sample.name
    path.write_bytes(data)
    return path


def database(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "tables.db"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as made:
        for statement in statements:
            made.execute(statement)
    made.close()
    return path


def test_lookups_in_a_database_bear_columns_of_other_types(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE strings (id TEXT, value BLOB)",
        "INSERT INTO strings VALUES ('x', x'fffe'), ('y', 5)",
        "CREATE TABLE good (id INTEGER PRIMARY KEY, value BLOB)",
        "INSERT INTO good VALUES (1, x'fffe'), (2, 'two')",
        "CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO rows VALUES (1, 'x'), (2, NULL)",
    )
    report = Report()
    conversion = Conversion(report)
    with opened(Source(str(path)), conversion) as tables:
        numbers = pa.array([1, 2, None], pa.int64())
        words = pa.array(["x", "y", None])
        assert Lookup(tables, "strings", "id", ["value"]).get(numbers)["value"].to_pylist() == [None] * 3
        assert Lookup(tables, "good", "id", ["value"]).get(words) == {}
        assert len(Children(tables, "strings", "id", ["value"]).of(numbers).of) == 0
        assert len(Children(tables, "good", "id", ["value"]).of(words).of) == 0
        [block] = tables.blocks("rows", 10)
        texts = Texts(tables, "good", "id", "value", conversion)
        found = texts.column(block, block.get("name"), required=True)
        assert found is not None
        assert found.to_pylist() == ["x", "[no name]"]
        named = texts.column(block, block.get("id"))
        assert named is not None
        assert named.to_pylist()[1] == "two"


@pytest.mark.parametrize("table", ["rocpd_string", "rocpd_op", "rocpd_api"])
def test_texts_of_a_database_that_are_not_utf8_cost_no_table(tmp_path: Path, table: str) -> None:
    sample = next((SAMPLES / "rpd").glob("*.rpd"))
    path = _copied(sample, tmp_path, sample.read_bytes())
    with sqlite3.connect(path) as made:
        columns = [name for _, name, kind, *_ in made.execute(f"PRAGMA table_info({table})") if "CHAR" in kind.upper()]
        for name in columns:
            made.execute(
                f"UPDATE {table} SET {name} = cast(x'61fffe62' AS TEXT) WHERE id = (SELECT max(id) FROM {table})"
            )
    made.close()
    good, bad = (converted(one)[0] for one in (_copied(sample, tmp_path / "..", sample.read_bytes()), path))
    assert bad.read == good.read


def test_a_packet_with_two_events_is_reported_and_the_account_balances(tmp_path: Path) -> None:
    path = tmp_path / "run.perfetto"
    ktrace.convert(SAMPLES / "kineto/one-step-of-training.pt.trace.json", path)
    whole_file, packets = path.read_bytes(), []
    doubled = 0
    for _, _, one in fields_of(whole_file):
        packet = bytes(one)  # type: ignore[arg-type]
        events = [bytes_field(number, value) for number, _, value in fields_of(packet) if number in (11, 53)]
        if events and doubled < 3:
            packet += events[0] if doubled < 2 else bytes_field(11, b"\x48\x01")
            doubled += 1
        packets.append(bytes_field(1, packet))
    path.write_bytes(b"".join(packets))
    report, _ = converted(path)
    assert doubled == 3
    assert "the data of a packet" in details(report, "duplicate-key")  # of which protobuf keeps the last


def test_archives_with_odd_heads_are_refused_in_our_words(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.log", (SAMPLES / "doppler/prefill-and-three-decodes.log").read_bytes())
    whole_file = path.read_bytes()
    directory = whole_file.rindex(b"PK\x01\x02")
    changed = np.random.default_rng(7).integers(0, 256, (46, 3))
    for offset, values in enumerate(changed.tolist()):
        for value in (0, 255, *values):
            data = bytearray(whole_file)
            data[directory + offset] = value
            path.write_bytes(data)
            try:
                ktrace.convert(path, tmp_path / "out.jsonl", overwrite=True)
            except KtraceError as error:
                assert error.__cause__ is None or isinstance(error.__cause__, KtraceError), (offset, value)


def test_values_nested_beyond_what_protobuf_readers_bear_are_text_in_otlp() -> None:
    value: Any = 1
    for _ in range(900):
        value = [value]
    found = any_value(value)
    depth = 0
    while "arrayValue" in found:
        [found] = found["arrayValue"]["values"]
        depth += 1
    assert depth == 33
    assert json.loads(found["stringValue"]) != 1


# What is shown.


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii"])
def test_what_the_encoding_of_the_terminal_lacks_is_escaped(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "run.jsonl"
    event = {"record": "event", "source": "run", "id": 1, "ts": 1, "kind": "kernel", "timing": "measured", "dur": 5}
    log.write_text("\n".join(json.dumps(line) for line in [{"ktrace": "1.0"}, event | {"name": "矩阵"}]), "utf-8")
    for command in (["info", log], ["summary", log], ["query", log, "SELECT name FROM events"]):
        done = subprocess.run(
            [sys.executable, "-m", "ktrace", *map(str, command)],
            capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": encoding},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"\\u77e9\\u9635" in done.stdout or "矩阵".encode() in done.stdout
