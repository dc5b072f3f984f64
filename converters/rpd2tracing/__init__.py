"""The output of rocmProfileData's `rpd2tracing.py`: Trace Event JSON whose list begins with an empty object.

    [ {}
    ,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}
    ,{"pid":"2","tid":"0","name":"scale(float*)","ts":"8306020565922","dur":"26211","ph":"X","args":{"desc":"KernelExecution"}}

pid, tid, ts and dur are texts, times are whole µs, rounded down. The pid of a GPU is its number.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\}\s*,\s*\{\s*"(?:name|pid)"\s*:')
_OWN = re.compile(rb'"ph"\s*:\s*"X"\s*,\s*"args"\s*:\s*\{\s*"desc"\s*:|"cat"\s*:\s*"api_op"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list that begins so, with slices or flows of rpd2tracing."""
    if _BEGIN.match(sample.head) and _OWN.search(sample.head):
        return Match(Score.DIALECT, "begins with an empty object, and its slices have a `desc`")
    return None


FORMAT = Format(
    "rpd2tracing",
    "ROCm rocmProfileData (RPD) as Trace Event JSON",
    patterns=("*.json",),
    probe=probe,
    read="ktrace.converters.rpd2tracing.reader:read",
    words=('"desc"', '"api_op"'),
)
