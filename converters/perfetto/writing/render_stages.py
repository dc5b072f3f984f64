"""Kernels, copies, sets and the ranges around them as GpuRenderStageEvents, with the fields that UIs from v55 on show.

The common part of launches (name, place, registers, ...) is interned as a kernel, once per combination; a launch
repeats only what varies: arguments with few combinations of values are interned with the kernel. The stage of a kernel
has its name, since older engines show only the stage. The places of stages are GPUs, contexts and hardware queues:

    GPU 0 "GPU 0 · NVIDIA H100"     GpuInfo; a device of a source, or of several that name the same uuid
      context 1 of process 4242     InternedGraphicsContext, which names the process and the API
        queue "stream 7"            InternedGpuRenderStageSpecification, one for each track
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.model.arrays import Int32, Int64
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import present
from ktrace.model.tracks import NO_RANK, Process, Track, device_word, host_of, rank_of, without_number

from .. import field_numbers as f
from ..sidecar import LAUNCH_METRICS, STAGE_COLUMNS, STAGE_RESERVED, argument_name
from ..wire import bytes_tag, int_tag, message
from .arguments import StageArguments, any_of, argument_field, fresh, is_integral, object_field, validity, whole
from .fields import CodedField, Field, MessageField, Part, PieceTable, TextField, VarintField, encoder
from .kernel_counters import REACHABLE

#: Arguments that differ in every launch.
_VARYING = frozenset({"id", "parent", "correlation", "external_id"})

#: Arguments that tell where a stage on a lane of graphs was: they are interned, as they are of all others.
OF_LANE = ("context", "stream")

#: An argument is judged by this many rows.
_SAMPLE = 4096

#: A combination must occur in this many rows of the sample, on average.
_SHARE = 8

_NULL = np.int64(-0x61C8864680B583EB)
_FACTOR = np.int64(0x2545F4914F6CDD1D)


class InternedArguments:
    """Remembers the choice; an argument is judged when it occurs first."""

    def __init__(self) -> None:
        self._judged: dict[str, bool] = dict.fromkeys(_VARYING, False) | dict.fromkeys(OF_LANE, True)

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
    most = np.maximum.accumulate(codes) if len(codes) else codes
    first = np.flatnonzero(np.diff(most, prepend=np.int32(-1)))  # numbers are in the order of their first rows
    if any((value != value[first[codes]]).any() for value in values):  # two combinations have the same hash
        codes = np.unique(np.stack(values), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int32)
        first = np.unique(codes, return_index=True)[1]
    return codes, first


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
    result: Int64 = values
    return result


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
_AXES = {"x": int_tag(f.DIM3["x"]), "y": int_tag(f.DIM3["y"]), "z": int_tag(f.DIM3["z"])}
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
        on_lanes = not columns.keys().isdisjoint(OF_LANE)  # then the kernels of a stream are on any lane
        keyed = self._keys.choose(columns, np.zeros_like(rows.track) if on_lanes else rows.track)
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
        arguments = {_RENAMED.get(name, name): column for name, column in rows.arguments.items()}
        if "occupancy" in rows.arguments:
            column = rows.arguments["occupancy"]
            if is_integral(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)).all():
                arguments[_RENAMED["occupancy"]] = column.cast(pa.int64())  # which is shorter
        return arguments | derived(rows, self._gpus.queues)

    def _fields(self, name: str, column: pa.Array, tag: bytes) -> list[Field]:
        if column.null_count == len(column):
            return []
        if name == "args":
            return [object_field(column, self._arguments, lambda key: argument_name(key, STAGE_RESERVED), tag)]
        field = argument_field(name, column, self._arguments, tag)
        return [field] if field is not None else []

    def _common(self, rows: StageRows, keyed: dict[str, pa.Array]) -> Field:
        """Returns the fields that many launches share: place, stage and interned kernel."""
        names, kinds = encoded(rows.columns.column("name")), encoded(rows.columns.column("kind"))
        codes, first = number_combinations([rows.track, _codes(names), _codes(kinds)], list(keyed.values()))
        fields = [
            field
            for name, column in keyed.items()
            for field in self._fields(name, column.take(pa.array(first)), _KERNEL_ARGS)
        ]
        data, ends = encoder([Part(fields, np.arange(len(first)))], len(first))()
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
        stage = self._stages.get((kind, name))
        if stage is None:
            category, description = STAGES[kind]
            iid = self._gpus.next_specification()
            stage = self._stages[kind, name] = message(f.GPU_RENDER_STAGE_EVENT, stage_iid=iid)
            self._bytes += len(name)
            self._new.append(specification(iid, name.decode("utf-8", "replace"), description, category))
        return stage

    def _kernel(self, name: bytes, arguments: bytes) -> bytes:
        """The field that refers to a kernel. Only its demangled name is written: the engine makes an argument of each
        name for each launch, and viewers show that one.
        """
        encoded = self._kernels.get((name, arguments))
        if encoded is None:
            iid = len(self._kernels) + 1
            encoded = self._kernels[name, arguments] = message(f.GPU_RENDER_STAGE_EVENT, kernel_iid=iid)
            entry = message(f.INTERNED_COMPUTE_KERNEL, iid=iid, demangled_name=name) + arguments
            self._bytes += len(entry)
            self._new.append(message(f.INTERNED_DATA, compute_kernels=entry))
        return encoded

    def _queue_arguments(self, track: int) -> bytes:
        """The fields of an interned kernel that name its process, device, stream, context and API."""
        encoded = self._queue_args.get(track)
        if encoded is None:
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
            encoded = message(f.INTERNED_COMPUTE_KERNEL, args=bodies, arch=queue.gpu.arch or None)
            self._queue_args[track] = encoded
        return encoded


def _sizes(rows: StageRows) -> list[Field]:
    """Returns the messages grid_size and workgroup_size of a launch."""
    sizes: list[Field] = []
    for name, tag in _SIZES.items():
        axes = {axis: _axis(rows, name, axis) for axis in "xyz"}
        fields = [
            VarintField(_AXES[axis], whole(column), validity(column))
            for axis, column in axes.items()
            if column is not None
        ]
        if fields:
            sizes.append(MessageField(tag, b"", fields, any_of([field.valid for field in fields])))
    return sizes


def _axis(rows: StageRows, name: str, axis: str) -> pa.Array | None:
    column = f"{name}_{axis}"
    if column not in rows.columns.schema.names:
        return None
    values = rows.columns.column(column)
    return None if values.null_count == len(values) else values


def derived(rows: StageRows, queues: dict[int, Queue]) -> dict[str, pa.Array]:
    """Returns arguments that follow from columns and from facts about the device."""
    columns: dict[str, pa.Array] = {}
    grid, block = (_product(rows, name) for name in ("grid", "block"))
    if grid is not None:
        columns["grid_size"] = grid
    if block is not None:
        columns["workgroup_size"] = block
        most = np.array(
            [_most_warps(queues.get(track)) for track in range(int(rows.track.max(initial=-1)) + 1)], np.int64
        )
        columns["occupancy_limit_warps"] = _limit(block, most[rows.track], queues)
    if grid is not None and block is not None:
        columns["thread_count"] = pc.multiply(grid, block)
    arguments = rows.arguments
    if "shared_dynamic" in arguments:
        columns["shared_mem_dynamic"] = arguments["shared_dynamic"]
        if "shared_memory" in arguments:
            columns["shared_mem_static"] = pc.subtract(arguments["shared_memory"], arguments["shared_dynamic"])
    if "occupancy" in arguments:
        columns["occupancy_source"] = _where(arguments["occupancy"].is_valid(), "estimate")
    elif REACHABLE in rows.measured:
        columns["occupancy_source"] = _where(rows.measured[REACHABLE].is_valid(), "metric")
        columns[REACHABLE] = rows.measured[REACHABLE]
    columns |= {name: column for name, column in rows.measured.items() if name != REACHABLE}
    for name, column in STAGE_COLUMNS.items():
        if column not in arguments and f"args.{name}" in arguments:
            columns[name] = arguments[f"args.{name}"]
    columns |= {name: arguments[metric] for metric, name in LAUNCH_METRICS.items() if metric in arguments}
    if "bytes" in arguments and not any("bandwidth" in name.lower() for name in arguments):
        positive = pa.array(np.where(rows.dur > 0, rows.dur, 0), mask=rows.dur <= 0)
        columns["bandwidth"] = pc.divide(
            pc.multiply(arguments["bytes"].cast(pa.float64(), safe=False), 1e9), positive.cast(pa.float64(), safe=False)
        )
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


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
    is_limited = (most > 0) & (warps > 0)
    return pa.array(np.where(is_limited, most // np.maximum(warps, 1), 0), mask=~is_limited)


def _where(valid: pa.Array, word: str) -> pa.Array:
    codes = pa.array(np.zeros(len(valid), np.int32), mask=~valid.to_numpy(zero_copy_only=False))
    return pa.DictionaryArray.from_arrays(codes, pa.array([word]))


def _codes(column: pa.DictionaryArray) -> Int64:
    result: Int64 = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


#: Word of the fact `api` -> its number, if Perfetto has one.
_APIS = {
    "cuda": f.API["CUDA"],
    "hip": f.API["HIP"],
    "opencl": f.API["OPEN_CL"],
    "vulkan": f.API["VULKAN"],
    "opengl": f.API["OPEN_GL"],
}

#: Words in the name or maker of a device that imply the API, if no fact names it.
_MAKERS = ((("nvidia", "tesla", "geforce"), "cuda"), (("amd", "radeon", "instinct"), "hip"), (("apple",), "metal"))


class Gpu(msgspec.Struct):
    """A physical device.

    A viewer shows it as a process: `uuid` is that of its track, `tids` are taken by threads of its own.
    """

    number: int
    name: str | None
    ordinal: int | None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    processes: dict[Process, None] = msgspec.field(default_factory=dict)
    label: str = ""
    pid: int = 0
    uuid: int = 0
    tids: list[int] = msgspec.field(default_factory=list)
    is_parent: bool = False  # tracks are below its process

    @property
    def word(self) -> str:
        """What such a device is called: GPU, NPU, TPU."""
        return device_word(self.name, self.facts)

    def numbered(self, number: int) -> str:
        """Returns its number, and its model if that is known: "GPU 0 · NVIDIA H100"."""
        model = without_number(self.name, number, self.word)
        return f"{self.word} {number}" + (f" · {model}" if model else "")

    @property
    def process_name(self) -> str:
        """Its name as that of a process, which viewers show with the process id after it: "NVIDIA H100 · GPU" and 0."""
        numbered = f"{self.word} {self.pid}"
        before, mark, after = self.label.rpartition(numbered)
        if self.pid != self.ordinal or not mark or after[:1].isdigit():
            return f"{self.label} · id"
        model = after.removeprefix(" · ")
        return f"{before}{model} · {self.word}" if model else f"{before}{self.word}"

    @property
    def api(self) -> str:
        """The word for its API; empty if nothing names it."""
        of_device = self.facts.get("api")
        if isinstance(of_device, str):
            return of_device
        words = f"{self.name} {self.facts.get('vendor')}".lower()
        return next((api for makers, api in _MAKERS if any(maker in words for maker in makers)), "")

    @property
    def api_number(self) -> int:
        """Perfetto's number of its API; that of UNDEFINED if Perfetto has none, such as for Metal."""
        return _APIS.get(self.api, f.API["UNDEFINED"])

    @property
    def arch(self) -> str | None:
        """The architecture that its kernels are compiled for, as its compilers call it."""
        for key in ("arch", "gcnArchName"):
            if isinstance(self.facts.get(key), str):
                return str(self.facts[key])
        capability = self.facts.get("compute_capability")
        return f"sm_{str(capability).replace('.', '')}" if capability and self.api == "cuda" else None

    def number_of(self, *keys: str) -> int | None:
        """The first of those facts that is a whole number above 0."""
        return next((self.facts[key] for key in keys if type(self.facts.get(key)) is int and self.facts[key] > 0), None)


