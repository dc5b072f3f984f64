"""Logs of NCCL's Inspector plug-in: each collective of a process with its size, time and bandwidth, one a line.

    {"header": {"id": "0x7f8c", "comm_name": "DP Group 0", "rank": 2, "n_ranks": 8, "nnodes": 1},
     "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node1", "pid": 77, ...},
     "coll_perf": {"coll": "AllReduce", "coll_sn": 1407, "coll_msg_size_bytes": 1048576, "coll_exec_time_us": 61,
                   "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 17.1, "coll_busbw_gbs": 30.0,
                   "event_trace_ts": {"coll_start_ts": 17.., "kernel_events": [{"kernel_start_ts": 17..}, ...]}}}

plugins/profiler/inspector/inspector_json.cc of NCCL writes it (in 2.28 and 2.29 ext-profiler/inspector/inspector.cc).
Sends and receives have `p2p_perf` with `p2p_sn`, `p2p_peer` and so on. `event_trace_sn` and `event_trace_ts` are there
if NCCL_INSPECTOR_DUMP_VERBOSE=1; times are those of gettimeofday() at NCCL's callbacks.
"""
