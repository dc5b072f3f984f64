"""The arguments of events as columns of JSON values: columns of the model, and the source's own `args`."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.timelines.arguments import RESERVED, argument_columns, argument_name
from ktrace.model.batch import Batch
from ktrace.model.json_rows import Cells, Part, as_text
from ktrace.model.json_text import decoded, dump_json, json_cells
from ktrace.model.masks import present

#: Members that the writer uses or that viewers draw: the source's values for them stay in args.
_WRITERS_MEMBERS = frozenset(
    {
        *("ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "bp"),
        *("id", "id2", "scope", "bind_id", "flow_in", "flow_out"),
    }
)


def arguments(events: Batch) -> dict[str, pa.Array]:
    """Returns the arguments of the events that are columns: name -> a value per row, null if the row has none.

    `kind` is left out if it is the category, and track columns that (pid, tid) implies. Typed arguments that are
    members of the event are in `source_arguments` instead.
    """
    cat = present(events.column("cat")) if events.has("cat") else None
    columns = argument_columns(events, cat)
    taken = {"value", "unit", *_package_columns(events)}
    for name in events.typed_args():
        key, column = name.removeprefix("args."), events.columns.column(name)
        if column.null_count < len(column) and not _is_member(key):
            columns[argument_name(key, taken)] = column
    return columns


def dimensions(events: Batch, name: str) -> list[Part]:
    """Returns `grid` or `block` as {x, y, z}, or one number if only the product is known."""
    if not events.has(f"{name}_x"):
        return []
    x, y, z = (events.column(f"{name}_{axis}") for axis in "xyz")
    if y.null_count == len(y) and z.null_count == len(z):
        return [Cells(f',"{name}":', x)]
    without = pc.and_(pc.and_(x.is_null(), y.is_null()), z.is_null()).true_count
    if x.null_count == y.null_count == z.null_count == without:
        return [Cells(f',"{name}":{{"x":', x), Cells(',"y":', y), Cells(',"z":', z, "}")]
    texts = [json_cells(column).fill_null("null") for column in (x, y, z)]
    whole = pc.binary_join_element_wise('{"x":', texts[0], ',"y":', texts[1], ',"z":', texts[2], "}", "")
    shown = pc.if_else(pc.and_(y.is_null(), z.is_null()), json_cells(x), whole)
    return [Cells(f',"{name}":', as_text(shown))]


def source_arguments(events: Batch) -> tuple[pa.StringArray | None, list[Part]]:
    """Returns the source's `args` as JSON objects (None: no row has any), and members of the events.

    Members are the keys with a `$`, of fields that were next to the arguments: `$tts` becomes "tts" of the event again,
    unless the writer or viewers use that member. A key that is also the name of a column becomes `args.<key>`.
    """
    members: list[Part] = []
    for name in events.typed_args():
        key, column = name.removeprefix("args."), events.columns.column(name)
        if _is_member(key) and column.null_count < len(column):
            members.append(Cells(f",{dump_json(key[1:])}:", column))
    if not events.has("args") or events.columns.column("args").null_count == len(events):
        return None, members
    texts = decoded(events.columns.column("args"))
    names = "|".join(re.escape(name) for name in sorted(RESERVED | _package_columns(events)))
    to_rewrite = pc.match_substring_regex(texts, rf'"(({names})"\s*:|\$|args\.)|^\s|\s$|^\{{\s*\}}$')
    if to_rewrite.true_count:
        index = np.flatnonzero(to_rewrite.fill_null(False).to_numpy(zero_copy_only=False))
        taken = [_split_members(text, _package_columns(events)) for text in texts.take(pa.array(index)).to_pylist()]
        mask = to_rewrite.fill_null(False)
        texts = pc.replace_with_mask(texts, mask, pa.array([kept for kept, _ in taken], pa.string()))
        outside = pc.replace_with_mask(
            pa.nulls(len(texts), pa.string()), mask, pa.array([given for _, given in taken], pa.string())
        )
        members.append(Cells("", as_text(outside)))
    return texts if texts.null_count < len(texts) else None, members


def _package_columns(events: Batch) -> set[str]:
    """The columns of other packages."""
    return {name for name in events.columns.schema.names if name.startswith("x_")}


def _split_members(text: str, extra: set[str]) -> tuple[str | None, str | None]:
    """Returns an object with renamed keys and without blanks around it (None: empty), and the event's members."""
    inside, outside = [], []
    for key, raw in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
        value = bytes(raw).decode()
        if _is_member(key):
            outside.append(f",{dump_json(key[1:])}:{value}")
        else:
            inside.append(f"{dump_json(argument_name(key, dict.fromkeys(extra)))}:{value}")
    return f"{{{','.join(inside)}}}" if inside else None, "".join(outside) or None


def _is_member(key: str) -> bool:
    return key.startswith("$") and len(key) > 1 and key[1:] not in _WRITERS_MEMBERS and not key.startswith("$ktrace.")
