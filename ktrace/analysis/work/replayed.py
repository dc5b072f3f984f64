"""The operators, modules and ranges of replayed kernels, which are in their arguments (see `ktrace.stages.replays`)."""

from __future__ import annotations

from functools import cached_property
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.spans import with_sizes
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import truth, words_in
from ktrace.stages.replays import CAPTURED_DIMS, CAPTURED_IN, DIMS, MODULE
from ktrace.store import Spill
from ktrace.store.joins import coded, distinct_rows
from ktrace.tables import duration


class _Arguments(msgspec.Struct):
    """The arguments in JSON text."""

    captured_in: msgspec.Raw = msgspec.Raw(b"")
    captured_dims: msgspec.Raw = msgspec.Raw(b"")
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name=DIMS)
    operator: str | None = None
    operator_id: int | None = None
    range: str | None = None


_DECODER = msgspec.json.Decoder(_Arguments)
_SPANS = msgspec.json.Decoder(list[str])
_DIMS = msgspec.json.Decoder(list[msgspec.Raw])


def replayed(batch: Batch) -> tuple[Int64, dict[str, pa.Array]] | None:
    """The rows of replayed kernels, and columns of the arguments in `_TYPES`."""
    typed = batch.has("args.captured_in")
    if batch.record != "events" or not (typed or batch.has("args")):
        return None
    is_work = words_in(batch.column("kind"), DEVICE_KINDS)
    if not is_work.any():
        return None
    if typed:
        rows = np.flatnonzero(is_work & truth(batch.column("args.captured_in").is_valid()))
        columns = {
            name: decoded(batch.column(f"args.{name}")).take(pa.array(rows))
            if batch.has(f"args.{name}")
            else pa.nulls(len(rows), type_)
            for name, type_ in _TYPES.items()
        }
    else:
        text = decoded(batch.column("args"))
        rows = np.flatnonzero(is_work & truth(pc.match_substring(text, '"captured_in":')))
        arguments = [_arguments(one) for one in text.take(pa.array(rows)).to_pylist()]
        columns = {name: pa.array([one[name] for one in arguments], type_) for name, type_ in _TYPES.items()}
    return (rows, columns) if len(rows) else None


_TYPES = {
    CAPTURED_IN: pa.binary(),
    CAPTURED_DIMS: pa.binary(),
    "operator": pa.string(),
    "operator_id": pa.int64(),
    "range": pa.string(),
    DIMS: pa.binary(),
}


def _arguments(text: str) -> dict[str, Any]:
    try:
        decoded_arguments = _DECODER.decode(text)
    except NOT_JSON:
        decoded_arguments = _Arguments()
    stated = {name: getattr(decoded_arguments, name) for name in ("operator", "operator_id", "range")}
    dims = {CAPTURED_DIMS: bytes(decoded_arguments.captured_dims) or None, DIMS: bytes(decoded_arguments.dims) or None}
    return stated | dims | {CAPTURED_IN: bytes(decoded_arguments.captured_in)}


def without_capture(count: int, time: int) -> str:
    """What is said of so many replayed activities without operators, of so many ns; "" where there are none."""
    if not count:
        return ""
    many = f"{count:,} device {'activity' if count == 1 else 'activities'} ({duration(time)})"
    return (
        f"{many} were replayed by graphs; their operators ran at capture. Name PyTorch's trace of the capture "
        "with --capture FILE, or begin to record before it."
    )


class Replayed:
    """The operators, modules and ranges around the captured call of each replayed kernel.

    Where the innermost one is in the argument `range`, all of them are ranges.
    """

    def __init__(self, spill: Spill, name: str, *, shapes: bool = False) -> None:
        """`shapes` adds those of its inputs to the name of each operator, as `Spans` does."""
        self._has_shapes = shapes
        self._names: dict[tuple[str, bool], int] = {}  # name, and whether it is that of a range
        self._chains: dict[tuple[bytes, bool], int] = {}
        self._rows = StoredColumns(spill, name, id="i8", chain="i4")

    @cached_property
    def names(self) -> list[str]:
        """The different operators, modules (as Kineto names their ranges) and ranges, once all have been seen."""
        return [name for name, _ in self._names]

    def see(self, batch: Batch) -> None:
        """Collects those of the events of one source."""
        if not len(batch) or (replay := replayed(batch)) is None:
            return
        rows, columns = replay
        if self._has_shapes:
            columns["captured_in"] = _with_shapes(columns)
        codes, texts = coded(columns["captured_in"])
        is_range = truth(columns["range"].is_valid())
        numbers = np.array([[self._chain(text or b"", kind) for kind in (False, True)] for text in texts.to_pylist()])
        chain = numbers[codes, is_range.astype(np.int64)]
        self._rows.add(source_of(batch), id=batch.column("id").to_numpy()[rows], chain=chain)

    def _chain(self, chain: bytes, is_range: bool) -> int:
        number = self._chains.get((chain, is_range))
        if number is None:
            number = self._chains[chain, is_range] = len(self._chains)
            for name in _spans(chain):
                self._names.setdefault((name, is_range), len(self._names))
        return number

    def for_source(self, source: str) -> tuple[Int64, Int64]:
        """The ids of the replayed kernels of a source, rising, and the number of the chain of each."""
        rows = self._rows.for_source(source)
        order = np.argsort(rows["id"], kind="stable")
        return rows["id"][order], rows["chain"][order].astype(np.int64)

    @cached_property
    def chains(self) -> list[Int64]:
        """The outermost span of each chain, as an index of `names`, then the next ones; -1 beyond the end."""
        chains = [[self._names[name, is_range] for name in _spans(text)] for text, is_range in self._chains]
        return [np.array(level, np.int64) for level in zip_longest(*chains, fillvalue=-1)]

    @cached_property
    def kinds(self) -> list[str]:
        """What each name is: module, op, or range."""
        kinds = (("range", is_range, name) for name, is_range in self._names)
        return [kind if is_range else "module" if name.startswith(MODULE) else "op" for kind, is_range, name in kinds]


def _with_shapes(columns: dict[str, pa.Array]) -> pa.Array:
    """The chains, with the shapes of its inputs after the name of each operator that has some."""
    keys = [columns[name].cast(pa.binary()) for name in (CAPTURED_IN, CAPTURED_DIMS, "operator", DIMS)]
    first, which = distinct_rows(keys, len(keys[0]))
    made = []
    for chain, all_dims, operator, dims in zip(*(key.take(pa.array(first)).to_pylist() for key in keys), strict=True):
        names, name, shapes = _spans(chain), (operator or b"").decode(), _dims(all_dims)
        if not shapes and dims and name in names:
            shapes = {len(names) - 1 - names[::-1].index(name): dims}
        names = [with_sizes(one, shapes[place].decode()) if place in shapes else one for place, one in enumerate(names)]
        made.append(msgspec.json.encode(names))
    return pa.array(made, pa.binary()).take(pa.array(which))


def _dims(text: bytes | None) -> dict[int, bytes]:
    """The shapes in JSON text by the place of their span in the chain."""
    try:
        sizes = _DIMS.decode(text or b"[]")
    except NOT_JSON:
        return {}
    return {place: bytes(one) for place, one in enumerate(sizes) if bytes(one) != b"null"}


def _spans(text: Any) -> list[str]:
    try:
        return _SPANS.decode(text or b"[]")
    except NOT_JSON:
        return []
