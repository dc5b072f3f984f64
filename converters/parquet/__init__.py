"""Canonical records in Parquet, written by ktrace itself (model version 1): a folder or one file, in zstd.

A dataset (`dataset.py`) is many such files, written by `ktrace batch` and read as one trace.

    run/                       run.parquet
      events.parquet             record | source | id | ts   | kind   | name | ...
      summaries.parquet          event  | run    | 1  | 1000 | kernel | gemm |
      links.parquet              footer: ktrace.version = 1.0
      catalog.parquet                    ktrace.catalog = [{"record":"catalog",...}]

All columns but `scope` (a list of texts) are flat, so DuckDB, Polars and pandas read them directly.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

#: The file that marks a dataset of `ktrace batch`. Importing ktrace/input/dataset_manifest.py would slow a probe down.
_MARK = "_ktrace/dataset.json"

_FILES = {"events.parquet", "summaries.parquet", "links.parquet", "catalog.parquet"}


def probe(sample: Sample) -> Match | None:
    """Certain with a file that has the key "ktrace.version", or a folder with events.parquet and the like."""
    if sample.listing is not None:
        return _probe_folder(set(sample.listing))
    if not sample.head.startswith(b"PAR1"):
        return None
    end = sample.head if sample.whole else sample.tail
    if b"ktrace.version" in end:
        return Match(Score.MAGIC, 'is Parquet with the key "ktrace.version" in its footer')
    if end and not end.endswith(b"PAR1"):
        return Match(Score.MAGIC, "starts like Parquet, but its end is missing")
    if not end:
        return Match(Score.SHAPE, "is Parquet (its footer can't be seen without reading the whole file)")
    return Match(Score.NEAR, 'a Parquet file, but without ktrace\'s key "ktrace.version" in its footer')


def _probe_folder(names: set[str]) -> Match | None:
    if _MARK in names:
        return Match(Score.MAGIC, "is a dataset that `ktrace batch` wrote")
    files = sorted(names & _FILES)
    if not files:
        return None
    if names <= _FILES or "events.parquet" in names:
        return Match(Score.DIALECT, f"is a folder with {', '.join(files)}")
    return Match(Score.NEAR, f"a folder with {', '.join(files)}, but without events.parquet and with other files")


FORMAT = Format(
    "parquet",
    "canonical records in Parquet, a file or a folder",
    patterns=("*.parquet",),
    probe=probe,
    read="ktrace.converters.parquet.reader:read",
    writer="ktrace.converters.parquet.writer:Writer",
    writes_folders=True,
    about="ktrace.converters.parquet.dataset:about",
    texts="ktrace.converters.parquet.reader:texts",
    read_part="ktrace.converters.parquet.reader:read",
    scan="ktrace.converters.parquet.dataset:scanned",
    reads_folders=True,
    prose=True,
    binary=True,
)
