"""Records a second of `ktrace validate`, on a file of a million lines made here.

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


def make(path: Path, records: int) -> None:
    """Writes a canonical file of kernels."""
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


def main(records: int = 1_000_000) -> None:
    """Makes the file, checks it and prints the rate."""
    from ktrace.validate import validate

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "run.jsonl"
        make(lines, records)
        table = Path(folder) / "run.parquet"
        ktrace.convert(lines, table, from_="jsonl")
        for path in (lines, table):
            start, cpu = time.perf_counter(), time.process_time()
            result = validate(str(path))
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            assert not result.faults and result.checked == records, result
            rate = f"{records / seconds:,.0f} records/s"
            print(f"{path.name}: {records:,} records in {seconds:.2f} s ({cpu:.2f} s of CPU), {rate}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
