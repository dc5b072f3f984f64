"""A mapping for a table of anybody: guessed, tried on its first rows, and kept next to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktrace.errors import OutputError
from ktrace.input.detection import by_name, detect
from ktrace.input.format import Detected, Score
from ktrace.input.mapping import FORMAT, ColumnMap, Proposal, mapping_path, parts_of
from ktrace.input.source import Source
from ktrace.model.row_builder import to_rows
from ktrace.output import Sink, writing
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

#: Rows that a mapping is tried on.
TRIED = 1000


@dataclass(frozen=True)
class Trial:
    """The first rows of a table as a mapping makes them: events or summaries; the report of these rows."""

    rows: list[dict[str, Any]]
    report: Report

    @property
    def span(self) -> tuple[int, int, int] | None:
        """First start, last end and the sum of durations of events in ns; None for summaries."""
        if not self.rows or "ts" not in self.rows[0]:
            return None
        durations = [row.get("dur", 0) for row in self.rows]
        ends = [row["ts"] + dur for row, dur in zip(self.rows, durations, strict=True)]
        return min(row["ts"] for row in self.rows), max(ends), sum(durations)


def known_as(path: str) -> Detected | None:
    """Returns the format that knows the words of a table, so that it needs no mapping; None if there is none."""
    matches = (match for match in detect(path) if match.score >= Score.DIALECT and match.format != FORMAT)
    return next(matches, None)


def propose(path: str, lines: Sequence[str] = ()) -> Proposal:
    """Returns a guess at the mapping of a table, or of lines: their patterns, or the numbers of some.

    Raises UsageError, or InputError for a file without them.
    """
    source = Source(path)
    result: Proposal = by_name(FORMAT).function("propose")(source.sample(), path, lines)
    return result


def completed(proposal: Proposal, changes: str | None) -> ColumnMap:
    """Returns the guessed mapping with some pairs in place of the guesses. Raises UsageError if it can't make rows."""
    mapping = proposal.mapping()
    return (mapping.changed(parts_of(changes)) if changes else mapping).check()


def tried(path: str, mapping: ColumnMap) -> Trial:
    """Reads the first rows of a table by a mapping. Raises InputError if that isn't possible."""
    report = Report()
    rows: list[dict[str, Any]] = []
    with closing(read_batches([path], report, map=mapping.text(), batch_rows=TRIED)) as batches:
        for batch in batches:
            if batch.record in ("events", "summaries"):
                rows += to_rows(batch)
            if len(rows) >= TRIED:
                break
    return Trial(rows, report)


def write_mapping(path: str, mapping: ColumnMap, target: str | None = None, *, overwrite: bool = False) -> Path:
    """Writes a mapping next to its table, or to another TOML file, and returns where. Raises OutputError.

    A file that exists is only replaced if `overwrite`.
    """
    if target is None and (path == "-" or "://" in path):
        raise OutputError("a mapping can't be kept next to this input", path=path, remedy="name a file: -o FILE.toml")
    place = mapping_path(path) if target is None else Path(target)
    if place.suffix != ".toml":
        raise OutputError("isn't the name of a TOML file", path=str(place), expected="a name such as run.ktrace.toml")
    if place.exists() and not overwrite:
        raise OutputError("exists", path=str(place), remedy="--overwrite replaces it")
    text = mapping.toml([f"How ktrace reads {Path(path).name}. `ktrace map` guessed it: check it.", _GRAMMAR, ""])
    with writing(Sink(str(place), overwrite=overwrite)) as sink:
        sink.open().write(text.encode())
    return place


_GRAMMAR = 'field = "column", or { column = "column", unit = "us" }, or { constant = "text" }'
