"""The descriptors of processes, threads, devices, streams, text tracks and counters, each written before its first use.

root                      uuid 0: processes and threads are in our order
  python3                 ProcessDescriptor; the viewer adds the process id to its name
    pt_main_thread        ThreadDescriptor; the viewer adds the thread id to its name
    queue                 a track; slices that overlap without nesting are on a second one, which is drawn below it
  NVIDIA H100 · GPU 0     the process of a device (`derived_tracks.py`): the viewer adds the process id, its number
    context 1             a track
    power                 CounterDescriptor

A viewer shows nothing of a closed process but its threads, and no track above them. So text tracks are threads if their
process has no others, and so is what ktrace explains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import count

from ktrace.model.catalog import Catalog
from ktrace.model.tracks import Node, Process, Track, arrange, give_ids, with_track

from .. import field_numbers as f
from ..wire import message
from .render_stages import Gpu, Gpus

#: Tracks of events have lower uuids than devices.
_DEVICES = 1 << 62

#: Ranks between two siblings, for the counters that follow a track.
_RANKS = 1024

#: The rank of the last child.
_LAST = 2**31 - 1

#: What ktrace explains, by the text keys of its tracks.
_EXPLAINED = ("critical path", "idle", "phase")

#: Up to this many counters are among the other tracks; more get a group.
_LOOSE_COUNTERS = 4

_UNITS = {
    "ns": f.COUNTER_UNIT["UNIT_TIME_NS"],
    "B": f.COUNTER_UNIT["UNIT_SIZE_BYTES"],
    "count": f.COUNTER_UNIT["UNIT_COUNT"],
}


class Descriptors:
    """Gives tracks their uuids. The packets of new ones gather in `fresh`, parents first."""

    def __init__(
        self, tracks: Sequence[Track], catalog: Catalog, note: str, machine_of: Sequence[int] = (), alone: bool = True
    ) -> None:
        """`note` is the description of a process without one, and the last line of any other description.

        `machine_of` has the machine of each track; process ids are unique per machine. `alone` means that the viewer
        shows no other traces next to this one.
        """
        self.fresh: list[bytes] = []
        self._uuids = count(1)
        self.note = note
        self._parents: dict[Node, Node] = {}
        self._known: dict[Node, int] = {}  # uuids
        self._ranks: dict[Node, int] = {}
        self._lanes: dict[tuple[int, int], int] = {}
        self._counters: dict[tuple[int, str, str | None], int] = {}
        #: Uuids that the sidecar has yet to explain: the index of the track, and name and unit of a counter.
        self.new_lanes: list[tuple[int, int, dict[str, str]]] = []
        self.new_counters: list[tuple[int, int, dict[str, str]]] = []
        self._grouped: dict[Node, bool] = {}  # process or device -> whether its counters have a group
        self._counter_groups: dict[Node, int] = {}
        self._processes = arrange(tracks, catalog, alone=alone)
        self._pids = _pids(self._processes, machine_of, {track.device for track in tracks})
        self._gpus: dict[Node, Gpu] = {}  # device below a process -> the GPU whose process has its tracks
        self._tids: dict[Node, int] = {}  # what is drawn as a thread -> its thread id
        self._threads: dict[Node, str] = {}  # what only a viewer calls a thread -> its name without the id
        self._names: dict[Node, str] = {}  # what is below a process and no thread -> its name
        for process in self._processes:
            self._tids |= _tids(process)
            self._add_threads(process, self._pids[process])
            others = [node for node in process.children if node not in self._tids]
            names = in_order_of_names([node.shown.name for node in others])
            self._names.update(zip(others, names, strict=True))
        drawn = [node for process in self._processes for node in process.walk()]
        self._nodes = {node.number: node for node in drawn if node.number is not None}
        self._parents.update((child, node) for node in drawn for child in node.children)
        self._queue_nodes = dict(pair for node in drawn for pair in _shared_queues(node))
        for siblings in (self._processes, *(node.children for node in drawn)):
            self._ranks.update((node, rank * _RANKS) for rank, node in enumerate(siblings))
        self._queues = self._queue_names(drawn)
        #: How many digits the longest number of a rank, a device or a stream has.
        self.digits = max(map(len, re.findall("[0-9]+", " ".join(_names(self._processes)))), default=1)

    def _add_threads(self, process: Node, pid: int) -> None:
        """Makes threads of text tracks below a process: all if it has no others, else what ktrace explains."""
        taken = [self._tids[node] for node in process.children if node in self._tids]
        texts = [node for node in process.children if node.kind == "track"]
        texts = [node for node in texts if not taken or node.shown.name in _EXPLAINED]
        for node, (tid, name) in zip(texts, with_tids(pid, taken, [n.shown.name for n in texts]), strict=True):
            self._tids[node], self._threads[node] = tid, name

    def add_devices(self, gpus: Gpus, machine: int) -> None:
        """Puts the tracks of the devices of a machine below processes of their own, which get their ids here."""
        pids = _in_turn(set(self._pids.values()), [gpu.ordinal for gpu in gpus.gpus])
        for gpu, pid in zip(gpus.gpus, pids, strict=True):
            gpu.pid, gpu.uuid = pid, _DEVICES + (machine << 48) + (gpu.number << 24)
        tracks: dict[int, list[Node]] = {}
        for device in (node for process in self._processes for node in process.children if node.kind == "device"):
            numbers = [node.number for node in device.walk() if node.number is not None]
            if numbers and (first_gpu := gpus.get(numbers[0])):
                self._gpus[device] = first_gpu
                tracks.setdefault(first_gpu.number, []).extend(
                    ([device] if device.number is not None else []) + device.children
                )
        for gpu in gpus.gpus:
            self._name_tracks(gpu, tracks.get(gpu.number, []))

    def _name_tracks(self, gpu: Gpu, nodes: list[Node]) -> None:
        """Names the tracks below the process of a device, after their own process if there are several of these."""
        owners = [self._process_of(node) for node in nodes]
        names = ["events" if node.kind == "device" else node.shown.name for node in nodes]
        if len({*owners}) > 1:
            names = [f"{distinguishing(owner)} {name}" for owner, name in zip(owners, names, strict=True)]
        explained = [number for number, node in enumerate(nodes) if node.shown.name in _EXPLAINED]
        streams = [node.key.stream for node in nodes if isinstance(node.key, Track)]
        threads = with_tids(gpu.pid, [one for one in streams if one is not None], [names[one] for one in explained])
        for one, (tid, name) in zip(explained, threads, strict=True):
            self._tids[nodes[one]], self._threads[nodes[one]] = tid, name
            gpu.tids.append(tid)
        others = [number for number in range(len(nodes)) if number not in {*explained}]
        for one, name in zip(others, in_order_of_names([names[one] for one in others]), strict=True):
            self._names[nodes[one]] = name

    def _queue_names(self, drawn: Sequence[Node]) -> dict[int, str]:
        """Returns index of a track -> name of its hardware queue.

        The name begins with the process if other processes have a queue of that name.
        """
        queues = [node for node in drawn if isinstance(node.key, Track) and node.key.is_on_device]
        names = [self._below_process(node) for node in queues]
        owners = [self._process_of(node) for node in queues]
        processes: dict[str, set[Node]] = {}
        for name, process in zip(names, owners, strict=True):
            processes.setdefault(name, set()).add(process)
        whole = [
            f"{distinguishing(process)} {name}" if len(processes[name]) > 1 or process.shown.labels else name
            for name, process in zip(names, owners, strict=True)
        ]
        return {
            node.number: name
            for node, name in zip(queues, in_order_of_names(whole), strict=True)
            if node.number is not None
        }

    def _process_of(self, node: Node) -> Node:
        while node.kind != "process":
            node = self._parents[node]
        return node

    def track(self, number: int, lane: int) -> int:
        """Returns the uuid of a lane of the track with that index in the timeline."""
        uuid = self._lanes.get((number, lane))
        if uuid is None:
            node = self._nodes[number]
            uuid = self._node(node) if lane == 0 else self._lane(node)
            self._lanes[number, lane] = uuid
            self.new_lanes.append((uuid, number, {}))
        return uuid

    def process(self, number: int) -> tuple[int, str]:
        """Returns process id and name of the process of the track with that index."""
        node = self._process_of(self._nodes[number])
        self._node(node)
        return self._pids[node], node.shown.name

    def owner(self, number: int) -> str:
        """Returns what tells the process of the track with that index from others."""
        return distinguishing(self._process_of(self._nodes[number]))

    def queue_track(self, number: int) -> int:
        """Returns the index of the track whose queue a track uses: as a rule its own."""
        shared = self._queue_nodes.get(self._nodes[number])
        return number if shared is None or shared.number is None else shared.number

    def queue(self, number: int) -> str:
        """Returns the name of a hardware queue: older viewers show only that. A device appears in it as a number."""
        return self._queues[number]

    def stream(self, number: int) -> str:
        """Returns the name of the stream of that track, "work" where it is a device itself."""
        node = self._nodes[number]
        return "work" if node.kind in ("device", "process") else node.shown.name

    def _below_process(self, node: Node) -> str:
        names: list[str] = []
        while node.kind != "process":
            name = node.shown.name
            names.append(" ".join(name.split()[:2]) if node.kind == "device" else name)  # without the model
            node = self._parents[node]
        return " ".join(reversed(names))

    def expect_counters(self, series: Iterable[tuple[int, str, str | None]]) -> None:
        """Decides which counters get a group; `series` has track, name and unit of those that come next."""
        new = {key: self._counter_place(self._nodes[key[0]]) for key in series if key not in self._counters}
        for place, many in Counter(new.values()).items():
            self._grouped.setdefault(place, many > _LOOSE_COUNTERS)

    def counter(self, number: int, name: str, unit: str | None) -> int:
        """Returns the uuid of a counter of that name on the track with that index in the timeline."""
        uuid = self._counters.get((number, name, unit))
        if uuid is None:
            uuid = self._counters[number, name, unit] = self._counter(self._nodes[number], name, unit)
            self.new_counters.append((uuid, number, {"counter": name} | ({"unit": unit} if unit else {})))
        return uuid

    def _node(self, node: Node) -> int:
        uuid = self._known.get(node)
        if uuid is None:
            gpu = self._gpus.get(node)
            parent = None if node.kind == "process" else self._group(self._parents[node] if gpu is None else node)
            uuid = self._known[node] = next(self._uuids)
            self._emit(uuid, parent, node)
        return uuid

    def _group(self, node: Node) -> int:
        """Returns the uuid of the track below which the children of a node are."""
        gpu = self._gpus.get(node)
        if gpu is None:
            return self._node(node)
        gpu.is_parent = True
        return gpu.uuid

    def _lane(self, node: Node) -> int:
        """A further row: a sibling with the same merge key or, as threads don't merge, a child of the thread."""
        first = self._node(node)
        above = node if node in self._gpus else self._parents[node]
        parent = first if node in self._tids else self._group(above)
        uuid = next(self._uuids)
        self._fresh(
            uuid=uuid,
            parent_uuid=parent,
            name=self._lane_name(node),
            sibling_order_rank=self._ranks[node],
            **self._merge_key(node, first),
        )
        return uuid

    def _emit(self, uuid: int, parent: int | None, node: Node) -> None:
        rank = -1 if node.shown.name in _EXPLAINED and node in self._threads else self._ranks[node]
        description = node.shown.description
        fields: dict[str, int | str | bytes | None] = {"uuid": uuid, "parent_uuid": parent}
        if node.kind == "process":
            fields["process"] = _process(self._pids[node], node, rank)
            description = "\n".join(line for line in (description, self.note) if line)
        elif node in self._tids:
            fields["thread"] = self._thread(node)
        else:
            fields |= {"name": self._name(node), **self._merge_key(node, uuid)}
        explicit = f.CHILD_TRACKS_ORDERING["EXPLICIT"]
        self._fresh(**fields, description=description or None, child_ordering=explicit, sibling_order_rank=rank)

    def _merge_key(self, node: Node, uuid: int) -> dict[str, int]:
        """The key of a track: that of the stream whose queue it uses, else its own."""
        shared = self._queue_nodes.get(node)
        return merge_key(uuid if shared is None else self._node(shared))

    def _name(self, node: Node) -> str:
        return self._names.get(node, node.shown.name)

    def _lane_name(self, node: Node) -> str:
        """The name of a further row: below a thread, why there is one, to which a viewer adds the thread's id."""
        if node not in self._tids:
            return self._name(node)
        name = self._thread_name(node)
        return f"{name}, overlapping" if name else "overlapping"

    def _thread_name(self, node: Node) -> str:
        name = self._threads.get(node)
        return without_tid(node.shown.name, self._tids[node]) if name is None else name

    def _thread(self, node: Node) -> bytes:
        tid, above = self._tids[node], self._parents[node]
        pid = self._gpus[above].pid if above in self._gpus else self._pids[above]
        return message(f.THREAD_DESCRIPTOR, pid=pid, tid=tid, thread_name=self._thread_name(node) or None)

    def _counter(self, node: Node, name: str, unit: str | None) -> int:
        """A counter is below its device or process, directly after the text track that it belongs to."""
        place = self._counter_place(node)
        named = node.kind == "track" and node.shown.name != "events"
        uuid = next(self._uuids)
        own_unit = None if unit in _UNITS else unit or None
        self._fresh(
            uuid=uuid,
            parent_uuid=self._counter_parent(place),
            name=with_track(node.shown.name, name) if named else name,
            counter=message(f.COUNTER_DESCRIPTOR, unit=_UNITS.get(unit or ""), unit_name=own_unit),
            sibling_order_rank=self._ranks[node] + 1 + len(self._counters) % _RANKS,
            **merge_key(uuid),
        )
        return uuid

    def _counter_place(self, node: Node) -> Node:
        while node.kind not in ("process", "device"):
            node = self._parents[node]
        return node

    def _counter_parent(self, place: Node) -> int:
        """Returns the uuid of the process or device, or of the group of its counters."""
        parent = self._group(place)
        if not self._grouped.get(place):
            return parent
        group = self._counter_groups.get(place)
        if group is None:
            group = self._counter_groups[place] = next(self._uuids)
            self._fresh(
                uuid=group,
                parent_uuid=parent,
                name="counters",
                child_ordering=f.CHILD_TRACKS_ORDERING["EXPLICIT"],
                sibling_order_rank=_LAST,
                **merge_key(group),
            )
        return group

    def _fresh(self, **fields: int | str | bytes | None) -> None:
        self.fresh.append(message(f.TRACK_DESCRIPTOR, **fields))


