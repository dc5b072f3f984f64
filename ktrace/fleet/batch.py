"""`ktrace.batch`: converts the inputs that patterns name into a dataset, except those that are converted already.

found, options ──► done? ──► kept
                    └──► task ──► executor ──► done | failed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ktrace import __version__
from ktrace.errors import OutputError, UsageError
from ktrace.fleet.executor import in_processes, on_dask
from ktrace.fleet.inputs import BatchInput, Joiner, find, labels
from ktrace.fleet.tasks import Outcome, Task
from ktrace.input.dataset_manifest import (
    BY,
    FLEET_MARK,
    FOLDERS,
    MARK,
    DatasetPlace,
    Manifest,
    is_shard,
    manifests,
    mark,
    place_of,
    written,
)
from ktrace.input.expand import paths_of
from ktrace.input.limits import current, limited
from ktrace.input.mapping import mapping_of
from ktrace.input.stores import TEMPORARY, Store, is_remote, open_store
from ktrace.pipeline.read import cores
from ktrace.pipeline.selection import BatchOptions, Selection, selected
from ktrace.report import Report, counted

if TYPE_CHECKING:
    from typing_extensions import Unpack


Done = TypeVar("Done")


@dataclass
class Account(Generic[Done]):
    """The result for each input.

    `done` inputs were read now; `kept` ones were read earlier and haven't changed since. `failed` maps the path of an
    input to the reason. `found` is the number of inputs that the patterns name; `left_out` lists those of other ranks
    than the wanted ones. `finding` lists the files in the given folders that aren't traces.
    """

    output: str
    found: int = 0
    done: list[Done] = field(default_factory=list)
    kept: list[Done] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    finding: Report = field(default_factory=Report)

    @property
    def settled(self) -> int:
        """How many inputs aren't waiting any longer."""
        return len(self.done) + len(self.kept) + len(self.failed) + len(self.left_out)

    def line(self) -> str:
        """The line printed at the end."""
        left = f", {len(self.left_out):,} of other ranks left out" if self.left_out else ""
        return (
            f"{counted(self.found, 'input')}: {len(self.done):,} done, {len(self.kept):,} already there, "
            f"{len(self.failed):,} failed{left}"
        )


@dataclass
class BatchReport(Account[Manifest]):
    """The result for each input that was to be converted.

    `as_whole` maps the path of a big input to the reason why it couldn't be read in byte ranges.
    """

    as_whole: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def record(self, outcome: Outcome) -> None:
        """Records the outcome of an input."""
        if outcome.manifest:
            self.done.append(outcome.manifest)
            self.seconds[outcome.path] = outcome.seconds
        else:
            self.failed[outcome.path] = outcome.reason

    @property
    def rows(self) -> int:
        """Number of rows (events, summaries and links, without the catalog) of the inputs in the dataset."""
        return sum(manifest.rows for manifest in (*self.done, *self.kept))

    def line(self) -> str:
        return f"{super().line()}; {counted(self.rows, 'row')}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the whole report as plain values, for `--report`."""
        states = (("done", self.done), ("kept", self.kept))
        inputs = [_entry(state, manifest) for state, manifests in states for manifest in manifests]
        for entry in inputs:
            if entry["path"] in self.seconds:
                entry["seconds"] = round(self.seconds[entry["path"]], 3)
            if entry["path"] in self.as_whole:
                entry["as_whole"] = self.as_whole[entry["path"]]
        inputs += [{"path": path, "state": "failed", "reason": reason} for path, reason in self.failed.items()]
        inputs += [{"path": path, "state": "left out"} for path in self.left_out]
        return {"output": self.output, "rows": self.rows, "inputs": sorted(inputs, key=lambda entry: entry["path"])}


def _entry(state: str, manifest: Manifest) -> dict[str, Any]:
    return {
        "path": manifest.path,
        "state": state,
        "format": manifest.format,
        "source": manifest.label,
        "rows": manifest.rows,
        "shards": [shard.name for shard in manifest.shards],
        "from": manifest.said,
        "issues": manifest.issues,
    }


