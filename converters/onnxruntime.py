"""Profiles of ONNX Runtime (`SessionOptions.enable_profiling`): a list of trace events, an event a line.

    [
    {"cat" : "Session","pid" :12,"tid" :12,"dur" :485,"ts" :10,"ph" : "X","name" :"model_loading_uri","args" : {}},
    {"cat" : "Node","pid" :12,"tid" :19,"dur" :96,"ts" :3271,"ph" : "X","name" :"fc1_kernel_time","args" : {"provider" :
     "CPUExecutionProvider","op_name" : "Gemm","output_size" : "1024","input_type_shape" : [{"float":[4,32]}]}},
    {"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :41,"ts" :3290,"ph" : "X","name" :"void gemm<float>()","args" :
     {"stream" : "7","grid_x" : "12","parent_name" : "fc1_kernel_time"}}
    ]

Times are whole µs since the session began. Numbers among the arguments are texts. Names were written without escapes
until 1.28, so that a quote in a node's name breaks the JSON; the shared reader repairs that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign
from ktrace.kit.trace_json.document import ranges, read_dialect
from ktrace.kit.trace_json.draft import as_text, direction, mapped, numbered
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import encoded
from ktrace.model.row_builder import RowBuilder

_CATEGORY = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"')
_NAME = re.compile(
    rb'"name"\s*:\s*"(?:model_loading_|session_initialization"|model_run"|\w*Executor::Execute"'
    rb'|[^\n]{1,400}?_(?:kernel_time|fence_before)",)'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for events of the categories Session or Node with one of ONNX Runtime's names."""
    head = sample.head[:65_536]
    if b'"cat"' not in head or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"[", b"{"):
        return None
    if _CATEGORY.search(head) and (match := _NAME.search(head)):
        name = match[0].decode(errors="replace").split(":", 1)[1].strip(' ",')
        return Match(Score.DIALECT, f"has ONNX Runtime's event '{name[:60]}'")
    return None


#: Calls of a session and of its executors, which enclose the nodes.
_SESSION = Rule("range")

#: A node's execution on the host. Fences, up to 1.20, wait for other queues.
_NODE = Rule(
    "op",
    columns={"op_name": Into("operation", "text"), "provider": Into("library", "text")},
    named=((re.compile(r".*_fence_(?:before|after)\Z", re.DOTALL), "sync"),),
)

#: Arguments, and columns, of a launch: texts of whole numbers, -1 for a copy.
DIMENSIONS = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")

#: Work of a device. CUDA names copies MemcpyHostToDevice; ROCm has the name of the call for copies and fills.
_KERNEL = Rule(
    "kernel",
    columns={
        "stream": Into("stream", "ordinal"),
        **{key: Into(key, "ordinal") for key in DIMENSIONS},
        "size": Into("bytes", "digits"),
    },
    named=(
        (re.compile(r"(?:hip|cuda)?Memcpy"), "memcpy"),
        (re.compile(r"(?:hip|cuda)?Memset"), "memset"),
    ),
)

#: WebGPU's kernels have the category Api and are known by their arguments. Other events of that category are calls.
DIALECT = Dialect(
    cats={"Session": _SESSION, "Node": _NODE, "Kernel": _KERNEL},
    signs=(Sign(("cache_key", "shapes"), _KERNEL),),
    other=Rule("api"),
)

#: Suffixes of the names of nodes; what precedes them is the name of the node.
SUFFIX = re.compile(r"(.+)_(?:kernel_time|fence_before|fence_after)", re.DOTALL)

#: Arguments that are whole numbers, written as texts.
NUMBERS = (
    *("output_size", "activation_size", "parameter_size", "node_index", "graph_index", "exec_plan_index"),
    *("mem_in_use_peak", "mem_in_use_delta", "mem_bytes_in_use", "mem_arena_held", "mem_arena_held_delta"),
    *("mem_requested_in_use_delta", "mem_bytes_requested_in_use"),
)


#: Argument with the direction of a copy, in ROCm's spelling: H2D.
_DIRECTION = "args.kind"

#: A profile doesn't name the device; a session uses one.
_DEVICE = 0


