"""The tables of our databases of Nsight Systems in the other containers that nsys writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SAMPLES = Path(__file__).parent.parent.parent / "samples"
OLD = SAMPLES / "nsys" / "schema-2.9-calls-twice-mpi-as-a-domain.sqlite"
VALUES = SAMPLES / "nsys" / "schema-3.11-cut-metrics-great-payloads-colours-addresses.sqlite"

#: Columns of 64 bits without a sign, by nsys' own schema of its Arrow streams.
UNSIGNED = ("globalTid", "globalPid", "endGlobalTid", "uint64Value", "typeId", "originalIP", "domainId")

_TYPES = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}


def tables(database: Path, *, text: Any = None) -> dict[str, pa.Table]:
    """The tables of a database, their strings first, as nsys writes them."""
    found: dict[str, pa.Table] = {}
    with closing(sqlite3.connect(database)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in sorted(names, key=lambda name: name != "StringIds"):
            columns = [(column, kind) for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({name})")]
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
            arrays = [_array([row[i] for row in rows], *columns[i], text) for i in range(len(columns))]
            table = pa.table(arrays, [column for column, _ in columns])
            found[name] = table.replace_schema_metadata({"table_name": name})
    return found


def _array(values: list[Any], name: str, kind: str, text: Any) -> pa.Array:
    if name in UNSIGNED:
        return pa.array([None if value is None else value % (1 << 64) for value in values], pa.uint64())
    if kind == "TEXT" and text is not None:
        return pa.array([None if value is None else value.encode() for value in values], text)
    return pa.array(values, _TYPES[kind])


def write_streams(path: Path, found: Mapping[str, pa.Table]) -> Path:
    """Streams one after the other, as --type arrow does."""
    with path.open("wb") as file:
        for table in found.values():
            with pa.ipc.new_stream(pa.PythonFile(file, "w"), table.schema) as writer:
                writer.write_table(table)
    return path


def write_folder(folder: Path, found: Mapping[str, pa.Table], ending: str) -> Path:
    """A file a table, as --type arrowdir and parquetdir do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        if ending == "parquet":
            pq.write_table(table.replace_schema_metadata(None), folder / f"{name}.parquet", store_schema=False)
        else:
            write_streams(folder / f"{name}.arrow", {name: table})
    return folder


def main() -> None:
    """Writes the samples."""
    folder = SAMPLES / "nsys-tables"
    folder.mkdir(exist_ok=True)
    write_streams(folder / "2022-streams-with-texts-as-bytes.arrows", tables(OLD, text=pa.binary()))
    write_folder(folder / "a-file-a-table_pqtdir", tables(VALUES), "parquet")


if __name__ == "__main__":
    main()
