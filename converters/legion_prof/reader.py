"""Reads the records of a log: tasks, work of the runtime, calls, copies, fills, partitions, instances, waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import counted

from .log import Log, Values
from .names import GPU_MEMORIES, KEPT, Names

_GREATEST_TIME = 1 << 62

_PARTITIONS = (
    *("Union", "Unions", "Union Reduction", "Intersection", "Intersections", "Intersection Reduction"),
    *("Difference", "Differences", "Equal Partition", "Partition by Field", "Partition by Image"),
    *("Partition by Image Range", "Partition by Preimage", "Partition by Preimage Range", "Create Association"),
    "Partition by Weights",
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of a log, which is read twice: names may come after what they name."""
    names = Names()
    with source.open(quiet=True) as stream:
        for name, values in Log(stream, source.path):
            names.add(name, values)
    rows, report = RowBuilder(conversion), conversion.report
    reading = _Reading(names, rows)
    unread: Counter[str] = Counter()
    with source.open() as stream:
        log = Log(stream, source.path)
        for name, values in log:
            report.record()
            where = log.where
            try:
                outcome = reading.record(name, values)
            except KeyError as error:
                report.issue("bad-record", f"{name} before {where}", f"its description has no field {error}")
                continue
            except TypeError:  # a number that its description calls a text, or the other way round
                report.issue("bad-record", f"{name} before {where}", "a field whose type isn't Legion's")
                continue
            if outcome == "unread":
                unread[name] += 1
            elif outcome in ("negative-duration", "time-range"):
                report.issue(outcome, f"{name} before {where}")
            else:
                report.used(outcome=outcome)
            yield from rows.ready()
    if log.problem:
        report.issue("cut", source.name, log.problem, 0)
    for name, count in sorted(unread.items()):
        report.used(count, outcome="specifications")
        report.issue("unknown-field", name, counted(count, "record"), 0)
    names.facts(rows)
    yield from rows.rest()


