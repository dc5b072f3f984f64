"""The metrics of a whole profile, of the table Summary or of the JSON that Neuron prints.

    {"n_0f3a_i_0": {"total_time": 0.000123456, "tensor_engine_active_time_percent": 0.4455, "hbm_read_bytes": 33554432}}

Times are in seconds, shares 1 for all. Units are those of the Profile Parquet Schema Reference, by the names of fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.trace_json.salvage import decode_whole
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: The end of the name of a metric -> its unit, and the factor to it.
_UNITS = {
    "_time": ("ns", 1_000_000_000),
    "_percent": ("%", 100),
    "_bytes": ("B", 1),
    "_size": ("B", 1),
    "_cycles": ("cycle", 1),
    "_cycle_count": ("cycle", 1),
    "_flops": ("FLOP", 1),
    "_count": ("count", 1),
}


def summaries(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the metrics of each profile in a summary."""
    rows, report = RowBuilder(conversion), conversion.report
    document = decode_whole(source, report, partial(_damaged, source), "can't be read")
    profiles = document if isinstance(document, dict) else {}
    if not any(isinstance(one, dict) for one in profiles.values()):
        raise _damaged(source, "has no metrics of a profile")
    rows.fact("source", facts={"tool": "AWS Neuron"})
    for name, metrics in profiles.items():
        report.record()
        if isinstance(metrics, dict):
            add_metrics(metrics, rows, {"run": name} if len(profiles) > 1 else {})
            report.used()
        else:
            report.issue("bad-record", name, "not the metrics of a profile")
        yield from rows.ready()
    yield from rows.rest()


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected='{"PROFILE": {"total_time": 0.0001, ...}}',
        remedy="neuron-explorer view -n kernel.neff -s profile.ntff --output-format summary-json > summary.json",
    )


def add_metrics(metrics: Mapping[str, Any], rows: RowBuilder, columns: Mapping[str, Any]) -> None:
    """Adds a metric for each number; what isn't one is an argument of the first."""
    numbers = {name: value for name, value in metrics.items() if _is_number(value)}
    args = {name: value for name, value in metrics.items() if name not in numbers and value is not None}
    for name, value in numbers.items():
        unit, factor = next((scale for end, scale in _UNITS.items() if name.endswith(end)), (None, 1))
        scaled = float(Decimal(str(value)) * factor)
        shown = name or "[no name]"
        rows.summary("metric", shown, metric=shown, unit=unit, value=scaled, args=args or None, **columns)
        args = {}


def _is_number(value: Any) -> bool:
    """Whether it is a number that a double has."""
    try:
        return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False
