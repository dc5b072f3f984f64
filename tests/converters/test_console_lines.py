"""Lines in free text, in shapes of tools that have no format of their own: what must be read, and what must not."""

from __future__ import annotations

import json
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

KEYS = ("total", "avg", "median", "min", "max", "stddev", "p99", "count")


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


RECORDS = {
    "dicts": (
        "{'name': 'matmul', 'time_ms': 1.25, 'calls': 3, 'dtype': torch.float16}\n"
        "{'name': 'softmax', 'time_ms': 0.5, 'calls': 6, 'dtype': torch.float16}\n",
        {("metric", "matmul"): {"total": 1.25e6, "count": 3}, ("metric", "softmax"): {"total": 5e5, "count": 6}},
    ),
    "JSON behind the head of a logger": (
        'loading\n2025-01-01 10:00:00,123 INFO perf: {"kernel": "softmax", "dur_us": 12.5, "grid": [1, 2, 3]}\n'
        '2025-01-01 10:00:00,125 INFO perf: {"kernel": "gemm", "dur_us": 2, "grid": [1, 2, 3]}\n',
        {("kernel", "softmax"): {"total": 12_500, "count": 1}, ("kernel", "gemm"): {"total": 2000, "count": 1}},
    ),
    "operations": (
        "2025-06-01 12:00:01,123 - bench - INFO - {'op': 'add', 'shape': (8, 8), 'latency (us)': 2.5}\n"
        "2025-06-01 12:00:01,124 - bench - INFO - {'op': 'mul', 'shape': (8, 8), 'latency (us)': 1.5}\n",
        {("op", "add"): {"total": 2500, "count": 1}, ("op", "mul"): {"total": 1500, "count": 1}},
    ),
    "dataclasses": (
        "[rank0]: Result(name='gemm', mean_ms=1.25, std_ms=0.5)\n"
        "[rank0]: Result(name='conv', mean_ms=2.5, std_ms=1.5)\n",
        {("metric", "gemm"): {"avg": 1.25e6, "stddev": 5e5}, ("metric", "conv"): {"avg": 2.5e6, "stddev": 1.5e6}},
    ),
    "a list of dataclasses": (
        "[Result(kernel='gemm', time_us=12.5), Result(kernel='norm', time_us=3.5)]\n",
        {("kernel", "gemm"): {"total": 12_500, "count": 1}, ("kernel", "norm"): {"total": 3500, "count": 1}},
    ),
    "a time for each key": (
        "step 1 metrics={'fwd_ms': 1.25, 'bwd_ms': 2.5, 'max_pool_ms': 0.5, 'tokens_per_s': 9.5, 'loss': 2.5, "
        "'total_ms': 4.25}\n",
        {
            ("metric", "fwd"): {"total": 1.25e6},
            ("metric", "bwd"): {"total": 2.5e6},
            ("metric", "max_pool"): {"total": 5e5},
            ("total", "total"): {"total": 4.25e6},
        },
    ),
    "a function's times on the device": (
        "{'function': 'copy', 'gpu_mean_time_ms': 1.5, 'gpu_std_time_ms': 0.5, 'gpu_bandwidth_gbps': 9.5}\n"
        "{'function': 'fill', 'gpu_mean_time_ms': 2.5, 'gpu_std_time_ms': 0.25, 'gpu_bandwidth_gbps': 9.5}\n",
        {("metric", "copy"): {"avg": 1.5e6, "stddev": 5e5}, ("metric", "fill"): {"avg": 2.5e6, "stddev": 2.5e5}},
    ),
    "parts of what has a name": (
        'perf: {"name": "layer0", "fwd_ms": 1.5, "bwd_ms": 3.5, "mem_mb": 20}\n',
        {("metric", "fwd"): {"total": 1.5e6}, ("metric", "bwd"): {"total": 3.5e6}},
    ),
    "a total of calls beside its average": (
        "stats: {'attn': {'calls': 3, 'total_ms': 3.75, 'avg_ms': 1.25}, 'mlp': {'calls': 2, 'total_ms': 5, "
        "'avg_ms': 2.5}}\n",
        {
            ("metric", "attn"): {"total": 3.75e6, "avg": 1.25e6, "count": 3},
            ("metric", "mlp"): {"total": 5e6, "avg": 2.5e6, "count": 2},
        },
    ),
    "kernels with a total and calls": (
        "{'kernel': 'gemm', 'total_us': 30, 'avg_us': 10, 'calls': 3}\n"
        "{'kernel': 'norm', 'total_us': 4, 'avg_us': 2, 'calls': 2}\n",
        {
            ("kernel", "gemm"): {"total": 30_000, "avg": 10_000, "count": 3},
            ("kernel", "norm"): {"total": 4000, "avg": 2000, "count": 2},
        },
    ),
    "printed over lines": (
        "Running on A100\n{'latency_ms': {'mean': 12.5, 'p50': 12, 'p99': 20.5},\n 'name': 'resnet50',\n"
        " 'throughput': 640.0}\n"
        "{'latency_ms': {'mean': 22.5, 'p50': 22, 'p99': 30.5},\n 'name': 'vit',\n 'throughput': 320.0}\n",
        {
            ("metric", "resnet50"): {"avg": 1.25e7, "median": 1.2e7, "p99": 2.05e7},
            ("metric", "vit"): {"avg": 2.25e7, "median": 2.2e7, "p99": 3.05e7},
        },
    ),
    "JSON over lines": (
        'bench.run:main:42 - Results: {\n  "device": "RTX 4090",\n  "results": [\n'
        '    {"kernel": "gemm", "mean_us": 12.5, "p99_us": 20},\n'
        '    {"kernel": "norm", "mean_us": 2.5, "p99_us": 3}\n  ]\n}\n',
        {("metric", "gemm"): {"avg": 12_500, "p99": 20_000}, ("metric", "norm"): {"avg": 2500, "p99": 3000}},
    ),
    "a unit before the object, units in its texts": (
        "Timings (ms): {'matmul': 1.25, 'softmax': 0.5, 'calls': 3}\nother: {'relu': '2.5 us', 'gelu': '1.5ms'}\n",
        {
            ("metric", "matmul"): {"total": 1.25e6},
            ("metric", "softmax"): {"total": 5e5},
            ("metric", "relu"): {"total": 2500},
            ("metric", "gelu"): {"total": 1.5e6},
        },
    ),
    "dictionaries of other kinds": (
        "a: defaultdict(<class 'float'>, {'attn_ms': 12.5, 'mlp_ms': 2.5})\n"
        "b: OrderedDict([('norm_ms', 0.5), ('rope_ms', 1.5)])\n"
        "c: {'q (ms)': np.float64(1.25), 'k (ms)': tensor(2.5, device='cuda:0'), 'kind': <Kind.GEMM: 1>}\n",
        {
            ("metric", "attn"): {"total": 1.25e7},
            ("metric", "mlp"): {"total": 2.5e6},
            ("metric", "norm"): {"total": 5e5},
            ("metric", "rope"): {"total": 1.5e6},
            ("metric", "q"): {"total": 1.25e6},
            ("metric", "k"): {"total": 2.5e6},
        },
    ),
    "a unit above": (
        "times in ms:\n\nbatch_norm 1.25\nsoftmax: 0.5\nepoch 3\nbatch_size 8\nrope = 2\ndone\nlate 5\n",
        {
            ("metric", "batch_norm"): {"total": 1.25e6},
            ("metric", "softmax"): {"total": 5e5},
            ("metric", "rope"): {"total": 2e6},
        },
    ),
    "kernels' unit above": (
        "Kernel times (us):\n  matmul: 12.5\n  norm: 0.5\n  total: 13\n",
        {
            ("kernel", "matmul"): {"total": 12_500, "count": 1},
            ("kernel", "norm"): {"total": 500, "count": 1},
            ("total", "total"): {"total": 13_000},
        },
    ),
    "averages' unit above": (
        "Average times in us:\n  matmul 12.5\n  norm 0.5\n  rope 1\n",
        {("metric", "matmul"): {"avg": 12_500}, ("metric", "norm"): {"avg": 500}, ("metric", "rope"): {"avg": 1000}},
    ),
    "durations in parts": (
        "prefill took 1m02.5s\ndecode took 2m27.9s\nmerge took 1h02m\ncopy took 12.5s\n",
        {
            ("metric", "prefill"): {"total": 62.5e9},
            ("metric", "decode"): {"total": 147.9e9},
            ("metric", "merge"): {"total": 3720e9},
            ("metric", "copy"): {"total": 12.5e9},
        },
    ),
    "a sentence that repeats": (
        "Kernel foo finished after 1.25 ms on GPU 0\nKernel bar finished after 0.5 ms on GPU 0\n"
        "Kernel baz finished after 2 ms on GPU 1\n",
        {
            ("kernel", "foo"): {"total": 1.25e6, "count": 1},
            ("kernel", "bar"): {"total": 5e5, "count": 1},
            ("kernel", "baz"): {"total": 2e6, "count": 1},
        },
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_objects_and_units_above_state_times(kind: str, tmp_path: Path) -> None:
    text, expected = RECORDS[kind]
    found = summaries(tmp_path, text)
    assert {(row["kind"], row["name"]): figures(row) for row in found} == expected
    assert len(found) == len(expected)


def test_keys_above_an_object_are_its_scope_and_others_its_arguments(tmp_path: Path) -> None:
    text = "all: {'A100': {'matmul': {'fwd_ms': 1.5, 'bwd_ms': 2.5, 'wait_ms': 9, 'start_ms': 7, 'dtype': 'f16'}}}\n"
    found = summaries(tmp_path, text)
    assert [(row["name"], row["scope"], row["total"]) for row in found] == [
        ("fwd", ["A100", "matmul"], 1.5e6),
        ("bwd", ["A100", "matmul"], 2.5e6),
    ]
    assert json.loads(found[0]["args"]) == {"wait_ms": 9, "start_ms": 7, "dtype": "f16"}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("b'x'", "b'x'"),
        ("1e999", "1e309"),
        ("2j", "2j"),
        ("...", "..."),
        ("-1.5", -1.5),
        ("{1, 2}", [1, 2]),
        ("9" * 30, "9" * 30),
        ("a + b", "a + b"),
        ("nan", "nan"),
    ],
)
def test_any_value_beside_a_time_is_kept(value: str, kept: object, tmp_path: Path) -> None:
    record = f"{{'op': 'add', 'x': {value}, 't_ms': 1.5, 'time_ms': 2.5, 'calls': {'9' * 30}}}\n"
    found = summaries(tmp_path, record + record.replace("add", "mul"))
    assert [(row["kind"], row["name"], row["total"]) for row in found] == [("op", "add", 2.5e6), ("op", "mul", 2.5e6)]
    assert json.loads(found[0]["args"]) == {"x": kept, "t_ms": 1.5, "calls": "9" * 30}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("{'kernel': 'gemm', 'time_us': 2.5, 'compile_ms': 9}", [("kernel", "gemm", None)]),
        ("{'kernel': 'rbf', 'fit_time_us': 2.5}", [("metric", "fit_time", ["rbf"])]),  # of a classifier
        ("{'pass': 'dce', 'time_us': 2.5}", [("metric", "dce", None)]),  # of a compiler
        ("{'name': 'step', 'compute_us': 2.5, 'loss': 3}", [("metric", "step", None)]),
        ("{'kernel': 'gemm', 'min_us': 2.5, 'max_us': 9}", [("metric", "gemm", None)]),
        ("{'op': 'add', 'cpu_us': 9, 'gpu_us': 2.5}", [("kernel", "add", None)]),
    ],
)
def test_a_kernel_is_what_says_so(record: str, expected: list[object], tmp_path: Path) -> None:
    found = summaries(tmp_path, f"x: {record}\nmatmul: 1.5 ms\nsoftmax: 2.5 ms\nrope: 2.5 ms\n")[:-3]
    assert [(row["kind"], row["name"], row.get("scope")) for row in found] == expected
    assert 2500 in (found[0].get("total"), found[0].get("min"))


