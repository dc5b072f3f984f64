"""What oneDNN prints with ONEDNN_VERBOSE (DNNL_VERBOSE, MKLDNN_VERBOSE): each primitive that was executed or created.

    onednn_verbose,v1,info,oneDNN v3.9.0 (commit ...)
    onednn_verbose,v1,info,gpu,engine,0,backend:Level Zero,name:Intel(R) Data Center GPU Max 1550,driver_version:1.6,...
    onednn_verbose,v1,primitive,create:cache_miss,gpu:0,matmul,jit:gemm:any,undef,src:f16::... dst:...,,,64x64:64x64,5.5
    onednn_verbose,v1,primitive,exec,gpu:0,matmul,jit:gemm:any,undef,src:f16::... dst:f16::...,,,64x64:64x64,0.25

Times are ms. `v1` is there since 3.3, `primitive` since 3.1, an engine since 1.0. With ONEDNN_VERBOSE_TIMESTAMP each
line has the time when it began, in ms since 1970. Facts: src/common/verbose.hpp, and the developer guide, of oneDNN.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

_START = r"(?:onednn|dnnl|mkldnn)_verbose,(?:v\d{1,2},)?"
_STAMP = r"(?P<ts>\d{9,16}\.\d{1,9}),"
_WORK = (
    r"(?:(?P<engine>[cg]pu)(?::?(?P<number>\d{1,3}))?,)?(?P<name>[\w+]{1,60}),(?P<implementation>[^,]{0,200}),"
    r"(?P<prop_kind>[^,]{0,60}),(?P<memory>[^,]{0,2000}),(?P<attributes>[^,]{0,2000}),(?P<auxiliary>[^,]{0,500}),"
    r"(?P<problem>[^,]{0,1000}),"
)
_OLD_WORK = (
    r"(?P<name>[\w+]{1,60}),(?P<implementation>[^,]{0,200}),(?P<prop_kind>[^,]{0,60}),(?P<memory>[^,]{0,2000}),"
    r"(?P<auxiliary>[^,]{0,500}),(?P<problem>[^,]{0,1000}),"
)
_TIME = r"\d{1,12}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?"
_GRAPH = (
    r"(?:(?P<engine>[cg]pu)(?::?(?P<number>\d{1,3}))?),\d+,(?P<name>[^,]{1,200}),(?P<ops>[^,]{0,2000}),(?:.{0,4000},)?"
)


def _executed(columns: Columns) -> Columns:
    """An execution: device work on a GPU, an operator on the CPU."""
    args = columns["args"]
    number = args.pop("number", "0")
    if args.pop("engine", "cpu") == "gpu":
        columns |= {"kind": "kernel", "device": int(number)}
    return columns if "ts" in columns else columns | {"count": 1}


def _created(columns: Columns) -> Columns:
    """A creation: time of the host, also for a GPU."""
    columns["args"].pop("number", None)
    columns["name"] = f"create {columns['name']}"
    return columns if "ts" in columns else columns | {"count": 1}


def _part(columns: Columns) -> Columns:
    """A partition of a graph, whose primitives have lines of their own."""
    columns["args"].pop("number", None)
    return columns if "ts" in columns else columns | {"count": 1}


FORMS = Forms(
    "oneDNN",
    ("_verbose,",),
    Form("op", rf"{_START}{_STAMP}(?:primitive,)?exec,{_WORK}(?P<dur>{_TIME})", "ms", {"track": "oneDNN"}, _executed),
    Form("op", rf"{_START}(?:primitive,)?exec,{_WORK}(?P<total>{_TIME})", "ms", refine=_executed),
    Form("op", rf"{_START}(?:primitive,)?exec,{_OLD_WORK}(?P<total>{_TIME})", "ms", refine=_executed),
    Form(
        "overhead",
        rf"{_START}{_STAMP}(?:primitive,)?create:?(?P<cache>\w{{0,20}}),{_WORK}(?P<dur>{_TIME})",
        "ms",
        {"track": "oneDNN"},
        _created,
    ),
    Form(
        "overhead",
        rf"{_START}(?:primitive,)?create:?(?P<cache>\w{{0,20}}),{_WORK}(?P<total>{_TIME})",
        "ms",
        refine=_created,
    ),
    Form(
        "overhead",
        rf"{_START}(?:primitive,)?create:?(?P<cache>\w{{0,20}}),{_OLD_WORK}(?P<total>{_TIME})",
        "ms",
        refine=_created,
    ),
    Form("range", rf"{_START}graph,exec,{_GRAPH}(?P<total>{_TIME})", "ms", {"cat": "graph"}, _part),
    Form(
        "fact",
        rf"{_START}(?:[\d.]{{9,26}},)?info,gpu,engine,(?P<device>\d{{1,3}}),"
        r"(?:backend:(?P<backend>[^,]{0,60}),)?name:(?P<name>[^,]{1,200}).*",
    ),
    Form("", rf"{_START}.*,?(?:info|template).*"),
)

FORMAT = FORMS.format("onednn", "oneDNN verbose: primitives executed and created, on CPU and GPU", "*.log", "*.txt")
