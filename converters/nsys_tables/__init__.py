"""Nsight Systems: the other exports of `nsys export`, which contain the same tables as SQLite in another container.

    nsys export --type arrow        run.arrows                 Arrow streams one after the other, one per table
    nsys export --type arrowdir     run_arwdir/NVTX_EVENTS.arrow          a folder, a stream for each table
    nsys export --type parquetdir   run_pqtdir/NVTX_EVENTS.parquet
    nsys export --type hdf          run.h5                     a dataset for each table; HDF5 has no nulls

The tables are written to an SQLite database in a temporary folder, which is then read like an SQLite export.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ktrace.kit import Format, Match, Sample, Score

HDF5 = b"\x89HDF\r\n\x1a\n"

#: The first bytes of an Arrow stream; the length of its schema follows.
ARROW = b"\xff\xff\xff\xff"

#: Compiled by `re` at the first use: that takes 4 ms, and few inputs need it.
_NAMES = (
    r"StringIds|META_DATA_EXPORT|EXPORT_META_DATA|CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS|OSRT_API|"
    r"TARGET_INFO_SESSION_START_TIME|SCHED_EVENTS|COMPOSITE_EVENTS|GPU_METRICS"
)
_IN_BYTES = _NAMES.encode()

#: The first bytes of the raw events that nsys writes as JSON and as text, a string in all of them, and why ktrace
#: doesn't read them.
_RAW = {b'{"data":["': "JSON", b'data: "': "text"}
_ALWAYS = b'"GpuMetrics"'
_INCOMPLETE = "which lacks the devices, the start of the session, its settings and events of plugins"
_SQLITE = "nsys export --type sqlite -o run.sqlite run.nsys-rep"

#: The schema of a stream is within this many bytes.
_SCHEMA = 1 << 16


def probe(sample: Sample) -> Match | None:
    """MAGIC with the name of a table; with a remedy for an input that is incomplete on its own."""
    if sample.listing is not None:
        return _folder(sample.listing)
    if sample.head.startswith(ARROW):
        return _streams(sample)
    if sample.head.startswith(HDF5):
        match = re.search(_IN_BYTES, sample.head + sample.tail)
        return match and Match(Score.MAGIC, f"is HDF5 with the table {match[0].decode()} of Nsight Systems")
    if sample.head.startswith(b"PAR1") and re.fullmatch(_NAMES, PurePosixPath(sample.name).stem):
        return _one_table(sample)
    for begin, kind in _RAW.items():
        if sample.head.startswith(begin) and _ALWAYS in sample.head[:_SCHEMA]:
            return Match(Score.MAGIC, f"is Nsight Systems' export of raw events as {kind}, {_INCOMPLETE}", _SQLITE)
    return None


def _streams(sample: Sample) -> Match | None:
    """Recognises streams that follow one another, beginning with the strings; a single stream is a file of a folder."""
    match = re.search(_IN_BYTES, sample.head[:_SCHEMA])
    if match is None or b"table_name" not in sample.head[:_SCHEMA]:
        return None
    table, stem = match[0].decode(), PurePosixPath(sample.name).stem
    if sample.head.count(b"table_name") > 1 or (table == "StringIds" and stem != table):
        return Match(Score.MAGIC, f"is Arrow with the table {table} of Nsight Systems")
    return _one_table(sample)


def _one_table(sample: Sample) -> Match:
    return Match(
        Score.MAGIC,
        f"is the table {PurePosixPath(sample.name).stem} of an export of Nsight Systems; other files contain its names",
        "convert its folder instead (run_pqtdir, run_arwdir)",
    )


def _folder(listing: tuple[str, ...]) -> Match | None:
    for name in listing:
        path = PurePosixPath(name)
        if len(path.parts) == 1 and path.suffix in (".arrow", ".parquet") and re.fullmatch(_NAMES, path.stem):
            return Match(Score.MAGIC, f"is a folder with the table {name} of Nsight Systems")
    return None


FORMAT = Format(
    "nsys-tables",
    "Nsight Systems export as Arrow, Parquet or HDF5",
    patterns=("*.arrows", "*.h5", "*_arwdir", "*_pqtdir"),
    probe=probe,
    via="nsys",
    export="ktrace.converters.nsys_tables.export:exported",
    reads_folders=True,
    binary=True,
)
