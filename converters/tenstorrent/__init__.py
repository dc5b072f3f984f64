"""Profiles of tt-metal on Tenstorrent's chips: its report of operations, and the zones of each core.

ops_perf_results_*.csv (tools/tracy/process_ops_logs.py), a line for each operation and for each signpost of the host;
cpp_device_perf_report.csv has the same columns of the device, and OP NAME:

    OP CODE,OP TYPE,GLOBAL CALL COUNT,DEVICE ID,DEVICE ARCH,ATTRIBUTES,MATH FIDELITY,CORE COUNT,...,HOST START TS,...,
    DEVICE FW START CYCLE,DEVICE FW END CYCLE,OP TO OP LATENCY [ns],...,DEVICE KERNEL DURATION [ns],...
    MatmulDeviceOperation,tt_dnn_device,3072,0,wormhole_b0,{'bcast_batch': 'true'},HiFi2,64,...
    decode started,signpost,,,,,,,...

profile_log_device.csv (tt_metal/impl/profiler/profiler.cpp), a line for each begin and each end of a zone:

    ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64
    PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, ...
    0,1,2,BRISC,45671,64479520316,0,7,,,BRISC-FW,ZONE_START,433,brisc.cc,

Until 2024 `zone phase` (begin, end) was in the place of `type`, `stat value` in that of `data`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score

_CHIP = re.compile(r"\s*ARCH: *\w+ *, *CHIP_FREQ\[MHz\]:")
_LINES = 4

OPS, ZONES = "operations", "zones"

_DURATION = "DEVICE KERNEL DURATION [ns]"
_NEEDED = {
    OPS: (("OP CODE", "OP NAME"), ("DEVICE ID",), (_DURATION,)),
    ZONES: (
        *(("PCIe slot",), ("core_x",), ("core_y",), ("RISC processor type",)),
        *(("time[cycles since reset]",), ("zone name",), ("type", "zone phase")),
    ),
}


def table_kind(cells: Sequence[str]) -> str | None:
    """OPS or ZONES for the headings of such a table, None for another line."""
    own = {cell.strip() for cell in cells}
    for kind, needs in _NEEDED.items():
        if all(any(name in own for name in names) for names in needs):
            return kind
    return None


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of either file."""
    text = (sample.text or "")[: 1 << 14]
    for line in text.splitlines()[:_LINES]:
        if _CHIP.match(line):
            return Match(Score.DIALECT, "begins with the frequency of a chip, as tt-metal's device log does")
        if "," in line and (kind := table_kind(line.split(","))):
            return Match(Score.DIALECT, f"has the headings of tt-metal's {kind}")
    return None


FORMAT = Format(
    "tenstorrent",
    "Tenstorrent tt-metal profiles: ops_perf_results, profile_log_device CSV",
    patterns=("ops_perf_results*.csv", "cpp_device_perf_report*.csv", "profile_log_device*.csv"),
    probe=probe,
    read="ktrace.converters.tenstorrent.reader:read",
    words=("chip_freq[mhz]", "device kernel duration [ns]", "time[cycles since reset]"),
    prose=True,
)
