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
from itertools import pairwise

from ktrace.kit import Format, Match, Sample, Score

#: Characters at the start of a log that are examined; how many of the lines must have durations: two, and one in ten.
_SEARCHED = 1 << 13
_LEAST = 2
_SHARE = 10

#: Labels that differ, at least, where no word tells of a page.
_LEAST_LABELS = 3

#: Lines with a time that are examined; at least half of them must have a label. Longer lines than this aren't.
_EXAMINED = 40
_LONGEST = 10_000

_WORD = "(index)"

#: What onnxruntime-web prints, whose format is another one.
_OTHERS = '[profiling] kernel "'

_INDEX = re.compile(r"^[^\S\n]*│ \(index\)[^\S\n]*│|^\(index\)\t", re.MULTILINE)
_PAGE = re.compile(
    r"(?i)webgpu|webgl|wgsl|\[gpu|gpu[_:=]|gputime|shader|tfjs|%c|\.m?[jt]s:\d|\bwasm\b|timer ended|\bkernel\b|dispatch"
)
_TIME = re.compile(
    r"\d ?(?:ns|us|µs|μs|ms|s|[mn]?secs?|(?:milli|micro|nano)?seconds?)\b|\((?:in )?(?:seconds|[mu]s)\)"
    r"|(?:_(?:ns|us|ms)|[a-z](?:Ns|Us|Ms))\"?[=:]"
)


def is_page(sample: Sample) -> bool:
    """Whether the words of a page are there: what it measures are ranges of its work, and else figures of anything."""
    return _PAGE.search((sample.text or "")[:_SEARCHED]) is not None


def probe(sample: Sample) -> Match | None:
    """SUFFIX for lines with labels and durations, DIALECT for console.table."""
    start = sample.head[:64].lstrip()
    if not start or start[:1] in b"{<" or re.match(rb"\[\s*[\[{\"\d\]]", start) or not sample.text:
        return None
    text = sample.text[:_SEARCHED]
    if _OTHERS in text or not (_INDEX.search(text) if _WORD in text else _TIME.search(text)):
        return None
    from .figures import box_of, labels_of, named_in

    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if _WORD in line and any(
            (box := box_of(line, below)) and box.fields for below in lines[number + 1 : number + 3]
        ):
            return Match(Score.DIALECT, "has a table of console.table with times")
    likely = [line for line in lines if len(line) < _LONGEST and _TIME.search(line)][:_EXAMINED]
    if len(likely) < _LEAST or len(likely) * _SHARE < len(lines):
        return None
    found = [labels for line in likely if (labels := labels_of(line))]
    names = [name for labels in found for name in labels]
    names += [name for above, line in pairwise(lines) if line in likely and (name := named_in(above, line))]
    kinds = {re.sub(r"(?<![\dx])\d+(?![\dx])", "", name) for name in names}
    if len(found) * 2 < len(likely) or not (is_page(sample) or len(names) >= _LEAST_LABELS <= len(kinds) + 1):
        return None
    return Match(Score.SUFFIX, f"has lines with labels and durations, {len(found)} of the first {len(lines)}")


FORMAT = Format(
    "console",
    "lines with labels and durations, console.table",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.console.reader:read",
    prose=True,
    max_score=Score.SHAPE,
    logged="any layer",
)
