"""A dataset of `ktrace batch` as one trace: the shards of the inputs that are done, one after the other.

    run.parquet/_ktrace/inputs/rank3-5f0c81a2b3c4.json    names    run_name=.../rank=3/rank3-5f0c81a2b3c4.parquet

Here or in an object store; there only the columns that are looked at are fetched. Shards that nothing names belong to
inputs that aren't finished, and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.dataset_manifest import MARK, Manifest, Shard, is_dataset, manifests
from ktrace.input.source import Source
from ktrace.input.stores import Store, is_remote, open_store


@dataclass(frozen=True)
class Dataset:
    """The inputs that are done, by the names of their files."""

    store: Store
    inputs: list[Manifest]

    def shards(self) -> Iterator[Shard]:
        """All shards, those of an input together."""
        for manifest in self.inputs:
            yield from manifest.shards

    def wanted(self, conversion: Conversion, ranks: frozenset[int] | None) -> list[Shard]:
        """The shards of the ranks that are looked at, or of no known rank; all, where no shard is of these ranks."""
        shards = list(self.shards())
        if ranks is None or not any(shard.place.rank in ranks for shard in shards):
            return shards
        mine = [shard for shard in shards if shard.place.rank is None or shard.place.rank in ranks]
        if rows := sum(shard.rows for shard in shards) - sum(shard.rows for shard in mine):
            told = f"{rows:,} by --rank, in {len(shards) - len(mine):,} files of other ranks"
            conversion.report.issue("left-out", self.store.path, told, rows)
        return mine

    def shown(self, shard: Shard) -> str:
        """The shard's path or URL, for people."""
        return f"{self.store.path.rstrip('/')}/{shard.name}"

    @contextmanager
    def opened(self, shard: Shard) -> Iterator[Path | BinaryIO]:
        """The shard's file: its path here, a stream of it elsewhere."""
        if not is_remote(self.store.path):
            yield Path(self.store.path) / shard.name
            return
        with self.store.open(shard.name) as stream:
            yield stream


def dataset_of(source: Source) -> Dataset | None:
    """The dataset that the input is, None where it is something else.

    Raises DamagedInput where a shard is missing or isn't as long as it was, and what `manifests` raises.
    """
    if not source.is_folder or not (is_remote(source.path) or (Path(source.path) / MARK).exists()):
        return None
    store = open_store(source.path)
    files = store.files()
    if not is_dataset(files):
        return None
    dataset = Dataset(store, manifests(store, files))
    for shard in dataset.shards():
        if (size := files.get(shard.name)) != shard.size:
            raise DamagedInput(
                "has lost a shard" if size is None else f"has a shard of {size:,} bytes that had {shard.size:,}",
                path=source.path,
                where=shard.name,
                remedy="run the same `ktrace batch` again: it makes what is missing",
            )
    return dataset
