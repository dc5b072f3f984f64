"""The two files of ggml's OpenCL backend when it is built with GGML_OPENCL_PROFILING.

cl_profiling.csv: each kernel that ran, in order, without its time

    op name, kernel name, exec duration (ms), global size, local size, output size
    ffn_out-3,kernel_mul_mm_f16_f32_l4_lm,1.204000,2048x16x1,128x1x1,2048x16x1x1

cl_trace.json: the same kernels in a list of trace events that is never closed

    [
    {"name": "kernel_add", "cat": "OpenCL", "ph": "B", "ts": 81204, "pid": "", "tid": "Host"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "E", "ts": 81209, "pid": "", "tid": "Host"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "B", "ts": 81311, "pid": "", "tid": "Device"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "E", "ts": 81320, "pid": "", "tid": "Device"},

Host: from the queueing of a kernel to its submission. Each begin is followed by its own end, so that slices of the host
overlap freely.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_CSV = re.compile(rb"(?:\xef\xbb\xbf)?\s*op name\s*,\s*kernel name\s*,[^\n]{0,300}\bduration ?\(ms\)")
_TRACE = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\[\s*\{"name": "[^"\n]{0,500}", "cat": "OpenCL", "ph": "B", "ts": \d+, "pid": "", '
    rb'"tid": "Host"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for either file."""
    start = sample.head[:1024]
    if _CSV.match(start):
        return Match(Score.DIALECT, "has the headings of ggml's cl_profiling.csv")
    if _TRACE.match(start):
        return Match(Score.DIALECT, "has the first event of ggml's cl_trace.json")
    return None


FORMAT = Format(
    "ggml-opencl",
    "ggml OpenCL profiles: cl_profiling.csv, cl_trace.json",
    patterns=("cl_profiling*.csv", "cl_trace*.json"),
    probe=probe,
    read="ktrace.converters.ggml_opencl.reader:read",
    words=("op name", '"opencl"'),
)
