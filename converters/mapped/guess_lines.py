"""Guesses the pattern of lines that somebody points at: what they share stays, what differs is a field.

gemm took 3.25 ms on gpu:0
softmax took 0.5 ms on gpu:1        {name} took {dur} ms on gpu:{device}
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import chain, islice, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from ktrace.errors import InputError, KtraceError, UsageError
from ktrace.input.line_pattern import LONGEST, UNITS, LinePattern
from ktrace.input.mapping import ALIASES, FIELDS, Cell, ColumnMap, Guess, Proposal
from ktrace.input.source import Sample
from ktrace.kit.text.layouts import is_rule
from ktrace.kit.text.measured import go_up, is_measured, tells_of_tests
from ktrace.kit.text.numbers import quantity
from ktrace.kit.text.proofs import are_sizes, is_same_work

_TOKEN = re.compile(r"[A-Za-z_µμ](?:[\w.+-]*\w)?|[+-]?\d[\d.,_']*(?:[eE][+-]?\d+)?|\S")
_UNIT = r"(?:[nuµμm]?s|secs?|[mun]secs?|(?:milli|micro|nano)?seconds?)"
_TIME = re.compile(rf"(?<![\w.])\d[\d.,]{{0,40}}\s{{0,4}}[\[(]?{_UNIT}(?![\w])")
#: Words before a name; words that say that a time is a figure of several, or an average.
_BEFORE_NAMES = frozenset(("kernel", "op", "operator", "layer", "function", "shader", "pass"))
_FIGURES = re.compile(r"\b(?:mean|average|avg|median|min(?:imum)?|max(?:imum)?|std|p\d\d)\b", re.IGNORECASE)
#: A time in a pattern of which nothing says what it is; names that are figures.
_UNSAID = re.compile(rf"\{{(?:[num]?s|[mun]?secs?)?\}}\s?{_UNIT}\b")
_FIGURE = re.compile(r"[\d.,]+ ?[A-Za-z%]{0,3}")
_AVERAGE = re.compile(r"\b(?:average|avg|mean)\b", re.IGNORECASE)

_OF_KERNELS = re.compile(r"\bkernel:? \{name\}", re.IGNORECASE)
_OF_WORK = re.compile(r"\b(?:kernel|op|operator|layer):? \{name\}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2}|[^\x00-\x7f]")
#: Names of how often one thing was measured.
_REPEATED = re.compile(
    r"(?:[A-Za-z]+ )?(?:iter|iteration|(?:time-?|micro-?)?step|run|run_idx|epoch|trial|sample|batch|rep|round|frame"
    r"|prediction|token)\W{0,3}\d+\W?",
    re.IGNORECASE,
)
#: What stands where a name does, and is none: a mark, brackets around all, a rank or device, a place in a program's
#: source, a key with its figure.
_NO_NAME = re.compile(
    r"[|>#*=~]|\(.*\)$|\W{0,2}(?:rank|gpu|device|pid|tid|thread|worker|node|proc|process)\W?\d+\W{0,2}$"
    r"|\S*\.(?:cc|cpp|cu|cuh|cxx|c|hpp|h|hip|py|rs|go|js|ts|mm|swift|jl):\d+$|.*[:=]\s*\d[\d.,]*$",
    re.IGNORECASE,
)
_SPREAD = re.compile(r"±|\+/-")
#: Names of times of a request, or of all: some are within others.
_OF_REQUESTS = re.compile(
    r"(?i)(?<![a-z])(?:latency|ttft|e2e|end[-_ ]to[-_ ]end|time[-_ ](?:to|in)|overall|total|wall)(?![a-z])"
)
#: Another number with a letter right behind it: it says what it is, as the s of a time may do, for `system`.
_OTHER_LETTER, _SECONDS = re.compile(r"\{\w*\}[a-rt-z]\b"), re.compile(r"\{dur\}s\b")
_OF_AVERAGES = frozenset(("per", "avg", "average", "mean"))
_NO_NAMES = frozenset(("in", "at", "for", "took", "is", "was", "after", "time", "elapsed"))
#: So many placeholders in a pattern, and the lines are rather rows of a table without its headings.
_MOST_PLACES = 9

#: Words before a number -> the field that it fills.
_FIELDS = {
    **dict.fromkeys(("avg", "average", "mean", "per"), "avg"),
    **dict.fromkeys(("total", "sum", "overall"), "total"),
    **{"median": "median", "p50": "median", "min": "min", "max": "max", "p95": "p95", "p99": "p99", "std": "stddev"},
    **dict.fromkeys(("start", "begin", "ts", "timestamp", "at", "t0"), "start"),
    **dict.fromkeys(("end", "stop"), "end"),
    **dict.fromkeys(("gpu", "device", "cuda", "dev", "npu", "xpu"), "device"),
    **dict.fromkeys(("stream", "queue"), "stream"),
    **{"pid": "process", "tid": "thread", "process": "process", "thread": "thread"},
    **dict.fromkeys(("calls", "count", "n", "iters", "runs", "times"), "count"),
    "bytes": "bytes",
}
_TIMES = frozenset(("dur", "avg", "total", "median", "min", "max", "p95", "p99", "stddev", "start", "end"))
_OF_NAMES = frozenset(("void", "const", "static", "bool", "float", "int", "unsigned"))
_SIGNS = ":=[]|,;"
_COUNTED = frozenset(("calls", "runs", "times", "iterations", "iters", "launches", "invocations", "x"))

#: The characters from a time on that are alike; a decimal comma; the most examples that are added for a form.
_ALIKE = 12
_ON_HOST, _ON_DEVICE = (
    re.compile(rf"(?<![a-z])(?:{word})(?![a-z])", re.IGNORECASE) for word in ("cpu|host", "gpu|device")
)
_NUMBER = re.compile(r"(?<![\w.])\d{1,15}(?:\.\d{1,9})?")
_THREE_DIGITS = re.compile(r"[1-9]\.?\d\.?\d")
_COMMA = re.compile(r"(?<![\d.,])0,\d")
_TRIES = 6

#: The most lines that a guess looks at, and that an error names.
_MOST, _NAMED, _FEWEST = 16, 3, 2

#: The share of lines with a time that may have another form.
_ODD = 0.2

#: Lines of a text that are examined for one form.
_EXAMINED = 2000


class _Token(NamedTuple):
    """A word, a number or a sign of a line: where it is, and what it is alike by."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        return "0" if self.text.lstrip("+-")[:1].isdigit() else self.text


