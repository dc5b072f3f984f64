"""Reads rocpd, process by process: regions, samples, kernels, copies, allocations, counters, facts.

Facts are the tool, hosts, processes, threads, GPUs with facts of their agents, streams. Events on threads are rows of
rocpd_region and rocpd_sample, and of unknown tables with begin and end:

category HIP_RUNTIME_API        hipLaunchKernel                                              api
category MARKER_CORE_RANGE_API  roctxRangePushA, extdata {"message": "forward"}              range forward
rocpd_sample                    roctxMarkA, extdata {"message": "step 3"}                    instant step 3
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.sqlite import opened
from ktrace.kit.sqlite.lookup import Children, first_ids
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder

from .counters import Counters
from .places import EVENT_TABLES, LOOKED_UP, TEXTS, WHOLE, Columns, ProcessTables, json_object, process_tables
from .slices import TableReader, Tables, json_cells, unpacked
from .work import Allocations, Copies, Kernels

#: Part of a category -> the kind of its regions; the first match wins, other categories are ranges.
_KINDS = (
    ("MARKER", "range"),
    ("KFD", "range"),
    ("API", "api"),
    ("HIP", "api"),
    ("HSA", "api"),
    ("RCCL", "api"),
    ("MPI", "api"),
    ("OMPT", "api"),
    ("ROCDECODE", "api"),
    ("ROCJPEG", "api"),
    ("ROCSHMEM", "api"),
)
_MESSAGE = r'^\s*\{\s*"message"\s*:\s*"(?P<message>[^"\\\x00-\x1f]+)"\s*\}\s*$'
_HAS_MESSAGE = re.compile(r'"message"\s*:')

#: Tables from after schema 4.1 -> the kind of their rows.
_OTHERS = {"event_operation": "sync", "hip_event": "sync"}


class Regions(TableReader):
    """The rows of rocpd_region."""

    kind = "region"

    def _batch(self, block: Block) -> Batch:
        tables = self._tables
        common = tables.take_common(block)
        names = tables.strings.column(block, block.take("name_id"), required=True)
        kinds = kinds_of(common["event"].get("cat"), len(block))
        named = with_messages(names, common["event"].get("extdata"))
        typed = {"kind": kinds, "tid": common["place"]["tid"]}
        return tables.spans(self.kind, block, typed | common["columns"] | named)


class Samples:
    """The rows of rocpd_sample: instants, or sampled stacks. `Counters` reads the samples of counters."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._counters = [
            Children(tables.database, table, key, [], tables.part.where)
            for table in [tables.part.table("pmc_event")]
            for key in ("event_id", "sample_id")
            if table and tables.database.has(table, key)
        ]

    def read(self) -> Iterator[Batch]:
        """Yields all samples, in the order of the table."""
        for block in self._tables.blocks("sample", timed_by=("timestamp", None)):
            left = self._without_counters(block)
            if len(left):
                yield self._batch(left)

    def _without_counters(self, block: Block) -> Block:
        """The samples that don't only have the time of a counter."""
        counted = pa.array([False] * len(block))
        for children, key in zip(self._counters, ("event_id", "sample_id"), strict=False):
            keys = block.get("event_id") if key == "event_id" else block.numbers
            if keys is not None and len(of := children.of(keys).of):
                counted = pc.or_(counted, pc.is_in(keys, value_set=keys.take(pa.array(of))))
        self._tables.conversion.report.used(counted.true_count, outcome="counters")
        return block.filter(pc.invert(counted)) if counted.true_count else block

    def _batch(self, block: Block) -> Batch:
        tables = self._tables
        common = tables.take_common(block)
        stacks = common["columns"].get("args.call_stack")
        ids = block.take("name_id")
        names = tables.strings.column(block, common["place"]["track"] if ids is None else ids, required=True)
        return tables.batches.events(
            block,
            tables.ids_of("sample", block.numbers),
            kind="instant" if stacks is None else pc.if_else(stacks.is_valid(), "sample", "instant"),
            ts=block.take("timestamp"),
            tid=common["place"]["tid"],
            **(common["columns"] | with_messages(names, common["event"].get("extdata"))),
        )


