"""Dumps of PyTorch's flight recorder: the last collectives of a rank, with sizes, groups and states.

    {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "pg_status": {...},
     "entries": [{"record_id": 7, "process_group": ("0", "default_pg"), "collective_seq_id": 3, "p2p_seq_id": 0,
                  "profiling_name": "nccl:all_reduce", "time_created_ns": 17.., "duration_ms": 1.5,
                  "input_sizes": [[4, 8]], "input_dtypes": ["Float"], ..., "state": "completed",
                  "time_discovered_started_ns": 17.., "time_discovered_completed_ns": 17.., "retired": True,
                  "frames": [{"name": ..., "filename": ..., "line": 7}, ...]}, ...]}

torch/csrc/distributed/c10d/FlightRecorderDetail.hpp writes it, with the writer of pickles of TorchScript, or as JSON
(without stacks, 0 for an unknown time). Version 1 has `seq_id`, and no name of the group.
"""
