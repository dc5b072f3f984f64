"""Converts one input to shards of a dataset: the work of one worker, in its own process and on any machine.

    Task ──► read ──► Parquet under a temporary name ──► moved to its place ──► manifest ──► Outcome

The part made from a byte range of a big input waits in the dataset for the other parts (`ranges`).
A task is plain data and `convert_one` a module-level function, so that both can be pickled.

The sources of an input have a label in the dataset, and the run, host and rank that they belong to:

    rank3.json.gz   source "rank3"   the catalog: host "node7"   the path: rank 3   ──► Place("run", "node7", 3)

The catalog may name these in its last rows. A rank that only the path names becomes a fact of the source.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from ktrace import __version__
from ktrace.conversion import Conversion
from ktrace.errors import KtraceError
from ktrace.input.capabilities import ByteRange
from ktrace.input.dataset_manifest import BY, DatasetPlace, Manifest, Shard, Stamp, file_stem, write_manifest, written
from ktrace.input.detection import by_name
from ktrace.input.limits import in_force
from ktrace.input.relabel import relabelled
from ktrace.input.source import stem
from ktrace.input.stores import Store, open_store
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import words_in
from ktrace.model.row_builder import to_batch
from ktrace.output import Sink, writing
from ktrace.output.write import write_batches
from ktrace.pipeline.read import read_batches, read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Ledger, Report

#: Entities of the catalog that name the run, host or rank of a source.
_PLACE_ENTITIES = ("source", "host")


class Sources:
    """Labels the batches of an input, and collects the places of its sources.

    The input is called `label` in its dataset and `stem` elsewhere. A source named like the stem gets the label; other
    sources, such as those of canonical files, are put below it: `label/source`. `place` is the place that the path of
    the input names. `origins` records where run, host and rank come from: "catalog", "path", "folder" (that of the
    pattern), or "" if they are unknown.
    """

    def __init__(self, label: str, stem: str, place: DatasetPlace) -> None:
        self._label = label
        self._stem = stem
        self._place = place
        self._names: dict[str, None] = {}
        self._catalog = Catalog()
        self.origins: dict[str, str] = {}

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yields the batches with their labels, and at the end the ranks that only the path names."""
        for batch in batches:
            named = self._relabelled(batch)
            if batch.record == "catalog":
                has_place = words_in(named.column("entity"), _PLACE_ENTITIES)
                self._catalog.add(Batch("catalog", named.columns.filter(pa.array(has_place))))
            yield named
        if self._place.rank is not None:
            facts = dump_json({"rank": self._place.rank, "rank_from": "path"})
            unranked = [name for name in self._names if self._catalog.rank(name) is None]
            if unranked:
                rows = [{"entity": "source", "source": name, "id": 0, "facts": facts} for name in unranked]
                yield to_batch("catalog", rows)

    def places(self, run: str) -> dict[str, DatasetPlace]:
        """Returns the place of each source. `run` is the default where neither the path nor the catalog names a run."""
        return {name: self._place_of(name, run) for name in self._names or (self._label,)}

    def _relabelled(self, batch: Batch) -> Batch:
        words = decoded(batch.column("source").unique()).to_pylist()
        labels = {word: self._label if word == self._stem else f"{self._label}/{word}" for word in words}
        self._names.update(dict.fromkeys(labels.values()))
        named = relabelled(batch, labels)
        if named is batch or batch.record != "catalog" or not batch.has("name"):
            return named
        source, name = decoded(batch.column("source")), decoded(batch.column("name"))
        is_default = pc.and_(pc.equal(decoded(batch.column("entity")), "source"), pc.equal(name, source))
        shown = pc.if_else(pc.fill_null(is_default, False), decoded(named.column("source")), name)
        index = named.columns.schema.get_field_index("name")
        return Batch("catalog", named.columns.set_column(index, "name", shown))

    def _place_of(self, source: str, run: str) -> DatasetPlace:
        """Returns the place of a source. The path decides the run first, the catalog host and rank first."""
        entry = self._entry(source)
        hosts = {host.name or host.key.get("host") for host in self._catalog.of("host") if host.key["source"] == source}
        claims: dict[str, dict[str, Any]] = {
            "run": {"path": self._place.run, "catalog": entry.facts.get("run") if entry else None, "folder": run},
            "host": {"catalog": hosts.pop() if len(hosts) == 1 else None, "path": self._place.host},
            "rank": {"catalog": self._catalog.rank(source), "path": self._place.rank},
        }
        facts: dict[str, Any] = {}
        for part, by_origin in claims.items():
            stated_claims = (claim for claim in by_origin.items() if claim[1] is not None)
            self.origins[part], facts[part] = next(stated_claims, ("", None))
        return DatasetPlace(**facts)

    def _entry(self, source: str) -> Entry | None:
        return self._catalog.get("source", source=source)


