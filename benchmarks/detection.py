"""Measures the CPU time and the bytes that recognising an input takes, for every sample and every file of the corpus.

python benchmarks/detection.py [FILE...]

Each input is recognised in a child process of its own that has imported what every command imports, but no probe.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path

import ktrace.pipeline.read  # noqa: F401  (what every command imports)
from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def inputs() -> list[Path]:
    """Returns all samples, and the seeds and the corpus where they are."""
    files = sorted((ROOT / "samples").glob("*/*"))
    files += sorted(SHARED.glob("seeds/*"))
    return files + sorted(path for path in SHARED.glob("corpus/**/*") if path.is_file())


def measured(path: Path) -> tuple[float, int]:
    """Returns ms of CPU and bytes read, from a child process."""
    receive, send = os.pipe()
    if os.fork() == 0:
        before, began = _bytes_read(), time.process_time()
        with suppress(KtraceError):
            choose(Source(str(path)))
        took = (time.process_time() - began) * 1000
        os.write(send, f"{took} {_bytes_read() - before}".encode())
        os._exit(0)
    os.wait()
    os.close(send)
    took, size = os.read(receive, 100).decode().split()
    os.close(receive)
    return float(took), int(size)


def _bytes_read() -> int:
    """Returns the bytes that this process has read so far, those of its imports included."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def measure(files: list[Path]) -> dict[str, dict[str, float]]:
    """Returns the median and the most over all inputs, the best of three runs each."""
    found = {path: min(measured(path) for _ in range(3)) for path in files}
    slowest, median = max(found, key=lambda path: found[path]), statistics.median(ms for ms, _ in found.values())
    return {
        f"recognising one of {len(found)} inputs, median": {"CPU ms": median},
        f"recognising {slowest.name}, the slowest": {"CPU ms": found[slowest][0]},
        "bytes read for it, most": {"MB": max(size for _, size in found.values()) / 1e6},
    }


if __name__ == "__main__":
    for what, figures in measure([Path(name) for name in sys.argv[1:]] or inputs()).items():
        print(f"{what:<60}", "   ".join(f"{unit} {figure:,.1f}" for unit, figure in figures.items()))
