"""Turns each timing line into a row; other lines are facts or unrecognised.

The timings of a server's slot, in a log with times, are events: generation ends when they are printed, and begins where
the prompt's evaluation ends. All other figures are sums over a run, and become summaries.

Lines of ggml's Vulkan backend and of test-backend-ops as values.

ADD: 2598 x 4230.26 us = 1.09902e+07 us                                           since the end of 2025
MUL_MAT_VEC m=11008 k=4096: 2 x 200.069 us (901.2 GFLOPS/s)                       2025: without the total
MUL_MAT_VEC m=11008 k=4096: 2 x 200.069 ms                                        2024: microseconds, labelled ms
  ADD(type=f32,ne=[10,5,4,3],nr=[1,1,1,1]):   8192 runs -  1.85 us/run -  7 kB/run -  3.61 GB/s
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line

from .timings import SlotPlace, Timing, metric_of, place_of, timing_of

_NUMBER = r"\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,2})?"
_KERNEL = re.compile(
    rf"(?P<name>.+): (?P<count>\d{{1,12}}) x (?P<avg>{_NUMBER}) (?P<unit>us|ms)"
    rf"(?: = (?P<total>{_NUMBER}) us)?(?: \((?P<rate>{_NUMBER}|inf|-?nan) GFLOPS/s\))?\s*"
)
_TOTAL = re.compile(rf"Total time: (?P<total>{_NUMBER}) us\.\s*")
_COLOUR = re.compile(r"\x1b\[[\d;]{0,12}m")
_TEST = re.compile(
    rf"\s*(?P<name>[^\s:](?:.*?\S)??)\s*:\s+(?P<count>\d{{1,12}}) runs -\s*(?P<avg>{_NUMBER}) us/run -\s*"
    rf"(?P<size>{_NUMBER}) (?P<of>kB|[kKMGT]FLOP)/run -\s*(?P<rate>{_NUMBER}) (?P<unit>GB/s|[kKMGT]FLOPS)\s*"
)

#: Decimals beyond these are no figures of a profiler.
_GREATEST = Decimal(10) ** 27


@dataclass(frozen=True)
class OperationRuns:
    """Some runs of an operation: times in ns, rates under the source's own unit."""

    name: str
    count: int
    avg: float
    total: float | None = None
    args: dict[str, float] = field(default_factory=dict)
    mislabelled: bool = False


def _ns(us: str) -> float | None:
    exact = Decimal(us) * 1000
    return float(exact) if exact < _GREATEST else None


def vulkan_row(text: str) -> OperationRuns | None:
    """Returns a row of the Vulkan backend's timings; None for anything else."""
    match = _KERNEL.fullmatch(text)
    avg = _ns(match["avg"]) if match else None
    if not match or avg is None:
        return None
    total = _ns(match["total"]) if match["total"] else None
    rate = match["rate"]
    args = {"GFLOPS/s": float(rate)} if rate and rate[-1].isdigit() else {}
    return OperationRuns(match["name"], int(match["count"]), avg, total, args, match["unit"] == "ms")


def vulkan_total(text: str) -> float | None:
    """Returns the total below the rows in ns; None for anything else."""
    match = _TOTAL.fullmatch(text)
    return _ns(match["total"]) if match else None


def tested(text: str) -> OperationRuns | None:
    """Returns a line of `test-backend-ops perf`; None for anything else."""
    match = _TEST.fullmatch(_COLOUR.sub("", text)) if "us/run" in text else None
    avg = _ns(match["avg"]) if match else None
    if not match or avg is None:
        return None
    args = {f"{match['of']}/run": float(match["size"]), match["unit"]: float(match["rate"])}
    return OperationRuns(match["name"], int(match["count"]), avg, args=args)


PROMPT, GENERATION, TOTAL = "prompt eval", "eval", "total"

#: Slots whose prompt waits for the generation. Servers have a few.
MOST_SLOTS = 1_000