def read_others(tables: Tables, kind: str) -> Iterator[Batch]:
    """Yields the rows of a table that schema 4.1 doesn't have, by its columns `start` and `end`: ranges with its name.

    They are on the device if they have an agent. Except for waits (hip_event) they aren't device work, because other
    tables may contain the work inside them.
    """
    for block in tables.blocks(kind):
        common = tables.take_common(block)
        device = tables.infos.device.of(common["place"]["agent"])
        names = tables.strings.column(block, block.take("name_id"))
        typed = {"kind": _OTHERS.get(kind, "range"), "name": kind if names is None else names, "device": device}
        typed["tid"] = common["place"]["tid"] if device is None else None
        yield tables.spans(kind, block, typed | common["columns"] | tables.places.stream(common["place"], device))


def kinds_of(categories: pa.DictionaryArray | None, rows: int) -> pa.Array:
    """The kind of each region by its category."""
    if categories is None:
        return constant("range", rows)
    spelled = [str(word).upper() for word in categories.dictionary.to_pylist()]
    words = [next((kind for part, kind in _KINDS if part in word), "range") for word in spelled]
    return pc.fill_null(pa.array(words, pa.string()).take(categories.indices), "range")


def with_messages(names: pa.Array, extdata: pa.Array | None) -> Columns:
    """Returns names, and the events' extdata: the message of a marker is its name, its function an argument."""
    if extdata is None or extdata.null_count == len(extdata):
        return {"name": names}
    extdata = unpacked(extdata)
    if not pa.types.is_string(extdata.type):
        return {"name": names, "args.event_extdata": json_cells(extdata)}
    messages = pc.struct_field(pc.extract_regex(extdata, _MESSAGE), "message")
    rest = pc.if_else(messages.is_valid(), None, extdata)
    hard = pc.fill_null(pc.match_substring_regex(rest, _HAS_MESSAGE.pattern), False)
    if hard.true_count:
        read = [_message(text) for text in rest.filter(hard).to_pylist()]
        messages = pc.replace_with_mask(messages, hard, pa.array([message for message, _ in read], pa.string()))
        rest = pc.replace_with_mask(rest, hard, pa.array([left for _, left in read], pa.string()))
    functions = names.dictionary_decode() if pa.types.is_dictionary(names.type) else names
    return {
        "name": pc.coalesce(messages, functions) if messages.null_count < len(messages) else names,
        "args.function": pc.if_else(messages.is_valid(), functions, None),
        "args.event_extdata": json_cells(rest),
    }


def _message(text: str) -> tuple[str | None, str]:
    """Splits an object into its message and the rest."""
    try:
        value = load_json(text)
    except ValueError:
        return None, text
    message = value.pop("message", None) if isinstance(value, dict) else None
    if not isinstance(message, str) or not message:
        return None, text
    return message, json.dumps(value)


#: Fact -> its key in an agent's JSON.
_AGENT = {
    "sm_count": "cu_count",
    "arch": "name",
    "wavefront_size": "wave_front_size",
    "max_clock_mhz": "max_engine_clk_fcompute",
    "xcc_count": "num_xcc",
    "shader_engines": "num_shader_banks",
}


def add_facts(tables: Tables, rows: RowBuilder) -> None:
    """Adds the facts of processes and devices."""
    infos = tables.infos
    _metadata(tables, rows)
    for node in infos.nodes.to_pylist():
        host = infos.host.one(node["id"])
        if host:
            rows.fact("host", host=host, name=host, facts=_nonempty({"os": node["system_name"]}))
    for process in infos.processes.to_pylist():
        place = {"host": infos.host.one(process["nid"]), "pid": infos.pid.one(process["id"])}
        command = process["command"]
        program = command.split(" ", maxsplit=1)[0].rsplit("/", 1)[-1] if command else None
        name = process["name"] or program
        rows.fact("process", **place, name=name, facts=_nonempty({"command": command, "ppid": process["ppid"]}))
    for thread in infos.threads.to_pylist():
        place = {"host": infos.host.one(thread["nid"]), "pid": infos.pid.one(thread["pid"])}
        if thread["name"]:
            rows.fact("thread", **place, tid=infos.tid.one(thread["id"]), name=thread["name"])
    for agent in infos.agents.to_pylist():
        if agent["type"] == "GPU":
            _device(tables, rows, agent)
    tables.places.facts(rows)
    _environment(tables, tables.conversion)