def command_for_lines(sample: Sample, path: str) -> str:
    """The command that shows how lines with times can be read, and what it does; '' if there are no such lines."""
    numbers = [] if sample.is_json else _examples(sample, path)
    command = f"ktrace map {shlex.quote(path)} --line"
    if len(numbers) < _FEWEST:
        alone = None if sample.is_json else _alone(sample, path)
        return f"{command} {alone} shows how that line could be read" if alone else ""
    text = ",".join(map(str, numbers))
    return f"{command} {text} shows how lines such as these could be read"


def _alone(sample: Sample, path: str) -> int | None:
    """The number of the first line with a time that has a form of its own, with a name; None for none."""
    timed = (number for number, line in enumerate(sample.lines[:_EXAMINED], 1) if _TIME.search(line))
    for number in islice(timed, _TRIES):
        try:
            (form,) = ColumnMap({}, lines=(_guessed(sample, path, [number]),)).check().patterns()
        except KtraceError:
            continue
        cells = form.cells(sample.lines[number - 1])
        if cells and len(form.fields.keys() & _TIMES) == 1 and _is_name(cells["name"]):
            return number
    return None


def _alike(sample: Sample) -> list[int]:
    """The numbers, from 1, of the lines that have a time, with a word before or behind it, and go on alike there.

    If no two go on alike, those that are alike up to their time.
    """
    shapes: dict[str, list[int]] = {}
    timed: list[tuple[int, str]] = []
    for number, line in enumerate(sample.lines, 1):
        if len(line) <= LONGEST and (match := _TIME.search(line)):
            behind = re.sub(r"[\d.,]+", "0", line[match.start() :])
            if not re.search(r"[A-Za-z]{2}", line[: match.start()]):
                behind = re.sub(r"[\d.,]+", "0", match[0]) if re.search(r"\s[A-Za-z_]{2}", line[match.end() :]) else ""
            if behind:
                shapes.setdefault(behind[:_ALIKE], []).append(number)
                timed.append((number, line[: match.end()]))
    if not timed or len(shapes) < len(timed):
        return max(shapes.values(), key=len, default=[])
    shapes = {}
    for number, before in timed:
        shapes.setdefault(re.sub(r"[\d.,]+", "0", before), []).append(number)
    return max(shapes.values(), key=len)


