"""Which call launched each piece of work, and which range is around a call.

thread 4242    [ ProfilerStep#3                          ]
                  [ layers.9        ]
                    [ launch, correlation 71 ]
stream 7                               [ gemm, correlation 71 ]     of step 3 and layers.9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.ordering.matching import find
from ktrace.ordering.nesting import around, around_crossing
from ktrace.summary.figures import by_group

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_LINKS = pa.schema([("source", pa.string()), ("key", pa.string()), ("role", pa.string()), ("event", pa.int64())])

#: The greatest key that fits.
_GREATEST = 1 << 62


class Correlated(NamedTuple):
    """Rows with their correlation (0: none) and the numbers of their process (-1: not known) and machine."""

    correlation: Int64
    process: Int32
    machine: Int32


def launches(work: Correlated, calls: Correlated, ts: Int64, end: Int64) -> Int64:
    """The place of the call that launched each piece of work, -1 where none is known. `ts`, `end` are of the calls.

    They are joined by correlation within a process; work of which the process isn't known by that within the machine,
    where one process alone has a call with it. Of several calls the outermost counts, under which the others stand.
    """
    found = np.full(len(work.correlation), -1, np.int64)
    if not len(ts) or not len(found):
        return found
    groups = 1 + int(max(calls.process.max(), calls.machine.max()))
    ids, wanted = _numbers(calls.correlation, work.correlation, groups)
    key = ids * groups + calls.process
    order = np.arange(len(key))
    if np.any(key[1:] <= key[:-1]):
        order = np.lexsort((-end, ts, key))
        order = order[np.concatenate([[True], key[order[1:]] != key[order[:-1]]])]
    known = work.process >= 0
    found[known] = _looked_up((wanted * groups + work.process)[known], key[order], order)
    if not known.all():
        machine = ids[order] * groups + calls.machine[order]
        keys, place, often = np.unique(machine, return_index=True, return_counts=True)
        alone = often == 1
        found[~known] = _looked_up((wanted * groups + work.machine)[~known], keys[alone], order[place[alone]])
    found[(work.correlation == 0) | (wanted < 0)] = -1
    return found


def _numbers(calls: Int64, work: Int64, groups: int) -> tuple[Int64, Int64]:
    """Correlations as numbers from 0, so small that one of so many groups goes with them; -1 of work without call."""
    low, high = int(calls.min()), int(calls.max())
    if (high - low + 1) * groups < _GREATEST:
        return calls - low, np.where((work >= low) & (work <= high), work, low - 1) - low
    _, numbers = np.unique(np.concatenate([calls, work]), return_inverse=True)
    return numbers[: len(calls)], numbers[len(calls) :]


def _looked_up(wanted: Int64, keys: Int64, places: Int64) -> Int64:
    """The place that belongs to each wanted key, -1 where there is none; `keys` rise."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, places[at], -1)


def linked(
    links: list[pa.RecordBatch],
    sources: dict[str, int],
    work: tuple[Int32, Int64],
    calls: tuple[Int32, Int64],
) -> Int64:
    """The place of the call from which an arrow leads to each piece of work, -1 where there is none.

    `links` have source, key, role and event; `work` and `calls` are the numbers of their sources and their ids.
    """
    rows = pa.Table.from_batches([batch.cast(_LINKS) for batch in links]).combine_chunks()
    words, codes = np.unique(rows["source"].to_numpy(), return_inverse=True)
    source = np.array([sources.setdefault(word, len(sources)) for word in words], np.int32)[codes]
    key = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    event, out = rows["event"].to_numpy(), pc.equal(rows["role"], "out").to_numpy()
    begun = find((source[~out], key[~out]), (source[out], key[out]))
    known = begun >= 0
    call = np.full(len(begun), -1, np.int64)
    call[known] = find((source[out][begun[known]], event[out][begun[known]]), calls)
    end = find(work, (source[~out], event[~out]))
    return np.where(end >= 0, call[end], -1) if len(call) else end


def around_times(track: Int32, begin: Int64, end: Int64, at_track: Int32, at: Int64) -> Int64:
    """For each time on a track the place of the innermost of some ranges that is around it, -1 where none is.

    A range holds its begin, not its end.
    """
    found = np.full(len(at), -1, np.int64)
    if not len(begin) or not len(at):
        return found
    # Between two bounds of ranges the answer is one, so that only the bounds are looked at.
    bound_track, bounds = np.concatenate([track, track]), np.concatenate([begin, end])
    inside = innermost(np.concatenate([track, bound_track]), np.concatenate([begin, bounds]), np.append(end, bounds))
    order = np.lexsort((bounds, bound_track))
    bound_track, bounds, inside = bound_track[order], bounds[order], inside[len(begin) :][order]
    rows = by_group(at_track, int(max(track.max(), at_track.max())) + 1)
    for number in np.unique(track).tolist():
        mine = rows(number)
        low, high = np.searchsorted(bound_track, [number, number + 1])
        place = low + np.searchsorted(bounds[low:high], at[mine], "right") - 1
        found[mine] = np.where(place >= low, inside[np.maximum(place, 0)], -1)
    return found


def innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """For each slice the place of the innermost one around it on its track, -1 where none is."""
    order = np.lexsort((np.arange(len(track)), -end, begin, track))
    tracks, begins, ends = track[order], begin[order], end[order]
    outer, crossed = around(tracks, begins, ends)
    for number in crossed.tolist():
        low, high = np.searchsorted(tracks, [number, number + 1])
        own = around_crossing(begins[low:high], ends[low:high])
        outer[low:high] = np.where(own >= 0, own + low, -1)
    found = np.full(len(track), -1, np.int64)
    found[order] = np.where(outer >= 0, order[outer], -1)
    return found
