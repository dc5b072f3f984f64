"""Durations among keys and values: `kernel=fill gpu_ms=1.5 grid=8x1x1`, or objects of JSON behind a label."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ktrace.kit.text.json_items import exact
from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS, to_ns

from .durations import LIMIT, NUMBER, Figure, is_great, ns_of

#: Words of device work in a tag, or in the key of a name or a duration.
DEVICE = re.compile(r"(?i)gpu|webgl|kernel|shader|pass|dispatch|compute|pipeline")
_PAIR = re.compile(r'([A-Za-z_][\w.]{0,60})=("[^"]{0,500}"|[^\s"]{1,500})')

#: Keys of a name and of the two ends of an interval, in lower case.
_NAMES = ("kernel", "name", "op", "label", "pass", "shader", "pipeline", "program", "stage")
_BEGINS, _ENDS = ("begin", "start"), ("end", "stop")
_TIMED = re.compile(rf"(?P<number>{NUMBER})(?P<unit>ns|us|ms|s),?")
_UNIT_AT_END = re.compile(r"_(?:ns|us|ms|s)$|(?:Ns|Us|Ms)$")
#: A label of pairs: a few words.
_LABEL = re.compile(r"[^\s`]{1,80}(?: [^\s`]{1,80}){0,5}")
_UNIT_OF_KEY = re.compile(r"(?:(?:^|.*_)(ns|us|ms|s)|.*[a-z0-9](Ns|Us|Ms))")

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
    pairs = {key: value.strip('"') for key, value in _PAIR.findall(text)}
    if len(pairs) < 2:
        return []
    for key, value in [*pairs.items()]:
        if (timed := _TIMED.fullmatch(value)) and not _unit_of(key):
            unit = timed["unit"]
            pairs[f"{key}_{unit}"] = timed["number"]
            del pairs[key]
    numbers = {
        key: Decimal(value.replace(",", "")) for key, value in pairs.items() if re.fullmatch(rf"-?(?:{NUMBER})", value)
    }
    others = " ".join(_PAIR.sub(" ", text).split()).strip(" :,;|")
    times = [key for key in numbers if _unit_of(key)]
    is_named = any(isinstance(_at(pairs, name), str) for name in _NAMES)
    if len(times) > 1 and not is_named and not DEVICE.search(f"{others} {' '.join(times)}"):
        return _of_keys(times, pairs, numbers, others)
    if not is_named and not _LABEL.fullmatch(others):
        return []
    figure = _of_members(pairs, numbers, others)
    return [figure] if figure else []


def _of_keys(times: list[str], pairs: Mapping[str, str], numbers: Mapping[str, Decimal], label: str) -> list[Figure]:
    """A figure for each key that states a time; what else the line says are its arguments."""
    if label and not _LABEL.fullmatch(label):
        return []
    args = {key: _plain(value, numbers.get(key)) for key, value in pairs.items() if key not in times}
    args |= {"of": label} if label else {}
    figures = []
    for key in times:
        dur, name = ns_of(numbers[key], _unit_of(key) or ""), _UNIT_AT_END.sub("", key)
        if dur is None or not is_measured(name):
            return []
        figures.append(Figure(name, dur, args=dict(args), statistics={"total": float(dur)}))
    return figures


def of_json(text: str) -> list[Figure]:
    """An object after a label, or the objects of a list in it, such as the kernels of `tf.profile`."""
    begin = text.find("{")
    if begin < 0 or not text.endswith("}"):
        return []
    try:
        value = json.loads(text[begin:], parse_float=exact, parse_constant=str)
    except (ValueError, RecursionError):
        return []
    label = text[:begin].strip(" :,")
    lists = [v for v in value.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    found = [_of_object(member, label) for member in lists[0]] if lists else []
    if not any(found):
        found = [_of_object(value, label)]
    figures = [figure for figure in found if figure]
    if figures:
        figures[0].without = len(found) - len(figures)
    return figures


def _of_object(value: Any, label: str) -> Figure | None:
    if not isinstance(value, dict):
        return None
    numbers = {key: Decimal(v) for key, v in value.items() if type(v) is int or isinstance(v, Decimal)}
    return _of_members(value, numbers, label)


def _of_members(members: Mapping[str, Any], numbers: Mapping[str, Decimal], label: str) -> Figure | None:
    """The duration among keys and values; the label is the name if no key is one."""
    times = {key: unit for key in numbers if (unit := _unit_of(key)) and numbers[key].is_finite()}
    key = min(times, key=_order, default=None)
    name_key = next((name for name in _NAMES if isinstance(_at(members, name), str)), None)
    name = str(_at(members, name_key)) if name_key else label
    if key is None or not name or not is_measured(key):
        return None
    dur = ns_of(numbers[key], times[key])
    if dur is None:
        return None
    on_device = bool(DEVICE.search(key) or (name_key and DEVICE.search(name_key)))
    figure = Figure(name, dur, on_device=on_device)
    used = {name_key} if name_key else set()
    if found := _interval(numbers, dur):
        figure.interval, ends, figure.is_rounded = found
        used |= set() if figure.is_rounded else ends
    else:
        used.add(key)
    for other, value in members.items():
        size = _SIZES.get(other)
        if size and isinstance(value, str) and (dims := _DIMS.fullmatch(value)):
            figure.columns |= {f"{size}_{axis}": int(dims[n]) for n, axis in enumerate("xyz", 1)}
        elif other.lower() not in used and other not in used:
            figure.args[other] = _plain(value, numbers.get(other))
    return figure


def _at(members: Mapping[str, Any], name: str) -> Any:
    return next((value for key, value in members.items() if key.lower() == name), None)


def _unit_of(key: str) -> str | None:
    found = _UNIT_OF_KEY.fullmatch(key)
    return (found[1] or found[2].lower()) if found else None


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


def _plain(value: Any, number: Decimal | None) -> Any:
    """A value for `args`: numbers of texts and of JSON as numbers."""
    if number is None or isinstance(value, bool):
        return json.loads(json.dumps(value, default=float))
    if is_great(number):
        return str(value)
    return int(number) if number == number.to_integral_value() else float(number)
