"""What `ktrace info` says of a database beside its rows: schema, warnings of the profiler, tables that have rows."""

from __future__ import annotations

from ktrace.conversion import Conversion
from ktrace.converters._shared.sqlite.database import opened
from ktrace.input.source import Source
from ktrace.report import Report


def about(source: Source) -> dict[str, list[str]]:
    """The version of the schema, what the profiler warned of, and the rows of each table that isn't only names."""
    with opened(source, Conversion(Report())) as database:
        settings = {
            str(name): str(value)
            for table in database.like("META_DATA_EXPORT|EXPORT_META_DATA")
            for name, value in database.rows(table, "name", "value")
        }
        warnings = [
            str(text)
            for table in database.like("DIAGNOSTIC_EVENT")
            for severity, text in database.rows(table, "severity", "text")
            if severity in (2, 3)
        ]
        counts = {table: database.count(table) for table in database.tables if not table.upper().startswith("ENUM_")}
    said = {
        "schema": [settings[name] for name in ("EXPORT_SCHEMA_VERSION",) if name in settings],
        "warnings of the profiler": warnings,
        "tables": [f"{count:>12,}  {table}" for table, count in sorted(counts.items()) if count],
    }
    return {heading: lines for heading, lines in said.items() if lines}
