"""Makes samples/ncu-rep/: reports in the shape of Nsight Compute's, with invented figures. `python ncu_rep_samples.py`.

Nobody profiled anything for them. Messages are given as lists of (field number, value); a whole number is a varint, a
float a double, bytes and text and lists are what has a length. A test compares the files with what this makes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "samples" / "ncu-rep"

Fields = Sequence[tuple[int, "int | float | str | bytes | Fields"]]

PID, HOST, PROGRAM = 4242, "node7", "/home/me/bench"

#: Names of metrics; those from LATE on stand in the last block, behind their use.
NAMES = [
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "device__attribute_device_index",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
    "device__attribute_display_name",
    "launch__function_pcs",
    "inst_executed",
    "sass__inst_executed_per_opcode",
    "profiler__pmsampler_pass_groups",
    "profiler__pmsampler_ctxsw_0",
    "profiler__pmsampler_ctxsw_1",
    "SM_A.TriageAC.sm__cycles_active.avg",
    "FBSP.TriageSCG.dramc__throughput.avg.pct_of_peak_sustained_elapsed",
    "group:memory__chart",
    "dram__bytes.sum.per_second",
    "nvlink__source_ports",
    "smsp__inst_executed.sum",
    "l1tex__data_bank_conflicts.sum",
]
LATE = 20
NUMBER = {name: number for number, name in enumerate(NAMES)}

#: When replays 0 and 1 of the first launch came onto the GPU, ns since 1970.
SWITCHED = (1_700_000_000_000_000_000, 1_700_000_000_070_000_000)
#: ns since the switch -> value, of each of the sampled metrics.
CYCLES = {-2_000: 0.0, 0: 10.5, 2_000: 99.25, 4_000: 98.0, 60_000: 0.0}
DRAM = {1_000: 12.5, 9_000: 77.0}

FUNCTION = 0x7F00_0000_1000
INSTRUCTIONS = {0x0: 64, 0x10: 128, 0x20: 32}
OPCODES = {"FFMA": 1024, "LDG": 64}

GEMM = "void gemm<float>(const float *, const float *, float *)"


def varint(value: int) -> bytes:
    """A number of up to 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def message(fields: Fields) -> bytes:
    """A message of its fields."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            made += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            data = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else message(value)
            made += varint(number << 3 | 2) + varint(len(data)) + data
    return made


def sized(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return struct.pack("<I", len(data)) + data


def block(header: Fields, *entries: Fields) -> bytes:
    """A block; its header has all but the size of the payload."""
    payload = b"".join(sized(message(entry)) for entry in entries)
    return sized(message([*header, (5, len(payload))])) + payload


def value_of(figure: float | str) -> Fields:
    """A value: text, double or 64 bit."""
    return [(1 if isinstance(figure, str) else 3 if isinstance(figure, float) else 5, figure)]


def metric(
    name: str,
    figure: float | str | None = None,
    instances: dict[int | str, float | str] | None = None,
    *,
    sampled: bool = False,
) -> tuple[int, Fields]:
    """Field 13 of a launch."""
    fields: list[tuple[int, int | Fields]] = [(1, NUMBER[name])]
    if figure is not None:
        fields.append((2, value_of(figure)))
    for key, inner in (instances or {}).items():
        fields.append((3, [(1, value_of(key)), (2, value_of(inner))]))
    return 13, [*fields, *([(4, 1)] if sampled else [])]


PROCESS = (6, [(1, PID), (2, HOST), (3, PROGRAM)])

DEVICE = [
    metric("device__attribute_device_index", 1),
    metric("device__attribute_compute_capability_major", 9),
    metric("device__attribute_compute_capability_minor", 0),
    metric("device__attribute_display_name", "Invented GPU"),
]

SECTIONS = [
    (
        17,
        [
            (1, "SpeedOfLight"),
            (2, "GPU Speed Of Light Throughput"),
            (3, 10),
            (4, [(1, 1), (2, [(1, NAMES[0]), (2, "Duration")]), (2, [(1, NAMES[1]), (2, "Compute (SM) Throughput")])]),
        ],
    ),
    (
        17,
        [
            (1, "LaunchStats"),
            (2, "Launch Statistics"),
            (3, 20),
            (6, [(1, [(1, NAMES[2]), (2, "Registers Per Thread")])]),
        ],
    ),
]

RULE = [
    (1, "LaunchConfiguration"),
    (2, "Launch Configuration"),
    (
        3,
        [
            (
                1,
                [
                    (
                        1,
                        [
                            (
                                1,
                                "Only 64 blocks. See the @section:LaunchStats:Launch Statistics@ and the @url:Guide:https://example.com/a@.",
                            ),
                            (2, 4),
                            (3, 1),
                            (4, "Small Grid"),
                        ],
                    ),
                    (8, [(1, 1), (2, NAMES[1]), (3, 63.5), (4, 2), (5, "Launch more blocks")]),
                    (10, [(1, 2), (2, 12.25)]),
                ],
            ),
            (1, [(1, [(1, "No mark here."), (2, 0)])]),
        ],
    ),
    (4, "LaunchStats"),
]

NVTX = [
    (1, [(1, 0), (2, "<default domain>")]),
    (1, [(1, 5), (2, "solver")]),
    (2, [(1, 77), (2, [(1, 0), (3, [(1, "forward")]), (3, [(1, "layer 3")])]), (2, [(1, 5), (3, [(1, "solve")])])]),
    (3, [(1, 0), (3, [(1, 9), (2, "epoch"), (3, [(2, 0), (3, [(1, 1), (2, 0xFF00FF00)]), (4, [(1, 2), (3, -5)])])])]),
]

FIRST: Fields = [
    (1, 77),
    (2, 10),
    (5, "_Z4gemmIfEvPKT_S2_PS0_"),
    (6, "gemm"),
    (7, GEMM),
    (8, 3),
    (9, [(1, 0), (2, 0), (3, 0)]),
    (10, [(1, 64), (2, 2), (3, 1)]),
    (11, [(1, 16), (2, 16), (3, 1)]),
    metric("gpu__time_duration.sum", 50_464.0),
    metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 63.571428571428),
    metric("launch__registers_per_thread", 96),
    metric("launch__shared_mem_per_block_static", 1024),
    metric("launch__shared_mem_per_block_dynamic", 16_384),
    *DEVICE,
    metric("launch__function_pcs", 1, {0: FUNCTION}),
    metric("inst_executed", sum(INSTRUCTIONS.values()), {FUNCTION + at: count for at, count in INSTRUCTIONS.items()}),
    metric("sass__inst_executed_per_opcode", sum(OPCODES.values()), dict(OPCODES)),
    metric(
        "profiler__pmsampler_pass_groups",
        instances={
            0: "SM_A.TriageAC.sm__cycles_active.avg",
            1: "FBSP.TriageSCG.dramc__throughput.avg.pct_of_peak_sustained_elapsed",
        },
    ),
    metric("profiler__pmsampler_ctxsw_0", 1.0, {SWITCHED[0]: 1.0}, sampled=True),
    metric("profiler__pmsampler_ctxsw_1", 1.0, {SWITCHED[1]: 1.0}, sampled=True),
    metric(
        "SM_A.TriageAC.sm__cycles_active.avg",
        207.75,
        {SWITCHED[0] + at: value for at, value in CYCLES.items()},
        sampled=True,
    ),
    metric(
        "FBSP.TriageSCG.dramc__throughput.avg.pct_of_peak_sustained_elapsed",
        None,
        {SWITCHED[1] + at: value for at, value in DRAM.items()},
        sampled=True,
    ),
    metric("group:memory__chart", "dram__bytes.sum.per_second,inst_executed"),
    metric("dram__bytes.sum.per_second", 1.5e12),
    metric("nvlink__source_ports"),
    metric("smsp__inst_executed.sum", 2**63 + 1),
    metric("l1tex__data_bank_conflicts.sum", float("nan")),
    (14, 1_700_000_000),
    (15, [(1, 81)]),
    (16, 0),
    *SECTIONS,
    (18, [(1, [(1, "SpeedOfLight")]), (2, "me"), (3, "looks fine")]),
    (19, RULE),
    (21, NVTX),
    (22, 1),
    (23, 7),
    (25, [(1, 1), (2, 1)]),
    (27, "compute"),
    (
        28,
        [
            (1, [(1, "/lib/libcuda.so"), (2, 0x1234), (4, "cuLaunchKernel")]),
            (1, [(1, PROGRAM), (2, 64), (3, "a.cu"), (4, "main"), (5, 12)]),
        ],
    ),
]

#: A C name, which isn't demangled.
SECOND: Fields = [
    (1, 77),
    (2, 12),
    (5, "saxpy"),
    (6, "saxpy"),
    (7, ""),
    (10, [(1, 8), (2, 1), (3, 1)]),
    (11, [(1, 256), (2, 1), (3, 1)]),
    metric("gpu__time_duration.sum", 9_536.0),
    metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 12.5),
    *DEVICE,
    (14, 1_700_000_001),
    (22, 1),
    (23, 13),
]

SOURCE: Fields = [
    (1, 81),
    (4, b"\x7fELF" + bytes(60)),
    (5, 8),
    (8, [(1, [(1, "/home/me/a.cu"), (2, "__global__ void gemm() {}")])]),
    (9, [(1, [(1, "_Z4gemmIfEvPKT_S2_PS0_"), (2, FUNCTION)])]),
]

SYSTEM = [(1, "Linux"), (2, "6.1"), (3, "Invented CPU"), (4, "x86_64"), (5, "node7.example"), (7, [(1, "192.0.2.7")])]


def strings(names: Sequence[str]) -> tuple[int, Fields]:
    """Field 4 of a block's header."""
    return 4, [(1, name) for name in names]


