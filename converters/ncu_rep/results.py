"""A result, which is a launch, a range, a command list or a graph, as rows: a head, its metrics, notes, samples."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar.dictionaries import constant
from ktrace.converters._shared.ncu.launches import Launches
from ktrace.converters._shared.ncu.units import unit_of
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json
from ktrace.stages.layout.launch_tables import LAUNCH_CLOCK

from .fields import COMMAND_LIST, COMMAND_LISTS, GRAPH, GRAPHS, LAUNCH, LAUNCHES, RANGE, RANGES, Shape
from .metrics import Metric, Value, instances_json, metrics_of
from .nvtx import scope_of
from .rules import notes_of
from .sampling import Sampling, Series
from .sections import Sections
from .units import unit_by_name

#: Names of what groups metrics; their text lists the names of these.
_GROUPS = ("group:", "breakdown:")

#: Metric -> what it says of the device that the launch ran on.
_DEVICE = "device__attribute_device_index"
_CAPABILITY = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")
_START = "launch__function_pcs"

#: Ids of samples begin here, beyond those of launches and metrics.
_SAMPLES = 1 << 40

#: The year 9999, beyond which a time is none.
_LATEST = 253_402_300_800
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"  # in every locale

#: Fields that become arguments of the head under these names, as they are.
_ARGS = {
    "mangled": "mangledName",
    "tid": "Thread ID",
    "call": "API Call",
    "series": "Profile Series",
    "clocks": "Clock Control",
    "sources": "Sources",
    "launches": "Launches",
    "green": "Green Context",
    "offset": "Work Offset",
}


class Kind(NamedTuple):
    """A kind of result: its message, the kind of its head, and what one without a name is called."""

    shape: Shape
    kind: str
    name: str


KINDS = {
    LAUNCHES: Kind(LAUNCH, "kernel", "unnamed kernel"),
    RANGES: Kind(RANGE, "range", "range"),
    COMMAND_LISTS: Kind(COMMAND_LIST, "range", "command list"),
    GRAPHS: Kind(GRAPH, "graph", "graph"),
}


class Results:
    """Makes rows of results. `strings` are the names of metrics by their number."""

    def __init__(self, launches: Launches, strings: list[str], conversion: Conversion) -> None:
        self._launches = launches
        self._strings = strings
        self._conversion = conversion
        self._report = conversion.report
        self._next = _SAMPLES
        self.count = 0

    def add(self, result: dict[str, Any], kind: Kind, process: dict[str, Any], place: str) -> None:
        """Takes a result, read by the tables of `fields`, and accounts for all of its records."""
        sections = Sections(result.get("sections", []))
        rules = [note for rule in result.get("rules", ()) for note in _notes(rule, sections)]
        comments = [(comment.get("about", {}).get("section", ""), comment) for comment in result.get("comments", ())]
        messages = result.pop("metrics", [])
        self._report.record(1 + len(messages) + len(rules) + len(comments))
        self._report.used(1 + len(rules) + len(comments))
        metrics = self._named(messages, place)
        head = self._head(result, kind, process, dict(metrics))
        identity = self._launches.start(**head)
        start = _start(dict(metrics))
        sampling = Sampling()
        for name, metric in metrics:
            if not sampling.add(name, metric) or metric.value is not None:
                self._metric(name, metric, sections, start, sampled=metric.samples is not None)
        for text, section, args in rules:
            self._launches.note(text, section, args)
        for section, comment in comments:
            name = comment.get("name", "")
            self._launches.note(
                comment.get("text", ""), sections.names.get(section, section), {"Comment": name} if name else {}
            )
        for text in self._remarks(result):
            self._launches.note(text, "", {})
        for series in sampling.series():
            self._sampled(series, identity, head)
        self.count += 1

    def _named(self, messages: list[bytes], place: str) -> list[tuple[str, Metric]]:
        """The metrics with their names, those that are none or say nothing left out and accounted for."""
        found: list[tuple[str, Metric]] = []
        damaged = structure = empty = 0
        for metric in metrics_of(messages):
            if metric is None:
                damaged += 1
                continue
            name = self._name(metric.name, place)
            if name.startswith(_GROUPS):
                structure += 1
            elif metric.value is None and not metric.instances and metric.samples is None:
                empty += 1
            else:
                found.append((name, metric))
        self._report.used(len(found))
        if structure:
            self._report.used(structure, outcome="structure")
        if empty:
            self._report.used(empty, outcome="no value")
        if damaged:
            self._report.issue("bad-record", place, f"{damaged:,} metrics are damaged", damaged)
        return found

    def _name(self, number: int, place: str) -> str:
        if number < len(self._strings):
            return self._strings[number]
        self._report.issue("missing-string", place, f"the name of metric {number}")
        return f"metric {number}"

    def _head(
        self, result: dict[str, Any], kind: Kind, process: dict[str, Any], metrics: dict[str, Metric]
    ) -> dict[str, Any]:
        """The columns of the head, with its `args`."""
        args: dict[str, Any] = {"ID": self.count}
        capability = [_whole(metrics, name) for name in _CAPABILITY]
        if None not in capability:
            args["CC"] = ".".join(map(str, capability))
        if result.get("created"):
            args["Kernel Time"] = local_time(result["created"])
        if result.get("source", {}).get("number"):
            args["Source"] = result["source"]["number"]
        args |= {name: result[field] for field, name in _ARGS.items() if result.get(field)}
        args |= {"Work Offset": None} if not any(result.get("offset", {}).values()) else {}
        if frames := result.get("stack", {}).get("frames"):
            args["Call Stack"] = [_frame(frame) for frame in frames]
        scope, ranges = scope_of(result.get("nvtx", {}), result.get("tid"))
        if ranges:
            args["NVTX"] = ranges
        name = result.get("demangled") or result.get("short") or result.get("mangled") or result.get("name")
        head: dict[str, Any] = {"kind": kind.kind, "table": 0, "name": name or f"{kind.name} {self.count}"}
        if result.get("short") and result["short"] != name:
            head["short_name"] = result["short"]
        head |= {"pid": process.get("pid"), "host": process.get("host") or None, "device": _whole(metrics, _DEVICE)}
        head |= {column: _signed(result.get(column)) for column in ("context", "stream")}
        for size in ("grid", "block"):
            head |= {f"{size}_{axis}": result[size].get(axis, 0) for axis in "xyz" if size in result}
        head = {column: value for column, value in head.items() if value is not None}
        self._tell(head, process, args.get("CC"), result)
        head["args"] = {key: value for key, value in args.items() if value is not None}
        return head | ({"scope": scope} if scope else {})

    def _tell(
        self, head: dict[str, Any], process: dict[str, Any], capability: str | None, result: dict[str, Any]
    ) -> None:
        """The facts that stand with a result."""
        place = {column: head[column] for column in ("host", "device") if column in head}
        tell: Callable[..., None] = self._launches.fact
        if process.get("path", "").strip() and "pid" in head:
            tell("process", host=head.get("host"), pid=head["pid"], name=PureWindowsPath(process["path"]).name)
        if "device" in head:
            facts = {"api": "cuda", "vendor": "NVIDIA"}
            tell("device", **place, facts=facts | ({"compute_capability": capability} if capability else {}))
        for entity in ("context", "stream"):
            if result.get(f"{entity} name") and entity in head:
                keys = ("host", "pid", "device", "context", *(("stream",) if entity == "stream" else ()))
                tell(entity, name=result[f"{entity} name"], **{key: head[key] for key in keys if key in head})

    def _metric(self, name: str, metric: Metric, sections: Sections, start: int | None, *, sampled: bool) -> None:
        """The row of a metric: its value, the figures of its instances in the arguments."""
        figure = self._launches.figure(name, unit_by_name(name), sections.section(name), label=sections.label(name))
        text = _text(metric.value)
        pairs: list[tuple[Value, Value]] = metric.instances
        if sampled and metric.samples is not None and len(metric.samples.times) == 1:
            pairs = [(int(metric.samples.times[0]), float(metric.samples.values[0]))]
        args = None
        if pairs:
            own = f'"Metric Value":{dump_json(text)},' if _is_said(metric.value) else ""
            args = f'{{{own}"instances":{instances_json(pairs, start)}}}'
        self._launches.metric(figure, text, args=args)

    def _remarks(self, result: dict[str, Any]) -> list[str]:
        """What the report says of the result in words."""
        said = [result["comment"]] if result.get("comment") else []
        return said + (["The device was not fully supported."] if result.get("unsupported") else [])

    def _sampled(self, series: Series, parent: int, head: dict[str, Any]) -> None:
        """The samples of a metric as counters, in the time of the launch."""
        count = len(series.ts)
        base, exponent = unit_of(unit_by_name(series.name))
        schema = arrow_schema("events")
        columns: dict[str, Any] = {
            "id": self._next + np.arange(count),
            "parent": np.full(count, parent),
            "ts": series.ts,
            "value": series.values * 10.0**exponent,
        }
        columns |= {name: np.full(count, head[name]) for name in ("pid", "device") if name in head}
        made = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
        said = {"source": self._conversion.label, "kind": "counter", "timing": "measured", "clock": LAUNCH_CLOCK}
        said |= {"track": "PM sampling"} | ({"host": head["host"]} if "host" in head else {})
        said |= {"unit": base} if base else {}
        for name, word in said.items():
            made[name] = constant(word, count).cast(schema.field(name).type)
        made["name"] = constant(series.name, count).cast(pa.string())
        if series.replay is not None:
            made["args.replay"] = pa.array(np.full(count, series.replay))
        self._next += count
        rows = pa.RecordBatch.from_pydict(made)
        size = self._conversion.batch_rows
        for first in range(0, count, size):
            self._launches.add_after(Batch("events", rows.slice(first, size)))


def _notes(rule: dict[str, Any], sections: Sections) -> list[tuple[str, str, dict[str, Any]]]:
    section = rule.get("section", "")
    return [(text, sections.names.get(section, section), args) for text, args in notes_of(rule)]


def _text(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(value)


def _is_said(value: Value) -> bool:
    """Whether a value must be kept as a text, since it is no number or a double doesn't hold it."""
    return isinstance(value, str) or (isinstance(value, int) and int(float(value)) != value)


def _whole(metrics: dict[str, Metric], name: str) -> int | None:
    value = metrics[name].value if name in metrics else None
    return value if isinstance(value, int) else None


def _signed(value: int | None) -> int | None:
    """An id of the model; one of 64 bits doesn't fit."""
    return value if value is None or value < 1 << 63 else value - (1 << 64)


def _start(metrics: dict[str, Metric]) -> int | None:
    """The address of the function, where it is one alone."""
    found = metrics[_START].instances if _START in metrics else []
    address = found[0][1] if len(found) == 1 else None
    return address if isinstance(address, int) else None


def local_time(seconds: int) -> str:
    """A time of the target's own clock, as Nsight Compute writes it: 2022-May-10 20:00:32."""
    if seconds >= _LATEST:
        return str(seconds)
    found = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{found:%Y}-{_MONTHS[3 * found.month - 3 : 3 * found.month]}-{found:%d %H:%M:%S}"


def _frame(frame: dict[str, Any]) -> str:
    """A frame as debuggers write it: function, file and line, module and address."""
    where = f" at {frame['file']}:{frame.get('line', 0)}" if frame.get("file") else ""
    return f"{frame.get('function') or '?'}{where} ({frame.get('module', '')} {frame.get('address', 0):#x})"
