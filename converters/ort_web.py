"""Profiling lines of onnxruntime-web in the log of a browser's console, between lines of the page.

    [profiling] kernel "9920448|Gemm|fc1|GemmShared" input[0]: [4,32] | float32, output[0]: [4,64] | float32,
    start time: 0 ns, execution time: 70831 ns                                                       (on one line)
    v Profiler.node 2022-08-18T10:05:14.750Z|0.23ms on event 'conv1' at 512.40

The first form is that of `env.webgpu.profiling` (JSEP, from 1.16 on), the second that of WebGL and WebAssembly sessions
(onnxjs). A session with `enableProfiling` prints the JSON of an ONNX Runtime profile, an event a line.

Each line of a profiler is a row; all others are reported as unrecognised. The forms of the first, by version:

[profiling] kernel "52097928|[Split] 52097928" execution time: 37760 ns                                   1.16
[profiling] kernel "[Split] 51288384" input[0]: 1,256,64,64, output[0]: 1,256,64,64, execution time: 37135 ns
[profiling] kernel "9920|[Gemm] fc1" input[0]: [4,32] | float32, output[0]: [4,64] | float32, execution time: 8856 ns
[profiling] kernel "9920|Gemm|fc1|GemmShared" ..., execution time: 8856 ns                                1.17
[profiling] kernel "9920|Gemm|fc1|GemmShared" ..., start time: 0 ns, execution time: 8856 ns              1.23
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import to_ns
from ktrace.kit.text.titles import first_form
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder

_KERNEL = re.compile(r'\[profiling\] kernel "(?:(?!\[profiling\] kernel)[^\n])*execution time: -?\d+ ns')
_ONNXJS = re.compile(r"Profiler\.\w+\b[^\n]{0,60}\d\.\d\dms on event '")
_DATA = re.compile(r'\{"version":\d+,"inputsMetadata":\[')
_SESSION = re.compile(r'^[^\[{\n][^\n]{0,200}\{"cat" : "Session",', re.MULTILINE)


#: What the lines of each profiler contain, the rest of such a line, and why that is onnxruntime-web.
_FORMS = (
    ('[profiling] kernel "', _KERNEL, "lines '[profiling] kernel ... execution time: ... ns'"),
    ("ms on event '", _ONNXJS, "lines 'Profiler.... ms on event ... at ...'"),
    ('"inputsMetadata":[', _DATA, "the data of WebGPU profiling as JSON"),
    ('{"cat" : "Session",', _SESSION, "events of an ONNX Runtime profile between lines of a console"),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of one of the profilers, in the start or in the tail of a text that isn't JSON as a whole."""
    start = sample.head[:64].lstrip()
    if re.match(rb'\[\s*(?:[\[{]|\Z)|\{(?!"version":)', start) or not sample.text:
        return None
    what = first_form(sample, _FORMS)
    return Match(Score.DIALECT, f"has {what}") if what else None


MARK = '[profiling] kernel "'
_TIMES = re.compile(r"(?:start time: (-?\d{1,19}) ns, )?execution time: (-?\d{1,19}) ns\s*")
_TENSOR = re.compile(r"(input|output)\[(\d{1,6})\]: (?:\[([-\d,]*)\] \| (\w+), |([-\d,]*), )")
_TENSORS = ('" input[', '" output[')
_SIZE = re.compile(r"-?[0-9]{1,18}")
_ID = re.compile(r"[0-9]{1,18}")
_OLD_LABEL = re.compile(r"(?:([0-9]{1,18})\|)?\[(\w+)\] (.*)", re.DOTALL)
_ONNXJS_LINE = re.compile(
    r"Profiler\.(?P<category>\w{1,20})(?:\x1b\[\d+m)?(?:.{0,8}?(?P<logged>\d{4}-\d\d-\d\dT[\d:.]{1,20}Z)\|| )"
    r"(?P<dur>\d{1,15}\.\d\d)ms on event '(?P<name>.*)' at (?P<end>\d{1,15}\.\d\d)\s*"
)


@dataclass
class Kernel:
    """A program that ran on the GPU; `start` and `dur` are ns."""

    name: str
    dur: int
    start: int | None = None
    node: str | None = None
    args: dict[str, Any] = field(default_factory=dict)


