"""Kernels that follow each other with nothing heavy between them, such as a product of matrices: what could be fused.

stream   [ gemm ] [norm][quantise][copy] [ gemm ] [norm][quantise][copy] [ attention ]
                  └──── 1st time ─────┘           └──── 2nd time ─────┘
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import by_group
from ktrace.analysis.work.launching import stream_of
from ktrace.tables.figures import Cell, Column, Table, percent

#: Operations that move data more than they compute, so that one kernel could do several on the way.
LIGHT = frozenset(
    (
        *("activation", "copy", "elementwise", "embedding", "fill", "gather", "indices", "kv-cache", "loss", "norm"),
        *("optimizer", "pool", "quantise", "random", "reduction", "rope", "scatter", "softmax", "transpose"),
    )
)

#: Work that begins so many ns after the work before it doesn't continue its sequence.
PAUSE = 1_000_000


@dataclass(frozen=True)
class Sequence:
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


@dataclass
class SequencesAnswer:
    """Sequences of light kernels, those that take longest first; `whole` is the time of all device work."""

    sequences: list[Sequence]
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
        return [Table("sequence", "kernels to fuse", columns, rows, [], len(self.sequences) - len(rows))]


def sequences_of(work: Work) -> SequencesAnswer | None:
    """The sequences of two and more light kernels on all streams; None if there are none."""
    light, lights = work.by_shape(lambda shape: shape["kind"] == "kernel" and shape["operation"] in LIGHT)
    kernel, names = work.by_shape(lambda shape: str(shape["short_name"] or shape["name"]))
    stream, streams = work.by_shape(stream_of)
    is_light = np.array(lights, np.bool_)
    found: defaultdict[bytes, list[int]] = defaultdict(lambda: [0, 0, 0])
    whole = 0
    for events in work.each():
        whole += int(events.dur.sum())
        rows_of = by_group(stream[events.shape], len(streams))
        for number in range(len(streams)):
            rows = rows_of(number)
            rows = rows[np.lexsort((events.dur[rows], events.ts[rows]))]
            shape = events.shape[rows]
            _add(found, events.ts[rows], events.dur[rows], kernel[shape], is_light[light[shape]])
    sequences = [
        Sequence(tuple(names[one] for one in np.frombuffer(key, np.int32).tolist()), *sums)
        for key, sums in found.items()
    ]
    sequences.sort(key=lambda one: (-one.time, one.label))
    return SequencesAnswer(sequences, whole) if sequences else None


def _add(found: defaultdict[bytes, list[int]], ts: Any, dur: Any, kernel: Any, light: Any) -> None:
    """Adds the sequences of a stream, whose work is in the order of its time, by the numbers of their kernels."""
    gap = np.maximum(ts[1:] - ts[:-1] - dur[:-1], 0)
    follows = light[1:] & light[:-1] & (gap <= PAUSE)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], follows, [False]])))
    first, last = edges[::2], edges[1::2] + 1
    done, idle = np.concatenate([[0], np.cumsum(dur)]), np.concatenate([[0], np.cumsum(gap)])
    times, between = done[last] - done[first], idle[last - 1] - idle[first]
    for begin, end, time, rest in zip(first.tolist(), last.tolist(), times.tolist(), between.tolist(), strict=True):
        sums = found[kernel[begin:end].tobytes()]
        sums[0] += 1
        sums[1] += time
        sums[2] += rest
