"""Adds the metrics that one tool measured for each launch to the kernels in the timeline of another.

    ncu       gemm (64,1,1)x(256,1,1)   sm__throughput... 63.7 %       a launch each, in the order of the launches
    nsys      gemm (64,1,1)x(256,1,1)   ts 1,000  dur 31,000           ──► a counter of the kernel, at its time

`launch_matching` finds the kernel of each launch. A launch without a kernel is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import InputError
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, encoded
from ktrace.model.row_builder import NewIds, to_rows
from ktrace.naming.alike import near
from ktrace.report import Ledger, Report, counted
from ktrace.stages.launch_matching import PLACE, SIZE, SPELLINGS, Kernels, Launch, Matching
from ktrace.stages.launch_tables import is_sampled
from ktrace.store.joins import distinct_rows

_DURATION = "gpu__time_duration.sum"
_METRICS = pa.schema(
    [
        ("launch", pa.int64()),
        ("name", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("args", pa.string()),
    ]
)
_TEXTS = pa.schema([("launch", pa.int64()), ("name", pa.string()), ("cat", pa.string()), ("args", pa.string())])
_SAMPLES = pa.schema(
    [
        ("launch", pa.int64()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("args", pa.string()),
    ]
)

_ROWS = 16_384

#: How many names of kernels are remembered for a message.
_NAMES = 20_000


@dataclass
class Measured:
    """Launches with metrics, in the order of the source.

    metrics   a row for each figure, in the order of `launches`; the column `launch` is an index into these
    texts     a row for each text, such as a note
    samples   a row for each value during a launch
    twice     how many rows of each launch repeat another one
    apart     the number of rows that don't belong to a launch
    known     the catalog
    """

    launches: list[Launch]
    metrics: pa.Table
    texts: pa.Table
    samples: pa.Table
    twice: Int64
    apart: int = 0
    known: Catalog = field(default_factory=Catalog)


def read_launches(batches: Iterable[Batch]) -> Measured:
    """Reads the launches in tables, with their metrics and the catalog."""
    catalog = Catalog()
    launches: list[Launch] = []
    numbers: dict[tuple[str, int], int] = {}
    parts, texts, samples = [_METRICS.empty_table()], [_TEXTS.empty_table()], [_SAMPLES.empty_table()]
    separate = 0
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
            continue
        separate += len(batch)
        if batch.record == "events" and is_sampled(batch):
            of_samples = _sampled(batch, numbers)
            separate -= len(of_samples)
            samples.append(of_samples)
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
        separate -= pc.sum(heads).as_py() + int((of >= 0).sum())
        value, kind = batch.column("value"), decoded(batch.column("kind"))
        figure = pc.and_(pc.equal(kind, "metric"), value.is_valid()).to_numpy(zero_copy_only=False)
        args = decoded(batch.args_text())
        columns = [pa.array(of), decoded(batch.column("metric")), decoded(batch.column("unit")), value, args]
        rows = pa.table(columns, schema=_METRICS)
        parts.append(rows.filter(pa.array(figure & (of >= 0))))
        texts.append(_texts(batch, of, args).filter(pa.array(~figure & (of >= 0))))
    metrics, twice = _once(pa.concat_tables(parts), len(launches))
    return Measured(launches, metrics, pa.concat_tables(texts), pa.concat_tables(samples), twice, separate, catalog)


def _texts(batch: Batch, of: Int64, args: pa.Array) -> pa.Table:
    """The texts of rows without a figure: a note by its text, a metric by its id with the text in its arguments."""
    is_note = pc.fill_null(pc.equal(decoded(batch.column("kind")), "note"), False)
    name = pc.if_else(is_note, batch.column("name"), decoded(batch.column("metric")))
    scopes = [scope[-1] if scope else None for scope in batch.column("scope").to_pylist()]
    return pa.table([pa.array(of), name, pa.array(scopes, pa.string()), args], schema=_TEXTS)


def _sampled(batch: Batch, numbers: dict[tuple[str, int], int]) -> pa.Table:
    """The samples of known launches."""
    columns = [pa.array(_heads(batch, numbers)), batch.column("ts"), batch.column("name")]
    columns += [decoded(batch.column("unit")), batch.column("value"), decoded(batch.args_text())]
    return pa.table(columns, schema=_SAMPLES).filter(pc.field("launch") >= 0)


def _launch(row: dict[str, Any]) -> Launch:
    size = tuple(row.get(name) for name in SIZE)
    return Launch(f"{row['source']} id {row['id']}", row.get("pid"), row.get("device"), row["name"], size)


def _duration(row: dict[str, Any], launch: int) -> list[dict[str, Any]]:
    """The duration of a launch, as a metric."""
    value = row.get("total", row.get("value"))
    if row["metric"] != "duration" or value is None:
        return []
    return [{"launch": launch, "name": _DURATION, "unit": row.get("unit"), "value": value}]


def _heads(batch: Batch, numbers: dict[tuple[str, int], int]) -> Int64:
    """The launch that each row belongs to, -1 for none."""
    first, which = distinct_rows([batch.column("source"), batch.column("parent")], len(batch))
    rows = pa.array(first)
    keys = zip(*(decoded(batch.column(name).take(rows)).to_pylist() for name in ("source", "parent")), strict=True)
    return np.array([numbers.get(key, -1) for key in keys], np.int64)[which]


def _once(metrics: pa.Table, launches: int) -> tuple[pa.Table, Int64]:
    """The metrics by launch without repetitions, and how many these are for each launch: pages show some twice."""
    metrics = metrics.combine_chunks()
    columns = metrics.drop_columns("args").columns
    kept = np.sort(distinct_rows([column.chunk(0) for column in columns] if len(metrics) else [], len(metrics))[0])
    of = metrics["launch"].to_numpy()
    twice = np.bincount(of, minlength=launches) - np.bincount(of[kept], minlength=launches)
    return metrics.take(pa.array(kept[np.argsort(of[kept], kind="stable")])), twice


def with_metrics(
    batches: Iterable[Batch], measured: Measured, report: Report, skip: int | None = None
) -> Iterator[Batch]:
    """Yields all batches, and then the metrics of launches as counters of their kernels.

    `skip` is how many launches of each process came before the first that was measured; None if all were measured.
    Launches without a kernel are reported as "unmatched-launch". If no launch has one, `report.unmatched` explains why.
    """
    names = {spelling(launch.name) for launch in measured.launches for spelling in SPELLINGS}
    seen = Kernels()
    catalog = Catalog()
    ids = NewIds()
    others: dict[str, None] = {}
    passed = 0
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        else:
            passed += len(batch)
            ids.see(batch)
        if batch.record == "events":
            _remember(batch, names if skip is None else None, seen)
            if len(others) < _NAMES:
                is_kernel = pc.fill_null(pc.equal(decoded(batch.column("kind")), "kernel"), False)
                others.update(dict.fromkeys(decoded(batch.column("name").filter(is_kernel).unique()).to_pylist()))
        yield batch
    ledger = report.stage("metrics")
    ledger.taken = ledger.given = passed
    kernels = seen.table()
    matching = Matching(measured.launches, measured.known, seen, kernels, catalog, skip)
    _account(measured, matching, report, ledger)
    if measured.launches and all(kernel < 0 for kernel in matching.kernel):
        report.unmatched = _no_match(measured.launches, matching.why, others)
    places = _Places(matching.kernel, seen, kernels, ids)
    for rows, kind in ((measured.metrics, "counter"), (measured.texts, "log"), (measured.samples, "counter")):
        yield from _events(rows, kind, places, ledger)


def _remember(batch: Batch, names: set[str] | None, seen: Kernels) -> None:
    """Remembers the kernels of a batch; with `names` only those with one of these."""
    selected = pc.fill_null(pc.equal(decoded(batch.column("kind")), "kernel"), False)
    if names is not None:
        name = batch.column("name")
        coded = encoded(name)
        is_wanted = [any(spelling(word) in names for spelling in SPELLINGS) for word in coded.dictionary.to_pylist()]
        is_named = pa.array(np.array(is_wanted, np.bool_)[coded.indices.to_numpy(zero_copy_only=False)])
        if batch.has("short_name"):
            is_named = pc.or_(is_named, pc.is_in(decoded(batch.column("short_name")), pa.array(list(names))))
        selected = pc.and_(selected, is_named)
    if pc.any(selected).as_py():
        seen.add(Batch("events", batch.columns.filter(selected)))


def _no_match(launches: list[Launch], why: list[str], kernels: Iterable[str]) -> InputError:
    """The error for metrics of which no launch has a kernel, with kernels that are spelled alike."""
    name, kernels = launches[0].name, list(kernels)
    alike = (near(name, kernels) or kernels)[:3]
    return InputError(
        f"--metrics: none of its {len(launches):,} launches matches a kernel of the input; {name}: {why[0]}",
        expected=f"launches of the input's kernels, such as {', '.join(alike)}" if alike else "an input with kernels",
        remedy="profile the same program with both tools; state launches left out with --launch-skip",
    )


def _account(measured: Measured, matching: Matching, report: Report, ledger: Ledger) -> None:
    """Reports what became of the rows of each launch."""
    figures = np.bincount(measured.metrics["launch"].to_numpy(), minlength=len(measured.launches))
    others = (measured.texts, measured.samples)
    rows = figures + measured.twice
    rows += sum(np.bincount(table["launch"].to_numpy(), minlength=len(measured.launches)) for table in others)
    ledger.added["metrics"] += int(rows.sum()) + measured.apart
    if measured.apart:
        report.issue("no-launch", "metrics", counted(measured.apart, "row"), measured.apart, stage=ledger)
    for number, launch in enumerate(measured.launches):
        if matching.kernel[number] < 0:
            detail = f"{launch.name}: {matching.why[number]}"
            report.issue("unmatched-launch", launch.place, detail, int(rows[number]), stage=ledger)
            continue
        if measured.twice[number]:
            ledger.removed["said twice"] += int(measured.twice[number])


class _Places(NamedTuple):
    """The kernels of launches: `kernel` has for each launch the row in `kernels`, -1 for none."""

    kernel: Int64
    seen: Kernels
    kernels: pa.Table
    ids: NewIds


def _events(rows: pa.Table, kind: str, places: _Places, ledger: Ledger) -> Iterator[Batch]:
    """Yields the rows of launches that have a kernel as events at its time: counters of it, or lines of a log.

    Rows with a `ts` are samples that count from the start of the launch. They come from another run of the kernel, so
    they have no parent, and those after its end in the timeline are left out.
    """
    rows = rows.filter(pa.array(places.kernel[rows["launch"].to_numpy()] >= 0))
    sampled = "ts" in rows.schema.names
    tracks = list(zip(*places.seen.places.rows, strict=True)) or [()] * len(PLACE)
    schema = arrow_schema("events")
    for first in range(0, len(rows), _ROWS):
        part = rows.slice(first, _ROWS)
        launches = places.kernels.take(pa.array(places.kernel[part["launch"].to_numpy()]))
        if sampled:
            inside = _inside(part, launches)
            ledger.removed["outside of the launch"] += len(part) - int(pc.sum(inside).as_py() or 0)
            part, launches = part.filter(inside), launches.filter(inside)
        if not len(part):
            continue
        launches = launches.combine_chunks()
        columns: dict[str, Any] = {
            name: pa.array(values, schema.field(name).type).take(launches["place"].combine_chunks())
            for name, values in zip(PLACE, tracks, strict=True)
        }
        columns |= {"ts": launches["ts"], "dur": launches["dur"], "parent": launches["id"]}
        if sampled:
            columns |= {"ts": pc.add(launches["ts"], part["ts"]), "track": pa.array(["PM sampling"] * len(part))}
            for name in ("dur", "parent", "tid", "context", "stream"):
                del columns[name]
        elif kind == "log":
            del columns["dur"]
        columns |= {name: part[name] for name in part.schema.names if name not in ("launch", "ts")}
        columns |= {"id": places.ids.take(columns["source"])}
        columns |= {name: pa.array([word] * len(part)) for name, word in (("kind", kind), ("timing", "measured"))}
        columns_made = {
            name: (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).cast(
                schema.field(name).type
            )
            for name, column in columns.items()
            if column.null_count < len(part)
        }
        ledger.given += len(part)
        yield Batch("events", pa.RecordBatch.from_pydict(columns_made))


def _inside(samples: pa.Table, kernels: pa.Table) -> pa.ChunkedArray:
    """Which samples are between the start and the end of their kernel."""
    after = pc.greater_equal(samples["ts"], 0)
    return pc.and_(after, pc.less(samples["ts"], pc.fill_null(kernels["dur"], 0)))
