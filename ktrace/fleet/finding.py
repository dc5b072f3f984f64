"""What patterns name, on this machine or in a store: the inputs of a batch, with what tells a changed one.

'runs/*/rank*.json.gz'        root runs     inside 2026-11-20/rank3.json.gz
's3://bucket/run/*.json'      root s3://bucket/run     inside rank3.json
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from glob import has_magic
from hashlib import sha256
from pathlib import Path
from typing import Any

from ktrace.errors import InputError
from ktrace.input.compression import split_member
from ktrace.input.dataset_manifest import Stamp
from ktrace.input.expand import expanded
from ktrace.input.source import stem
from ktrace.input.stores import filesystem, is_remote, told
from ktrace.model.unique import unique_name
from ktrace.report import Report


@dataclass(frozen=True)
class Found:
    """An input: its path (absolute) or URL, the path below the fixed part of its pattern, that part's own name."""

    path: str
    inside: str
    root: str
    stamp: Stamp


def find(patterns: Sequence[str], report: Report, format: str | None = None) -> list[Found]:
    """The inputs that the patterns name, each once, in their order.

    A folder is one input where a format claims it, else it stands for the traces in it. Raises InputError where a
    pattern names nothing, and where something can't be reached.
    """
    found: dict[str, Found] = {}
    for pattern in patterns:
        for one in _remote(pattern) if is_remote(pattern) else _local(pattern, report, format):
            found.setdefault(one.path, one)
    return list(found.values())


def _fixed(pattern: str) -> str:
    """The folder of a pattern before its first wildcard; of a plain path the folder that it is in."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts) - 1)
    return "/".join(parts[: min(fixed, len(parts) - 1)])


def _local(pattern: str, report: Report, format: str | None) -> Iterable[Found]:
    whole = os.path.lexists(pattern)
    root = Path(pattern) if Path(pattern).is_dir() else Path(pattern).parent if whole else Path(_fixed(pattern))
    root = Path(os.path.abspath(root))  # noqa: PTH100 (resolve would follow links)
    for one in expanded([pattern], report, format):
        path = Path(os.path.abspath(one.path))  # noqa: PTH100
        stored = Path(split_member(str(path))[0])
        if not stored.exists():
            raise InputError("no such file", path=one.path, remedy="check the spelling and the folder")
        folder = root if path != root else root.parent
        yield Found(str(path), path.relative_to(folder).as_posix(), folder.name, _stamp(stored))


def _stamp(path: Path) -> Stamp:
    """The stamp of a file, or of all files of a folder that is one trace."""
    if not path.is_dir():
        status = path.stat()
        return Stamp(status.st_size, status.st_mtime_ns)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    stats = [(file.relative_to(path).as_posix(), file.stat()) for file in files]
    told_apart = repr([(name, status.st_size, status.st_mtime_ns) for name, status in stats])
    return Stamp(sum(status.st_size for _, status in stats), tag=sha256(told_apart.encode()).hexdigest()[:16])


def _remote(pattern: str) -> Iterable[Found]:
    fs, path = filesystem(pattern)
    protocol = pattern.partition("://")[0]
    magic = any(mark in path for mark in "*[")  # '?' begins the query of a web address
    with told(pattern):
        fs.invalidate_cache()
        try:
            found: dict[str, dict[str, Any]] = fs.glob(path, detail=True) if magic else {path: fs.info(path)}
        except FileNotFoundError:
            found = {}
    files = {name: info for name, info in sorted(found.items()) if info["type"] == "file"}
    if not files:
        what = "nothing fits this pattern" if magic else "no such file"
        raise InputError(what, path=pattern, remedy="check the spelling; a remote folder needs a pattern: .../*")
    root = _fixed(path)
    for name, info in files.items():
        inside = name[len(root) + 1 :] if root and name.startswith(root + "/") else name.rpartition("/")[2]
        url = name if "://" in name else f"{protocol}://{name}"
        yield Found(url, inside, root.rpartition("/")[2], _remote_stamp(info))


def _remote_stamp(info: dict[str, Any]) -> Stamp:
    """The stamp that a store gives: its tag, or the time of writing under whatever name."""
    tag = next((str(info[key]) for key in ("ETag", "etag", "md5Hash") if info.get(key)), None)
    when = next((info[key] for key in ("LastModified", "mtime", "updated", "last_modified") if info.get(key)), None)
    if isinstance(when, datetime):
        when = when.isoformat()
    return Stamp(info.get("size"), tag=tag or (None if when is None else str(when)))


def labels(found: Sequence[Found], known: dict[str, str]) -> dict[str, str]:
    """A label for each path: the one that it is `known` by, its stem, the path in the pattern where stems repeat.

    No two inputs of a dataset have the same; `known` are the labels of those that are done, by their paths.
    """
    often = Counter(stem(one.path) for one in found)
    for path in known.keys() - {one.path for one in found}:
        often[stem(path)] += 1
    taken = set(known.values())
    given = {}
    for one in found:
        if one.path in known:
            given[one.path] = known[one.path]
            continue
        label = stem(one.path) if often[stem(one.path)] == 1 else _without_suffix(one.inside)
        given[one.path] = unique_name(label, taken.__contains__)
        taken.add(given[one.path])
    return given


def _without_suffix(inside: str) -> str:
    folder, slash, _ = inside.rpartition("/")
    return f"{folder}{slash}{stem(inside)}"
