"""Moves by the collectives that ranks take part in together: none of them is over before all have come, so that an
all-reduce ends on all ranks at nearly the same time, however late one of them began.

    rank 0   ncclDevKernel_AllReduce  group 0, 17th   [==============]      ends 1,000,204,310 ns by its clock
    rank 1   the same                            [===================]      ends 1,001,704,911 ns by its clock
                                                                            its clock is 1,500,601 ns ahead

Of many such differences come offset and drift: by the median and by the slopes between halves first, then by least
squares without outliers until these stay the same. Ranks that share no group with the first source are placed by
ranks that do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.errors import InputError
from ktrace.jsontext import decoded
from ktrace.model import Batch
from ktrace.ordering.eventstore import values
from ktrace.transforms.align.moves import Move
from ktrace.transforms.attached import truth, words_in

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Collectives that two sources must have in common.
LEAST = 3

#: As many are needed to tell drift from noise.
_LEAST_FOR_DRIFT = 16

#: A drift beyond that (1,000 ppm) is no clock's, but of events that don't belong together.
_MOST_DRIFT = 1e-3

#: Outliers are further from the line than so many standard deviations of the others (estimated by the median).
_FAR = 3.5

_ROUNDS = 20

#: Names of kernels of collectives, and the operation in them. Sends and receives don't wait for all ranks.
_COLLECTIVE = re.compile(r"n?r?ccl|msccl|oneccl|hccl", re.IGNORECASE)
_OPERATION = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce", re.IGNORECASE)


@dataclass(frozen=True)
class Fit:
    """A move by collectives, and how well it fits: residuals in ns, of all that were matched."""

    move: Move
    matched: int
    outliers: int
    median: int
    p95: int
    through: str


class Collectives:
    """Gathers the collectives of all sources, and tells how the clocks of these move."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str | None, str, int | None, int | None, int, int]]] = {}
        self._last: tuple[pa.Array, pa.Array] | None = None

    def add(self, batch: Batch) -> None:
        """Takes the kernels of collectives from a batch of events."""
        wanted = (
            words_in(batch.column("kind"), ("kernel",)) & self._named(batch) & truth(batch.column("dur").is_valid())
        )
        if not wanted.any():
            return
        rows = Batch("events", batch.columns.filter(pa.array(wanted)))
        ts, dur = values(rows.columns, "ts")[0], values(rows.columns, "dur")[0]
        columns = [decoded(rows.column(name)).to_pylist() for name in ("source", "comm", "name", "comm_seq", "bytes")]
        for source, comm, name, seq, size, begin, end in zip(*columns, ts.tolist(), (ts + dur).tolist(), strict=True):
            found = _OPERATION.search(name)
            word = found.group().lower().replace("_", "") if found else name
            self._rows.setdefault(source, []).append((comm, word, seq, size, begin, end))

    def _named(self, batch: Batch) -> Bools:
        """Which rows are of a collective by their names, or say a group."""
        names = batch.column("name")
        coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
        if self._last is None or not self._last[0].equals(coded.dictionary):
            words = coded.dictionary.to_pylist()
            fits = [bool(word and _COLLECTIVE.search(word) and _OPERATION.search(word)) for word in words]
            self._last = coded.dictionary, pa.array(fits, pa.bool_())
        found = truth(self._last[1].take(coded.indices))
        return found | (truth(batch.column("comm").is_valid()) & ~_sends(batch)) if batch.has("comm") else found

    def fits(self, sources: Sequence[str]) -> dict[str, Fit]:
        """How each source but the first moves into the clock of the first.

        Raises InputError where one can't be told: fewer than `LEAST` collectives in common with those that can.
        """
        keyed = [{source: _ends(keys) for source, keys in way.items()} for way in self._keys(sources)]
        found: dict[str, Fit] = {}
        placed, left = [sources[0]], list(sources[1:])
        best = dict.fromkeys(left, 0)
        while left:
            step = []
            for source in left:
                ways = [(len(match[0]), at, match) for at in placed if len((match := _match(keyed, source, at))[0])]
                if not ways:
                    continue
                count, through, match = max(ways, key=lambda way: way[0])
                best[source] = max(best[source], count)
                if count >= LEAST:
                    step.append((source, through, match))
            if not step:
                raise self._refusal(sources, left, best)
            for source, through, match in step:
                fit = _fit(*match)
                if through != sources[0]:
                    move = fit.move.then(found[through].move)
                    fit = Fit(move, fit.matched, fit.outliers, fit.median, fit.p95, through)
                found[source] = fit
            placed = [source for source, _, _ in step]
            left = [source for source in left if source not in found]
        return found

    def _keys(self, sources: Sequence[str]) -> Iterator[dict[str, dict[tuple[object, ...], int]]]:
        """For each way to know a collective again, the most certain first: source -> key -> its end.

        By group and sequence number, else as the n-th of its group, operation and size, else of its operation.
        """
        rows = {source: sorted(self._rows.get(source, []), key=lambda row: row[4]) for source in sources}
        for way in range(3):
            found: dict[str, dict[tuple[object, ...], int]] = {}
            for source, mine in rows.items():
                often: dict[tuple[object, ...], int] = {}
                keys = found[source] = {}
                for comm, word, seq, size, _, end in mine:
                    if (way < 2 and comm is None) or (way == 0 and seq is None):
                        continue
                    key = ((comm, seq), (comm, word, size), (word,))[way]
                    often[key] = often.get(key, 0) + 1
                    keys[*key, often[key]] = end
            yield found

    def _refusal(self, sources: Sequence[str], left: Sequence[str], best: dict[str, int]) -> InputError:
        has = ", ".join(f"{source} has {len(self._rows.get(source, [])):,}" for source in sources[:8])
        few = ", ".join(f"{source} ({best[source]})" for source in left[:8])
        return InputError(
            f"too few collectives are the same as on other ranks: {few}",
            expected=f"at least {LEAST} for each source; of kernels of collectives {has}",
            remedy="--align unix or auto, --align 'marker NAME', or --offset",
        )


