"""Timing lines of llama.cpp's server and tools, of all versions, as values.

0.04.796.165 I slot print_timing: id  0 | task 3 |        eval time = ...        since 2026: minutes.s.ms.us, level
slot print_timing: id  0 | task 3 |                                              2024 to 2025: the figures follow
prompt eval time =     111.11 ms /    11 tokens (   10.10 ms per token, ...
INFO [           print_timings] generation eval time =     371.41 ms /    13 runs   ( ... | tid="..." id_slot=0
{"function":"print_timings","msg":"prompt eval time     =     371.41 ms ...","id_slot":0,"id_task":7, ...}   early 2024
llama_print_timings:        load time =    1234.56 ms                            2023 to 2024
llama_perf_context_print:        load time =    1234.56 ms                       since 2024
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ktrace.kit.text.numbers import to_ns

_STAMP = r"(?:(?P<m>\d{1,9})\.(?P<s>\d\d)\.(?P<ms>\d{3})\.(?P<us>\d{3}) (?:[A-Z] )?)?"
_SLOT = re.compile(
    _STAMP
    + r"slot\s{1,4}print_timings?:\s{0,4}id\s{1,4}(?P<slot>\d{1,9})\s{0,4}\|"
    + r"\s{0,4}task\s{1,4}(?P<task>-?\d{1,12})\s{0,4}\|"
)
_FUNCTION = re.compile(
    _STAMP + r"(?:[A-Z]{1,8} \[\s{0,40})?(?<!\w)(?P<function>\w{0,40}?(?:print_timings?|perf_\w{0,20}print))(?:\]|:)"
)

#: Characters at the start of a line that are searched for its place: services and containers put their own before it.
_SEARCHED = 400

_ROW = re.compile(
    r"\s*(?P<label>[a-z][a-z ]{0,30}) time\s*=\s*(?P<ms>\d{1,15}(?:\.\d{1,9})?) ms"
    r"(?:\s*/\s*(?P<count>\d{1,12}(?:\.\d{1,3})?)\s*(?P<of>tokens|runs|%))?(?P<rest>.*)"
)
_EACH = re.compile(r"\(\s*(\d{1,15}(?:\.\d{1,9})?) ms per (?:token|run)")
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) tokens per second")
_REUSED = re.compile(r"\s*(graphs reused)\s*=\s*(\d{1,15})\s*")
_DRAFT = re.compile(
    r"\s*draft acceptance(?: rate)?\s*=\s*(\d{1,9}\.\d{1,9}|nan)\s*"
    r"\(\s*(\d{1,12}) accepted\s*/\s*(\d{1,12}) generated\)(.*)"
)
_GENERATION = re.compile(
    r"\s*n_(?:gen|decoded)\s*=\s*(?P<n>\d{1,12}),\s*tg\s*=\s*(?P<all>\d{1,12}\.\d{1,6}) t/s"
    r"(?:,\s*tg_3s\s*=\s*(?P<last>\d{1,12}\.\d{1,6}) t/s)?\s*"
)
_PROMPT = re.compile(
    r"\s*prompt processing, n_tokens\s*=\s*(?P<n>\d{1,12}), progress\s*=\s*(?P<progress>\d{1,3}\.\d{1,6}), "
    r"t\s*=\s*(?P<t>\d{1,12}\.\d{1,6}) s / (?P<rate>\d{1,12}\.\d{1,6}) tokens per second\s*"
)


@dataclass(frozen=True)
class SlotPlace:
    """Where a line is from: the printing function, the slot and task of a server, the time of the log in ns.

    `prefix` is what a service or a container put before the line.
    """

    function: str | None = None
    slot: int | None = None
    task: int | None = None
    at: int | None = None
    prefix: str = ""

    @property
    def scope(self) -> list[str]:
        """The place as the scope of a summary."""
        if self.slot is not None:
            return [f"slot {self.slot}", f"task {self.task}"]
        return [self.function] if self.function else []


@dataclass(frozen=True)
class Timing:
    """A duration in ns, and how many tokens or runs it covers; `each` is ns per token, `rate` tokens/s."""

    label: str
    dur: int
    count: int | None = None
    of: str | None = None
    each: float | None = None
    rate: float | None = None
    percent: float | None = None


@dataclass(frozen=True)
class Metric:
    """A number of another kind; `is_rate`: one of a task that goes on."""

    name: str
    value: float
    unit: str | None
    args: dict[str, Any]
    is_rate: bool = False


def place_of(text: str) -> tuple[SlotPlace, str] | None:
    """Returns the place of a line and the rest of it; None if no such function printed it."""
    if text.startswith("{"):
        return _of_json(text)
    if "print" not in text:
        return None
    begin = text[:_SEARCHED]
    match = _SLOT.search(begin)
    if match:
        place = SlotPlace("print_timing", int(match["slot"]), int(match["task"]))
    elif match := _FUNCTION.search(begin):
        place = SlotPlace(match["function"])
    else:
        return None
    return replace(place, at=_time(match), prefix=begin[: match.start()]), text[match.end() :]


def _time(match: re.Match[str]) -> int | None:
    """The time of the log in ns: minutes, seconds, ms, us."""
    if match["m"] is None:
        return None
    minutes, seconds, ms, us = (int(match[part]) for part in ("m", "s", "ms", "us"))
    return (((minutes * 60 + seconds) * 1000 + ms) * 1000 + us) * 1000


def _of_json(text: str) -> tuple[SlotPlace, str] | None:
    if '"print_timings' not in text:
        return None
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    message, function = (line.get(key) for key in ("msg", "function"))
    if not isinstance(message, str) or not isinstance(function, str):
        return None
    slot, task = (line.get(key) for key in ("id_slot", "id_task"))
    place = SlotPlace(function)
    if type(slot) is int and type(task) is int:
        place = replace(place, slot=slot, task=task)
    return place, message


def timing_of(text: str) -> Timing | None:
    """Returns the duration on a line without its place; None for anything else."""
    match = _ROW.fullmatch(text)
    if not match:
        return None
    each, rate = _EACH.search(match["rest"]), _RATE.search(match["rest"])
    counted = match["of"] in ("tokens", "runs") and "." not in match["count"]
    return Timing(
        match["label"],
        to_ns(Decimal(match["ms"]), "ms")[0],
        int(match["count"]) if counted else None,
        match["of"] if counted else None,
        float(Decimal(each[1]) * 1_000_000) if each else None,
        float(rate[1]) if rate else None,
        float(match["count"]) if match["of"] == "%" else None,
    )


def metric_of(text: str) -> Metric | None:
    """Returns another number on a line without its place; None for anything else."""
    if match := _REUSED.fullmatch(text):
        return Metric(match[1], float(match[2]), "count", {})
    if match := _DRAFT.fullmatch(text):
        if match[1] == "nan":
            return None
        return Metric(
            "draft acceptance", float(match[1]), None, {"accepted": int(match[2]), "generated": int(match[3])}
        )
    if match := _GENERATION.fullmatch(text):
        rate = {"n_decoded": int(match["n"]), "tg": float(match["all"])}
        return Metric("generation tokens/s", float(match["last"] or match["all"]), "tokens/s", rate, is_rate=True)
    if match := _PROMPT.fullmatch(text):
        args = {"n_tokens": int(match["n"]), "progress": float(match["progress"]), "t": float(match["t"])}
        return Metric("prompt tokens/s", float(match["rate"]), "tokens/s", args, is_rate=True)
    return None
