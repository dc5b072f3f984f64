"""Collects the collectives of a trace, source by source, with what their arguments and NCCL's own ranges state.

kernel   ncclDevKernel_AllReduce_Sum_bf16_RING_LL   of most sources
kernel   hcom_allReduce__77_0_1                     HCCL's, as one piece, whose tasks are ranges
op       nccl:all_reduce                            of a recorder without device work

What one moves: of all_gather the bytes are those of the whole output, of reduce_scatter those of the whole input, as in
nccl-tests (doc/PERFORMANCE.md). Kineto states both sides; NCCL Inspector and HCCL the count of one rank, which for
these two, and for all_to_all, is a part of the whole.

NCCL's own ranges (NVTX, in traces of Nsight Systems) state communicator and bytes of kernels launched in or after them:

thread 4242   [ ncclAllReduce, comm 77, 4 MiB ] [ ncclGroupEnd          ]
                                                   [ launch ]                  the only one since the last launch

A range names the kernel if it is the only one between the last launch of a collective on the thread and this launch,
and if both are the same operation. Of several in one group nothing tells which kernel is which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.gather import durations
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Int8, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64
from ktrace.model.json_text import NOT_JSON, encoded
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.naming.taxonomy import SENDS, is_collective, is_send, operation_in
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.store.vocabulary import RowKeys

#: Bytes of an element, by the names of torch and HCCL.
_BYTES: dict[str, int] = {
    **dict.fromkeys(("bool", "byte", "char", "int8", "uint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "uint16", "int16", "fp16", "bfp16", "float16"), 2),
    **dict.fromkeys(("float", "int", "uint32", "int32", "fp32", "float32"), 4),
    **dict.fromkeys(("double", "long", "uint64", "int64", "fp64", "float64", "complexfloat"), 8),
    "complexdouble": 16,
    "unsigned char": 1,
    "signed char": 1,
    "short int": 2,
    "long int": 8,
}

#: The size of the group, by Kineto, NCCL Inspector, HCCL.
_RANKS = ("Group size", "n_ranks", "rankSize")

#: The ranks that send and receive, by Kineto.
_PEERS = ("Src Rank", "Dst Rank")

#: The arguments that `facts_of` looks at.
_STATED = frozenset(
    (
        *("Collective name", "Process Group Ranks", "Process Group Description", "comm_name", *_RANKS),
        *("In msg nelems", "Out msg nelems", "count", "dtype", "dataType", "data_type"),
        *("Input Dims", "Input type", "output_sizes", "output_dtypes", *_PEERS),
    )
)

#: Finds one of them in the JSON text of arguments, or a letter of it that is written as its number.
_STATED_IN_TEXT = "|".join(['"(?:' + "|".join(sorted(_STATED)) + ')"', r"\\u00"])

#: Greatest number that counts as a size.
_LIMIT = 1 << 62

#: Operations whose bytes are those of one rank times the number of ranks, if a source states those of one rank.
_OF_ALL = frozenset({"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})

#: Bus bandwidth in parts of the algorithm bandwidth, by the number of ranks (nccl-tests); a number for any of them.
_FACTORS: dict[str, Callable[[int], float] | float] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    **dict.fromkeys(_OF_ALL, lambda ranks: (ranks - 1) / ranks),
    **dict.fromkeys(("broadcast", "reduce", *SENDS), 1.0),
}


def factor_of(operation: str, ranks: int | None) -> float | None:
    """Bus bandwidth in parts of the algorithm bandwidth, None if it isn't known; a rank alone has no bus."""
    factor = _FACTORS.get(operation)
    if not callable(factor):
        return factor
    return None if ranks is None or ranks < 2 else factor(ranks)


class Facts(NamedTuple):
    """What the arguments of a collective state.

    `sent` and `received` are bytes of the rank's tensors, `part` bytes of the smaller of both. `ranks` is the size of
    the group, `members` its ranks as text, `comm` the communicator where the event itself has none, `pair` the ranks
    from which and to which it sends.
    """

    operation: str | None = None
    sent: int | None = None
    received: int | None = None
    part: int | None = None
    ranks: int | None = None
    group: str | None = None
    members: str | None = None
    comm: str | None = None
    pair: tuple[int, int] | None = None


