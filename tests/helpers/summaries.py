"""A training run that never was, for the charts: two devices, eight steps, exact figures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ktrace.analysis.answers.summary.summary import StepUse, Summary
from ktrace.analysis.work.groups import DeviceUse, Group, InSteps, Spread
from ktrace.tables import Column, Table

#: Operation, kernel, launches a step, typical ns.
WORK = (
    ("gemm", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn", 96, 410_000),
    ("gemm", "nvjet_hsh_128x256_64x4_2x1_v_bz_TNT", 48, 260_000),
    ("attention", "flash_fwd_kernel<Flash_fwd_kernel_traits>", 24, 690_000),
    ("collective", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 12, 1_350_000),
    ("elementwise", "vectorized_elementwise_kernel<CUDAFunctor_add>", 210, 21_000),
    ("elementwise", "triton_poi_fused_gelu_3", 48, 33_000),
    ("copy", "Memcpy HtoD (Pinned -> Device)", 4, 910_000),
    ("optimizer", "multi_tensor_apply_kernel<FusedAdam>", 18, 180_000),
    ("norm", "vectorized_layer_norm_kernel", 49, 62_000),
    ("softmax", "cunn_SoftMaxForward", 24, 45_000),
    ("other", "my_kernel", 2, 9_000),
)

GAPS = Spread(3_120, 41_000_000, 2_300.0, 48_000.0, 2_900_000)
QUEUEING = Spread(4_100, 900_000_000, 85_000.0, 1_900_000.0, 12_000_000)
DEVICES = [
    DeviceUse(
        f"device {device}", f"rank{device}", device, device, 1_000_000_000 - 20_000_000 * device, 900_000_000,
        760_000_000, 180_000_000, 60_000_000, 110_000_000, 35_000_000, GAPS, QUEUEING, 47.5,
    )
    for device in range(2)
]  # fmt: skip


def group(key: str, steps: list[npt.NDArray[np.int64]]) -> Group:
    """The group of launches that took so long, an array for each step."""
    durations = np.sort(np.concatenate(steps))
    low, middle, p95, p99, high = (float(np.quantile(durations, part)) for part in (0, 0.5, 0.95, 0.99, 1))
    return Group(
        key, int(durations.sum()), len(durations), float(durations.mean()), middle, p95, p99, low, high,
        durations=durations, in_steps=InSteps.from_times(np.array([float(step.sum()) for step in steps])),
    )  # fmt: skip


def training(steps: int = 8) -> Summary:
    """The summary, the same at every call. The first step is slower."""
    chance = np.random.default_rng(10)
    kernels: dict[str, list[npt.NDArray[np.int64]]] = {}
    operations: dict[str, list[npt.NDArray[np.int64]]] = {}
    for operation, name, count, typical in WORK:
        factors = [1.6, *[1.0] * (steps - 1)]
        times = [(typical * factor * chance.lognormal(0, 0.18, count)).astype(np.int64) for factor in factors]
        kernels[name] = times
        known = operations.get(operation)
        operations[operation] = [np.concatenate(both) for both in zip(known, times, strict=True)] if known else times
    groups = {
        "operation": sorted((group(*item) for item in operations.items()), key=lambda one: -one.total),
        "kernel": sorted((group(*item) for item in kernels.items()), key=lambda one: -one.total),
    }
    total = sum(one.total for one in groups["operation"])
    groups["library"] = [Group("cuBLAS", total * 0.6, 900), Group("ATen", total * 0.4, 2_000)]
    groups["layer"] = [Group(f"L{layer}", total / 40 * (1 + layer / 16), 100) for layer in range(16)]
    names = [f"ProfilerStep#{step}" for step in range(steps)]
    uses = [StepUse(name, 1, 120_000_000 + 45_000_000 * (name == names[0]), *[0] * 6) for name in names]
    return Summary(
        ["rank0.json", "rank1.json"], "events", total, sum(one.count or 0 for one in groups["operation"]),
        (0, 1_000_000_000), groups, DEVICES, names, uses, notes=["Three kernels began before the capture."],
    )  # fmt: skip


def tables(summary: Summary) -> list[Table]:
    """A table of each grouping."""
    figures = (Column("count", "count"), Column("time", "ns"), Column("share", "%"), Column("median", "ns"))
    return [
        Table(
            by,
            f"by {by}",
            (Column(by), *figures),
            [(one.key, one.count, one.total, 100 * one.total / summary.total, one.median) for one in groups],
            notes=summary.notes,
        )
        for by, groups in summary.groups.items()
    ]
