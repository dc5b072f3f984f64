"""One big input as several tasks, a range of its bytes each, and what they made put together again.

    rank0.json  | 0 | 1 | 2 |  ──► tasks ──► parts   _ktrace/ranges/rank0-5f0c81a2b3c4.1, ....1.json
                 all there, and each begins where the one before ended ──► shards, manifest
                 else                                                  ──► the input is read as a whole

Parts that are done stay until their input is, so that a batch that was interrupted goes on with the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from ktrace.errors import KtraceError
from ktrace.fleet.tasks import Outcome, RangeResult, Task
from ktrace.input.dataset_manifest import Manifest, Shard, file_stem, write_manifest
from ktrace.input.detection import by_name, choose
from ktrace.input.source import Source
from ktrace.input.stores import Store, told

#: Bytes of a range, about. What has less than two of them is read as a whole.
STEP = 256 << 20

#: The folder of parts.
RANGES = "_ktrace/ranges/"


def divided(task: Task) -> list[Task]:
    """The tasks for the ranges of an input; none where it is to be read as a whole, as for a part of the time."""
    selection = task.selection
    if selection.crop or selection.filter or (task.stamp.size or 0) < 2 * STEP:
        return []
    source = Source(task.path)
    try:
        if source.is_folder:
            return []
        with told(task.path):
            known = by_name(selection.from_) if selection.from_ else choose(source)
            able = known.capability("ranges")
            parts = able.ranges(source, task.stamp.size or 0, STEP) if able else []
    except (KtraceError, OSError):  # told when it is read
        return []
    selection = selection.but(from_=known.name)
    stem = f"{RANGES}{file_stem(task.path)}"
    return [
        replace(task, selection=selection, part=part, staged=f"{stem}.{number}", old=())
        for number, part in enumerate(parts)
    ]


@dataclass
class _Divided:
    """An input, the tasks for its ranges, what came of them."""

    whole: Task
    tasks: list[Task]
    outcomes: list[Outcome]


class Joiner:
    """Holds back what comes of ranges until their input is settled. `as_whole` says why inputs had to be read whole."""

    def __init__(self, store: Store, files: dict[str, int]) -> None:
        self._store = store
        self._files = files
        self._inputs: dict[str, _Divided] = {}
        self._again: list[Task] = []
        self.as_whole: dict[str, str] = {}

    def plan(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks that are to be done for these inputs: ranges of big ones, but for those that are done already."""
        planned: list[Task] = []
        for task in tasks:
            ranges = divided(task)
            if not ranges:
                planned.append(task)
                continue
            outcomes = [Outcome(task.path, part=part) for one in ranges if (part := self._done(one))]
            self._inputs[task.path] = _Divided(task, ranges, outcomes)
            kept = {outcome.part.staged for outcome in outcomes if outcome.part}
            planned += [one for one in ranges if one.staged not in kept]
        staged = {task.staged for one in self._inputs.values() for task in one.tasks}
        self._store.remove(
            name for name in self._files if name.startswith(RANGES) and name.removesuffix(".json") not in staged
        )
        return planned

    def _done(self, task: Task) -> RangeResult | None:
        """The part that an earlier batch made by that task."""
        if not {task.staged, f"{task.staged}.json"} <= self._files.keys():
            return None
        [text] = self._store.read([f"{task.staged}.json"])
        try:
            part = msgspec.json.decode(text, type=RangeResult)
        except msgspec.DecodeError:
            return None
        return part if part.is_of(task) and part.shard.size == self._files[task.staged] else None

    def ready(self) -> list[Outcome]:
        """What came of inputs of which all ranges were done before."""
        settled = [self._settled(one) for one in list(self._inputs.values())]
        return [outcome for outcome in settled if outcome]

    def take(self, outcome: Outcome) -> Outcome | None:
        """What came of an input; None where it is one of ranges, and not all of them are settled."""
        one = self._inputs.get(outcome.path)
        if one is None:
            return outcome
        one.outcomes.append(outcome)
        return self._settled(one)

    def again(self) -> list[Task]:
        """The inputs that have to be read as a whole after all, each once."""
        tasks, self._again = self._again, []
        return tasks

    def _settled(self, one: _Divided) -> Outcome | None:
        if len(one.outcomes) < len(one.tasks):
            return None
        del self._inputs[one.whole.path]
        if failed := next((outcome for outcome in one.outcomes if outcome.reason), None):
            return failed
        parts = [outcome.part for outcome in one.outcomes if outcome.part]
        parts.sort(key=lambda part: part.part.start)
        why = next((outcome.undivided for outcome in one.outcomes if outcome.undivided), "") or _gap(parts)
        if why:
            self._store.remove(_staged(one.tasks))
            self.as_whole[one.whole.path] = why
            self._again.append(one.whole)
            return None
        manifest = self._joined(one, parts)
        return Outcome(one.whole.path, manifest, seconds=sum(outcome.seconds for outcome in one.outcomes))

    def _joined(self, one: _Divided, parts: Sequence[RangeResult]) -> Manifest:
        """Gives the parts their places as shards, and writes the manifest of the input."""
        place, path = parts[-1].shard.place, one.whole.path
        names = [f"{place.folder()}/{file_stem(path, number)}.parquet" for number in range(len(parts))]
        issues: Counter[str] = Counter()
        for part in parts:
            issues.update(part.manifest.issues)
        shards = [Shard(name, part.shard.size, part.shard.rows, place) for name, part in zip(names, parts, strict=True)]
        manifest = replace(parts[-1].manifest, shards=tuple(shards), issues=dict(issues))
        self._store.remove([manifest.name, *one.whole.old])
        for name, part in zip(names, parts, strict=True):
            self._store.move(part.staged, name)
        write_manifest(self._store, manifest)
        self._store.remove(_staged(one.tasks))
        return manifest


def _staged(tasks: Iterable[Task]) -> list[str]:
    """The files of parts."""
    return [name for task in tasks for name in (f"{task.staged}.json", task.staged)]


def _gap(parts: Sequence[RangeResult]) -> str:
    """Why ranges, in their order, aren't the whole document; '' where they are."""
    ends = [parts[-1].part.list, *(part.part.end for part in parts[:-1])]
    meet = all(end == part.part.begun for end, part in zip(ends, parts, strict=True))
    if not meet or any(part.part.closed for part in parts[:-1]):
        return "its ranges don't meet"
    return ""
