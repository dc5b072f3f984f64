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

#: What tools put before a message: a time of day, the place in a script, the level.
_PREFIX = re.compile(
    r"(?:\[?\d\d:\d\d:\d\d(?:\.\d{1,6})?\]? )?(?:[\w.@/-]{1,80}\.[mc]?[jt]s:\d{1,7}(?::\d{1,7})? )?"
    r"(?:\[?(?:log|info|debug|warn|warning|error|verbose)\]?:? )?\s*"
)
_TAG = re.compile(r"\[(?P<tag>[A-Za-z][\w .:/-]{0,40})\]:?\s*")

_NUMBER = r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,18})?|\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?"
_UNITS = "|".join(sorted(TIME_NS, key=len, reverse=True))
_CLEAR = re.compile(
    r"(?P<label>[^\s:=|{}][^=|{}]{0,199}?)(?:\s*[:=]\s*|\s+(?:-|->|→|took|in|after)\s+|\s*\()"
    rf"(?P<number>-?(?:{_NUMBER})) ?(?P<unit>{_UNITS})\)?(?:\s+-\s+timer ended)?\.?"
)
_BARE = re.compile(rf"(?P<label>[^\s=|{{}}][^=|{{}}]{{0,199}}?)\s+(?P<number>-?(?:{_NUMBER})) ?(?P<unit>{_UNITS})\.?")
#: What stands before a label in a list; what follows a duration; a duration that isn't one of each of something.
_MARK = re.compile(r"^(?:[-*•+>|]|\d{1,4}[.)]) +")
_REST = re.compile(
    rf"(?P<text>.{{0,240}}?[\s:=](?:{_NUMBER}) ?(?:{_UNITS})\.?)(?P<rest>(?:\s{{0,20}}[(\[/|,;]|\s\s+).{{0,400}})"
)
_IN_BRACKETS = re.compile(r"\([^()]{0,200}\)|\[[^\[\]]{0,200}\]")
_OTHER_TIME = re.compile(rf"^/\S|(?<![\w.])(?:{_NUMBER}) ?(?:{_UNITS})(?!\w| per )")
#: A label of more words is rather a sentence.
_MOST_WORDS = 10

_ALONE = re.compile(rf"(?:{_NUMBER}) ?(?:{_UNITS})")
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

    `without` are members of the same list that have no duration.
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


def figures_of(text: str) -> list[Figure]:
    """Returns the durations on a line; none if it isn't such a line."""
    if "%c" in text or "\t" in text:
        found = _DEBUG.fullmatch(_PREFIX.sub("", text, count=1).strip())
        if found and (dur := _ns(found["number"], found["unit"])) is not None:
            args = {"output": found["output"].strip(), "size": int(found["size"]), "inputs": found["inputs"].strip()}
            return [Figure(found["label"], dur, on_device=True, args=args)]
    prefix = _PREFIX.match(text)
    rest = text[prefix.end() if prefix else 0 :].strip()
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


@lru_cache(1024)
def label_of(text: str) -> str | None:
    """The label of the first duration on a line; a text is asked again without each layer that is around it."""
    figures = figures_of(text)
    return figures[0].name if figures else None


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
    """`label: 1.23 ms`; without a separator only after a tag, or with a label of one word."""
    if found := _LONG.fullmatch(text):
        seconds = (int(found["h"] or 0) * 60 + int(found["m"])) * 60 + Decimal(found["s"])
        return [Figure(found["label"], seconds * TIME_NS["s"], on_device=False)]
    text, args = _without_rest(text)
    found = _CLEAR.fullmatch(text)
    if not found:
        bare = _BARE.fullmatch(text)
        found = bare if bare and (tagged or " " not in bare["label"] or "  " in text) else None
    if not found:
        return []
    dur, label = _ns(found["number"], found["unit"]), _MARK.sub("", found["label"].strip())
    words = re.sub(r"(?:<|\(\w|\[).*", "", label)  # without the arguments of a kernel
    is_label = label and words.count(" ") < _MOST_WORDS and ". " not in label and not _OTHER_TIME.search(label)
    is_label = is_label and not label[:1].isdigit()
    return [Figure(label, dur, on_device=False, args=args)] if dur is not None and is_label else []


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
