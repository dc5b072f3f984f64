"""Lines of several times of one thing, or with a time before its label.

gemm/64                 time:   [18.1 us 18.5 us 18.9 us]                  Criterion: low, estimate, high
179 us ± 12 us per loop (mean ± std. dev. of 7 runs, 1,000 loops each)     IPython's %timeit
1000 loops, best of 5: 300 ns per loop
Speed: 2.5ms preprocess, 12.0ms inference, 1.5ms postprocess per image     an average of each
Timings in us: init: 1200, first run: 90, warmup (avg): 85
2.98 ms (0.05 GKeys/s) sorting 0.2 Mkeys
"""

from __future__ import annotations

import re
from decimal import Decimal

from ktrace.kit.text.measured import is_measured

from .durations import NUMBER, STATISTIC, TIME, UNITS, Figure, ns_of

_ESTIMATE = re.compile(
    rf"(?P<label>.{{0,200}}?)\s*\btime:\s{{1,40}}\[(?P<low>{NUMBER}) (?P<low_unit>{UNITS}) (?P<mid>{NUMBER}) "
    rf"(?P<unit>{UNITS}) (?P<high>{NUMBER}) (?P<high_unit>{UNITS})\]"
)
_LOOPS = re.compile(
    rf"(?P<mid>{NUMBER}) ?(?P<unit>{UNITS}) (?:±|\+-|\+/-) (?P<std>{NUMBER}) ?(?P<std_unit>{UNITS}) per loop"
    r" \(mean (?:±|\+-|\+/-) std\. dev\. of (?P<runs>\d{1,9}) runs?, (?P<loops>[\d,]{1,20}) loops? each\)"
)
_BEST = re.compile(
    rf"(?P<loops>[\d,]{{1,20}}) loops?, best of (?P<runs>\d{{1,9}}): (?P<mid>{NUMBER}) ?(?P<unit>{UNITS})(?: per loop)?"
)
#: What parts the members of a list.
_BETWEEN = re.compile(r",\s{1,4}|;\s{1,4}|\s\|\s")
_HEAD = re.compile(r"(?:[A-Za-z][\w ]{0,40}: ?)?(?P<rest>\d.*)")
_EACH = re.compile(
    rf"(?P<number>{NUMBER}) ?(?P<unit>{UNITS}) (?P<label>[A-Za-z][\w-]{{1,30}}(?: [A-Za-z][\w-]{{1,30}}){{0,2}})"
)
_AHEAD = re.compile(r"(?P<label>[A-Za-z\[][^:|]{0,60}?)\s?[:|]\s(?P<rest>.{1,2000})")
_WORD_TIME = re.compile(rf"(?P<label>[A-Za-z_][\w.+-]{{0,40}}):? (?P<number>{NUMBER}) ?(?P<unit>{UNITS})(?!\w)")
_PER = re.compile(r" per [a-z]{2,20}(?: .{0,200})?$")
_UNIT_AHEAD = re.compile(
    rf"[A-Za-z][\w ]{{0,60}}(?: in (?P<unit>{UNITS})|\s?[(\[](?P<also>{UNITS})[)\]]):?[\s|]{{1,4}}"
    r"(?P<rest>\S.{0,2000})"
)
_MEMBER = re.compile(rf"(?P<label>[A-Za-z][\w .()-]{{0,60}}?)\s?[:=]\s?(?P<number>{NUMBER})")
_IN_NAME = re.compile(r"\s?[(\[](?P<word>[a-z]\w{1,8})[)\]]$")
_TIME_FIRST = re.compile(
    rf"(?P<number>{NUMBER}) ?(?P<unit>{UNITS})\s{{1,20}}"
    r"(?P<more>\([^()]{1,80}\)\s|\[[^\[\]]{1,80}\]\s)?(?:to )?"
    r"(?P<label>[A-Za-z_<][^=|{}]{0,150})"
)
#: What follows a time in a sentence, or in pytest's list of slow tests.
_GOES_ON = re.compile(
    r"(?:is|was|were|are|for|of|per|on|at|in|and|or|each|when|with|than|while|so|but|the|a|an|after|before|ago|later|long"
    r"|left|faster|slower|apart|total|call|setup|teardown|elapsed|timeout|limit|delay)\b|.*(?:\. |::)"
)
_MOST_WORDS = 9


