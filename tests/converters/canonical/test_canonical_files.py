"""What the canonical files look like to others, and what their readers do with odd ones."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_values import DEEP
from conftest import SAMPLES

from ktrace.errors import DamagedInput, VersionError
from ktrace.input.capabilities import Pushdown
from ktrace.input.detection import by_name
from ktrace.input.format import Score
from ktrace.input.source import Sample, Source
from ktrace.model.batch import arrow_schema, union_schema
from ktrace.model.schema import RECORDS, WORD
from ktrace.pipeline.convert import convert
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

ALL = SAMPLES / "jsonl" / "all-records.jsonl"
LINES = [json.loads(line) for line in ALL.read_text("utf-8").splitlines()[1:]]
EVENT = {"record": "event", "source": "run", "id": 1, "ts": 5, "kind": "kernel", "name": "k", "timing": "measured"}


def read(path: Path, name: str) -> Trace:
    report = Report()
    trace = Trace(read_batches([str(path)], report, format=name), report)
    assert report.balanced()
    return trace


def write(tmp_path: Path, *records: dict[str, Any] | str, header: str = '{"ktrace":"1.0"}') -> Path:
    """A JSON Lines file of the records; a str is a line as it is."""
    path = tmp_path / "in.jsonl"
    lines = [header, *(record if isinstance(record, str) else json.dumps(record) for record in records)]
    path.write_text("".join(f"{line}\n" for line in lines if line), "utf-8")
    return path


def places(trace: Trace, kind: str) -> list[tuple[str, str]]:
    return trace.report.issues[kind].places


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "csv"])
def test_other_forms_of_a_file_say_the_same(name: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{name}"
    convert(ALL, out, from_="jsonl", to=name)
    assert read(out, name).equals(read(ALL, "jsonl"))


def test_jsonl_comes_back_to_the_byte(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    convert(ALL, out, from_="jsonl")
    # All four records in their own order; the file has each line unchanged.
    assert sorted(out.read_bytes().splitlines()) == sorted(ALL.read_bytes().splitlines())


def test_json_is_one_document_of_the_same_records(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    convert(ALL, out, from_="jsonl")
    document = json.loads(out.read_bytes())
    assert document["ktrace"] == "1.0"
    assert sorted(document["records"], key=str) == sorted(LINES, key=str)


@pytest.mark.parametrize("layout", [{"indent": 2}, {"indent": None}, {"separators": (",", ":")}])
def test_any_layout_of_json_is_read(layout: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"ktrace": "1.0", "records": LINES}, ensure_ascii=False, **layout), "utf-8")
    match = by_name("json").recognised(Source(str(path)).sample())
    assert match and match.score == Score.DIALECT
    assert by_name("jsonl").recognised(Source(str(path)).sample()) is None
    assert read(path, "json").equals(read(ALL, "jsonl"))


@pytest.mark.parametrize(
    ("old", "new", "kinds", "lost"),
    [
        ('"name": "b"', '"name": "\\ud800"', ["json-repair"], 0),
        ('"name": "b"', '"name": "x"y"', ["json-repair"], 0),
        ('"ts": 2', '"ts": nan', ["bad-record", "json-repair"], 1),  # no time any more
        ('"name": "b"', '"name": no word', ["bad-record"], 1),
        ('"name": "b"', '"name": ' + "[" * 2000 + "]" * 2000, ["bad-record"], 1),
        ("\n    },\n", "\n    }\n", ["json-repair"], 0),  # commas are missing
        ("\n    }\n  ]", "\n    },\n  ]", ["json-repair"], 0),
        ("\n    }\n  ]\n}", "", ["cut"], 1),
        ("x", "x", [], 0),
    ],
)
def test_a_damaged_value_of_a_pretty_document_costs_its_record(
    tmp_path: Path, old: str, new: str, kinds: list[str], lost: int
) -> None:
    event = {"record": "event", "source": "s", "dur": 1, "kind": "op", "timing": "measured", "args": {"of": {"x": 1}}}
    events = [event | {"id": number, "ts": number, "name": name} for number, name in enumerate("abcd", 1)]
    path, report = tmp_path / "run.json", tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"ktrace": "1.0", "records": events}, indent=2).replace(old, new))
    done = convert(path, report, from_="json")
    assert (done.read, done.written) == (4, 4 - lost)
    assert sorted(done.issues) == kinds
    kept = [json.loads(line)["name"] for line in report.read_text().splitlines()[1:]]
    assert kept[0] == "a"
    assert len(kept) == 4 - lost


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "csv"])
@pytest.mark.parametrize("table", RECORDS)
def test_a_table_alone_has_its_own_columns(name: str, table: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{name}"
    report = convert(ALL, out, from_="jsonl", to=name, table=table)
    mine = [line for line in LINES if line["record"] == WORD[table]]
    if table != "catalog":
        assert report.written == len(mine)
    trace = read(out, name)
    assert trace.to_arrow()[table].num_rows == len(mine)
    others = [record for record in RECORDS[:3] if record != table]
    assert sum(trace.to_arrow()[record].num_rows for record in others) == 0
    if name == "csv":
        heads = next(csv.reader(out.open(encoding="utf-8")))
        assert heads == arrow_schema(table).names


def test_csv_has_the_union_of_columns_and_its_numbers_are_numbers(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    convert(ALL, out, from_="jsonl")
    rows = list(csv.DictReader(out.open(encoding="utf-8", newline="")))
    assert list(rows[0]) == union_schema().names
    assert len(rows) == len(LINES)
    by_id = {(row["record"], row["id"]): row for row in rows}
    for line in LINES:
        row = by_id[line["record"], str(line["id"])]
        for name, cell in row.items():
            value = line.get(name)
            if isinstance(value, (dict, list)):
                assert json.loads(cell) == value
            elif isinstance(value, float):
                assert float(cell) == value
            elif value == "NaN":
                assert cell == "nan"
            else:
                assert cell == ("" if value is None else str(value))
    assert ',1700000000000009000,"kernel",' in out.read_text("utf-8")


def test_duckdb_reads_every_form(tmp_path: Path) -> None:
    kernels = [line for line in LINES if line.get("kind") == "kernel" and line["record"] == "event"]
    expected = (len(kernels), sum(line["dur"] for line in kernels))
    for name in ("parquet", "csv", "jsonl"):
        out = tmp_path / f"out.{name}"
        convert(ALL, out, from_="jsonl")
        function = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}[name]
        query = f"select count(*), sum(dur) from {function}('{out}') where record = 'event' and kind = 'kernel'"
        assert duckdb.sql(query).fetchall() == [expected], name
    folder = tmp_path / "folder"
    folder.mkdir()
    convert(ALL, folder, from_="jsonl", to="parquet")
    assert duckdb.sql(f"select count(*) from '{folder}/catalog.parquet'").fetchall() == [(4,)]
    assert duckdb.sql(f"select scope from '{folder}/summaries.parquet' where id = 20").fetchall() == [
        (["Decode", "L0"],)
    ]


def test_pandas_reads_integers_as_integers(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    convert(ALL, out, from_="jsonl")
    frame = pd.read_parquet(out)
    assert frame["ts"].dtype == pd.Int64Dtype()
    assert frame["registers"].dtype == pd.Int32Dtype()
    assert isinstance(frame["name"].dtype, pd.StringDtype)
    assert frame.loc[frame["id"] == 11, "ts"].item() == 1700000000000009000


def test_parquet_contains_its_version_and_its_catalog(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    convert(ALL, out, from_="jsonl")
    file = pq.ParquetFile(out)
    footer = file.metadata.metadata
    assert footer[b"ktrace.version"] == b"1.0"
    catalog = json.loads(footer[b"ktrace.catalog"])
    assert catalog == [line for line in LINES if line["record"] == "catalog"]
    assert file.schema_arrow.names == union_schema().names
    assert {file.metadata.row_group(0).column(i).compression for i in range(file.metadata.num_columns)} == {"ZSTD"}


def test_a_folder_has_every_record_even_when_empty(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    convert(write(tmp_path, EVENT), folder, from_="jsonl", to="parquet")
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{record}.parquet" for record in RECORDS)
    for record in RECORDS:
        assert pq.read_schema(folder / f"{record}.parquet").names == arrow_schema(record).names


def test_many_distinct_names_are_stored_and_read(tmp_path: Path) -> None:
    path = write(tmp_path, *(EVENT | {"id": i, "name": f"k{i}", "cat": f"c{i}"} for i in range(3000)))
    out = tmp_path / "out.parquet"
    convert(path, out, from_="jsonl")
    assert read(out, "parquet").equals(read(path, "jsonl"))


@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_another_packages_column_that_comes_late_is_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktrace.kit.canonical.flat_tables.PART", 2)
    trace = Trace(
        batch
        for number, extra in enumerate([{"x_early": 1}, {}, {"x_late": 2}], 1)
        for batch in read_batches(
            [str(write(tmp_path, EVENT | {"id": number} | extra))], Report(), format="jsonl", batch_rows=1
        )
    )
    batches = list(trace.batches())
    assert len(batches) == 1
    out = tmp_path / f"out.{name}"
    report = Report()
    from ktrace.conversion import Conversion
    from ktrace.model.batch import Batch
    from ktrace.output import Sink, writing

    with writing(Sink(str(out))) as sink:
        writer = by_name(name, writes=True).function("writer")(sink, Conversion(report))
        for row in range(3):
            columns = batches[0].columns.slice(row, 1)
            empty = [column for column in ("x_early", "x_late") if columns.column(column).null_count]
            writer.write(Batch("events", columns.drop_columns(empty)))
        writer.close()
    events = read(out, name).to_arrow()["events"]
    assert events["x_early"].to_pylist() == [1, None, None]
    assert events["args"].to_pylist() == [None, None, '{"x_late":2}']
    assert report.issues["unknown-column"].rows == 1


def test_a_newer_minor_version_is_read_and_its_additions_are_kept() -> None:
    trace = read(SAMPLES / "jsonl" / "newer-minor.jsonl", "jsonl")
    events = trace.to_arrow()["events"].to_pylist()
    assert [event["kind"] for event in events] == ["range", "instant"]
    assert events[0]["args"] == '{"from":"hbm","$lanes":4,"$kind":"tensor_move"}'
    assert events[1]["args"] == '{"$kind":"beacon"}'
    assert trace.to_arrow()["summaries"]["args"].to_pylist() == ['{"$p999":41.25}']
    assert trace.report.issues["newer-minor"].places[0][0] == "line 1"


@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_unknown_columns_and_kinds_of_flat_tables_are_kept(name: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{name}"
    convert(write(tmp_path, EVENT | {"dur": 4}, EVENT | {"id": 2}), out, from_="jsonl")
    if name == "csv":
        frame = pd.read_csv(out)
        frame.assign(kind="beacon", lanes=[7, None]).to_csv(out, index=False)
    else:
        table = pq.read_table(out)
        frame = table.to_pandas().assign(kind="beacon", lanes=pd.array([7, None], "Int64"))
        frame.to_parquet(out)  # Loses the footer.
    events = read(out, name).to_arrow()["events"].to_pylist()
    assert [event["kind"] for event in events] == ["range", "instant"]
    arguments = json.loads(events[0]["args"])
    assert arguments["$kind"] == "beacon"
    assert float(arguments["$lanes"]) == 7
    assert json.loads(events[1]["args"]) == {"$kind": "beacon"}


@pytest.mark.parametrize(
    ("name", "text"), [("jsonl", '{"ktrace":"2.0"}\n'), ("json", '{"ktrace":"2.0","records":[\n]}\n')]
)
def test_another_major_version_is_an_error_that_names_both(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"in.{name}"
    path.write_text(text)
    with pytest.raises(VersionError, match=r"version 2\.0.*reads 1\.x"):
        read(path, name)


def test_another_major_version_of_parquet(tmp_path: Path) -> None:
    table = pq.read_table(SAMPLES / "parquet" / "all-records.parquet")
    path = tmp_path / "in.parquet"
    pq.write_table(table.replace_schema_metadata({"ktrace.version": "3.1"}), path)
    with pytest.raises(VersionError, match=r"version 3\.1"):
        read(path, "parquet")


def test_without_a_header_it_is_near_and_forced_it_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, EVENT, header="")
    match = by_name("jsonl").recognised(Source(str(path)).sample())
    assert match and match.score == Score.NEAR
    with pytest.raises(DamagedInput, match="header is missing"):
        read(path, "jsonl")


def test_broken_lines_are_skipped_with_place_and_reason() -> None:
    trace = read(SAMPLES / "jsonl" / "broken-line-and-cut-end.jsonl", "jsonl")
    assert trace.to_arrow()["events"]["id"].to_pylist() == [1, 4]
    assert places(trace, "bad-record")[0] == ("line 4", "$.ts: Expected `int`, got `str`")
    assert [where for where, _ in places(trace, "bad-record")] == ["line 4", "line 5"]
    assert [where for where, _ in places(trace, "cut")] == ["line 7"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dur": -1}, "$.dur"),
        ({"ts": None}, "ts"),
        ({"args": [1]}, "$.args"),
        ({"record": "evnt"}, "$.record"),
        ({"pid": 2**63}, "$.pid"),
        ({"timing": "guessed"}, "$.timing"),
        ({"source": ""}, "$.source"),
    ],
)
def test_a_record_that_breaks_the_model_is_skipped(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    trace = read(write(tmp_path, EVENT | change, EVENT | {"id": 2}), "jsonl")
    assert trace.to_arrow()["events"]["id"].to_pylist() == [2]
    [(where, detail)] = places(trace, "bad-record")
    assert where == "line 2"
    assert reason in detail


def test_whole_numbers_may_be_written_as_decimals(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(EVENT).replace('"ts": 5', '"ts": 1.5e3'))
    assert read(path, "jsonl").to_arrow()["events"]["ts"].to_pylist() == [1500]


def test_arguments_stay_as_they_are_written(tmp_path: Path) -> None:
    text = '{ "b": 1.10, "a": [1e5, 123456789012345678901234567890], "b2": "\\u00e9" }'
    line = json.dumps(EVENT)[:-1] + f', "args": {text}}}'
    path = write(tmp_path, line)
    assert read(path, "jsonl").to_arrow()["events"]["args"].to_pylist() == [text]
    out = tmp_path / "out.jsonl"
    convert(path, out, from_="jsonl")
    assert text in out.read_text("utf-8")


def test_bytes_that_are_not_text_are_replaced_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    line = json.dumps(EVENT | {"name": "caf?"}).encode().replace(b"caf?", b"caf\xe9")
    path.write_bytes(b'{"ktrace":"1.0"}\n' + line + b"\n")
    trace = read(path, "jsonl")
    assert trace.to_arrow()["events"]["name"].to_pylist() == ["caf�"]
    assert places(trace, "encoding")[0][0] == "line 2"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["jsonl", "json", "csv"])
def test_byte_order_marks_and_carriage_returns(name: str, encoding: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{name}"
    convert(ALL, out, from_="jsonl")
    changed = tmp_path / f"changed.{name}"
    changed.write_bytes(out.read_bytes().decode().replace("\n", "\r\n").encode(encoding))
    match = by_name(name).recognised(Source(str(changed)).sample())
    assert match and match.score >= Score.DIALECT
    assert read(changed, name).equals(read(ALL, "jsonl"))


def test_csv_in_another_order_with_broken_rows() -> None:
    trace = read(SAMPLES / "csv" / "other-order-and-broken-rows.csv", "csv")
    assert trace.to_arrow()["events"]["name"].to_pylist() == ["gemm"]
    [summary] = trace.to_arrow()["summaries"].to_pylist()
    assert (summary["total"], summary["args"]) == (40.5, '{"$note":"from the tail"}')
    assert sorted(where for where, _ in places(trace, "bad-record")) == ["row 2", "row 3", "row 5"]


@pytest.mark.parametrize("cell", ['"{""a"":"', '"{""a"":' + DEEP + '}"'], ids=["cut", "deep"])
def test_a_csv_cell_that_is_not_json_is_a_bad_record(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "in.csv"
    head = "source,id,ts,kind,name,timing,args"
    path.write_text(f'{head}\nrun,1,5,op,a,measured,{cell}\nrun,2,5,op,b,measured,"{{}}"\n')
    trace = read(path, "csv")
    assert trace.to_arrow()["events"]["id"].to_pylist() == [2]


#: Arguments that aren't an object, alone or with the next row, although their joined texts may look like objects.
NO_OBJECTS = ['{"a":[{}', "{}]}", "{},{}", "{}{}", "{}\n{}", "[1]", '{"a":1', '"b":2}', '{"a":"', '"}', "", "1", "{}x"]


def flat(tmp_path: Path, args: list[str | None]) -> Path:
    """A Parquet file of an event for each of the arguments."""
    rows = [EVENT | {"id": number, "args": text} for number, text in enumerate(args)]
    path = tmp_path / "flat.parquet"
    pq.write_table(pa.Table.from_pylist(rows).replace_schema_metadata({"ktrace.version": "1.0"}), path)
    return path


def test_arguments_that_are_not_objects_are_bad_records_among_many(tmp_path: Path) -> None:
    good = ['{"a":[{},{}]}', " {} ", '{"s":"}\\n{"}', None, "{}"]
    texts = [text for bad in NO_OBJECTS for text in (*good, bad)]
    trace = read(flat(tmp_path, texts), "parquet")
    expected = [number for number, text in enumerate(texts) if text not in NO_OBJECTS]
    assert trace.to_arrow()["events"]["id"].to_pylist() == expected
    assert [where for where, _ in places(trace, "bad-record")] == [f"row {6 * n + 6}" for n in range(len(NO_OBJECTS))]


@pytest.mark.parametrize("bad", [["{},{}", '{"a":[{}', "{}]}"], ["{}\n{}", '{"a":1', '"b":2}']], ids=str)
def test_bad_arguments_do_not_make_up_for_one_another(tmp_path: Path, bad: list[str]) -> None:
    trace = read(flat(tmp_path, ["{}", *bad]), "parquet")
    assert trace.to_arrow()["events"]["id"].to_pylist() == [0]
    assert trace.report.issues["bad-record"].rows == 3


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_parquet_leaves_out_columns_that_are_not_used(folder: bool, tmp_path: Path) -> None:
    out = tmp_path / ("out.parquet/" if folder else "out.parquet")
    convert(ALL, str(out) + "/" * folder, from_="jsonl")
    reports = Report(), Report()
    whole = list(read_batches([str(out)], reports[0]))
    part = list(read_batches([str(out)], reports[1], pushdown=Pushdown(frozenset({"pid", "correlation"}))))
    assert reports[0].to_dict() == reports[1].to_dict()
    for full, narrow in zip(whole, part, strict=True):
        assert len(full) == len(narrow)
        assert full.record != "catalog" or full.columns.equals(narrow.columns)
        if full.record == "events":
            assert {"pid", "id", "ts", "kind"} <= set(narrow.columns.schema.names)
            assert not {"args", "bytes", "grid_x"} & set(narrow.columns.schema.names)
            assert {"args", "bytes", "grid_x"} <= set(full.columns.schema.names)
            for name in narrow.columns.schema.names:
                assert narrow.columns.column(name).equals(full.columns.column(name))


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "csv"])
def test_every_cut_yields_the_intact_part_or_an_error(name: str, tmp_path: Path) -> None:
    out, cut = tmp_path / f"out.{name}", tmp_path / f"cut.{name}"
    convert(ALL, out, from_="jsonl", to=name)
    data = out.read_bytes()
    whole = read(out, name).to_arrow()["events"].to_pylist()
    for size in range(0, len(data), max(1, len(data) // 150)):
        cut.write_bytes(data[:size])
        try:
            part = read(cut, name)
        except DamagedInput as error:
            assert error.path == str(cut) and error.remedy
        else:
            found = part.to_arrow()["events"].to_pylist()
            assert found == whole[: len(found)]
            assert name == "jsonl" or "cut" in part.report.issues or data[:size].endswith(b"\n") or name == "csv"


def test_compressed_data_that_breaks_off_yields_its_intact_part(tmp_path: Path) -> None:
    path = write(tmp_path, *(EVENT | {"id": number, "name": f"kernel {number * 7919}"} for number in range(5000)))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(path.read_bytes())[:-2000])
    trace = read(cut, "jsonl")
    ids = trace.to_arrow()["events"]["id"].to_pylist()
    assert 0 < len(ids) < 5000 and ids == list(range(len(ids)))
    assert "cut" in trace.report.issues


def test_probes_reject_other_formats() -> None:
    for name in ("jsonl", "json", "parquet", "csv"):
        for head in (
            b"",
            b"{",
            b'{"ktrace"',
            b"name,total\nk,5\n",
            b"\0\1\2",
            b'{"traceEvents":[]}',
            b"[1,2]",
            b"[" * 5000,
        ):
            assert by_name(name).recognised(Sample("x", head)) is None
    foreign = by_name("parquet").recognised(Sample("x.parquet", b"PAR1...PAR1"))
    assert foreign and foreign.score == Score.NEAR


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "csv"])
def test_an_aborted_output_is_silent_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    code = f"""
from ktrace.input.detection import by_name
from ktrace.conversion import Conversion
from ktrace.input.capabilities import Pushdown
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.output import Sink, writing
import ktrace.kit.canonical.flat_tables as flat
flat.PART = 1
try:
    with writing(Sink({str(tmp_path / "out")!r})) as sink:
        writer = by_name({name!r}, writes=True).function("writer")(sink, Conversion(Report()))
        for batch in read_batches([{str(ALL)!r}], Report(), format="jsonl"):
            writer.write(batch)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b""
    assert list(tmp_path.iterdir()) == []
