"""The track of events: moves pid and tid, which may be numbers, texts or anything else, to the columns of a track.

Rows of GPUs, for programs that represent each GPU as a process and each queue as a thread.

{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}     2 is a GPU: device 2, not a process
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded

from .dialect import Dialect, Rule
from .draft import Draft, as_text, integers, numbered


def place(draft: Draft, rule: Rule, dialect: Dialect) -> None:
    """Fills pid, tid, device, context, stream and track."""
    if rule.place == "device":
        _on_device(draft, dialect)
    else:
        _on_host(draft, dialect)
    if rule.track is not None:
        placed = [draft.columns[key].is_valid() for key in ("pid", "tid", "track") if key in draft.columns]
        given = reduce(pc.or_, placed, pa.repeat(False, len(draft)))
        known = draft.columns.get("track", pa.nulls(len(draft), pa.string())).cast(pa.string())
        draft.columns["track"] = pc.if_else(given, known, rule.track)


def _on_host(draft: Draft, dialect: Dialect) -> None:
    texts = []
    for member in ("pid", "tid"):
        column = draft.left.pop(member, None)
        if column is None:
            continue
        taken, rest = numbered(column)
        if taken is not None:
            draft.columns[member] = taken
        if rest is not None:
            texts.append(_with_device(draft, rest, dialect) if member == "pid" else rest)
    _put_track(draft, texts)


def _with_device(draft: Draft, rest: pa.Array, dialect: Dialect) -> pa.Array | None:
    """Returns the pids that are texts, without those that name a device, which go to `device`."""
    if dialect.device_pid is None:
        return rest
    taken, left = numbered(rest, dialect.device_pid)
    if taken is not None:
        draft.columns["device"] = taken
    return left


def _on_device(draft: Draft, dialect: Dialect) -> None:
    """The device is args.device, else the pid; the stream is args.stream, else the tid. Different numbers stay."""
    texts = []
    for member, key in (("pid", "device"), ("tid", "stream")):
        argument = draft.left.pop(f"args.{key}", None)
        taken = None
        if argument is not None:
            taken, rest = integers(argument)
            draft.set_rest(f"args.{key}", _with_none(argument, taken, rest) if key == "device" else rest)
        column = draft.left.pop(member, None)
        if column is not None:
            spelling = dialect.stream_name if member == "tid" else dialect.device_pid
            own, rest = numbered(column, spelling) if spelling else numbered(column)
            if rest is not None:
                texts.append(rest)
            if own is not None and taken is not None:
                other = pc.and_kleene(pc.not_equal(own, taken), pc.is_valid(taken))
                if pc.any(other).as_py():
                    draft.left[f"args.${member}"] = pc.if_else(other, own, None)
                own = pc.coalesce(taken, own)
            taken = own if own is not None else taken
        if taken is not None:
            draft.columns[key] = _known(taken)
    context = draft.left.pop("args.context", None)
    if context is not None:
        taken, rest = integers(context)
        if taken is not None:
            draft.columns["context"] = taken
        draft.set_rest("args.context", rest)
    _put_track(draft, texts)


def _with_none(argument: pa.Array, taken: pa.Array | None, rest: pa.Array | None) -> pa.Array | None:
    """Returns the rest of the argument, with the devices of -1, which the column doesn't have."""
    none = None if taken is None else pc.equal(taken, -1)
    if none is None or not pc.any(none).as_py():
        return rest
    return pc.if_else(pc.fill_null(none, False), argument, pa.scalar(None, argument.type) if rest is None else rest)


def _known(numbers: pa.Array) -> pa.Array:
    """Makes a device or stream of -1 null."""
    lowest = pc.min(numbers).as_py()
    return numbers if lowest is None or lowest >= 0 else pc.if_else(pc.equal(numbers, -1), None, numbers)


def _put_track(draft: Draft, texts: list[pa.Array | None]) -> None:
    """Joins the texts to the key of the track."""
    found = [plain(text) for text in texts if text is not None and text.null_count < len(text)]
    if found:
        parts = [pc.if_else(pc.equal(text, ""), None, text) for text in found]
        draft.columns["track"] = encoded(joined(parts, "/"))


def joined(parts: list[pa.Array], between: str) -> pa.Array:
    """Joins the texts of each row; null if a row has none."""
    text = parts[0]
    for part in parts[1:]:
        text = pc.coalesce(pc.binary_join_element_wise(text, part, between), text, part)
    return text


def plain(column: pa.Array) -> pa.Array:
    """A member as text: numbers as digits, anything else as JSON text."""
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary).take(column.indices)
    if pa.types.is_binary(column.type):
        return pa.array(map(as_text, column.to_pylist()), pa.string())
    return column.cast(pa.string())


def track_of_id(draft: Draft) -> None:
    """Sets the track of asynchronous events to their key: category, scope and id. The thread becomes an argument."""
    parts = []
    if "cat" in draft.left:
        parts.append(plain(draft.left["cat"]))
    for member in ("args.$scope", "id", "args.$id2"):
        column = draft.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            parts.append(plain(column))
    draft.keep_as_argument("tid")
    if parts:
        draft.columns["track"] = encoded(joined(parts, "/"))


#: Entity -> what it is if its process is a GPU.
_ENTITIES = {"process": "device", "thread": "stream"}


def on_devices(batch: Batch, gpus: Mapping[int, int]) -> Batch:
    """Moves the pids of GPUs to devices, by the numbers in `gpus`, and their tids to streams."""
    if not gpus or not batch.has("pid"):
        return batch
    pids = pa.array(sorted(gpus), pa.int64())
    mine = pc.is_in(batch.column("pid"), value_set=pids)
    if not mine.true_count:
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    numbers = pa.array([gpus[pid] for pid in pids.to_pylist()], pa.int64())
    device = numbers.take(pc.index_in(columns["pid"], value_set=pids))
    columns["device"] = pc.if_else(mine, device, batch.column("device"))
    columns["pid"] = pc.if_else(mine, None, columns["pid"])
    if "tid" in columns:
        columns["stream"] = pc.if_else(mine, columns["tid"], batch.column("stream"))
        columns["tid"] = pc.if_else(mine, None, columns["tid"])
    if batch.record == "catalog":
        words = encoded(columns["entity"]).dictionary_decode()
        for host, gpu in _ENTITIES.items():
            words = pc.if_else(pc.and_(mine, pc.equal(words, host)), gpu, words)
        columns["entity"] = words.dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))
