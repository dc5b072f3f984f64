"""Measures Kineto traces of any size: through a pipe while they are written, and as a file that `batch` divides.

    python benchmarks/stream.py [--events 1000000 10000000 100000000] [--to perfetto parquet batch] [--folder /tmp]

The input is written by ../shared/tools/make_kineto.py (278 MB for a million events), as fast as ktrace reads it. CPU
and memory are ktrace's alone: the memory is the peak of the anonymous memory of its largest process, which tells
whether it grows with the input. `batch` needs the input as a file, in the given folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kineto import MAKER, make_input
from process import Figures, _anonymous, _family, ktrace

_STEP = 0.2


def piped(events: int, suffix: str, folder: Path) -> Figures:
    """Converts a trace that is being written."""
    out = folder / f"out.{suffix}"
    maker = subprocess.Popen([sys.executable, str(MAKER), str(events), "/dev/stdout"], stdout=subprocess.PIPE)
    command = [sys.executable, "-m", "ktrace", "convert", "-", "-o", str(out), "--overwrite"]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdin=maker.stdout, env=os.environ | {"TMPDIR": str(folder)})
    assert maker.stdout
    maker.stdout.close()
    peak = 0.0
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, *(_anonymous(member) for member in _family(child.pid)), 0.0)
        time.sleep(_STEP)
    if status or maker.wait():
        raise SystemExit(f"{events:,} events to .{suffix}: exit code {os.waitstatus_to_exitcode(status)}")
    size = out.stat().st_size
    out.unlink()
    return {
        "wall s": time.perf_counter() - began,
        "CPU s": usage.ru_utime + usage.ru_stime,
        "peak MB": peak,
        "output MB": size / 1e6,
    }


def in_ranges(events: int, folder: Path) -> Figures:
    """`ktrace batch` of one file with two processes."""
    path, out = make_input(folder, events), folder / "out.parquet"
    figures = ktrace("batch", path, "-o", out, "--jobs", 2, times=1)
    shutil.rmtree(out)
    path.unlink()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--to", nargs="+", default=["perfetto", "parquet", "batch"])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for way in options.to:
            for events in options.events:
                folder = Path(name)
                figures = in_ranges(events, folder) if way == "batch" else piped(events, way, folder)
                cells = "   ".join(f"{unit} {figure:,.1f}" for unit, figure in figures.items())
                print(f"{events:>12,} events, {way:<10}{cells}", flush=True)


if __name__ == "__main__":
    main()
