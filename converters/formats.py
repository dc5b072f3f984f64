"""The formats of ktrace by what they are of, in the order in which docs list them.

Each module or package declares its own, `FORMAT`. Importing all would make each command slower, so listed.py repeats
what they declare, with functions by their places; `python -m ktrace.converters.formats` writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import isclass, ismethod
from pathlib import Path

from ktrace.input.format import FUNCTIONS, Format, Score

#: What the formats are of -> their modules and packages. docs/README.md has these rows.
GROUPS = {
    "Timelines of any program": "perfetto perfetto_text chrome_json trace2html",
    "CPU profilers": "speedscope folded cpuprofile pprof tracy_csv",
    "Spans of services: vLLM, SGLang": "otlp",
    "Canonical records": "jsonl json parquet arrow csv",
    "Written only": "nsys_csv",
    "PyTorch": "kineto torch_table torch_flops torch_benchmark inductor execution_trace chakra torch_memory",
    "DeepSpeed, Megatron-LM": "deepspeed megatron",
    "PaddlePaddle": "kineto paddle",
    "Collectives: PyTorch, NCCL": "nccl_flight_recorder nccl_inspector",
    "NCCL, RCCL: nccl-tests, rccl-tests": "nccl_tests",
    "JAX and TensorFlow: XLA": "xplane xprof_json",
    "PyTorch/XLA: metrics": "torch_xla",
    "Triton: Proton, triton.testing": "proton proton_tree triton_testing",
    "NVIDIA: Nsight Systems": "nsys nsys_rep nsys_tables nsys_stats",
    "NVIDIA: Nsight Compute": "ncu ncu_rep",
    "NVIDIA: nvprof, Visual Profiler, PyProf, DLProf": "nvprof nvvp pyprof dlprof_db",
    "NVIDIA: CUTLASS, inside kernels": "iket",
    "Legacy: CUDA_PROFILE, tfprof, XLA's HLO profile": "old_profilers",
    "NVIDIA: TensorRT": "tensorrt",
    "AMD: rocprofv3, rocprof-sys": "rocprofv3 rocprofv3_json rocpd",
    "AMD: rocprof, rocprof-compute": "rocprof rocprof_json rocprof_db roctracer rocprof_compute",
    "AMD: rocmProfileData": "rpd rpd2tracing",
    "AMD: Xilinx Runtime": "xrt mlir_aie",
    "Intel: unitrace, onetrace, VTune": "unitrace unitrace_json onetrace_json vtune",
    "Intel: OpenCL, OpenVINO": "clintercept clintercept_json openvino",
    "Apple: Instruments": "xctrace",
    "Huawei: Ascend": "ascend_json ascend_csv ascend_db ascend_communication",
    "Tenstorrent: tt-metal": "tenstorrent",
    "AWS: Neuron Explorer": "neuron",
    "Qualcomm QNN": "qnn",
    "ONNX Runtime": "onnxruntime ort_web",
    "oneDNN": "onednn",
    "tinygrad": "tinygrad",
    "TVM": "tvm",
    "Taichi": "taichi",
    "llama.cpp, ggml": "llama llama_bench ggml_opencl",
    "TensorFlow Lite, ExecuTorch": "tflite executorch",
    "ncnn, MNN": "ncnn mnn",
    "Engines and pages": "doppler metallic metallic_jsonl webllm console",
    "Servers: Triton; benchmarks of vLLM, SGLang": "triton_server bench_serve",
    "Tables of statistics": "mlc latencyprism latencyprism_csv",
    "Power, clocks, temperature": "smi prometheus",
    "eBPF: calls, scheduling, I/O": "ingero ingero_json bpftrace",
    "HPC: Score-P and others, HPCToolkit, Charm++, Legion": "otf2 hpctoolkit projections legion_prof",
    "HPC: TAU, Kokkos, TinyProfiler, Caliper; Halide, cupyx": "tau kokkos regions",
    "Games: Unreal Engine": "unreal",
    "Python: cProfile": "cprofile",
    "Benchmarks: nvbench, hipBLASLt, rocBLAS, MIOpen, CUTLASS, Liger-Kernel, pytest-benchmark; Google Benchmark": (
        "benchmark_tables benchmark_json google_benchmark"
    ),
    "Any table": "mapped table",
    "Recognised, not read": "closed",
}

_HEAD = '''"""The formats of ktrace as their folders declare them. Written by `python -m ktrace.converters.formats`."""

from __future__ import annotations

from ktrace.input.format import Format, Score

# fmt: off
FORMATS = (
'''


def declared_by(module: str) -> Format:
    """The format of one of the modules."""
    declared: Format = import_module(f"ktrace.converters.{module}").FORMAT
    return declared


def listed() -> str:
    """The text of listed.py."""
    lines = []
    for name in dict.fromkeys(" ".join(GROUPS.values()).split()):
        declared = declared_by(name)
        given = []
        for one in fields(Format):
            value = getattr(declared, one.name)
            if value == one.default:
                continue
            if one.name in FUNCTIONS and not isinstance(value, str):
                value = _place(name, value)
            given.append(f"{one.name}=Score.{value.name}" if isinstance(value, Score) else f"{one.name}={_text(value)}")
        given.append(f"group={_text('; '.join(group for group, modules in GROUPS.items() if name in modules.split()))}")
        lines.append(f"    Format({', '.join(given)}),\n")
    return f"{_HEAD}{''.join(lines)})\n# fmt: on\n"


def _place(module: str, function: Callable[..., object]) -> str:
    """The place of a function: of the module's FORMS, of a class, or of a module."""
    if not ismethod(function):
        return f"{function.__module__}:{function.__qualname__}"
    owner = function.__self__
    where = f"{owner.__module__}:{owner.__qualname__}" if isclass(owner) else f"ktrace.converters.{module}:FORMS"
    return f"{where}.{function.__name__}"


def _text(value: object) -> str:
    """A value as Python code with double quotes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return repr(value)


if __name__ == "__main__":
    Path(__file__).with_name("listed.py").write_text(listed(), "utf-8")