def of_sources(batches: Iterable[Batch], sources: frozenset[str], ledger: Ledger) -> Iterator[Batch]:
    """Yields the rows of the wanted sources."""
    for batch in batches:
        rows = words_in(batch.column("source"), tuple(sorted(sources)))
        part = Batch(batch.record, batch.columns.filter(pa.array(rows)))
        if batch.record != "catalog":
            ledger.taken += len(batch)
            ledger.given += len(part)
            ledger.removed["other places"] += len(batch) - len(part)
        if len(part):
            yield part


@dataclass(frozen=True)
class Task:
    """An input to be converted into the dataset `dst`.

    `label` is the name of its source in the dataset, `place` the run, host and rank that its path names, `run` the
    default run, `digest` that of the options, `by` the keys of the folders. `old` lists shards of an
    earlier conversion, which are removed. For a byte range of a big input, `part` is that range and `staged` the file
    in the dataset that waits for the other parts.
    """

    path: str
    stamp: Stamp
    label: str
    place: DatasetPlace
    run: str
    dst: str
    selection: Selection
    strict: bool
    digest: str
    old: tuple[str, ...] = ()
    part: ByteRange | None = None
    staged: str = ""
    by: tuple[str, ...] = BY


@dataclass(frozen=True)
class RangeResult:
    """A finished byte range of an input: where its events begin and end, its file, and a manifest with that shard."""

    part: ByteRange
    staged: str
    manifest: Manifest

    @property
    def shard(self) -> Shard:
        """The file as a shard."""
        return self.manifest.shards[0]

    def is_of(self, task: Task) -> bool:
        """Returns whether that task would produce this result again."""
        result, made = self.part, self.manifest
        same = task.part is not None and (result.start, result.stop) == (task.part.start, task.part.stop)
        return same and (made.stamp, made.ktrace, made.options) == (task.stamp, __version__, task.digest)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task: its manifest, or the reason why it failed; and the seconds that it took.

    The task of a byte range has a `part` instead of a manifest, or in `undivided` the reason why the input can't be
    read in ranges.
    """

    path: str
    manifest: Manifest | None = None
    reason: str = ""
    seconds: float = 0.0
    part: RangeResult | None = None
    undivided: str = ""


class _NotDivisible(Exception):
    """The input has to be read as a whole."""


def convert_one(task: Task) -> Outcome:
    """Runs a task. Returns errors in the outcome instead of raising them: errors of libraries may not be picklable."""
    began = time.monotonic()
    manifest = part = None
    try:
        with in_force(task.selection.limits):
            if task.part is None:
                manifest = _convert(task)
            else:
                part = _convert_range(task, replace(task.part))
    except _NotDivisible as why:
        return Outcome(task.path, undivided=str(why))
    except Exception as error:  # a bug in ktrace or a library must not stop the other inputs
        return failure(task.path, error)
    return Outcome(task.path, manifest, seconds=time.monotonic() - began, part=part)


def failure(path: str, error: Exception) -> Outcome:
    """The outcome of an input that failed with this error, which names it."""
    if isinstance(error, KtraceError):
        return Outcome(path, reason=str(error) if error.path else f"{path}: {error}")
    return Outcome(path, reason=f"{path}: {type(error).__name__}: {error}")


def _convert(task: Task) -> Manifest:
    """Converts an input as a whole and publishes its shards."""
    store, report = open_store(task.dst), Report(strict=task.strict)
    sources = Sources(task.label, stem(task.path), task.place)
    batches = read_selected([task.path], report, task.selection.replace(jobs=1), replays=False)
    files = {store.temporary(): DatasetPlace()}
    try:
        [whole] = files
        _write(sources.batches(batches), whole, report)
        places = sources.places(task.run)
        if len({place.folder(task.by) for place in places.values()}) == 1:
            files[whole] = DatasetPlace.common(list(places.values()))
        else:
            files |= _split_by_place(whole, places, store, task.by)
            whole.unlink()
            del files[whole]
        shards = {file: _shard(task, file, place) for file, place in files.items()}
        manifest = _manifest(task, report, sources, shards.values())
        _publish(store, task, manifest, shards)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    return manifest


def _convert_range(task: Task, part: ByteRange) -> RangeResult:
    """Converts a byte range of an input. The last range contains the document's metadata, which names the places."""
    store, report = open_store(task.dst), Report(strict=task.strict)
    sources = Sources(task.label, stem(task.path), task.place if part.stop is None else DatasetPlace())
    batches = read_selected([task.path], report, task.selection.replace(jobs=1), part=part, replays=False)
    file = store.temporary()
    try:
        _write(sources.batches(_without_halves(batches)), file, report)
        places = sources.places(task.run)
        if set(places) != {task.label}:
            raise _NotDivisible("its rows name their own sources")
        shard = Shard(task.staged, file.stat().st_size, _rows(file), *places.values())
        result = RangeResult(part, task.staged, _manifest(task, report, sources, [shard]))
        store.put(file, task.staged)
        store.write(f"{task.staged}.json", msgspec.json.encode(result))
    finally:
        file.unlink(missing_ok=True)
    return result


