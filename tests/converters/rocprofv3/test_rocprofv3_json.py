"""rocprofv3's JSON against the module json. All documents are synthetic: no real one is at hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bad_values import DEEP
from conftest import SAMPLES
from rocprofv3_json_samples import SAMPLES as TEXTS
from rocprofv3_json_samples import T, counted, document, entry, kernel

import ktrace
from ktrace.errors import DamagedInput
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

FOLDER = SAMPLES / "rocprofv3-json"
ONE = FOLDER / "counters-with-times-new-keys-and-odd-times_results.json"
TWO = FOLDER / "records-before-the-names-two-processes_results.json"


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls, arguments taken apart."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return found


def made(tmp_path: Path, *entries: dict[str, Any]) -> Path:
    path = tmp_path / "a_results.json"
    path.write_text(document(entries))
    return path


@pytest.mark.parametrize("name", TEXTS)
def test_the_samples_are_what_the_script_makes(name: str) -> None:
    assert (FOLDER / name).read_text() == TEXTS[name]


def test_kernels_are_those_of_the_json_module() -> None:
    tool = json.loads(ONE.read_text())["rocprofiler-sdk-tool"][0]
    symbols = {symbol["kernel_id"]: symbol for symbol in tool["kernel_symbols"]}
    theirs = []
    for record in tool["buffer_records"]["kernel_dispatch"]:
        info, start, end = record["dispatch_info"], record["start_timestamp"], record["end_timestamp"]
        if 0 < start <= end < 1 << 62:
            name = symbols.get(info["kernel_id"], {}).get("formatted_kernel_name", f"[kernel {info['kernel_id']}]")
            grid = tuple(-(-info["grid_size"][axis] // info["workgroup_size"][axis]) for axis in "xyz")
            stack = record["correlation_id"]["internal"]
            theirs.append((name, start, end - start, record["stream_id"]["handle"], stack, grid))
    ours = [
        (
            *(row[key] for key in ("name", "ts", "dur", "stream", "correlation")),
            tuple(row[f"grid_{axis}"] for axis in "xyz"),
        )
        for row in rows(ktrace.read(ONE))
        if row["kind"] == "kernel"
    ]
    assert ours == theirs
    assert len(ours) == 4


def test_a_kernel_whole() -> None:
    first = next(row for row in rows(ktrace.read(ONE)) if row["kind"] == "kernel")
    assert (first["host"], first["pid"], first["device"], first["stream"]) == ("node-a", 4_000, 4, 0)
    assert (first["short_name"], first["registers"], first["shared_memory"]) == ("scale", 32, 4096)
    assert first["args"] == {
        **{"thread_id": 4_001, "queue_id": 1, "grid_size_x": 1000, "sgpr_count": 48},
        **{"dispatch_id": 1, "private_segment_size": 16},
    }


@pytest.mark.parametrize("path", [ONE, TWO], ids=["names first", "records first"])
def test_counters_are_sums_and_children_of_their_kernel(path: Path) -> None:
    found = rows(ktrace.read(path))
    by_id = {row["id"]: row for row in found}
    counters = [row for row in found if row["kind"] == "counter"]
    for row in counters:
        kernel_row = by_id[row["parent"]]
        assert all(kernel_row[key] == row[key] for key in ("ts", "dur", "device", "stream", "pid"))
    first = [(row["name"], row["value"], row["timing"]) for row in counters if row["pid"] == 4_000]
    assert first == [
        ("SQ_BUSY_CYCLES", 400.0, "measured"),
        ("SQ_BUSY_CYCLES_avr", 200.0, "derived"),
        ("SQ_WAVES", 8.0, "measured"),
        ("SQ_WAVES", 9.0, "measured"),
        ("[counter 97]", 1.5, "measured"),
    ]


def test_names_may_stand_behind_the_records() -> None:
    def said(path: Path, pid: int) -> list[dict[str, Any]]:
        found = [row for row in rows(ktrace.read(path)) if row.get("pid") == pid]
        return [{key: value for key, value in row.items() if key not in ("source", "id", "parent")} for row in found]

    assert said(ONE, 4_000) == said(TWO, 4_000)
    assert {row["pid"] for row in rows(ktrace.read(TWO))} == {4_000, 5_000}


def test_calls_markers_copies_allocations() -> None:
    found = rows(ktrace.read(ONE))
    calls = [(row["name"], row["tid"], row["correlation"]) for row in found if row["kind"] == "api"]
    assert calls == [
        ("hipMemcpyAsync", 4_001, 2),
        ("hipLaunchKernel", 4_001, 3),
        ("hipLaunchKernel", 4_001, 4),
        ("[operation 77 of kind 1]", 4_001, 6),
    ]
    markers = [(row["kind"], row["name"], row["args"]["function"]) for row in found if "MARKER" in row.get("cat", "")]
    assert markers == [("range", "forward", "roctxRangePushA"), ("instant", 'say "hi"', "roctxMarkA")]
    copy = next(row for row in found if row["kind"] == "memcpy")
    assert (copy["copy_kind"], copy["bytes"], copy["device"]) == ("HtoD", 4096, 4)
    assert (copy["args"]["src_agent"], copy["args"]["dst_agent"]) == (0, 4)
    alloc = next(row for row in found if row["kind"] == "alloc")
    assert (alloc["bytes"], alloc["device"]) == (64, 4)


def test_what_is_wrong_is_said() -> None:
    trace = ktrace.read(ONE)
    issues = {kind: issue.rows for kind, issue in trace.report.issues.items()}
    assert issues == {"not-executed": 1, "time-range": 1, "negative-duration": 1, "missing-string": 3}
    assert trace.report.balanced()


def test_dispatches_that_only_counters_know(tmp_path: Path) -> None:
    one = entry(7)
    one["buffer_records"]["kernel_dispatch"] = []
    trace = ktrace.read(made(tmp_path, one))
    kernels = [(row["ts"], row["dur"], row["name"]) for row in rows(trace) if row["kind"] == "kernel"]
    assert kernels == [
        (T + 8_000, 10_000, "scale(float*, int) [clone .kd]"),
        (T + 17_000, 10_000, "scale(float*, int) [clone .kd]"),
    ]
    assert sum(row["kind"] == "counter" for row in rows(trace)) == 5
    assert trace.report.balanced()


def many(count: int) -> dict[str, Any]:
    """A process of so many kernels, each with counters, in several chunks; keys come and go."""
    one = entry(9)
    times = [(T + 1_000 * n, T + 1_000 * n + n % 900) for n in range(1, count + 1)]
    kernels = [kernel(n, at, 10, stream=n % 3) for n, at in enumerate(times, 1)]
    for record in kernels[:: count // 7]:
        record["late"] = {"x": 1}
    one["buffer_records"]["kernel_dispatch"] = kernels
    values = [counted(n, at, 10, *((12, float(n * k)) for k in (1, 2))) for n, at in enumerate(times, 1)]
    one["callback_records"]["counter_collection"] = values
    return one


def test_many_records_in_many_chunks(tmp_path: Path) -> None:
    count = 6_000
    trace = ktrace.read(made(tmp_path, many(count)))
    found = rows(trace)
    kernels = [row for row in found if row["kind"] == "kernel"]
    assert [row["args"]["dispatch_id"] for row in kernels] == list(range(1, count + 1))
    assert sum(row["dur"] for row in kernels) == sum(n % 900 for n in range(1, count + 1))
    assert Counter(row["stream"] for row in kernels) == {0: 2000, 1: 2000, 2: 2000}
    assert sum("late.x" in row["args"] for row in kernels) == len(range(0, count, count // 7))
    values = {row["parent"]: row["value"] for row in found if row["kind"] == "counter"}
    assert [values[row["id"]] for row in kernels] == [3.0 * n for n in range(1, count + 1)]
    assert not trace.report.issues.keys() - {"missing-string"}


def test_a_cut_file_gives_its_whole_records(tmp_path: Path) -> None:
    path = made(tmp_path, many(4_000))
    text = path.read_text()
    begin = text.index('"kernel_dispatch"')
    for share in (0.1, 0.5, 0.9):
        cut = begin + int((text.index('"hip_api"') - begin) * share)
        path.write_text(text[:cut])
        trace = ktrace.read(path)
        whole = text[begin:cut].count('"stream_id": {\n"handle"') - (not text[:cut].rstrip().endswith("}"))
        kernels = [row for row in rows(trace) if row["kind"] == "kernel" and "queue_id" in row["args"]]
        assert abs(len(kernels) - whole) <= 1
        assert "cut" in trace.report.issues
        assert trace.report.balanced()


def test_a_damaged_record_costs_itself(tmp_path: Path) -> None:
    path = made(tmp_path, many(3_000))
    text = path.read_text()
    at = text.index('"dispatch_id": 1500,', text.index('"kernel_dispatch"'))
    path.write_text(text[:at] + '"dispatch_id": @@,' + text[at + len('"dispatch_id": 1500,') :])
    trace = ktrace.read(path)
    ids = [row["args"]["dispatch_id"] for row in rows(trace) if row["kind"] == "kernel" and "queue_id" in row["args"]]
    assert sorted(set(range(1, 3_001)) - set(ids)) == [1500]
    assert trace.report.balanced()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"other": 1}', '{"rocprofiler-sdk-tool": 5}'])
def test_what_is_none_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DamagedInput):
        ktrace.read(path, from_="rocprofv3-json")


#: Values that no number, or no stack, of ours holds.
UNREADABLE = {"long": "9" * 5_000, "infinite": "1e400", "deep": DEEP}


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("key", ["start_timestamp", "thread_id"])
def test_a_value_that_cannot_be_read_costs_its_record(tmp_path: Path, key: str, value: str) -> None:
    text = ONE.read_text()
    start = text.index('"kernel_dispatch"')
    found = re.compile(rf'("{key}"\s*:\s*)\d+').search(text, start)
    assert found
    path = tmp_path / "odd_results.json"
    path.write_text(f"{text[: found.start()]}{found[1]}{UNREADABLE[value]}{text[found.end() :]}")
    whole, trace = ktrace.read(ONE), ktrace.read(path)
    lost = Counter(row["name"] for row in rows(whole) if row["kind"] == "kernel")
    lost.subtract(row["name"] for row in rows(trace) if row["kind"] == "kernel")
    assert sum(lost.values()) in (0, 1)  # a kernel of which counters are told has its times there, too
    assert (trace.report.issues["bad-record"].rows, "bad-record" in whole.report.issues) == (1, False)
    assert trace.report.balanced()


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_value_that_cannot_be_read_costs_no_names(tmp_path: Path, value: str) -> None:
    text = ONE.read_text()
    found = re.compile(r'("sgpr_count"\s*:\s*)\d+').search(text)
    assert found
    path = tmp_path / "odd_results.json"
    path.write_text(f"{text[: found.start()]}{found[1]}{UNREADABLE[value]}{text[found.end() :]}")
    trace = ktrace.read(path)
    kind, detail = ("bad-record", "a value of kernel_symbols can't be read")
    if value == "deep":
        kind, detail = ("json-repair", "a list or object in more than 200 others was left out")
    assert [row["name"] for row in rows(trace)] == [row["name"] for row in rows(ktrace.read(ONE))]
    assert detail in [said for _, said in trace.report.issues[kind].places]
    assert trace.report.balanced()