def facts_of(args: dict[str, Any]) -> Facts:
    """The facts in the arguments of Kineto, NCCL Inspector, PyTorch's flight recorder, or Ascend."""
    collective, members = _text(args, "Collective name"), _text(args, "Process Group Ranks")
    width = _width(args, "dtype", "dataType", "data_type")
    group = _text(args, "Process Group Description", "comm_name")
    source, target = (_to_int_or_none(args.get(name)) for name in _PEERS)
    return Facts(
        operation=collective and operation_in(collective),
        sent=_times(args.get("In msg nelems"), width)
        if collective
        else _tensors(args.get("Input Dims"), args.get("Input type")),
        received=_tensors(args.get("output_sizes"), args.get("output_dtypes"))
        if "output_sizes" in args
        else _times(args.get("Out msg nelems"), width),
        part=_times(args.get("count"), width),
        ranks=next((size for key in _RANKS if (size := _to_int_or_none(args.get(key)))), None),
        group=None if group in ("undefined", "unknown") else group,
        members=members,
        pair=None if source is None or target is None or source == target else (source, target),
    )


def moved(operation: str, facts: Facts, size: int | None) -> int | None:
    """The bytes that a collective moves, None if they aren't known; `size` is the event's own, of one rank."""
    if operation == "barrier":
        return None
    sent, received = facts.sent, facts.received
    if received is not None and sent is None:
        sent = size
    if sent is not None or received is not None:
        if operation == "all_gather":
            return received
        if operation in ("gather", "scatter"):
            part = sent if operation == "gather" else received
            return _times(part, facts.ranks)
        return sent or received
    part = facts.part if size is None else size
    if part is None or operation not in _OF_ALL:
        return part
    return _times(part, facts.ranks)


def _text(args: dict[str, Any], *keys: str) -> str | None:
    return next((value for key in keys if isinstance(value := args.get(key), str) and value), None)


def _to_int_or_none(value: Any) -> int | None:
    return as_int64(value, 0, _LIMIT - 1)


def _width(args: dict[str, Any], *keys: str) -> int | None:
    name = _text(args, *keys)
    return None if name is None else _bytes(name)


def _bytes(kind: Any) -> int | None:
    return _BYTES.get(kind.lower().removeprefix("c10::")) if isinstance(kind, str) else None


def _times(count: Any, width: int | None) -> int | None:
    whole = _to_int_or_none(count)
    return None if whole is None or width is None else _to_int_or_none(whole * width)


def _tensors(sizes: Any, kinds: Any) -> int | None:
    """The bytes of some tensors; None if a size or a type isn't known."""
    if not isinstance(sizes, list) or not isinstance(kinds, list) or len(sizes) != len(kinds) or not sizes:
        return None
    total = 0
    for extents, kind in zip(sizes, kinds, strict=True):
        size = _bytes(kind)
        for extent in extents if isinstance(extents, list) else (None,):
            size = _times(extent, size)
        if size is None:
            return None
        total += size
    return _to_int_or_none(total)


#: The domain of NCCL's ranges.
_DOMAIN = "NCCL"

_Thread = tuple[str | None, int | None, int | None]


class NamedCall(NamedTuple):
    """What a range of NCCL's states: operation, communicator, and the bytes of one rank."""

    operation: str
    comm: str
    size: int | None


