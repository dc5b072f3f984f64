"""Measures tables of anybody, read by a mapping: `python benchmarks/mapped.py [--rows N] [--times N]`.

The same rows as CSV and as JSON Lines, to `.parquet` in one process.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from process import Figures, ktrace, table

MAPPING = "name=Kernel,start=t0:us,dur=dt:us,stream=queue,grid_x=gx"


def generate(folder: Path, rows: int) -> list[Path]:
    """Writes the tables and returns their paths: some 75 and 120 bytes a row."""
    chance, now = random.Random(3), 0
    paths = [folder / "mapped.csv", folder / "mapped.jsonl"]
    with paths[0].open("w") as cells, paths[1].open("w") as objects:
        cells.write("Kernel,t0,dt,queue,gx,note\n")
        for row in range(rows):
            now += chance.randint(1000, 9000)
            name, note = f"void gemm_kernel<{row % 200}>(float*, float const*, int)", f"n{row % 5}"
            start, dur, queue, grid = f"{now / 1000:.3f}", f"{chance.randint(500, 8000) / 1000:.3f}", row % 4, row % 77
            cells.write(f'"{name}",{start},{dur},{queue},{grid},{note}\n')
            objects.write(
                f'{{"Kernel":"{name}","t0":{start},"dt":{dur},"queue":{queue},"gx":{grid},"note":"{note}"}}\n'
            )
    return paths


def measure(folder: Path, rows: int, times: int) -> dict[str, Figures]:
    """Returns the figures of both tables, with rows per second."""
    results: dict[str, Figures] = {}
    for path in generate(folder, rows):
        out = folder / "mapped.parquet"
        arguments = ("convert", path, "-o", out, "--overwrite", "--jobs", 1, "--map", MAPPING)
        figures = ktrace(*arguments, times=times)
        results[f"mapped {path.suffix} -> .parquet"] = figures | {"M rows/s": rows / figures["wall s"] / 1e6}
    return results


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(table(measure(Path(folder), options.rows, options.times)))


if __name__ == "__main__":
    main()
