"""OTF2 traces of Score-P, rocprofv3 and others, read by OTF2's own library (the extra `otf2`).

scorep_run/traces.otf2     the anchor file: begins with a byte 3 and "BOTF2"
scorep_run/traces.def      clock, regions, locations (threads, streams) in groups (processes, devices) on nodes
scorep_run/traces/0.evt    the events of a location: Enter, Leave, Metric, MpiSend, ...

Facts: the reference of OTF2 3.2 (headers, its Python package). Names of streams, and
copies as RMA of a stream, are those of Score-P's CUDA and HIP adapters; what rocprofv3 writes is in generateOTF2.cpp of
rocprofiler-sdk.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_MAGIC = re.compile(rb".BOTF2", re.DOTALL)

#: Files of a folder that another format may read.
_TRACE = re.compile(r".*\.(?:json|csv|tsv|log|db|sqlite3?|perfetto|pftrace|parquet|nsys-rep|ncu-rep)(?:\.gz|\.zst)?")


def anchors(listing: tuple[str, ...]) -> list[str]:
    """The anchor files of the traces in a folder."""
    return [path for path in listing if path.endswith(".otf2")]


def probe(sample: Sample) -> Match | None:
    """MAGIC for the anchor file; DIALECT for a folder with one, its definitions and no trace of another format."""
    if sample.listing is None:
        return Match(Score.MAGIC, "starts like the anchor file of an OTF2 trace") if _MAGIC.match(sample.head) else None
    names = anchors(sample.listing)
    stem = names[0].removesuffix("otf2") if len(names) == 1 else ""
    if not stem or f"{stem}def" not in sample.listing or any(map(_TRACE.fullmatch, sample.listing)):
        return None
    return Match(Score.DIALECT, f"is the folder of an OTF2 trace, with {names[0]}")


FORMAT = Format(
    "otf2",
    "OTF2 of Score-P, rocprofv3 and others, the .otf2 file or its folder",
    patterns=("*.otf2",),
    probe=probe,
    read="ktrace.converters.otf2.reader:read",
    beside=("{stem}.def", "{stem}.marker", "{stem}/*"),
    reads_folders=True,
    prose=True,
    binary=True,
)
