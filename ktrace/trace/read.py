"""`ktrace.read`: inputs as a `Trace` in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktrace.input.expand import paths_of
from ktrace.pipeline.read import cores, read_batches
from ktrace.report import Report
from ktrace.stages.pair import pair_halves
from ktrace.trace.trace import Trace


def read(path: str | Path | Sequence[str | Path], from_: str | None = None, *, strict: bool = False) -> Trace:
    """Reads one or several inputs whole. `from_` is a format that overrides what they look like.

    Raises InputError and its kin for what can't be read, StrictFailure where `strict` and something had to be
    repaired, skipped or cut off.
    """
    paths = paths_of(path)
    report = Report(strict=strict)
    return Trace(pair_halves(read_batches(paths, report, format=from_, jobs=cores()), report), report)
