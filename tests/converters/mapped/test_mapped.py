"""Tables of anybody, read by a mapping: the samples against the csv and json modules; what is refused and noted."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import (
    AmbiguousFormat,
    DamagedInput,
    InputError,
    KtraceError,
    StrictFailure,
    UnknownFormat,
    UsageError,
)
from ktrace.input.detection import choose
from ktrace.input.mapping import MAPPING_SUFFIX
from ktrace.input.source import Source
from ktrace.pipeline.convert import convert
from ktrace.pipeline.selection import Selection
from ktrace.report import Severity
from ktrace.trace.trace import Trace

COMMAS = SAMPLES / "mapped/decimal-commas-own-kinds-and-rows-without.csv"
NESTED = SAMPLES / "mapped/nested-objects-counters-and-a-broken-line.jsonl"
TOTALS = SAMPLES / "mapped/totals-twice-with-units-in-cells.tsv"
PLAIN = 'Kernel,t0,Δ,queue,note\ngemm,12.5,3.25,compute,\nsoftmax,15.75,0.5,compute,"second, slower"\n'
MAPPING = "name=Kernel,start=t0:us,dur=Δ:us,stream=queue"


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    table = trace.to_arrow()[record].to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in table]


def written(folder: Path, text: str, name: str = "run.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_decimal_commas_are_read_as_they_were_meant() -> None:
    """The cells of the sample, computed here with Decimal."""
    ns = {}
    for cells in csv.reader(COMMAS.read_text("utf-8").splitlines()[3:], delimiter=";"):
        number, _, unit = cells[2].replace(",", ".").partition(" ")
        if cells[0] and number.replace(".", "").isdigit() and len(cells) == 10:
            start = Decimal(cells[1].replace(".", "").replace(",", ".")) * 1000
            ns[cells[0], start] = round(Decimal(number) * (10**6 if unit == "ms" else 1000))
    assert len(ns) == 4
    found = rows(ktrace.read(COMMAS))
    assert {(row["name"], row["ts"]): row["dur"] for row in found if "dur" in row} == {
        (name, round(start)): dur for (name, start), dur in ns.items()
    }


def test_own_kinds_places_and_extents() -> None:
    trace = ktrace.read(COMMAS)
    gemm, softmax, copy, fence, last = rows(trace)
    assert (gemm["kind"], copy["kind"], fence["kind"]) == ("kernel", "memcpy", "kernel")
    assert (gemm["cat"], copy["cat"], fence["cat"]) == ("compute", "transfer", "fence")
    assert [gemm[f"grid_{axis}"] for axis in "xyz"] == [64, 2, 1]
    assert [gemm[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (softmax["grid_x"], softmax["block_x"], "grid_y" in softmax) == (128, 256, False)
    assert copy["bytes"] == 4096
    assert {row["device"] for row in (gemm, softmax, copy, fence, last)} == {1}
    facts = [(row["entity"], row.get("stream"), row["name"]) for row in rows(trace, "catalog") if row["id"]]
    assert facts == [
        ("device", None, "GPU 1"),
        ("stream", gemm["stream"], "main"),
        ("stream", copy["stream"], "copies"),
    ]
    assert json.loads(last["args"]) == {"$ts": "1.020,0005", "$dur": "2,0004", "remark": "rounded"}
    issues = trace.report.issues
    assert issues["unknown-kind"].places == [
        ("line 9", "'fence': kinds.fence=KIND in the mapping makes it one of ktrace's kinds")
    ]
    assert [detail for _, detail in issues["bad-record"].places] == [
        "name: 'op' is empty, not a text",
        "dur: 'took' is 'n.d.', not a number of us, such as 12.5",
        "doesn't have a cell for each heading",
    ]
    assert [where for where, _ in issues["bad-record"].places] == ["line 7", "line 8", "line 11"]
    assert [where for where, _ in issues["negative-duration"].places] == ["line 12"]


def test_nested_objects_are_read_exactly() -> None:
    """Unix seconds with nine decimals: no float has that many digits."""
    objects = []
    for line in NESTED.read_text("utf-8").splitlines():
        try:
            objects.append(json.loads(line, parse_float=Decimal) if line else None)
        except ValueError:
            objects.append(None)
    trace = ktrace.read(NESTED)
    found = {row["id"]: row for row in rows(trace)}
    assert list(found) == [number for number, it in enumerate(objects, 1) if it]
    for number, it in enumerate(objects, 1):
        if it is None:
            continue
        row = found[number]
        begin, end = it["span"]["begin"], it["span"].get("end")
        assert row["ts"] == Decimal(begin) * 10**9
        assert row.get("dur") == (None if end is None else (Decimal(end) - Decimal(begin)) * 10**9)
        assert (row["name"], row["pid"]) == (it["op"], 41)
        assert row.get("value") == it.get("used")
        assert row.get("unit") == ("B" if "used" in it else None)
    assert [row["kind"] for row in found.values()] == ["kernel", "kernel", "counter", "op", "kernel"]
    assert json.loads(found[1]["args"]) == {"attrs": {"loss": 0.5, "tags": ["a", "b"]}, "worker": "main"}
    assert json.loads(found[7]["args"]) == {"span.note": "two and a half us", "worker": "main"}
    clocks = [json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "clock"]
    assert clocks == [{"kind": "unix", "at_ns": 0, "unix_ns": 0}]
    assert ("tid" in found[1], found[5]["tid"]) == (False, 7), (
        "the thread of a call is its track, that of a kernel isn't"
    )
    threads = {row["name"]: (row["pid"], row["tid"]) for row in rows(trace, "catalog") if row["entity"] == "thread"}
    assert threads == {"loader 7": (41, 7)}


ROWS = [{"kernel": "gemm", "time_ms": 1.5, "shape": {"m": 64}}, {"kernel": "norm", "time_ms": 0.25}]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "skipped"),
    [(ROWS, 0), ({"results": ROWS}, 0), ({"gpu": "x", "of": [1, 2], "results": ROWS, "note": {"a": [{}]}}, 4)],
)
def test_objects_in_a_list_are_rows(document: object, skipped: int, indent: int | None, tmp_path: Path) -> None:
    """As a script writes its results; what is beside the list is reported."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document, indent=indent))
    trace = ktrace.read(path)
    rows = trace.to_arrow()["summaries"].to_pylist()
    assert [(row["name"], row["value"], row["unit"], row["kind"]) for row in rows] == [
        ("gemm", 1_500_000, "ns", "kernel"),
        ("norm", 250_000, "ns", "kernel"),
    ]
    assert json.loads(rows[0]["args"]) == {"shape": {"m": 64}}
    assert trace.report.total(Severity.SKIP) == skipped and trace.report.read == len(rows) + skipped


