"""Reads the files of Proton.

Reads Proton's trace: kernels by stream, scopes by thread, or cycles by warp.

{"args":{"call_stack":["ROOT","step","k"]},"cat":"kernel","dur":4.0,"name":"k","ph":"X","tid":7,"ts":0.0}    stream 7
{.. "cat":"kernel", .. "pid":0,"tid":200007, ..}           newer: 200,000 + 1,000,000 * device + stream
{.. "cat":"scope", .. "pid":0,"tid":100007, ..}            a scope of a graph on stream 7
{.. "cat":"scope", .. "pid":0,"tid":3, ..}                 a scope of thread 3
{.. "cat":"k","pid":"k Core0 CTA1","tid":"warp 2 (line 0)","args":{"Frequency (MHz)":1000.0,..}}     a cycle trace

Reads Proton's tree: the time of a node is its own, without that of its children.

ROOT ─ step ─ matmul_kernel     time (ns) 4064, count 3, device_id "0", flops16 1e9, bytes 3072
            └ __proton_launch_metadata ─ cast_kernel     run by Proton's hooks to compute metrics: overhead
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.trace_json.dialect import Dialect, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.trace_json.events import Member
from ktrace.kit.trace_json.salvage import decode_mended, whole_document
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON, decoded, encoded
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder, to_batch, to_rows
from ktrace.report import Report

#: The scope in which Proton's hooks run kernels of their own.
METADATA = "__proton_launch_metadata"

_TIMES = re.compile(r"(?P<what>time|cpu_time) \((?P<unit>ns|us|ms|s)\)")
_UNIT = re.compile(r"(?P<what>.+) \((?P<unit>[^()]{1,16})\)")
_NS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}

#: Prefixes of metrics -> their unit.
_UNITS = (("bytes", "B"), ("flops", "flop"), ("num_", "count"), ("stalled_", "count"), ("normalized_cycles", "cycle"))

_VENDORS = {"CUDA": ("NVIDIA", "cuda"), "HIP": ("AMD", "hip")}


def read_tree(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each node with a time or cycles, and its other metrics. Raises DamagedInput."""
    rows = RowBuilder(conversion)
    tree = _decoded(source, conversion.report)
    rows.fact("source", facts={"tool": "Triton Proton"})
    reading = _TreeReader(rows, conversion)
    for item in tree:
        if isinstance(item, dict) and "frame" in item:
            for _ in reading.nodes(item):
                yield from rows.ready()
        elif isinstance(item, dict):
            reading.devices(item)
        else:
            conversion.report.record()
            conversion.report.issue("bad-record", "top level", f"a {type(item).__name__}, not a node")
    yield from rows.rest()


def _decoded(source: Source, report: Report) -> list[Any]:
    data = whole_document(source, report)
    try:
        tree = msgspec.msgpack.decode(data) if data[:1] in (b"\x91", b"\x92") else decode_mended(data, report)
    except NOT_JSON as error:
        raise _damaged(source, f"can't be read as a tree: {error}") from None
    if not isinstance(tree, list) or not any(isinstance(item, dict) and "frame" in item for item in tree):
        raise _damaged(source, "has no tree")
    return tree


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected="a list of a tree of frames and, after it, devices",
        remedy="record it with Proton again, or copy it in binary mode",
    )


