"""Turns a result (a launch, range, command list or graph) into rows: a head, its metrics, notes and PM samples.

The label of a metric, and the section that shows it, are in the sections of the launch. PM samples are the values of
metrics during the kernel, each group of metrics from a separate replay:

    profiler__pmsampler_pass_groups   1: "SM_A.TriageAC.sm__cycles_active.avg,..."     metrics that replay 1 sampled
    profiler__pmsampler_ctxsw_1       1698153373791096320                             time of replay 1's context switch
    SM_A.TriageAC.sm__cycles_active   1698153373791098368: 0, ...                     time and value of each sample

Replays are 70 ms apart, so times count from the context switch of the replay that sampled them; the kernel begins about
2 us after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.columnar.protobuf import Shape
from ktrace.kit.ncu_cells import unit_of
from ktrace.kit.ncu_launches import Launches
from ktrace.model.arrays import Float64, Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json
from ktrace.stages.launch_tables import LAUNCH_CLOCK

from .container import Decoder
from .details import Metric, Samples, Value, instances_json, metrics_of, notes_of, scope_of, unit_by_name
from .fields import BODY_ITEM, COMMAND_LIST, COMMAND_LISTS, GRAPH, GRAPHS, LAUNCH, LAUNCHES, RANGE, RANGES

_SAMPLE_GROUPS = "profiler__pmsampler_pass_groups"
_SWITCH = re.compile(r"profiler__pmsampler_ctxsw_(\d{1,9})")


class Series(NamedTuple):
    """A metric over time, in ns since the context switch of its replay."""

    name: str
    replay: int | None
    ts: Int64
    values: Float64


class Sampling:
    """Collects the samples of a launch."""

    def __init__(self) -> None:
        self._samples: list[tuple[str, Samples]] = []
        self._replays: dict[str, int] = {}
        self._switched: dict[int, int] = {}

    def add(self, name: str, metric: Metric) -> bool:
        """Adds a metric; returns whether it has samples over time, which `series` will yield."""
        if name == _SAMPLE_GROUPS:
            for replay, names in metric.instances:
                if isinstance(replay, int) and isinstance(names, str):
                    self._replays |= dict.fromkeys(names.split(","), replay)
        if metric.samples is None:
            return False
        if match := _SWITCH.fullmatch(name):
            self._switched[int(match[1])] = int(metric.samples.times[0])
            return False
        self._samples.append((name, metric.samples))
        return True

    def series(self) -> Iterator[Series]:
        """Yields the samples by metric. If no context switch is known, times count from the first sample."""
        for name, samples in self._samples:
            replay = self._replays.get(name, self._replays.get(name.rpartition(":")[2]))
            begin = self._switched.get(replay, -1) if replay is not None else -1
            if begin < 0:
                begin = int(samples.times.min())
            yield Series(name, replay, samples.times - begin, samples.values)


#: Prefixes of names in a section that don't name a single metric.
_NO_METRIC = ("group:", "breakdown:", "regex:")


class Sections:
    """The sections of a launch. `names` has their display names by id."""

    def __init__(self, sections: list[dict[str, Any]]) -> None:
        self.names = {section["id"]: section.get("name", section["id"]) for section in sections if "id" in section}
        self._shown: dict[str, tuple[str, str]] = {}
        ordered = sorted(sections, key=lambda section: section.get("order", 0))
        for part in (_header, _others, _body):  # the section with a metric in its header has precedence
            for section in ordered:
                for metric in part(section):
                    self._add(metric, self.names.get(section.get("id", ""), ""))

    def label(self, metric: str) -> str:
        """Returns the label of a metric, "" if it has none."""
        return self._shown.get(metric, ("", ""))[0]

    def section(self, metric: str) -> str:
        """Returns the display name of the section that shows a metric, "" if none does."""
        return self._shown.get(metric, ("", ""))[1]

    def _add(self, metric: dict[str, Any], section: str) -> None:
        for variant in (metric, *metric.get("instead", ())):
            name = variant.get("name", "")
            if not name or name.startswith(_NO_METRIC):
                continue
            label, shown = self._shown.get(name, ("", section))
            self._shown[name] = label or variant.get("label", "") or metric.get("label", ""), shown


def _header(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("header", {}).get("metrics", [])
    return metrics


def _others(section: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = section.get("others", {}).get("metrics", [])
    return metrics


def _body(section: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the metrics of tables and charts. The rest of a body is layout, which isn't read."""
    for body in section.get("body", ()):
        for item in body.get("items", ()):
            try:
                parts = Decoder().message(item, BODY_ITEM, "body")
            except ValueError:
                continue
            for part in parts.values():
                yield from part.get("metrics", ())


