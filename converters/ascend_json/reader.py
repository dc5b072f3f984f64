"""Reads Ascend's timelines: which layer and which arguments make which kind of row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.ascend_folder import JSON, own_file
from ktrace.kit.ascend_tasks import CONTROL, COPY, DEVICE, DIRECTIONS, ENCLOSING, SYNC
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events, Member
from ktrace.kit.trace_json.phases import mapper, on_devices
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .collectives import Collectives
from .layers import COMMUNICATION, HARDWARE, Layers, layers_of

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

#: Tasks of an operator repeat those of the hardware.
_OF_OPERATOR = Sign(("task type",), Rule("range"))

#: Slices of MindSpore's timeline_display: the pid is the device, the tid the stream.
_DISPLAYED_WORK = Sign(("fullname", "type"), Rule("kernel", place="device"))

#: Layers of the host whose slices have no category, and all others: analyses of the rows of other layers.
_CALLS = Rule("api", columns=_TASK)
_LAYERS: Mapping[str, Rule] = {
    **{"CANN": _CALLS, "AscendCL": _CALLS, "Runtime": _CALLS, "OS Runtime API": Rule("api")},
    **dict.fromkeys(COMMUNICATION, Rule("kernel", columns=_TASK)),
}
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
    signs=(*_DEVICE, _OF_OPERATOR, _DISPLAYED_WORK),
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


#: Times after this (ns; September 2001) count from 1970; older versions of msprof write the time since the boot.
_SINCE_1970 = 10**18

#: `connection_id` of work without a call: -1 as a signed and as an unsigned number.
_NO_CALL = pa.array([-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF >> 1], pa.int64())


class _Rows(msgspec.Struct, frozen=True):
    """Makes rows of events, in any process."""

    dialect: Dialect
    devices: dict[int, int]
    collectives: Collectives

    def __call__(self, events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in mapper(self.dialect)(events, conversion):
            yield _finished(self.collectives(on_devices(batch, self.devices)))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, operators, analyses, counters, arrows. Raises DamagedInput if it isn't Trace Event JSON."""
    facts = RowBuilder(conversion, first_id=0)
    first = None
    members = partial(_member, facts)
    with own_file(source, JSON, conversion) as file:
        layers = layers_of(file)
        dialect = dialect_of(layers)
        rows = _Rows(dialect, layers.devices, Collectives(file, layers))
        for batch in read_document(file, conversion, rows, members, dialect.folded, quoted=True):
            if first is None and batch.record == "events":
                first = batch.columns.column("ts")[0].as_py()
            yield batch
    for device in sorted({*layers.devices.values(), *layers.communication.values()}):
        facts.fact("device", device=device, facts=DEVICE)
    if first is not None:
        facts.fact(
            "clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0} if first > _SINCE_1970 else {"kind": "boottime"}
        )
    yield from facts.rest()


def _member(facts: RowBuilder, member: Member, conversion: Conversion) -> Iterable[Batch]:
    """Keeps a member of the document other than its events as a fact of the source."""
    facts.fact("source", facts={member.key: member.value()})
    return ()


def _finished(batch: Batch) -> Batch:
    """Removes ids that mean "no call", and moves the directions of copies to their column."""
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    correlation = columns.get("correlation")
    if correlation is not None:
        none = pc.is_in(correlation, value_set=_NO_CALL)
        if none.true_count:
            columns["correlation"] = pc.if_else(none, None, correlation)
    words = columns.get("args.operation")
    if words is not None and pa.types.is_string(getattr(words.type, "value_type", words.type)):
        ways = by_distinct(words, DIRECTIONS.get, pa.string())
        columns["copy_kind"] = pc.coalesce(ways, batch.column("copy_kind").cast(pa.string()))
        columns["args.operation"] = pc.if_else(columns["copy_kind"].is_valid(), None, words)
    kept = {name: column for name, column in columns.items() if column.null_count < len(batch) or not len(batch)}
    return Batch(batch.record, pa.RecordBatch.from_pydict(kept))
