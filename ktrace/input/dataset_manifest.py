"""The files and folders of a dataset: a mark, a small manifest for each input that is done, and a folder for each rank.

    run.parquet/
      _ktrace/dataset.json                   the mark, written first
      _ktrace/inputs/rank3-5f0c81a2b3c4.json   of one input, written when its shards are there
      run_name=.../host_name=.../rank=3/rank3-5f0c81a2b3c4.parquet

A shard that no such file names is none: its input isn't finished. Run, host and rank come from the path of the input:

    runs/2026-11-20/node7/rank3.json.gz   found by runs/*/*/rank*.json.gz
         └── run ────────┘     └ 3
    run_name=2026-11-20%2Fnode7/host_name=__HIVE_DEFAULT_PARTITION__/rank=3/

The folders are not called `run` and `host`: these are columns of the model, and readers of such folders would show
the folder's value in their stead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote

import msgspec

from ktrace.errors import DamagedInput, VersionError
from ktrace.input.compression import PACKED
from ktrace.input.source import stem
from ktrace.input.stores import Store

#: The name of an unknown value, by Hive's convention.
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"

#: rank3, rank_3, rank-3 or r3 as a word of a name.
_RANK = re.compile(r"(?:^|[^a-z0-9])r(?:ank)?[ _=-]?(\d{1,9})(?![a-z0-9])", re.I)

#: A folder with key and value: host=node7.
_SAID = re.compile(r"(run|host|rank)(?:_name)?=(.+)", re.I)

#: Names of the files of PyTorch's tensorboard_trace_handler: host_pid.time.pt.trace.json.
_TORCH = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json")


#: What the folders of a dataset can be by, and the name of each folder.
FOLDERS = {"run": "run_name", "host": "host_name", "rank": "rank"}

#: What they are by, and their order, unless something else is asked for.
BY = ("run", "host", "rank")


@dataclass(frozen=True)
class DatasetPlace:
    """Run, host and rank of some rows; None if unknown."""

    run: str | None = None
    host: str | None = None
    rank: int | None = None

    def folder(self, by: Sequence[str] = BY) -> str:
        """Returns the folder in a dataset, percent-encoded as in Hive's layout."""
        named = [(FOLDERS[key], getattr(self, key)) for key in by]
        return "/".join(
            f"{key}={UNKNOWN if value in (None, '') else quote(str(value), safe='')}" for key, value in named
        )

    @classmethod
    def common(cls, places: Sequence[DatasetPlace]) -> DatasetPlace:
        """Returns what all the places agree on; the rest is unknown."""
        values = {key: {getattr(place, key) for place in places} for key in BY}
        return cls(**{key: next(iter(distinct)) for key, distinct in values.items() if len(distinct) == 1})


def place_of(inside: str) -> DatasetPlace:
    """Returns run, host and rank in a path below the folder of a pattern: `2026-11-20/rank3.json.gz`.

    The run are the folders that say neither host nor rank, None where there is none.
    """
    *folders, name = inside.split("/")
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    said: dict[str, str] = {}
    folders_of_run = []
    for folder in folders:
        if match := _SAID.fullmatch(folder):
            said[match[1].lower()] = match[2]
        elif not _RANK.fullmatch(folder):
            folders_of_run.append(folder)
    ranks = [said["rank"]] if said.get("rank", "").isdigit() else []
    ranks += [match[1] for part in (name, *reversed(folders)) if (match := _RANK.search(part))]
    torch = _TORCH.fullmatch(name)
    host = said.get("host") or (torch[1] if torch and not _RANK.search(torch[1]) else None)
    return DatasetPlace(said.get("run") or "/".join(folders_of_run) or None, host, int(ranks[0]) if ranks else None)


#: The name of the mark, and the version in it; the mark of a folder of `--fleet`, which isn't a dataset.
MARK, FLEET_MARK = "_ktrace/dataset.json", "_ktrace/fleet.json"
VERSION = "1.0"

#: Folders and name of a shard; the name is that of `file_stem`. A backslash separates folders on Windows.
_SHARD = re.compile(r"(?:(?:run_name|host_name|rank)=[^/\\]+/){1,3}[^/\\]*-[0-9a-f]{12}\.parquet")

