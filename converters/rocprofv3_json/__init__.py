"""The JSON of rocprofv3 (`--output-format json`): `*_results.json`, often many GB, read as a stream.

    {"rocprofiler-sdk-tool": [{                                        an entry for each process
        "metadata": {"pid": 4711, "init_time": ..., "node": {...}, "command": [...]},
        "agents": [...], "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": [...]}]},
        "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "scale(float*)"}],
        "callback_records": {"counter_collection": [...]},
        "buffer_records": {"kernel_dispatch": [{"start_timestamp": ..., "dispatch_info": {...}}], "hip_api": [...]}}]}

Times are ns since boot (CLOCK_BOOTTIME), grids are in work-items, agents, queues and streams are handles.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')


def probe(sample: Sample) -> Match | None:
    """MAGIC if the key is the document's first, DIALECT if it is elsewhere in the head."""
    if _FIRST.match(sample.head):
        return Match(Score.MAGIC, 'is a JSON document of "rocprofiler-sdk-tool"')
    if sample.head[:64].lstrip().startswith(b"{") and b'"rocprofiler-sdk-tool"' in sample.head:
        return Match(Score.DIALECT, 'contains the key "rocprofiler-sdk-tool"')
    return None


FORMAT = Format(
    "rocprofv3-json",
    "ROCm rocprofv3 JSON",
    patterns=("*_results.json",),
    probe=probe,
    read="ktrace.converters.rocprofv3_json.reader:read",
    words=("rocprofiler-sdk-tool",),
    document=True,
    holds="blocks",
)