#: Prefixes of metrics whose text only lists the names of other metrics.
_GROUPS = ("group:", "breakdown:")

#: Metrics with the device of the launch, its compute capability, and the address of the function.
_DEVICE = "device__attribute_device_index"
_CAPABILITY = ("device__attribute_compute_capability_major", "device__attribute_compute_capability_minor")
_START = "launch__function_pcs"

#: The first id of samples, greater than those of launches and metrics.
_SAMPLES = 1 << 40

#: The year 9999; greater numbers aren't times.
_LATEST = 253_402_300_800
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"  # in every locale

#: Fields that become arguments of the head under these names, unchanged.
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
    """A kind of result: its message, the kind of its head, and the name of one without a name."""

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
    """Turns results into rows. `strings` are the names of metrics by their index."""

    def __init__(self, launches: Launches, strings: list[str], conversion: Conversion) -> None:
        self._launches = launches
        self._strings = strings
        self._conversion = conversion
        self._report = conversion.report
        self._next = _SAMPLES
        self.count = 0

    def add(self, result: dict[str, Any], kind: Kind, process: dict[str, Any], place: str) -> None:
        """Adds the rows of a decoded result, and accounts for all of its records."""
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
        """Returns the metrics with their names; accounts for damaged, grouping and empty ones and leaves them out."""
        named: list[tuple[str, Metric]] = []
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
                named.append((name, metric))
        self._report.used(len(named))
        if structure:
            self._report.used(structure, outcome="structure")
        if empty:
            self._report.used(empty, outcome="no value")
        if damaged:
            self._report.issue("bad-record", place, f"{damaged:,} metrics are damaged", damaged)
        return named

    def _name(self, number: int, place: str) -> str:
        if number < len(self._strings):
            return self._strings[number]
        self._report.issue("missing-string", place, f"the name of metric {number}")
        return f"metric {number}"

    def _head(
        self, result: dict[str, Any], kind: Kind, process: dict[str, Any], metrics: dict[str, Metric]
    ) -> dict[str, Any]:
        """Returns the columns of the head, with its `args`."""
        args: dict[str, Any] = {"ID": self.count}
        capability = [_to_int_or_none(metrics, name) for name in _CAPABILITY]
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
        head |= {
            "pid": process.get("pid"),
            "host": process.get("host") or None,
            "device": _to_int_or_none(metrics, _DEVICE),
        }
        head |= {column: _signed(result.get(column)) for column in ("context", "stream")}
        for size in ("grid", "block"):
            head |= {f"{size}_{axis}": result[size].get(axis, 0) for axis in "xyz" if size in result}
        head = {column: value for column, value in head.items() if value is not None}
        self._add_facts(head, process, args.get("CC"), result)
        head["args"] = {key: value for key, value in args.items() if value is not None}
        return head | ({"scope": scope} if scope else {})

    def _add_facts(
        self, head: dict[str, Any], process: dict[str, Any], capability: str | None, result: dict[str, Any]
    ) -> None:
        """Adds the facts in a result: its process, device, context and stream."""
        place = {column: head[column] for column in ("host", "device") if column in head}
        add: Callable[..., None] = self._launches.fact
        if process.get("path", "").strip() and "pid" in head:
            add("process", host=head.get("host"), pid=head["pid"], name=PureWindowsPath(process["path"]).name)
        if "device" in head:
            facts = {"api": "cuda", "vendor": "NVIDIA"}
            add("device", **place, facts=facts | ({"compute_capability": capability} if capability else {}))
        for entity in ("context", "stream"):
            if result.get(f"{entity} name") and entity in head:
                keys = ("host", "pid", "device", "context", *(("stream",) if entity == "stream" else ()))
                add(entity, name=result[f"{entity} name"], **{key: head[key] for key in keys if key in head})

    def _metric(self, name: str, metric: Metric, sections: Sections, start: int | None, *, sampled: bool) -> None:
        """Adds the row of a metric: its value, with the figures of its instances in the arguments."""
        figure = self._launches.figure(name, unit_by_name(name), sections.section(name), label=sections.label(name))
        text = _text(metric.value)
        pairs: list[tuple[Value, Value]] = metric.instances
        if sampled and metric.samples is not None and len(metric.samples.times) == 1:
            pairs = [(int(metric.samples.times[0]), float(metric.samples.values[0]))]
        args = None
        if pairs:
            value_text = f'"Metric Value":{dump_json(text)},' if _needs_text(metric.value) else ""
            args = f'{{{value_text}"instances":{instances_json(pairs, start)}}}'
        self._launches.metric(figure, text, args=args)

    def _remarks(self, result: dict[str, Any]) -> list[str]:
        """Returns the user's comment on the result, and a remark about an unsupported device."""
        comments = [result["comment"]] if result.get("comment") else []
        return comments + (["The device was not fully supported."] if result.get("unsupported") else [])

    def _sampled(self, series: Series, parent: int, head: dict[str, Any]) -> None:
        """Adds the samples of a metric as counters on the clock of the launch."""
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
        arrays = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
        constants = {"source": self._conversion.label, "kind": "counter", "timing": "measured", "clock": LAUNCH_CLOCK}
        constants |= {"track": "PM sampling"} | ({"host": head["host"]} if "host" in head else {})
        constants |= {"unit": base} if base else {}
        for name, word in constants.items():
            arrays[name] = constant(word, count).cast(schema.field(name).type)
        arrays["name"] = constant(series.name, count)
        if series.replay is not None:
            arrays["args.replay"] = pa.array(np.full(count, series.replay))
        self._next += count
        rows = pa.RecordBatch.from_pydict(arrays)
        size = self._conversion.batch_rows
        for first in range(0, count, size):
            self._launches.add_after(Batch("events", rows.slice(first, size)))


