"""Durations with labels in single lines.

Lines have a label before a duration (`label: 1.23 ms`), keys and values, JSON, or come from TensorFlow.js' debug mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS
from ktrace.kit.text.titles import title_of

from .durations import NUMBER, STATISTIC, TIME, UNITS, Figure, is_no_time, ns_of
from .lists import of_repeats, of_times_first, of_unit_ahead, of_words
from .members import DEVICE, of_pairs
from .records import of_records
from .statements import of_change, of_prose, of_series, of_span, of_statement, statistic_of, statistics_behind

#: What tools put before a message: a time of day or since the start, the place in a program, the level.
_STAMP = (
    r"(?:\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[[^\[\]]{0,40}\d\d:\d\d:\d\d[^\[\]]{0,20}\]|\[\s{0,9}\d{1,9}\.\d{3,9}\])\s{1,4}"
)
_PLACE = r"(?:[\w.@/-]{1,80}\.[A-Za-z]{1,4}:\d{1,7}(?::\d{1,7})?\s{1,9}(?:- {1,4})?|\[\w{1,60}, \d{1,7}\]: )"
_LEVEL = (
    r"\[?(?:log|info|debug|warn|warning|error|verbose)\]?:? |\[(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE) {0,4}\]:?\s{0,9}"
    r"|(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE)\b:?\s{1,9}|[IWEFDV] (?=[\w./-]{1,80}\.[a-z]{1,4}:\d)|\[[IWEFDV]\] "
)
_PREFIX = re.compile(rf"\s*(?:{_STAMP})?(?:{_PLACE})?(?:{_LEVEL})?(?:{_PLACE})?\s*")
#: The branches of a tree before a label, and the word for the end of a part.
_TREE = re.compile(r"(?:[│┃┆├┝┣┠└┕┗╰╭┏┌─━┄·‧]{1,9}\s{0,20}){1,40}|(?:\|\s{1,9}){1,40}(?=\d[^|]*$)|\|[-=]{0,4}>\s{1,9}")
_ENDED = re.compile(r"(?:End|Ended|Finished|Done|Completed):\s{1,9}(?=\S)")
_TAG = re.compile(r"\[(?P<tag>[A-Za-z][\w .:/-]{0,40})\]:?\s*")

_SIGNED_TIME = rf"(?P<number>-?(?:{NUMBER})) ?(?P<unit>{UNITS})"
_CLEAR = re.compile(
    r"(?P<label>[^\s:=|{}][^=|{}]{0,199}?)(?:\s*[:=|]\s*|\s+(?:-|->|→|took|takes|taking|is taking|in|after|is|was)\s+"
    r"|\s*\.{2,80}\s*|\s*[(\[]\s{0,4}(?:took )?)"
    rf"{_SIGNED_TIME}(?:\s{{0,4}}[)\]])?(?:\s+-\s+timer ended)?\.?"
)
#: What says that something has ended, behind its name; the start of a sentence.
_DONE = re.compile(
    r"(?i)(?:[\s,.]{1,4}(?:finished|completed?|done|(?:time )?elapsed|taking|took|takes|is|was|in)){1,3}$"
)
_PRONOUN = re.compile(r"(?i)(?<=\S)\s?[:,-]\s(?:it|this|that)$")
_SENTENCE = re.compile(r"(?i)(?:it|this|that|these|we|i|the|a|an|our|my|there|they|he|she|which|who|what|if|when)\s")
#: How runners of tests begin a line.
_OF_TESTS = re.compile(
    r"[-\s]{0,5}\[?\s{0,12}(?:(?:PASS(?:ED)?|FAIL(?:ED)?|OK|ok|RUN|SKIPPED|-{3,12})\b|[✓✔✗✘×√-]{1,12}\s?\]?)"
)
_SAID = re.compile(r"\s(?:is|was)\s+\S+\s?\S*$")
_BARE = re.compile(rf"(?P<label>[^\s=|{{}}][^=|{{}}]{{0,199}}?)\s+{_SIGNED_TIME}\.?")
#: Parameters in a label, `gemm(M=8, N=8)` and `M=8 N=8`, whose sign is written otherwise while the label is looked for.
_PARAMETERS = re.compile(
    rf"\([^()]{{0,200}}\)|\[[^\[\]]{{0,200}}\]|(?<!\S)[A-Za-z_]\w{{0,40}}=(?!{TIME}(?!\w))[^\s=,;]{{1,60}}(?!\S)"
)
_EQUALS = "\x01"
#: What stands before a label in a list; what follows a duration; a duration that isn't one of each of something.
_MARK = re.compile(r"^(?:[-*•+>|^]|#{1,6}|\d{1,4}[.)]) +")
_REST = re.compile(
    rf"(?P<text>.{{0,240}}?[\s:=]{TIME}\.?)"
    rf"(?P<rest>(?:\s{{0,20}}[(\[/|,;#┊]|\s\s+|\s(?:and|on|as)\s|\s=\s(?=[\d.]{{1,20}} ?%)|\s(?=(?:avg|average|mean)\b)"
    rf"|\s(?!{TIME}\b)\d[\d.,]{{0,30}} ?[A-Za-z%]).{{0,400}})"
)
#: A time that is a part of the one before it.
_OF_WHICH = re.compile(r"\s{0,4}[,;(]\s?(?:of which|including|incl\.)\s.*")
#: A sentence behind a labelled time.
_THEN = re.compile(rf"(?P<text>[^=:]{{1,120}}[=:]\s{{0,9}}{TIME})(?P<rest>\.\s{{1,4}}[A-Z].{{0,400}})")
_IN_BRACKETS = re.compile(r"\([^()]{0,200}\)|\[[^\[\]]{0,200}\]")
_OTHER_TIME = re.compile(rf"^/\S|(?<![\w.]){TIME}(?!\w| per )")
_VERSUS = re.compile(r"\bvs\.? .*")
#: A label that begins with its number.
_NUMBERED = re.compile(r"\d{1,2}[a-z][\s.:)]\s{0,3}[A-Za-z]{2}")
#: A percentile in a label.
_PERCENTILE = re.compile(r"(?i)(?P<of>\d{1,2}(?:\.\d{1,3})?)(?:st|nd|rd|th)?[ -]percentile\b")
_STATISTIC_OF = {50.0: "median", 95.0: "p95", 99.0: "p99"}
#: A label of more words is rather a sentence.
_MOST_WORDS = 10

#: How far repeats spread, behind their mean: `1.2 ± 0.1 ms`, `1.2 ms +- 0.1 ms`.
_SPREAD = re.compile(
    rf"(?P<of_mean> ?(?:{UNITS}))?\s?(?:±|\+/?-)\s*(?P<spread>{NUMBER})(?P<of_spread> ?(?:{UNITS})\b)?"
)
#: A row of cells without headings whose first cell is a time: `| 7.43 ms | gemm |`.
_FIRST = re.compile(rf"\| *(?P<number>{NUMBER}) ?(?P<unit>{UNITS}) *\| *(?P<label>[A-Za-z_][^|]{{0,199}}?) *\|?")
_TIMED = re.compile(r"times?|latency|duration|runtime|elapsed")
_MEMBER = re.compile(
    rf"(?P<key>[A-Za-z]\w{{0,9}}|\d\d?%)(?:\s?[=:]\s{{0,20}}|\s)(?P<number>{NUMBER})"
    rf"(?: ?(?P<unit>{UNITS})(?!\w))?(?!\w)"
)
_UNIT_BEHIND = re.compile(rf"\s{{1,20}}[(\[](?P<unit>{UNITS})[)\]]$")
_SHARE_BEHIND = re.compile(r"\s{1,40}(?P<share>\d{1,3}(?:\.\d{1,6})?)%$")
_UNIT_OF_LABEL = re.compile(rf"\s?[(\[](?:in )?({UNITS})[)\]](?:\s-\s\d{{1,9}}\s[a-z]{{1,9}}$)?")
#: A time of each of something, which is an average; what says in brackets that a time is one; a label's last word.
_OF_EACH = re.compile(
    rf"(?P<time>\d ?(?:{UNITS}))(?: ?/ ?| per )(?:iter(?:ation)?|run|call|launch|rep|op|invocation"
    r"|step|token|frame|forward|backward|pass|image|batch|sample|request|query|inference)\b"
)
_OF_REPEATS = re.compile(r"(?i)\b(?:avg|average|mean)\b")
_NAMED_STATISTIC = re.compile(r"(?i)(?P<label>.*[^\s:-])(?:\s*:\s*|\s+-\s+)(?P<word>avg|average|mean|median|min|max)")
#: The unit in the label: `Kernel time (ms): 1.5`. Cells of numbers between the name and its time.
_UNIT_FIRST = re.compile(
    r"(?P<label>(?:\d{1,2}(?:\.\d{1,3})?(?:th)? percentile|[A-Za-z])[^:=|{}(\[]{0,99}?)"
    rf"(?: ?[(\[](?:in )?(?P<bracketed>{UNITS})[)\]]| in (?P<said>{UNITS}|Seconds|Milliseconds))"
    rf"\s{{0,40}}[:=]\s{{0,40}}(?P<number>{NUMBER})\s{{0,9}}"
)
_CELLS_BEHIND = re.compile(r"(?P<label>\S.{0,199}?)(?P<cells>(?:\s{2,60}[\d.,]{1,30}%?){1,40})")
#: A share between a label and its time; a statistic behind a label; labels that are rather several members of a line.
_SHARED = re.compile(r"(?P<label>\S.{0,199}?)\s*[:=|]\s*(?P<share>\d{1,3}(?:\.\d{1,6})?) ?%(?:\s[\d.,]{1,20})?")
_STATISTIC_BEHIND = re.compile(
    r"(?i)(?P<label>\S.{0,199}?)\s{0,9}[(\[](?P<word>avg|average|mean|median|min|max)(?: ± σ)?[)\]]"
)
#: Members of a line before the label of a time: `step: 10, loss: 0.5, `.
_MEMBERS_BEFORE = re.compile(r"(?:[A-Za-z][^:=,()\[\]]{0,40}[:=] ?-?[\d.,]{1,30}[,;|] ?){1,20}(?=[A-Za-z])")
_ENDS_IN_FIGURE = re.compile(r":\s+\d[\d,]*\.\d+[A-Za-z]?$")
_OPENED, _LAST_WORD = re.compile(r"[:=]\s?[\[{'\"]"), re.compile(r" ?\w+")
#: `[1/3] gemm`, and what is between labels of one line.
_PLACE_IN_LIST = re.compile(r"^[\[(]\s?\d{1,6}\s?/\s?\d{1,6}\s?[\])]\s+")
_GROUP = re.compile(r"(?P<name>\S.{0,99}?) ?[(\[](?P<parts>[^()\[\]]{0,400})[)\]]")
_PARTS = re.compile(r"\s{0,20}[|;]\s{1,20}|,\s{1,20}")
#: A word before the members of a line, and a member that is no time.
_WORDS = re.compile(r"[A-Za-z](?:[\w+.-]| (?! )){0,60}")
_OTHER = re.compile(r"[^=:]{1,60}[=:]\s?\S.{0,80}|\d[\d.,]{0,30} ?[A-Za-z]{1,9}(?:/[a-z]{1,9})?\.?")
#: A member that is a setting or a count.
_WHOLE_NUMBER = re.compile(r"[A-Za-z][^=:]{0,60}[=:]\s?\d{1,12}")
#: Words of which no label is a name: what was done, and that it is a time. The name stands in a line above.
_SAYS_TIME = re.compile(
    r"(?i)(?:(?:times?|timings?|range|elapsed|taken|took|takes|duration|runtime|latency|finished|completed|done|kernel|execution|exec|run|gpu"
    r"|device|total|avg|average|mean|median|min|minimum|best|max|maximum|processing|calculation|computation|wall|cost"
    r"|(?:of|over|for) (?:\d{1,9} (?:runs|iterations|iters|calls|launches|times|reps)"
    r"|(?:this|each|the) [a-z]{1,20}))\b[\s:._-]*){1,6}"
)
_NAMING = re.compile(
    r"(?i)(?:(?:running|executing|launching|launched|benchmarking|profiling|timing|testing|starting)\s{1,20}(?:the\s{1,20})?)?"
    r"(?:kernel|function|op|operator|layer|benchmark|test|case|pass|shader|program|name|dispatch|launch)\b(?:\s{1,20}name)?"
    r"(?:\s{0,4}#?\d{1,9}(?=\s?[:=]))?(?:\s{0,20}[:=])?\s{1,40}"
    r"(?P<quote>['\"`]?)(?P<name>[A-Za-z_][^'\"`=|]{0,199}?)(?P=quote)(?:\s?\.{3}|:)?"
)

#: A title of a few words, and a line below it with one statistic of what it names.
_PLAIN_TITLE = re.compile(r"[A-Za-z][\w/-]{0,40}(?: [\w/-]{1,40}){0,4}")
_ONE_STATISTIC = re.compile(rf"(?i)(?:min(?:imum)?|max(?:imum)?|mean|median|avg|average)\s?[:=]\s{{0,9}}{TIME}")

#: A kernel that is launched, as programs write it.
_LAUNCHED = re.compile(
    r"(?i:running|launching|launched|executing|benchmarking|profiling)\s+(?P<name>[A-Za-z_]\w*(?:<[^>].{0,80}>|\(.{0,80}\))?)"
)

_HEADED = re.compile(r"(?P<name>[A-Za-z_]\S{0,199}):")
_STARTED = re.compile(
    r"(?i)(?:running|starting|benchmarking|testing|executing|computing)\s+"
    r"(?P<name>[A-Za-z_][^.:]{0,80}?)\s?\.{3}(?:\s?done\.?)?"
)
_OF_MANY = re.compile(r"\b(?:of|over|for) (?P<count>\d{1,9}) (?:runs|iterations|iters|calls|launches|times|reps)\b")
#: A label whose time stands in the next line, or labels a block of times.
_COLON = re.compile(r"(?P<name>[A-Za-z0-9_(<`%][^:：]{0,120}(?:::?[^:：\s]{1,80}){0,9})[:：]")
#: A setting, or a heading, above lines that are further indented.
SETTING = re.compile(r"\s{0,40}(?:[A-Za-z][\w ]{0,30}:\s\S.{0,80}|[A-Za-z][^:]{0,80}:)")
BANNER = re.compile(r"([-*#])\1{1,40}\s(?P<words>[^-*#\s].{0,120}?)\s\1{2,40}")
#: A line that says what runs, in words that a program writes before each of several runs.
_SAYS_SETTING = re.compile(
    r"(?i)(?!.*\b(?:passed|failed|ok|done)\b)"
    r"\s*(?P<word>running|loading model|testing|evaluating|test|case|config(?:uration)?|model|shape|input"
    r"|problem size)"
    r"(?: [a-z]{1,12})?\s?(?:[:=]\s?|\s)(?P<what>\S.{0,120})"
)

_ALONE = re.compile(TIME)
_LONG = re.compile(
    r"(?P<label>\S.{0,199}?):\s*(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,4}):(?P<s>\d\d(?:\.\d{1,9})?) \((?:h:)?m{1,2}:ss\.mmm\)"
)
_DEBUG = re.compile(
    rf"(?:%c)?(?P<label>[\w./-]{{1,100}}) *\t(?:%c)?(?P<number>{NUMBER})(?P<unit>ms) *\t"
    r"(?:%c)?(?P<output>[^\t]{0,200})\t(?:%c)?(?P<size>\d{1,18}) *\t(?:%c)?(?P<inputs>[^\t]{0,2000})(?:\t.*)?"
)


#: What a time is spelled with, and says nothing of it: a unit in brackets, `around`; brackets around a whole line.
_BRACKETED_UNIT = re.compile(rf"(?<=\d) ?[(\[](?P<unit>{UNITS})[)\]]")
_ABOUT = re.compile(r"(?i)(?<=\s)(?:around|about|approximately|approx\.?|roughly|nearly|circa|~|≈) ?(?=\d)")
_FAR_UNIT = re.compile(rf"(?<=\d) {{2,3}}(?=(?:{UNITS})(?:\s|[,;|)]|$))")
_UNIT_AS_KEY = re.compile(
    rf"(?<![\w.] )(?<!\w)(?P<unit>seconds|secs|milliseconds|microseconds)[:=] ?(?P<number>{NUMBER})(?=,|;|\s\||$)"
)
_ABOUT_VALUE = re.compile(r"(?<=[a-z])≈ ?(?=\d)")
_IN_FRAME = re.compile(rf"\[\s{{0,40}}(?P<label>[A-Za-z][^\[\]:=]{{0,80}}[:=]\s{{0,40}}{TIME})\](?P<rest>\s.{{1,80}})?")


#: A title that begins with a number.
_TITLE = re.compile(r"\s{0,3}#{1,6}\s+~?\d")


def _plainly(text: str) -> str:
    """A line as it is spelled most: `time: 2 s` for `time: 2 (s)`, `[time: 2 s]`, `seconds: 2`, `time: about 2 s`."""
    if "(" in text or "[" in text:
        text = _BRACKETED_UNIT.sub(r" \g<unit>", text)
    text = _FAR_UNIT.sub(" ", _ABOUT_VALUE.sub("=", _ABOUT.sub("", text)))
    text = _UNIT_AS_KEY.sub(r"time: \g<number> \g<unit>", text)
    text = _with_last_unit(text)
    framed = _IN_FRAME.fullmatch(text) if text.startswith("[") else None
    return framed["label"] + (framed["rest"] or "") if framed else text


def figures_of(text: str) -> list[Figure]:
    """Returns the durations on a line; none if it isn't such a line, or a title such as `### 15 s clip`."""
    if text.lstrip()[:1] == "#" and _TITLE.match(text):
        return []
    if "%c" in text or "\t" in text:
        match = _DEBUG.fullmatch(_PREFIX.sub("", text, count=1).strip())
        if match and (dur := ns_of(match["number"], match["unit"])) is not None:
            args = {"output": match["output"].strip(), "size": int(match["size"]), "inputs": match["inputs"].strip()}
            return [Figure(match["label"], dur, on_device=True, args=args)]
    rest = _plainly(_without_prefix(text))
    tagged = _TAG.match(rest)
    tag = tagged["tag"] if tagged else None
    if tagged:
        rest = _without_prefix(rest[tagged.end() :])
        if _ALONE.fullmatch(rest):
            rest = f"{tag} {rest}"
    figures = of_records(rest) or of_pairs(rest) or _of_label(rest, tagged=tag is not None)
    for figure in figures:
        figure.tag = tag
        figure.on_device |= bool(tag and DEVICE.search(tag))
    return figures


