"""Taichi's kernel profiler: what `ti.profiler.print_kernel_profiler_info()` prints, by kernel or each launch.

    Kernel Profiler(count) @ CUDA on NVIDIA GeForce RTX 2060
    [      %     total   count |      min       avg       max   ] Kernel name
    [ 65.90%   2.829 s   2080x |    0.672     1.360     3.494 ms] build_pid_c4_0_kernel_37_struct_for
    [100.00%] Total execution time:   4.293 s   number of results: 12

    [  start.time | kernel.time |   regs  |   shared mem | grid size | block size | occupancy ] Kernel name
    [    0.000 ms |    0.014 ms |      38 |      0 bytes |         1 |          1 | 16 blocks ] runtime_initialize

Facts: python/taichi/profiler/kernel_profiler.py, taichi/program/kernel_profiler.cpp.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

_TIME = r"\d{1,12}\.\d{1,6}"


def _launch(columns: Columns) -> Columns:
    """The columns of a launch."""
    args = columns["args"]
    places = {"grid": "grid_x", "block": "block_x", "registers": "registers", "shared": "shared_memory"}
    return columns | {name: int(args.pop(key)) for key, name in places.items() if key in args}


FORMS = Forms(
    "Taichi",
    ("] kernel name", " ms   total ", "kernel profiler("),
    Form("", r"Kernel Profiler\((?:count|trace)[^()]{0,20}\) @ \S.{0,200}", opens=True),
    Form("", r"\[ +(?:% +total +count|start\.time) \|.{0,200}\] Kernel name", opens=True),
    Form(
        "total",
        rf"\[100\.00%\] Total (?:kernel )?execution time: +(?P<total>{_TIME}) (?P<unit>s|ms) .{{0,60}}",
        columns={"name": "kernels"},
        sign=False,
    ),
    Form(
        "kernel",
        rf"\[ *(?P<percent>[\d.]{{1,8}})% +(?P<total>{_TIME}) (?P<total_unit>s|ms) +(?P<count>\d{{1,12}})x \|"
        rf" +(?P<min>{_TIME}) +(?P<avg>{_TIME}) +(?P<max>{_TIME}) (?P<unit>ms)\] +(?P<name>\S.{{0,4000}})",
    ),
    Form(
        "kernel",
        rf"\[ *(?P<ts>{_TIME}) (?P<unit>ms) \| *(?P<dur>{_TIME}) ms \|(?: *(?P<registers>\d{{1,6}}) \|"
        r" *(?P<shared>\d{1,9}) bytes \| *(?P<grid>\d{1,12}) \| *(?P<block>\d{1,6}) \|"
        r" *(?P<blocks_per_multiprocessor>\d{1,6}) blocks \])? *\]? *(?P<name>[^\s\]].{0,4000})",
        columns={"device": 0},
        refine=_launch,
    ),
    Form(
        "kernel",
        rf"\[ *(?P<percent>[\d.]{{1,8}})%\] (?P<name>\S.{{0,4000}}?) +min +(?P<min>{_TIME}) ms"
        rf" +avg +(?P<avg>{_TIME}) ms +max +(?P<max>{_TIME}) (?P<unit>ms) +total +(?P<total>{_TIME}) (?P<total_unit>s)"
        r" \[ *(?P<count>\d{1,12})x\]",
    ),
    Form("", r"[=-]{20,}", sign=False),
)

FORMAT = FORMS.format("taichi", "Taichi's kernel profiler: by kernel, or each launch", "*.txt", "*.log")