@limited
def batch(
    patterns: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    dask: str | None = None,
    strict: bool = False,
    by: str | Sequence[str] = BY,
    selection: Selection | None = None,
    progress: Callable[[Outcome, BatchReport], None] | None = None,
    **options: Unpack[BatchOptions],
) -> BatchReport:
    """Converts every input that the patterns name into one dataset: Parquet files by run, host and rank.

    An input that can't be read doesn't stop the others. Inputs that an earlier call converted are kept if they haven't
    changed since.

    Parameters
    ----------
    patterns : path or sequence of paths
        Paths, patterns or URLs (fsspec).
    dst : path
        The folder of the dataset, a path or URL.
    dask : str, optional
        Address of a Dask scheduler whose workers convert, instead of processes on this machine.
    strict : bool
        Fail an input if anything had to be repaired, skipped or cut off.
    by : str or sequence of str
        The folders of the dataset, in this order: run, host, rank.
    selection : Selection, optional
        As for `ktrace.convert`, without `capture`, `metrics`, `execution_trace`, `align`, `explain`, `split_by` and
        `keep_export`.
    progress : callable, optional
        Called with the outcome of each input and the report so far.
    **options
        `from_`, `map`, `jobs`, `classify`, `rules`, `repair_clock`, `crop` and `filter` as keywords.

    Returns
    -------
    BatchReport
        The result for each input; `failed` maps paths to reasons.

    Raises
    ------
    InputError
        A pattern names nothing.
    OutputError
        `dst` is a file, a folder that isn't such a dataset, or a dataset with other folders.
    UsageError
        Options contradict each other, or `by` has an unknown key.

    Examples
    --------
    >>> import ktrace
    >>> report = ktrace.batch("samples/kineto/collectives-of-two-ranks-rank*.json", "run.parquet", jobs=1)
    >>> len(report.done), len(report.failed)
    (2, 0)
    """
    keys = folder_keys(by)
    chosen = for_workers("a batch", selected(selection, options), dask)
    store = open_store(absolute(str(dst)))
    finding = Report()
    inputs = inputs_outside(store, patterns, chosen, finding)
    with prepared(store, MARK, mark) as files:
        tasks, report = _plan(inputs, store, files, chosen, strict, keys)
        report.finding = finding
        joiner = Joiner(store, files)
        report.as_whole = joiner.as_whole
        try:
            for outcome in _outcomes(joiner, tasks, chosen.jobs or cores(), dask):
                report.record(outcome)
                if progress:
                    progress(outcome, report)
        finally:
            store.tidy()
    return report


def for_workers(what: str, selection: Selection, dask: str | None) -> Selection:
    """The selection as other processes and machines understand it.

    Raises UsageError for options that `what` can't have.
    """
    unset = ("capture", "metrics", "execution_trace", "align", "explain", "split_by", "keep_export")
    selection.require_unset(what, *unset)
    if dask is not None and selection.jobs is not None:
        raise UsageError(
            "jobs are processes on this machine, but Dask has its own workers", remedy="leave out --jobs or --dask"
        )
    chosen = selection.replace(limits=current())
    if chosen.rules is not None:
        chosen = chosen.replace(rules=absolute(str(chosen.rules)))
    if chosen.map is not None:
        chosen = chosen.replace(map=mapping_of(chosen.map).text())  # workers may not have the file
    return chosen


def inputs_outside(
    store: Store, patterns: str | Path | Sequence[str | Path], selection: Selection, finding: Report
) -> list[BatchInput]:
    """The inputs that the patterns name, without what is in the output."""
    finding.output = store.path
    inside = store.path.rstrip("/") + "/"
    inputs = find(paths_of(patterns), finding, selection.from_)
    return [one for one in inputs if not one.path.startswith(inside)]


def _outcomes(joiner: Joiner, tasks: Sequence[Task], jobs: int, dask: str | None) -> Iterator[Outcome]:
    """Yields the outcome of each input. Inputs that can't be divided after all are read again as a whole."""
    tasks = joiner.plan(tasks)
    yield from joiner.ready()
    while tasks or (tasks := joiner.again()):
        outcomes = in_processes(tasks, min(jobs, len(tasks))) if dask is None else on_dask(tasks, dask)
        with closing(outcomes):
            yield from filter(None, map(joiner.settle, outcomes))
        tasks = []


def absolute(path: str) -> str:
    """Returns an absolute path, which workers with other working directories understand."""
    return path if is_remote(path) else os.path.abspath(path)  # noqa: PTH100 (resolve would follow links)


