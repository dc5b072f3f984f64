"""Logs of a browser's, a script's or a program's console with durations that it printed in a form of its own.

    [gpu] step=0 kernel=fill begin=2651731345152 end=2651732944373 gpu_ms=1.5992 grid=128x1x1
    [gpu] matmul 123456 ns
    upload: 1.23 ms                        also console.time's: 1.23ms, 3ms - timer ended, 1:02.345 (m:ss.mmm)
    load time =  3692.32 ms / 5.6 ms per layer
    sort - avg 1.2 ms (min 1.0, max 1.4)   also: sort: count = 5, avg = 1.2 ms; sort took 1.2 ± 0.1 ms
    Running kernel 'fill'                  what a time without a name in the line below is of
    Completed in 1.2 ms
    [tfjs] {"kernels":[{"name":"Relu","kernelTimeMs":6.135,"inputShapes":[[32,64]]}]}
    %cRelu             	%c6.10ms	%c2D 32,64         	%c2048	%cx: 2D 32,64 	%c font-weight:bold color:red
    │ (index) │ name     │ ms   │                           console.table

Programs whose words are known have formats of their own: this one comes last.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.measured import go_up, is_measured, tells_of_tests

#: Characters at the start of a log that are examined; how many of the lines must have durations: two, and one in ten.
_SEARCHED = 1 << 13
_LEAST = 2
_SHARE = 10

#: Labels that differ, at least, where no word tells of a page: two where they speak of time, or a text of measuring.
_LEAST_LABELS = 3
_OF_TIME = re.compile(r"(?i)(?<![a-z])(?:times?|took|latency|elapsed|duration|runtime|cost)(?![a-z])")
_SAYS_TIME = re.compile(r"(?i)\b(?:elapsed|latency|duration|taking)\b")
_OF_MEASURING = re.compile(r"(?i)\b(?:benchmark\w*|profil\w+|timings?|kernels?|gpus?|cuda|flops|speed-?up|cycles)\b")
#: A rate beside a time: such a line tells of measuring alone.
_RATE = re.compile(
    r"(?i)\d ?(?:[kmgt]?i?b|[kmgtp]?flops?|[kmgtp]?ops|[kmg]?elements|[kmg]?keys|tok(?:ens)?|it(?:er)?s?"
    r"|img|frames)/s\b|\d ?(?:ips|fps|qps)\b|\d ?[GT]FLOPS\b"
    r"|\b(?:tok(?:en)?s?|it|samples|[KMGT]i?B|[GTP]FLOPS?)/s(?:/\w{1,9})? ?[:=] ?\d"
)
#: A label that is a name in a program, with its time.
_IDENTIFIER = re.compile(r"[A-Za-z](?:[^\W_]*_\w+(?:\(\))?|\w*\(\))")

#: A line that says by itself that it is a time of a device: one is enough.
_OF_DEVICE = re.compile(
    r"(?i)\b(?:gpu|kernel|cuda|hip|npu|shader)s?\b.{0,60}?"
    r"(?:\b(?:times?|elapsed|latency|duration|took)\b|\d ?[mun]?s avg\b)"
)

#: Words of sentences, which no name has.
_IN_SENTENCES = re.compile(
    r"(?i)\b(?:the|an?|we|i|you|it|this|that|these|our|my|your|is|are|was|were|has|had|have|with|when|which|because|so|but|and|if)\b"
)

#: Labels of what builds, which no recording is of.
_BUILDING = re.compile(
    r"(?i)(?!.*\b(?:average|latency|inference)\b)\W*(?:configur|generat(?:e|ing)\b|compil|link(?:ed|ing)\b|build(?:ing|s)?\b|built\b|install|download|fetch|resolv"
    r"|bundl|unpack|extract|render(?:ed|ing) (?:chunks|pages)|transform(?:ed|ing) modules|lint|critical path)"
)

#: Lines with a time that are examined; at least half of them must have a label. Longer lines than this aren't.
_EXAMINED = 40
_LONGEST = 10_000

#: A bar of progress, and how far it is.
_PROGRESS = re.compile(r"\|[^|\w]{3,200}\|\s{0,4}\d{1,9}/\d")

_WORD = "(index)"

#: What onnxruntime-web prints, whose format is another one.
_OTHERS = '[profiling] kernel "'

#: A line that is drawn: what is above it may still name what is below.
DRAWN = re.compile(r"\s{0,40}[-=*_~─━═]{3,400}\s{0,9}")

_INDEX = re.compile(r"^[^\S\n]*│ \(index\)[^\S\n]*│|^\(index\)\t", re.MULTILINE)
_PAGE = re.compile(
    r"(?i)webgpu|webgl|wgsl|\[gpu|gpu[_=]|(?:^|[\n\[,{\"'])[ ]*gpu:"
    r"|gputime|shader|tfjs|%c|\.m?[jt]s:\d|\bwasm\b|timer ended|\bkernel\b|dispatch"
)
_STAMP = re.compile(r"\s*\d[\d.]{0,20} ?(?:s|secs?|seconds?)\b")
_DECIMAL = re.compile(r"\d\.\d")
_SECONDS = re.compile(r"\d ?(?:s|secs?|seconds?)\b")
_TIME = re.compile(
    r"\d ?(?:ns|us|µs|μs|ms|s|NS|US|MS|[mnu]?secs?|(?:milli|micro|nano)?seconds?)\b"
    r"|[(\[](?:in )?(?:seconds|[mun]?s)[)\]]"
    r"|\bin (?:(?:micro|milli|nano) ?sec|[Ss]econds:|[Mm]illiseconds:)"
    r"|\b[Tt]im(?:e|ing)s? (?:are |is )?in (?:[mun]?s|(?:milli|micro|nano)?seconds)\b|\d[hm] ?\d{1,2}(?:\.\d+)?[ms]\b"
    r"|(?:(?:_|\b)(?:ns|us|ms|s|[mun]?secs?|seconds)|[a-z](?:Ns|Us|Ms))[)\]]?[\"']?\s{0,20}[=:]"
)
#: The start of a dict of Python, where JSON is another format's.
_DICT = re.compile(rb"\{\s*'")


def is_page(sample: Sample) -> bool:
    """Whether the words of a page are there: what it measures are ranges of its work, and else figures of anything."""
    return _PAGE.search((sample.text or "")[:_SEARCHED]) is not None


def probe(sample: Sample) -> Match | None:
    """SUFFIX for lines with labels and durations, DIALECT for console.table."""
    start = sample.head[:64].lstrip()
    if (
        not start
        or (start[:1] in b"{<" and not _DICT.match(start))
        or re.match(rb"\[\s*[\[{\"\d\]]", start)
        or not sample.text
    ):
        return None
    text = sample.text[:_SEARCHED]
    if _OTHERS in text or not (_INDEX.search(text) if _WORD in text else _TIME.search(text)):
        return None
    from .above import UnitAbove, whole_lines
    from .boxes import box_of
    from .figures import below_names, labels_of, named_in

    unit = UnitAbove()
    lines = [
        line for line in map(unit.take, whole_lines(text.splitlines())) if line.strip() and not DRAWN.fullmatch(line)
    ]
    for number, line in enumerate(lines):
        if _WORD in line and any(
            (box := box_of(line, below)) and box.fields for below in lines[number + 1 : number + 3]
        ):
            return Match(Score.DIALECT, "has a table of console.table with times")
    timed = (line for line in lines if len(line) < _LONGEST and _TIME.search(line) and not _PROGRESS.search(line))
    likely = list(islice(filter(is_measured, timed), _EXAMINED))
    if are_stamps(sample):
        likely = [line for line in likely if not line.lstrip()[:1].isdigit()]
    if not likely or len(likely) * _SHARE < len(lines) or tells_of_tests(sample.text):
        return None
    labelled = [labels for line in likely if (labels := labels_of(line))]
    named = [(name, line) for line in likely for name in labels_of(line) if name]
    named += [(name, line) for above, line in pairwise(lines) if line in likely and (name := named_in(above, line))]
    headed = below_names(lines)
    named += [(above, line) for above, line in pairwise(lines) if headed & {*labels_of(line)}]
    if len(labelled) * 2 < len(likely) or not (_are_enough(named, sample) or _repeats(likely)):
        return None
    return Match(Score.SUFFIX, f"has lines with labels and durations, {len(labelled)} of the first {len(lines)}")


def _are_enough(named: list[tuple[str, str]], sample: Sample) -> bool:
    """Whether labels, each with its line, tell of something measured."""
    if is_page(sample) and len(named) >= _LEAST:
        return True
    from .records import of_records

    measured = [(name, line) for name, line in named if not _BUILDING.match(name)]
    kinds = {re.sub(r"(?<![\dx])\d+(?![\dx])", "", name) for name, _ in measured}
    if len(measured) < _LEAST_LABELS or len(kinds) < _LEAST:
        is_measuring = _OF_MEASURING.search((sample.text or "")[:_SEARCHED]) is not None
        are_times = all(
            _OF_TIME.search(name) or _SAYS_TIME.search(line) or (is_measuring and not _SECONDS.search(line))
            for name, line in measured
        )
        are_names = all(_IDENTIFIER.fullmatch(name) and _DECIMAL.search(line) for name, line in measured)
        are_records = all(line.rstrip(" ,;.").endswith(("}", "]", ")")) and of_records(line) for _, line in measured)
        if len(measured) >= _LEAST_LABELS and all(_OF_TIME.search(name) for name, _ in measured):
            from .figures import says_setting

            text = (sample.text or "")[:_SEARCHED]
            if len({line.strip() for line in text.splitlines() if says_setting(line)}) >= _LEAST:
                return True
        if len(measured) == 1:
            ((name, line),) = measured
            if _OF_DEVICE.search(line) and _DECIMAL.search(line) and not _IN_SENTENCES.search(name):
                return True
        is_rate = any(_RATE.search(line) for _, line in measured)
        return bool(measured) and (is_rate or ((are_times or are_names or are_records) and len(kinds) >= _LEAST))
    return True


def _repeats(lines: list[str]) -> bool:
    """Whether lines are what a tool that repeats something prints, which no other program does."""
    from .lists import of_repeats
    from .statements import of_span

    return any(of_repeats(line.strip()) or of_span(line.strip()) for line in lines)


def are_stamps(sample: Sample) -> bool:
    """Whether the times that stand first in lines go up all the time: how long the program has run."""
    from .figures import figures_of

    lines = (line for line in sample.lines if len(line) < _LONGEST and _STAMP.match(line))
    times = [
        figures[0].dur for line in islice(lines, _EXAMINED) if (figures := figures_of(line)) and figures[0].is_first
    ]
    return go_up(times)


FORMAT = Format(
    "console",
    "lines with labels and durations, console.table: consoles of WebGPU and WebGL pages, logs",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.console.reader:read",
    prose=True,
    max_score=Score.DIALECT,
    logged="any layer",
)
