"""Tracks and the processes they belong to, with the names that a timeline shows: shared by all timeline writers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ktrace.model.batch import TRACK_COLUMNS
from ktrace.model.catalog import Catalog, Entry


class Process(NamedTuple):
    """What a timeline shows as a process: a process of the source, a run of its tables, or the source itself."""

    source: str
    host: str | None
    pid: int | None
    run: str | None


class Track(NamedTuple):
    """One row of a timeline: the track columns of the model, the run of a table that was laid out."""

    source: str
    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    track: str | None = None
    run: str | None = None

    @property
    def process(self) -> Process:
        """The process that the track belongs to."""
        return Process(self.source, self.host, self.pid, self.run)

    @property
    def is_on_device(self) -> bool:
        """Whether its rows are on a device: it has a device or a stream."""
        return self.device is not None or self.stream is not None


class Shown(msgspec.Struct, frozen=True):
    """Name and place of a process or track. `labels` are rank and host of a process, if there are several.

    `name` is unique among processes. `without_pid` is the name of a process for viewers that show its id as well, and
    `plain` its name without what tells it from others.
    """

    name: str
    order: int | None = None
    description: str | None = None
    labels: tuple[str, ...] = ()
    without_pid: str = ""
    plain: str = ""

    def led(self, name: str) -> str:
        """One of its names with what tells it from others first: "rank 3, on node1: python3" for
        "python3 (rank 3, on node1)".
        """
        rest = name.removeprefix(f"{self.plain} (")
        return f"{rest[:-1]}: {self.plain}" if self.plain and rest != name else name


class Node(msgspec.Struct, eq=False):
    """A process, thread, device, stream or text track as a timeline draws it, with the nodes below it.

    `kind` is process, thread, device, stream or track. `number` is the index in `Timeline.tracks` of the
    track whose rows are here, None if there is none. `key` has the track columns down to here. A node equals
    itself alone, so that it can be a key.
    """

    kind: str
    key: Process | Track
    shown: Shown
    number: int | None = None
    children: list[Node] = msgspec.field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Yields the node and all below it, in the order in which they are drawn."""
        yield self
        for child in self.children:
            yield from child.walk()


def arrange(tracks: Sequence[Track], catalog: Catalog, *, alone: bool = True) -> list[Node]:
    """The processes with their tracks nested below them, in the order in which a timeline draws them.

    Processes are sorted by host and rank if there are several, a host by its lowest rank; then by `order` in the
    catalog, then by first appearance. Devices and streams are sorted by number. A viewer shows a trace that isn't
    `alone` next to others:

        python3
          thread 4242
          GPU 0 · NVIDIA H100
            stream 7
    """
    processes: dict[Process, Node] = {}
    nodes: dict[tuple[Process, Track], Node] = {}
    for number, track in enumerate(tracks):
        process = track.process
        if process not in processes:
            processes[process] = Node("process", process, show_process(process, catalog))
        parent = processes[process]
        for kind, key in _steps(track):
            node = nodes.get((process, key))
            if node is None:
                node = nodes[process, key] = Node(kind, key, _show(kind, key, catalog))
                parent.children.append(node)
            parent = node
        parent.number = number
    for node in (*processes.values(), *nodes.values()):
        node.children = _numbered(sorted(node.children, key=_place))
    _leave_out_contexts(nodes.values())
    ranked = _by_rank(list(processes.values()), catalog, alone)
    return _made_unique(ranked)


def host_of(process: Process, catalog: Catalog) -> str | None:
    """The name of the host of a process: that of its column, else the host that its source names."""
    if process.host is not None:
        entry = catalog.get("host", source=process.source, host=process.host)
        return (entry.name if entry else None) or process.host
    return catalog.host(process.source)


def rank_of(process: Process, catalog: Catalog) -> int | None:
    """The rank of a process in its distributed job: its own, else that of its source."""
    entry = catalog.get("process", source=process.source, host=process.host, pid=process.pid)
    rank = entry.facts.get("rank") if entry else None
    return rank if type(rank) is int else catalog.rank(process.source)


