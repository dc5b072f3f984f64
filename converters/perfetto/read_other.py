"""The rarer packets about a GPU: counters, what it is, its memory, its log.

gpu_counter_event { counter_descriptor { specs { counter_id 1 name "GPU Frequency" denominator_units HERTZ } } }
gpu_counter_event { gpu_id 0  counters { counter_id 1 int_value 5 } }              a counter row on the device
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ktrace.rows import Rows

from . import field_names as f
from .gpu_counters import ESTIMATE
from .read_args import double, int64
from .read_context import Context
from .read_state import State, repeated
from .read_tracks import as_bytes, first, gather, int32, text

_C = f.GPU_COUNTER_EVENT

#: Units of Perfetto that have a short name in the model; the others keep their own, in lower case.
_SHORT = {
    **{"NONE": "", "BYTE": "B", "HERTZ": "Hz", "NANOSECOND": "ns", "MICROSECOND": "us", "MILLISECOND": "ms"},
    **{"SECOND": "s", "WATT": "W", "MILLIWATT": "mW", "CELSIUS": "degC", "PERCENT": "%", "VOLT": "V", "JOULE": "J"},
}
_UNITS = {number: _SHORT.get(name, name.lower()) for name, number in f.MEASURE_UNIT.items()}
_SEVERITIES = {number: name.removeprefix("LOG_SEVERITY_").lower() for name, number in f.SEVERITY.items()}


class Counter(NamedTuple):
    """What a descriptor says of a counter."""

    name: str
    unit: str | None
    description: str


class Gpus:
    """Reads these packets; `rows` takes what they say. All methods raise ValueError for what is no protobuf."""

    def __init__(self, context: Context, rows: Rows) -> None:
        self._context = context
        self._rows = rows
        self._known: dict[tuple[int, int], Counter] = {}  # (gpu, counter id), of descriptors that aren't interned

    def counters(self, data: bytes, state: State, at: int, ts: int, clock: str | None) -> int:
        """Takes a GpuCounterEvent that stands at byte `at` and returns how many rows it gave."""
        found = gather(data)
        gpu = int32(first(found, _C["gpu_id"], 0))
        known = self._known
        if _C["counter_descriptor_iid"] in found:
            iid = int(first(found, _C["counter_descriptor_iid"], 0))
            known, gpu = self._interned(state, iid, gpu)
        for descriptor in found.get(_C["counter_descriptor"], []):
            self._known |= {(gpu, number): counter for number, counter in _specs(as_bytes(descriptor)).items()}
        given = 0
        for order, counter in enumerate(found.get(_C["counters"], []), 1):
            parts = gather(as_bytes(counter))
            number = int(first(parts, f.GPU_COUNTER["counter_id"], 0))
            spec = known.get((gpu, number)) or Counter(f"counter {number}", None, "")
            if self._context.own and spec.description == ESTIMATE:
                continue  # made of the column `occupancy` of its kernel
            given += 1
            value: float | None = None
            if f.GPU_COUNTER["int_value"] in parts:
                value = float(int64(first(parts, f.GPU_COUNTER["int_value"], 0)))
            elif f.GPU_COUNTER["double_value"] in parts:
                value = double(first(parts, f.GPU_COUNTER["double_value"], 0))
            self._event("counter", spec.name, at + order, ts, clock, device=gpu, value=value, unit=spec.unit)
            self._context.metrics.setdefault(spec.name, spec.description)
        return given

    def _interned(self, state: State, iid: int, gpu: int) -> tuple[dict[tuple[int, int], Counter], int]:
        key = ("counters", iid)
        if key not in state.cache:
            entry = gather(state.entries.get((f.INTERNED_DATA["gpu_counter_descriptors"], iid), b""))
            i = f.INTERNED_GPU_COUNTER_DESCRIPTOR
            gpu = int32(first(entry, i["gpu_id"], gpu))
            specs = _specs(first(entry, i["counter_descriptor"], b""))
            state.cache[key] = ({(gpu, number): counter for number, counter in specs.items()}, gpu)
        known: tuple[dict[tuple[int, int], Counter], int] = state.cache[key]
        return known

    def memory(self, data: bytes, at: int, ts: int, clock: str | None) -> None:
        """Takes a GpuMemTotalEvent."""
        m, found = f.GPU_MEM_TOTAL_EVENT, gather(data)
        place = {"device": int(first(found, m["gpu_id"], 0)), "pid": int(first(found, m["pid"], 0)) or None}
        size = float(first(found, m["size"], 0))
        self._event("counter", "GPU memory", at, ts, clock, **place, value=size, unit="B")

    def log(self, data: bytes, at: int, ts: int, clock: str | None) -> None:
        """Takes a GpuLog."""
        g, found = f.GPU_LOG, gather(data)
        args: dict[str, Any] = {"severity": _SEVERITIES.get(int(first(found, g["severity"], 0)), "unspecified")}
        if tag := text(first(found, g["tag"], b"")):
            args["tag"] = tag
        self._event("log", text(first(found, g["log_message"], b"")), at, ts, clock, track="GPU log", args=args)

    def info(self, data: bytes) -> None:
        """Takes a GpuInfo: the place of a GPU in the list is its number."""
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
            self._context.devices[device] = {"name": name, "facts": facts}

    def _event(self, kind: str, name: str, at: int, ts: int, clock: str | None, **columns: Any) -> None:
        columns["source"] = self._context.source()
        self._rows.event(kind, name, ts=ts + self._context.origin, id=at, clock=clock, **columns)


def _specs(descriptor: bytes) -> dict[int, Counter]:
    """Counter id -> what the descriptor says of it."""
    s = f.GPU_COUNTER_SPEC
    counters = {}
    for spec in gather(descriptor).get(f.GPU_COUNTER_DESCRIPTOR["specs"], []):
        data = as_bytes(spec)
        found = gather(data)
        over, under = (
            " ".join(_UNITS.get(unit, str(unit)) for unit in repeated(data, s[name]))
            for name in ("numerator_units", "denominator_units")
        )
        unit = f"{over}/{under}" if under else over
        name = text(first(found, s["name"], b"")) or f"counter {first(found, s['counter_id'], 0)}"
        counters[int(first(found, s["counter_id"], 0))] = Counter(
            name, unit or None, text(first(found, s["description"], b""))
        )
    return counters