def _with_last_unit(text: str) -> str:
    """A line whose last member alone has a unit, with that at all members that have as many decimals and may be times.

    `fwd=1.25  bwd=2.50  step=4.00 ms`
    """
    match = _LAST_UNIT.search(text) if text.count("=") > 2 else None
    pairs = _DECIMAL_PAIR.findall(match["pairs"]) if match else []
    if not match or any(len(places) != len(match["places"]) or is_no_time(key) for key, places in pairs):
        return text
    timed = _DECIMAL_PAIR.sub(rf"\g<0>{match['unit']}", match["pairs"])
    return f"{text[: match.start()]}{timed}{match['last']}{match['unit']}"


_DECIMAL_PAIR = re.compile(r"([A-Za-z_]\w{0,40})=\d{1,9}\.(\d{1,9})")
_LAST_UNIT = re.compile(
    rf"(?<!\S)(?P<pairs>(?:[A-Za-z_]\w{{0,40}}=\d{{1,9}}\.\d{{1,9}}[ ,]{{1,4}}){{2,20}})"
    rf"(?P<last>[A-Za-z_]\w{{0,40}}=\d{{1,9}}\.(?P<places>\d{{1,9}})) (?P<unit>{UNITS})$"
)


def _without_prefix(text: str) -> str:
    """A line without what tools put before a message."""
    prefix = _PREFIX.match(text)
    rest = text[prefix.end() if prefix else 0 :].strip()
    if branch := _TREE.match(rest):
        rest = rest[branch.end() :]
    return _ENDED.sub("", rest, count=1) if _ENDED.match(rest) else rest


