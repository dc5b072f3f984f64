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

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_PICKLE = tuple(bytes((0x80, version)) for version in range(2, 6))

#: Bytes in which keys are searched.
_FIRST = 1 << 14


def probe(sample: Sample) -> Match | None:
    """MAGIC for a pickle, DIALECT for JSON, with the keys of a dump."""
    head = sample.head
    is_pickle = head.startswith(_PICKLE)
    if not is_pickle and head[:32].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    first = head[:_FIRST]
    collectives = b"entries" in first and b"profiling_name" in first and b"time_created_ns" in first
    groups = b"pg_config" in first and b"version" in first and (b"entries" in first or b"pg_status" in first)
    if not collectives and not groups:
        return None
    return Match(Score.MAGIC if is_pickle else Score.DIALECT, "is a dump of PyTorch's flight recorder")


FORMAT = Format(
    "nccl-flight-recorder",
    "PyTorch flight recorder, pickle or JSON",
    patterns=("*trace_rank_*", "*.pickle", "*.json"),
    probe=probe,
    read="ktrace.converters.nccl_flight_recorder.reader:read",
    document=True,
    holds="whole",
)