def _examples(sample: Sample, path: str) -> list[int]:
    """The numbers of some lines that go on alike and whose common form all of these have; none without such a form.

    They are the first ones, with different words if there are some, and then one more as long as a line lacks the form.
    """
    group = _alike(sample)
    kinds = {re.sub(r"[\d.,]+", "0", sample.lines[number - 1]): number for number in reversed(group)}
    unlike = sorted(kinds.values())[:_NAMED]
    numbers = sorted({*unlike, *[number for number in group if number not in unlike][: _NAMED - len(unlike)]})
    for _ in range(_TRIES if len(group) >= _FEWEST else 0):
        try:
            (form,) = ColumnMap({}, lines=(_guessed(sample, path, numbers),)).patterns()
        except KtraceError:
            return []
        odd = [number for number in group[:_EXAMINED] if form.cells(sample.lines[number - 1]) is None]
        if not odd:
            return numbers
        numbers = sorted({*numbers, odd[0]})
    return []


def stated_lines(sample: Sample, path: str) -> ColumnMap | None:
    """The mapping of a text most of whose lines have one form, with a name and a time in its unit; None without.

    A time below a line that speaks of averages is one. Lines without a time may stand between, where all with one have
    the form. A number such as 0,5 tells of decimal commas.
    """
    numbers = [] if sample.is_json else _examples(sample, path)
    lines = [line for line in sample.lines[:_EXAMINED] if line.strip()]
    timed = [line for line in lines if _TIME.search(line)]
    if len(numbers) < _NAMED or tells_of_tests(sample.text or ""):
        return None
    try:
        (pattern,) = guess_lines(sample, path, [",".join(map(str, numbers))]).lines
        above = next((line for line in reversed(sample.lines[: numbers[0] - 1]) if line.strip()), "")
        text = pattern.replace("{dur}", "{avg}") if _AVERAGE.search(above) and "{avg}" not in pattern else pattern
        decimal = "comma" if any(map(_COMMA.search, timed)) else "point"
        mapping = ColumnMap({}, lines=(text,), decimal=decimal).check()
    except KtraceError:
        return None
    (line_pattern,) = mapping.patterns()
    if line_pattern.fields.keys() >= {"percent", "count", "dur"}:
        rows = [cells for line in lines if (cells := line_pattern.cells(line)) is not None]
        if not _are_shares(rows):
            if not _are_shares(rows, of_calls=True):
                return None  # nothing says whether it is the time of a call
            mapping = replace(mapping, lines=(text.replace("{dur}", "{avg}"),))
            (line_pattern,) = mapping.patterns()
    times = [unit for name, unit in line_pattern.fields.items() if name in _TIMES]
    rows = [cells for line in lines if (cells := line_pattern.cells(line)) is not None]
    fit = [cells["name"] for cells in rows]
    if (
        _are_below_settings(lines, line_pattern)
        or len(timed) - len(fit) > _ODD * len(timed)
        or _are_stamps(line_pattern, rows)
    ):
        return None
    are_names = (
        all(map(_is_name, fit))
        and all(map(is_measured, (line_pattern.text, *fit)))
        and line_pattern.text.count("}") < _MOST_PLACES
    )
    if text.startswith("|") and any("|" in line and is_rule(line) for line in lines):
        return None  # rows of a table whose headings don't say what is measured
    if _SPREAD.search(text) or (_OTHER_LETTER.search(text) and _SECONDS.search(text)):
        return None  # repeats of one thing, which add up to nothing
    if any(map(_FIGURES.search, fit)) or not are_names or not times or not all(times):
        return None
    if any(map(_ON_HOST.search, fit)) and any(map(_ON_DEVICE.search, fit)):
        return None  # the same work twice
    several = len({re.sub(r"\d+", "", name) for name in fit}) > 1  # not the steps of a loop
    are_repeats = all(map(_REPEATED.fullmatch, fit))
    is_all = len(fit) == len(timed)
    is_most = len(fit) * 2 > len(lines) or (is_all and len(fit) * (4 if several else 8 * are_repeats) > len(lines))
    is_said = not _UNSAID.search(text) or ("{dur}" in text and _are_shares(rows))
    if len(fit) <= _NAMED - (_OF_WORK.search(text) is not None) or not is_most or not is_said:
        return None
    if (
        not line_pattern.fields.keys() & {"dur", "total", "value", "count", "start"}
        or are_repeats
        or are_sizes(fit)
        or _are_same_work(rows, line_pattern, timed)
        or _are_nested(rows)
        or any(map(_OF_REQUESTS.search, fit))
    ):
        return replace(mapping, cells={"kind": Cell(constant="metric")})  # averages don't add up to anything
    return replace(mapping, cells={"kind": Cell(constant="kernel")}) if _OF_KERNELS.search(text) else mapping


