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
