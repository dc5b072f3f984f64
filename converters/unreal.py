"""What Unreal Engine's ProfileGPU writes into its log: the passes of a frame on the GPU as a tree.

    LogRHI: Perf marker hierarchy, total GPU time 4.33ms
    LogRHI: 100.0% 4.33ms   FRAME 635 draws 16087 prims 18018 verts
    LogRHI: 97.1% 4.20ms   Scene 633 draws 15751 prims 17346 verts
    LogRHI:     1.1% 0.05ms   PrePass DDM_AllOpaque 141 draws 5744 prims 5634 verts
    LogRHI:        0.3% 0.01ms   BeginRenderingPrePass 1 draws 0 prims 0 verts

A pass includes those that are indented below it, and FRAME, where it is there, all: what each took itself adds up.
Facts: Runtime/Engine/Private/GPUProfiler.cpp of UE 4.0 to 5.5, which prints "%s%4.1f%%%5.2fms   %s" with three blanks
a level.
"""

from __future__ import annotations

import re

from ktrace.kit.text.forms import Columns, Form, Forms

#: What stands before what is said: the time and the frame, the category, the level.
_LOG = r"(?:\[[\d.:-]{10,40}\]\[ {0,9}\d{1,9}\])?(?:Log\w{1,30}: ?)?(?:(?:Warning|Display): )?"
_COUNTS = re.compile(r"(?: (?P<number>\d{1,9}) (?P<what>draws?|prims|verts|dispatch(?:es)?|groups))\Z")

#: Characters of a share, to which it is padded.
_WIDTH = 4


def _pass(columns: Columns) -> Columns:
    """A pass with its depth, by the blanks before its share, and what it drew."""
    args, name = columns["args"], columns["name"]
    while match := _COUNTS.search(name):
        name = name[: match.start()]
        args[match["what"]] = match["number"]
    margin, share = args.pop("margin", ""), args.pop("share")
    is_frame = name.split(" ")[0] == "FRAME"
    padded = max(0, _WIDTH - len(share))
    columns["depth"] = -1 if is_frame else max(0, len(margin) - padded)
    return columns | {"name": name or "(no name)", "percent": float(share)}


FORMS = Forms(
    "Unreal Engine ProfileGPU",
    ("total gpu time",),
    Form(
        "total",
        rf"{_LOG}Perf marker hierarchy, total GPU time (?P<total>\d{{1,9}}\.\d{{1,4}})ms.{{0,200}}",
        "ms",
        {"name": "GPU time of the frame", "device": 0},
        opens=True,
    ),
    Form(
        "kernel",
        rf"{_LOG}(?P<margin> {{0,200}})(?P<share>\d{{1,3}}\.\d)% *(?P<total>\d{{1,9}}\.\d{{1,4}})(?P<unit>ms)"
        r"   (?P<name>.{0,1000})",
        columns={"device": 0, "count": 1},
        refine=_pass,
        includes=True,
        within=True,
        sign=False,
    ),
    Form(
        "",
        rf"{_LOG}(?:Profiled range was .{{0,200}}|-{{10,}}|WARNING: This GPU profile .{{0,500}})?",
        within=True,
        sign=False,
    ),
)

FORMAT = FORMS.format("unreal", "Unreal Engine ProfileGPU: passes of a frame", "*.log")
