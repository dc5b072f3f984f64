"""From inputs to an overview, and from a part of it to a trace: `ktrace view` of large inputs.

inputs ──► read_selected ──► pair ──► stored (in the cache) ──► Overview
                                        └──► crop, coarsen ──► a part.perfetto
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.overview import Span, Stored, cache, store
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.analysis.work.gaps import SPOKEN
from ktrace.conversion import Conversion
from ktrace.errors import InputError, OutputError, error_text
from ktrace.input.detection import by_name
from ktrace.input.expand import names_several
from ktrace.input.limits import current, in_force
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.pipeline.convert import require_rows, writing_to
from ktrace.pipeline.explain import explained
from ktrace.pipeline.read import Progress, read_selected
from ktrace.pipeline.selection import Selection, key_of
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.stages.select.coarsen import coarsened
from ktrace.stages.select.crop import cropped
from ktrace.stages.select.intervals import Intervals
from ktrace.stages.select.wanted import Crop
from ktrace.store.events import values
from ktrace.tables import brief

#: The most rows of which the causes of gaps are found while somebody waits.
MOST_EXPLAINED = 1_000_000

#: The argument of a slice that goes on beyond the part that was cut out.
BEYOND = "args.beyond_window"


@contextmanager
def overviewed(
    paths: Sequence[str], selection: Selection, *, cached: bool, progress: Progress | None = None
) -> Iterator[tuple[Overview, Report]]:
    """Yields the overview of inputs, in one clock, and the account of their reading.

    It comes from the cache if it is there and `cached`. What can't be told apart by name and time, such as standard
    input and URLs, is kept for this block only, and so is all else where the cache can't be written to. Raises what
    reading raises, and OutputError if there is no disk for the rows.
    """
    if selection.align is None and names_several(paths, selection.from_):
        from ktrace.stages.align import Align

        selection = selection.replace(align=Align("auto"))
    title = Path(paths[0]).name + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else "")
    key = key_of(paths, selection) if cached else None
    limits = current()
    with ExitStack() as stack:

        def again() -> Stored:
            assert key
            cache.drop(key)
            if key != key_of(paths, selection):
                raise InputError("has changed, and what was kept of it is damaged", path=title, remedy="open it again")
            with in_force(limits):
                return _kept_or_not(stack, paths, selection, key, None)[0]

        if key and (kept := cache.found(key)):
            stored, report = kept, kept.report()
        else:
            stored, report = _kept_or_not(stack, paths, selection, key, progress)
        yield Overview(stored, title, again if key else None), report


def _kept_or_not(
    stack: ExitStack, paths: Sequence[str], selection: Selection, key: str | None, progress: Progress | None
) -> tuple[Stored, Report]:
    """Reads inputs and stores their rows until the stack closes, in the cache if there is a key and a disk for it."""
    try:
        return _stored(stack, paths, selection, key, progress)
    except OutputError as full:
        if key is None or not isinstance(full.__cause__, OSError):
            raise
        try:
            stored, report = _stored(stack, paths, selection, None, progress)
        except OutputError:
            raise full from None
        report.issue("not-kept", str(full.path), full.what, 0)
        return stored, report


def _stored(
    stack: ExitStack, paths: Sequence[str], selection: Selection, key: str | None, progress: Progress | None
) -> tuple[Stored, Report]:
    """Reads inputs and stores their rows until the stack closes. Raises OutputError from OSError for a full disk."""
    report = Report()
    with ExitStack() as opened:
        held = opened.enter_context(cache.storing(key))
        batches = pair_halves(read_selected(paths, report, selection, progress=progress), report)
        try:
            store(batches, held.path, report, key or "")
        except OSError as error:
            raise OutputError(
                f"can't keep the rows: {error_text(error)}",
                path=str(held.path.parent),
                remedy=f"name a folder on a larger disk in {cache.FOLDER}, or TMPDIR with --no-cache",
            ) from error
        report.require_balance()
        report.require_match()
        require_rows(report, paths)
        place = held.path
        if key and not cache.is_in_cache(held):
            report.issue("not-kept", str(cache.cache_folder()), "the folder can't be written to, or others can", 0)
        elif key and key == key_of(paths, selection):  # the inputs are what they were
            place = cache.keep(held, key)
        stored = Stored(place)
        stack.push(opened.pop_all())
    return stored, report


def without_slices(overview: Overview) -> InputError:
    """Returns the error for a trace of which there is nothing to show."""
    return InputError(
        "has no slices with a time, so there is no overview",
        path=overview.title,
        remedy="ktrace view --full, which lays out tables side by side",
    )


def idle_causes(overview: Overview, span: Span) -> list[tuple[str, int]] | None:
    """Why devices are idle in a part of the time: ns of each cause. None where it has too many slices to tell."""
    start, stop = overview.absolute(span)
    blocks = [block for block in overview.stored.blocks if block.overlaps((start, stop))]
    if sum(block.rows for block in blocks) > MOST_EXPLAINED:
        return None
    time: dict[str, int] = {}
    for gaps in islice(explained(overview.stored.batches((start, stop)), ("idle",), Report()), len(blocks), None):
        ts, _ = values(gaps.columns, "ts")
        dur, _ = values(gaps.columns, "dur")
        inside = np.minimum(ts + dur, stop) - np.maximum(ts, start)
        for cause, idle in zip(decoded(gaps.column("name")).to_pylist(), inside.tolist(), strict=True):
            if idle > 0:
                time[SPOKEN.get(cause, cause)] = time.get(SPOKEN.get(cause, cause), 0) + idle
    return sorted(time.items(), key=lambda one: -one[1])


def window(overview: Overview, span: Span | None, path: str, *, budget: int | None = None, gpu: str = "auto") -> Report:
    """Writes a Perfetto trace of a part of the time (None: all), or of about `budget` slices of it."""
    report = Report()
    if span is None:
        batches = _counted(overview.stored.batches(), report)
    else:
        start, stop = overview.absolute(span)
        batches = _counted(overview.stored.batches((start, stop)), report)
        within = Intervals.from_pairs([(start, stop)])
        batches = _marked(cropped(batches, Crop(time="0ns.."), report, within=within), start, stop)
    if budget is not None:
        batches = coarsened(batches, budget, report)
    perfetto = by_name("perfetto", writes=True)
    with writing_to(path, perfetto, None, overwrite=True) as write:
        write(batches, Conversion(report, options={"gpu": gpu}))
    return report


def _counted(batches: Iterator[Batch], report: Report) -> Iterator[Batch]:
    """The same batches; their rows are counted as read."""
    for batch in batches:
        report.rows[batch.record] += len(batch)
        yield batch


def _marked(batches: Iterator[Batch], start: int, stop: int) -> Iterator[Batch]:
    """The same rows; those that go on beyond the part of the time say how far."""
    for batch in batches:
        if batch.record == "events":
            ts, _ = values(batch.columns, "ts")
            dur, _ = values(batch.columns, "dur")
            before, after = start - ts, ts + dur - stop
            beyond = np.flatnonzero((before > 0) | (after > 0))
            if len(beyond):
                texts = np.full(len(batch), None, object)
                for row in beyond.tolist():
                    words = (f"begins {brief(before[row])} before", f"ends {brief(after[row])} after")
                    texts[row] = ", ".join(
                        word for word, time in zip(words, (before[row], after[row]), strict=True) if time > 0
                    )
                yield Batch("events", batch.columns.append_column(BEYOND, pa.array(texts, pa.string())))
                continue
        yield batch
