"""The less frequent packets about a GPU: counters, description, memory, log.

gpu_counter_event { counter_descriptor { specs { counter_id 1 name "GPU Frequency" denominator_units HERTZ } } }
gpu_counter_event { gpu_id 0  counters { counter_id 1 int_value 5 } }              a counter row on the device
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import FIXED64, LENGTH, VARINT, Fields, combinations, parse, signed
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .. import field_numbers as f
from ..writing.kernel_counters import DERIVED, ESTIMATE
from .argument_values import Chunk
from .context import Context, Events
from .messages import as_bytes, bits, first, gather, int32, lenient, message, repeated, text
from .sequence_state import SequenceState
from .tracks import host_of

_C = f.GPU_COUNTER_EVENT

#: Metrics of kernels in a trace that ktrace wrote have ids from here on; ids of events there come from the source.
_IDS = 1 << 58

#: Perfetto's units with a short name in the model; others keep their name, in lower case.
_SHORT = {
    **{"NONE": "", "BYTE": "B", "HERTZ": "Hz", "NANOSECOND": "ns", "MICROSECOND": "us", "MILLISECOND": "ms"},
    **{"SECOND": "s", "WATT": "W", "MILLIWATT": "mW", "CELSIUS": "degC", "PERCENT": "%", "VOLT": "V", "JOULE": "J"},
}
_UNITS = {number: _SHORT.get(name, name.lower()) for name, number in f.MEASURE_UNIT.items()}
_GROUPS = {number: name.lower() for name, number in f.GPU_COUNTER_GROUP.items()}
_SEVERITIES = {number: name.removeprefix("LOG_SEVERITY_").lower() for name, number in f.SEVERITY.items()}


class CounterSpec(NamedTuple):
    """The descriptor of a counter; `groups` are those of Perfetto and those that the source defines."""

    name: str
    unit: str | None
    description: str
    groups: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Its facts in the catalog."""
        stated = {"description": self.description, "groups": list(self.groups)}
        return {name: value for name, value in stated.items() if value}


