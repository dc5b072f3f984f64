"""What Perfetto has no field for, so that a trace that ktrace wrote can be read back unchanged.

It is JSON in packets `TracePacket.for_testing` (`TestEvent.str`), which every viewer skips. Each is an object:

    {"ktrace": "1.0", "part": "begin", "origin_ns": -1500}                                     the first packet of all
    {"catalog": [{"entity": "device", "source": "run", "device": 0, "id": 3, "name": "H100", "facts": {...}}]}
    {"links": "/////3gBAAAQ.."}
    {"tracks": {"12": {"source": "run", "pid": 4242, "tid": 4242},
                "19": {"source": "run", "device": 0, "counter": "power", "unit": "W"}}}
    {"queues": {"101": {"source": "run", "device": 0, "context": 1, "stream": 7, "gpu": [0, 0]}}}
    {"ktrace": "1.0", "part": "end"}                                                           the last packet

ktrace      version of the model; it marks a trace that ktrace wrote, and shows whether the trace was cut
origin_ns   was subtracted from all times: the source's time is the trace's plus this
catalog     the rows of the record `catalog`, without the columns that are null; `facts` is an object
links       the rows of the record `links`, unchanged: an Arrow IPC stream, compressed by zstd, in base64
tracks      uuid of a track with TrackEvents -> the track columns that aren't null, and the internal `run` if the row
            has one. A counter track also has its name and unit, as in the rows
queues      hw_queue_iid of a GpuRenderStageEvent -> the same, and `gpu`: the machine and the number of its GPU there

The work on a lane of graphs has context and stream as arguments: the lane's columns lack them, and `track`.

Packets of sequences from 2^30 on are derived from the others, for viewers alone: the busy pieces of devices.

Catalog and links come first, tracks and queues before their first use: the rest of a cut trace has them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from ktrace.kit import timelines
from ktrace.model.batch import VERSION, Batch, arrow_schema
from ktrace.model.json_text import decoded, dump_json

#: Argument of a render stage -> the column of the model that has another name.
STAGE_COLUMNS = {"registers_per_thread": "registers", "sm__maximum_warps_per_active_cycle_pct": "occupancy"}

#: Metric that describes a kernel's launch -> the argument under which the GPU tab shows it as well.
LAUNCH_METRICS = {
    "launch__barrier_count": "barriers_per_block",
    "launch__func_cache_config": "func_cache_config",
    "launch__shared_mem_config_size": "shared_mem_config_size",
    "launch__waves_per_multiprocessor": "waves_per_multiprocessor",
    **{
        f"launch__occupancy_limit_{what}": f"occupancy_limit_{what}"
        for what in ("barriers", "blocks", "registers", "shared_mem", "warps")
    },
}

#: The arguments of a render stage that the writer derives from columns and the catalog. The reader drops them.
STAGE_DERIVED = frozenset(
    {
        *("process_id", "process_name", "device", "stream", "context", "api", "occupancy_source"),
        *("workgroup_size", "grid_size", "thread_count", "shared_mem_static", "shared_mem_dynamic", "bandwidth"),
        *LAUNCH_METRICS.values(),
    }
)

#: Packets of sequences with this number or a higher one are derived from others: the reader leaves them out.
DERIVED_SEQUENCES = 1 << 30

#: Category of a source -> the kind that it implies: a slice of that kind has no argument `kind`.
#: No kind has the name of one of these categories.
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

#: Arguments that are columns of the model. `args` is a whole object that can't be decoded.
RESERVED = timelines.RESERVED | {"value", "unit", "args"}

#: The same for a render stage; `cat` is its category.
STAGE_RESERVED = RESERVED | STAGE_DERIVED | STAGE_COLUMNS.keys() | {"cat"}

#: Entries in one packet.
_ENTRIES = 4096

_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


def argument_name(key: str, reserved: Set[str]) -> str:
    """The name under which a key of the source's `args` is written: `args.<key>` if it could be a column's.

    Keys that begin with `x_` get it too: the reader turns every other `x_...` into a column of another package.
    """
    return f"args.{key}" if key.startswith("x_") else timelines.argument_name(key, reserved)


class Sidecar(msgspec.Struct):
    """The contents of the sidecar packets so far. The keys of `tracks` and `queues` are texts in JSON."""

    version: str = VERSION
    origin_ns: int = 0
    tracks: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    queues: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    catalog: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ended: bool = False

    def add(self, text: str) -> Batch | None:
        """Adds the text of a packet and returns the links in it.

        Skips texts of other programs, which write `for_testing` too. Raises ValueError if the text is damaged.
        """
        members = _object(text)
        self.ended |= members.get("part") == "end" and "ktrace" in members
        try:
            self.tracks |= {int(uuid): dict(place) for uuid, place in members.get("tracks", {}).items()}
            self.queues |= {int(iid): dict(place) for iid, place in members.get("queues", {}).items()}
            self.catalog += [dict(fact) for fact in members.get("catalog", [])]
        except (AttributeError, TypeError) as error:
            raise ValueError(f"the sidecar is damaged: {error}") from None
        return unpacked_links(members["links"]) if isinstance(members.get("links"), str) else None


def parse_begin(text: str) -> Sidecar | None:
    """Returns the sidecar that the first packet of a trace begins; None if ktrace didn't write the trace."""
    members = _object(text)
    version, origin = members.get("ktrace"), members.get("origin_ns", 0)
    if not isinstance(version, str) or members.get("part") != "begin" or type(origin) is not int:
        return None
    return Sidecar(version, origin) if abs(origin) < 1 << 63 else None