def _names(processes: Sequence[Node]) -> Iterator[str]:
    """Yields what tells processes apart, the names of all streams, and the numbers of all devices."""
    for process in processes:
        yield from process.shown.labels[:1]
        for node in process.walk():
            if isinstance(node.key, Track) and node.kind in ("device", "stream"):
                yield str(node.key.device) if node.kind == "device" else node.shown.name


def _shared_queues(device: Node) -> Iterator[tuple[Node, Node]]:
    """Yields the streams of a device without a context, each with the only stream of its number that has one.

    Kineto records the context of kernels, but not of the ranges that it draws around them on the same stream.
    """
    streams = [(node, node.key) for node in device.children if node.kind == "stream" and isinstance(node.key, Track)]
    in_contexts: dict[int | None, list[Node]] = {}
    for node, key in streams:
        if key.context is not None:
            in_contexts.setdefault(key.stream, []).append(node)
    for node, key in streams:
        if key.context is None and len(others := in_contexts.get(key.stream, [])) == 1:
            yield node, others[0]


def _pids(processes: Sequence[Node], machine_of: Sequence[int], devices: Set[int | None]) -> dict[Node, int]:
    """Returns the process ids: the source's own if it is legal and free on its machine, else one that no device has."""
    machines: dict[int, list[Node]] = {}
    for node in processes:
        number = next((at.number for at in node.walk() if at.number is not None), None)
        machines.setdefault(machine_of[number] if machine_of and number is not None else 0, []).append(node)
    pids: dict[Node, int] = {}
    for nodes in machines.values():
        pids_given = [node.key.pid if isinstance(node.key, Process) else None for node in nodes]
        pids |= zip(nodes, give_ids(pids_given, HIGHEST_PID, devices), strict=True)
    return pids