def kernel_of(text: str) -> Kernel | None:
    """Returns the kernel of a line of WebGPU profiling; None if the line is another one or is cut off."""
    begin = text.find(MARK)
    times = text.rfind("start time: ") if " ns, execution time: " in text else text.rfind("execution time: ")
    match = _TIMES.fullmatch(text, times) if times > begin >= 0 else None
    if not match:
        return None
    middle = text[begin + len(MARK) : times]
    end = min((at for mark in _TENSORS if (at := middle.find(mark)) >= 0), default=middle.rfind('"'))
    if end < 0:
        return None
    kernel = _labelled(middle[:end])
    kernel.dur, kernel.start = int(match[2]), None if match[1] is None else int(match[1])
    for role, tensors in _tensors(middle[end + 1 :]).items():
        kernel.args[role] = tensors
    return kernel


def _labelled(label: str) -> Kernel:
    """The kernel of a label: id, operator, node and program, as far as the version has them."""
    parts = label.split("|")
    has_id = _ID.fullmatch(parts[0]) is not None
    if len(parts) >= 4 and has_id:
        identity, operator, node, program = parts[0], parts[1], "|".join(parts[2:-1]), parts[-1]
        return Kernel(program, 0, node=node or None, args={"kernelId": int(identity), "kernelType": operator})
    if match := _OLD_LABEL.fullmatch(label):
        args: dict[str, Any] = {"kernelId": int(match[1])} if match[1] else {}
        named = None if _ID.fullmatch(match[3]) else match[3]  # without a name it was the id
        return Kernel(f"[{match[2]}] {match[3]}", 0, node=named, args=args | {"kernelType": match[2]})
    if has_id and len(parts) > 1:
        return Kernel("|".join(parts[1:]), 0, args={"kernelId": int(parts[0])})
    return Kernel(label, 0)


def _tensors(text: str) -> dict[str, list[dict[str, Any]]]:
    """The shapes and types of inputs and outputs, under the keys that the profiler's callback has for them."""
    tensors: dict[str, list[dict[str, Any]]] = {}
    for tensor in _TENSOR.finditer(text):
        dims = tensor[3] if tensor[3] is not None else tensor[5]
        data: dict[str, Any] = {"dims": [int(size) for size in _SIZE.findall(dims)]}
        tensors.setdefault(f"{tensor[1]}sMetadata", []).append(data | ({"dataType": tensor[4]} if tensor[4] else {}))
    return tensors


def data_of(text: str) -> Kernel | None:
    """Returns the kernel of the callback's data, `ondata`, logged as JSON; None for anything else."""
    begin = text.find('{"version":')
    data = _object(text[begin:]) if begin >= 0 else None
    if data is None or not isinstance(data.get("kernelType"), str):
        return None
    start, end = data.pop("startTime", None), data.pop("endTime", None)
    if type(start) is not int or type(end) is not int:
        return None
    program, node = data.pop("programName", None), data.pop("kernelName", None)
    name = program if isinstance(program, str) and program else data["kernelType"]
    data.pop("version", None)
    return Kernel(name, end - start, start, node if isinstance(node, str) and node else None, data)


def profile_event(text: str) -> dict[str, Any] | None:
    """Returns the event of an ONNX Runtime profile on this line; None for anything else."""
    begin = text.find('{"cat" : "')
    event = _object(text[begin:].rstrip().rstrip(",")) if begin >= 0 else None
    if event is None or not isinstance(event.get("name"), str) or not isinstance(event.get("args"), dict):
        return None
    times = all(type(event.get(key)) is int for key in ("ts", "dur", "pid", "tid"))
    return event if times else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = load_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def onnxjs_event(text: str) -> re.Match[str] | None:
    """Returns category, logged, dur, name and end (ms as texts) of a line of onnxjs's profiler."""
    begin = text.find("Profiler.")
    return _ONNXJS_LINE.fullmatch(text, begin) if begin >= 0 else None


_LIMIT = 1 << 62

#: Category of onnxjs's profiler -> kind. Times of WebGL's timer, which have no start, are kernels.
_ONNXJS_KINDS = {"session": "range", "node": "op", "op": "op", "backend": "op"}