@lru_cache(1024)
def labels_of(text: str) -> tuple[str, ...]:
    """The labels of the durations on a line; a text is asked again without each layer that is around it."""
    return tuple(figure.name for figure in figures_of(text))


def _of_label(text: str, *, tagged: bool) -> list[Figure]:
    """`label: 1.23 ms`; without a separator only after a tag, or with a label of one word.

    Several labels, each with its time, may be parts of one another: `forward: 1 ms | backward: 2 ms` are figures.
    """
    if match := _LONG.fullmatch(text):
        seconds = (int(match["h"] or 0) * 60 + int(match["m"])) * 60 + Decimal(match["s"])
        return [Figure(match["label"], seconds * TIME_NS["s"], on_device=False)]
    if match := _FIRST.fullmatch(text):
        dur = ns_of(match["number"], match["unit"])
        return [Figure(match["label"], dur, on_device=False)] if dur is not None else []
    text = _PLACE_IN_LIST.sub("", text)
    if text.startswith("| ") and text.count("|") > 1:  # a row without headings
        text = text[2:].rstrip("| ")
    if text.startswith("`") and text.endswith("`"):
        text = text.strip("`")
    if changed := of_change(text):
        return changed
    if (
        figure := of_repeats(text)
        or of_span(text)
        or of_series(text)
        or _of_statistics(text)
        or _of_single(text, tagged=tagged)
    ):
        return [figure]
    return (
        _of_parts(text)
        or of_unit_ahead(text)
        or of_words(text)
        or of_times_first(text)
        or of_statement(text)
        or of_prose(text)
    )


