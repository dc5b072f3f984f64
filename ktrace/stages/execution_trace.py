"""Adds the arguments of operators in an execution trace to the rows of the same run's timeline.

    Kineto            aten::mm   "Record function id": 12           ts, dur
    execution trace   aten::mm   rf_id 12   inputs, outputs, ...    ──► arguments `et.<name>` of the row

PyTorch gives each call of an operator a record-function id, which both files contain. A node belongs to a row with its
id, its process and its name. Nodes wait in a temporary file, so that memory holds 24 bytes for each.
"""

from __future__ import annotations

import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.capabilities import OpNode
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.naming.alike import unique_name
from ktrace.report import Report

#: The argument of Kineto's rows that contains the id.
RECORD_FUNCTION = "Record function id"

#: Rows that get arguments at once.
_ROWS = 8_192

_IN_TEXT = r'"Record function id": ?(?P<id>[0-9]{1,18})[,}]'
_STAGE = "execution-trace"
_ADVICE = "pass execution_trace_observer=... to torch.profiler.profile, which then numbers the operators in both files"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Nodes:
    """The nodes of an execution trace, by record-function id. `add` all of them first."""

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile(prefix="ktrace-")  # noqa: SIM115 (it lives as long as the nodes)
        weakref.finalize(self, self._file.close)
        self._ids, self._ends = array("q"), array("q", [0])
        self._pid: int | None = None
        self._keys: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, nodes: Iterable[OpNode]) -> None:
        """Keeps nodes, which are all of one process."""
        for node in nodes:
            text = msgspec.json.encode({"": node.name} | {key: msgspec.Raw(value) for key, value in node.args.items()})
            self._file.write(text)
            self._ids.append(node.record_function)
            self._ends.append(self._ends[-1] + len(text))
            self._pid = node.pid
            self._keys |= dict.fromkeys(node.args)

    @property
    def pid(self) -> int | None:
        """The process of the nodes, None if it isn't known."""
        return self._pid

    @property
    def keys(self) -> list[str]:
        """The names of all arguments."""
        return list(self._keys)

    def by_id(self) -> tuple[Int64, Int64]:
        """The ids in rising order without 0 and without those that several nodes have, and the node of each."""
        ids = np.frombuffer(self._ids, np.int64) if len(self._ids) else np.zeros(0, np.int64)
        order = np.argsort(ids, kind="stable")
        sorted_ids = ids[order]
        single = np.ones(len(sorted_ids), np.bool_)
        single[1:] &= sorted_ids[1:] != sorted_ids[:-1]
        single[:-1] &= sorted_ids[1:] != sorted_ids[:-1]
        kept = single & (sorted_ids > 0)
        return sorted_ids[kept], order[kept]

    def get(self, number: int) -> tuple[str, dict[str, msgspec.Raw]]:
        """The name and the arguments of a node."""
        start, end = self._ends[number], self._ends[number + 1]
        self._file.seek(start)
        members = _members(self._file.read(end - start))
        return msgspec.json.decode(members.pop(""), type=str), members


def with_nodes(batches: Iterable[Batch], nodes: Nodes, report: Report) -> Iterator[Batch]:
    """Yields all batches, rows with a node with its arguments.

    Reports how many nodes have no row ("unmatched-node"), and how many rows with an id have no node
    ("row-without-node").
    """
    join = _Join(nodes)
    passed = 0
    for batch in batches:
        if batch.record != "catalog":
            passed += len(batch)
        if batch.record == "events" and (ids := _record_functions(batch)) is not None:
            yield from join.joined(batch, ids)
        else:
            yield batch
    ledger = report.stage(_STAGE)
    ledger.taken = ledger.given = passed
    ledger.added["nodes"] = len(nodes)
    joined = int(join.is_joined.sum())
    ledger.removed["arguments of a row"] = joined
    if joined:
        report.issue("joined-node", _STAGE, f"{joined:,} of {len(nodes):,} nodes", joined, stage=ledger)
    if join.without:
        report.issue("row-without-node", "the timeline", "", join.without, stage=ledger)
    if joined < len(nodes):
        report.issue("unmatched-node", _STAGE, join.why(), len(nodes) - joined, stage=ledger)


def _record_functions(batch: Batch) -> Int64 | None:
    """The record-function id of each row, 0 for none; None if no row has one."""
    name = f"args.{RECORD_FUNCTION}"
    if name in batch.typed_args():
        column = batch.columns.column(name)
        if not pa.types.is_integer(column.type):
            return None
    elif batch.has("args"):
        column = pc.struct_field(pc.extract_regex(decoded(batch.column("args")), _IN_TEXT), "id").cast(pa.int64())
    else:
        return None
    ids: Int64 = column.fill_null(0).to_numpy(zero_copy_only=False)
    return ids if (ids > 0).any() else None


class _Join:
    """Finds the nodes of rows. `is_joined` has an entry for each node, `without` counts rows with an id but no node."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._ids, self._number = nodes.by_id()
        self.is_joined = np.zeros(len(nodes), np.bool_)
        self.without = 0
        self._has_ids = False
        self._others: Counter[str] = Counter()

    def joined(self, batch: Batch, ids: Int64) -> Iterator[Batch]:
        """Yields the rows of a batch."""
        self._has_ids = True
        at = np.searchsorted(self._ids, ids)
        has_node = at < len(self._ids)
        has_node[has_node] = self._ids[at[has_node]] == ids[has_node]
        has_node &= ids > 0
        if self._nodes.pid is not None and has_node.any():
            of_process = pc.fill_null(pc.equal(batch.column("pid"), self._nodes.pid), False).to_numpy(
                zero_copy_only=False
            )
            self._others["the row with its id is of another process"] += int((has_node & ~of_process).sum())
            has_node &= of_process
        self.without += int(((ids > 0) & ~has_node).sum())
        if not has_node.any():
            yield batch
            return
        for start in range(0, len(batch), _ROWS):
            part = slice(start, start + _ROWS)
            number = np.where(has_node[part], self._number[np.minimum(at[part], len(self._ids) - 1)], -1)
            yield self._with_arguments(Batch("events", batch.columns.slice(start, _ROWS)), number)

    def _with_arguments(self, batch: Batch, number: Int64) -> Batch:
        """The rows with the arguments of their nodes; `number` is -1 for a row without one."""
        names = decoded(batch.column("name")).to_pylist()
        texts: dict[str, list[bytes | None]] = {}
        for row in np.flatnonzero(number >= 0).tolist():
            node = int(number[row])
            name, args = self._nodes.get(node)
            if name != names[row]:
                self._others["the row with its id has another name"] += 1
                self.without += 1
                continue
            self.is_joined[node] = True
            for key, value in args.items():
                texts.setdefault(key, [None] * len(batch))[row] = bytes(value)
        columns = batch.columns
        taken = set(columns.schema.names)
        for key in self._nodes.keys:
            if key in texts:
                column = pa.array(texts[key], pa.binary()).dictionary_encode()
                columns = columns.append_column(unique_name(f"args.et.{key}", taken.__contains__), column)
        return Batch("events", columns)

    def why(self) -> str:
        """Why nodes have no row."""
        if not self._has_ids:
            return f"no row of the timeline has a {RECORD_FUNCTION.lower()}: {_ADVICE}"
        reasons = [f"{reason} ({count:,})" for reason, count in self._others.most_common() if count]
        return "; ".join(reasons) or "no row has their ids"