class Queue(msgspec.Struct, frozen=True, dict=True):
    """The place of the stages of a track. `pid` and `process` are those of the output.

    `is_shared` means that the queue was made for another track.
    """

    track: Track
    iid: int
    gpu: Gpu
    context: int
    pid: int
    process: str
    is_shared: bool = False

    @cached_property
    def place(self) -> bytes:
        """The fields of a GpuRenderStageEvent that name its GPU, queue and context."""
        return message(f.GPU_RENDER_STAGE_EVENT, gpu_id=self.gpu.number, hw_queue_iid=self.iid, context=self.context)


class IdCounters(msgspec.Struct, frozen=True):
    """Counters of ids that are unique in the trace, across machines."""

    contexts: Iterator[int] = msgspec.field(default_factory=lambda: count(1))
    specifications: Iterator[int] = msgspec.field(default_factory=lambda: count(1))


class Gpus:
    """The devices of all tracks, and the queues that are in use. New ones gather in `fresh`."""

    def __init__(
        self,
        tracks: Sequence[Track],
        catalog: Catalog,
        on_machine: Sequence[bool] | None = None,
        numbers: IdCounters | None = None,
    ) -> None:
        """`on_machine` tells which tracks are of this machine, by default all. All machines share `numbers`."""
        self.fresh: list[bytes] = []
        self.queues: dict[int, Queue] = {}
        self._tracks = tracks
        self._contexts: dict[tuple[int, int, int | None], int] = {}
        self._numbers = numbers or IdCounters()
        self._entries: list[bytes] = []
        self._of: dict[int, Gpu] = {}
        by_key: dict[tuple[Any, ...], Gpu] = {}
        for number, track in enumerate(tracks):
            if not track.is_on_device or (on_machine is not None and not on_machine[number]):
                continue
            entry = _device(track, catalog)
            facts = entry.facts if entry else {}
            source = catalog.get("source", source=track.source)
            if source and isinstance(source.facts.get("api"), str):
                facts = {"api": source.facts["api"]} | facts
            uuid = facts.get("uuid")
            host = host_of(track.process, catalog)
            key = ("uuid", host, str(uuid)) if uuid else (track.source, track.host, track.device)
            if key not in by_key:
                by_key[key] = Gpu(len(by_key), entry.name if entry else None, track.device, facts)
            by_key[key].processes[track.process] = None
            self._of[number] = by_key[key]
        sources = list(dict.fromkeys(track.source for track in tracks))
        self.gpus = sorted(by_key.values(), key=lambda gpu: _place(gpu, catalog, sources))
        for number, gpu in enumerate(self.gpus):
            gpu.number = number

    def get(self, number: int) -> Gpu | None:
        """Returns the device of the track with that index; None if it isn't one of this machine."""
        return self._of.get(number)

    def next_specification(self) -> int:
        """Returns an id for a queue or a stage."""
        return next(self._numbers.specifications)

    def entries(self) -> bytes:
        """Returns all contexts and queues so far, for a sequence that starts anew."""
        return b"".join(self._entries)

    def queue(self, number: int, pid: int, process: str, name: str) -> Queue:
        """Makes the queue of the track with that index, in a process of the output."""
        track, gpu = self._tracks[number], self._of[number]
        context = self._contexts.get((pid, gpu.number, track.context))
        if context is None:
            context = self._contexts[pid, gpu.number, track.context] = next(self._numbers.contexts)
            body = message(f.INTERNED_GRAPHICS_CONTEXT, iid=context, pid=pid, api=gpu.api_number)
            self._new(message(f.INTERNED_DATA, graphics_contexts=body))
        iid = self.next_specification()
        self._new(specification(iid, name, "", f.RENDER_STAGE_CATEGORY["OTHER"]))
        made = self.queues[number] = Queue(track, iid, gpu, context, pid, process)
        return made

    def share(self, number: int, other: int) -> None:
        """Puts the track with that index on the queue of the `other` one."""
        self.queues[number] = replace(self.queues[other], track=self._tracks[number], is_shared=True)

    def _new(self, entry: bytes) -> None:
        self.fresh.append(entry)
        self._entries.append(entry)

    def info(self) -> bytes:
        """The GpuInfo that names the GPUs; empty if there are none."""
        return message(f.GPU_INFO, gpus=[_gpu(gpu) for gpu in self.gpus])