def _by_rank(processes: list[Node], catalog: Catalog, alone: bool) -> list[Node]:
    """The sorted processes; if there are several hosts or ranks, these are labels of each and follow its name.

    In a trace that isn't alone they are always labels, and names don't repeat them.
    """
    keys = [node.key for node in processes if isinstance(node.key, Process)]
    hosts = [host_of(key, catalog) for key in keys]
    ranks = [rank_of(key, catalog) for key in keys]
    lowest: dict[str | None, int] = {}
    for host, rank in zip(hosts, ranks, strict=True):
        lowest[host] = min(lowest.get(host, NO_RANK), NO_RANK if rank is None else rank)
    several_hosts, several_ranks = (len({*values} - {None}) > 1 for values in (hosts, ranks))
    places = []
    for node, host, rank in zip(processes, hosts, ranks, strict=True):
        labels = [f"rank {rank}"] if (several_ranks or not alone) and rank is not None else []
        words = [*labels, *([f"on {host}"] if several_hosts and host is not None else [])]
        labels += [host] if (several_hosts or not alone) and host is not None else []
        name = f"{node.shown.name} ({', '.join(words)})" if alone and words else node.shown.name
        node.shown = replace(node.shown, name=name, labels=tuple(labels), plain=node.shown.name)
        by_host = (lowest[host], host is None, natural(host or "")) if several_hosts else ()
        by_rank = (NO_RANK if rank is None else rank,) if several_ranks else ()
        places.append((by_host, by_rank, _place(node)))
    order = sorted(range(len(processes)), key=places.__getitem__)
    return [processes[number] for number in order]


#: Sorts after all ranks.
NO_RANK = 1 << 62


def natural(text: str) -> list[tuple[int, str]]:
    """A sort key that puts node2 before node10, and L2 before L10; numbers may have any length."""
    return [_number_first(part) if part.isdigit() else (0, part) for part in re.split(r"([0-9]+)", text)]


def _number_first(digits: str) -> tuple[int, str]:
    """A sort key for numbers of any length."""
    digits = digits.lstrip("0")
    return len(digits), digits


def _place(node: Node) -> tuple[bool, int, bool]:
    """Sort key: nodes with an order in the catalog first, then streams; the sort keeps the order of all others."""
    order = node.shown.order
    return order is None, order or 0, node.kind != "stream"


def _numbered(nodes: list[Node]) -> list[Node]:
    """Sorts devices and streams without an order in the catalog by number, in the positions that they have."""
    nodes = list(nodes)
    for kind in ("device", "stream"):
        places = [place for place, node in enumerate(nodes) if node.kind == kind and node.shown.order is None]
        for place, node in zip(places, sorted((nodes[place] for place in places), key=_number_of), strict=True):
            nodes[place] = node
    return nodes


def _number_of(node: Node) -> tuple[int, int, int]:
    numbers = (getattr(node.key, column) for column in ("device", "context", "stream"))
    device, context, stream = (-1 if number is None else number for number in numbers)
    return device, context, stream


def _made_unique(processes: list[Node]) -> list[Node]:
    """Appends to equal names of processes what differs between them: "python3 (rank0, pid 4242)"."""
    alike: dict[str, list[Node]] = {}
    for node in processes:
        alike.setdefault(node.shown.name, []).append(node)
    for name, nodes in alike.items():
        columns = [column for column in _DISTINGUISHING if len({getattr(node.key, column) for node in nodes}) > 1]
        for node in nodes:
            values = {column: getattr(node.key, column) for column in columns}
            words = {
                column: _DISTINGUISHING[column].format(value)
                for column, value in values.items()
                if value not in (None, name)
            }
            full = _with_words(node.shown, list(words.values()))
            words.pop("pid", None)
            node.shown = replace(node.shown, name=full, without_pid=_with_words(node.shown, list(words.values())))
    return processes


def _with_words(shown: Shown, words: list[str]) -> str:
    """The name with words in brackets after it; the brackets may contain the labels already."""
    if not words:
        return shown.name
    head = f"{shown.name[:-1]}, " if shown.labels and shown.name.endswith(")") else f"{shown.name} ("
    return f"{head}{', '.join(words)})"


#: What distinguishes processes with the same name, and how it is written.
_DISTINGUISHING = {"source": "{}", "host": "on {}", "pid": "pid {}"}


def _steps(track: Track) -> Iterator[tuple[str, Track]]:
    """Yields the nodes from the process to a track, each with its track columns, outermost first."""
    key = Track(track.source, track.host, track.pid, run=track.run)
    steps = 0
    if track.tid is not None:
        steps, key = steps + 1, key._replace(tid=track.tid)
        yield "thread", key
    if track.device is not None:
        steps, key = steps + 1, key._replace(device=track.device)
        yield "device", key
    if track.stream is not None or track.context is not None:
        steps, key = steps + 1, key._replace(context=track.context, stream=track.stream)
        yield "stream", key
    if track.track is not None or not steps:
        yield "track", track


