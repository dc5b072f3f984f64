"""The JSON of XLA's profiler: figures of the samples, and real files next to the XPlane file of the same run."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from json import dumps, loads
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace

FOLDER = SAMPLES / "xprof-json"
GPU = FOLDER / "streams-repeated-lines-a-picosecond-for-nothing.trace.json"
CORE = FOLDER / "perfetto_trace-of-a-core-with-a-loop.json"
REAL = sorted((SHARED / "corpus" / "made" / "jax").glob("plugins/profile/*/*.json.gz"))


def events(path: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path).to_arrow()["events"].to_pylist()
    ]


@pytest.mark.parametrize("path", [GPU, CORE], ids=lambda path: path.name)
def test_times_are_those_of_the_text(path: Path) -> None:
    whole = [event for event in loads(path.read_text(), parse_float=Decimal)["traceEvents"] if event.get("ph") == "X"]
    wanted = Counter(
        tuple(int((1000 * Decimal(event[key])).to_integral_value(ROUND_HALF_EVEN)) for key in ("ts", "dur"))
        for event in whole
    )
    assert Counter((row["ts"], row.get("dur", 0)) for row in events(path)) == wanted


@pytest.mark.skipif(not REAL, reason="no ../shared/corpus/made/jax")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_real_file_has_the_events_of_its_xplane_file(path: Path) -> None:
    other = next(path.parent.glob("*.xplane.pb"))
    found, wanted = (
        Counter((row["kind"], row["name"], row["ts"], row.get("dur", 0)) for row in events(file))
        for file in (path, other)
    )
    assert found == wanted and found.total() == 169
    assert next(match.format for match in ktrace.detect(path)) == "xprof-json"


def test_rows_have_the_kind_and_the_place_of_their_line() -> None:
    rows = {row["name"]: row for row in events(GPU)}
    copy, kernel = rows["MemcpyH2D"], rows["loop_add_fusion"]
    assert (copy["kind"], copy["device"], copy["stream"], copy["bytes"], copy["copy_kind"]) == (
        "memcpy",
        1,
        13,
        4096,
        "HtoD",
    )
    assert (kernel["kind"], kernel["correlation"], kernel["grid_x"], kernel["registers"]) == ("kernel", 71, 80, 40)
    assert "pid" not in kernel and "tid" not in kernel
    assert (rows["0"]["kind"], rows["0"]["track"], rows["0"]["device"]) == ("range", "Steps", 1)
    repeated = rows["%fusion.3 = f32[80] fusion(%p0)"]
    assert (repeated["kind"], repeated["short_name"], repeated["track"]) == ("range", "fusion.3", "XLA Ops")
    call = rows["cuMemcpyHtoDAsync"]
    assert (call["kind"], call["pid"], call["tid"]) == ("api", 701, 583) and "memcpy_details" in call["args"]
    assert rows["StopRegion"]["kind"] == "instant" and "args" not in rows["StopRegion"]


def test_only_numbers_below_a_nanosecond_are_kept_as_printed() -> None:
    kept = {row["name"]: row["args"] for row in events(GPU) + events(CORE) if "$" in row.get("args", "")}
    assert set(kept) == {"MemcpyH2D", "%while.1 = (s32[]) while(%t)", "%fusion.7 = bf16[8] fusion(%p)"}
    assert '"$ts":10.0005' in kept["%while.1 = (s32[]) while(%t)"]


def test_the_loop_of_a_core_is_a_range_and_its_body_counts() -> None:
    rows = events(CORE)
    assert [row["dur"] for row in rows if row["kind"] == "kernel"] == [2002, 2000]
    assert {row["name"]: row["kind"] for row in rows if row["kind"] != "kernel"} == {
        "%while.1 = (s32[]) while(%t)": "range",
        "jit_step(9)": "range",
        "TfrtModelRun": "op",
        "of a thread without a name": "range",
    }
    assert ktrace.summary(CORE).total == 4002


def test_lines_are_streams_tracks_and_threads_in_the_catalog() -> None:
    facts = [row for row in ktrace.read(GPU).to_arrow()["catalog"].to_pylist() if row["name"]]
    named = {(row["entity"], row["name"]) for row in facts}
    assert {
        ("device", "/device:GPU:1"),
        ("stream", "Stream #13(Kernel,MemcpyH2D)"),
        ("track", "Steps"),
        ("process", "/host:CPU"),
        ("thread", "python"),
    } <= named


@pytest.mark.parametrize("dur", ["", ',"dur":"long"', ',"dur":"1.0005"'])
def test_a_duration_that_is_no_number_is_reported_or_kept(dur: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    text = GPU.read_text().replace(',"dur":8,', f"{dur},")
    assert text != GPU.read_text()
    path.write_text(text)
    trace = ktrace.read(path)
    assert trace.report.reader.balanced() and len(trace.to_arrow()["events"]) == 8
    assert set(trace.report.issues) - {"rounded"}


@pytest.mark.parametrize("odd", [17, [17], "regs:a"], ids=str)
@pytest.mark.parametrize("alone", [True, False])
def test_details_that_are_no_text_cost_no_file(tmp_path: Path, odd: object, alone: bool) -> None:
    document = loads(GPU.read_text())
    [kernel] = [event for event in document["traceEvents"] if "kernel_details" in event.get("args", {})]
    later = kernel | {"ts": kernel["ts"] + 1000, "args": kernel["args"] | {"kernel_details": odd}}
    document["traceEvents"].append(later)
    if alone:
        document["traceEvents"].remove(kernel)
    path = tmp_path / GPU.name
    path.write_text(dumps(document))
    rows = [row for row in events(path) if row["name"] == kernel["name"]]
    assert [row.get("registers") for row in rows] == ([None] if alone else [40, None])
    args = loads(rows[-1]["args"])
    assert args["regs"] == "a" if isinstance(odd, str) else args["kernel_details"] == odd
