"""What times in a text aren't of something measured: what is set or expected, tests, how long a program has run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

#: Words of what is set, or expected.
_NOT_MEASURED = re.compile(
    r"(?i)(?<![a-z])(?:time[- ]?outs?|deadline|interval|ttl|delay|sleep(?:ing)?|back-?off|retry|retries|keep-?alive"
    r"|uptime|eta|remaining|limit|budget|threshold|expir\w{1,5}|(?:max[- ]?)?age|estimated|warm(?:ing)?-?up for"
    r"|poll\w{0,4}"
    r"|(?:audio|video|clip|recording)s? (?:length|duration))(?![a-z])"
)

#: What runners of tests print: how long a test took is of no interest here.
_TESTS = re.compile(
    r"\d tests? from |\[ RUN {6}\]|test session starts|^ *\d+/\d+ Test +#\d|^(?:---|===) (?:RUN|PASS|FAIL)"
    r"|^(?:PASS|FAIL) \S+\.[jt]sx?\b",
    re.MULTILINE,
)
_SEARCHED = 1 << 14

#: The fewest times that go up.
_FEWEST = 3


def is_measured(label: str) -> bool:
    """Whether what a label calls may have been measured: a timeout is set, and the time that remains expected."""
    return _NOT_MEASURED.search(label.replace("_", " ")) is None


def tells_of_tests(text: str) -> bool:
    """Whether a text is what a runner of tests prints."""
    return _TESTS.search(text[:_SEARCHED]) is not None


def go_up(times: Sequence[Decimal]) -> bool:
    """Whether times go up from line to line, as those do since a program was started."""
    return len(times) >= _FEWEST and all(a <= b for a, b in pairwise(times)) and times[0] < times[-1]
