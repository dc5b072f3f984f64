"""Kernels, copies, sets and the ranges around them as GpuRenderStageEvents, with the fields that UIs from v55 on show.

The common part of launches (name, place, registers, ...) is interned as a kernel, once per combination; a launch
repeats only what varies. The stage of a kernel has its name, since older engines show only the stage.

Decides which arguments of launches are interned with the kernel: those with few combinations of values.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int32, Int64
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import present

from .. import field_numbers as f
from ..sidecar import LAUNCH_METRICS, STAGE_COLUMNS, STAGE_RESERVED, argument_name
from ..wire import bytes_field, bytes_tag, int_field, int_tag, varint
from .arguments import StageArguments, fresh
from .extra_fields import any_of, argument_field, coded, is_integral, validity, whole
from .fields import CodedField, Field, MessageField, Part, PieceTable, TextField, VarintField, encoder
from .gpu_tracks import Gpus, Queue, specification
from .kernel_counters import REACHABLE

#: Arguments that differ in every launch.
_VARYING = frozenset({"id", "parent", "correlation", "external_id"})

#: An argument is judged by this many rows.
_SAMPLE = 4096

#: A combination must occur in this many rows of the sample, on average.
_SHARE = 8

_NULL = np.int64(-0x61C8864680B583EB)
_FACTOR = np.int64(0x2545F4914F6CDD1D)


class InternedArguments:
    """Remembers the choice; an argument is judged when it occurs first."""

    def __init__(self) -> None:
        self._judged: dict[str, bool] = dict.fromkeys(_VARYING, False)

    def choose(self, columns: dict[str, pa.Array], track: Int32) -> set[str]:
        """Returns the names of the arguments that are interned with the kernel."""
        new = [name for name in columns if name not in self._judged]
        if new:
            self._judge(new, columns, track)
        return {name for name in columns if self._judged[name]}

    def _judge(self, new: list[str], columns: dict[str, pa.Array], track: Int32) -> None:
        """Adds the least varying arguments first, as long as there are few combinations."""
        count = min(len(track), _SAMPLE)
        spread = {name: number_codes(columns[name].slice(0, count)) for name in columns}
        distinct = {name: len(np.unique(spread[name])) for name in new}
        together = track[:count].astype(np.int64)
        for name in columns:
            if self._judged.get(name):
                together = _combined(together, spread[name])
        for name in sorted(new, key=distinct.__getitem__):
            both = _combined(together, spread[name])
            self._judged[name] = len(np.unique(both)) <= max(count // _SHARE, 16)
            if self._judged[name]:
                together = both


def number_combinations(numbers: Sequence[npt.NDArray[np.generic]], columns: Sequence[pa.Array]) -> tuple[Int32, Int64]:
    """Numbers the combinations of values. Returns the number of each row, and the first row of each number."""
    values = [number.astype(np.int64) for number in numbers] + [number_codes(column) for column in columns]
    together = values[0]
    for value in values[1:]:
        together = _combined(together, value)
    codes = pa.array(together).dictionary_encode().indices.to_numpy()
    first = _first(codes)
    if any((value != value[first[codes]]).any() for value in values):  # two combinations have the same hash
        codes = np.unique(np.stack(values), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)
        first = np.unique(codes, return_index=True)[1]
    return codes, first


def _first(codes: Int32) -> Int64:
    """Returns the first row of each number; numbers are in the order of their first rows."""
    most = np.maximum.accumulate(codes) if len(codes) else codes
    return np.flatnonzero(np.diff(most, prepend=np.int32(-1)))


def number_codes(column: pa.Array) -> Int64:
    """Returns a number per value of the column: equal values have equal numbers."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    elif pa.types.is_floating(kind):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False).view(np.int64)
    else:
        if not pa.types.is_dictionary(kind):
            column = column.dictionary_encode()
        values = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if column.null_count:
        values = np.where(present(column), values, _NULL)
    found: Int64 = values
    return found


def _combined(one: Int64, other: Int64) -> Int64:
    with np.errstate(over="ignore"):
        return (one ^ (one >> 29)) * _FACTOR + other