def label_gpus(gpus: Sequence[Gpu], catalog: Catalog) -> None:
    """Gives each GPU of the trace a unique label: its rank if there are several, else, if needed, its host or source,
    and its name and number.

    "rank 3: GPU 0 · NVIDIA H100", "on node1: GPU 0 · NVIDIA H100"
    """
    plain = [gpu.numbered(gpu.number if gpu.ordinal is None else gpu.ordinal) for gpu in gpus]
    ranks = _distinguishing(gpus, "rank", catalog)
    shown = ranks if len({*ranks}) > 1 else [""] * len(gpus)
    for words in (shown, ranks, *(_distinguishing(gpus, way, catalog) for way in ("on", ""))):
        labels = [f"{word}: {name}" if word else name for name, word in zip(plain, words, strict=True)]
        if len({*labels}) == len(labels):
            break
    else:
        labels = [f"{name} · no. {number}" for number, name in enumerate(plain, 1)]
    for gpu, label in zip(gpus, labels, strict=True):
        gpu.label = label


def _place(gpu: Gpu, catalog: Catalog, sources: Sequence[str]) -> tuple[int, int, int]:
    """Sort key of the devices of a machine: by rank, then by source in the order of these, then by number."""
    ranks = [rank for process in gpu.processes if (rank := rank_of(process, catalog)) is not None]
    source = min(sources.index(process.source) for process in gpu.processes)
    return min(ranks, default=NO_RANK), source, NO_RANK if gpu.ordinal is None else gpu.ordinal


