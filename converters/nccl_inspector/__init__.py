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

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

#: Bytes in which the first line is searched.
_FIRST = 1 << 14


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line with the version of the format."""
    if b'"inspector_output_format_version"' in sample.head[:_FIRST]:
        return Match(Score.DIALECT, "has collectives with 'inspector_output_format_version' of NCCL's Inspector")
    return None


FORMAT = Format(
    "nccl-inspector",
    "NCCL Inspector log",
    patterns=("*-pid*.log",),
    probe=probe,
    read="ktrace.converters.nccl_inspector.reader:read",
    words=('"inspector_output_format_version"',),
)
