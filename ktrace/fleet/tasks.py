"""One input becomes shards of a dataset: what a worker does, alone in its process, on whatever machine.

    Task ──► read ──► Parquet under a temporary name ──► moved to its place ──► manifest ──► Outcome

A range of a big input waits in the dataset for the others (`ranges`).
A task is plain data and `convert_one` a function of a module, so that both go to other processes by their names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from ktrace import __version__
from ktrace.conversion import Conversion
from ktrace.errors import KtraceError
from ktrace.fleet.sources import Sources, of_sources
from ktrace.input.capabilities import ByteRange
from ktrace.input.dataset_manifest import Manifest, Shard, Stamp, file_stem, write_manifest
from ktrace.input.detection import by_name
from ktrace.input.places import Place
from ktrace.input.source import stem
from ktrace.input.stores import Store, open_store
from ktrace.model.batch import Batch
from ktrace.output.sink import Sink, writing
from ktrace.output.write import write_batches
from ktrace.pipeline.read import read_batches, read_selected
from ktrace.pipeline.selection import Selection
from ktrace.report import Report


@dataclass(frozen=True)
class Task:
    """An input to be converted into the dataset `dst`.

    `label` is what its source is called there, `place` what its path says of run, host and rank, `run` the run where
    nothing else says one, `digest` that of the options. `old` are the shards of an earlier conversion, which go.
    Of a big input `part` is the range that is read, `staged` the file of the dataset that waits for the other ranges.
    """

    path: str
    stamp: Stamp
    label: str
    place: Place
    run: str
    dst: str
    selection: Selection
    strict: bool
    digest: str
    old: tuple[str, ...] = ()
    part: ByteRange | None = None
    staged: str = ""


@dataclass(frozen=True)
class RangeResult:
    """A range of an input that is done: where its events began and ended, its file, its manifest with that shard."""

    part: ByteRange
    staged: str
    manifest: Manifest

    @property
    def shard(self) -> Shard:
        """The file."""
        return self.manifest.shards[0]

    def is_of(self, task: Task) -> bool:
        """Whether that task would make it again."""
        mine, made = self.part, self.manifest
        same = task.part is not None and (mine.start, mine.stop) == (task.part.start, task.part.stop)
        return same and (made.stamp, made.ktrace, made.options) == (task.stamp, __version__, task.digest)


@dataclass(frozen=True)
class Outcome:
    """What came of a task: its manifest, or the reason why it failed; seconds of work.

    Of a range it is a part, or `undivided` says why this input can't be read in ranges.
    """

    path: str
    manifest: Manifest | None = None
    reason: str = ""
    seconds: float = 0.0
    part: RangeResult | None = None
    undivided: str = ""


class _Undivided(Exception):
    """The input has to be read as a whole."""


def convert_one(task: Task) -> Outcome:
    """Does a task. What goes wrong is told, not raised: an error of a library may be one that can't be pickled."""
    began = time.monotonic()
    manifest = part = None
    try:
        if task.part is None:
            manifest = _converted(task)
        else:
            part = _range(task, replace(task.part))
    except _Undivided as why:
        return Outcome(task.path, undivided=str(why))
    except KtraceError as error:
        return Outcome(task.path, reason=str(error))
    except Exception as error:  # a fault of ktrace or of a library shall not stop the other inputs
        return Outcome(task.path, reason=f"{task.path}: {type(error).__name__}: {error}")
    return Outcome(task.path, manifest, seconds=time.monotonic() - began, part=part)


def _converted(task: Task) -> Manifest:
    store, report = open_store(task.dst), Report(strict=task.strict)
    sources = Sources(task.label, stem(task.path), task.place)
    batches = read_selected([task.path], report, task.selection.but(jobs=1))
    files = {store.temporary(): Place()}
    try:
        [whole] = files
        _write(sources.batches(batches), whole, report)
        places = sources.places(task.run)
        if len(set(places.values())) == 1:
            files[whole] = next(iter(places.values()))
        else:
            files |= _parted(whole, places, store)
            whole.unlink()
            del files[whole]
        shards = {file: _shard(task, file, place) for file, place in files.items()}
        manifest = _manifest(task, report, sources, shards.values())
        _publish(store, task, manifest, shards)
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    return manifest


def _range(task: Task, part: ByteRange) -> RangeResult:
    """Reads a range of an input. What its document says of itself comes with the last range, and so do its places."""
    store, report = open_store(task.dst), Report(strict=task.strict)
    sources = Sources(task.label, stem(task.path), task.place if part.stop is None else Place())
    batches = read_selected([task.path], report, task.selection.but(jobs=1), part=part)
    file = store.temporary()
    try:
        _write(sources.batches(_without_halves(batches)), file, report)
        places = sources.places(task.run)
        if set(places) != {task.label}:
            raise _Undivided("it has sources of its own")
        shard = Shard(task.staged, file.stat().st_size, pq.read_metadata(file).num_rows, *places.values())
        result = RangeResult(part, task.staged, _manifest(task, report, sources, [shard]))
        store.put(file, task.staged)
        store.write(f"{task.staged}.json", msgspec.json.encode(result))
    finally:
        file.unlink(missing_ok=True)
    return result


def _without_halves(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches. Raises _Undivided at a slice that comes in halves: the other one may be in another range."""
    for batch in batches:
        if batch.has("half") and batch.column("half").null_count < len(batch):
            raise _Undivided("it has slices whose begin and end stand apart")
        yield batch


def _manifest(task: Task, report: Report, sources: Sources, shards: Iterable[Shard]) -> Manifest:
    return Manifest(
        task.path,
        task.stamp,
        __version__,
        task.digest,
        task.label,
        ", ".join(dict.fromkeys(one["format"] for one in report.inputs)),
        tuple(shards),
        sources.said,
        {kind: issue.rows for kind, issue in report.issues.items()},
    )


def _write(batches: Iterable[Batch], file: Path, report: Report) -> None:
    """Writes one Parquet file with all records."""
    with writing(Sink(str(file))) as sink:
        write_batches(batches, by_name("parquet", writes=True), sink, Conversion(report))
        report.require_balance()


def _parted(whole: Path, places: dict[str, Place], store: Store) -> dict[Path, Place]:
    """A file for each place of the sources in one."""
    files = {store.temporary(): place for place in dict.fromkeys(places.values())}
    for file, place in files.items():
        mine = frozenset(source for source, where in places.items() if where == place)
        report = Report()
        ledger = report.stage("places")
        batches = read_batches([str(whole)], report, format="parquet")
        _write(of_sources(batches, mine, ledger), file, report)
    return files


def _shard(task: Task, file: Path, place: Place) -> Shard:
    rows = pq.read_metadata(file).num_rows
    return Shard(f"{place.folder()}/{file_stem(task.path)}.parquet", file.stat().st_size, rows, place)


def _publish(store: Store, task: Task, manifest: Manifest, shards: dict[Path, Shard]) -> None:
    """Puts the shards in place of the old ones. The manifest goes first and comes last: between, nothing is done."""
    store.remove([manifest.name, *task.old])
    for file, shard in shards.items():
        store.put(file, shard.name)
    write_manifest(store, manifest)