class NamedCalls:
    """NCCL's ranges: ts, size (-1: not known), and the number of the shape."""

    def __init__(self, spill: Spill, user: str = "") -> None:
        self._shapes = RowKeys(("host", "pid", "tid", "name", "comm"))
        self._rows = StoredColumns(spill, f"{user}named", ts="i8", size="i8", shape="i4")
        self._is_call = NameTest(lambda name: name.startswith("nccl") and operation_in(name) is not None)

    @property
    def sources(self) -> list[str]:
        """The sources that have ranges."""
        return self._rows.sources

    def add(self, batch: Batch) -> None:
        """Adds the ranges among events of one source."""
        if not batch.has("comm") or not batch.has("track"):
            return
        is_range = words_in(batch.column("track"), (_DOMAIN,)) & words_in(batch.column("kind"), ("range",))
        is_range &= truth(batch.column("comm").is_valid())
        if not is_range.any():
            return
        rows = np.flatnonzero(is_range & self._is_call(batch.column("name")))
        if len(rows):
            size, is_sized = values(batch.columns, "bytes")
            ts = batch.column("ts").to_numpy()[rows]
            shape = self._shapes.number(batch, rows)
            self._rows.add(source_of(batch), ts=ts, size=np.where(is_sized, size, -1)[rows], shape=shape)

    def of_launches(self, work: Work, source: str, ids: Int64, names: Sequence[str]) -> list[NamedCall | None]:
        """The range of each kernel, by its id and name."""
        events = work.for_source(source)
        order = np.argsort(events.ids)
        place = order[np.minimum(np.searchsorted(events.ids, ids, sorter=order), len(order) - 1)]
        launched = np.flatnonzero((events.ids[place] == ids) & (events.call[place] >= 0))
        call = events.call[place[launched]]
        launches: defaultdict[_Thread, list[tuple[int, int]]] = defaultdict(list)
        begins, threads = events.calls["ts"][call].tolist(), events.calls["thread"][call].tolist()
        for row, ts, thread in zip(launched.tolist(), begins, threads, strict=True):
            one = work.threads[thread]
            launches[one["host"], one["pid"], one["tid"]].append((ts, row))
        calls: list[NamedCall | None] = [None] * len(ids)
        for thread, rows in launches.items():
            self._name(calls, source, thread, sorted(rows), names)
        return calls

    def _name(
        self,
        calls: list[NamedCall | None],
        source: str,
        thread: _Thread,
        launches: list[tuple[int, int]],
        names: Sequence[str],
    ) -> None:
        """Fills in the ranges of the launches (time, row) of a thread."""
        shapes, rows = self._shapes.all(), self._rows.for_source(source)
        used, which = np.unique(rows["shape"], return_inverse=True)
        places = (tuple(shapes[one][name] for name in ("host", "pid", "tid")) for one in used.tolist())
        ranges = np.flatnonzero(np.array([place == thread for place in places], np.bool_)[which])
        ranges = ranges[np.argsort(rows["ts"][ranges], kind="stable")]
        until = np.searchsorted(rows["ts"][ranges], [ts for ts, _ in launches], "right")
        since = 0
        for (_, row), after in zip(launches, until.tolist(), strict=True):
            if after - since == 1:
                shape, size = shapes[rows["shape"][ranges[since]]], int(rows["size"][ranges[since]])
                operation = operation_in(shape["name"]) or ""
                if operation_in(names[row]) in (None, operation):
                    calls[row] = NamedCall(operation, shape["comm"], None if size < 0 else size)
            since = after


#: The columns of the model that it looks at.
COLUMNS = frozenset(
    {"ts", "dur", "id", "kind", "name", "short_name", "operation", "comm", "comm_seq", "bytes", "args"}
    | {"host", "pid", "tid", "device", "stream", "track", "metric", "value"}
)

#: What one rank's collectives have in common, by number.
_SHAPE = ("source", "host", "pid", "device", "name", "short_name", "comm")

#: Torch's ranges of collectives that have no kernels.
_BACKENDS = ("gloo:", "mpi:")

#: A source's collectives are its kernels, else ranges, else operators.
KERNEL, RANGE, OP = range(3)

#: A number that isn't known.
UNKNOWN = -1

#: Arguments of collectives.
_DECODER = msgspec.json.Decoder(dict[str, Any])


