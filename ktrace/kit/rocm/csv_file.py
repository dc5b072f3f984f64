"""Reads one CSV file of ROCm's profilers, whichever table it contains: dispatches, or what the rows of others become.

    Domain HIP_RUNTIME_API  Function hipMemcpy      api; in a domain MARKER_* a range, or an instant if it takes no time
    Direction HOST_TO_DEVICE  Source Agent 0  Destination Agent 4       memcpy HtoD on device 4
    Operation KernelExecution  Kernel_Name f        an activity of rocprofv2: kernel
    Name f  Calls 3  TotalDurationNs 900            summary

The place of a row is `host/12_kernel_trace.csv: line 7` if the file is one of a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Text, Time, Whole, Word, joined, typed
from ktrace.kit.text.headings import STATISTICS, Columns, heading, plain, read_figures
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder

from .common import agent, agents, copy_kinds, executed, short_names, work_kind
from .dispatches import IDS, DispatchRows, KnownDispatches, with_usable_times
from .tables import (
    AGENTS,
    ALLOCATION,
    API,
    COPY,
    COUNTERS,
    DISPATCH,
    MARKER,
    OPERATION,
    REGION,
    SAMPLES,
    SCRATCH,
    STATS,
    table_kind,
)

#: The ids of a file in a folder begin at this times its number: enough for 2^32 lines.
IDS_OF_FILE = 1 << 44


@dataclass
class RocmFile:
    """A file: its place, what its name says about its rows, and the dispatches in other files of its process.

    `scope` is the subject of its statistics. `number` is its position among the files.
    """

    source: Source
    number: int = 0
    place: str = ""
    pid: int | None = None
    host: str | None = None
    scope: str = ""
    dispatched: KnownDispatches = field(default_factory=KnownDispatches)
    remember: bool = False


#: What a format does with a line outside of tables: it may make rows of lines.
OnLine = Callable[[Line, CsvBlocks], Iterator[CsvRows]]


def read_file(
    file: RocmFile,
    conversion: Conversion,
    agents: Agents,
    rows: RowBuilder,
    on_line: OnLine | None = None,
    at_end: Callable[[], Iterator[CsvRows]] | None = None,
) -> Iterator[Batch]:
    """Yields the rows of a file; adds statistics to `rows`, agents to `agents`.

    `at_end` yields the rows that `on_line` gathered.
    """
    reading = _CsvReader(file, conversion, agents, rows)
    blocks = CsvBlocks(file.source, conversion, table_kind, place=file.place)
    for item in blocks:
        if isinstance(item, CsvRows):
            yield from reading.rows(item)
        elif isinstance(item, Line) and on_line:
            for part in on_line(item, blocks):
                yield from reading.rows(part)
        yield from rows.ready()
    for part in at_end() if at_end else ():
        yield from reading.rows(part)


class _CsvReader:
    """Makes rows of the tables of a file."""

    def __init__(self, file: RocmFile, conversion: Conversion, agents: Agents, rows: RowBuilder) -> None:
        first, pid, host = file.number * IDS_OF_FILE, file.pid, file.host
        self._file = file
        self._conversion = conversion
        self._agents = agents
        self._summaries = rows
        self._others = OtherRows(conversion, first_id=first, pid=pid, host=host)
        self._dispatches = DispatchRows(
            conversion,
            first_id=first,
            pid=pid,
            host=host,
            dispatched=file.dispatched,
            remember=file.remember,
            engines=agents.engines,
        )

    def rows(self, item: CsvRows) -> Iterator[Batch]:
        kind, file = item.table.what, self._file
        if kind in (DISPATCH, COUNTERS):
            yield from self._dispatches.rows(item)
        elif kind == AGENTS:
            self._agents.feed(item, self._conversion, file.host)
        elif kind == STATS:
            add_statistics(
                item,
                self._summaries,
                self._conversion,
                first_id=file.number * IDS_OF_FILE,
                scope=file.scope,
                host=file.host,
                pid=file.pid,
            )
        else:
            yield self._others.rows(item)


_TIMES: dict[str, Field] = {
    "ts": Time("Start_Timestamp", "Begin_Timestamp", "Sample_Timestamp", "Timestamp"),
    "end": Time("End_Timestamp", "Stop_Timestamp"),
    "pid": Whole("Process_Id", "PID"),
    "tid": Whole("Thread_Id", "TID"),
    "correlation": Whole("Correlation_Id", "Correlation_ID"),
    "cat": Word("Domain", "Kind"),
}

_FIELDS: dict[str, dict[str, Field]] = {
    API: _TIMES | {"name": Text("Function")},
    COPY: _TIMES
    | {
        "name": Text("Direction"),
        "stream": Whole("Stream_Id"),
        "source": Word("Source_Agent_Id"),
        "target": Word("Destination_Agent_Id"),
        "bytes": Whole("Copy_Bytes", "Size", "Bytes"),
    },
    OPERATION: _TIMES | {"operation": Word("Operation", "Operation_Name"), "name": Text("Kernel_Name")},
    ALLOCATION: _TIMES | {"name": Text("Operation"), "agent": Word("Agent_Id"), "bytes": Whole("Allocation_Size")},
    SCRATCH: _TIMES
    | {
        "name": Text("Operation"),
        "agent": Word("Agent_Id"),
        "bytes": Whole("Allocation_Size"),
        "stream": Whole("Queue_Id"),
    },
    SAMPLES: _TIMES | {"name": Text("Instruction")},
    MARKER: _TIMES | {"name": Text("Message", "ROCTX_Message")},
    REGION: _TIMES | {"name": Text("Operation"), "agent": Word("Agent_Id")},
}

_STATISTICS = Columns(
    {"name": ("name",), **STATISTICS, "total": ("total duration",), "avg": ("average",)},
    required=("name", "count", "total"),
)

#: Fact -> its column in agent_info.
_FACTS = {
    "arch": "Name",
    "sm_count": "Cu_Count",
    "wavefront_size": "Wave_Front_Size",
    "max_clock_mhz": "Max_Engine_Clk_Fcompute",
    "xcc_count": "Num_Xcc",
    "shader_engines": "Num_Shader_Banks",
}
_DOMAINS = (
    "HIP_",
    "HSA_",
    "RCCL_",
    "MARKER_",
    "ROCTX",
    "ROCDECODE",
    "ROCJPEG",
    "KERNEL_DISPATCH",
    "OMPT",
    "SCRATCH_MEM",
)


class OtherRows:
    """Makes events of rows of one file. `pid` and `host` are for rows without one, `first_id` is added to all ids."""

    def __init__(
        self, conversion: Conversion, *, first_id: int = 0, pid: int | None = None, host: str | None = None
    ) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self._first = first_id
        self._pid = pid
        self._host = host

    def rows(self, item: CsvRows) -> Batch:
        """The events of some rows."""
        kind = item.table.what
        fields = _FIELDS[kind]
        block = typed(with_usable_times(item, fields, self._conversion.report), fields, self._conversion.report)
        if kind in (SAMPLES, MARKER):
            block = timed(block, self._conversion, "<ts>")
        else:
            block = timed(executed(block, self._conversion, "<ts>", "<end>"), self._conversion, "<ts>", "<end>")
        ids = self._first + block.numbers.to_numpy() * IDS
        pid = block.take("<pid>")
        columns: dict[str, Any] = {
            "host": self._host,
            "pid": self._pid if pid is None else pid,
            "tid": block.take("<tid>"),
            **block.span("<ts>", "<end>"),
            "cat": block.take("<cat>"),
            "name": block.take("<name>"),
            "correlation": nonzero(block.take("<correlation>")),
        }
        columns |= _COLUMNS_OF[kind](block, columns)
        if kind in (COPY, OPERATION, ALLOCATION, SCRATCH):
            columns["args.Thread_Id"] = columns.pop("tid")  # work isn't on the thread that asked for it
        return self._batches.events(block, ids, **joined(block, columns))


def _calls(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """A call, or a user's marker, which starts no work and may belong to no thread."""
    domains = columns["cat"]
    if domains is None:
        return {"kind": "api"}
    is_marker = pc.fill_null(pc.match_substring_regex(domains, "(?i)^(marker|roctx)"), False)
    if not is_marker.true_count:
        return {"kind": "api"}
    marker = is_marker.to_numpy(zero_copy_only=False)
    at_once = pc.equal(columns["dur"], 0).to_numpy(zero_copy_only=False)
    kinds = np.where(marker, np.where(at_once, "instant", "range"), "api")
    tid = columns["tid"]
    typed: dict[str, Any] = {"kind": pa.array(kinds.tolist(), pa.string())}
    typed["dur"] = only(columns["dur"], ~(marker & at_once))
    if columns["correlation"] is not None:
        typed["correlation"] = only(columns["correlation"], ~marker)
        typed["args.Correlation_Id"] = only(columns["correlation"], marker)
    if tid is not None:
        of_process = marker & pc.fill_null(pc.equal(tid, 0), False).to_numpy(zero_copy_only=False)
        typed["tid"] = only(tid, ~of_process)
    return typed