def _are_below_settings(lines: Sequence[str], form: LinePattern) -> bool:
    """Whether lines of a form with the same name are below different lines that are less indented: settings of runs."""
    above: list[tuple[int, str]] = []
    places: dict[str, set[tuple[str, ...]]] = {}
    before: dict[str, list[str]] = {}  # the line right above each time of a name, '' for another time
    last = ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if cells := form.cells(line):
            before.setdefault(cells["name"], []).append(last)
            settings = tuple(text for indent_above, text in above if indent_above < indent)
            places.setdefault(cells["name"], set()).update([settings] if settings else [])
            last = ""
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        last = line.strip()
        above.append((indent, last))
    are_headed = any(len(heads) > 1 and all(heads) and len({*heads}) == len(heads) for heads in before.values())
    return are_headed or any(len(settings) > 1 for settings in places.values())


def _are_nested(rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether most lines have the time of the one before, to three digits, under another name: one within the other."""
    pairs = [(one, two) for one, two in pairwise(rows) if one["name"] != two["name"]]
    same = sum(
        _THREE_DIGITS.search(time) is not None and time == two.get("dur")
        for one, two in pairs
        if (time := one.get("dur", ""))
    )
    return len(rows) > _NAMED and same * 2 > len(pairs)


def _are_same_work(rows: Sequence[Mapping[str, str]], form: LinePattern, lines: Sequence[str]) -> bool:
    """Whether a number behind the time of each line is a rate by which all times are those of the same work."""
    behind = [line[time.end() :] for line in lines if form.cells(line) is not None and (time := _TIME.search(line))]
    figures = [[Decimal(number) for number in _NUMBER.findall(text)] for text in behind]
    times = [read.number for cells in rows if (read := quantity(cells.get("dur", "")))]
    return any(is_same_work(times, list(column)) for column in zip(*figures, strict=False))


def _are_stamps(form: LinePattern, rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether the times before the names of lines go up: how long the program had run."""
    times = [quantity(cells.get("dur", "")) for cells in rows]
    is_first = form.text.startswith("{dur") and form.fields["dur"] == "s"
    return is_first and go_up([time.number for time in times if time])


def _is_name(text: str) -> bool:
    """Whether a text may be a name: its brackets are closed, it doesn't begin with a time, it is no head of a log."""
    if _NO_NAME.match(text):
        return False
    closed = all(text.count(first) == text.count(last) for first, last in ("()", "[]", "{}"))
    is_word = text.lower() not in _NO_NAMES and (" " not in text or _WORD.search(text) is not None)
    plain = "||" not in text and not _FIGURE.fullmatch(text) and not _TIME.match(text)
    return closed and is_word and plain


def _are_shares(rows: Sequence[Mapping[str, str]], *, of_calls: bool = False) -> bool:
    """Whether the first time of lines is that which they state shares of, so that another time is an argument.

    One factor is between the times and all shares, as exactly as these are written. `of_calls`: times their count.
    """
    figures = [[quantity(cells.get(field, "")) for field in ("dur", "percent", "count")] for cells in rows]
    pairs = [
        (time.number * (count.number if of_calls and count else 1), share.number)
        for time, share, count in figures
        if time and share and time.number > 0
    ]
    last = Decimal(10) ** min((int(share.as_tuple().exponent) for _, share in pairs), default=0)
    if len(pairs) <= _NAMED or max(share for _, share in pairs) < 5 * last:
        return False
    return max((share - last) / time for time, share in pairs) <= min((share + last) / time for time, share in pairs)


def guess_lines(sample: Sample, path: str, lines: Sequence[str]) -> Proposal:
    """Returns the mapping that patterns or numbers of lines mean. Raises UsageError, or InputError for no such line."""
    patterns: list[str] = []
    for text in lines:
        if re.fullmatch(r"\d+(?:\s*,\s*\d+)*", text):
            patterns.append(_guessed(sample, path, [int(number) for number in text.split(",")]))
        else:
            patterns.append(text)
    mapping = ColumnMap({}, lines=tuple(patterns))
    forms = mapping.patterns()
    fields = {name: unit for pattern in reversed(forms) for name, unit in pattern.fields.items()}
    fit = sum(any(pattern.cells(line) is not None for pattern in forms) for line in sample.lines)
    if not fit:
        raise InputError(
            "has no such line", path=path, expected=f"a line such as {patterns[0]}", remedy="{} stands for anything"
        )
    guesses = [Guess(name, Cell(name, unit), "in the line") for name, unit in fields.items()]
    if not fields.keys() & {"kind", "device", "stream"}:
        why = "the lines don't say what they measure: kind=op is work of the host"
        guesses.append(Guess("kind", Cell(constant="kernel"), why, sure=False))
    layout = f"{fit:,} of {len(sample.lines):,} lines have the form " + " or ".join(patterns)
    return Proposal(layout, tuple(fields), tuple(guesses), lines=tuple(patterns))


def _guessed(sample: Sample, path: str, numbers: Sequence[int]) -> str:
    """The pattern of some lines. Raises UsageError or InputError where they have none."""
    if bad := [number for number in numbers if not 0 < number <= len(sample.lines)]:
        raise InputError(f"has no line {bad[0]}", path=path, expected=f"a line from 1 to {len(sample.lines)}")
    texts = [sample.lines[number - 1].strip() for number in numbers[:_MOST]]
    pattern = _pattern([text for text in texts if len(text) <= LONGEST])
    if pattern is None:
        raise UsageError(
            f"--line: lines {', '.join(map(str, numbers))} share no form with a name and a time",
            expected="lines of one form with different names, and a time with its unit",
            remedy="write the form, such as --line '{name} took {dur} ms'",
        )
    return pattern


def _pattern(texts: Sequence[str]) -> str | None:
    """The pattern of lines, None if they share no name and no time."""
    rows = [[_Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)] for text in texts]
    if not rows or not rows[0]:
        return None
    common = list(range(len(rows[0])))  # of the tokens of the first line, those that all lines have
    for row in rows[1:]:
        common = [common[at] for at in _common([rows[0][it] for it in common], row)]
    slots = dict(_slots(rows[0], common))
    time = next((span[0] for span, what in slots.items() if what in _TIMES), None)
    if time is None:
        return None
    texts_in = [span for span, what in slots.items() if what == "text"]
    names = [span for span in texts_in if span[0] < time][-1:] or texts_in[:1] or _leading(rows[0], time)
    if not names:
        return None
    first, last = _whole_name(texts[0], rows[0], *names[0])
    slots = {
        span: "" if what == "text" else what for span, what in slots.items() if span[1] <= first or span[0] >= last
    }
    return _written(texts[0], rows[0], slots | {(first, last): "name"})