#: Kind -> category of its stage, and the stage's description.
STAGES = {
    "kernel": (f.RENDER_STAGE_CATEGORY["COMPUTE"], "Kernel"),
    "graph": (f.RENDER_STAGE_CATEGORY["COMPUTE"], "Graph"),
    "memcpy": (f.RENDER_STAGE_CATEGORY["OTHER"], "Memcpy"),
    "memset": (f.RENDER_STAGE_CATEGORY["OTHER"], "Memset"),
    "range": (f.RENDER_STAGE_CATEGORY["OTHER"], "Range"),
}

#: Bytes of interned kernels after which the sequence starts anew.
_MOST_KERNELS = 32 << 20

_EVENT_ID = int_tag(f.GPU_RENDER_STAGE_EVENT["event_id"])
_DURATION = int_tag(f.GPU_RENDER_STAGE_EVENT["duration"])
_LAUNCH = bytes_tag(f.GPU_RENDER_STAGE_EVENT["launch"])
_LAUNCH_ARGS = bytes_tag(f.COMPUTE_KERNEL_LAUNCH["args"])
_KERNEL_ARGS = bytes_tag(f.INTERNED_COMPUTE_KERNEL["args"])
_AXES = {
    "x": int_tag(f.DIM3["x"]),
    "y": int_tag(f.DIM3["y"]),
    "z": int_tag(f.DIM3["z"]),
}
_SIZES = {
    "grid": bytes_tag(f.COMPUTE_KERNEL_LAUNCH["grid_size"]),
    "block": bytes_tag(f.COMPUTE_KERNEL_LAUNCH["workgroup_size"]),
}
_RENAMED = {column: name for name, column in STAGE_COLUMNS.items()}


class StageRows(msgspec.Struct, frozen=True):
    """Rows of a batch that become render stages.

    `dur` is never null; `waits` has the fields of their arrows, `measured` the arguments from metrics of their launch.
    """

    columns: pa.RecordBatch
    arguments: dict[str, pa.Array]
    track: Int32
    serial: Int64
    ts: Int64
    dur: Int64
    waits: pa.LargeBinaryArray | None
    measured: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.ts)


