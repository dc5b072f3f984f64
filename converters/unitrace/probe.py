"""Recognises the titles, timeline lines and call lines of unitrace and its predecessors."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_SIGNS = (
    (
        "=== ",
        re.compile(r"^=== (?:API|Device|Kernel) (?:Timing|Submission|Properties)(?: (?:Summary|Results))?:? ===", re.M),
    ),
    (
        " (submit) ",
        re.compile(r"^.* \[ns\] (?:= )?\d+ \((?:append|queued)\) \d+ \(submit\) \d+ \(start\) \d+ \(end\)", re.M),
    ),
    ("<<<< [", re.compile(r"^<<<< \[\d+\] (?:<PID:\d+> )?(?:<TID:\d+> )?[a-z]{2,4}[A-Z]\w+ \[\d+ ns\]", re.M)),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a title, a line of a timeline or a call."""
    if sample.head[:1] in (b"{", b"[", b"<") or b"\0" in sample.head[:4096]:
        return None
    if b"=== " not in sample.head and b" (submit) " not in sample.head and b"<<<< [" not in sample.head:
        return None
    text = sample.text
    for word, sign in _SIGNS:
        if text and word in text and (found := sign.search(text)):
            return Match(Score.DIALECT, f"contains '{found[0].strip()[:60]}'")
    return None
