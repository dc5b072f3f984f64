"""How kernels are launched, how long they are and what limits them; copies by direction; kernels that could be fused.

The questions of `ktrace summary --by launch`, `limits`, `duration`, `copy` and `sequence`; `answer` has their figures
as tables.

kernel   gemm   grid 64x32   block 256   registers 96         a launch, of a trace or of a report of ncu
metric   sm__throughput.avg.pct_of_peak_sustained_elapsed     of the launch that is its parent
note     "Registers limit the blocks ..."                     what a rule says of it

Configurations are columns, since there may be as many as launches:

kernel  grid_x  grid_y ... occupancy  count  time
gemm        64      32           25%    120  49,000,000

A sequence is of kernels that follow each other with nothing heavy between them, such as a product of matrices:

stream   [ gemm ] [norm][quantise][copy] [ gemm ] [norm][quantise][copy] [ attention ]
                  └──── 1st time ─────┘           └──── 2nd time ─────┘
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.questions.launches.answer import (
    Advice,
    CopiesAnswer,
    CopyUse,
    KernelLimits,
    LaunchesAnswer,
    Lengths,
    LengthsAnswer,
    LimitsAnswer,
)
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.gather import durations
from ktrace.analysis.work.launching import stream_of
from ktrace.analysis.work.question import Answer, Labels, Question, kernel_of
from ktrace.model.arrays import Int64, to_int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import decoded, encoded, load_object
from ktrace.model.masks import NameTest, rows_where, truth, words_in
from ktrace.model.row_builder import to_rows
from ktrace.model.schema import columns_in
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset(
    (
        *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_memory"),
        *("parent", "value", "metric", "args", "bytes", "copy_kind"),
    )
)


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The questions "launch", "limits", "duration", "copy" and "sequence"."""
    return LaunchQuestion(names)


#: Columns about a launch that make no configuration: `shared_memory` contains the dynamic part, and a cluster is blocks
#: of the same grid.
_NO_CONFIGURATION = frozenset({"shared_dynamic", "cluster_size"})

#: What makes a configuration, with the kernel: columns of the model, in the order of `LaunchUse`.
_SIZES = tuple(name for name in columns_in("grid", "launch") if name not in _NO_CONFIGURATION)

#: Rows that wait until they are added up.
_WAITING = 1 << 18


