"""A database of Nsight Systems through the outputs, and what others do with the same file in the same run.

    python benchmarks/nsys.py [--kernels 2000000] [--json nsys.json]

The input is made by ../shared/tools/make_nsys.py: so many kernels and as many runtime calls, NVTX ranges above; it is
kept with --keep FOLDER. Others: the module sqlite3 only fetches the rows; pandas.read_sql with a protobuf message a
packet.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from process import Figures, alone, ktrace, run

ROOT = Path(__file__).parent.parent
MAKER = ROOT.parent / "shared" / "tools" / "make_nsys.py"


def made(folder: Path, kernels: int) -> Path:
    """The input of that many kernels; one that is there already is taken as it is."""
    path = folder / f"n{kernels}.sqlite"
    if not path.exists():
        subprocess.run([sys.executable, str(MAKER), str(kernels), str(path)], check=True)
    return path


def measure(folder: Path, kernels: int, times: int) -> dict[str, Figures]:
    """What -> seconds, rows/s (a kernel and a call are two rows), memory, size."""
    if not MAKER.exists():
        print(f"no {MAKER}: the benchmarks of Nsight Systems are left out")
        return {}
    path = made(folder, kernels)
    size = path.stat().st_size
    results: dict[str, Figures] = {}
    for suffix in ("perfetto", "parquet"):
        out = folder / f"nsys.{suffix}"
        figures = ktrace("convert", path, "-o", out, "--overwrite", "--jobs", 1, times=times)
        results[f"SQLite -> .{suffix}"] = figures | {"size": out.stat().st_size / size}
        out.unlink()
    script = str(Path(__file__).with_name("others.py"))
    results["sqlite3 fetches the rows"] = run([sys.executable, script, "sqlite3", str(path)], times=1)
    if importlib.util.find_spec("perfetto"):
        out = folder / "builder.perfetto"
        results["read_sql + TraceProtoBuilder"] = run(
            [sys.executable, script, "read_sql", str(path), str(out)], times=1
        )
        out.unlink()
    return {what: figures | {"M rows/s": 2 * kernels / figures["wall s"] / 1e6} for what, figures in results.items()}


if __name__ == "__main__":
    alone(measure, "--kernels", 2_000_000, __file__, __doc__)
