"""The operators and modules of replayed kernels, which `ktrace.stages.replays` attached as arguments."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import truth, words_in
from ktrace.store.joins import coded
from ktrace.store.spill import Spill


class _Arguments(msgspec.Struct):
    """The arguments in JSON text."""

    operator: str | None = None
    module: str | None = None
    operator_id: int | None = None


_DECODER = msgspec.json.Decoder(_Arguments)


def replayed(batch: Batch) -> tuple[Int64, dict[str, pa.Array]] | None:
    """The rows of device work with an operator or a module, and both, with the operator's number; None if none has."""
    typed = [name for name in ("operator", "module") if batch.has(f"args.{name}")]
    if not typed and not batch.has("args"):
        return None
    mine = words_in(batch.column("kind"), DEVICE_KINDS)
    if not mine.any():
        return None
    if typed:
        mine &= np.logical_or.reduce([truth(batch.column(f"args.{name}").is_valid()) for name in typed])
        rows = np.flatnonzero(mine)
        names = ("operator", "module", "operator_id")
        columns = {
            name: decoded(batch.column(f"args.{name}")).take(pa.array(rows))
            if batch.has(f"args.{name}")
            else pa.nulls(len(rows))
            for name in names
        }
    else:
        text = decoded(batch.column("args"))
        rows = np.flatnonzero(mine & truth(pc.match_substring_regex(text, '"(?:operator|module)":')))
        found = [_decoded(one) for one in text.take(pa.array(rows)).to_pylist()]
        columns = {
            name: pa.array([getattr(one, name) for one in found], type_)
            for name, type_ in (("operator", pa.string()), ("module", pa.string()), ("operator_id", pa.int64()))
        }
    return (rows, columns) if len(rows) else None


def _decoded(text: str) -> _Arguments:
    try:
        return _DECODER.decode(text)
    except NOT_JSON:
        return _Arguments()


class Replayed:
    """The operator and the module of each replayed kernel, as indices of `names`, -1 for none."""

    def __init__(self, spill: Spill, name: str) -> None:
        self._numbers: dict[str, int] = {}
        self._rows = StoredColumns(spill, name, id="i8", op="i4", module="i4")

    @property
    def names(self) -> list[str]:
        """The different operators and modules, these as Kineto's ranges write them."""
        return list(self._numbers)

    def see(self, batch: Batch) -> None:
        """Collects those of the events of one source."""
        if batch.record != "events" or not len(batch) or (found := replayed(batch)) is None:
            return
        rows, columns = found
        numbers = {
            "op": self._number(columns["operator"], ""),
            "module": self._number(columns["module"], "nn.Module: "),
        }
        self._rows.add(source_of(batch), id=batch.column("id").to_numpy()[rows], **numbers)

    def _number(self, column: pa.Array, prefix: str) -> Int64:
        codes, values = coded(column)
        known = self._numbers
        numbers = [
            -1 if value is None else known.setdefault(prefix + value, len(known)) for value in values.to_pylist()
        ]
        return np.array([*numbers, -1], np.int64)[codes]

    def of(self, source: str) -> dict[str, Any]:
        """The columns id, op and module of a source, by rising id."""
        rows = self._rows.of(source)
        order = np.argsort(rows["id"], kind="stable")
        return {name: column[order] for name, column in rows.items()}
