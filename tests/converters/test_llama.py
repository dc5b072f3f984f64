"""llama.cpp's and ggml's timing lines: a real log against figures taken from its text, and our samples by hand."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.model.json_text import decoded

REAL = SHARED / "corpus" / "made" / "llama_server" / "xllamacpp_server.log"
OURS = SAMPLES / "llama"


def rows(path: Path, record: str) -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def stated(path: Path) -> list[dict[str, Any]]:
    """The summaries other than the rates that stand beside times."""
    return [row for row in rows(path, "summaries") if row["metric"] != "tokens_per_second"]


def test_a_real_log_of_a_server() -> None:
    if not REAL.exists():
        pytest.skip("the real log is not at hand (../shared/corpus/made/llama_server)")
    text = REAL.read_text()
    printed = re.findall(r"print_timing: .*\| +([a-z ]+) time = +([\d.]+) ms", text)
    durations = {label: [Decimal(ms) * 10**6 for name, ms in printed if name == label] for label, _ in printed}
    assert len(re.findall("print_timing: ", text)) == 8
    events, summaries = rows(REAL, "events"), stated(REAL)
    for label in ("prompt eval", "eval"):
        assert [row["dur"] for row in events if row["name"] == label] == durations[label]
    totals = [row["total"] for row in summaries if row["kind"] == "total"]
    assert totals == durations["total"]
    assert sum(totals) == 10_973_090_000
    assert [row["value"] for row in summaries if row["metric"] == "graphs reused"] == [10, 24]
    assert len(events) + len(summaries) == 8
    rates = [Decimal(rate) for rate in re.findall(r"([\d.]+) tokens per second\)", text)]
    assert [row["value"] for row in rows(REAL, "summaries") if row["unit"] == "tokens/s"] == [*map(float, rates)]
    # a prompt begins when its task does, within a ms
    began = re.findall(r"^0\.(\d\d)\.(\d{3})\.(\d{3}) .*processing task", text, re.MULTILINE)
    starts = [int(s + ms + us) * 1000 for s, ms, us in began]
    assert all(0 <= row["ts"] - at < 10**6 for row, at in zip(events[::2], starts, strict=True))
    facts = [json.loads(row["facts"]) for row in rows(REAL, "catalog") if row.get("facts")]
    assert (facts[0]["model"], facts[0]["version"]) == ("tiny-random", "b0-unknown")


def test_slots_of_a_server() -> None:
    found = rows(OURS / "server-two-slots-with-times.log", "events")
    assert [(row["track"], row["name"], row["ts"], row["dur"]) for row in found] == [
        ("slot 0", "prompt eval", 2_045_447_000, 250_500_000),
        ("slot 0", "eval", 2_295_947_000, 500_250_000),
        ("slot 0", "prompt eval", 3_410_000_000, 90_000_000),  # the generation after it is another task's
        ("slot 0", "eval", 3_470_010_000, 30_000_000),
        ("slot 1", "prompt eval", 2_990_000_000, 10_000_000),  # no generation follows
    ]
    assert {row["timing"] for row in found} == {"derived"}
    assert json.loads(found[0]["args"]) == {
        "task": 0,
        "tokens": 40,
        "ms_per_token": 6.26,
        "tokens_per_second": 159.68,
    }
    metrics = [(row["metric"], row["value"]) for row in stated(OURS / "server-two-slots-with-times.log")[1:]]
    assert metrics == [("graphs reused", 18), ("draft acceptance", 0.625)]


def test_figures_of_all_versions() -> None:
    found = stated(OURS / "tools-of-four-years.log")
    figures = [(row["scope"][-1], row["name"], row.get("total"), row.get("count"), row.get("avg")) for row in found]
    assert figures == [
        ("llama_print_timings", "load", 1_234_560_000, None, None),
        ("llama_print_timings", "sample", 12_000_000, 24, 500_000),
        ("llama_print_timings", "prompt eval", 234_500_000, 7, 33_500_000),
        ("llama_print_timings", "eval", 690_000_000, 23, 30_000_000),
        ("llama_print_timings", "total", 950_000_000, 30, None),
        ("print_timings", "prompt eval", 371_410_000, 13, 28_570_000),
        ("task 4", "generation eval", 640_000_000, 16, 40_000_000),
        ("task 11", "prompt eval", 111_110_000, 11, 10_100_000),
        ("task 11", "eval", 222_220_000, 0, None),
        ("task 11", "total", 333_330_000, 11, None),
        ("task 11", "draft acceptance", None, None, None),
        ("llama_perf_sampler_print", "sampling", 1_200_000, 4, 300_000),
        ("common_perf_print", "unaccounted", 5_050_000, None, None),
        ("common_perf_print", "graphs reused", None, None, None),
        ("whisper_print_timings", "encode", 660_500_000, 1, 660_500_000),
    ]
    assert [row["kind"] for row in found if row["name"] == "total"] == ["total", "total"]


def test_blocks_of_vulkan() -> None:
    path = OURS / "vulkan-blocks-and-backend-ops.txt"
    found = [row for row in rows(path, "summaries") if row["scope"] == ["Vulkan Timings"]]
    assert [
        (row["name"].split()[0], row["table"], row.get("count"), row.get("avg"), row.get("total")) for row in found
    ] == [
        ("ADD", 0, 2598, 4_250, 11_041_500),
        ("FLASH_ATTN_EXT", 0, 15_372, 10_500, 161_406_000),
        ("MULTI_ADD", 0, 122_976, 3_125, 384_300_000),
        ("MUL_MAT_VEC", 0, 46_116, 125_500, 5_787_560_000),
        ("total", 0, None, None, 6_344_310_000),
        ("CPY", 1, 64, 1_339_250, None),
        ("MUL_MAT", 1, 32, 24_500, None),
    ]
    assert json.loads(found[3]["args"]) == {"GFLOPS/s": 401.476}
    assert {row["kind"] for row in found} == {"kernel", "total"}
    assert ktrace.read(path).report.issues["unit-corrected"].places == [
        ("line 12", "microseconds that are labelled ms")
    ]


def test_lines_of_test_backend_ops() -> None:
    found = [row for row in rows(OURS / "vulkan-blocks-and-backend-ops.txt", "summaries") if row["name"].endswith(")")]
    tested = [row for row in found if row["scope"][0] != "Vulkan Timings"]
    assert [(row["kind"], row["scope"], row.get("device"), row["count"], row["avg"]) for row in tested] == [
        ("kernel", ["Vulkan0"], 0, 22_152, 45_250),
        ("kernel", ["Vulkan0"], 0, 8_192, 1_500),
        ("op", ["CPU"], None, 851, 1_176_500),
    ]
    assert [json.loads(row["args"]) for row in tested[:2]] == [
        {"MFLOP/run": 117.44, "TFLOPS": 2.6},
        {"kB/run": 18.0, "GB/s": 11.44},
    ]


@pytest.mark.parametrize(
    "line",
    [
        "llama_print_timings:        load time = 9999999999999999999999.00 ms",
        "llama_print_timings:        load time = nan ms",
        "0.0.0 slot print_timing: id  0 | task 1 | eval time = ms",
        '{"function":"print_timings","msg":7}',
        '{"function":"print_timings","msg":"' + "x" * 100,
        "ADD: 99999999999999999999 x 1 us",
        "ADD: 1 x 1e99 us = 1e99 us",
        "Total time: 1e99 us.",
        "A" * 20_000 + ": " * 2_000,
        "  A(" + ": 1 runs - 1 us/run - " * 1_000,
    ],
)
def test_hostile_lines_are_reported(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"Vulkan Timings:\nADD: 2 x 4.25 us = 8.5 us\n{line}\n")
    report = ktrace.read(path).report
    assert report.read == 2  # without the heading
    assert report.issues["unrecognised"].rows == 1


def test_many_slots_need_no_memory(tmp_path: Path) -> None:
    """The prompts of slots whose generation never comes are written after a while."""
    path = tmp_path / "a.log"
    line = "0.00.00{0}.000 I slot print_timing: id {1} | task 1 | prompt eval time = 1.00 ms / 1 tokens\n"
    path.write_text("".join(line.format(number % 10, number) for number in range(1_500)))
    assert len(rows(path, "events")) == 1_500


def test_services_a_restart_and_progress() -> None:
    """Lines with the prefix of a service or a container; the times of a second server begin anew."""
    path = OURS / "services-a-restart-and-progress.log"
    found = rows(path, "events")
    assert [(row["kind"], row["track"], row["ts"], row.get("dur"), row.get("value")) for row in found] == [
        ("counter", "slot 0 generation tokens/s", 88_650_917_000, None, 72.5),
        ("counter", "slot 0 generation tokens/s", 91_000_000_000, None, 70.75),
        ("range", "slot 0", 91_500_000_000, 500_000_000, None),
        ("counter", "run 2 slot 2 prompt tokens/s", 25_767_681_000, None, 1133.55),
        ("range", "run 2 slot 2", 25_900_010_000, 4_000_000_000, None),
        ("range", "run 2 slot 2", 29_900_010_000, 100_000_000, None),
    ]
    assert json.loads(found[0]["args"]) == {"n_decoded": 220, "tg": 73.25, "task": 3}
    assert [(row["name"], row["scope"], row["total"]) for row in stated(path)] == [
        ("prompt eval", ["slot 0", "task 7"], 60_000_000),
        ("eval", ["slot 0", "task 7"], 80_000_000),
        ("load", ["llama_perf_context_print"], 15_000_000),
    ]


def test_a_block_with_the_prefix_of_a_container(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "".join(f"gpu-1  | {line}\n" for line in ("Vulkan Timings:", "ADD: 2 x 4 us = 8 us", "Total time: 8 us."))
    )
    assert [(row["name"], row["total"]) for row in rows(path, "summaries")] == [("ADD", 8_000), ("total", 8_000)]
