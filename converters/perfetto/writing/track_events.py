"""TrackEvents: events on the tracks of the host, with names, categories, arguments and arrows."""

from __future__ import annotations

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
from ktrace.model.masks import present, words_in

from .. import field_numbers as f
from ..sidecar import CATEGORY_KINDS, RESERVED, argument_name
from ..wire import bytes_tag, double_tag, int_tag
from .arguments import ArgumentTexts, HostArguments, InternedTexts, fresh
from .callstacks import Callstacks
from .extra_fields import HostArrows, argument_field, coded, is_integral, source_argument_field, validity, whole
from .fields import CodedField, Field, FixedField, MessageField, VarintField, number_field

_TAG = HostArguments.tag
_ENTRY = bytes_tag(f.DEBUG_ANNOTATION["dict_entries"])
_COUNTER_INT = int_tag(f.TRACK_EVENT["counter_value"])
_COUNTER_DOUBLE = double_tag(f.TRACK_EVENT["double_counter_value"])


def argument_columns(batch: Batch) -> dict[str, pa.Array]:
    """Returns the arguments of events that are columns; `kind` only if the category doesn't imply it.

    Without `id`, which the packet has.
    """
    found = timelines.argument_columns(
        batch, _kind_not_implied(batch.column("cat"), batch.column("kind")) if batch.has("cat") else None
    )
    found.pop("id", None)  # absent if there are no rows
    return found


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


def _kind_not_implied(category: pa.Array, kind: pa.Array) -> Bools:
    """Returns which rows have a category that doesn't imply their kind."""
    codes, implied = word_numbers(kind, _KINDS, _OTHER), word_numbers(category, _IMPLIED_KINDS, _OTHER)
    not_implied: Bools = (implied >= 0) & ((codes != implied) | (implied == _OTHER))
    return not_implied


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
        fields: list[Field] = [
            rows.place,
            self._category(batch),
            *_counter_values(batch, counter),
            *rows.arrows.fields(),
            *self._stacks.fields(batch, rows.source),
            *(coded(names, lambda name, many: self._names.field(name, often=many)),),
        ]
        columns = argument_columns(batch)
        for axis in ("grid", "block"):
            fields += _dimensions(batch, axis, self._arguments)
        source = source_columns(batch, RESERVED, self._texts)
        texts = source.pop("args", None)
        for name, column in {**columns, **source}.items():
            field = argument_field(name, column, self._arguments, _TAG)
            fields += [field] if field is not None else []
        if texts is not None:
            field = source_argument_field(texts, self._arguments, lambda key: argument_name(key, RESERVED))
            fields += [field] if field is not None else []
        return fields

    def _category(self, batch: Batch) -> CodedField:
        """Returns the source's own category, else the kind."""
        chosen = batch.column("kind")
        if batch.has("cat"):
            chosen = batch.column("cat")
            if chosen.null_count:
                chosen = pc.coalesce(plain(batch, "cat"), plain(batch, "kind"))
        return coded(chosen, lambda text, _: self._categories.field(text))


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
    return [
        number_field(_TAG, head, into.int_tag, whole(axes["x"]), alone),
        MessageField(_TAG, head, parts, several),
    ]
