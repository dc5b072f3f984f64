"""Selects rows of a trace by kind, name, device, stream, rank and duration.

    Filter(kinds=["kernel"], names=["*gemm*"], min_dur="10us")
    kernel  sm90_gemm_bf16   40 us      stays, with its figures
    kernel  sm90_gemm_bf16    4 us      too short
    api     cudaLaunchKernel  4 us      another kind

Rows stream through, except those that depend on other rows (`dependents`). With ranks all rows wait, since the facts
that name these may come last. The catalog stays whole. If nothing passes, the filter says which option no row passes:

--name '*gemn*'    no name matches '*gemn*'     gemm, gemm_splitk
--device 4         no row is on device 4        the devices 0, 1
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import InputError
from ktrace.model.arrays import Bools
from ktrace.model.batch import DEVICE_KINDS, POINT_KINDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, rows_where, truth, words_in
from ktrace.naming.alike import near
from ktrace.report import Ledger, Report
from ktrace.stages.select.dependents import Dependents, are_figures
from ktrace.stages.select.wanted import Filter
from ktrace.store import SPILL_BYTES, BatchSpool, Spill
from ktrace.tables import time_text

#: How many names are remembered, and how many of them a message lists.
_REMEMBERED, _SHOWN = 20_000, 8


class Unmatched:
    """Remembers what there is for each option that no row has passed yet."""

    def __init__(self, conditions: Filter) -> None:
        self._conditions = conditions
        self._passed: set[str] = set()
        self._there: dict[str, dict[str | int, None]] = {}

    def look(self, batch: Batch, failed: Mapping[str, Bools]) -> None:
        """Remembers which options some row passes, and of the others the values that rows have instead."""
        for option, mask in failed.items():
            if option in self._passed:
                continue
            if not mask.all():
                self._passed.add(option)
                self._there.pop(option, None)
                continue
            there = self._there.setdefault(option, {})
            for column in _COLUMNS.get(option, ()):
                if batch.has(column) and len(there) < _REMEMBERED:
                    unique = decoded(batch.column(column).drop_null().unique())
                    there.update(dict.fromkeys(unique.to_pylist()))
            if option == "--min-dur" and (longest := pc.max(batch.column("dur")).as_py()) is not None:
                self._there[option] = {max(longest, *map(int, there)) if there else longest: None}

    def error(self) -> InputError:
        """The error for a filter that no row passes."""
        alone = [option for option in self._there if option not in self._passed]
        if not alone:
            both = " and ".join(sorted(self._passed)) or "the filter"
            return InputError(f"no row passes {both} together", remedy="leave out one of them")
        option = alone[0]
        there = list(self._there[option])
        what, expected = _WORDS[option](self._conditions, [*there])
        return InputError(what, expected=expected, remedy=_REMEDIES.get(option))


_Words = Callable[["Filter", list[str | int]], tuple[str, str | None]]

_COLUMNS = {
    "--name": ("name", "short_name"),
    "--kind": ("kind",),
    "--device": ("device",),
    "--stream": ("stream",),
}

_REMEDIES = {"--name": "use the whole name, or a pattern such as '*part of it*'"}


def _named(conditions: Filter, there: list[str | int]) -> tuple[str, str | None]:
    names = [str(name) for name in there]
    alike = list(dict.fromkeys(name for pattern in conditions.names for name in near(pattern, names)))
    shown = (alike or names)[:_SHOWN]
    expected = f"one of {len(names):,} names, such as {', '.join(shown)}" if shown else None
    return f"no name matches {' or '.join(repr(pattern) for pattern in conditions.names)}", expected


def _kinds(conditions: Filter, there: list[str | int]) -> tuple[str, str | None]:
    return f"there is no row of kind {' or '.join(conditions.kinds)}", _listed("kinds", sorted(map(str, there)))


def _numbers(word: str, field: str) -> _Words:
    def words(conditions: Filter, there: list[str | int]) -> tuple[str, str | None]:
        values = " or ".join(map(str, getattr(conditions, field)))
        return f"no row is on {word} {values}", _listed(f"{word}s", sorted(map(int, there)))

    return words


def _listed(word: str, there: list[str] | list[int]) -> str | None:
    more = ", ..." if len(there) > _SHOWN else ""
    return f"one of the {word} {', '.join(map(str, there[:_SHOWN]))}{more}" if there else f"an input with {word}"


def _short(conditions: Filter, there: list[str | int]) -> tuple[str, str | None]:
    least = conditions.min_dur if isinstance(conditions.min_dur, int) else 0
    longest = f"at most {time_text(int(there[0]))}, the longest slice" if there else None
    return f"no row lasts {time_text(least)} (--min-dur)", longest


_WORDS: dict[str, _Words] = {
    "--name": _named,
    "--kind": _kinds,
    "--device": _numbers("device", "devices"),
    "--stream": _numbers("stream", "streams"),
    "--min-dur": _short,
    "--only-gpu": lambda conditions, there: ("no row is on a device (--only-gpu)", None),
    "--rank": lambda conditions, there: ("the wanted ranks have no rows", None),
}


WITH_ROW, WITH_EVENT = "their row", "the event of an arrow"


class _Tests:
    """The tests of a filter, each named by its option."""

    def __init__(self, conditions: Filter, sources: frozenset[str]) -> None:
        self._conditions = conditions
        self._sources = tuple(sorted(sources))
        match = re.compile("|".join(map(translate, conditions.names))).match
        self._named = {column: NameTest(lambda name: match(name) is not None) for column in ("name", "short_name")}

    def failed(self, batch: Batch) -> dict[str, Bools]:
        """Which rows fail each test."""
        conditions, failing = self._conditions, {}
        if conditions.ranks:
            failing["--rank"] = ~words_in(batch.column("source"), self._sources)
        if conditions.kinds:
            failing["--kind"] = ~words_in(batch.column("kind"), tuple(conditions.kinds))
        if conditions.names:
            named = [test(batch.column(column)) for column, test in self._named.items() if batch.has(column)]
            failing["--name"] = ~np.logical_or.reduce([np.zeros(len(batch), np.bool_), *named])
        for option, numbers in (("device", conditions.devices), ("stream", conditions.streams)):
            if numbers:
                failing[f"--{option}"] = ~truth(pc.is_in(batch.column(option), pa.array(numbers, pa.int64())))
        if conditions.only_gpu:
            placed = pc.or_(batch.column("device").is_valid(), batch.column("stream").is_valid())
            failing["--only-gpu"] = ~(words_in(batch.column("kind"), DEVICE_KINDS) | truth(placed))
        if conditions.min_dur is not None and batch.record == "events":
            short = truth(pc.less(batch.column("dur"), pa.scalar(conditions.min_dur, pa.int64())))
            failing["--min-dur"] = short & ~words_in(batch.column("kind"), POINT_KINDS)
        return failing


def filtered(batches: Iterable[Batch], conditions: Filter, report: Report) -> Iterator[Batch]:
    """Yields the rows that pass. The figures of rows that don't pass, and the ends of their arrows, go with them.

    Begins and ends must have been paired before. Figures whose own kind or name is selected stay without their row.
    Raises InputError if no source has one of the selected ranks. If nothing passes, `report.unmatched` explains why.
    """
    spill = Spill(SPILL_BYTES)
    try:
        sources: frozenset[str] = frozenset()
        if conditions.ranks:
            batches, sources = _of_ranks(batches, conditions.ranks, spill)
        yield from _filtered(batches, conditions, report, _Tests(conditions, sources), spill)
    finally:
        spill.close()


class _Sieve:
    """Yields the rows that stay, and counts those that go."""

    def __init__(self, conditions: Filter, tests: _Tests, spill: Spill) -> None:
        self._conditions = conditions
        self._tests = tests
        self._dependents = Dependents(spill)
        self.unmatched = Unmatched(conditions)
        self.removed: Counter[str] = Counter()
        self.taken = self.given = 0

    def feed(self, batch: Batch) -> Iterator[Batch]:
        """Yields the rows of a batch that stay, except those that have to wait."""
        self.taken += len(batch)
        if self._conditions.drop_args:
            batch = without_args(batch)
        if batch.record == "links":
            self._dependents.wait(batch, np.ones(len(batch), np.bool_), np.zeros(len(batch), np.bool_))
            return
        failed = self._tests.failed(batch)
        self.unmatched.look(batch, failed)
        passes = ~np.logical_or.reduce([np.zeros(len(batch), np.bool_), *failed.values()])
        figure = are_figures(batch)
        if figure.any():
            selected = passes & bool(self._conditions.kinds or self._conditions.names)
            self._dependents.wait(rows_where(batch, figure), passes[figure], selected[figure])
            batch, passes = rows_where(batch, ~figure), passes[~figure]
            failed = {option: mask[~figure] for option, mask in failed.items()}
        self._dependents.remember(batch, passes)
        left = np.ones(len(batch), np.bool_)
        for option, mask in failed.items():
            self.removed[option] += int(np.count_nonzero(mask & left))
            left &= ~mask
        yield from self._give(batch, passes)

    def rest(self) -> Iterator[Batch]:
        """Yields the waiting rows that stay."""
        for batch, kept in self._dependents.rest():
            reason = WITH_EVENT if batch.record == "links" else WITH_ROW
            self.removed[reason] += len(batch) - int(np.count_nonzero(kept))
            yield from self._give(batch, kept)

    def _give(self, batch: Batch, kept: Bools) -> Iterator[Batch]:
        if kept.any():
            self.given += int(np.count_nonzero(kept))
            yield rows_where(batch, kept)


def _filtered(
    batches: Iterable[Batch], conditions: Filter, report: Report, tests: _Tests, spill: Spill
) -> Iterator[Batch]:
    sieve = _Sieve(conditions, tests, spill)
    for batch in batches:
        if batch.record == "catalog":
            yield batch
        elif len(batch):
            yield from sieve.feed(batch)
    yield from sieve.rest()
    account(report, "filter", sieve.taken, sieve.given, sieve.removed)
    if sieve.taken and not sieve.given:
        report.unmatched = sieve.unmatched.error()


def account(report: Report, stage: str, taken: int, given: int, removed: Counter[str]) -> Ledger:
    """Opens the ledger of a stage that leaves rows out, and notes how many for each reason."""
    ledger = report.stage(stage)
    ledger.taken, ledger.given = taken, given
    for reason, rows in removed.items():
        if rows:
            ledger.removed[reason] += rows
            report.issue("left-out", f"{rows:,} by {reason}", rows=rows)
    return ledger


def without_args(batch: Batch) -> Batch:
    """The batch without arguments, including those in columns."""
    names = [name for name in batch.columns.schema.names if name != "args" and not name.startswith("args.")]
    return Batch(batch.record, batch.columns.select(names))


def _of_ranks(batches: Iterable[Batch], ranks: Sequence[int], spill: Spill) -> tuple[Iterator[Batch], frozenset[str]]:
    """All batches, and the sources with these ranks. Reads all input, since the facts with ranks may come last."""
    catalog, kept, records = Catalog(), BatchSpool(spill, "all"), []
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        elif len(batch):
            kept.append(batch.columns)
            records.append(batch.record)
    rank_of = {source: catalog.rank(source) for source in (entry.key["source"] for entry in catalog.of("source"))}
    of_ranks = frozenset(source for source, rank in rank_of.items() if rank in ranks)
    if not of_ranks:
        ranks_known = sorted({str(rank) for rank in rank_of.values() if rank is not None})
        raise InputError(
            f"there is no rank {', '.join(map(str, ranks))}" if ranks_known else "no source has a rank",
            expected=f"one of the ranks {', '.join(ranks_known)}" if ranks_known else None,
            remedy=None if ranks_known else "leave out --rank, and use the file of the rank as the input",
        )

    def again() -> Iterator[Batch]:
        if len(catalog):
            yield catalog.to_batch()
        for number, record in enumerate(records):
            yield Batch(record, kept.get(number))

    return again(), of_ranks
