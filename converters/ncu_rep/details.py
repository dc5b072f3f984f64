"""What a report has on a launch: its metrics with their instances, the NVTX ranges around it, the messages of rules.

A metric is a message; its instances become columns:

    metric    1: index of its name   2: value   3: instance, instance, ...   4: category
    instance  1: key (a value)   2: value
    value     1: text   2: float   3: double   4: 32 bit   5: 64 bit

The key of an instance is an address (figures by instruction), an opcode, a time (samples), or a number (of a GPU, of a
link, of registers). A report contains no units, so the unit of a metric is found by its name:

    gpu__time_duration.sum                                            nsecond
    dram__bytes.sum.per_second                                        byte/second
    sm__throughput.avg.pct_of_peak_sustained_elapsed                  %
    SM_A.TriageAC.sm__inst_executed_realtime.avg.per_cycle_active     inst/cycle

These are what Nsight Compute prints with `--print-units base`, for all metrics of 13 reports of 2022 and 2023.

The stack of the launch's thread is its scope, everything else about ranges goes to its args. The messages of rules are
notes, with their links as words:

    Check the @section:LaunchStats:Launch Statistics@ section       Check the Launch Statistics section
    See the @url:Guide:https://...@                                 See the Guide (https://...)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ktrace.kit.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, Column, Fields, parse
from ktrace.model.arrays import Float64, Int64, UInt8
from ktrace.model.json_text import dump_json

_NAME, _VALUE, _INSTANCE, _CATEGORY = 1, 2, 3, 4
_TEXT, _FLOAT, _DOUBLE, _UINT32, _UINT64 = 1, 2, 3, 4, 5

#: Bytes of metrics that are decoded together.
_BATCH_BYTES = 1 << 21

#: The category of samples, whose keys are times: ns since 1970, which are greater than _EARLIEST.
SAMPLER = 1
_EARLIEST = 10**18

Value = float | int | str | None


class Samples(NamedTuple):
    """Values over time, ns since 1970."""

    times: Int64
    values: Float64


class Metric(NamedTuple):
    """A metric: the index of its name, its value if it has one, and its instances.

    `instances` are (key, value) pairs; if every key is a time, they are `samples` instead.
    """

    name: int
    value: Value
    instances: list[tuple[Value, Value]]
    samples: Samples | None


def metrics_of(messages: list[bytes]) -> Iterator[Metric | None]:
    """Yields the metrics in their order; None for a damaged one."""
    for batch in _batches(messages):
        yield from _decode(batch)


def _batches(messages: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for message in messages:
        if batch and size + len(message) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message)
    if batch:
        yield batch


def _decode(messages: list[bytes]) -> Iterator[Metric | None]:
    """Yields the metrics of a batch, whose instances are decoded together."""
    sizes = np.array([len(message) for message in messages], np.int64)
    data = np.frombuffer(b"".join(messages) + bytes(32), np.uint8)
    ends = np.cumsum(sizes)
    fields = parse(data, ends - sizes, ends)
    bad = set(fields.bad.tolist())
    count = len(messages)
    names = fields.get(_NAME, VARINT).last(count).tolist()
    named = fields.get(_NAME, VARINT).has(count)
    categories = fields.get(_CATEGORY, VARINT).last(count).tolist()
    values = _metric_values(data, fields.get(_VALUE, LENGTH), count)
    instances = _in_order(fields.get(_INSTANCE, LENGTH))
    inner = parse(data, instances.start, instances.start + instances.value.astype(np.int64))
    keys = _InstanceValues(data, inner, _NAME)
    figures = _InstanceValues(data, inner, _VALUE)
    bad |= set(instances.owner[inner.bad].tolist()) if len(inner.bad) else set()
    cuts = np.searchsorted(instances.owner, np.arange(count + 1)).tolist()
    for number in range(count):
        if number in bad or not named[number]:
            yield None
            continue
        first, last = cuts[number], cuts[number + 1]
        samples = _samples(keys, figures, first, last) if categories[number] == SAMPLER else None
        pairs = [] if samples else list(zip(keys.between(first, last), figures.between(first, last), strict=True))
        yield Metric(names[number], values[number], pairs, samples)


def _in_order(column: Column) -> Column:
    """Returns the values of a repeated field in the order of the file."""
    order = np.argsort(column.start, kind="stable")
    return Column(column.owner[order], column.value[order], column.start[order])


def _metric_values(data: UInt8, spans: Column, count: int) -> list[Value]:
    """Returns the value of each of `count` metrics, None for a metric without one."""
    inner = parse(data, spans.start, spans.start + spans.value.astype(np.int64))
    values: list[Value] = [None] * count
    for owner, value in zip(spans.owner.tolist(), _values(data, inner), strict=True):
        values[owner] = value
    return values


class _InstanceValues:
    """The values in a field of instances: numbers and texts, by the index of the instance."""

    def __init__(self, data: UInt8, outer: Fields, number: int) -> None:
        spans = outer.get(number, LENGTH)
        self._at = np.full(outer.count, -1, np.int64)
        self._at[spans.owner] = np.arange(len(spans.owner))
        self._inner = parse(data, spans.start, spans.start + spans.value.astype(np.int64))
        self._values = _values(data, self._inner)

    def between(self, first: int, last: int) -> list[Value]:
        """Returns the values of the instances from `first` to before `last`."""
        return [self._values[at] if at >= 0 else None for at in self._at[first:last].tolist()]


def _values(data: UInt8, inner: Fields) -> list[Value]:
    """Returns the value in each message."""
    values: list[Value] = [None] * inner.count
    for number in (_UINT32, _UINT64):
        whole = inner.get(number, VARINT)
        for owner, value in zip(whole.owner.tolist(), whole.value.tolist(), strict=True):
            values[owner] = value
    double = inner.get(_DOUBLE, FIXED64)
    for owner, figure in zip(double.owner.tolist(), double.value.view(np.float64).tolist(), strict=True):
        values[owner] = figure
    single = inner.get(_FLOAT, FIXED32)
    singles = single.value.astype(np.uint32).view(np.float32)
    for owner, short in zip(single.owner.tolist(), singles, strict=True):
        values[owner] = float(str(short))  # the shortest decimal that is this float
    text = inner.get(_TEXT, LENGTH)
    for owner, size, start in zip(*(part.tolist() for part in text), strict=True):
        values[owner] = data[start : start + size].tobytes().decode("utf-8", "replace")
    return values


def _samples(keys: _InstanceValues, figures: _InstanceValues, first: int, last: int) -> Samples | None:
    """Returns the instances as samples, None unless each has a time and a number."""
    times, values = keys.between(first, last), figures.between(first, last)
    are_times = all(isinstance(time, int) and _EARLIEST < time < 1 << 63 for time in times)
    if not times or not are_times or not all(isinstance(value, (int, float)) for value in values):
        return None
    return Samples(np.array(times, np.int64), np.array(values, np.float64))


def instances_json(pairs: list[tuple[Value, Value]], start: int | None) -> str:
    """Returns the instances as JSON: an object by key, or a list of pairs if two have the same key.

    Addresses of instructions become offsets from `start`, the address of the function, if it is known.
    """
    keyed = [(_key(key, start), value) for key, value in pairs]
    by_key: dict[str, Any] = dict(keyed)
    return dump_json(by_key if len(by_key) == len(keyed) else [list(pair) for pair in keyed])


#: A whole number greater than _ADDRESS may be an address; a function has fewer than _FUNCTION bytes.
_ADDRESS, _FUNCTION = 10**9, 1 << 28


def _key(key: Value, start: int | None) -> str:
    if isinstance(key, int) and start is not None and key > _ADDRESS and 0 <= key - start < _FUNCTION:
        return f"+{key - start:#x}"
    return "" if key is None else str(key)


#: Units of whole families of metrics; the first pattern that matches counts.
_FAMILIES = tuple(
    (re.compile(pattern, re.DOTALL), unit)
    for pattern, unit in (
        (r"sass__.*_per_opcode.*|device__attribute_.*|nvlink__.*|c2clink__.*|numa__.*", ""),
        (r"smsp__average_warp(?=.*\.ratio\Z).*issue_stalled.*", "inst"),
        (r"smsp__average_warp.*\.ratio", "cycle"),
        (r".*_per_inst_executed\.ratio", ""),
        (r"launch__registers_per_thread.*", "register/thread"),
        (r"launch__thread_count|derived__avg_thread_.*|derived__sm.*__sass_thread_inst_.*", "thread"),
        (r"launch__shared_mem_config_size", "byte"),
        (r"launch__shared_mem.*", "byte/block"),
        (r"launch__block_dim.*|launch__occupancy_limit.*", "block"),
        (r"launch__.*", ""),
        (r"derived__memory_.*", "byte"),
        (r"memory_l[12]_.*", "sectors"),
        (r".*_pct|.*\.pct|.*\.pct_of_.*", "%"),
        (r".*__time_.*|.*interval_time", "nsecond"),
        (r"smsp__average_warp.*issue_stalled.*", "inst"),
        (r"smsp__average_warp.*", "cycle"),
        (r"smsp__pcsamp_warps.*no_instructions.*", "inst"),
        (r"smsp__pcsamp_warps.*", "warp"),
        (r"(?=(.*?__))\1.*warps.*", "warp"),
        (r"issue_active.*|smsp__sass.*_memdesc_explicit_evict_type", ""),
    )
)

#: Words in a name and the unit that they count; the first word found counts.
_COUNTED = (
    ("wavefronts", ""),
    ("conflicts", ""),
    ("bytes", "byte"),
    ("sectors", "sector"),
    ("requests", "request"),
    ("inst", "inst"),
    ("cycles", "cycle"),
    ("writeback_active", "cycle"),
    ("ctas", "block"),
    ("passes", "pass"),
    ("samples", "sample"),
)

#: The prefix of a sampled metric.
_PREFIX = re.compile(r"(?:[A-Za-z0-9_]+\.)*?(?=[a-z0-9]+__)")


@lru_cache(maxsize=8192)
def unit_by_name(name: str) -> str:
    """Returns the unit as Nsight Compute prints it with unscaled units, "" for none."""
    name = name.rpartition(":")[2]
    if prefix := _PREFIX.match(name):
        name = name[prefix.end() :]
    for pattern, unit in _FAMILIES:
        if pattern.fullmatch(name):
            return unit
    unit = next((unit for word, unit in _COUNTED if word in name), "")
    if ".per_second" in name:
        return f"{unit}/second" if unit else ""
    if ".per_cycle_" in name or ".peak_sustained" in name:
        return f"{unit}/cycle" if unit else ""
    return unit


_COLOR_ARGB, _PLAIN = 1, {"name", "call"}
_PAYLOADS = ("uint64", "int64", "double", "uint32", "int32", "float", "text", "uint64")


def scope_of(state: dict[str, Any], tid: int | None) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the names of the ranges that the thread pushed, outermost first, and the ranges with more than a name.

    The latter have a domain other than the default one, a category, colour, payload or message, were started rather
    than pushed, or belong to other threads.
    """
    default = state.get("default", 0)
    domains = {domain.get("id", 0): domain.get("name", "") for domain in state.get("domains", ())}
    strings = {
        (domain.get("id", 0), string.get("id", 0)): string.get("text", "")
        for domain in state.get("domains", ())
        for string in domain.get("strings", ())
    }
    scope: list[str] = []
    others: list[dict[str, Any]] = []
    threads = state.get("threads", ())
    thread_id = (
        tid if any(thread.get("tid") == tid for thread in threads) or len(threads) != 1 else threads[0].get("tid")
    )
    for thread in threads:
        for domain in thread.get("domains", ()):
            which = domain.get("domain", 0)
            for range_ in domain.get("ranges", ()):
                described = _describe(range_, which, strings) | _domain(which, default, domains)
                if thread.get("tid") != thread_id:
                    others.append({"tid": thread.get("tid"), **described})
                    continue
                scope += [described["name"]] if described["name"] else []
                others += [described] if described.keys() - _PLAIN else []
    for domain in state.get("started", ()):
        which = domain.get("domain", 0)
        for range_ in domain.get("ranges", ()):
            described = _describe(range_, which, strings) | _domain(which, default, domains)
            others.append({"started": True, **described})
    return scope, others