def of_repeats(text: str) -> Figure | None:
    """The average, or the least, of what was repeated; its name is '' where it stands above."""
    if match := _ESTIMATE.fullmatch(text):
        dur = ns_of(match["mid"], match["unit"])
        ends = {key: f"{match[key]} {match[f'{key}_unit']}" for key in ("low", "high")}
        label = match["label"].strip()
        return Figure(label, dur, args=ends, statistics={"avg": float(dur)}) if dur is not None else None
    match = _LOOPS.fullmatch(text) or _BEST.fullmatch(text)
    dur = ns_of(match["mid"], match["unit"]) if match else None
    if not match or dur is None:
        return None
    args = {"runs": int(match["runs"]), "loops": int(match["loops"].replace(",", ""))}
    if "std" not in match.groupdict():
        return Figure("", dur, args=args, statistics={"min": float(dur)})
    spread = ns_of(match["std"], match["std_unit"])
    statistics = {"avg": float(dur)} | ({"stddev": float(spread)} if spread is not None else {})
    return Figure("", dur, args=args, statistics=statistics)


def of_times_first(text: str) -> list[Figure]:
    """`Speed: 2.5ms preprocess, 12.0ms inference per image`, two at least; and a line with a time before its label."""
    head = _HEAD.fullmatch(text)
    if not head:
        return []
    per = _PER.search(head["rest"])
    rest = head["rest"][: per.start()] if per else head["rest"]
    pieces = [_EACH.fullmatch(piece) for piece in _BETWEEN.split(rest)]
    figures = [figure for match in pieces if match and (figure := _labelled(match, "avg" if per else "total"))]
    if len(figures) == len(pieces) > 1:
        return figures
    match = _TIME_FIRST.fullmatch(text)
    if not match or _GOES_ON.match(match["label"]) or len(match["label"].split()) > _MOST_WORDS:
        return []
    figure = _labelled(match, "")
    if figure:
        figure.is_first = True
    if figure and match["more"]:
        figure.args["rest"] = match["more"].strip()
    return [figure] if figure else []


def of_words(text: str) -> list[Figure]:
    """`step 10: fwd 12 ms, bwd 24 ms`: two words at least, each with its time, and nothing else."""
    match = _AHEAD.fullmatch(text)
    rest = match["rest"] if match else text
    members = list(_WORD_TIME.finditer(rest))
    if len(members) < 2 or _WORD_TIME.sub("", rest).strip(" ,;|/"):
        return []
    figures = [figure for member in members if (figure := _labelled(member, "total"))]
    if len({figure.name for figure in figures}) < len(members):
        return []
    for figure in figures:
        figure.args |= {"of": match["label"]} if match else {}
    return figures


def _labelled(match: re.Match[str], statistic: str) -> Figure | None:
    dur, label = ns_of(match["number"], match["unit"]), match["label"].strip().rstrip(".:,")
    if dur is None or not is_measured(label) or re.search(rf"(?<![\w.]){TIME}(?!\w)", label):
        return None
    return Figure(label, dur, statistics={statistic: float(dur)} if statistic else {})


def of_unit_ahead(text: str) -> list[Figure]:
    """`Timings in us: init: 1200, first run: 90, warmup (avg): 85`: two members at least, all of them with a number."""
    match = _UNIT_AHEAD.fullmatch(text)
    if not match or not is_measured(text[: match.start("rest")]):
        return []
    unit = match["unit"] or match["also"]
    members = [_MEMBER.fullmatch(piece.strip()) for piece in _BETWEEN.split(match["rest"])]
    figures: list[Figure] = []
    for member in members:
        dur = ns_of(member["number"], unit) if member else None
        if member is None or dur is None or not is_measured(member["label"]):
            return []
        figures.append(_with_statistic(member["label"].strip(), dur))
    return figures if len(figures) > 1 else []


def _with_statistic(label: str, dur: Decimal) -> Figure:
    """A figure whose label may end in the statistic that it is: `warmup (avg)`."""
    named = _IN_NAME.search(label)
    statistic = STATISTIC.get(named["word"], "") if named else ""
    name = label[: named.start()] if named and statistic not in ("", "count") else label
    return Figure(name, dur, statistics={statistic if name != label else "total": float(dur)})