@pytest.mark.parametrize("batch_rows", [1, 1000])
def test_parts_of_a_list_are_rows_of_one_table(batch_rows: int, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"kernel": f"k{at}", "time_us": at} for at in range(300)]))
    with ktrace.open_batches(path, batch_rows=batch_rows) as batches:
        values = [
            value for batch in batches if batch.record == "summaries" for value in batch.column("value").to_pylist()
        ]
    assert values == [1_000 * at for at in range(300)]


@pytest.mark.parametrize(
    "document",
    [
        [{"kernel": "gemm", "time": 1.5}, {"kernel": "norm", "time": 0.25}],  # in what unit?
        [{"user": "me", "age_s": 3}, {"user": "you", "age_s": 5}],
        {"results": [1, 2, 3], "time_ms": 5},
    ],
)
def test_other_documents_are_refused(document: object, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document, indent=2))
    with pytest.raises(UnknownFormat):
        ktrace.read(path)


def test_figures_of_tables_are_in_one_unit() -> None:
    found = rows(ktrace.read(TOTALS), "summaries")
    figures = [
        (row["name"], row["kind"], row["table"], row.get("total"), row.get("avg"), row["count"]) for row in found
    ]
    assert figures == [
        ("attention", "op", 0, 2.5e9, 2441406.25, 1024),
        ("mlp", "op", 0, 7.5e8, 1464843.75, 512),
        ("norm", "op", 0, None, None, 64),
        ("Total", "total", 0, 3.5e9, None, 1600),
        ("head", "op", 1, 84724.0, 84724.0, 1),
    ]
    assert {row.get("unit") for row in found} == {"ns", None}
    assert {row["metric"] for row in found} == {"duration"}
    assert [row.get("percent") for row in found] == [71.4, 21.4, None, 100.0, None]