def _of_parts(text: str) -> list[Figure]:
    """Several labels, each with its time, which may be parts of one another; or the only time among other members.

    `forward: 1 ms | backward: 2 ms`, `scan, Throughput = 1.2 GB/s, Time = 0.5 ms, Size = 1024 Elements`.
    """
    grouped = _GROUP.fullmatch(text)
    whole = f"{grouped['name']}, " if grouped and not _OTHER_TIME.search(grouped["name"]) else ""
    pieces = _PARTS.split(grouped["parts"] if grouped and whole else text)
    are_labels = [(":" in piece or "=" in piece) and piece.count("(") == piece.count(")") for piece in pieces]
    parts = [_of_single(piece, tagged=False) if it else None for piece, it in zip(pieces, are_labels, strict=True)]
    figures = [part for part in parts if part]
    if len(figures) == 1 and len(pieces) > 1 and not whole:
        return _among_others(figures[0], [piece for piece, part in zip(pieces, parts, strict=True) if not part])
    labels = [figure.name for figure in figures if not figure.statistics]
    names = {
        label for label in labels if not _NAMED_STATISTIC.fullmatch(label) and statistic_of(label) in ("", "total")
    }
    if not all(are_labels) or len(figures) < max(len(parts), 2) or len(names) < len(figures):
        return []
    for figure in figures:
        figure.name, figure.statistics = whole + figure.name, {"total": float(figure.dur)}
    return figures