#: The location that Chrome puts in a line of its own where a log is copied, and the brackets of a profile's list.
_STRUCTURE = re.compile(r"\s*(?:[\w.@/-]{1,80}\.(?:m?js|ts):\d{1,7}\s*)?(?:[\[\]]\s*)?")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each line with a start, a summary for each line without one."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.tool_and_clock("onnxruntime-web", "session")
    has_device = False
    for line in lines:
        text = line.text
        kernel = kernel_of(text) or data_of(text)
        if kernel:
            problem = _add_kernel(kernel, rows)
            if not has_device:
                has_device = bool(rows.fact("device", device=0, facts={"api": "webgpu"}))
        elif match := onnxjs_event(text):
            problem = _add_onnxjs(match, rows)
        elif event := profile_event(text):
            problem = _add_event(event, rows)
        elif _STRUCTURE.fullmatch(text):
            lines.structure()
            continue
        elif MARK in text or '{"cat" : "' in text:
            problem = ("bad-record", "a line of the profiler that is cut off or isn't as expected")
        else:
            continue
        if problem:
            lines.skip(*problem)
        else:
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add_kernel(kernel: Kernel, rows: RowBuilder) -> tuple[str, str] | None:
    """Adds a kernel; returns the kind of issue and a detail if it can't be a row."""
    if kernel.dur < 0:
        return "negative-duration", f"{kernel.dur} ns"
    if max(abs(kernel.start or 0), kernel.dur) >= _LIMIT // 2:
        return "time-range", f"{kernel.dur} ns"
    shared: dict[str, Any] = {"device": 0, "layer": kernel.node, "args": kernel.args}
    if kernel.start is None:
        rows.summary("kernel", kernel.name, unit="ns", count=1, total=float(kernel.dur), **shared)
    else:
        rows.event("kernel", kernel.name, ts=kernel.start, dur=kernel.dur, **shared)
    return None


def _add_onnxjs(match: re.Match[str], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds an event of onnxjs, which begins its duration before its end. The GPU's timer counts from 0."""
    dur, end = (to_ns(Decimal(match[key]), "ms")[0] for key in ("dur", "end"))
    if end >= _LIMIT:
        return "time-range", f"{end} ns"
    name, category = match["name"], match["category"]
    shared: dict[str, Any] = {"cat": category, "args": {"logged": match["logged"]} if match["logged"] else None}
    if dur == end and name.startswith("ProgramManager.run"):
        rows.summary("kernel", name, unit="ns", count=1, total=float(dur), device=0, **shared)
    else:
        kind = _ONNXJS_KINDS.get(category, "range")
        rows.event(kind, name, ts=end - dur, dur=dur, timing="derived", track=f"Profiler.{category}", **shared)
    return None


def _add_event(event: dict[str, Any], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds an event of a profile, whose times are µs."""
    ts, dur, cat, name, args = (event[key] for key in ("ts", "dur", "cat", "name", "args"))
    if dur < 0:
        return "negative-duration", f"{dur} us"
    if max(abs(ts), dur, abs(event["pid"]), abs(event["tid"])) >= _LIMIT // 2000:
        return "time-range", f"{dur} us"
    place: dict[str, Any] = {"pid": event["pid"], "tid": event["tid"]}
    kind = {"Session": "range", "Node": "op", "Kernel": "kernel"}.get(cat, "api")
    if kind == "op" and name.endswith(("_fence_before", "_fence_after")):
        kind = "sync"
    if kind == "kernel" or "cache_key" in args:
        kind, place = "kernel", {"device": 0}
    elif kind == "op":
        place["layer"] = name.removesuffix("_kernel_time")
        for key, column in (("op_name", "operation"), ("provider", "library")):
            if isinstance(args.get(key), str):
                place[column] = args.pop(key)
    rows.event(kind, name, ts=ts * 1000, dur=dur * 1000, cat=str(cat), args=args, **place)
    return None


FORMAT = Format(
    "ort-web",
    "onnxruntime-web profiling (WebGPU, WebGL) in a console log",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read=read,
    words=("[profiling] kernel", "ms on event", '"inputsmetadata"', '"cat" : "session"'),
    logged="a time",
)
