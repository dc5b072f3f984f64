"""What Perfetto has no place for, so that a trace of ktrace is read back equal.

It is JSON in packets `TracePacket.for_testing` (`TestEvent.str`), which every viewer passes over. They stand at the
end of the file; each is an object with some of these members, and the reader puts those of all packets together:

    {"ktrace": "1.0", "origin_ns": -1500}
    {"tracks": {"12": {"source": "run", "pid": 4242, "tid": 4242},
                "19": {"source": "run", "device": 0, "counter": "power", "unit": "W"}}}
    {"queues": {"101": {"source": "run", "device": 0, "context": 1, "stream": 7}}}
    {"catalog": [{"entity": "device", "source": "run", "device": 0, "id": 3, "name": "H100", "facts": {...}}]}

ktrace      version of the model; the mark by which a trace of ktrace is known
origin_ns   what was taken off all times: the time of the source is the one of the trace plus this
tracks      uuid of a track with TrackEvents -> the track columns that aren't null, and the internal `run` where there
            is one. A counter track has its name and unit, too, as they stand in the rows
queues      hw_queue_iid of a GpuRenderStageEvent -> the same
catalog     the rows of the record `catalog`, without the columns that are null; `facts` is an object
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ktrace.jsontext import dump_json
from ktrace.model import VERSION

from .._shared import arguments as columns

#: The arguments of a render stage that are a column of the model under another name -> the column.
STAGE_COLUMNS = {"registers_per_thread": "registers", "sm__maximum_warps_per_active_cycle_pct": "occupancy"}

#: The arguments of a render stage that the writer derives from columns and the catalog. The reader drops them.
STAGE_DERIVED = frozenset(
    {
        *("process_id", "process_name", "device", "stream", "context", "api", "occupancy_source"),
        *("workgroup_size", "grid_size", "thread_count", "waves_per_multiprocessor"),
        *("shared_mem_static", "shared_mem_dynamic", "occupancy_limit_warps", "bandwidth"),
    }
)

#: Categories of sources that say the kind: a slice of such a category has no argument `kind` if it is of that kind.
#: No kind is called like one of them.
CATEGORY_KINDS = {
    "cpu_op": "op",
    "user_annotation": "range",
    "python_function": "range",
    "gpu_user_annotation": "range",
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "hip_runtime": "api",
    "hip_driver": "api",
    "runtime": "api",
    "cpu_instant_event": "instant",
    "cuda_sync": "sync",
}

#: Arguments that are columns of the model.
RESERVED = columns.RESERVED | {"value", "unit"}

#: The same of a render stage; `cat` is its category, `args` a whole object that can't be taken apart.
STAGE_RESERVED = RESERVED | STAGE_DERIVED | STAGE_COLUMNS.keys() | {"cat", "args"}

#: Entries in one packet.
_ENTRIES = 4096


def argument_name(key: str, reserved: Set[str]) -> str:
    """The name under which a key of the source's `args` is written: `args.<key>` where it could be a column's."""
    return f"args.{key}" if key in reserved or key.startswith(("args.", "x_")) else key


@dataclass
class Sidecar:
    """The content of all packets. The keys of `tracks` and `queues` are numbers here, texts in JSON."""

    version: str = VERSION
    origin_ns: int = 0
    tracks: dict[int, dict[str, Any]] = field(default_factory=dict)
    queues: dict[int, dict[str, Any]] = field(default_factory=dict)
    catalog: list[dict[str, Any]] = field(default_factory=list)

    def texts(self) -> Iterator[str]:
        """The texts of the packets."""
        yield dump_json({"ktrace": self.version, "origin_ns": self.origin_ns})
        for name, entries in (("tracks", self.tracks), ("queues", self.queues)):
            yield from (dump_json({name: dict(part)}) for part in _parts(entries.items()))
        yield from (dump_json({"catalog": part}) for part in _parts(self.catalog))


def read(texts: Iterable[str]) -> Sidecar | None:
    """What the packets of a trace say; None for a trace that isn't of ktrace.

    Texts that are no JSON object of ours are passed over: others write `for_testing`, too.
    """
    found = Sidecar()
    marked = False
    for text in texts:
        try:
            part = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("ktrace"), str):
            marked, found.version = True, part["ktrace"]
        found.origin_ns = part.get("origin_ns", found.origin_ns)
        found.tracks |= {int(uuid): place for uuid, place in part.get("tracks", {}).items()}
        found.queues |= {int(iid): place for iid, place in part.get("queues", {}).items()}
        found.catalog += part.get("catalog", [])
    return found if marked else None


def _parts(entries: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(entries)
    while part := list(islice(rest, _ENTRIES)):
        yield part