def _copies(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """A copy is on its destination device; a copy to the host is on its source device."""
    ways = copy_kinds(columns["name"])
    source, target = block.take("<source>"), block.take("<target>")
    typed: dict[str, Any] = {"kind": "memcpy", "copy_kind": ways, "bytes": block.take("<bytes>")}
    typed |= {"stream": block.take("<stream>")}
    if source is None or target is None or ways is None:
        return typed
    home = pc.fill_null(pc.equal(ways, "DtoH"), False)
    numbers = [column.cast(pa.int64()) for column in (agents(source), agents(target)) if column is not None]
    typed["device"] = pc.if_else(home, *numbers)
    home_rows = home.to_numpy(zero_copy_only=False)
    is_given = [present(number) for number in numbers]
    typed["args.Source_Agent_Id"] = only(source, ~home_rows | ~is_given[0])
    typed["args.Destination_Agent_Id"] = only(target, home_rows | ~is_given[1])
    return typed


def _operations(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """An activity of rocprofv2: a kernel, a copy or a fill, by its operation."""
    operations = block.take("<operation>")
    if operations is None:
        return {"kind": "kernel"}
    kinds = by_distinct(operations, work_kind, pa.string())
    names = columns["name"]
    is_kernel = None if names is None else pc.not_equal(pc.fill_null(names, ""), "")
    kinds = pc.coalesce(kinds, "range" if is_kernel is None else pc.if_else(is_kernel, "kernel", "range"))
    ways = copy_kinds(operations)
    assert ways is not None
    named = operations if names is None else pc.if_else(pc.equal(names, ""), operations, names)
    short = None if names is None else short_names(names)
    return {
        "kind": kinds,
        "name": pc.fill_null(named, ""),
        "short_name": short,
        "copy_kind": ways,
        "args.Operation": None
        if names is None
        else only(operations, pc.not_equal(names, "").to_numpy(zero_copy_only=False)),
    }


def _allocations(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """An allocation; freed bytes are negative."""
    bytes_, agent_ = block.take("<bytes>"), block.take("<agent>")
    freed = pc.match_substring_regex(columns["name"], "(?i)free|reclaim")
    typed: dict[str, Any] = {"kind": "alloc", "stream": block.take("<stream>")}
    if bytes_ is not None:
        typed["bytes"] = pc.if_else(freed, pc.negate(bytes_), bytes_)
    if agent_ is not None:
        typed["device"] = agents(agent_)
    return typed


def _samples(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The instruction that a wave was executing; without one, the comment."""
    names, comments = columns["name"], block.get("Instruction_Comment")
    typed: dict[str, Any] = {"kind": "sample", "correlation": None, "args.Correlation_Id": columns["correlation"]}
    if names is None:
        return typed | {"name": pa.array(["sample"] * len(block), pa.string())}
    if comments is not None and not pa.types.is_integer(comments.type):
        comments = comments.cast(pa.string())
        names = pc.if_else(pc.equal(names, ""), pc.fill_null(comments, "sample"), names)
    return typed | {"name": names}


def _marks(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Marks and begins of ranges, by their message. The end of a range has no message and no id of its range."""
    names, nameless = columns["name"], "(a range ends)"
    shown = nameless if names is None else pc.if_else(pc.equal(pc.fill_null(names, ""), ""), nameless, names)
    return {"kind": "instant", "name": shown}


def _regions(block: Block, columns: Mapping[str, Any]) -> dict[str, Any]:
    """A row with times from a table of unknown kind."""
    agent_ = block.take("<agent>")
    return {"kind": "range", "device": None if agent_ is None else agents(agent_)}


_COLUMNS_OF = {
    API: _calls,
    COPY: _copies,
    OPERATION: _operations,
    ALLOCATION: _allocations,
    SCRATCH: _allocations,
    SAMPLES: _samples,
    MARKER: _marks,
    REGION: _regions,
}


def add_statistics(
    item: CsvRows,
    rows: RowBuilder,
    conversion: Conversion,
    *,
    first_id: int,
    scope: str,
    host: str | None,
    pid: int | None,
) -> None:
    """Adds the summaries of a table of statistics. `scope` is their subject, by the file's name."""
    headings = [heading(name) for name in item.table.headings]
    fields = _STATISTICS.match(headings) or {}
    columns = [item.block.take(name).to_pylist() for name in item.table.headings]  # type: ignore[union-attr]
    for line, *cells in zip(item.block.numbers.to_pylist(), *columns, strict=True):
        name = cells[fields["name"]].strip() if fields else ""
        figures = read_figures(headings, cells, fields, unit="ns")
        if not name or not figures:
            conversion.report.issue("bad-record", f"{item.block.place} {line}", "no figure" if name else "no name")
            continue
        rows.summary(
            kind_of(name, scope),
            name,
            id=first_id + line * IDS,
            scope=[scope] if scope else None,
            table=item.table.ordinal,
            host=host,
            pid=pid,
            args=figures.args,
            **figures.columns,
        )
        conversion.report.used()


#: Calls by name; RCCL's kernels are called ncclDevKernel_..., its functions ncclAllReduce.
_CALL = re.compile("(?:__)?hip|hsa_|nccl(?!(?:Dev)?Kernel)|rocDec|rocJpeg")


def kind_of(name: str, scope: str) -> str:
    """Returns the kind of a row of statistics, by its file or by its name."""
    if "domain" in scope or name.startswith(_DOMAINS):
        return "total"
    if "copy" in scope or name.startswith(("MEMORY_COPY", "Copy")):
        return "memcpy"
    if "memory" in scope:
        return "alloc"
    if "marker" in scope or "roctx" in scope:
        return "range"
    is_call = _CALL.match(name) and "kernel" not in scope
    return "api" if any(word in scope for word in ("api", "hip", "hsa", "rccl")) or is_call else "kernel"


class Agents:
    """The content of agent_info: facts of GPUs, and the engines for the means of counters."""

    def __init__(self) -> None:
        self._gpus: dict[tuple[str | None, int], dict[str, Any]] = {}
        self.engines: dict[int, tuple[int | None, int | None]] = {}

    def feed(self, item: CsvRows, conversion: Conversion, host: str | None) -> None:
        """Takes the rows of an agent_info. Agents that aren't GPUs are dropped."""
        columns = {name: item.block.take(name).to_pylist() for name in item.table.headings}  # type: ignore[union-attr]
        for index in range(len(item.block)):
            facts = {name: plain(cells[index]) for name, cells in columns.items() if cells[index] != ""}
            number = agent(str(facts.get("Logical_Node_Id", facts.get("Node_Id", ""))))
            if number is None:
                conversion.report.issue("bad-record", item.block.where(index), "no Node_Id")
                continue
            conversion.report.used(outcome="catalog")
            if facts.get("Agent_Type") == "GPU":
                self._gpus[host, number] = facts
                self.engines[number] = (
                    _to_int_or_none(facts.get("Num_Xcc")),
                    _to_int_or_none(facts.get("Num_Shader_Banks")),
                )

    def facts(self, rows: RowBuilder, first_id: int) -> int:
        """Adds the GPUs to the catalog, and returns the next id."""
        for (host, number), gpu in sorted(self._gpus.items(), key=repr):
            facts: dict[str, Any] = {"api": "hip", "vendor": gpu.get("Vendor_Name") or "AMD"}
            facts |= {fact: gpu[name] for fact, name in _FACTS.items() if name in gpu}
            facts |= {name: value for name, value in gpu.items() if name not in (*_FACTS.values(), "Vendor_Name")}
            name = str(gpu.get("Product_Name") or gpu.get("Name") or "GPU")
            first_id = rows.fact("device", id=first_id, host=host, device=number, name=name, facts=facts) + 1
        return first_id


def _to_int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) else None