def _leave_out_contexts(nodes: Iterable[Node]) -> None:
    """Removes the context from the names of streams whose device has only one; named streams keep their name."""
    for device in nodes:
        streams = [
            (node, node.key) for node in device.children if node.kind == "stream" and isinstance(node.key, Track)
        ]
        if len({key.context for _, key in streams}) != 1:
            continue
        for node, key in streams:
            if key.stream is not None and node.shown.name == _name_by_number("stream", key):
                node.shown = replace(node.shown, name=f"stream {key.stream}")


def with_track(track: str, counter: str) -> str:
    """The name of a counter with that of its text track, which may contain it already."""
    return track if counter in track else f"{track} {counter}"


def show_process(process: Process, catalog: Catalog) -> Shown:
    """The name of a process: that in the catalog, else its run, else that of the source."""
    entry = catalog.get("process", source=process.source, host=process.host, pid=process.pid)
    source = catalog.get("source", source=process.source)
    run = process.run
    stated = entry.name if entry else None
    if stated and run and run != stated:
        name = f"{run} ({stated})"
    else:
        name = stated or run or (source.name if source and source.name else process.source)
    facts: dict[str, Any] = source.facts if source else {}
    return Shown(name, entry.order if entry else None, facts.get("description"))


def _show(kind: str, track: Track, catalog: Catalog) -> Shown:
    """The name of a track below its parent: that in the catalog, else one with its number."""
    entry = _entry("track", track, catalog) or (_entry(kind, track, catalog) if kind != "track" else None)
    name = entry.name if entry else None
    if kind == "device":
        word = device_word(entry.name if entry else None, entry.facts if entry else {})
        name = f"{word} {track.device}" + (f" · {model}" if (model := without_number(name, track.device, word)) else "")
    shown = name or _name_by_number(kind, track)
    return Shown(shown, entry.order, entry.facts.get("description")) if entry else Shown(shown)


#: Words for accelerators that aren't GPUs, as names of devices have them.
_ACCELERATOR = re.compile(r"(?<![A-Za-z])(NPU|TPU|XPU|HPU|IPU|MTIA)(?![A-Za-z])")


def device_word(name: str | None, facts: Mapping[str, Any]) -> str:
    """Returns what the source calls such a device, in its facts or its name: NPU, TPU, ...; else GPU."""
    kind = facts.get("kind")
    if isinstance(kind, str) and kind.isalnum():
        return kind
    match = _ACCELERATOR.search(name or "")
    return match[1] if match else "GPU"


def without_number(name: str | None, number: int | None, word: str = "GPU") -> str | None:
    """The name of a device without its number at the end; None if nothing but the `word` for the device is left."""
    before = name.removesuffix(str(number)) if name and number is not None else None
    kept = before.rstrip(" :#") if before and before[-1] in " :#" else name
    return None if kept is None or kept.casefold().removeprefix("/device:") == word.casefold() else kept


def _name_by_number(kind: str, track: Track) -> str:
    if kind == "thread" and track.tid is not None and track.tid < 0:
        # Unsigned in the source's program: an address, or 32 bits of one
        bits = 32 if track.tid >= -(1 << 31) else 64
        return "unknown thread" if track.tid == -1 else f"thread {track.tid % (1 << bits):#x}"
    if kind == "thread":
        return f"thread {track.tid}"
    if kind == "stream":
        numbers = {"stream": track.stream, "context": track.context}
        return " ".join(f"{word} {number}" for word, number in numbers.items() if number is not None)
    return track.track or "events"


#: Entity of the catalog -> the track columns that are its key, and the columns that facts may leave out.
_ENTITY_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "track": (TRACK_COLUMNS, ()),
    "thread": (("source", "host", "pid", "tid"), ("host",)),
    "device": (("source", "host", "pid", "device"), ("pid", "host")),
    "stream": (("source", "host", "pid", "device", "context", "stream"), ("pid", "context", "host")),
}


def _entry(entity: str, track: Track, catalog: Catalog) -> Entry | None:
    columns, optional = _ENTITY_KEYS[entity]
    key = {column: getattr(track, column) for column in columns}
    for left_out in ("", *optional):
        key.pop(left_out, None)
        if entry := catalog.get(entity, **key):
            return entry
    return None


def give_ids(numbers: Sequence[int | None], highest: int, kept: Set[int | None] = frozenset()) -> list[int]:
    """Unique ids: the wanted number if it is free and from 1 to `highest`, else the lowest not wanted and not kept."""
    claimed = {*numbers, *kept}
    free = (number for number in count(1) if number not in claimed)
    given: dict[int, None] = {}
    for number in numbers:
        legal = number is not None and 1 <= number <= highest and number not in given
        given[number if legal and number is not None else next(free)] = None
    return list(given)
