"""Canonical Parquet as datasets that a database scans: nothing is read before, and only the columns in use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ktrace.input.source import Source
from ktrace.input.stores import is_remote
from ktrace.model.batch import VERSION, WORD, arrow_schema

from .dataset import dataset_of


def scanned(source: Source, records: Sequence[str]) -> dict[str, ds.Dataset] | None:
    """The rows of some records; None where they have to be read: from elsewhere, or not as this version writes them."""
    if is_remote(source.path):
        return None
    files = _files(source)
    if files is None:
        return None
    return {record: _dataset(record, files) for record in records}


def _files(source: Source) -> dict[Path, str | None] | None:
    """The files and the record of each, None for all; None where one isn't as this version writes it."""
    if dataset := dataset_of(source):
        paths = [Path(source.path) / shard.name for shard in dataset.shards()]
    else:
        paths = sorted(Path(source.path).glob("*.parquet")) if source.is_folder else [Path(source.path)]
    found: dict[Path, str | None] = {}
    for path in paths:
        try:
            footer = pq.read_metadata(path).metadata or {}
        except (OSError, pa.ArrowException):
            return None
        if footer.get(b"ktrace.version", b"").decode() != VERSION:
            return None
        record = footer.get(b"ktrace.record")
        found[path] = record.decode() if record else None
    return found


def _dataset(record: str, files: dict[Path, str | None]) -> ds.Dataset:
    """The rows of one record."""
    plain = [pa.field(one.name, _plain(one.type)) for one in arrow_schema(record)]
    own = [path for path, of in files.items() if of == record]
    every = [path for path, of in files.items() if of is None]
    parts = [ds.dataset(own, pa.schema(plain), "parquet")] if own or not every else []
    if every:
        mixed = ds.dataset(every, pa.schema([("record", pa.string()), *plain]), "parquet")
        parts.append(mixed.filter(pc.field("record") == WORD[record]))
    return parts[0] if len(parts) == 1 else ds.dataset(parts)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
