"""Memory snapshots of PyTorch: what its caching allocator did, and the memory at the time of the snapshot.

    {"segments": [{"device": 0, "address": 139.., "total_size": 2097152, "allocated_size": 512, "stream": 0, ...,
                   "blocks": [{"address": 139.., "size": 512, "requested_size": 500, "state": "active_allocated",
                               "frames": [{"name": "forward", "filename": "model.py", "line": 7}, ...]}, ...]}, ...],
     "device_traces": [[{"action": "alloc", "addr": 139.., "size": 512, "stream": 0, "time_us": 17.., "frames": [...]},
                        ...]],                                                          a list for each device
     "allocator_settings": {...}}

torch.cuda.memory._dump_snapshot() pickles it with Python; torch/csrc/cuda/memory_snapshot.cpp with a writer of its own
(protocol 2). XPU and other devices have the same. Some tools write it as JSON. _dump_snapshot_sqlite() writes tables,
and trace_plot(), segment_plot() and profile_plot() of torch.cuda._memory_viz a page with the pickle:

    const local_files = [{"name": "snapshot.pickle", "base64": "gASV..."}]
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_PICKLE = tuple(bytes((0x80, version)) for version in range(2, 6))

#: The tables of a database, with columns that tell them.
_TABLES = {"device_traces": {"action", "time_us"}, "segments": {"total_size"}, "blocks": {"segment_id", "state"}}

#: Bytes in which the first key is searched.
_FIRST = 4096


def probe(sample: Sample) -> Match | None:
    """MAGIC for a pickle, a database or a page, DIALECT for JSON, with the keys of a snapshot."""
    if sample.tables is not None:
        names = {name.casefold(): {*map(str.casefold, columns)} for name, columns in sample.tables.items()}
        is_snapshot = all(columns <= names.get(table, set()) for table, columns in _TABLES.items())
        return Match(Score.MAGIC, "is an SQLite database with the traces of PyTorch's memory") if is_snapshot else None
    head = sample.head
    first = head[:_FIRST]
    if head.startswith(_PICKLE):
        if b"device_traces" in first or (b"segments" in first and _goes_on(sample)):
            return Match(Score.MAGIC, "is a pickle with the segments and traces of PyTorch's memory")
        return None
    if b"add_local_files" in first and b"local_files" in first and b'"base64"' in first:
        return Match(Score.MAGIC, "is a page of torch.cuda._memory_viz with a memory snapshot in it")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    if b'"device_traces"' in first or (b'"segments"' in first and (b'"segment_type"' in head or _goes_on(sample))):
        return Match(Score.DIALECT, "has the segments and traces of PyTorch's memory")
    return None


def _goes_on(sample: Sample) -> bool:
    """Whether other keys of a snapshot follow the first one."""
    return any(key in sample.head or key in sample.tail for key in (b"total_size", b"device_traces"))


FORMAT = Format(
    "torch-memory",
    "PyTorch memory snapshot: pickle, JSON, SQLite, page",
    patterns=("*snapshot*.pickle", "*.pkl", "*.pickle", "*snapshot*.json", "*snapshot*.db", "*memory*.html"),
    probe=probe,
    read="ktrace.converters.torch_memory.reader:read",
    document=True,
    beside=("{name}-wal", "{name}-journal"),
    holds="whole",
)