def _tids(process: Node) -> dict[Node, int]:
    """Returns the thread ids of nodes that are drawn as threads: the source's ids that are legal."""
    return {
        node: node.key.tid or 0
        for node in process.children
        if node.kind == "thread" and isinstance(node.key, Track) and 1 <= (node.key.tid or 0) <= HIGHEST_PID
    }


def root() -> bytes:
    """The descriptor that puts processes and threads in our order."""
    return message(
        f.TRACK_DESCRIPTOR,
        uuid=0,
        process_ordering=f.PROCESS_ORDERING["PROCESS_ORDERING_EXPLICIT"],
        thread_ordering=f.THREAD_ORDERING["THREAD_ORDERING_EXPLICIT"],
    )


def _process(pid: int, node: Node, rank: int) -> bytes:
    shown = node.shown
    is_own = isinstance(node.key, Process) and node.key.pid == pid
    return message(
        f.PROCESS_DESCRIPTOR,
        pid=pid,
        process_name=shown.led(shown.without_pid if is_own else shown.name),
        legacy_sort_index=rank,
        process_labels=list(shown.labels),
    )


def merge_key(key: int) -> dict[str, int]:
    """Only tracks with the same key are drawn as one: neighbours that merely have the same name stay separate."""
    by_key = f.SIBLING_MERGE_BEHAVIOR["SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY"]
    return {"sibling_merge_behavior": by_key, "sibling_merge_key_int": key}