#: Times that go back by more than this (ns) are those of another run.
AGAIN = 1_000_000_000

_HEADER = re.compile(r"(?P<prefix>(?:.{0,40} )?)Vulkan Timings:\s*")
_RULE = re.compile(r"\s*-{8,}\s*")
_MODEL = re.compile(r".{0,100}\bgeneral\.name\s+(?:str\s+)?=\s*(?P<name>\S.*)")
_BUILD = re.compile(r".{0,60}\bbuild(?:_info)?\s*[:=]\s*(?P<build>b?\d.*)")
_DEVICE = re.compile(r"\s*(?:ggml_vulkan: (?P<number>\d{1,3}) = |  Device (?P<cuda>\d{1,3}): )(?P<name>[^|,]{1,200}).*")
_BACKEND = re.compile(r"\s*Backend (?P<number>\d{1,3})/\d{1,3}: (?P<name>\S+)\s*")
_DESCRIPTION = re.compile(r"\s*Device description: (?P<name>\S.*)")
_UNSUPPORTED = re.compile(r"\s*\w+\(.*\): not supported.*", re.DOTALL)


class LlamaLog(LineReader):
    """The state of reading: the place of figures that follow without one, the slots' prompts, the open table."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._place: SlotPlace | None = None
        self._prompts: dict[int, tuple[SlotPlace, Timing]] = {}
        self._runs = 1
        self._last = 0
        self._tables = 0
        self._open, self._prefix = False, ""
        self._backend: tuple[int, str] | None = None
        self._rows.tool_and_clock("llama.cpp", "session")

    def take(self, line: Line) -> None:
        if not line.text.strip() or _RULE.fullmatch(line.text):
            self._lines.structure()
        elif not (self._take_timing(line.text) or self._take_kernel(line) or self._take_fact(line.text)):
            self._place = None

    # Timings

    def _take_timing(self, text: str) -> bool:
        """Reads a figure of the server or of a tool; returns False for any other line."""
        placed = place_of(text)
        place, rest = placed or (self._place, text)
        if place is None:
            return False
        if placed is None:
            rest = text.removeprefix(place.prefix)
        elif place.at is not None:
            if self._last - place.at > AGAIN:
                self._end_prompts()
                self._runs += 1
            self._last = place.at
        if timing := timing_of(rest):
            self._lines.used()
            self._add(place, timing)
        elif metric := metric_of(rest):
            self._lines.used()
            value: dict[str, Any] = {"value": metric.value, "unit": metric.unit, "args": metric.args}
            if metric.is_rate and place.slot is not None and place.at is not None:
                name = f"{self._track(place)} {metric.name}"
                value["args"] |= {"task": place.task}
                self._rows.event("counter", name, ts=place.at, track=name, **value)
            else:
                self._rows.summary("metric", metric.name, metric=metric.name, scope=place.scope, ts=place.at, **value)
        elif placed and not rest.strip():
            self._lines.structure()
        else:
            return False
        self._place = place
        return True

    def _add(self, place: SlotPlace, timing: Timing) -> None:
        """Adds a figure: of a slot in a log with times as an event, else as a summary."""
        slot, at = place.slot, place.at
        if timing.rate is not None:
            name, rate = f"{timing.label} rate", {"value": timing.rate, "unit": "tokens/s"}
            self._rows.summary("metric", name, metric="tokens_per_second", scope=place.scope, ts=at, **rate)
        if slot is not None and at is not None and timing.label in (PROMPT, GENERATION):
            before = self._prompts.pop(slot, None)
            if before:
                together = timing.label == GENERATION and before[0].task == place.task
                self._event(*before, at - timing.dur if together else before[0].at or 0)
            if timing.label == GENERATION:
                self._event(place, timing, at)
            else:
                self._prompts[slot] = (place, timing)
                if len(self._prompts) > MOST_SLOTS:
                    self._end_prompts()
            return
        kind = "total" if timing.label == TOTAL else "range"
        figures: dict[str, Any] = {"total": float(timing.dur), "count": timing.count, "avg": timing.each}
        args = {"of": timing.of, "tokens_per_second": timing.rate}
        figures |= {"percent": timing.percent, "args": {key: value for key, value in args.items() if value is not None}}
        self._rows.summary(kind, timing.label, unit="ns", scope=place.scope, ts=at, **figures)

    def end(self) -> None:
        self._end_prompts()

    def _end_prompts(self) -> None:
        """Adds the prompts for which no generation was printed."""
        for place, prompt in self._prompts.values():
            self._event(place, prompt, place.at or 0)
        self._prompts.clear()

    def _event(self, place: SlotPlace, timing: Timing, end: int) -> None:
        """Adds the work of a slot that ended at a time."""
        each = None if timing.each is None else timing.each / 1_000_000
        args = {"task": place.task, "tokens": timing.count, "ms_per_token": each, "tokens_per_second": timing.rate}
        self._rows.event(
            "range",
            timing.label,
            ts=end - timing.dur,
            dur=timing.dur,
            timing="derived",
            track=self._track(place),
            args={key: value for key, value in args.items() if value is not None},
        )

    def _track(self, place: SlotPlace) -> str:
        """The track of a slot. The times of a server that was started again begin anew."""
        return f"slot {place.slot}" if self._runs == 1 else f"run {self._runs} slot {place.slot}"

    # Kernels

    def _take_kernel(self, line: Line) -> bool:
        """Reads a line of the Vulkan backend or of test-backend-ops; returns False for any other line."""
        text = line.text.removeprefix(self._prefix)
        if header := _HEADER.fullmatch(line.text):
            self._tables += 1
            self._open, self._prefix = True, header["prefix"]
            self._lines.structure()
        elif work := tested(text):
            self._lines.used()
            number, name = self._backend or (1, "")
            on_host = name.startswith("CPU")
            place: dict[str, Any] = {"scope": [name]} if name else {}
            self._work("op" if on_host else "kernel", work, device=None if on_host else number - 1, **place)
        elif self._open and (work := vulkan_row(text)):
            if work.mislabelled:
                self._report.issue("unit-corrected", f"line {line.number}", "microseconds that are labelled ms", 0)
            self._lines.used()
            self._work("kernel", work, device=0, table=self._tables - 1, scope=["Vulkan Timings"])
        elif self._open and (total := vulkan_total(text)) is not None:
            self._lines.used()
            self._open = False
            self._rows.summary("total", TOTAL, unit="ns", total=total, table=self._tables - 1, scope=["Vulkan Timings"])
        elif _UNSUPPORTED.fullmatch(text):
            self._lines.structure()
        else:
            return False
        return True

    def _work(self, kind: str, work: OperationRuns, **place: Any) -> None:
        figures: dict[str, Any] = {"count": work.count, "avg": work.avg, "total": work.total}
        self._rows.summary(kind, work.name, short_name=work.name, unit="ns", args=work.args, **figures, **place)

    # Facts

    def _take_fact(self, text: str) -> bool:
        """Reads the model, the build, the devices; returns False for any other line."""
        if match := _MODEL.fullmatch(text):
            self._rows.fact("source", facts={"model": match["name"].strip()})
        elif match := _BUILD.fullmatch(text):
            self._rows.fact("source", facts={"version": match["build"].strip()})
        elif match := _BACKEND.fullmatch(text):
            self._backend = (int(match["number"]), match["name"])
        elif (match := _DESCRIPTION.fullmatch(text)) and self._backend:
            self._rows.fact("device", device=self._backend[0] - 1, name=match["name"].strip())
        elif match := _DEVICE.fullmatch(text):
            api = "vulkan" if match["number"] else "cuda"
            number = int(match["number"] or match["cuda"])
            self._rows.fact("device", device=number, name=match["name"].strip(), facts={"api": api})
        else:
            return False
        self._lines.became("catalog")
        return True