def _among_others(figure: Figure, others: list[str]) -> list[Figure]:
    """A time among members that are none, as their figures are rates and sizes; a word before them all is its name."""
    name = others[0] if _WORDS.fullmatch(others[0]) else ""
    members = others[1:] if name else others
    if any(
        not re.fullmatch(r"[^=:]{1,60}[=:]\s?\S.{0,80}", member) or _OTHER_TIME.search(member) for member in members
    ):
        return []
    if not members or not says_time_alone(figure.name) or figure.name.lower() in STATISTIC:
        return []
    figure.name = name or figure.name
    figure.scope = [member for member in members if _WHOLE_NUMBER.fullmatch(member)]
    figure.args["rest"] = ", ".join(members)
    return [figure]


def _of_single(text: str, *, tagged: bool) -> Figure | None:
    """The label of a line, or of a part of one, with its only time."""
    spread = _SPREAD.search(text)
    single = _SPREAD.sub(lambda match: match["of_mean"] or match["of_spread"] or "", text)
    rate = _OF_EACH.sub(r"\g<time>", single)
    statistic = "avg" if rate != text else ""
    text, args = _without_rest(_PARAMETERS.sub(lambda pair: pair[0].replace("=", _EQUALS), rate))
    args = {key: value.replace(_EQUALS, "=") for key, value in args.items()}
    match = _CLEAR.fullmatch(text) or _UNIT_FIRST.fullmatch(text)
    if not match:
        bare = _BARE.fullmatch(text)
        is_clear = tagged or spread or _OF_REPEATS.match(args.get("rest", ""))
        match = bare if bare and (is_clear or " " not in bare["label"] or "  " in text) else None
    if not match:
        return None
    stated = match.groupdict()
    unit = stated.get("unit") or stated.get("bracketed") or stated.get("said") or ""
    dur = ns_of(match["number"], unit if unit in TIME_NS else unit.lower())
    label = _label(match["label"], statement=match[0])
    label = label.replace(_EQUALS, "=")
    words = re.sub(r"(?:<|\(\w|\[).*", "", label)  # without the arguments of a kernel
    is_label = label and len(words.split()) <= _MOST_WORDS and ". " not in label and not _OTHER_TIME.search(label)
    is_half = label.count("(") > label.count(")") and ")" in args.get("rest", "")
    percentile = _PERCENTILE.match(label)
    if dur is None or not is_label or is_half or (label[:1].isdigit() and not (_NUMBERED.match(label) or percentile)):
        return None
    if not is_measured(label):
        return None
    if not re.search(r"[^\W\d_]", label) or _ENDS_IN_FIGURE.search(label) or _is_among_others(label):
        return None
    if shared := _SHARED.fullmatch(label):
        label = shared["label"]
    if named := _STATISTIC_BEHIND.fullmatch(label):
        label, statistic = named["label"], STATISTIC.get(named["word"].lower(), "")
    if cells := _CELLS_BEHIND.fullmatch(label):
        label, args["before"] = cells["label"], cells["cells"].strip()
    if named := _NAMED_STATISTIC.fullmatch(label):
        label, statistic = named["label"], STATISTIC[named["word"].lower()]
    statistic = statistic or (_STATISTIC_OF.get(float(percentile["of"]), "") if percentile else "")
    behind = statistics_behind(args.get("rest", ""), unit)
    statistic = statistic or _statistic_in(label)
    statistic = statistic or ("avg" if not behind and _OF_REPEATS.search(args.get("rest", "")) else "")
    statistic = statistic or ("avg" if spread else "total" if "avg" in behind else "")
    statistics = {statistic: float(dur)} | (behind if statistic == "total" else {}) if statistic else {}
    if spread and statistic == "avg":
        deviation = ns_of(spread["spread"], (spread["of_spread"] or spread["of_mean"] or unit).strip())
        statistics |= {} if deviation is None else {"stddev": float(deviation)}
    if statistic and (many := _OF_MANY.search(label)):
        statistics["count"] = int(many["count"])
    share = {"percent": float(shared["share"])} if shared else {}
    return Figure(label, dur, on_device=False, args=args | share, statistics=statistics)