class CollectiveRows:
    """The collectives: ts, dur (-1 without an end), id, seq and size (-1: not known), numbers of facts and shape."""

    def __init__(self, spill: Spill, user: str = "") -> None:
        self.shapes = RowKeys(_SHAPE)
        self.named = NamedCalls(spill, user)
        self._facts: dict[Facts, int] = {}
        types = {"ts": "i8", "dur": "i8", "id": "i8", "seq": "i8", "size": "i8", "facts": "i4", "shape": "i4"}
        self._rows = StoredColumns(spill, f"{user}collectives", **types, grade="i1")
        self._of_library = NameTest(lambda name: is_collective(name) or ("ccl" in name.lower() and is_send(name)))
        self._of_backend = NameTest(lambda name: name.startswith(_BACKENDS) and operation_in(name) is not None)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def facts(self) -> list[Facts]:
        """The different facts, by number."""
        return list(self._facts)

    @property
    def sources(self) -> list[str]:
        """The sources that have collectives."""
        return self._rows.sources

    def for_source(self, source: str) -> dict[str, Any]:
        """The collectives of a source that describe it best, as columns."""
        columns = self._rows.for_source(source)
        best = columns["grade"] == columns["grade"].min()
        return columns if best.all() else {name: column[best] for name, column in columns.items()}

    def number(self, facts: Facts) -> int:
        """The number of these facts."""
        return self._facts.setdefault(facts, len(self._facts))

    def add(self, batch: Batch) -> None:
        """Adds the collectives among events of one source, and what NCCL's own ranges state about them."""
        self.named.add(batch)
        grade = self._grades(batch)
        graded = grade >= 0
        if not graded.any():
            return
        rows = Batch("events", batch.columns.filter(pa.array(graded)))
        numbers = {name: values(rows.columns, name) for name in ("comm_seq", "bytes")}
        seq, size = (np.where(is_stated, number, UNKNOWN) for number, is_stated in numbers.values())
        self._rows.add(
            source_of(rows),
            ts=rows.column("ts").to_numpy(),
            dur=durations(rows),
            id=rows.column("id").to_numpy(),
            seq=seq,
            size=size,
            facts=self._facts_of(rows),
            shape=self.shapes.number(rows, np.arange(len(rows))),
            grade=grade[graded],
        )

    def _grades(self, batch: Batch) -> Int8:
        """The grade of each event, -1 for one that isn't a collective."""
        labelled = words_in(batch.column("operation"), ("collective",))
        grouped = truth(batch.column("comm").is_valid())
        kernel, range_, op = (words_in(batch.column("kind"), (kind,)) for kind in ("kernel", "range", "op"))
        grade = np.full(len(batch), -1, np.int8)
        if op.any():
            grade[op & labelled] = OP
        if range_.any():
            backend = self._of_backend(batch.column("name"))
            grade[range_ & backend] = RANGE
        if kernel.any():
            grade[kernel & (labelled | grouped | self._of_library(batch.column("name")))] = KERNEL
        return grade

    def _facts_of(self, rows: Batch) -> Int32:
        """The number of the facts of each row; equal arguments are decoded once, and only those that state any."""
        words = encoded(rows.args_text(_STATED))
        fact_numbers = self._facts
        numbers = np.full(len(words.dictionary) + 1, fact_numbers.setdefault(Facts(), len(fact_numbers)), np.int32)
        stating = pc.indices_nonzero(pc.match_substring_regex(words.dictionary, _STATED_IN_TEXT))
        texts = words.dictionary.take(stating).to_pylist()
        numbers[stating] = [fact_numbers.setdefault(_facts(text), len(fact_numbers)) for text in texts]
        codes: Int64 = words.indices.fill_null(len(words.dictionary)).to_numpy(zero_copy_only=False)
        chosen: Int32 = numbers[codes]
        return chosen


def _facts(text: str | None) -> Facts:
    try:
        return facts_of(_DECODER.decode(text)) if text else Facts()
    except NOT_JSON:
        return Facts()
