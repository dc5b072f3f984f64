"""Describes an input: its format and why, its rows, devices, time span and heaviest kernels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.questions.checks import CHECKS, PREFIX, sentence
from ktrace.analysis.questions.checks.examine import Recording, examine
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.findings import Finding
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.question import Labels
from ktrace.analysis.work.stored_columns import by_source
from ktrace.input.boundary import input_faults
from ktrace.input.capabilities import kept_exports
from ktrace.input.detection import by_name, detect
from ktrace.input.format import Detected
from ktrace.input.limits import limited
from ktrace.input.source import Source
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decoded, encoded
from ktrace.naming.taxonomy import taxonomy
from ktrace.pipeline.read import read_batches
from ktrace.report import Report, Severity
from ktrace.stages.launch_tables import is_sampled
from ktrace.stages.order.pairing import pair_halves
from ktrace.store import SPILL_BYTES, Spill
from ktrace.tables import duration, escape_controls

#: Checks that `ktrace check` makes, but not this: they compare the figures of tables.
NOT_MADE = ("graphs_missing", "table_incomplete")

#: So many kinds of rows are named in one line.
_SHOWN = 4

#: Name -> count, ns.
_Work = defaultdict[str, list[float]]


class Info(msgspec.Struct):
    """The description of an input.

    `matches` is what the formats say of it, best first; once one is sure, no others are asked, unless `from_` names it.
    It is empty for several inputs and for standard input. `kinds` counts the rows that a conversion writes by (record,
    kind). `span` is first start and last end of its events in ns. `device_work` maps the name of device work to (how
    often, ns); of tables it counts the rows of kind kernel. `about` is what the format itself says, heading ->
    lines. `checks` are those that fail of the recording (`ktrace.analysis.questions.checks`), but for those of
    NOT_MADE. `stated` are name and text of the figures that the source states itself.
    """

    path: str
    matches: list[Detected]
    report: Report
    catalog: Catalog
    kinds: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    tables: int = 0
    span: tuple[int, int] | None = None
    device_work: dict[str, tuple[int, float]] = msgspec.field(default_factory=dict)
    about: dict[str, list[str]] = msgspec.field(default_factory=dict)
    checks: list[Finding] = msgspec.field(default_factory=list)
    stated: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def __repr__(self) -> str:
        formats = ", ".join(dict.fromkeys(one["format"] for one in self.report.inputs))
        kinds = ", ".join(f"{rows:,} {kind}" for (_, kind), rows in self.kinds.most_common(_SHOWN))
        span = f", {duration(self.span[1] - self.span[0])}" if self.span else ""
        return f"<Info {escape_controls(self.path)}: {formats}; {kinds}{span}>"

    @property
    def devices(self) -> list[Entry]:
        """The devices of the source."""
        return self.catalog.of("device")

    def to_dict(self) -> dict[str, Any]:
        """Returns the description as plain values, for programs; times are ns."""
        chosen = self.report.inputs[0]["format"] if self.report.inputs else None
        entries = {
            f"{kind}s": [one.key | {"name": one.name, "facts": one.facts} for one in self.catalog.of(kind)]
            for kind in ("source", "host", "device")
        }
        return {
            "path": self.path,
            "format": chosen,
            "matches": [
                {"format": one.format, "score": int(one.score), "reason": one.reason, "failed": one.failed}
                for one in self.matches
            ],
            "inputs": self.report.inputs,
            "begin_ns": self.span and self.span[0],
            "end_ns": self.span and self.span[1],
            "span_ns": self.span and self.span[1] - self.span[0],
            "tables": self.tables,
            "records": self.report.read,
            "rows": self.report.written,
            "repaired": self.report.total(Severity.REPAIR),
            "skipped": self.report.total(Severity.SKIP),
            "cut": self.report.is_cut,
            "bytes": self.report.bytes.to_dict() if self.report.bytes.size else None,
            "contents": [{"record": of, "kind": kind, "rows": rows} for (of, kind), rows in sorted(self.kinds.items())],
            **entries,
            "heaviest": [{"name": name, "count": count, "time_ns": time} for name, count, time in self.top()],
            "checks": self._checks(),
            "about": [{"title": title, "lines": lines} for title, lines in self.about.items()],
        }

    def _checks(self) -> list[dict[str, Any]]:
        """All checks: whether each fails, and the sentence; None where it isn't made."""
        failed = {one.code: sentence(one) for one in self.checks}
        codes = {PREFIX + name: (name, check.law) for name, check in CHECKS.items()}
        return [
            {
                "code": code,
                "law": law,
                "failed": None if name in NOT_MADE else code in failed,
                "message": failed.get(code),
            }
            for code, (name, law) in codes.items()
        ]

    def top(self, count: int = 10) -> list[tuple[str, int, float]]:
        """Returns the top device work: (name, count, ns)."""
        heaviest = sorted(self.device_work.items(), key=lambda item: -item[1][1])[:count]
        return [(name, times, total) for name, (times, total) in heaviest]


