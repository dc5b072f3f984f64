"""Lines that say several things of one subject, units in sentences above, what stands above lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktrace.converters.console.figures import figures_of
from ktrace.errors import KtraceError
from ktrace.trace import read


def _rows(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "a.txt"
    path.write_text(text, "utf-8")
    rows: list[dict[str, Any]] = read(path).summaries.to_dict("records")
    return rows


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[rank 1] send + recv bandwidth: 42.2 GB/s, avg_t=521.5 us, min_t=517 us, max_t=527 us",
            {"send + recv": {"avg": 521_500, "min": 517_000, "max": 527_000}},
        ),
        (
            "send bandwidth: 5.9 GB/s, avg_t=629 us | recv bandwidth: 32.5 GB/s, avg_t=221 us",
            {"send": {"avg": 629_000}, "recv": {"avg": 221_000}},
        ),
        ("gemm(v2): ['-0.5', '0.25 '], time:3.5 ms, TFLOPS:40.5 (+44%)", {"gemm(v2)": {"total": 3_500_000}}),
        (
            "profile (n=60): lock=0.25ms (max 0.5)  wait=8.5ms",
            {"lock": {"total": 250_000, "max": 500_000}, "wait": {"total": 8_500_000}},
        ),
        ("sort: flops=3, avg=1.5 ms, min=1 ms", {"sort": {"avg": 1_500_000, "min": 1_000_000}}),
        ("sort: min=1.5 ms, max=3 ms", {"sort": {"min": 1_500_000, "max": 3_000_000}}),
        ("Range (min … max):  1.5 μs …  5.25 μs  ┊ GC: 0.00%", {"Range": {"min": 1500, "max": 5250}}),
        ("rtt min/avg/max/mdev = 0.5/1.5/2.5/0.25 ms", {"rtt": {"min": 5e5, "avg": 15e5, "max": 25e5, "stddev": 25e4}}),
    ],
)
def test_the_times_of_a_line_with_their_keys(line: str, expected: dict[str, dict[str, float]]) -> None:
    assert {figure.name: figure.statistics for figure in figures_of(line)} == expected


@pytest.mark.parametrize(
    "line",
    [
        "avg_t=521.5 us, min_t=517 us",  # of nothing
        "the job started, and 3 ms later, it stopped: 5 ms was the limit",
        "send bandwidth: 5.9 GB/s, 629 us | recv bandwidth: 32.5 GB/s, 221 us",  # times without keys
        "retry: timeout=30 s, interval=5 ms",
        "rtt min/avg/max = 0.5/1.5 ms",
        "mlp\t\t2.75s\t0.5s",  # columns
        "min/avg/max = 0.5/1.5/2.5",
        "see rfc (avg, max): 3, 5",
    ],
)
def test_a_line_whose_times_have_no_keys_is_not_read(line: str) -> None:
    assert not [figure for figure in figures_of(line) if figure.name]


@pytest.mark.parametrize(
    ("line", "name", "dur"),
    [
        ("Average kernel time on GPU: 2.5 (ms)", "Average kernel time on GPU", 2_500_000),
        ("session.run() is taking around 9ms.", "session.run()", 9_000_000),
        ("[  reading:     0.5 s] ( 79.23%)", "reading", 500_000_000),
        ("Opaque Pass: **30.2%** (5ms)", "Opaque Pass", 5_000_000),
        ("Depth of Field: 8.4% 1.4 (1.5ms)", "Depth of Field", 1_500_000),
        ("unpack relu: 0.5 ms # f16x8", "unpack relu", 500_000),
        ("    |==> umap::knnGraph              :   0.5 s", "umap::knnGraph", 500_000_000),
        ("Time  (median):     1.5 μs   ┊ GC (median):    0.00%", "Time", 1500),
        ("fused reference:  12.5  us = 40.5% of the peak", "fused reference", 12_500),
        ("GPU took 0.5 seconds as measured by events", "GPU", 500_000_000),
        ("metal gpu[decode] 2.5 ms avg over 16 (last 3 ms);", "metal gpu[decode]", 2_500_000),
        ("Kernel Time Fwd Conv. Elapsed: 1.5 ms", "Kernel Time Fwd Conv", 1_500_000),
        ("[04/05/2026-10:11:12] [I] reformat: 0.5 ms", "reformat", 500_000),
        ("[trace] pass=3 640x480 draws=10 device=0.5 ms", "pass 3", 500_000),
    ],
)
def test_one_time_however_it_is_spelled(line: str, name: str, dur: int) -> None:
    (figure,) = figures_of(line)
    assert (figure.name, figure.dur) == (name, dur)


def test_a_spread_makes_an_average(tmp_path: Path) -> None:
    rows = _rows(
        "Processing times:\nPose Estimation 0.5s ± 0.125\nBundle Adjustment 2s ± 0.25\nTrack 1s ± 1\n", tmp_path
    )
    assert [(row["kind"], row["name"], row["avg"], row["stddev"]) for row in rows] == [
        ("metric", "Pose Estimation", 5e8, 125e6),
        ("metric", "Bundle Adjustment", 2e9, 25e7),
        ("metric", "Track", 1e9, 1e9),
    ]


def test_a_sentence_above_states_the_unit(tmp_path: Path) -> None:
    text = "The performance results for tensor {4, 4} in micro sec were : \n\n"
    text += "hipMemcpy = 29717\nhipMemset = 1\nfill = 174\n"
    assert {row["name"]: row["total"] for row in _rows(text, tmp_path)} == {
        "hipMemcpy": 29_717_000,
        "hipMemset": 1000,
        "fill": 174_000,
    }
    text = "These are the different times (in seconds) in one training step:\n```\n"
    text += "Forward: 0.5,\nBackward: 4e-6,\nLoad: 2\n```\n"
    assert [row["total"] for row in _rows(text, tmp_path)] == [5e8, 4000, 2e9]
    with pytest.raises(KtraceError):
        _rows(text.replace("(in seconds)", ""), tmp_path)
    with pytest.raises(KtraceError):  # no times
        _rows(text.replace("different times", "different sizes"), tmp_path)


def test_headings_and_settings_say_what_runs(tmp_path: Path) -> None:
    text = "main branch:\nmxfp4 x mxfp4: 61 sec\n\nThis PR:\nmxfp4 x mxfp4: 33 sec\nnvfp4 x nvfp4: 34.5 sec\n"
    assert [(list(row["scope"]), row["total"]) for row in _rows(text, tmp_path)] == [
        (["main branch"], 61e9),
        (["This PR"], 33e9),
        (["This PR"], 34.5e9),
    ]
    text = "".join(
        f"Loading model {name}\nparameters: {n}\ndecoding time: {n}.5 s\n" for n, name in enumerate("abc", 1)
    )
    rows = _rows(text, tmp_path)
    assert [(list(row["scope"]), row["total"]) for row in rows] == [
        (["Loading model a"], 1.5e9),
        (["Loading model b"], 2.5e9),
        (["Loading model c"], 3.5e9),
    ]
    assert {row["kind"] for row in rows} == {"metric"}


def test_what_a_prompt_measures_is_one_row(tmp_path: Path) -> None:
    text = "julia> @benchmark f(x)\nBenchmarkTools.Trial: \n  memory estimate:  0 bytes\n  --------------\n"
    text += "  minimum time:     460 ns (0.00% GC)\n"
    text += "  median time:      465 ns (0.00% GC)\n  mean time:        470 ns (0.00% GC)\n"
    (row,) = _rows(text, tmp_path)
    assert (row["name"], row["min"], row["median"], row["avg"]) == ("f(x)", 460, 465, 470)


@pytest.mark.parametrize(
    "text",
    [
        "# 0.5 seconds (284.10 k allocations: 17 MiB)\n# 0.25 seconds (7 k)\n# 0.75 seconds (8 k allocations)\n",
        "./a.cc:68 took 5 ms\n./a.cc:68 took 6 ms\n./a.cc:68 took 7 ms\n./a.cc:68 took 8 ms\n",
    ],
)
def test_what_is_no_name(text: str, tmp_path: Path) -> None:
    try:
        rows = _rows(text, tmp_path)
    except KtraceError:
        return
    assert {row["kind"] for row in rows} == {"metric"}


def test_times_of_ranks_are_of_what_the_line_says(tmp_path: Path) -> None:
    text = "".join(
        f"[rank {n}] send bandwidth: 4{n}.2 GB/s, avg_t=52{n} us, min_t=517 us, max_t=527 us\n" for n in range(4)
    )
    rows = _rows(text, tmp_path)
    assert {(row["name"], row["kind"], row["min"]) for row in rows} == {("send", "metric", 517_000)}
    assert [row["avg"] for row in rows] == [520_000, 521_000, 522_000, 523_000]


def test_times_before_and_after_a_change(tmp_path: Path) -> None:
    text = "- RoPE, 8192 x 128: 47.5 us -> 38.75 us (18.6%)\n"
    text += "- embedding, 128 x 4096: 11.75 → 8.5 us\n- norm: 10.1% better\n"
    assert {row["name"]: row["total"] for row in _rows(text, tmp_path)} == {
        "RoPE, 8192 x 128, before": 47_500,
        "RoPE, 8192 x 128, after": 38_750,
        "embedding, 128 x 4096, before": 11_750,
        "embedding, 128 x 4096, after": 8500,
    }
    assert not figures_of("retry interval: 5 s -> 10 s")


def test_times_of_a_request_are_within_others(tmp_path: Path) -> None:
    text = "latency.e2e | 0.5 seconds\nlatency.prefill | 0.25 seconds\ntime_to_first_token | 0.5 seconds\n"
    text += "encoder | 0.25 seconds\n"
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"metric"}
    kernels = "fill | 0.5 seconds\ngemm | 0.25 seconds\nnorm | 0.5 seconds\ncopy | 0.25 seconds\n"
    assert {row["kind"] for row in _rows(kernels, tmp_path)} == {"op"}


def test_headings_of_two_runs(tmp_path: Path) -> None:
    trial = "BenchmarkTools.Trial:\n  minimum time:     98 ns (0.00% GC)\n  mean time:        148 ns (17% GC)\n"
    rows = _rows(f"Before:\n```\n[ Info: Launch\n{trial}```\n\nAfter:\n\n```\n{trial}", tmp_path)
    assert [(row["scope"][0], row["min"], row["avg"]) for row in rows] == [("Before", 98, 148), ("After", 98, 148)]


KERNELS = (("gemm_f16", 30.5, 12), ("softmax", 4.75, 12), ("copy", 1.25, 24))
BLOCKS = {  # one thing in each block of keys and values
    "indented": "Kernel: {}\n  Total: {} ms\n  Calls: {}\n  Grid: 8x1x1\n\n",
    "aligned": "kernel_name : {}\ntime_ms     : {}\ncalls       : {}\n\n",
    "below titles": "=== kernel: {} ===\ngpu time    = {} ms\ninvocations = {}\n",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_block_of_keys_is_one_row(block: str, tmp_path: Path) -> None:
    rows = _rows("".join(block.format(*kernel) for kernel in KERNELS), tmp_path)
    assert [(row["name"], row["total"], row["count"]) for row in rows] == [
        (name, total * 1e6, count) for name, total, count in KERNELS
    ]
    assert {row["kind"] for row in rows} == {"kernel"}


def test_blocks_without_a_name_or_a_time_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("kernel: gemm\ngrid: 8x1x1\nregisters: 96\n\nkernel: copy\ngrid: 2x1x1\nregisters: 16\n")
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(path)
    rows = _rows("shape: 8x8\nload time: 3.5 ms\nsolve time: 2.5 ms\n" * 2, tmp_path)
    assert {row["name"] for row in rows} == {"load", "solve"}  # and not 8x8


def test_the_least_and_the_greatest_beside_the_mean(tmp_path: Path) -> None:
    rule = "─" * 40
    text = "".join(
        f"{rule}\nDispatch #{n}: {name}(float*, int)\n{rule}\nDuration: {low} - {high} μs (avg={mean})\nHits 66 %\n"
        for n, (name, low, high, mean) in enumerate((("add", 7.0, 7.5, 7.25), ("scale", 3.0, 4.0, 3.5)), 1)
    )
    rows = _rows(text, tmp_path)
    assert [(row["name"], row["min"], row["max"], row["avg"]) for row in rows] == [
        ("add(float*, int)", 7000, 7500, 7250),
        ("scale(float*, int)", 3000, 4000, 3500),
    ]
    assert not figures_of("Duration: 7.5 - 7.0 μs (avg=7.25)")
    assert not figures_of("Interval: 7.0 - 7.5 s (avg=7.25)")


def test_two_runs_beside_each_other() -> None:
    found = figures_of("Total time: (69.5 us) vs (65.25 us)")
    assert {figure.name: float(figure.dur) for figure in found} == {
        "Total time, first": 69_500,
        "Total time, second": 65_250,
    }
    assert not figures_of("timeout: 5 s vs 10 s")


def test_what_follows_a_time_in_a_sentence() -> None:
    lines = {
        "kernel gemm took 1.5 ms on GPU 0, of which 0.5 ms was waiting": ("kernel gemm", 1.5e6),
        "With full attention: 0.5 sec per forward and 18.5 GB": ("With full attention", 5e8),
        "FLASH_ATTN (64:1 x 4096 -> f32) - 1514 usec 2211016 cycles": ("FLASH_ATTN (64:1 x 4096 -> f32)", 1.514e6),
        "RPC (execute) time : 3011 US": ("RPC (execute) time", 3.011e6),
        "99.00 percentile latency (ns)   : 1859333": ("99.00 percentile latency", 1_859_333),
    }
    for line, (name, dur) in lines.items():
        assert [(figure.name, float(figure.dur)) for figure in figures_of(line)] == [(name, dur)]
    assert not figures_of("gemm took 1.5 ms and copy took 0.5 ms")
    assert not figures_of("load 3 ms 4 ms")


def test_spans_are_named_and_not_the_keys_of_their_times(tmp_path: Path) -> None:
    at = "2026-09-12T11:08:4{}.248269Z"
    text = f"Proving 64 steps\n{at.format(1)} prove_it:trace: close time.busy=163ms time.idle=748ns\n"
    text += f"{at.format(2)} prove_it:domain: close time.busy=14.5ms time.idle=1.25µs length=64\n"
    text += f"{at.format(3)} prove_it:commit: close time.busy=17.5s time.idle=957ns\n"
    assert [(row["name"], row["total"]) for row in _rows(text, tmp_path)] == [
        ("prove_it:trace", 1.63e8),
        ("prove_it:domain", 1.45e7),
        ("prove_it:commit", 1.75e10),
    ]
    two = figures_of("step: fwd=163ms bwd=748ms")  # none is the time in which the other waited
    assert {figure.name for figure in two} == {"fwd", "bwd"}


def test_stamps_in_hexadecimal_digits(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    line = "kernel {} start={:#x} end={:#x} dur={} ns\n"
    path.write_text("".join(line.format(f"k{n}", n * 10_000, n * 10_000 + 8192, 8192) for n in range(1, 4)))
    assert read(path).events[["ts", "dur"]].values.tolist() == [[n * 10_000, 8192] for n in range(1, 4)]


def test_members_before_a_label_are_no_part_of_it() -> None:
    (found,) = figures_of("Timestep: 100, Max Temp: 42.5, Kernel Time: 0.125 ms")
    assert (found.name, found.dur) == ("Kernel Time", 125_000)


def test_heads_of_logs_and_marks_of_titles_are_no_part_of_names() -> None:
    for line in ("I logging.h:111 net latency: 5 ms", "### net latency: 5 ms (67 fps)", "  ^ net latency: 5 ms / 3 %."):
        assert [(figure.name, figure.dur) for figure in figures_of(line)] == [("net latency", 5_000_000)]
    assert not figures_of("### 5 s clip: 5 ms")


def test_about_equal_is_equal() -> None:
    assert {figure.name: figure.dur for figure in figures_of("hop profile: send≈2ms wait≈30ms")} == {
        "send": 2_000_000,
        "wait": 30_000_000,
    }


def test_a_title_names_the_statistics_below_it(tmp_path: Path) -> None:
    head = "[04/05/2026-10:11:12] [I] "
    lines = ("wall: 5.5 s", "Enqueue", "min: 1.5 ms", "max: 8 ms", "Compute on GPU", "min: 3 ms", "mean: 3.5 ms")
    rows = _rows("".join(f"{head}{line}\n" for line in lines), tmp_path)
    assert [(row["name"], row["min"], row["max"], row["avg"]) for row in rows[1:]] == [
        ("Enqueue", 1.5e6, 8e6, pytest.approx(float("nan"), nan_ok=True)),
        ("Compute on GPU", 3e6, pytest.approx(float("nan"), nan_ok=True), 3.5e6),
    ]


def test_lines_that_recur_with_other_numbers_are_settings(tmp_path: Path) -> None:
    block = "Matrix size is {0}\nnaive kernel: 0.{0} ms\ntiled kernel: 0.0{0} ms\nchecked {0} rows\n"
    rows = _rows(block.format(64) + block.format(128), tmp_path)
    assert [(list(row["scope"]), row["name"]) for row in rows] == [
        (["Matrix size is 64"], "naive kernel"),
        (["Matrix size is 64"], "tiled kernel"),
        (["Matrix size is 128"], "naive kernel"),  # and not what was checked before
        (["Matrix size is 128"], "tiled kernel"),
    ]
    rows = _rows(
        "SIZE: 64; elapsed time: 0.5s; rate: 1.5 GFLOPS\nSIZE: 128; elapsed time: 1.5s; rate: 2.5 GFLOPS\n", tmp_path
    )
    assert [list(row["scope"]) for row in rows] == [["SIZE: 64"], ["SIZE: 128"]]


def test_one_line_is_enough_where_it_says_that_it_is_of_a_device(tmp_path: Path) -> None:
    for line in ("GPU kernel time: 2.5 ms", "cuda gemm[f16] 2.5 ms avg over 16"):
        assert len(_rows(f"some words before\n{line}\nand after\n", tmp_path)) == 1
    for line in ("startup: 2.5 ms", "the GPU is busy for 2.5 ms, and idle then", "GPU kernel timeout: 2.5 ms"):
        with pytest.raises(KtraceError):
            _rows(f"some words before\n{line}\nand after\n", tmp_path)


def test_names_of_programs_in_sentences(tmp_path: Path) -> None:
    rows = _rows("So the kernel vec_add took 2.5 ms, and kernel `sort` runs in 0.5 ms on this device.\n", tmp_path)
    assert {row["name"]: (row["kind"], row["total"]) for row in rows} == {
        "vec_add": ("metric", 2.5e6),
        "sort": ("metric", 0.5e6),
    }
    for words in ("the kernel took 2.5 ms", "the kernel module took 2.5 s", "kernel vec_add took 2.5 ms longer"):
        with pytest.raises(KtraceError):
            _rows(f"As we saw {words} on this machine.\n", tmp_path)


def test_a_launch_names_the_time_below_it(tmp_path: Path) -> None:
    rows = _rows("Launching vec_add<<<8, 64>>>\nElapsed: 12 us\nLaunching sort(n=8)\nElapsed: 30 us\n", tmp_path)
    assert [(row["name"], row["total"]) for row in rows] == [("vec_add<<<8, 64>>>", 12e3), ("sort(n=8)", 30e3)]
    rows = _rows("vec_add Elapsed: 12 us\nsort Elapsed: 30 us\n", tmp_path)
    assert [(row["name"], row["total"]) for row in rows] == [("vec_add", 12e3), ("sort", 30e3)]


def test_bars_of_progress_are_no_lines_with_times(tmp_path: Path) -> None:
    bars = "".join(f"  |{'=' * n}>{' ' * (9 - n)}| {n}/40 - 15.5s/it\n" for n in range(1, 9))
    rows = _rows(f"[INFO ] a.cpp:30 - encode completed, taking 21 ms\n{bars}load of parts, taking 1.5s\n", tmp_path)
    assert [(row["name"], row["total"]) for row in rows] == [("encode", 21e6), ("load of parts", 1.5e9)]


def test_a_mean_in_brackets_is_not_that_of_the_time_before_it() -> None:
    (found,) = figures_of("INFO stats: render/ui/elapsed_gpu : 0.5ms (avg 0.25ms)")
    assert found.statistics == {"total": 500_000, "avg": 250_000}
    assert figures_of("render: 0.5ms (avg)")[0].statistics == {"avg": 500_000}


def _named(text: str, tmp_path: Path) -> dict[str, float]:
    return {row["name"]: row["total"] for row in _rows(text, tmp_path)}


def test_a_line_names_the_time_below_it_where_that_recurs(tmp_path: Path) -> None:
    blocks = "".join(f"gemm with tile [{n}, {n}]\nTiming: {n}.5 ms\nChecking result\n\n" for n in (8, 16, 32))
    assert _named(blocks, tmp_path) == {f"gemm with tile [{n}, {n}]": n * 1e6 + 5e5 for n in (8, 16, 32)}
    tagged = "".join(
        f"[Tune] Evaluating {{'block': [{n}, 8]}}\n[Tune] Time cost of this config: 0.{n} ms\n" for n in (2, 5)
    )
    assert list(_named(tagged, tmp_path).values()) == [200_000, 500_000]
    same = "Done\nTiming: 1.5 ms\nDone\nTiming: 2.5 ms\nDone\nTiming: 2.25 ms\n"
    with pytest.raises(KtraceError):
        _rows(same, tmp_path)


def test_a_name_and_a_count_among_members(tmp_path: Path) -> None:
    line = (
        "[2026-06-04 05:48:30.642] [info] Section: {}, Runs: 12, Total Time: {} ms, Average Time: {} ms, Share: 5.5%\n"
    )
    times = {"Intersect": 18.0, "Sort keys": 4.5, "Copy to host": 0.75}
    rows = _rows("".join(line.format(name, time, time / 12) for name, time in times.items()), tmp_path)
    assert {row["name"]: (row["total"], row["avg"], row["count"]) for row in rows} == {
        name: (time * 1e6, time * 1e6 / 12, 12) for name, time in times.items()
    }


def test_a_unit_as_key_and_settings_as_names(tmp_path: Path) -> None:
    steps = "".join(f"completed step: {n}, seconds: {n}.25, TFLOP/s/device: 180.5, loss: 9.5\n" for n in range(1, 5))
    rows = _rows(steps, tmp_path)
    assert [row["total"] for row in rows] == [n * 1e9 + 25e7 for n in range(1, 5)]
    assert {row["kind"] for row in rows} == {"metric"}
    assert figures_of("timeout seconds: 5, retries: 3") == []


def test_what_is_estimated_before_a_benchmark_is_no_line_with_a_time(tmp_path: Path) -> None:
    text = "".join(
        f"Benchmarking mm/{n}: Warming up for 3.0000 s\nBenchmarking mm/{n}: Collecting samples in estimated 5.5 s\n"
        f"mm/{n}  time:   [{n}.25 us {n}.5 us {n}.75 us]\n"
        for n in (64, 128, 256)
    )
    assert {row["name"]: row["avg"] for row in _rows(text, tmp_path)} == {
        f"mm/{n}": n * 1e3 + 500 for n in (64, 128, 256)
    }


def test_objects_of_an_object_and_of_a_list_are_told_apart(tmp_path: Path) -> None:
    parts = (
        '  "0-9": {\n    "gpu": {\n      "gpu_ms": 0.5\n    }\n  }',
        '  "10-24": {\n    "gpu": {\n      "gpu_ms": 1.5\n    }\n  }',
    )
    rows = _rows("{\n" + ",\n".join(parts) + "\n}\n", tmp_path)
    assert [(row["scope"], row["total"]) for row in rows] == [(["0-9"], 500_000), (["10-24"], 1_500_000)]
    runs = "".join(f"{{'H': {n}, 'naive_ms': {n}.5, 'tiled_ms': 0.5}}\n" for n in (1, 2))
    assert [row["scope"] for row in _rows(runs, tmp_path)] == [["H=1"], ["H=1"], ["H=2"], ["H=2"]]


def test_words_that_differ_before_lines_are_names(tmp_path: Path) -> None:
    names = ("gemm", "layer_norm", "relu", "softmax")
    text = "".join(f"{name}: avg {n}.5 us, min {n}.25 us, max {n}.75 us\n" for n, name in enumerate(names, 1))
    assert {row["name"]: row["avg"] for row in _rows(text, tmp_path)} == {
        name: n * 1000 + 500 for n, name in enumerate(names, 1)
    }


def test_the_unit_of_the_last_member_is_that_of_those_with_as_many_decimals() -> None:
    line = "[rank 0] loops=2 | fwd=1.250  bwd=2.500  step=4.125 ms"
    assert {figure.name: figure.dur for figure in figures_of(line)} == {
        "fwd": 1_250_000,
        "bwd": 2_500_000,
        "step": 4_125_000,
    }
    for other in ("loss=1.250 acc=0.500 step=4.125 ms", "lr=0.5 alpha=2.50 step=4.125 ms"):
        assert len(figures_of(other)) < 2


def test_a_time_behind_a_colon_is_no_heading(tmp_path: Path) -> None:
    text = "sort 500 issues\n  direct sort   : 0.125 ms  (scatter 0.075 + compact 0.05)  no atomics\n"
    text += "  library sort   : 0.5 ms  temp=256B\n    sorted[0]: file #183  ->  2008-01-02\n"
    with pytest.raises(KtraceError):
        _rows(text, tmp_path)
