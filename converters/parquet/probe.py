"""Recognises canonical Parquet: magic bytes and ktrace's key in the footer, the names in a folder or dataset."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

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
        return Match(Score.MAGIC, "begins as Parquet, but its end is missing")
    if not end:
        return Match(Score.SHAPE, "is Parquet (its footer can't be seen without reading the whole file)")
    return Match(Score.NEAR, 'a Parquet file, but without ktrace\'s key "ktrace.version" in its footer')


def _probe_folder(names: set[str]) -> Match | None:
    if _MARK in names:
        return Match(Score.MAGIC, "is a dataset that `ktrace batch` wrote")
    found = sorted(names & _FILES)
    if not found:
        return None
    if names <= _FILES or "events.parquet" in names:
        return Match(Score.DIALECT, f"is a folder with {', '.join(found)}")
    return Match(Score.NEAR, f"a folder with {', '.join(found)}, but without events.parquet and with other files")
