"""XPlane files of XLA's profiler, which JAX and TensorFlow use: one, or a profile folder (2020 to 2026).

plugins/profile/2026_11_22_06_14_24/vm.xplane.pb, a protobuf message XSpace:

planes { name: "/device:GPU:0"
  lines { id: 7 name: "Stream #7(Kernel)" timestamp_ns: 911061
    events { metadata_id: 1 offset_ps: 700301000 duration_ps: 18240000 stats { metadata_id: 3 uint64_value: 18 } } }
  event_metadata { key: 1 value { id: 1 name: "loop_add_fusion" } }
  stat_metadata { key: 3 value { id: 3 name: "correlation_id" } } }
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktrace.kit import Format, Match, Sample, Score

#: How names of planes begin.
_NAMES = (b"/host:", b"/device:", b"Task Environment", b"#Chip", b"/virtualdevice:", b"Host CPUs", b"Syscalls")

#: The file of a host in a profile folder.
FILE = re.compile(r"(?:(?P<run>.*)/)?(?P<host>[^/]+)\.xplane\.pb(?:\.gz|\.zst)?")
_RUN = re.compile(r"(?:.*/)?plugins/profile/[^/]+")

#: Files outside the run that another format may read.
_TRACE = re.compile(
    r".*\.(?:json|csv|tsv|txt|log|db|sqlite3?|perfetto|pftrace|parquet|arrows|nsys-rep|ncu-rep)(?:\.gz|\.zst)?"
)


def probe(sample: Sample) -> Match | None:
    """MAGIC for a plane with a name of XLA, DIALECT for a profile folder."""
    if sample.listing is not None:
        return _folder(sample.listing)
    head = sample.head
    if not head.startswith(b"\n"):
        return None
    name = _plane_name(head)
    if name is None or not name.startswith(_NAMES):
        return None
    return Match(Score.MAGIC, f"begins with the plane {name[:40].decode('utf-8', 'replace')} of XLA's profiler")


def _folder(listing: tuple[str, ...]) -> Match | None:
    if not any(".xplane.pb" in path for path in listing) or not _is_ours(listing):
        return None
    files = next(iter(runs(listing).values()))
    return Match(Score.DIALECT, f"is a profile folder of XLA with {files[0]}")


def _plane_name(head: bytes) -> bytes | None:
    """The name of the first plane: its second field, perhaps after an id. A file that was read as text has one, too."""
    at = head.find(b"\x12", 1, 32)
    while 0 < at < 32:
        size = head[at + 1] if at + 1 < len(head) else 0
        name = head[at + 2 : at + 2 + size]
        if 0 < size < 128 and name.startswith(_NAMES):
            return name
        at = head.find(b"\x12", at + 1, 32)
    return None


def runs(listing: Iterable[str]) -> dict[str, list[str]]:
    """Returns the XPlane files of each run, run -> paths."""
    by_run: dict[str, list[str]] = {}
    for path in listing:
        if about := FILE.fullmatch(path):
            by_run.setdefault(about["run"] or "", []).append(path)
    return by_run


def _is_ours(listing: Iterable[str]) -> bool:
    """Whether a folder is a profile of XLA: it has XPlane files, and no other traces outside their folders."""
    paths = list(listing)
    by_run = runs(paths)
    inside = tuple(f"{run}/" if run else "" for run in by_run)
    if len(by_run) > 1 and not all(_RUN.fullmatch(run) or "/" not in run for run in by_run):
        return False
    return bool(by_run) and not any(_TRACE.fullmatch(path) for path in paths if not path.startswith(inside))


FORMAT = Format(
    "xplane",
    "XPlane of XLA's profiler (JAX, TensorFlow), a file or a profile folder",
    patterns=("*.xplane.pb",),
    probe=probe,
    read="ktrace.converters.xplane.reader:read",
    reads_folders=True,
    prose=True,
    binary=True,
)
