"""The arguments of events as columns of JSON values: what the model has as columns, and the source's own `args`."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.jsonrows import Cells, Part, as_text
from ktrace.jsontext import decoded, dump_json, json_cells
from ktrace.model import POINT_KINDS, SLICE_KINDS, TRACK_COLUMNS, Batch

from .._shared.arguments import PLAIN, RESERVED, argument_name

#: Members of an event that are the writer's, or that viewers draw something of: what a source had there stays in args.
_MEMBERS = frozenset(
    {
        *("ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "bp"),
        *("id", "id2", "scope", "bind_id", "flow_in", "flow_out"),
    }
)


def slice_rows(events: Batch) -> npt.NDArray[np.bool_]:
    """Which rows are slices: with a duration, or of a kind that has one even where it isn't known."""
    kind = decoded(events.column("kind"))
    always = pc.is_in(kind, pa.array([word for word in SLICE_KINDS if word != "alloc"]))
    timed = pc.and_not(events.column("dur").is_valid(), pc.is_in(kind, pa.array(POINT_KINDS)))
    found: npt.NDArray[np.bool_] = pc.or_(always, timed).to_numpy(zero_copy_only=False)
    return found


def arguments(events: Batch) -> dict[str, pa.Array]:
    """The arguments of the events that are columns: name -> a value a row, null where the row has none.

    `id` is never null: by it a row is found in the canonical tables. `kind` is left out where it is the category,
    `timing` where it is `measured`; `unfinished` is true for a slice without an end. Counters have no `value` and
    `unit` here. Typed arguments that are members of the event aren't here but in `source_arguments`.
    """
    rows = len(events)
    columns: dict[str, pa.Array | None] = {"id": events.column("id")}
    kind = events.column("kind")
    if events.has("cat"):
        columns["kind"] = _masked(kind, events.column("cat").is_valid())
    timing = events.column("timing")
    columns["timing"] = _masked(timing, _differs(timing, "measured"))
    if events.column("dur").null_count:
        unfinished = pc.and_(events.column("dur").is_null(), pa.array(slice_rows(events)))
        columns["unfinished"] = pc.if_else(unfinished, True, pa.scalar(None, pa.bool_()))
    for name in PLAIN:  # the row says the track
        columns[name] = events.columns.column(name) if events.has(name) and name not in TRACK_COLUMNS else None
    for name in ("value", "unit"):
        columns[name] = _masked(events.column(name), _differs(kind, "counter")) if events.has(name) else None
    for name in events.columns.schema.names:
        if name.startswith("x_"):
            columns[name] = events.columns.column(name)
    for name in events.typed_args():
        key = name.removeprefix("args.")
        if not _is_member(key):
            columns[argument_name(key, columns)] = events.columns.column(name)
    return {name: column for name, column in columns.items() if column is not None and column.null_count < rows}


def dimensions(events: Batch, name: str) -> list[Part]:
    """`grid` or `block` as {x, y, z}, or one number where only the product is known."""
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
    """What else the source said: its `args` as JSON objects (None: no row has any), and members of the events.

    Members are the keys with a `$` of fields that stood beside the arguments: `$tts` is "tts" of the event again,
    unless the writer or viewers make something else of it. A key that a column has already is `args.<key>`.
    """
    members: list[Part] = []
    for name in events.typed_args():
        key, column = name.removeprefix("args."), events.columns.column(name)
        if _is_member(key) and column.null_count < len(column):
            members.append(Cells(f",{dump_json(key[1:])}:", column))
    if not events.has("args") or events.columns.column("args").null_count == len(events):
        return None, members
    texts = decoded(events.columns.column("args"))
    names = "|".join(re.escape(name) for name in sorted(RESERVED | _extra(events)))
    strange = pc.match_substring_regex(texts, rf'"(({names})"\s*:|\$|args\.)|^\s|\s$|^\{{\s*\}}$')
    if strange.true_count:
        index = np.flatnonzero(strange.fill_null(False).to_numpy(zero_copy_only=False))
        taken = [_apart(text, _extra(events)) for text in texts.take(pa.array(index)).to_pylist()]
        mask = strange.fill_null(False)
        texts = pc.replace_with_mask(texts, mask, pa.array([kept for kept, _ in taken], pa.string()))
        outside = pc.replace_with_mask(
            pa.nulls(len(texts), pa.string()), mask, pa.array([given for _, given in taken], pa.string())
        )
        members.append(Cells("", as_text(outside)))
    return texts if texts.null_count < len(texts) else None, members


def _extra(events: Batch) -> set[str]:
    """The columns of other packages and the typed arguments: both have taken their names."""
    return {name for name in events.columns.schema.names if name.startswith("x_")}


def _apart(text: str, extra: set[str]) -> tuple[str | None, str | None]:
    """An object without blanks around it, its keys told from columns (None: empty), and the members of the event."""
    inside, outside = [], []
    for key, raw in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
        value = bytes(raw).decode()
        if _is_member(key):
            outside.append(f",{dump_json(key[1:])}:{value}")
        else:
            inside.append(f"{dump_json(argument_name(key, dict.fromkeys(extra)))}:{value}")
    return f"{{{','.join(inside)}}}" if inside else None, "".join(outside) or None


def _is_member(key: str) -> bool:
    return key.startswith("$") and len(key) > 1 and key[1:] not in _MEMBERS and not key.startswith("$ktrace.")


def _masked(column: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """The values where the mask is true, else null."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(_masked(column.indices, mask), column.dictionary)
    return pc.if_else(mask, column, pa.scalar(None, column.type))


def _differs(column: pa.Array, word: str) -> pa.BooleanArray:
    """The rows that don't have the word."""
    if pa.types.is_dictionary(column.type):
        return _differs(column.dictionary, word).take(column.indices)
    return pc.not_equal(column, word)
