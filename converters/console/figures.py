"""Durations with labels, in single lines and in tables.

Lines have a label before a duration (`label: 1.23 ms`), keys and values, JSON, or come from TensorFlow.js' debug mode.
Tables are those of console.table: drawn, as Node.js prints them, or with tabs, as Chrome copies them.

┌─────────┬──────────┬──────┐        (index)  name    ms
│ (index) │ name     │ ms   │        0        matmul  1.25
├─────────┼──────────┼──────┤
│ 0       │ 'matmul' │ 1.25 │
└─────────┴──────────┴──────┘
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ktrace.kit.text.headings import (
    FIGURES,
    STATISTICS,
    Columns,
    Figures,
    Heading,
    cell_quantity,
    heading,
    is_time,
    read_figures,
)
from ktrace.kit.text.json_items import exact
from ktrace.kit.text.numbers import TIME_NS, to_ns
from ktrace.kit.text.titles import title_of

#: What tools put before a message: a time of day, the place in a script, the level.
_PREFIX = re.compile(
    r"(?:\[?\d\d:\d\d:\d\d(?:\.\d{1,6})?\]? )?(?:[\w.@/-]{1,80}\.[mc]?[jt]s:\d{1,7}(?::\d{1,7})? )?"
    r"(?:\[?(?:log|info|debug|warn|warning|error|verbose)\]?:? )?\s*"
)
_TAG = re.compile(r"\[(?P<tag>[A-Za-z][\w .:/-]{0,40})\]:?\s*")

_NUMBER = r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,18})?|\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?"
_UNITS = "|".join(sorted(TIME_NS, key=len, reverse=True))
_TIME = rf"(?:{_NUMBER}) ?(?:{_UNITS})"
_SIGNED_TIME = rf"(?P<number>-?(?:{_NUMBER})) ?(?P<unit>{_UNITS})"
_CLEAR = re.compile(
    r"(?P<label>[^\s:=|{}][^=|{}]{0,199}?)(?:\s*[:=|]\s*|\s+(?:-|->|→|took|in|after)\s+|\s*\.{2,80}\s*|\s*\()"
    rf"{_SIGNED_TIME}\)?(?:\s+-\s+timer ended)?\.?"
)
_BARE = re.compile(rf"(?P<label>[^\s=|{{}}][^=|{{}}]{{0,199}}?)\s+{_SIGNED_TIME}\.?")
#: What stands before a label in a list; what follows a duration; a duration that isn't one of each of something.
_MARK = re.compile(r"^(?:[-*•+>|]|\d{1,4}[.)]) +")
_REST = re.compile(rf"(?P<text>.{{0,240}}?[\s:=]{_TIME}\.?)(?P<rest>(?:\s{{0,20}}[(\[/|,;]|\s\s+).{{0,400}})")
_IN_BRACKETS = re.compile(r"\([^()]{0,200}\)|\[[^\[\]]{0,200}\]")
_OTHER_TIME = re.compile(rf"^/\S|(?<![\w.]){_TIME}(?!\w| per )")
#: A label of more words is rather a sentence.
_MOST_WORDS = 10

#: How far repeats spread, behind their mean: `1.2 ± 0.1 ms`, `1.2 ms +- 0.1 ms`.
_SPREAD = re.compile(rf"(?P<of_mean> ?(?:{_UNITS}))?\s?(?:±|\+/?-)\s*(?:{_NUMBER})(?P<of_spread> ?(?:{_UNITS})\b)?")
#: A row of cells without headings whose first cell is a time: `| 7.43 ms | gemm |`.
_FIRST = re.compile(rf"\| *(?P<number>{_NUMBER}) ?(?P<unit>{_UNITS}) *\| *(?P<label>[A-Za-z_][^|]{{0,199}}?) *\|?")
#: Words of a label that say which statistic of repeats its time is.
_STATISTIC = {
    **dict.fromkeys(("avg", "average", "mean"), "avg"),
    **dict.fromkeys(("med", "median", "p50"), "median"),
    **{"min": "min", "minimum": "min", "best": "min", "fastest": "min"},
    **{"max": "max", "maximum": "max", "worst": "max", "slowest": "max"},
    **dict.fromkeys(("std", "stddev", "stdev", "sd"), "stddev"),
    **{"p95": "p95", "p99": "p99", "total": "total", "sum": "total"},
    **dict.fromkeys(("count", "calls", "n"), "count"),
}
_TIMED = re.compile(r"times?|latency|duration|runtime|elapsed")
_MEMBER = re.compile(
    rf"(?P<key>[A-Za-z]\w{{0,9}}|\d\d?%)(?:\s?[=:]\s?|\s)(?P<number>{_NUMBER})(?: ?(?P<unit>{_UNITS})(?!\w))?(?!\w)"
)
_UNIT_OF_LABEL = re.compile(rf"\s?[(\[](?:in )?({_UNITS})[)\]](?:\s-\s\d{{1,9}}\s[a-z]{{1,9}}$)?")
#: A time of each of something, which is an average; what says in brackets that a time is one; a label's last word.
_OF_EACH = re.compile(
    rf"(?P<time>\d ?(?:{_UNITS}))(?: ?/ ?| per )(?:iter(?:ation)?|run|call|launch|rep|op|invocation)\b"
)
_OF_REPEATS = re.compile(r"(?i)\b(?:avg|average|mean)\b")
_NAMED_STATISTIC = re.compile(r"(?i)(?P<label>.*[^\s:-])(?:\s*:\s*|\s+-\s+)(?P<word>avg|average|mean|median|min|max)")
#: The unit in the label: `Kernel time (ms): 1.5`. Cells of numbers between the name and its time.
_UNIT_FIRST = re.compile(
    rf"(?P<label>[A-Za-z][^:=|{{}}(\[]{{0,99}}?) ?[(\[](?:in )?(?P<unit>{_UNITS})[)\]] ?[:=] ?(?P<number>{_NUMBER})"
)
_CELLS_BEHIND = re.compile(r"(?P<label>\S.{0,199}?)(?P<cells>(?:\s{2,60}[\d.,]{1,30}%?){1,40})")
#: `[1/3] gemm`, and what is between labels of one line.
_PLACE_IN_LIST = re.compile(r"^[\[(]\s?\d{1,6}\s?/\s?\d{1,6}\s?[\])]\s+")
_GROUP = re.compile(r"(?P<name>\S.{0,99}?) ?[(\[](?P<parts>[^()\[\]]{0,400})[)\]]")
_PARTS = re.compile(r"\s{0,20}[|;]\s{1,20}|,\s{1,20}")
#: Words of which no label is a name: what was done, and that it is a time. The name stands in a line above.
_SAYS_TIME = re.compile(
    r"(?i)(?:(?:time|elapsed|taken|took|takes|duration|runtime|latency|finished|completed|done|kernel|execution|exec|run|gpu"
    r"|device|total|avg|average|mean|median|min|minimum|best|max|maximum)\b[\s:_-]*){1,4}"
)
_NAMING = re.compile(
    r"(?i)(?:(?:running|executing|launching|launched|benchmarking|profiling|timing|testing|starting)\s{1,20}(?:the\s{1,20})?)?"
    r"(?:kernel|function|op|operator|layer|benchmark|test|case|pass|shader|program|name)\b(?:\s{1,20}name)?(?:\s{0,20}[:=])?\s{1,40}"
    r"(?P<quote>['\"`]?)(?P<name>[A-Za-z_][^'\"`=|]{0,199}?)(?P=quote)(?:\s?\.{3}|:)?"
)

_HEADED = re.compile(r"(?P<name>[A-Za-z_]\S{0,199}):")

_ALONE = re.compile(_TIME)
_LONG = re.compile(
    r"(?P<label>\S.{0,199}?):\s*(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,4}):(?P<s>\d\d(?:\.\d{1,9})?) \((?:h:)?m{1,2}:ss\.mmm\)"
)
_PAIR = re.compile(r'([A-Za-z_][\w.]{0,60})=("[^"]{0,500}"|[^\s"]{1,500})')
_DEBUG = re.compile(
    rf"(?:%c)?(?P<label>[\w./-]{{1,100}}) *\t(?:%c)?(?P<number>{_NUMBER})(?P<unit>ms) *\t"
    r"(?:%c)?(?P<output>[^\t]{0,200})\t(?:%c)?(?P<size>\d{1,18}) *\t(?:%c)?(?P<inputs>[^\t]{0,2000})(?:\t.*)?"
)

#: Keys of a name and of the two ends of an interval, in lower case.
_NAMES = ("kernel", "name", "op", "label", "pass", "shader", "pipeline", "program", "stage")
_BEGINS, _ENDS = ("begin", "start"), ("end", "stop")
_UNIT_OF_KEY = re.compile(r"(?:(?:^|.*_)(ns|us|ms)|.*[a-z0-9](Ns|Us|Ms))")

#: Words of device work in a tag, or in the key of a name or a duration.
DEVICE = re.compile(r"(?i)gpu|webgl|kernel|shader|pass|dispatch|compute|pipeline")
#: Words in keys of durations, the best first; a key without any comes before the last.
_BEST = ("gpu", "kernel", "time", "dur", "elapsed", "exec", "wall", "")

_SIZES = {"grid": "grid", "workgroups": "grid", "dispatch": "grid", "block": "block", "workgroup_size": "block"}
_DIMS = re.compile(r"(\d{1,9})[x,](\d{1,9})[x,](\d{1,9})")

#: The longest line that is searched for keys and values.
_LONGEST_PAIRS = 10_000

#: Durations and times are below 2^61 ns.
_LIMIT, _DIGITS = 1 << 61, 19

#: How far the ends of an interval may be from the duration next to them.
_TOLERANCE, _LEAST_TOLERANCE = Decimal("0.01"), Decimal(1000)


@dataclass
class Figure:
    """A labelled duration in ns. `interval` is start and length, in whole ns, where the line has both ends.

    `without` are members of the same list that have no duration. `statistics` are those of repeats, as columns of a
    summary, of which `dur` is the first: no part of a sum.
    """

    name: str
    dur: Decimal
    on_device: bool
    tag: str | None = None
    interval: tuple[int, int] | None = None
    is_rounded: bool = False
    without: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, float] = field(default_factory=dict)


def figures_of(text: str) -> list[Figure]:
    """Returns the durations on a line; none if it isn't such a line."""
    if "%c" in text or "\t" in text:
        found = _DEBUG.fullmatch(_PREFIX.sub("", text, count=1).strip())
        if found and (dur := _ns(found["number"], found["unit"])) is not None:
            args = {"output": found["output"].strip(), "size": int(found["size"]), "inputs": found["inputs"].strip()}
            return [Figure(found["label"], dur, on_device=True, args=args)]
    rest = _without_prefix(text)
    tagged = _TAG.match(rest)
    tag = tagged["tag"] if tagged else None
    if tagged:
        rest = rest[tagged.end() :]
        if _ALONE.fullmatch(rest):
            rest = f"{tag} {rest}"
    figures = _of_json(rest) or _of_pairs(rest) or _of_label(rest, tagged=tag is not None)
    for figure in figures:
        figure.tag = tag
        figure.on_device |= bool(tag and DEVICE.search(tag))
    return figures