def file_of(*blocks: bytes, version: int = 7) -> bytes:
    """A report."""
    return b"NVR\0" + sized(message([(1, version)])) + b"".join(blocks)


def usual() -> bytes:
    """Two launches in blocks of their own; the last names of metrics stand behind them."""
    return file_of(
        block([(3, [(2, 1_700_000_000), (3, SYSTEM)]), (4, b""), PROCESS]),
        block([(1, 1), (2, 0), PROCESS], SOURCE),
        block([(1, 0), (2, 1), strings(NAMES[:LATE]), PROCESS], FIRST),
        block(
            [
                (
                    3,
                    [
                        (
                            6,
                            [
                                (1, 1),
                                (2, "Invented GPU"),
                                (3, [(1, "device__attribute_multiprocessor_count"), (2, [(5, 132)])]),
                            ],
                        )
                    ],
                )
            ]
        ),
        block([(3, [(8, [(1, "Nsight Compute Target"), (2, "2023.3.0.0")]), (8, [(1, "CUDA Version"), (2, "12.3")])])]),
        block([(2, 1), PROCESS], SECOND),
        block([(3, [(4, SYSTEM), (9, [(1, PROGRAM), (3, "--size 8"), (4, "HF_TOKEN=hf_secret")])])]),
        block([strings(NAMES[LATE:])]),
    )


