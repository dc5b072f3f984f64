"""A dataset of `ktrace batch` as one trace: the shards of all finished inputs, one after the other.

    run.parquet/_ktrace/inputs/rank3-5f0c81a2b3c4.json    names    run_name=.../rank=3/rank3-5f0c81a2b3c4.parquet

On this machine or in an object store; from a store, only the columns in use are fetched. Shards that no manifest names
belong to unfinished inputs and aren't read. A database scans the shards without reading anything before. `ktrace info`
shows the runs with hosts and ranks, and where these come from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, InputError
from ktrace.input.dataset_manifest import MARK, Manifest, Shard, is_dataset, manifests
from ktrace.input.files import open_file
from ktrace.input.source import Source, file_in
from ktrace.input.stores import Local, Store, is_remote, open_store
from ktrace.model.batch import VERSION, arrow_schema
from ktrace.model.schema import WORD
from ktrace.report import counted

if TYPE_CHECKING:
    import pyarrow.dataset as ds


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
        chosen = [shard for shard in shards if shard.place.rank is None or shard.place.rank in ranks]
        if rows := sum(shard.rows for shard in shards) - sum(shard.rows for shard in chosen):
            detail = f"{rows:,} by --rank, in {counted(len(shards) - len(chosen), 'file')} of other ranks"
            conversion.report.issue("left-out", self.store.path, detail, rows)
        return chosen

    def shown(self, shard: Shard) -> str:
        """The shard's path or URL, for messages."""
        return f"{self.store.path.rstrip('/')}/{shard.name}"

    @contextmanager
    def opened(self, shard: Shard) -> Iterator[Path | BinaryIO]:
        """Opens a shard: its path on this machine, a stream of it from a store."""
        if not is_remote(self.store.path):
            with file_in(Source(self.store.path), shard.name).local_path() as path:
                yield path
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


def about(source: Source) -> dict[str, list[str]]:
    """For a dataset of `ktrace batch`, one line per run; for other Parquet, nothing."""
    dataset = dataset_of(source)
    if dataset is None:
        return {}
    runs: dict[str, list[Shard]] = defaultdict(list)
    for shard in dataset.shards():
        runs[shard.place.run or "unknown run"].append(shard)
    lines = [_line(run, shards) for run, shards in sorted(runs.items())]
    origins = Counter(f"{what} by {who}" for manifest in dataset.inputs for what, who in manifest.said.items() if who)
    lines.append(", ".join(f"{what} of {count:,}" for what, count in sorted(origins.items())))
    return {f"dataset of {len(dataset.inputs):,} inputs": lines}


def _line(run: str, shards: list[Shard]) -> str:
    hosts = sorted({shard.place.host or "unknown host" for shard in shards})
    ranks = sorted({shard.place.rank for shard in shards if shard.place.rank is not None})
    of_ranks = f", {len(ranks):,} ranks ({_first(ranks)})" if ranks else ""
    rows, size = sum(shard.rows for shard in shards), sum(shard.size for shard in shards)
    files = f"{counted(len(shards), 'file')} of {size:,} bytes"
    return f"{run}: {counted(rows, 'row')} in {files}, {_first(hosts)}{of_ranks}"


def _first(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")


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
    records: dict[Path, str | None] = {}
    for path in paths:
        try:
            with open_file(path) as file:
                footer = pq.read_metadata(file).metadata or {}
        except (OSError, InputError, pa.ArrowException):
            return None
        if footer.get(b"ktrace.version", b"").decode() != VERSION:
            return None
        record = footer.get(b"ktrace.record")
        records[path] = record.decode() if record else None
    return records


def _dataset(record: str, files: dict[Path, str | None]) -> ds.Dataset:
    """The rows of one record."""
    import pyarrow.dataset as ds

    plain = [pa.field(one.name, _plain(one.type)) for one in arrow_schema(record)]
    paths = [path for path, of in files.items() if of == record]
    every = [path for path, of in files.items() if of is None]
    parts = [ds.dataset(paths, pa.schema(plain), "parquet")] if paths or not every else []
    if every:
        mixed = ds.dataset(every, pa.schema([("record", pa.string()), *plain]), "parquet")
        parts.append(mixed.filter(pc.field("record") == WORD[record]))
    return parts[0] if len(parts) == 1 else ds.dataset(parts)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
