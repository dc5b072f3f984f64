"""What tracy-csvexport of the Tracy profiler (github wolfpld/tracy, csvexport/) writes of a trace.

    name,src_file,src_line,total_ns,total_perc,counts,mean_ns,min_ns,max_ns,std_ns      (without an option)
    Renderer::draw,render.cpp,120,1500000,12.500000,3,500000,400000,600000,100000.000000

    name,src_file,src_line,ns_since_start,exec_time_ns,thread,value                     (-u; with -p also plots)
    Assets<A, B>::track,lib.rs,11,48210,1200,3,text of the zone
    frame time,,,48300,,,16.600000

    name,src_file,Time from start of program,GPU execution time                         (-g)
    MessageName,total_ns                                                                (-m)

Nothing is in quotes: a name with commas has more cells than the headings. `thread` is Tracy's own number of a thread;
until 2023 there was no `value`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import find_csv

STATISTICS, ZONES, GPU_ZONES, MESSAGES = "statistics of zones", "zones", "GPU zones", "messages"

_HEADINGS = {
    STATISTICS: ("name", "src_file", "src_line", "total_ns", "counts"),
    ZONES: ("name", "src_file", "src_line", "ns_since_start", "exec_time_ns"),
    GPU_ZONES: ("name", "src_file", "Time from start of program", "GPU execution time"),
    MESSAGES: ("MessageName", "total_ns"),
}

_LINES = 20


def table_kind(cells: Sequence[str]) -> str | None:
    """What a table with these headings has, None for another line."""
    return next((kind for kind, needed in _HEADINGS.items() if set(needed) <= set(cells)), None)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of any of the tables."""
    for number, kind in find_csv((sample.text or "")[: 1 << 14].splitlines()[:_LINES], table_kind):
        return Match(Score.DIALECT, f"has the headings of tracy-csvexport's {kind} (line {number})")
    return None


FORMAT = Format(
    "tracy-csv",
    "Tracy csvexport: zones, statistics, GPU zones, messages, plots",
    patterns=("*.csv",),
    probe=probe,
    read="ktrace.converters.tracy_csv.reader:read",
    words=("src_file", "messagename"),
    prose=True,
)