def _is_balanced(text: str) -> bool:
    """Whether no bracket is closed in a text that isn't opened there."""
    return all(text.count(last) <= text.count(first) for first, last in ("()", "[]", "{}"))


def _whole_name(text: str, row: Sequence[_Token], first: int, last: int) -> tuple[int, int]:
    """A name with what stands before it up to where its brackets open, and the word right before that."""
    end = row[last - 1].end
    start = next((at for at in range(first, -1, -1) if _is_balanced(text[row[at].start : end])), first)
    while 0 < start < first and _touch(row, start):
        start -= 1
    return start, last


def _common(first: Sequence[_Token], other: Sequence[_Token]) -> Iterator[int]:
    """The places of those tokens of a line that another one has, too, in the same order."""
    same = SequenceMatcher(None, [token.key for token in first], [token.key for token in other], autojunk=False)
    for block in same.get_matching_blocks():
        yield from range(block.a, block.a + block.size)


def _slots(row: Sequence[_Token], common: Sequence[int]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yields the first and the last token (exclusive) of what differs between lines, and the field that it fills."""
    taken: set[str] = set()
    shared, at = set(common), 0
    while at < len(row):
        if at in shared:
            if row[at].key == "0":
                what = _number(row, at, taken, shared)
                taken.add(what)
                yield (at, at + 1), what
            at += 1
            continue
        first = at
        while at < len(row) and at not in shared:
            at += 1
        while first and (_touch(row, first) or row[first - 1].text in _OF_NAMES) and row[first - 1].text not in _SIGNS:
            first -= 1
        while at < len(row) and _touch(row, at) and not _is_sign(row, at):
            at += 1
        chunk = _whole_chunk(row, first, at)
        yield chunk, "text"
        at = max(at, chunk[1])


def _whole_chunk(row: Sequence[_Token], first: int, last: int) -> tuple[int, int]:
    """What differs with the words beside it that are one blank away, where names are two blanks apart from the rest."""
    end = last
    while (
        end < len(row) and row[end].start - row[end - 1].end < 2 and row[end].key != "0" and row[end].text not in _SIGNS
    ):
        end += 1
    if end == len(row) or row[end].start - row[end - 1].end < 2:
        return first, last
    while first and row[first].start - row[first - 1].end < 2 and row[first - 1].key != "0":
        if row[first - 1].text in _SIGNS or row[first - 1].text == "%":
            break
        first -= 1
    return first, end


def _is_sign(row: Sequence[_Token], at: int) -> bool:
    """Whether a token parts what is around it: `:` does, and the `::` of a qualified name doesn't."""
    beside = [row[it].text for it in (at - 1, at + 1) if 0 <= it < len(row) and _touch(row, max(it, at))]
    return row[at].text in _SIGNS and (row[at].text != ":" or ":" not in beside)


def _touch(row: Sequence[_Token], at: int) -> bool:
    """Whether nothing is between a token and the one before it."""
    return row[at - 1].end == row[at].start


def _number(row: Sequence[_Token], at: int, taken: AbstractSet[str], shared: AbstractSet[int]) -> str:
    """The field that a number fills, by the words around it, else an argument named by the word; '' without one.

    `shared` are the tokens that all lines have: the others are no words for it.
    """
    before = [row[it].text for it in range(max(at - 3, 0), at) if it in shared and row[it].text[0].isalpha()]
    word = before[-1].lower() if before else ""
    field = _FIELDS.get(word, "")
    behind = [token.text.lower() for token in row[at + 1 : at + 3]]
    around = {part for text in (*before, *behind[1:]) for part in text.lower().split("_")}
    field = "avg" if not field and _OF_AVERAGES & around else field
    after = next(iter(behind[1:] if behind[:1] in (["["], ["("]) else behind), "")
    if at and row[at - 1].text == "/" and after == "=" and "count" not in taken:
        return "count"  # 8.7ms / 73 = 0.12ms
    if after == "%":
        return "percent" if "percent" not in taken else ""
    if after in UNITS:
        field = field if field in _TIMES else "dur"
    elif field in ("", *_TIMES):
        field = "count" if after in _COUNTED else ""
    if field and field not in taken:
        return field
    taken_words = {*FIELDS, *_FIELDS, *ALIASES, *UNITS, *taken}
    return word if re.fullmatch(r"[a-z_]{2,}", word) and word not in taken_words else ""


def _leading(row: Sequence[_Token], time: int) -> list[tuple[int, int]]:
    """What the name is where no text differs: the word behind one for it, else all words before the time."""
    words = [at for at, token in enumerate(row[:time]) if token.text[0].isalpha()]
    said = [at + 1 for at in words if row[at].text.lower() in _BEFORE_NAMES and row[at + 1].key != "0"]
    if not words:
        return []
    first = said[-1] if said else words[0]
    whole = first + 1
    while whole < time and row[whole].text not in "=([|,;" and row[whole].text.lower() not in _NO_NAMES:
        whole += 1
    while not row[whole - 1].text[-1].isalnum() and row[whole - 1].text not in (")", ">"):
        whole -= 1
    last = first + 1
    while last < time and (row[last].key == "0" or _touch(row, last)) and row[last].text not in _SIGNS:
        last += 1
    numbers = [at for at in range(first, whole) if row[at].key == "0" and not _is_within_word(row, at)]
    if said or not numbers:
        return [(first, last if said else max(whole, last))]
    return [(first, max(last, numbers[0] + 1 + (row[numbers[0] + 1].text in (">", "]", ")"))))]


def _is_within_word(row: Sequence[_Token], at: int) -> bool:
    """Whether a number is part of a word, as in `tree<4>`: it counts nothing."""
    while at and _touch(row, at):
        at -= 1
    return row[at].text[0].isalpha()


def _written(text: str, row: Sequence[_Token], slots: dict[tuple[int, int], str]) -> str:
    """The pattern: the text of a line with its fields in braces."""
    parts: list[str] = []
    at = 0
    for (first, last), what in sorted(slots.items()):
        between = text[at : row[first].start]
        if not what and parts and parts[-1] == "{}" and not any(map(str.isspace, between)):
            at = row[last - 1].end  # parts of a date, of a version
            continue
        parts += [between, f"{{{what}}}"]
        at = row[last - 1].end
    return " ".join("".join(chain(parts, [text[at:]])).split())
