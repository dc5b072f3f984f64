"""Small databases of ROCm's profilers by their documented tables, with invented rows: no profiler wrote them.

`python tests/converters/rocm_samples.py` writes those of samples/ anew.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Tables = dict[str, Sequence[tuple[Any, ...]]]

#: Columns of the tables of RPD, schema version 2.
RPD = {
    "rocpd_metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "rocpd_string": "id INTEGER PRIMARY KEY, string TEXT",
    "rocpd_api": "id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT",
    "rocpd_op": "id INTEGER PRIMARY KEY, gpuId INT, queueId INT, sequenceId INT, completionSignal TEXT,"
    " start INT, end INT, description_id INT, opType_id INT",
    "rocpd_api_ops": "id INTEGER PRIMARY KEY, api_id INT, op_id INT",
    "rocpd_kernelapi": "api_ptr_id INTEGER PRIMARY KEY, stream TEXT, gridX INT, gridY INT, gridZ INT, workgroupX INT,"
    " workgroupY INT, workgroupZ INT, groupSegmentSize INT, privateSegmentSize INT, kernelArgAddress TEXT,"
    " aquireFence TEXT, releaseFence TEXT, codeObject_id INT, kernelName_id INT",
    "rocpd_copyapi": "api_ptr_id INTEGER PRIMARY KEY, stream TEXT, size INT, width INT, height INT, kind INT,"
    " dst TEXT, src TEXT, dstDevice INT, srcDevice INT, sync INT, pinned INT",
    "rocpd_kernelcodeobject": "id INTEGER PRIMARY KEY, vgpr INT, sgpr INT, fbar INT",
    "rocpd_barrierop": "op_ptr_id INTEGER PRIMARY KEY, signalCount INT, aquireFence TEXT, releaseFence TEXT",
    "rocpd_op_inputSignals": "id INTEGER PRIMARY KEY, from_op_id INT, to_op_id INT",
    "rocpd_monitor": "id INTEGER PRIMARY KEY, deviceType TEXT, deviceId INT, monitorType TEXT, start INT, end INT,"
    " value TEXT",
}

_AT = 8_306_017_000_000_000
_BIG = 4_294_967_297

RPD_ROWS: Tables = {
    "rocpd_metadata": [(1, "schema_version", "2"), (2, "session_count", "1")],
    "rocpd_string": list(
        enumerate(
            (
                *("", "hipLaunchKernel", "hipMemcpyAsync", "UserMarker", "forward", "KernelExecution"),
                *("CopyHostToDevice", "void scale<float>(float*, int) [clone .kd]", "Barrier", "FillBuffer"),
                *("hipGraphLaunch", "dst=0x7f00 | size=0x1000", "OpTable::writeRows", "Task"),
            ),
            1,
        )
    ),
    "rocpd_api": [
        (_BIG, 500, 500, _AT, _AT + 90_000, 4, 5),
        (_BIG + 1, 500, 500, _AT + 1_000, _AT + 5_000, 3, 12),
        (_BIG + 2, 500, 500, _AT + 6_000, _AT + 9_000, 2, 1),
        (_BIG + 3, 500, 501, _AT + 10_000, _AT + 30_000, 11, 1),
        (_BIG + 4, 500, 501, _AT + 12_000, _AT + 13_000, 2, 1),
        (_BIG + 5, 500, 501, _AT + 40_000, _AT + 39_000, 2, 1),
        (_BIG + 6, 500, 501, _AT + 50_000, _AT + 51_000, 99, 1),
        (_BIG + 7, 500, 501, _AT + 52_000, _AT + 53_000, 13, 1),
    ],
    "rocpd_op": [
        (_BIG, 2, 0, 0, "", _AT + 7_000, _AT + 8_000, 1, 7),
        (_BIG + 1, 2, 1, 0, "0x10", _AT + 20_000, _AT + 24_000, 8, 6),
        (_BIG + 2, 2, 1, 0, "", _AT + 23_000, _AT + 29_000, 8, 6),
        (_BIG + 3, 2, 1, 0, "", 0, 0, 8, 6),
        (_BIG + 4, 2, 1, 0, "", _AT + 29_000, _AT + 29_500, 1, 9),
        (_BIG + 5, 2, 1, 0, "", 1 << 62, (1 << 62) + 1, 8, 6),
        (_BIG + 6, 2, 1, 0, "", None, _AT, 8, 6),
        (_BIG + 7, 2, 1, 0, "", _AT + 31_000, _AT + 32_000, 1, 10),
        (_BIG + 8, 3, 0, 0, "", _AT + 33_000, _AT + 34_000, 1, 14),
    ],
    "rocpd_api_ops": [
        (1, _BIG + 1, _BIG),
        (2, _BIG + 2, _BIG + 1),
        (3, _BIG + 3, _BIG + 2),
        (4, _BIG + 4, _BIG + 2),
        (5, None, _BIG + 4),
    ],
    "rocpd_kernelapi": [
        (_BIG + 2, "0x0", 64, 2, 1, 256, 1, 1, 4_096, 0, "", "", "agent", 1, 8),
        (_BIG + 4, "0x0", 8, 1, 1, 64, 1, 1, 0, 16, "", "", "", "", 8),
    ],
    "rocpd_copyapi": [(_BIG + 1, "0x55", 4_096, "", "", 1, "0x7f00", "0x10", 2, 0, 0, 1)],
    "rocpd_kernelcodeobject": [(1, 32, 48, 0)],
    "rocpd_barrierop": [(_BIG + 4, 2, "", "system")],
    "rocpd_op_inputSignals": [(1, _BIG, _BIG + 1), (2, None, _BIG)],
    "rocpd_monitor": [
        (1, "gpu", 2, "sclk", _AT, _AT + 20_000, "1700"),
        (2, "gpu", 2, "power", _AT + 20_000, None, "210.5"),
        (3, "cpu", 0, "load", _AT, _AT + 10, "n/a"),
    ],
}


def make(path: Path, columns: dict[str, str], rows: Tables) -> Path:
    """Writes a database of those tables, in pages of 512 bytes."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA page_size = 512")
        for table, declared in columns.items():
            writer.execute(f'CREATE TABLE "{table}" ({declared})')
            _insert(writer, table, rows.get(table, ()))
        writer.commit()
    return path


def _insert(writer: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    for row in rows:
        writer.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)


def main() -> None:
    """Writes the samples."""
    samples = Path(__file__).parents[2] / "samples"
    make(samples / "rpd" / "two-calls-a-kernel-never-run-and-nulls.rpd", RPD, RPD_ROWS)
    few = {**RPD_ROWS, "rocpd_op": RPD_ROWS["rocpd_op"][:3], "rocpd_api": RPD_ROWS["rocpd_api"][:5]}
    tables = {name: RPD[name] for name in ("rocpd_string", "rocpd_api", "rocpd_op")}
    small = make(samples / "rpd" / "few.rpd", tables, few)
    with gzip.GzipFile(samples / "rpd" / "two-tables-and-strings-alone.rpd.gz", "wb", mtime=0) as packed:
        packed.write(small.read_bytes())
    small.unlink()


if __name__ == "__main__":
    main()