def completed(batch: Batch) -> Batch:
    """Returns the batch of events with the columns that a dialect can't state."""
    if batch.record != "events" or not len(batch):
        return batch
    columns = batch.arrays()
    _numbers(columns)
    if is_device_work(batch):
        _device_work(columns, len(batch))
    elif _kinds(batch) <= {"op", "sync"}:
        columns["layer"] = _layer(columns["name"])
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def is_device_work(batch: Batch) -> bool:
    """Whether a batch of events, which all follow the same rule, is work of a device."""
    return not _kinds(batch).isdisjoint(DEVICE_KINDS)


def _kinds(batch: Batch) -> set[str]:
    return set(encoded(batch.column("kind")).dictionary.to_pylist())


def _numbers(columns: dict[str, pa.Array]) -> None:
    """Makes numbers of arguments that are texts, where all of a batch are whole numbers."""
    for key in NUMBERS:
        column = columns.get(f"args.{key}")
        if column is not None:
            taken, rest = numbered(column)
            if taken is not None and rest is None:
                columns[f"args.{key}"] = taken


def _layer(name: pa.Array) -> pa.Array:
    """The names of nodes: the names of their events without the suffix."""
    layers = _texts(name, _node)
    return pa.nulls(len(name), pa.string()) if layers is None else layers


def _node(name: str) -> str | None:
    match = SUFFIX.fullmatch(name)
    return match[1] if match else None


def _texts(column: pa.Array | None, function: Callable[[str], str | None]) -> pa.Array | None:
    """What a function returns for the texts of a column; None if that is nothing."""
    if column is None or pa.types.is_integer(column.type):
        return None
    return mapped(column, pa.string(), lambda value: function(as_text(value) or ""))[0]


def _device_work(columns: dict[str, pa.Array], rows: int) -> None:
    """Moves device work from its thread, which is -1, to the device; a stream that is an address becomes a track."""
    columns["device"] = pa.array(np.full(rows, _DEVICE, np.int64))
    for member in ("pid", "tid"):
        column = columns.pop(member, None)
        if column is None:
            continue
        durations = pc.if_else(pc.less(column, 0), None, column)
        if durations.null_count < rows:
            columns["pid" if member == "pid" else "args.$tid"] = durations
    for key in DIMENSIONS:  # -1: a copy has none
        if pa.types.is_integer(getattr(columns.get(f"args.{key}"), "type", pa.null())):
            del columns[f"args.{key}"]
    stream = columns.get("args.stream")
    track = _texts(stream, lambda text: text)
    if stream is not None and track is not None:
        columns["track"] = track
        del columns["args.stream"]
    parent = columns.get("args.parent_name")
    if parent is not None:
        columns["layer"] = _layer(parent)
    _directions(columns)


def _directions(columns: dict[str, pa.Array]) -> None:
    """Fills the direction of copies, which CUDA has in the name and ROCm in an argument."""
    directions = _texts(columns["name"], direction)
    from_column = _texts(columns.get(_DIRECTION), direction)
    if from_column is not None:
        directions = from_column if directions is None else pc.coalesce(from_column, directions)
    if directions is not None:
        copies = pc.equal(encoded(columns["kind"]).dictionary_decode(), "memcpy")
        columns["copy_kind"] = pc.if_else(copies, directions, None)


#: The profiler records no further event of the host after this one.
MOST_EVENTS = 1_000_000


def read(source: Source, conversion: Conversion, part: ByteRange | None = None) -> Iterator[Batch]:
    """Yields the events of a session. Raises DamagedInput if the file isn't Trace Event JSON at all."""
    events = 0
    for batch in read_dialect(source, conversion, DIALECT, completed, part=part):
        if batch.record == "events" and not is_device_work(batch):
            events += len(batch)
        yield batch
    if part and part.stop is not None:
        return
    if events == MOST_EVENTS and part is None:
        conversion.report.issue("cut", "the last event", "ONNX Runtime records at most 1,000,000 events", 0)
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock("ONNX Runtime", "session")
    yield from rows.rest()


FORMAT = Format(
    "onnxruntime",
    "ONNX Runtime profiles",
    patterns=("onnxruntime_profile*.json",),
    probe=probe,
    read=read,
    ranges=ranges,
    read_range=read,
    words=(
        *("model_loading_", "session_initialization", "model_run"),
        *("executor::execute", "_kernel_time", "_fence_before"),
    ),
    document=True,
    holds="blocks",
)
