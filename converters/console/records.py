"""Durations in objects that programs print into their logs: JSON, dicts of Python, dataclasses.

{'name': 'matmul', 'time_ms': 1.25, 'calls': 3}
INFO perf: {"kernel": "softmax", "dur_us": 12.5, "grid": [1, 2, 3]}
Result(name='gemm', mean_ms=1.2, std_ms=0.1)               statistics of one thing
step 7 metrics={'fwd_ms': 1.2, 'bwd_ms': 2.4, 'lr': 0.1}   a figure for each key that states a time
times (ms): {'matmul': 1.2, 'softmax': 0.3}                a unit before the object, or in a key above
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from ktrace.kit.text.headings import heading, is_time, spelling
from ktrace.kit.text.json_items import exact
from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS, quantity

from .durations import STATISTIC, Figure, is_no_time, ns_of
from .members import DEVICE, LABEL, NAMES_OF_RECORDS, figure_of_members, name_key_of, plain, unit_of

#: The most characters of an object, brackets that are open at once, and places of a line where one may begin.
_LONGEST, _DEEPEST, _TRIES = 1 << 16, 24, 4

#: Whole numbers of an object, at most, that say which one it is.
_MOST_SETTINGS = 8

_OPENS = re.compile(
    r"(?P<type>[A-Za-z_][\w.]{0,80})\((?=\s*[A-Za-z_]\w{0,80}=)|\[\s*(?:\{|\(\s?['\"]|[A-Z][\w.]{0,80}\()|\{"
)
#: Texts within an object, of which brackets don't count.
_QUOTED = re.compile(r"(?<!\\)(?:\"(?:[^\"\\\n]|\\.){0,1000}\"|'(?:[^'\\\n]|\\.){0,1000}')")
#: The same, or what Python prints of an object without a literal: <class 'float'>, <Kind.GEMM: 1>.
_OPAQUE = re.compile(rf"(?:{_QUOTED.pattern})|(?P<opaque><[^<>\n]{{1,200}}>)")
#: What stands before the object in a defaultdict or an OrderedDict.
_WRAPPING = re.compile(r"\b[A-Za-z_]\w{0,40}\((?:<[^<>\n]{1,80}>, ?)?$")
#: What parts the words before an object from the head of a log.
_PARTED = re.compile(r"\s[-|]\s|\]\s|:\s")
#: Constants of JSON, as Python's parser sees them.
_CONSTANTS = {"true": True, "false": False, "null": None}

_OF_TIME = frozenset(
    (
        *("time", "times", "timing", "timings", "duration", "durations", "dur", "latency", "latencies"),
        *("elapsed", "took", "wall", "exec", "execution", "run", "runtime"),
    )
)
_GROUPING = frozenset(("stats", "statistics", "results", "result", "metrics", "perf", "summary", "data"))
_STAMPS = frozenset(("ts", "timestamp", "stamp", "start", "started", "begin", "end", "ended", "stop", "now", "created"))
#: Words of keys that leave no doubt that a time is a kernel's; keys of the records of loggers.
_OF_DEVICE = re.compile(r"(?i)gpu|webgl|kernel|shader")
_OF_LOGS = frozenset(("level", "levelname", "levelno", "severity", "msg", "message"))
_WAITING = frozenset(("wait", "waiting", "waited"))
#: Statistics whose words may as well be part of a name, such as `max pool`.
_MAY_BE_NAMES = frozenset(("min", "max", "total", "count"))
#: ns from which on a time is a date.
_DATES = Decimal(10) ** 17


class _Time(NamedTuple):
    """A time in an object, in ns: what its key calls it, also without words of time, and which statistic it is."""

    key: str
    name: str
    stem: tuple[str, ...]
    statistic: str
    dur: Decimal


def of_records(text: str) -> list[Figure]:
    """The figures of an object at the end of a line, and of the objects in it; none for any other line."""
    stripped = text.rstrip(" ,;.")
    if len(stripped) > _LONGEST or stripped[-1:] not in ("}", "]", ")"):
        return []
    for match in islice(_OPENS.finditer(stripped), _TRIES):
        text = stripped[match.start() :]
        value = _value(text.rstrip(")") if open_brackets(text) < 0 else text)  # defaultdict(..., {...})
        if isinstance(value, (dict, list)):
            before = _WRAPPING.sub("", stripped[: match.start()]).rstrip(" :=,")
            unit = heading(before).unit
            words = _PARTED.split(before)[-1].strip(" \"'")
            label = words if LABEL.fullmatch(words) else match["type"] or ""
            is_key = label and before.strip() in (f'"{label}"', f"'{label}'")  # of an object around it
            return _figures_in(
                value, (label,) if is_key else (), "" if is_key else label, unit if is_time(unit) else ""
            )
    return []


@lru_cache(1024)
def open_brackets(text: str) -> int:
    """How many brackets of a text are open at its end; negative if more are closed."""
    bare = _QUOTED.sub("", text)
    return sum(map(bare.count, "{[(")) - sum(map(bare.count, "}])"))


def opens_record(text: str) -> bool:
    """Whether an object begins in a line, not just a list, and goes on in the next one."""
    stripped = text.strip()
    return stripped != "[" and stripped.endswith(("{", "[", "(", ",")) and open_brackets(text) > 0


def _value(text: str) -> Any:
    """What a literal of JSON or Python means, numbers with decimals exactly; None for another text."""
    if open_brackets(text) or _depth(text) > _DEEPEST:
        return None
    try:
        return json.loads(text, parse_float=exact, parse_constant=str)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text
            return _meant(ast.parse(_OPAQUE.sub(_without_opaque, text), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _without_opaque(match: re.Match[str]) -> str:
    return "None" if match["opaque"] else match[0]


def _depth(text: str) -> int:
    """How many brackets are open at once, at most."""
    depth = deepest = 0
    for sign in text:
        depth += (sign in "{[(") - (sign in "}])")
        deepest = max(deepest, depth)
    return deepest


def _meant(node: ast.expr) -> Any:
    """A node of Python as a value of JSON; a call is the object of its arguments, or what it wraps: `tensor(1.5)`."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_meant(key)): _meant(value) for key, value in pairs if key is not None}
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        members = [_meant(member) for member in node.elts]
        are_pairs = (
            bool(members)
            and isinstance(node, ast.List)
            and all(isinstance(it, ast.Tuple) and len(it.elts) == 2 for it in node.elts)
        )
        return {str(key): value for key, value in members} if are_pairs else members
    if isinstance(node, ast.Constant):
        if isinstance(node.value, float) and math.isfinite(node.value):
            return Decimal(repr(node.value))
        return node.value if node.value is None or isinstance(node.value, (bool, int, str)) else ast.unparse(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _meant(node.operand)
        return -value if isinstance(value, (int, Decimal)) else None
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return _meant(node.args[0])
    if isinstance(node, ast.Call) and node.keywords:
        return {word.arg: _meant(word.value) for word in node.keywords if word.arg}
    return ast.unparse(node)


def _figures_in(value: Any, path: tuple[str, ...], label: str, unit: str) -> list[Figure]:
    """The figures of a value and all objects in it. `path` are the keys above, `unit` is that of bare numbers."""
    if isinstance(value, list):
        members = [_figures_in(member, path, label, unit) for member in value if isinstance(member, dict)]
        figures = [figure for member in members for figure in member]
        if figures:
            figures[0].without += members.count([])
        return figures
    figures = _own(value, path, label, unit)
    name_key = name_key_of(value, NAMES_OF_RECORDS)
    within = (*path, str(value[name_key])) if name_key and path[-1:] != (value[name_key],) else path
    for key, member in value.items():
        if isinstance(member, dict) or (isinstance(member, list) and any(isinstance(one, dict) for one in member)):
            inner = heading(key).unit
            says_nothing = isinstance(member, list) or {*spelling(heading(key).name).split()} <= _OF_TIME | _GROUPING
            deeper = within if says_nothing else (*within, key)
            figures += _figures_in(member, deeper, label, inner if is_time(inner) else unit)
    return figures


def _own(members: Mapping[str, Any], path: tuple[str, ...], label: str, unit: str) -> list[Figure]:
    """The figures of an object's own members."""
    times = _times(members, unit)
    name_key = name_key_of(members, NAMES_OF_RECORDS)
    numbers = {key: Decimal(value) for key, value in members.items() if type(value) is int or _is_decimal(value)}
    is_of_all = any(not time.stem or DEVICE.search(time.key) for time in times)
    timed = [time.key for time in times]
    if name_key == "name" and _OF_LOGS & members.keys():
        return []  # the name of a logger
    if name_key and is_of_all and not any(time.statistic for time in times):
        figure = figure_of_members(members, {time.key: time.dur for time in times}, numbers, label, name_key)
        if figure:
            figure.scope = list(path)
            figure.on_device = figure.on_device and any(map(_OF_DEVICE.search, (name_key, *timed)))
        return [figure] if figure else []
    others = {
        key: value for key, value in members.items() if key not in (name_key, *timed) and not isinstance(value, dict)
    }
    args = {key: plain(value, numbers.get(key)) for key, value in others.items()}
    within = (*path, str(members[name_key])) if name_key else path
    settings = [f"{key}={value}" for key, value in others.items() if type(value) is int]
    if not within and not label and 0 < len(settings) <= _MOST_SETTINGS and len(times) > 1:
        within = tuple(settings)  # the times of one of several objects
    figures = _grouped(times, within, label)
    for figure in figures:
        figure.args = dict(args)
        figure.on_device = name_key is not None and figure.scope == list(path) and bool(_OF_DEVICE.search(name_key))
        figure.adds_up = figure.on_device and "total" in figure.statistics
        if len(figures) == 1:
            figure.take_count()
        if label and not within and figure.name != label:
            figure.args["of"] = label
    return figures


def _grouped(times: Sequence[_Time], path: tuple[str, ...], label: str) -> list[Figure]:
    """A figure for each thing that is timed. The last key above, else the label, is the name of what has none."""
    groups: dict[tuple[str, ...], list[_Time]] = {}
    for time in times:
        groups.setdefault(time.stem, []).append(time)
    figures = []
    for stem, group in groups.items():
        is_total = len(groups) > 1 and not stem and [time.statistic for time in group] == ["total"]
        is_of_above = not is_total and (not stem or (len(groups) == 1 and bool(path and DEVICE.search(group[0].key))))
        name = ("total" if is_total else group[0].name) if not is_of_above else path[-1] if path else label
        if not name:
            continue
        first = next((time for time in group if time.statistic not in ("min", "max", "stddev")), group[0])
        figure = Figure(name, first.dur, scope=list(path[:-1] if is_of_above else path))
        if len(group) > 1 or first.statistic or not is_of_above:
            bare = "value" if len(group) > 1 else "total"
            figure.statistics = {time.statistic or bare: float(time.dur) for time in group}
        figures.append(figure)
    return figures


def _is_decimal(value: Any) -> bool:
    return isinstance(value, Decimal) and value.is_finite()


def _times(members: Mapping[str, Any], unit: str) -> list[_Time]:
    """The times among members, in order, one for each statistic of each thing."""
    times = [time for key, value in members.items() if (time := _time(key, value, unit))]
    times = [time for time in times if not {*_words(time.key)} & _WAITING] or times
    shared = [time.stem for time in times if time.statistic]
    whole: dict[tuple[tuple[str, ...], str], _Time] = {}
    for time in times:
        is_name = time.stem and time.statistic in _MAY_BE_NAMES and shared.count(time.stem) < 2
        words = tuple(word for word in _words(time.key) if word not in _OF_TIME)
        one = time._replace(name=_without_unit(time.key), stem=words, statistic="") if is_name else time
        whole.setdefault((one.stem, one.statistic), one)
    return list(whole.values())


def _time(key: str, value: Any, unit: str) -> _Time | None:
    """The time that a key and its value state; None for any other member."""
    number, stated = value, unit_of(key)
    if isinstance(value, str) and (parsed := quantity(value)) and is_time(parsed.unit):
        number, stated = parsed.number, parsed.unit
    words = _words(key)
    if not stated and unit and not heading(key).unit and not is_no_time(key):
        stated = unit
    if not stated or not (type(number) is int or _is_decimal(number)) or not is_measured(key):
        return None
    dur = ns_of(Decimal(number), stated if stated in TIME_NS else stated.lower())
    named = [word for word in words if word not in _OF_TIME]
    if dur is None or dur >= _DATES or (named and {*named} <= _STAMPS):
        return None
    if "per" in named:
        rest = tuple(named[: named.index("per")])
        return _Time(key, "_".join(rest), rest, "avg", dur)
    kinds = [word for word in (*named[:1], *named[-1:]) if STATISTIC.get(word, "count") != "count"]
    rest = tuple(word for word in named if word not in kinds)
    name = "_".join(rest) if kinds else _without_unit(key)
    return _Time(key, name, rest, STATISTIC[kinds[0]] if kinds else "", dur)


def _words(key: str) -> list[str]:
    """The words of a key without its unit."""
    return spelling(_without_unit(key)).split()


def _without_unit(key: str) -> str:
    return heading(key).name if heading(key).unit else re.sub(r"_s$", "", key)
