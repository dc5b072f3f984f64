"""RPD as Trace Event JSON, by rocmProfileData's `rpd2tracing.py` or by `rtl` of rocm-trace-lite.

The list of rpd2tracing begins with an empty object:

    [ {}
    ,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}
    ,{"pid":"2","tid":"0","name":"scale(float*)","ts":"8306020565922","dur":"26211","ph":"X","args":{"desc":"KernelExecution"}}

pid, tid, ts and dur are texts, times are whole µs, rounded down. The pid of a GPU is its number.
`desc` is the kind of device work, and the arguments of a call.

rtl (trace, convert) writes an object; the pid of a GPU is its number, the tids of its hardware queues are counted:

    {"traceEvents": [{"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "GPU 0"}},
      {"name": "scale.kd", "cat": "KernelExecution", "ph": "X", "pid": 0, "tid": 1, "ts": 0.1, "dur": 1.0, "args":
        {"full_name": "scale.kd", "gpu": 0, "queue": 94, "hwq": "0x7f", "workgroup": "256,1,1", "grid": "4096,1,1"}},

Its times are µs with ns after the point, since the first work (rocm_trace_lite/cmd_convert.py, July 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.rocm.arrow_ends import ArrowEnds
from ktrace.kit.trace_json.dialect import Dialect, Rule, Sign
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.trace_json.phases import on_devices
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\}\s*,\s*\{\s*"(?:name|pid)"\s*:')
_OWN = re.compile(rb'"ph"\s*:\s*"X"\s*,\s*"args"\s*:\s*\{\s*"desc"\s*:|"cat"\s*:\s*"api_op"')


_BEGIN_OF_RTL = re.compile(
    rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*"name"\s*:\s*"process_name"\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*\d+\s*,'
    rb'\s*"tid"\s*:\s*0\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"GPU \d+"'
)
_OF_RTL = re.compile(rb'"args"\s*:\s*\{\s*"full_name"\s*:')


def _is_of_rtl(head: bytes) -> bool:
    return _BEGIN_OF_RTL.match(head) is not None and _OF_RTL.search(head) is not None


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list that begins so, with slices or flows of rpd2tracing, and for rtl's object."""
    if _is_of_rtl(sample.head):
        return Match(
            Score.DIALECT, "begins with GPUs as processes, and its slices have a `full_name` of rocm-trace-lite"
        )
    if _BEGIN.match(sample.head) and _OWN.search(sample.head):
        return Match(Score.DIALECT, "begins with an empty object, and its slices have a `desc`")
    return None


_DESC = ("desc",)

#: Only flows of category api_op connect calls with the work that they started.
DIALECT = Dialect(
    cats={},
    signs=(
        Sign(_DESC, Rule("kernel", place="device"), re.compile(r"KernelExecution|Task")),
        Sign(_DESC, Rule("memcpy", place="device"), re.compile(r"Copy(Host|Device)To(Host|Device)(2D|3D)?")),
        Sign(_DESC, Rule("memset", place="device"), re.compile(r"FillBuffer")),
        Sign(_DESC, Rule("sync", place="device"), re.compile(r"Barrier|MarkerDispatch")),
    ),
    other=Rule("api", kinds={"UserMarker": "range"}),
    flows={"api_op": "launch"},
    quoted=True,
)


RTL = Dialect(
    cats={"UserMarker": Rule("range"), "hip_api": Rule("api")},
    patterns=(
        (re.compile(r"^KernelExecution$"), Rule("kernel", place="device")),
        (re.compile(r"^Copy(Host|Device)To(Host|Device)$"), Rule("memcpy", place="device")),
    ),
)

_GPU = re.compile(
    rb'"process_name"\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*"?(\d{1,18})"?\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"GPU'
)

#: The first bytes, which contain the names of processes.
_HEAD = 1 << 20


def gpus_of(head: bytes) -> dict[int, int]:
    """Returns pid -> GPU; a GPU has the number of its process."""
    return {int(pid): int(pid) for pid in _GPU.findall(head)}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, counters and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    head = source.beginning(_HEAD)
    dialect, tool = (RTL, "rocm-trace-lite") if _is_of_rtl(head) else (DIALECT, "rpd2tracing")
    gpus = gpus_of(head) if dialect is DIALECT else {}
    ends = ArrowEnds()
    for batch in read_dialect(source, conversion, dialect, partial(on_devices, gpus=gpus)):
        yield ends.attach(batch)
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock(tool, "session" if dialect is RTL else "monotonic")
    yield from rows.rest()


FORMAT = Format(
    "rpd2tracing",
    "ROCm rocmProfileData (RPD) and rocm-trace-lite as Trace Event JSON",
    patterns=("*.json",),
    probe=probe,
    read=read,
    words=('"desc"', '"api_op"', '"full_name"'),
    document=True,
    holds="blocks",
)
