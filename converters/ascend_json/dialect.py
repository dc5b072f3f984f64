"""The meaning of Ascend's layers, task types and arguments.

Facts: msprof's assemblers of timelines (csrc/application/timeline), torch_npu's profiler/analysis, 2023 to 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktrace.kit.ascend.tasks import CONTROL, COPY, ENCLOSING, SYNC
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign

from .layers import HARDWARE, Layers

#: Arguments of a task of the device. Its thread is the stream; "Stream Id" and "Physic Stream Id" stay.
_TASK = {"connection_id": Into("correlation")}
_COPY = _TASK | {"size(B)": Into("bytes")}

_TYPE = ("Task Type",)
_DEVICE = (
    Sign(_TYPE, Rule("sync", columns=_TASK), SYNC),
    Sign(_TYPE, Rule("memcpy", columns=_COPY), COPY),
    Sign(_TYPE, Rule("overhead", columns=_TASK), CONTROL),
    Sign(_TYPE, Rule("range", columns=_TASK), ENCLOSING),
    Sign(_TYPE, Rule("kernel", columns=_TASK | {"size(B)": Into("bytes")})),
)

#: Slices of MindSpore's timeline_display: the pid is the device, the tid the stream.
_DISPLAYED = Sign(("fullname", "type"), Rule("kernel", place="device"))

#: Layers of the host whose slices have no category, and all others: analyses of the rows of other layers.
_CALLS = Rule("api", columns=_TASK)
_LAYERS: Mapping[str, Rule] = {"CANN": _CALLS, "AscendCL": _CALLS, "Runtime": _CALLS, "OS Runtime API": Rule("api")}
_FRAMEWORK = Rule("op")
_FRAMEWORKS = frozenset({"MindSpore", "GE"})

DIALECT = Dialect(
    cats={
        "cpu_op": _FRAMEWORK,
        "python_function": Rule("range"),
        "enqueue": Rule("range"),
        "dequeue": Rule("range"),
        "GC": Rule("overhead"),
    },
    signs=(*_DEVICE, _DISPLAYED),
    other=Rule("range"),
    flows={
        "HostToDevice": "launch",
        "async_npu": "flow",
        "async_task_queue": "async",
        "fwdbwd": "fwdbwd",
        "MsTx": "flow",
        "Data_aug Bound": "flow",
    },
)


def dialect_of(layers: Layers) -> Dialect:
    """Returns the dialect of a document with these layers.

    With the calls of the level Node in it, `connection_id` joins calls and tasks as HostToDevice does.
    """
    rules = {pid: _rule(name) for pid, name in layers.names.items() if name != HARDWARE}
    flows = {**DIALECT.flows, "HostToDevice": None} if layers.has_launches else DIALECT.flows
    return replace(DIALECT, processes={pid: rule for pid, rule in rules.items() if rule}, flows=flows)


def _rule(name: str) -> Rule | None:
    return _FRAMEWORK if name in _FRAMEWORKS else _LAYERS.get(name)