def begin_text(origin_ns: int, gpu: str) -> str:
    """The text of the first packet. `gpu` is the form of device work, "stages", "slices" or one of these by stream."""
    return dump_json({"ktrace": VERSION, "part": "begin", "origin_ns": origin_ns, "gpu": gpu})


def end_text() -> str:
    """The text of the last packet."""
    return dump_json({"ktrace": VERSION, "part": "end"})


def place_texts(name: str, places: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    """Yields texts that map `tracks` or `queues` to their columns."""
    return (dump_json({name: {str(key): place for key, place in part}}) for part in _chunks(places))


def catalog_texts(catalog: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the texts of the catalog."""
    return (dump_json({"catalog": part}) for part in _chunks(catalog))


def link_texts(batches: Iterable[Batch]) -> Iterator[str]:
    """Yields the texts of links."""
    for batch in batches:
        names = batch.columns.schema.names
        used = [_with_used_words(column) for column in batch.columns.columns]
        columns = pa.RecordBatch.from_arrays(used, names=names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, columns.schema, options=_ZSTD) as writer:
            writer.write_batch(columns)
        yield dump_json({"links": base64.b64encode(sink.getvalue()).decode()})


def _with_used_words(column: pa.Array) -> pa.Array:
    """The column without words that no row has: a reader's dictionary may have those of all rows of its source.

    Unlike `used_words` of columnar/dictionaries.py it also gives nulls one code, so that equal rows are equal bytes.
    """
    return decoded(column).dictionary_encode() if pa.types.is_dictionary(column.type) else column


def unpacked_links(text: str) -> Batch:
    """Returns the links of a text. Raises ValueError if they don't have the model's columns."""
    schema = arrow_schema("links")
    try:
        with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text, validate=True))) as reader:
            columns = reader.read_all().combine_chunks()
        columns.validate(full=True)
        arrays = {name: columns[name].cast(schema.field(name).type) for name in columns.schema.names}
        batch = Batch("links", pa.RecordBatch.from_pydict({name: one.combine_chunks() for name, one in arrays.items()}))
    except (KeyError, OSError, TypeError, pa.ArrowException) as error:
        raise ValueError(f"damaged links: {error}") from None
    if any(batch.column(one.name).null_count for one in schema if not one.nullable):
        raise ValueError("damaged links: a column that every link has is missing")
    return batch


def _object(text: str) -> Mapping[str, Any]:
    """Returns the JSON object in a text; an empty one if it isn't an object."""
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, Mapping) else {}


def _chunks(entries: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(entries)
    while part := list(islice(rest, _ENTRIES)):
        yield part
