"""Metrics that one tool measured of each launch are put on the launches in the timeline of another.

    ncu       gemm (64,1,1)x(256,1,1)   sm__throughput... 63.7 %       a launch each, in the order of the launches
    nsys      gemm (64,1,1)x(256,1,1)   ts 1,000  dur 31,000           ──► a counter of the kernel, at its time

Which launch is which kernel says `matching`. A launch of which that isn't known is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.catalog import Catalog
from ktrace.jsontext import decoded, encoded
from ktrace.model import Batch, arrow_schema
from ktrace.report import Ledger, Report
from ktrace.rows import to_rows
from ktrace.transforms.matching import PLACE, SIZE, SPELLINGS, Int64, Kernels, Launch, Matching, combined

_DURATION = "gpu__time_duration.sum"
_METRICS = pa.schema([("launch", pa.int64()), ("name", pa.string()), ("unit", pa.string()), ("value", pa.float64())])

_ROWS = 16_384


@dataclass
class Measured:
    """Launches of which metrics are known, in the order of the source.

    `metrics` has a row for each figure, in the order of `launches`, that numbers their column `launch`; `others` says
    how many rows of a launch are no figure, `twice` how many repeat one; `apart` counts the rows of no launch.
    """

    launches: list[Launch]
    metrics: pa.Table
    others: Int64
    twice: Int64
    apart: int = 0
    known: Catalog = field(default_factory=Catalog)


def read_launches(batches: Iterable[Batch]) -> Measured:
    """The launches that tables say, with their metrics; and what is known beside."""
    catalog = Catalog()
    launches: list[Launch] = []
    numbers: dict[tuple[str, int], int] = {}
    parts = [_METRICS.empty_table()]
    others = [np.zeros(0, np.int64)]
    apart = 0
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
            continue
        apart += len(batch)
        if batch.record != "summaries":
            continue
        heads = pc.and_(pc.equal(decoded(batch.column("kind")), "kernel"), batch.column("parent").is_null())
        durations = []
        for row in to_rows(Batch("summaries", batch.columns.filter(heads))):
            numbers[row["source"], row["id"]] = len(launches)
            durations += _duration(row, len(launches))
            launches.append(_launch(row))
        parts.append(pa.Table.from_pylist(durations, _METRICS))
        of = _heads(batch, numbers)
        apart -= pc.sum(heads).as_py() + int((of >= 0).sum())
        value, kind = batch.column("value"), decoded(batch.column("kind"))
        figure = pc.and_(pc.equal(kind, "metric"), value.is_valid()).to_numpy(zero_copy_only=False)
        columns = [pa.array(of), decoded(batch.column("metric")), decoded(batch.column("unit")), value]
        rows = pa.table(columns, schema=_METRICS)
        parts.append(rows.filter(pa.array(figure & (of >= 0))))
        others.append(of[~figure & (of >= 0)])
    metrics, twice = _once(pa.concat_tables(parts), len(launches))
    texts = np.bincount(np.concatenate(others), minlength=len(launches))
    return Measured(launches, metrics, texts, twice, apart, catalog)


def _launch(row: dict[str, Any]) -> Launch:
    size = tuple(row.get(name) for name in SIZE)
    return Launch(f"{row['source']} id {row['id']}", row.get("pid"), row.get("device"), row["name"], size)


def _duration(row: dict[str, Any], launch: int) -> list[dict[str, Any]]:
    """What the head says of the duration, as a metric."""
    value = row.get("total", row.get("value"))
    if row["metric"] != "duration" or value is None:
        return []
    return [{"launch": launch, "name": _DURATION, "unit": row.get("unit"), "value": value}]


def _heads(batch: Batch, numbers: dict[tuple[str, int], int]) -> Int64:
    """The launch that each row is behind, -1 for none."""
    codes = combined([batch.column("source"), batch.column("parent")], len(batch))
    first = pa.array(np.unique(codes, return_index=True)[1])
    keys = zip(*(decoded(batch.column(name).take(first)).to_pylist() for name in ("source", "parent")), strict=True)
    return np.array([numbers.get(key, -1) for key in keys], np.int64)[codes]


def _once(metrics: pa.Table, launches: int) -> tuple[pa.Table, Int64]:
    """The metrics by launch, each once, since pages show some in two sections; and how many of each were left out."""
    metrics = metrics.combine_chunks()
    codes = combined([column.chunk(0) for column in metrics.columns] if len(metrics) else [], len(metrics))
    kept = np.sort(np.unique(codes, return_index=True)[1])
    of = metrics["launch"].to_numpy()
    twice = np.bincount(of, minlength=launches) - np.bincount(of[kept], minlength=launches)
    return metrics.take(pa.array(kept[np.argsort(of[kept], kind="stable")])), twice


def with_metrics(
    batches: Iterable[Batch], measured: Measured, report: Report, skip: int | None = None
) -> Iterator[Batch]:
    """Passes batches on, and then the metrics of launches as counters of the kernels to which they belong.

    `skip` is how many launches of each process came before those whose metrics were taken; None where all have some.
    Launches without a kernel are reported as "unmatched-launch".
    """
    names = {spelling(launch.name) for launch in measured.launches for spelling in SPELLINGS}
    seen = Kernels()
    catalog = Catalog()
    greatest: dict[str, int] = defaultdict(int)
    passed = 0
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        else:
            passed += len(batch)
            for source in pc.unique(decoded(batch.column("source"))).to_pylist():
                greatest[source] = max(greatest[source], pc.max(batch.column("id")).as_py())
        if batch.record == "events":
            _remember(batch, names if skip is None else None, seen)
        yield batch
    ledger = report.stage("metrics")
    ledger.taken = ledger.given = passed
    kernels = seen.table()
    matching = Matching(measured.launches, measured.known, seen, kernels, catalog, skip)
    _account(measured, matching, report, ledger)
    yield from _counters(measured, matching.kernel, seen, kernels, greatest, ledger)


def _remember(batch: Batch, names: set[str] | None, seen: Kernels) -> None:
    """Remembers the kernels of a batch, of those with certain names."""
    wanted = pc.fill_null(pc.equal(decoded(batch.column("kind")), "kernel"), False)
    if names is not None:
        name = batch.column("name")
        coded = encoded(name)
        fits = [any(how(word) in names for how in SPELLINGS) for word in coded.dictionary.to_pylist()]
        mine = pa.array(np.array(fits, np.bool_)[coded.indices.to_numpy(zero_copy_only=False)])
        if batch.has("short_name"):
            mine = pc.or_(mine, pc.is_in(decoded(batch.column("short_name")), pa.array(list(names))))
        wanted = pc.and_(wanted, mine)
    if pc.any(wanted).as_py():
        seen.add(Batch("events", batch.columns.filter(wanted)))


def _account(measured: Measured, matching: Matching, report: Report, ledger: Ledger) -> None:
    """Says what becomes of the rows of each launch."""
    figures = np.bincount(measured.metrics["launch"].to_numpy(), minlength=len(measured.launches))
    rows = figures + measured.others + measured.twice
    ledger.added["metrics"] += int(rows.sum()) + measured.apart
    if measured.apart:
        report.issue("no-launch", "metrics", f"{measured.apart:,} rows", measured.apart, stage=ledger)
    for number, launch in enumerate(measured.launches):
        if matching.kernel[number] < 0:
            detail = f"{launch.name}: {matching.why[number]}"
            report.issue("unmatched-launch", launch.place, detail, int(rows[number]), stage=ledger)
            continue
        if measured.others[number]:
            report.issue("metric-text", launch.place, launch.name, int(measured.others[number]), stage=ledger)
        if measured.twice[number]:
            ledger.removed["said twice"] += int(measured.twice[number])


def _counters(
    measured: Measured, kernel: Int64, seen: Kernels, kernels: pa.Table, greatest: dict[str, int], ledger: Ledger
) -> Iterator[Batch]:
    """The metrics of launches that have a kernel, as its counters."""
    rows = measured.metrics.filter(pa.array(kernel[measured.metrics["launch"].to_numpy()] >= 0))
    ledger.given += len(rows)
    places = list(zip(*seen.places.rows, strict=True)) or [()] * len(PLACE)
    schema = arrow_schema("events")
    for first in range(0, len(rows), _ROWS):
        part = rows.slice(first, _ROWS)
        mine = kernels.take(pa.array(kernel[part["launch"].to_numpy()])).combine_chunks()
        columns: dict[str, Any] = {
            name: pa.array(values, schema.field(name).type).take(mine["place"].combine_chunks())
            for name, values in zip(PLACE, places, strict=True)
        }
        columns |= {"ts": mine["ts"], "dur": mine["dur"], "parent": mine["id"]}
        columns |= {name: part[name] for name in ("name", "unit", "value")}
        columns |= {"id": _ids(columns["source"], greatest)}
        columns |= {name: pa.array([word] * len(part)) for name, word in (("kind", "counter"), ("timing", "measured"))}
        found = {
            name: (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).cast(
                schema.field(name).type
            )
            for name, column in columns.items()
            if column.null_count < len(part)
        }
        yield Batch("events", pa.RecordBatch.from_pydict(found))


def _ids(sources: pa.Array, greatest: dict[str, int]) -> pa.Int64Array:
    """Ids of new rows, behind the greatest of their source."""
    texts = np.array(decoded(sources).to_pylist(), object)
    ids = np.zeros(len(texts), np.int64)
    for source in dict.fromkeys(texts):
        mine = np.flatnonzero(texts == source)
        ids[mine] = greatest[source] + 1 + np.arange(len(mine))
        greatest[source] += len(mine)
    return pa.array(ids)