def _plan(
    inputs: Sequence[BatchInput],
    store: Store,
    files: dict[str, int],
    selection: Selection,
    strict: bool,
    by: tuple[str, ...],
) -> tuple[list[Task], BatchReport]:
    """Returns the tasks to do, and a report of the inputs done already. Removes the shards of unfinished inputs."""
    done_before = {manifest.path: manifest for manifest in manifests(store, files)}
    _require_folders(store, done_before.values(), by)
    named = {shard.name for manifest in done_before.values() for shard in manifest.shards}
    store.remove(name for name in files if is_shard(name) and name not in named)
    label = labels(inputs, {path: manifest.label for path, manifest in done_before.items()})
    report = BatchReport(store.path, len(inputs))
    tasks = []
    for input in inputs:
        place = place_of(input.inside)
        chosen = selection_for(selection, place)
        if chosen is None:
            report.left_out.append(input.path)
            continue
        digest = f"{chosen.fingerprint()}{'-strict' * strict}" + (f"-by={','.join(by)}" if by != BY else "")
        before = done_before.get(written(input.path))
        if before and _is_done(before, input, digest, files):
            report.kept.append(before)
            continue
        old = tuple(shard.name for shard in before.shards) if before else ()
        tasks.append(
            Task(
                input.path,
                input.stamp,
                label[input.path],
                place,
                input.root,
                store.path,
                chosen,
                strict,
                digest,
                old,
                by=by,
            )
        )
    return tasks, report


def folder_keys(by: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the keys of the folders. Raises UsageError for an unknown or repeated key, or if there is no key."""
    keys = tuple(key.strip() for key in (by.split(",") if isinstance(by, str) else by))
    names = ", ".join(FOLDERS)
    if unknown := [key for key in keys if key not in FOLDERS]:
        raise UsageError(f"a dataset can't have folders by {unknown[0]!r}", expected=names)
    if not keys or len(set(keys)) < len(keys):
        raise UsageError("--by needs at least one key, and each only once", expected=names)
    return keys


def _require_folders(store: Store, done: Iterable[Manifest], by: tuple[str, ...]) -> None:
    """Raises OutputError if the dataset has other folders: readers of Hive's layout need the same in every file."""
    keys = {name: key for key, name in FOLDERS.items()}
    for shard in (shard for manifest in done for shard in manifest.shards):
        folders = tuple(keys[folder.partition("=")[0]] for folder in shard.name.split("/")[:-1])
        if folders != by:
            before = ",".join(folders)
            raise OutputError(
                f"is a dataset by {before}",
                path=store.path,
                expected=f"one by {','.join(by)}",
                remedy=f"use --by {before}, or another folder with -o",
            )


def selection_for(selection: Selection, place: DatasetPlace) -> Selection | None:
    """Returns the selection for an input whose path names that place, None if the path names an unwanted rank."""
    filter = selection.filter
    if not filter or not filter.ranks or place.rank is None:
        return selection
    if place.rank not in filter.ranks:
        return None
    conditions = replace(filter, ranks=())
    return selection.replace(filter=None if conditions == type(filter)() else conditions)


#: The marks of the folders that `ktrace batch` writes, with what such a folder is, and the option that writes it.
_FOLDERS = {MARK: ("a dataset of ktrace batch", "without --fleet"), FLEET_MARK: ("a folder of --fleet", "with --fleet")}


@contextmanager
def prepared(store: Store, marked: str, mark: Callable[[Store], None]) -> Iterator[dict[str, int]]:
    """Yields the files of the output, which no other batch changes meanwhile; creates and marks it if needed.

    Raises OutputError for a folder with files but without the mark `marked`, or that another batch writes.
    """
    if not is_remote(store.path) and Path(store.path).exists() and not Path(store.path).is_dir():
        raise OutputError("is a file", path=store.path, expected="a folder", remedy="another name with -o")
    files = store.files()
    if any(not name.startswith(f"{TEMPORARY}/") for name in files) and marked not in files:
        other = next((_FOLDERS[one] for one in _FOLDERS if one in files), None)
        raise OutputError(
            f"is {other[0]}" if other else "is a folder that contains other files",
            path=store.path,
            expected=f"{_FOLDERS[marked][0]}, or a new folder",
            remedy="another name with -o" + (f", or the command {other[1]}" if other else ""),
        )
    with ExitStack() as stack:
        try:
            stack.enter_context(store.alone())
            store.tidy()
            if marked not in files:
                mark(store)
        except OSError as error:
            raise OutputError(
                f"can't write there: {error.strerror or error}", path=store.path, remedy="choose another folder with -o"
            ) from None
        yield store.files()


def _is_done(manifest: Manifest, one: BatchInput, digest: str, files: dict[str, int]) -> bool:
    """Returns whether an input was converted with the same options, hasn't changed, and all its shards exist."""
    same = (manifest.stamp, manifest.ktrace, manifest.options) == (one.stamp, __version__, digest)
    return same and all(files.get(shard.name) == shard.size for shard in manifest.shards)