def _without_prefix(text: str) -> str:
    """A line without what tools put before a message."""
    prefix = _PREFIX.match(text)
    return text[prefix.end() if prefix else 0 :].strip()


@lru_cache(1024)
def labels_of(text: str) -> tuple[str, ...]:
    """The labels of the durations on a line; a text is asked again without each layer that is around it."""
    return tuple(figure.name for figure in figures_of(text))


def _ns(number: str | Decimal, unit: str) -> Decimal | None:
    exact = Decimal(number.replace(",", "")) if isinstance(number, str) else number
    if _is_great(exact):
        return None
    exact *= TIME_NS[unit]
    return exact if abs(exact) < _LIMIT else None


def _is_great(number: Decimal) -> bool:
    """Whether a number is beyond all times; such a one may be beyond what decimal can compute with, too."""
    return not number.is_finite() or number.adjusted() >= _DIGITS


def _of_label(text: str, *, tagged: bool) -> list[Figure]:
    """`label: 1.23 ms`; without a separator only after a tag, or with a label of one word.

    Several labels, each with its time, may be parts of one another: `forward: 1 ms | backward: 2 ms` are figures.
    """
    if found := _LONG.fullmatch(text):
        seconds = (int(found["h"] or 0) * 60 + int(found["m"])) * 60 + Decimal(found["s"])
        return [Figure(found["label"], seconds * TIME_NS["s"], on_device=False)]
    if found := _FIRST.fullmatch(text):
        dur = _ns(found["number"], found["unit"])
        return [Figure(found["label"], dur, on_device=False)] if dur is not None else []
    text = _PLACE_IN_LIST.sub("", text)
    if text.startswith("| ") and text.count("|") > 1:  # a row without headings
        text = text[2:].rstrip("| ")
    if figure := _of_statistics(text) or _of_single(text, tagged=tagged):
        return [figure]
    grouped = _GROUP.fullmatch(text)
    whole = f"{grouped['name']}, " if grouped and not _OTHER_TIME.search(grouped["name"]) else ""
    pieces = _PARTS.split(grouped["parts"] if grouped and whole else text)
    are_labels = all((":" in piece or "=" in piece) and piece.count("(") == piece.count(")") for piece in pieces)
    parts = [_of_single(piece, tagged=False) if are_labels else None for piece in pieces]
    figures = [part for part in parts if part]
    names = {figure.name for figure in figures if not figure.statistics and not _NAMED_STATISTIC.fullmatch(figure.name)}
    if len(figures) < max(len(parts), 2) or len(names) < len(figures):
        return []
    for figure in figures:
        figure.name, figure.statistics = whole + figure.name, {"total": float(figure.dur)}
    return figures


