"""`ktrace.fleet`: reduces the inputs that patterns name to small tables, each once, and joins these.

found ──► done? ──► kept ─────────────────────────┐
            └──► ReduceTask ──► executor ──► done ──┴──► together ──► Fleet

    fleet/
      _ktrace/fleet.json                       the mark, and which tables the last answer is of
      _ktrace/ranks/rank3-5f0c81a2b3c4-….rank  of one input; its name has the stamp of the input and the options

A file is there whole or not at all, so that an interrupted run goes on with the inputs that have none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace import __version__
from ktrace.errors import InputError
from ktrace.fleet.answer import notes
from ktrace.fleet.batch import absolute, for_workers, inputs_outside, prepared, selection_for
from ktrace.fleet.executor import in_processes, on_dask
from ktrace.fleet.inputs import BatchInput
from ktrace.fleet.reduced import RankTable, packed, reduce_input, unpacked
from ktrace.fleet.tasks import Outcome, failure
from ktrace.fleet.together import Fleet, FleetReport, together
from ktrace.input.dataset_manifest import FLEET_MARK, DatasetPlace, file_stem, place_of
from ktrace.input.limits import in_force, limited
from ktrace.input.stores import Store, open_store
from ktrace.pipeline.read import cores
from ktrace.pipeline.selection import BatchOptions, Selection, selected
from ktrace.report import counted

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The folder of the tables.
RANKS = "_ktrace/ranks/"

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
    chosen = for_workers("a fleet", selected(selection, options), dask)
    store = open_store(absolute(str(dst)))
    report = FleetReport(store.path)
    inputs = inputs_outside(store, patterns, chosen, report.finding)
    report.found = len(inputs)
    with prepared(store, FLEET_MARK, _mark) as files:
        tasks, names = _plan(inputs, store, files, chosen, report)
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
            raise _nothing_read(report)
        _mark(store, there)
        return _joined(store, there, report)


def read_fleet(path: str) -> Fleet:
    """What `ktrace batch --fleet` told last, from the tables in its folder. Raises InputError where there are none."""
    store = open_store(path)
    files = store.files()
    try:
        listed = {*json.loads(next(iter(store.read([FLEET_MARK]))))["tables"]} if FLEET_MARK in files else set()
    except (ValueError, LookupError, TypeError):
        listed = set()
    names = [name for name in sorted(files) if name.startswith(RANKS) and name in listed]
    if not names:
        raise InputError(
            "has no tables of ranks", path=path, expected="a folder that ktrace batch --fleet wrote",
            remedy=f"ktrace batch IN... -o {path} --fleet",
        )  # fmt: skip
    return _joined(store, names, FleetReport(path, len(names)))


def _joined(store: Store, names: Sequence[str], report: FleetReport) -> Fleet:
    joined = together(lambda: tables_of(store, names), report)
    joined.notes = notes(joined)
    return joined


def _mark(store: Store, names: Sequence[str] = ()) -> None:
    """Marks a folder as that of a fleet, and these tables in it as those of the last answer."""
    store.write(FLEET_MARK, json.dumps({"ktrace fleet": "1", "tables": [*names]}).encode() + b"\n")


def _nothing_read(report: FleetReport) -> InputError:
    """The error where no input could be read."""
    inputs = counted(report.found, "input")
    if not report.failed:
        return InputError(f"none of {inputs} is of a rank that is wanted", path=report.output, remedy="another --rank")
    reason = next(iter(report.failed.values()))
    return InputError(f"none of {inputs} could be read. First: {reason}", path=report.output)


def _plan(
    inputs: Sequence[BatchInput], store: Store, files: Mapping[str, int], selection: Selection, report: FleetReport
) -> tuple[list[ReduceTask], dict[str, str]]:
    """The tasks to do, and the file of each input by its path, also of those that are kept."""
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
    except Exception as error:  # a bug in ktrace or a library must not stop the other inputs
        return failure(task.path, error)
    return Outcome(task.path, seconds=time.monotonic() - began)


def tables_of(store: Store, names: Sequence[str]) -> Iterator[RankTable]:
    """Reads the tables in these files, some files at a time."""
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        for name, data in zip(some, store.read(some), strict=True):
            yield from unpacked(data, f"{store.path}/{name}")