def _is_among_others(label: str) -> bool:
    """Whether a label is the last of several members: `shape=[8, 16], dtype`, `step: 10, kernel time`."""
    before, comma, last = label.rpartition(",")
    if _MEMBERS_BEFORE.match(label):
        return True
    return bool(comma and _LAST_WORD.fullmatch(last) and _OPENED.search(before))


def _label(text: str, *, statement: str) -> str:
    """A label without the mark of a list, and without the words that say it has ended; "" for a sentence."""
    label = _MARK.sub("", text.strip().rstrip(",")).replace("**", "").replace("`", "")
    if (_SAID.search(statement) and _SENTENCE.match(label)) or _OF_TESTS.match(label):
        return ""
    done, _, last = label.rpartition(". ")
    if done and says_time_alone(last) and not _TIMED.search(done.lower()):
        label = last
    label = _PRONOUN.sub("", label)
    short = _DONE.sub("", label)
    return short if short and not says_time_alone(short) else label


def _statistic_in(label: str) -> str:
    """The statistic that a label states of a time, `avg` for `Average kernel time`; "" for none, as for `max pool`."""
    words = re.findall(r"[^\s()\[\],]+", label.lower())
    keys = [key for word in words if (key := STATISTIC.get(word, "")) not in ("", "count", "total")]
    is_time = any(_TIMED.fullmatch(word) for word in words) or len(words) == 1 or bool({*words} & {"avg", "average"})
    return keys[0] if len(keys) == 1 and is_time else ""


