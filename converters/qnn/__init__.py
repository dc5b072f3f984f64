"""Profiles of Qualcomm's QNN: the CSV of ONNX Runtime's provider and of qnn-profile-viewer, and what that prints.

    Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier
    1714566896000,EXECUTE,3301,US,NETRUN,ROOT,Graph 0: decode
    1714566896010,EXECUTE,13807,CYCLES,BACKEND,SUB-EVENT,_Transpose_3:OpId_119 (cycles)      an operator
    UNKNOWN,NODE,500,CYCLES,BACKEND,SUB-EVENT,Conv2d:OpId_1 (cycles)                         one, by ONNX Runtime

    Execute Stats (Average):
    --- Graph 0 (model):
        NetRun:  2952 us
        Backend (Number of HVX threads used): 4 count
            /model/conv/Conv:OpId_27 (cycles): 13807 cycles

The writer of ONNX Runtime: core/providers/qnn, 2023 to 2026 (a last column with ONNX' operators since 2026).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score

COLUMNS = ("Msg Timestamp", "Message", "Time", "Unit of Measurement", "Timing Source", "Event Level")
IDENTIFIER = "Event Identifier"
#: The headings of what qnn-profile-viewer prints.
SECTION = re.compile(
    r"(?P<name>(?:Init|Compose Graphs|Finalize|De-Init|Execute|Create From Binary|Apply Binary Section) Stats"
    r"(?: \(\w{1,20}\))?):\s*"
)
_LINES = 200

#: qnn-profile-viewer writes its version and its input above the headings: lines that are looked at.
PREAMBLE = 20


def is_headings(cells: Sequence[str]) -> bool:
    """Whether these are the headings of the CSV, with or without further ones after the identifier."""
    return tuple(cell.strip() for cell in cells[:7]) == (*COLUMNS, IDENTIFIER)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of the CSV, or a section of the printed statistics with a time."""
    lines = sample.lines[:_LINES]
    if any(is_headings(line.lstrip("\ufeff").split(",")) for line in lines[:PREAMBLE]):
        return Match(Score.DIALECT, "has the headings of QNN's profile")
    for number, text in enumerate(lines):
        if SECTION.fullmatch(text.strip().removeprefix("--- ")) and any(
            line.lstrip().startswith("NetRun:") for line in lines[number : number + 8]
        ):
            return Match(Score.DIALECT, f"has statistics of qnn-profile-viewer (line {number + 1})")
    return None


FORMAT = Format(
    "qnn",
    "Qualcomm QNN profiles: CSV of ONNX Runtime and qnn-profile-viewer, its statistics",
    patterns=("*qnn*.csv", "*.csv", "*.txt"),
    probe=probe,
    read="ktrace.converters.qnn.reader:read",
    words=("msg timestamp,", "netrun:"),
    prose=True,
)
