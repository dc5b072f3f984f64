"""Reads call chains, which are rows of frames, as stacks; each distinct stack is a fact of the catalog.

    SAMPLING_CALLCHAINS   2000 | main  | /usr/bin/a | ... | 0        the innermost frame has stackDepth 0
                          2000 | start | libc.so    | ... | 1   ->   stack "3": start, main, with the address of each

For each chain only the number of its stack is kept: 12 bytes per chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Int32, Int64
from ktrace.store.joins import positions

from .strings import NO_NAME, Strings, filled
from .typed import as_numbers

#: The number in place of a missing address, and the mask of an address.
_NO_ADDRESS, _MASK = -1, (1 << 64) - 1

_TABLES = ("CUDA_CALLCHAINS", "OSRT_CALLCHAINS", "SAMPLING_CALLCHAINS", "SYSCALL_CALLCHAINS", "MPI_CALLCHAINS")


class Stacks:
    """The stacks of all tables of call chains."""

    def __init__(self, database: Database, conversion: Conversion, strings: Strings) -> None:
        self._strings = strings
        self._codes: dict[tuple[tuple[int, int, int], ...], int] = {}
        self._chains: dict[str, tuple[Int64, Int32]] = {}
        self._names: pa.StringArray | None = None
        for name in _TABLES:
            for table in database.like(name):
                ids, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
                for chains, stacks in self._read(database.blocks(table, conversion.batch_rows), conversion):
                    ids.append(chains)
                    codes.append(stacks)
                distinct, first = np.unique(np.concatenate(ids), return_index=True)
                self._chains[name] = (distinct, np.concatenate(codes)[first])

    def column(self, table: str, ids: pa.Array) -> pa.DictionaryArray | None:
        """Returns the stack of each chain, null for an unknown chain; None if all are unknown."""
        if table not in self._chains:
            return None
        known, codes = self._chains[table]
        if not len(known) or ids.null_count == len(ids):
            return None
        numbers = ids.fill_null(-1).to_numpy(zero_copy_only=False)
        place = positions(numbers, known)
        absent = place < 0
        if absent.all():
            return None
        if self._names is None or len(self._names) < len(self._codes):
            self._names = pa.array([str(code) for code in range(len(self._codes))], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes[place], mask=absent), self._names)

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yields rows of the catalog: the frames of each stack, their modules and addresses, outermost first."""
        for frames, code in self._codes.items():
            names = [self._strings.text(symbol) or NO_NAME for symbol, *_ in reversed(frames)]
            modules = [self._strings.text(module) or "" for _, module, _ in reversed(frames)]
            facts: dict[str, Any] = {"frames": names, "modules": modules}
            if any(address != _NO_ADDRESS for *_, address in frames):
                texts = ("" if address == _NO_ADDRESS else f"0x{address & _MASK:x}" for *_, address in reversed(frames))
                facts["addresses"] = list(texts)
            yield {"entity": "stack", "name": str(code), "facts": facts}

    def _read(self, blocks: Iterator[Block], conversion: Conversion) -> Iterator[tuple[Int64, Int32]]:
        """Yields chains with the numbers of their stacks; the last chain of a block waits for the next block."""
        waiting = np.zeros((0, 5), np.int64)
        for block in blocks:
            conversion.report.used(len(block), outcome="stacks")
            columns = [block.get(name) for name in ("id", "symbol", "module", "stackDepth", "originalIP")]
            if any(column is None for column in columns[:2]):
                continue
            numbers = (None if column is None else as_numbers(column) for column in columns)
            rows = np.stack([filled(column, len(block), -1) for column in numbers], axis=1)
            rows = np.concatenate([waiting, rows])
            last = int(np.searchsorted(np.cumsum(rows[::-1, 0] != rows[-1, 0]), 1)) if len(rows) else 0
            rows, waiting = rows[: len(rows) - last], rows[len(rows) - last :]
            yield self._number(rows)
        yield self._number(waiting)

    def _number(self, rows: Int64) -> tuple[Int64, Int32]:
        """Returns the chains in rows of (chain, symbol, module, depth, address), and the number of each one's stack."""
        if not len(rows):
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        starts = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
        ends = np.append(starts[1:], len(rows))
        chain = np.repeat(np.arange(len(starts)), ends - starts)
        rows = rows[np.lexsort((rows[:, 3], chain))]
        with np.errstate(over="ignore"):
            weight = (np.arange(len(rows)) - np.repeat(starts, ends - starts)).astype(np.uint64)
            mixed = (rows[:, 1].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ rows[:, 2].astype(np.uint64)
            mixed ^= rows[:, 4].astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
            mixed = (mixed + weight * np.uint64(0xC2B2AE3D27D4EB4F)) * (mixed | np.uint64(1))
        sums = np.add.reduceat(mixed, starts)
        # Chains with one hash are the same stack; the frames of the first chain of each hash are looked up.
        _, first, kind = np.unique(sums, return_index=True, return_inverse=True)
        codes = np.empty(len(first), np.int32)
        for number in np.argsort(first, kind="stable").tolist():
            at = int(first[number])
            frames = tuple(map(tuple, rows[starts[at] : ends[at], [1, 2, 4]].tolist()))
            codes[number] = self._codes.setdefault(frames, len(self._codes))
        return rows[starts, 0], codes[kind]