def _of_single(text: str, *, tagged: bool) -> Figure | None:
    """The label of a line, or of a part of one, with its only time."""
    single = _SPREAD.sub(lambda spread: spread["of_mean"] or spread["of_spread"] or "", text)
    rate = _OF_EACH.sub(r"\g<time>", single)
    statistic = "avg" if rate != text else ""
    text, args = _without_rest(rate)
    found = _CLEAR.fullmatch(text) or _UNIT_FIRST.fullmatch(text)
    if not found:
        bare = _BARE.fullmatch(text)
        found = bare if bare and (tagged or " " not in bare["label"] or "  " in text) else None
    if not found:
        return None
    dur, label = _ns(found["number"], found["unit"]), _MARK.sub("", found["label"].strip().rstrip(","))
    words = re.sub(r"(?:<|\(\w|\[).*", "", label)  # without the arguments of a kernel
    is_label = label and len(words.split()) <= _MOST_WORDS and ". " not in label and not _OTHER_TIME.search(label)
    is_half = label.count("(") > label.count(")") and ")" in args.get("rest", "")
    if dur is None or not is_label or is_half or label[:1].isdigit():
        return None
    if cells := _CELLS_BEHIND.fullmatch(label):
        label, args["before"] = cells["label"], cells["cells"].strip()
    if named := _NAMED_STATISTIC.fullmatch(label):
        label, statistic = named["label"], _STATISTIC[named["word"].lower()]
    statistic = statistic or _statistic_in(label) or ("avg" if _OF_REPEATS.search(args.get("rest", "")) else "")
    return Figure(label, dur, on_device=False, args=args, statistics={statistic: float(dur)} if statistic else {})