def _domain(which: int, default: int, domains: dict[int, str]) -> dict[str, Any]:
    name = domains.get(which, "")
    return {} if which == default or not name or name == "<default domain>" else {"domain": name}


def _describe(range_: dict[str, Any], domain: int, strings: dict[tuple[int, int], str]) -> dict[str, Any]:
    """Returns the attributes of a range that have a value, and its name."""
    attributes = range_.get("attributes", {})
    message = attributes.get("message", {})
    registered = strings.get((domain, message.get("handle", -1)), "")
    name = range_.get("name") or message.get("text") or registered
    described: dict[str, Any] = {"name": name}
    described |= {key: range_[key] for key in ("id", "tid") if key in range_}
    text = message.get("text") or registered
    if text and text != name:
        described["message"] = text
    if attributes.get("category"):
        described["category"] = attributes["category"]
    if attributes.get("color", {}).get("type") == _COLOR_ARGB:
        described["color"] = f"#{attributes['color'].get('argb', 0):08x}"
    payload = attributes.get("payload", {})
    kind = payload.get("type", 0)
    if 0 < kind <= len(_PAYLOADS):
        described["payload"] = payload.get(_PAYLOADS[kind - 1], 0)
    return described


_SECTION = re.compile(r"@section:[^:@]*:([^@]*)@")
_URL = re.compile(r"@url:([^:@]*):([^@]*)@")

