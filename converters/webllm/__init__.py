"""GPU timestamps of WebLLM's compute passes, logged as blocks of JSON between other text.

    [12:01:07] decode step 3
    {"entryPoints":["NT_matmul7_kernel_2"],"start":1038090240,"end":1054801920}
    {"entryPoints":["rms_norm2_kernel"],"start":1054801920,"end":1054867456}

Times are ns of a WebGPU timestamp query; browsers round them to steps of 65,536 or 100,000 ns, so that many
passes take 0 ns. A pass that ran several entry points is one block that lists all of them.
"""

from __future__ import annotations

import re
from itertools import islice

from ktrace.kit import Format, Match, Sample, Score

_BLOCK = re.compile(r'"entryPoints\\?"\s*:\s*(?:\[|\\?")')
_TIMES = (re.compile(r'"start\\?"\s*:\s*\\?"?-?\d'), re.compile(r'"end\\?"\s*:\s*\\?"?-?\d'))

#: The number of characters on either side of `entryPoints` that are searched for the block's other keys.
_REACH = 4_000

#: The number of occurrences of `entryPoints` that are examined.
_LOOKS = 100


def probe(sample: Sample) -> Match | None:
    """DIALECT if `entryPoints`, `start` and `end` are near each other."""
    text = sample.text
    if not text:
        return None
    found = None
    for found in islice(_BLOCK.finditer(text), _LOOKS):
        near = text[max(0, found.start() - _REACH) : found.end() + _REACH]
        if all(time.search(near) for time in _TIMES):
            return Match(Score.DIALECT, "has blocks with the keys entryPoints, start and end")
    return Match(Score.NEAR, "has entryPoints, but no block with start and end") if found else None


FORMAT = Format(
    "webllm",
    "WebLLM timestamp blocks",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.webllm.reader:read",
    words=("entrypoints",),
)
