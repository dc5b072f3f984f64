"""What the tables of a recording share: columns of cells, GPUs, channels, processes, threads, labels of encoders.

A column is of numbers where all its cells are numbers, else of texts. Rows that an earlier table had are recognised.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.model.arrays import Bools, Int64, UInt64
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report
from ktrace.store.vocabulary import Interner

from .rows import Schema
from .values import Values

#: Columns that are numbers whatever their cells are: "0x1f" and "-5" are numbers, another text is null.
NUMBERS = frozenset({"start", "duration", "timestamp", "event-depth", "cmdbuffer-id", "encoder-id", "bytes"})

#: Columns that only say how Instruments draws a row, or repeat others as a sentence.
_DRAWING = frozenset({"color", "event-icon", "encoder-time-label", "show-per-thread"})

_PROCESS = re.compile(r"(?:(.*) )?\(?(\d{1,10})\)?", re.DOTALL)
_OF_THREAD = re.compile(r"pid: (\d{1,10})\)")
_THREAD = re.compile(r"\(?0x([0-9a-fA-F]{1,15})\)?(?= \()")


def block_of(schema: Schema, codes: Int64, first_row: int, values: Values, place: str = "") -> Block:
    """Returns rows as a block. Of two columns with the same mnemonic, the later one has its position in its name."""
    columns: dict[str, pa.Array] = {}
    for index, mnemonic in enumerate(schema.columns):
        if mnemonic in _DRAWING:
            continue
        name = f"{mnemonic or 'column'} {index + 1}" if mnemonic in columns or not mnemonic else mnemonic
        columns[name] = _column(codes[:, index], values, number=mnemonic in NUMBERS)
    numbers = np.arange(first_row, first_row + len(codes))
    return Block(f"{place}{schema.name or 'table'} row", pa.array(numbers), columns)


def _column(codes: Int64, values: Values, *, number: bool) -> pa.Array:
    if number or not (codes < 0).any():
        numbers, absent = values.numbers(codes)
        return pa.array(numbers, mask=absent)
    is_text: Bools = np.not_equal(codes, 0)
    distinct_codes, first, indices = np.unique(codes[is_text], return_index=True, return_inverse=True)
    order = np.argsort(first)
    texts = [values.text(code) for code in distinct_codes[order].tolist()]
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    words = np.zeros(len(codes), np.int32)
    words[is_text] = place[indices.reshape(-1)]
    return pa.DictionaryArray.from_arrays(pa.array(words, mask=~is_text), pa.array(texts, pa.string()))


def texts(column: pa.Array | None, rows: int) -> list[str | None]:
    """The texts of a column, None for null."""
    if column is None:
        return [None] * rows
    strings: list[str | None] = column.cast(pa.string()).to_pylist()
    return strings


def mapped(column: pa.Array | None, rows: int, value: Callable[[str], object], kind: pa.DataType) -> pa.Array:
    """A column with a value for each text; the function is called once for each distinct text."""
    if column is None:
        return pa.nulls(rows, kind)
    return by_distinct(column if pa.types.is_dictionary(column.type) else column.cast(pa.string()), value, kind)


def process(text: str) -> tuple[str | None, int | None]:
    """Returns the name and the number of a process: 'python (99926)'."""
    match = _PROCESS.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, None)


def thread(text: str) -> int | None:
    """Returns the number of a thread: 'Main Thread (0x11ab5b7) (python, pid: 99926)', 'Main Thread 0x1 (...)'."""
    match = _THREAD.search(text)
    return int(match[1], 16) if match else None


def process_of_thread(text: str) -> int | None:
    """Returns the number of the process in the name of a thread."""
    match = _OF_THREAD.search(text)
    return int(match[1]) if match else None


def process_number(text: str) -> int | None:
    """Returns the number of a process that is alone in its cell."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None


#: Labels of encoders that are remembered for the rows of the GPU; those of the later ones aren't joined.
_MOST_LABELS = 1 << 20

#: Threads whose names are remembered.
_MOST_THREADS = 1 << 16

#: The columns by which a row is recognised that two nodes contain.
_KEY = ("start", "duration", "cmdbuffer-id", "encoder-id", "event-depth")

#: What Instruments writes instead of a label.
_NO_LABEL = re.compile(r"(?:GPU Execution|Co[ae]l[ae]sced \d+ Encoders?)?")