#: A process id has 31 bits and a sign.
HIGHEST_PID = 2**31 - 1


def _in_turn(taken: Set[int], hints: Sequence[int | None]) -> list[int]:
    """Unique ids, 0 too: the wanted number if it isn't taken, else the lowest from 1 on that nobody has or wants."""
    claimed = {*taken, *hints}
    free = (number for number in count(1) if number not in claimed)
    given: dict[int, None] = {}
    for number in hints:
        legal = number is not None and 0 <= number <= HIGHEST_PID and number not in taken and number not in given
        given[number if legal and number is not None else next(free)] = None
    return list(given)


def with_tids(pid: int, taken: Iterable[int], names: Sequence[str]) -> list[tuple[int, str]]:
    """Returns thread ids that aren't taken, and names without them: a viewer shows "stream" and 7 as "stream 7".

    Only a name with the number `pid` gets the id of the process, which is that of its main thread.
    """
    words = [name.rpartition(" ") for name in names]
    hints = [int(digits) if word and digits.isdecimal() and len(digits) < 11 else None for word, _, digits in words]
    tids = _in_turn({*taken} if pid in hints else {*taken, pid}, hints)
    return [
        (tid, word if tid == number else name)
        for tid, number, name, (word, *_) in zip(tids, hints, names, words, strict=True)
    ]


