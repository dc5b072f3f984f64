"""Where events lie: threads of processes, streams of devices, on hosts; and the facts about them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ktrace.model.row_builder import RowBuilder

from .library import Archive

#: Streams by their names: CUDA[0:7] of Score-P (device and stream); rocprofv3's, whose copies have no queue.
_STREAM = re.compile(r"(CUDA|HIP)\[(\d{1,9}):(\d{1,9})\]")
_QUEUE = re.compile(r"Thread \d+, (?:Compute on|Copy to) (CPU|GPU) (\d{1,9})(?:, Queue (\d{1,9}))?")
_THREAD = re.compile(r"Thread (\d{1,18})")

#: The time that is none.
_UNDEFINED = (1 << 64) - 1


@dataclass
class Open:
    """A region that was entered and not yet left."""

    region: Any
    ts: int
    id: int
    args: dict[str, Any]
    comm: str | None = None


@dataclass
class Place:
    """Where the events of a location lie, as columns; and what began there and waits for its end."""

    location: Any
    columns: dict[str, Any]
    is_stream: bool
    open: list[Open] = field(default_factory=list)
    copies: dict[tuple[Any, int], tuple[Any, int]] = field(default_factory=dict)  # begun: (window, id) -> event, ts
    receives: dict[Any, Any] = field(default_factory=dict)  # in the order of their posts -> the event, None if it waits


def word(value: Any) -> str:
    """RegionRole.KERNEL -> KERNEL; the number of one that the library doesn't know."""
    try:
        return str(value).rpartition(".")[2]
    except KeyError:
        return str(value.value)


def plain(value: Any) -> Any:
    """The value of an attribute; of one that refers to a definition, its name."""
    return value if value is None or isinstance(value, (int, float, str)) else getattr(value, "name", str(value))


class Places:
    """The places of all locations, and the clock; adds the facts about them."""

    def __init__(self, archive: Archive, rows: RowBuilder) -> None:
        defined, self._rows = archive.definitions, rows
        #: rocprofv3 states ns since boot, and as their real time that at which it wrote the file.
        self._is_rocprofv3 = any(one.description == "tracing category" for one in defined.attributes)
        clock = defined.clock_properties
        self._resolution = max(clock.timer_resolution, 1)
        self._origin = 0 if self._is_rocprofv3 else clock.global_offset
        self._only_gpu = self._gpu(defined) if self._is_rocprofv3 else None
        self.of = {one: place for group in self._groups(defined) for one, place in group}
        self._facts(archive.creator, clock)

    def ns(self, ticks: int) -> int:
        """ns since the global offset (of rocprofv3 since boot): ticks of the clock, rounded down."""
        return int((ticks - self._origin) * 1_000_000_000 // self._resolution)

    def _groups(self, defined: Any) -> Iterator[list[tuple[Any, Place]]]:
        """Yields the locations of each group with their places, and adds the facts of both."""
        members: defaultdict[Any, list[Any]] = defaultdict(list)
        for location in defined.locations:
            members[location.group].append(location)
        processes = [group for group in defined.location_groups if word(group.location_group_type) == "PROCESS"]
        devices = 0
        for group, locations in members.items():
            owner = group if group in processes else group.creating_location_group
            owner = owner or (processes[0] if len(processes) == 1 else None)
            around = {"host": self.host(group), "pid": owner._ref if owner else None}
            located = []
            for ordinal, location in enumerate(locations):
                what = word(location.type)
                if what in ("ACCELERATOR_STREAM", "GPU"):  # two names of one value
                    located.append((location, self._stream(location, around, devices, ordinal)))
                elif what == "METRIC":
                    located.append((location, Place(location, around | {"track": location.name}, False)))
                else:
                    located.append((location, self._thread(location, around, ordinal)))
            devices += any(place.is_stream for _, place in located)
            yield located
        for order, group in enumerate(processes):
            self._rows.fact("process", host=self.host(group), pid=group._ref, name=group.name, order=order)

    def _gpu(self, defined: Any) -> int | None:
        """The number of the only GPU of a machine: rocprofv3 has a group for each agent, a GPU's name is gfx90a."""
        gpus = [group for group in defined.location_groups if group.name.startswith("gfx")]
        names = [queue for one in defined.locations if (queue := _QUEUE.fullmatch(one.name)) and queue[1] == "GPU"]
        return int(names[0][2]) if len(gpus) == 1 and names else None

    def host(self, group: Any) -> str | None:
        """The node that a group is on: the next one of the class "node". rocprofv3 gives the host as the class."""
        node, seen = group.system_tree_parent, set[Any]()
        while node is not None and node not in seen:
            if self._is_rocprofv3 or node.class_name == "node":
                return str(node.class_name if self._is_rocprofv3 else node.name)
            seen.add(node)
            node = node.parent
        return None

    def _thread(self, location: Any, around: dict[str, Any], ordinal: int) -> Place:
        thread = _THREAD.fullmatch(location.name) if self._is_rocprofv3 else None
        place = around | {"tid": int(thread[1]) if thread else ordinal}
        self._rows.fact("thread", **place, name=location.name, order=ordinal)
        return Place(location, place, False)

    def _stream(self, location: Any, around: dict[str, Any], device: int, ordinal: int) -> Place:
        stream: int | None = ordinal
        api, name = None, location.group.name
        if match := _STREAM.fullmatch(location.name):
            api, device, stream = match[1].lower(), int(match[2]), int(match[3])
        elif self._is_rocprofv3 and (match := _QUEUE.fullmatch(location.name)):
            gpu = int(match[2]) if match[1] == "GPU" else self._only_gpu
            if gpu is None:  # a copy to the host, from a device that isn't stated
                return Place(location, around | {"track": location.name}, True)
            api, device, stream = "hip", gpu, int(match[3]) if match[3] else None
        place = around | {"device": device}
        node = location.group.system_tree_parent
        facts = {key: plain(one.value) for key, one in (node._properties if node else {}).items()}
        if word(location.group.location_group_type) == "ACCELERATOR":
            self._rows.fact("device", **place, name=name, facts=facts | ({"api": api} if api else {}))
        elif api:
            self._rows.fact("device", **place, facts={"api": api})
        place |= {"stream": stream} if stream is not None else {"track": location.name}
        entity = "track" if stream is None else "stream"
        self._rows.fact(entity, **place, name=location.name, facts=dict(self._properties(location)))
        return Place(location, place, True)

    def _properties(self, location: Any) -> Iterator[tuple[str, Any]]:
        for key, one in location._properties.items():
            yield key, plain(one.value)

    def _facts(self, creator: str, clock: Any) -> None:
        tool, _, version = ("rocprofv3" if self._is_rocprofv3 else creator).rpartition(" ")
        self._rows.fact("source", facts={"tool": tool, "version": version} if tool else {"tool": version or None})
        if self._is_rocprofv3:
            facts: dict[str, Any] = {"kind": "boottime"}
        else:
            facts = {"kind": "session"}
            if clock.realtime_timestamp != _UNDEFINED:
                facts |= {"at_ns": 0, "unix_ns": clock.realtime_timestamp}
        self._rows.fact("clock", facts=facts | {"ticks_per_s": clock.timer_resolution})
