"""Logs of a GPU over time: power, clocks, temperature, utilisation, memory, and why its clocks were low.

    timestamp, index, pstate, power.draw [W], clocks.current.sm [MHz], clocks_event_reasons.active
    2024/05/01 12:34:56.789, 0, P0, 312.40 W, 1410 MHz, 0x0000000000000004

    #Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
    #YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %   MHz   MHz
     20240501   12:34:56      0   312    61     -    98    40     0     0  1593  1410

    timestamp,gpu,power_usage,hotspot_temperature,gfx,gfx_clock
    1714567890,0,512,71,99,2100

    Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Frequency (MHz)
    12:34:56.789,    0, 99.45, 119.36, 1800

They are written by nvidia-smi (--query-gpu and --query-compute-apps with csv; dmon and pmon with -o), amd-smi (monitor
and metric with --csv and --watch), and xpu-smi dump, in this order.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_LINES = 60
_WITHOUT_HEADINGS = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ")
_NO_TIMES = {
    "#entity": "dcgmi dmon",
    "device,temperature (sensor": "rocm-smi --csv",
}
_REMEDY = (
    "record it with times: nvidia-smi dmon -o DT, nvidia-smi --query-gpu=timestamp,..., amd-smi monitor --csv -w 1"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of one of the tools, with times; NEAR for readings without times or headings."""
    from .layouts import layout_of

    lines = sample.lines[:_LINES]
    for number, text in enumerate(lines):
        if layout := layout_of(text, lines[number + 1] if number + 1 < len(lines) else ""):
            if layout.has_times:
                return Match(Score.DIALECT, f"has the headings of a log of {layout.tool} (line {number + 1})")
            return Match(Score.NEAR, f"has readings of {layout.tool}, but no times of day", _REMEDY)
        for words, tool in _NO_TIMES.items():
            if text.lower().startswith(words):
                return Match(Score.NEAR, f"has readings of {tool}, which writes no times", _REMEDY)
    if lines and _WITHOUT_HEADINGS.match(lines[0]):
        return Match(Score.NEAR, "has readings of nvidia-smi, but no headings", "write it without the option noheader")
    return None


FORMAT = Format(
    "smi",
    "logs of nvidia-smi, amd-smi, xpu-smi: power, clocks, temperature, throttling",
    patterns=("*.csv", "*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.smi.reader:read",
    words=("timestamp,", ", timestamp", "# gpu", "#date", "#time", *_NO_TIMES, " %, ", " mib, ", " w, ", " mhz, "),
    prose=True,
)
