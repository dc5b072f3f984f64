"""The texts that roctracer writes, of which rocprof makes its database: with -d DIR they stay (ROCm 2 to 6).

    4242_hip_api_trace.txt      1000:2000 4242:4243 hipLaunchKernel(..., stream=0) kernel=f(int*) :7
    4242_hcc_ops_trace.txt      2500:4000 0:1 KernelExecution:7:4242
    4242_hsa_api_trace.txt      1000:2000 4242:4243 hsa_queue_create(0x5, 64, ...) = 0 :8
    4242_async_copy_trace.txt   2500:4000 async-copy:9:4242
    4242_roctx_trace.txt        1000 4242:4243 1:0:"step"

Without a folder roctracer prints all of them, amid the program's own lines. The first numbers are begin and end in ns,
then process and thread, or device and queue; the last number is the correlation id, or that and the process.

Facts: roctracer's plugin/file/file.cpp (ROCm 5 and 6), test/tool/tracer_tool.cpp (ROCm 2 to 5), outputs in its
test/golden_traces; rocprofiler's bin/tblextr.py, which reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktrace.kit import Format, Match, Sample, Score

#: What is looked at of a text: roctracer prints its first line as soon as the program calls anything.
_HEAD = 1 << 14

_LINE = re.compile(
    rb"^\d{6,20}:\d{6,20} (?:\d+:\d+ (?:(?:hip|hsa|hsaKmt)\w+\(|[A-Za-z_~][^\r\n;]*:\d+:\d+\r?$)|async-copy:?\d)"
    rb'|^\d{6,20} \d+:\d+ [1-4](?::\d+)?:"',
    re.MULTILINE,
)

_FILE = re.compile(
    r"(?:(?P<folder>.*)/)?(?:\d+_)?(?P<what>(?:hip_api|hsa_api|kfd_api|hcc_ops|async_copy|roctx)_trace|hsa_handles"
    r"|begin_ts_file)\.txt"
)

#: The order in which the files of a run are read: calls have the names of their kernels.
_ORDER = ("hip_api_trace", "hsa_api_trace", "kfd_api_trace", "roctx_trace", "hcc_ops_trace", "async_copy_trace")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of roctracer in the head of a text, and for a folder of its files."""
    if sample.listing is not None:
        files = own_files(sample.listing)
        return Match(Score.DIALECT, f"contains texts of roctracer, such as {files[0]}") if files else None
    head = sample.head[:_HEAD]
    if match := _LINE.search(head):
        line = head.count(b"\n", 0, match.start()) + 1
        return Match(Score.DIALECT, f"has roctracer's times, process and thread (line {line})")
    return None


def own_files(listing: Iterable[str]) -> list[str]:
    """Returns the files of a run in the order of reading; none for other content, or several folders with files."""
    files, others = [], 0
    for path in listing:
        if name := _FILE.fullmatch(path):
            files.append((name["what"], name["folder"], path))
        else:
            others += 1
    if others > len(files) // 2 or len({folder for _, folder, _ in files}) > 1:
        return []
    if not any(what in _ORDER for what, _, _ in files):
        return []
    return [path for what, _, path in sorted(files, key=lambda file: (_rank(file[0]), file[2]))]


def _rank(what: str) -> int:
    return _ORDER.index(what) if what in _ORDER else len(_ORDER)


FORMAT = Format(
    "roctracer",
    "ROCm roctracer's texts, what rocprof -d writes: a file or a folder",
    patterns=("*_trace.txt",),
    probe=probe,
    read="ktrace.converters.roctracer.reader:read",
    prose=True,
    reads_folders=True,
)