def others() -> bytes:
    """A range, a command list, a graph and a launch, of an unknown version and with fields that nobody knows."""
    figure = metric("gpu__time_duration.sum", 2_000.0)[1]
    throughput = metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", 50.0)[1]
    both = [(4, figure), (4, throughput), (5, 1_700_000_000)]
    sections = [(7, fields) for _, fields in SECTIONS]
    head = [strings(NAMES), PROCESS, (7, 1), (8, 1), (9, 1), (31, 5)]
    return file_of(
        block(
            head,
            [(1, 77), (2, 3), *both, *sections, (11, 1), (12, [(1, 0), (2, 0)]), (99, "of tomorrow")],
            [
                (1, 77),
                (2, 4),
                *both,
                (11, 1),
                (12, 7),
                (18, "cuGraphLaunch"),
                (20, [(1, [(1, 4), (2, 1), (3, 1)])]),
                (21, RULE),
            ],
            [(1, 77), (2, 5), *both, (11, 1), (12, 7), (99, 1)],
        ),
        block([(2, 1), PROCESS], SECOND),
        version=8,
    )


MADE = {
    "names-behind-their-use-samples-and-rules.ncu-rep": usual,
    "range-list-and-graph-of-an-unknown-version.ncu-rep": others,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, make in MADE.items():
        (FOLDER / name).write_bytes(make())
