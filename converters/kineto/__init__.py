"""PyTorch profiler traces (libkineto) of all versions, for CUDA, HIP, XPU, MTIA, HPU and the CPU alone.

    {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
     "baseTimeNanoseconds": 1724000000000000000, "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5842913001255.367, "dur": 7.770,
       "args": {"External id": 1, "device": 0, "context": 1, "stream": 7, "correlation": 1, "grid": [440, 1, 1]}}]}

`torch.profiler` writes them (export_chrome_trace, tensorboard_trace_handler), and so does dynolog on demand.
"""
