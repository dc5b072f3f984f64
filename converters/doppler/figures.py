"""Parses figures from single lines of the log: run metrics, memory, the device, variants, kernel labels.

[metrics] ttft=308.1ms prefill=191.8ms decode=40471.5ms total=40780.1ms
[metrics] tok/s total=6.28 prefill=46.92 decode=6.33
TTFT: 308ms | Prefill: 192ms | Decode: 40472ms (255 tokens @ 6.3 tok/s)
[2.8s] Memory (complete): | Heap=1.10 GB/1.10 GB (limit=4.00 GB) | GPU=2.04 GB (340 active, 0 pooled)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.kit.text.numbers import TIME_NS
from ktrace.model.json_text import load_json

#: Doppler prints sizes in steps of 1024 (formatBytes in src/storage/quota.js): its "GB" is 2^30 B.
SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

#: Spellings of a metric -> its canonical name.
METRICS = {"first": "ttft", "first_token": "ttft", "firsttoken": "ttft"}

#: Last words of a name that say which statistic the number is.
STATISTICS = {"median": "median", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}

#: Key of the command line tool's device line -> its fact.
DEVICE_FACTS = {"vendor": "vendor", "arch": "architecture", "device": "device"}

#: A figure of a memory line: (its key, the word next to the number) -> counter series.
MEMORY = {
    ("Heap", ""): "Heap used",
    ("Heap", "/"): "Heap total",
    ("Heap", "limit"): "Heap limit",
    ("GPU", ""): "GPU memory",
    ("GPU", "active"): "GPU buffers active",
    ("GPU", "pooled"): "GPU buffers pooled",
    ("GPU", "peak"): "GPU memory peak",
    ("ShardCache", ""): "Shard cache",
    ("ShardCache", "shards"): "Shards cached",
    ("Layers", ""): "Layers loaded",
    ("GPUBuffers", ""): "GPU buffers",
}

_NUMBER = r"-?\d+(?:\.\d+)?"
_VALUE = re.compile(rf"({_NUMBER})\s?([A-Za-z%/]*)")
_PAIR = re.compile(r'([^\s=(][^\s=]*)=("(?:[^"\\]|\\.)*"|\S+)|(\S+)')
_PERF = re.compile(r"([A-Za-z][\w ]*): (\S+?)(?: \((.*)\))?")
_MEMORY_HEAD = re.compile(r"(?:\[[^\]]*\] )?Memory \([^)]*\):")
_SEGMENT = re.compile(r"\b(\w{1,60})=([^(,|]{1,60})(?:\(([^)]{0,200})\))?(?=,|$)")
_DEVICE = re.compile(rf"(?P<name>[^,]+), (?P<features>[^,]+), (?P<size>{_NUMBER}\s?[KMGT]?B)")
_VARIANT = re.compile(r"(?P<op>\S+) variant=(?P<variant>\S+)(?: reason=(?P<reason>.*\S))?\s*")
_LAYER = re.compile(r"(L\d+)(?:\.(.+))?")


class Figure(NamedTuple):
    """One figure of the run: its name as printed, its canonical metric, its column and its unit."""

    name: str
    metric: str
    column: str
    value: float
    unit: str | None


class Level(NamedTuple):
    """One figure of a memory line: the counter series and its value in `unit`."""

    series: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Label:
    """The parts of a kernel label: `op[:tensor][:Ln[.sub]]`.

    If only the part after the layer names a tensor, that is the tensor; otherwise that part is `sub`.
    """

    op: str
    tensor: str | None = None
    layer: str | None = None
    sub: str | None = None

    def args(self) -> dict[str, Any]:
        """Returns the parts that have no column of their own."""
        parts = {"op": self.op, "tensor": self.tensor, "sub": self.sub}
        return {key: part for key, part in parts.items() if part is not None}


def parse_label(label: str) -> Label:
    """Splits labels such as `matmul:lm_head`, `matmul:ffn_up:L0` and `matmul_rmsnorm_fused:L9.ffn_down`."""
    op, *rest = label.split(":")
    layer = sub = None
    if rest and (match := _LAYER.fullmatch(rest[-1])):
        layer, sub = match.groups()
        rest.pop()
    if not rest:
        return Label(op, sub, layer)
    return Label(op, ":".join(rest), layer, sub)


def pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields (the bare word before it, key, value) for each `key=value`, without quotes around the value."""
    subject = ""
    for key, value, word in _PAIR.findall(text):
        if word:
            subject = word
        else:
            yield subject, key, unquoted(value)


def unquoted(value: str) -> str:
    """Returns the text of a JSON string, and anything else unchanged."""
    if value.startswith('"'):
        try:
            return str(load_json(value))
        except ValueError:
            return value.strip('"')
    return value