def _distinguishing(gpus: Sequence[Gpu], way: str, catalog: Catalog) -> list[str]:
    """Returns the ranks, hosts or sources of each GPU, in words."""
    parts = []
    for gpu in gpus:
        if way == "rank":
            ranks = sorted({rank for process in gpu.processes if (rank := rank_of(process, catalog)) is not None})
            parts.append(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else "")
        else:
            names = [host_of(process, catalog) if way else process.source for process in gpu.processes]
            words = ", ".join(dict.fromkeys(name for name in names if name))
            parts.append(f"{way} {words}".strip() if words else "")
    return parts


def specification(iid: int, name: str, description: str, category: int) -> bytes:
    """The entry of InternedData for a queue or a stage."""
    body = message(
        f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION,
        iid=iid,
        name=name,
        description=description or None,
        category=category or None,
    )
    return message(f.INTERNED_DATA, gpu_specifications=body)


def _device(track: Track, catalog: Catalog) -> Entry | None:
    """Returns the catalog's entry of the track's device; facts may leave out process and host."""
    if track.device is None:
        return None
    key: dict[str, Any] = {"source": track.source, "device": track.device}
    for more in ({"host": track.host, "pid": track.pid}, {"host": track.host}, {"pid": track.pid}, {}):
        if entry := catalog.get("device", **key, **more):
            return entry
    return None


def _gpu(gpu: Gpu) -> bytes:
    vendor, bus = (None if fact is None else str(fact) for fact in map(gpu.facts.get, ("vendor", "bus_id")))
    return message(f.GPU, name=gpu.label, vendor=vendor, model=gpu.name, architecture=gpu.arch, pci_bdf=bus)


def with_processes(tracks: Sequence[Track]) -> list[Track]:
    """Returns the tracks as they are shown: tracks without a process get the only one of their source and host that has
    threads: it launched the work of devices, and what a profiler says of itself is about it.

    If there are several, or the process already has such a track, the track stays as it is and gets a process of its
    own. So do runs of tables.
    """
    threads: dict[tuple[str, str | None], set[int]] = {}
    for track in tracks:
        if track.pid is not None and track.tid is not None:
            threads.setdefault((track.source, track.host), set()).add(track.pid)
    taken, shown = set(tracks), []
    for track in tracks:
        pids = threads.get((track.source, track.host), set())
        if track.pid is None and len(pids) == 1 and not track.run:
            moved = track._replace(pid=next(iter(pids)))
            if moved not in taken:
                taken.add(moved)
                shown.append(moved)
                continue
        shown.append(track)
    return shown