def _sends(batch: Batch) -> Bools:
    """Which rows send or receive."""
    names = decoded(batch.column("name")).dictionary_encode()
    words = pa.array([bool(re.search(r"send|recv", word, re.IGNORECASE)) for word in names.dictionary.to_pylist()])
    return truth(words.cast(pa.bool_()).take(names.indices))


Ends = tuple[dict[tuple[object, ...], int], frozenset[tuple[object, ...]]]


def _ends(keys: dict[tuple[object, ...], int]) -> Ends:
    return keys, frozenset(keys)


def _match(keyed: list[dict[str, Ends]], source: str, other: str) -> tuple[Int64, Int64]:
    """The ends of the same collectives by the clocks of two sources, by the most certain way that gives enough."""
    none = np.empty(0, np.int64)
    most = (none, none)
    for way in keyed:
        (mine, known), (theirs, too) = way[source], way[other]
        common = sorted(known & too, key=mine.__getitem__)
        if len(common) > len(most[0]):
            most = tuple(np.array([ends[key] for key in common], np.int64) for ends in (mine, theirs))  # type: ignore[assignment]
        if len(common) >= LEAST:
            break
    return most


def _fit(mine: Int64, theirs: Int64) -> Fit:
    """The move that brings `mine` to `theirs` best."""
    gap = theirs - mine  # exact; what is left below is small enough for floats
    base, since = int(np.median(gap)), int(mine[0])
    x, y = (mine - since).astype(np.float64), (gap - base).astype(np.float64)
    line = _line(x, y) if len(x) >= _LEAST_FOR_DRIFT else None
    if line is None:
        line = _constant(y)
    start, rate, kept = line
    rest = np.abs(y - start - rate * x)
    median, p95 = (round(float(value)) for value in np.percentile(rest, (50, 95)))
    return Fit(Move(base + round(start), rate, since), len(x), int(np.count_nonzero(~kept)), median, p95, "")


def _line(x: Float64, y: Float64) -> tuple[float, float, Bools] | None:
    """Begin and slope of the line that most of the points are on, and which these are; None where it is level."""
    half = len(x) // 2
    apart = x[-half:] - x[:half]
    if not np.all(apart > 0):
        return None
    rate = float(np.median((y[-half:] - y[:half]) / apart))
    start = float(np.median(y - rate * x))
    kept = np.zeros(len(x), np.bool_)
    for _ in range(_ROUNDS):
        near = _near(y - start - rate * x)
        if np.array_equal(near, kept):
            break
        kept = near
        centre = x[kept].mean()
        wide = float(np.sum((x[kept] - centre) ** 2))
        if not wide:
            return None
        rate = float(np.sum((x[kept] - centre) * y[kept])) / wide
        start = float(y[kept].mean()) - rate * centre
    noise = float(np.sqrt(np.sum((y - start - rate * x)[kept] ** 2) / max(int(kept.sum()) - 2, 1) / wide))
    doubtful = abs(rate) <= 4 * noise or abs(rate) * (x[-1] - x[0]) < 1 or abs(rate) > _MOST_DRIFT
    return None if doubtful else (start, rate, kept)


def _constant(y: Float64) -> tuple[float, float, Bools]:
    """The level that most of the points are on, and which these are."""
    start = float(np.median(y))
    kept = np.zeros(len(y), np.bool_)
    for _ in range(_ROUNDS):
        near = _near(y - start)
        if np.array_equal(near, kept):
            break
        kept = near
        start = float(y[kept].mean())
    return start, 0.0, kept


def _near(rest: Float64) -> Bools:
    """Which points are no outliers."""
    middle = float(np.median(rest))
    width = 1.4826 * float(np.median(np.abs(rest - middle)))
    found: Bools = np.abs(rest - middle) <= max(_FAR * width, 1.0)
    return found
