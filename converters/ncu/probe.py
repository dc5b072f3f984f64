"""Recognises what Nsight Compute prints, wherever it stands in the head."""

from __future__ import annotations

import re

from ktrace.format import Match, Score
from ktrace.source import Sample

from .marks import METRICS, OWN, SECTION, headings, is_placed, launch_line, unprefixed

#: How remarks of ncu's begin; other tools write ==WARNING==, too.
_REMARKS = ("Connected to process", "Disconnected from process", "Profiling ", "No kernels were profiled", "ERR_NV")

#: Without one of these nothing in a text is ncu's.
_WORDS = ("==", ", Context ", ")x(", "Kernel Name", "Metric Name", '"Source",')

#: The headings of `--page source`: an instruction or a line of the program in each row, no launch.
_SOURCE_PAGE = re.compile(
    r'^"(?:#|Address|Line No|Line)",(?=[^\n]*"Source",)[^\n]*"(?:# Samples|Instructions Executed|Warp Stall Sampling)',
    re.MULTILINE,
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the line of a launch, the headings of a CSV page, or what ncu says of its work."""
    text = sample.text
    if not text or not any(word in text for word in _WORDS):
        return None
    lines = sample.lines or text.splitlines()
    for number, line in enumerate(lines, 1):
        if reason := _reason(line, lines[number : number + 2]):
            return Match(Score.DIALECT, f"has {reason} (line {number})")
    if '"Source",' in text and _SOURCE_PAGE.search(text):
        return Match(
            Score.DIALECT,
            "the source page of Nsight Compute, which has instructions and no launches",
            "export the launches: ncu --import REPORT.ncu-rep --csv --page raw > launches.csv",
        )
    return None


def _reason(line: str, following: list[str]) -> str | None:
    """Why a line is one of ncu's, None where it isn't."""
    if "==" in line and (own := OWN.fullmatch(line)):
        return "a remark of ncu's" if own["text"].lstrip().startswith(_REMARKS) else None
    if headings(line):
        return "the headings of an ncu page"
    launch = launch_line(unprefixed(line))
    if launch and (is_placed(launch) or any(SECTION.fullmatch(unprefixed(after)) for after in following)):
        return "the launch of a kernel as ncu prints it"
    if "Metric Name" in line and METRICS.fullmatch(unprefixed(line)):
        return "the headings of a table that ncu prints"
    return None
