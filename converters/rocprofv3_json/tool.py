"""The members of an entry other than records: process, agents, names of operations, kernels, counters, marker texts.

strings.buffer_records[8] {"kind": "HIP_RUNTIME_API", "operations": ["hipApiName", ...]}   kind 8, operation 0
agents [{"id": {"handle": 1000}, "node_id": 4, "type": 2, "product_name": ...}]            handle 1000 is device 4
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from ktrace.kit.trace_json.salvage import mend_document
from ktrace.model.json_text import NOT_JSON, refuse_deep
from ktrace.model.row_builder import RowBuilder

#: Members that records need.
NEEDED = (("metadata",), ("agents",), ("strings", "buffer_records"), ("kernel_symbols",))

#: Members that are kept: those that records refer to.
_KEPT = frozenset(
    {*NEEDED, ("counters",), ("strings", "callback_records"), ("strings", "marker_api"), ("strings", "correlation_id")}
)

#: Fact of a device -> its key in an agent.
_AGENT = {
    "arch": "name",
    "sm_count": "cu_count",
    "wavefront_size": "wave_front_size",
    "max_clock_mhz": "max_engine_clk_fcompute",
    "xcc_count": "num_xcc",
    "shader_engines": "num_shader_banks",
    "type_index": "logical_node_type_id",
    "logical_index": "logical_node_id",
}


class Tool:
    """An entry of the document."""

    def __init__(self) -> None:
        self.known: set[tuple[str, ...]] = set()
        self.metadata: dict[str, Any] = {}
        self.agents: dict[int, dict[str, Any]] = {}
        self.symbols: dict[Any, dict[str, Any]] = {}
        self.counters: dict[int, dict[str, Any]] = {}
        self.kinds: list[dict[str, Any]] = []
        self.messages: dict[int, str] = {}

    def add(self, path: tuple[str, ...], text: bytes) -> str | None:
        """Takes a member if it is needed; returns the problem with it, None for no problem."""
        self.known.add(path)
        if path not in _KEPT:
            return None
        wrong = None
        try:
            refuse_deep(text)
            value = msgspec.json.decode(text)
        except NOT_JSON:  # a number beyond 64 bits, half of a surrogate pair, too deep
            value, wrong = _without_odd_values(text), f"a value of {'.'.join(path)} can't be read"
        if path == ("metadata",):
            self.metadata = value if isinstance(value, dict) else {}
        elif path == ("agents",):
            self.agents = _by_handle(value)
        elif path == ("kernel_symbols",):
            self.symbols = _symbols(value)
        elif path == ("counters",):
            self.counters = _by_handle(value)
        elif path == ("strings", "buffer_records"):
            self.kinds = list(_objects(value))
        elif path == ("strings", "marker_api"):
            pairs = ((item.get("key"), item.get("value")) for item in _objects(value))
            self.messages = {key: text for key, text in pairs if isinstance(key, int) and isinstance(text, str)}
        return wrong

    @property
    def pid(self) -> int | None:
        """The process."""
        pid = self.metadata.get("pid")
        return pid if type(pid) is int and abs(pid) < 1 << 62 else None

    @property
    def host(self) -> str | None:
        """The machine."""
        node = self.metadata.get("node")
        name = node.get("hostname") if isinstance(node, dict) else None
        return name if isinstance(name, str) and name else None

    def device(self, handle: object) -> int | None:
        """The number of an agent: its node_id, as in "Agent 4"; for an unknown agent the handle."""
        agent = self.agents.get(handle)  # type: ignore[call-overload]
        number = agent.get("node_id") if agent else handle
        return number if type(number) is int and -(1 << 63) <= number < 1 << 63 else None

    def is_gpu(self, handle: object) -> bool | None:
        """Whether an agent is a GPU, None for an unknown agent."""
        agent = self.agents.get(handle)  # type: ignore[call-overload]
        return agent.get("type") in (2, "GPU") if agent else None

    def category(self, kind: object) -> str | None:
        """The name of a kind of records."""
        entry = self._kind(kind)
        return str(entry["kind"]) if entry and "kind" in entry else None

    def operation(self, kind: object, operation: object) -> str | None:
        """The name of an operation of a kind."""
        entry = self._kind(kind)
        with suppress(LookupError, TypeError):
            return (
                str(entry["operations"][operation]) if entry and isinstance(operation, int) and operation >= 0 else None
            )
        return None

    def _kind(self, kind: object) -> dict[str, Any] | None:
        if isinstance(kind, int) and 0 <= kind < len(self.kinds):
            return self.kinds[kind]
        return next((entry for entry in self.kinds if entry.get("kind") == kind), None)

    def facts(self, rows: RowBuilder) -> None:
        """Adds the facts of source, host, process and devices."""
        config = self.metadata.get("config")
        rows.fact("source", facts={"tool": "rocprofv3", **({"config": config} if config else {})})
        if self.host:
            node = self.metadata["node"]
            rows.fact("host", host=self.host, name=self.host, facts=_nonempty({"os": node.get("system_name")}))
        command = self.metadata.get("command")
        if self.pid is not None:
            words = [str(word) for word in command] if isinstance(command, list) else []
            name = words[0].rsplit("/", 1)[-1] if words else None
            facts = _nonempty({"command": " ".join(words), "ppid": self.metadata.get("ppid")})
            rows.fact("process", host=self.host, pid=self.pid, name=name, facts=facts)
        for handle, agent in self.agents.items():
            if self.is_gpu(handle):
                name = agent.get("product_name") or agent.get("model_name") or agent.get("name")
                facts = {"api": "hip", "vendor": agent.get("vendor_name") or "AMD"}
                facts |= {fact: agent.get(key) for fact, key in _AGENT.items()}
                rows.fact(
                    "device",
                    host=self.host,
                    device=self.device(handle),
                    name=str(name or "GPU"),
                    facts=_nonempty(facts),
                )


def _without_odd_values(text: bytes) -> Any:
    """A JSON value with null for numbers beyond 64 bits, and repaired; None if even that can't be read."""
    try:
        whole, _ = mend_document(text)
        return json.loads(whole, parse_int=_int, parse_float=_float, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) < 19 else None


def _float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _by_handle(value: object) -> dict[int, dict[str, Any]]:
    """The objects of a list, by the handle of their `id`."""
    items: dict[int, dict[str, Any]] = {}
    for item in _objects(value):
        handle = item.get("id")
        handle = handle.get("handle") if isinstance(handle, dict) else handle
        if type(handle) is int:
            items[handle] = item
    return items


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """The objects of a list."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _symbols(value: object) -> dict[Any, dict[str, Any]]:
    """Kernels by their ids: in a list `kernel_id`, else the index; in an object the keys."""
    if isinstance(value, dict):
        return {key: symbol for key, symbol in value.items() if isinstance(symbol, dict)}
    numbered = ((symbol.get("kernel_id", place), symbol) for place, symbol in enumerate(_objects(value)))
    return {number: symbol for number, symbol in numbered if isinstance(number, (int, str))}


def _nonempty(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value not in (None, "", [])}