class Configurations:
    """The launches by configuration, in the order in which they first came."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._waiting: list[pa.Table] = []
        sizes = ((name, arrow_schema("events").field(name).type) for name in _SIZES)
        self._schema = pa.schema([("kernel", pa.int32()), *sizes, ("count", pa.int64()), ("time", pa.int64())])

    def add(self, batch: Batch, rows: Int64, count: Int64, time: Int64) -> None:
        """Adds some rows of a batch, whose name is that of a kernel, with how many launches each is and their time."""
        chosen = Batch(batch.record, batch.columns.take(pa.array(rows)))
        names = encoded(pc.coalesce(*(chosen.column(name).cast(pa.string()) for name in ("short_name", "name"))))
        words = self._words
        numbers = np.array([words.setdefault(word, len(words)) for word in names.dictionary.to_pylist()], np.int32)
        kernel = numbers[names.indices.to_numpy()]
        columns = [chosen.column(name) for name in _SIZES]
        stated = pc.or_(*(chosen.column(name).is_valid() for name in ("grid_x", "block_x")))
        table = pa.table([pa.array(kernel), *columns, pa.array(count), pa.array(time)], names=self._schema.names)
        self._waiting.append(_added_up(table.cast(self._schema).filter(stated)))
        if sum(map(len, self._waiting)) > _WAITING + len(self._waiting[0]):
            self._waiting = [_added_up(pa.concat_tables(self._waiting))]

    def all(self) -> pa.Table:
        """The columns `kernel`, `_SIZES`, `count` and `time` in ns: those with the most time first."""
        table = _added_up(pa.concat_tables([self._schema.empty_table(), *self._waiting]))
        words = sorted(self._words)
        place = {word: number for number, word in enumerate(words)}
        rank = np.array([place[word] for word in self._words], np.int32)[table["kernel"].to_numpy()]
        table = table.set_column(0, "kernel", pa.array(words, pa.string()).take(pa.array(rank)))
        return table.take(pa.array(np.lexsort((rank, -table["time"].to_numpy()))))


def _added_up(table: pa.Table) -> pa.Table:
    """One row for each configuration."""
    added = table.group_by(["kernel", *_SIZES], use_threads=False).aggregate([("count", "sum"), ("time", "sum")])
    return added.rename_columns(table.schema.names)


#: The names of the questions, as `--by` takes them.
LAUNCH, LIMITS, DURATION, COPY, SEQUENCE = "launch", "limits", "duration", "copy", "sequence"

#: The bounds of durations that are told apart, in ns.
_BOUNDS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000, 10_000_000)

#: The metrics of Nsight Compute with the rates (schema/ncu-metrics.json has their names on its pages).
_RATE_OF = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "DRAM",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1",
}
_ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
_POSSIBLE = "sm__maximum_warps_per_active_cycle_pct"
_WAVES = "launch__waves_per_multiprocessor"
_TIME = "gpu__time_duration.sum"
_LIMIT_OF = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "warps",
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_barriers": "barriers",
}
_WANTED = frozenset((*_RATE_OF, *_LIMIT_OF, _ACHIEVED, _POSSIBLE, _WAVES, _TIME))


class LaunchQuestion:
    """The questions how kernels are launched and what limits them."""

    spans = False

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of the questions."""
        self._names = names
        self._configurations = Configurations()
        self._heads: dict[tuple[str, int], dict[str, Any]] = {}
        self._metrics: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        self._notes: list[tuple[tuple[str, int], str, str]] = []  # the launch, the text, the arguments
        self._is_wanted = NameTest(lambda name: name in _WANTED)
        self._copies: defaultdict[str, list[Int64]] = defaultdict(list)  # durations and bytes (-1: not stated)

    def see(self, batch: Batch) -> None:
        """Collects launches, counters and advice."""
        if batch.record == "events" and len(batch):
            if LAUNCH in self._names:
                self._see_kernels(batch)
            if COPY in self._names:
                self._see_copies(batch)
        elif batch.record == "summaries" and len(batch):
            self._see_report(batch)

    def _see_kernels(self, batch: Batch) -> None:
        rows = np.flatnonzero(words_in(batch.column("kind"), ("kernel",)))
        if not len(rows) or not (batch.has("grid_x") or batch.has("block_x")):
            return
        dur = durations(batch)[rows]
        rows, dur = rows[dur >= 0], dur[dur >= 0]
        self._configurations.add(batch, rows, np.ones(len(rows), np.int64), dur)

    def _see_copies(self, batch: Batch) -> None:
        rows = np.flatnonzero(words_in(batch.column("kind"), ("memcpy",)))
        dur = durations(batch)
        rows = rows[dur[rows] >= 0]
        if not len(rows):
            return
        size, is_sized = values(batch.columns, "bytes")
        figures = np.stack([dur[rows], np.where(is_sized, size, -1)[rows]])
        direction, name = (decoded(batch.column(one).take(pa.array(rows))) for one in ("copy_kind", "name"))
        words = pc.coalesce(direction, name).dictionary_encode()
        codes = words.indices.to_numpy(zero_copy_only=False)
        for number, word in enumerate(words.dictionary.to_pylist()):
            self._copies[word].append(figures[:, codes == number])

    def _see_report(self, batch: Batch) -> None:
        """Collects the launches of a report, their counters, and what its rules say."""
        heads = words_in(batch.column("kind"), ("kernel",)) & words_in(batch.column("metric"), ("duration",))
        for row in to_rows(rows_where(batch, heads)) if heads.any() else ():
            self._heads[row["source"], row["id"]] = row
        if LAUNCH in self._names and heads.any():
            count, time = (to_int64(values(batch.columns, name)[0][heads]) for name in ("count", "total"))
            self._configurations.add(batch, np.flatnonzero(heads), np.maximum(count, 1), time)
        if not batch.has("parent"):
            return
        of_launch = truth(batch.column("parent").is_valid())
        metrics = words_in(batch.column("kind"), ("metric",)) & of_launch & self._is_wanted(batch.column("metric"))
        for row in to_rows(rows_where(batch, metrics)) if metrics.any() else ():
            if row.get("value") is not None:
                self._metrics[row["source"], row["parent"]][row["metric"]] = float(row["value"])
        notes = words_in(batch.column("kind"), ("note",)) & of_launch
        for row in to_rows(rows_where(batch, notes)) if notes.any() else ():
            self._notes.append(((row["source"], row["parent"]), row["name"], row.get("args") or ""))

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers that are known."""
        answers: dict[str, Answer] = {}
        if LAUNCH in self._names and len(launches := self._configurations.all()):
            answers[LAUNCH] = LaunchesAnswer(launches)
        if LIMITS in self._names and (kernels := self._limits()):
            answers[LIMITS] = LimitsAnswer(kernels, self._advice())
        if DURATION in self._names and work.is_on_devices and (lengths := _lengths(work)):
            answers[DURATION] = LengthsAnswer(lengths)
        if SEQUENCE in self._names and work.is_on_devices and (sequences := sequences_of(work)):
            answers[SEQUENCE] = sequences
        if COPY in self._names and self._copies:
            copies = [_copied(direction, np.concatenate(parts, axis=1)) for direction, parts in self._copies.items()]
            answers[COPY] = CopiesAnswer(sorted(copies, key=lambda one: (-one.time, one.direction)))
        return answers

    def _limits(self) -> list[KernelLimits]:
        """What limits each kernel whose counters are known."""
        launches: defaultdict[str, list[tuple[int, dict[str, float]]]] = defaultdict(list)
        for key, row in self._heads.items():
            metrics = self._metrics.get(key, {})
            if metrics.keys() - {_TIME, _WAVES}:
                time = row.get("total") or metrics.get(_TIME) or 0
                launches[kernel_of(row)].append((int(time) if math.isfinite(time) else 0, metrics))
        limited = []
        for kernel, rows in launches.items():
            rates = {name: mean for metric, name in _RATE_OF.items() if (mean := _mean(rows, metric)) is not None}
            limits = Counter(_limiter(metrics) for _, metrics in rows)
            achieved, possible, waves = (_mean(rows, metric) for metric in (_ACHIEVED, _POSSIBLE, _WAVES))
            limited_by, time = limits.most_common(1)[0][0], sum(time for time, _ in rows)
            limited.append(KernelLimits(kernel, len(rows), time, rates, achieved, possible, limited_by, waves))
        return sorted(limited, key=lambda one: (-one.time, one.kernel))

    def _advice(self) -> list[Advice]:
        """What the rules say, the greatest promise first; the same words of several launches are one advice."""
        promises: dict[tuple[str, str, str], list[float | None]] = {}
        for key, text, args in self._notes:
            if key in self._heads:
                said = load_object(args)
                speedup = said.get("Estimated Speedup")
                number = float(speedup) if isinstance(speedup, (int, float)) else None
                promises.setdefault((kernel_of(self._heads[key]), str(said.get("Rule Name", "")), text), []).append(
                    number
                )
        rows = [
            Advice(*key, max((one for one in promised if one is not None), default=None), len(promised))
            for key, promised in promises.items()
        ]
        return sorted(rows, key=lambda one: (-(one.speedup or 0), one.kernel, one.rule, one.text))


def _lengths(work: Work) -> list[Lengths]:
    """The kernels by their durations."""
    kernel, kinds = work.by_shape(lambda shape: shape["kind"] == "kernel")
    is_kernel = np.array(kinds, np.bool_)[kernel] if kinds else np.zeros(0, np.bool_)
    count, time = np.zeros((2, len(_BOUNDS) + 1), np.int64)
    for events in work.each():
        dur = events.dur[is_kernel[events.shape]]
        place = np.searchsorted(_BOUNDS, dur, "right")
        count += np.bincount(place, minlength=len(count))
        np.add.at(time, place, dur)
    bounds = zip((0, *_BOUNDS), (*_BOUNDS, None), count.tolist(), time.tolist(), strict=True)
    return [Lengths(*one) for one in bounds if one[2]]


def _copied(direction: str, figures: Int64) -> CopyUse:
    """What the copies in a direction have in common; `figures` are their durations and bytes."""
    dur, size = figures
    is_sized = size >= 0
    if not is_sized.any():
        return CopyUse(direction, len(dur), int(dur.sum()), None, None, None, None)
    moved, time = int(size[is_sized].sum()), int(dur[is_sized].sum())
    median, rate = float(np.median(size[is_sized])), moved / time * 1e9 if time else None
    return CopyUse(direction, len(dur), int(dur.sum()), moved, median, int(size[is_sized].max()), rate)


def _mean(rows: Sequence[tuple[int, dict[str, float]]], metric: str) -> float | None:
    """The mean of a metric over the launches that have it, weighted by time, None where none has."""
    stated = [(time, metrics[metric]) for time, metrics in rows if metric in metrics]
    whole = sum(time for time, _ in stated)
    if not stated:
        return None
    if not whole:
        return sum(value for _, value in stated) / len(stated)
    return sum(time * value for time, value in stated) / whole


def _limiter(metrics: dict[str, float]) -> str:
    """What limits the blocks of a multiprocessor: the least of the limits; "" where none is known."""
    blocks = {name: metrics[metric] for metric, name in _LIMIT_OF.items() if metric in metrics}
    least = min(blocks.values(), default=0.0)
    return ", ".join(name for name, limit in blocks.items() if limit == least)


#: Operations that move data more than they compute, so that one kernel could do several on the way.
LIGHT = frozenset(
    (
        *("activation", "copy", "elementwise", "embedding", "fill", "gather", "indices", "kv-cache", "loss", "norm"),
        *("optimizer", "pool", "quantise", "random", "reduction", "rope", "scatter", "softmax", "transpose"),
    )
)

#: Work that begins so many ns after the work before it doesn't continue its sequence.
PAUSE = 1_000_000


class KernelSequence(msgspec.Struct, frozen=True):
    """Kernels that follow each other on a stream `count` times, `time` ns in all, with `between` ns between them."""

    kernels: tuple[str, ...]
    count: int
    time: int
    between: int

    @property
    def label(self) -> str:
        """The names; those that repeat have a number."""
        repeated = ((name, len(list(same))) for name, same in groupby(self.kernels))
        return " → ".join(name if number == 1 else f"{name} x{number}" for name, number in repeated)


class SequencesAnswer(msgspec.Struct):
    """Sequences of light kernels, those that take longest first; `whole` is the time of all device work."""

    sequences: list[KernelSequence]
    whole: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each sequence, at most `top`."""
        columns = (
            *(Column("sequence"), Column("kernels", "count"), Column("count", "count"), Column("time", "ns")),
            *(Column("share", "%"), Column("between", "ns"), Column("average", "ns")),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, len(one.kernels), one.count, one.time, percent(one.time, self.whole), one.between),
                one.time / one.count / len(one.kernels),
            )
            for one in self.sequences[:top]
        ]
        return [Table("sequence", "fusion candidates", columns, rows, [], len(self.sequences) - len(rows))]