def _metadata(tables: Tables, rows: RowBuilder) -> None:
    table = tables.part.table("metadata")
    tags = tables.database.rows(table, "tag", "value") if table else []
    facts = {str(tag): value for tag, value in tags if tag and value}
    if not facts:
        return
    rows.fact("source", facts={"tool": "rocprofiler-sdk", **facts})


def _device(tables: Tables, rows: RowBuilder, agent: dict[str, Any]) -> None:
    details = json_object(agent["extdata"])
    name = agent["product_name"] or agent["user_name"] or agent["model_name"] or agent["name"]
    facts = {
        "api": "hip",
        "vendor": agent["vendor_name"] or "AMD",
        **{fact: details.get(key) for fact, key in _AGENT.items()},
        "arch": agent["name"],
        "bus_id": bus_id(details),
        "type_index": agent["type_index"],
        "logical_index": agent["logical_index"],
    }
    host = tables.infos.host.one(agent["nid"])
    rows.fact("device", host=host, device=tables.infos.device.one(agent["id"]), name=name, facts=_nonempty(facts))


def bus_id(agent: dict[str, Any]) -> str | None:
    """The PCI address of an agent: its domain and location_id (bus, device and function in 8, 5 and 3 bits)."""
    location = agent.get("location_id")
    if not isinstance(location, int) or not location:
        return None
    domain = agent.get("domain") if isinstance(agent.get("domain"), int) else 0
    return f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7}"


def _environment(tables: Tables, conversion: Conversion) -> None:
    """Reports that the environment of a process is left out, if there is one."""
    table = tables.part.table("info_process")
    if table and tables.database.has(table, "environment"):
        environments = tables.database.part(table, ["environment"], tables.part.where).column("environment").to_pylist()
        if count := sum(text not in (None, "", "{}", b"") for text in environments):
            conversion.report.issue("environment", table, rows=count)


def _nonempty(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value not in (None, "")}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all processes. Raises DamagedInput for a database that can't be read."""
    with opened(source, conversion) as database:
        database.declare(whole=WHOLE, texts=TEXTS)
        parts = process_tables(database)
        if not any(kind in EVENT_TABLES for part in parts for kind in part.tables):
            raise DamagedInput(
                "has none of rocpd's tables",
                path=source.path,
                expected=f"a database with tables like {', '.join(f'rocpd_{kind}' for kind in EVENT_TABLES[:4])}",
                remedy="leave out --from, or record it again with rocprofv3",
            )
        tables = dict.fromkeys(table for part in parts for kind, table in _in_order(part) if kind not in LOOKED_UP)
        pmc = {part.table("pmc_event") for part in parts}
        ids = first_ids(database, [(table, 2 if table in pmc else 1) for table in tables])
        rows = RowBuilder(conversion, first_id=0)
        rows.fact("clock", facts={"kind": "boottime"})
        for part in parts:
            read_tables = Tables(database, part, ids, conversion)
            for readers in (Regions, Samples, Kernels, Copies, Allocations):
                yield from readers(read_tables).read()
            for kind in part.tables:
                yield from _other(read_tables, part, kind)
            yield from Counters(read_tables).read()
            read_tables.arguments.close()
            add_facts(read_tables, rows)
        yield from rows.rest()
        database.report_others(table for part in parts for table in part.tables.values())


def _in_order(part: ProcessTables) -> list[tuple[str, str]]:
    """The tables of a process in the order in which they are read, unknown ones last."""
    order = {kind: number for number, kind in enumerate((*EVENT_TABLES[:-2], "", *EVENT_TABLES[-2:]))}
    return sorted(part.tables.items(), key=lambda item: (order.get(item[0], order[""]), item[0]))


def _other(tables: Tables, part: ProcessTables, kind: str) -> Iterator[Batch]:
    """Yields the rows of an unknown table, if it has begins and ends; else reports them."""
    if kind in LOOKED_UP or kind in EVENT_TABLES:
        return
    table = part.tables[kind]
    if tables.database.has(table, "start") and tables.database.has(table, "end"):
        yield from read_others(tables, kind)
    else:
        tables.database.report_unread(table)
