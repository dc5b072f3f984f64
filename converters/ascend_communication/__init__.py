"""Collectives of Huawei Ascend's profiler: communication.json of a rank, and cluster_communication.json of all ranks.

    {"step1": {"p2p": {}, "collective": {"hcom_allReduce__501_0@6297232067196334501":
      {"Communication Time Info": {"Start Timestamp(us)": 1695054582608213.0, "Elapse Time(ms)": 121.73694384375,
        "Transit Time(ms)": 0.0080599375, "Wait Time(ms)": 115.960641, "Idle Time(ms)": 5.768242375, ...},
       "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 0.063936, "Bandwidth(GB/s)": 2.7012, ...}}},
      "Total Op Info": {...}}}}

    {"(0, 1)": {"step1": {"hcom_allReduce__501_0@6297232067196334501": {"0": {...}, "1": {...}}}}}     of ranks 0, 1

Fields: torch_npu's communication parser (profiler/analysis), msprof-analyze's cluster analysis, 2023 to 2026.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: The first members: a step or a group, and in it the kinds or the operators.
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[^"]{1,200}"\s*:\s*\{')
_WORDS = (b'"Communication Time Info"', b'"Elapse Time(ms)"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object with the times of collectives."""
    if not _HEAD.match(sample.head[:4096]) or not all(word in sample.head for word in _WORDS):
        return None
    return Match(Score.DIALECT, 'has "Communication Time Info" of Ascend\'s profiler')


FORMAT = Format(
    "ascend-communication",
    "Huawei Ascend collectives: communication.json, cluster_communication.json",
    patterns=("communication.json", "cluster_communication.json"),
    probe=probe,
    read="ktrace.converters.ascend_communication.reader:read",
    words=("communication time info",),
)