def _statistic_in(label: str) -> str:
    """The statistic that a label states of a time, `avg` for `Average kernel time`; "" for none, as for `max pool`."""
    words = re.findall(r"[^\s()\[\],]+", label.lower())
    found = [key for word in words if (key := _STATISTIC.get(word, "")) not in ("", "count", "total")]
    is_time = any(_TIMED.fullmatch(word) for word in words) or len(words) == 1 or bool({*words} & {"avg", "average"})
    return found[0] if len(found) == 1 and is_time else ""


def _of_statistics(text: str) -> Figure | None:
    """`load: count = 5, avg = 15.88 ms` and `sort - avg 1.2 ms (min 1.0, max 1.4)`: two statistics of one thing.

    A number without a unit has that of the time before it, else of the label, `sort times (in seconds)`, or of the only
    one that has any. None if a member is of another kind, or none is a middle or a total.
    """
    members = list(_MEMBER.finditer(text))
    if len(members) < 2 or not members[0].start():
        return None
    between = [text[one.end() : two.start()] for one, two in pairwise(members)] + [text[members[-1].end() :]]
    whole = text[: members[0].start()].rstrip(" (:-=,[|").strip()
    stated, label = _UNIT_OF_LABEL.search(whole), _MARK.sub("", _UNIT_OF_LABEL.sub("", whole))
    keys = [_STATISTIC.get(member["key"].lower(), "") for member in members]
    known = [key for key in keys if key]
    others = [member["key"] for member, key in zip(members, keys, strict=True) if not key and "%" not in member["key"]]
    if others or len({*known}) < len(known) or not {*known} & {"avg", "median", "total"} or not label[:1].isalpha():
        return None
    if any(gap.strip(" ,;/()|[]") for gap in between) or label.count(" ") >= _MOST_WORDS or _OTHER_TIME.search(label):
        return None
    units = [member["unit"] for member in members if member["unit"]]
    unit = stated[1] if stated else units[-1] if len({*units}) == 1 else ""
    statistics: dict[str, float] = {}
    for member, key in zip(members, keys, strict=True):
        if key == "count":
            statistics[key] = int(member["number"].replace(",", "")) if member["number"].isdigit() else -1
        elif key:
            unit = member["unit"] or unit
            dur = _ns(member["number"], unit) if unit else None
            statistics[key] = -1 if dur is None else float(dur)
    if any(value < 0 for value in statistics.values()):
        return None
    first = next(Decimal(value) for key, value in statistics.items() if key in ("avg", "median", "total"))
    return Figure(label, first, on_device=False, statistics=statistics)