class _TreeReader:
    """The nodes read so far."""

    def __init__(self, rows: RowBuilder, conversion: Conversion) -> None:
        self._rows, self._report = rows, conversion.report

    def nodes(self, root: dict[str, Any]) -> Iterator[None]:
        """Adds the rows of a node and all below it, parents first; yields after each node."""
        waiting: list[tuple[Any, tuple[str, ...], bool]] = [(root, (), False)]
        while waiting:
            node, path, is_overhead = waiting.pop()
            self._report.record()
            name, metrics, children = _parts(node)
            if name is None:
                self._report.issue("bad-record", "/".join(path) or "top level", "a node without a name")
                continue
            is_overhead = is_overhead or name == METADATA or name.startswith(METADATA + ":")
            self._node(name, metrics, path, is_overhead)
            below = path if node is root and name == "ROOT" else (*path, name)
            waiting += [(child, below, is_overhead) for child in reversed(children)]
            yield

    def _node(self, name: str, metrics: dict[str, Any], path: tuple[str, ...], is_overhead: bool) -> None:
        figures = {key: value for key, value in metrics.items() if _is_number(value)}
        if not metrics or not (any(figures.values()) or len(figures) < len(metrics)):
            self._report.used(outcome="structure")
            return
        left = dict(metrics)
        place: dict[str, Any] = {"scope": list(path), "device": _device(left)}
        head = self._head(name, left, place, is_overhead)
        for key in [key for key in left if key in figures]:
            self._measure(name, key, left.pop(key), head, place)
        if left:
            if head is None:
                self._rows.summary("note", name, args=left, **place)
            else:
                self._rows.summary("note", name, args=left, parent=head, **place)
        self._report.used()

    def _head(self, name: str, left: dict[str, Any], place: dict[str, Any], is_overhead: bool) -> int | None:
        """Adds the row with the node's own time or cycles, and returns its id; None for a node without."""
        for key, value in left.items():
            match = _TIMES.fullmatch(key) if isinstance(key, str) else None  # MessagePack has keys of any type
            if not match or not _is_time(value):
                continue
            is_kernel = match["what"] == "time"
            kind = "overhead" if is_overhead else "kernel" if is_kernel else "range"
            figures: dict[str, Any] = {
                "total": float(left.pop(key) * _NS[match["unit"]]),
                "unit": "ns",
                "count": _count(left),
            }
            return self._rows.summary(kind, name, **figures, args=_type(left), **place)
        if _is_time(left.get("cycles")):
            figures = {"total": float(left.pop("cycles")), "unit": "cycle", "count": _count(left)}
            return self._rows.summary("range", name, metric="cycles", **figures, args=_type(left), **place)
        return None

    def _measure(self, name: str, key: str, value: float, head: int | None, place: dict[str, Any]) -> None:
        match = _UNIT.fullmatch(key)
        metric = match["what"] if match else key
        unit = match["unit"] if match else next((unit for start, unit in _UNITS if key.startswith(start)), None)
        self._rows.summary("metric", name, metric=metric, value=float(value), unit=unit, parent=head, **place)

    def devices(self, devices_by_kind: dict[str, Any]) -> None:
        """Adds the devices that a tree names after its nodes."""
        for kind, devices in devices_by_kind.items():
            if not isinstance(devices, dict):
                continue
            for number, about in devices.items():
                if isinstance(about, dict) and number.isascii() and number.isdecimal() and len(number) < 10:
                    name = f"{kind} {number}"
                    self._rows.fact("device", device=int(number), name=name, facts=_facts(kind, about))


def _parts(node: Any) -> tuple[str | None, dict[str, Any], list[Any]]:
    """Returns name, metrics and children of a node; no name for anything else."""
    frame = node.get("frame") if isinstance(node, dict) else None
    name = frame.get("name") if isinstance(frame, dict) else None
    if not isinstance(name, str):
        return None, {}, []
    metrics, children = node.get("metrics"), node.get("children")
    return name, metrics if isinstance(metrics, dict) else {}, children if isinstance(children, list) else []


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _is_time(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1 << 62


def _count(left: dict[str, Any]) -> int | None:
    count = left.get("count")
    return left.pop("count") if type(count) is int and 0 <= count < 1 << 62 else None


def _device(left: dict[str, Any]) -> int | None:
    """Takes the number of the device out of the metrics."""
    number = left.get("device_id")
    if not (isinstance(number, str) and number.isascii() and number.isdecimal() and len(number) < 10):
        return None
    del left["device_id"]
    return int(number)


def _type(left: dict[str, Any]) -> dict[str, Any]:
    """Takes the type of the device out of the metrics, as an argument: "CUDA", or a number next to cycles."""
    return {"device_type": left.pop("device_type")} if "device_type" in left else {}


def _facts(kind: str, about: dict[str, Any]) -> dict[str, Any]:
    facts = dict(about)
    if kind in _VENDORS:
        facts["vendor"], facts["api"] = _VENDORS[kind]
    if type(facts.get("num_sms")) is int:
        facts["sm_count"] = facts.pop("num_sms")
    arch = str(facts.get("arch", ""))
    if kind == "CUDA" and arch.isdecimal() and len(arch) > 1:
        facts["compute_capability"] = f"{arch[:-1]}.{arch[-1]}"
    return facts


DIALECT = Dialect(cats={"kernel": Rule("kernel")}, other=Rule("range"), flows={"flow": "launch"})

#: Where the numbers of lanes for graphs and for streams begin, and how many a device has.
_GRAPHS, _STREAMS, _EACH = 100_000, 200_000, 1_000_000

#: The kernel with which Proton itself copies metrics.
_METRIC = "<metric>"

_CYCLES = "args.Frequency (MHz)"
_KINDS = ["kernel", "range", "overhead"]


def read_trace(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of all documents. Raises DamagedInput if it isn't Trace Event JSON at all."""
    clock: dict[str, Any] = {"kind": "session"}

    def member(entry: Member, conversion: Conversion) -> Iterable[Batch]:
        if entry.key == "baseTimeNanoseconds" and type(base := entry.value()) is int:
            clock.update(at_ns=0, unix_ns=base)
        return ()

    yield from read_dialect(source, conversion, DIALECT, on_lanes, member)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "Triton Proton"})
    rows.fact("clock", facts=clock)
    yield from rows.rest()


