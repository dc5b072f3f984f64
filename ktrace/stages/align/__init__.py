"""The stage `align`: moves the times of several sources to the clock of the first one, by a rule of the user.

    rank0 ─────────────────────────────────────► passes at once: the reference clock
    rank1 ── waits until its move is known ────► moved
    clocks ── wait for the end ────────────────► anchors that agree with one another

By unix time a move is known as soon as both anchors are, else when all sources have ended; until then rows wait in
memory, above a limit in a temporary folder.

moves         how times move: an offset, and drift; by unix time, which clocks of sources record
collectives   moves by the collectives that ranks take part in together, and which of these are the same one
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import InputError, UsageError
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import each_source, truth
from ktrace.model.row_builder import to_batch
from ktrace.report import Report
from ktrace.stages.align.collectives import Collectives, Fit
from ktrace.stages.align.moves import (
    DISJOINT,
    Move,
    Placed,
    anchor_of,
    by_auto,
    by_unix,
    moved,
    pauses,
    shift_of,
)
from ktrace.stages.launch_tables import is_sampled
from ktrace.stages.select.crop import Marks, called, no_such
from ktrace.store import SPILL_BYTES, BatchSpool, Spill
from ktrace.store.events import LIMIT
from ktrace.tables import long_time_text, parse_time, time_text

#: The rules, and how each is written.
RULES = ("auto", "unix", "collective", "marker", "none")


@dataclass(frozen=True)
class Align:
    """How the times of sources are converted to the clock of the first one, whose times stay.

    Parameters
    ----------
    rule : {"auto", "unix", "collective", "marker", "none"}
        auto: by unix time where the clocks have it. A source without it whose clock is of another kind begins when the
        first one does, which is a guess and reported as one.
        unix: by unix time; an error where a source doesn't have it.
        collective: by the ends of the collectives that ranks take part in together, offset and drift.
        marker: by the first event with the name `marker` (a name or a pattern) in each source.
        none: times stay as they are.
    marker : str, optional
        The name for the rule "marker".
    offsets : mapping
        Path, file name or label of an input -> ns, or text such as "+1.5ms", added to its times.
    keep_shift : bool
        By unix time: keep what was added to an input's times by hand when it was exported (nsys export --ts-shift).

    Raises
    ------
    UsageError
        The rule doesn't exist, a marker comes without the rule or the rule without a marker, an offset isn't a time.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.Align.parse("marker step 3").marker
    'step 3'
    """

    rule: str = "auto"
    marker: str | None = None
    offsets: Mapping[str, int | str] = field(default_factory=dict)
    keep_shift: bool = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"there is no alignment '{self.rule}'", expected=", ".join(RULES))
        if (self.rule == "marker") != bool(self.marker):
            raise UsageError("a marker is for the alignment 'marker', and needed there", expected="marker NAME")
        offsets = {name: _ns(time) for name, time in self.offsets.items()}
        object.__setattr__(self, "offsets", offsets)

    @classmethod
    def parse(cls, text: str, offsets: Mapping[str, int | str] | None = None) -> Align:
        """Parses a text: "auto", "unix", "collective", "none", "marker NAME" or "marker:NAME"."""
        rule, _, name = text.partition(":") if text.startswith("marker:") else text.partition(" ")
        return cls(rule, name.strip() or None, offsets or {})


def _ns(time: int | str) -> int:
    if isinstance(time, str):
        return parse_time(time)
    if type(time) is not int:
        raise UsageError(f"'{time}' isn't an offset", expected="whole ns, or text such as '+1.5ms'")
    return time


#: A gap is reported if it is this many times as long as everything else.
_EMPTY = 20


def aligned(
    batches: Iterable[Batch], alignment: Align, report: Report, inputs: Mapping[str, str] | None = None
) -> Iterator[Batch]:
    """Yields the batches with all times in the clock of the source that comes first; facts about clocks come last.

    `inputs` maps sources to paths, for `wanted.offsets`. `report.alignment` records how each source was aligned.
    Raises InputError if a source can't be aligned as wanted, UsageError for an offset of an unknown input.
    """
    spill = Spill(SPILL_BYTES)
    try:
        stage = _Stage(alignment, spill, {} if inputs is None else inputs)
        for batch in batches:
            yield from stage.feed(batch)
        yield from stage.rest()
        stage.account(report)
    finally:
        spill.close()


class _Stage:
    """What is known about each source so far, and the rows that wait."""

    def __init__(self, alignment: Align, spill: Spill, inputs: Mapping[str, str]) -> None:
        self._alignment = alignment
        self._spill = spill
        self._inputs = inputs
        self._catalog = Catalog()
        self._sources: dict[str, None] = {}
        self._moves: dict[str, Move] = {}  # of sources whose rows don't wait any more, with their offsets
        self._placed: dict[str, Placed] = {}
        self._fits: dict[str, Fit] = {}
        self._waiting: dict[str, tuple[list[str], BatchSpool]] = {}
        self._spans: dict[str, tuple[int, int]] = {}  # first start and last end of each source, by its own clock
        self._collectives = Collectives() if alignment.rule == "collective" else None
        self._marks = Marks(called(alignment.marker)) if alignment.marker is not None else None
        self._rows = 0

    def feed(self, batch: Batch) -> Iterator[Batch]:
        """Yields the rows whose move is known now that this batch has come."""
        sources = decoded(batch.column("source").unique()).to_pylist()
        for source in sources:
            self._meet(source)
        if batch.record == "catalog":
            yield from self._learn(batch, sources)
            return
        if not len(batch):
            return
        self._rows += len(batch)
        for source, rows in each_source(batch):
            self._look(rows, source)
            if source in self._moves:
                yield moved(rows, self._moves[source])
            else:
                if source not in self._waiting:
                    self._waiting[source] = [], BatchSpool(self._spill, f"waiting{list(self._sources).index(source)}")
                records, kept = self._waiting[source]
                records.append(rows.record)
                kept.append(rows.columns)

    def _meet(self, source: str) -> None:
        """Registers a source. The first one passes at once; with the rule "none" all do."""
        if source in self._sources:
            return
        if not self._sources or self._alignment.rule == "none":
            self._moves[source] = Move(self._extra(source))
        self._sources[source] = None

    def _learn(self, batch: Batch, sources: list[str]) -> Iterator[Batch]:
        """Adds facts to the catalog; those about clocks wait, since their anchors may move."""
        self._catalog.add(batch)
        clocks = truth(pc.equal(decoded(batch.column("entity")), "clock"))
        if self._alignment.rule == "none" or not clocks.any():
            yield batch
            return
        if not clocks.all():
            yield Batch("catalog", batch.columns.filter(pa.array(~clocks)))
        if self._alignment.rule in ("auto", "unix"):
            first = next(iter(self._sources))
            base = self._anchor_of(first)
            for source in sources if base is not None else ():
                anchor = self._anchor_of(source)
                if anchor is not None and base is not None and source not in self._moves:
                    yield from self._settle(source, Placed(Move(anchor - base), "unix"))

    def _look(self, rows: Batch, source: str) -> None:
        """Collects what the rule needs from rows."""
        if rows.record != "events" or is_sampled(rows):
            return
        ts = rows.column("ts")
        ends = pc.add(ts, pc.coalesce(rows.column("dur"), pa.scalar(0, pa.int64())))
        begin, end = pc.min(ts).as_py(), pc.max(ends).as_py()
        if begin is not None and -LIMIT < begin <= end < LIMIT:
            span = self._spans.get(source, (begin, end))
            self._spans[source] = min(span[0], begin), max(span[1], end)
        if self._collectives is not None:
            self._collectives.add(rows)
        if self._marks is not None:
            self._marks.add(rows)

    def _settle(self, source: str, placed: Placed) -> Iterator[Batch]:
        """Yields the waiting rows of a source at their new times."""
        self._placed[source] = placed
        move = self._moves.setdefault(source, placed.move.later(self._extra(source)))
        records, kept = self._waiting.pop(source, ([], None))
        for number, record in enumerate(records):
            assert kept is not None
            yield moved(Batch(record, kept.get(number)), move)

    def rest(self) -> Iterator[Batch]:
        """Yields the rows that waited for the end, and the clocks."""
        self._check_offsets()
        sources = list(self._sources)
        if not sources or self._alignment.rule == "none":
            return
        for source, placed in self._decided(sources).items():
            if source not in self._placed:
                yield from self._settle(source, placed)
        # the facts about clocks, with anchors at their new times, by the first source that has an anchor
        anchors = ((source, self._anchor_of(source)) for source in sources)
        base = next((anchor - self._placed[source].move.offset for source, anchor in anchors if anchor is not None), 0)
        rows: list[dict[str, Any]] = []
        for entry in self._catalog.of("clock"):
            facts = entry.facts
            if entry.unix_offset is not None:
                facts = _anchor(facts, self._placed[entry.key["source"]].move, base)
            row = {"entity": "clock", "id": entry.id, "name": entry.name, "parent": entry.parent, "order": entry.order}
            rows.append(entry.key | entry.extra | row | {"facts": dump_json(facts) if facts else None})
        if rows:
            yield to_batch("catalog", rows)

    def _decided(self, sources: list[str]) -> dict[str, Placed]:
        """The moves of all sources by the rule, after all rows have come."""
        first = sources[0]
        reference = {first: Placed(Move(), "reference")}
        if self._alignment.rule == "unix":
            return by_unix(sources, self._catalog, keep_shift=self._alignment.keep_shift) | reference
        if self._alignment.rule == "auto":
            begins = {source: begin for source, (begin, _) in self._spans.items()}
            return by_auto(sources, self._catalog, begins, keep_shift=self._alignment.keep_shift)
        if self._collectives is not None:
            self._fits = self._collectives.fits(sources)
            return reference | {source: Placed(fit.move, "collective") for source, fit in self._fits.items()}
        assert self._marks is not None
        marks = {source: int(times.begin[0]) for source, times in self._marks.each().items() if len(times.begin)}
        for source in sources:
            if source not in marks:
                raise _of_source(no_such("event", self._alignment.marker or "", self._marks.names), source, marks)
        return {source: Placed(Move(marks[first] - marks[source]), "marker") for source in sources} | reference

    def _anchor_of(self, source: str) -> int | None:
        return anchor_of(self._catalog, source, keep_shift=self._alignment.keep_shift)

    def _shift(self, source: str, placed: Placed) -> int:
        """How much more was added to a source's times by hand than to those of the first one; 0 unless by unix time."""
        if placed.rule != "unix":
            return 0
        return shift_of(self._catalog, source) - shift_of(self._catalog, next(iter(self._sources)))

    def _extra(self, source: str) -> int:
        """The offset that the user asked for, for the source's input."""
        total = 0
        for name, offset in self._alignment.offsets.items():
            assert isinstance(offset, int)
            total += offset if name in self._names(source) else 0
        return total

    def _names(self, source: str) -> tuple[str, ...]:
        path = self._inputs.get(source)
        return (source,) if path is None else (source, path, PurePath(path).name)

    def _check_offsets(self) -> None:
        names = {name for source in self._sources for name in self._names(source)}
        for name in self._alignment.offsets:
            if name not in names:
                paths = dict.fromkeys([*self._inputs.values(), *self._sources])
                raise UsageError(
                    f"there is no input '{name}' for an offset", expected=f"one of {', '.join(list(paths)[:8])}"
                )

    def account(self, report: Report) -> None:
        """Reports how each source was aligned, and counts the rows."""
        ledger = report.stage("align")
        ledger.taken = ledger.given = self._rows
        for source in self._sources:
            placed = self._placed.get(source, Placed(Move(), "none"))
            alignment: dict[str, Any] = {"source": source, "rule": placed.rule, "offset_ns": placed.move.offset}
            if placed.move.rate:
                alignment |= {"drift_ppm": placed.move.rate * 1e6, "since_ns": placed.move.since}
            if source in self._fits:
                fit = self._fits[source]
                alignment |= {"matched": fit.matched, "outliers": fit.outliers}
                alignment |= {"residual_median_ns": fit.median, "residual_p95_ns": fit.p95}
                alignment |= {"through": fit.through} if fit.through else {}
                if fit.is_doubtful:
                    report.issue("residual-large", source, self._residual(source, fit), 0)
            if extra := self._extra(source):
                alignment["extra_ns"] = extra
            if shift := self._shift(source, placed):
                alignment["shift_ns" if self._alignment.keep_shift else "shift_undone_ns"] = shift
                if not self._alignment.keep_shift:
                    report.issue("shift-undone", source, f"{time_text(shift)} more than of the first input", 0)
            report.alignment.append(alignment)
            if placed.rule == "begin":
                report.issue("begin-guessed", source, self._guessed(placed.move.offset), 0)
        spans = {source: self._moved(span, source) for source, span in self._spans.items()}
        far = apart(spans)
        for source, (gap, before) in pauses(spans).items():
            if source in far:
                report.issue("times-apart", source, f"{long_time_text(gap)} without any event before it", 0)
            elif gap >= DISJOINT:
                report.issue("no-overlap", source, f"it begins {long_time_text(gap)} after {before} has ended", 0)

    def _guessed(self, offset: int) -> str:
        """Why the move of a source is a guess, and that it is no correction of a clock where it is so large."""
        why = "no unix time, and a different clock than the first source"
        lasting = sum(end - begin for begin, end in self._spans.values())
        if abs(offset) <= lasting:
            return why
        by = f"moved by {long_time_text(offset)}, while all sources last {time_text(lasting)}"
        return f"{why}; {by}: times between them mean nothing"

    def _residual(self, source: str, fit: Fit) -> str:
        other = fit.through or next(iter(self._sources))
        median, typical = time_text(fit.median), time_text(fit.typical)
        return f"{median} (median) between {other} and {source}, of {fit.matched:,} collectives, which last {typical}"

    def _moved(self, span: tuple[int, int], source: str) -> tuple[int, int]:
        move = self._moves.get(source, Move())
        return move.time(span[0]), move.time(span[1])


