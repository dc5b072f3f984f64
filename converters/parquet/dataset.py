"""A dataset of `ktrace batch` as one trace: the shards of all finished inputs, one after the other.

    run.parquet/_ktrace/inputs/rank3-5f0c81a2b3c4.json    names    run_name=.../rank=3/rank3-5f0c81a2b3c4.parquet

On this machine or in an object store; from a store, only the columns in use are fetched. Shards that no manifest names
belong to unfinished inputs and aren't read.
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
from ktrace.input.stores import Local, Store, is_remote, open_store


@dataclass(frozen=True)
class Dataset:
    """The finished inputs, in the order of their files' names."""

    store: Store
    inputs: list[Manifest]

    def shards(self) -> Iterator[Shard]:
        """Yields all shards, input by input."""
        for manifest in self.inputs:
            yield from manifest.shards

    def wanted(self, conversion: Conversion, ranks: frozenset[int] | None) -> list[Shard]:
        """The shards of the ranks in use and those without a known rank; all shards where none has such a rank."""
        shards = list(self.shards())
        if ranks is None or not any(shard.place.rank in ranks for shard in shards):
            return shards
        mine = [shard for shard in shards if shard.place.rank is None or shard.place.rank in ranks]
        if rows := sum(shard.rows for shard in shards) - sum(shard.rows for shard in mine):
            detail = f"{rows:,} by --rank, in {len(shards) - len(mine):,} files of other ranks"
            conversion.report.issue("left-out", self.store.path, detail, rows)
        return mine

    def shown(self, shard: Shard) -> str:
        """The shard's path or URL, for messages."""
        return f"{self.store.path.rstrip('/')}/{shard.name}"

    @contextmanager
    def opened(self, shard: Shard) -> Iterator[Path | BinaryIO]:
        """Opens a shard: its path on this machine, a stream of it from a store."""
        if not is_remote(self.store.path):
            yield Path(self.store.path) / shard.name
            return
        with self.store.open(shard.name) as stream:
            yield stream


def dataset_of(source: Source) -> Dataset | None:
    """The input's dataset, None where the input isn't a dataset.

    Raises DamagedInput where a shard is missing or has another size, InputError where a link leads out of the
    folder, and the errors of `manifests`.
    """
    if not source.is_folder or not (is_remote(source.path) or (Path(source.path) / MARK).exists()):
        return None
    store = open_store(source.path)
    files = store.files()
    if not is_dataset(files):
        return None
    dataset = Dataset(store, manifests(store, files))
    for shard in dataset.shards():
        if isinstance(store, Local):
            store.inside(shard.name)
        if (size := files.get(shard.name)) != shard.size:
            raise DamagedInput(
                "has lost a shard"
                if size is None
                else f"has a shard of {size:,} bytes; it was written with {shard.size:,}",
                path=source.path,
                where=shard.name,
                remedy="run the same `ktrace batch` again: it writes the missing files",
            )
    return dataset