def _without_halves(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches. Raises _NotDivisible at a half of a slice, since the other half may be in another range."""
    for batch in batches:
        if batch.has("half") and batch.column("half").null_count < len(batch):
            raise _NotDivisible("it records starts and ends of slices separately")
        yield batch


def _manifest(task: Task, report: Report, sources: Sources, shards: Iterable[Shard]) -> Manifest:
    return Manifest(
        written(task.path),
        task.stamp,
        __version__,
        task.digest,
        task.label,
        ", ".join(dict.fromkeys(input["format"] for input in report.inputs)),
        tuple(shards),
        sources.origins,
        {kind: issue.rows for kind, issue in report.issues.items()},
    )


def _write(batches: Iterable[Batch], file: Path, report: Report) -> None:
    """Writes one Parquet file with all records."""
    with writing(Sink(str(file))) as sink:
        write_batches(batches, by_name("parquet", writes=True), sink, Conversion(report))
        report.require_balance()


def _split_by_place(
    whole: Path, places: dict[str, DatasetPlace], store: Store, by: Sequence[str]
) -> dict[Path, DatasetPlace]:
    """Writes one file for each folder that the sources in a Parquet file belong to."""
    files: dict[Path, DatasetPlace] = {}
    for folder in dict.fromkeys(place.folder(by) for place in places.values()):
        sources = frozenset(source for source, place in places.items() if place.folder(by) == folder)
        file = store.temporary()
        files[file] = DatasetPlace.common([places[source] for source in sources])
        report = Report()
        ledger = report.stage("places")
        batches = read_batches([str(whole)], report, format="parquet")
        _write(of_sources(batches, sources, ledger), file, report)
    return files


def _shard(task: Task, file: Path, place: DatasetPlace) -> Shard:
    return Shard(f"{place.folder(task.by)}/{file_stem(task.path)}.parquet", file.stat().st_size, _rows(file), place)


def _rows(file: Path) -> int:
    with file.open("rb") as stream:  # Arrow opens only names that are UTF-8
        return int(pq.read_metadata(stream).num_rows)


def _publish(store: Store, task: Task, manifest: Manifest, shards: dict[Path, Shard]) -> None:
    """Replaces the old shards. Removes the manifest first and writes it last, so that interruptions are noticed."""
    store.remove([manifest.name, *task.old])
    for file, shard in shards.items():
        store.put(file, shard.name)
    write_manifest(store, manifest)