def on_lanes(batch: Batch) -> Batch:
    """Returns the batch with devices and streams in the place of lanes."""
    if not batch.has("tid"):
        return _kinds(batch)
    if batch.record == "catalog":
        return to_batch("catalog", [_fact(row) for row in to_rows(batch)])
    columns = batch.arrays()
    lane: Int64 = columns["tid"].fill_null(-1).to_numpy().astype(np.int64)
    named = batch.has("pid")
    numbered = present(columns["pid"]) if named else np.zeros(len(lane), np.bool_)
    is_kernel = np.zeros(len(lane), np.bool_)
    if batch.record == "events":
        is_kernel = pc.equal(decoded(columns["kind"]), "kernel").to_numpy(zero_copy_only=False)
    on_stream = (numbered & (lane >= _STREAMS)) | (~numbered & is_kernel & (lane >= 0))
    on_graph = numbered & (lane >= _GRAPHS) & (lane < _STREAMS)
    beyond = np.where(numbered, lane - _STREAMS, lane)
    columns["device"] = _where(on_graph | (on_stream & numbered), np.where(on_graph, 0, beyond // _EACH))
    columns["stream"] = _where(on_stream, np.where(numbered, beyond % _EACH, lane))
    for name in ("pid", "tid"):
        if name in columns:
            columns[name] = pc.if_else(pa.array(on_stream | on_graph), None, columns[name])
    if on_graph.any():
        texts = pc.binary_join_element_wise("Graph: Stream", _where(on_graph, lane - _GRAPHS).cast(pa.string()), " ")
        columns["track"] = encoded(pc.coalesce(texts, decoded(batch.column("track")).cast(pa.string())))
    return _kinds(batch.replaced(columns))


def _where(mask: Bools, values: Int64) -> pa.Array:
    return pa.array(values.astype(np.int64), mask=~mask)


def _kinds(batch: Batch) -> Batch:
    """Work of Proton's own is overhead; cycles within a kernel are ranges, whose times are derived from cycles."""
    if batch.record != "events":
        return batch
    columns = batch.arrays()
    kind = decoded(columns["kind"]).to_numpy(zero_copy_only=False)
    code = np.where(kind == "kernel", 0, 1)
    names = encoded(columns["name"])
    is_overhead = np.array([name == _METRIC or _is_own(name) for name in names.dictionary.to_pylist()], np.bool_)
    overhead = is_overhead[names.indices.fill_null(0).to_numpy()]
    stacks = columns.get("args.call_stack")
    if stacks is not None and not pa.types.is_primitive(stacks.type):  # a number is no stack
        stacks = encoded(stacks)
        texts = [METADATA.encode() in bytes(text) for text in stacks.dictionary.cast(pa.binary()).to_pylist()]
        has_stack = present(stacks)
        overhead = overhead | (has_stack & np.array(texts or [False])[stacks.indices.fill_null(0).to_numpy()])
    code = np.where(overhead & (code == 0), 2, code)
    if _CYCLES in columns:
        cycles = present(columns[_CYCLES])
        code = np.where(cycles, 1, code)
        timing = np.where(cycles, 1, 0)
        columns["timing"] = words(["measured", "derived"], timing)
    others = ~np.isin(kind, ("kernel", "range"))
    if not others.any():
        columns["kind"] = words(_KINDS, code)
    return Batch("events", pa.RecordBatch.from_pydict(columns))


def _is_own(name: str) -> bool:
    return name == METADATA or name.startswith(METADATA + ":")


def _fact(row: dict[str, Any]) -> dict[str, Any]:
    """The name of a lane as that of its stream or track."""
    lane = row.get("tid")
    if row.get("entity") != "thread" or type(lane) is not int or lane < _GRAPHS or row.get("pid") is None:
        return row
    rest = {name: value for name, value in row.items() if name not in ("pid", "tid")}
    if lane < _STREAMS:
        return rest | {"entity": "track", "device": 0, "track": f"Graph: Stream {lane - _GRAPHS}"}
    device, stream = divmod(lane - _STREAMS, _EACH)
    return rest | {"entity": "stream", "device": device, "stream": stream}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the nodes of a tree as summaries, or the events of a trace. Raises DamagedInput if it is neither."""
    head = source.beginning(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return read_trace(source, conversion) if head.startswith(b"{") else read_tree(source, conversion)
