"""Reads NVTX: ranges, marks, and the rows between them that name domains, categories and threads.

start      end        eventType  text    globalTid        textId  domainId
64186762              75         MPI     302119224788637          1          domain 1 is named MPI
837497679  851453601  59                 302119224788637  85      1          MPI_Send, on the track MPI
924881857  924940911  59         saxpy   302119224788637          0          on the thread itself

A payload is JSON in a text; each distinct text is parsed once:

jsonText  {"NCCL communicator ID": 7, "Message size [bytes]": 4096}   in NCCL's domain: `comm` 7, `bytes` 4096
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant, mapped_words, words
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json, load_json

from .reading import ExportReader
from .typed_columns import LOW, NO_NAME, distinct_tuples, distinct_words, pid_of, row_of, unsigned, without

#: Keys in the payload of NCCL's ranges that are columns of the model.
_COMM, _BYTES = "NCCL communicator ID", "Message size [bytes]"


def json_column(text: pa.StringArray) -> pa.DictionaryArray:
    """Returns the texts as JSON if they are JSON, else as JSON strings."""
    return mapped_words(text, lambda word: _payload(word, nccl=False)[0], pa.binary())


def parsed(text: pa.StringArray, tracks: pa.DictionaryArray | None) -> dict[str, pa.Array]:
    """Returns the argument jsonText; for NCCL's track also the columns `comm` and `bytes`."""
    nccl = np.zeros(len(text), np.bool_)
    if tracks is not None:
        nccl = pc.fill_null(pc.equal(tracks.cast(pa.string()), "NCCL"), False).to_numpy(zero_copy_only=False)
    if not nccl.any():
        return {"args.jsonText": json_column(text)}
    encoded = text.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) * 2 + nccl
    distinct_codes, keys = np.unique(codes, return_inverse=True)
    words = encoded.dictionary
    payloads = [
        (None, None, None) if code < 0 else _payload(words[code // 2].as_py(), nccl=bool(code % 2))
        for code in distinct_codes.tolist()
    ]
    place = pa.array(keys.astype(np.int32))
    texts, comms, sizes = (list(part) for part in zip(*payloads, strict=True))
    return {
        "args.jsonText": pa.array(texts, pa.binary()).take(place).dictionary_encode(),
        "comm": pa.array(comms, pa.string()).take(place),
        "bytes": pa.array(sizes, pa.int64()).take(place),
    }


def _payload(text: str, *, nccl: bool) -> tuple[bytes | None, str | None, int | None]:
    """Returns the payload as JSON without the keys that become columns, the communicator, and the bytes."""
    try:
        value = load_json(text)
    except (ValueError, RecursionError):
        return dump_json(text).encode(), None, None
    if not nccl or not isinstance(value, dict):
        return dump_json(value).encode(), None, None
    comm, size = value.pop(_COMM, None), value.get(_BYTES)
    if type(size) is int and 0 <= size < 1 << 63:
        del value[_BYTES]
    else:
        size = None
    return (dump_json(value).encode() if value else None), None if comm is None else str(comm), size


#: Event types of NVTX and of its text files (nvtxt).
_MARKS, _RANGES, _PROCESS_RANGES = (34, 65), (59, 70), (60, 71)
_CATEGORIES, _THREADS, _DOMAINS, _ENDS_OF_DOMAINS = (33, 64), (39, 72), (75,), (76,)

#: Event types that aren't kept as an argument.
_COMMON = (59, 60, 34)

#: The track of the ranges of a process in the default domain.
_PROCESS_TRACK = "NVTX"

_NAMES = (*_CATEGORIES, *_THREADS, *_DOMAINS, *_ENDS_OF_DOMAINS)


class Nvtx:
    """The ranges of a table, and the names of domains, categories and threads in it."""

    def __init__(self, reading: ExportReader, table: str) -> None:
        self._reading = reading
        self._table = table
        self._domains: dict[tuple[int, int], str] = {}
        self._categories: dict[tuple[int, int, int], str] = {}
        self.threads: dict[int, str] = {}
        self._read_names()

    def _read_names(self) -> None:
        """Reads the rows that aren't ranges but names."""
        database = self._reading.database
        if not database.has(self._table, "eventType"):
            return
        columns = ("eventType", "globalTid", "domainId", "category", "text", "textId")
        rows = database.part(self._table, columns, f"eventType IN ({', '.join(map(str, _NAMES))})").to_pylist()
        for values in rows:
            row, bad_column = row_of(tuple(values), tuple(values.values()))
            kind, number, domain = (row.get(name) for name in columns[:3])
            text = row.get("text") or self._reading.strings.text(row.get("textId"))
            if text is None or number is None or bad_column:
                continue
            if kind in _DOMAINS:
                self._domains[pid_of(number), domain or 0] = text
            elif kind in _CATEGORIES:
                self._categories[pid_of(number), domain or 0, row.get("category") or 0] = text
            elif kind in _THREADS:
                self.threads[number] = text

    def batches(self) -> Iterator[Batch]:
        """Yields ranges and marks."""
        reading = self._reading
        for block, ids in reading.timed(self._table, "start", end="end", open_end=True, prepare=_without_zeros):
            kinds = block.take("eventType")
            numbers = np.full(len(block), _RANGES[0]) if kinds is None else pc.fill_null(kinds, 0).to_numpy()
            names = np.isin(numbers, _NAMES)
            if not names.any():
                yield self._rows(block, ids, numbers)
                continue
            reading.conversion.report.used(int(names.sum()), outcome="catalog")
            if not names.all():
                yield self._rows(block.filter(pa.array(~names)), ids[~names], numbers[~names])

    def _rows(self, block: Block, ids: Int64, numbers: Int64) -> Batch:
        """Returns the events of rows; `numbers` are their event types."""
        reading = self._reading
        block.drop("eventType")
        thread = block.get("globalTid")
        mark, process = np.isin(numbers, _MARKS), np.isin(numbers, _PROCESS_RANGES)
        columns: dict[str, Any] = {"kind": "range", **block.span("start", "end"), **reading.places.thread(block)}
        if mark.any():
            columns["kind"] = words(["range", "instant"], mark)
            columns["dur"] = None if columns["dur"] is None else pc.if_else(pa.array(mark), None, columns["dur"])
        if process.any() and thread is not None:
            columns["args.tid"] = pc.if_else(pa.array(process), columns["tid"], None)
            columns["tid"] = pc.if_else(pa.array(process), None, columns["tid"])
        if (last := block.take("endGlobalTid")) is not None:
            columns |= _end_thread(last, columns.get("pid"))
        rare = ~np.isin(numbers, _COMMON)
        if rare.any():
            types = reading.enums.column("NSYS_EVENT_TYPE", pa.array(numbers, mask=~rare))
            columns["args.eventType"] = types
        if (colour := block.take("color")) is not None:
            columns["args.color"] = _argb(colour)
        if (payload := block.take("uint64Value")) is not None:
            columns["args.uint64Value"] = unsigned(payload)
        columns |= {"name": self._name(block), **self._domain_and_category(block, columns.get("pid"), process)}
        return reading.batches.events(block, ids, **columns, **self._payload(block, columns.get("track")))

    def _name(self, block: Block) -> pa.Array:
        """Returns the row's own text, else the registered one."""
        text, ids = block.take("text"), block.take("textId")
        if text is not None and ids is not None and pc.any(pc.equal(text, "")).as_py():
            text = pc.if_else(pc.and_(pc.equal(text, ""), pc.is_valid(ids)), None, text)
        if text is not None and not text.null_count:
            return text
        if ids is None or ids.null_count == len(block):
            return constant(NO_NAME, len(block)) if text is None else pc.fill_null(text, NO_NAME)
        registered = self._reading.strings.column(block, ids)
        if text is None or text.null_count == len(block):
            return pc.fill_null(registered, NO_NAME) if registered.null_count else registered
        return pc.fill_null(pc.coalesce(text, registered.cast(pa.string())), NO_NAME)

    def _domain_and_category(self, block: Block, pids: pa.Array | None, process: Bools) -> dict[str, pa.Array]:
        """Returns the domain as the track (null for a thread's default domain) and the category, if named, as `cat`."""
        domain, category = block.take("domainId"), block.get("category")
        columns: dict[str, pa.Array] = {}
        if domain is not None or process.any():
            crossing = pa.array(process.astype(np.int64)) if process.any() else None
            keys, distinct_keys = distinct_tuples([pids, domain, crossing], len(block))
            tracks = [self._track(*key) for key in distinct_keys]
            if any(tracks):
                columns["track"] = _named(keys, tracks)
        if category is not None and category.null_count < len(block) and self._categories:
            keys, distinct_keys = distinct_tuples([pids, domain, category], len(block))
            named = [self._categories.get((pid, number or 0, kind or 0)) for pid, number, kind in distinct_keys]
            if any(named):
                columns["cat"] = _named(keys, named)
                block.take("category")
                unnamed = pc.is_null(columns["cat"])
                columns["args.category"] = pc.if_else(unnamed, category, None)
        return columns

    def _track(self, pid: int, domain: int | None, process: int | None) -> str | None:
        """Returns the name of a domain; for ranges of a process, the default domain has the name NVTX."""
        return (
            self._domains.get((pid, domain or 0))
            or (f"NVTX domain {domain}" if domain else None)
            or (_PROCESS_TRACK if process else None)
        )

    def _payload(self, block: Block, tracks: pa.DictionaryArray | None) -> dict[str, pa.Array]:
        """Returns JSON payloads as arguments, and NCCL's communicator and size as columns."""
        text, ids = block.take("jsonText"), block.take("jsonTextId")
        columns: dict[str, pa.Array] = {}
        if ids is not None and ids.null_count < len(block):
            registered = self._reading.strings.column(block, ids).cast(pa.string())
            text = registered if text is None else pc.coalesce(text.cast(pa.string()), registered)
        if text is not None and text.null_count < len(block):
            columns |= parsed(text.cast(pa.string()), tracks)
        return columns


def _end_thread(numbers: pa.Array, pids: pa.Array | None) -> dict[str, pa.Array]:
    """Returns the thread that ended a range as an argument, with its process if that is a different one."""
    last = without(numbers, 0)
    pid = pc.bit_wise_and(pc.shift_right(last, 24), LOW)
    same = pa.scalar(False) if pids is None else pc.equal(pid, pids)
    return {"args.endTid": pc.bit_wise_and(last, LOW), "args.endPid": pc.if_else(same, None, pid)}


_WHOLE = re.compile(r"-?[0-9]{1,10}")


def _argb(colours: pa.Array) -> pa.DictionaryArray:
    """Returns "#FF76B900" (alpha, red, green, blue) for 4285970688, which SQLite may store as a negative number.

    Anything else than a whole number stays as it is. In a block with such a value the numbers are texts, too.
    """
    return mapped_words(colours, lambda it: f"#{int(it) & 0xFFFFFFFF:08X}" if _WHOLE.fullmatch(str(it)) else str(it))


def _without_zeros(block: Block) -> Block:
    """Returns the rows with null for an end of 0: exports of 2019 to 2021 have 0 for null."""
    start, end = block.get("start"), block.get("end")
    if start is None or end is None:
        return block
    zero = pc.fill_null(pc.and_(pc.equal(end, 0), pc.greater(start, 0)), False)
    return block.replaced({"end": pc.if_else(zero, None, end)}) if zero.true_count else block


def _named(keys: Any, names: list[str | None]) -> pa.DictionaryArray:
    codes, distinct = distinct_words(names)
    return pa.DictionaryArray.from_arrays(codes.take(pa.array(keys)), distinct)
