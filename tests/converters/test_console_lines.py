"""Lines in free text, in shapes of tools that have no format of their own: what must be read, and what must not."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import InputError
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.model.json_text import decoded

KEYS = ("total", "avg", "median", "min", "max", "stddev", "count")


def summaries(tmp_path: Path, text: str) -> list[dict[str, Any]]:
    """The rows of a text without their nulls."""
    path = tmp_path / "a.txt"
    path.write_text(text)
    table = ktrace.read(path).to_arrow()["summaries"]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def figures(row: dict[str, Any]) -> dict[str, float]:
    return {key: row[key] for key in KEYS if key in row}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # a tree of spans, and one with dots
            "INFO     prove [ 3.5s | 10% / 100% ]\nINFO     ┝━ commit [ 40ms | 1% ]\n"
            "INFO     │  ┕━ hash [ 8us | 0% ]\n",
            {"prove": 3.5e9, "commit": 4e7, "hash": 8e3},
        ),
        (
            "Start:   all\n··Start:   fold\n··End:     fold .......2.5ms\n··Start:   open\n··End:     open ....3ms\n"
            "End:     all ......9ms\n",
            {"fold": 2.5e6, "open": 3e6, "all": 9e6},
        ),
        (  # a time before what it was for
            "| 9.5s to make all proofs\n| | 1.25s to commit rows\n| | | 0.5s to hash leaves\n",
            {"make all proofs": 9.5e9, "commit rows": 1.25e9, "hash leaves": 5e8},
        ),
        (
            " 2.5ms (4 GKeys/s) sorting 2Mkeys\n 1.5ms (8 GKeys/s) scanning 2Mkeys\n 9ms (1 GKeys/s) merging 2Mkeys\n",
            {"sorting 2Mkeys": 2.5e6, "scanning 2Mkeys": 1.5e6, "merging 2Mkeys": 9e6},
        ),
        (  # parameters in a label
            "gemm(M=8,N=16) runtime: 2 ms (9 GB/s) vs. 3 ms (4 %)\n"
            "gemm(M=8,N=32) runtime: 4 ms (9 GB/s) vs. 5 ms (4 %)\n"
            "conv(K=3) runtime: 1 ms (1 GB/s) vs. 1 ms (0 %)\n",
            {"gemm(M=8,N=16) runtime": 2e6, "gemm(M=8,N=32) runtime": 4e6, "conv(K=3) runtime": 1e6},
        ),
        (
            "GEMM M=8 N=16 K=4 : 1.5 ms\nGEMM M=8 N=32 K=4 : 2.5 ms\nGEMV M=8 : 3 us\n",
            {"GEMM M=8 N=16 K=4": 1.5e6, "GEMM M=8 N=32 K=4": 2.5e6, "GEMV M=8": 3e3},
        ),
        (  # the word that a part has ended; places of a program; stamps
            "[INFO ] a.cpp:12 - loading weights completed, taking 2.5s (read: 1s, copy: 2s)\n"
            "[DEBUG] b.hpp:7   - sampling completed, taking 30s\n[INFO ] a.cpp:99 - decode finished in 250 ms\n",
            {"loading weights": 2.5e9, "sampling": 3e10, "decode": 2.5e8},
        ),
        (
            "[Rays][63.047] tree build time: 14ms\n[Rays][63.050] refit took 2 ms\nview(): upload took 0.5 ms\n",
            {"tree build time": 1.4e7, "refit": 2e6, "view(): upload": 5e5},
        ),
        (  # the name above, the time in a sentence below it
            "Starting serial run...\nCalculation finished. Processing time was 198ms\nSaving image\n\n"
            "Starting parallel run...\nCalculation finished. Processing time was 33ms\n",
            {"serial run": 1.98e8, "parallel run": 3.3e7},
        ),
        (  # rates and sizes beside the only time
            "scan, Throughput = 1.5 GB/s, Time = 0.5 ms, Size = 1024 Elements, Workgroup = 256\n"
            "reduce, Throughput = 9 GB/s, Time = 0.25 ms, Size = 1024 Elements, Workgroup = 256\n",
            {"scan": 5e5, "reduce": 2.5e5},
        ),
        ("step 10: fwd 12 ms bwd 24 ms opt 3ms\n" * 2, {"fwd": 1.2e7, "bwd": 2.4e7, "opt": 3e6}),
        ("step 10: fwd=12ms bwd=24ms opt=3ms lr=0.1\n" * 2, {"fwd": 1.2e7, "bwd": 2.4e7, "opt": 3e6}),
        ("Old time: 1.5 ms\nNew time: 0.5 ms\n", {"Old time": 1.5e6, "New time": 5e5}),
        ("encode_text: 1.5s\ndecode(): 0.25s\n", {"encode_text": 1.5e9, "decode()": 2.5e8}),
        (
            "- CPU time: 40 ms. A plain loop over all rows.\n- CUDA time: 1.5 ms. One thread for each row.\n",
            {"CPU time": 4e7, "CUDA time": 1.5e6},
        ),
        (
            "- **CPU with `a`**: 2.5s\n- **GPU with `b`**: 0.5s (5x)\n- **GPU**: 1s\n",
            {"CPU with a": 2.5e9, "GPU with b": 5e8, "GPU": 1e9},
        ),
        ("3a SigmaKin :  0.25 sec\n3b Copy :   0.5 sec\nTOTAL   :   2 sec\n", {"3a SigmaKin": 2.5e8, "3b Copy": 5e8}),
    ],
)
def test_the_only_time_of_a_label_is_its_figure(text: str, expected: dict[str, float], tmp_path: Path) -> None:
    found = [row for row in summaries(tmp_path, text) if row["kind"] != "total"]
    assert {row["name"]: row["total"] for row in found} == expected
    assert {row["kind"] for row in found} <= {"metric", "range"}  # figures, which aren't added up


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("gemm/64\n      time:   [18.1 us 18.5 us 18.9 us]\n", "gemm/64", {"avg": 18_500}),
        ("fold    time:   [1 ms 2 ms 3 ms]\nFound 1 outliers\n", "fold", {"avg": 2e6}),
        (
            "Time for f(x):\n2.5 ms ± 30 µs per loop (mean ± std. dev. of 7 runs, 100 loops each)\n",
            "Time for f(x)",
            {"avg": 2.5e6, "stddev": 3e4},
        ),
        ("f(y)\n1000 loops, best of 5: 300 ns per loop\n", "f(y)", {"min": 300}),
        (
            "".join(
                f"0.Fwd  0{n} {name}   3% count:  10 sum:    2.5 min:   0.25 mean:   0.5 max:   0.75 [ms]\n"
                for n, name in enumerate(("Embed", "Norm", "Gelu"))
            ),
            "0.Fwd  00 Embed",
            {"total": 2.5e6, "avg": 5e5, "min": 2.5e5, "max": 7.5e5, "count": 10},
        ),
        (
            "0.naive.py:\n\naverage time cost of 10 runs = 2.5 ms, 99 GFLOPS\n",
            "0.naive.py",
            {"avg": 2.5e6, "count": 10},
        ),
        ("Avg time:\n3.5ms\n\nPreprocess time: 151us\n", "Avg time", {"avg": 3.5e6}),
        ("Speed: 2.5ms preprocess, 12.0ms inference, 1.5ms sort per image at (1, 3)\n", "preprocess", {"avg": 2.5e6}),
        ("Timings in us: init: 1200, first run: 90, warmup (avg): 85\n" * 2, "init", {"total": 1.2e6}),
    ],
)
def test_statistics_are_those_that_the_line_states(
    text: str, name: str, expected: dict[str, float], tmp_path: Path
) -> None:
    row = summaries(tmp_path, text)[0]
    assert (row["kind"], row["name"]) == ("metric", name)
    assert figures(row) == expected


def test_times_of_one_image_are_averages_of_three_parts(tmp_path: Path) -> None:
    found = summaries(tmp_path, "Speed: 2.5ms preprocess, 12.0ms inference, 1.5ms postprocess per image\n")
    assert [(row["name"], row["avg"]) for row in found] == [
        ("preprocess", 2.5e6),
        ("inference", 1.2e7),
        ("postprocess", 1.5e6),
    ]


def test_settings_above_are_the_scope_of_what_is_measured_below(tmp_path: Path) -> None:
    text = "".join(
        f"Shape: {n}x{n}\n  dtype: f16\n    old kernel: {n} us\n    new kernel: {n}.5 us\n    speedup: 1.1x\n"
        for n in (4, 8)
    )
    found = summaries(tmp_path, text)
    assert [(row["name"], row["scope"], row["total"]) for row in found] == [
        ("old kernel", ["Shape: 4x4", "dtype: f16"], 4000),
        ("new kernel", ["Shape: 4x4", "dtype: f16"], 4500),
        ("old kernel", ["Shape: 8x8", "dtype: f16"], 8000),
        ("new kernel", ["Shape: 8x8", "dtype: f16"], 8500),
    ]
    below = summaries(tmp_path, "Sort:\n=====\nCPU : 9 ms\nGPU : 1 ms\n\nScan:\n=====\nCPU : 8 ms\nGPU : 2 ms\n")
    assert [(row["name"], row["scope"]) for row in below] == [
        ("CPU", ["Sort"]),
        ("GPU", ["Sort"]),
        ("CPU", ["Scan"]),
        ("GPU", ["Scan"]),
    ]
    banner = summaries(
        tmp_path, "--- Small (B=1) ---\n  a : 2 ms | 5 tokens/sec\n  b : 1 ms | 9 tokens/sec\n  c : 3 ms\n"
    )
    assert {tuple(row["scope"]) for row in banner} == {("Small (B=1)",)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("".join(f"step {n}: loss 4.{n} (took {n}5.5 ms)\nnote\nnote\n" for n in range(1, 6)), "step 1"),
        ("".join(f"Timestep {n} submission took {n} ms\n...\n" for n in (1, 5, 9, 13, 20)), "Timestep 1"),
        ("".join(f"Current frame <{n}> tracking: {n} ms   FPS = 4.1\n" for n in range(14, 20)), "Current frame <14>"),
    ],
)
def test_steps_of_a_loop_are_figures_and_no_operations(text: str, names: str, tmp_path: Path) -> None:
    found = summaries(tmp_path, text)
    assert len(found) >= 5 and {row["kind"] for row in found} == {"metric"}
    assert found[0]["name"] == names


def test_lines_that_are_all_alike_are_named_by_all_their_words(tmp_path: Path) -> None:
    text = "".join(f"building tree<4> using Builder ... [DONE]  {n}.5ms, 10.{n} Mprim/s\n" for n in range(1, 7))
    found = summaries(tmp_path, text)
    assert {row["name"] for row in found} == {"building tree<4> using Builder"}
    assert sum(row["total"] for row in found) == 24e6
    assert not any("args" in row and "ms" in row["args"] for row in found)


NOT_RECORDINGS = {
    "cmake": "-- The CUDA compiler is NVIDIA 12\n-- Configuring done (0.5s)\n"
    "-- Generating done (0.1s)\n-- Build files written\n",
    "cargo": "   Compiling cube v0.4\n"
    "    Finished `release` profile [optimized] target(s) in 3m 12s\n     Running `x`\n",
    "pytest": "==== test session starts ====\n1.20s call     t.py::test_gpu\n0.80s setup    t.py::test_gpu\n"
    "0.52s call     t.py::test_b\n==== 5 passed in 3.21s ====\n",
    "googletest": "[ RUN      ] Gpu.A\n[       OK ] Gpu.A (12 ms)\n[ RUN      ] Gpu.B\n[       OK ] Gpu.B (3 ms)\n"
    "[ RUN      ] Gpu.C\n[  FAILED  ] Gpu.C (1 ms)\n[----------] 3 tests from Gpu (16 ms total)\n",
    "jest": "PASS src/a.test.js (5.2 s)\nPASS src/b.test.js (3.1 s)\nFAIL src/c.test.js (2.1 s)\n  ✓ draws (23 ms)\n",
    "settings": "request timeout: 30 s\nretry interval: 5 s\nkeepalive: 75 s\npoll_interval_ms=250 backoff_ms=100\n"
    "session ttl: 3600 s\ndeadline: 10 ms\n",
    "yaml": "server:\n  timeout: 30s\n  interval: 10s\n  gpu: true\nkernel:\n  delay: 5ms\n  max_age: 60 s\n",
    "training": "epoch 1 | loss 2.31 | lr 0.0003 | acc 0.11\n"
    "epoch 2 | loss 1.95 | lr 0.0003 | acc 0.31\nsaved (1.2 GB)\n",
    "keras": "Epoch 1/3\n"
    "1875/1875 [====] - 3s 2ms/step - loss: 0.2912\nEpoch 2/3\n1875/1875 [====] - 3s 2ms/step - loss: 0.14\n",
    "progress": " 10%|#  | 10/100 [00:12<01:48,  1.21s/it, loss=2.3]\n 20%|## | 20/100 [00:24<01:36,  1.20s/it]\n",
    "prose": "The new kernel is about 20% faster. It took 3 ms before, now it takes 2.5 ms per iteration.\n"
    "We think the rest is overhead. In our tests it was 0.5 ms on average.\n"
    "On older GPUs, it is 10 ms. The CPU needs 100 ms.\n",
    "python": "def bench(fn):\n    start = time.time()\n"
    "    print(f'kernel took {time.time() - start:.3f} s')\n\nLIMIT = 30  # 30 s\n",
    "stamps": "0.12s loading model\n1.52s compiling kernels\n3.70s running step\n5.91s done with step\n6.10s writing\n",
    "docker": "#1 [internal] load build definition\n#1 DONE 0.0s\n#2 [1/4] FROM cuda\n#2 DONE 12.3s\n#3 DONE 93.1s\n",
    "bazel": "INFO: Found 1 target...\nINFO: Elapsed time: 12.345s, Critical Path: 4.50s\nINFO: Build completed\n",
    "shell": "real\t0m5.007s\nuser\t0m3.754s\nsys\t0m0.366s\n",
    "rates": "read bandwidth: 34 GB/s\nwrite bandwidth: 12 GB/s\n"
    "clock: 1.2 GHz\nmemory: 24 GB\nlr: 3e-4\nrate: 120 tok/s\n",
    "ctest": "    Start 1: gpu\n1/3 Test #1: gpu .......   Passed    0.02 sec\n"
    "2/3 Test #2: cpu .......   Passed    0.12 sec\n"
    "Total Test time (real) =   0.16 sec\n",
    "service": "Startup finished in 3.2s (kernel) + 5.1s (userspace) = 8.3s.\nwatchdog timeout: 30 s\nuptime: 99 s\n",
    "an issue": "Hi, I get a timeout after 30 s: see below.\n\n"
    "RuntimeError: the launch timed out\n\nWaiting 5 s helps.\n",
}


@pytest.mark.parametrize("kind", NOT_RECORDINGS)
def test_what_records_no_work_is_no_log_of_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(NOT_RECORDINGS[kind])
    with pytest.raises(InputError, match="unrecognised format"):
        ktrace.read(path)


def test_a_damaged_text_of_300_kb_is_refused_in_linear_time(tmp_path: Path) -> None:
    """Formats are asked about the start of a text from each of its lines on, and about all of it if they know that."""
    random = Random(1)
    words = [
        "kernel",
        "launch",
        "takes",
        "stream",
        "memory",
        "GPU",
        "of",
        "in",
        "line",
        "test",
        "12 ms",
        "3.5 us",
        "foo",
    ]
    lines = (" ".join(random.choices(words, k=random.randint(3, 14))) for _ in range(6000))
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines)[:300_000])
    began = time.process_time()
    with pytest.raises(InputError):
        ktrace.read(path)
    assert time.process_time() - began < 10  # 2 s alone


def test_a_text_that_begins_far_below_words_of_its_format_is_found(tmp_path: Path) -> None:
    sample = (SAMPLES / "llama" / "tools-of-four-years.log").read_text()
    path = tmp_path / "a.log"
    path.write_text('{"event": "start"\n' + "waiting\n" * 300 + sample)
    assert choose(Source(str(path))).name == "llama"
