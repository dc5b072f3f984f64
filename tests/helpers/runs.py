"""Two runs of a small training loop as PyTorch profiler traces: `monday` and `tuesday` of docs/commands/diff.md."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

#: Kernel -> how often in a step, and how long (us).
KERNELS = {
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": (12, 180.0),
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>, false, true>(Flash_fwd_params)": (6, 95.0),
    "void softmax_warp_forward<float, float, float, 10, true>(float*, float const*, int, int, int)": (6, 40.0),
    "triton_poi_fused_add_mul_{number}": (6, 22.0),
    "void vectorized_layer_norm_kernel<float, float>(int, float, float const*)": (6, 11.0),
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (1, 400.0),
}


def write(path: Path, seed: int, *, steps: int, number: int, factors: dict[str, float] | None = None) -> Path:
    """Writes a run of so many steps. `number` is what the compiler appends to the name of its kernel this time,
    `factors` are by how much kernels with a word in their names take longer."""
    chance = random.Random(seed)
    events: list[dict[str, Any]] = []
    clock, correlation = 1000.0, 0
    for step in range(steps):
        begin, device = clock, clock + 20
        for name, (count, mean) in KERNELS.items():
            factor = next((by for word, by in (factors or {}).items() if word in name), 1.0)
            for _ in range(count):
                correlation += 1
                duration = round(mean * factor * (0.97 + 0.06 * chance.random()), 3)
                arguments = {"correlation": correlation}
                launch = {
                    "cat": "cuda_runtime",
                    "name": "cudaLaunchKernel",
                    "pid": 1,
                    "tid": 1,
                    "ts": clock,
                    "dur": 4.0,
                }
                stream = 20 if "nccl" in name else 7
                work = {"cat": "kernel", "name": name.format(number=number), "pid": 0, "tid": stream, "ts": device}
                events.append({"ph": "X", **launch, "args": arguments})
                place = {"device": 0, "stream": stream}
                events.append({"ph": "X", **work, "dur": duration, "args": {**arguments, **place}})
                clock = round(clock + 6, 3)
                device = round(device + duration + 2, 3)
        clock = device
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": begin}
        events.append({"ph": "X", **mark, "dur": round(clock - begin - 1, 3), "args": {}})
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": events}
    path.write_text(json.dumps(document))
    return path


def monday(folder: Path) -> Path:
    """Eight steps."""
    return write(folder / "monday.pt.trace.json", 1, steps=8, number=12)


def tuesday(folder: Path) -> Path:
    """Ten steps, with a softmax that is slower, an attention that is faster, and a kernel that is called anew."""
    return write(folder / "tuesday.pt.trace.json", 2, steps=10, number=14, factors={"softmax": 1.15, "flash": 0.94})
