"""Nsight Compute: CSV pages and printed text. All samples are synthetic; the figures come from the csv module."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from engine import FAULTS, query
from fork_server import program

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput, StrictFailure
from ktrace.input.detection import detect
from ktrace.input.format import Score
from ktrace.kit.ncu_cells import metric_id, unit_of
from ktrace.model.schema import json_schema
from ktrace.pipeline.convert import convert

NCU = SAMPLES / "ncu"
DETAILS = NCU / "details-with-rules-two-processes-amid-output.csv"
RAW = NCU / "raw-units-row-nvtx-repeated-headings.csv"
TEXT = NCU / "printed-by-default-amid-output.txt"
OLD = NCU / "metrics-list-of-2020-without-headings.txt"
NONE = NCU / "none-profiled.txt"
SUMMARY = NCU / "summary-per-kernel-decimal-commas.csv"
LINT = SHARED / "tools" / "gpu_lint.py"

Row = dict[str, Any]

#: Unit -> (factor, base unit), written down here once more.
FACTORS = {
    "": (1, None),
    "%": (1, "%"),
    "us": (1000, "ns"),
    "ms": (10**6, "ns"),
    "cycle": (1, "cycle"),
    "inst": (1, "inst"),
    "block": (1, "block"),
    "warp": (1, "warp"),
    "SM": (1, "SM"),
    "thread": (1, "thread"),
    "Ghz": (10**9, "Hz"),
    "Kbyte": (1000, "B"),
    "Mbyte": (10**6, "B"),
    "Gbyte/s": (10**9, "B/s"),
    "byte/block": (1, "B/block"),
    "Kbyte/block": (1000, "B/block"),
    "register/thread": (1, "register/thread"),
}


def rows(path: Path) -> list[Row]:
    found = ktrace.read(path).to_arrow()["summaries"].to_pylist()
    kept = [{name: value for name, value in row.items() if value is not None} for row in found]
    for row in kept:
        row["args"] = json.loads(row.get("args", "{}"))
    return kept


def launches(found: list[Row]) -> list[tuple[Row, list[Row]]]:
    """Each head with the rows behind it."""
    heads = [row for row in found if row["kind"] == "kernel"]
    return [(head, [row for row in found if row.get("parent") == head["id"]]) for head in heads]


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def in_base(text: str, unit: str) -> float:
    return float(Decimal(text.replace(",", "")) * FACTORS[unit][0])


def cells(path: Path) -> list[list[str]]:
    """The rows of the pages, by the csv module alone."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.startswith('"') or line.startswith("with a second line")]
    return list(csv.reader(io.StringIO("".join(kept))))


# CSV


def test_the_details_page_by_the_csv_module() -> None:
    head, *data = cells(DETAILS)
    at = {name: number for number, name in enumerate(head)}
    expected: dict[tuple[str, str], list[tuple[str, float | str, str | None, str]]] = {}
    rules = []
    for row in data:
        launch = expected.setdefault((row[at["ID"]], row[at["Process ID"]]), [])
        name, unit = row[at["Metric Name"]], row[at["Metric Unit"]]
        if not name:
            rules.append((row[at["Rule Description"]], row[at["Rule Type"]], row[at["Rule Name"]]))
            continue
        text = row[at["Metric Value"]]
        value = in_base(text, unit) if re.fullmatch(r"[\d,.]+", text) else text
        launch.append((name, value, FACTORS[unit][1], row[at["Section Name"]]))
    found = rows(DETAILS)
    assert [
        [
            (row["name"], row.get("value", row["args"].get("Metric Value")), row.get("unit"), row["scope"][0])
            for row in behind
            if row["kind"] == "metric"
        ]
        for _, behind in launches(found)
    ] == list(expected.values())
    notes = [row for row in found if row["kind"] == "note"]
    assert [(row["name"], row["args"]["Rule Type"], row["args"]["Rule Name"]) for row in notes] == rules
    assert notes[1]["args"]["Estimated Speedup"] == 11.37
    assert notes[1]["args"]["Estimated Speedup Type"] == "local"


