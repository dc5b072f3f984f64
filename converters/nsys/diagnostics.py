"""Reads the profiler's messages about its capture as log events; warnings and errors go to the report, too.

timestamp 1304324594  timestampType 1  source 1  severity 2  text "CUDA device 0: Unified Memory cannot be ..."
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch

from .reading import Reading
from .strings import NO_NAME

_ENUMS = {
    "severity": "DIAGNOSTIC_SEVERITY_LEVEL",
    "source": "DIAGNOSTIC_SOURCE_TYPE",
    "timestampType": "DIAGNOSTIC_TIMESTAMP_SOURCE",
}

#: Warning, error.
_ALARMING = (2, 3)


def messages(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields a log event for each row."""
    for block, ids in reading.timed(table, "timestamp"):
        ts, text, severity = block.take("timestamp"), block.take("text"), block.get("severity")
        names = pa.repeat(pa.scalar(NO_NAME), len(block)) if text is None else pc.fill_null(text, NO_NAME)
        if severity is not None:
            alarming = pc.fill_null(pc.is_in(severity, pa.array(_ALARMING)), False).to_pylist()
            for row, (alarm, message) in enumerate(zip(alarming, names.to_pylist(), strict=True)):
                if alarm:
                    reading.conversion.report.issue("capture-warning", block.where(row), message)
        pid = reading.places.process(block).get("pid")
        columns = {
            f"args.{name}": reading.enums.column(enum, numbers)
            for name, enum in _ENUMS.items()
            if (numbers := block.take(name)) is not None
        }
        if pid is not None:  # 0 is the profiler itself
            columns["pid"] = pc.if_else(pc.equal(pid, 0), None, pid)
        yield reading.batches.events(block, ids, kind="log", name=names, ts=ts, track="profiler", **columns)