@limited
def inspect(
    path: str | Path,
    *,
    from_: str | None = None,
    map: str | Path | None = None,
    limits: str | Mapping[str, str | int] | None = None,
) -> Info:
    """Reads an input once, in bounded memory, and describes it, as `ktrace info` does.

    Parameters
    ----------
    path : path
        The input.
    from_ : str, optional
        Format of the input. By default it is detected from the content.
    map : str or path, optional
        The mapping of a table's columns, as in `Selection`.
    limits : str or mapping, optional
        Limits other than the defaults, as in `Selection`.

    Returns
    -------
    Info
        Its format and why, the kinds of rows, the devices, the time span, the top device work.

    Raises
    ------
    InputError
        The input can't be read.

    Examples
    --------
    >>> import ktrace
    >>> found = ktrace.inspect("samples/kineto/one-step-of-training.pt.trace.json")
    >>> found.matches[0].format
    'kineto'
    """
    with kept_exports():
        return _inspected(path, from_, map)


def _inspected(path: str | Path, from_: str | None, map: str | Path | None) -> Info:
    report, spill = Report(), Spill(SPILL_BYTES)
    info = Info(str(path), [], report, Catalog())
    try:
        seen = WorkInput(taxonomy(), spill, spans=True)
        batches = pair_halves(read_batches([str(path)], report, format=from_, map=map), report)
        _describe(info, _seen(batches, seen))
        info.catalog, info.stated, info.checks = seen.catalog, seen.stated.figures(), _checks(seen, report)
        info.span = seen.span if seen.unset else info.span
    finally:
        spill.close()
    if str(path) != "-" and len(report.inputs) == 1:
        [only] = report.inputs
        info.matches = report.answers.get(only["path"]) or detect(only["path"])
        with input_faults(only["path"], fmt := by_name(only["format"])):
            info.about = fmt.more_about(Source(only["path"]))
    return info


def _seen(batches: Iterable[Batch], seen: WorkInput) -> Iterator[Batch]:
    """Yields the batches, of one source each, after what is checked has been collected from them."""
    for batch in by_source(batches):
        seen.collect_host(batch)
        seen.collect_work(batch)
        yield batch


def _checks(seen: WorkInput, report: Report) -> list[Finding]:
    """The failed checks, of those that need no figures of tables, `NOT_MADE`."""
    work = Work.of_devices(seen)
    labels = Labels(seen.catalog, {(shape["source"], shape["host"], shape["device"]) for shape in work.shapes})
    devices = [use for events in work.each() for use in events.devices(labels.device, labels.rank)]
    span = max((end - begin for begin, end in seen.spans_of.values()), default=None)
    tables: dict[str, list[Any]] = {"": []} if seen.statistics else {}
    return examine(Recording(seen, work, tables, devices, report, span))


def _describe(info: Info, batches: Iterable[Batch]) -> None:
    """Counts the rows by kind, and adds up the device work."""
    work: dict[str, _Work] = {"events": _work(), "summaries": _work()}
    tables: set[Any] = set()
    for batch in batches:
        if batch.record == "catalog":
            continue
        if batch.record != "links":
            for one in pc.value_counts(batch.column("kind")).to_pylist():
                info.kinds[batch.record, one["values"]] += one["counts"]
        if batch.record == "events" and not is_sampled(batch):
            ts = batch.column("ts")
            ends = pc.add(ts, pc.coalesce(batch.column("dur"), pa.scalar(0, pa.int64())))
            first, last = pc.min(ts).as_py(), pc.max(ends).as_py()
            info.span = (min(info.span[0], first), max(info.span[1], last)) if info.span else (first, last)
            _add_work(work["events"], batch, "dur")
        if batch.record == "summaries":
            tables.update(pc.unique(batch.column("table").drop_null()).to_pylist())
            _add_work(work["summaries"], batch, "total")
    info.tables = len(tables)
    heaviest = work["events"] or work["summaries"]  # with both, summaries repeat the events
    info.device_work = {name: (int(times), total) for name, (times, total) in heaviest.items()}


def _work() -> _Work:
    return defaultdict(lambda: [0, 0.0])


def _add_work(work: _Work, batch: Batch, column: str) -> None:
    """Adds the device work of a batch by name: its count and its ns."""
    is_work = pc.is_in(decoded(batch.column("kind")), pa.array(DEVICE_KINDS))
    if column == "total":
        is_work = pc.and_(is_work, pc.equal(decoded(batch.column("metric")), "duration"))
    names = encoded(batch.column("name").filter(is_work))
    place = names.indices.fill_null(len(names.dictionary)).to_numpy(zero_copy_only=False)
    total = batch.column(column).filter(is_work).fill_null(0).to_numpy(zero_copy_only=False)
    totals, times = np.bincount(place, total), np.bincount(place)
    used = np.flatnonzero(times)
    if column == "total":
        times = np.zeros(len(times), np.int64)  # not bincount, whose weights are floats
        np.add.at(times, place, batch.column("count").filter(is_work).fill_null(1).to_numpy(zero_copy_only=False))
    texts = pa.concat_arrays([names.dictionary, pa.nulls(1, names.dictionary.type)]).take(pa.array(used)).to_pylist()
    for name, count, ns in zip(texts, times[used].tolist(), totals[used].tolist(), strict=True):
        entry = work[name]
        entry[0] += count
        entry[1] += ns
