"""What TensorFlow Lite's benchmark_model prints: how long runs took, and each operator; text or CSV.

    INFO: count=64 first=16067 curr=15102 min=14661 max=17579 avg=15517.6 std=551
    INFO: Operator-wise Profiling Info for Regular Benchmark Runs:
    ============================== Run Order ==============================
    [node type]  [first]  [avg ms]     [%]  [cdf%]  [mem KB]  [times called]  [Name]       (tabs and blanks between)
        CONV_2D    0.398     0.407  2.658%  3.986%     0.000               1  [conv0/Relu]:1

    node type, first, avg_ms, %, cdf%, mem KB, times called, name
    CONV_2D, 0.398, 0.407, 2.658%, 3.986%, 0, 1, [Conv2d_0/Relu6]:1

The writers: stats_calculator.cc and lite/tools/benchmark of TensorFlow, 2018 (with a column [start]) to 2026. The
average is of a call; calls are those of one run.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: The headings of operators, and those of the sums by type, without brackets.
HEADINGS = ("node type", "start", "first", "avg ms", "%", "cdf%", "mem KB", "times called", "name")
_BRACKETS = re.compile(r"\[([^\]]{1,20})\]")
#: The time of all runs of a kind.
RUNS = re.compile(
    r"(?P<all>Timings \(microseconds\): )?count=[1-9]\d{0,11} (?:.{0,300}? avg|curr)=[\d.e+]{1,30}.{0,200}"
)
TIMINGS = "Inference timings in us: Init:"


def headings_of(text: str) -> list[str] | None:
    """The headings of a table of operators, or of the sums by type; None for another line."""
    if "[" in text and (found := _BRACKETS.findall(text)):
        names = [name.lower() if name == "Name" else name for name in found]
    elif text.startswith("node type, "):
        names = [cell.replace("avg_ms", "avg ms") for cell in text.split(", ")]
    else:
        return None
    is_table = len(names) > 5 and names[0].lower() == "node type" and "avg ms" in names
    return [names[0].lower(), *(name.strip() for name in names[1:])] if is_table else None


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table of operators, or the times of runs."""
    for number, text in enumerate(sample.lines, 1):
        if ("[node type]" in text or text.startswith("node type, ")) and headings_of(text.strip()):
            return Match(Score.DIALECT, f"has operators of TensorFlow Lite's benchmark_model (line {number})")
        if TIMINGS in text:
            return Match(Score.DIALECT, f"has times of TensorFlow Lite's benchmark_model (line {number})")
    return None


FORMAT = Format(
    "tflite",
    "TensorFlow Lite benchmark_model: times of runs, of operators, as text or CSV",
    patterns=("*.txt", "*.log", "*.csv"),
    probe=probe,
    read="ktrace.converters.tflite.reader:read",
    words=("[node type]", "node type, ", "inference timings in us"),
    prose=True,
)