def _anchor(facts: dict[str, Any], move: Move, base: int) -> dict[str, Any]:
    """The facts of a clock, converted to the common clock, whose unix time is its time plus `base`.

    With drift the two clocks are compared where the drift was measured, not at a time that may be far from it.
    """
    at = (move.since if move.rate else facts["at_ns"]) + move.offset
    facts = {name: value for name, value in facts.items() if name != "shift_ns"}
    return facts | {"at_ns": at, "unix_ns": at + base}


def apart(spans: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The sources that begin so long after all earlier ones that a viewer shows next to nothing of either, and the
    length of these gaps in ns: more than `_EMPTY` times the time that all sources cover."""
    covered, end = 0, None
    for span in sorted(spans.values()):
        covered += max(span[1] - max(span[0], span[0] if end is None else end), 0)
        end = span[1] if end is None else max(end, span[1])
    return {source: gap for source, (gap, _) in pauses(spans).items() if gap > _EMPTY * covered}


def _of_source(error: InputError, source: str, marks: Mapping[str, int]) -> InputError:
    """The error, extended by the source that lacks the name and those that have it."""
    has = f"; {', '.join(list(marks)[:8])} has it" if marks else ""
    return InputError(f"{error.what}, in {source}{has}", expected=error.expected, remedy=error.remedy)
