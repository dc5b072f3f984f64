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

import csv
import re
from typing import NamedTuple

from ktrace.kit import Format, Match, Sample, Score

#: Headings other than metrics -> the column of the model that they fill.
PLACES = {"Process ID": "pid", "Context": "context", "Stream": "stream", "Device": "device", "Device Id": "device"}
SIZES = {"Grid Size": "grid", "Block Size": "block"}
FIXED = {"", "ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "CC", "Invocations", *PLACES, *SIZES}

#: A line about ncu's own work. Output of the program may precede it on the line.
OWN = re.compile(r".*?==(?P<kind>PROF|WARNING|ERROR|INFO|LOG)== (?P<text>.*)", re.DOTALL)

SECTION = re.compile(r"\s*Section: (\S(?:.*\S)?)\s*")

#: The start of a remark, of a few lines, that explains the averages of a summary.
AVERAGES = "Note: The shown averages are calculated"

#: A remark in place of an empty table.
REMARK = re.compile(r"\s*The system does not have any [\w ]+\.\s*")

#: The headings of a table of metrics.
METRICS = re.compile(r"\s*Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum\s+Maximum\s+Average)\s*")

#: The rank that a launcher prefixes (`srun -l`, PALS), or a copied line number.
_RANKED = re.compile(r"(?:[A-Za-z][\w.-]* )?\d{1,6}:(?:\s|$)")

_XYZ = r"\((?P<{0}_x>\d{{1,18}}), (?P<{0}_y>\d{{1,18}}), (?P<{0}_z>\d{{1,18}})\)"
_LAUNCH = re.compile(
    r"\s*(?P<name>\S(?:.*?\S)??)"
    rf"(?:,? {_XYZ.format('grid')}x{_XYZ.format('block')})?"
    r"(?:, (?P<time>\d{4}-\w{3}-\d\d \d\d:\d\d:\d\d))?"
    r"(?:, Context (?P<context>\d{1,18}))?(?:, Stream (?P<stream>\d{1,18}))?(?:, Device (?P<device>\d{1,18}))?"
    r"(?:, CC (?P<cc>\d+\.\d+))?(?:, Invocations (?P<count>\d{1,18}))?(?P<rest>(?:, [A-Z][\w ]* [\w.]+){0,16})\s*"
)

#: A launch in the form of the summaries of 2022.
_SUMMARISED = re.compile(
    r"\s*(?P<name>\S.*?), Block Size (?P<block_x>\d{1,18}), Grid Size (?P<grid_x>\d{1,18})"
    r"(?:, Device (?P<device>\d{1,18}))?, (?P<count>\d{1,18}) invocations?\s*"
)

#: The most characters of a line that may begin a launch; names of kernels have a few thousand.
_LONGEST = 100_000


class Headings(NamedTuple):
    """The headings of a CSV page; it has a line per metric (`long`) or a line per launch."""

    fields: list[str]
    long: bool

    @property
    def is_shuffled(self) -> bool:
        """Whether this is the page whose cells ncu writes into wrong columns."""
        at = {name: number for number, name in enumerate(self.fields)}
        device = at.get("Device", at.get("Device Id"))
        if not self.long or device is None or "Section Name" in at:
            return False
        return "Average" in at and "Kernel Name" in at and device < at["Kernel Name"]


def fields_of(text: str) -> list[str] | None:
    """Returns the cells of a line, None if it isn't CSV."""
    try:
        return next(csv.reader((text,), strict=True), None)
    except csv.Error:
        return None


def headings(text: str) -> Headings | None:
    """Returns the headings of a page, None if the line has none."""
    if "," not in text or ("Kernel Name" not in text and "Metric Name" not in text):
        return None
    fields = [field.strip() for field in fields_of(text) or ()]
    names = set(fields)
    if not names & {"ID", "Process ID", "Kernel Name"}:
        return None
    if "Metric Name" in names and names & {"Metric Value", "Average"}:
        return Headings(fields, long=True)
    if "Kernel Name" in names and names & {"ID", "Process ID"} and names - FIXED:
        return Headings(fields, long=False)
    return None


def unprefixed(text: str) -> str:
    """Returns the line as ncu printed it, without a prefix of a launcher or logger."""
    # The probe is asked about bytes that have a word by chance: those need no text tables.
    from ktrace.kit.text.titles import without_prefix

    text = without_prefix(text)
    match = _RANKED.match(text)
    return text[match.end() :] if match else text


def launch_line(text: str) -> re.Match[str] | None:
    """Matches the line of a launch: name, sizes, time, context, stream, device, cc, count.

    Only a line for which `is_placed` is true is certain; any other is a launch only if a section follows.
    """
    if len(text) > _LONGEST:
        return None
    if " invocation" in text and (match := _SUMMARISED.fullmatch(text)):
        return match
    if ", Context " not in text and ")x(" not in text:
        return None
    if text.lstrip().startswith(("==", "Section:")):
        return None
    match = _LAUNCH.fullmatch(text)
    return match if match and (match["context"] or match["grid_x"]) else None


def is_placed(launch: re.Match[str]) -> bool:
    """Whether the line of a launch names where it ran."""
    return bool(launch.groupdict().get("context") or launch["device"] or launch.re is _SUMMARISED)


#: The start of ncu's own remarks; other tools write ==WARNING==, too.
_REMARKS = (
    *("Connected to process", "Disconnected from process", "Profiling ", "No kernels were profiled", "ERR_NV"),
    *("Failed to profile ", "Trying to shutdown target application", "The application returned an error code"),
)

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
    if "==" in line and (remark := OWN.fullmatch(line)):
        return "a remark by ncu" if remark["text"].lstrip().startswith(_REMARKS) else None
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