def sequences_of(work: Work) -> SequencesAnswer | None:
    """The sequences of two and more light kernels on all streams; None if there are none."""
    light, lights = work.by_shape(lambda shape: shape["kind"] == "kernel" and shape["operation"] in LIGHT)
    kernel, names = work.by_shape(kernel_of)
    stream, _ = work.by_shape(stream_of)
    is_light = np.array(lights, np.bool_)
    counts: defaultdict[bytes, list[int]] = defaultdict(lambda: [0, 0, 0])
    whole = 0
    for events in work.each():
        whole += int(events.dur.sum())
        rows = np.lexsort((events.dur, events.ts, stream[events.shape]))
        shape = events.shape[rows]
        _add(counts, stream[shape], events.ts[rows], events.dur[rows], kernel[shape], is_light[light[shape]])
    sequences = [
        KernelSequence(tuple(names[one] for one in np.frombuffer(key, np.int32).tolist()), *sums)
        for key, sums in counts.items()
    ]
    sequences.sort(key=lambda one: (-one.time, one.label))
    return SequencesAnswer(sequences, whole) if sequences else None


def _add(sequences: defaultdict[bytes, list[int]], stream: Any, ts: Any, dur: Any, kernel: Any, light: Any) -> None:
    """Adds the sequences of streams, whose work is in the order of its time, by the numbers of their kernels."""
    gap = np.where(stream[1:] == stream[:-1], np.maximum(ts[1:] - ts[:-1] - dur[:-1], 0), PAUSE + 1)
    follows = light[1:] & light[:-1] & (gap <= PAUSE)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], follows, [False]])))
    first, last = edges[::2], edges[1::2] + 1
    done, idle = np.concatenate([[0], np.cumsum(dur)]), np.concatenate([[0], np.cumsum(gap)])
    times, between = done[last] - done[first], idle[last - 1] - idle[first]
    for begin, end, time, rest in zip(first.tolist(), last.tolist(), times.tolist(), between.tolist(), strict=True):
        sums = sequences[kernel[begin:end].tobytes()]
        sums[0] += 1
        sums[1] += time
        sums[2] += rest