def _of_statistics(text: str) -> Figure | None:
    """`load: count = 5, avg = 15.88 ms` and `sort - avg 1.2 ms (min 1.0, max 1.4)`: two statistics of one thing.

    A number without a unit has that of the time before it, else of the label, `sort times (in seconds)`, or of the only
    one that has any. None if a member is of another kind, or none is a middle or a total.
    """
    behind = _UNIT_BEHIND.search(text)
    text = text[: behind.start()] if behind else text
    members = list(_MEMBER.finditer(text))
    if len(members) < 2 or not members[0].start():
        return None
    between = [text[one.end() : two.start()] for one, two in pairwise(members)] + [text[members[-1].end() :]]
    whole = text[: members[0].start()].rstrip(" (:-=,[|").strip()
    stated, label = _UNIT_OF_LABEL.search(whole), _MARK.sub("", _UNIT_OF_LABEL.sub("", whole))
    share = _SHARE_BEHIND.search(label)
    label = label[: share.start()] if share else label
    keys = [STATISTIC.get(member["key"].lower(), "") for member in members]
    of_words = [key for key in keys if key]
    others = [member["key"] for member, key in zip(members, keys, strict=True) if not key and "%" not in member["key"]]
    if (
        others
        or len({*of_words}) < len(of_words)
        or not {*of_words} & {"avg", "median", "total"}
        or not _is_label(label)
    ):
        return None
    if any(gap.strip(" ,;/()|[]") for gap in between) or label.count(" ") >= _MOST_WORDS or _OTHER_TIME.search(label):
        return None
    units = [member["unit"] for member in members if member["unit"]]
    unit = stated[1] if stated else behind["unit"] if behind else units[-1] if len({*units}) == 1 else ""
    statistics: dict[str, float] = {}
    for member, key in zip(members, keys, strict=True):
        if key == "count":
            statistics[key] = int(member["number"].replace(",", "")) if member["number"].isdigit() else -1
        elif key:
            unit = member["unit"] or unit
            dur = ns_of(member["number"], unit) if unit else None
            statistics[key] = -1 if dur is None else float(dur)
    if any(value < 0 for value in statistics.values()):
        return None
    first = next(Decimal(value) for key, value in statistics.items() if key in ("avg", "median", "total"))
    args = {"percent": float(share["share"])} if share else {}
    return Figure(label, first, on_device=False, args=args, statistics=statistics)


def _is_label(text: str) -> bool:
    """Whether a text may be a label: it has a word, and begins with one but for a number of two digits."""
    return re.match(r"[^\W\d_]|\d{1,2}[.\s]\s{0,3}[A-Za-z]{2}", text) is not None and is_measured(text)


def is_time_alone(text: str) -> bool:
    """Whether a line is a time without a label."""
    return _ALONE.fullmatch(text.strip()) is not None


def says_time_alone(label: str) -> bool:
    """Whether a label has no name, such as `Completed kernel` and `Average time`: what was timed stands above it."""
    return _SAYS_TIME.fullmatch(label) is not None


