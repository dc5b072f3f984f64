"""TrackEvents: events on the tracks of the host, with names, categories, arguments, arrows and callstacks.

The UI makes a flame graph of interned callstacks where a part of a track is selected:

    catalog   stack "3"   frames ["main (run.py:9)", "step (run.py:4)"]
    row       sample  args.stack "3"  value 250000 ns

    interned_data { function_names { iid 1 str "main" } function_names { iid 2 str "step" } source_paths { ... }
                    frames { iid 1 function_name_id 1 source_path_iid 1 line_number 9 } frames { ... }
                    callstacks { iid 1 frame_ids 1 frame_ids 2 } }
    track_event { ... callstack_iid 1 callstack_weight 250000 }

Engines know them from v53 on, weights and the flame graph of a selection from v58 on.
"""

from __future__ import annotations

import re
from collections.abc import Set

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit import timelines
from ktrace.kit.timelines import masked, plain, word_numbers
from ktrace.model.arrays import AnyArray, Bools
from ktrace.model.batch import POINT_KINDS, SLICE_KINDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, load_object
from ktrace.model.masks import present, words_in

from .. import field_numbers as f
from ..sidecar import CATEGORY_KINDS, RESERVED, argument_name
from ..wire import bytes_tag, double_tag, int_tag, message
from .arguments import (
    ArgumentTexts,
    HostArguments,
    HostArrows,
    InternedTexts,
    argument_field,
    coded,
    fresh,
    is_integral,
    object_field,
    validity,
    whole,
)
from .fields import CodedField, Field, FixedField, MessageField, VarintField, number_field

_TAG = HostArguments.tag
_ENTRY = bytes_tag(f.DEBUG_ANNOTATION["dict_entries"])
_COUNTER_INT = int_tag(f.TRACK_EVENT["counter_value"])
_COUNTER_DOUBLE = double_tag(f.TRACK_EVENT["double_counter_value"])


def argument_columns(batch: Batch) -> dict[str, pa.Array]:
    """Returns the arguments of events that are columns; `kind` only if the category doesn't imply it.

    Without `id`, which the packet has.
    """
    show_kind = None
    if batch.has("cat"):
        implied = word_numbers(batch.column("cat"), _IMPLIED_KINDS, _OTHER)
        kinds = word_numbers(batch.column("kind"), _KINDS, _OTHER)
        show_kind = (implied >= 0) & ((kinds != implied) | (implied == _OTHER))
    columns = timelines.argument_columns(batch, show_kind)
    columns.pop("id", None)  # absent if there are no rows
    return columns


def source_columns(batch: Batch, reserved: Set[str], texts: ArgumentTexts) -> dict[str, pa.Array]:
    """Returns the source's arguments by the name that is written; as texts `args` those that can't be columns."""
    columns = {argument_name(name.removeprefix("args."), reserved): batch.column(name) for name in batch.typed_args()}
    if batch.has("args"):
        split = texts.columns(batch.column("args"))
        named = {argument_name(key, reserved): column for key, column in (split or {}).items()}
        if split is None or len(named) < len(split) or not named.keys().isdisjoint(columns):
            named = {"args": batch.column("args")}
        columns |= named
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


#: Kind -> number; category -> number of the kind that it implies.
_KINDS = {kind: number for number, kind in enumerate((*SLICE_KINDS, *POINT_KINDS))}
_IMPLIED_KINDS = {category: _KINDS[kind] for category, kind in CATEGORY_KINDS.items()}
_OTHER = 100


class HostRows(msgspec.Struct, frozen=True):
    """Rows of a batch that become TrackEvents: the fields of type and track of each, its arrows, and its source."""

    batch: Batch
    place: CodedField
    arrows: HostArrows
    source: AnyArray

    def __len__(self) -> int:
        return len(self.batch)


class TrackEvents:
    """Encodes TrackEvents of one sequence; `catalog` has the stacks that events name."""

    def __init__(self, catalog: Catalog) -> None:
        self._stacks = Callstacks(catalog)
        self._arguments = HostArguments()
        self._texts = ArgumentTexts()
        self._names = InternedTexts(f.INTERNED_DATA["event_names"], f.TRACK_EVENT["name_iid"], f.TRACK_EVENT["name"])
        self._categories = InternedTexts(
            f.INTERNED_DATA["event_categories"], f.TRACK_EVENT["category_iids"], f.TRACK_EVENT["categories"]
        )

    def fresh(self) -> bytes:
        """Returns the entries of InternedData that are new since the last call."""
        return fresh(self._stacks, self._categories, self._names, self._arguments.names, self._arguments.texts)

    def fields(self, rows: HostRows) -> list[Field]:
        """Returns the fields of the TrackEvents of rows."""
        batch = rows.batch
        counter = words_in(batch.column("kind"), ("counter",))
        names = masked(batch.column("name"), ~counter) if counter.any() else batch.column("name")
        chosen = batch.column("kind")
        if batch.has("cat"):
            chosen = batch.column("cat")
            if chosen.null_count:
                chosen = pc.coalesce(plain(batch, "cat"), plain(batch, "kind"))
        fields: list[Field] = [
            rows.place,
            coded(chosen, lambda text, _: self._categories.field(text)),
            *_counter_values(batch, counter),
            *rows.arrows.fields(),
            *self._stacks.fields(batch, rows.source),
            coded(names, lambda name, many: self._names.field(name, often=many)),
        ]
        columns = argument_columns(batch)
        for axis in ("grid", "block"):
            fields += _dimensions(batch, axis, self._arguments)
        source = source_columns(batch, RESERVED, self._texts)
        texts = source.pop("args", None)
        for name, column in (columns | source).items():
            field = argument_field(name, column, self._arguments, _TAG)
            fields += [field] if field is not None else []
        if texts is not None:
            fields.append(object_field(texts, self._arguments, lambda key: argument_name(key, RESERVED), _TAG))
        return fields


