"""Measures the stage `order`: µs of CPU per row and peak anonymous memory, with rows in memory and spilled.

    python benchmarks/order.py [rows]        a million by default

The rows resemble a PyTorch trace: nested operators on eight threads, their calls later in the file, and kernels on
four streams, connected by correlation ids. Half of the rows have arguments. Each measurement runs in its own process.
Building the batches isn't counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ktrace.model.batch import Batch
from ktrace.report import Report
from ktrace.stages.order import order

BATCH_ROWS = 65_536
WAYS = {"in memory": 1 << 40, "spilled": 64 << 20}


def batches(rows: int) -> Iterator[Batch]:
    """Yields batches of operators, calls and kernels in turn. Calls and kernels come four batches late."""
    for number in range(rows // BATCH_ROWS + 1):
        count = min(BATCH_ROWS, rows - number * BATCH_ROWS)
        if count > 0:
            yield _batch(number, count)


def _batch(number: int, count: int) -> Batch:
    kind = ("op", "api", "kernel")[number % 3]
    batches_late = {"op": 0, "api": 4, "kernel": 4}[kind]
    row = np.arange(count)
    launch = row + (number // 3) * BATCH_ROWS
    ts = 10_000 * (launch - batches_late * BATCH_ROWS)
    lane = row % (4 if kind == "kernel" else 8)
    dur = np.where(row % 16 < 8, 150_000, 9_000) if kind == "op" else np.full(count, 3_000)
    track = {"device": np.zeros(count, np.int64), "stream": lane} if kind == "kernel" else {"tid": 100 + lane}
    if kind != "op":
        track["correlation"] = launch + 1
    word = pa.array(["torch_run", kind, "measured"]).dictionary_encode().dictionary
    columns = {
        "source": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), word),
        "kind": pa.DictionaryArray.from_arrays(pa.array(np.full(count, 1, np.int32)), word),
        "timing": pa.DictionaryArray.from_arrays(pa.array(np.full(count, 2, np.int32)), word),
        "id": pa.array(row + number * BATCH_ROWS),
        "ts": pa.array(ts),
        "dur": pa.array(dur),
        "name": pa.array([f"void at::native::vectorized_elementwise_kernel<{n % 300}>" for n in range(count)]),
        "args": pa.array([f'{{"Input Dims":[[8,{n % 977}]]}}' if n % 2 else None for n in range(count)]),
        "external_id": pa.array(launch),
        **{name: pa.array(values) for name, values in track.items()},
    }
    return Batch("events", pa.RecordBatch.from_pydict(columns))


class Peak:
    """The peak anonymous memory of this process above that at the start, in MB, sampled every 5 ms."""

    def __enter__(self) -> Peak:
        self._start = self.most = _anonymous()
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._sample)
        self._watch.start()
        return self

    def _sample(self) -> None:
        while not self._stop.wait(0.005):
            self.most = max(self.most, _anonymous())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()

    @property
    def megabytes(self) -> float:
        return (self.most - self._start) / 1024


def _anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0])


def measure(way: str, rows: int) -> dict[str, float]:
    """Returns the seconds of the input and the output of the stage, and peak memory. Batches are built one by one."""
    building = 0.0

    def source() -> Iterator[Batch]:
        nonlocal building
        remaining = batches(rows)
        while True:
            began = time.process_time()
            batch = next(remaining, None)
            building += time.process_time() - began
            if batch is None:
                return
            yield batch

    with Peak() as peak:
        began = time.process_time()
        timeline = order(source(), Report(), spill_bytes=WAYS[way])
        taken = time.process_time()
        given = sum(len(batch) for batch in timeline.batches())
        ended = time.process_time()
    assert given == rows
    return {"take": taken - began - building, "give": ended - taken, "peak": peak.megabytes}


def measure_in_process(way: str, rows: int) -> dict[str, float]:
    """Runs `measure` in its own process."""
    run = subprocess.run([sys.executable, __file__, str(rows), way], capture_output=True, check=True, text=True)
    found: dict[str, float] = json.loads(run.stdout)
    return found


def main() -> None:
    """Measures both ways and prints a table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[2], rows)))
        return
    print(f"{rows:,} rows          µs per row: take   give    all    anonymous peak, MB")
    for way in WAYS:
        found = measure_in_process(way, rows)
        take, give = (found[part] * 1e6 / rows for part in ("take", "give"))
        print(f"{way:<20}          {take:9.2f} {give:6.2f} {take + give:6.2f} {found['peak']:10.0f}")


if __name__ == "__main__":
    main()
