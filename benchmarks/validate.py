"""Measures `ktrace validate` in records per second, on a generated file of a million lines.

python benchmarks/validate.py [records]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import ktrace

EVENT = (
    '{{"record":"event","source":"run","id":{id},"pid":4321,"tid":{tid},"device":0,"context":1,"stream":{stream},'
    '"ts":{ts},"cat":"kernel","args":{{"External id":{id},"queued":0,"warps per SM":{warps}}},"kind":"kernel",'
    '"name":"void gemm_kernel<float, {tid}>(float const*, float*, int)","dur":{dur},"timing":"measured",'
    '"correlation":{id},"grid_x":128,"grid_y":1,"grid_z":1,"block_x":256,"block_y":1,"block_z":1,"registers":64,'
    '"shared_memory":16384,"occupancy":{warps}}}\n'
)


def write_kernels(path: Path, records: int) -> None:
    """Writes a canonical file with kernels."""
    with path.open("w") as file:
        file.write('{"ktrace":"1.0"}\n')
        for number in range(1, records + 1):
            line = EVENT.format(
                id=number,
                tid=number % 40,
                stream=number % 8,
                ts=1_700_000_000_000_000_000 + number * 1500,
                dur=900 + number % 777,
                warps=number % 64 + 0.25,
            )
            file.write(line)


def rates(folder: Path, records: int) -> dict[str, float]:
    """Generates a JSON Lines and a Parquet file, validates both, and returns the records per second of each."""
    from ktrace.pipeline.validate import validate

    lines, table = folder / "run.jsonl", folder / "run.parquet"
    write_kernels(lines, records)
    ktrace.convert(lines, table, from_="jsonl")
    found = {}
    for path in (lines, table):
        start = time.perf_counter()
        result = validate(str(path))
        found[path.name] = records / (time.perf_counter() - start)
        assert not result.faults and result.checked == records, result
    return found


def main(records: int = 1_000_000) -> None:
    """Prints the rates of both files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, rate in rates(Path(folder), records).items():
            print(f"{name}: {rate:,.0f} records/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