class GpuPackets:
    """Reads these packets and adds rows to `rows`. All methods raise ValueError for a message that isn't protobuf."""

    def __init__(self, context: Context, rows: RowBuilder) -> None:
        self._context = context
        self._rows = rows
        self._known: dict[tuple[int, int], CounterSpec] = {}  # (gpu, counter id), of descriptors that aren't interned

    def describe(self, data: bytes) -> None:
        """Reads the descriptor of a GpuCounterEvent that isn't interned."""
        found = gather(data)
        gpu = int32(first(found, _C["gpu_id"], 0))
        for descriptor in found.get(_C["counter_descriptor"], []):
            self._known |= {(gpu, number): counter for number, counter in _specs(as_bytes(descriptor)).items()}

    def values(self, chunk: Chunk, events: Events, base: int) -> Iterator[Batch]:
        """Yields the values of GpuCounterEvents, without estimates that ktrace made from a column of their kernel."""
        report = self._context.conversion.report
        found = parse(chunk.data, events.start, events.end)
        given = found.get(_C["counters"], LENGTH)
        parts = parse(chunk.data, given.start, given.start + signed(given.value))
        whole = parts.get(f.GPU_COUNTER["int_value"], VARINT)
        real = parts.get(f.GPU_COUNTER["double_value"], FIXED64)
        value = np.full(parts.count, np.nan)
        value[whole.owner] = signed(whole.value)
        value[real.owner] = bits(signed(real.value))
        known, which = self._counters(chunk, events, found, parts)
        kept = np.array([not self._is_estimate(counter) for counter, _ in known], np.bool_)[which]
        rows = np.flatnonzero(kept)
        has = np.zeros(len(events), np.bool_)
        has[given.owner[rows]] = True
        empty = ~given.has(len(events))
        report.used(int(has.sum()))
        for count, outcome in ((empty, "counter descriptors"), (~has & ~empty, "counters that follow from columns")):
            if count.any():
                report.used(int(count.sum()), outcome=outcome)
        if not len(rows):
            return
        owner, which = given.owner[rows], which[rows]
        if self._context.observer is not None:
            for one, (counter, _) in enumerate(known):
                self._context.observer.observe_counter(counter.name, events.ts[owner[which == one]])
        for counter, _ in known:
            self._context.metrics.setdefault(counter.name, {}).update(counter.facts)
        columns = {
            "source": constant(self._context.source(), len(rows)),
            "id": pa.array(given.start[rows] + base + (_IDS if self._context.by_ktrace else 0)),
            "device": pa.array(np.array([device for _, device in known], np.int64)[which]),
            "ts": pa.array(events.ts[owner] + self._context.origin),
            "kind": constant("counter", len(rows)),
            "name": words([counter.name for counter, _ in known], which),
            "unit": pa.array([counter.unit for counter, _ in known], pa.string())
            .take(pa.array(which))
            .dictionary_encode(),
            "value": pa.array(value[rows], mask=~(whole.has(parts.count) | real.has(parts.count))[rows]),
            "timing": words([self._timing(counter) for counter, _ in known], which),
        }
        machine = np.array([state.machine for state in chunk.states], np.int64)[events.state[owner]]
        if machine.any() and not self._context.by_ktrace:
            columns["host"] = pa.array([host_of(one) for one in machine.tolist()]).dictionary_encode()
        if events.clock is not None:
            columns["clock"] = chunk.chunk_texts.column(events.clock[owner].astype(np.int32))
        batch = Batch("events", pa.RecordBatch.from_pydict(columns))
        if self._context.by_ktrace:
            self._context.kernel_metrics.append((batch, machine))
        else:
            yield batch

    def _counters(
        self, chunk: Chunk, events: Events, found: Fields, parts: Fields
    ) -> tuple[list[tuple[CounterSpec, int]], Int64]:
        """Returns counters with their devices, and for each value of the events the index of its counter."""
        owner = found.get(_C["counters"], LENGTH).owner
        number = parts.get(f.GPU_COUNTER["counter_id"], VARINT).last(parts.count)
        gpu = signed(found.get(_C["gpu_id"], VARINT).last(len(events)))[owner]
        none = (1 << 64) - 1
        iid = found.get(_C["counter_descriptor_iid"], VARINT).last(len(events), none)[owner]
        state = events.state[owner]
        rows, which = combinations(state, [number, gpu.view(np.uint64), iid])
        known = [
            self._counter(chunk.states[int(state[row])], int(iid[row]), int(gpu[row]), int(number[row]))
            for row in rows.tolist()
        ]
        return known, which

    def _counter(self, state: SequenceState, iid: int, gpu: int, number: int) -> tuple[CounterSpec, int]:
        """Returns a counter and its device."""
        known = self._known
        if iid != (1 << 64) - 1:
            known, gpu = self._interned(state, iid, gpu)
        return known.get((gpu, number)) or CounterSpec(f"counter {number}", None, ""), gpu

    def _timing(self, counter: CounterSpec) -> str:
        return "derived" if self._context.by_ktrace and counter.description == DERIVED else "measured"

    def _is_estimate(self, counter: CounterSpec) -> bool:
        return self._context.by_ktrace and counter.description == ESTIMATE

    def _interned(self, state: SequenceState, iid: int, gpu: int) -> tuple[dict[tuple[int, int], CounterSpec], int]:
        key = ("counters", iid)
        if key not in state.cache:
            entry = lenient(state.entries.get((f.INTERNED_DATA["gpu_counter_descriptors"], iid), b""))
            i = f.INTERNED_GPU_COUNTER_DESCRIPTOR
            gpu = int32(first(entry, i["gpu_id"], gpu))
            specs = _specs(first(entry, i["counter_descriptor"], b""))
            state.cache[key] = ({(gpu, number): counter for number, counter in specs.items()}, gpu)
        known: tuple[dict[tuple[int, int], CounterSpec], int] = state.cache[key]
        return known

    def memory(self, data: bytes, at: int, ts: int, clock: str | None, machine: int) -> None:
        """Reads a GpuMemTotalEvent."""
        m, found = f.GPU_MEM_TOTAL_EVENT, gather(data)
        place: dict[str, Any] = {
            "device": int(first(found, m["gpu_id"], 0)),
            "pid": int(first(found, m["pid"], 0)) or None,
        }
        place |= {"host": host_of(machine)}
        size = float(first(found, m["size"], 0))
        self._event("counter", "GPU memory", at, ts, clock, **place, value=size, unit="B")

    def log(self, data: bytes, at: int, ts: int, clock: str | None, machine: int) -> None:
        """Reads a GpuLog."""
        g, found = f.GPU_LOG, gather(data)
        args: dict[str, Any] = {"severity": _SEVERITIES.get(int(first(found, g["severity"], 0)), "unspecified")}
        if tag := text(first(found, g["tag"], b"")):
            args["tag"] = tag
        self._event(
            "log",
            text(first(found, g["log_message"], b"")),
            at,
            ts,
            clock,
            host=host_of(machine),
            track="GPU log",
            args=args,
        )

    def info(self, data: bytes, machine: int) -> None:
        """Reads a GpuInfo: the index of a GPU in the list is its number."""
        g = f.GPU
        for device, gpu in enumerate(gather(data).get(f.GPU_INFO["gpus"], [])):
            found = gather(as_bytes(gpu))
            facts = {fact: text(first(found, g[fact], b"")) for fact in ("vendor", "model", "architecture", "pci_bdf")}
            if uuid := first(found, g["uuid"], b""):
                facts["uuid"] = uuid.hex()
            for extra in found.get(g["extra_info"], []):
                pair = gather(as_bytes(extra))
                facts[text(first(pair, 1, b""))] = text(first(pair, 2, b""))
            name = text(first(found, g["name"], b"")) or None
            facts = {fact: value for fact, value in facts.items() if value}
            self._context.devices[host_of(machine), device] = {"name": name, "facts": facts}

    def _event(self, kind: str, name: str, at: int, ts: int, clock: str | None, **columns: Any) -> None:
        columns["source"] = self._context.source()
        self._rows.event(kind, name, ts=ts + self._context.origin, id=at, clock=clock, **columns)


