"""What bpftrace prints: the maps of a script, as text or, with `-f json`, as an object a line.

    Attaching 5 probes...                          {"type": "attached_probes", "data": {"probes": 5}}
    @calls[cudaMemcpy, trainer]: 360               {"type": "map", "data": {"@calls": {"cudaMemcpy,trainer": 360}}}
    @us: count 360, average 112, total 40437       {"type": "stats", "data": {"@us": {"count": 360, ...}}}
    @ns[trainer]:                                  {"type": "hist", "data": {"@ns": {"trainer": [
    [8K, 16K)             59 |@@@@@@@     |          {"min": 8192, "max": 16383, "count": 59}, ...]}}}
    @launches[
        cuLaunchKernel+0
        main+42
    , trainer]: 120

Facts: src/output.cpp of bpftrace 0.9.2 to 0.23, src/output/ from 0.24, where messages of the program go to stderr and
stats are printed as `{ .count = 360, .average = 112, .total = 40437 }`. K, M, G, T, P, E are powers of 1024. Buckets of
JSON end with their last value, those of text before it. Until 0.9.2 JSON had `msg`, `probes` and `events` for `data`.
Intervals of tseries() are times of CLOCK_TAI, which is ahead of unix time by leap seconds where the system knows them.

Only the script's author knows what a map contains. A time or a size is read as such if the map's name ends with its
unit, as in the tools of bpftrace (tools/*.bt: @usecs, @us, @ns, @ms, @bytes).
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

MAPS = ("map", "hist", "stats", "tseries")
WORDS = ("printf", "value", "time", "cat", "join", "syscall", "errorf", "warnf", "helper_error", "runtime_error")
OTHERS = ("attached_probes", "lost_events", "test_result", "benchmark_result")
_OBJECT = re.compile(r'\s*\{"type": ?"(' + "|".join((*MAPS, *WORDS, *OTHERS)) + r')", ?"(\w{1,16})": ?(\{"@)?')

ATTACHED = re.compile(r"Attach(?:ing|ed) (\d{1,9}) probes?(?:\.\.\.)?")
HEAD = re.compile(r"(@[A-Za-z0-9_]{0,200})(?:: ?(?P<value>.*)|\[(?P<key>.*))")
WHOLE = re.compile(r"-?\d{1,20}")
STATS = re.compile(
    r"(?:\{ \.)?count (?:= )?(-?\d{1,20}), \.?average (?:= )?(-?\d{1,20}), \.?total (?:= )?(-?\d{1,20})(?: \})?"
)
BUCKET = re.compile(r"([(\[])([^\[\]()|]{1,80})[)\]] *(\d{1,20}) \|[@ ]{0,60}\|")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a message of JSON, or for maps in text; NEAR for a script that prints none."""
    attached, maps, others = 0, 0, 0
    for number, text in enumerate(sample.lines, 1):
        if text.startswith('{"type"') and (match := _OBJECT.match(text)) and (match[1] not in MAPS or match[3]):
            if match[1] in ("attached_probes", "printf") or match[3]:
                return Match(Score.DIALECT, f"has messages of bpftrace -f json (line {number})")
        elif text.startswith("@") and (match := HEAD.fullmatch(text)):
            value = (match["value"] if match["key"] is None else match["key"].rpartition("]:")[2]).strip()
            after = sample.lines[number] if number < len(sample.lines) else ""
            if STATS.fullmatch(value) or (not value and BUCKET.fullmatch(after)):
                return Match(Score.DIALECT, f"has maps of bpftrace (line {number})")
            maps += bool(WHOLE.fullmatch(value) or _is_stack(match["key"], after))
        elif BUCKET.fullmatch(text) and others == 0 == maps:
            return Match(Score.NEAR, "has a histogram of bpftrace, but not the map's name", "keep the line before it")
        else:
            attached += bool(ATTACHED.fullmatch(text))
            others += bool(text.strip()) and not text.startswith((" ", "\t", "]"))
    if maps and (attached or maps > others):
        return Match(Score.DIALECT, "has maps of bpftrace")
    if attached:
        return Match(
            Score.NEAR, "has no map of bpftrace, only what a script prints", "print maps, or pass --from table"
        )
    return None


def _is_stack(key: str | None, after: str) -> bool:
    return key is not None and "]:" not in key and after.startswith(("    ", "\t"))


FORMAT = Format(
    "bpftrace",
    "bpftrace: maps of a script, as text or by -f json",
    patterns=("*.jsonl", "*.json", "*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.bpftrace.reader:read",
    words=('{"type":', "attaching ", "attached ", "@"),
)