def named_in(text: str, below: str) -> str | None:
    """What a line says is timed below it: X for `Running kernel 'X'`, `Kernel: X`, `=== X ===`, for `X:` above lines
    that are indented, and for `X` above a statistic alone; None for another line.
    """
    rest = _without_prefix(text)
    if title := title_of(1, text):
        return title.text
    tagged = _TAG.match(rest)
    match = _NAMING.fullmatch(rest[tagged.end() :] if tagged else rest)
    is_name = match and (match["quote"] or match["name"].count(" ") < 1 or "(" in match["name"] or "<" in match["name"])
    if match and is_name:
        return match["name"].strip()
    if started := _STARTED.fullmatch(rest) or _LAUNCHED.fullmatch(rest):
        return started["name"].strip()
    if _PLAIN_TITLE.fullmatch(rest) and _ONE_STATISTIC.match(_without_prefix(below)):
        return rest
    headed = (_HEADED if indent_of(below) > indent_of(text) else _COLON).fullmatch(rest)
    return headed["name"].strip("` ") if headed and not headed["name"].startswith("http") else None


def below_names(lines: Iterable[str]) -> frozenset[str]:
    """Labels without a name that recur, each time right below a line without a time, which is the name of it.

    gemm, tile 8
    Timing: 0.5 ms
    gemm, tile 16
    Timing: 2.5 ms
    """
    above: dict[str, list[str]] = {}
    last = ""
    for line in filter(str.strip, lines):
        labels = labels_of(line)
        if len(labels) == 1 and says_time_alone(labels[0]):
            above.setdefault(labels[0], []).append(last)
        is_text = not labels and (line.strip()[:1].isalnum() or _TAG.match(line))
        last = line.strip() if is_text else ""
    return frozenset(label for label, heads in above.items() if len({*heads}) > 1 and all(heads))


def says_setting(text: str) -> str:
    """The first word of a line that says what the lines below it are of, `Loading model X`; '' for another line."""
    match = _SAYS_SETTING.fullmatch(text) if len(text) < _LONGEST_SETTING else None
    is_said = match is not None and not text.rstrip().endswith((".", ":", "...")) and "time" not in text.lower()
    return match["word"].lower() if match and is_said else ""


def recurring(lines: Iterable[str]) -> frozenset[str]:
    """The forms of lines that stand before the first time and again below it with other whole numbers, as settings do.

    None where lines say what runs.

    Matrix size is 64
    naive: 0.5 ms
    Matrix size is 128
    naive: 2.5 ms
    """
    first: dict[str, str] = {}
    again: set[str] = set()
    is_timed = False
    for line in lines:
        text = line.strip()
        form = form_of(text)
        if says_setting(line):
            return frozenset()
        if form in first:
            again |= {form} if is_timed and first[form] != text else set()
        elif form and not is_timed:
            first[form] = text
        is_timed = is_timed or (not form and bool(labels_of(line)))
    return frozenset(again)


def form_of(text: str) -> str:
    """A line without the whole numbers that it has; '' for one without any, and for one with other numbers."""
    text = text.strip()
    if len(text) > _LONGEST_SETTING or _OTHER_NUMBER.search(text) or not text[:1].isalpha():
        return ""
    form, count = _DIGITS.subn("0", text)
    return form if count else ""


_DIGITS, _OTHER_NUMBER = re.compile(r"\d+"), re.compile(rf"\d\.\d|{TIME}(?!\w)")

#: Characters of a line that says a setting.
_LONGEST_SETTING = 160
#: What a prompt is asked to measure: `julia> @benchmark f(x)`, `>>> %timeit f(x)`.
PROMPT = re.compile(
    r"(?:julia>|>>>|In \[\d{1,5}\]:)\s{0,9}(?:@benchmark|@btime|@time|%{0,2}timeit)\s{1,9}(?P<name>\S.{0,400})"
)
_OF_BLOCK = re.compile(r"[A-Za-z][^:.,;]{0,60}:")


def is_heading_of_block(text: str) -> bool:
    """Whether a line may be the heading of lines that are no further indented: `This PR:`, a few words."""
    return _OF_BLOCK.fullmatch(text.rstrip()) is not None and text.count(" ") < _MOST_OF_HEADING


#: Words of the heading of a block.
_MOST_OF_HEADING = 6


def indent_of(text: str) -> int:
    """How many blanks a line begins with."""
    return len(text) - len(text.lstrip())


def _without_rest(text: str) -> tuple[str, dict[str, str]]:
    """A line without what it says behind its duration, and that as an argument; unchanged if that is another duration.

    `load: 3.9 ms (0.9%) [0.7 GB/s]`, `encode time = 134.3 ms / 5.6 ms per layer`, `forward   0.05 ms | 5061 GB/s`.
    """
    bare = text.replace("**", "").replace("`", "")
    match = _REST.fullmatch(bare) or _THEN.fullmatch(bare)
    if not match or _OTHER_TIME.search(_VERSUS.sub("", _OF_WHICH.sub("", _IN_BRACKETS.sub("", match["rest"])))):
        return text, {}
    return match["text"], {"rest": match["rest"].strip()}