class RenderStages:
    """Encodes render stages of one sequence."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._keys = InternedArguments()
        self.restart()

    def restart(self) -> bytes:
        """Forgets interned entries; returns the entries of InternedData with which the sequence starts anew."""
        self._arguments = StageArguments()
        self._kernels: dict[tuple[bytes, bytes], bytes] = {}  # name and arguments -> the field that refers to them
        self._bytes = 0
        self._stages: dict[tuple[str, bytes], bytes] = {}  # kind and name -> the field that refers to it
        self._new: list[bytes] = []
        self._queue_args: dict[int, bytes] = {}
        return self._gpus.entries()

    @property
    def is_full(self) -> bool:
        """Whether the sequence should start anew before the next batch."""
        return self._bytes > _MOST_KERNELS

    def fresh(self) -> bytes:
        """Returns the entries of InternedData that are new since the last call."""
        entries = b"".join([fresh(self._arguments.names, self._arguments.texts), *self._gpus.fresh, *self._new])
        self._gpus.fresh.clear()
        self._new.clear()
        return entries

    def fields(self, rows: StageRows) -> list[Field]:
        """Returns the fields of the GpuRenderStageEvents of rows."""
        columns = self._columns(rows)
        keyed = self._keys.choose(columns, rows.track)
        common = self._common(rows, {name: column for name, column in columns.items() if name in keyed})
        launch: list[Field] = [*_sizes(rows)]
        for name, column in columns.items():
            if name not in keyed:
                launch += self._fields(name, column, _LAUNCH_ARGS)
        return [
            VarintField(_EVENT_ID, rows.serial.view(np.uint64)),
            VarintField(_DURATION, rows.dur.view(np.uint64)),
            common,
            MessageField(_LAUNCH, b"", launch),
            *([TextField(rows.waits)] if rows.waits is not None else []),
        ]

    def _columns(self, rows: StageRows) -> dict[str, pa.Array]:
        """Returns all arguments by name: columns, arguments derived from them, the source's own."""
        own = {_RENAMED.get(name, name): column for name, column in rows.arguments.items()}
        if "occupancy" in rows.arguments:
            own[_RENAMED["occupancy"]] = _as_integers_if_whole(rows.arguments["occupancy"])
        return own | derived(rows, self._gpus.queues)

    def _fields(self, name: str, column: pa.Array, tag: bytes) -> list[Field]:
        if column.null_count == len(column):
            return []
        if name == "args":
            return [self._source_arguments(column, tag)]
        field = argument_field(name, column, self._arguments, tag)
        return [field] if field is not None else []

    def _source_arguments(self, column: pa.Array, tag: bytes) -> Field:
        def make(text: bytes, _: bool) -> bytes:
            bodies = self._arguments.object(text, lambda key: argument_name(key, STAGE_RESERVED))
            return b"".join(tag + varint(len(body)) + body for body in bodies)

        return coded(column, make)

    def _common(self, rows: StageRows, keyed: dict[str, pa.Array]) -> Field:
        """Returns the fields that many launches share: place, stage and interned kernel."""
        names, kinds = encoded(rows.columns.column("name")), encoded(rows.columns.column("kind"))
        codes, first = number_combinations([rows.track, _codes(names), _codes(kinds)], list(keyed.values()))
        fields = [
            field
            for name, column in keyed.items()
            for field in self._fields(name, column.take(pa.array(first)), _KERNEL_ARGS)
        ]
        data, ends = encoder("InternedComputeKernel", [Part(fields, np.arange(len(first)))], len(first))()
        tracks = rows.track[first].tolist()
        start, pieces = 0, []
        named = names.take(pa.array(first)).cast(pa.large_binary()).to_pylist()
        kinded = decoded(kinds.take(pa.array(first))).to_pylist()
        for name, kind, track, end in zip(named, kinded, tracks, ends.tolist(), strict=True):
            place, arguments = self._gpus.queues[track].place, bytes(data[start:end]) + self._queue_arguments(track)
            start = end
            pieces.append(place + self._stage(kind, name) + self._kernel(name, arguments))
        return CodedField(PieceTable(pieces, short=40), codes)

    def _stage(self, kind: str, name: bytes) -> bytes:
        known = self._stages.get((kind, name))
        if known is None:
            category, description = STAGES[kind]
            iid = self._gpus.next_specification()
            known = self._stages[kind, name] = int_field(f.GPU_RENDER_STAGE_EVENT["stage_iid"], iid)
            self._bytes += len(name)
            self._new.append(specification(iid, name.decode("utf-8", "replace"), description, category))
        return known

    def _kernel(self, name: bytes, arguments: bytes) -> bytes:
        """The field that refers to a kernel. Only its demangled name is written: the engine makes an argument of each
        name for each launch, and viewers show that one.
        """
        known = self._kernels.get((name, arguments))
        if known is None:
            iid = len(self._kernels) + 1
            known = self._kernels[name, arguments] = int_field(f.GPU_RENDER_STAGE_EVENT["kernel_iid"], iid)
            entry = (
                int_field(f.INTERNED_COMPUTE_KERNEL["iid"], iid)
                + bytes_field(f.INTERNED_COMPUTE_KERNEL["demangled_name"], name)
                + arguments
            )
            self._bytes += len(entry)
            self._new.append(bytes_field(f.INTERNED_DATA["compute_kernels"], entry))
        return known

    def _queue_arguments(self, track: int) -> bytes:
        """The fields of an interned kernel that name its process, device, stream, context and API."""
        known = self._queue_args.get(track)
        if known is None:
            queue = self._gpus.queues[track]
            values = {
                "process_id": queue.pid,
                "process_name": queue.process,
                "device": queue.track.device if queue.track.device is not None else queue.gpu.number,
                "stream": queue.track.stream,
                "context": queue.track.context,
                "api": None if queue.gpu.api_number else queue.gpu.api or None,  # else the context has it
            }
            bodies = [self._arguments.value(name, value) for name, value in values.items() if value is not None]
            known = b"".join(bytes_field(f.INTERNED_COMPUTE_KERNEL["args"], body) for body in bodies)
            if queue.gpu.arch:
                known += bytes_field(f.INTERNED_COMPUTE_KERNEL["arch"], queue.gpu.arch.encode())
            self._queue_args[track] = known
        return known


def _as_integers_if_whole(column: pa.Array) -> pa.Array:
    """Returns a column of the model's floats as integers, which are shorter, if all are whole."""
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()) if is_integral(values).all() else column