#: The folder of the manifests.
INPUTS = "_ktrace/inputs/"


@dataclass(frozen=True)
class Stamp:
    """The stamp of a file, which changes with it: size in bytes, time of writing in ns, an object store's own tag."""

    size: int | None = None
    mtime_ns: int | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Shard:
    """A Parquet file of the dataset: its name below the folder, its bytes and rows, the place of its rows."""

    name: str
    size: int
    rows: int
    place: DatasetPlace


@dataclass(frozen=True)
class Manifest:
    """An input that is done. `said` is where run, host and rank are from: "catalog", "path" or "folder" (the pattern).

    `options` is a digest of how it was converted, `label` what its rows call their source, `issues` counts what was
    noted, repaired or skipped, by kind.
    """

    path: str
    stamp: Stamp
    ktrace: str
    options: str
    label: str
    format: str
    shards: tuple[Shard, ...]
    said: dict[str, str] = field(default_factory=dict)
    issues: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the manifest in the dataset."""
        return f"{INPUTS}{file_stem(self.path)}.json"

    @property
    def rows(self) -> int:
        """Number of events, summaries and links in its shards."""
        return sum(shard.rows for shard in self.shards)


def file_stem(path: str, number: int | None = None) -> str:
    """Returns a name for the files of an input: its own name, and a digest that is unique to it.

    `number` is that of one of several files.
    """
    readable = quote(stem(path)[:80], safe="") + ("" if number is None else f".{number:03}")
    return f"{readable}-{_digest(path)}"


def _digest(path: str) -> str:
    return sha256(written(path).encode()).hexdigest()[:12]


def written(path: str) -> str:
    """Returns a path as a manifest contains it: bytes that aren't UTF-8 as escapes, as JSON has no place for them."""
    return path.encode("utf-8", "backslashreplace").decode()


def is_shard(name: str, path: str | None = None) -> bool:
    """Whether the name of a file is that of a shard; with `path`, one of that input."""
    return _SHARD.fullmatch(name) is not None and (path is None or name.endswith(f"-{_digest(path)}.parquet"))


def is_dataset(files: Iterable[str]) -> bool:
    """Whether the folder with these files is a dataset."""
    return MARK in files


def mark(store: Store) -> None:
    """Marks a folder as a dataset."""
    store.write(MARK, json.dumps({"ktrace dataset": VERSION}).encode() + b"\n")


def write_manifest(store: Store, manifest: Manifest) -> None:
    """Writes the manifest of an input: the input is done then."""
    store.write(manifest.name, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")


def manifests(store: Store, files: Iterable[str]) -> list[Manifest]:
    """Returns the manifests among the files of a dataset, by their labels.

    Raises DamagedInput for one that isn't what ktrace writes, also if it names files that can't be shards of its input;
    VersionError for a dataset of another major version.
    """
    names = sorted(name for name in files if name.startswith(INPUTS) and name.endswith(".json"))
    head, *texts = store.read([MARK, *names])
    _check_version(head, store)
    valid = []
    for name, text in zip(names, texts, strict=True):
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except msgspec.DecodeError as error:
            raise _damaged(store, name, error) from None
        for shard in manifest.shards:
            if not is_shard(shard.name, manifest.path):
                raise _damaged(store, name, f"{shard.name!r} isn't the name of a shard of its input")
        valid.append(manifest)
    return sorted(valid, key=lambda manifest: manifest.label)


def _check_version(text: bytes, store: Store) -> None:
    try:
        version = str(msgspec.json.decode(text, type=dict[str, str]).get("ktrace dataset"))
    except msgspec.DecodeError as error:
        raise _damaged(store, MARK, error) from None
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise VersionError(
            f"is a dataset of version {version}",
            path=store.path,
            expected=f"version {VERSION}",
            remedy="use the ktrace that wrote it, or write it again with this one",
        )


def _damaged(store: Store, name: str, error: object) -> DamagedInput:
    return DamagedInput(
        f"isn't what `ktrace batch` writes: {error}",
        path=store.path,
        where=name,
        remedy="remove that file and run the same `ktrace batch` again: it writes what is missing",
    )
