"""Durations among keys and values: `kernel=fill gpu_ms=1.5 grid=8x1x1`, or members of an object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ktrace.kit.text.headings import heading, is_time, spelling
from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS, to_ns

from .durations import LIMIT, NUMBER, Figure, is_great, ns_of

#: Words of device work in a tag, or in the key of a name or a duration.
DEVICE = re.compile(r"(?i)gpu|webgl|kernel|shader|pass|dispatch|compute|pipeline")
_PAIR = re.compile(r'([A-Za-z_][\w.]{0,60})=("[^"]{0,500}"|[^\s"]{1,500})')

#: Keys of a name and of the two ends of an interval, in lower case.
_NAMES = (
    *("kernel", "kernel_name", "name", "op", "op_name", "operator", "operation", "label", "pass", "shader", "pipeline"),
    *("program", "stage", "layer", "benchmark", "phase"),
)
#: Those of the objects that programs print, in which they come last.
NAMES_OF_RECORDS = (
    *("function", "func", "model", "method", "module", "algorithm", "impl", "implementation", "backend", "provider"),
    *("variant", "test", "task"),
)
_OPS = frozenset(("op", "op_name", "operator", "operation", "layer"))
#: Last words of rates per second, before their unit.
_RATED = re.compile(
    r"per|its?|iters?|toks?|tokens?|[kmgt]i?b|imgs?|images|samples|reqs?|requests|ops|[kmgt]?flops?|fps|steps"
)
_BEGINS, _ENDS = ("begin", "start"), ("end", "stop")
_TIMED = re.compile(rf"(?P<number>{NUMBER})(?P<unit>ns|us|ms|s),?")
_STATISTIC_AMONG = re.compile(r"(?i)\((?:avg|mean|median|min|max|std|p\d\d) [\d.]+")
#: A time with a blank before its unit; a stamp in hexadecimal digits.
_APART = re.compile(rf"=(?P<number>{NUMBER}) (?P<unit>ns|us|ms|s)(?![\w/=])")
_NAMED_FIRST = re.compile(rf"(?:{'|'.join(_NAMES)})=\S")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
#: Words of a key that says no more than that its value is a time; of one that it is the time of waiting.
_OF_TIME = frozenset(("time", "busy", "elapsed", "took", "dur", "duration", "wall", "latency"))
_WAITING = frozenset(("idle", "wait", "waiting", "queued"))
#: What loggers of spans say behind a name: that it has ended.
_CLOSED = re.compile(r"[:\s]{1,4}(?:close|closed|exit|exited|end|ended)$")
_UNIT_AT_END = re.compile(r"_(?:ns|us|ms|s)$|(?:Ns|Us|Ms)$")
#: A label of pairs: a few words.
LABEL = re.compile(r"[^\s`]{1,80}(?: [^\s`]{1,80}){0,5}")

#: Words in keys of durations, the best first; a key without any comes before the last.
_BEST = ("gpu", "kernel", "time", "dur", "elapsed", "exec", "wall", "")

_SIZES = {"grid": "grid", "workgroups": "grid", "dispatch": "grid", "block": "block", "workgroup_size": "block"}
_DIMS = re.compile(r"(\d{1,9})[x,](\d{1,9})[x,](\d{1,9})")

#: The longest line that is searched for keys and values.
_LONGEST_PAIRS = 10_000

#: How far the ends of an interval may be from the duration next to them.
_TOLERANCE, _LEAST_TOLERANCE = Decimal("0.01"), Decimal(1000)


def of_pairs(text: str) -> list[Figure]:
    """`kernel=fill gpu_ms=1.5 grid=8x1x1`, or `step 1: fwd=2ms bwd=4ms`: two pairs at least.

    Several times without a name are figures, named by their keys.
    """
    if len(text) > _LONGEST_PAIRS:
        return []
    text = _APART.sub(r"=\g<number>\g<unit>", text) if "=0x" in text or _NAMED_FIRST.match(text) else text
    pairs = {key: value.strip('"') for key, value in _PAIR.findall(text)}
    if len(pairs) < 2:
        return []
    for key, value in [*pairs.items()]:
        if (timed := _TIMED.fullmatch(value)) and not unit_of(key):
            unit = timed["unit"]
            pairs[f"{key}_{unit}"] = timed["number"]
            del pairs[key]
    numbers = {
        key: Decimal(value.replace(",", "")) for key, value in pairs.items() if re.fullmatch(rf"-?(?:{NUMBER})", value)
    }
    numbers |= {key: Decimal(int(value, 16)) for key, value in pairs.items() if _HEXADECIMAL.fullmatch(value)}
    others = " ".join(_PAIR.sub(" ", text).split()).strip(" :,;|")
    if others.count("(") != others.count(")") or _STATISTIC_AMONG.search(others):
        return []
    others = _CLOSED.sub("", others)
    times = [key for key in numbers if unit_of(key)]
    name_key = name_key_of(pairs)
    words = {key: {*re.split(r"[\s._]+", spelling(_UNIT_AT_END.sub("", key)))} for key in times}
    main = [key for key in times if words[key] <= _OF_TIME]
    if len(main) == 1 and others and all(words[key] & _WAITING for key in times if key not in main):
        times = main  # the span that the line is of, beside the time in which it waited
    if len(times) > 1 and not name_key and not DEVICE.search(f"{others} {' '.join(times)}"):
        return _of_keys(times, pairs, numbers, others)
    if not name_key and not LABEL.fullmatch(others):
        return []
    durations = {key: dur for key in times if (dur := ns_of(numbers[key], unit_of(key))) is not None}
    figure = figure_of_members(pairs, durations, numbers, others, name_key)
    return [figure] if figure else []


def _of_keys(times: list[str], pairs: Mapping[str, str], numbers: Mapping[str, Decimal], label: str) -> list[Figure]:
    """A figure for each key that states a time; what else the line says are its arguments."""
    if label and not LABEL.fullmatch(label):
        return []
    args = {key: plain(value, numbers.get(key)) for key, value in pairs.items() if key not in times}
    args |= {"of": label} if label else {}
    figures = []
    for key in times:
        dur, name = ns_of(numbers[key], unit_of(key)), _UNIT_AT_END.sub("", key)
        if dur is None or not is_measured(name):
            return []
        figures.append(Figure(name, dur, args=dict(args), statistics={"total": float(dur)}))
    return figures


def figure_of_members(
    members: Mapping[str, Any],
    times: Mapping[str, Decimal],
    numbers: Mapping[str, Decimal],
    label: str,
    name_key: str | None,
) -> Figure | None:
    """The duration, in ns, among keys and values; the label is the name if there is no key of one."""
    key = min(times, key=_order, default=None)
    name = str(members[name_key]) if name_key else label
    if name_key and name.isdigit():
        name = f"{name_key} {name}"
    if key is None or not name or not is_measured(key):
        return None
    dur = times[key]
    on_device = bool(DEVICE.search(key) or (name_key and DEVICE.search(name_key)))
    figure = Figure(name, dur, on_device=on_device, is_op=name_key is not None and name_key.lower() in _OPS)
    used = {name_key} if name_key else set()
    if interval := _interval(numbers, dur):
        figure.interval, ends, figure.is_rounded = interval
        used |= set() if figure.is_rounded else ends
    else:
        used.add(key)
    for other, value in members.items():
        size = _SIZES.get(other)
        if size and isinstance(value, str) and (dims := _DIMS.fullmatch(value)):
            figure.columns |= {f"{size}_{axis}": int(dims[n]) for n, axis in enumerate("xyz", 1)}
        elif other.lower() not in used and other not in used:
            figure.args[other] = plain(value, numbers.get(other))
    figure.take_count()
    return figure


def name_key_of(members: Mapping[str, Any], others: Sequence[str] = ()) -> str | None:
    """The key of the name among members, if there is one; `others` are looked for after the usual ones."""
    keys = {key.lower(): key for key in reversed([*members]) if isinstance(members[key], str) and members[key]}
    return next((keys[name] for name in (*_NAMES, *others) if name in keys), None)


def unit_of(key: str) -> str:
    """The unit of time that a key states: `time_ms`, `gpuTimeMs`, `latency (us)`, `fwd_s`; '' for `tokens_per_s`."""
    head = heading(key)
    name, unit = (head.name, head.unit.lower()) if is_time(head.unit) else (key[:-2], "s" * key.endswith("_s"))
    unit = "s" if key == "s" else unit
    last = spelling(name).split()[-1:]
    return "" if last and _RATED.fullmatch(last[0]) else unit


def _order(key: str) -> tuple[bool, int]:
    """The place of a key of a duration among others: times of waiting and of the CPU come last."""
    folded = key.lower()
    waiting = any(word in folded for word in ("wait", "cpu", "upload", "download"))
    return waiting, next(place for place, word in enumerate(_BEST) if word in folded)


def _interval(numbers: Mapping[str, Decimal], dur: Decimal) -> tuple[tuple[int, int], set[str], bool] | None:
    """The interval in the unit in which its length is that of the printed duration, its keys, whether it is rounded."""
    begin = next((key for key in numbers if key.lower() in _BEGINS), None)
    end = next((key for key in numbers if key.lower() in _ENDS), None)
    if begin is None or end is None or dur <= 0:
        return None
    low, high = numbers[begin], numbers[end]
    if is_great(low) or is_great(high):
        return None
    for unit in ("ns", "us", "ms", "s"):
        length = (high - low) * TIME_NS[unit]
        if length > 0 and abs(length - dur) <= max(dur * _TOLERANCE, _LEAST_TOLERANCE):
            (start, exact), (stop, also) = (to_ns(value, unit) for value in (low, high))
            fits = max(abs(start), abs(stop)) < LIMIT
            return ((start, stop - start), {begin, end}, not (exact and also)) if fits else None
    return None


def plain(value: Any, number: Decimal | None) -> Any:
    """A value for `args`: numbers of texts and of JSON as numbers."""
    if number is None or isinstance(value, bool):
        return json.loads(json.dumps(value, default=float))
    if is_great(number):
        return str(value)
    return int(number) if number == number.to_integral_value() else float(number)