def test_a_figure_in_another_unit_stays_an_argument(tmp_path: Path) -> None:
    path = written(tmp_path, "op,total,max,rate\na,2 ms,3 us,7\nb,4 KiB,1 ns,8\nc,5,6,9\n")
    found = rows(ktrace.read(path, map="name=op,total=total,max=max"), "summaries")
    assert [(row.get("unit"), row["metric"], row["total"], row.get("max")) for row in found] == [
        ("ns", "duration", 2e6, 3e3),
        ("B", "total", 4096.0, None),
        (None, "duration", 5.0, 6.0),
    ]
    assert [json.loads(row["args"]) for row in found] == [{"rate": 7}, {"rate": 8, "max": 1.0}, {"rate": 9}]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_file_next_to_a_table_is_found_and_reported(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run.csv{suffix}"
    path.write_bytes(gzip.compress(PLAIN.encode()) if suffix else PLAIN.encode())
    with pytest.raises(KtraceError, match="ktrace map"):
        choose(Source(str(path)))
    mapping = written(tmp_path, 'name = "Kernel"\nstart = {column = "t0", unit = "us"}\n', "run.csv.ktrace.toml")
    report = convert(path, tmp_path / "out.jsonl")
    assert report.issues["mapped"].places == [(str(mapping), "")]
    assert ktrace.detect(path)[0].format == "mapped"
    assert [row["ts"] for row in rows(ktrace.read(tmp_path / "out.jsonl"))] == [12_500, 15_750]
    assert rows(ktrace.read(path, map=MAPPING))[0]["dur"] == 3250
    with pytest.raises(KtraceError, match=r"."):
        ktrace.read(path, from_="csv")


def test_a_folder_is_read_by_the_mappings_in_it(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        shutil.copy(COMMAS, tmp_path / name)
        shutil.copy(str(COMMAS) + MAPPING_SUFFIX, tmp_path / f"{name}{MAPPING_SUFFIX}")
    trace = ktrace.read(tmp_path)
    assert {row["source"] for row in rows(trace)} == {"a", "b"}
    assert "no-trace" not in trace.report.issues


def test_a_mapping_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    kept = written(tmp_path, 'name = "Kernel"\nstart = {column = "t0", unit = "us"}\nstream = 3\n', "ours.toml")
    assert [row["stream"] for row in rows(ktrace.read(path, map=kept))] == [3, 3]
    assert Selection(map=kept).fingerprint() == Selection(map="name=Kernel,start=t0:us,stream='3'").fingerprint()
    assert Selection(map=kept).fingerprint() != Selection(from_="mapped").fingerprint()


def test_a_batch_reads_a_table_again_when_its_mapping_changed(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    mapping = written(tmp_path, 'name = "Kernel"\nstart = {column = "t0", unit = "us"}\n', f"run.csv{MAPPING_SUFFIX}")
    dataset = tmp_path / "runs.parquet"
    assert len(ktrace.batch(str(path), dataset, jobs=1).done) == 1
    again = ktrace.batch(str(path), dataset, jobs=1)
    assert (len(again.done), len(again.kept)) == (0, 1)
    mapping.write_text('name = "Kernel"\nstart = {column = "t0", unit = "ms"}\n', "utf-8")
    assert len(ktrace.batch(str(path), dataset, jobs=1).done) == 1
    assert [row["ts"] for row in rows(ktrace.read(dataset))] == [12_500_000, 15_750_000]


def test_dates_are_unix_times(tmp_path: Path) -> None:
    path = written(tmp_path, "op;at;to\na;2026-11-22T16:05:05.123456789Z;2026-11-22 17:05:06+01:00\nb;never;x\n")
    trace = ktrace.read(path, map="name=op,start=at:iso,end=to:iso")
    [row] = rows(trace)
    assert row["ts"] == 1795363505123456789
    assert row["dur"] == 876543211
    assert (
        trace.report.issues["bad-record"].places[0][1].endswith("not a date and time such as 2026-11-22T16:05:05.123Z")
    )
    assert [row["entity"] for row in rows(trace, "catalog")] == ["source", "clock"]


def test_names_get_numbers_that_are_free(tmp_path: Path) -> None:
    lanes = ["7", "a", "queue 7", "b 7", "a", "9", ""]
    path = written(tmp_path, "op,at,lane\n" + "".join(f"k,{at},{lane}\n" for at, lane in enumerate(lanes)))
    mapping = "name=op,start=at:ns,stream=lane"
    whole = [row.get("stream") for row in rows(ktrace.read(path, map=mapping))]
    assert whole == [7, 0, 8, 9, 0, 9, None]
    from ktrace.pipeline.read import read_batches
    from ktrace.report import Report

    for size in (1, 2, 3):
        batches = read_batches([str(path)], Report(), map=mapping, batch_rows=size)
        assert [
            it for batch in batches if batch.record == "events" for it in batch.column("stream").to_pylist()
        ] == whole


REFUSED: dict[str, tuple[str, str, type[KtraceError], str]] = {
    "a misspelt column": (
        PLAIN,
        "name=Kernel,start=t0:us,stream=qeue",
        InputError,
        "line 1: has no column 'qeue', which --map names for stream\n"
        "  expected: one of Kernel, t0, Δ, queue, note\n  hint: did you mean stream=queue?",
    ),
    "a key that no object has": (
        '{"op":"a","t":{"at":1}}\n',
        "name=op,start=t.att:us",
        InputError,
        "its first objects: has no column 't.att', which --map names for start\n"
        "  expected: one of op, t, t.at\n  hint: did you mean start=t.at?",
    ),
    "no unit anywhere": (
        PLAIN,
        "name=Kernel,start=t0",
        DamagedInput,
        "line 2: no row can be read by --map; the first one: start: 't0' is '12.5'\n"
        "  expected: a number with its unit, such as 12.5 us",
    ),
    "a decimal comma that isn't stated": (
        "op;at\na;1,5\nb;2,25\n",
        "name=op,start=at:ms",
        DamagedInput,
        "start: 'at' is '1,5'\n  expected: a number of ms, such as 12.5\n  hint: decimal=comma, if that is",
    ),
    "a kind that isn't one": (
        PLAIN,
        f"{MAPPING},kinds.compute=warp",
        UsageError,
        "kinds.compute is 'warp', which isn't a",
    ),
    "a constant that isn't a kind": (PLAIN, f"{MAPPING},kind='warp'", UsageError, "kind is 'warp', which isn't a kind"),
    "a constant that isn't a number": (PLAIN, f"{MAPPING},bytes='many'", UsageError, "bytes is 'many'"),
    "a constant that isn't a grid": (PLAIN, f"{MAPPING},grid='wide'", UsageError, "grid is 'wide'"),
    "no table": ("nothing to see\nhere\n", MAPPING, InputError, "has no table that a mapping could describe"),
    "another format": (PLAIN, "kineto", UsageError, "--map is for tables of the format mapped, not kineto"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_with_a_remedy(tmp_path: Path, what: str) -> None:
    text, mapping, kind, words = REFUSED[what]
    path = written(tmp_path, text)
    with pytest.raises(kind) as caught:
        if mapping == "kineto":
            ktrace.read(path, map=MAPPING, from_="kineto")
        ktrace.read(path, map=mapping)
    assert words in str(caught.value)
    if kind is not UsageError:
        assert str(caught.value).startswith(f"{path}: ")


def test_constants_hold_for_all_rows(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    constants = "device='GPU 2',kind=memcpy,bytes='2 KiB',block='64x2',layer='L1',registers='32',occupancy='12.5'"
    found = rows(ktrace.read(path, map=f"{MAPPING},{constants}"))
    names = ("device", "kind", "bytes", "block_x", "block_y", "block_z", "layer", "registers", "occupancy")
    assert [tuple(row.get(name) for name in names) for row in found] == [
        (2, "memcpy", 2048, 64, 2, None, "L1", 32, 12.5)
    ] * 2


def test_without_a_mapping_the_format_says_where_to_get_one(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    with pytest.raises(
        InputError, match=r"has no mapping of its columns(?s:.*)run.csv.ktrace.toml(?s:.*)ktrace map FILE"
    ):
        ktrace.read(path, from_="mapped")


def test_a_broken_mapping_next_to_the_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    mapping = written(tmp_path, 'name = "Kernel\n', f"run.csv{MAPPING_SUFFIX}")
    with pytest.raises(InputError, match="isn't TOML") as caught:
        ktrace.read(path)
    assert caught.value.path == str(mapping)


def test_a_stated_mapping_is_surer_than_any_format(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    trace.write_bytes((SAMPLES / "jsonl/all-records.jsonl").read_bytes())
    assert choose(Source(str(trace))).name == "jsonl"
    written(tmp_path, 'name = "name"\nstart = {column = "ts", unit = "ns"}\n', f"run.jsonl{MAPPING_SUFFIX}")
    try:
        chosen = choose(Source(str(trace)))
    except AmbiguousFormat as error:
        pytest.fail(str(error))
    assert chosen.name == "mapped"


def test_units_that_cannot_be_right_are_noted(tmp_path: Path) -> None:
    text = "op,at,took\n" + "".join(f"k,{at},{at % 7 + 1}\n" for at in range(100))
    path = written(tmp_path, text)
    noted = ktrace.read(path, map="name=op,start=at:s,dur=took:ns").report.issues
    assert noted["unlikely-unit"].places == [
        ("--map", f"100 rows over {99 * 10**9 + 2:,} ns last {sum(at % 7 + 1 for at in range(100)):,} ns together")
    ]
    assert "unlikely-unit" not in ktrace.read(path, map="name=op,start=at:us,dur=took:us").report.issues


def test_strict_refuses_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN + "third,n.d.,1,compute,\n")
    with pytest.raises(StrictFailure, match="line 4") as caught:
        ktrace.read(path, map=MAPPING, strict=True)
    assert "'t0' is 'n.d.', not a number of us" in str(caught.value)


@pytest.mark.parametrize("damage", ["utf-16", "bom and crlf", "a byte that isn't UTF-8"])
def test_other_encodings(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.csv"
    data = {
        "utf-16": PLAIN.encode("utf-16"),
        "bom and crlf": b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(),
        "a byte that isn't UTF-8": PLAIN.encode().replace(b"softmax", b"soft\xffmax"),
    }[damage]
    path.write_bytes(data)
    trace = ktrace.read(path, map=MAPPING)
    assert [(row["ts"], row["dur"]) for row in rows(trace)] == [(12500, 3250), (15750, 500)]
    assert ("encoding" in trace.report.issues) == (damage == "a byte that isn't UTF-8")


def test_a_negative_count_is_an_argument(tmp_path: Path) -> None:
    path = tmp_path / "totals.csv"
    path.write_text("op,calls,total\ngemm,-3,12.5\nsoftmax,4,3\n")
    target = tmp_path / "out.jsonl"
    ktrace.convert(path, target, map="name=op,count=calls,total=total:us")
    rows = [json.loads(line) for line in target.read_text().splitlines()[2:]]
    assert [(row.get("count"), row["total"], row.get("args")) for row in rows] == [
        (None, 12500.0, {"$count": -3}),
        (4, 3000.0, None),
    ]
    assert not ktrace.validate(target).faults


def test_a_column_without_a_value_that_fits_is_noted(tmp_path: Path) -> None:
    lines = [
        {"name": name, "ts_ns": ts, "dur_ns": 100, "correlation": hex(ts), "grid": {"x": ts, "y": 2, "z": 1}}
        for name, ts in (("gemm", 1000), ("softmax", 1300))
    ]
    trace = ktrace.read(written(tmp_path, "\n".join(map(json.dumps, lines)), "run.jsonl"))
    assert [(row["grid_x"], row["grid_y"], row["grid_z"]) for row in rows(trace)] == [(1000, 2, 1), (1300, 2, 1)]
    assert [json.loads(row["args"])["correlation"] for row in rows(trace)] == ["0x3e8", "0x514"]
    issue = trace.report.issues["misfit"]
    assert (issue.rows, issue.places[0]) == (2, ("line 1", "correlation: 0x3e8"))
    for line in lines:
        line["correlation"] = line["ts_ns"]
    trace = ktrace.read(written(tmp_path, "\n".join(map(json.dumps, lines)), "run.jsonl"))
    assert [row["correlation"] for row in rows(trace)] == [1000, 1300]
    assert "misfit" not in trace.report.issues


@pytest.mark.parametrize("form", ["list", "lines"])
def test_objects_with_times_of_variants_or_settings_are_figures(form: str, tmp_path: Path) -> None:
    def figures(records: list[dict[str, object]]) -> dict[str, float]:
        path = tmp_path / "results.json"
        lines = "\n".join(json.dumps(record) for record in records) + "\n"
        path.write_text(json.dumps(records, indent=2) if form == "list" else lines, "utf-8")
        rows = ktrace.read(path).summaries.to_dict("records")
        assert {row["kind"] for row in rows} == {"metric"}
        return {row["name"]: row["avg"] for row in rows}

    variants = [{"M": m, "N": 64, "triton_ms": m / 128, "torch_ms": m / 64} for m in (128, 512)]
    assert figures(variants)["M 512, torch_ms"] == 8_000_000
    settings = [
        {"kernel": name, "size": size, "time_ms": size / tile}
        for name, tile in (("tiled", 32), ("vector", 64))
        for size in (512, 1024)
    ]
    found = figures(settings)
    assert found["kernel vector, size 1024, time_ms"] == 16_000_000
    assert len(found) == 4
    with pytest.raises(KtraceError):
        figures([{"M": m, "N": 64, "timeout_ms": m, "interval_ms": m + 1} for m in (128, 512)])
