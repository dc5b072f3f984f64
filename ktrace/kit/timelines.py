"""What timeline outputs share: the arguments of an event, which are columns of the model and the source's own `args`.

Also the names of the tracks of a timeline, from the process down, for outputs without tracks below tracks.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch, EventRows
from ktrace.model.json_text import decoded
from ktrace.model.masks import present, slice_rows, words_in
from ktrace.model.schema import columns_in
from ktrace.model.tracks import Node, arrange
from ktrace.stages.order import Timeline

#: The columns that become arguments under their own name, in display order.
PLAIN = ("device", "context", "stream", "parent", "clock", *columns_in("link", "label", "launch", "transfer"))

#: Names of arguments that come from columns. A key of the source's `args` with such a name is shown as `args.<key>`.
RESERVED = frozenset({"id", "kind", "timing", "unfinished", "grid", "block", *PLAIN})


def argument_columns(batch: Batch, show_kind: Bools | None) -> dict[str, pa.Array]:
    """Returns the arguments from columns of the model or of other packages: name -> column, without all-null columns.

    `id` is never null: it identifies the row in the canonical tables. `kind` is present in the rows of `show_kind`
    (those whose category doesn't imply it; None: in no row), `timing` if it isn't `measured`; `unfinished` is true
    for a slice without an end. Counters have no `value` and `unit` here. `grid` and `block`, which are several
    columns, aren't included.
    """
    columns = {"id": batch.column("id")}
    kind = batch.column("kind")
    if show_kind is not None:
        columns["kind"] = masked(kind, show_kind)
    columns["timing"] = masked(batch.column("timing"), ~words_in(batch.column("timing"), ("measured",)))
    if batch.column("dur").null_count:
        unfinished = slice_rows(batch) & ~present(batch.column("dur"))
        columns["unfinished"] = pc.if_else(pa.array(unfinished), pa.scalar(True), pa.scalar(None, pa.bool_()))
    for name in PLAIN:
        if batch.has(name):
            columns[name] = batch.column(name)
    for name in ("value", "unit"):
        if batch.has(name):
            columns[name] = masked(batch.column(name), ~words_in(kind, ("counter",)))
    for name in batch.columns.schema.names:
        if name.startswith("x_"):
            columns[name] = batch.columns.column(name)
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


def argument_name(key: str, columns: Container[str]) -> str:
    """Returns the displayed name of a key of the source's `args`, next to those columns.

    Readers of ktrace's own output remove one `args.`.
    """
    return f"args.{key}" if key in RESERVED or key in columns or key.startswith("args.") else key


def word_numbers(column: pa.Array, numbers: Mapping[str, int], other: int) -> Int64:
    """Returns the number of each word: `other` for a word without a number, -1 for null."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    table = np.array([*(numbers.get(word, other) for word in column.dictionary.to_pylist()), -1], np.int64)
    codes = pc.fill_null(column.indices, len(table) - 1) if column.null_count else column.indices
    mapped: Int64 = table[codes.to_numpy()]
    return mapped


def masked(column: pa.Array, keep: Bools) -> pa.Array:
    """The values in the rows of `keep`, null in the others."""
    if keep.all():
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(masked(column.indices, keep), column.dictionary)
    return pc.if_else(pa.array(keep), column, pa.scalar(None, column.type))


def plain(batch: EventRows, name: str) -> pa.Array:
    """A column, decoded if it is a dictionary."""
    return decoded(batch.column(name))


def track_paths(timeline: Timeline) -> dict[int, tuple[str, ...]]:
    """Track number -> process, thread or device, stream, text track; in the order in which a timeline draws them."""
    paths: dict[int, tuple[str, ...]] = {}
    for process in arrange(timeline.tracks, timeline.catalog):
        paths.update(_below(process, ()))
    return paths


def _below(node: Node, above: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    path = (*above, node.shown.name)
    if node.number is not None:
        yield node.number, path
    for child in node.children:
        yield from _below(child, path)
