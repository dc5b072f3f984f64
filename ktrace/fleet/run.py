"""`ktrace.fleet`: reduces the inputs that patterns name to small tables, each once, and joins these.

found ──► done? ──► kept ─────────────────────────┐
            └──► ReduceTask ──► executor ──► done ──┴──► together ──► Fleet

    fleet/
      _ktrace/fleet.json                       the mark, written first
      _ktrace/ranks/rank3-5f0c81a2b3c4-….rank  of one input; its name has the stamp of the input and the options

A file is there whole or not at all, so that an interrupted run goes on with the inputs that have none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace import __version__
from ktrace.errors import InputError, KtraceError, OutputError, UsageError
from ktrace.fleet.answer import notes
from ktrace.fleet.batch import selection_for
from ktrace.fleet.executor import in_processes, on_dask
from ktrace.fleet.inputs import BatchInput, find
from ktrace.fleet.reduced import RankTable, packed, reduce_input, unpacked
from ktrace.fleet.tasks import Outcome
from ktrace.fleet.together import Fleet, FleetReport, together
from ktrace.input.dataset_manifest import DatasetPlace, file_stem, is_dataset, place_of
from ktrace.input.expand import paths_of
from ktrace.input.limits import current, in_force, limited
from ktrace.input.mapping import mapping_of
from ktrace.input.stores import TEMPORARY, Store, is_remote, open_store
from ktrace.pipeline.read import cores
from ktrace.pipeline.selection import BatchOptions, Selection, selected
from ktrace.report import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The mark, and the folder of the tables.
MARK, RANKS = "_ktrace/fleet.json", "_ktrace/ranks/"

#: The page that `ktrace batch --fleet` writes there.
PAGE = "fleet.html"

#: So many tables are read at once: some 100 kB each.
_AT_ONCE = 64


@dataclass(frozen=True)
class ReduceTask:
    """An input to be reduced into the folder `dst`, as the file `name`; `old` are earlier ones of it."""

    path: str
    place: DatasetPlace
    dst: str
    name: str
    selection: Selection
    old: tuple[str, ...] = ()


@limited
def fleet(
    patterns: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    dask: str | None = None,
    selection: Selection | None = None,
    progress: Callable[[Outcome, FleetReport], None] | None = None,
    **options: Unpack[BatchOptions],
) -> Fleet:
    """Reads every rank once, and tells what is different on some of them.

    Small tables of each rank are kept in `dst`, so that an interrupted call goes on where it was.

    Parameters
    ----------
    patterns : path or sequence of paths
        Paths, folders, patterns or URLs (fsspec).
    dst : path
        The folder of the tables, a path or URL.
    dask, selection, **options
        As for `ktrace.batch`.
    progress : callable, optional
        Called with the outcome of each input and the report so far.

    Returns
    -------
    Fleet
        Stragglers, stages, experts and links; `report.failed` maps paths to reasons.

    Raises
    ------
    InputError
        A pattern names nothing, or no input could be reduced.
    OutputError
        `dst` is a file, or a folder with other files.
    UsageError
        Options contradict each other.

    Examples
    --------
    >>> from ktrace.fleet.run import fleet
    >>> ranks = fleet("samples/kineto/collectives-of-two-ranks-rank*.json", "ranks/", jobs=1)
    >>> [one.rank for one in ranks.ranks]
    [0, 1]
    """
    chosen = selected(selection, options).replace(limits=current())
    chosen.require_unset(
        "a fleet", "capture", "metrics", "execution_trace", "align", "explain", "split_by", "keep_export"
    )
    if dask is not None and chosen.jobs is not None:
        raise UsageError(
            "jobs are processes on this machine, but Dask has its own workers", remedy="leave out --jobs or --dask"
        )
    if chosen.rules is not None:
        chosen = chosen.replace(rules=str(Path(chosen.rules).absolute()))
    if chosen.map is not None:
        chosen = chosen.replace(map=mapping_of(chosen.map).text())
    store = open_store(str(dst) if is_remote(str(dst)) else str(Path(dst).absolute()))
    report = FleetReport(store.path)
    inputs = find(paths_of(patterns), report.finding, chosen.from_)
    inputs = [one for one in inputs if not one.path.startswith(store.path.rstrip("/") + "/")]
    report.found = len(inputs)
    _require_own(store)
    with store.alone():
        store.tidy()
        store.write(MARK, json.dumps({"ktrace fleet": "1"}).encode() + b"\n")
        tasks, names = _plan(inputs, store, chosen, report)
        jobs = min(chosen.jobs or cores(), max(len(tasks), 1))
        outcomes = in_processes(tasks, jobs, reduce_one) if dask is None else on_dask(tasks, dask, reduce_one)
        with closing(outcomes):
            for outcome in outcomes if tasks else ():
                if outcome.reason:
                    report.failed[outcome.path] = outcome.reason
                else:
                    report.done.append(outcome.path)
                if progress:
                    progress(outcome, report)
        there = [name for path, name in names.items() if path not in report.failed]
        if not there:
            reason = next(iter(report.failed.values()), "")
            raise InputError(f"none of {counted(len(inputs), 'input')} could be read. First: {reason}", path=store.path)
        joined = together(lambda: tables_of(store, there), report)
    joined.notes = notes(joined)
    return joined


def read_fleet(path: str) -> Fleet:
    """What the tables in a folder of `ktrace batch --fleet` tell. Raises InputError where there are none."""
    store = open_store(path)
    names = sorted(name for name in store.files() if name.startswith(RANKS) or name == MARK)
    if MARK not in names or len(names) < 2:
        raise InputError(
            "has no tables of ranks", path=path, expected="a folder that ktrace batch --fleet wrote",
            remedy=f"ktrace batch IN... -o {path} --fleet",
        )  # fmt: skip
    names.remove(MARK)
    joined = together(lambda: tables_of(store, names), FleetReport(path, len(names)))
    joined.notes = notes(joined)
    return joined


def _require_own(store: Store) -> None:
    """Raises OutputError for a folder that isn't one of a fleet, nor new."""
    if not is_remote(store.path) and Path(store.path).exists() and not Path(store.path).is_dir():
        raise OutputError("is a file", path=store.path, expected="a folder", remedy="another name with -o")
    files = store.files()
    if MARK in files or all(name.startswith(f"{TEMPORARY}/") for name in files):
        return
    what = "is a dataset of ktrace batch" if is_dataset(files) else "is a folder that contains other files"
    raise OutputError(
        what, path=store.path, expected="a folder of --fleet, or a new one", remedy="another name with -o"
    )


