"""Triton's profiler Proton: its tree (hatchet), its trace and its cycle trace (3.0 to 3.9).

run.hatchet
[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0, "time (ns)": 0}, "children": [
  {"frame": {"name": "matmul_kernel", ..}, "metrics": {"count": 3, "device_id": "0", "time (ns)": 4064}, ..}]},
 {"CUDA": {"0": {"arch": "90", "num_sms": 132, ..}}}]

run.chrome_trace, a document on each line
{"displayTimeUnit":"us","traceEvents":[{"args":{"call_stack":["ROOT","step","matmul_kernel"]},"cat":"kernel","dur":4.06,..
"""
