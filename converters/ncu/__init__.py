"""Nsight Compute (`ncu`, 2019 to 2026): its printed text and its CSV pages. Launches with their metrics, without times.

What `ncu ./app` prints, between the output of the program itself (from 2019 to 2022 tables have no heading row,
and lines of kernels have a date but no grid):

    [4242] app@127.0.0.1
      gemm(const float *, float *) (64, 64, 1)x(16, 16, 1), Context 1, Stream 7, Device 0, CC 8.0
        Section: GPU Speed Of Light Throughput
        ----------------------- ----------- ------------
        Metric Name             Metric Unit Metric Value
        ----------------------- ----------- ------------
        Duration                         us       896.42
        ----------------------- ----------- ------------

        OPT   Est. Speedup: 12.5%
              The grid is too small.

`--csv --page details`, a line per metric or rule; rows of metrics have fewer cells:

    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",...
    "0","4242","app","127.0.0.1","gemm(..)","1","7","(16, 16, 1)","(64, 64, 1)","0",...,"Duration","us","896.42",

`--csv --page raw`, a line per launch, a column per metric, and a row of units below the headings:

    "ID","Process ID","Process Name","Host Name","Kernel Name",...,"gpu__time_duration.sum","launch__grid_size"
    "","","","","",...,"us",""
    "0","4242","app","127.0.0.1","gemm(..)",...,"896.42","4,096"
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

from .marks import AVERAGES, METRICS, OWN, SECTION, headings, is_placed, launch_line, unprefixed

#: The start of ncu's own remarks; other tools write ==WARNING==, too.
_REMARKS = ("Connected to process", "Disconnected from process", "Profiling ", "No kernels were profiled", "ERR_NV")

#: The headings of `--page source`, whose rows are instructions or lines of the program, not launches.
_SOURCE_PAGE = re.compile(
    r'^"(?:#|Address|Line No|Line)",(?=[^\n]*"Source",)[^\n]*"(?:# Samples|Instructions Executed|Warp Stall Sampling)',
    re.MULTILINE,
)


#: The same in text: headings continue over several lines, so that only the first words are complete.
_SOURCE_TEXT = re.compile(
    r"^Kernel Name +\S.*(?:\n.*){0,9}\n-{3}[- ]*\n(?:Address|#|Line No|Line) +(?:Address +)?Source ", re.MULTILINE
)

#: The start of `--page session`, as text and as CSV.
_SESSION = re.compile(
    r'^Launch Settings\s*\n(?:-[- ]*\n)?(?:Launch Attribute +Value|"Launch Attribute","Value")', re.MULTILINE
)

#: These pages begin within this many characters of a text.
_NEAR_TOP = 2000


def probe(sample: Sample) -> Match | None:
    """DIALECT for the line of a launch, the headings of a CSV page, or a remark about ncu's work."""
    text = sample.text
    if not text:
        return None
    lines = sample.lines or text.splitlines()
    for number, line in enumerate(lines, 1):
        if reason := _reason(line, lines[number : number + 2]):
            return Match(Score.DIALECT, f"has {reason} (line {number})")
    if '"Source",' in text and _SOURCE_PAGE.search(text):
        return _refused("the source page of Nsight Compute, which has instructions but no launches")
    if (session := _SESSION.search(text)) and session.start() < _NEAR_TOP:
        return _refused("the session page of Nsight Compute, which has settings and device attributes but no launches")
    if (source := _SOURCE_TEXT.search(text)) and source.start() < _NEAR_TOP:
        return _refused("the source page of Nsight Compute, which has instructions but no launches")
    if AVERAGES in text:
        return _refused("a summary of Nsight Compute that has no launch, as per-nvtx has none without ranges")
    return None


def _refused(reason: str) -> Match:
    remedy = (
        "export the launches: ncu --import REPORT.ncu-rep --csv --page raw > launches.csv; or convert the report itself"
    )
    return Match(Score.DIALECT, reason, remedy)


def _reason(line: str, following: list[str]) -> str | None:
    """Returns why a line is one of ncu's, None if it isn't."""
    if "==" in line and (own := OWN.fullmatch(line)):
        return "a remark by ncu" if own["text"].lstrip().startswith(_REMARKS) else None
    if headings(line):
        return "the headings of an ncu page"
    launch = launch_line(unprefixed(line))
    if launch and (is_placed(launch) or any(SECTION.fullmatch(unprefixed(after)) for after in following)):
        return "the launch of a kernel as ncu prints it"
    if "Metric Name" in line and METRICS.fullmatch(unprefixed(line)):
        return "the headings of a table that ncu prints"
    return None


FORMAT = Format(
    "ncu",
    "Nsight Compute: printed text, CSV of the details and raw pages",
    patterns=("*ncu*.csv", "*ncu*.txt", "*ncu*.log"),
    probe=probe,
    read="ktrace.converters.ncu.reader:read",
    words=(
        "==",
        ", context ",
        ")x(",
        "kernel name",
        "metric name",
        '"source",',
        "launch attribute",
        " invocation",
        "shown averages",
    ),
    prose=True,
)
