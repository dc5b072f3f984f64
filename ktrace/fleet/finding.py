"""Finds the inputs of a batch, on this machine or in a store, with a stamp that reveals changes.

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
from ktrace.input.expand import each_once, expanded
from ktrace.input.source import Source, stem
from ktrace.input.stores import as_folder, is_remote, remote_files
from ktrace.naming.alike import unique_name
from ktrace.report import Report


@dataclass(frozen=True)
class Found:
    """An input of a batch.

    `path` is absolute or a URL, `root` the name of the folder before the first wildcard of the pattern, and `inside`
    the path below that folder.
    """

    path: str
    inside: str
    root: str
    stamp: Stamp


def find(patterns: Sequence[str], report: Report, format: str | None = None) -> list[Found]:
    """Returns the inputs that the patterns name, each once, in their order.

    A folder is one input if a format claims it; otherwise it means the traces in it. Raises InputError if a pattern
    names nothing or a store can't be reached.
    """
    found: list[Found] = []
    for pattern in patterns:
        found += _remote(pattern, report, format) if is_remote(pattern) else _local(pattern, report, format)
    return each_once(found, report)


def _fixed(pattern: str) -> str:
    """Returns the folder before the first wildcard of a pattern, or the folder that contains a plain path."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts) - 1)
    return "/".join(parts[: min(fixed, len(parts) - 1)])


def _local(pattern: str, report: Report, format: str | None) -> Iterable[Found]:
    whole = os.path.lexists(pattern)
    root = Path(pattern) if Path(pattern).is_dir() else Path(pattern).parent if whole else Path(_fixed(pattern))
    root = Path(os.path.abspath(root))  # noqa: PTH100 (resolve would follow links)
    for input in expanded([pattern], report, format):
        path = Path(os.path.abspath(input.path))  # noqa: PTH100
        stored = Path(split_member(str(path))[0])
        if not stored.exists():
            raise InputError("no such file", path=input.path, remedy="check the spelling and the folder")
        folder = root if path != root else root.parent
        yield Found(str(path), path.relative_to(folder).as_posix(), folder.name, _stamp(stored))


def _stamp(path: Path) -> Stamp:
    """Returns the stamp of a file with the mapping next to it, or of all files of a folder that is one trace."""
    if not path.is_dir():
        status, mapping = path.stat(), Source(str(path)).mapping
        tag = sha256(mapping.read_bytes()).hexdigest()[:16] if mapping else None
        return Stamp(status.st_size, status.st_mtime_ns, tag)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    stats = [(file.relative_to(path).as_posix(), file.stat()) for file in files]
    files_text = repr([(name, status.st_size, status.st_mtime_ns) for name, status in stats])
    return Stamp(sum(status.st_size for _, status in stats), tag=sha256(files_text.encode()).hexdigest()[:16])


def _remote(pattern: str, report: Report, format: str | None) -> Iterable[Found]:
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
        yield Found(url, inside, root.rpartition("/")[2], stamp)


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


def labels(found: Sequence[Found], known: dict[str, str]) -> dict[str, str]:
    """Returns a label for each path: the `known` one, otherwise the stem, or the path below the root if stems repeat.

    Labels are unique within a dataset; `known` contains the labels of the inputs done already, by their paths.
    """
    stems = Counter(stem(input.path) for input in found)
    for path in known.keys() - {input.path for input in found}:
        stems[stem(path)] += 1
    used = set(known.values())
    by_path = {}
    for input in found:
        if input.path in known:
            by_path[input.path] = known[input.path]
            continue
        label = stem(input.path) if stems[stem(input.path)] == 1 else _without_suffix(input.inside)
        by_path[input.path] = unique_name(label, used.__contains__)
        used.add(by_path[input.path])
    return by_path


def _without_suffix(inside: str) -> str:
    folder, slash, _ = inside.rpartition("/")
    return f"{folder}{slash}{stem(inside)}"