def tool_figures(kind: str, text: str) -> Iterator[Figure]:
    """Yields the figures of a line of the command line tool, of kind metrics, ok, gpu, memory or batching."""
    rates, stage = False, None
    for subject, key, value in pairs(text):
        if rates and subject not in ("", "tok/s") and key not in STATISTICS:
            stage = key  # in `decode tok/s=6 avg=6 prefill=46 avg=45` the last two belong to prefill
        rates = rates or "tok/s" in (subject, key)
        if match := _VALUE.fullmatch(value):
            prefix = subject if stage is None else stage if key != stage else ""
            name = key if kind == "ok" else f"{prefix} {key}".strip()
            figure = _figure(name, *match.groups(), rate=rates)
            yield figure._replace(column="median") if figure.column == "value" and "(median" in text else figure


def perf_figures(text: str) -> Iterator[Figure]:
    """Yields the figures of a line from the modules Perf and Benchmark: `Decode: 40472ms (255 tokens @ 6.3 tok/s)`."""
    for part in text.split(" | "):
        match = _PERF.fullmatch(part.strip())
        value = _VALUE.fullmatch(match.group(2)) if match else None
        if not match or not value:
            continue
        yield _figure(match.group(1), *value.groups())
        for number, unit in _VALUE.findall(match.group(3) or ""):
            if unit in ("tokens", "tok/s"):
                yield _figure(f"{match.group(1)} {unit}", number, "", rate=unit == "tok/s")


def _figure(name: str, number: str, unit: str, *, rate: bool = False) -> Figure:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("(", " ").replace(")", " ").lower().split()
    column = STATISTICS.get(words[-1], "value")
    if column != "value":
        words.pop()
    if words[:1] == ["latency"]:
        words = words[1:] or words
    base = "_".join(word for word in words if word != "tok/s")
    base = METRICS.get(base, base)
    if base.startswith("tokens_"):
        base = base.removeprefix("tokens_") + "_tokens"
    value = Decimal(number)
    if unit in TIME_NS:
        return Figure(name, base or "duration", column, float(value * TIME_NS[unit]), "ns")
    if unit in SIZES:
        return Figure(name, base or "bytes", column, float(value * SIZES[unit]), "B")
    if rate and not unit:
        base = "tokens_per_second" if base in ("", "total") else f"{base}_tokens_per_second"
        return Figure(name, base, column, float(value), "tokens/s")
    return Figure(name, base or name, column, float(value), unit or (None if "." in number else "count"))


def tool_device(text: str) -> dict[str, Any]:
    """Returns the facts of `vendor=apple arch=metal-3 device=unknown` and `f16=yes subgroups=no`, without unknowns."""
    facts = {DEVICE_FACTS[key]: value for _, key, value in pairs(text) if key in DEVICE_FACTS and value != "unknown"}
    features = [key for _, key, value in pairs(text) if value == "yes"]
    return facts | ({"features": features} if features else {})


def memory_levels(text: str) -> list[Level]:
    """Returns the figures of a memory line, an empty list for any other line. Sizes are in B, as exact as printed."""
    head = _MEMORY_HEAD.match(text)
    levels: list[Level] = []
    for segment in text[head.end() :].split("|") if head else ():
        for key, value, details in _SEGMENT.findall(segment.strip()):
            used, _, total = value.partition("/")
            levels += _level(key, "", used)
            levels += _level(key, "/", total)
            for detail in filter(None, details.split(",")):
                word, equals, amount = detail.strip().partition("=")
                if not equals:
                    amount, _, word = word.partition(" ")
                levels += _level(key, word, amount)
    return levels


def _level(key: str, word: str, text: str) -> list[Level]:
    match = _VALUE.fullmatch(text.strip())
    if not match or match.group(2) not in ("", *SIZES):
        return []
    number, unit = match.groups()
    series = MEMORY.get((key, word), f"{key} {word}".strip())
    return [Level(series, float(Decimal(number) * SIZES.get(unit, 1)), "B" if unit else "count")]


def device_of(text: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the name and facts of `apple metal-3, f16/subgroups, 4.0GB`.

    The size is the largest storage buffer that the device can bind (src/gpu/device.js), not its memory.
    """
    match = _DEVICE.fullmatch(text.strip())
    if not match:
        return None
    value = _VALUE.fullmatch(match["size"])
    facts: dict[str, Any] = {"api": "webgpu", "features": match["features"].split("/")}
    if value:
        facts["max_storage_buffer"] = int(Decimal(value.group(1)) * SIZES[value.group(2)])
    return match["name"].strip(), facts


def variant_of(text: str) -> tuple[str, dict[str, str]] | None:
    """Returns the operation of `matmul variant=f16 reason=path_override` and the variant chosen for it."""
    match = _VARIANT.fullmatch(text)
    if not match:
        return None
    chosen = {"variant": match["variant"], "reason": match["reason"]}
    return match["op"], {key: word for key, word in chosen.items() if word}