def test_every_line_of_an_object_is_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("start\n{\n 'a': {'mean_ms': 1.5},\n 'b': {'mean_ms': 2.5}\n}\nx: {'c': [1,\n 2]}\nend\n")
    report = ktrace.read(path).report
    assert [place for place, _ in report.issues["unrecognised"].places] == ["line 1", "lines 6-8"]


NOT_RECORDINGS = {
    "losses in dicts": "{'loss': 2.3, 'learning_rate': 0.001, 'epoch': 0.1}\n"
    "{'train_runtime': 12.5, 'train_samples_per_second': 100.0, 'epoch': 1.0}\n",
    "stamps and limits in dicts": "{'event': 'a', 'timestamp_ms': 1717200000123, 'timeout_ms': 30, "
    "'tokens_per_s': 1.5}\n"
    "{'event': 'b', 'timestamp_ms': 1717200000223, 'timeout_ms': 30, 'tokens_per_s': 2.5, 'img_s': 3}\n",
    "settings in objects": "config = {'timeout_s': 30, 'poll_interval_ms': 100}\nAdam(lr=0.001, betas=(0.9, 0.999))\n",
    "records of a logger": "{'name': 'api.db', 'level': 'INFO', 'message': 'query done', 'elapsed_ms': 2.5}\n"
    "{'name': 'api.auth', 'level': 'INFO', 'message': 'token done', 'elapsed_ms': 1.5}\n",
    "dates in dicts": "{'name': 'a', 'created_ms': 1717200000123}\n{'name': 'b', 'time_ms': 1717200000123}\n",
    "a unit above settings": "Timeouts in ms:\nconnect 500\nread 1000\nwrite 1000\n",
    "a unit above no times": "Timing in ms\nepoch 3\nloss 0.25\naccuracy 0.9\nsteps 100\n",
    "no unit above": "Results:\nmatmul 1.25\nsoftmax 0.5\nrope 2.5\n",
    "no unit in dicts": "{'name': 'matmul', 'time': 1.25}\n{'name': 'softmax', 'time': 0.5}\n"
    "{'name': 'r', 'time': 1}\n",
    "parts of a duration": "ETA: 1h02m\nremaining: 2m27s\nreal 2m27.9s\nuser 1m2.1s\nsys 0m1.2s\nuptime: 3d 4h\n",
    "sentences": "Kernel foo was slow.\nIt finished after 2 ms on GPU 0, I think.\nKernel bar is fast.\n",
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
