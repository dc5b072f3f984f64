"""The database of an analysis by rocprof-compute (rocprofiler-compute 3.5), schema 1.3.

    compute_dispatch             kernel_uuid, dispatch_id, gpu_id, start_timestamp, end_timestamp
    compute_kernel               kernel_uuid, workload_id, kernel_name
    compute_metric_definition    metric_uuid, metric_id 2.1.0, name VALU FLOPs, table_name, sub_table_name, unit
    compute_kernel_metric_value  kernel_uuid, metric_uuid, value_name Avg, value 0.25
    compute_workload             name, sys_info_extdata {"gpu_model": ...}

The tables are those of a database of version 3.5.0 (ROCm/roc-optiq, sample/). Times are those
of rocprofiler-sdk: ns since boot.

Reads dispatches as kernels, and each metric of a kernel or of the whole workload as a summary.

metric 2.1.0, kernel 6   Avg 12.5, Peak 100.0, Pct of Peak 12.5    summary of kernel 6: avg 12.5, the others in args
metric 7.2.0, kernel 6   Min, Q1, Median, Q3, Max                  min, median, max; the others in args
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import Block, timed
from ktrace.kit.rocm.common import executed
from ktrace.kit.sqlite import Database, opened
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder

_NEEDED = ("compute_kernel", "compute_metric_definition")


def probe(sample: Sample) -> Match | None:
    """MAGIC for tables of kernels and of definitions of metrics."""
    if sample.tables is None or not set(_NEEDED) <= {name.casefold() for name in sample.tables}:
        return None
    return Match(Score.MAGIC, "is an SQLite database with compute_kernel and compute_metric_definition")


_FIGURES = {"Avg": "avg", "Min": "min", "Max": "max", "Median": "median", "Std Dev": "stddev", "Value": "value"}
_UNITS = {"Percent": "%", "Nanoseconds": "ns", "Bytes": "B"}
_ROOFLINE = ("total_flops", "l1_cache_data", "l2_cache_data", "hbm_cache_data")

#: What is looked up for the rows of the other tables.
_LOOKED_UP = ("compute_workload", "compute_metadata", "compute_kernel", "compute_metric_definition")

_WHOLE = (
    *("kernel_uuid", "workload_id", "metric_uuid", "dispatch_id", "gpu_id", "start_timestamp", "end_timestamp"),
    *("count", "offset", "count_issue", "count_stall"),
)
_TEXTS = ("value_name", "source", "instruction", "stall_reason")


class _Owner(NamedTuple):
    """What metrics are of: a kernel, or all of a workload as a range."""

    kind: str
    name: str
    run: str | None


class _Metric(NamedTuple):
    name: str
    unit: str | None
    scope: list[str]
    args: dict[str, Any]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        reading = _Reading(database, conversion)
        for name, key, owners in (
            ("compute_kernel", "kernel_uuid", reading.kernels),
            ("compute_workload", "workload_id", reading.workloads),
        ):
            yield from reading.metrics(f"{name}_metric_value", key, owners)
            yield from reading.roofline(f"{name}_roofline_data", key, owners)
        yield from reading.dispatches("compute_dispatch")
        yield from reading.samples("compute_pcsampling")
        reading.facts()
        database.report_others(reading.read)
        yield from reading.rows.rest()


class _Reading:
    """The database, and what its small tables say."""

    def __init__(self, database: Database, conversion: Conversion) -> None:
        self._database = database
        self._conversion = conversion
        self._report = conversion.report
        self.read = {*_LOOKED_UP}
        self._gpus: set[int] = set()
        self.rows = RowBuilder(conversion)
        names = {key: _text(name) for key, name in database.rows("compute_workload", "workload_id", "name")}
        self.workloads = {key: _Owner("range", name or "[no name]", name) for key, name in names.items()}
        kernels = database.rows("compute_kernel", "kernel_uuid", "kernel_name", "workload_id")
        self.kernels = {
            key: _Owner("kernel", _text(name) or "[no name]", names.get(workload)) for key, name, workload in kernels
        }
        self._metrics = self._defined()

    def _defined(self) -> dict[Any, _Metric]:
        """The metrics. The name of a metric that isn't its alone has its number before it."""
        columns = ("metric_uuid", "name", "metric_id", "description", "table_name", "sub_table_name", "unit")
        rows = self._database.rows("compute_metric_definition", *columns)
        counts = Counter(row[1] for row in rows)
        metrics = {}
        for key, title, number, description, *titles, spelled in rows:
            name = _text(title) or "[no name]"
            if counts[title] > 1:
                name = f"{number} {name}"
            unit = _UNITS.get(spelled, _text(spelled))
            scope = list(dict.fromkeys(filter(None, map(_text, titles))))
            metrics[key] = _Metric(name, unit, scope, {"metric_id": number} if _text(number) else {})
            facts = {"unit": unit, "description": _text(description)}
            self.rows.fact("metric", name=name, facts={fact: text for fact, text in facts.items() if text})
        return metrics

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Columns of the rows of a table, None for a column that it doesn't have, and the place of the row."""
        for name_in_file in self._database.like(table)[:1]:
            self.read.add(name_in_file)
            for block in self._database.blocks(name_in_file, self._conversion.batch_rows):
                for number, row in enumerate(_cells(block, columns)):
                    yield *row, block.where(number)

    def metrics(self, table: str, key: str, owners: dict[Any, _Owner]) -> Iterator[Batch]:
        """A summary for the values of a metric of an owner, which follow one another."""
        rows = self._rows(table, key, "metric_uuid", "value_name", "value")
        for (owner, metric), group in groupby(rows, key=lambda row: row[:2]):
            values = list(group)
            if owner not in owners or metric not in self._metrics:
                what = "a metric" if owner in owners else f"a {key}"
                self._report.issue("bad-record", values[0][-1], f"{what} that isn't there", len(values))
                continue
            self._add(owners[owner], self._metrics[metric], values)
            yield from self.rows.ready()

    def _add(self, owner: _Owner, metric: _Metric, values: list[tuple[Any, ...]]) -> None:
        columns, args = {}, dict(metric.args)
        measured = 0
        for _, _, name, value, _ in values:
            if not isinstance(value, (int, float)):
                continue
            measured += 1
            field = _FIGURES.get(name)
            if field and field not in columns and math.isfinite(value):
                columns[field] = float(value)
            else:
                args[name or "value"] = value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
        if measured:
            self._summary(owner, metric.name, unit=metric.unit, scope=metric.scope, args=args, **columns)
        self._report.used(measured)
        self._report.used(len(values) - measured, outcome="structure")

    def _summary(self, owner: _Owner, metric: str, **columns: Any) -> None:
        self.rows.summary(owner.kind, owner.name, metric=metric, run=owner.run, **columns)

    def roofline(self, table: str, key: str, owners: dict[Any, _Owner]) -> Iterator[Batch]:
        """A summary for each figure of a kernel's place in the roofline, under its own name: its unit isn't stated."""
        for owner, *values, place in self._rows(table, key, *_ROOFLINE):
            if owner not in owners:
                self._report.issue("bad-record", place, f"a {key} that isn't there")
                continue
            for name, value in zip(_ROOFLINE, values, strict=True):
                if isinstance(value, (int, float)) and math.isfinite(value):
                    self._summary(owners[owner], f"roofline {name}", scope=["Roofline"], value=float(value))
            self._report.used()
            yield from self.rows.ready()

    def dispatches(self, table: str) -> Iterator[Batch]:
        """A kernel for each dispatch that ran."""
        start, end = "start_timestamp", "end_timestamp"
        for name_in_file in self._database.like(table)[:1]:
            self.read.add(name_in_file)
            for block in self._database.blocks(name_in_file, self._conversion.batch_rows):
                sound = timed(executed(block, self._conversion, start, end), self._conversion, start, end)
                for row in _cells(sound, ("kernel_uuid", "dispatch_id", "gpu_id", start, end)):
                    self._dispatch(*row)
                yield from self.rows.ready()

    def _dispatch(self, kernel: int | None, dispatch: int | None, gpu: int | None, begin: int, end: int | None) -> None:
        owner = self.kernels.get(kernel)
        if owner is None:
            self._report.issue("missing-string", f"dispatch {dispatch}", f"kernel {kernel} isn't there")
        args = {"dispatch_id": dispatch, "workload": owner.run if owner and len(self.workloads) > 1 else None}
        self.rows.event(
            "kernel",
            owner.name if owner else "[no name]",
            ts=begin,
            dur=None if end is None else end - begin,
            device=gpu,
            args={key: value for key, value in args.items() if value is not None},
        )
        self._report.used()
        if gpu is not None:
            self._gpus.add(gpu)

    def samples(self, table: str) -> Iterator[Batch]:
        """A summary for each instruction that was sampled."""
        columns = ("instruction", "count", "source", "offset", "count_issue", "count_stall", "stall_reason")
        for kernel, name, count, *rest, place in self._rows(table, "kernel_uuid", *columns):
            if kernel not in self.kernels:
                self._report.issue("bad-record", place, "an unknown kernel_uuid")
                continue
            args = {key: value for key, value in zip(columns[2:], rest, strict=True) if value is not None}
            owner = self.kernels[kernel]
            self.rows.summary(
                "sample",
                name or "[no name]",
                metric="samples",
                count=count,
                scope=[owner.name],
                run=owner.run,
                args=args,
            )
            self._report.used()
            yield from self.rows.ready()

    def facts(self) -> None:
        """Adds what is known of the tool, the clock, the machine and the GPUs: of the machine of the first workload."""
        versions = self._database.rows("compute_metadata", "compute_version", "schema_version")
        version, schema = versions[0] if versions else (None, None)
        facts = {"tool": "rocprof-compute", "version": _text(version), "schema_version": _text(schema)}
        columns = ("name", "sys_info_extdata", "roofline_bench_extdata")
        workloads = self._database.rows("compute_workload", *columns)
        name, system, bench = workloads[0] if workloads else (None, None, None)
        info = _object(system)
        facts |= {"run": _text(name), "command": _text(info.pop("command", None))}
        self.rows.fact("source", facts={key: value for key, value in facts.items() if value})
        self.rows.fact("clock", facts={"kind": "boottime"})
        host = {"os": _text(info.pop("linux_distro", None)), "cpu": _text(info.pop("cpu_model", None))}
        host_name = _text(info.pop("hostname", None))
        if host_name:
            self.rows.fact("host", name=host_name, facts={key: value for key, value in host.items() if value})
        model, cores = _text(info.pop("gpu_model", None)), info.pop("cu_per_gpu", None)
        device = {"api": "hip", "vendor": "AMD"} | ({"sm_count": cores} if isinstance(cores, int) else {})
        device |= {key: value for key, value in info.items() if key not in device}
        device |= {f"roofline {key}": value for key, value in _object(bench).items()}
        for gpu in sorted(self._gpus):
            self.rows.fact("device", device=gpu, name=model, facts=device)


def _cells(block: Block, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Columns of the rows of a block, None for a column that it doesn't have."""
    columns_read = [block.get(name) for name in columns]
    cells = [[None] * len(block) if column is None else column.to_pylist() for column in columns_read]
    return zip(*cells, strict=True)


def _text(value: object) -> str | None:
    """A text that isn't empty."""
    return value if isinstance(value, str) and value else None


def _object(text: object) -> dict[str, Any]:
    """The object in a text of JSON, {} for anything else."""
    try:
        value = load_json(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return dict(value) if isinstance(value, dict) else {}


FORMAT = Format(
    "rocprof-compute",
    "rocprof-compute analysis database",
    patterns=("*.db",),
    probe=probe,
    read=read,
    database=True,
)