def says_time_alone(label: str) -> bool:
    """Whether a label has no name, such as `Completed kernel` and `Average time`: what was timed stands above it."""
    return _SAYS_TIME.fullmatch(label) is not None


def named_in(text: str, below: str) -> str | None:
    """What a line says is timed below it: X for `Running kernel 'X'`, `Kernel: X`, `=== X ===`, and for `X:` above
    lines that are indented; None for another line.
    """
    rest = _without_prefix(text)
    if title := title_of(1, text):
        return title.text
    tagged = _TAG.match(rest)
    found = _NAMING.fullmatch(rest[tagged.end() :] if tagged else rest)
    is_name = found and (found["quote"] or found["name"].count(" ") < 1 or "(" in found["name"] or "<" in found["name"])
    if found and is_name:
        return found["name"].strip()
    headed = _HEADED.fullmatch(rest) if indent_of(below) > indent_of(text) else None
    return headed["name"] if headed else None


def indent_of(text: str) -> int:
    """How many blanks a line begins with."""
    return len(text) - len(text.lstrip())


def _without_rest(text: str) -> tuple[str, dict[str, str]]:
    """A line without what it says behind its duration, and that as an argument; unchanged if that is another duration.

    `load: 3.9 ms (0.9%) [0.7 GB/s]`, `encode time = 134.3 ms / 5.6 ms per layer`, `forward   0.05 ms | 5061 GB/s`.
    """
    found = _REST.fullmatch(text.replace("**", "").replace("`", ""))
    if not found or _OTHER_TIME.search(_IN_BRACKETS.sub("", found["rest"])):
        return text, {}
    return found["text"], {"rest": found["rest"].strip()}


def _of_pairs(text: str) -> list[Figure]:
    """`kernel=fill gpu_ms=1.5 grid=8x1x1`: two pairs at least."""
    if len(text) > _LONGEST_PAIRS:
        return []
    pairs = {key: value.strip('"') for key, value in _PAIR.findall(text)}
    if len(pairs) < 2:
        return []
    numbers = {
        key: Decimal(value.replace(",", "")) for key, value in pairs.items() if re.fullmatch(rf"-?(?:{_NUMBER})", value)
    }
    others = " ".join(_PAIR.sub(" ", text).split()).strip(" :,;|")
    figure = _of_members(pairs, numbers, others)
    return [figure] if figure else []