#: Number of a message's type -> the mark that Nsight Compute prints for it.
TYPES = {1: "INF", 2: "WRN", 3: "ERR", 4: "OPT"}
_SPEEDUPS = {1: "local", 2: "global"}
_SEVERITIES = {1: "low", 2: "high"}
_MARKS = {0: "SASS", 1: "source"}


def plain_text(text: str) -> str:
    """Returns a message with its links as words."""
    return _URL.sub(r"\1 (\2)", _SECTION.sub(r"\1", text)) if "@" in text else text


def notes_of(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (text, args) for each message of a rule."""
    items = rule.get("body", {}).get("items", [])
    focus = [metric for item in items for metric in item.get("focus", ())]
    proposed = [item["proposal"]["rule"] for item in items if item.get("proposal", {}).get("rule")]
    marks = [_mark(mark) for mark in rule.get("marks", ())]
    first = True
    for item in items:
        message = item.get("message")
        if message is None:
            continue
        args = _args(rule, item, message)
        metrics = [_focus(metric) for metric in focus if metric.get("message") == message.get("number")]
        args |= {"Focus Metrics": metrics} if metrics and "number" in message else {}
        if first:
            args |= {"Proposed Rules": proposed} if proposed else {}
            args |= {"Source Marks": marks} if marks else {}
        first = False
        yield plain_text(message.get("text", "")), args


def _args(rule: dict[str, Any], item: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = {"Rule Name": rule["rule"]} if rule.get("rule") else {}
    kind = message.get("type", 0)
    if kind:
        args["Rule Type"] = TYPES.get(kind, str(kind))
    if message.get("title"):
        args["Title"] = message["title"]
    speedup = item.get("speedup", {})
    if "percent" in speedup:
        if speedup.get("type") in _SPEEDUPS:
            args["Estimated Speedup Type"] = _SPEEDUPS[speedup["type"]]
        args["Estimated Speedup"] = speedup["percent"]
    return args


def _focus(metric: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {key: metric[key] for key in ("metric", "value") if key in metric}
    if metric.get("severity") in _SEVERITIES:
        columns["severity"] = _SEVERITIES[metric["severity"]]
    return columns | ({"advice": plain_text(metric["advice"])} if metric.get("advice") else {})


def _mark(mark: dict[str, Any]) -> dict[str, Any]:
    members = {"kind": _MARKS.get(mark.get("kind", 0), str(mark.get("kind")))}
    members |= {key: mark[key] for key in ("line", "address", "file") if key in mark}
    return members | ({"text": plain_text(mark["text"])} if mark.get("text") else {})
