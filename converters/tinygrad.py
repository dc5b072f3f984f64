"""What tinygrad prints with DEBUG=2: each kernel, copy and transfer, in the order in which they ran.

    ***    3 r_64_64_8   arg  3 sz [64, 1, 1] [8, 1, 1] OPs  1M/ 0.01G  mem  0.10 GB tm 12.50us/ 0.05ms ( ...   2023
    *** AMD        2 r_64_64_8    arg   3 mem  0.10 GB tm   2.00ms/  2.10ms (  5000.00 GFLOPS,   10.00 GB/s)        2024
    *** AMD        2 r_64_64_8    arg   3 mem  0.10 GB tm   2.00ms/  2.10ms (  5000.00 GFLOPS  10.0|10.0 GB/s) ['mul']
    *** AMD:1      3 xfer    4.00M,   AMD:1 <- AMD    arg  2 mem  0.20 GB tm  400.00us/ 2.50ms (  0 GFLOPS  10|10 GB/s)

The second time is the sum so far. Facts: tinygrad/ops.py, device.py, engine/realize.py of tinygrad from 2023 to 2026.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

#: Devices of the host.
_HOST = frozenset(("CPU", "CLANG", "LLVM", "PYTHON", "NPY", "DISK", "TINYFS"))


def _placed(columns: Columns) -> Columns:
    """The kind by the name, the place by the device's: AMD is number 0, AMD:1 is 1."""
    place, _, number = columns["args"].get("on", "GPU").partition(":")
    if place not in _HOST:
        columns["device"] = int(number or 0)
    name = columns["name"] = " ".join(columns["name"].split())
    kind = "memcpy" if " <- " in name else "graph" if name.startswith("<batched ") else "kernel"
    source = name.rpartition(" <- ")[2].partition(":")[0]
    if place in _HOST and (kind == "kernel" or source in _HOST):
        kind = "op"
    return columns | {"kind": kind, "count": 1}


FORMS = Forms(
    "tinygrad",
    (" arg ",),
    Form(
        "kernel",
        r"\*\*\* {1,8}(?:(?P<on>[A-Z]\w{0,10}(?::\d{1,3})?) +)?(?P<number>\d{1,9}) (?P<name>\S.{0,300}?)"
        r" +arg +(?P<buffers>\d{1,6})(?: sz (?P<global_size>\[[^\]]{0,60}\]|None)"
        r" *(?P<local_size>\[[^\]]{0,60}\]|None) *OPs +\S{1,20} {0,9}\S{0,20})?"
        r" +mem +(?P<memory_GB>[\d.]{1,12}) GB(?: +tm +(?P<total>[\d.]{1,15}) ?(?P<unit>us|ms|s) */ *[\d.]{1,15}ms"
        r" \((?P<rates>[^()]{0,120})\))?(?: *\[(?P<metadata>.{0,500})\])? *",
        refine=_placed,
    ),
)

FORMAT = FORMS.format("tinygrad", "tinygrad DEBUG=2: kernels and copies", "*.log", "*.txt")
