"""The places of render stages: GPUs, contexts and hardware queues.

GPU 0 "NVIDIA H100 #0"          GpuInfo; a device of a source, or of several that name the same uuid
  context 1 of process 4242     InternedGraphicsContext, which names the process and the API
    queue "stream 7"            InternedGpuRenderStageSpecification, one for each track
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import msgspec

from ktrace.model.catalog import Catalog, Entry
from ktrace.model.tracks import Process, Track, device_word, host_of, rank_of, without_number

from .. import field_numbers as f
from ..wire import bytes_field, int_field, text_field

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
        """Returns its name with a number."""
        return f"{without_number(self.name, number, self.word) or self.word} #{number}"

    @property
    def api(self) -> str:
        """The word for its API; empty if nothing names it."""
        known = self.facts.get("api")
        if isinstance(known, str):
            return known
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


@dataclass(frozen=True)
class Queue:
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
        return (
            int_field(f.GPU_RENDER_STAGE_EVENT["gpu_id"], self.gpu.number)
            + int_field(f.GPU_RENDER_STAGE_EVENT["hw_queue_iid"], self.iid)
            + int_field(f.GPU_RENDER_STAGE_EVENT["context"], self.context)
        )


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
        mine: Sequence[bool] | None = None,
        numbers: IdCounters | None = None,
    ) -> None:
        """`mine` tells which tracks are of this machine, by default all. All machines share `numbers`."""
        self.fresh: list[bytes] = []
        self.queues: dict[int, Queue] = {}
        self._tracks = tracks
        self._contexts: dict[tuple[int, int, int | None], int] = {}
        self._numbers = numbers or IdCounters()
        self._entries: list[bytes] = []
        self._of: dict[int, Gpu] = {}
        known: dict[tuple[Any, ...], Gpu] = {}
        for number, track in enumerate(tracks):
            if not track.is_on_device or (mine is not None and not mine[number]):
                continue
            entry = _device(track, catalog)
            facts = entry.facts if entry else {}
            source = catalog.get("source", source=track.source)
            if source and isinstance(source.facts.get("api"), str):
                facts = {"api": source.facts["api"]} | facts
            uuid = facts.get("uuid")
            host = host_of(track.process, catalog)
            key = ("uuid", host, str(uuid)) if uuid else (track.source, track.host, track.device)
            if key not in known:
                known[key] = Gpu(len(known), entry.name if entry else None, track.device, facts)
            known[key].processes[track.process] = None
            self._of[number] = known[key]
        self.gpus = list(known.values())

    def of(self, number: int) -> Gpu | None:
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
            body = (
                int_field(f.INTERNED_GRAPHICS_CONTEXT["iid"], context)
                + int_field(f.INTERNED_GRAPHICS_CONTEXT["pid"], pid)
                + int_field(f.INTERNED_GRAPHICS_CONTEXT["api"], gpu.api_number)
            )
            self._new(bytes_field(f.INTERNED_DATA["graphics_contexts"], body))
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
        """The packet's field that names the GPUs; empty if there are none."""
        gpus = b"".join(bytes_field(f.GPU_INFO["gpus"], _gpu(gpu)) for gpu in self.gpus)
        return bytes_field(f.TRACE_PACKET["gpu_info"], gpus) if gpus else b""


def label_gpus(gpus: Sequence[Gpu], catalog: Catalog) -> None:
    """Gives each GPU of the trace a unique label: its rank if there are several, else, if needed, its host or source,
    and its name and number.

    "rank 3: NVIDIA H100 #0", "on node1: NVIDIA H100 #0"
    """
    numbers = [gpu.number if gpu.ordinal is None else gpu.ordinal for gpu in gpus]
    plain = [gpu.numbered(number) for gpu, number in zip(gpus, numbers, strict=True)]
    ranks = _distinguishing(gpus, "rank", catalog)
    shown = ranks if len({*ranks}) > 1 else [""] * len(gpus)
    for words in (shown, ranks, *(_distinguishing(gpus, way, catalog) for way in ("on", ""))):
        labels = [f"{word}: {name}" if word else name for name, word in zip(plain, words, strict=True)]
        if len({*labels}) == len(labels):
            break
    else:
        labels = [f"{gpu.name or gpu.word} #{number}" for number, gpu in enumerate(gpus)]
    for gpu, label in zip(gpus, labels, strict=True):
        gpu.label = label


def _distinguishing(gpus: Sequence[Gpu], way: str, catalog: Catalog) -> list[str]:
    """Returns the ranks, hosts or sources of each GPU, in words."""
    found = []
    for gpu in gpus:
        if way == "rank":
            ranks = sorted({rank for process in gpu.processes if (rank := rank_of(process, catalog)) is not None})
            found.append(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else "")
        else:
            names = [host_of(process, catalog) if way else process.source for process in gpu.processes]
            words = ", ".join(dict.fromkeys(name for name in names if name))
            found.append(f"{way} {words}".strip() if words else "")
    return found


def specification(iid: int, name: str, description: str, category: int) -> bytes:
    """The entry of InternedData for a queue or a stage."""
    body = int_field(f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION["iid"], iid)
    body += text_field(f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION["name"], name)
    if description:
        body += text_field(f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION["description"], description)
    if category:
        body += int_field(f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION["category"], category)
    return bytes_field(f.INTERNED_DATA["gpu_specifications"], body)


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
    fields = {
        f.GPU["name"]: gpu.label,
        f.GPU["vendor"]: gpu.facts.get("vendor"),
        f.GPU["model"]: gpu.name,
        f.GPU["architecture"]: gpu.arch,
        f.GPU["pci_bdf"]: gpu.facts.get("bus_id"),
    }
    return b"".join(text_field(number, str(text)) for number, text in fields.items() if text is not None)


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