def _specs(descriptor: bytes) -> dict[int, CounterSpec]:
    """Returns counter id -> its descriptor."""
    s = f.GPU_COUNTER_SPEC
    counters = {}
    listed = _listed_groups(descriptor)
    for spec in lenient(descriptor).get(f.GPU_COUNTER_DESCRIPTOR["specs"], []):
        data = message(spec)
        found = lenient(data)
        over, under = (
            " ".join(_UNITS.get(unit, str(unit)) for unit in repeated(data, s[name]))
            for name in ("numerator_units", "denominator_units")
        )
        unit = f"{over}/{under}" if under else over
        number = int(first(found, s["counter_id"], 0))
        name = text(first(found, s["name"], b"")) or f"counter {number}"
        named = (_GROUPS.get(group, str(group)) for group in repeated(data, s["groups"]))
        groups = tuple(dict.fromkeys([*named, *listed.get(number, [])]))
        counters[number] = CounterSpec(name, unit or None, text(first(found, s["description"], b"")), groups)
    return counters


def _listed_groups(descriptor: bytes) -> dict[int, list[str]]:
    """Returns counter id -> the groups, defined by the source, that list it."""
    g = f.GPU_COUNTER_GROUP_SPEC
    groups: dict[int, list[str]] = {}
    for group in lenient(descriptor).get(f.GPU_COUNTER_DESCRIPTOR["counter_groups"], []):
        data = message(group)
        found = lenient(data)
        name = text(first(found, g["name"], b"")) or f"group {first(found, g['group_id'], 0)}"
        for number in repeated(data, g["counter_ids"]):
            groups.setdefault(int(number), []).append(name)
    return groups
