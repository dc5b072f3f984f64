"""Trace Event JSON of Intel's unitrace (`--chrome-call-logging`, `--chrome-kernel-logging` ...).

{ "traceEvents":[
{"ph": "M", "name": "process_name", "pid": 78154, "ts": 1695711384948305.000000, "args": {"name": "HOST<node7>"}},
{"ph": "M", "name": "process_name", "pid": 4294967295, ..., "args": {"name": "DEVICE<node7>[Intel(R) ...] 0:3a:0:0"}},
{"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]", "cat": "gpu_op",
 "ts": 1695711387928.273000, "dur": 2850.400000, "args": {"id": "12"}},
{"ph": "t", "tid": 4294967295, "pid": 4294967295, "name": "dep", "cat": "Flow_H2D_12_0", "ts": ..., "id": 12}

Devices and their queues have made-up pids and tids from 2^32 - 1 downwards; the process of the host has its own.
"""
