"""A database with the tables of DLProf 1.8.0 and invented rows: DLProf didn't write it.

`python tests/helpers/dlprof_samples.py` writes that of samples/ anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parents[2] / "samples/dlprof-db/two-operators-no-string-and-a-kernel-that-ends-early.sqlite"

_WORK = (
    "id, read_only_ops_id, op_instance, name_id{}, api_start, api_stop, gpu_start, gpu_stop{}, device_id, process_id,"
    " thread_id"
)
_CALL = "id, read_only_ops_id, op_instance, name_id, api_start, api_stop{}, process_id, thread_id"

#: Table -> its columns, all whole numbers unless they are named with another type.
TABLES = {
    "dictionary": "id, string TEXT",
    "read_only_domains": "id, domain_name_id",
    "read_only_gpu_infos": "id, device_id, gpu_name TEXT, compute_capability_major, compute_capability_minor, sm_count",
    "read_only_system_config": "id, is_valid, num_gpus TEXT, cpu_model TEXT, driver_version TEXT, framework TEXT,"
    " cuda_version TEXT, cudnn_version TEXT, nsys_version TEXT, dlprof_version TEXT",
    "read_only_ops": "id, domain_id, op_id_id, op_id STRING, op_name STRING, op_type_id, data_type_id, direction_id,"
    " stack_trace STRING",
    "read_only_op_instances": "id, read_only_ops_id, cpu_start, cpu_stop, process_id, thread_id, input_names_id,"
    " input_shapes_id, output_names_id, output_shapes_id, parameters_id",
    "read_only_grid_block": "id, x, y, z",
    "read_only_kernels": _WORK.format(", long_name_id, uses_tc", ", grid_id, block_id"),
    "read_only_memcpys": _WORK.format("", ", num_bytes, copy_kind"),
    "read_only_memsets": _WORK.format("", ", num_bytes"),
    "read_only_cuda_calls": _CALL.format(""),
    "read_only_cuda_syncs": _CALL.format(", gpu_start, gpu_stop, sync_type, event_id, device_id"),
    "read_only_sub_ops": "id, op_id, start_time, stop_time",
    "iteration_list": "id, aggr_id, iter_value, start_time, stop_time",
    "expert_systems_feedback": "id, aggr_id, exp_sys_id, problem TEXT, recommendation TEXT",
    "metric": "id, count, max, min, sum, avg REAL",
}

ROWS: dict[str, Sequence[tuple[Any, ...]]] = {
    "dictionary": list(
        enumerate(
            (
                *("default-domain", "LINEAR_1", "linear", "", "float16", "fprop", "null\n", "[[32,64],[128,64]]\n"),
                *("tile_gemm", "void tile_gemm<half, 128>(half const*)", "cudaMemcpyAsync_v3020"),
                *("cudaMemsetAsync_v3020", "cudaMalloc_v3020", "cudaStreamSynchronize_v3020", "relu", '[""]\n'),
            ),
            1,
        )
    ),
    "read_only_domains": [(1, 1)],
    "read_only_gpu_infos": [(1, 0, "NVIDIA GeForce RTX 2070", 7, 5, 36)],
    "read_only_system_config": [(1, 1, "1", "A CPU", "515.1", "PyTorch 1.10", "11.7", "", "2022.1.3", "v1.8.0")],
    "read_only_ops": [
        (1, 1, 2, "LINEAR_1", "/module/net/linear", 3, 5, 6, "train.py:40\nnet.py:7"),
        (2, 1, 4, "7", "/module/net/relu", 15, 4, 4, ""),
    ],
    "read_only_op_instances": [
        (1, 1, 1_000, 90_000, 70, 71, 16, 8, 7, 7, 7),
        (2, 2, 100_000, 140_000, 70, 71, 16, 7, 7, 7, 7),
        (3, 1, 200_000, 260_000, 70, 71, 16, 8, 7, 7, 7),
    ],
    "read_only_grid_block": [(1, 8, 2, 1), (2, 128, 1, 1)],
    "read_only_kernels": [
        (1, 1, 0, 9, 10, 1, 10_000, 14_000, 15_000, 35_000, 1, 2, 0, 70, 71),
        (2, 2, 0, 99, 98, 0, 110_000, 113_000, 115_500, 117_750, 2, 2, 0, 70, 71),
        (3, 1, 1, 9, 10, 1, 210_000, 214_000, 225_000, 215_000, 1, 2, 0, 70, 71),
    ],
    "read_only_memcpys": [
        (1, 1, 0, 11, 2_000, 4_000, 4_500, 9_500, 4096, 1, 0, 70, 71),
        (2, 1, 1, 11, 240_000, 241_000, 241_500, 243_000, 512, 77, 0, 70, 71),
    ],
    "read_only_memsets": [(1, 2, 0, 12, 120_000, 121_000, 122_000, 122_400, 64, 0, 70, 71)],
    "read_only_cuda_calls": [(1, 1, 0, 13, 500, 900, 70, 71)],
    "read_only_cuda_syncs": [(1, 1, 1, 14, 245_000, 255_000, 0, 0, 3, 4294967295, 0, 70, 71)],
    "read_only_sub_ops": [(1, 1, 5, 6)],
    "iteration_list": [
        (1, 1, 0, 0, 150_000),
        (2, 1, 1, 150_000, 300_000),
        (3, 2, 1, 150_000, 300_000),
        (4, 1, 2, 9, 3),
    ],
    "expert_systems_feedback": [(1, 1, 3, "1 op was eligible to use tensor cores", "Try AMP")],
    "metric": [(1, 1, 20_000, 20_000, 20_000, 20_000.0)],
}


def write(path: Path) -> None:
    """Writes the database."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for table, columns in TABLES.items():
            declared = ", ".join(column if " " in column else f"{column} INTEGER" for column in columns.split(", "))
            database.execute(f"CREATE TABLE {table} ({declared})")
            for row in ROWS[table]:
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        database.commit()


if __name__ == "__main__":
    write(SAMPLE)