def _plan(
    inputs: Sequence[BatchInput], store: Store, selection: Selection, report: FleetReport
) -> tuple[list[ReduceTask], dict[str, str]]:
    """The tasks to do, and the file of each input by its path, also of those that are kept."""
    files = store.files()
    by_stem: dict[str, list[str]] = {}
    for name in files:
        if name.startswith(RANKS):
            by_stem.setdefault(name.rpartition("-")[0], []).append(name)
    tasks, names = [], {}
    for one in inputs:
        place = place_of(one.inside)
        chosen = selection_for(selection, place)
        if chosen is None:
            report.left_out.append(one.path)
            continue
        stem = f"{RANKS}{file_stem(one.path)}"
        digest = sha256(repr((one.stamp, __version__, chosen.fingerprint())).encode()).hexdigest()[:12]
        name = names[one.path] = f"{stem}-{digest}.rank"
        if files.get(name):
            report.kept.append(one.path)
        else:
            old = tuple(by_stem.get(stem, ()))
            tasks.append(ReduceTask(one.path, place, store.path, name, chosen, old))
    return tasks, names


def reduce_one(task: ReduceTask) -> Outcome:
    """Runs a task. Returns errors in the outcome instead of raising them, as `convert_one` does."""
    began = time.monotonic()
    try:
        with in_force(task.selection.limits):
            tables = reduce_input(task.path, task.place, task.selection)
            store = open_store(task.dst)
            store.remove(task.old)
            store.write(task.name, packed(tables))
    except KtraceError as error:
        return Outcome(task.path, reason=str(error))
    except Exception as error:  # a bug in ktrace or a library must not stop the other inputs
        return Outcome(task.path, reason=f"{task.path}: {type(error).__name__}: {error}")
    return Outcome(task.path, seconds=time.monotonic() - began)


def tables_of(store: Store, names: Sequence[str]) -> Iterator[RankTable]:
    """Reads the tables in these files, some files at a time."""
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        for name, data in zip(some, store.read(some), strict=True):
            yield from unpacked(data, f"{store.path}/{name}")
