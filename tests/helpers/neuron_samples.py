"""Makes samples/neuron: a profile of AWS Neuron Explorer with invented figures. `python neuron_samples.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Table = dict[str, list[Any]]

CORE = {"pcore_idx": [0, 0, 1]}

TABLES: dict[str, Table] = {
    "Instruction": {
        "start_ts": [1_000, 1_400, 2_000],
        "end_ts": [1_350, 2_600, 2_000],
        "duration_ns": [350, 1_200, 0],
        "engine": ["tensor", "tensor", "vector"],
        "timeline_track": ["Tensor", "TensorMatrix", None],
        "opcode": ["LDWEIGHTS", "MATMUL", "TENSOR_COPY"],
        "operands": ["src=bf16@0x5600", "acc_flags=3", ""],
        "id": [11, 12, 13],
        "hlo_name": ["dot.1", "dot.1", None],
        "layer": ["layer_0", "layer_0", "layer_0"],
        "evt_wait_time_ns": [None, 40, 15],
        **CORE,
    },
    "DmaPacket_0": {
        "start_ts": [500, 620],
        "end_ts": [600, 900],
        "duration_ns": [100, 280],
        "id": [1, 2],
        "packet_aggregation_id": [7, 7],
        "engine_idx": [3, None],
        "transfer_bytes": [2048, 4096],
        "queue_type": ["input", "input"],
        "variable": ["x", None],
        "pcore_idx": [0, 0],
    },
    "DmaPacket_1": {
        "start_ts": [950],
        "end_ts": [940],
        "duration_ns": [-10],
        "id": [3],
        "packet_aggregation_id": [8],
        "engine_idx": [4],
        "transfer_bytes": [64],
        "queue_type": ["output"],
        "variable": ["y"],
        "pcore_idx": [0],
    },
    "DmaPacketAggregated": {
        "start_ts": [500],
        "end_ts": [900],
        "duration_ns": [400],
        "id": [7],
        "queue_name": ["qSyncIO0"],
        "op": ["read"],
        "variable": ["x"],
        "transfer_bytes": [6144],
        "source": ["[INPUT]"],
        "dest": ["[SB]"],
        "pcore_idx": [0],
    },
    "CcOp": {
        "start_ts": [2_700],
        "end_ts": [3_200],
        "duration_ns": [500],
        "operation": ["AllGather"],
        "algorithm": ["Ring"],
        "stream_index": [0],
        "input_size": [1024],
        "replica_group": ["[[0,1]]"],
    },
    "ActiveTime": {
        "start_ts": [1_000],
        "end_ts": [2_600],
        "duration_ns": [1_600],
        "engine": ["tensor"],
        "pcore_idx": [0],
    },
    "HbmUsage": {"timestamp": [500, 900], "current_throughput": [0.0, 1.5e10], "total_transfer_bytes": [0, 6144]},
    "PsumUsage": {"timestamp": [1_000], "avg_util_percent": [12.5], "bank_0_util_percent": [None], "pcore_idx": [0]},
    "SemaphoreUpdate": {"timestamp": [905], "id": ["S[10]"], "value": [1], "pcore_idx": [0]},
    "Throttle": {"timestamp": [2_000], "duration": [300], "k": [3], "n": [4], "type": ["activity_0"], "pcore_idx": [0]},
    "Summary": {
        "total_time": [0.0000027],
        "tensor_engine_active_time_percent": [0.592593],
        "hbm_read_bytes": [6144],
        "matmul_instruction_count": [1],
        "mm_arithmetic_intensity": [21.5],
        "mbu_estimated_percent": [None],
    },
    "Warning": {"message": ["Debug info is missing."], "category": ["Missing Data"]},
    "Metadata": {
        "profile_schema_version": ["7.4.0"],
        "explorer_version": ["2.31.0"],
        "instance_type": ["trn2.48xlarge"],
        "neuroncore_idx": [1],
        "neuron_device_idx": [5],
        "profile_name": ["mlp"],
    },
    "TensorInfo": {"variable_name": ["x", "y"], "size": [2048, 64]},
}


def profile(folder: Path, tables: dict[str, Table] = TABLES) -> Path:
    """Writes the tables as a profile."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(
            pa.table({column: pa.array(values) for column, values in columns.items()}), folder / f"{name}.parquet"
        )
    return folder


def main() -> None:
    """Writes the sample."""
    profile(Path(__file__).parent.parent.parent / "samples" / "neuron" / "mlp@latest")


if __name__ == "__main__":
    main()
