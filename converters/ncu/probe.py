"""Recognises what Nsight Compute prints, wherever it stands in the head."""

from __future__ import annotations

from ktrace.format import Match, Score
from ktrace.source import Sample

from .._shared.prefixes import bare
from .marks import OWN, SECTION, headings, is_placed, launch_line

#: How remarks of ncu's begin; other tools write ==WARNING==, too.
_REMARKS = ("Connected to process", "Disconnected from process", "Profiling ", "No kernels were profiled", "ERR_NV")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the line of a launch, the headings of a CSV page, or what ncu says of its work."""
    text = sample.text
    if not text or not any(word in text for word in ("==", ", Context ", ")x(", "Kernel Name", "Metric Name")):
        return None
    lines = sample.lines or text.splitlines()
    for number, line in enumerate(lines, 1):
        if reason := _reason(line, lines[number : number + 2]):
            return Match(Score.DIALECT, f"has {reason} (line {number})")
    return None


def _reason(line: str, following: list[str]) -> str | None:
    """Why a line is one of ncu's, None where it isn't."""
    if "==" in line and (own := OWN.fullmatch(line)):
        return "a remark of ncu's" if own["text"].lstrip().startswith(_REMARKS) else None
    if headings(line):
        return "the headings of an ncu page"
    launch = launch_line(bare(line))
    if launch and (is_placed(launch) or any(SECTION.fullmatch(bare(after)) for after in following)):
        return "the launch of a kernel as ncu prints it"
    return None
