"""Events on threads: rocpd_region, rocpd_sample; and unknown tables with begin and end.

category HIP_RUNTIME_API        hipLaunchKernel                                              api
category MARKER_CORE_RANGE_API  roctxRangePushA, extdata {"message": "forward"}              range forward
rocpd_sample                    roctxMarkA, extdata {"message": "step 3"}                    instant step 3
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.sqlite.lookup import Children
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json

from .places import Columns
from .slices import TableReader, Tables, json_cells, unpacked
from .work import with_values

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
        found = tables.take_common(block)
        start, end = block.take("start"), block.take("end")
        names = tables.strings.column(block, block.take("name_id"), required=True)
        kinds = kinds_of(found["event"].get("cat"), len(block))
        named = with_messages(names, found["event"].get("extdata"))
        return tables.batches.events(
            block,
            tables.ids_of("region", block.numbers),
            kind=kinds,
            ts=start,
            dur=pc.subtract(end, start),
            tid=found["place"]["tid"],
            **with_values(found["columns"] | named),
        )


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
        found = tables.take_common(block)
        stacks = "args.call_stack" in found["columns"]
        ids = block.take("name_id")
        names = tables.strings.column(block, found["place"]["track"] if ids is None else ids, required=True)
        return tables.batches.events(
            block,
            tables.ids_of("sample", block.numbers),
            kind=pc.if_else(found["columns"]["args.call_stack"].is_valid(), "sample", "instant")
            if stacks
            else "instant",
            ts=block.take("timestamp"),
            tid=found["place"]["tid"],
            **with_values(found["columns"] | with_messages(names, found["event"].get("extdata"))),
        )


def read_others(tables: Tables, kind: str) -> Iterator[Batch]:
    """Yields the rows of a table that schema 4.1 doesn't have, by its columns `start` and `end`: ranges with its name.

    They are on the device if they have an agent. Except for waits (hip_event) they aren't device work, because other
    tables may contain the work inside them.
    """
    for block in tables.blocks(kind):
        found = tables.take_common(block)
        device = tables.infos.device.of(found["place"]["agent"])
        start, end = block.take("start"), block.take("end")
        names = tables.strings.column(block, block.take("name_id"))
        yield tables.batches.events(
            block,
            tables.ids_of(kind, block.numbers),
            kind=_OTHERS.get(kind, "range"),
            name=kind if names is None else names,
            ts=start,
            dur=pc.subtract(end, start),
            tid=None if device is not None else found["place"]["tid"],
            device=device,
            **with_values(found["columns"] | tables.places.stream(found["place"], device)),
        )


def kinds_of(categories: pa.DictionaryArray | None, rows: int) -> pa.Array:
    """The kind of each region by its category."""
    if categories is None:
        return constant("range", rows)
    words = [_kind(str(word)) for word in categories.dictionary.to_pylist()]
    return pc.fill_null(pa.array(words, pa.string()).take(categories.indices), "range")


def _kind(category: str) -> str:
    return next((kind for word, kind in _KINDS if word in category.upper()), "range")


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
