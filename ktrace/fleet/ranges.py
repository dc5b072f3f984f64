"""Divides a big input into tasks of one byte range each, and joins their results.

    rank0.json  | 0 | 1 | 2 |  ──► tasks ──► parts   _ktrace/ranges/rank0-5f0c81a2b3c4.1, ....1.json
                 all done, and each begins where the previous one ended ──► shards, manifest
                 otherwise                                              ──► the input is read as a whole

Finished parts are kept until their input is finished, so that an interrupted batch continues with the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from ktrace.errors import KtraceError
from ktrace.fleet.tasks import Outcome, RangeResult, Task
from ktrace.input.dataset_manifest import Manifest, Shard, file_stem, write_manifest, written
from ktrace.input.detection import by_name, choose
from ktrace.input.source import Source
from ktrace.input.stores import Store, told

#: Approximate size of a range. An input smaller than two ranges is read as a whole.
STEP = 256 << 20

#: The folder of finished parts.
RANGES = "_ktrace/ranges/"


def divided(task: Task) -> list[Task]:
    """Returns the tasks for the ranges of an input; [] if it has to be read as a whole, for instance to crop it."""
    selection = task.selection
    if selection.crop or selection.filter or (task.stamp.size or 0) < 2 * STEP:
        return []
    source = Source(task.path)
    try:
        if source.is_folder:
            return []
        with told(task.path):
            known = by_name(selection.from_) if selection.from_ else choose(source)
            ranges = known.function("ranges")
            parts = ranges(source, task.stamp.size or 0, STEP) if ranges else []
    except (KtraceError, OSError):  # reported when the input is read
        return []
    selection = selection.but(from_=known.name)
    stem = f"{RANGES}{file_stem(task.path)}"
    return [
        replace(task, selection=selection, part=part, staged=f"{stem}.{number}", old=())
        for number, part in enumerate(parts)
    ]


@dataclass
class _Divided:
    """An input, the tasks for its ranges, and their outcomes."""

    whole: Task
    tasks: list[Task]
    outcomes: list[Outcome]


class Joiner:
    """Collects the outcomes of ranges until their input is complete.

    `as_whole` maps paths to the reason why that input is read as a whole instead.
    """

    def __init__(self, store: Store, files: dict[str, int]) -> None:
        self._store = store
        self._files = files
        self._inputs: dict[str, _Divided] = {}
        self._again: list[Task] = []
        self.as_whole: dict[str, str] = {}

    def plan(self, tasks: Iterable[Task]) -> list[Task]:
        """Replaces the tasks of big inputs by tasks for their ranges, without the ranges done already."""
        planned: list[Task] = []
        for task in tasks:
            ranges = divided(task)
            if not ranges:
                planned.append(task)
                continue
            outcomes = [Outcome(task.path, part=part) for range_task in ranges if (part := self._done(range_task))]
            self._inputs[task.path] = _Divided(task, ranges, outcomes)
            kept = {outcome.part.staged for outcome in outcomes if outcome.part}
            planned += [range_task for range_task in ranges if range_task.staged not in kept]
        staged = {task.staged for input in self._inputs.values() for task in input.tasks}
        self._store.remove(
            name for name in self._files if name.startswith(RANGES) and name.removesuffix(".json") not in staged
        )
        return planned

    def _done(self, task: Task) -> RangeResult | None:
        """Returns the part that an earlier batch made for that task, if there is one."""
        if not {task.staged, f"{task.staged}.json"} <= self._files.keys():
            return None
        [text] = self._store.read([f"{task.staged}.json"])
        try:
            part = msgspec.json.decode(text, type=RangeResult)
        except msgspec.DecodeError:
            return None
        named = (part.staged, part.manifest.path) == (task.staged, written(task.path))
        return part if named and part.is_of(task) and part.shard.size == self._files[task.staged] else None

    def ready(self) -> list[Outcome]:
        """Returns the outcomes of inputs whose ranges were all done by an earlier batch."""
        outcomes = [self._settle(input) for input in list(self._inputs.values())]
        return [outcome for outcome in outcomes if outcome]

    def take(self, outcome: Outcome) -> Outcome | None:
        """Takes an outcome of a task; returns that of its input, or None while other ranges are missing."""
        input = self._inputs.get(outcome.path)
        if input is None:
            return outcome
        input.outcomes.append(outcome)
        return self._settle(input)

    def again(self) -> list[Task]:
        """Returns the tasks of inputs that have to be read as a whole after all, and forgets them."""
        tasks, self._again = self._again, []
        return tasks

    def _settle(self, input: _Divided) -> Outcome | None:
        """Joins the ranges of an input. Returns None if ranges are missing, or if the input has to be read again."""
        if len(input.outcomes) < len(input.tasks):
            return None
        del self._inputs[input.whole.path]
        if failed := next((outcome for outcome in input.outcomes if outcome.reason), None):
            return failed
        parts = [outcome.part for outcome in input.outcomes if outcome.part]
        parts.sort(key=lambda part: part.part.start)
        why = next((outcome.undivided for outcome in input.outcomes if outcome.undivided), "") or _gap(parts)
        if why:
            self._store.remove(_staged(input.tasks))
            self.as_whole[input.whole.path] = why
            self._again.append(input.whole)
            return None
        manifest = self._joined(input, parts)
        return Outcome(input.whole.path, manifest, seconds=sum(outcome.seconds for outcome in input.outcomes))

    def _joined(self, input: _Divided, parts: Sequence[RangeResult]) -> Manifest:
        """Moves the parts to their places as shards, and writes the manifest of the input."""
        place, path = parts[-1].shard.place, input.whole.path
        names = [f"{place.folder(input.whole.by)}/{file_stem(path, number)}.parquet" for number in range(len(parts))]
        issues: Counter[str] = Counter()
        for part in parts:
            issues.update(part.manifest.issues)
        shards = [Shard(name, part.shard.size, part.shard.rows, place) for name, part in zip(names, parts, strict=True)]
        manifest = replace(parts[-1].manifest, shards=tuple(shards), issues=dict(issues))
        self._store.remove([manifest.name, *input.whole.old])
        for name, part in zip(names, parts, strict=True):
            self._store.move(part.staged, name)
        write_manifest(self._store, manifest)
        self._store.remove(_staged(input.tasks))
        return manifest


def _staged(tasks: Iterable[Task]) -> list[str]:
    """Returns the names of the files of parts."""
    return [name for task in tasks for name in (f"{task.staged}.json", task.staged)]


def _gap(parts: Sequence[RangeResult]) -> str:
    """Returns why ordered ranges don't make up the whole document; '' if they do."""
    ends = [parts[-1].part.list, *(part.part.end for part in parts[:-1])]
    meet = all(end == part.part.begun for end, part in zip(ends, parts, strict=True))
    if not meet or any(part.part.closed for part in parts[:-1]):
        return "its ranges don't meet"
    return ""