class Gpu:
    """The facts of a recording, and what later tables need of earlier ones."""

    def __init__(self) -> None:
        self.counters: dict[str, tuple[str, str | None]] = {}
        self.unjoined = 0
        self._devices = Interner()
        self._streams = Interner()
        self._processes: dict[int, str | None] = {}
        self._threads: dict[tuple[int | None, int], str] = {}
        self._labels: dict[int, str] = {}
        self._seen = _Seen()

    def begin_node(self) -> None:
        """The next rows are of another node: it may repeat rows of those before."""
        self._seen.begin_node()

    def first_time(self, block: Block, report: Report) -> Block:
        """Returns the rows that no earlier node had; reports the others as folded."""
        again = self._seen.again(block)
        if not again.any():
            return block
        report.used(int(again.sum()), outcome="folded")
        where = block.where(int(np.flatnonzero(again)[0]))
        report.issue("folded", where, "the same rows as in an earlier table", int(again.sum()))
        return block.filter(pa.array(~again))

    def devices(self, column: pa.Array | None, rows: int) -> pa.Array:
        """The ordinals of GPUs, in the order of their first rows."""
        numbers = mapped(column, rows, self._devices.__getitem__, pa.int64())
        if numbers.null_count:
            self._devices.setdefault("", 0)
        return numbers.fill_null(0)

    def streams(self, column: pa.Array | None, rows: int) -> pa.Array:
        """The numbers of channels, in the order of their first rows."""
        return mapped(column, rows, self._streams.__getitem__, pa.int64())

    def pids(self, column: pa.Array | None, rows: int) -> pa.Array:
        """The numbers of processes."""
        return mapped(column, rows, self._pid, pa.int64())

    def _pid(self, text: str) -> int | None:
        name, pid = process(text)
        if pid is not None and (name or pid not in self._processes):
            self._processes[pid] = name
        return pid

    def threads(self, names: list[str | None], tids: pa.Array, pids: pa.Array) -> None:
        """Remembers the names of threads."""
        for name, tid, pid in dict.fromkeys(zip(names, tids.to_pylist(), pids.to_pylist(), strict=True)):
            if name and tid is not None and len(self._threads) < _MOST_THREADS:
                self._threads[pid, tid] = name.partition(" (")[0].partition(" 0x")[0]

    def unit(self, counter: str) -> str | None:
        """The unit of a counter."""
        kind = self.counters.get(counter, ("", None))[1]
        return "%" if kind == "Percentage" else None

    def label(self, encoders: pa.Array | None, labels: list[str | None], buffers: list[str | None]) -> None:
        """Remembers the labels of encoders."""
        for encoder, label, buffer in zip(
            encoders.to_pylist() if encoders is not None else (), labels, buffers, strict=False
        ):
            if encoder is None or not label:
                continue
            if len(self._labels) < _MOST_LABELS:
                self._labels[encoder] = f"{buffer}:{label}" if buffer else label
            else:
                self.unjoined += 1

    def names(
        self, labels: pa.Array | None, processes: list[str | None], encoders: pa.Array | None, rows: int
    ) -> pa.Array:
        """The names of the GPU's rows: their labels, else those of their encoders."""
        written = [None] * rows if labels is None else labels.cast(pa.string()).to_pylist()
        numbers = [None] * rows if encoders is None else encoders.to_pylist()
        codes: dict[str, int] = {}
        indices = np.empty(rows, np.int32)
        is_labelled = self._labels
        for row, (label, owner, encoder) in enumerate(zip(written, processes, numbers, strict=True)):
            name = _own_label(label, owner) if label else ""
            if is_labelled and _NO_LABEL.fullmatch(name):
                name = is_labelled.get(encoder, name) if encoder is not None else name
            indices[row] = codes.setdefault(name or "GPU Execution", len(codes))
        return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(codes), pa.string()))

    def facts(self, rows: RowBuilder) -> None:
        """Adds what is known of the recording."""
        rows.tool_and_clock("Instruments", "session")
        for name, device in self._devices.items():
            rows.fact("device", device=device, name=name or None, facts={"api": "metal", "vendor": "Apple"})
        for device in self._devices.values():
            for name, stream in self._streams.items():
                rows.fact("stream", device=device, stream=stream, name=name)
        for pid, process_name in self._processes.items():
            if process_name:
                rows.fact("process", pid=pid, name=process_name)
        for (owner, tid), thread_name in self._threads.items():
            rows.fact("thread", pid=owner, tid=tid, name=thread_name)


def _own_label(label: str, owner: str | None) -> str:
    """A label without the process and the address: 'Command Buffer 0:Compute Command 0  ( python (42) )  0x4e18'."""
    at = label.rfind(owner) if owner else -1
    if at > 0:
        open_at = label.rfind("(", 0, at)
        if open_at >= 0 and not label[open_at + 1 : at].strip():
            return label[:open_at].rstrip()
    return label.rstrip()


class _Seen:
    """Hashes of the rows of the nodes before, in a temporary file of 8 bytes a row."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the reading)
        self._rows = 0
        self._before: UInt64 = np.zeros(0, np.uint64)

    def begin_node(self) -> None:
        """Makes the rows so far those of nodes before."""
        if not self._rows:
            return
        self._file.flush()
        if len(self._before) != self._rows:
            self._before = np.memmap(self._file, np.uint64, "r+", shape=(self._rows,))
            self._before.sort()

    def again(self, block: Block) -> Bools:
        """Whether rows were in a node before; remembers the others."""
        keys = np.zeros(len(block), np.uint64)
        for name in _KEY:
            column = block.get(name)
            values: Int64 = (
                np.zeros(len(block), np.int64)
                if column is None
                else column.fill_null(-1).to_numpy(zero_copy_only=False)
            )
            keys = _mixed(keys ^ values.astype(np.uint64))
        at = np.searchsorted(self._before, keys)
        repeated = np.zeros(len(block), np.bool_)
        if len(self._before):
            repeated = self._before[np.minimum(at, len(self._before) - 1)] == keys
        self._file.seek(0, 2)
        self._file.write(keys[~repeated].tobytes())
        self._rows += int((~repeated).sum())
        return repeated


def _mixed(keys: UInt64) -> UInt64:
    """Spreads the bits of numbers (the finaliser of splitmix64)."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
