"""Canonical records as an Arrow IPC file (Feather V2), written by ktrace itself (model version 1).

    ARROW1 .. record | source | id | ts   | kind   | name | ...    metadata of the schema: ktrace.version = 1.0
              event  | run    | 1  | 1000 | kernel | gemm | ...

The columns are those of Parquet, the catalog is rows as in CSV; buffers are compressed with zstd.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_MAGIC = b"ARROW1\0\0"


def probe(sample: Sample) -> Match | None:
    """Certain with the key "ktrace.version" in the schema, which is at the start of the file."""
    if not sample.head.startswith(_MAGIC):
        return None
    if b"ktrace.version" in sample.head[:65_536]:
        return Match(Score.MAGIC, 'is an Arrow IPC file with the key "ktrace.version" in its schema')
    return Match(Score.NEAR, 'an Arrow IPC file, but without ktrace\'s key "ktrace.version" in its schema')


FORMAT = Format(
    "arrow",
    "canonical records as an Arrow IPC file",
    patterns=("*.arrow", "*.feather"),
    probe=probe,
    read="ktrace.converters.arrow.reader:read",
    writer="ktrace.converters.arrow.reader:Writer",
    prose=True,
    binary=True,
)