def test_launches_of_the_details_page() -> None:
    heads = [head for head, _ in launches(rows(DETAILS))]
    assert [(head["pid"], head["stream"], head["total"], head["count"]) for head in heads] == [
        (4242, 7, 412_860.0, 1),
        (4242, 13, 9540.0, 1),
        (4250, 7, 2_110_000.0, 1),
    ]
    gemm = heads[0]
    assert {gemm["unit"], gemm["metric"]} == {"ns", "duration"}
    assert [gemm[f"grid_{axis}"] for axis in "xyz"] == [64, 32, 1]
    assert [gemm[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (gemm["registers"], gemm["shared_dynamic"], gemm["shared_memory"]) == (96, 16_384, 16_384 + 32)
    assert gemm["args"] == {"ID": 0, "CC": "9.0"}
    assert heads[1]["name"] == 'void norm<Tag<"rms, fused">>(const float *, float *)'
    catalog = ktrace.read(DETAILS).to_arrow()["catalog"].to_pylist()
    processes = {row["pid"]: row["name"] for row in catalog if row["entity"] == "process"}
    assert processes == {4242: "train", 4250: "loader"}
    (device,) = [row for row in catalog if row["entity"] == "device"]
    assert json.loads(device["facts"])["compute_capability"] == "9.0"


def test_the_raw_page_by_the_csv_module() -> None:
    expected = []
    head: list[str] = []
    units: list[str] = []
    for row in cells(RAW):
        if row[0] == "ID":
            head = row
        elif not row[0]:
            units = row
        else:
            given = [(name, unit, text) for name, unit, text in zip(head, units, row, strict=True) if "__" in name]
            expected.append([(name, unit, text) for name, unit, text in given if text])
    found = launches(rows(RAW))
    assert len(found) == len(expected) == 3
    for (_, behind), given in zip(found, expected, strict=True):
        assert [row["metric"] for row in behind] == [name for name, _, _ in given]
        for row, (_, unit, text) in zip(behind, given, strict=True):
            if re.fullmatch(r"[\d,.]+", text):
                assert row["value"] == in_base(text, unit)
                assert row.get("unit") == FACTORS[unit][1]
            elif text == "nan":
                assert row["value"] != row["value"]
            else:
                assert row["args"] == {"Metric Value": text}
                assert "value" not in row
    assert [head["total"] for head, _ in found] == [50_460.0, 7070.0, 1_080_000.0]
    assert found[0][0]["name"] == "void fused<Policy<80>>(Args<float>)\nwith a second line"


def test_nvtx_ranges_are_the_scope() -> None:
    heads = [head for head, _ in launches(rows(RAW))]
    assert [head.get("scope") for head in heads] == [["forward", "layer 3"], ["sweep"], None]
    payload = next(value for name, value in heads[1]["args"].items() if "Push/Pop_Range" in name)
    assert "int64:7" in payload  # the scope doesn't say it
    assert not [name for name in heads[0]["args"] if "Range" in name]
    text = launches(rows(TEXT))[1][0]
    assert text["scope"] == ["decode", "sampling"]
    assert text["args"]["NVTX"] == ["NVTX Push/Pop Stack for 5150:", "<default domain>"]


def test_program_output_is_skipped_with_its_lines() -> None:
    report = ktrace.read(RAW).report
    assert report.issues["unrecognised"].places == [("lines 1-2", ""), ("line 10", "")]
    assert report.reader.balanced()
    with pytest.raises(StrictFailure):
        ktrace.read(RAW, strict=True)


def test_several_launches_in_one_line_and_decimal_commas() -> None:
    found = rows(SUMMARY)
    (first, behind), (second, _) = launches(found)
    assert (first["count"], first["avg"], first["min"], first["max"]) == (14, 29_360.0, 28_640.0, 38_290.0)
    cycles = behind[1]
    assert (cycles["avg"], cycles["min"], cycles["max"]) == (1_069_377.5, 1_043_110.0, 1_395_004.0)
    assert second["avg"] == 2_940_000.0
    assert not [row for row in found if "value" in row]


def test_dots_between_thousands_are_known_from_other_cells(tmp_path: Path) -> None:
    head = (
        '"ID","Process ID","Kernel Name","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    )
    row = '"0","1","k","1","7","s","gpu__time_duration.sum","ns","117.344"\n'
    other = '"0","1","k","1","7","s","sm__x","%","65,77"\n'
    american = write(tmp_path / "a.csv", head + row)
    european = write(tmp_path / "e.csv", head + row + other)
    assert launches(rows(american))[0][0]["total"] == 117.344
    assert launches(rows(european))[0][0]["total"] == 117_344.0
    assert rows(european)[-1]["value"] == 65.77


def test_rows_of_a_launch_that_come_late_are_its_own(tmp_path: Path) -> None:
    head = (
        '"ID","Process ID","Kernel Name","Context","Stream","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    )
    data = "".join(f'"{i}","1","k{i}","1","7","s","m{m}","","{m}"\n' for m in range(3) for i in range(2))
    found = launches(rows(write(tmp_path / "sorted.csv", head + data)))
    assert [(head["name"], [row["value"] for row in behind]) for head, behind in found] == [
        ("k0", [0.0, 1.0, 2.0]),
        ("k1", [0.0, 1.0, 2.0]),
    ]
    report = convert(tmp_path / "sorted.csv", tmp_path / "sorted.perfetto")
    assert report.balanced()
    assert report.written == 8


def test_columns_are_found_by_their_headings(tmp_path: Path) -> None:
    """As pandas writes them: quotes where they are needed, other order, an index."""
    text = (
        ",Kernel Name,ID,Grid Size,Block Size,Process ID,Metric Value,Metric Name,Metric Unit,Section Name,New One\n"
        '0,"k<a, b>",3,"(2, 3, 4)","(32, 1, 1)",99,"1,024",inst_executed,inst,s,x\n'
    )
    ((head, (metric,)),) = launches(rows(write(tmp_path / "frame.csv", text)))
    assert (head["name"], head["pid"], head["grid_z"], head["args"]) == ("k<a, b>", 99, 4, {"ID": 3, "New One": "x"})
    assert (metric["metric"], metric["value"], metric["unit"]) == ("inst_executed", 1024.0, "inst")


def test_a_row_that_is_cut_is_reported(tmp_path: Path) -> None:
    text = RAW.read_text("utf-8").rstrip("\n")
    report = ktrace.read(write(tmp_path / "cut.csv", text[:-8])).report
    assert report.issues["cut"].rows == 1
    assert report.rows["summaries"] == 32
    broken = text.replace('"scan_blocks(unsigned int *, unsigned int)",', "")
    report = ktrace.read(write(tmp_path / "broken.csv", broken)).report
    assert report.issues["bad-record"].places == [("line 8", "a row of a different length")]


def test_numbers_that_a_double_does_not_hold_keep_their_text(tmp_path: Path) -> None:
    text = '"ID","Process ID","Kernel Name","big__x","small__x"\n"","","","",""\n"0","1","k","9007199254740993","1e3"\n'
    big, small = rows(write(tmp_path / "big.csv", text))[1:]
    assert big["args"] == {"Metric Value": "9007199254740993"}
    assert (small["value"], small["args"]) == (1000.0, {})


# Text


def test_the_printed_text_by_its_tables() -> None:
    """The tables once more, by a pattern of their rows alone."""
    pattern = re.compile(r"^    (\S.*?) {2,}(?:(\S+) +)?(\S+)$")
    expected = []
    for line in TEXT.read_text("utf-8").splitlines():
        found = pattern.match(line)
        if found and not line.startswith(("    Metric Name", "    ---", "    OPT", "    INF")):
            expected.append((found[1], found[2] or "", found[3]))
    found_rows = [row for row in rows(TEXT) if row["kind"] == "metric"]
    assert len(found_rows) == len(expected) == 37
    for row, (name, unit, text) in zip(found_rows, expected, strict=True):
        assert row["name"] == name
        if re.fullmatch(r"[\d,.]+", text):
            assert (row["value"], row.get("unit")) == (in_base(text, unit), FACTORS[unit][1])
        else:
            assert row["args"] == {"Metric Value": text}


def test_launches_of_the_printed_text() -> None:
    (attend, behind), (sample, _) = launches(rows(TEXT))
    assert attend["name"] == "void attend<(int)64, __nv_bfloat16>(const Params, float)"
    place = {
        name: attend[name] for name in ("host", "pid", "device", "context", "stream", "grid_x", "grid_y", "block_x")
    }
    assert list(place.values()) == ["127.0.0.1", 5150, 0, 1, 23, 12, 8, 128]
    assert (attend["total"], sample["total"]) == (40_130.0, 4700.0)
    assert (attend["registers"], attend["shared_dynamic"]) == (128, 40_960)
    notes = [row for row in behind if row["kind"] == "note"]
    assert [row["args"]["Rule Type"] for row in notes] == ["OPT", "OPT", "INF", "OPT"]
    assert notes[0]["name"].endswith("Look at Scheduler Statistics and Warp State Statistics.")
    assert "  " not in notes[0]["name"]
    assert notes[1]["args"] == {"Rule Type": "OPT", "Estimated Speedup Type": "local", "Estimated Speedup": 14.7}
    assert notes[3]["args"]["Estimated Speedup"] == 11.11
    assert notes[1]["name"] == "Loads of the mask use 18.2 of the 32 bytes of a sector."


def test_two_metrics_of_one_name_are_told_apart_by_their_units() -> None:
    found = {row["unit"]: row["metric"] for row in rows(TEXT) if row["name"] == "Memory Throughput"}
    assert found == {
        "%": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "B/s": "dram__bytes.sum.per_second",
    }


def test_tables_of_2020() -> None:
    (first, behind), (second, others) = launches(rows(OLD))
    assert first["args"] == {"Kernel Time": "2020-Oct-28 10:36:31"}
    assert (first["total"], second["total"]) == (21_570.0, 13_890.0)
    assert (first["pid"], first["stream"], "grid_x" in first) == (20936, 7, False)
    assert (second["grid_x"], "grid_y" in second, second["block_x"]) == (64, False, 256)  # only the products are known
    assert behind[1]["args"] == {"Metric Value": "(!) n/a"}
    assert behind[4]["name"].endswith("beyond_its_column.sum")
    assert behind[4]["value"] == 1024.0
    assert {row["metric"] for row in others} >= {
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.strip(),  # pasted without indentation
        lambda line: f"> {line}",
        lambda line: f"[rank0]: {line}",
        lambda line: f"12: {line}",  # `srun -l`
        lambda line: f"x3005c0s25b1n0.hsn 4: {line}",
        lambda line: f"// {line}".rstrip(),  # below the program that it is of
        lambda line: f"2026-11-21 20:55:17 INFO {line}",
        lambda line: line + "\r",
        lambda line: line.rstrip(),
    ],
)
def test_text_as_people_paste_and_log_it(change: Any, tmp_path: Path) -> None:
    changed = "\n".join(change(line) for line in TEXT.read_text("utf-8").splitlines())
    path = tmp_path / "pasted.log"
    path.write_bytes(changed.encode())
    assert detect(path)[0].format == "ncu"

    def said(path: Path) -> list[Row]:
        return [
            {name: row.get(name) for name in ("kind", "name", "metric", "value", "total", "parent", "stream", "grid_x")}
            for row in rows(path)
        ]

    assert said(path) == said(TEXT)


def test_a_launch_without_its_place(tmp_path: Path) -> None:
    """As quoted in documents: nothing behind the sizes, comments behind values."""
    text = (
        "  add(float *) (19532, 1, 1)x(256, 1, 1)\n    Section: GPU Speed Of Light Throughput\n"
        "    ----------------------- ----------- ------------\n"
        "    Metric Name             Metric Unit Metric Value\n"
        "    ----------------------- ----------- ------------\n"
        "    Memory Throughput                 %        93.44\n"
        "    Duration                         us       1.13\n"
        "    ----------------------- ----------- ------------\n"
    )
    ((head, behind),) = launches(rows(write(tmp_path / "doc.txt", text)))
    assert (head["name"], head["grid_x"], head["total"]) == ("add(float *)", 19532, 1130.0)
    assert [row["value"] for row in behind] == [93.44, 1130.0]
    report = convert(tmp_path / "doc.txt", tmp_path / "doc.perfetto")
    assert report.balanced()


def test_sections_alone(tmp_path: Path) -> None:
    """As quoted in documents: no line of the launch. A section that comes again is of another launch."""
    table = (
        "----------------------- ----------- ------------\nMetric Name             Metric Unit Metric Value\n"
        "----------------------- ----------- ------------\n{}"
        "----------------------- ----------- ------------\n\n"
    )
    speed = "Section: GPU Speed Of Light Throughput\n" + table.format(
        "Duration                msecond             {}\n"
    )
    other = "Section: Occupancy\n" + table.format("Achieved Occupancy            %        99.62\n")
    text = f"# Naive\n```\n{speed.format('8.92')}{other}```\n# Tiled\n```\n{speed.format('4.5')}```\n"
    path = write(tmp_path / "notes.md", text)
    assert detect(path)[0].format == "ncu"
    (first, behind), (second, _) = launches(rows(path))
    assert [first["total"], second["total"]] == [8_920_000.0, 4_500_000.0]
    assert [row["value"] for row in behind] == [8_920_000.0, 99.62]
    assert convert(path, tmp_path / "notes.perfetto").balanced()


def test_a_summary_of_which_lines_are_left_out(tmp_path: Path) -> None:
    text = (
        "  unnamed>::k(float *) (64, 1, 1)x(256, 1, 1), Device 0, CC 11.0, Invocations 14\n    Section: Occupancy\n"
        "    ...\n    Achieved Occupancy          %   34.50   1,035.75   35.25\n"
        "    ------------------- ----------- ------- ---------- -------\n"
    )
    ((head, (row,)),) = launches(rows(write(tmp_path / "part.txt", text)))
    assert (head["name"], head["count"]) == ("unnamed>::k(float *)", 14)
    assert (row["avg"], row["min"], row["max"], row["unit"]) == (35.25, 34.5, 1035.75, "%")


@pytest.mark.parametrize("first", ["#", "Address", "Line No"])
def test_the_page_of_sources_has_no_launches(first: str, tmp_path: Path) -> None:
    text = f'"Kernel Name","k(float *)"\n"{first}","Source","# Samples","stall_wait"\n"1","MOV R1, R2","12","1"\n'
    path = write(tmp_path / "source.csv", text)
    with pytest.raises(ClosedFormat, match="instructions but no launches"):
        convert(path, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_numbers_beyond_int64_and_rows_without_their_table(tmp_path: Path) -> None:
    text = (
        "[99999999999999999999] app@h\n  k (1, 1, 1)x(32, 1, 1), Context 1, Stream 99999999999999999999\n"
        "    Section: s\n    Elapsed Cycles   cycle   5,000\n    and some other words   here\n"
        "    Registers Per Thread   register/thread   99,999,999,999\n"
    )
    ((head, behind),) = launches(rows(write(tmp_path / "odd.txt", text)))
    assert (head["name"], head["context"], head["args"]) == ("k", 1, {"Stream": "99999999999999999999"})
    assert [row["value"] for row in behind] == [5000.0, 99_999_999_999.0]
    assert not head.keys() & {"pid", "registers", "stream"}


def test_several_launches_in_printed_tables(tmp_path: Path) -> None:
    ruler = f"    {'-' * 12} {'-' * 11} {'-' * 8} {'-' * 8} {'-' * 8}\n"
    text = (
        f"  k(int) (4, 1, 1)x(8, 1, 1), Device 0, CC 11.0, Invocations 14\n    Section: s\n{ruler}"
        f"    Metric Name  Metric Unit  Minimum  Maximum  Average\n{ruler}"
        f"    Duration              us     1.00     3.00     2.50\n{ruler}"
    )
    ((head, (metric,)),) = launches(rows(write(tmp_path / "sum.txt", text)))
    assert (head["count"], head["avg"], head["min"], head["max"]) == (14, 2500.0, 1000.0, 3000.0)
    assert (metric["avg"], metric["unit"], metric["metric"]) == (2500.0, "ns", "gpu__time_duration.sum")


def test_text_and_pages_in_one_file(tmp_path: Path) -> None:
    both = write(tmp_path / "both.log", TEXT.read_text("utf-8") + DETAILS.read_text("utf-8") + OLD.read_text("utf-8"))
    apart = [launch for path in (TEXT, DETAILS, OLD) for launch in launches(rows(path))]
    together = launches(rows(both))
    assert [(head["name"], len(behind)) for head, behind in together] == [
        (head["name"], len(behind)) for head, behind in apart
    ]


# Nothing profiled


def test_nothing_profiled_is_told() -> None:
    assert [(row["kind"], row["name"]) for row in rows(NONE)] == [
        ("note", "No kernels were profiled."),
        ("note", "Profiling kernels launched by child processes requires the --target-processes all option."),
    ]


FORBIDDEN = (
    "==PROF== Connected to process 11156 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0.\n==WARNING== No kernels were profiled.\n"
)


def test_missing_permission_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "run.txt", FORBIDDEN)
    with pytest.raises(DamagedInput, match="performance counters") as caught:
        ktrace.read(path)
    assert (caught.value.path, caught.value.where) == (str(path), "line 2")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(caught.value)
    done = subprocess.run(
        [program(), "convert", path, "-o", tmp_path / "out.perfetto"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "sudo" in done.stderr
    assert not (tmp_path / "out.perfetto").exists()


def test_missing_permission_beside_launches_is_a_note(tmp_path: Path) -> None:
    found = rows(write(tmp_path / "run.txt", FORBIDDEN + TEXT.read_text("utf-8")))
    assert len(launches(found)) == 2
    assert found[-2]["name"].startswith("ERR_NVGPUCTRPERM")
    assert found[-2]["args"] == {"type": "ERROR"}


# Recognition, units, names


@pytest.mark.parametrize("path", sorted((SHARED / "corpus").glob("*/*")), ids=lambda path: path.name)
def test_nothing_else_is_taken_for_it(path: Path) -> None:
    if path.stat().st_size > 2_000_000:
        pytest.skip("only its head would be looked at")
    assert "ncu" not in [match.format for match in detect(path) if match.score > Score.NEAR]


@pytest.mark.parametrize(
    ("text", "unit", "factor"),
    [
        ("nsecond", "ns", 0),
        ("usecond", "ns", 3),
        ("second", "ns", 9),
        ("s", "ns", 9),
        ("cycle/nsecond", "Hz", 9),
        ("cycle/usecond", "Hz", 6),
        ("cycle/second", "Hz", 0),
        ("Mhz", "Hz", 6),
        ("Tbyte/second", "B/s", 12),
        ("byte/nsecond", "B/s", 9),
        ("Kbyte/block", "B/block", 3),
        ("byte", "B", 0),
        ("inst/cycle", "inst/cycle", 0),
        ("Msector", "sector", 6),
        ("register/thread", "register/thread", 0),
        ("branches", "branches", 0),
        ("", "", 0),
    ],
)
def test_units(text: str, unit: str, factor: int) -> None:
    assert unit_of(text) == (unit, factor)


def test_names_of_the_table_are_ids() -> None:
    path = Path(ktrace.__file__).parent / "schema" / "ncu-metrics.json"
    names = json.loads(path.read_text("utf-8"))["names"]
    ids = [identity for said in names.values() for identity in (said.values() if isinstance(said, dict) else [said])]
    shape = re.compile(r"[a-z0-9]+_[a-z0-9_]+(\.[a-z0-9_]+)*")
    several = [name for name, said in names.items() if isinstance(said, dict) and "" in said.values()]
    assert several == ["SM Frequency"]  # one of which a table has several
    assert all(shape.fullmatch(identity) for identity in ids if identity)
    assert json_schema()  # the other file beside it
    assert metric_id("A name of 2031", "%") == "A name of 2031"
    assert metric_id("Achieved Occupancy", "%") == "sm__warps_active.avg.pct_of_peak_sustained_active"


def test_three_forms_of_the_same_launches_say_the_same(tmp_path: Path) -> None:
    """Text, details and raw page with the same figures: made here, read three times."""
    metrics = [
        ("gpu__time_duration.sum", "us", "12.40"),
        ("dram__bytes_read.sum", "Mbyte", "3.07"),
        ("x__y.avg", "", "5"),
    ]
    fixed = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"
    place = [f'"{n}","7","app","h","k{n}(int)","1","7","(32, 1, 1)","(4, 2, 1)","0","8.6"' for n in range(3)]
    raw = f"{fixed},{','.join(m for m, _, _ in metrics)}\n" + "," * 11 + ",".join(u for _, u, _ in metrics) + "\n"
    raw += "".join(f"{launch},{','.join(v for _, _, v in metrics)}\n" for launch in place)
    details = f'{fixed},"Section Name","Metric Name","Metric Unit","Metric Value"\n'
    text = "[7] app@h\n"
    ruler = f"    {'-' * 24} {'-' * 11} {'-' * 12}\n"
    for number, launch in enumerate(place):
        text += f"  k{number}(int) (4, 2, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6\n    Section: s\n{ruler}"
        for name, unit, value in metrics:
            details += f'{launch},"s","{name}","{unit}","{value}"\n'
            text += f"    {name:<24} {unit:>11} {value:>12}\n"
        text += f"{ruler}\n"
    found = []
    for name, content in (("raw.csv", raw), ("details.csv", details), ("text.txt", text)):
        kept = rows(write(tmp_path / name, content))
        for row in kept:
            row["args"].pop("ID", None)
            for column in ("source", "scope", "table"):
                row.pop(column, None)
        found.append(kept)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 12


# On a timeline


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
@pytest.mark.parametrize("path", [DETAILS, RAW, TEXT], ids=lambda path: path.name)
def test_the_tables_of_the_gpu_tab_fill(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.perfetto"
    convert(path, made)
    done = subprocess.run([sys.executable, LINT, made], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for table in ("Speed of Light", "Launch Statistics", "Occupancy"):
        assert f"{table}: fills" in done.stdout


def test_launches_follow_one_another_in_the_engine(tmp_path: Path) -> None:
    made = tmp_path / "out.perfetto"
    convert(DETAILS, made)
    slices, faults = query(made, "select ts, dur, name from gpu_slice order by ts", FAULTS)
    assert [(row["ts"], row["dur"]) for row in slices] == [(0, 412_860), (412_860, 9540), (422_400, 2_110_000)]
    assert [row["name"] for row in faults] in ([], ["unknown_extension_fields"])


def test_every_slice_says_that_it_was_laid_out(tmp_path: Path) -> None:
    made = tmp_path / "out.trace.json"
    convert(TEXT, made)
    slices = [event for event in json.loads(made.read_text("utf-8"))["traceEvents"] if event["ph"] == "X"]
    assert [event["args"]["timing"] for event in slices] == ["synthetic"] * 2
    assert slices[0]["args"]["launch__waves_per_multiprocessor"] == 0.22


def test_metrics_come_once_onto_the_kernels_of_a_timeline(tmp_path: Path) -> None:
    records = [
        {"ktrace": "1.0"},
        *(
            {"record": "event", "source": "run", "id": number, "kind": "kernel", "name": name, "timing": "measured"}
            | {"ts": 1000 * number, "dur": 10, "pid": 1, "device": 0, "stream": 7}
            | dict(zip(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), size, strict=True))
            for number, (name, size) in enumerate(
                [
                    ("void attend<(int)64, __nv_bfloat16>(const Params, float)", (12, 8, 1, 128, 1, 1)),
                    ("sample_token", (1, 1, 1, 256, 1, 1)),
                ],
                1,
            )
        ),
    ]
    timeline = write(tmp_path / "run.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    convert(timeline, tmp_path / "out.parquet", metrics=TEXT)
    found = ktrace.read(tmp_path / "out.parquet").events
    counters = found[found["kind"] == "counter"]
    durations = counters[counters["name"] == "gpu__time_duration.sum"]
    assert durations[["parent", "value"]].to_numpy().tolist() == [[1, 40_130.0], [2, 4700.0]]
    assert not counters.duplicated(["parent", "name"]).any()