def _of_json(text: str) -> list[Figure]:
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
    if key is None or not name:
        return None
    dur = _ns(numbers[key], times[key])
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
    if _is_great(low) or _is_great(high):
        return None
    for unit in ("ns", "us", "ms", "s"):
        length = (high - low) * TIME_NS[unit]
        if length > 0 and abs(length - dur) <= max(dur * _TOLERANCE, _LEAST_TOLERANCE):
            (start, exact), (stop, also) = (to_ns(value, unit) for value in (low, high))
            fits = max(abs(start), abs(stop)) < _LIMIT
            return ((start, stop - start), {begin, end}, not (exact and also)) if fits else None
    return None


def _plain(value: Any, number: Decimal | None) -> Any:
    """A value for `args`: numbers of texts and of JSON as numbers."""
    if number is None or isinstance(value, bool):
        return json.loads(json.dumps(value, default=float))
    if _is_great(number):
        return str(value)
    return int(number) if number == number.to_integral_value() else float(number)


INDEX = "(index)"
RULE = re.compile(r"\s*[┌├└╔╠╚][─┬┼┴┐┤┘═╦╬╩╗╣╝]+\s*")

_HEADINGS = (
    "kernel",
    "name",
    "op",
    "label",
    "pass",
    "shader",
    "pipeline",
    "stage",
    "operation",
    "operator",
    "kernel name",
)
_COLUMNS = Columns({"name": _HEADINGS, **STATISTICS}, ())


@dataclass(frozen=True)
class Box:
    """An open table: its headings, and field -> index of its column; None for a table without times."""

    headings: tuple[Heading, ...]
    fields: dict[str, int] | None

    def row(self, text: str) -> tuple[str, Figures] | None:
        """Returns the name and the figures of a row; None if the line isn't one or has no figures."""
        cells = cells_of(text)
        if cells is None or len(cells) != len(self.headings) or self.fields is None:
            return None
        name = cells[self.fields["name"]]
        fields = {field: index for field, index in self.fields.items() if field != "name"}
        shown = [cell if index != self.fields["name"] else "" for index, cell in enumerate(cells)]
        figures = read_figures(self.headings, shown, fields)
        times = figures.columns.get("unit") == "ns" and any(field in figures.columns for field in FIGURES)
        return (name, figures) if times and name else None


def cells_of(text: str) -> list[str] | None:
    """Returns the cells of a line of a table, without quotes; None for any other line."""
    text = text.strip("\r\n")
    if text.lstrip().startswith("│") and text.rstrip().endswith("│"):
        cells = text.strip()[1:-1].split("│")
    elif "\t" in text:
        cells = text.split("\t")
    else:
        return None
    return [_unquoted(cell.strip()) for cell in cells]


def _unquoted(cell: str) -> str:
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] and cell[0] in "'\"" else cell


def box_of(text: str, below: str) -> Box | None:
    """Returns the table whose headings are on a line; `below` is its first row. None for any other line."""
    cells = cells_of(text) if INDEX in text else None
    if not cells or cells[0] != INDEX:
        return None
    first = cells_of(below) or []
    headings = tuple(_with_unit(heading(cell)) for cell in cells)
    fields = _COLUMNS.match(headings[1:]) or {}
    fields = {field: index + 1 for field, index in fields.items()}
    times = [index for index, head in enumerate(headings) if is_time(head.unit) or _is_time(first, index)]
    if not any(fields.get(field) in times for field in FIGURES):
        free = [index for index in times if index not in fields.values()]
        if not free:
            return Box(headings, None)
        fields = {field: index for field, index in fields.items() if field not in FIGURES} | {"total": free[0]}
    return Box(headings, {"name": 0} | fields)


def _with_unit(head: Heading) -> Heading:
    """A column that is called ms has ms."""
    return replace(head, unit=head.name) if not head.unit and head.name in ("ns", "us", "ms") else head


def _is_time(cells: list[str], index: int) -> bool:
    found = cell_quantity(cells[index]) if index < len(cells) else None
    return found is not None and is_time(found.unit)
