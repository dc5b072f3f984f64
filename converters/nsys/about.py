"""What `ktrace info` prints about a database besides its rows: schema, warnings of the profiler, tables with rows."""

from __future__ import annotations

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.sqlite.database import opened
from ktrace.report import Report


def about(source: Source) -> dict[str, list[str]]:
    """Returns the schema version, the profiler's warnings, and the number of rows of each table except enumerations."""
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
    sections = {
        "schema": [settings[name] for name in ("EXPORT_SCHEMA_VERSION",) if name in settings],
        "warnings of the profiler": warnings,
        "tables": [f"{count:>12,}  {table}" for table, count in sorted(counts.items()) if count],
    }
    return {heading: lines for heading, lines in sections.items() if lines}
