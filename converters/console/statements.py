"""Lines that say several things of one subject: keys with values, of which some are times.

[rank 1] dispatch bandwidth: 42.2 GB/s, avg_t=521.9 us, min_t=517.4 us     statistics of what the rate is of
gemm(v2): ['0.5', '0.25'], time:3.5 ms, TFLOPS:40                          a time of what stands before its results
profile (n=60): barrier=0.2ms (max 0.3)  wait=8.3ms                        keys that are names, with statistics behind
Range (min … max):  1.4 μs …  5.1 μs                                       keys, then values in the same order

the kernel vec_add took 3.2 ms, while ...                                          a name of a program in a sentence

A line is read if each of its times has a key; what else it says are arguments. Of a sentence only such times are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.kit.text.headings import spelling
from ktrace.kit.text.measured import is_measured

from .durations import NUMBER, STATISTIC, TIME, UNITS, Figure, ns_of

_LONGEST, _MOST_WORDS = 2000, 8

_STATISTICS = STATISTIC | {"σ": "stddev", "mdev": "stddev", "ave": "avg"}
#: Words of a key that say that its value is a time.
_OF_TIME = frozenset(("t", "time", "times", "latency", "lat", "dur", "duration", "elapsed", "runtime", "cost", "took"))
_OF_RATES = re.compile(r"(?i)(?<!\s)\s*(?:bandwidth|throughput|bus ?bw|alg ?bw|rate|speed|performance)$")

_ANY_TIME = re.compile(rf"(?<![\w.]){TIME}(?![\w/])")
#: A key and a time, and what is behind it in brackets; a key and another value; a statistic in brackets.
_TIMED = re.compile(
    rf"(?P<key>[^\W\d][^=:]{{0,99}}?)\s{{0,3}}(?:[=:]\s{{0,40}}|\s{{1,3}})(?P<number>{NUMBER}) ?(?P<unit>{UNITS})"
    r"(?![\w/])(?P<rest>(?:\s*[(\[][^()\[\]]{0,80}[)\]])*)\.?"
)
_PAIR = re.compile(r"(?P<key>\(?[^\W\d][^=:]{0,99}?)\s*[=:]\s*(?P<value>\S.{0,400})", re.DOTALL)
_BEHIND = re.compile(rf"[(\[]\s*(?P<key>[A-Za-z]\w{{1,6}})\s?[=:]?\s?(?P<number>{NUMBER})\s?(?P<unit>{UNITS})?\s*[)\]]")
_BEFORE_PAIR = re.compile(
    r"(?:(?<=[\d)\]\"'%:])|(?<=[\d ]s)|(?<=[\d ][mnu]s))\s+(?=[A-Za-z_][\w/.]{0,40}[=:]\s?[\d.'\"\[]+)"
)
_WHOLE = re.compile(r"\d{1,12}")
_BARE_NUMBER = re.compile(rf"(?:{NUMBER})[.,]?")
_NAME = re.compile(r"[^\W\d](?:.*[\w)\]>])?")

_KEY = r"(?:" + "|".join(sorted(_STATISTICS, key=len, reverse=True)) + ")"
_BETWEEN = r"\s{0,9}(?:,|/|…|\.{2,3}|±|\+/-|\|)\s{0,9}"
_SERIES = re.compile(
    rf"(?P<label>[A-Za-z].{{0,99}}?)??\s{{0,9}}[(\[]?(?P<keys>{_KEY}(?:{_BETWEEN}{_KEY}){{1,5}})[)\]]?\s{{0,4}}[:=]\s{{0,20}}"
    rf"(?P<values>(?:{NUMBER}) ?(?:{UNITS})?(?:{_BETWEEN}(?:{NUMBER}) ?(?:{UNITS})?){{1,5}})(?:\s{{1,40}}[┊|(\[].*)?",
    re.IGNORECASE,
)
_VALUE = re.compile(rf"(?P<number>{NUMBER}) ?(?P<unit>{UNITS})?")


def of_series(text: str) -> Figure | None:
    """`Range (min … max): 1.4 μs … 5.1 μs`: statistics, and their values in the same order; one of these has a unit."""
    match = _SERIES.fullmatch(text) if len(text) < _LONGEST else None
    if not match:
        return None
    keys = [_STATISTICS[key.lower()] for key in re.split(_BETWEEN, match["keys"])]
    values = [_VALUE.fullmatch(value.strip()) for value in re.split(_BETWEEN, match["values"])]
    units = [value["unit"] for value in values if value and value["unit"]]
    if len(values) != len(keys) or len({*keys}) < len(keys) or not units or "count" in keys or not is_measured(text):
        return None
    statistics: dict[str, float] = {}
    for key, value in zip(keys, values, strict=True):
        dur = ns_of(value["number"], value["unit"] or units[-1]) if value else None
        if dur is None:
            return None
        statistics[key] = float(dur)
    first = next(key for key in ("avg", "median", "total", *keys) if key in statistics)
    number = values[keys.index(first)]
    dur = ns_of(number["number"], number["unit"] or units[-1]) if number else None
    return Figure((match["label"] or "").strip(), dur, statistics=statistics) if dur is not None else None


_CHANGE = re.compile(
    rf"(?:[-*•+] )?(?P<label>[A-Za-z].{{0,160}}?)\s?[:=]\s*\(?(?P<before>{NUMBER}) ?(?P<unit>{UNITS})?\)?\s*"
    rf"(?P<sign>->|→|=>|⟶|vs\.?(?=[\s(]))\s*\(?(?P<after>{NUMBER}) ?(?P<last>{UNITS})(?![\w/])\)?(?:[\s,;].{{0,200}})?"
)
_CHANGED = re.compile(r"->|→|=>|⟶|\svs\b")
#: The ends of the times of repeats, and their mean: `Duration: 7.1 - 7.3 us (avg=7.2)`.
_SPAN = re.compile(
    rf"(?P<label>[A-Za-z][^:=]{{0,99}})\s?[:=]\s*(?P<low>{NUMBER}) ?(?P<unit>{UNITS})?\s?(?:-|–|…|\.\.)\s?"
    rf"(?P<high>{NUMBER}) ?(?P<last>{UNITS})\s?[(\[](?P<key>avg|mean|median)\s?[=:]\s?(?P<mid>{NUMBER})"
    rf"(?: ?(?:{UNITS}))?[)\]]"
)


def of_span(text: str) -> Figure | None:
    """`Duration: 7.1 - 7.3 us (avg=7.2)`: the least, the greatest and the mean time of repeats."""
    match = _SPAN.fullmatch(text) if len(text) < _LONGEST else None
    if not match or not is_measured(match["label"]):
        return None
    units = {"low": match["unit"] or match["last"], "high": match["last"], "mid": match["last"]}
    low, high, mid = (ns_of(match[end], unit) for end, unit in units.items())
    if low is None or high is None or mid is None or not low <= mid <= high:
        return None
    statistics = {_STATISTICS[match["key"]]: float(mid), "min": float(low), "max": float(high)}
    return Figure(match["label"].strip(), mid, statistics=statistics)


def of_change(text: str) -> list[Figure]:
    """`RoPE, 8192 x 128: 47.7 us -> 38.8 us (18.6%)`: two figures, before and after."""
    match = _CHANGE.fullmatch(text) if len(text) < _LONGEST and _CHANGED.search(text) else None
    if not match or not is_measured(match["label"]) or _ANY_TIME.search(match["label"]):
        return []
    units = {"before": match["unit"] or match["last"], "after": match["last"]}
    ends = ("before", "after") if not match["sign"].startswith("vs") else ("first", "second")
    times = {end: ns_of(match[when], unit) for end, (when, unit) in zip(ends, units.items(), strict=True)}
    name = match["label"].replace("**", "").replace("`", "").strip()
    return [
        Figure(f"{name}, {when}", dur, statistics={"total": float(dur)})
        for when, dur in times.items()
        if dur is not None
    ]


_IN_PROSE = re.compile(
    r"(?i:kernel|operator|op|layer|shader|pass)s? "
    r"(?P<quote>[`'\"]?)(?P<name>[A-Za-z_]\w*(?:::\w+){0,9}(?:<[^<>\s]{1,60}>)?)(?P=quote)"
    rf" (?:takes?|took|runs? (?:for|in)|ran (?:for|in)|(?:finished|completed) in|needs|needed) (?:only |about |~)?"
    rf"(?P<number>{NUMBER}) ?(?P<unit>{UNITS})(?![\w/])(?! (?:less|more|faster|slower|longer)\b)"
)
_PROGRAM_NAME = re.compile(r".*[_:<\d].*|[a-z]+[A-Z].*")


def of_prose(text: str) -> list[Figure]:
    """`The kernel vec_add took 3.2 ms`: times in a sentence, each behind a name that only a program has."""
    matches = list(_IN_PROSE.finditer(text)) if len(text) < _LONGEST else []
    matches = [one for one in matches if one["quote"] or _PROGRAM_NAME.fullmatch(one["name"])]
    times = [(one["name"], ns_of(one["number"], one["unit"])) for one in matches]
    if len({name for name, _ in times}) < len(times):
        return []
    return [Figure(name, dur, statistics={"total": float(dur)}) for name, dur in times if dur is not None]


def statistic_of(key: str) -> str:
    """The statistic that a key is, without words of time: avg for `avg_t` and `Mean time`; '' for a name."""
    words = [word for word in spelling(key).split() if word not in _OF_TIME]
    return _STATISTICS.get(words[0], "") if len(words) == 1 else ""


def says_time(key: str) -> bool:
    """Whether a key has words of time alone: `time`, `elapsed time`."""
    return {*spelling(key).split()} <= _OF_TIME


def of_statement(text: str) -> list[Figure]:
    """The times of a line, each with its key; [] if one of them has none, or if nothing says what statistics are of."""
    if len(text) > _LONGEST or not _ANY_TIME.search(text):
        return []
    figures: list[Figure] = []
    args: dict[str, Any] = {}
    settings: list[str] = []
    subject = ""
    for piece in _pieces(text):
        timed = _TIMED.fullmatch(piece)
        if not timed:
            if _ANY_TIME.search(piece):
                return []
            pair = _PAIR.fullmatch(piece)
            if not pair:
                subject = piece.rstrip(":") if _NAME.fullmatch(piece.rstrip(":")) else subject
            else:
                value = pair["value"]
                args[pair["key"]] = int(value) if _WHOLE.fullmatch(value) else value
                settings += [f"{pair['key']} {value}"] if _WHOLE.fullmatch(value) else []
                if not _BARE_NUMBER.fullmatch(value):
                    subject = value if _NAME.fullmatch(value) and not figures else _OF_RATES.sub("", pair["key"])
            continue
        dur = ns_of(timed["number"], timed["unit"])
        if dur is None or not is_measured(timed["key"]) or _ANY_TIME.search(timed["key"]):
            return []
        statistic = statistic_of(timed["key"])
        is_of_subject = bool(statistic and (subject or statistic != "total")) or says_time(timed["key"])
        name = (subject or ", ".join(settings)) if is_of_subject else timed["key"].strip()
        if not _is_name(name):
            return []
        last = figures[-1] if figures and figures[-1].name == name else None
        statistics = {statistic or "total": float(dur)} | statistics_behind(timed["rest"], timed["unit"])
        if last and statistic and statistic not in last.statistics:
            last.statistics |= statistics
        elif last:
            return []
        else:
            figures.append(Figure(name, dur, statistics=statistics))
    for figure in figures:
        figure.args |= args
        if len(figures) == 1:
            figure.take_count()
    return figures if len({figure.name for figure in figures}) == len(figures) else []


def _is_name(text: str) -> bool:
    """Whether a text may be what times are of: a few words, no sentence, brackets that are closed."""
    closed = all(text.count(first) == text.count(last) for first, last in ("()", "[]", "{}"))
    return bool(text) and closed and len(text.split()) <= _MOST_WORDS and ". " not in text and is_measured(text)


def statistics_behind(text: str, unit: str) -> dict[str, float]:
    """The statistics in brackets behind a time, in its unit unless they have one."""
    figures: dict[str, float] = {}
    for member in _BEHIND.finditer(text):
        key = _STATISTICS.get(member["key"].lower(), "count")
        dur = ns_of(member["number"], member["unit"] or unit)
        if key not in ("count", "total") and dur is not None:
            figures[key] = float(dur)
    return figures


def _pieces(text: str) -> Iterator[str]:
    """The parts of a line: between commas, bars and wide gaps that aren't in brackets, and before keys."""
    depth = begin = at = 0
    while at < len(text):
        sign = text[at]
        depth += (sign in "([{") - (sign in ")]}")
        is_gap = text.startswith("  ", at) and text[begin:at].rstrip()[-1:] not in (":", "=", "")
        is_mark = sign in ",;|·" and (text[at + 1 : at + 2].isspace() or text[at - 1 : at].isspace())
        if depth <= 0 and (is_gap or is_mark):
            yield from _split(text[begin:at])
            begin = at + 1
        at += 1
    yield from _split(text[begin:])


def _split(text: str) -> Iterator[str]:
    """A part at the blanks before its further keys."""
    yield from (piece for part in _BEFORE_PAIR.split(text.strip()) if (piece := part.strip(" ,;|")))