def _counter_values(batch: Batch, counter: Bools) -> list[Field]:
    """Returns the values of counters: whole ones as integers, which are shorter."""
    if not batch.has("value") or not counter.any():
        return []
    which = counter & present(batch.column("value"))
    value = pc.fill_null(batch.column("value"), 0.0).to_numpy(zero_copy_only=False)
    integer = which & is_integral(value)
    return [
        VarintField(_COUNTER_INT, np.where(integer, value, 0).astype(np.int64).view(np.uint64), integer),
        FixedField(_COUNTER_DOUBLE, np.ascontiguousarray(value).view(np.uint64), which & ~integer),
    ]


def _dimensions(batch: Batch, name: str, into: HostArguments) -> list[Field]:
    """Returns `grid` or `block` as {x, y, z}, or as a number if only the product is known."""
    axes = {axis: batch.column(f"{name}_{axis}") for axis in "xyz"}
    x, y, z = (present(column) for column in axes.values())
    alone, several = x & ~y & ~z, y | z
    if not x.any() and not several.any():
        return []
    head = into.head(name)
    parts: list[Field] = [
        number_field(_ENTRY, into.head(axis), into.int_tag, whole(column), validity(column))
        for axis, column in axes.items()
    ]
    return [number_field(_TAG, head, into.int_tag, whole(axes["x"]), alone), MessageField(_TAG, head, parts, several)]


#: The text of a frame with its place: step (run.py:4).
_PLACED = re.compile(r"([^\n]+) \(([^()\n]+?)(?::([0-9]{1,9}))?\)")

#: The arguments that name a stack; the second is that of Trace Event JSON.
_NAMES = ("stack", "$sf")

_WEIGHT = double_tag(f.TRACK_EVENT["callstack_weight"])


class Callstacks:
    """Interns the stacks that events name, on one sequence. New entries gather in `fresh`."""

    def __init__(self, catalog: Catalog) -> None:
        self.fresh: list[bytes] = []
        self._catalog = catalog
        self._any = bool(catalog.of("stack"))
        self._numbers: dict[tuple[str, bytes], int] = {}  # field of InternedData, and the entry -> its number

    def fields(self, batch: Batch, source: AnyArray) -> list[Field]:
        """The fields of events with a stack that the catalog knows of their source, and the weight of samples."""
        keys = _keys(batch) if self._any else None
        if keys is None:
            return []
        named = pc.binary_join_element_wise(pa.array(source, pa.string()), keys, "\0")
        stacks = coded(named, lambda text, _: self._reference(text.decode()))
        if not any(stacks.table.pieces):
            return []
        fields: list[Field] = [stacks]
        if batch.has("value"):
            weighed = words_in(batch.column("kind"), ("sample",)) & present(batch.column("value")) & (stacks.codes >= 0)
            weights = np.ascontiguousarray(pc.fill_null(batch.column("value"), 0.0).to_numpy(zero_copy_only=False))
            fields += [FixedField(_WEIGHT, weights.view(np.uint64), weighed)] if weighed.any() else []
        return fields

    def _reference(self, named: str) -> bytes:
        """The field of an event with a stack, by its source and key; empty if the catalog doesn't have its frames."""
        source, _, key = named.partition("\0")
        entry = self._catalog.get("stack", key, source=source)
        frames = entry.facts.get("frames") if entry else None
        if not isinstance(frames, list) or not frames:
            return b""
        stack = message(f.CALLSTACK, frame_ids=[self._frame(str(frame)) for frame in frames])
        return message(f.TRACK_EVENT, callstack_iid=self._interned("callstacks", stack))

    def _frame(self, text: str) -> int:
        """The number of a frame."""
        placed = _PLACED.fullmatch(text)
        name, path, line = placed.groups() if placed else (text, "", None)
        if not line and not set(path) & set("/\\."):  # else a signature
            name, path = text, ""
        body = message(
            f.FRAME,
            function_name_id=self._text("function_names", name),
            source_path_iid=self._text("source_paths", path) if path else None,
            line_number=int(line) if line else None,
        )
        return self._interned("frames", body)

    def _text(self, table: str, text: str) -> int:
        return self._interned(table, message(f.INTERNED_STRING, str=text))

    def _interned(self, table: str, body: bytes) -> int:
        """The number of an entry, which is written when it is new; all kinds have their number in the same field."""
        number = self._numbers.get((table, body))
        if number is None:
            number = self._numbers[table, body] = len(self._numbers) + 1
            entry = message(f.INTERNED_STRING, iid=number) + body
            self.fresh.append(message(f.INTERNED_DATA, **{table: entry}))
        return number


def _keys(batch: Batch) -> pa.Array | None:
    """The key of the stack that each row names in its arguments; None if none does."""
    for name in _NAMES:
        if batch.has(f"args.{name}"):
            column = decoded(batch.column(f"args.{name}"))
            return (
                column.cast(pa.string())
                if pa.types.is_string(column.type) or pa.types.is_integer(column.type)
                else None
            )
    if not batch.has("args"):
        return None
    texts = decoded(batch.column("args")).dictionary_encode()
    keys = [_key(text) for text in texts.dictionary.to_pylist()]
    return pa.array(keys, pa.string()).take(texts.indices) if any(keys) else None


def _key(args: str) -> str | None:
    if not any(f'"{name}"' in args for name in _NAMES):
        return None
    members = load_object(args)
    key = next((members[name] for name in _NAMES if name in members), None)
    return str(key) if isinstance(key, (str, int)) else None