def _sizes(rows: StageRows) -> list[Field]:
    """Returns the messages grid_size and workgroup_size of a launch."""
    found: list[Field] = []
    for name, tag in _SIZES.items():
        axes = {axis: _axis(rows, name, axis) for axis in "xyz"}
        fields = [
            VarintField(_AXES[axis], whole(column), validity(column))
            for axis, column in axes.items()
            if column is not None
        ]
        if fields:
            found.append(MessageField(tag, b"", fields, any_of([field.valid for field in fields])))
    return found


def _axis(rows: StageRows, name: str, axis: str) -> pa.Array | None:
    column = f"{name}_{axis}"
    if column not in rows.columns.schema.names:
        return None
    values = rows.columns.column(column)
    return None if values.null_count == len(values) else values


def derived(rows: StageRows, queues: dict[int, Queue]) -> dict[str, pa.Array]:
    """Returns arguments that follow from columns and from facts about the device."""
    found: dict[str, pa.Array] = {}
    grid, block = (_product(rows, name) for name in ("grid", "block"))
    if grid is not None:
        found["grid_size"] = grid
    if block is not None:
        found["workgroup_size"] = block
        most = np.array(
            [_most_warps(queues.get(track)) for track in range(int(rows.track.max(initial=-1)) + 1)], np.int64
        )
        found["occupancy_limit_warps"] = _limit(block, most[rows.track], queues)
    if grid is not None and block is not None:
        found["thread_count"] = pc.multiply(grid, block)
    arguments = rows.arguments
    if "shared_dynamic" in arguments:
        found["shared_mem_dynamic"] = arguments["shared_dynamic"]
        if "shared_memory" in arguments:
            found["shared_mem_static"] = pc.subtract(arguments["shared_memory"], arguments["shared_dynamic"])
    if "occupancy" in arguments:
        found["occupancy_source"] = _where(arguments["occupancy"].is_valid(), "estimate")
    elif REACHABLE in rows.measured:
        found["occupancy_source"] = _where(rows.measured[REACHABLE].is_valid(), "metric")
        found[REACHABLE] = rows.measured[REACHABLE]
    found |= {name: column for name, column in rows.measured.items() if name != REACHABLE}
    for name, column in STAGE_COLUMNS.items():
        if column not in arguments and f"args.{name}" in arguments:
            found[name] = arguments[f"args.{name}"]
    found |= {name: arguments[metric] for metric, name in LAUNCH_METRICS.items() if metric in arguments}
    if "bytes" in arguments and not any("bandwidth" in name.lower() for name in arguments):
        positive = pa.array(np.where(rows.dur > 0, rows.dur, 0), mask=rows.dur <= 0)
        found["bandwidth"] = pc.divide(
            pc.multiply(arguments["bytes"].cast(pa.float64(), safe=False), 1e9), positive.cast(pa.float64(), safe=False)
        )
    return {name: column for name, column in found.items() if column.null_count < len(column)}


def _product(rows: StageRows, name: str) -> pa.Array | None:
    first = _axis(rows, name, "x")
    if first is None:
        return None
    for axis in "yz":
        column = _axis(rows, name, axis)
        if column is not None:
            first = pc.multiply(first, pc.fill_null(column, 1))
    return first


def _most_warps(queue: Queue | None) -> int:
    """The number of warps that fit on a multiprocessor of the queue's device; 0 if unknown."""
    if queue is None:
        return 0
    threads = queue.gpu.number_of("maxThreadsPerMultiprocessor", "max_threads_per_multiprocessor")
    size = queue.gpu.number_of("warpSize", "warp_size")
    return threads // size if threads and size else 0


def _limit(block: pa.Array, most: Int64, queues: dict[int, Queue]) -> pa.Array:
    """The number of blocks that fit on a multiprocessor by their warps alone."""
    size = next((queue.gpu.number_of("warpSize", "warp_size") for queue in queues.values()), None) or 32
    threads = pc.fill_null(block, 0).to_numpy(zero_copy_only=False)
    warps = -(-threads // size)
    known = (most > 0) & (warps > 0)
    return pa.array(np.where(known, most // np.maximum(warps, 1), 0), mask=~known)


def _where(valid: pa.Array, word: str) -> pa.Array:
    codes = pa.array(np.zeros(len(valid), np.int32), mask=~valid.to_numpy(zero_copy_only=False))
    return pa.DictionaryArray.from_arrays(codes, pa.array([word]))


def _codes(column: pa.DictionaryArray) -> Int64:
    codes: Int64 = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
