"""The inputs of a batch: found on this machine or in a store, and big ones divided into ranges of bytes.

'runs/*/rank*.json.gz'        root runs     inside 2026-11-20/rank3.json.gz
's3://bucket/run/*.json'      root s3://bucket/run     inside rank3.json

Each input has a stamp that reveals changes. A big one becomes tasks of one byte range each, whose results are joined:

    rank0.json  | 0 | 1 | 2 |  ──► tasks ──► parts   _ktrace/ranges/rank0-5f0c81a2b3c4.1, ....1.json
                 all done, and each begins where the previous one ended ──► shards, manifest
                 otherwise                                              ──► the input is read as a whole

Finished parts are kept until their input is finished, so that an interrupted batch continues with the others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from glob import has_magic
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ktrace.errors import InputError, KtraceError
from ktrace.fleet.tasks import Outcome, RangeResult, Task
from ktrace.input.companions import files_of
from ktrace.input.compression import split_member
from ktrace.input.dataset_manifest import Manifest, Shard, Stamp, file_stem, write_manifest, written
from ktrace.input.detection import by_name, choose
from ktrace.input.expand import each_once, expanded
from ktrace.input.source import Source, stem
from ktrace.input.stores import Store, as_folder, is_remote, remote_files, wrap_store_errors
from ktrace.naming.alike import unique_name
from ktrace.report import Report


@dataclass(frozen=True)
class BatchInput:
    """An input of a batch.

    `path` is absolute or a URL, `root` the name of the folder before the first wildcard of the pattern, and `inside`
    the path below that folder.
    """

    path: str
    inside: str
    root: str
    stamp: Stamp


def find(patterns: Sequence[str], report: Report, format: str | None = None) -> list[BatchInput]:
    """Returns the inputs that the patterns name, each once, in their order.

    A folder is one input if a format claims it; otherwise it means the traces in it. Raises InputError if a pattern
    names nothing or a store can't be reached.
    """
    inputs: list[BatchInput] = []
    for pattern in patterns:
        inputs += _remote(pattern, report, format) if is_remote(pattern) else _local(pattern, report, format)
    return each_once(inputs, report)


def _fixed(pattern: str) -> str:
    """Returns the folder before the first wildcard of a pattern, or the folder that contains a plain path."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts) - 1)
    return "/".join(parts[: min(fixed, len(parts) - 1)])


def _local(pattern: str, report: Report, format: str | None) -> Iterable[BatchInput]:
    whole = os.path.lexists(pattern)
    root = Path(pattern) if Path(pattern).is_dir() else Path(pattern).parent if whole else Path(_fixed(pattern))
    root = Path(os.path.abspath(root))  # noqa: PTH100 (resolve would follow links)
    for input in expanded([pattern], report, format):
        path = Path(os.path.abspath(input.path))  # noqa: PTH100
        stored = Path(split_member(str(path))[0])
        if not stored.exists():
            raise InputError("no such file", path=input.path, remedy="check the spelling and the folder")
        folder = root if path != root else root.parent
        yield BatchInput(str(path), path.relative_to(folder).as_posix(), folder.name, _stamp(stored))


def _stamp(path: Path) -> Stamp:
    """Returns the stamp of a file with what is read beside it, or of all files of a folder that is one trace."""
    is_folder = path.is_dir()
    folder = path if is_folder else path.parent
    files = [file for file in files_of(str(path)) if file.is_file()]
    stats = [(os.path.relpath(file, folder).replace(os.sep, "/"), file.stat()) for file in files]
    beside = repr([(name, status.st_size, status.st_mtime_ns) for name, status in stats[not is_folder :]])
    tag = sha256(beside.encode("utf-8", "surrogatepass")).hexdigest()[:16] if len(stats) > 1 or is_folder else None
    if is_folder:
        return Stamp(sum(status.st_size for _, status in stats), tag=tag)
    return Stamp(stats[0][1].st_size, stats[0][1].st_mtime_ns, tag)


def _remote(pattern: str, report: Report, format: str | None) -> Iterable[BatchInput]:
    pattern = as_folder(pattern)
    files = remote_files(pattern)
    if pattern.endswith("/"):
        root = pattern.rstrip("/")
        urls = [input.path for input in expanded([pattern], report, format)]
    else:
        root = f"{pattern.partition('://')[0]}://{_fixed(pattern.partition('://')[2])}"
        urls = list(files)
    for url in urls:
        inside = url[len(root) + 1 :] if url.startswith(root + "/") else url.rpartition("/")[2]
        stamp = _remote_stamp(files[url]) if url in files else _stamp_of_all(files)
        yield BatchInput(url, inside, root.rpartition("/")[2], stamp)


def _stamp_of_all(files: dict[str, dict[str, Any]]) -> Stamp:
    """Returns the stamp of a remote folder that is one trace."""
    stamps = [(url, _remote_stamp(info)) for url, info in files.items()]
    tag = sha256(repr(stamps).encode()).hexdigest()[:16]
    return Stamp(sum(stamp.size or 0 for _, stamp in stamps), tag=tag)


def _remote_stamp(info: dict[str, Any]) -> Stamp:
    """Returns the stamp from the metadata of a store: its tag, otherwise the time of writing."""
    tag = next((str(info[key]) for key in ("ETag", "etag", "md5Hash") if info.get(key)), None)
    when = next((info[key] for key in ("LastModified", "mtime", "updated", "last_modified") if info.get(key)), None)
    if isinstance(when, datetime):
        when = when.isoformat()
    return Stamp(info.get("size"), tag=tag or (None if when is None else str(when)))


def labels(inputs: Sequence[BatchInput], given: dict[str, str]) -> dict[str, str]:
    """Returns a label for each path: the `given` one, otherwise the stem, or the path below the root if stems repeat.

    Labels are unique within a dataset; `given` contains the labels of the inputs done already, by their paths.
    """
    stems = Counter(stem(input.path) for input in inputs)
    for path in given.keys() - {input.path for input in inputs}:
        stems[stem(path)] += 1
    used = set(given.values())
    by_path = {}
    for input in inputs:
        if input.path in given:
            by_path[input.path] = given[input.path]
            continue
        label = stem(input.path) if stems[stem(input.path)] == 1 else _without_suffix(input.inside)
        by_path[input.path] = unique_name(label, used.__contains__)
        used.add(by_path[input.path])
    return by_path


def _without_suffix(inside: str) -> str:
    folder, slash, _ = inside.rpartition("/")
    return f"{folder}{slash}{stem(inside)}"


#: Approximate size of a range. An input smaller than two ranges is read as a whole.
STEP = 256 << 20

#: The folder of finished parts.
RANGES = "_ktrace/ranges/"


def divided(task: Task) -> list[Task]:
    """Returns the tasks for the ranges of an input; [] if it has to be read as a whole, for instance to crop it."""
    selection = task.selection
    if selection.repair_clock or selection.crop or selection.filter or (task.stamp.size or 0) < 2 * STEP:
        return []
    source = Source(task.path)
    try:
        if source.is_folder:
            return []
        with wrap_store_errors(task.path):
            fmt = by_name(selection.from_) if selection.from_ else choose(source)
            ranges = fmt.function("ranges")
            parts = ranges(source, task.stamp.size or 0, STEP) if ranges else []
    except (KtraceError, OSError):  # reported when the input is read
        return []
    selection = selection.replace(from_=fmt.name)
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

    def settle(self, outcome: Outcome) -> Outcome | None:
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