_THREAD = re.compile(r"thread ([0-9]+)(?: \((.+)\))?")


def without_tid(name: str, tid: int) -> str:
    """The name of a thread without its id, which the viewer adds; empty if nothing else is left.

    PyTorch calls a thread "thread 4243 (pt_autograd_0)".
    """
    match = _THREAD.fullmatch(name)
    return (match[2] or "") if match and match[1] == str(tid) else name


def in_order_of_names(names: Sequence[str]) -> list[str]:
    """Adds leading spaces to names so that a viewer that sorts by name keeps their order.

    The viewer sorts hardware queues, and tracks directly below a process, by name and ignores their rank. A page
    doesn't show leading spaces.
    """
    given: list[str] = []
    spaces = 0
    for name, following in zip(reversed(names), [None, *reversed(names)], strict=False):
        if following is not None and _sorted_by(name) > _sorted_by(following):
            spaces += 1
        given.append(" " * spaces + name)
    return given[::-1]


def _sorted_by(name: str) -> str:
    return name.lower()


def distinguishing(process: Node) -> str:
    """What distinguishes the GPUs of a process: its rank, or its host without domain, else its name."""
    if not process.shown.labels:
        return process.shown.name
    label = process.shown.labels[0]
    host = label.partition(".")[0]
    return label if host.isdigit() else host  # an address stays whole
