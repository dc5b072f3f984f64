"""Databases of HPCToolkit, version 4: what hpcprof makes of the measurements of hpcrun.

    hpcrun -e CPUTIME -e gpu=nvidia -t ./app;  hpcprof hpctoolkit-app-measurements
    hpctoolkit-app-database/
        meta.db       metrics, and the tree of calling contexts: functions, loops, lines, instructions
        profile.db    the values of the metrics, by thread or GPU stream, context and metric
        cct.db        the same values, by context
        trace.db      by thread or GPU stream: from when on it was in which context (with -t)

All numbers are little endian; each file begins with "HPCTOOLKIT", four letters for its content and its version.

Facts: doc/FORMATS.md of HPCToolkit, which hpcprof lays into each database; of names of metrics and placeholders and of
how GPU work is traced hpcrun's gpu-metrics.h, placeholders.c and gpu-trace.c.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

MAGIC = b"HPCTOOLKIT"

#: The files that hpcprof always writes.
_FILES = ("meta.db", "profile.db", "cct.db")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a folder with the files of a database; NEAR for one of these files alone."""
    if sample.listing is not None:
        if all(name in sample.listing for name in _FILES):
            return Match(Score.DIALECT, f"has the files of an HPCToolkit database: {', '.join(_FILES)}")
        return None
    if sample.head.startswith(MAGIC):
        return Match(Score.NEAR, "is one file of an HPCToolkit database, which is read as a folder: name the folder")
    return None


FORMAT = Format(
    "hpctoolkit",
    "HPCToolkit databases (hpcprof), a folder",
    patterns=("hpctoolkit-*-database",),
    probe=probe,
    read="ktrace.converters.hpctoolkit.reader:read",
    words=("hpctoolkit",),
    reads_folders=True,
    binary=True,
)