class _Reading:
    """Makes rows of records, each by its reader, which returns its outcome: None is a row."""

    def __init__(self, names: Names, rows: RowBuilder) -> None:
        self._names, self._rows = names, rows
        self._last: tuple[int, Values] = (-1, {})

    def record(self, name: str, values: Values) -> str | None:
        """Reads a record. Raises KeyError where it doesn't have a field that is needed."""
        if reader := _READERS.get(name):
            return reader(self, values)
        return "folded" if name.endswith("InstInfo") and name in KEPT else "catalog" if name in KEPT else "unread"

    def _place(self, processor: int) -> Values:
        return {"tid": processor & 0xFFF, **self._names.node(processor >> 40 & 0xFFFF)}

    def _slice(self, kind: str, name: str, start: int, stop: int, **columns: Any) -> str | None:
        if max(start, stop) >= _GREATEST_TIME:
            return "time-range"
        if stop < start:
            return "negative-duration"
        self._rows.event(kind, name, ts=start, dur=stop - start, **columns)
        return None

    def _args(self, values: Values) -> Values:
        """Times before the start, the operation and why it is: a line of the program."""
        args: Values = {name: values[name] for name in ("op_id", "create", "ready", "spawn") if name in values}
        if reason := self._names.texts.get(self._names.reasons.get(values.get("op_id", -1), 0)):
            args["provenance"] = reason
        return args

    def task(self, values: Values) -> str | None:
        """A task on its processor; that on a GPU has the time of its work there, too."""
        task, tasks = values["task_id"], self._names.tasks
        name = tasks.get(task) or tasks.get((task, values.get("variant_id"))) or f"task {task}"
        place, operation = self._place(values["proc_id"]), values["op_id"]
        self._last = operation, place
        typed: Values = {"cat": "task", "args": self._args(values), "correlation": operation}
        outcome = self._slice("op", name, values["start"], values["stop"], **typed, **place)
        begin, end = values.get("gpu_start", 0), values.get("gpu_stop", 0)
        if outcome is None and 0 < begin <= end < _GREATEST_TIME:
            where: Values = {typed: place[typed] for typed in ("pid", "host")}
            where["device"] = self._names.devices.get(values["proc_id"])
            self._slice("kernel", name, begin, end, correlation=operation, **where)
        return outcome

    def meta(self, values: Values) -> str | None:
        """Work of the runtime for an operation."""
        place = self._place(values["proc_id"])
        self._last = values["op_id"], place
        name = self._names.kinds.get(("meta", values["lg_id"]), f"meta task {values['lg_id']}")
        args = self._args(values)
        return self._slice("overhead", name, values["start"], values["stop"], cat="meta task", args=args, **place)

    def profiling(self, values: Values) -> str | None:
        """Work of the profiler itself."""
        place = self._place(values["proc_id"])
        return self._slice("overhead", "Legion Prof", values["start"], values["stop"], cat="profiler", **place)

    def wait(self, values: Values) -> str | None:
        """A wait within the task before it in the log, of the same operation."""
        operation, place = self._last
        where = place if operation == values["op_id"] else {}
        args = {"op_id": values["op_id"], "ready": values["wait_ready"]}
        return self._slice("sync", "wait", values["wait_start"], values["wait_end"], args=args, **where)

    def call(self, kind: str, values: Values) -> str | None:
        """A call of a mapper or of the runtime."""
        name = self._names.kinds.get((kind, values["kind"]), f"{kind} {values['kind']}")
        args = {"op_id": values["op_id"]} if values.get("op_id") else None
        place = self._place(values["proc_id"])
        return self._slice("range", name, values["start"], values["stop"], cat=kind, args=args, **place)

    def application(self, values: Values) -> str | None:
        """A range of the program."""
        name = self._names.texts.get(values["provenance"]) or f"provenance {values['provenance']}"
        place = self._place(values["proc_id"])
        return self._slice("range", name, values["start"], values["stop"], cat="application call", **place)

    def copy(self, values: Values) -> str | None:
        """A copy from a memory to another."""
        return self._moved("memcpy", "copy", values)

    def fill(self, values: Values) -> str | None:
        """Record of a memory and its fill level."""
        return self._moved("memset", "fill", values)

    def _moved(self, kind: str, name: str, values: Values) -> str | None:
        """Work of devices only where a memory is a GPU's."""
        source, target = self._names.moved.get(values["fevent"], (None, None))
        sides = ["D" if self._names.memories.get(one) in GPU_MEMORIES else "H" for one in (source, target) if one]
        typed: Values = {"track": name, "cat": name, "bytes": values["size"], "args": self._args(values)}
        if source and target:
            typed["copy_kind"] = "to".join(sides)
            typed["track"] = f"{self._names.memory(source)} to {self._names.memory(target)}"
        elif target:
            typed["track"] = self._names.memory(target)
        return self._slice(kind if "D" in sides else "range", name, values["start"], values["stop"], **typed)

    def partition(self, values: Values) -> str | None:
        """The computation of a partition."""
        number = values["part_op"]
        name = _PARTITIONS[number] if 0 <= number < len(_PARTITIONS) else f"partition {number}"
        typed = {"track": "partitions", "cat": "partition", "args": self._args(values)}
        return self._slice("op", name, values["start"], values["stop"], **typed)

    def instance(self, values: Values) -> str | None:
        """An instance in a memory: allocated and, unless the program ended before, freed."""
        create, destroy, size = values["create"], values["destroy"], values["size"]
        if create >= _GREATEST_TIME:
            return "time-range"
        typed: Values = {"track": self._names.memory(values["mem_id"]), "args": {"inst_uid": values["inst_uid"]}}
        self._rows.event("alloc", "instance", ts=create, bytes=size, **typed)
        if create <= destroy < _GREATEST_TIME:
            self._rows.event("alloc", "instance", ts=destroy, bytes=-size, **typed)
        return None


_READERS: dict[str, Callable[[_Reading, Values], str | None]] = {
    **dict.fromkeys(("TaskInfo", "ImplicitTaskInfo", "GPUTaskInfo"), _Reading.task),
    **dict.fromkeys(("MetaInfo", "MessageInfo"), _Reading.meta),
    **dict.fromkeys(("TaskWaitInfo", "MetaWaitInfo"), _Reading.wait),
    "ProfTaskInfo": _Reading.profiling,
    "MapperCallInfo": lambda reading, values: reading.call("mapper call", values),
    "RuntimeCallInfo": lambda reading, values: reading.call("runtime call", values),
    "ApplicationCallInfo": _Reading.application,
    "CopyInfo": _Reading.copy,
    "FillInfo": _Reading.fill,
    "PartitionInfo": _Reading.partition,
    "InstTimelineInfo": _Reading.instance,
}
