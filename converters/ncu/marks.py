"""By what the lines of Nsight Compute are known. The standard library alone, since the probe looks for them, too."""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

from ktrace.converters._shared.text.prefixes import without_prefix

#: Headings of what isn't a metric -> the column of the model that they fill.
PLACES = {"Process ID": "pid", "Context": "context", "Stream": "stream", "Device": "device", "Device Id": "device"}
SIZES = {"Grid Size": "grid", "Block Size": "block"}
FIXED = {"", "ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "CC", "Invocations", *PLACES, *SIZES}

#: What ncu says of its own work. The program's output may stand before it on the line.
OWN = re.compile(r".*?==(?P<kind>PROF|WARNING|ERROR|INFO|LOG)== (?P<text>.*)")

SECTION = re.compile(r"\s*Section: (\S.*?)\s*")

#: How a remark begins that explains the averages of a summary, over a few lines.
AVERAGES = "Note: The shown averages are calculated"

#: What stands in place of a table that would be empty.
REMARK = re.compile(r"\s*The system does not have any [\w ]+\.\s*")

#: The headings of a table of metrics.
METRICS = re.compile(r"\s*Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum\s+Maximum\s+Average)\s*")

#: The rank of a launcher (`srun -l`, PALS), or the number of a line that was copied with it.
_RANKED = re.compile(r"(?:[A-Za-z][\w.-]* )?\d{1,6}:(?:\s|$)")

_XYZ = r"\((?P<{0}_x>\d{{1,18}}), (?P<{0}_y>\d{{1,18}}), (?P<{0}_z>\d{{1,18}})\)"
_LAUNCH = re.compile(
    r"\s*(?P<name>\S.*?)"
    rf"(?:,? {_XYZ.format('grid')}x{_XYZ.format('block')})?"
    r"(?:, (?P<time>\d{4}-\w{3}-\d\d \d\d:\d\d:\d\d))?"
    r"(?:, Context (?P<context>\d{1,18}))?(?:, Stream (?P<stream>\d{1,18}))?(?:, Device (?P<device>\d{1,18}))?"
    r"(?:, CC (?P<cc>\d+\.\d+))?(?:, Invocations (?P<count>\d{1,18}))?(?P<rest>(?:, [A-Z][\w ]* [\w.]+)*)\s*"
)

#: A launch as summaries of 2022 have it.
_SUMMED_UP = re.compile(
    r"\s*(?P<name>\S.*?), Block Size (?P<block_x>\d{1,18}), Grid Size (?P<grid_x>\d{1,18})"
    r"(?:, Device (?P<device>\d{1,18}))?, (?P<count>\d{1,18}) invocations?\s*"
)

#: Characters of a line that may be one of a launch; names of kernels have a few thousand.
_LONGEST = 100_000


class Headings(NamedTuple):
    """The headings of a CSV page. `long`: a line a metric, else a line a launch."""

    fields: list[str]
    long: bool

    @property
    def is_shuffled(self) -> bool:
        """Whether it is the page of which ncu writes the cells into wrong columns."""
        at = {name: number for number, name in enumerate(self.fields)}
        device = at.get("Device", at.get("Device Id"))
        if not self.long or device is None or "Section Name" in at:
            return False
        return "Average" in at and "Kernel Name" in at and device < at["Kernel Name"]


def fields_of(text: str) -> list[str] | None:
    """The cells of a line, None where it is no CSV."""
    try:
        return next(csv.reader((text,), strict=True), None)
    except csv.Error:
        return None


def headings(text: str) -> Headings | None:
    """The headings of a page, if the line has them."""
    if "," not in text or ("Kernel Name" not in text and "Metric Name" not in text):
        return None
    fields = [field.strip() for field in fields_of(text) or ()]
    known = set(fields)
    if not known & {"ID", "Process ID", "Kernel Name"}:
        return None
    if "Metric Name" in known and known & {"Metric Value", "Average"}:
        return Headings(fields, long=True)
    if "Kernel Name" in known and known & {"ID", "Process ID"} and known - FIXED:
        return Headings(fields, long=False)
    return None


def unprefixed(text: str) -> str:
    """The line as ncu printed it."""
    text = without_prefix(text)
    found = _RANKED.match(text)
    return text[found.end() :] if found else text


def launch_line(text: str) -> re.Match[str] | None:
    """What a line says if it has the shape of one of a launch: name, sizes, time, context, stream, device, cc, count.

    Only one that is_placed is it for sure; another one is it where a section follows.
    """
    if len(text) > _LONGEST:
        return None
    if " invocation" in text and (found := _SUMMED_UP.fullmatch(text)):
        return found
    if ", Context " not in text and ")x(" not in text:
        return None
    if text.lstrip().startswith(("==", "Section:")):
        return None
    found = _LAUNCH.fullmatch(text)
    return found if found and (found["context"] or found["grid_x"]) else None


def is_placed(launch: re.Match[str]) -> bool:
    """Whether the line of a launch says where it ran."""
    return bool(launch.groupdict().get("context") or launch["device"] or launch.re is _SUMMED_UP)
