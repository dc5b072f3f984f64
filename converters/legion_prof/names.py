"""What the records say that describe others: tasks, kinds, processors, memories, nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ktrace.model.row_builder import RowBuilder

from .log import Values

#: Kinds of processors and of memories; those of GPUs.
_PROCESSORS = {1: "GPU", 2: "CPU", 3: "Utility", 4: "I/O", 5: "Group", 6: "Set", 7: "OpenMP", 8: "Python"}
_MEMORIES = (
    *("Unknown", "Global", "System", "Registered", "Socket", "Zero-Copy", "Framebuffer", "Disk", "HDF5", "Posix File"),
    *("L3 Cache", "L2 Cache", "L1 Cache", "GPU UVM", "GPU Dynamic"),
)
_GPU, GPU_MEMORIES = 1, (6, 13, 14)


@dataclass
class Names:
    """What the records that describe others say."""

    tasks: dict[Any, str] = field(default_factory=dict)
    kinds: dict[tuple[str, int], str] = field(default_factory=dict)
    processors: dict[int, tuple[int, str]] = field(default_factory=dict)
    memories: dict[int, int] = field(default_factory=dict)
    machines: dict[int, Values] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, int] = field(default_factory=dict)
    moved: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    zero: int | None = None

    def add(self, name: str, values: Values) -> None:
        """Keeps what a record says; one without its fields says nothing."""
        try:
            if keep := KEPT.get(name):
                keep(self, values)
        except KeyError:
            pass

    @cached_property
    def devices(self) -> dict[int, int]:
        """The ordinals of GPUs among those of their node, once all are known."""
        counts: Counter[int] = Counter()
        processors = {}
        for one, (kind, _) in sorted(self.processors.items()):
            if kind == _GPU:
                processors[one] = counts[one >> 40]
                counts[one >> 40] += 1
        return processors

    def node(self, number: int) -> Values:
        """The columns of a node's rows: its process, and its name."""
        machine = self.machines.get(number, {})
        return {"pid": machine.get("process_id", number), "host": machine.get("hostname") or None}

    def memory(self, number: int) -> str:
        """What a memory is called."""
        kind = self.memories.get(number, 0)
        word = _MEMORIES[kind] if 0 <= kind < len(_MEMORIES) else f"kind {kind}"
        return f"{word} memory {number & 0xFF} of node {number >> 40 & 0xFFFF}"

    def facts(self, rows: RowBuilder) -> None:
        """Adds the catalog."""
        rows.fact("source", facts={"tool": "Legion Prof"})
        unix = {} if self.zero is None else {"at_ns": 0, "unix_ns": self.zero}
        rows.fact("clock", facts={"kind": "session", **unix})
        for number, (kind, uuid) in sorted(self.processors.items()):
            index, node = number & 0xFFF, self.node(number >> 40 & 0xFFFF)
            name = f"{_PROCESSORS.get(kind, f'kind {kind}')} processor {index}"
            rows.fact("thread", name=name, tid=index, **node)
            if kind == _GPU:
                facts = {"uuid": uuid} if uuid.strip("0") else {}
                rows.fact("device", device=self.devices[number], host=node["host"], facts=facts)


def _named(kind: str, key: str = "kind") -> Callable[[Names, Values], None]:
    def keep(names: Names, values: Values) -> None:
        names.kinds[kind, values[key]] = values["name"]

    return keep


def _keep_variant(names: Names, values: Values) -> None:
    names.tasks[values["task_id"], values["variant_id"]] = values["name"]


def _keep_reason(names: Names, values: Values) -> None:
    if values["provenance"]:
        names.reasons[values["op_id"]] = values["provenance"]


#: Records that describe others. TaskKind: a later one counts only if it says so, as Legion does.
KEPT: dict[str, Callable[[Names, Values], None]] = {
    "TaskKind": lambda names, values: names.tasks.update(
        {values["task_id"]: values["name"]}
        if values.get("overwrite", 1) or values["task_id"] not in names.tasks
        else {}
    ),
    "TaskVariant": _keep_variant,
    "MetaDesc": _named("meta"),
    "OpDesc": _named("operation"),
    "MapperCallDesc": _named("mapper call"),
    "RuntimeCallDesc": _named("runtime call"),
    "ProcDesc": lambda names, values: names.processors.update(
        {values["proc_id"]: (values["kind"], values.get("cuda_device_uuid", ""))}
    ),
    "MemDesc": lambda names, values: names.memories.update({values["mem_id"]: values["kind"]}),
    "MachineDesc": lambda names, values: names.machines.update({values["node_id"]: values}),
    "Provenance": lambda names, values: names.texts.update({values["provenance"]: values["prov"]}),
    "OperationInstance": _keep_reason,
    "CopyInstInfo": lambda names, values: names.moved.update({values["fevent"]: (values["src"], values["dst"])}),
    "FillInstInfo": lambda names, values: names.moved.update({values["fevent"]: (None, values["dst"])}),
    "ZeroTime": lambda names, values: setattr(names, "zero", values["zero_time"]),
}
