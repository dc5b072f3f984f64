"""The formats of ktrace, in the order in which docs/formats.md lists them.

Each module or package declares its own, `FORMAT`. Importing all would make each command slower, so listed.py repeats
what they declare, with functions by their places; `python -m ktrace.converters.formats` writes it.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path

from ktrace.input.format import FUNCTIONS, Format, Score

#: The modules and packages.
MODULES = (
    # Timelines and tables that ktrace writes.
    *(
        "perfetto",
        "chrome_json",
        "speedscope",
        "folded",
        "otlp",
        "jsonl",
        "json",
        "parquet",
        "arrow",
        "csv",
        "nsys_csv",
    ),
    # PyTorch.
    *(
        "kineto",
        "torch_table",
        "paddle",
        "torch_flops",
        "torch_benchmark",
        "execution_trace",
        "chakra",
        "torch_memory",
        "inductor",
        "deepspeed",
        "nccl_tests",
        "nccl_flight_recorder",
        "nccl_inspector",
    ),
    # JAX, TensorFlow, Triton.
    *("xplane", "xprof_json", "proton"),
    # NVIDIA.
    *(
        "nsys",
        "nsys_stats",
        "nsys_tables",
        "ncu",
        "ncu_rep",
        "iket",
        "nvprof",
        "nvvp",
        "pyprof",
        "dlprof_db",
        "tensorrt",
    ),
    # AMD.
    *(
        "rocprofv3",
        "rocprofv3_json",
        "rocpd",
        "rocprof",
        "rocprof_json",
        "rocprof_db",
        "roctracer",
        "rocprof_compute",
        "rpd",
        "rpd2tracing",
    ),
    # Intel, Apple, Huawei, Tenstorrent, AWS.
    *("unitrace", "unitrace_json", "onetrace_json", "clintercept", "clintercept_json", "openvino", "xctrace"),
    *("ascend_json", "ascend_csv", "ascend_db", "ascend_communication"),
    *("tenstorrent", "neuron", "xrt", "mlir_aie"),
    # Inference engines, on servers and in browsers.
    *(
        "onnxruntime",
        "onednn",
        "tinygrad",
        "qnn",
        "ort_web",
        "tvm",
        "llama",
        "llama_bench",
        "tflite",
        "executorch",
        "ncnn",
        "mnn",
        "ggml_opencl",
        "webllm",
        "mlc",
        "doppler",
        "metallic",
        "metallic_jsonl",
    ),
    "triton_server",
    "bench_serve",
    *("latencyprism", "latencyprism_csv"),
    # Programs that watch devices.
    "smi",
    "prometheus",
    "ingero",
    "ingero_json",
    "bpftrace",
    # HPC: many processes on many nodes.
    "otf2",
    "hpctoolkit",
    "projections",
    "legion_prof",
    "tau",
    "kokkos",
    "regions",
    # CPU profilers.
    *("tracy_csv", "cpuprofile", "pprof"),
    # Games.
    "unreal",
    # Benchmarks.
    "google_benchmark",
    "benchmark_tables",
    "benchmark_json",
    "triton_testing",
    "taichi",
    "cprofile",
    "megatron",
    # Traces in other clothes: a text of Perfetto's, a page around a trace of any format.
    *("perfetto_text", "trace2html"),
    # Tables and logs of any tool.
    "mapped",
    "torch_xla",
    *("table", "console"),
    # Closed formats: one that the vendor's program, where it is installed, turns into another, and others.
    *("nsys_rep", "closed"),
)

_HEAD = '''"""The formats of ktrace as their folders declare them. Written by `python -m ktrace.converters.formats`."""

from __future__ import annotations

from ktrace.input.format import Format, Score

# fmt: off
FORMATS = (
'''


def listed() -> str:
    """The text of listed.py."""
    lines = []
    for name in MODULES:
        declared: Format = import_module(f"ktrace.converters.{name}").FORMAT
        given = []
        for one in fields(Format):
            value = getattr(declared, one.name)
            if value == one.default:
                continue
            if one.name in FUNCTIONS and not isinstance(value, str):
                value = f"{value.__module__}:{value.__qualname__}"
            given.append(f"{one.name}=Score.{value.name}" if isinstance(value, Score) else f"{one.name}={_text(value)}")
        lines.append(f"    Format({', '.join(given)}),\n")
    return f"{_HEAD}{''.join(lines)})\n# fmt: on\n"


def _text(value: object) -> str:
    """A value as Python code with double quotes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return repr(value)


if __name__ == "__main__":
    Path(__file__).with_name("listed.py").write_text(listed(), "utf-8")