def _notes(rule: dict[str, Any], sections: Sections) -> list[tuple[str, str, dict[str, Any]]]:
    section = rule.get("section", "")
    return [(text, sections.names.get(section, section), args) for text, args in notes_of(rule)]


def _text(value: Value) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(value)


def _needs_text(value: Value) -> bool:
    """Whether a value must be kept as text, because it isn't a number or a double can't represent it."""
    return isinstance(value, str) or (isinstance(value, int) and int(float(value)) != value)


def _to_int_or_none(metrics: dict[str, Metric], name: str) -> int | None:
    value = metrics[name].value if name in metrics else None
    return value if isinstance(value, int) else None


def _signed(value: int | None) -> int | None:
    """Returns an id as a signed number: the model's integers have 64 bits with a sign."""
    return value if value is None or value < 1 << 63 else value - (1 << 64)


def _start(metrics: dict[str, Metric]) -> int | None:
    """Returns the address of the function, None unless there is exactly one."""
    instances = metrics[_START].instances if _START in metrics else []
    address = instances[0][1] if len(instances) == 1 else None
    return address if isinstance(address, int) else None


def local_time(seconds: int) -> str:
    """Returns a time of the target's clock as Nsight Compute writes it: 2022-May-10 20:00:32."""
    if seconds >= _LATEST:
        return str(seconds)
    time = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{time:%Y}-{_MONTHS[3 * time.month - 3 : 3 * time.month]}-{time:%d %H:%M:%S}"


def _frame(frame: dict[str, Any]) -> str:
    """Returns a frame as debuggers print it: function, file and line, module and address."""
    where = f" at {frame['file']}:{frame.get('line', 0)}" if frame.get("file") else ""
    return f"{frame.get('function') or '?'}{where} ({frame.get('module', '')} {frame.get('address', 0):#x})"
