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
and metric with --csv and --watch), and xpu-smi dump, in this order. Some programs write no times:

    #Entity   GPUTL             POWER             TMPTR
    ID                           W                 C
    GPU 0     98                312.400           61

    device,Temperature (Sensor edge) (C),GPU use (%)
    card0,61.0,98

    {"card0": {"Temperature (Sensor edge) (C)": "61.0", "GPU use (%)": "98"}}

These are dcgmi dmon, and rocm-smi --csv and --json. The shell can put a time before each line (see times.py).
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_LINES = 60
_WITHOUT_HEADINGS = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ")
_JSON = re.compile(r'\{"card\d+": \{"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of one of the tools, NEAR for readings without headings."""
    from .layouts import layout_of

    lines = sample.lines[:_LINES]
    for number, text in enumerate(lines):
        if layout := layout_of(text, lines[number + 1] if number + 1 < len(lines) else ""):
            return Match(Score.DIALECT, f"has the headings of a log of {layout.tool} (line {number + 1})")
        if _JSON.match(text):
            return Match(Score.DIALECT, f"has readings of rocm-smi (line {number + 1})")
    if lines and _WITHOUT_HEADINGS.match(lines[0]):
        return Match(Score.NEAR, "has readings of nvidia-smi, but no headings", "write it without the option noheader")
    return None


FORMAT = Format(
    "smi",
    "logs of nvidia-smi, dcgmi, amd-smi, rocm-smi, xpu-smi: power, clocks, temperature, throttling",
    patterns=("*.csv", "*.json", "*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.smi.reader:SmiLog.read",
    words=(
        *("timestamp,", ", timestamp", "# gpu", "#date", "#time", " %, ", " mib, ", " w, ", " mhz, "),
        *("#entity", "# entity", "device,", '{"card'),
    ),
    logged="a time",
)
