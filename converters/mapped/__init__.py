"""Tables of anybody, CSV, TSV or JSON Lines, by a mapping of their columns to fields (`ktrace.input.mapping`).

    Kernel,t0,Δ,queue,note                                 {"op":"gemm","span":{"begin":12.5,"end":14},"gpu":0}
    gemm,12.5,3.25,compute,                                {"op":"norm","span":{"begin":14,"end":14.25},"gpu":0}
    softmax,15.75,0.5,compute,"second, slower"

    name=Kernel,start=t0:us,dur=Δ:us,stream=queue          name=op,start=span.begin:ms,end=span.end:ms,device=gpu

A row with a start is an event, any other row a summary. Columns that the mapping doesn't name become arguments.
"""

from __future__ import annotations

import re
from pathlib import Path

from ktrace.kit import Format, Match, Sample, Score

#: Bytes and lines at the beginning of a file that may show a table, and the fewest columns that one has.
_HEAD, _LINES, _FEWEST = 4096, 3, 3

#: A number with a unit of time.
_TIME = re.compile(rb"\d\s{0,4}[\[(]?(?:[num]|\xc2\xb5|\xce\xbc|milli|micro|nano)?s(?:ec(?:ond)?s?)?\b")

#: An object in a list with a key that has a unit of time: `[{"op": "gemm", "time_ms":`. It spares most JSON the guess.
_UNIT = rb"(?:[ _(/\[](?:[num\xb5\xbc]?s|[num]?secs?|\w{0,5}seconds?)[)\]]?|[a-z][NUM]s)"
_TIMED_KEY = re.compile(rb'[\[,]\s{0,40}\{[^{}]{0,400}?"[^"\\]{0,80}' + _UNIT + rb'"\s{0,4}:')


def probe(sample: Sample) -> Match | None:
    """STATED with a mapping; SHAPE for JSON objects, in lines or in a list, whose keys state a name and a time.

    SUFFIX for lines of one form with a name and a time. NEAR for lines with the same number of separators, or of other
    JSON objects.
    """
    if sample.mapping:
        return Match(Score.STATED, f"has a mapping of its columns next to it, {Path(sample.mapping).name}")
    if sample.listing is not None or sample.tables is not None or b"\0" in sample.head[:_HEAD]:
        return None
    lines = sample.head[:_HEAD].splitlines()[: _LINES + 1]
    lines = lines if sample.whole and len(sample.head) <= _HEAD and len(lines) <= _LINES else lines[:-1]
    if lines and all(line.startswith(b'{"') and line.rstrip().endswith(b"}") for line in lines):
        if match := _of_objects(sample):
            return match
        near = Match(Score.NEAR, "has lines of JSON objects, without a mapping of their keys")
        return near if len(lines) > 1 else None
    if sample.is_json:
        return _of_objects(sample, in_list=True) if _TIMED_KEY.search(sample.head[:_HEAD]) else None
    if len(lines) < 2:
        return None
    for separator, word in ((b",", "commas"), (b"\t", "tabs"), (b";", "semicolons")):
        counts = {line.count(separator) for line in lines if b'"' not in line} or {0}
        if len(counts) == 1 and min(counts) >= _FEWEST - 1:
            near = Match(Score.NEAR, f"a table with {word}, without a mapping of its columns")
            return _of_lines(sample) or near
    return _of_lines(sample)


def _of_objects(sample: Sample, *, in_list: bool = False) -> Match | None:
    """SHAPE for objects in lines or in a list whose keys state a name and a time, SUFFIX for times of variants."""
    from ktrace.input.mapping import ColumnMap

    from .guess import stated

    stated_here = stated(sample)
    if stated_here is None or (in_list and stated_here[0].listed is None):
        return None
    where = "lines" if stated_here[0].listed is None else "a list"
    if isinstance(stated_here[1], ColumnMap):
        return Match(Score.SHAPE, f"has {where} of JSON objects whose keys state {', '.join(stated_here[1].cells)}")
    return Match(Score.SUFFIX, f"has {where} of JSON objects with times of variants or settings")


def _of_lines(sample: Sample) -> Match | None:
    """SUFFIX for lines of one form with a name and a time: less sure than any table."""
    if not sample.text or not _TIME.search(sample.head[:_HEAD]):
        return None
    from .guess_lines import stated_lines

    mapping = stated_lines(sample, sample.name)
    return Match(Score.SUFFIX, f"most lines are of the form {mapping.lines[0]}") if mapping else None


FORMAT = Format(
    "mapped",
    "any CSV, TSV or JSON Lines by a mapping of its columns",
    patterns=("*.csv", "*.tsv", "*.jsonl"),
    probe=probe,
    read="ktrace.converters.mapped.reader:read",
    beside=("{name}.ktrace.toml", "{plain}.ktrace.toml"),
    propose="ktrace.converters.mapped.guess:guess",
    max_score=Score.STATED,
    holds="blocks",
)
